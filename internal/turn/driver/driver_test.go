package driver

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/plain"
)

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

var other = turn.Ident{Turn: 77, Nonce: "other"}

// newDriver drives a machine of the plain dialect whose session does not exist yet.
func newDriver(t *testing.T, rules turn.Rules) *Driver {
	t.Helper()
	dialect := plain.Dialect{}
	rules.Dialect, rules.Judge, rules.Rendering = dialect.Name(), dialect, messages.Rendering
	return drives(rules)
}

func drives(rules turn.Rules) *Driver {
	var seed [32]byte
	m := turn.New(turn.Config{Key: messages.SessionKey{Tenant: "t", User: "u", ID: "s"}, Rules: &rules}, turn.State{}, rand.NewChaCha8(seed))
	d := New(m, 0)
	return &d
}

// shell is what a test does with a driver: it keeps what it is told.
type shell struct {
	t        *testing.T
	d        *Driver
	now      time.Time
	followed bool
	took     []string // duties and effects
	batches  []Batch
	steps    []string
	gate     messages.GateAnswer // to every question
	acked    int                 // of batches
	started  []*turn.StartAction
}

func (s *shell) run(inputs ...turn.Input) {
	s.t.Helper()
	if !s.d.Begin(inputs...) {
		s.t.Fatal("the loop runs already")
	}
	defer s.d.End()
	for n := 0; ; n++ {
		if n > 10_000 {
			s.t.Fatal("the loop does not end")
		}
		switch s.d.Next(s.followed) {
		case Idle:
			return
		case Send:
			s.send()
		case Step:
			stepped, err := s.d.Step(s.now)
			if err != nil {
				s.t.Fatal(err)
			}
			s.steps = append(s.steps, fmt.Sprintf("%T", stepped.Input))
			s.perform(stepped.Ready)
		}
	}
}

func (s *shell) send() {
	s.t.Helper()
	s.d.Sealed()
	b, ok := s.d.Batch()
	if !ok {
		s.t.Fatal("nothing is held, and something is to be sent")
	}
	s.batches = append(s.batches, b)
}

func (s *shell) perform(effects []turn.Effect) {
	for _, e := range effects {
		if duty := s.d.Take(e); duty != Nothing {
			s.took = append(s.took, fmt.Sprintf("%s %T", duty, e))
		}
		switch e := e.(type) {
		case *turn.AskGate:
			s.d.Queue(&turn.Judged{Ident: e.Ident, ID: e.ID, Answer: s.gate})
		case *turn.StartAction:
			s.started = append(s.started, e)
		}
	}
}

func (s *shell) ack(seq int64) {
	s.perform(s.d.Acked(Position{Seq: seq}))
}

// ackAll has the journal answer for everything, also for what is lazy.
func (s *shell) ackAll() {
	s.t.Helper()
	for s.acked < len(s.batches) || s.d.Held() > 0 {
		if s.d.Held() > 0 {
			s.send()
		}
		recs := s.batches[s.acked].Records
		s.acked++
		s.ack(recs[len(recs)-1].Seq)
		s.run()
	}
}

// open opens the session and begins a run; the model of its first turn is asked.
func (s *shell) open() turn.Ident {
	s.t.Helper()
	s.run(&turn.Open{}, &turn.Submit{Handle: 1, Input: messages.Input{Text: "hello", User: "u", Policy: messages.Enqueue}})
	s.ackAll()
	id, ok := s.d.Turn()
	if !ok {
		s.t.Fatal("no turn has begun")
	}
	return id
}

func lazy(seq int64, hold time.Duration, body messages.Body, blob int) *turn.Persist {
	p := &turn.Persist{Record: &messages.Record{Seq: seq, Body: body}, Hold: hold}
	if blob > 0 {
		p.Blobs = []messages.Blob{{Data: make([]byte, blob)}}
	}
	return p
}

