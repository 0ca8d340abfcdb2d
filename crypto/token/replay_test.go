package token

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"
)

// model is the replay set said simply: a list in order of use, newest last.
type model struct {
	cap  int
	ttl  int64
	list []modelEntry
}

type modelEntry struct {
	jti      string
	inserted int64
}

func (m *model) claim(jti string, unix int64) bool {
	m.list = slices.DeleteFunc(m.list, func(e modelEntry) bool { return unix > e.inserted+m.ttl })
	for i, e := range m.list {
		if e.jti == jti {
			m.list = append(slices.Delete(m.list, i, i+1), e)
			return false
		}
	}
	if len(m.list) == m.cap {
		m.list = m.list[1:]
	}
	m.list = append(m.list, modelEntry{jti, unix})
	return true
}

// TestReplayAgainstModel runs random claims over few names and small capacities,
// so that eviction, expiry and refresh all happen often.
func TestReplayAgainstModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	for range 300 {
		capacity, ttl := 1+r.IntN(40), int64(1+r.IntN(20))
		names := 1 + r.IntN(3*capacity)
		set := NewReplaySet(capacity, time.Duration(ttl)*time.Second)
		m := model{cap: capacity, ttl: ttl}
		unix := int64(0)
		for step := range 400 {
			unix += int64(r.IntN(3)) * int64(r.IntN(2))
			if r.IntN(50) == 0 {
				unix += ttl + 1
			}
			jti := fmt.Sprint(r.IntN(names))
			got, want := set.Claim(jti, at(unix)), m.claim(jti, unix)
			if got != want {
				t.Fatalf("cap %d, ttl %d, step %d: claim of %s at %d gives %v, want %v", capacity, ttl, step, jti, unix, got, want)
			}
			if set.Len() != len(m.list) {
				t.Fatalf("%d entries, the model has %d", set.Len(), len(m.list))
			}
		}
	}
}

// TestReplayRules says each rule once, with its boundary.
func TestReplayRules(t *testing.T) {
	r := NewReplaySet(3, 300*time.Second)
	claim := func(jti string, unix int64, want bool) {
		t.Helper()
		if got := r.Claim(jti, at(unix)); got != want {
			t.Errorf("claim of %s at %d gives %v", jti, unix, got)
		}
	}
	claim("a", 0, true)
	claim("a", 0, false)
	claim("a", 300, false) // the last second
	claim("a", 301, true)  // a hit does not make younger
	claim("b", 301, true)
	claim("c", 301, true)
	claim("a", 302, false) // a hit makes recently used …
	claim("d", 302, true)  // … so b goes, and not a
	claim("a", 303, false)
	claim("c", 303, false)
	claim("d", 303, false)
	claim("b", 303, true) // evicts a, the least recently used by now
	claim("a", 303, true)
	if r.Len() != 3 {
		t.Errorf("%d entries", r.Len())
	}
	claim("z", 604, true) // everything else has expired
	if r.Len() != 1 {
		t.Errorf("%d entries after expiry", r.Len())
	}
	claim("A", 604, true)
	claim("Z", 604, true) // compared exactly
}

// TestReplayClockStepsBack: an entry inserted before the clock stepped back does
// not keep a younger one alive beyond its time.
func TestReplayClockStepsBack(t *testing.T) {
	r := NewReplaySet(10, 10*time.Second)
	for _, c := range []struct {
		jti  string
		unix int64
		want bool
	}{{"late", 100, true}, {"early", 50, true}, {"early", 60, false}, {"early", 61, true}, {"late", 61, false}, {"late", 110, false}, {"late", 111, true}} {
		if got := r.Claim(c.jti, at(c.unix)); got != c.want {
			t.Errorf("claim of %s at %d gives %v", c.jti, c.unix, got)
		}
	}
}

// TestReplayDefaults fills the default set to its capacity and once around.
func TestReplayDefaults(t *testing.T) {
	var r ReplaySet
	for i := range 4096 {
		if !r.Claim(fmt.Sprint(i), at(0)) {
			t.Fatal(i)
		}
	}
	if r.Claim("0", at(300)) || !r.Claim("new", at(300)) || r.Len() != 4096 {
		t.Errorf("%d entries", r.Len())
	}
	if r.Claim("0", at(300)) || !r.Claim("1", at(300)) {
		t.Error("the wrong entry was evicted")
	}
	if r.Claim("0", at(300)) || !r.Claim("0", at(301)) || r.Len() != 3 {
		t.Errorf("%d entries", r.Len())
	}
}

// TestReplayCoversEveryToken: the token that is valid longest, issued at the far
// end of the skew with the greatest ttl, cannot be replayed in its last second.
func TestReplayCoversEveryToken(t *testing.T) {
	b := newBuild()
	b.members["issued_at"], b.members["ttl"] = fmt.Sprint(testUnix+60), "240"
	var r ReplaySet
	line, keys := b.make(t), hostSet(t)
	for _, c := range []struct {
		now  int64
		want string
	}{{testUnix, ""}, {testUnix + 300, "ERR_TOKEN_REPLAY/JTI"}, {testUnix + 301, "ERR_TOKEN_TTL/EXPIRED"}} {
		if got := Verify(line, b.scope, keys, &r, Policy{}, at(c.now)); got.FailureReason() != c.want {
			t.Errorf("at %d: got %q, want %q", c.now, got.FailureReason(), c.want)
		}
	}
}

// TestReplayMemory: an idle session's set is small and owns nothing else.
func TestReplayMemory(t *testing.T) {
	if size := unsafe.Sizeof(ReplaySet{}); size > 100 {
		t.Errorf("an empty set takes %d bytes", size)
	}
	var r ReplaySet
	for i := range mapFrom {
		r.Claim(fmt.Sprint(i), at(int64(i)))
	}
	if r.index != nil {
		t.Error("an index for few entries")
	}
	r.Claim("one more", at(20))
	if r.index == nil {
		t.Error("no index for many entries")
	}
	r.Claim("later", at(1000))
	if r.Len() != 1 || r.index != nil || cap(r.entries) > 1 {
		t.Errorf("after expiry: %d entries, room for %d, index %v", r.Len(), cap(r.entries), r.index != nil)
	}
}
