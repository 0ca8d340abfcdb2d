package turn

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"hash"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// The simulation drives a session at random: sensible answers, late and doubled
// ones, clocks, crashes of children and of the process. The rig checks every step;
// what is left for here is that every accepted input ends, and that a seed says
// everything.

const (
	simSeeds = 90
	simSteps = 500
)

// interleavings is how many short sessions TestInterleavings makes.
var interleavings = flag.Int("interleavings", 1000, "how many interleavings of submits are tried")

// A few submits under every policy, in every order with what a run does: answers,
// clocks, crashes, and acknowledgements of the journal.
func TestInterleavings(t *testing.T) {
	first := uint64(time.Now().UnixNano())
	if *fromSeed != 0 {
		first = *fromSeed
	}
	if *onlySeed != 0 {
		first, *interleavings = *onlySeed, 1
	}
	workers := runtime.GOMAXPROCS(0)
	totals := make([]simStats, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < *interleavings && !t.Failed(); i += workers {
				totals[w].add(simulate(t, first+uint64(i), 8+i%24, 60))
			}
		})
	}
	wg.Wait()
	total := simStats{}
	for i := range totals {
		total.add(totals[i])
	}
	t.Logf("%d interleavings, seeds from %d (one again: -seed N; on: -from %d): %+v", *interleavings, first, first+uint64(*interleavings), total)
	if *interleavings >= 1000 && (total.superseded < 50 || total.undone < 20 || total.merges < 5 || total.leftover < 50 || total.windows < 50 || total.crashes < 100) {
		t.Error("the interleavings went nowhere")
	}
}

var (
	onlySeed = flag.Uint64("seed", 0, "the one interleaving to be made")
	fromSeed = flag.Uint64("from", 0, "the seed of the first interleaving, to go on where another pass ended; 0 is the time")
)

func TestSimulation(t *testing.T) {
	first := uint64(time.Now().UnixNano())
	total := simStats{}
	for i := range uint64(simSeeds) {
		// Half of the seeds are always the same ones.
		seed := i
		if i%2 == 1 {
			seed = first + i
		}
		a := simulate(t, seed, simSteps, 10)
		if i%10 == 0 {
			if b := simulate(t, seed, simSteps, 10); a.sum != b.sum {
				t.Fatalf("seed %d: two runs differ", seed)
			}
		}
		total.add(a)
	}
	t.Logf("seeds 0..%d and %d+: %+v", simSeeds, first, total)
	if total.steps < 20000 || total.crashes < 100 || total.decided < 1000 || total.actions < 500 || total.unknown < 20 ||
		total.late < 500 || total.illegal < 20 || total.resumed < 50 || total.joined < 20 || total.withdrawn < 10 ||
		total.superseded < 50 || total.undone < 20 || total.merges < 8 || total.leftover < 20 || total.windows < 50 || total.noted < 5 ||
		total.restored < 50 || total.suspended < 50 || total.answers < 50 || total.diverged < 10 {
		t.Errorf("the simulation went nowhere: %+v", total)
	}
}

type simStats struct {
	steps, crashes, decided, actions, unknown, resumed, illegal, joined, withdrawn int
	restored, suspended, answers, diverged                                         int
	superseded, undone, merges, leftover, windows, noted                           int
	late                                                                           int64
	sum                                                                            [32]byte
}

func (s *simStats) add(o simStats) {
	s.steps += o.steps
	s.crashes += o.crashes
	s.decided += o.decided
	s.actions += o.actions
	s.unknown += o.unknown
	s.resumed += o.resumed
	s.illegal += o.illegal
	s.joined += o.joined
	s.withdrawn += o.withdrawn
	s.restored += o.restored
	s.suspended += o.suspended
	s.answers += o.answers
	s.diverged += o.diverged
	s.superseded += o.superseded
	s.undone += o.undone
	s.merges += o.merges
	s.leftover += o.leftover
	s.windows += o.windows
	s.noted += o.noted
	s.late += o.late
}

type sim struct {
	t     testing.TB
	r     *rig
	rnd   *rand.Rand
	seed  uint64
	stats simStats
	hash  hash.Hash
	edges []int64 // record counts at the ends of steps: where a batch may end
	past  []Input
	calm  bool // the end: answers only
	deep  bool // every snapshot is restored at the end, and every effect counts for the sum

	calls  []string // ids at the gate
	acting []string // ids that run
	nextID int
	opened int64 // turn whose model was asked
}