// Which records go at once, and when the others do.
func TestBuffer(t *testing.T) {
	note := &messages.Note{}
	several := func(n int) (all []turn.Effect) {
		for i := range n {
			all = append(all, lazy(int64(i+1), time.Second, note, 0))
		}
		return all
	}
	for name, c := range map[string]struct {
		effects  []turn.Effect
		followed bool
		want     Op
		due      time.Duration // 0 is never
	}{
		"nothing":                         {nil, false, Idle, 0},
		"an eager record":                 {[]turn.Effect{lazy(1, 0, note, 0)}, false, Send, 0},
		"a lazy record":                   {[]turn.Effect{lazy(1, time.Second, note, 0)}, false, Idle, time.Second},
		"an eager one behind a lazy one":  {[]turn.Effect{lazy(1, time.Second, note, 0), lazy(2, 0, note, 0)}, false, Send, time.Second},
		"the shortest hold counts":        {[]turn.Effect{lazy(1, time.Second, note, 0), lazy(2, time.Millisecond, note, 0), lazy(3, time.Second, note, 0)}, false, Idle, time.Millisecond},
		"31 small records":                {several(31), false, Idle, time.Second},
		"32 small records":                {several(32), false, Send, time.Second},
		"blobs below the limit":           {[]turn.Effect{lazy(1, time.Second, note, 2*turn.LazyBytes-recordBytes-1)}, false, Idle, time.Second},
		"blobs at the limit":              {[]turn.Effect{lazy(1, time.Second, note, 2*turn.LazyBytes-recordBytes)}, false, Send, time.Second},
		"a system message does not count": {[]turn.Effect{lazy(1, time.Second, &messages.ModelRequest{}, 3*turn.LazyBytes)}, false, Idle, time.Second},
		"instructions do not count":       {[]turn.Effect{lazy(1, time.Second, &messages.FeedInjected{ID: messages.InstructionsFeed}, 3*turn.LazyBytes)}, false, Idle, time.Second},
		"another feed counts":             {[]turn.Effect{lazy(1, time.Second, &messages.FeedInjected{ID: "clock"}, 3*turn.LazyBytes)}, false, Send, time.Second},
		"a note, followed":                {[]turn.Effect{lazy(1, time.Second, note, 0)}, true, Idle, time.Second},
		"a declaration":                   {[]turn.Effect{lazy(1, time.Second, &messages.ActionDeclared{}, 0)}, false, Idle, time.Second},
		"a declaration, followed":         {[]turn.Effect{lazy(1, time.Second, &messages.ActionDeclared{}, 0)}, true, Send, time.Second},
		"a start, followed":               {[]turn.Effect{lazy(1, time.Second, &messages.ActionStarted{}, 0)}, true, Send, time.Second},
		"an end, followed":                {[]turn.Effect{lazy(1, time.Second, &messages.ActionEnded{}, 0)}, true, Idle, time.Second},
		"hurry":                           {[]turn.Effect{lazy(1, time.Second, note, 0), turn.Hurry{}}, false, Send, time.Second},
		"hurry, and nothing held":         {[]turn.Effect{turn.Hurry{}}, false, Idle, 0},
		"hurry, and then a lazy record":   {[]turn.Effect{turn.Hurry{}, lazy(1, time.Second, note, 0)}, false, Idle, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDriver(t, turn.Rules{})
			d.Begin()
			d.working().now = t0
			for _, e := range c.effects {
				d.Take(e)
			}
			if got := d.Next(c.followed); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			var due time.Time
			if c.due > 0 {
				due = t0.Add(c.due)
			}
			if at := d.Wake(); !at.Equal(due) {
				t.Errorf("due at %s, want %s", at, due)
			}
			if c.due > 0 && (d.Overdue(due.Add(-1)) || !d.Overdue(due)) {
				t.Errorf("overdue %v before and %v at %s", d.Overdue(due.Add(-1)), d.Overdue(due), due)
			}
			if got, want := d.Pending(), d.Held() > 0; got != want {
				t.Errorf("pending is %v with %d held", got, d.Held())
			}
		})
	}
}

