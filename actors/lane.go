package actors

import (
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// lane is a session's way to the journal: eager records go at once and take the
// lazy ones before them along; lazy ones alone wait until due (docs/spec/design.md §2).
// While somebody follows the session, a call that begins is not kept from them: what it
// would be shown in must be durable first, so its record goes at once.
type lane struct {
	inputs []turn.Input  // of the step loop
	ready  []turn.Effect // of the step loop, reused
	freed  []turn.Effect // by an acknowledgement, reused
	posted []turn.Input  // by the children, taken; reused
	busy   bool
	now    time.Time // of the step whose effects are done

	recs     []*messages.Record
	sealed   int   // of recs
	base     int64 // the head in front of recs, when some are sealed
	blobs    []messages.Blob
	bytes    int
	eager    bool
	begins   bool           // a lazy record says that a call begins: subscribers wait for it
	due      time.Time      // of the oldest lazy record; zero when there is none
	inFlight int            // batches without an answer
	durable  journal.Anchor // the last record that was acknowledged since the lane was taken
	flushes  []*request     // wait until nothing is pending
}

func (l *lane) pending() bool { return l != nil && (len(l.recs) > 0 || l.inFlight > 0) }

// durable is the last record that is known to be on disk.
func (s *session) durable() journal.Anchor {
	if l := s.out; l != nil && l.durable != (journal.Anchor{}) {
		return l.durable
	}
	return s.sealer.Head() // nothing was sealed since the session came to rest
}

// lane is where records go; it is made when the first one comes.
func (s *session) lane() *lane {
	if s.out == nil {
		s.out = lanes.Get().(*lane)
	}
	return s.out
}

// lanes keeps the lanes of sessions that have gone idle.
var lanes = sync.Pool{New: func() any { return new(lane) }}

// leave gives the lane back.
func (s *session) leave() {
	l := s.out
	if l == nil || l.busy {
		return
	}
	s.out = nil
	clear(l.inputs[:cap(l.inputs)])
	clear(l.ready[:cap(l.ready)])
	*l = lane{inputs: l.inputs[:0], ready: l.ready[:0], freed: l.freed[:0], posted: l.posted[:0]}
	lanes.Put(l)
}

// recordBytes estimates a record's size beside its blobs: sealing knows it
// exactly, but only when the record already goes.
const recordBytes = 256

// hold takes a record in.
func (l *lane) hold(p *turn.Persist, now time.Time) {
	if l.recs == nil {
		l.recs = make([]*messages.Record, 0, 8)
	}
	l.recs = append(l.recs, p.Record)
	l.blobs = append(l.blobs, p.Blobs...)
	l.bytes += recordBytes
	if !instructs(p.Record.Body) {
		for i := range p.Blobs {
			l.bytes += len(p.Blobs[i].Data)
		}
	}
	if p.Hold <= 0 {
		l.eager = true
		return
	}
	switch p.Record.Body.(type) {
	case *messages.ActionDeclared, *messages.ActionStarted:
		l.begins = true
	}
	if at := now.Add(p.Hold); l.due.IsZero() || at.Before(l.due) {
		l.due = at
	}
	// A lazy batch over its limit goes at once, whatever it is made of.
	if l.bytes >= turn.LazyBytes+recordBytes*lazyRecords {
		l.eager = true
	}
}

// instructs reports a record whose blobs need not hurry: a system message comes once in a
// session, instructions once in a run.
func instructs(b messages.Body) bool {
	switch b := b.(type) {
	case *messages.ModelRequest:
		return true
	case *messages.FeedInjected:
		return b.ID == messages.InstructionsFeed
	}
	return false
}

// lazyRecords is how many small lazy records may gather before the bytes count.
const lazyRecords = 16

// manyRecords go to the journal although more inputs are at hand: what a model says at
// once may make a hundred thousand.
const manyRecords = 1024

// flushEager sends what must go. It reports whether an answer came at once and
// gave the machine something to do.
func (s *session) flushEager(c actor.Context) (more bool) {
	if s.dead != nil {
		return false
	}
	l := s.lane()
	if !l.eager && !(l.begins && s.host.hub.Followed(s.ref.sid)) {
		if !l.due.IsZero() {
			s.ring(l.due)
		}
		return false
	}
	return s.flush(c)
}

// seal puts the records that are held into the chain.
func (s *session) seal() {
	l := s.out
	if l == nil || l.sealed == len(l.recs) {
		return
	}
	if l.sealed == 0 {
		l.base = s.sealer.Head().Seq
	}
	unsigned := s.sealer.Unsigned()
	if err := s.sealer.Seal(l.recs[l.sealed:], s.host.cfg.Now()); err != nil {
		panic(err) // a defect or no randomness: nothing was appended, restart from the journal
	}
	l.sealed = len(l.recs)
	if n := s.sealer.Unsigned() - unsigned; n > 0 {
		for range n {
			s.host.cfg.Observer.ReceiptMissing()
		}
		s.host.log.Warn("committed without a receipt", zap.String("SID", s.ref.sid), zap.Int64("records", n))
	}
}

// flush seals and appends everything that was held.
func (s *session) flush(c actor.Context) (more bool) {
	l := s.lane()
	if len(l.recs) == 0 {
		return false
	}
	s.seal()
	batch := journal.Batch{
		SID: s.ref.sid, Inc: s.inc, ExpectSeq: l.base, Epoch: s.sealer.Epoch(), Records: l.recs, Blobs: l.blobs,
	}
	at := s.sealer.Head()
	l.recs, l.blobs, l.sealed, l.bytes, l.eager, l.begins, l.due = nil, nil, 0, 0, false, false, time.Time{}
	l.inFlight++
	if s.host.inline {
		var failed error
		s.host.cfg.Writer.Append(batch, func(err error) { failed = err })
		return s.acknowledge(c, at, failed)
	}
	system, self := s.host.system, c.Self()
	s.host.cfg.Writer.Append(batch, func(err error) {
		system.Root.Send(self, &acked{of: s, at: at, err: err})
	})
	return false
}

// acknowledged takes the journal's answer from the mailbox.
func (s *session) acknowledged(c actor.Context, at journal.Anchor, err error) {
	if s.dead != nil {
		return
	}
	if s.acknowledge(c, at, err) {
		s.resume(c)
	}
	s.settleDown()
	s.closed(c)
}

// acknowledge releases what waited for the records up to at. It reports whether that gave
// the machine inputs.
func (s *session) acknowledge(c actor.Context, at journal.Anchor, err error) (more bool) {
	l := s.lane()
	l.inFlight--
	if err != nil {
		s.refused(c, err)
		return false
	}
	l.durable = at
	free := l.freed // what is performed may acknowledge something itself
	l.freed = nil
	free = s.outbox.Ack(at.Seq, free[:0])
	for _, e := range free {
		s.perform(c, e)
	}
	clear(free)
	l.freed = free
	if !l.pending() {
		for _, req := range l.flushes {
			req.answer(Reply{Inc: s.inc, Seq: at.Seq})
		}
		l.flushes = nil
	}
	return len(l.inputs) > 0
}

// resume runs the step loop for inputs that effects have queued.
func (s *session) resume(c actor.Context) {
	l := s.lane()
	if l.busy || len(l.inputs) == 0 {
		return
	}
	inputs := l.inputs
	l.inputs = nil
	s.step(c, inputs...)
}

// refused ends this activation: what was not committed did not happen. The next
// request wakes a new one, which reads the head again.
func (s *session) refused(c actor.Context, err error) {
	code := messages.CodeOf(err)
	if code == "" {
		code = messages.ErrJournal
	}
	s.host.log.Error("the journal refused", zap.String("SID", s.ref.sid), zap.Error(err))
	why := &messages.Error{Code: code, Detail: "the session's journal refused an append", Cause: err}
	l := s.lane()
	for _, req := range l.flushes {
		req.answer(Reply{Err: why})
	}
	l.flushes = nil
	s.release(why)
	s.host.forgetSystem(s.inc)
	s.host.hub.Fail(s.ref.sid, why)
	s.goodbye(c)
}

// flushFor sends lazy records for a caller that wants them on disk.
func (s *session) flushFor(c actor.Context, req *request) {
	s.flush(c)
	if !s.out.pending() {
		req.answer(Reply{Inc: s.inc, Seq: s.machine.State().Seq})
		return
	}
	l := s.lane()
	l.flushes = append(l.flushes, req)
}
