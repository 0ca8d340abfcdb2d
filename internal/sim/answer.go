package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed14be6753/stile/messages"
)

// Structured answers (docs/spec/design.md §5), read from the records alone: nothing of a
// turn is shown before it is decided, nothing of one that failed, and the end of a run has
// the value of an answer that passes.

// passes is the schema of the agents that have one: what it takes, and the value.
func readAnswer(text string) (value, fault string) {
	words := strings.Fields(text)
	for _, w := range words {
		if w == "elm" || w == "west" {
			return "", "/: " + w + " is no answer"
		}
	}
	if len(words) == 0 {
		return "", "/: there is no answer"
	}
	return fmt.Sprintf(`{"words":%d}`, len(words)), ""
}

// answers is what an audit knows of the open turn's texts where they are held.
type answers struct {
	released []*messages.UnitText
	withheld int    // units without their text
	answer   string // the value, of the turn that ended the run
}

// holding reports whether texts wait for the decision.
func (a *audit) holding() bool { return a.rules.Output != nil }

// isRelease reports whether a unit is shown at the end of its turn.
func (a *audit) isRelease(b *messages.UnitText) bool {
	return a.holding() && b.UnitKind == messages.ResponseUnit
}

// releases checks a record that comes behind texts that are shown at last: nothing but the
// rest of them, what they replace, and the decision.
func (a *audit) releases(r *messages.Record) error {
	switch b := r.Body.(type) {
	case *messages.UnitText:
		switch {
		case !a.holding():
		case b.UnitKind == messages.ResponseUnit:
			a.released = append(a.released, b)
			return nil
		case b.Text == "":
			a.withheld++
		}
	case *messages.Emit:
		if b.Held != a.holding() {
			return fmt.Errorf("an emission is held: %v", b.Held)
		}
	case *messages.TurnDecided, *messages.Retract, *messages.ParseFault, *messages.Audit, *messages.BlockEnded:
		return nil
	case *messages.ActionEnded: // no caller waits for it
		if c := a.calls[b.ID]; c != nil && c.mode == messages.ModeFireAndForget {
			return nil
		}
	}
	if len(a.released) > 0 {
		return errors.New("texts were shown, and no decision follows")
	}
	return nil
}

// decides checks the texts that a decision shows.
func (a *audit) decides(b *messages.TurnDecided) error {
	texts := a.released
	a.released, a.withheld, a.answer = nil, 0, ""
	if !a.holding() {
		if b.Reason == messages.ErrOutput {
			return errors.New("an answer does not pass, and any passes")
		}
		return nil
	}
	if len(texts) > 0 && b.Decision == messages.Halt {
		return fmt.Errorf("%q is shown, and the turn is %s %s", texts[0].Text, b.Decision, b.Reason)
	}
	if b.Decision != messages.Done {
		return nil
	}
	var all, final []string
	for _, u := range texts {
		if all = append(all, u.Text); u.Final {
			final = append(final, u.Text)
		}
	}
	if final != nil {
		all = final
	}
	value, fault := readAnswer(strings.Join(all, "\n"))
	if fault != "" {
		return fmt.Errorf("%q is an answer: %s", all, fault)
	}
	a.answer = value
	return nil
}

// answered checks the value of a run's end.
func (a *audit) answered(b *messages.RunEnd) error {
	value := a.answer
	a.answer = ""
	if b.Decision != messages.Done {
		value = ""
	}
	if b.Output != value {
		return fmt.Errorf("the run ends with the value %q, its answer has %q", b.Output, value)
	}
	return nil
}

// early finds a text that is shown before its turn is decided.
func (a *audit) early(d *messages.Delta) error {
	if a.holding() && d.Kind == messages.ResponseUnit {
		return fmt.Errorf("unit %s is shown before its turn is decided", d.Unit)
	}
	return nil
}

// holds has some agents take no answer but one of their schema.
func (c *client) holds(one int) {
	if c.w.rnd.IntN(one) == 0 && c.dialect.rendering >= 2 {
		c.rules.Output = readAnswer
		if c.w.blurts {
			c.rules.Output = func(string) (value, fault string) { return `"anything"`, "" }
		}
	}
}

// blind reports whether a response that does not say that it is final, nor shows what an
// action gave, stands behind one whose result the model has not seen, and another turn could
// see it (docs/spec/streaming.md §4).
func (s *shell) blind(unit, said string) bool {
	a := s.audit
	if !s.client.dialect.Traits().Unseen || s.explicit[unit] || strings.Contains(said, "$") || a.last() {
		return false
	}
	for _, c := range a.calls {
		if c.typ != messages.TypeInternal && c.mode != messages.ModeFireAndForget {
			return true
		}
	}
	return false
}

// isSaid checks that the text of a complete unit is what the model wrote, and where texts
// are held, that there is none before they are shown.
func (s *shell) isSaid(b *messages.UnitText) error {
	a := s.audit
	said, known := s.said[b.Unit]
	switch {
	case a.isRelease(b):
		if !a.streams || slices.ContainsFunc(s.responses, func(unit string) bool { return a.quotes(s.said[unit]).MatchString(b.Text) }) {
			return nil
		}
		return fmt.Errorf("%q is shown at last, and no response of the reply was it", b.Text)
	case !known:
		return nil
	case a.holding() && slices.Contains(s.responses, b.Unit):
		if b.UnitKind != messages.TextUnit || b.Text != "" {
			return fmt.Errorf("%q is recorded before its turn is decided", b.Text)
		}
		return nil
	case !slices.Contains(s.responses, b.Unit): // references in it mean nothing
		if b.Text != said {
			return fmt.Errorf("it has %q, the reply has %q", b.Text, said)
		}
		return nil
	case b.Final && s.blind(b.Unit, said):
		return fmt.Errorf("%q is final, and it cannot know what the actions beside it gave", b.Text)
	case !a.quotes(said).MatchString(b.Text):
		return fmt.Errorf("it has %q, the reply has %q", b.Text, said)
	}
	return nil
}
