package turn

import (
	"cmp"
	"crypto/sha256"
	"slices"

	"github.com/seed14be6753/stile/messages"
)

// generating reports whether an input of the model still counts. In DRAINING it is late: the
// reply was sealed when the turn was stopped.
func (m *Machine) generating(id Ident) bool {
	if !m.current(id) {
		return false
	}
	if m.phase != Generating {
		m.dropped++
		return false
	}
	return true
}

func (m *Machine) modelOpened(in *ModelOpened) {
	if !m.generating(in.Ident) {
		return
	}
	req := in.Request
	var blobs []messages.Blob
	if len(in.System) > 0 {
		blobs = []messages.Blob{{Digest: req.System, Data: in.System}}
	}
	m.persist(&req, LazyHold, blobs...)
	m.flight.reply.fell = false // what was given up has begun no reply
	m.flight.parsed.lints = append(m.flight.parsed.lints, req.Lints...)
}

func (m *Machine) modelTalk(in *ModelTalk) {
	if !m.generating(in.Ident) {
		return
	}
	body := in.Session
	m.persist(&body, LazyHold)
	m.flight.reply.fell = body.What == messages.SessionFallback
}

func (m *Machine) modelSwitched(in *ModelSwitched) {
	if !m.generating(in.Ident) {
		return
	}
	fb := in.Fallback
	m.persist(&fb, LazyHold)
}

// decoded takes reply bytes and their events.
func (m *Machine) decoded(in *Decoded) {
	if !m.generating(in.Ident) {
		return
	}
	f := m.flight
	if in.Usage != (messages.Usage{}) {
		f.reply.spent = spent{in.Usage, in.CostMicroUSD, in.Unpriced}
	}
	if f.reply.cut { // bytes that were on their way when the reply was cut
		return
	}
	kept, fault := m.upToCut(in)
	if fault != "" {
		m.crash(ChildModel, fault)
		return
	}
	if most := m.cfg.Limits.ReplyBytes(); int64(len(f.reply.bytes)+len(kept)) > most {
		m.overrun("reply", most, "bytes a reply")
		return
	}
	f.reply.bytes = append(f.reply.bytes, kept...)
	m.chunk(f.doc != nil && recordable(in.Events) || f.rethinks(in.Events))
	if fault := m.events(in.Events); fault != "" {
		m.crash(ChildModel, fault)
		return
	}
	if f.doc != nil && m.acts(f) {
		m.advance()
	}
}

// upToCut returns the bytes that count, and cuts the reply at an EventCut. The journal has the
// reply up to the cut: so it does not depend on how the reply came in pieces, and the next
// prompt does not show the model text that it wrote without knowing the result.
func (m *Machine) upToCut(in *Decoded) (kept []byte, fault string) {
	f := m.flight
	for i := range in.Events {
		ev := &in.Events[i]
		if ev.Kind != messages.EventCut {
			continue
		}
		keep := ev.Offset - int64(len(f.reply.bytes))
		if f.doc == nil || keep < 0 || keep > int64(len(in.Bytes)) || i < len(in.Events)-1 {
			return nil, "decoder: a reply is cut where it is not read"
		}
		f.reply.cut = true
		return in.Bytes[:keep], ""
	}
	return in.Bytes, ""
}

// recordable reports whether records follow from the events. If an action may start at once,
// the bytes that made it must precede it in the journal.
func recordable(evs []messages.Event) bool {
	for i := range evs {
		switch evs[i].Kind {
		case messages.EventUnitBegin, messages.EventUnitText:
		default:
			return true
		}
	}
	return false
}

// chunk records the reply bytes that are not yet in a record: always in strict mode and when
// now is set, else when a lazy batch of them is full or old enough.
func (m *Machine) chunk(now bool) {
	f := m.flight
	n := len(f.reply.bytes) - f.reply.recorded
	strict := m.cfg.Durability == Strict
	if n == 0 || !strict && !now && n < LazyBytes && m.now.Sub(f.reply.chunked) < LazyHold {
		return
	}
	hold := LazyHold
	if strict {
		hold = 0
	}
	m.persist(&messages.ModelChunk{Off: int64(f.reply.recorded), Bytes: append([]byte(nil), f.reply.bytes[f.reply.recorded:]...)}, hold)
	f.reply.recorded, f.reply.chunked = len(f.reply.bytes), m.now
}

// hollow returns a fault for an event that lacks its content: a defect of the decoder.
func hollow(ev *messages.Event) (fault string) {
	switch ev.Kind {
	case messages.EventParseError, messages.EventLint:
		if ev.Fault == nil {
			return "decoder: a fault that does not say what is wrong"
		}
	case messages.EventAction:
		if ev.Action == nil {
			return "decoder: an action that is none"
		}
	case messages.EventTemplate:
		if ev.Block == nil || ev.Block.Name == "" {
			return "decoder: a template that is none"
		}
	case messages.EventBlock, messages.EventBranch, messages.EventBlockEnd:
		if ev.Block == nil {
			return "decoder: a block that does not say which"
		}
	}
	return ""
}

