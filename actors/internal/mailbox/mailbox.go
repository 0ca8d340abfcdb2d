// Package mailbox has the queues of actors, made for very many actors with few messages each
// (docs/decisions, 006). The goroutines that handle what is in them are package pool's.
//
// Invariants:
//   - the messages of an actor are handled one at a time, in the order in which they came,
//     those of the system first;
//   - nothing blocks the sender.
//
// It does not know what it carries: sessions and their messages are package actors'.
package mailbox

import (
	"runtime"
	"sync"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/seed14be6753/stile/internal/pool"
)

// Mailbox is the queue of one actor. It keeps what the library's own keep – messages
// in the order they were posted, those of the system first, those alone while the actor
// is suspended, one goroutine at a time – and is made for very many
// actors with few messages each: one object instead of seven, none for a message or
// a wake-up, and an empty one holds next to nothing.
type Mailbox struct {
	invoker actor.MessageInvoker
	start   func(func(*pool.Worker)) // the dispatcher's
	task    func(*pool.Worker)       // process, made once: the form in which a pool takes it

	mu        sync.Mutex
	system    queue
	user      queue
	running   bool // a goroutine is in process, or about to
	leaf      bool // of an actor without children: the word to stop is its last
	suspended bool // after a failure, until the supervisor's word
}

// New is the actor.MailboxProducer of actors that have children.
func New() actor.Mailbox { return &Mailbox{} }

// NewLeaf is one for actors without children. When such an actor has stopped its
// mailbox lets go of it: the library keeps the latest stopped child of an actor in the
// slack of a slice, by its mailbox.
func NewLeaf() actor.Mailbox { return &Mailbox{leaf: true} }

// RegisterHandlers implements actor.Mailbox.
func (m *Mailbox) RegisterHandlers(invoker actor.MessageInvoker, dispatcher actor.Dispatcher) {
	m.invoker = invoker
	switch d := dispatcher.(type) {
	case *pool.Pool:
		m.start = d.Starter()
	case OnTheSpot:
		m.start = here
	default:
		m.start = func(f func(*pool.Worker)) { d.Schedule(func() { f(nil) }) }
	}
}

// OnTheSpot is an actor.Dispatcher: the sender to an idle actor handles the message.
type OnTheSpot struct{}

// Schedule implements actor.Dispatcher.
func (OnTheSpot) Schedule(f func()) { f() }

// Throughput implements actor.Dispatcher.
func (OnTheSpot) Throughput() int { return pool.Throughput }

func here(f func(*pool.Worker)) { f(nil) }

// Start implements actor.Mailbox.
func (m *Mailbox) Start() {}

// UserMessageCount implements actor.Mailbox.
func (m *Mailbox) UserMessageCount() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.user.len()
}

// PostUserMessage implements actor.Mailbox. There are no batches here: a message that
// is one is a message.
func (m *Mailbox) PostUserMessage(msg any) { m.post(&m.user, msg) }

// PostSystemMessage implements actor.Mailbox.
func (m *Mailbox) PostSystemMessage(msg any) { m.post(&m.system, msg) }

func (m *Mailbox) post(q *queue, msg any) {
	m.mu.Lock()
	if m.invoker == nil { // its actor has stopped
		m.mu.Unlock()
		return
	}
	handoff, inline := msg.(*Handoff)
	if inline {
		msg = handoff.Message
	}
	q.push(msg)
	idle := !m.running
	m.running = true
	m.mu.Unlock()
	switch {
	case idle && inline:
		handoff.idle = m
	case idle:
		m.wake()
	}
}

// wake has a goroutine of the dispatcher handle what is there. running is set, by the
// caller.
func (m *Mailbox) wake() {
	if m.task == nil { // no other goroutine gets here while running is set
		m.task = func(*pool.Worker) { m.process() }
	}
	m.start(m.task)
}

// Handoff is a message whose sender would only wait for the answer. Post the Handoff, then call
// Inline: an idle actor handles Message on the sender's goroutine. One that is woken for it,
// and wakes the sender with the answer, costs more than most requests.
type Handoff struct {
	Message any
	idle    *Mailbox // that took it, and waits for the sender's goroutine
}

// Inline handles Message if its actor was idle, and reports whether it did. What else has
// come is the dispatcher's.
func (h *Handoff) Inline() bool {
	if h.idle == nil {
		return false
	}
	for done := false; !done; {
		done = h.idle.handle(1)
	}
	return true
}

// next takes the next message, or says that there is none for now: the sender
// of the next one then starts the actor again.
func (m *Mailbox) next() (msg any, system, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.system.len() > 0 {
		msg := m.system.pop()
		switch msg := msg.(type) {
		case *actor.SuspendMailbox:
			m.suspended = true
		case *actor.ResumeMailbox:
			m.suspended = false
		default:
			return msg, true, true
		}
	}
	if !m.suspended && m.user.len() > 0 {
		return m.user.pop(), false, true
	}
	m.running = false
	return nil, false, false
}

// close lets go of a stopped actor. Its last message is being handled.
func (m *Mailbox) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.invoker, m.start, m.task, m.system, m.user = nil, nil, nil, queue{}, queue{}
}

// process handles messages until there are none.
func (m *Mailbox) process() {
	for !m.handle(0) {
	}
}

// handle is process until a message panics: then the supervisor has been told, and
// done is false. most is how many messages it handles before the dispatcher goes on;
// 0 is all.
func (m *Mailbox) handle(most int) (done bool) {
	var msg any
	defer func() {
		if r := recover(); r != nil {
			m.invoker.EscalateFailure(r, msg)
		}
	}()
	for n := 1; ; n++ {
		var system, ok bool
		if msg, system, ok = m.next(); !ok {
			return true
		}
		if system {
			m.invoker.InvokeSystemMessage(msg)
			if _, last := msg.(*actor.Stop); last && m.leaf {
				m.close()
				return true
			}
		} else {
			m.invoker.InvokeUserMessage(msg)
		}
		if n == most {
			m.pass()
			return true
		}
		if n%pool.Throughput == 0 {
			runtime.Gosched()
		}
	}
}

// pass leaves what is there to the dispatcher.
func (m *Mailbox) pass() {
	m.mu.Lock()
	more := m.system.len() > 0 || !m.suspended && m.user.len() > 0
	m.running = more
	m.mu.Unlock()
	if more {
		m.wake()
	}
}

// queue is a first-in first-out queue. It keeps a buffer only while it is small, and
// one of at most five times the messages it has held since it was last empty.
type queue struct {
	buf  []any
	head int
}

// keptQueue is the largest buffer an empty queue keeps.
const keptQueue = 2

func (q *queue) len() int { return len(q.buf) - q.head }

func (q *queue) push(v any) {
	if q.head > 0 && len(q.buf) == cap(q.buf) && q.head >= len(q.buf)/2 {
		n := copy(q.buf, q.buf[q.head:])
		clear(q.buf[n:])
		q.buf, q.head = q.buf[:n], 0
	}
	q.buf = append(q.buf, v)
}

func (q *queue) pop() any {
	v := q.buf[q.head]
	q.buf[q.head] = nil
	if q.head++; q.head == len(q.buf) {
		q.head = 0
		if q.buf = q.buf[:0]; cap(q.buf) > keptQueue {
			q.buf = nil
		}
	}
	return v
}
