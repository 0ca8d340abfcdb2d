package turn

import (
	"strings"
	"time"

	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/messages"
)

// Streamed results (docs/spec/extensions.md §5). The executor of an action with "stream": true
// posts pieces of its result. A piece is shown at once as a delta. It is recorded with the
// pieces around it: when LazyBytes or LazyHold are reached, with every piece while a response
// quotes the text, and at the end of the attempt.
//
// ${a.partial} is the recorded text alone. So the text that parameters and responses have is a
// function of the records before theirs, and a replay makes the same.
//
// Text of one attempt is shown after the attempt's action.started: a reader who has that record
// knows that the text of earlier attempts does not count.

// MaxChunkBytes bounds one piece of a result.
const MaxChunkBytes = 64 << 10 // docs/spec/extensions.md §5

// MaxStreamed bounds the text of one streamed result.
const MaxStreamed = plan.DefaultParameterBytes

// Reasons of actions whose result is another than its chunks, or over MaxStreamed.
const (
	ReasonStream         = "stream"
	ReasonStreamTooLarge = "stream_too_large"
)

// ReasonTakenBack is the reason of an attempt whose child session has taken back text that the
// attempt has shown.
const ReasonTakenBack = "taken_back"

// MaxTakenBack bounds how often an action shows the text of its child anew. From then on the text
// is shown when it is whole.
const MaxTakenBack = 8

// ActionChunk is the next piece of a result that is shown as it grows.
type ActionChunk struct {
	Ident
	ID      string
	Attempt int64 // as in ActionEnded
	Text    string
	// Record says that the piece ends a record. A replay sets it: it feeds records.
	Record bool
}

func (*ActionChunk) input() string { return "ActionChunk" }

// streaming is what a call with stream has shown of its result.
type streaming struct {
	text     []byte // of the latest attempt
	recorded int    // bytes of it that chunk records have
	seq      int64  // of the latest chunk record
	at       time.Time
	started  int64 // position of the attempt's action.started
	over     bool  // there was more than MaxStreamed
	hidden   bool  // "show": "none"
}

// declareStream makes room for the result of an action with stream.
func (m *Machine) declareStream(c *call, a *messages.Action) {
	if a.Stream && c.stream == nil {
		c.stream = &streaming{}
	}
	if c.stream != nil {
		c.stream.hidden = a.Show == messages.ShowNone
	}
}

// recallStream gives the plan the text that an action had before its turn was restored.
func (m *Machine) recallStream(c *call) (fault string) {
	if c.stream == nil || len(c.stream.text) == 0 {
		return ""
	}
	if v, ok := m.graph.plan.Action(c.node.ref); !ok || v.State.Terminal() {
		return ""
	}
	if err := m.graph.plan.Chunk(c.node.ref, c.stream.text); err != nil {
		return err.Error()
	}
	return ""
}

// pending reports whether there is text that no record has.
func (s *streaming) pending() bool { return s != nil && s.recorded < len(s.text) }

// actionChunk takes a piece of a result.
func (m *Machine) actionChunk(in *ActionChunk) {
	if !m.current(in.Ident) {
		return
	}
	c := m.call(in.ID)
	if c == nil || c.stream == nil || c.phase != callRunning || !c.runs(in.Attempt) {
		m.dropped++
		return
	}
	s := c.stream
	text := clean(in.Text) // a replay has no other
	if s.over || len(s.text)+len(text) > MaxStreamed {
		s.over = true // the end of the action says so
		return
	}
	s.text = append(s.text, text...)
	record := in.Record || m.cfg.Durability == Strict || len(s.text)-s.recorded >= LazyBytes || m.now.Sub(s.at) >= LazyHold || m.quoted(c)
	after := s.started
	if record {
		seq, fault := m.recordChunk(c)
		if fault != "" {
			m.crash(ChildAction, fault)
			return
		}
		if m.cfg.Durability == Strict {
			after = seq
		}
	}
	if m.cfg.Durability != WholeUnit && !s.hidden && text != "" {
		m.do(&Publish{After: after, Update: messages.Update{Delta: &messages.Delta{
			TS: m.now, Run: m.state.Open.Run, Unit: messages.UnitID{Turn: m.flight.Turn}, Kind: messages.ResultText, Action: c.ID,
			Off: int64(len(s.text)), Text: text,
		}}})
	}
	if record && m.acts(m.flight) && m.quoted(c) {
		m.advance()
	}
}

// quoted reports whether the open response goes on as the result of c grows.
func (m *Machine) quoted(c *call) bool {
	d := m.flight.doc
	if d == nil || d.text == nil {
		return false
	}
	ref, ok := d.text.Follows()
	return ok && ref == c.node.ref
}

// recordQuoted records the rest of the result that the open response quotes.
func (m *Machine) recordQuoted() (fault string) {
	f := m.flight
	if ref, ok := f.doc.text.Follows(); ok {
		if c := f.call(ref.ID); c != nil && c.node.ref == ref && c.stream.pending() {
			_, fault = m.recordChunk(c)
		}
	}
	return fault
}