// simulate makes one session of some steps, of which submits in a hundred are submits.
func simulate(t testing.TB, seed uint64, steps, submits int) simStats {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 1))
	pick := func(n int64, of ...int64) int64 { return of[rnd.IntN(len(of))] * n }
	rules := Rules{
		Judge: Judge(programJudge{guardFinal: rnd.IntN(2) == 0}), NoProgressN: rnd.IntN(5), MaxTurns: pick(1, 0, 0, 1, 4),
		Recovery: messages.RecoverResume, OnPanic: messages.PanicHalt,
		Durability: []Durability{Strict, Checkpoint, WholeUnit}[rnd.IntN(3)],
		Limits: Limits{
			ProgramWall: time.Duration(pick(1e9, 0, 1, 30)), GenerationWall: time.Duration(pick(1e9, 0, 2, 300)),
			TurnWall: time.Duration(pick(1e9, 0, 5, 900)), RunWall: time.Duration(pick(1e9, 0, 20, 3600)),
			Actions: pick(1, 0, 3, 256), Tokens: pick(1, 0, 0, 50), CostMicroUSD: pick(1, 0, 0, 50),
		},
	}
	if rnd.IntN(4) == 0 {
		rules.Judge = textJudge{}
	}
	if rnd.IntN(4) == 0 {
		rules.Recovery = messages.RecoverHalt
	}
	if rnd.IntN(2) == 0 {
		rules.OnPanic = messages.PanicFail
	}
	s := &sim{t: t, rnd: rnd, seed: seed, hash: sha256.New(), deep: steps >= simSteps || seed%16 == 0}
	defer func() {
		if t.Failed() {
			t.Logf("seed %d, step %d", seed, s.stats.steps)
		}
	}()
	s.r = newRig(t, rules, seed)
	s.step(&Open{})
	for range steps {
		s.any(submits)
	}
	s.finish()
	s.stats.late += s.r.m.Dropped()
	s.hash.Sum(s.stats.sum[:0])
	return s.stats
}

// any does one random thing.
func (s *sim) any(submits int) {
	r := s.r
	n := s.rnd.IntN(100)
	if submits > 10 && s.rnd.IntN(100) < submits-10 {
		n = 0
	}
	switch {
	case n < 10:
		s.step(&Submit{Handle: uint64(s.stats.steps), Input: messages.Input{
			Text: s.word(), Policy: policies[s.rnd.IntN(len(policies))],
			Key: []string{"", "", "", "k" + s.word()}[s.rnd.IntN(4)],
		}})
	case n < 12:
		s.step(&Cancel{By: "user", Run: int64(s.rnd.IntN(3)) * int64(s.rnd.IntN(1+int(r.m.State().Runs)))})
	case n < 32:
		s.ack()
	case n < 37:
		r.now = r.now.Add(time.Duration(s.rnd.IntN(3000)) * time.Millisecond)
		s.clocks()
	case n < 42 && len(s.past) > 0: // doubled, or long late
		s.step(s.past[s.rnd.IntN(len(s.past))])
	case n < 46: // from another turn, or from none
		ins := inputsAt(Ident{Turn: int64(s.rnd.IntN(9)), Nonce: "late"})
		s.step(ins[3+s.rnd.IntN(len(ins)-4)])
	case n < 47 && s.opened == s.id().Turn:
		ins := inputsAt(s.id())
		in := ins[s.rnd.IntN(len(ins))]
		if slices.Contains(s.acting, "#1") || !ofAction(in) { // who did not begin says nothing
			s.step(in)
		}
	case n < 50:
		s.die(s.rnd.IntN(3) == 0)
	default:
		s.answer()
	}
}

var policies = []messages.Policy{
	messages.Enqueue, messages.Enqueue, messages.Reject, "", "odd", messages.Interrupt, messages.Rollback, messages.Merge,
	messages.Merge, messages.Debounce, messages.Debounce,
}

func ofAction(in Input) bool {
	down, ok := in.(*ChildDown)
	_, ended := in.(*ActionEnded)
	return ended || ok && down.Child == ChildAction
}

func (s *sim) id() Ident {
	id, _ := s.r.m.Flight()
	return id
}

func (s *sim) word() string { return string(rune('a' + s.rnd.IntN(4))) }

