package tests

import (
	"context"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// In the default durability of cogency, text that comes together is one record and one
// commit; text that comes slowly is shown at once, piece by piece.
func TestTextThatComesTogether(t *testing.T) {
	const pieces = 256
	for name, c := range map[string]struct {
		every   time.Duration
		records int // of text, at most
		commits int // of the run, at most
	}{
		"at once":           {0, 2, 3},
		"one a millisecond": {time.Millisecond, 14, 15},
		"one in 30 ms":      {30 * time.Millisecond, pieces + 1, pieces + 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGate()
				rt := start(t, stile.Config{Store: g})
				var first time.Time
				followed := make(chan struct{}) // texts of a run that is over come as records
				s := open(t, rt, "grouped", &stile.Agent{Manifest: manifest.Default("cogency"), Model: model(func(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
					return func(yield func(llm.Chunk, error) bool) {
						<-followed
						for i := range pieces {
							if time.Sleep(c.every); i == 0 {
								first = time.Now()
							}
							if !yield(llm.Chunk{Text: []byte("sixteen letters ")}, nil) {
								return
							}
						}
						if yield(llm.Chunk{Text: []byte("<end>")}, nil) {
							yield(llm.Chunk{Finish: messages.FinishComplete}, nil)
						}
					}
				})})
				before := g.commits()
				run := submit(t, s, "go")
				var shown strings.Builder
				var firstShown time.Time
				for u, err := range s.Events(t.Context(), 0) {
					if err != nil {
						t.Fatal(err)
					}
					if u.Record != nil {
						kind := u.Record.Body.Kind()
						if kind == messages.KindRunEnd {
							break
						}
						if kind == messages.KindTurnBegin {
							close(followed)
						}
						continue
					}
					if firstShown.IsZero() {
						firstShown = time.Now()
					}
					shown.WriteString(u.Delta.Text)
				}
				wantDone(t, decision(t, run))
				if got, want := strings.TrimSpace(shown.String()), strings.TrimSpace(strings.Repeat("sixteen letters ", pieces)); got != want {
					t.Errorf("shown %d bytes, want %d", len(got), len(want))
				}
				if n := g.commits() - before; n > c.commits {
					t.Errorf("%d commits, want at most %d", n, c.commits)
				}
				if n := len(bodies[*messages.ModelChunk](records(t, s))); n > c.records {
					t.Errorf("%d records of text, want at most %d", n, c.records)
				}
				if d := firstShown.Sub(first); d != 0 {
					t.Errorf("the first text was shown %s late", d)
				}
			})
		})
	}
}
