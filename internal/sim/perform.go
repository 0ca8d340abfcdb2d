package sim

import (
	"bytes"

	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/internal/turn/driver"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/kitsu"
)

// perform does one effect, having checked that it may be done now.
func (s *shell) perform(e turn.Effect) {
	if s.dead {
		return
	}
	w := s.host.w
	s.entitled(e)
	switch s.duty(e) {
	case driver.Nothing:
		return
	case driver.BeginTurn:
		s.left()
		s.land()
		s.of, _ = s.drive.Turn()
		s.flies = true
	}
	switch e := e.(type) {
	case *turn.Persist, *turn.Schedule: // the driver keeps them
	case *turn.Publish:
		s.publish(e)
	case *turn.Answer:
		if e.Err == nil {
			s.durable("answer", max(e.After, e.Seq))
			s.promised(e)
		}
		s.client.answered(s, e)
	case *turn.OpenModel:
		s.openModel(e)
	case *turn.FetchFeeds:
		s.fetchFeeds(e)
	case *turn.CancelModel:
		if s.model != nil {
			s.model.cancelled = true
		}
	case *turn.RunProgram:
		if s.audit.restores > 0 { // a program that kills its host must have been counted
			s.durable("run-program", s.audit.turnSeq)
		}
		s.program = s.runProgram(e)
	case *turn.StopProgram:
		if s.program != nil {
			s.program.cancel(messages.Errorf(e.Code, "the turn is stopped"))
			s.program.stopped = true
		}
	case *turn.AskGate:
		s.askGate(e)
	case *turn.StartAction:
		s.startAction(e)
	case *turn.CancelAction:
		s.cancelAction(e)
	case *turn.AnswerCall:
		if p := s.program; p != nil && p.waiting == e.ID {
			p.answer = e
		}
	case *turn.Verify:
		in := s.verify(e)
		if w.rnd.IntN(4) == 0 {
			s.slow = append(s.slow, in)
		} else {
			s.drive.Queue(in)
		}
	case *turn.HoldModel:
		if s.model != nil {
			s.model.held = e.Hold
		}
	case turn.Reached, turn.RolledBack: // a number for those who look at the host
	case *turn.AnswerRelic: // taken with the step that gave it
	case *turn.EndChildren:
		s.durable("the end of children", e.After)
		s.host.endChildren(s, e)
	default:
		w.violated("step", "an unknown effect: %T", e)
	}
}

// promised checks that the record of a cancel is on the disk before its answer.
func (s *shell) promised(e *turn.Answer) {
	if a := s.client.asked[e.Handle]; a != nil && a.cancel {
		seq := s.audit.cancelled[e.Run]
		if seq == 0 {
			seq = s.audit.over[e.Run]
		}
		if seq == 0 {
			s.host.w.violated("order", "the cancel of run %d is answered and nowhere recorded", e.Run)
		}
		s.durable("the answer of a cancel", seq)
	}
}

// duty has the driver take an effect. What it takes or drops itself is checked here.
func (s *shell) duty(e turn.Effect) driver.Duty {
	w := s.host.w
	switch e := e.(type) {
	case *turn.Schedule:
		if wait := e.At.Sub(s.host.now()); wait < plan.DefaultRetryDelay {
			w.violated("effect", "action %s is to be tried again in %s", e.ID, wait)
		}
	case *turn.CancelAction:
		if c := s.audit.call(e.Turn, e.ID); e.Withdrawn && c != nil { // it never began
			if d := w.outside.deed(action(s.client, s.inc, e.Turn, e.ID, c.args)); d.starts == 0 {
				d.confirmed = true
			}
		}
	}
	duty := s.drive.Take(e)
	if e, ok := e.(*turn.StartAction); ok && duty == driver.Nothing {
		w.violated("order", "action %s of turn %d begins in another turn", e.ID, e.Turn)
	}
	return duty
}

