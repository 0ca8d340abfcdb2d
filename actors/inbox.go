package actors

import (
	"sync"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/seed14be6753/stile/actors/internal/mailbox"
	"github.com/seed14be6753/stile/internal/attempt"
	"github.com/seed14be6753/stile/internal/relics"
	"github.com/seed14be6753/stile/internal/turn"
)

// inbox carries inputs from the goroutines of a session's children to its actor.
// A child posts as often as it likes; the actor gets one message for all that
// gathered before it looked, because a message to an idle mailbox costs a
// goroutine start and an append to this queue does not.
type inbox struct {
	system *actor.ActorSystem
	pid    *actor.PID
	mu     sync.Mutex
	queue  []turn.Input
	asked  bool // the inbox is on its way to the actor, as the message that says so
	closed bool
	sinks  []*attempt.Sink // of the pieces of results in queue

	waiters *relics.Waiters // nil before the first
}

func newInbox(system *actor.ActorSystem, pid *actor.PID) *inbox {
	return &inbox{system: system, pid: pid}
}

// Post queues inputs in order. After close it drops them.
func (b *inbox) Post(in ...turn.Input) {
	if b.add(in) {
		b.system.Root.Send(b.pid, b)
	}
}

// handOff is post for a caller that offers its goroutine then, by way of h.
func (b *inbox) handOff(h *mailbox.Handoff, in ...turn.Input) {
	*h = mailbox.Handoff{Message: b}
	if b.add(in) {
		b.system.Root.Send(b.pid, h)
	}
}

// add queues inputs, and reports whether the actor is to be told.
func (b *inbox) add(in []turn.Input) (ask bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.queue = append(b.queue, in...)
	ask, b.asked = !b.asked, true
	return ask
}

// postPiece is post for a piece of a result that grows; its sink learns when it is taken.
func (b *inbox) postPiece(s *attempt.Sink, in *turn.ActionChunk) {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return
	}
	b.sinks = append(b.sinks, s)
	b.mu.Unlock()
	b.Post(in)
}

// take empties the queue. spare is the slice to go on with.
func (b *inbox) take(spare []turn.Input) []turn.Input {
	b.mu.Lock()
	q, sinks := b.queue, b.sinks
	b.queue, b.asked, b.sinks = spare[:0], false, nil
	b.mu.Unlock()
	for _, s := range sinks {
		s.Taken()
	}
	return q
}

// rest lets go of the buffer of a session that goes idle.
func (b *inbox) rest() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) == 0 {
		b.queue = nil
	}
}

func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed, b.queue = true, nil
}
