package turn

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// scoped is the machine of the relics of a user or tenant.
type scoped struct {
	*testing.T
	*Machine
	at int64 // seconds
}

// call returns the answer of a call. An answer that rests on changes waits for them.
func (s *scoped) call(in ScopeCall) string {
	s.Helper()
	s.at++
	effects, err := s.Step(time.Unix(s.at, 0), &in)
	if err != nil {
		s.Fatal(err)
	}
	for _, e := range effects {
		if a, ok := e.(*Answer); ok {
			var why *messages.Error
			if errors.As(a.Err, &why); a.Err != nil && why.Reason == ReasonBehind {
				return why.Reason
			}
			if a.After != s.State().Seq {
				s.Errorf("answered after %d of %d", a.After, s.State().Seq)
			}
			if a.Err != nil {
				return why.Reason
			}
			return a.Result
		}
	}
	s.Error("no answer")
	return ""
}

func newScoped(t *testing.T, state State) *scoped {
	return &scoped{T: t, Machine: New(Config{SID: "t:u:" + messages.RelicsID, Rules: &Rules{}}, state, nil)}
}

// Operations of many sessions are judged in their order; a call that may have been made before, or
// whose host does not have the newest values, is not made.
func TestScopeCall(t *testing.T) {
	s := newScoped(t, State{})
	if got := s.call(ScopeCall{Relic: "box", Args: `{"operation":"add","key":"n"}`}); got != ReasonNoSession {
		t.Errorf("before the session is open: %s", got)
	}
	if _, err := s.Step(time.Unix(1, 0), &Open{}); err != nil {
		t.Fatal(err)
	}
	add := func(key string) ScopeCall {
		return ScopeCall{By: "t:u:s", Key: key, Relic: "box", Args: `{"operation":"add","key":"n"}`}
	}
	for _, c := range []struct {
		in   ScopeCall
		want string
	}{
		{add("a"), `{"key":"n","value":1}`},
		{add("b"), `{"key":"n","value":2}`},
		{ScopeCall{Key: "c", Relic: "other", Args: `{"operation":"get","key":"n"}`}, `{"found":false,"value":null}`},
		{ScopeCall{Key: "d", Relic: "box", Args: `{"operation":"get","key":"n"}`, Reads: true}, `{"found":true,"value":2}`},
		{ScopeCall{Key: "e", Relic: "box", Args: `{"operation":"add","key":"n"}`, Reads: true}, ReasonReadOnly},
		{func() ScopeCall { c := add("f"); c.Head = 4; return c }(), ReasonBehind},
		{func() ScopeCall { c := add("b"); c.Repeat, c.Searched = true, 2; return c }(), ReasonRepeated},
		{func() ScopeCall { c := add("g"); c.Repeat, c.Searched = true, 3; return c }(), `{"key":"n","value":3}`},
		{ScopeCall{Key: "h", Relic: "box", Args: `{"key":"n","value":"x","ttl":5}`}, `{"key":"n","replaced":true}`},
		{ScopeCall{Key: "i", Relic: "box", Args: `{"operation":"list"}`}, `{"keys":["n"],"more":false}`},
	} {
		if got := s.call(c.in); got != c.want {
			t.Errorf("%+v: %s, want %s", c.in, got, c.want)
		}
	}
	s.at += 10
	if got := s.call(ScopeCall{Relic: "box", Args: `{"operation":"list"}`}); got != `{"keys":[],"more":false}` {
		t.Errorf("after its time: %s", got)
	}

	// Another machine goes on with it: a call that was made ready before that is not made.
	next := newScoped(t, *s.State())
	next.at = s.at
	if c := add("j"); next.call(c) != ReasonRepeated {
		t.Error("a host that was replaced does what its successor may have done")
	}
	c := add("j")
	if c.Head = next.State().Seq; next.call(c) != `{"key":"n","value":1}` {
		t.Error("a call of now is not made")
	}
}

// What all relics of a scope hold together is bounded.
func TestScopeRoom(t *testing.T) {
	s := newScoped(t, State{})
	if _, err := s.Step(time.Unix(1, 0), &Open{}); err != nil {
		t.Fatal(err)
	}
	hardest := messages.RelicLimits{Keys: MaxRelicKeys, ValueBytes: MaxRelicValueBytes, Bytes: MaxRelicBytes}
	set := func(relic, key string, bytes int) string {
		return s.call(ScopeCall{Relic: relic, Limits: hardest, Args: fmt.Sprintf(`{"key":%q,"value":%q}`, key, strings.Repeat("x", bytes))})
	}
	const most = MaxRelicValueBytes - 2 // quotes
	for i := range MaxScopeBytes / MaxRelicBytes {
		for j := range MaxRelicBytes/MaxRelicValueBytes - 1 {
			if got := set(fmt.Sprint("r", i), fmt.Sprint(j), most); !strings.HasPrefix(got, "{") {
				t.Fatalf("relic %d, key %d: %s", i, j, got)
			}
		}
	}
	for i := range 3 {
		if got := set("last", fmt.Sprint(i), most); !strings.HasPrefix(got, "{") {
			t.Fatalf("%d more: %s", i, got)
		}
	}
	if got := set("last", "more", most); got != ReasonRelicLimit {
		t.Errorf("too many bytes: %s", got)
	}
	if got := set("last", "0", 1); !strings.HasPrefix(got, "{") {
		t.Errorf("less in place of more: %s", got)
	}
	for i := len(s.State().Relics); i < MaxScopeRelics; i++ {
		if got := set(fmt.Sprint("small", i), "k", 1); !strings.HasPrefix(got, "{") {
			t.Fatalf("relic %d: %s", i, got)
		}
	}
	if got := set("one more", "k", 1); got != ReasonRelicLimit {
		t.Errorf("too many relics: %s", got)
	}
}
