package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/internal/postgrestest"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/journal/postgres"
	"github.com/seed14be6753/stile/journal/sqlite"
)

const fileName = sqlite.FileName

// patience bounds one life: no scenario needs more than a second.
const patience = 60 * time.Second

// ground is where lives follow each other: a store that outlives them, and the world
// outside.
type ground struct {
	t       testing.TB
	sc      *scenario
	keys    *keyring.Ring
	store   string // one of stores
	single  bool
	dir     string
	heap    *memory.Store
	base    postgres.Options
	lives   int
	outside outside
	told    *witness
	bury    []func() // ends what is left of dead lives
}

// stores are where the lives are kept. PostgreSQL is one of them where there is a
// server: postgrestest says where it looks.
func stores(t testing.TB) []string {
	all := []string{"memory", "memory+writer", "sqlite"}
	if _, ok := postgrestest.URL(t); ok {
		all = append(all, "postgres")
	}
	return all
}

// database makes a schema of the test's own.
func database(t testing.TB) postgres.Options {
	t.Helper()
	url, ok := postgrestest.URL(t)
	if !ok {
		t.Fatal("the server is gone")
	}
	return postgres.Options{URL: url, Schema: postgrestest.Schema(t, url), Readers: 2}
}

var sharedKeys = sync.OnceValues(func() (*keyring.Ring, error) { return stile.GenerateKeys(stile.Config{}) })

func newGround(t testing.TB, sc *scenario, store string, single bool) *ground {
	t.Helper()
	keys, err := sharedKeys()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(t.TempDir(), "ground")
	if err != nil {
		t.Fatal(err)
	}
	g := &ground{t: t, sc: sc, keys: keys, store: store, single: single, dir: dir, told: newWitness()}
	g.outside.path = filepath.Join(dir, "outside")
	switch store {
	case "sqlite":
		if err := os.Mkdir(g.place(), 0o700); err != nil {
			t.Fatal(err)
		}
	case "postgres":
		g.base = database(t)
	default:
		g.heap = memory.New()
	}
	return g
}

// place is the directory of the present life's file.
func (g *ground) place() string { return filepath.Join(g.dir, fmt.Sprint("life", g.lives)) }

// open opens the store of the present life.
func (g *ground) open() (journal.Store, func()) {
	if g.heap != nil {
		return g.heap, func() {}
	}
	var s journal.Store
	var err error
	if g.store == "postgres" {
		s, err = postgres.Open(context.Background(), g.base)
	} else {
		s, err = sqlite.Open(sqlite.Options{Path: g.place()})
	}
	if err != nil {
		g.t.Fatal(err)
	}
	return s, func() {
		if err := s.Close(); err != nil {
			g.t.Error(err)
		}
	}
}

// live lives one life to its end or to the target. It tells which, and what the life
// has passed. A life that came to its end leaves its runtime to after.
func (g *ground) live(target point, after func(*stile.Runtime, *stile.Agent)) (killed bool, passed []point) {
	g.t.Helper()
	tell := g.told.begin()
	store, shut := g.open()
	next := filepath.Join(g.dir, fmt.Sprint("life", g.lives+1))
	gate := newGate(target, func() {
		if g.store != "sqlite" {
			return // what is there when the world stops is what a kill leaves
		}
		if err := os.Mkdir(next, 0o700); err != nil {
			g.t.Error(err)
		}
		picture(g.t, g.place(), next)
	})
	rt, err := stile.New(context.Background(), stile.Config{
		Store: &mortal{Store: store, gate: gate, single: g.single, quiet: g.store != "memory"}, Keys: g.keys, IdleTimeout: -1,
	})
	if err != nil {
		g.t.Fatal(err)
	}
	agent := g.sc.agent(g.outside, gate)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	done := make(chan error, 1)
	go func() { done <- visit(ctx, rt, g.sc, agent, tell) }()
	finish := func() {
		defer cancel()
		close(gate.thaw)
		if err := rt.Close(context.Background()); err != nil {
			g.t.Errorf("close: %v", err)
		}
		shut()
	}
	select {
	case err := <-done:
		if err != nil {
			g.t.Errorf("%s, %s, %s: %v", g.sc.name, g.store, target, err)
		}
		if after != nil {
			after(rt, agent)
		}
		finish()
	case <-gate.dead:
		killed = true
		g.lives++
		g.bury = append(g.bury, func() {
			finish()
			<-done
		})
	}
	return killed, gate.points()
}

// close ends what is left of the dead.
func (g *ground) close() {
	for _, f := range g.bury {
		f()
	}
	if err := os.RemoveAll(g.dir); err != nil {
		g.t.Error(err)
	}
}

