package tests

import (
	"context"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// Under sync_policy: cut a sync action cancels the generation and the model is asked
// again with the result. What it had said behind the action is nowhere: not in the
// journal, not in the next prompt, not shown.
func TestSyncCut(t *testing.T) {
	const kept = `<thought>look first <action id="a">{"name":"own.slow","parameters":{"seconds":2}}</action>`
	for name, pieces := range map[string][]string{
		"in one piece":  {kept + ` unheard</thought><response>unheard</response>`},
		"byte by byte":  strings.Split(kept+` unheard <action id="b">{"name":"own.slow"}</action>`, ""),
		"and no end":    {kept, " unheard", " and unheard"},
		"cut in a name": {kept[:len(kept)-3], kept[len(kept)-3:] + "unheard"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var calls atomic.Int64
				a := streaming(&calls)
				a.Manifest.Loop.SyncPolicy = manifest.SyncCut
				asked, cancelled := 0, false
				rec := &recorder{Model: model(func(ctx context.Context, _ llm.Request) iter.Seq2[llm.Chunk, error] {
					asked++
					turn := asked
					return func(yield func(llm.Chunk, error) bool) {
						if turn == 2 {
							yield(llm.Chunk{Text: []byte("<response>It $$said so.</response>"), Finish: messages.FinishComplete}, nil)
							return
						}
						for _, p := range pieces {
							if !yield(llm.Chunk{Text: []byte(p)}, nil) {
								return
							}
						}
						<-ctx.Done() // a model that would go on for ever
						cancelled = true
						yield(llm.Chunk{}, ctx.Err())
					}
				})}
				a.Model = rec
				rt := start(t, stile.Config{})
				s := open(t, rt, "stream", a)
				began := time.Now()
				o := ask(t, s, "go")
				if took := time.Since(began); o.Decision != stile.Done || o.Turns != 2 || calls.Load() != 1 || !cancelled || took != 2*time.Second {
					t.Fatalf("%+v after %d calls, cancelled %v, %s", o, calls.Load(), cancelled, took)
				}
				recs := records(t, s)
				if r := bodies[*messages.ModelReply](recs)[0]; r.Length != int64(len(kept)) || r.Finish != messages.FinishStop {
					t.Errorf("reply %+v, want the first %d bytes", r, len(kept))
				}
				for _, c := range bodies[*messages.ModelChunk](recs) {
					if strings.Contains(string(c.Bytes), "unheard") {
						t.Errorf("chunk %q", c.Bytes)
					}
				}
				for _, u := range bodies[*messages.UnitText](recs) {
					if strings.Contains(u.Text, "unheard") {
						t.Errorf("unit %q", u.Text)
					}
				}
				msgs := rec.requests()[1].Messages
				if got := msgs[len(msgs)-2]; got.Role != messages.RoleAssistant || got.Text != kept {
					t.Errorf("the model is shown %q of its reply", got.Text)
				}
				if got := msgs[len(msgs)-1].Text; !strings.HasPrefix(got, `<action_result id="a" status="ok"`) || strings.Contains(got, "error") {
					t.Errorf("results %q", got)
				}
				replays(t, rt, a)
			})
		})
	}
}

// Async actions that run when the reply is cut are waited for; their results come with
// that of the sync one.
func TestSyncCutWaitsForAsync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		a := streaming(&calls, `<action id="slow" mode="async">{"name":"own.slow","parameters":{"seconds":5}}</action>`+
			`<action id="quick">{"name":"own.slow","parameters":{"seconds":1}}</action><response>never</response>`, `<response>$slow, $quick</response>`)
		a.Manifest.Loop.SyncPolicy = manifest.SyncCut
		rt := start(t, stile.Config{})
		s := open(t, rt, "stream", a)
		began := time.Now()
		o := ask(t, s, "go")
		wantDone(t, o)
		if took := time.Since(began); took != 5*time.Second || o.Turns != 2 {
			t.Errorf("%d turns in %s", o.Turns, took)
		}
		said := bodies[*messages.UnitText](records(t, s))
		if len(said) != 1 || said[0].Text != "slept 5 s, slept 1 s" {
			t.Errorf("said %+v", said)
		}
		replays(t, rt, a)
	})
}
