package turn

import (
	"strings"

	"github.com/seed14be6753/stile/messages"
)

// Structured answers (docs/spec/design.md §5): with Rules.Output the text of a turn is held
// until the turn is decided. Until then a response unit has a record without its text, so
// that the journal counts units as the decoder does, and the record of an emission is marked
// as held. The text that counts follows before turn.decided, in a unit of its own.

// holds reports whether texts of kind k wait for the decision.
func (m *Machine) holds(k messages.Kind) bool {
	return m.cfg.Output != nil && k == messages.ResponseUnit
}

// checkAnswer returns the value of the answer of a turn that would end its run. An answer
// that Rules.Output rejects turns v into a HALT.
func (m *Machine) checkAnswer(v *messages.Verdict, fs *messages.Facts) (value string) {
	if m.cfg.Output == nil || v.Decision != messages.Done {
		return ""
	}
	value, fault := m.cfg.Output(m.answer(fs))
	if fault != "" {
		m.override(v, messages.ErrOutput, clean(fault))
		return ""
	}
	return value
}

// answer returns the text of a turn for the user: its final responses, else all responses,
// else the emissions of its program without tokens.
func (m *Machine) answer(fs *messages.Facts) string {
	var all, final []string
	for i := range fs.Units {
		if u := &fs.Units[i]; u.Kind == messages.ResponseUnit {
			if all = append(all, u.Text); u.Final {
				final = append(final, u.Text)
			}
		}
	}
	switch {
	case final != nil:
		return strings.Join(final, "\n")
	case all != nil:
		return strings.Join(all, "\n")
	}
	text := clean(string(fs.Out))
	if c, ok := m.cfg.Judge.(Comparer); ok {
		text = c.Comparable(text)
	}
	return strings.TrimSuffix(text, "\n")
}

// release shows the held text, unless the turn failed.
func (m *Machine) release(v *messages.Verdict, fs *messages.Facts, repair bool) {
	if m.cfg.Output == nil || repair || v.Decision == messages.Halt {
		return
	}
	next := messages.UnitID{Turn: m.flight.Turn, N: len(fs.Units)}
	for i := range fs.Units { // responses in branches that were not taken are none of these, and have numbers
		next.N = max(next.N, fs.Units[i].ID.N+1)
	}
	show := func(u messages.UnitText) (id messages.UnitID) {
		if u.Text == "" {
			return id
		}
		m.replace()
		id = next
		u.UnitKind, u.Unit = messages.ResponseUnit, id.String()
		m.persist(&u, LazyHold)
		next.N++
		return id
	}
	shown := map[messages.UnitID]messages.UnitID{}
	for i := range fs.Units {
		if u := &fs.Units[i]; u.Kind == messages.ResponseUnit {
			if id := show(messages.UnitText{Text: u.Text, Final: u.Final, Complete: u.Complete}); id != (messages.UnitID{}) {
				shown[u.ID] = id
			}
		}
	}
	if len(fs.Units) == 0 {
		show(messages.UnitText{Text: m.answer(fs), Final: v.Decision == messages.Done, Complete: true})
	}
	for i, id := range v.Retract {
		if to, ok := shown[id]; ok {
			v.Retract[i] = to
		}
	}
}