// events folds the decoder's events. An impossible order of events is a defect of the decoder
// and returned as the reason for a crash.
func (m *Machine) events(evs []messages.Event) (fault string) {
	f := m.flight
	if f.doc != nil {
		return m.arrive(evs)
	}
	for i := range evs {
		ev := &evs[i]
		if fault = hollow(ev); fault != "" {
			return fault
		}
		switch ev.Kind {
		case messages.EventUnitBegin:
			if fault = f.begin(ev); fault != "" || m.tooManyUnits() {
				return fault
			}
		case messages.EventUnitText:
			if f.parsed.open < 0 {
				return "decoder: text outside a unit"
			}
			m.unitText(ev)
		case messages.EventUnitEnd:
			if f.parsed.open < 0 {
				return "decoder: a unit ends that never began"
			}
			m.unitEnd(ev)
		case messages.EventProgram:
			f.program.source = append([]byte(nil), ev.Text...)
		case messages.EventParseError:
			f.parsed.errors = append(f.parsed.errors, *ev.Fault)
			m.persist(messages.FaultOf(ev.Fault), LazyHold)
		case messages.EventLint:
			f.parsed.lints = append(f.parsed.lints, ev.Fault.Code)
			m.persist(&messages.Lint{Code: ev.Fault.Code, Offset: ev.Fault.Offset, Detail: ev.Fault.Detail}, LazyHold)
		}
	}
	return ""
}

// begin opens a unit.
func (f *flight) begin(ev *messages.Event) (fault string) {
	if f.parsed.open >= 0 {
		return "decoder: a unit begins inside another"
	}
	f.parsed.units = append(f.parsed.units, messages.Unit{ID: messages.UnitID{Turn: f.Turn, N: ev.Unit}, Kind: ev.UnitKind})
	f.parsed.open = len(f.parsed.units) - 1
	f.parsed.place = numbered(ev.Block)
	return ""
}

// numbered returns the place of a unit that stands in a numbered thought, else nil.
func numbered(at *messages.Block) *messages.Block {
	if at == nil || at.N == 0 {
		return nil
	}
	return at
}

// tooManyUnits ends a turn whose reply has over MaxUnits units, from rendering 2 on: each unit
// is a record, and a part of every view of the session.
func (m *Machine) tooManyUnits() bool {
	if m.cfg.Rendering < 2 || len(m.flight.parsed.units) <= MaxUnits {
		return false
	}
	m.overrun("units", MaxUnits, "units a reply")
	return true
}

// unitText shows text of the open unit, when it may be shown now.
func (m *Machine) unitText(ev *messages.Event) {
	f := m.flight
	u := &f.parsed.units[f.parsed.open]
	f.parsed.text.Write(ev.Text)
	if m.cfg.Durability == WholeUnit || m.holds(u.Kind) {
		return
	}
	if len(ev.Text) > 0 && u.Kind == messages.ResponseUnit {
		m.replace()
	}
	p := &Publish{Update: messages.Update{Delta: &messages.Delta{
		TS: m.now, Run: m.state.Open.Run, Unit: u.ID, Kind: u.Kind, Off: int64(f.parsed.text.Len()), Text: string(ev.Text),
		Thought: f.parsed.place,
	}}}
	if m.cfg.Durability == Strict {
		p.After = m.state.Seq
	}
	p.After = max(p.After, f.replaced)
	if d := f.doc; d != nil {
		if d.quotes && f.lastEnd > 0 {
			d.shownAfter = f.lastEnd
			if d.flushed < f.lastEnd {
				d.flushed = f.lastEnd
				m.do(Hurry{})
			}
		}
		p.After = max(p.After, d.shownAfter)
	}
	m.do(p)
}

// replace takes back the units that the turn's first text replaces (docs/spec/kitsu.md §6).
// The text is shown when the retract is durable.
func (m *Machine) replace() {
	for _, unit := range slices.Clone(m.state.Open.Retract) {
		m.flight.replaced = m.persist(&messages.Retract{Unit: unit}, 0).Seq
	}
}

// unitEnd closes the open unit and records it.
func (m *Machine) unitEnd(ev *messages.Event) {
	f := m.flight
	if u := f.parsed.units[f.parsed.open]; u.Kind == messages.ResponseUnit && ev.UnitKind == messages.ThoughtUnit &&
		f.parsed.text.Len() > 0 && m.cfg.Durability != WholeUnit && !m.holds(u.Kind) {
		f.replaced = m.persist(&messages.Retract{Unit: u.ID.String(), Thought: true}, 0).Seq
	}
	m.recordUnit(f.shut(ev))
}