// A batch has everything that is held, and leaves nothing of it behind.
func TestBatch(t *testing.T) {
	d := newDriver(t, turn.Rules{})
	if _, ok := d.Batch(); ok || d.Pending() || d.Unsealed() != nil {
		t.Error("a batch of nothing")
	}
	d.Take(lazy(8, time.Second, &messages.ActionDeclared{}, 10))
	d.Sealed()
	d.Take(lazy(9, 0, &messages.Note{}, 20))
	if n := d.Unsealed(); len(n) != 1 || n[0].Seq != 9 {
		t.Errorf("unsealed: %v", n)
	}
	d.Sealed()
	if n := d.Unsealed(); len(n) != 0 {
		t.Errorf("unsealed: %v", n)
	}
	b, ok := d.Batch()
	if !ok || b.Base != 7 || len(b.Records) != 2 || len(b.Blobs) != 2 {
		t.Errorf("the batch is %+v", b)
	}
	if d.Held() != 0 || d.Awaited() || !d.Wake().IsZero() || !d.Pending() || d.Next(true) != Idle {
		t.Errorf("left: %d held, awaited %v, wake %s, pending %v", d.Held(), d.Awaited(), d.Wake(), d.Pending())
	}
	d.Take(lazy(10, time.Second, &messages.Note{}, 0))
	if n := d.Unsealed(); len(n) != 1 {
		t.Errorf("unsealed: %v", n)
	}
	if b, _ := d.Batch(); b.Base != 9 || len(b.Blobs) != 0 {
		t.Errorf("the next batch is %+v", b)
	}
	d.Acked(Position{Seq: 9})
	if !d.Pending() {
		t.Error("one of two batches has its answer, and nothing is pending")
	}
	d.Acked(Position{Seq: 10})
	if d.Pending() {
		t.Error("both batches have their answers, and something is pending")
	}
}

// What is durable is the last record that was acknowledged.
func TestDurable(t *testing.T) {
	d := newDriver(t, turn.Rules{})
	if _, ok := d.Durable(); ok || d.DurableSeq() != 0 {
		t.Error("something is durable in a session that does not exist")
	}
	d.Take(lazy(1, 0, &messages.Note{}, 0))
	d.Batch()
	if _, ok := d.Durable(); ok {
		t.Error("durable before the answer")
	}
	at := Position{Seq: 1, Hash: messages.Digest{5}}
	d.Acked(at)
	if got, ok := d.Durable(); !ok || got != at || d.DurableSeq() != 1 {
		t.Errorf("durable is %v, %v", got, ok)
	}
}

// A caller that waits for the journal hears when nothing is pending, once.
func TestFlush(t *testing.T) {
	d := newDriver(t, turn.Rules{})
	for seq := range int64(2) {
		d.Take(lazy(seq+1, 0, &messages.Note{}, 0))
		d.Batch()
	}
	d.AwaitFlush(4)
	d.AwaitFlush(5)
	d.Acked(Position{Seq: 1})
	if got := d.Flushed(); got != nil {
		t.Errorf("%v are told while a batch is pending", got)
	}
	d.Acked(Position{Seq: 2})
	if got := d.Flushed(); !slices.Equal(got, []uint64{4, 5}) {
		t.Errorf("%v are told", got)
	}
	if got := d.Flushed(); got != nil {
		t.Errorf("%v are told twice", got)
	}
}

