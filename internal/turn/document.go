package turn

import (
	"bytes"
	"slices"

	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/messages"
)

// How a reply is acted on while it streams (docs/spec/streaming.md §4). What the decoder finds
// comes in the order of the document. An action in mode sync closes a gate, and a
// response that quotes a result stops at the reference; what follows waits here, so
// that nothing overtakes what it may rest on. The decoder never waits: only when
// more than Limits.GateBuffer pile up is the model's stream left unread.

// document is the reply of a dialect that acts before its reply ends.
type document struct {
	queue    []messages.Event // what waits, in order; texts are our own
	bytes    int              // of them
	paused   bool             // the stream is left unread
	complete bool             // the plan knows that no more actions come

	text *plan.Text // of the open response
	// quotes tells that the open response shows what an action gave. It is shown when
	// the action's end is durable: a restart might end it otherwise.
	quotes bool
	// shownAfter is the position of the latest end that something shown has waited for:
	// what follows in the document is not shown before it.
	shownAfter int64
	flushed    int64           // the position for which Hurry was last asked
	heldEnd    *messages.Event // end of the open response, while it waits for a reference
	undecided  *messages.Event // the same, while it is not known whether it is final

	unseen bool // there are actions whose results the reply cannot know
	forged int  // feeds that the model wrote

	// Of a turn that is read again: what its records have already.
	known known
}

// known counts what a restored turn finds recorded of its reply.
type known struct {
	units, faults, lints, actions int
}

// waits tells that the open response stops at a reference.
func (d *document) waits() bool {
	_, waits := d.waiting()
	return waits || d.heldEnd != nil || d.undecided != nil
}

// waiting tells what it waits for.
func (d *document) waiting() (plan.Wait, bool) {
	if d.text == nil {
		return plan.Wait{}, false
	}
	return d.text.Waits()
}

// partOf says what an event is to the gate.
func partOf(ev *messages.Event, open messages.Kind) plan.Part {
	kind := open
	switch ev.Kind {
	case messages.EventParseError, messages.EventLint:
		return plan.PartError
	case messages.EventAction:
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

// passes reports whether an event goes on now.
func (m *Machine) passes(ev *messages.Event) bool {
	f := m.flight
	var open messages.Kind
	if f.parsed.open >= 0 {
		open = f.parsed.units[f.parsed.open].Kind
	}
	return m.graph.plan.Passes(partOf(ev, open), f.doc.waits())
}

// arrive takes what the decoder found: at once, or behind what waits.
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
	}
	if d.bytes > m.cfg.Limits.gateBuffer() && !d.paused && !f.reply.ended && !m.asksSomebody() {
		d.paused = true
		m.do(&HoldModel{Ident: m.flight.Ident, Hold: true})
	}
	return ""
}

// actions counts what comes at once: a batch has all its calls in one event each.
func actions(evs []messages.Event) (n int) {
	for i := range evs {
		if evs[i].Kind == messages.EventAction {
			n++
		}
	}
	return n
}

// weight is what an event costs while it waits.
func weight(ev *messages.Event) int {
	n := 64 + len(ev.Text)
	if ev.Action != nil {
		n += len(ev.Action.Args)
	}
	return n
}

// asksSomebody tells that the gate waits for an approval: then the reply is read to
// its end, however much that is (docs/spec/design.md §7).
func (m *Machine) asksSomebody() bool {
	id, closed := m.graph.plan.Gate()
	if !closed {
		return false
	}
	v, ok := m.graph.plan.Action(plan.Ref{Generation: m.graph.generation, ID: id})
	return ok && v.State == plan.Parked
}

