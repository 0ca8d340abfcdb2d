package host

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// Sessions begin at hosts that have nothing to do, here or elsewhere; not at one that has just not
// answered, until a lease is over; and what was sent counts before a host has told of it.
func TestSpreadChooses(t *testing.T) {
	const lease = 2 * time.Second
	now := time.Unix(1000, 0)
	peer := func(id string, runs int) stile.Peer {
		return stile.Peer{ID: id, Self: id == "self", Left: lease, Until: now.Add(lease), Runs: runs, MaxRuns: 64}
	}
	if _, ok := (*spread)(nil).choose([]stile.Peer{peer("self", 9), peer("b", 0)}, true, now); ok {
		t.Error("without placement a session begins elsewhere")
	}
	s := newSpread(lease)
	if _, ok := s.choose([]stile.Peer{peer("b", 0)}, true, now); ok {
		t.Error("a host alone has chosen another one")
	}
	two := []stile.Peer{peer("self", 3), peer("b", 0)}
	for i := range 3 {
		if to, ok := s.choose(two, true, now); !ok || to.ID != "b" {
			t.Fatalf("session %d begins at %+v, %v", i, to, ok)
		}
	}
	if to, ok := s.choose(two, true, now); ok {
		t.Errorf("with three that were sent to it a host is chosen that seems idle: %+v", to)
	}
	s = newSpread(lease)
	s.avoid("b", now)
	if to, ok := s.choose(two, true, now.Add(lease/2)); ok {
		t.Errorf("%+v has just not answered", to)
	}
	later := now.Add(lease + 1)
	two[0].Until, two[1].Until = later.Add(lease), later.Add(lease)
	if to, ok := s.choose(two, true, later); !ok || to.ID != "b" || len(s.shy) != 0 {
		t.Errorf("%+v, %v; %v", to, ok, s.shy)
	}
	two[1].Draining = true
	if to, ok := s.choose(two, true, later); ok {
		t.Errorf("%+v drains", to)
	}
	two[0].Draining = true
	if to, ok := s.choose(two, true, later); ok {
		t.Errorf("all drain, and %+v is chosen", to)
	}
}

// A client that repeats a request finds the host of the request before, as long as that lives.
func TestSpreadRemembersCalls(t *testing.T) {
	now := time.Unix(1000, 0)
	s := newSpread(time.Second)
	peers := []stile.Peer{{ID: "self", Self: true, Left: 1}, {ID: "b", Left: 1}}
	one := callID{1}
	if to, ok := s.before(one, peers); ok {
		t.Errorf("%+v", to)
	}
	s.remember(one, "b", now)
	if to, ok := s.before(one, peers); !ok || to.ID != "b" {
		t.Errorf("%+v, %v", to, ok)
	}
	peers[1].Left = 0
	if to, ok := s.before(one, peers); ok {
		t.Errorf("%+v has no lease", to)
	}
	for i := range maxCalls + 1 {
		s.remember(callID{2, byte(i), byte(i >> 8)}, "b", now)
	}
	if len(s.calls) != maxCalls {
		t.Errorf("%d calls are remembered", len(s.calls))
	}
	if s.remember(callID{3}, "b", now.Add(2*joinWithin)); len(s.calls) != 1 {
		t.Errorf("%d calls are remembered of long ago", len(s.calls))
	}
	s.forget(callID{3})
	if len(s.calls) != 0 {
		t.Errorf("%d calls", len(s.calls))
	}
}

// Which requests begin a session, and which of those are safe to repeat elsewhere.
func TestBegins(t *testing.T) {
	for _, c := range []struct {
		name, pattern, session, body string
		users                        bool // Config.ChatUserSession
		begins, run, named           bool
	}{
		{"a session", beginPattern, "", `{"agent":"a"}`, false, true, false, false},
		{"a session with a name", beginPattern, "", `{"agent":"a","id":"x"}`, false, true, false, true},
		{"no JSON", beginPattern, "", `{`, false, false, false, false},
		{"a submit", submitPattern, "", `{"input":"x"}`, false, false, false, false},
		{"a chat", chatPattern, "", `{"user":"ada"}`, false, true, true, false},
		{"a chat in a session", chatPattern, "s", `{}`, false, false, false, false},
		{"a chat in the session of a user", chatPattern, "", `{"user":"ada"}`, true, false, true, false},
		{"a chat of no user", chatPattern, "", `{}`, true, true, true, false},
		{"a response", responsesPattern, "", `{"input":"x"}`, false, true, true, false},
		{"a response in a session", responsesPattern, "s", `{"input":"x"}`, false, false, false, false},
		{"a response that goes on", responsesPattern, "", `{"previous_response_id":"resp_1"}`, false, false, true, false},
		{"a response in a conversation", responsesPattern, "", `{"conversation":{"id":"c"}}`, false, false, true, false},
		{"a response behind none", responsesPattern, "", `{"previous_response_id":null,"conversation":null}`, false, true, true, false},
	} {
		_, path, _ := strings.Cut(c.pattern, " ")
		r := httptest.NewRequest(http.MethodPost, path, nil)
		if c.session != "" {
			r.Header.Set(sessionHeader, c.session)
		}
		tr := &proxy{c: &cluster{s: &Server{cfg: Config{ChatUserSession: c.users}}}, r: r, pattern: c.pattern, body: []byte(c.body)}
		begins, run := tr.begins()
		if begins != c.begins || begins && run != c.run || tr.named != c.named {
			t.Errorf("%s: %v, %v, %v", c.name, begins, run, tr.named)
		}
		tr.wants = wantsBegin
		if tr.placeable() {
			t.Errorf("%s: it has no key", c.name)
		}
		if r.Header.Set(keyHeader, "k"); tr.placeable() == c.named {
			t.Errorf("%s: with a key it may be repeated: %v", c.name, !c.named)
		}
		if tr.wants = ""; tr.placeable() {
			t.Errorf("%s: it was not placed", c.name)
		}
	}
}

// A host without room says to another one that the session may begin there; to clients it says why
// there is none.
func TestFullFor(t *testing.T) {
	full := (&Server{}).full(overHost)
	for _, c := range []struct {
		p     *problem
		wants string
		want  bool
	}{
		{full, wantsBegin, true},
		{tooFull(), wantsBegin, true},
		{full, "", false},
		{full, wantsCall, false},
		{(&Server{}).full(overRuns), wantsBegin, false},
		{refusal(http.StatusBadRequest, messages.ErrInvalid, "", ""), wantsBegin, false},
	} {
		if got := c.p.fullFor(c.wants); got != c.want {
			t.Errorf("%+v for %q: %v", c.p, c.wants, got)
		}
	}
}
