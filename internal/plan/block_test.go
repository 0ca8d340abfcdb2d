package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// part is an action or a block of a random document, and what the specification, read slowly,
// makes of it: outcomes are given by id, and each depends on at most one earlier part, so that
// the order of ends decides nothing.
type part struct {
	id      string
	dep     *part
	skips   bool  // on_error: skip
	outcome State // of an action that runs
	mode    string
	tree    *Tree // of a block
	tests   []*part
	kids    []*part
	branch  int       // within the block around
	laps    [][]*part // of a loop: what stands in it, for each item
	items   int       // of a loop

	state    State
	notTaken bool
}

// wants works out the state of a part. why is Skipped for a part that its block does not run,
// with lost for a branch that was not taken.
func (x *part) wants(dropped, lost bool) {
	switch {
	case dropped:
		x.state, x.notTaken = Skipped, lost
	case x.dep != nil && !x.dep.fulfils() && !(x.dep.notTaken && x.skips):
		x.state, x.notTaken = Skipped, x.dep.notTaken
	case x.tree == nil:
		x.state = x.outcome
	default:
		x.blockWants()
		return
	}
	for _, kid := range x.kids {
		kid.wants(true, x.notTaken)
		kid.within(func(in *part) { in.wants(true, x.notTaken) })
	}
}

// within calls f with the parts that stand in a part, at any depth.
func (x *part) within(f func(in *part)) {
	for _, kid := range x.kids {
		f(kid)
		kid.within(f)
	}
}

// loopWants works out a loop: its iterations stand for themselves, and what is written in it
// for all its instances.
func (x *part) loopWants() {
	x.state = OK
	var inside []*part
	x.within(func(in *part) { inside = append(inside, in) })
	for _, in := range inside {
		in.state, in.notTaken = OK, false
	}
	x.laps = nil
	for i := range x.items {
		twin := map[*part]*part{}
		var kids []*part
		for _, kid := range x.kids {
			kids = append(kids, kid.instance(i, twin))
		}
		x.laps = append(x.laps, kids)
		for _, kid := range kids {
			kid.wants(false, false)
			if kid.bad() {
				x.state = Failed
			}
		}
		for _, in := range inside {
			if twin[in].bad() {
				in.state = Failed
			}
		}
	}
	for _, in := range inside {
		in.skips = in.skips && in.state != Failed // its instances tolerate their own failures alone
	}
}

// instance is what a part is for an item.
func (x *part) instance(i int, twin map[*part]*part) *part {
	own := *x
	twin[x] = &own
	own.id = fmt.Sprintf("%s[%d]", x.id, i)
	own.outcome = outcomeOf(x.id, i, x.outcome)
	if t := twin[x.dep]; x.dep != nil && t != nil {
		own.dep = t
	}
	own.tests, own.kids = slices.Clone(x.tests), nil
	for j, of := range own.tests {
		if t := twin[of]; of != nil && t != nil {
			own.tests[j] = t
		}
	}
	for _, kid := range x.kids {
		own.kids = append(own.kids, kid.instance(i, twin))
	}
	return &own
}

// outcomeOf is how an instance ends.
func outcomeOf(id string, i int, outcome State) State {
	if outcome == Failed && (len(id)+i)%2 == 0 {
		return OK
	}
	return outcome
}

func (x *part) bad() bool {
	return x.mode != messages.ModeFireAndForget && (x.state == Cancelled || x.state == Unknown || x.state == Skipped && !x.notTaken || x.state == Failed && !x.skips)
}

func (x *part) blockWants() {
	if x.tree.Kind == kindForeach {
		x.loopWants()
		return
	}
	taken := -1
	for i := range x.tree.Branches {
		if taken < 0 && (x.tests[i] == nil || x.tests[i].state == OK) {
			taken = i
		}
	}
	x.state = OK
	for _, kid := range x.kids {
		off := x.tree.Kind == kindIf && kid.branch != taken
		kid.wants(off, off)
		if !off && kid.bad() {
			x.state = Failed
		}
	}
}

