package turn

import (
	"crypto/sha256"

	"github.com/seed14be6753/stile/messages"
)

func (m *Machine) modelOpened(in *ModelOpened) {
	if !m.current(in.Ident) || m.phase != Generating {
		return
	}
	req := in.Request
	m.persist(&req, LazyHold)
	m.flight.lints = append(m.flight.lints, req.Lints...)
}

func (m *Machine) modelSwitched(in *ModelSwitched) {
	if !m.current(in.Ident) || m.phase != Generating {
		return
	}
	fb := in.Fallback
	m.persist(&fb, LazyHold)
}

// decoded takes reply bytes. In draining they are late and dropped: the reply is
// sealed at its length of that moment.
func (m *Machine) decoded(in *Decoded) {
	if !m.current(in.Ident) {
		return
	}
	f := m.flight
	if m.phase != Generating || f.replied {
		m.dropped++
		return
	}
	if len(f.reply)+len(in.Bytes) > MaxReplyBytes {
		m.stop(messages.ErrQuota, "reply: over 8 MiB")
		return
	}
	f.reply = append(f.reply, in.Bytes...)
	m.chunk(false)
	m.events(in.Events)
}

// chunk records the reply bytes that are not yet in a record: always in strict
// mode, else when a lazy batch is full or old enough.
func (m *Machine) chunk(force bool) (seq int64) {
	f := m.flight
	n := len(f.reply) - f.recorded
	strict := m.cfg.Durability == Strict
	due := strict || force || n >= LazyBytes || m.now.Sub(f.chunked) >= LazyHold
	if n == 0 || !due {
		return 0
	}
	hold := LazyHold
	if strict {
		hold = 0
	}
	r := m.persist(&messages.ModelChunk{Off: int64(f.recorded), Bytes: append([]byte(nil), f.reply[f.recorded:]...)}, hold)
	f.recorded, f.chunked = len(f.reply), m.now
	return r.Seq
}

// events folds what the decoder found.
func (m *Machine) events(evs []messages.Event) {
	f := m.flight
	for i := range evs {
		ev := &evs[i]
		switch ev.Kind {
		case messages.EventUnitBegin:
			f.units = append(f.units, messages.Unit{ID: messages.UnitID{Turn: f.Turn, N: ev.Unit}, Kind: ev.UnitKind})
			f.open = len(f.units) - 1
		case messages.EventUnitText:
			m.unitText(ev)
		case messages.EventUnitEnd:
			m.unitEnd(ev)
		case messages.EventProgram:
			f.program = append([]byte(nil), ev.Text...)
		case messages.EventParseError:
			f.errors = append(f.errors, ev.Fault)
			m.persist(&messages.ParseFault{Code: ev.Fault.Code, Offset: ev.Fault.Offset, Detail: ev.Fault.Detail}, LazyHold)
		case messages.EventLint:
			f.lints = append(f.lints, ev.Fault.Code)
			m.persist(&messages.Lint{Code: ev.Fault.Code, Offset: ev.Fault.Offset, Detail: ev.Fault.Detail}, LazyHold)
		}
	}
}

func (m *Machine) unitText(ev *messages.Event) {
	f := m.flight
	if f.open < 0 {
		m.illegal()
		return
	}
	u := &f.units[f.open]
	u.Text += string(ev.Text)
	if m.cfg.Durability == WholeUnit {
		return
	}
	p := &Publish{Update: messages.Update{Delta: &messages.Delta{
		Unit: u.ID, Kind: u.Kind, Off: int64(len(u.Text)), Text: string(ev.Text),
	}}}
	if m.cfg.Durability == Strict {
		p.After = m.state.Seq
	}
	m.do(p)
}

func (m *Machine) unitEnd(ev *messages.Event) {
	f := m.flight
	if f.open < 0 {
		m.illegal()
		return
	}
	u := &f.units[f.open]
	u.Final, u.Complete = ev.Final, ev.Complete
	f.final = f.final || u.Final && u.Complete
	f.open = -1
	m.persist(&messages.UnitText{UnitKind: u.Kind, Unit: u.ID.String(), Text: u.Text, Final: u.Final, Complete: u.Complete}, LazyHold)
}

// replyEnd seals the reply and hands over to the program, if there is one.
func (m *Machine) replyEnd(in *ReplyEnd) {
	if !m.current(in.Ident) {
		return
	}
	f := m.flight
	if m.phase != Generating || f.replied {
		m.dropped++
		return
	}
	m.events(in.Events)
	m.stopTimer(ClockGeneration)
	f.modelErr = in.Err
	if in.Finish == messages.FinishError {
		m.persist(&messages.Control{What: messages.ControlModelError, Code: messages.ErrModel, Detail: in.Err}, LazyHold)
	}
	m.seal(in.Finish, in.Usage, in.CostMicroUSD)
	if what := m.overBudget(); what != "" {
		m.stop(messages.ErrQuota, what)
		return
	}
	if f.program != nil && len(f.errors) == 0 && in.Finish != messages.FinishError && in.Finish != messages.FinishCancelled {
		m.to(Running)
		f.ran = true
		m.do(&RunProgram{Ident: f.Ident, Source: f.program, Userdata: m.state.Open.Userdata})
		if d := m.cfg.Limits.ProgramWall; d > 0 {
			m.setTimer(ClockProgram, m.now.Add(d))
		}
		return
	}
	m.to(Verifying)
	m.decide()
}

// seal records the reply's end; its exact bytes become a blob.
func (m *Machine) seal(finish messages.Finish, usage messages.Usage, cost int64) {
	f := m.flight
	f.replied, f.finish = true, finish
	body := &messages.ModelReply{Length: int64(len(f.reply)), Finish: finish, Usage: usage, CostUSD: cost, Error: f.modelErr}
	var blobs []messages.Blob
	if len(f.reply) > 0 {
		b := blobOf(f.reply)
		body.Blob, blobs = b.Digest, []messages.Blob{b}
	}
	m.persist(body, LazyHold, blobs...)
}

func (m *Machine) overBudget() string {
	run, l := m.state.Open, m.cfg.Limits
	switch {
	case l.Tokens > 0 && run.Tokens > l.Tokens:
		return "tokens: the run used more than its limit"
	case l.CostMicroUSD > 0 && run.Cost > l.CostMicroUSD:
		return "cost_usd: the run cost more than its limit"
	}
	return ""
}

func blobOf(b []byte) messages.Blob { return messages.Blob{Digest: sha256.Sum256(b), Data: b} }
