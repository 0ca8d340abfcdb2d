package host

import (
	"strings"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
)

// Who wants to begin a session that another request is just beginning hears what came of
// that: that it exists, which is true then, or that it may.
func TestBeginningIsWaitedFor(t *testing.T) {
	m := manifest.Default("plain")
	m.Name = "talker"
	agent := &stile.Agent{Manifest: m, Model: scripted.New("hello")}
	rt, err := stile.New(t.Context(), stile.Config{InMemory: true, Agents: []*stile.Agent{agent}})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close(t.Context())
	s, err := New(Config{Runtime: rt, Agents: []*stile.Agent{agent}})
	if err != nil {
		t.Fatal(err)
	}
	p := principal{tenant: "local", user: "local"}
	for _, begun := range []bool{false, true} {
		id := map[bool]string{false: "given-up", true: "begun"}[begun]
		first, err := s.vacant(t.Context(), p, id)
		if err != nil {
			t.Fatal(err)
		}
		second := make(chan error, 1)
		go func() {
			done, err := s.vacant(t.Context(), p, id)
			if err == nil {
				done()
			}
			second <- err
		}()
		if begun {
			if _, err := rt.Open(t.Context(), p.sid(id), agent); err != nil {
				t.Fatal(err)
			}
		}
		first()
		err = <-second
		if begun && (err == nil || !strings.Contains(err.Error(), "exists already")) || !begun && err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}
