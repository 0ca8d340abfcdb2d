package turn

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// rig is a machine with what stands around it: a journal that acknowledges on
// demand, the outbox, timers, and a twin machine that must agree byte for byte.
// It checks the room's invariants at every step.
type rig struct {
	t     testing.TB
	rules Rules
	m     *Machine
	twin  *Machine
	box   Outbox
	now   time.Time
	seed  uint64
	bare  bool // step the machine alone, without twin and checks: for benchmarks

	log    []*messages.Record // of the journal: durable up to acked, then on their way
	audit  audit
	folded State // of log
	groups int   // steps with an eager record since the last look

	blobs  map[messages.Digest]string
	heard  map[int64][]hearing // by turn: what a decoder would say again
	timers [NumClocks]*SetTimer
	shown  int64 // last record published, over all activations
}

// hearing is a push of reply bytes, or their end, that the machine took.
type hearing struct {
	bytes  int
	events []Event
	end    bool
}

// Event is short for what a decoder says.
type Event = messages.Event

var rigKey = messages.SessionKey{Tenant: "t", User: "u", ID: "s"}

func newRig(t testing.TB, rules Rules, seed uint64) *rig {
	r := &rig{t: t, rules: rules, seed: seed, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("east", 3600))}
	r.activate()
	return r
}

func nonces(seed uint64) *rand.ChaCha8 {
	var key [32]byte
	for i := range 8 {
		key[i] = byte(seed >> (8 * i))
	}
	return rand.NewChaCha8(key)
}

// activate makes the machine from the durable part of the log, as a restart does.
func (r *rig) activate() {
	r.seed++
	r.log = r.log[:r.box.Acked()]
	r.folded, r.audit = State{}, audit{streams: r.rules.Judge.Traits().InStreamActions}
	for _, rec := range r.log {
		r.fold(rec)
	}
	live, twin := foldOf(r.t, r.log), foldOf(r.t, r.log)
	cfg := Config{Key: rigKey, Rules: &r.rules}
	r.m, r.twin = New(cfg, live, nonces(r.seed)), New(cfg, twin, nonces(r.seed))
	r.box = NewOutbox(int64(len(r.log)))
	r.timers = [NumClocks]*SetTimer{}
}

