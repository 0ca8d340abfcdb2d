package plan

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// naive is the specification read slowly: all it keeps of an action is what was
// said of it, and after each step it works out everything again from the text of
// the declarations.
type naive struct {
	all      []*slow
	parallel int
	actions  int
}

type slow struct {
	a        messages.Action
	refs     []string // names its parameters hold, each as a whole string
	state    State
	began    bool
	rejected bool
}

func (m *naive) declared(id string) *slow {
	i := slices.IndexFunc(m.all, func(s *slow) bool { return s.a.ID == id })
	if i < 0 {
		return nil
	}
	return m.all[i]
}

func (s *slow) fulfils() bool {
	return s.state == OK || s.a.Mode == messages.ModeFireAndForget && s.began ||
		s.state == Failed && s.a.OnError == messages.OnErrorSkip && !s.rejected
}

// means resolves a name as s sees it.
func (m *naive) means(s *slow, name string) *slow {
	var before []*slow
	for _, o := range m.all {
		if o == s || slices.Index(m.all, o) < slices.Index(m.all, s) || m.above(s, o, nil) {
			before = append(before, o)
		}
	}
	slices.Reverse(before)
	for _, o := range before {
		if o != s && o.a.OutputKey == name && o.a.Mode != messages.ModeFireAndForget && !o.rejected {
			return o
		}
	}
	for _, o := range before {
		if o.a.ID == name {
			if o.a.Mode == messages.ModeFireAndForget || o.rejected {
				return nil
			}
			return o
		}
	}
	return nil
}

// above reports whether s depends on o through depends_on and what references mean
// to actions that see only what stands before them.
func (m *naive) above(s, o *slow, seen []*slow) bool {
	if slices.Contains(seen, s) {
		return false
	}
	for _, d := range m.needs(s, false) {
		if d == o || m.above(d, o, append(seen, s)) {
			return true
		}
	}
	return false
}

// needs gives what s depends on among what was declared.
func (m *naive) needs(s *slow, far bool) (out []*slow) {
	for _, id := range s.a.DependsOn {
		if d := m.declared(id); d != nil {
			out = append(out, d)
		}
	}
	for _, name := range s.refs {
		if far {
			if d := m.means(s, name); d != nil {
				out = append(out, d)
			}
			continue
		}
		var key, id *slow
		for _, o := range m.all[:slices.Index(m.all, s)+1] {
			if o != s && o.a.OutputKey == name && o.a.Mode != messages.ModeFireAndForget && !o.rejected {
				key = o
			}
			if o.a.ID == name && o.a.Mode != messages.ModeFireAndForget && !o.rejected {
				id = o
			}
		}
		if key != nil {
			out = append(out, key)
		} else if id != nil {
			out = append(out, id)
		}
	}
	return out
}

// lacks reports whether s waits, however indirectly, for an undeclared id.
func (m *naive) lacks(s *slow, seen []*slow) bool {
	if slices.Contains(seen, s) || s.state != Waiting {
		return false
	}
	for _, id := range s.a.DependsOn {
		if m.declared(id) == nil {
			return true
		}
	}
	for _, d := range m.needs(s, false) {
		if !d.fulfils() && m.lacks(d, append(seen, s)) {
			return true
		}
	}
	return false
}

func (m *naive) waitsFor(s, o *slow, seen []*slow) bool {
	if slices.Contains(seen, s) || s.state != Waiting {
		return false
	}
	for _, d := range m.needs(s, false) {
		if !d.fulfils() && (d == o || m.waitsFor(d, o, append(seen, s))) {
			return true
		}
	}
	return false
}

