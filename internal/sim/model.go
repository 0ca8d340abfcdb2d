package sim

import (
	"slices"

	"github.com/seed14be6753/stile/internal/resume"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// model is a reply that is being written.
type model struct {
	s         *shell
	open      *turn.OpenModel
	decoder   parse.Decoder
	reply     []byte
	at        int
	asked     bool
	cancelled bool
	over      bool
	held      bool // left unread
	silent    bool // it hangs until it is cancelled
	breaks    int  // after so many bytes it fails; -1 never
	events    []messages.Event

	// Of a model that is asked over a conversation.
	talk   *talk
	name   string
	prompt []messages.Message
	began  bool            // the life of the conversation knows of the request
	todo   []resume.Effect // what it wants
	line   *talk           // over which the reply comes; nil without
	lost   bool            // the provider has forgotten what the request goes on from
	stays  bool            // it does not take back what passes
	counts int64           // bytes of the reply that count, negative for all
}

func (s *shell) newModel(e *turn.OpenModel) *model {
	w := s.host.w
	d := s.client.dialect
	m := &model{s: s, open: e, breaks: -1, name: "author", talk: s.talk}
	if m.talk != nil {
		m.prompt = s.prompt()
	}
	if w.sabotage.misleads {
		e.Templates = misled(e.Templates)
	}
	m.decoder = d.NewDecoder(messages.TurnInfo{Turn: e.Turn, Pass: e.Pass, State: e.State, Templates: e.Templates, MaxReplyBytes: turn.MaxReplyBytes})
	a := &author{rnd: w.rnd, calm: w.calm, forged: s.client.forged, habit: s.client.wont(e), hoards: s.client.hoards, trusts: s.client.trusts, tends: s.client.tends}
	m.reply = a.lapse(d.reply(a))
	if c := s.client; c.stubborn && !c.heeds && !w.calm {
		if c.reply != nil && w.rnd.IntN(5) > 0 {
			m.reply = c.reply
		}
		c.reply = m.reply
	}
	switch {
	case w.happens(w.weather.fault):
		m.breaks = w.rnd.IntN(len(m.reply) + 1)
	case w.happens(w.weather.hang):
		m.silent = true
	}
	return m
}

func (m *model) collect(ev messages.Event) {
	ev.Text = slices.Clone(ev.Text)
	if ev.Kind == messages.EventStop || ev.Kind == messages.EventCut {
		m.counts = ev.Offset
	}
	m.s.hears(m.open.Turn, &ev)
	m.events = append(m.events, ev)
}

// hears remembers what the model wrote, before the machine reads it.
func (s *shell) hears(turnIndex int64, ev *messages.Event) {
	if s.client.dialect.controls {
		s.plots.hears(turnIndex, ev)
	}
	switch ev.Kind {
	case messages.EventAction:
		s.written[leftID(turnIndex, ev.Action.ID)] = ev.Action
	case messages.EventUnitEnd:
		if ev.UnitKind == messages.ThoughtUnit { // also of what began as a response
			unit := messages.UnitID{Turn: turnIndex, N: ev.Unit}.String()
			s.responses = slices.DeleteFunc(s.responses, func(u string) bool { return u == unit })
		}
		if n := len(s.responses); n > 0 && ev.Final && len(s.plots.open) > 0 { // a block does not stop the reply
			s.explicit[s.responses[n-1]] = true
		}
	case messages.EventStop:
		if n := len(s.responses); n > 0 && ev.Final {
			s.explicit[s.responses[n-1]] = true
		}
	case messages.EventUnitBegin, messages.EventUnitText:
		if !s.audit.streams {
			return
		}
		unit := messages.UnitID{Turn: turnIndex, N: ev.Unit}.String()
		s.said[unit] += string(ev.Text)
		if ev.Kind == messages.EventUnitBegin && ev.UnitKind == messages.ResponseUnit {
			s.responses = append(s.responses, unit)
		}
	}
}

func (m *model) take() []messages.Event {
	evs := m.events
	m.events = nil
	return evs
}

func (m *model) end(f messages.Finish, why string) turn.Input {
	m.over = true
	m.decoder.End(f, m.collect)
	m.leaves(f == messages.FinishComplete || f == messages.FinishLength)
	w := m.s.host.w
	return &turn.ReplyEnd{
		Ident: m.open.Ident, Events: m.take(), Finish: f, Err: why,
		Usage: messages.Usage{Input: int64(w.rnd.IntN(20)), Output: int64(len(m.reply) / 8)}, CostMicroUSD: int64(w.rnd.IntN(20)),
	}
}

// goOn says the next piece of the reply; nil when nothing came.
func (m *model) goOn() turn.Input {
	w := m.s.host.w
	id := m.open.Ident
	switch {
	case m.cancelled && w.rnd.IntN(2) == 0: // else it goes on a little, which is late
		return m.end(messages.FinishCancelled, "")
	case !m.asked && m.talk != nil:
		return m.converse()
	case !m.asked:
		return m.goes(messages.ModelRequest{Mode: messages.ModelReplay}, nil)
	case m.line != nil && (m.lost || m.stays || m.breaks >= 0 && m.at >= m.breaks && w.rnd.IntN(4) > 0):
		m.fails()
		return nil
	case m.breaks >= 0 && m.at >= m.breaks:
		switch w.rnd.IntN(4) {
		case 0:
			m.over = true
			m.leaves(false)
			return &turn.ChildDown{Ident: id, Child: turn.ChildModel, Detail: "the reader panicked"}
		case 1:
			if m.at == 0 { // nothing was shown: another model is tried
				m.leaves(false)
				m.breaks, m.asked, m.began, m.name = -1, false, false, "understudy"
				return &turn.ModelSwitched{Ident: id, Fallback: messages.ModelFallback{From: "sim/author", To: "sim/understudy", Reason: "503"}}
			}
			return m.end(messages.FinishLength, "")
		}
		return m.end(messages.FinishError, "503: come back later")
	case m.at < len(m.reply):
		n := 1 + w.rnd.IntN(min(len(m.reply)-m.at, 400))
		if m.breaks >= 0 {
			n = max(1, min(n, m.breaks-m.at))
		}
		piece := m.reply[m.at : m.at+n]
		m.at += n
		m.decoder.Push(piece, m.collect)
		m.says(piece)
		return &turn.Decoded{Ident: id, Bytes: piece, Events: m.take()}
	}
	return m.end(messages.FinishComplete, "")
}