func foldOf(t testing.TB, log []*messages.Record) State {
	t.Helper()
	var s State
	for _, rec := range log {
		if err := s.Apply(rec); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (r *rig) fold(rec *messages.Record) {
	if err := r.audit.apply(rec); err != nil {
		r.t.Fatalf("record %d %s: %v", rec.Seq, rec.Body.Kind(), err)
	}
	if err := r.folded.Apply(rec); err != nil {
		r.t.Fatal(err)
	}
}

// step feeds the machine and its twin. ready is what the outbox let through.
func (r *rig) step(in Input) (effects, ready []Effect, err error) {
	if rang, ok := in.(*Timer); ok && rang.Clock < NumClocks && r.timers[rang.Clock] != nil && r.timers[rang.Clock].Gen == rang.Gen {
		r.timers[rang.Clock] = nil
	}
	if r.bare {
		if effects, err = r.m.Step(r.now, in); err != nil {
			return nil, nil, err
		}
		for _, e := range effects {
			if p, ok := e.(*Persist); ok {
				r.log = append(r.log, p.Record)
			}
		}
		return effects, r.box.Add(effects, nil), nil
	}
	r.hear(in)
	effects, err = r.m.Step(r.now, in)
	again, err2 := r.twin.Step(r.now, in)
	if !reflect.DeepEqual(effects, again) || !reflect.DeepEqual(err, err2) {
		r.t.Fatalf("%s: the same inputs gave other effects\n%v\n%v", in.input(), effects, again)
	}
	if err != nil {
		var e *messages.Error
		if !errors.As(err, &e) || e.Code == "" {
			r.t.Fatalf("%s: an error without a code: %v", in.input(), err)
		}
		if len(effects) > 0 {
			r.t.Fatalf("%s: effects beside the error %v", in.input(), err)
		}
		return nil, nil, err
	}
	eager := false
	for _, e := range effects {
		switch e := e.(type) {
		case *Persist:
			rec := e.Record
			for _, b := range e.Blobs {
				if r.blobs == nil {
					r.blobs = map[messages.Digest]string{}
				}
				r.blobs[b.Digest] = string(b.Data)
			}
			if rec.TS.Location() != time.UTC || !rec.TS.Equal(r.now) {
				r.t.Fatalf("record %d: ts %v at %v", rec.Seq, rec.TS, r.now)
			}
			r.log = append(r.log, rec)
			r.fold(rec)
			eager = eager || e.Hold == 0
		case *SetTimer:
			r.timers[e.Clock] = e
		case *StopTimer:
			r.timers[e.Clock] = nil
		}
		if e.after() > int64(len(r.log)) {
			r.t.Fatalf("%s waits for record %d of %d", render(e, r.now), e.after(), len(r.log))
		}
	}
	if eager {
		r.groups++
	}
	r.agree(in.input())
	ready = r.box.Add(effects, nil)
	r.released(ready)
	return effects, ready, nil
}

// hear remembers what the machine hears of a reply.
func (r *rig) hear(in Input) {
	id, _ := r.m.Flight()
	if r.m.Phase() != Generating {
		return
	}
	if r.heard == nil {
		r.heard = map[int64][]hearing{}
	}
	switch in := in.(type) {
	case *Decoded:
		if in.Ident == id {
			r.heard[id.Turn] = append(r.heard[id.Turn], hearing{bytes: len(in.Bytes), events: in.Events})
		}
	case *ReplyEnd:
		if in.Ident == id {
			r.heard[id.Turn] = append(r.heard[id.Turn], hearing{events: in.Events, end: true})
		}
	}
}

// recorded is the input of a restart that reads the open turn from the journal.
func (r *rig) recorded() *Settle {
	in := &Settle{}
	if r.folded.Open == nil {
		return in
	}
	in.Run = r.log[r.folded.Open.Seq-1:]
	if r.folded.Open.Turn == nil {
		return in
	}
	t := r.folded.Open.Turn
	in.Turn = append(in.Turn, r.log[t.Seq-1:]...)
	left := 0
	for _, rec := range in.Turn {
		if b, ok := rec.Body.(*messages.FeedInjected); ok {
			if in.Feeds == nil {
				in.Feeds = map[messages.Digest]string{}
			}
			in.Feeds[b.Digest] = r.blobs[b.Digest]
		}
		if c, ok := rec.Body.(*messages.ModelChunk); ok && rec.Turn == t.Index {
			left += len(c.Bytes)
		}
	}
	for _, h := range r.heard[t.Index] {
		if left -= h.bytes; !t.Replied && (left < 0 || h.end) {
			break
		}
		in.Events = append(in.Events, h.events...)
	}
	return in
}

// agree checks the machine against the records.
func (r *rig) agree(what string) {
	if !reflect.DeepEqual(r.m.State(), &r.folded) { // what is the same is written the same
		if live, folded := encoded(r.t, r.m.State()), encoded(r.t, &r.folded); !bytes.Equal(live, folded) {
			r.t.Fatalf("%s: the live state is not the fold of the records\n%s\n%s", what, live, folded)
		}
	}
	id, flying := r.m.Flight()
	if flying != (r.m.Phase() != Idle) {
		r.t.Fatalf("%s: phase %s, in flight %v", what, r.m.Phase(), flying)
	}
	if flying && (r.audit.turn != id.Turn || r.audit.nonce != id.Nonce) {
		r.t.Fatalf("%s: turn %d in flight, %d in the records", what, id.Turn, r.audit.turn)
	}
	if !flying && r.m.step != nil {
		r.t.Fatalf("%s: an idle machine keeps its last effects", what)
	}
	if s := r.m.State(); s.Open == nil && s.Queue != nil && len(s.Queue) == 0 {
		r.t.Fatalf("%s: an idle state keeps an empty queue", what)
	}
	for c, at := range r.timers {
		if at != nil && !flying && !r.m.Unsettled() && Clock(c) != ClockDebounce {
			r.t.Fatalf("%s: %s runs in an idle session", what, Clock(c))
		}
	}
	if w := r.m.State().Window; (w != nil) != (r.timers[ClockDebounce] != nil) && !r.m.Unsettled() && what != "Timer" {
		r.t.Fatalf("%s: a window %v, its clock %v", what, w, r.timers[ClockDebounce])
	}
}

func (r *rig) ack(seq int64) []Effect {
	ready := r.box.Ack(seq, nil)
	r.released(ready)
	return ready
}

// released checks the order contract on what the outbox lets through.
func (r *rig) released(ready []Effect) {
	if r.bare {
		return
	}
	acked := r.box.Acked()
	early := func(what string, seq int64) {
		if seq > acked {
			r.t.Fatalf("%s before its record %d is durable (%d)", what, seq, acked)
		}
	}
	for _, e := range ready {
		switch e := e.(type) {
		case *Publish:
			if rec := e.Update.Record; rec != nil {
				early("publish", rec.Seq)
				if rec.Seq != r.shown+1 {
					r.t.Fatalf("record %d published after %d", rec.Seq, r.shown)
				}
				r.shown = rec.Seq
				continue
			}
			d := e.Update.Delta
			if d.Seq != r.shown {
				r.t.Fatalf("delta says record %d was the last one, it was %d", d.Seq, r.shown)
			}
			if r.rules.Durability == Strict {
				if n := r.chunked(d.Unit.Turn); n < d.Off {
					r.t.Fatalf("a strict delta shows %d bytes, %d are durable", d.Off, n)
				}
			}
		case *Answer:
			if e.Err == nil {
				early("answer", e.Seq)
				early("answer", e.After)
			}
		case *OpenModel:
			early("open-model", r.find(messages.KindTurnBegin, e.Turn, ""))
			if r.audit.turn != e.Turn {
				r.t.Fatalf("the model of turn %d is opened in turn %d", e.Turn, r.audit.turn)
			}
		case *StartAction:
			if !r.audit.open[e.ID] && !r.audit.outlived[e.Turn][e.ID] {
				r.t.Fatalf("action %s begins after its end", e.ID)
			}
			if e.Class.Durable() {
				early("start-action", r.find(messages.KindActionStarted, e.Turn, e.ID))
			}
		}
	}
}

func (r *rig) find(kind messages.Kind, turn int64, id string) int64 {
	for i := len(r.log) - 1; i >= 0; i-- {
		rec := r.log[i]
		if rec.Turn == turn && rec.Body.Kind() == kind {
			if a, ok := rec.Body.(*messages.ActionStarted); !ok || a.ID == id {
				return rec.Seq
			}
		}
	}
	r.t.Fatalf("no %s of turn %d", kind, turn)
	return 0
}

// chunked counts the reply bytes of a turn in durable chunk records.
func (r *rig) chunked(turn int64) (n int64) {
	for i := r.box.Acked() - 1; i >= 0 && (r.log[i].Turn == 0 || r.log[i].Turn >= turn); i-- {
		if c, ok := r.log[i].Body.(*messages.ModelChunk); ok && r.log[i].Turn == turn {
			n += int64(len(c.Bytes))
		}
	}
	return n
}

// due is the armed clock that runs out first, if one does until then.
func (r *rig) due(until time.Time) *SetTimer {
	var next *SetTimer
	for _, s := range r.timers {
		if s != nil && !s.At.After(until) && (next == nil || s.At.Before(next.At)) {
			next = s
		}
	}
	return next
}

func encoded(t testing.TB, s *State) []byte {
	t.Helper()
	b, err := EncodeState(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// audit reads a journal as a stranger would and finds what no journal may hold.
// What an audit has seen of a block.
const (
	blockOpen = 1 << iota
	blockDecided
	blockEnded
)

type audit struct {
	streams       bool // actions wait for each other
	seq, lastTurn int64
	turn          int64 // open, 0 none
	nonce         string
	run           int64            // open, 0 none
	open          map[string]bool  // actions of the turn without an end
	started       map[string]int64 // attempts
	class         map[string]messages.Class
	questions     map[string]bool // open ones
	suspended     bool
	ended         map[string]bool
	detached      map[string]bool           // fire_and_forget actions of the turn
	outlived      map[int64]map[string]bool // those that outlived their turn, by turn
	waiting       map[int64]bool            // accepted, without an end
	over          map[int64]bool
	cancelled     map[int64]bool
	declared      int
	blocks        map[string]int // control blocks of the turn
	requests      int64
	inputs        map[int64]int64 // accepted and not taken up: the run each is for
	begun         map[int64]bool
	withdrawn     map[int64]bool
	superseded    map[int64]bool
}

// take marks inputs as taken up by run.
func (a *audit) take(run int64, seqs ...int64) error {
	for _, seq := range seqs {
		if of, ok := a.inputs[seq]; !ok || of != run {
			return fmt.Errorf("run %d takes up input %d, which is for %d", run, seq, of)
		}
		delete(a.inputs, seq)
	}
	return nil
}

// left are the inputs that wait for a run.
func (a *audit) left(run int64) (n int) {
	for _, of := range a.inputs {
		if of == run {
			n++
		}
	}
	return n
}

func (a *audit) apply(r *messages.Record) error {
	if r.Seq != a.seq+1 {
		return fmt.Errorf("seq %d after %d", r.Seq, a.seq)
	}
	a.seq = r.Seq
	if a.waiting == nil {
		a.waiting, a.over, a.cancelled = map[int64]bool{}, map[int64]bool{}, map[int64]bool{}
		a.inputs, a.begun, a.withdrawn, a.superseded = map[int64]int64{}, map[int64]bool{}, map[int64]bool{}, map[int64]bool{}
	}
	inTurn := func() error {
		if r.Turn == 0 || r.Turn != a.turn || r.Run == 0 || r.Run != a.run {
			return fmt.Errorf("run %d turn %d, open are run %d turn %d", r.Run, r.Turn, a.run, a.turn)
		}
		return nil
	}
	switch b := r.Body.(type) {
	case *messages.SessionOpened:
		if r.Seq != 1 || r.Run != 0 || r.Turn != 0 {
			return errors.New("not the first record")
		}
	case *messages.Input:
		joins := a.waiting[r.Run] && (b.Policy == messages.Merge || b.Policy == messages.Debounce && !a.begun[r.Run])
		if a.over[r.Run] || !joins && r.Run != int64(len(a.waiting)+len(a.over)+1) || r.Turn != 0 {
			return fmt.Errorf("run ordinal %d under %s", r.Run, b.Policy)
		}
		if b.Policy == messages.Merge && a.run != 0 && r.Run != a.run {
			return fmt.Errorf("merged into run %d, in flight is %d", r.Run, a.run)
		}
		a.waiting[r.Run] = true
		a.inputs[r.Seq] = r.Run
		if b.Policy.Supersedes() && a.run != 0 {
			a.cancelled[a.run], a.superseded[a.run] = true, true
			if b.Policy == messages.Rollback {
				a.withdrawn[a.run] = true
			}
		}
	case *messages.RunBegin:
		if a.run != 0 || !a.waiting[r.Run] || r.Turn != 0 {
			return fmt.Errorf("run %d begins, %d is open", r.Run, a.run)
		}
		a.run, a.begun[r.Run] = r.Run, true
		return a.take(r.Run, append([]int64{b.Input}, b.Merged...)...)
	case *messages.RunWithdrawn:
		if a.run != r.Run || a.turn != 0 || !a.waiting[b.By] && !a.over[b.By] || b.By == r.Run {
			return fmt.Errorf("run %d is withdrawn by %d, open is %d", r.Run, b.By, a.run)
		}
		a.withdrawn[r.Run] = false // as it should
	case *messages.Note:
		if a.run != r.Run || a.turn != 0 || b.Text == "" {
			return fmt.Errorf("a note on run %d: %q", r.Run, b.Text)
		}
	case *messages.RunEnd:
		if a.withdrawn[r.Run] {
			return fmt.Errorf("run %d was rolled back and is not withdrawn", r.Run)
		}
		if !a.begun[r.Run] {
			first := int64(0) // it ends with all its inputs, the first of which it does not name
			for seq, of := range a.inputs {
				if of == r.Run && !slices.Contains(b.Merged, seq) {
					first = seq
				}
			}
			if err := a.take(r.Run, append(b.Merged, first)...); err != nil {
				return err
			}
		}
		if n := a.left(r.Run); (n > 0) != (b.Next > 0) || b.Next > 0 && b.Next != int64(len(a.waiting)+len(a.over)+1) {
			return fmt.Errorf("run %d ends with %d inputs for it, next is %d", r.Run, n, b.Next)
		}
		if b.Next > 0 {
			a.waiting[b.Next] = true
			for seq, of := range a.inputs {
				if of == r.Run {
					a.inputs[seq] = b.Next
				}
			}
		}
		if a.run == r.Run && a.turn != 0 || !a.waiting[r.Run] || a.over[r.Run] {
			return fmt.Errorf("run %d ends in turn %d", r.Run, a.turn)
		}
		if b.Decision == messages.Continue || (b.Decision == messages.Halt) != (b.Reason != "") {
			return fmt.Errorf("run ends with %s %s", b.Decision, b.Reason)
		}
		delete(a.waiting, r.Run)
		a.over[r.Run] = true
		if a.run == r.Run {
			a.run = 0
		}
	case *messages.TurnBegin:
		if a.turn != 0 || r.Turn != a.lastTurn+1 || r.Run != a.run || a.run == 0 || b.Nonce == "" {
			return fmt.Errorf("turn %d of run %d begins; turn %d of run %d is open", r.Turn, r.Run, a.turn, a.run)
		}
		if a.cancelled[r.Run] {
			return fmt.Errorf("run %d was cancelled and goes on", r.Run)
		}
		a.turn, a.lastTurn, a.nonce = r.Turn, r.Turn, b.Nonce
		a.open, a.started, a.ended, a.declared = map[string]bool{}, map[string]int64{}, map[string]bool{}, 0
		a.class, a.questions, a.suspended = map[string]messages.Class{}, map[string]bool{}, false
		a.detached, a.blocks = map[string]bool{}, nil
		if err := a.take(r.Run, b.Merged...); err != nil || a.left(r.Run) > 0 && b.Pass > 1 {
			return fmt.Errorf("turn %d takes up %v, left are %d: %w", r.Turn, b.Merged, a.left(r.Run), err)
		}
	case *messages.TurnDecided:
		if err := inTurn(); err != nil {
			return err
		}
		for id := range a.open {
			if a.detached[id] && a.started[id] > 0 {
				if a.outlived == nil {
					a.outlived = map[int64]map[string]bool{}
				}
				if a.outlived[r.Turn] == nil {
					a.outlived[r.Turn] = map[string]bool{}
				}
				a.outlived[r.Turn][id] = true
				a.declared--
				delete(a.open, id)
			}
		}
		for id, was := range a.blocks {
			if was&blockEnded == 0 {
				return fmt.Errorf("decided while block %s is open", id)
			}
		}
		if len(a.open) > 0 || len(a.ended) != a.declared {
			return fmt.Errorf("decided with %d open actions of %d", len(a.open), a.declared)
		}
		if b.TurnIndex != r.Turn || (b.Decision == messages.Halt) != (b.Reason != "") || b.Decision == "" {
			return fmt.Errorf("decision %q %q of turn %d", b.Decision, b.Reason, b.TurnIndex)
		}
		a.turn = 0
	case *messages.BlockBegin:
		if a.blocks[b.ID] != 0 || b.Block != "" && a.blocks[b.Block]&(blockOpen|blockEnded) == 0 {
			return fmt.Errorf("block %s begins twice, or in one that has not", b.ID)
		}
		if a.blocks == nil {
			a.blocks = map[string]int{}
		}
		a.blocks[b.ID] = blockOpen
		return inTurn()
	case *messages.BlockDecided:
		if a.blocks[b.ID] != blockOpen {
			return fmt.Errorf("block %s is decided out of place", b.ID)
		}
		a.blocks[b.ID] |= blockDecided
		return inTurn()
	case *messages.BlockEnded:
		if a.blocks[b.ID]&blockEnded != 0 || a.blocks[b.ID] == 0 || b.State == messages.ActionOK && a.blocks[b.ID]&blockDecided == 0 {
			return fmt.Errorf("block %s has no place for a terminal record", b.ID)
		}
		a.blocks[b.ID] |= blockEnded
		return inTurn()
	case *messages.ActionDeclared:
		if b.Block != "" && a.blocks[b.Block] == 0 {
			return fmt.Errorf("action %s stands in block %s, which has not begun", b.ID, b.Block)
		}
		if a.open[b.ID] || a.ended[b.ID] {
			return fmt.Errorf("action %s declared twice", b.ID)
		}
		a.open[b.ID] = true
		a.class[b.ID] = b.Class
		a.detached[b.ID] = b.Mode == messages.ModeFireAndForget
		a.declared++
		return inTurn()
	case *messages.ActionStarted:
		if a.outlived[r.Turn][b.ID] {
			return nil
		}
		again := a.started[b.ID] > 0 && b.Failure == ""
		if !a.open[b.ID] || b.Attempt != a.started[b.ID]+1 || again && a.class[b.ID] == messages.Effectful || a.suspended || b.Key == "" {
			return fmt.Errorf("action %s started, attempt %d", b.ID, b.Attempt)
		}
		a.started[b.ID]++
		return inTurn()
	case *messages.RelicChanged:
		if a.outlived[r.Turn][b.ID] {
			return nil
		}
		if !a.open[b.ID] || a.started[b.ID] == 0 || b.Key == "" {
			return fmt.Errorf("action %s, which does not run, changes %s", b.ID, b.Relic)
		}
		return inTurn()
	case *messages.ActionApproval:
		if b.Approval == "" {
			return inTurn()
		}
		if asks := b.State == messages.GateConfirm; asks == a.questions[b.Approval] || !a.open[b.ID] || a.started[b.ID] > 0 || asks && b.Expires == "" {
			return fmt.Errorf("question %s about %s: %s", b.Approval, b.ID, b.State)
		}
		a.questions[b.Approval] = b.State == messages.GateConfirm
		return inTurn()
	case *messages.TurnSuspended:
		if a.suspended || len(b.Waiting) == 0 || b.Until == "" {
			return fmt.Errorf("suspended again, or for nothing: %v until %q", b.Waiting, b.Until)
		}
		for id := range a.open {
			if !a.detached[id] && (!slices.Contains(b.Waiting, id) && !a.streams || a.started[id] > 0) {
				return fmt.Errorf("suspended while action %s is open", id)
			}
		}
		a.suspended = true
		return inTurn()
	case *messages.TurnRestored:
		if (b.Cause == messages.RestoreApproval) != a.suspended && b.Cause != messages.RestoreRollback || b.Nonce == "" || b.Nonce == a.nonce {
			return fmt.Errorf("restored by %q, suspended %v, nonce %q", b.Cause, a.suspended, b.Nonce)
		}
		a.suspended, a.nonce = false, b.Nonce
		return inTurn()
	case *messages.ActionEnded:
		if a.outlived[r.Turn][b.ID] {
			delete(a.outlived[r.Turn], b.ID)
			return nil
		}
		if !a.open[b.ID] {
			return fmt.Errorf("action %s has no place for a terminal record", b.ID)
		}
		if b.State == messages.ActionUnknown && a.started[b.ID] == 0 {
			return fmt.Errorf("action %s is unknown and never began", b.ID)
		}
		delete(a.open, b.ID)
		a.ended[b.ID] = true
		return inTurn()
	case *messages.ModelRequest:
		a.requests++
		return inTurn()
	case *messages.Control:
		if b.What == messages.ControlTimer && b.Name == ClockDebounce.String() {
			if !a.waiting[r.Run] || a.begun[r.Run] || r.Turn != 0 {
				return fmt.Errorf("the window of run %d is closed", r.Run)
			}
			return nil
		}
		if b.What != messages.ControlCancel {
			return inTurn()
		}
		if a.cancelled[r.Run] || r.Run != a.run {
			return fmt.Errorf("cancel of run %d", r.Run)
		}
		a.cancelled[r.Run] = true
	case *messages.Audit:
	default:
		return inTurn()
	}
	return nil
}
