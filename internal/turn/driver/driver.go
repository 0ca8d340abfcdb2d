package driver

import (
	"sync"
	"time"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
)

// Op is what the shell does next.
type Op int

// The operations of the step loop.
const (
	Idle Op = iota // nothing is left that can be done without waiting
	Step           // call Driver.Step and perform its effects
	Send           // seal and append the records that are held
)

// String is the operation's name.
func (o Op) String() string { return [...]string{"idle", "step", "send"}[o] }

// Driver drives the turn machine of one activation of a session.
type Driver struct {
	machine *turn.Machine
	outbox  turn.Outbox
	turn    turn.Ident // the turn that the shell has children of
	begun   bool       // there is one
	stopped bool
	work    *work // nil while the session rests
}

// work is what a session needs while it is at work. A session that rests gives it back.
//
//	0 ≤ next ≤ len(inputs)
//	0 ≤ sealed ≤ len(buffer.records)
type work struct {
	running bool
	inputs  []turn.Input // those that arrived; inputs[:next] were stepped
	next    int
	queued  []turn.Input // those that effects brought about; queued[:head] were stepped
	head    int
	now     time.Time     // of the latest step
	ready   []turn.Effect // of the latest step, reused
	freed   []turn.Effect // by the latest acknowledgement, reused
	spare   []turn.Input  // a buffer for the caller's next inputs

	buffer
	inFlight  int      // batches without an answer
	acked     Position // the last record that was acknowledged
	flushes   []uint64 // handles that wait until nothing is pending
	schedules []turn.Schedule
	waits     []wait // in the order of their declarations
	met       int    // of the machine, when waits were looked at
	clocks
}

// Position names a record.
type Position struct {
	Seq  int64
	Hash messages.Digest
}

// works keeps the buffers of sessions that have come to rest: a host has many sessions, and
// few at work.
var works = sync.Pool{New: func() any { return new(work) }}

// New drives a machine whose records up to acked are durable.
func New(machine *turn.Machine, acked int64) Driver {
	return Driver{machine: machine, outbox: turn.NewOutbox(acked)}
}

func (d *Driver) working() *work {
	if d.work == nil {
		d.work = works.Get().(*work)
	}
	return d.work
}

// Begin takes inputs into the step loop. It reports whether the caller is to run the loop:
// false when a loop further down the stack takes the inputs, or the driver was stopped.
func (d *Driver) Begin(inputs ...turn.Input) bool {
	if d.stopped {
		return false
	}
	w := d.working()
	if w.running {
		w.queued = append(w.queued, inputs...)
		return false
	}
	w.running = true
	w.inputs, w.next = append(w.inputs[:0], inputs...), 0
	return true
}

// End leaves the step loop that Begin has entered.
func (d *Driver) End() {
	w := d.work
	if w == nil {
		return
	}
	w.running = false
	clear(w.inputs)
	w.inputs, w.next = w.inputs[:0], 0
}

// Queue adds an input that an effect has brought about.
func (d *Driver) Queue(in turn.Input) {
	if !d.stopped {
		w := d.working()
		w.queued = append(w.queued, in)
	}
}

// Queued reports whether inputs wait that effects have brought about.
func (d *Driver) Queued() bool { return d.work != nil && d.work.head < len(d.work.queued) }

// Next is what the loop does next. followed reports whether a client follows the session's
// updates; it counts only while Awaited.
func (d *Driver) Next(followed bool) Op {
	w := d.work
	if d.stopped || w == nil {
		return Idle
	}
	send := len(w.records) > 0 && (w.eager || w.begins && followed)
	switch {
	case d.Queued():
		return Step
	case w.next < len(w.inputs) && !(send && len(w.records) >= ManyRecords):
		return Step
	case send:
		return Send
	}
	return Idle
}

// Stepped is what one step of the machine came to.
type Stepped struct {
	Input   turn.Input
	Effects []turn.Effect // all that the machine decided
	Ready   []turn.Effect // those to perform now, in order; valid until the next Step
}