// durable checks that a record is on the disk, as this activation knows it.
func (s *shell) durable(what string, seq int64) {
	if seq <= s.base {
		return
	}
	if r := s.own[seq-s.base-1]; !s.client.onDisk(s.inc, seq, r.Hash) {
		s.host.w.violated("order", "%s before record %d is on the disk", what, seq)
	}
}

func (s *shell) publish(e *turn.Publish) {
	w := s.host.w
	if d := e.Update.Delta; d != nil && d.Kind == messages.ResultText {
		s.flows(e)
		return
	}
	if r := e.Update.Record; r != nil {
		if r.Seq != s.published+1 {
			w.violated("order", "record %d is shown after record %d", r.Seq, s.published)
		}
		s.published = r.Seq
		s.client.saw(r)
		switch b := r.Body.(type) {
		case *messages.UnitText:
			// What a turn that a restart ended had shown is not shown again, and what was
			// held is shown by its record alone, as is a thought that began as a response.
			alone := s.audit.isRelease(b) || s.audit.rethought[b.Unit] || b.UnitKind == messages.ThoughtUnit && s.audit.holding()
			if so := s.shown[b.Unit]; so != b.Text && !(so == "" && alone) && s.client.rules.Durability != turn.WholeUnit && (r.Turn != s.settles || s.audit.streams) {
				w.violated("order", "unit %s is %q, and %q was shown", b.Unit, cut(b.Text), cut(so))
			}
		case *messages.TurnDecided:
			clear(s.shown)
			clear(s.flowing)
		case *messages.ActionStarted:
			delete(s.flowing, leftID(r.Turn, b.ID))
		case *messages.ActionEnded:
			s.flowed(r.Turn, b)
		case *messages.Retract:
			s.tornBack(b)
		}
		return
	}
	d := e.Update.Delta
	if d.Seq != s.published {
		w.violated("order", "a delta says that record %d was the last one shown, it was %d", d.Seq, s.published)
	}
	so := s.shown[d.Unit.String()] + d.Text
	if int64(len(so)) != d.Off {
		w.violated("order", "a delta of unit %s ends at %d, %d bytes were shown", d.Unit, d.Off, len(so))
	}
	s.shown[d.Unit.String()] = so
	kind := messages.Kind("")
	if s.client.dialect.controls { // a thought in a block is shown before a response of it
		kind = d.Kind
	}
	if latest := s.latest[kind]; d.Unit.Turn == latest.Turn && d.Unit.N < latest.N && !s.audit.blocked[d.Unit.Turn] { // a block that waits for what is behind it holds no response
		w.violated("order", "a delta of unit %s is shown after one of unit %s", d.Unit, latest)
	}
	s.latest[kind] = d.Unit
	s.durable("delta", e.After)
}

func (s *shell) openModel(e *turn.OpenModel) {
	w := s.host.w
	a := s.audit
	if a.turn != e.Turn || a.nonce != e.Nonce || a.replied {
		w.violated("single-flight", "the model of turn %d is asked in turn %d", e.Turn, a.turn)
	}
	s.durable("open-model", a.begin)
	for _, stream := range []struct {
		digest messages.Digest
		live   []byte
	}{{e.OutDigest, e.Out}, {e.ScrDigest, e.Scr}} {
		var kept []byte
		if !stream.digest.IsZero() {
			var err error
			if kept, err = w.disk.Blob(bg, s.inc, stream.digest); err != nil {
				w.violated("forgotten", "the streams of the turn before: %v", err)
			}
		}
		if e.HaveCarry && !bytes.Equal(kept, stream.live) {
			w.violated("projection", "turn %d is given %q, the journal keeps %q", e.Turn, cut(string(stream.live)), cut(string(kept)))
		}
	}
	if in := s.audit.input; in == nil || e.Run != s.audit.run || e.Text != in.Text || e.Userdata != in.Userdata {
		w.violated("projection", "turn %d of run %d is given another input than the run's", e.Turn, e.Run)
	}
	if err := s.prompted(e); err != nil {
		w.violated("feed", "%v", err)
	}
	if w.mumbles {
		e.Failed = nil
	}
	if err := a.isTold(e); err != nil {
		w.violated("chance", "%v", err)
	}
	s.responses = nil
	s.model = s.newModel(e)
}

