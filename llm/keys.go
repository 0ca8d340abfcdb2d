package llm

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// Bounds of keys (docs/spec/cogency.md §12).
const (
	MaxKeys     = 20          // numbered keys of one name
	rotatePause = time.Second // before the next key is used, and again as jitter
	// KeyRest is the default of the longest time that a key is not used after a rate limit,
	// also if its provider asks for more.
	KeyRest      = time.Minute
	refusedRest  = time.Hour // for a refused key: the default bound of a run
	maxKeyLength = 4096      // bytes; longer is no key
)

// Key is an API key and the name of its variable. Printing it shows the name alone.
type Key struct {
	Name  string
	value string
}

// Value returns the key itself, which is secret.
func (k Key) Value() string { return k.value }

// String and GoString return the name, so that no verb prints the key.
func (k Key) String() string   { return k.Name }
func (k Key) GoString() string { return k.Name }

// Keys rotates the keys of one provider, from a random start. After a rate limit a key is not
// used for some time for the model of the request. A refused key is not used for an hour, or
// until all keys are refused: then all may be used again. Safe for concurrent use.
type Keys struct {
	*ring
	model string // whose rate limits count
}

// ring has the keys, for all models.
type ring struct {
	mu   sync.Mutex
	keys []keyState
	next int
	most time.Duration // longest rest
	now  func() time.Time
	rand func() float64 // [0,1)
}

type keyState struct {
	Key
	refused time.Time       // until when the key is not used; zero if it was not refused
	rests   map[string]rest // by model
}

// rest is the time in which a key is not used for one model, and the reason.
type rest struct {
	until time.Time
	why   Failure
}

// For returns the same keys for a model of their provider, because each model has rate limits
// of its own.
func (k *Keys) For(model string) *Keys { return &Keys{k.ring, model} }

// RestAtMost bounds how long a key is not used after a rate limit, for all models; 0 is KeyRest.
func (k *Keys) RestAtMost(d time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.most = d; d <= 0 {
		k.most = KeyRest
	}
}

// until returns when a key may be used for a model.
func (s *keyState) until(model string) time.Time {
	at := s.refused
	if r := s.rests[model].until; r.After(at) {
		at = r
	}
	return at
}

// KeyNames returns the environment variables of the keys of each prefix, in order:
// <P>_API_KEY_1…20, <P>_KEY_1…20, then both without a number.
func KeyNames(prefixes ...string) []string {
	var names []string
	for _, p := range prefixes {
		names = append(names, numbered(p+"_API_KEY")...)
		names = append(names, numbered(p+"_KEY")...)
	}
	for _, p := range prefixes {
		names = append(names, p+"_API_KEY", p+"_KEY")
	}
	return names
}

// SecretNames returns the environment variables of a secret: NAME_1…20, then NAME.
func SecretNames(name string) []string { return append(numbered(name), name) }

func numbered(name string) []string {
	names := make([]string, MaxKeys)
	for i := range names {
		names[i] = name + "_" + strconv.Itoa(i+1)
	}
	return names
}

// FindKeys returns the keys that are set among names, without repetitions and without blanks
// around them. The error is ERR_CONFIG with the name of the variable for a value that cannot
// be a key.
func FindKeys(names []string, lookup func(string) (string, bool)) ([]Key, error) {
	var keys []Key
	seen := map[string]bool{}
	for _, name := range names {
		v, _ := lookup(name)
		v = strings.TrimSpace(v)
		if v == "" || seen[v] {
			continue
		}
		if len(v) > maxKeyLength || strings.ContainsFunc(v, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return nil, &messages.Error{Code: messages.ErrConfig, Field: name, Detail: fmt.Sprintf("is no key: a key is at most %d visible ASCII characters without blanks", maxKeyLength)}
		}
		seen[v] = true
		keys = append(keys, Key{Name: name, value: v})
	}
	return keys, nil
}

// NewKeys returns a rotation of keys. Without keys Take returns the zero Key, for servers that
// need none.
func NewKeys(keys ...Key) *Keys {
	k := &Keys{ring: &ring{most: KeyRest, now: time.Now, rand: rand.Float64}}
	for _, key := range keys {
		k.keys = append(k.keys, keyState{Key: key})
	}
	if len(keys) > 0 {
		k.next = rand.IntN(len(keys))
	}
	return k
}

// Len returns the number of keys.
func (k *Keys) Len() int { return len(k.keys) }

// Take returns the next key that may be used now. If there is none, it returns the failure of
// the key that is ready first, with RetryAfter until then.
func (k *Keys) Take() (Key, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.keys) == 0 {
		return Key{}, nil
	}
	now := k.now()
	if i := k.ready(now); i >= 0 {
		k.next = (i + 1) % len(k.keys)
		return k.keys[i].Key, nil
	}
	s := k.first() // Report leaves at least one that is not refused
	f := s.rests[k.model].why
	f.RetryAfter, f.Keys, f.NextKey = s.until(k.model).Sub(now), len(k.keys), false
	return Key{}, Fail(f, "every key rests; the first is ready in "+f.RetryAfter.Round(time.Millisecond).String())
}

// ready returns the first usable key from next on, or −1. k.mu is held.
func (k *Keys) ready(now time.Time) int {
	for i := range k.keys {
		at := (k.next + i) % len(k.keys)
		if s := &k.keys[at]; !s.until(k.model).After(now) {
			s.refused = time.Time{}
			return at
		}
	}
	return -1
}

// first returns the key that is ready first of those that are not refused; nil if all are
// refused. k.mu is held.
func (k *Keys) first() (first *keyState) {
	for i := range k.keys {
		if s := &k.keys[i]; s.refused.IsZero() && (first == nil || s.until(k.model).Before(first.until(k.model))) {
			first = s
		}
	}
	return first
}

// Report records how a request with key failed, and sets f.NextKey, f.Keys and f.RetryAfter:
// whether another key may be used, and when.
func (k *Keys) Report(key Key, f *Failure) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f.Keys = len(k.keys)
	at := -1
	for i := range k.keys {
		if k.keys[i].Key == key {
			at = i
		}
	}
	if at < 0 {
		return
	}
	s, now := &k.keys[at], k.now()
	pause := time.Duration(0)
	switch f.Kind {
	case KindAuth:
		s.refused = now.Add(refusedRest)
	case KindRateLimit, KindOverloaded:
		pause = rotatePause + time.Duration(k.rand()*float64(rotatePause))
		if s.rests == nil {
			s.rests = map[string]rest{}
		}
		maps.DeleteFunc(s.rests, func(_ string, r rest) bool { return !r.until.After(now) })
		s.rests[k.model] = rest{now.Add(min(max(pause, f.RetryAfter), k.most)), *f}
	default:
		return
	}
	if k.ready(now) >= 0 {
		f.NextKey, f.Retryable, f.RetryAfter = true, true, pause
		return
	}
	if f.Kind != KindAuth {
		f.RetryAfter = max(f.RetryAfter, pause)
	}
	if first := k.first(); first != nil {
		if f.Kind == KindAuth { // wait for a key that was not refused
			f.Retryable, f.RetryAfter = first.rests[k.model].why.Retryable, first.until(k.model).Sub(now)
		}
		return
	}
	for i := range k.keys { // the run ends here; the keys may work for the next one
		k.keys[i].refused = time.Time{}
	}
}