// answer is what a child would say now.
func (s *sim) answer() {
	id := s.id()
	f := s.r.m.flight
	switch s.r.m.Phase() {
	case Generating:
		if s.opened != id.Turn { // the model has not been asked yet
			s.ack()
			return
		}
		s.speak(id, f)
	case Running, Draining:
		if f.program.behind() && f.program.ran && !f.program.ended && s.r.m.Phase() == Running && s.rnd.IntN(3) > 0 {
			s.repeat(id, f)
			return
		}
		s.work(id, f)
	case Suspended:
		s.decideQuestion()
	case Verifying:
		var checks []messages.TokenCheck
		switch n := s.rnd.IntN(10); {
		case n < 6:
			checks = append(checks, messages.TokenCheck{Action: "continue", KID: "k", JTI: s.word()})
		case n < 8:
			checks = append(checks, messages.TokenCheck{Action: "done"})
		case n < 9:
			checks = append(checks, messages.TokenCheck{Failure: messages.ErrTokenTTL, Reason: "EXPIRED"})
		}
		s.step(&Verified{Ident: id, Checks: checks})
	}
}

func (s *sim) speak(id Ident, f *flight) {
	switch n := s.rnd.IntN(20); {
	case n < 2:
		s.step(&ModelOpened{Ident: id})
	case n < 3:
		s.step(&ModelSwitched{Ident: id})
	case n < 4 && !s.calm:
		s.step(&ChildDown{Ident: id, Child: ChildModel})
	case n < 9 && !s.calm:
		in := &Decoded{Ident: id}
		if f.parsed.open < 0 {
			in.Events = append(in.Events, unitBegin(len(f.parsed.units)))
		}
		text := s.word() + " "
		in.Bytes, in.Events = []byte(text), append(in.Events, unitText(len(f.parsed.units), text))
		if s.rnd.IntN(2) == 0 {
			in.Events = append(in.Events, unitEnd(len(f.parsed.units)))
		}
		s.step(in)
	default:
		in := &ReplyEnd{Ident: id, Finish: messages.FinishComplete, Usage: messages.Usage{Input: 1, Output: int64(s.rnd.IntN(9))}, CostMicroUSD: int64(s.rnd.IntN(9))}
		switch n := s.rnd.IntN(10); {
		case n < 1:
			in.Finish, in.Err = messages.FinishError, "503"
		case n < 9:
			if _, text := s.r.rules.Judge.(textJudge); !text || s.rnd.IntN(4) == 0 {
				in.Events = []messages.Event{{Kind: messages.EventProgram, Text: []byte("p")}}
			}
		}
		s.step(in)
	}
}

// repeat lets a program that runs again say and call what it had; now and then it
// does not.
func (s *sim) repeat(id Ident, f *flight) {
	if s.rnd.IntN(12) == 0 && !s.calm {
		s.stats.diverged++
		s.step(&Emitted{Ident: id, Emissions: []Emission{{Text: "another world"}}})
		return
	}
	if n := f.program.rerun.called; n < f.program.rerun.calls && (f.calls[n].program.emissions == f.program.rerun.emitted || f.program.rerun.emitted == f.program.rerun.emissions) {
		s.step(&ProgramCall{Ident: id, ID: f.calls[n].ID, Name: f.calls[n].Name, Args: f.calls[n].Args, Class: f.calls[n].Class})
		return
	}
	s.step(&Emitted{Ident: id, Emissions: []Emission{f.program.emissions[f.program.rerun.emitted]}})
}

// decideQuestion answers the questions of a suspended turn, or lets time pass.
func (s *sim) decideQuestion() {
	for _, a := range s.r.m.State().Open.Turn.Actions {
		if a.Question == nil || a.Question.Answer != "" {
			continue
		}
		in := &Approve{Handle: 1, Approval: a.Question.ID, Answer: messages.GateApprove, By: "ann", Digest: sha256.Sum256([]byte(a.Args))}
		switch s.rnd.IntN(8) {
		case 0:
			in.Answer, in.Reason = messages.GateDeny, "no"
		case 1:
			in.Digest = messages.Digest{}
		case 2:
			s.r.now = s.r.now.Add(ApprovalWait)
			s.step(&Expire{})
			return
		}
		s.stats.answers++
		s.step(in)
		return
	}
}

