// Package history holds the runtime against a sequential model of a session: clients
// drive real runtimes at once, processes end in the middle, and porcupine looks for an
// order of what they asked and were answered that one session could have followed
// (linearizability).
//
// What the model demands: a submit is accepted or refused by what is in flight then; an
// accepted input becomes exactly one run, in the order of acceptance, one at a time, or
// joins one: at its next turn, or, too late for that, as the next run (merge), or in the
// window that gathers it (debounce); an idempotency key names one run, and one
// input; a cancel ends its run and no other; what was answered is never forgotten, what was shown never taken back, and every read is of one moment;
// a request that a dying process did not answer has happened or has not.
//
// A seed fixes what is asked, not in which order goroutines run.
package history

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anishathalye/porcupine"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	duration = flag.Duration("for", 9*time.Second, "how long histories are made, in all")
	onlySeed = flag.Uint64("seed", 0, "make the history of this seed alone")
)

// checkLimit bounds the search for an order. No history of this size comes near it.
const checkLimit = 20 * time.Second

var variants = []variant{
	{name: "memory"},
	{name: "memory+writer", writer: true},
	{name: "sqlite", file: true},
}

func TestHistories(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			seen := map[string]int{}
			seed, n, operations := uint64(time.Now().UnixNano()), 0, 0
			if *onlySeed != 0 {
				seed = *onlySeed
			}
			for end := time.Now().Add(*duration / time.Duration(len(variants))); n < 3 || time.Now().Before(end); n++ {
				w := history(t, v, seed)
				operations += w.judge(t)
				for what, k := range w.seen {
					seen[what] += k
				}
				if t.Failed() || *onlySeed != 0 {
					t.Logf("seed %d (run with -seed %d)", seed, seed)
					return
				}
				seed++
			}
			t.Logf("%d histories of %d operations, the last of seed %d", n, operations, seed-1)
			for _, what := range slices.Sorted(maps.Keys(seen)) {
				t.Logf("%7d %s", seen[what], what)
			}
			for _, want := range []string{
				"crash", "close", "history.submit reject ok", "history.submit reject ERR_BUSY", "history.submit enqueue ok",
				"history.submit enqueue ERR_BUSY", "history.submit enqueue ok joined", "history.submit enqueue KEY_REUSED",
				"history.submit interrupt ok", "history.submit rollback ok", "history.submit merge ok", "history.submit debounce ok",
				"inputs begin a run together", "inputs join a run", "inputs come too late for a run",
				"history.cancel ok", "history.cancel ERR_DENIED", "history.wait DONE", "history.wait HALT(ERR_CANCELLED)",
				"history.read", "history.look", "history.head", "history.restart",
			} {
				if seen[want] == 0 && n > 20 {
					t.Errorf("no history had %s", want)
				}
			}
			// A restart that meets a submit on its way is rare, and so is half a second in which
			// no client asks for anything: a short run may have none.
			for _, want := range []string{"history.submit enqueue unknown", "history.submit interrupt unknown", "a window closes"} {
				if seen[want] == 0 && n > 500 {
					t.Errorf("no history had %s", want)
				}
			}
		})
	}
}

// history makes one.
func history(t *testing.T, v variant, seed uint64) *world {
	t.Helper()
	var w *world
	if v.file {
		w = newWorld(t, v, seed)
		w.run(t)
		return w
	}
	synctest.Test(t, func(t *testing.T) {
		w = newWorld(t, v, seed)
		w.run(t)
	})
	return w
}

// judge checks every session, and gives the number of operations.
func (w *world) judge(t testing.TB) (n int) {
	t.Helper()
	if w.endless != "" {
		t.Errorf("%s of seed %d", w.endless, w.seed)
	}
	for _, sid := range w.sids {
		n += len(w.ops[sid])
		if why := refused(w.final[sid], resolved(w.final[sid], w.ops[sid])); why != "" {
			t.Errorf("%s of seed %d: %s", sid, w.seed, why)
		}
	}
	return n
}

// resolved looks up what became of the submits that were not answered. No text is
// submitted twice without a key, so the journal says of each whether it happened, which
// spares the search from trying both; of one that did not, nothing else is known.
func resolved(final []event, ops []porcupine.Operation) (left []porcupine.Operation) {
	for _, op := range ops {
		if out, ok := op.Output.(submitted); ok && out.answer == unknown {
			in := op.Input.(submit)
			i := slices.IndexFunc(final, func(e event) bool { return e.kind == accepted && e.text == in.text })
			if i < 0 {
				continue
			}
			if in.key == "" {
				op.Output = submitted{answer: answered, run: final[i].run}
			}
		}
		left = append(left, op)
	}
	return left
}

// refused returns why a session cannot have had this history, or "".
func refused(final []event, ops []porcupine.Operation) string {
	m := &model{final: final}
	pm := m.porcupine()
	res, info := porcupine.CheckOperationsVerbose(pm, ops, checkLimit)
	switch res {
	case porcupine.Ok:
		return ""
	case porcupine.Unknown:
		return fmt.Sprintf("no verdict on %d operations within %s", len(ops), checkLimit)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "no order of the %d operations is one of a session. The journal:\n", len(ops))
	for i, e := range final {
		fmt.Fprintf(&b, "  %d %s\n", i+1, e)
	}
	var longest []porcupine.Operation
	for _, part := range info.PartialLinearizationsOperations() {
		for _, lin := range part {
			if len(lin) > len(longest) {
				longest = lin
			}
		}
	}
	b.WriteString("the longest order found:\n")
	describe := func(op porcupine.Operation) {
		fmt.Fprintf(&b, "  [%d, %d] client %d: %s\n", op.Call, op.Return, op.ClientId, pm.DescribeOperation(op.Input, short(op.Output)))
	}
	for _, op := range longest {
		describe(op)
	}
	b.WriteString("the rest:\n")
	for _, op := range ops {
		if !slices.ContainsFunc(longest, func(o porcupine.Operation) bool { return o.Call == op.Call }) {
			describe(op)
		}
	}
	return b.String()
}

// short leaves of a log its length and end.
func short(out any) any {
	if s, ok := out.(seen); ok {
		return fmt.Sprintf("%d events, the last %v", len(s.log), s.log[max(0, len(s.log)-2):])
	}
	return out
}
