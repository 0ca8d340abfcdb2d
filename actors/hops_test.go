package actors_test

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile/actors"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/cortex"
	"github.com/seed14be6753/stile/parse/plain"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

// settle waits until nothing moves any more, and no commit is on its way either.
func settle() {
	time.Sleep(100 * commitTime)
	synctest.Wait()
}

// bitByBit is a model that says its action but for the last byte, waits until nothing
// moves any more, and then hands over that byte.
type bitByBit struct {
	now func()
}

// Stream implements llm.Model.
func (m bitByBit) Stream(ctx context.Context, _ llm.Request) iter.Seq2[llm.Chunk, error] {
	const action = `<thought>so</thought><action id="a">{"name":"own.tool"}</action>`
	return func(yield func(llm.Chunk, error) bool) {
		if !yield(llm.Chunk{Text: []byte(action[:len(action)-1])}, nil) {
			return
		}
		settle()
		m.now()
		if !yield(llm.Chunk{Text: []byte(action[len(action)-1:])}, nil) {
			return
		}
		settle()
		yield(llm.Chunk{Text: []byte("<response>end</response>"), Finish: messages.FinishComplete}, nil)
	}
}

// batched is the memory store behind a writer of its own, as the durable stores are.
type batched struct{ journal.Store }

// commitTime is longer than whatever runs in a bubble meanwhile: a session that has
// handed over a batch has gone idle when the answer comes, and is woken by it. One that is
// still at work takes the answer along, which is no hop.
const commitTime = time.Nanosecond

// Immediate implements journal.Store.
func (batched) Immediate() bool { return false }

// Commit implements journal.Store.
func (b batched) Commit(batches []journal.Batch) []error {
	time.Sleep(commitTime)
	return b.Store.Commit(batches)
}

// From the last byte of </action> to its tool there are two hops: the reader of the
// stream wakes the session, the session begins the action's actor, which runs the
// tool. An effect waits for the journal, which is one more where its answer finds the session
// idle.
func TestHopsToTheTool(t *testing.T) {
	for _, c := range []struct {
		name  string
		class messages.Class
		store journal.Store
		want  int64
	}{
		{"read only", messages.ReadOnly, memory.New(), 2},
		{"effectful", messages.Effectful, memory.New(), 2},
		{"read only, writer", messages.ReadOnly, batched{memory.New()}, 2},
		{"effectful, writer", messages.Effectful, batched{memory.New()}, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var h *actors.Host
				var from, to int64
				a := agent(t, cortex.Dialect{})
				registry, err := catalog.New(tools.Tool{Name: "own.tool", Class: c.class, Run: func(context.Context, *tools.Call) (neuroscript.Value, error) {
					to = h.Hops()
					return neuroscript.Value{}, nil
				}})
				if err != nil {
					t.Fatal(err)
				}
				if a.Tools, err = registry.Apply(catalog.Policy{Allow: []string{"own.tool"}}); err != nil {
					t.Fatal(err)
				}
				a.Targets = catalog.NewTargets(a.Tools, neuroscript.Limits{})
				a.Rules.Target = a.Targets.Find
				a.Routes[0].Port = bitByBit{now: func() { from = h.Hops() }}
				h = start(t, c.store)
				end, err := run(t, h, a)
				if err != nil || end.Decision != messages.Done {
					t.Fatalf("%+v %v", end, err)
				}
				if hops := to - from; hops != c.want || hops > 4 {
					t.Errorf("%d hops, want %d", hops, c.want)
				}
			})
		})
	}
}

// Text that a model says while its session is idle wakes nobody: the goroutine that reads
// the reply handles it.
func TestTextWakesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h *actors.Host
		a := agent(t, plain.Dialect{})
		const pieces = 10
		var hops []int64
		a.Routes[0].Port = piecemeal{n: pieces, now: func() { hops = append(hops, h.Hops()) }}
		h = start(t, memory.New())
		end, err := run(t, h, a)
		if err != nil || end.Decision != messages.Done {
			t.Fatalf("%+v %v", end, err)
		}
		if len(hops) != pieces+1 || hops[pieces] != hops[0] {
			t.Errorf("hops %v", hops)
		}
	})
}

// piecemeal says n pieces of text, and calls now before each and after the last, when
// nothing moves any more.
type piecemeal struct {
	n   int
	now func()
}

// Stream implements llm.Model.
func (m piecemeal) Stream(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		for i := range m.n {
			synctest.Wait()
			if m.now(); !yield(llm.Chunk{Text: fmt.Append(nil, "piece ", i)}, nil) {
				return
			}
		}
		synctest.Wait()
		m.now()
		yield(llm.Chunk{Finish: messages.FinishComplete}, nil)
	}
}