func (x *part) fulfils() bool { return x.state == OK || x.state == Failed && x.skips }

// scribe writes a random document.
type scribe struct {
	rng  *rand.Rand
	n    int
	past []*part // closed, in order
}

func (s *scribe) part(depth int) *part {
	s.n++
	x := &part{id: fmt.Sprintf("x%d", s.n)}
	if len(s.past) > 0 && s.rng.IntN(3) == 0 {
		x.dep = s.past[s.rng.IntN(len(s.past))]
	}
	if depth < 3 && s.rng.IntN(3) == 0 {
		s.block(x, depth)
	} else {
		x.skips = s.rng.IntN(4) == 0
		x.outcome = []State{OK, OK, OK, Failed, Unknown}[s.rng.IntN(5)]
		x.mode = []string{messages.ModeAsync, messages.ModeSync}[s.rng.IntN(2)]
	}
	s.past = append(s.past, x)
	return x
}

func (s *scribe) block(x *part, depth int) {
	t := &Tree{Block: messages.Block{Kind: kindParallel, ID: x.id, Max: 1 + s.rng.IntN(3), Fail: "all"}}
	branches := 1
	if s.rng.IntN(3) > 0 {
		t.Kind, branches = kindIf, 1+s.rng.IntN(3)
	}
	if s.rng.IntN(3) == 0 {
		t.Kind, branches = kindForeach, 1
		x.items = s.rng.IntN(4)
		t.List, t.As, t.Max, t.Parallel = fmt.Sprintf("$list%d", x.items), "item", 1000, 1+s.rng.IntN(3)
	}
	if x.dep != nil {
		t.DependsOn = []string{x.dep.id}
	}
	seen := len(s.past) // a test names what stands before the block
	for i := range branches {
		if t.Kind == kindIf {
			b := Branch{Name: []string{BranchThen, "elif1", "else"}[i]}
			var of *part
			if seen > 0 && b.Name != "else" {
				of = s.past[s.rng.IntN(seen)]
				b.Test = fmt.Sprintf(`status("%s") == "ok"`, of.id)
			} else if b.Name != "else" {
				b.Test = "true"
			}
			t.Branches, x.tests = append(t.Branches, b), append(x.tests, of)
		}
		for range s.rng.IntN(4) {
			kid := s.part(depth + 1)
			kid.branch = i
			x.kids = append(x.kids, kid)
			t.Children = append(t.Children, kid.child(i))
		}
	}
	x.tree = t
}

func (x *part) child(branch int) Child {
	if x.tree != nil {
		return Child{Branch: branch, Block: x.tree}
	}
	a := x.action()
	return Child{Branch: branch, Action: &a}
}

func (x *part) action() messages.Action {
	a := messages.Action{ID: x.id, Name: "t", Mode: x.mode}
	if x.dep != nil {
		a.DependsOn = []string{x.dep.id}
	}
	if x.skips {
		a.OnError = messages.OnErrorSkip
	}
	return a
}

// run is a plan that is asked and answered at random.
type run struct {
	t       *testing.T
	p       *Plan
	rng     *rand.Rand
	live    []string
	open    map[string]bool // blocks whose children may begin
	within  map[string]string
	ended   map[string]bool
	log     strings.Builder
	outcome map[string]State
}

func (r *run) take(effects []Effect, err error) {
	if err != nil {
		r.t.Fatalf("%v\n%s", err, &r.log)
	}
	for len(effects) > 0 {
		e := effects[0]
		effects = effects[1:]
		fmt.Fprintf(&r.log, "\t%s %s %s %s\n", e.Kind, e.Ref.ID, e.State, e.Reason)
		around := r.within[e.Ref.ID]
		if around != "" && !r.open[around] && e.Kind != Judge {
			r.t.Fatalf("%s before its block %s is open\n%s", e.Ref.ID, around, &r.log)
		}
		switch e.Kind {
		case Dispatch:
			r.live = append(r.live, e.Ref.ID)
		case Judge:
			var more []Effect
			more, err = r.p.Decide(nil, e.Ref, r.p.Judge(e.Ref))
			if err != nil {
				r.t.Fatal(err)
			}
			effects = append(effects, more...)
		case Open:
			r.open[e.Ref.ID] = true
		case End, EndBlock:
			if r.ended[e.Ref.ID] {
				r.t.Fatalf("%s ends twice\n%s", e.Ref.ID, &r.log)
			}
			r.ended[e.Ref.ID] = true
		}
	}
}