// judge lives on without a kill and judges.
func (g *ground) judge(unhurt *calm) (v verdict, found calm) {
	g.t.Helper()
	_, passed := g.live(point{where: nowhere}, func(rt *stile.Runtime, agent *stile.Agent) {
		if err := settle(context.Background(), rt); err != nil {
			g.t.Errorf("%s: %v", g.sc.name, err)
		}
		all := g.outside.deeds(g.t)
		tr := &trial{sc: g.sc, agent: agent, archive: rt.Archive(), told: g.told, deeds: deedsOf(mainSID, all), all: all, unhurt: unhurt, torn: g.single && g.lives > 0}
		v, found = tr.judge(context.Background())
	})
	found.points = passed
	return v, found
}

// unhurt runs the scenario without a kill.
func unhurt(t *testing.T, sc *scenario, store string, single bool) *calm {
	t.Helper()
	g := newGround(t, sc, store, single)
	defer g.close()
	v, found := g.judge(nil)
	for _, p := range v.problems {
		t.Errorf("unhurt: %s", p)
	}
	if v.unknown != 0 {
		t.Errorf("unhurt: %d effects are unknown", v.unknown)
	}
	return &found
}

// kill lives through kills at the targets, one in each life, and judges what is left.
func kill(t *testing.T, sc *scenario, store string, single bool, calm *calm, targets ...point) (killed int, v verdict) {
	t.Helper()
	g := newGround(t, sc, store, single)
	defer g.close()
	for _, target := range targets {
		if dead, _ := g.live(target, nil); dead {
			killed++
		}
	}
	v, _ = g.judge(calm)
	for _, p := range v.problems {
		t.Errorf("killed %v: %s", targets, p)
	}
	return killed, v
}

// every place a kill can meet, one after the other: before and after the commit of
// every record, before and after every effect, around every reply.
func TestSweep(t *testing.T) {
	for _, store := range stores(t) {
		for i, sc := range reference() {
			if !*full && (uint64(i)+*seed)%oneOf[store] != 0 {
				continue // a life takes its time there
			}
			t.Run(store+"/"+sc.name, func(t *testing.T) { sweep(t, &sc, store, false) })
		}
	}
}

// The same with every record in a commit of its own.
func TestSweepSingleRecords(t *testing.T) {
	for _, sc := range reference() {
		t.Run(sc.name, func(t *testing.T) { sweep(t, &sc, "memory+writer", true) })
	}
}

// Recovery is killed, too: a few kills in a row, each at some place of the life after
// the one before. More than three settlements give the run up, and no more.
func TestSweepChains(t *testing.T) {
	set := reference()
	calms := map[string]*calm{}
	var sum verdict
	killed, chains, stores := 0, 2*some(), stores(t)
	for i := range chains {
		rnd := rand.New(rand.NewPCG(*seed, 1<<20+uint64(i)))
		sc, store := set[rnd.IntN(len(set))], stores[rnd.IntN(len(stores))]
		if calms[sc.name+store] == nil {
			calms[sc.name+store] = unhurt(t, &sc, store, false)
		}
		calm := calms[sc.name+store]
		var targets []point
		for life := range 2 + rnd.IntN(4) {
			p := calm.points[rnd.IntN(len(calm.points))]
			if life > 0 {
				p = point{anyPlace, 1 + int64(rnd.IntN(12))} // what recovery passes first
			}
			targets = append(targets, p)
		}
		n, v := kill(t, &sc, store, false, calm, targets...)
		killed += n
		sum.add(v)
		if t.Failed() {
			t.Fatalf("seed %d, chain %d, %s on %s", *seed, i, sc.name, store)
		}
	}
	t.Logf("%d kills in %d chains, seed %d: %d lost, %d doubled, %d unknown", killed, chains, *seed, sum.lost, sum.doubled, sum.unknown)
	if killed < chains*3/2 {
		t.Error("hardly any chain was longer than one kill")
	}
}

func sweep(t *testing.T, sc *scenario, store string, single bool) {
	calm := unhurt(t, sc, store, single)
	if t.Failed() {
		return
	}
	targets := calm.points
	if !*full {
		rnd := rand.New(rand.NewPCG(*seed, uint64(len(t.Name()))))
		rnd.Shuffle(len(targets), func(i, j int) { targets[i], targets[j] = targets[j], targets[i] })
		targets = targets[:min(len(targets), shortPoints[store])]
	}
	var sum verdict
	killed := 0
	for _, p := range targets {
		n, v := kill(t, sc, store, single, calm, p)
		killed += n
		sum.add(v)
		if len(sum.problems) > 20 {
			t.Fatal("and so on")
		}
	}
	t.Logf("%d of %d points killed at, seed %d: %d lost, %d doubled, %d unknown", killed, len(calm.points), *seed, sum.lost, sum.doubled, sum.unknown)
}

// oneOf is of how many scenarios the short sweep takes one.
var oneOf = map[string]uint64{"memory": 1, "memory+writer": 2, "sqlite": 3, "postgres": 3}

// shortPoints is how many points of a scenario the short sweep takes.
var shortPoints = map[string]int{"memory": 5, "memory+writer": 5, "sqlite": 4, "postgres": 2}
