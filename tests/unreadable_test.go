package tests

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// unreadable is a store that takes everything and, while it is broken, gives nothing of
// it back.
type unreadable struct {
	journal.Store
	broken atomic.Pointer[error]
}

func (u *unreadable) Read(ctx context.Context, inc messages.Incarnation, from, to int64) iter.Seq2[*messages.Record, error] {
	if err := u.broken.Load(); err != nil {
		return func(yield func(*messages.Record, error) bool) { yield(nil, *err) }
	}
	return u.Store.Read(ctx, inc, from, to)
}

func (u *unreadable) Blob(ctx context.Context, inc messages.Incarnation, d messages.Digest) ([]byte, error) {
	if err := u.broken.Load(); err != nil {
		return nil, *err
	}
	return u.Store.Blob(ctx, inc, d)
}

// A prompt that cannot be made because its journal cannot be read is the journal's
// failure, not the model's: no model was asked.
func TestUnreadablePrompt(t *testing.T) {
	const program = "command\n whisper self, \"kept\"\n emit tool.aeiou.magic(\"LOOP\", {\"action\":\"done\"})\nendcommand"
	for dialect, reply := range map[string]string{"plain": "fine", "cortex": `<response final="true">fine</response>`, "kitsu": "fine", "aeiou": program} {
		for name, failure := range map[string]error{
			"typed":   journal.Fail(journal.ReasonCorrupt, nil, "the disk is on fire"),
			"untyped": errors.New("the disk is on fire"),
		} {
			store := &unreadable{Store: memory.New()}
			m := &recorder{Model: scripted.New(reply, reply, reply)}
			a := &stile.Agent{Manifest: manifest.Default(dialect), Model: m}
			rt := start(t, stile.Config{Store: store})
			s := open(t, rt, "s", a)
			if o := ask(t, s, "one"); o.Decision != stile.Done {
				t.Fatalf("%s: %+v", dialect, o)
			}
			// Another process has nothing of the history at hand.
			if err := rt.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			s = open(t, start(t, stile.Config{Store: store}), "s", a)
			store.broken.Store(&failure)
			r := submit(t, s, "two")
			o, err := r.Decision(t.Context())
			store.broken.Store(nil)
			if err != nil || o.Decision != stile.Halt || o.Reason != messages.ErrJournal || !contains(o.Detail, "on fire") {
				t.Errorf("%s, %s: %+v, %v", dialect, name, o, err)
			}
			if n := len(m.requests()); n != 1 {
				t.Errorf("%s, %s: the model was asked %d times", dialect, name, n)
			}
			if o := ask(t, s, "three"); o.Decision != stile.Done {
				t.Errorf("%s, %s: afterwards %+v", dialect, name, o)
			}
			for _, b := range bodies[*messages.Control](records(t, s)) {
				if b.What == messages.ControlModelError && b.Code != messages.ErrJournal {
					t.Errorf("%s, %s: %+v", dialect, name, b)
				}
			}
			if _, err := rt.Replay(t.Context(), "s", a); err != nil {
				t.Errorf("%s, %s: %v", dialect, name, err)
			}
		}
	}
}