// Step steps the machine by the next input. Clocks that ran out before the next piece of a
// reply come first: their alarm may be a message behind very many pieces. An error is a
// broken invariant of the machine, or a lack of randomness: the activation must end.
func (d *Driver) Step(now time.Time) (s Stepped, err error) {
	w := d.work
	switch {
	case d.Queued():
		s.Input = w.dequeue()
	default:
		s.Input = w.inputs[w.next]
		if _, piece := s.Input.(*turn.Decoded); piece && w.late(now) {
			w.queued = w.clocks.due(now, w.queued)
			s.Input = w.dequeue()
		} else {
			w.next++
		}
	}
	w.now = now
	if s.Effects, err = d.machine.Step(now, s.Input); err != nil {
		return s, err
	}
	w.ready = d.outbox.Add(s.Effects, w.ready[:0])
	s.Ready = w.ready
	return s, nil
}

func (w *work) dequeue() turn.Input {
	in := w.queued[w.head]
	w.queued[w.head] = nil
	if w.head++; w.head == len(w.queued) {
		w.queued, w.head = w.queued[:0], 0
	}
	return in
}

// Acked takes the journal's answer that everything up to at is durable. The effects are
// those that waited for it, in order, and are valid until the next Acked.
func (d *Driver) Acked(at Position) []turn.Effect {
	w := d.working()
	w.inFlight--
	w.acked = at
	clear(w.freed)
	w.freed = d.outbox.Ack(at.Seq, w.freed[:0])
	return w.freed
}

// Durable is the last record that was acknowledged since the session was at rest; ok is
// false when there is none.
func (d *Driver) Durable() (at Position, ok bool) {
	if d.work == nil {
		return Position{}, false
	}
	return d.work.acked, d.work.acked != Position{}
}

// DurableSeq is the number of the last record that is known to be durable.
func (d *Driver) DurableSeq() int64 { return d.outbox.Acked() }

// Hold adds an effect of the shell's own: it is handed out as those of the machine are.
func (d *Driver) Hold(e turn.Effect) []turn.Effect {
	return d.outbox.Add([]turn.Effect{e}, nil)
}

// Stop ends the driver: nothing is stepped, sent or performed any more. What was not
// acknowledged did not happen.
func (d *Driver) Stop() { d.stopped = true }

// Resting reports whether no turn runs: the session is idle, or its turn is suspended.
func (d *Driver) Resting() bool {
	p := d.machine.Phase()
	return p == turn.Idle || p == turn.Suspended
}

// Told reports whether no effect waits for the journal.
func (d *Driver) Told() bool { return d.outbox.Idle() }

// Busy reports whether the session cannot be put to sleep: a turn or a detached action runs,
// an input waits for its window, or records are not durable yet.
func (d *Driver) Busy() bool {
	return d.begun || !d.Resting() || d.machine.Detached() > 0 || d.machine.State().Window != nil || !d.outbox.Idle() || d.Pending()
}

// Rest gives back what a session needs while it is at work. The caller has found that the
// session is not Busy.
func (d *Driver) Rest() {
	w := d.work
	if w == nil || w.running {
		return
	}
	d.work = nil
	for _, buf := range [][]turn.Input{w.inputs, w.queued, w.spare} {
		clear(buf[:cap(buf)])
	}
	for _, buf := range [][]turn.Effect{w.ready, w.freed} {
		clear(buf[:cap(buf)])
	}
	*w = work{inputs: w.inputs[:0], queued: w.queued[:0], spare: w.spare[:0], ready: w.ready[:0], freed: w.freed[:0]}
	works.Put(w)
}

// Spare is a buffer for the caller's next inputs; Recycle gives it back.
func (d *Driver) Spare() []turn.Input {
	w := d.working()
	buf := w.spare
	w.spare = nil
	return buf[:0]
}

// Recycle takes a buffer whose inputs were stepped.
func (d *Driver) Recycle(buf []turn.Input) {
	clear(buf)
	if d.work != nil {
		d.work.spare = buf[:0]
	}
}
