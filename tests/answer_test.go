package tests

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// The submitter of a run is given its answer without a look at the journal, unless it is long:
// then the run's own records are read, and the text is as right.
func TestAnswerIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &counting{Store: memory.New()}
		long := strings.Repeat("long ", 8<<10)
		m := manifest.Default("plain")
		rt := start(t, stile.Config{Store: store})
		s := open(t, rt, "s", &stile.Agent{Manifest: m, Model: scripted.New("short", "short", "short", long)})
		for n, want := range []string{"short", "short", "short", long} {
			run := submit(t, s, "go")
			synctest.Wait()
			before := store.read.Load()
			text, err := run.Text(t.Context())
			if err != nil || text != want {
				t.Errorf("run %d: %d bytes, %v", n+1, len(text), err)
			}
			if read := store.read.Load() - before; (read > 0) != (want == long) || read > 16 {
				t.Errorf("run %d: %d records were read", n+1, read)
			}
		}
	})
}

// An outcome is an error for those who branch on one, and has the value of a structured answer.
func TestOutcomeIsAnError(t *testing.T) {
	rt := start(t, stile.Config{})
	quiet := func(m *manifest.Manifest) { m.Loop.Repairs = new(int64) }
	for name, c := range map[string]struct {
		reply      string
		code       messages.Code
		halt, gave bool
		text       string
	}{
		"done":  {reply: program(`emit "all is well"`, sayDone)},
		"abort": {reply: program(`emit "I give up"`, sayAbort), gave: true, text: "the run ended ABORT"},
		"halt":  {reply: program(`emit "half"`, `emit 1/0`), halt: true, code: messages.ErrActionsRuntime, text: "the run ended HALT (ERR_ACTIONS_RUNTIME): "},
	} {
		s := open(t, rt, name, agent(once(c.reply), quiet))
		run := submit(t, s, "go")
		o := decision(t, run)
		err := o.Err()
		if stile.IsHalt(err) != c.halt || stile.IsAbort(err) != c.gave || stile.CodeOf(err) != c.code || (err == nil) != (c.text == "") {
			t.Errorf("%s: %v", name, err)
		}
		var out *stile.Outcome
		if err != nil && (!errors.As(err, &out) || out.Turns != 1 || !strings.HasPrefix(err.Error(), c.text)) {
			t.Errorf("%s: %v, %+v", name, err, out)
		}
		if text, also := run.Text(t.Context()); text == "" || text != o.Text || stile.CodeOf(also) != c.code {
			t.Errorf("%s: %q, %v", name, text, also)
		}
		if err := o.Decode(new(int)); stile.CodeOf(err) != stile.CodeInvalid {
			t.Errorf("%s: decoded: %v", name, err)
		}
	}
	if stile.IsHalt(nil) || stile.IsAbort(errors.New("no outcome")) || stile.IsTakenBack(errors.New("nothing")) {
		t.Error("a predicate holds of what is no outcome")
	}
}