// work is the program's, the gate's and the tools'.
func (s *sim) work(id Ident, f *flight) {
	switch n := s.rnd.IntN(20); {
	case len(s.calls) > 0 && n < 12:
		call := s.calls[0]
		s.calls = s.calls[1:]
		in := &Judged{Ident: id, ID: call, Answer: messages.GateApprove, Record: n < 3}
		switch {
		case n == 0:
			in.Answer, in.Reason = messages.GateDeny, "no"
		case n < 4 && !s.calm:
			in.Answer = messages.GateConfirm
		}
		s.step(in)
	case len(s.acting) > 0 && n < 12:
		call := s.acting[0]
		s.acting = s.acting[1:]
		if n == 0 {
			s.step(&ChildDown{Ident: id, Child: ChildAction, ID: call})
			return
		}
		states := []messages.ActionState{messages.ActionOK, messages.ActionOK, messages.ActionFailed, messages.ActionUnknown}
		s.step(&ActionEnded{
			Ident: id, ID: call, State: states[s.rnd.IntN(4)], Result: `"` + s.word() + `"`, MS: 3,
			Audits: []messages.Audit{{Who: "t", What: "w"}},
		})
	case f.program.ended || n == 18:
		s.step(&Emitted{Ident: id, Emissions: []Emission{{Text: s.word()}, {Whisper: true, Target: "self", Text: s.word()}}})
	case n == 19 && !s.calm:
		s.step(&ChildDown{Ident: id, Child: ChildInterpreter})
	case n < 16 && s.nextID < 70 && !s.calm:
		s.nextID++
		classes := []messages.Class{messages.Pure, messages.ReadOnly, messages.Idempotent, messages.Keyed, messages.Effectful, "", "odd"}
		s.step(&ProgramCall{Ident: id, ID: fmt.Sprintf("#%d", s.nextID), Name: s.word(), Args: "[]", Class: classes[s.rnd.IntN(len(classes))]})
	default:
		in := &ProgramEnd{Ident: id, Out: append(f.program.out[:len(f.program.out):len(f.program.out)], s.word()+"\n"...), Gas: 5, MagicFailed: n == 16 && !s.calm}
		if s.rnd.IntN(8) == 0 {
			codes := []messages.Code{messages.ErrQuota, messages.ErrTimeout, messages.ErrActionsRuntime, messages.ErrEnvSize}
			in.Code, in.Reason = codes[s.rnd.IntN(len(codes))], "GAS"
		}
		s.step(in)
	}
}

// clocks rings what is due, and now and then something that is not.
func (s *sim) clocks() {
	for {
		next := s.r.due(s.r.now)
		if next == nil {
			break
		}
		s.step(&Timer{Clock: next.Clock, Gen: next.Gen})
	}
	if s.rnd.IntN(4) == 0 {
		s.step(&Timer{Clock: Clock(s.rnd.IntN(int(NumClocks) + 1)), Gen: uint64(s.rnd.IntN(5))})
	}
}

// ack acknowledges up to some end of a step: the writer takes whole batches.
func (s *sim) ack() {
	for len(s.edges) > 0 && s.edges[0] <= s.r.box.Acked() {
		s.edges = s.edges[1:]
	}
	if len(s.edges) > 0 {
		s.perform(s.r.ack(s.edges[s.rnd.IntN(len(s.edges))]))
	}
}

// die restarts the process. Anywhere also cuts the log inside a batch, as a fork
// or an anchor may, but never below what was shown.
func (s *sim) die(anywhere bool) {
	s.stats.crashes++
	s.stats.late += s.r.m.Dropped()
	if n := int64(len(s.r.log)) - s.r.box.Acked(); anywhere && n > 0 {
		s.perform(s.r.ack(s.r.box.Acked() + s.rnd.Int64N(n+1)))
	}
	s.r.activate()
	s.edges, s.opened, s.calls, s.acting = nil, -1, nil, nil
	encoded(s.t, &s.r.folded) // what a restart finds can be a snapshot
	if s.r.m.Unsettled() {
		if s.rnd.IntN(8) == 0 {
			s.step(&Cancel{By: "early"})
		}
		in := s.r.recorded()
		if s.rnd.IntN(8) == 0 {
			in = &Settle{}
		}
		s.step(in)
	}
	if s.r.box.Acked() == 0 && len(s.r.log) == 0 {
		s.step(&Open{})
	}
}

