package cluster

import (
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/seed14be6753/stile/internal/lease"
	"github.com/seed14be6753/stile/journal/postgres"
)

// Hosts in network namespaces lose the database and each other, both ways and one way, and have slow
// links, under clients that submit, cancel, approve and follow. Nothing is lost or done twice, and
// every run ends.
func TestNamespaces(t *testing.T) {
	n := inNetwork(t)
	if n == nil {
		return
	}
	seed := *campaignSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	f := launchIn(t, n, seed, 2*time.Second, len(netHosts), *campaignLogs)
	if f == nil {
		return
	}
	t.Logf("seed %d", seed)
	newCampaign(f, seed).under(10, func() { newTroubles(f).all() })
}

// troubles are what goes wrong in a network, and what hosts make of it.
type troubles struct {
	*fleet
	table  lease.Table
	failed bool // there is no point in further waits
}

// trouble is something that goes wrong, until it is ended.
type trouble struct {
	what  string
	begin func() (end func() error, err error)
}

func newTroubles(f *fleet) *troubles {
	f.t.Helper()
	store, err := postgres.Open(f.t.Context(), postgres.Options{URL: f.server.URL(), Schema: f.job.Schema})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = store.Close() }) // it was for reading alone
	table, err := store.Hosts()
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(table.Close)
	return &troubles{fleet: f, table: table}
}

func (x *troubles) all() {
	n, a := x.network, x.berths[0]
	x.goesOn("a", "b", "c")

	// Without the database for longer than its lease a host says that it is not ready, and the others do what
	// it had to do. It comes back by itself. So it does where only the answers of the database are lost.
	for _, wrong := range []trouble{
		{"a parted from the database", func() (func() error, error) { return n.part("a", database) }},
		{"a hears nothing from the database", func() (func() error, error) { return n.cut(database, "a") }},
	} {
		x.during(wrong, func() {
			x.until("a loses its lease", func() bool { return x.live()["a"] == "" })
			x.until("a is not ready", func() bool { return a.ready() != http.StatusOK })
			x.goesOn("b", "c")
		})
		x.until("a is back", func() bool { return a.ready() == http.StatusOK })
		x.goesOn("a")
	}

	// Hosts that do not reach each other, or one of which does not reach the other, keep their leases and go on.
	// So does one whose link is slow.
	for _, wrong := range []trouble{
		{"a and b parted", func() (func() error, error) { return n.part("a", "b") }},
		{"a mute to b", func() (func() error, error) { return n.cut("a", "b") }},
	} {
		x.during(wrong, func() {
			var was, now map[string]string
			for range keepsIn { // a busy machine alone may cost a host its lease
				was = x.live()
				x.goesOn("a", "b", "c")
				if now = x.live(); len(was) == len(netHosts) && maps.Equal(was, now) {
					return
				}
			}
			x.witness.fault("%s: %v had leases, and now %v", wrong.what, was, now)
		})
	}
	x.during(trouble{"a is slow", func() (func() error, error) { return n.slow("a", 512) }}, func() { x.goesOn("a", "b", "c") })
	x.goesOn("a", "b", "c")
}

// during has something go wrong for as long as a part of the test takes.
func (x *troubles) during(wrong trouble, then func()) {
	x.say("%s", wrong.what)
	end, err := wrong.begin()
	if err != nil {
		x.witness.fault("%s: %v", wrong.what, err)
		return
	}
	then()
	x.say("%s: is over", wrong.what)
	if err := end(); err != nil {
		x.witness.fault("%s: %v", wrong.what, err)
	}
}

// live is which life of each host has a lease.
func (x *troubles) live() map[string]string {
	hosts, err := x.table.Hosts(x.ctx)
	if err != nil {
		x.witness.fault("%v", err)
	}
	live := map[string]string{}
	for i := range hosts {
		if h := &hosts[i]; h.Live() {
			live[h.Version[:1]] = h.ID.String()
		}
	}
	return live
}

// keepsIn is within how many looks hosts must have kept their leases. Hosts that lose them because they
// do not reach each other lose them in all.
const keepsIn = 4

// turnsMore is how many turns a host begins to show that it goes on.
const turnsMore = 2

// goesOn waits until hosts have begun more turns.
func (x *troubles) goesOn(hosts ...string) {
	asked := func() map[string]int {
		x.witness.mu.Lock()
		defer x.witness.mu.Unlock()
		return maps.Clone(x.witness.asked)
	}
	was := asked()
	for _, b := range x.berths {
		if slices.Contains(hosts, b.name) {
			x.until(b.name+" goes on", func() bool { return asked()[b.lifeName()] >= was[b.lifeName()]+turnsMore })
		}
	}
}

// until waits for a state.
func (x *troubles) until(what string, good func() bool) {
	for until := time.Now().Add(patience); !x.failed && !good(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			x.failed = true
			x.witness.fault("it is not so that %s", what)
		}
	}
	x.say("%s", what)
}
