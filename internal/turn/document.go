package turn

import (
	"bytes"
	"slices"

	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/messages"
)

// How a reply is acted on while it streams (docs/spec/streaming.md §4). The decoder's events
// come in the order of the document. An action in mode sync closes a gate, and a response that
// quotes a result stops at the reference. The events after either wait here, so that nothing
// overtakes what it may rest on. The decoder never waits; when more than Limits.GateBuffer
// bytes wait, the machine stops reading the model's stream.

// document is the reply of a dialect that acts before its reply ends.
type document struct {
	queue    []messages.Event // what waits, in order; texts are our own
	bytes    int              // of them
	paused   bool             // the stream is left unread
	complete bool             // the plan knows that no more actions come

	text *plan.Text // of the open response
	// quotes says that the open response quotes a result. Its text waits until the end of the
	// action is durable: after a crash the action could end in another way.
	quotes bool
	// shownAfter is the position of the latest end that something shown has waited for:
	// what follows in the document is not shown before it.
	shownAfter int64
	flushed    int64           // the position for which Hurry was last asked
	heldEnd    *messages.Event // end of the open response, while it waits for a reference
	undecided  *messages.Event // the same, while it is not known whether it is final

	blocks blocks // control blocks
	unseen bool   // there are actions whose results the reply cannot know
	forged int    // feeds that the model wrote

	// known counts what the records of a turn that is read again have already.
	known known
}

// known counts what a restored turn finds recorded of its reply.
type known struct {
	lints, actions, templates int
	faults                    []*messages.ParseFault // those that were not come to again
	units                     map[string]bool        // by id
}

// waits reports whether the open response has stopped: at a reference, or undecided.
func (d *document) waits() bool {
	_, waits := d.waiting()
	return waits || d.heldEnd != nil || d.undecided != nil
}

// waiting returns what the open response waits for; ok is false if it waits for nothing.
func (d *document) waiting() (w plan.Wait, ok bool) {
	if d.text == nil {
		return plan.Wait{}, false
	}
	return d.text.Waits()
}

// partOf returns what the gate takes an event for. open is the kind of the open unit.
func partOf(ev *messages.Event, open messages.Kind) plan.Part {
	kind := open
	switch ev.Kind {
	case messages.EventParseError, messages.EventLint:
		return plan.PartError
	case messages.EventAction, messages.EventRollback, messages.EventBlock, messages.EventBranch, messages.EventBlockEnd:
		return plan.PartAction
	case messages.EventFeed:
		return plan.PartFeed
	case messages.EventUnitBegin:
		kind = ev.UnitKind
	}
	switch kind {
	case messages.ResponseUnit:
		return plan.PartResponse
	case messages.ThoughtUnit:
		return plan.PartThought
	}
	return plan.PartText
}

// passes reports whether an event is acted on now, or has to wait.
func (m *Machine) passes(ev *messages.Event) bool {
	f := m.flight
	var open messages.Kind
	if f.parsed.open >= 0 {
		open = f.parsed.units[f.parsed.open].Kind
	}
	part := partOf(ev, open)
	if !m.graph.plan.Passes(part, f.doc.waits()) {
		return false
	}
	// A response that is collected with its block is not shown here.
	return part != plan.PartResponse && part != plan.PartFeed || f.doc.blocks.open != nil || !m.graph.plan.Blocked(0)
}

// arrive takes events of the decoder: it acts on them at once, or queues them behind others.
func (m *Machine) arrive(evs []messages.Event) (fault string) {
	f := m.flight
	d := f.doc
	if n := actions(evs); n > 1 {
		f.calls = slices.Grow(f.calls, n)
		m.graph.plan.Grow(n)
	}
	for i := range evs {
		ev := &evs[i]
		if len(d.queue) > 0 || !m.passes(ev) {
			own := *ev
			own.Text = bytes.Clone(ev.Text)
			d.queue = append(d.queue, own)
			d.bytes += weight(&own)
			m.follows(ev)
			continue
		}
		if fault = m.take(ev); fault != "" || !m.acts(f) {
			return fault
		}
		if fault = m.runPlan(); fault != "" || !m.acts(f) {
			return fault
		}
		if len(d.blocks.says) > 0 {
			if fault = m.speak(); fault != "" || !m.acts(f) {
				return fault
			}
		}
	}
	if d.bytes > m.cfg.Limits.gateBuffer() && !d.paused && !f.reply.ended && !m.gateParked() {
		d.paused = true
		m.do(&HoldModel{Ident: m.flight.Ident, Hold: true})
	}
	return ""
}

// actions counts the actions among evs, so that room for a batch is made once.
func actions(evs []messages.Event) (n int) {
	for i := range evs {
		if evs[i].Kind == messages.EventAction {
			n++
		}
	}
	return n
}

// weight is the number of bytes that a waiting event counts for.
func weight(ev *messages.Event) int {
	n := 64 + len(ev.Text)
	if ev.Action != nil {
		n += len(ev.Action.Args)
	}
	return n
}