func (s *sim) step(in Input) {
	s.stats.steps++
	effects, ready, err := s.r.step(in)
	if err != nil {
		s.stats.illegal++
		s.die(false) // the machine is discarded
		return
	}
	if _, timer := in.(*Timer); !timer && s.rnd.IntN(4) == 0 {
		s.past = append(s.past, in)
		if len(s.past) > 20 {
			s.past = s.past[1:]
		}
	}
	if n := int64(len(s.r.log)); len(s.edges) == 0 || s.edges[len(s.edges)-1] < n {
		s.edges = append(s.edges, n)
	}
	for _, e := range effects {
		if s.deep {
			fmt.Fprintln(s.hash, render(e, s.r.now.UTC()))
		}
		switch e := e.(type) {
		case *Persist:
			switch b := e.Record.Body.(type) {
			case *messages.TurnBegin:
				s.calls, s.acting, s.nextID = nil, nil, 0
				s.stats.merges += len(b.Merged)
			case *messages.Input:
				if a := &s.r.audit; b.Policy.Supersedes() && a.superseded[a.run] {
					s.stats.superseded++
				}
			case *messages.RunWithdrawn:
				s.stats.undone++
			case *messages.RunBegin:
				s.stats.windows += len(b.Merged)
			case *messages.RunEnd:
				if b.Next > 0 {
					s.stats.leftover++
				}
			case *messages.Note:
				s.stats.noted++
			case *messages.TurnSuspended:
				s.stats.suspended++
			case *messages.TurnRestored:
				s.calls, s.acting, s.nextID = nil, nil, s.r.audit.declared
				if b.Cause == messages.RestoreCrash {
					s.stats.restored++
				}
			case *messages.TurnDecided:
				s.stats.decided++
				if b.Resumed {
					s.stats.resumed++
				}
			case *messages.ActionEnded:
				s.stats.actions++
				if b.State == messages.ActionUnknown {
					s.stats.unknown++
				}
			}
		case *AskGate:
			s.calls = append(s.calls, e.ID)
		case *Answer:
			if e.Joined {
				s.stats.joined++
			}
		}
	}
	s.perform(ready)
}

func (s *sim) perform(ready []Effect) {
	for _, e := range ready {
		switch e := e.(type) {
		case *OpenModel:
			s.opened = e.Turn
		case *StartAction:
			s.acting = append(s.acting, e.ID)
		case *CancelAction:
			if e.Withdrawn {
				s.stats.withdrawn++
				s.step(&ActionEnded{Ident: e.Ident, ID: e.ID, State: messages.ActionCancelled, Reason: reasonCancelled})
			}
		}
	}
}

// finish lets everything come to its end: every accepted input has one run.end.
func (s *sim) finish() {
	s.calm = true
	for i := 0; s.r.m.Phase() != Idle || s.r.m.State().Window != nil; i++ {
		if i > 5000 {
			s.t.Fatalf("seed %d: the session does not come to rest, in %s", s.seed, s.r.m.Phase())
		}
		if i%50 == 49 {
			s.step(&Cancel{By: "end"})
		}
		if i%10 == 9 {
			s.r.now = s.r.now.Add(time.Second)
			s.clocks()
		}
		s.perform(s.r.ack(int64(len(s.r.log))))
		s.answer()
	}
	s.perform(s.r.ack(int64(len(s.r.log))))
	a := &s.r.audit
	if len(a.inputs) > 0 {
		s.t.Fatalf("seed %d: at rest, and inputs %v were never taken up", s.seed, a.inputs)
	}
	if len(a.waiting) > 0 || a.run != 0 || a.turn != 0 {
		s.t.Fatalf("seed %d: at rest, and runs %v have no end", s.seed, a.waiting)
	}
	if !s.r.box.Idle() || s.r.shown != int64(len(s.r.log)) {
		s.t.Fatalf("seed %d: %d of %d records shown", s.seed, s.r.shown, len(s.r.log))
	}
	st := s.r.m.State()
	encoded(s.t, st)
	if st.Open != nil || st.Queue != nil || st.Requests != a.requests || st.Runs != int64(len(a.over)) || st.Turn != a.lastTurn {
		s.t.Fatalf("seed %d: the state at rest: %s", s.seed, encoded(s.t, st))
	}
	if s.deep {
		s.snapshots()
	}
}

// snapshots restores from the snapshot at some records and the tail.
func (s *sim) snapshots() {
	want := string(encoded(s.t, s.r.m.State()))
	var head State
	for i := 0; i <= len(s.r.log); i++ {
		if i > 0 {
			if err := head.Apply(s.r.log[i-1]); err != nil {
				s.t.Fatal(err)
			}
		}
		if i%7 != 0 && i+20 < len(s.r.log) {
			continue
		}
		mid, err := DecodeState(encoded(s.t, &head))
		if err != nil {
			s.t.Fatalf("seed %d: snapshot at %d: %v\n%s", s.seed, i, err, encoded(s.t, &head))
		}
		tail := s.r.log[i:]
		if i+60 < len(s.r.log) && i%49 != 0 {
			tail = nil // the round trip alone
			if a, b := string(encoded(s.t, &mid)), string(encoded(s.t, &head)); a != b {
				s.t.Fatalf("seed %d: round trip at %d\n%s\n%s", s.seed, i, a, b)
			}
			continue
		}
		for _, rec := range tail {
			if err := mid.Apply(rec); err != nil {
				s.t.Fatal(err)
			}
		}
		if got := string(encoded(s.t, &mid)); got != want {
			s.t.Fatalf("seed %d: restored from %d\n%s\n%s", s.seed, i, got, want)
		}
	}
}
