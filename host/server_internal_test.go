package host

import (
	"context"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
)

// serverOfTalker is a server of one agent that says hello, with no listener.
func serverOfTalker(t *testing.T) *Server {
	t.Helper()
	m := manifest.Default("plain")
	m.Name = "talker"
	agent := &stile.Agent{Manifest: m, Model: scripted.New("hello")}
	rt, err := stile.New(t.Context(), stile.Config{InMemory: true, Agents: []*stile.Agent{agent}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // the test's own context is over by then
		if err := rt.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	s, err := New(Config{Runtime: rt, Agents: []*stile.Agent{agent}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}