func (m *naive) settle(fresh *slow) {
	if fresh != nil {
		n := 0
		for _, s := range m.all {
			if !s.rejected {
				n++
			}
		}
		if n > m.actions && !fresh.rejected {
			fresh.state = Failed
		}
	}
	var ring []*slow
	for _, s := range m.all {
		if m.waitsFor(s, s, nil) {
			ring = append(ring, s)
		}
	}
	for _, s := range ring {
		s.state = Skipped
	}
	if fresh != nil && fresh.a.Mode == messages.ModeSync && fresh.state == Waiting && m.lacks(fresh, nil) {
		fresh.state = Skipped
	}
	for again := true; again; {
		again = false
		for _, s := range m.all {
			if s.state != Waiting {
				continue
			}
			ready := !slices.ContainsFunc(s.a.DependsOn, func(id string) bool { return m.declared(id) == nil })
			for _, d := range m.needs(s, false) {
				if d.fulfils() {
					continue
				}
				ready = false
				if d.state.Terminal() {
					s.state, again = Skipped, true
					break
				}
			}
			if ready && s.state == Waiting {
				s.state, again = Ready, true
			}
		}
		busy := 0
		for _, s := range m.all {
			if s.state == Dispatched || s.state == Running {
				busy++
			}
		}
		for _, s := range m.all {
			if again || s.state != Ready || busy >= m.parallel {
				continue
			}
			s.state = Dispatched
			busy++
			for _, name := range s.refs {
				if m.means(s, name) == nil {
					s.state, again = Failed, true // and look again at everything
					break
				}
			}
			if again {
				break
			}
		}
	}
}

var rounds = flag.Int("rounds", 2000, "random runs against the slow reading")

// The plan and the slow reading agree on the state of every action after every
// step, whatever the graph and the order of events.
func TestRandomAgainstNaive(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for round := range uint64(*rounds) {
		randomRun(t, seed, round)
		if t.Failed() {
			return
		}
	}
}

func randomRun(t *testing.T, seed, round uint64) {
	rng := rand.New(rand.NewPCG(seed, round))
	total := 1 + rng.IntN(12)
	m := &naive{parallel: 1 + rng.IntN(4), actions: 1 + total - rng.IntN(2)}
	p := New(Options{Parallel: m.parallel, Actions: m.actions})
	if err := p.Begin(); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	any := func(n int) string { return fmt.Sprintf("a%d", rng.IntN(n)) }
	density := rng.IntN(4)
	near := rng.IntN(2) == 0
	next, ended := 0, false
	for step := 0; ; step++ {
		var effs []Effect
		var err error
		var fresh *slow
		_, gated := p.Gate()
		var live []*slow
		for _, s := range m.all {
			if s.state == Dispatched || s.state == Running {
				live = append(live, s)
			}
		}
		switch {
		case next < total && !gated && (len(live) == 0 || rng.IntN(2) == 0):
			a := messages.Action{ID: fmt.Sprintf("a%d", next), Name: fmt.Sprint("t", next), Mode: []string{messages.ModeAsync, messages.ModeAsync, messages.ModeAsync, messages.ModeSync, messages.ModeFireAndForget}[rng.IntN(5)]}
			reach := total
			if near {
				reach = next + 1
			}
			for range rng.IntN(density + 1) {
				if id := any(reach); id != a.ID || rng.IntN(8) == 0 {
					a.DependsOn = append(a.DependsOn, id)
				}
			}
			fresh = &slow{a: a}
			if rng.IntN(3) == 0 {
				fresh.a.OutputKey = fmt.Sprintf("k%d", rng.IntN(3))
			}
			if rng.IntN(4) == 0 {
				fresh.a.OnError = messages.OnErrorSkip
			}
			if rng.IntN(3) == 0 {
				name := fmt.Sprintf("k%d", rng.IntN(3))
				if rng.IntN(2) == 0 {
					name = any(total)
				}
				fresh.refs = []string{name}
				fresh.a.Args = fmt.Sprintf(`{"v":"$%s"}`, name)
			}
			m.all = append(m.all, fresh)
			next++
			if rng.IntN(12) == 0 {
				fresh.rejected, fresh.state = true, Failed
				fmt.Fprintf(&log, "reject %s\n", a.ID)
				effs, err = p.Reject(nil, a.ID)
				break
			}
			fmt.Fprintf(&log, "declare %+v\n", fresh.a)
			effs, err = p.Declare(nil, &fresh.a)
		case len(live) > 0:
			s := live[rng.IntN(len(live))]
			r := Ref{1, s.a.ID}
			if s.state == Dispatched && rng.IntN(6) > 0 {
				s.state, s.began = Running, true
				fmt.Fprintf(&log, "started %s\n", s.a.ID)
				effs, err = p.Started(nil, r)
				break
			}
			ends := []State{OK, OK, OK, Failed, Cancelled, Unknown}
			if s.state == Dispatched {
				ends = []State{Failed, Cancelled}
			}
			s.state = ends[rng.IntN(len(ends))]
			fmt.Fprintf(&log, "ended %s %s\n", s.a.ID, s.state)
			effs, err = p.Ended(nil, r, Outcome{State: s.state, Value: "1"})
		case !ended && next == total && !gated:
			ended = true
			for _, s := range m.all {
				if s.state == Waiting && slices.ContainsFunc(s.a.DependsOn, func(id string) bool { return m.declared(id) == nil }) {
					s.state = Skipped
				}
			}
			effs, err = p.End(nil)
		default:
			if !p.Complete() || gated || next < total {
				t.Errorf("seed %d, round %d: nothing goes on and it is not complete\n%s", seed, round, &log)
			}
			return
		}
		for _, e := range effs {
			fmt.Fprintf(&log, "\t%s %s %s %s\n", e.Kind, e.Ref.ID, e.State, e.Reason)
		}
		m.settle(fresh)
		if err != nil {
			t.Fatalf("seed %d, round %d: %v\n%s", seed, round, err, &log)
		}
		for _, s := range m.all {
			if s.rejected {
				continue
			}
			v, ok := p.Action(Ref{1, s.a.ID})
			if !ok || v.State != s.state {
				t.Fatalf("seed %d, round %d, step %d: %s is %s, want %s\n%s", seed, round, step, s.a.ID, v.State, s.state, &log)
			}
		}
		checkInvariants(t, p)
	}
}

