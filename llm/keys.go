package llm

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// Bounds of keys (docs/spec/cogency.md §12).
const (
	MaxKeys      = 20               // numbered keys of one name
	rotatePause  = time.Second      // before the next key is used, and again as jitter
	maxCooling   = 10 * time.Minute // longest rest of a key, whatever its provider asks
	refusedRest  = time.Hour        // of a key that was refused: a run lasts no longer by default
	maxKeyLength = 4096             // bytes; longer is no key
)

// Key is an API key and the variable it came from. Printing it shows the name alone.
type Key struct {
	Name  string
	value string
}

// Value is the key itself.
func (k Key) Value() string { return k.value }

// String is the name, and GoString too, so that no verb prints the key.
func (k Key) String() string   { return k.Name }
func (k Key) GoString() string { return k.Name }

// Keys hands out the keys of one provider in turn, from a random start. A key that met
// a rate limit rests; one that was refused is left out for an hour, or until all are:
// whatever asks then starts over with all of them. Safe for concurrent use.
type Keys struct {
	mu   sync.Mutex
	keys []keyState
	next int
	now  func() time.Time
	rand func() float64 // [0,1)
}

type keyState struct {
	Key
	refused bool
	until   time.Time // resting, or refused
	resting Failure   // why
}

// KeyNames are the variables that hold the keys of a prefix, in order:
// <P>_API_KEY_1…20, <P>_KEY_1…20, then both without a number, for each prefix.
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

// SecretNames are the variables behind one name: NAME_1…20, then NAME.
func SecretNames(name string) []string { return append(numbered(name), name) }

func numbered(name string) []string {
	names := make([]string, MaxKeys)
	for i := range names {
		names[i] = name + "_" + strconv.Itoa(i+1)
	}
	return names
}

// FindKeys gives the keys that are set among names, without repetitions and with the
// blanks around them removed. A value that can be no key is ERR_CONFIG with the name
// of its variable; none at all is an empty result.
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

// NewKeys makes a ring. An empty one hands out the zero Key: some servers need none.
func NewKeys(keys ...Key) *Keys {
	k := &Keys{now: time.Now, rand: rand.Float64}
	for _, key := range keys {
		k.keys = append(k.keys, keyState{Key: key})
	}
	if len(keys) > 0 {
		k.next = rand.IntN(len(keys))
	}
	return k
}

// Len counts the keys.
func (k *Keys) Len() int { return len(k.keys) }

// Take gives the next key that may be used now. When all rest it fails with what made
// the first of them rest, without asking the provider: RetryAfter is when that one is
// ready.
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
	first := -1
	for i := range k.keys {
		if s := &k.keys[i]; !s.refused && (first < 0 || s.until.Before(k.keys[first].until)) {
			first = i
		}
	}
	s := &k.keys[first] // Report leaves at least one that is not refused
	f := s.resting
	f.RetryAfter, f.Keys, f.NextKey = s.until.Sub(now), len(k.keys), false
	return Key{}, Fail(f, "every key rests; the first is ready in "+f.RetryAfter.Round(time.Millisecond).String())
}

// ready finds the first usable key from next on, or −1. k.mu is held.
func (k *Keys) ready(now time.Time) int {
	for i := range k.keys {
		at := (k.next + i) % len(k.keys)
		if s := &k.keys[at]; !s.until.After(now) {
			s.refused = false
			return at
		}
	}
	return -1
}

// Report tells the ring how a request with key failed, and completes f: whether
// another key may be asked, and when.
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
		s.refused, s.until = true, now.Add(refusedRest)
	case KindRateLimit, KindOverloaded:
		pause = rotatePause + time.Duration(k.rand()*float64(rotatePause))
		s.until = now.Add(min(max(pause, f.RetryAfter), maxCooling))
		s.resting = *f
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
	var first *keyState
	for i := range k.keys {
		if s := &k.keys[i]; !s.refused && (first == nil || s.until.Before(first.until)) {
			first = s
		}
	}
	if first != nil {
		if f.Kind == KindAuth { // a better key rests: it is worth waiting for
			f.Retryable, f.RetryAfter = first.resting.Retryable, first.until.Sub(now)
		}
		return
	}
	for i := range k.keys { // the run ends here; the next one may find them mended
		k.keys[i].refused, k.keys[i].until = false, now
	}
}