// Effects are performed while their turn is the one that the shell has children of; those
// that begin something make room for a turn.
func TestTake(t *testing.T) {
	const mine, others, restored = "its turn", "another turn", "a restored turn"
	for name, c := range map[string]struct {
		effect func(id turn.Ident) turn.Effect
		want   map[string]Duty
	}{
		"feeds of a prompt":    {func(id turn.Ident) turn.Effect { return &turn.FetchFeeds{Ident: id} }, map[string]Duty{mine: BeginTurn, others: BeginTurn, restored: BeginTurn}},
		"feeds of an action":   {func(id turn.Ident) turn.Effect { return &turn.FetchFeeds{Ident: id, Names: []string{"a"}} }, map[string]Duty{mine: Perform, others: Nothing, restored: BeginTurn}},
		"a model":              {func(id turn.Ident) turn.Effect { return &turn.OpenModel{Ident: id} }, map[string]Duty{mine: Perform, others: BeginTurn, restored: BeginTurn}},
		"a program":            {func(id turn.Ident) turn.Effect { return &turn.RunProgram{Ident: id} }, map[string]Duty{mine: Perform, others: Nothing, restored: BeginTurn}},
		"an action":            {func(id turn.Ident) turn.Effect { return &turn.StartAction{Ident: id} }, map[string]Duty{mine: Perform, others: Nothing, restored: BeginTurn}},
		"a detached action":    {func(id turn.Ident) turn.Effect { return &turn.StartAction{Ident: id, Detached: true} }, map[string]Duty{mine: Perform, others: Perform, restored: Perform}},
		"a further attempt":    {func(id turn.Ident) turn.Effect { return &turn.Schedule{Ident: id} }, map[string]Duty{mine: Nothing, others: Nothing, restored: BeginTurn}},
		"the end of a model":   {func(id turn.Ident) turn.Effect { return &turn.CancelModel{Ident: id} }, map[string]Duty{mine: Perform, others: Nothing, restored: Nothing}},
		"a model that waits":   {func(id turn.Ident) turn.Effect { return &turn.HoldModel{Ident: id, Hold: true} }, map[string]Duty{mine: Perform, others: Nothing, restored: Nothing}},
		"a call's answer":      {func(id turn.Ident) turn.Effect { return &turn.AnswerCall{Ident: id} }, map[string]Duty{mine: Perform, others: Nothing, restored: Nothing}},
		"the end of a program": {func(id turn.Ident) turn.Effect { return &turn.StopProgram{Ident: id} }, map[string]Duty{mine: Perform, others: Nothing, restored: Nothing}},
		"the end of an action": {func(id turn.Ident) turn.Effect { return &turn.CancelAction{Ident: id} }, map[string]Duty{mine: Perform, others: Perform, restored: Perform}},
		"a question":           {func(id turn.Ident) turn.Effect { return &turn.AskGate{Ident: id} }, map[string]Duty{mine: Perform, others: Nothing, restored: BeginTurn}},
		"a verification":       {func(id turn.Ident) turn.Effect { return &turn.Verify{Ident: id} }, map[string]Duty{mine: Perform, others: Perform, restored: Perform}},
		"an answer":            {func(turn.Ident) turn.Effect { return &turn.Answer{} }, map[string]Duty{mine: Perform, others: Perform, restored: Perform}},
		"a record":             {func(turn.Ident) turn.Effect { return lazy(9, 0, &messages.Note{}, 0) }, map[string]Duty{mine: Perform, others: Perform, restored: Perform}},
		"hurry":                {func(turn.Ident) turn.Effect { return turn.Hurry{} }, map[string]Duty{mine: Nothing, others: Nothing, restored: Nothing}},
		"a clock":              {func(turn.Ident) turn.Effect { return &turn.SetTimer{} }, map[string]Duty{mine: Nothing, others: Nothing, restored: Nothing}},
		"no clock":             {func(turn.Ident) turn.Effect { return &turn.StopTimer{} }, map[string]Duty{mine: Nothing, others: Nothing, restored: Nothing}},
	} {
		for where, want := range c.want {
			t.Run(name+" of "+where, func(t *testing.T) {
				s := &shell{t: t, d: newDriver(t, turn.Rules{}), now: t0}
				id := s.open()
				switch where {
				case others:
					id = other
				case restored: // the machine has it in flight, and the shell none
					s.d.EndTurn()
				}
				got := s.d.Take(c.effect(id))
				if got != want {
					t.Errorf("%s, want %s", got, want)
				}
				if got == BeginTurn && !s.d.InTurn(id) {
					t.Error("the turn has not begun")
				}
				if s.d.Queued() {
					t.Error("an input comes of it")
				}
				s.d.Stop()
				if got := s.d.Take(c.effect(id)); got != Nothing {
					t.Errorf("stopped: %s", got)
				}
			})
		}
	}
}

