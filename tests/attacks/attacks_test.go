// Package attacks tries to get at what an attacker must not have. One table holds the
// tries: each row names its class, its attacker, what is tried and what must hold, and each
// is made against real parts: a host on loopback with two tenants, a journal in a SQLite
// file, models that call tools, programs in the jail of the kernel that runs the test.
//
// What holds:
//   - A row that this kernel cannot run is counted and named, and none is left out that the
//     kernel could run.
//   - Each route of the host has a row in the walk over tenants (walk_test.go), and each
//     structure that lives across sessions has one in testdata/shared.txt (shared_test.go).
//   - Nothing listens on a fixed port, and no process or file is left.
//
// A new attack is a row in the file of its class.
package attacks

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == programName {
		attackAsProgram(os.Args[1:]) // does not return
	}
	goleak.VerifyTestMain(m)
}

// programName is the name under which this binary is a program in the jail.
const programName = "attacker"

// attacker is who tries it.
type attacker string

const (
	byModel   attacker = "model"                     // by calls of its tools
	byScript  attacker = "model's program"           // in NeuroScript
	byProgram attacker = "program in the shell"      // native code in the jail
	byToken   attacker = "tenant's token"            // a valid token of another tenant
	byClient  attacker = "client without a token"    // whatever reaches the port
	byIssuer  attacker = "forger of JWTs"            // has no key of the issuer
	byFile    attacker = "writer of the file"        // the journal's or the keys'
	byServer  attacker = "MCP server"                // that an agent imports
	byForger  attacker = "forger of control tokens"  // what a model may write into a reply
	bySite    attacker = "page of another site"      // by a browser on the same machine
	byAnswer  attacker = "address for scrape"        // which a model was told
	byMath    attacker = "forger of signatures"      // has public keys alone
	byConn    attacker = "connection without a head" // bytes that no client sends
)

// row is one try.
type row struct {
	class string // the finding or the part that is attacked
	by    attacker
	tries string // what, unique in its class
	holds string // what must
	// attack makes the try. An error says what did not hold.
	attack func() error
	// cannot says why this kernel cannot run it; "" runs it.
	cannot string
}

func (r row) id() string { return r.class + ": " + r.tries }

// table is all rows there are.
func table(t *testing.T) []row {
	w := newWorld(t)
	return slices.Concat(
		idRows(w), userRows(w), rightRows(w), headRows(w), wireRows(w), socketRows(w), doorRows(w),
		jwtRows(w), fileRows(w), systemRows(w), addressRows(w), scriptRows(w), programRows(w), onlineRows(w), commandRows(w), neighbourRows(w),
		controlRows(t), signatureRows(t), journalRows(t), keyFileRows(t), serverRows(w),
	)
}

// leastTries is how many rows the table has at least.
const leastTries = 300

func TestAttacks(t *testing.T) {
	rows := table(t)
	seen := map[string]bool{}
	type count struct{ made, held, cannot int }
	counts := map[string]*count{}
	missed := map[string][]string{}
	failed := make([]error, len(rows))
	var wait sync.WaitGroup
	places := make(chan struct{}, 8)
	for i, r := range rows {
		if seen[r.id()] || r.class == "" || r.by == "" || r.tries == "" || r.holds == "" || r.attack == nil {
			t.Errorf("a row twice, or not whole: %s", r.id())
		}
		seen[r.id()] = true
		if r.cannot == "" {
			wait.Go(func() {
				places <- struct{}{}
				failed[i] = r.attack()
				<-places
			})
		}
	}
	wait.Wait()
	for i, r := range rows {
		c := counts[r.class]
		if c == nil {
			c = &count{}
			counts[r.class] = c
		}
		if r.cannot != "" {
			c.cannot++
			missed[r.cannot] = append(missed[r.cannot], r.id())
			continue
		}
		c.made++
		if failed[i] == nil {
			c.held++
		} else {
			t.Errorf("%s, by a %s: %v; want: %s", r.id(), r.by, failed[i], r.holds)
		}
	}
	if len(rows) < leastTries {
		t.Errorf("%d tries, and %d is the least", len(rows), leastTries)
	}
	var all count
	for _, class := range slices.SortedFunc(maps.Keys(counts), cmp.Compare[string]) {
		c := counts[class]
		all.made, all.held, all.cannot = all.made+c.made, all.held+c.held, all.cannot+c.cannot
		t.Logf("%-24s %3d tries, %3d held", class, c.made, c.held)
	}
	t.Logf("%-24s %3d tries, %3d held", "all", all.made, all.held)
	for why, ids := range missed {
		t.Logf("not run, %d: %s: %s", len(ids), why, strings.Join(ids, "; "))
	}
}

// errf is fmt.Errorf with what came from outside cut.
func errf(format string, args ...any) error {
	for i, a := range args {
		if s, ok := a.(string); ok && len(s) > 600 {
			args[i] = s[:600] + "…"
		}
		if b, ok := a.([]byte); ok && len(b) > 600 {
			args[i] = b[:600]
		}
	}
	return fmt.Errorf(format, args...)
}

var errHeldNot = errors.New("it succeeded")
