package tests

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// An action that is tried again waits longer each time where it asks for that, another time
// than its neighbour, and from a pause of its own; a replay finds the same pauses.
func TestBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		a := streaming(&calls,
			`<action id="x" mode="async">{"name":"own.fails","retry":3,"retry_delay":4,"backoff":2}</action>`+
				`<action id="y" mode="async">{"name":"own.fails","retry":3,"retry_delay":4,"backoff":2}</action>`+
				`<action id="z" mode="async">{"name":"own.fails","retry":2,"retry_delay":10}</action>`+
				`<action id="w" mode="async">{"name":"own.fails","retry":1}</action>`,
			`<response>done</response>`)
		rt := start(t, stile.Config{})
		s := open(t, rt, "stream", a)
		wantDone(t, ask(t, s, "go"))
		pauses := map[string][]time.Duration{}
		last := map[string]time.Time{}
		for _, r := range records(t, s) {
			switch b := r.Body.(type) {
			case *messages.ActionStarted:
				if b.Attempt > 1 {
					pauses[b.ID] = append(pauses[b.ID], r.TS.Sub(last[b.ID]))
				}
				last[b.ID] = r.TS
			case *messages.ActionEnded:
				var sum time.Duration
				for _, p := range pauses[b.ID] {
					sum += p
				}
				if b.MS != sum.Milliseconds() { // the attempts take no time
					t.Errorf("%s took %d ms, its pauses are %s", b.ID, b.MS, sum)
				}
			}
		}
		for _, id := range []string{"x", "y"} {
			for i, p := range pauses[id] {
				if want := 4 * time.Second << i; p < want*3/4 || p > want*5/4 {
					t.Errorf("%s, pause %d: %s", id, i+1, p)
				}
			}
		}
		if len(pauses["x"]) != 3 || slices.Equal(pauses["x"], pauses["y"]) {
			t.Errorf("the pauses are %v", pauses)
		}
		if got := fmt.Sprint(pauses["z"], pauses["w"]); got != "[10s 10s] [1s]" {
			t.Errorf("without a backoff %s", got)
		}
		replays(t, rt, a)
	})
}

// A step of a workflow has pauses of its own; without, those of the agent. The workflow is one
// action, whose end is what a replay needs.
func TestBackoffOfSteps(t *testing.T) {
	none, second, four := time.Duration(0), time.Second, 4*time.Second
	for _, c := range []struct {
		step        manifest.Step
		least, most time.Duration
	}{
		{manifest.Step{Retry: 2}, 20 * time.Second, 20 * time.Second}, // of the loop
		{manifest.Step{Retry: 2, RetryDelay: &none}, 0, 0},
		{manifest.Step{Retry: 2, RetryDelay: &second}, 2 * time.Second, 2 * time.Second},
		{manifest.Step{Retry: 2, RetryDelay: &four, Backoff: 3}, 12 * time.Second, 20 * time.Second}, // 4 + 12 s, a quarter around
		{manifest.Step{Retry: 2, RetryDelay: &four, Backoff: 1}, 8 * time.Second, 8 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			var calls atomic.Int64
			a := streaming(&calls, `<action id="w" type="workflow">{"name":"flow"}</action><response>end</response>`)
			ten := 10 * time.Second
			a.Manifest.Loop.RetryDelay = &ten
			a.Manifest.Import.Workflows = []string{"flow"}
			step := c.step
			step.ID, step.Name = "s", "own.fails"
			a.Manifest.Define.Workflows = []manifest.Workflow{{Name: "flow", Steps: []manifest.Step{step}}}
			rt := start(t, stile.Config{})
			s := open(t, rt, "stream", a)
			began := time.Now()
			wantDone(t, ask(t, s, "go"))
			if took := time.Since(began); took < c.least || took > c.most || calls.Load() != 3 {
				t.Errorf("%+v: %d calls took %s", c.step, calls.Load(), took)
			}
			replays(t, rt, a)
		})
	}
}

// The body member refs: false leaves the parameters as they are written.
func TestRefsFalse(t *testing.T) {
	var calls atomic.Int64
	a := streaming(&calls, `<action id="a">{"name":"str.ToUpper","parameters":{"s":"x"},"output_key":"k"}</action>`+
		`<action id="b">{"name":"str.ToUpper","parameters":{"s":"$k and $$"},"refs":false}</action>`+
		`<action id="c">{"name":"str.ToUpper","parameters":{"s":"$k and $$"},"refs":true}</action>`, "<response>$b, $c</response>")
	rt := start(t, stile.Config{})
	s := open(t, rt, "stream", a)
	if o := ask(t, s, "go"); o.Text != "$K AND $$, X AND $" {
		t.Errorf("%+v", o)
	}
	replays(t, rt, a)
}

// The time of an action that is cancelled is what it was at work.
func TestCancelledActionTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		a := streaming(&calls, `<action id="a">{"name":"own.slow","parameters":{"seconds":60}}</action><response>done</response>`)
		rt := start(t, stile.Config{})
		s := open(t, rt, "stream", a)
		r := submit(t, s, "go")
		time.Sleep(5 * time.Second)
		if err := r.Cancel(t.Context(), "enough"); err != nil {
			t.Fatal(err)
		}
		decision(t, r)
		for _, b := range bodies[*messages.ActionEnded](records(t, s)) {
			if b.State != messages.ActionCancelled || b.MS < 4900 || b.MS > 5100 {
				t.Errorf("%s after %d ms", b.State, b.MS)
			}
		}
		replays(t, rt, a)
	})
}