// What never began is answered here.
func TestWithdrawn(t *testing.T) {
	d := newDriver(t, turn.Rules{})
	id := turn.Ident{Turn: 3, Nonce: "n"}
	for _, e := range []turn.Effect{
		&turn.StopProgram{Ident: id, Code: messages.ErrTimeout, Withdrawn: true},
		&turn.CancelAction{Ident: id, ID: "a", Withdrawn: true},
	} {
		if got := d.Take(e); got != Nothing {
			t.Errorf("%T: %s", e, got)
		}
	}
	want := []turn.Input{
		&turn.ProgramEnd{Ident: id, Code: messages.ErrTimeout},
		&turn.ActionEnded{Ident: id, ID: "a", State: messages.ActionCancelled, Reason: "cancelled"},
	}
	if got := d.work.queued; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A turn's first effects: what arrives is stepped in order, what goes to the journal goes in
// one batch, and the model is asked when its record is durable.
func TestLoop(t *testing.T) {
	s := &shell{t: t, d: newDriver(t, turn.Rules{}), now: t0}
	s.run(&turn.Open{Handle: 1}, &turn.Submit{Handle: 2, Input: messages.Input{Text: "hello", User: "u", Policy: messages.Enqueue}})
	if len(s.batches) != 1 || s.batches[0].Base != 0 {
		t.Fatalf("batches: %+v", s.batches)
	}
	if want := []string{"*turn.Open", "*turn.Submit"}; !slices.Equal(s.steps, want) {
		t.Errorf("steps %v, want %v", s.steps, want)
	}
	last := int64(len(s.batches[0].Records))
	if slices.ContainsFunc(s.took, func(e string) bool { return e != "perform *turn.Persist" }) {
		t.Errorf("before the journal's answer: %v", s.took)
	}
	if _, ok := s.d.Turn(); ok || !s.d.Busy() || s.d.Resting() || s.d.Told() {
		t.Errorf("a turn has begun: %v; busy %v, resting %v, told %v", ok, s.d.Busy(), s.d.Resting(), s.d.Told())
	}
	s.took = nil
	s.ack(last)
	if !slices.Contains(s.took, "begin turn *turn.OpenModel") || !slices.Contains(s.took, "perform *turn.Answer") {
		t.Errorf("after the journal's answer: %v", s.took)
	}
	id, _ := s.d.Turn()
	if now, ok := s.d.machine.Flight(); !ok || now != id || !s.d.InTurn(id) || !s.d.Told() {
		t.Errorf("the turn is %v, the machine has %v", id, now)
	}
}

// What an effect brings about is stepped before what arrived after it, and an input that
// comes while the loop runs is taken by it.
func TestOrderOfInputs(t *testing.T) {
	d := newDriver(t, turn.Rules{})
	a, b, c := &turn.Due{ID: "a"}, &turn.Due{ID: "b"}, &turn.Due{ID: "c"}
	if !d.Begin(a, b) {
		t.Fatal("the loop does not begin")
	}
	var got []turn.Input
	for d.Next(false) == Step {
		stepped, err := d.Step(t0)
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, stepped.Input); len(got) == 1 {
			d.Queue(c)
			if d.Begin(a) {
				t.Fatal("two loops run")
			}
		}
	}
	d.End()
	if want := []turn.Input{a, c, a, b}; !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if d.Queue(c); !d.Queued() || !d.Begin() || d.Next(false) != Step {
		t.Error("an input that an effect has queued outside of the loop is not taken")
	}
}

