package turn

import "github.com/seed14be6753/stile/messages"

// What models write beside a call they have not seen the result of: an announcement, or
// an answer that is made up. Under a dialect with the trait Unseen a final response of a
// reply that has actions, in front of it or behind it, is final only when it shows what
// one of them gave, or says that it is final; else it is shown as a partial one, and the
// run goes on with the results (docs/spec/streaming.md §4).

// reasonUnseen is what the model is told of such a response.
const reasonUnseen = "unseen_results"

// conclude ends the open unit as the decoder has it, unless it is a response of which
// it is not known whether it is final.
func (m *Machine) conclude(ev *messages.Event) {
	f := m.flight
	d := f.doc
	switch {
	case !ev.Final || !m.cfg.Judge.Traits().Unseen || f.parsed.units[f.parsed.open].Kind != messages.ResponseUnit,
		d.text != nil && d.text.Quotes(),
		m.lastTurn(): // there is no other turn that could see the results
		m.endUnit(ev)
		return
	}
	own := *ev
	own.Text = nil
	d.heldEnd, d.undecided = nil, &own
	for i := range d.queue {
		m.follows(&d.queue[i])
	}
}

// follows takes notice of what comes behind a response that may be final: a stop, right
// behind one that says so itself, or anything else.
func (m *Machine) follows(ev *messages.Event) {
	d := m.flight.doc
	switch {
	case d.undecided == nil:
	case ev.Kind == messages.EventStop && (ev.Final || !d.unseen):
		m.endUnit(d.undecided)
	case d.unseen || m.blinds(ev):
		m.partly(d.undecided)
	}
}

// followed ends a response that nothing can follow any more, or of which the model
// has not come to an end behind it.
func (m *Machine) followed() {
	f := m.flight
	switch d := f.doc; {
	case d.undecided == nil || !f.reply.ended && d.bytes <= m.cfg.Limits.gateBuffer():
	case d.unseen:
		m.partly(d.undecided)
	default:
		m.endUnit(d.undecided)
	}
}

// partly ends a response that does not end the run.
func (m *Machine) partly(ev *messages.Event) {
	f := m.flight
	own := *ev
	own.Final = false
	m.endUnit(&own)
	f.parsed.lints = append(f.parsed.lints, messages.LintUnseen)
	m.remark(&messages.Lint{Code: messages.LintUnseen, Offset: ev.Offset})
	m.complain(&messages.ParseError{
		Code: messages.ErrDialect, Reason: reasonUnseen, Offset: ev.Offset,
		Detail: reasonUnseen + ": your response was shown to the user, but it could not know the results of the actions beside it, " +
			"and your work goes on: read the results and answer",
	})
}

// blinds tells of an action whose result the reply cannot know, or of one that was meant
// and not accepted. Those of the session itself that give nothing are none.
func (m *Machine) blinds(ev *messages.Event) bool {
	switch ev.Kind {
	case messages.EventAction:
		a := ev.Action
		if a.Type == messages.TypeInternal {
			return a.Name == messages.InternalListFeeds || a.Name == messages.InternalGetFeed
		}
		return a.Mode != messages.ModeFireAndForget
	case messages.EventParseError:
		return ev.Fault.ID != "" && ev.Fault.Reason != unclosedFeed || ev.Fault.Reason == foreignCall
	}
	return false
}

// ignores tells what counts for nothing behind a final response: all but actions that
// nobody waits for.
func (m *Machine) ignores(ev *messages.Event) bool {
	return m.cfg.Judge.Traits().Unseen && (ev.Kind != messages.EventAction || ev.Action.Mode != messages.ModeFireAndForget)
}

// invents tells of a result that the model wrote itself in a run that has none.
func (m *Machine) invents(ev *messages.Event) bool {
	return ev.Kind == messages.EventParseError && ev.Fault.Reason == reservedTag && m.state.Open.Actions == 0
}

// Words of the decoder for what makes a response blind.
const (
	foreignCall = "foreign_call"
	reservedTag = "reserved_tag"
)
