package actors

import (
	"cmp"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile/internal/lease"
	"github.com/seed14be6753/stile/internal/turn/driver"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// This file is a session's way to the journal: the driver says which records go when, and
// the session seals them, appends them and takes the journal's answer.

// durable is the last record that is known to be on disk.
func (s *session) durable() journal.Anchor {
	if at, ok := s.drive.Durable(); ok {
		return journal.Anchor(at)
	}
	return s.sealer.Head() // nothing was sealed since the session came to rest
}

// followed reports whether a reader follows the session and a record that it waits for is
// held.
func (s *session) followed() bool {
	return s.drive.Awaited() && s.host.hub.Followed(s.ref.SID)
}

// seal puts the records that are held into the chain.
func (s *session) seal() {
	recs := s.drive.Unsealed()
	if len(recs) == 0 {
		return
	}
	unsigned := s.sealer.Unsigned()
	if err := s.sealer.Seal(recs, s.host.cfg.Now()); err != nil {
		panic(err) // a defect or no randomness: nothing was appended, restart from the journal
	}
	s.drive.Sealed()
	if n := s.sealer.Unsigned() - unsigned; n > 0 {
		for range n {
			s.host.cfg.Observer.ReceiptMissing()
		}
		s.host.log.Warn("committed without a receipt", zap.String("SID", s.ref.SID), zap.Int64("records", n))
	}
}

// send seals and appends everything that is held.
func (s *session) send(c actor.Context) {
	s.seal()
	b, ok := s.drive.Batch()
	if !ok {
		return
	}
	batch := journal.Batch{
		SID: s.ref.SID, Inc: s.inc, ExpectSeq: b.Base, Epoch: s.sealer.Epoch(), Records: b.Records, Blobs: b.Blobs,
	}
	at := s.sealer.Head()
	if s.host.inline {
		var failed error
		s.host.cfg.Writer.Append(batch, func(err error) { failed = err })
		s.acknowledge(c, at, failed)
		return
	}
	system, self := s.host.system, c.Self()
	s.host.cfg.Writer.Append(batch, func(err error) {
		system.Root.Send(self, &acked{of: s, at: at, err: err})
	})
}

// acknowledged takes the journal's answer from the mailbox.
func (s *session) acknowledged(c actor.Context, at journal.Anchor, err error) {
	if s.dead != nil || s.lost(c) {
		return
	}
	s.acknowledge(c, at, err)
	s.resume(c)
	s.checkIdle()
	s.closed(c)
}

// acknowledge releases what waited for the records up to at.
func (s *session) acknowledge(c actor.Context, at journal.Anchor, err error) {
	if err != nil {
		s.refused(c, err)
		return
	}
	for _, e := range s.drive.Acked(driver.Position(at)) {
		s.perform(c, e)
	}
	for _, handle := range s.drive.Flushed() {
		if req := s.asks[handle]; req != nil {
			delete(s.asks, handle)
			req.answer(Reply{Inc: s.inc, Seq: at.Seq})
		}
	}
}

// resume runs the step loop for inputs that effects have queued outside of it.
func (s *session) resume(c actor.Context) {
	if s.drive.Queued() {
		s.step(c)
	}
}

// refused ends this activation: what was not committed did not happen. The next
// request wakes a new one, which reads the head again.
func (s *session) refused(c actor.Context, err error) {
	s.host.log.Error("the journal refused", zap.String("SID", s.ref.SID), zap.Error(err))
	s.end(c, &messages.Error{Code: cmp.Or(messages.CodeOf(err), messages.ErrJournal), Reason: journal.ReasonOf(err), Detail: "the session's journal refused an append", Cause: err})
}

// end ends this activation at once, and tells why to those who follow it.
func (s *session) end(c actor.Context, why *messages.Error) {
	s.stop(why)
	s.host.histories.Systems.Forget(s.inc)
	s.host.hub.Fail(s.ref.SID, why)
	s.host.cfg.Leases.Owe(s.ref.SID)
	s.close(c)
}

// lost ends this activation when the host has lost its lease: another host may run the session
// by now, so nothing more is shown or begun here. What was appended is in the journal.
func (s *session) lost(c actor.Context) bool {
	if s.machine == nil || s.host.cfg.Leases.Held() {
		return false
	}
	s.end(c, lease.Lost())
	return true
}

// flushFor sends lazy records for a caller that wants them on disk.
func (s *session) flushFor(c actor.Context, req *request) {
	s.send(c)
	switch {
	case s.dead != nil:
		req.answer(Reply{Err: s.dead})
	case !s.drive.Pending():
		req.answer(Reply{Inc: s.inc, Seq: s.machine.State().Seq})
	default:
		s.drive.AwaitFlush(s.expect(req))
	}
	s.resume(c)
}
