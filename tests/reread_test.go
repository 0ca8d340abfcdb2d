package tests

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// talking answers each question in two turns, the first with a call, in dialects that have
// calls.
type talking struct{ call, answer string }

func (m talking) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	text := m.answer
	if m.call != "" && req.Turn%2 == 1 {
		text = m.call
	}
	return func(yield func(llm.Chunk, error) bool) {
		yield(llm.Chunk{Text: fmt.Appendf(nil, text, req.Turn), Finish: messages.FinishComplete}, nil)
	}
}

// After a restart, and every ten minutes, one turn reads the session's journal. Those behind
// it go on from there, with what was recorded while it read, and with the prompts that a
// replay makes of the journal alone.
func TestHistoryIsReadOnce(t *testing.T) {
	for dialect, m := range map[string]talking{
		"plain":   {"", "answer %d"},
		"cogency": {`<execute>[{"name":"str.ToUpper","args":{"s":"a%d"}}]</execute>`, "answer %d<end>"},
		"cortex":  {`<action id="a" type="tool">{"name":"str.ToUpper","parameters":{"s":"a%d"}}</action>`, `<response final="true">answer %d</response>`},
		"kitsu":   {"One moment, %[1]d.\n<action:get_time>", "answer %d"},
	} {
		t.Run(dialect, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				keys, err := stile.GenerateKeys(stile.Config{})
				if err != nil {
					t.Fatal(err)
				}
				store := &counting{Store: memory.New()}
				l := &life{t: t, cfg: stile.Config{Store: store, Keys: keys}}
				man := manifest.Default(dialect)
				if m.call != "" && dialect != "kitsu" {
					man.Import.Tools = []string{"str.ToUpper"}
				}
				a := &stile.Agent{Manifest: man, Model: m}
				s := open(t, l.begin(), "s", a)
				asked := func(text string) int64 {
					t.Helper()
					before := store.read.Load()
					wantDone(t, ask(t, s, text))
					return store.read.Load() - before
				}
				for range 10 {
					if n := asked("q"); n != 0 {
						t.Fatalf("%d records of a young session are read", n)
					}
				}
				l.end()

				s = open(t, l.begin(), "s", a)
				before := store.read.Load()
				store.slow.Store(int64(time.Minute))
				slow := submit(t, s, "q") // its begin reads the journal
				time.Sleep(30 * time.Second)
				queued := submit(t, s, "meanwhile", stile.Policy(messages.Enqueue))
				wantDone(t, decision(t, slow))
				store.slow.Store(0)
				wantDone(t, decision(t, queued))
				whole := int64(len(stored(t, s)))
				if n := store.read.Load() - before - whole; n == 0 || n > whole {
					t.Errorf("after a restart two runs read %d records of at most %d", n, whole)
				}
				for range 5 {
					if n := asked("q"); n != 0 {
						t.Errorf("%d records are read again", n)
					}
				}
				times := 0
				for range 25 {
					time.Sleep(time.Minute)
					if asked("q") > 0 {
						times++
					}
				}
				if times == 0 || times > 3 { // another host may have erased something
					t.Errorf("in 25 minutes %d runs read the journal", times)
				}
				if report, err := l.rt.Replay(t.Context(), "s", a); err != nil || report.Turns == 0 {
					t.Errorf("the replay: %+v, %v", report, err)
				}
				l.end()
			})
		})
	}
}