// lists are what loops are over.
type lists struct{}

func (lists) Lookup(name string) (string, Status) {
	value, ok := map[string]string{"list0": "[]", "list1": "[1]", "list2": `{"b":1,"a":2}`, "list3": "[1,2,3]"}[name]
	if !ok {
		return "", Absent
	}
	return value, Present
}

// all calls f with a part, what stands in it, and its instances.
func (x *part) all(f func(x *part)) {
	f(x)
	for _, kid := range x.kids {
		kid.all(f)
	}
	for _, lap := range x.laps {
		for _, kid := range lap {
			kid.all(f)
		}
	}
}

// Whatever the blocks and the order of ends, each action and each block ends as the slow
// reading says, none begins before its block is open, and none waits for ever.
func TestBlocksAgainstNaive(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for round := range uint64(*rounds) {
		rng := rand.New(rand.NewPCG(seed, round))
		s := &scribe{rng: rng}
		r := &run{t: t, p: New(Options{Parallel: 1 + rng.IntN(4), Environment: lists{}, Actions: 1 << 20}), rng: rng, open: map[string]bool{}, within: map[string]string{}, ended: map[string]bool{}, outcome: map[string]State{}}
		if err := r.p.Begin(); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&r.log, "seed %d, round %d\n", seed, round)
		var document []*part
		for range 1 + rng.IntN(4) {
			x := s.part(0)
			x.wants(false, false)
			document = append(document, x)
		}
		for _, x := range document {
			x.all(func(x *part) { r.outcome[x.id] = x.outcome })
		}
		for _, x := range s.past {
			for _, kid := range x.kids {
				if x.tree.Kind != kindForeach {
					r.within[kid.id] = x.id
				}
			}
		}
		r.play(document)
		for _, x := range document {
			x.all(func(x *part) {
				v, ok := r.p.Action(Ref{1, x.id})
				if !ok || v.State != x.state || x.state == Skipped && (v.Reason == ReasonBranchNotTaken) != x.notTaken {
					t.Fatalf("%s is %s %s, want %s, not taken %v\n%s", x.id, v.State, v.Reason, x.state, x.notTaken, &r.log)
				}
			})
		}
	}
}

func (r *run) play(document []*part) {
	over := false
	for steps := 0; !r.p.Complete(); steps++ {
		_, gated := r.p.Gate()
		switch {
		case len(r.live) > 0 && (r.rng.IntN(2) == 0 || gated || len(document) == 0):
			i := r.rng.IntN(len(r.live))
			id := r.live[i]
			r.live = slices.Delete(r.live, i, i+1)
			fmt.Fprintf(&r.log, "end %s %s\n", id, r.outcome[id])
			r.take(r.p.Started(nil, Ref{1, id}))
			r.ended[id] = true
			r.take(r.p.Ended(nil, Ref{1, id}, Outcome{State: r.outcome[id], Value: "1"}))
		case len(document) > 0 && !gated:
			x := document[0]
			document = document[1:]
			fmt.Fprintf(&r.log, "declare %s %+v\n", x.id, x.tree)
			if x.tree != nil {
				r.take(r.p.DeclareBlock(nil, x.tree))
				continue
			}
			a := x.action()
			r.take(r.p.Declare(nil, &a))
		case len(document) == 0 && !over && !gated:
			over = true
			r.take(r.p.End(nil))
		default:
			r.t.Fatalf("nothing goes on\n%s", &r.log)
		}
	}
}