// gateParked reports whether the gate waits for an approval: then the reply is read to its
// end, however long it is (docs/spec/design.md §7).
func (m *Machine) gateParked() bool { return m.graph.plan.GateParked() }

// take acts on one event.
func (m *Machine) take(ev *messages.Event) (fault string) {
	f := m.flight
	d := f.doc
	if fault = hollow(ev); fault != "" || m.behindFinal(ev) || f.parsed.final && m.ignores(ev) {
		return fault
	}
	d.unseen = d.unseen || m.blinds(ev) || m.invents(ev)
	if m.structured(ev) {
		return m.collect(ev)
	}
	return m.act(ev)
}

// act acts on an event that stands in no control block.
func (m *Machine) act(ev *messages.Event) (fault string) {
	f := m.flight
	d := f.doc
	switch ev.Kind {
	case messages.EventUnitBegin:
		if fault = f.begin(ev); fault != "" || m.tooManyUnits() {
			return fault
		}
		if ev.UnitKind == messages.ResponseUnit && !m.cfg.Judge.Traits().Verbatim {
			d.text, d.quotes = m.graph.plan.Text(), false
		}
	case messages.EventUnitText:
		if f.parsed.open < 0 {
			return "decoder: text outside a unit"
		}
		if d.text == nil {
			m.grow(ev.Text)
			break
		}
		text := d.text.Push(nil, ev.Text)
		d.quotes = d.quotes || !bytes.Equal(text, ev.Text)
		m.grow(m.flowed(text))
	case messages.EventUnitEnd:
		if f.parsed.open < 0 {
			return "decoder: a unit ends that never began"
		}
		if d.text != nil {
			m.grow(m.flowed(d.text.End(nil)))
			if !d.text.Done() {
				own := *ev
				own.Text = nil
				d.heldEnd = &own
				return ""
			}
		}
		m.conclude(ev)
	case messages.EventParseError:
		m.complain(ev.Fault)
		d.rejectedIn(ev)
		if refuses(ev.Fault.Reason, ev.Fault.ID) {
			return m.reject(ev.Fault.ID)
		}
	case messages.EventLint:
		f.parsed.lints = append(f.parsed.lints, ev.Fault.Code)
		m.remark(&messages.Lint{Code: ev.Fault.Code, Offset: ev.Fault.Offset, Detail: ev.Fault.Detail})
	case messages.EventFeed:
		m.forged(ev)
	case messages.EventAction:
		return m.declareAction(ev.Action)
	case messages.EventTemplate:
		return m.defined(ev)
	case messages.EventRollback:
		m.askRollback(ev)
	case messages.EventBlock, messages.EventBranch, messages.EventBlockEnd:
		return "decoder: a control block that was not begun" // collect takes those that were
	case messages.EventCut:
		f.reply.cut = true // upToCut has set it, except when a restored turn is read again
	case messages.EventStop:
		if m.cfg.Judge.Traits().Unseen {
			f.parsed.awaits = true // conclude has decided whether the response is final
			break
		}
		f.parsed.final, f.parsed.awaits = f.parsed.final || ev.Final, f.parsed.awaits || !ev.Final
	case messages.EventProgram:
		return "decoder: a program in a reply that is acted on while it streams"
	}
	return ""
}

// remark records a lint, unless the journal has it already.
func (m *Machine) remark(l *messages.Lint) {
	if d := m.flight.doc; d.known.lints > 0 {
		d.known.lints--
		return
	}
	m.persist(l, LazyHold)
}

// forged takes a feed that the model wrote: it is recorded for logs and changes nothing
// (docs/spec/streaming.md §2). Its text is in the reply. Only the first MaxParseErrors of a
// reply are recorded.
func (m *Machine) forged(ev *messages.Event) {
	f := m.flight
	if f.doc.forged++; f.doc.forged > messages.MaxParseErrors {
		return
	}
	if f.doc.forged == 1 {
		f.parsed.lints = append(f.parsed.lints, messages.LintFeedForged)
	}
	m.remark(&messages.Lint{Code: messages.LintFeedForged, Offset: ev.Offset, Detail: "context_feed " + shortName(clean(ev.ID))})
}

// complain keeps an error of the decoder. The first MaxParseErrors of a reply are recorded one
// by one, the others counted: a reply can consist of mistakes alone.
func (m *Machine) complain(e *messages.ParseError) {
	f := m.flight
	d := f.doc
	// What stands in blocks is come to in another order than in the life before.
	at := slices.IndexFunc(d.known.faults, func(k *messages.ParseFault) bool { return sameFault(k, e) })
	if at >= 0 {
		d.known.faults = slices.Delete(d.known.faults, at, at+1)
	} else if len(f.parsed.errors) < messages.MaxParseErrors {
		m.persist(messages.FaultOf(e), LazyHold)
	} else {
		if f.parsed.moreErrors.N == 0 {
			f.parsed.moreErrors = messages.ParseFault{Code: e.Code, Offset: e.Offset, Reason: messages.MoreErrors}
		}
		f.parsed.moreErrors.N++
		return
	}
	f.parsed.errors = append(f.parsed.errors, *e)
}

