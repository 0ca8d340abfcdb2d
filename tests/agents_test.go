package tests

import (
	"testing"
	"testing/synctest"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// Who opens an awake session with another agent goes on under that one, from the next
// run on; the run in flight ends under its own.
func TestAnotherAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, stile.Config{})
		one, two := &stile.Agent{Dialect: "plain", Model: scripted.New("first", "first again")}, &stile.Agent{Manifest: manifest.Default("plain"), Model: scripted.New("-", "second", "second again")}
		two.Manifest.Name = "another"
		a := open(t, rt, "s", one)
		wantDone(t, ask(t, a, "hello"))
		b := open(t, rt, "s", two)
		wantDone(t, ask(t, b, "hello"))
		wantDone(t, ask(t, b, "hello"))
		var said []string
		manifests := map[messages.Digest]bool{}
		for _, r := range records(t, b) {
			switch b := r.Body.(type) {
			case *messages.UnitText:
				said = append(said, b.Text)
			case *messages.TurnBegin:
				manifests[b.Manifest] = true
			}
		}
		if len(said) != 3 || said[0] != "first" || said[1] != "second" || said[2] != "second again" || len(manifests) != 2 {
			t.Errorf("said %q under %d manifests", said, len(manifests))
		}
		if _, err := rt.Replay(t.Context(), "s", nil); err != nil {
			t.Errorf("replay: %v", err)
		}
	})
}