// Many records go although more inputs are at hand; fewer wait for them.
func TestManyRecords(t *testing.T) {
	for n, want := range map[int]Op{ManyRecords - 1: Step, ManyRecords: Send} {
		d := newDriver(t, turn.Rules{})
		d.Begin(&turn.Due{})
		for i := range n {
			d.Take(lazy(int64(i+1), 0, &messages.Note{}, 0))
		}
		if got := d.Next(false); got != want {
			t.Errorf("%d records: %s, want %s", n, got, want)
		}
		d.Queue(&turn.Due{})
		if got := d.Next(false); got != Step {
			t.Errorf("%d records, and an effect's input waits: %s", n, got)
		}
	}
}

// Clocks ring once, when their time has come; a clock that ran out comes before the next
// piece of a reply.
func TestClocks(t *testing.T) {
	d := newDriver(t, turn.Rules{})
	d.Take(&turn.SetTimer{Clock: turn.ClockRun, Gen: 3, At: t0.Add(2 * time.Second)})
	d.Take(&turn.SetTimer{Clock: turn.ClockTurn, Gen: 4, At: t0.Add(time.Second)})
	d.Take(&turn.SetTimer{Clock: turn.ClockGrace, Gen: 5, At: t0.Add(time.Millisecond)})
	d.Take(&turn.StopTimer{Clock: turn.ClockGrace})
	if at := d.Wake(); !at.Equal(t0.Add(time.Second)) {
		t.Errorf("wake at %s", at)
	}
	if d.Running(turn.ClockGrace) || !d.Running(turn.ClockRun) {
		t.Error("the wrong clocks run")
	}
	if in := d.Due(t0.Add(time.Second - 1)); in != nil {
		t.Errorf("due too early: %v", in)
	}
	want := []turn.Input{&turn.Timer{Clock: turn.ClockTurn, Gen: 4}}
	if in := d.Due(t0.Add(time.Second)); !reflect.DeepEqual(in, want) {
		t.Errorf("due: %v", in)
	}
	if in := d.Due(t0.Add(time.Second)); in != nil {
		t.Errorf("due twice: %v", in)
	}
	for at, want := range map[time.Duration]string{2 * time.Second: "*turn.Decoded", 2*time.Second + 1: "*turn.Timer"} {
		d := newDriver(t, turn.Rules{})
		d.Take(&turn.SetTimer{Clock: turn.ClockRun, At: t0.Add(2 * time.Second)})
		d.Begin(&turn.Decoded{}, &turn.Due{})
		stepped, _ := d.Step(t0.Add(at))
		if got := fmt.Sprintf("%T", stepped.Input); got != want {
			t.Errorf("%s after the clock was set: %s, want %s", at, got, want)
		}
		var rest []string
		for d.Next(false) == Step {
			stepped, _ := d.Step(t0.Add(at))
			rest = append(rest, fmt.Sprintf("%T", stepped.Input))
		}
		wanted := []string{"*turn.Decoded", "*turn.Due"}
		if want == "*turn.Decoded" {
			wanted = wanted[1:]
		}
		if !slices.Equal(rest, wanted) {
			t.Errorf("behind %s: %v, want %v", want, rest, wanted)
		}
	}
	d.Begin(&turn.Due{})
	if stepped, _ := d.Step(t0.Add(time.Hour)); !reflect.DeepEqual(stepped.Input, &turn.Due{}) {
		t.Errorf("%T comes before an input that is no piece of a reply", stepped.Input)
	}
}

// A further attempt begins when its time has come, unless its turn is over.
func TestSchedules(t *testing.T) {
	s := &shell{t: t, d: newDriver(t, turn.Rules{}), now: t0}
	id := s.open()
	d := s.d
	for d.Wake() != (time.Time{}) { // the turn's clocks
		d.Due(d.Wake())
	}
	for i, after := range []time.Duration{3, 1, 2} {
		d.Take(&turn.Schedule{Ident: id, ID: "a", Attempt: int64(i), At: t0.Add(after)})
	}
	d.Take(&turn.Schedule{Ident: other, ID: "b", At: t0})
	if at := d.Wake(); !at.Equal(t0.Add(1)) {
		t.Errorf("wake at %s", at)
	}
	want := []turn.Input{&turn.Due{Ident: id, ID: "a", Attempt: 1}, &turn.Due{Ident: id, ID: "a", Attempt: 2}}
	if in := d.Due(t0.Add(2)); !reflect.DeepEqual(in, want) {
		t.Errorf("due: %v", in)
	}
	if in := d.Due(t0.Add(2)); in != nil {
		t.Errorf("due twice: %v", in)
	}
	d.EndTurn()
	if in := d.Due(t0.Add(time.Hour)); in != nil || !d.Wake().IsZero() {
		t.Errorf("due of a turn that is over: %v", in)
	}
}

