// Package crash kills sessions and looks at what is left.
//
// One idea: a reference set of turns is run once to its end, and then again and
// again, killed each time at another place; what recovery makes of it is held
// against the journal's promises (docs/spec/design.md §7).
//
// Invariants it checks after every kill:
//   - what a subscriber saw or a client was told is in the journal afterwards, with
//     the same hash, and a decision that was told stays the decision;
//   - an answer to a question that was taken is in the journal, once, and no call that
//     needs one begins without it, whatever died while the turn was suspended;
//   - every run, turn and action has exactly one end; the decision is the one of the
//     run that was not killed, or the settled one that is documented;
//   - in a world outside the journal, which remembers everything, an effectful call
//     happened at most once, a keyed one never under two keys, each behind its
//     durable action.started; "cancelled" never happened and "ok" did;
//   - the journal verifies, replays, and the session goes on.
//
// In process the world stops before or after the commit of a record, and around an
// effect (world.go says how); by SIGKILL a real process dies at a random moment. The
// journal is in memory, in SQLite and, where journal/postgres/postgrestest finds a
// server, in PostgreSQL. A failed power supply, which forgets what was not synced, is
// journal/sqlite's; a server that is killed is journal/postgres's.
//
//	go test ./tests/crash                          the short sweep
//	go test ./tests/crash -v -args -full           every point: make crash-sweep
//	go test ./tests/crash -v -args -seed 7         the kills of a seed
package crash

import (
	"flag"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed14be6753/stile/internal/postgrestest"
)

var (
	full  = flag.Bool("full", false, "sweep every point and a few hundred kills")
	kills = flag.Int("kills", 0, "how many processes to kill in each way; 0 is 8, or 300 with -full")
	seed  = flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the random kills")
)

// childEnv holds what a child process is to do.
const childEnv = "STILE_CRASH_CHILD"

func TestMain(m *testing.M) {
	if job := os.Getenv(childEnv); job != "" {
		live(job)
	}
	flag.Parse()
	goleak.VerifyTestMain(postgrestest.Main{M: m}, goleak.Cleanup(func(code int) {
		removeBinary()
		os.Exit(code)
	}))
}

// some is the number of kills by process.
func some() int {
	switch {
	case *kills > 0:
		return *kills
	case *full:
		return 300
	}
	return 8
}