// recordChunk records the text that no record has, and gives it to the plan.
func (m *Machine) recordChunk(c *call) (seq int64, fault string) {
	s := c.stream
	if !s.pending() {
		return 0, ""
	}
	hold := LazyHold
	if m.cfg.Durability == Strict {
		hold = 0
	}
	s.seq++
	fresh := s.text[s.recorded:]
	r := m.persist(&messages.ActionChunk{ID: c.ID, Seq: s.seq, Off: int64(s.recorded), Bytes: append([]byte(nil), fresh...)}, hold)
	s.recorded, s.at = len(s.text), m.now
	if err := m.graph.plan.Chunk(c.node.ref, fresh); err != nil {
		return 0, err.Error()
	}
	return r.Seq, ""
}

// streams begins the text of an attempt that began with the record at a position.
func (m *Machine) streams(c *call, started int64) {
	s := c.stream
	if s == nil {
		return
	}
	s.text, s.recorded, s.over, s.started, s.at = nil, 0, false, started, time.Time{}
	m.graph.plan.Again(c.node.ref)
	if m.quoted(c) {
		m.takeBack(m.flight.doc.text.Rewind())
	}
}

// takeBack keeps the first bytes of the open unit. What follows is shown when that is durable.
func (m *Machine) takeBack(stay int) {
	f := m.flight
	text := f.parsed.text.String()
	if m.recorded() || stay >= len(text) && !m.restored() {
		return
	}
	f.parsed.text = strings.Builder{}
	f.parsed.text.WriteString(text[:min(stay, len(text))])
	unit := f.parsed.units[f.parsed.open]
	if m.holds(unit.Kind) {
		return
	}
	f.replaced = m.persist(&messages.Retract{Unit: unit.ID.String(), Off: int64(stay)}, 0).Seq
}

// recorded reports whether the journal has the open unit already, of a turn that was restored.
func (m *Machine) recorded() bool {
	f := m.flight
	return f.doc.known.units != nil && f.doc.known.units[f.parsed.units[f.parsed.open].ID.String()]
}

// restored reports whether the turn was restored.
func (m *Machine) restored() bool { return m.state.Open.Turn != nil && m.state.Open.Turn.Restores > 0 }

// flowed looks whether the open response has begun to quote a result that grows, and splits
// text, which it is about to show, there. Of a restored turn the reader may have other text
// behind the place: it is taken back.
func (m *Machine) flowed(text []byte) (rest []byte) {
	f := m.flight
	from, ok := f.doc.text.Flowed()
	if !ok || !m.restored() || m.recorded() {
		return text
	}
	n := max(0, min(len(text), from-f.parsed.text.Len()))
	m.grow(text[:n])
	m.takeBack(from)
	return text[n:]
}

// takesBack reports whether an attempt ended because the child session has taken back text that
// was shown of it. Nothing has ended then: the run in the child goes on, and another attempt
// under the same key joins it and shows its text from the beginning, as one does after a crash
// of the host. It is no retry.
func (c *call) takesBack(in *ActionEnded) bool {
	return c.stream != nil && c.typ == messages.TypeAgent && !in.Last && in.State == messages.ActionFailed && in.Reason == ReasonTakenBack
}

// unawaited is the end of an action whose child took text back while its turn or group stops: no
// attempt follows, and what the child does is not awaited any more.
func (m *Machine) unawaited(c *call, in *ActionEnded) *ActionEnded {
	m.do(&EndChildren{After: m.state.Seq, Turn: m.flight.Turn, ID: c.ID, SID: m.childOf(c)})
	own := *in
	own.State, own.Reason, own.Result, own.ErrorCode = messages.ActionUnknown, reasonLost, "", CodeToolFailed
	return &own
}

// anew begins the next attempt of an action at once.
func (m *Machine) anew(c *call) {
	m.move(c, callPaused)
	c.tries.failure = ReasonTakenBack
	c.tries.resumed++
	m.begin(c)
}

// streamEnds records the rest of a result and checks the end of an attempt against it.
func (m *Machine) streamEnds(c *call, in *ActionEnded) {
	s := c.stream
	if s == nil {
		return
	}
	if _, fault := m.recordChunk(c); fault != "" {
		m.crash(ChildAction, fault)
		return
	}
	if in.State != messages.ActionOK {
		return
	}
	switch {
	case s.over:
		in.State, in.Failure, in.Reason, in.ErrorCode = messages.ActionFailed, plan.Denied, ReasonStreamTooLarge, CodeToolFailed
		in.Result = quote("the result that was streamed is too long")
	case len(s.text) > 0 && plan.StreamedText(clean(in.Result)) != string(s.text):
		in.State, in.Failure, in.Reason, in.ErrorCode = messages.ActionFailed, plan.Denied, ReasonStream, CodeToolFailed // another attempt would do the same
		in.Result = quote("the result is another than the text that was streamed of it")
	}
}