// A driver that was stopped does nothing.
func TestStop(t *testing.T) {
	d := newDriver(t, turn.Rules{})
	d.Take(lazy(1, time.Second, &messages.Note{}, 0))
	d.Take(&turn.SetTimer{Clock: turn.ClockRun, At: t0})
	d.Begin(&turn.Due{})
	d.Stop()
	if !d.stopped || d.Next(true) != Idle {
		t.Error("the loop goes on")
	}
	d.End()
	if _, ok := d.Batch(); ok || d.Overdue(t0.Add(time.Hour)) || d.Due(t0.Add(time.Hour)) != nil || !d.Wake().IsZero() {
		t.Error("something is due")
	}
	if d.Queue(&turn.Due{}); d.Queued() || d.Begin(&turn.Due{}) {
		t.Error("an input is taken")
	}
}

// A session that rests keeps nothing; it goes on as it was.
func TestRest(t *testing.T) {
	d := newDriver(t, turn.Rules{})
	buf := append(d.Spare(), &turn.Due{ID: "a"})
	d.Begin(buf...)
	d.Rest()
	if d.work == nil {
		t.Fatal("the buffers are given back while the loop runs")
	}
	for d.Next(false) == Step {
		if _, err := d.Step(t0); err != nil {
			t.Fatal(err)
		}
	}
	d.End()
	if d.Recycle(buf); buf[0] != nil {
		t.Error("a buffer keeps its inputs")
	}
	if d.Busy() {
		t.Error("it is busy")
	}
	d.Take(lazy(1, 0, &messages.Note{}, 0))
	d.Batch()
	d.Acked(Position{Seq: 1, Hash: messages.Digest{1}})
	w := d.work
	d.Rest()
	if d.work != nil || d.Pending() || d.Held() != 0 || d.Running(turn.ClockRun) {
		t.Error("something is left")
	}
	if !reflect.DeepEqual(w.buffer, buffer{}) || w.acked != (Position{}) || !w.now.IsZero() || len(w.inputs)+len(w.queued)+len(w.ready)+len(w.freed) != 0 {
		t.Errorf("the buffers are not empty: %+v", w)
	}
	if d.Recycle(buf); d.work != nil {
		t.Error("a buffer is kept for a session that rests")
	}
}

// What keeps a session awake.
func TestBusy(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(s *shell)
		want bool
	}{
		"nothing":          {func(*shell) {}, false},
		"a record is held": {func(s *shell) { s.d.Take(lazy(1, time.Second, &messages.Note{}, 0)) }, true},
		"a record is on its way": {func(s *shell) {
			s.d.Take(lazy(1, time.Second, &messages.Note{}, 0))
			s.d.Batch()
		}, true},
		"an effect waits":  {func(s *shell) { s.d.Hold(&turn.Answer{After: 1}) }, true},
		"a turn runs":      {func(s *shell) { s.open() }, true},
		"a turn is let go": {func(s *shell) { s.open(); s.d.EndTurn() }, true},
		"an input waits for its window": {func(s *shell) {
			s.run(&turn.Open{}, &turn.Submit{Input: messages.Input{Text: "hello", User: "u", Policy: messages.Debounce}})
			s.ack(s.d.machine.State().Seq)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &shell{t: t, d: newDriver(t, turn.Rules{}), now: t0}
			c.do(s)
			if got := s.d.Busy(); got != c.want {
				t.Errorf("busy is %v, want %v", got, c.want)
			}
		})
	}
}