// rethinks reports whether a response turns out to be a thought. The bytes that say so precede
// its retract in the journal: a crash between the two leaves nothing that a replay cannot explain.
func (f *flight) rethinks(evs []messages.Event) bool {
	kind := messages.Kind("")
	if f.parsed.open >= 0 {
		kind = f.parsed.units[f.parsed.open].Kind
	}
	for i := range evs {
		switch ev := &evs[i]; {
		case ev.Kind == messages.EventUnitBegin:
			kind = ev.UnitKind
		case ev.Kind == messages.EventUnitEnd && ev.UnitKind == messages.ThoughtUnit && kind == messages.ResponseUnit:
			return true
		}
	}
	return false
}

// recordUnit writes the record of a unit, without its text if that is held.
func (m *Machine) recordUnit(u *messages.Unit) {
	if m.holds(u.Kind) {
		m.persist(&messages.UnitText{UnitKind: messages.TextUnit, Unit: u.ID.String(), Complete: u.Complete}, LazyHold)
		return
	}
	if u.Text != "" && u.Kind == messages.ResponseUnit {
		m.replace()
	}
	body := &messages.UnitText{UnitKind: u.Kind, Unit: u.ID.String(), Text: u.Text, Final: u.Final, Complete: u.Complete}
	if at := m.flight.parsed.place; at != nil {
		body.N, body.Parent, body.Depth, body.Label = int64(at.N), int64(at.Parent), int64(at.Depth), at.Label
	}
	m.persist(body, LazyHold)
}

// replyEnd seals the reply and runs its program, if there is one.
func (m *Machine) replyEnd(in *ReplyEnd) {
	if !m.generating(in.Ident) {
		return
	}
	f := m.flight
	if fault := m.events(in.Events); fault != "" {
		m.crash(ChildModel, fault)
		return
	}
	if f.doc != nil && !m.acts(f) || f.doc == nil && m.phase != Generating {
		return
	}
	if f.doc == nil {
		m.closeUnit()
	}
	m.stopTimer(ClockGeneration)
	if f.reply.cut || f.reply.closing && in.Finish == messages.FinishCancelled {
		in.Finish, in.Err = messages.FinishStop, "" // the machine itself stopped the model
	}
	f.reply.modelErr = clean(in.Err)
	if in.Finish == messages.FinishError {
		f.reply.modelCode = cmp.Or(in.Code, messages.ErrModel)
		m.persist(&messages.Control{What: messages.ControlModelError, Code: f.reply.modelCode, Detail: f.reply.modelErr}, LazyHold)
	}
	f.reply.side = in.Side
	m.seal(in.Finish, spent{in.Usage, in.CostMicroUSD, in.Unpriced})
	if m.overBudget() {
		return
	}
	if f.doc != nil {
		m.to(Running)
		m.advance()
		return
	}
	if f.runnable() {
		m.to(Running)
		f.program.ran = true
		m.do(&RunProgram{Ident: f.Ident, Source: f.program.source, Userdata: m.userdata()})
		if d := m.cfg.Limits.ProgramWall; d > 0 {
			m.setTimer(ClockProgram, m.now.Add(d))
		}
		return
	}
	m.to(Verifying)
	m.decide()
}

// runnable reports whether the reply has a program that may be run.
func (f *flight) runnable() bool {
	return f.program.source != nil && len(f.parsed.errors) == 0 && f.reply.finish != messages.FinishError && f.reply.finish != messages.FinishCancelled
}

// seal records the end of the reply; its exact bytes become a blob.
func (m *Machine) seal(finish messages.Finish, on spent) {
	f := m.flight
	f.reply.ended, f.reply.finish = true, finish
	body := &messages.ModelReply{Length: int64(len(f.reply.bytes)), Finish: finish, Usage: on.usage, CostUSD: on.micro, Unpriced: on.unpriced, Error: f.reply.modelErr}
	var blobs []messages.Blob
	if len(f.reply.bytes) > 0 {
		b := blobOf(f.reply.bytes)
		body.Blob, blobs = b.Digest, []messages.Blob{b}
	}
	if len(f.reply.side) > 0 && !f.reply.cut {
		b := blobOf(f.reply.side)
		body.Side, blobs = b.Digest, append(blobs, b)
	}
	m.persist(body, LazyHold, blobs...)
}

// closeUnit ends a unit that its decoder left open, as incomplete.
func (m *Machine) closeUnit() {
	if m.flight.parsed.open >= 0 {
		m.unitEnd(&messages.Event{})
	}
}

func blobOf(b []byte) messages.Blob { return messages.Blob{Digest: sha256.Sum256(b), Data: b} }