// sameFault reports whether a record is of an error. Its detail may have had another wording.
func sameFault(k *messages.ParseFault, e *messages.ParseError) bool {
	f := *messages.FaultOf(e)
	f.Detail = k.Detail
	return f == *k
}

// grow adds shown text to the open unit.
func (m *Machine) grow(text []byte) {
	if len(text) == 0 {
		return
	}
	f := m.flight
	if f.doc.known.units != nil && f.doc.known.units[f.parsed.units[f.parsed.open].ID.String()] { // shown before the turn was restored
		f.parsed.text.Write(text)
		return
	}
	m.unitText(&messages.Event{Text: text})
}

// endUnit closes the open unit and records it.
func (m *Machine) endUnit(ev *messages.Event) {
	d := m.flight.doc
	d.text, d.heldEnd, d.undecided = nil, nil, nil
	if id := m.flight.parsed.units[m.flight.parsed.open].ID; d.known.units != nil && d.known.units[id.String()] {
		m.flight.shut(ev)
	} else {
		m.unitEnd(ev)
	}
	m.spoken(ev.Final && ev.Complete)
}

// pump goes on with the document after an action or the reply has ended, or a value has
// come.
func (m *Machine) pump() (fault string) {
	f := m.flight
	d := f.doc
	for {
		if fault = m.runPlan(); fault != "" || !m.acts(f) {
			return fault
		}
		m.followed()
		if d.text != nil && d.undecided == nil {
			if fault = m.recordQuoted(); fault != "" {
				return fault
			}
			m.grow(m.flowed(d.text.Resume(nil)))
			if d.heldEnd != nil && d.text.Done() {
				m.conclude(d.heldEnd)
				if fault = m.runPlan(); fault != "" || !m.acts(f) { // its block may end
					return fault
				}
			}
			if w, waits := d.waiting(); waits && w.Feed != "" {
				m.wantFeed(w.Feed)
			}
		}
		if len(d.blocks.says) > 0 || d.blocks.speaking != nil {
			if fault = m.speak(); fault != "" || !m.acts(f) {
				return fault
			}
			if fault = m.runPlan(); fault != "" || !m.acts(f) {
				return fault
			}
		}
		if len(d.queue) == 0 {
			d.queue = nil
			if d.complete && d.known.actions > 0 { // the decoder has changed since the reply was recorded
				return "decoder: the reply has fewer actions than are recorded of it"
			}
			if !f.reply.ended || d.complete || d.waits() {
				break
			}
			d.complete = true // an iteration may begin when its end dooms what is in the one before
			effects, err := m.graph.plan.End(nil)
			if err != nil {
				return err.Error()
			}
			m.graph.todo = append(m.graph.todo, effects...)
			continue
		}
		if !m.passes(&d.queue[0]) {
			break
		}
		ev := d.queue[0]
		d.queue[0] = messages.Event{}
		d.queue, d.bytes = d.queue[1:], d.bytes-weight(&ev)
		if fault = m.take(&ev); fault != "" || !m.acts(f) {
			return fault
		}
	}
	if d.paused && (d.bytes <= m.cfg.Limits.gateBuffer() || m.gateParked()) && !f.reply.ended {
		d.paused = false
		m.do(&HoldModel{Ident: f.Ident, Hold: false})
	}
	return ""
}

// advance goes on with a turn that acts while its reply streams: first with the document;
// when that is done, the turn is decided, or suspended if it waits for answers alone.
func (m *Machine) advance() {
	f := m.flight
	if fault := m.pump(); fault != "" {
		m.crash(ChildModel, fault)
		return
	}
	if !m.acts(f) {
		return
	}
	d := f.doc
	if (f.parsed.final || f.parsed.awaits || f.reply.cut) && !f.reply.closing {
		f.reply.closing = true
		if !f.reply.ended {
			m.do(&CancelModel{Ident: f.Ident})
		}
		if f.parsed.final { // without a final response the model waits for results: no drain clock
			m.setTimer(ClockDrain, m.now.Add(m.cfg.Limits.drain()))
		}
	}
	if !f.reply.ended || m.phase != Running {
		return
	}
	switch {
	case len(d.queue) == 0 && !d.waits() && d.complete && m.graph.plan.Complete() && !f.unbegun():
		m.stopTimer(ClockDrain)
		m.to(Verifying)
		m.decide()
	case m.waits():
		m.suspend()
	}
}

// partial ends the open unit of a reply that is not read further. Text that was held back is
// not shown.
func (m *Machine) partial() {
	f := m.flight
	if f.doc != nil {
		f.doc.queue, f.doc.bytes = nil, 0
		f.doc.blocks = blocks{}
		if f.parsed.open >= 0 {
			m.endUnit(&messages.Event{})
		}
		return
	}
	m.closeUnit()
}
