package turn

import "github.com/seed14be6753/stile/messages"

// A model may write a response beside a call whose result it has not seen: an announcement,
// or an answer that it makes up. Under a dialect with the trait Unseen a final response of a
// reply with actions, before or after it, is final only when it quotes one of their results or
// says that it is final. Otherwise it is shown as a partial response, and the run goes on with
// the results (docs/spec/streaming.md §4).

// reasonUnseen is the reason that the model reads about such a response.
const reasonUnseen = "unseen_results"

// conclude ends the open unit as the decoder reports it, unless it is a response that may
// turn out not to be final; that one ends when the next events decide it.
func (m *Machine) conclude(ev *messages.Event) {
	f := m.flight
	d := f.doc
	switch {
	case !ev.Final || !m.cfg.Judge.Traits().Unseen || f.parsed.units[f.parsed.open].Kind != messages.ResponseUnit,
		d.text != nil && d.text.Quotes(),
		m.lastTurn(),                   // no other turn could see the results
		ev.Block != nil && ev.Block.OK: // in a control block, and the attribute says that it is final
		m.endUnit(ev)
		return
	case ev.Block != nil && d.unseen:
		m.partly(ev)
		return
	}
	own := *ev
	own.Text = nil
	d.heldEnd, d.undecided = nil, &own
	for i := range d.queue {
		m.follows(&d.queue[i])
	}
}

// follows looks at an event after an undecided response: a stop makes the response final, an
// action whose result the reply cannot know makes it partial.
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

// followed decides an undecided response when the reply has ended, or when too much of it
// waits to look further.
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

// partly ends a response as one that does not end the run.
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

// blinds reports whether an event is an action whose result the reply cannot know, or a block
// that was meant as one and not accepted. Internal actions without a result do not count.
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

// ignores reports whether an event after a final response has no effect: all but actions in
// mode fire_and_forget.
func (m *Machine) ignores(ev *messages.Event) bool {
	return m.cfg.Judge.Traits().Unseen && (ev.Kind != messages.EventAction || ev.Action.Mode != messages.ModeFireAndForget)
}

// invents reports whether an event is a result that the model wrote itself, in a run without
// actions.
func (m *Machine) invents(ev *messages.Event) bool {
	return ev.Kind == messages.EventParseError && ev.Fault.Reason == reservedTag && m.state.Open.Actions == 0
}

// Reasons of the decoder's errors that make a response unseen.
const (
	foreignCall = "foreign_call"
	reservedTag = "reserved_tag"
)
