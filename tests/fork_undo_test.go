package tests

import (
	"context"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// A session is forked while a compensation runs in it. The fork is the session up to its last
// decision, so that the rollback is not begun there: it goes on with what its own model says, and
// what it undoes of the common past it undoes under the original's keys. The original goes on.
func TestForkWhileUndoing(t *testing.T) {
	var d counter
	a, _ := traveller(&d, trip("flight")+trip("hotel"), `<rollback group="trip"/>`, `<response>sorry</response>`)
	rt := start(t, stile.Config{})
	forked := false
	for i := range a.Tools {
		if a.Tools[i].Name != "desk.cancel" {
			continue
		}
		run := a.Tools[i].Run
		a.Tools[i].Run = func(ctx context.Context, c *tools.Call) (neuroscript.Value, error) {
			if !forked {
				forked = true
				if _, err := rt.Fork(ctx, "stream", 0, "fork"); err != nil {
					t.Error(err)
				}
			}
			return run(ctx, c)
		}
	}
	s := open(t, rt, "stream", a)
	wantDone(t, ask(t, s, "go"))
	if len(d.booked) != 0 || len(d.keys) != 2 {
		t.Errorf("booked %v, %d keys", d.booked, len(d.keys))
	}
	fork := open(t, rt, "fork", a)
	wantDone(t, decision(t, fork.Run(1)))
	if n := len(bodies[*messages.RollbackBegin](records(t, fork))); n != 1 || len(d.booked) != 0 {
		t.Errorf("%d rollbacks in the fork; booked %v", n, d.booked)
	}
	for key, n := range d.keys {
		if len(d.keys) != 2 || n != 2 {
			t.Errorf("%d keys; undone %d times under %s", len(d.keys), n, key)
		}
	}
	for _, name := range []string{"stream", "fork"} {
		if _, err := rt.Replay(t.Context(), name, a); err != nil {
			t.Errorf("replay of %s: %v", name, err)
		}
	}
}
