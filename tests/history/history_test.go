package history

import (
	"flag"
	"maps"
	"slices"
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

// refused returns why a session cannot have had this history, or "".
func refused(final []event, ops []porcupine.Operation) string {
	return (&model{final: final}).refused(ops)
}