// take acts on one event.
func (m *Machine) take(ev *messages.Event) (fault string) {
	f := m.flight
	d := f.doc
	if fault = hollow(ev); fault != "" || f.parsed.final && m.ignores(ev) {
		return fault
	}
	d.unseen = d.unseen || m.blinds(ev) || m.invents(ev)
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
		m.grow(text)
	case messages.EventUnitEnd:
		if f.parsed.open < 0 {
			return "decoder: a unit ends that never began"
		}
		if d.text != nil {
			m.grow(d.text.End(nil))
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
	case messages.EventCut:
		f.reply.cut = true // known already but in a turn that is read again
	case messages.EventStop:
		if m.cfg.Judge.Traits().Unseen {
			f.parsed.awaits = true // what is final has been decided with its response
			break
		}
		f.parsed.final, f.parsed.awaits = f.parsed.final || ev.Final, f.parsed.awaits || !ev.Final
	case messages.EventProgram:
		return "decoder: a program in a reply that is acted on while it streams"
	}
	return ""
}

// remark records a lint that a life before this one has not.
func (m *Machine) remark(l *messages.Lint) {
	if d := m.flight.doc; d.known.lints > 0 {
		d.known.lints--
		return
	}
	m.persist(l, LazyHold)
}

// forged takes a feed that the model wrote: it is there for logs and changes nothing
// (docs/spec/streaming.md §2). Its text is in the reply. As of errors the first of a reply are
// recorded.
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

// complain keeps what the decoder complained of: the first of a reply one by one, of the
// others how many there are. A reply can be nothing but mistakes.
func (m *Machine) complain(e *messages.ParseError) {
	f := m.flight
	d := f.doc
	if d.known.faults > 0 {
		d.known.faults--
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

// grow adds shown text to the open unit.
func (m *Machine) grow(text []byte) {
	if len(text) == 0 {
		return
	}
	if m.flight.doc.known.units > 0 { // it was shown before the turn was restored
		m.flight.parsed.text.Write(text)
		return
	}
	m.unitText(&messages.Event{Text: text})
}

// endUnit closes the open unit and shuts the record of its text.
func (m *Machine) endUnit(ev *messages.Event) {
	d := m.flight.doc
	d.text, d.heldEnd, d.undecided = nil, nil, nil
	if d.known.units > 0 {
		d.known.units--
		m.flight.shut(ev.Final, ev.Complete)
		return
	}
	m.unitEnd(ev)
}

// pump goes on with the document after something happened: an action has ended, the
// reply has, or a value has come.
func (m *Machine) pump() (fault string) {
	f := m.flight
	d := f.doc
	for {
		if fault = m.runPlan(); fault != "" || !m.acts(f) {
			return fault
		}
		m.followed()
		if d.text != nil && d.undecided == nil {
			m.grow(d.text.Resume(nil))
			if d.heldEnd != nil && d.text.Done() {
				m.conclude(d.heldEnd)
			}
			if w, waits := d.waiting(); waits && w.Feed != "" {
				m.wantFeed(w.Feed)
			}
		}
		if len(d.queue) == 0 {
			d.queue = nil
			if !f.reply.ended || d.complete || d.waits() {
				break
			}
			d.complete = true
			if d.known.actions > 0 { // it is read by other rules than those it was written under
				return "decoder: the reply has fewer actions than are recorded of it"
			}
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
	if d.paused && (d.bytes <= m.cfg.Limits.gateBuffer() || m.asksSomebody()) && !f.reply.ended {
		d.paused = false
		m.do(&HoldModel{Ident: f.Ident, Hold: false})
	}
	return ""
}

// goOn is what follows an answer in a turn that acts while it streams: the document
// goes on, and when nothing is left of it the turn is decided, or waits.
func (m *Machine) goOn() {
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
		if f.parsed.final { // results that the model waits for have the time of the turn
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

// partial ends the open unit of a reply that is not read on: what was held back of
// it is not shown.
func (m *Machine) partial() {
	f := m.flight
	if f.doc != nil {
		f.doc.queue, f.doc.bytes = nil, 0
		if f.parsed.open >= 0 {
			m.endUnit(&messages.Event{})
		}
		return
	}
	m.closeUnit()
}