// left checks that a turn that is over left nothing running.
func (s *shell) left() {
	w := s.host.w
	if !s.flies {
		return
	}
	if m := s.model; m != nil && !m.over && !m.cancelled {
		w.violated("single-flight", "turn %d is over and its model was not told", s.of.Turn)
	}
	if p := s.program; p != nil && !p.over && !p.stopped {
		w.violated("single-flight", "turn %d is over and its program was not told", s.of.Turn)
	}
	for _, a := range s.attempts {
		if !a.over && !a.cancelled && !(a.start.Detached && s.machine.Runs(a.start.Ident, a.start.ID)) {
			w.violated("single-flight", "turn %d is over and its action %s was not told", s.of.Turn, a.start.ID)
		}
	}
}

func (s *shell) askGate(e *turn.AskGate) {
	w := s.host.w
	in := &turn.Judged{Ident: e.Ident, ID: e.ID, Answer: messages.GateApprove}
	switch n := w.rnd.IntN(20); {
	case n < 2 && s.client.careful:
		in.Answer, in.By, in.Reason = messages.GateConfirm, "rule", "ask first"
	case n < 4:
		in.Answer, in.By, in.Reason, in.Record = messages.GateDeny, "rule", "not here", true
	case n < 7:
		in.By, in.Record = "hook", true
	}
	if s.client.dialect.Name() == kitsu.Name { // its meta-controller comes first
		if answer, why := s.client.meta(e); answer == messages.GateDeny || answer == messages.GateConfirm && in.Answer == messages.GateApprove {
			in.Answer, in.By, in.Reason, in.Record = answer, "companion", why, true
		}
	}
	name := action(s.client, s.inc, e.Turn, e.ID, e.Args)
	s.gates[name] = in.Answer
	if s.client.gates[name] != messages.GateApprove {
		s.client.gates[name] = in.Answer
	}
	if w.rnd.IntN(4) == 0 {
		s.slow = append(s.slow, in)
		return
	}
	s.drive.Queue(in)
}

func (s *shell) startAction(e *turn.StartAction) {
	w := s.host.w
	c := s.audit.call(e.Turn, e.ID)
	if c == nil || c.attempts == 0 || c.ended || c.key != e.Key {
		w.violated("order", "action %s begins outside its records", e.ID)
	}
	gate, here := s.gates[action(s.client, s.inc, e.Turn, e.ID, e.Args)]
	if !here { // it was asked before a restart
		gate = s.client.gates[action(s.client, s.inc, e.Turn, e.ID, e.Args)]
	}
	// What was asked in the life that goes on is in its records: the gate may have said
	// something else in one that lost.
	if gate != messages.GateApprove && !(c.parked && c.approved) {
		w.violated("effect", "action %s begins and was denied", e.ID)
	}
	if durable(e.Class) {
		s.durable("start-action", c.startSeq)
	}
	if by := s.written[leftID(e.Turn, written(e.ID))]; by != nil && (c.again > by.Retry || e.Deadline.After(c.startTS.Add(by.Timeout))) {
		w.violated("effect", "action %s, retry %d, begins at %s until %s; it may take %s and %d retries", e.ID, c.again, c.startTS, e.Deadline, by.Timeout, by.Retry)
	}
	for _, o := range s.attempts {
		if o.start.Ident == e.Ident && o.start.ID == e.ID && !o.over && !o.cancelled {
			w.violated("effect", "attempt %d of action %s begins while attempt %d runs", e.Attempt, e.ID, o.start.Attempt)
		}
	}
	a := &attempt{s: s, start: e, deed: w.outside.begin(s, e), silent: w.happens(w.weather.hang)}
	if w.twice {
		w.outside.begin(s, e)
	}
	s.attempts = append(s.attempts, a)
}

func (s *shell) cancelAction(e *turn.CancelAction) {
	for _, a := range s.attempts {
		if a.start.Ident == e.Ident && a.start.ID == e.ID {
			a.cancelled = true
		}
	}
}