// checkInvariants holds whatever was called.
func checkInvariants(t *testing.T, p *Plan) {
	t.Helper()
	slots, open, forwards := p.o.Occupied, 0, int32(0)
	for n := range p.nodes {
		x := &p.nodes[n]
		if x.slot != (x.state == Dispatched || x.state == Running) {
			t.Fatalf("%s is %s, slot %v", x.ID, x.state, x.slot)
		}
		if x.slot {
			slots++
		}
		if x.feed || x.refused {
			continue
		}
		if !x.state.Terminal() && x.Mode != messages.ModeFireAndForget {
			open++
		}
		unmet := x.forward
		for e := x.deps; e != none; e = p.edges[e].nextDep {
			if p.edges[e].open {
				unmet++
			}
		}
		if x.state == Waiting && (unmet != x.unmet || unmet == 0) || x.state == Ready && unmet > 0 {
			t.Fatalf("%s is %s with %d unmet, counts %d", x.ID, x.state, unmet, x.unmet)
		}
		if _, queued := slices.BinarySearch(p.ready, int32(n)); queued != (x.state == Ready) {
			t.Fatalf("%s is %s, queued %v", x.ID, x.state, queued)
		}
		forwards += x.forward
	}
	switch {
	case slots != p.slots || slots > max(p.o.Parallel, p.o.Occupied):
		t.Fatalf("%d slots counted as %d of %d", slots, p.slots, p.o.Parallel)
	case open != p.unended || forwards != p.forwards:
		t.Fatalf("%d open counted as %d, %d forward as %d", open, p.unended, forwards, p.forwards)
	case len(p.ready) > 0 && p.slots < p.o.Parallel && p.halted == "":
		t.Fatalf("%d ready and slots free", len(p.ready))
	case p.gate != none && (p.nodes[p.gate].state.Terminal() || p.nodes[p.gate].Mode != messages.ModeSync):
		t.Fatal("the gate is closed, but by no action")
	}
}
