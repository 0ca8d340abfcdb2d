package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
)

// Streamed results (docs/spec/extensions.md §5). Tools say their results in pieces, well or
// badly; hosts die in the middle, attempts fail and begin anew. The chunks of an attempt are a
// prefix of its result, a reader is told what does not count any more, and whoever quotes the
// text has a part of it.

// pouring is what a result is said of in pieces.
type pouring struct {
	whole string // result, as it will be given
	left  string // of its text
	set   bool
	began bool
	lies  bool // another one is given
}

// poured is the text of a result: a string itself, the items of a list one a line.
func poured(result string) string {
	var text string
	if json.Unmarshal([]byte(result), &text) == nil {
		return text
	}
	var items []json.RawMessage
	if json.Unmarshal([]byte(result), &items) == nil {
		var b strings.Builder
		for _, item := range items {
			b.Write(item)
			b.WriteByte('\n')
		}
		return b.String()
	}
	return result
}

// pours says the next piece of a result that is streamed; nil when there is none.
func (a *attempt) pours(result func() string) turn.Input {
	w := a.s.host.w
	if !a.set {
		a.set = true
		a.whole = result()
		a.left = poured(a.whole)
		a.lies = w.happens(20)
	}
	if a.left == "" || !a.began && w.rnd.IntN(6) == 0 { // a source that cannot stream
		return nil
	}
	n := 1 + w.rnd.IntN(len(a.left))
	piece := a.left[:n]
	a.left, a.began = a.left[n:], true
	return &turn.ActionChunk{Ident: a.start.Ident, ID: a.start.ID, Attempt: a.start.Attempt, Text: piece}
}

// otherResult is the end of an attempt whose result is another than what it has said of it.
const otherResult = `"the result is another than the text that was streamed of it"`

// given is the result that the attempt ends with.
func (a *attempt) given() string {
	if a.lies {
		a.deed.said(messages.ActionFailed, otherResult)
		return `"another"`
	}
	return a.whole
}

// grows takes a piece of a result.
func (a *audit) grows(b *messages.ActionChunk) error {
	c := a.calls[b.ID]
	switch {
	case c == nil || !c.stream || c.attempts == 0 || c.ended:
		return fmt.Errorf("action %s says a piece of its result, and it does not run or stream", b.ID)
	case b.Off != int64(len(c.poured)):
		return fmt.Errorf("a piece of action %s is at %d, %d bytes are there", b.ID, b.Off, len(c.poured))
	case b.Seq != c.chunks+1:
		return fmt.Errorf("piece %d of action %s follows piece %d", b.Seq, b.ID, c.chunks)
	}
	c.chunks = b.Seq
	if !a.misreads.drips {
		c.poured += string(b.Bytes)
	}
	c.pours[len(c.pours)-1] = c.poured
	return nil
}

// anew begins the text of an attempt.
func (c *act) anew() {
	if c.stream {
		c.poured = ""
		c.pours = append(c.pours, "")
	}
}

// isPoured checks that a result is what its pieces were.
func (c *act) isPoured(b *messages.ActionEnded) error {
	if b.State == messages.ActionOK && c.poured != "" && poured(b.Result) != c.poured {
		return fmt.Errorf("action %s ends with %s, its pieces were %q", c.id, b.Result, c.poured)
	}
	return nil
}

// partial checks what the parameters of an action have of the text of another one.
func (a *audit) partial(c *act, name string) error {
	for _, d := range a.acts {
		if d == c || d.id != name && written(d.id) != name && d.outputKey != name && d.name != name {
			continue
		}
		var args struct {
			What any `json:"what"`
		}
		_ = json.Unmarshal([]byte(c.args), &args)
		text, _ := args.What.(string)
		parts := append([]string{poured(d.value)}, d.pours...)
		if slices.ContainsFunc(parts, func(part string) bool { return strings.HasPrefix(part, text) }) {
			return nil
		}
	}
	return fmt.Errorf("action %s begins with %s, which is no part of the text of %s", c.id, c.args, name)
}

// takesBack takes the record that a response loses what it quoted of a result, or was a thought.
func (a *audit) takesBack(b *messages.Retract) (ours bool, err error) {
	if b.Thought {
		if a.units[b.Unit] || b.Off != 0 {
			return true, fmt.Errorf("unit %s is a thought from byte %d on, recorded: %v", b.Unit, b.Off, a.units[b.Unit])
		}
		a.rethought[b.Unit] = true
		return true, nil
	}
	if !a.controlling || a.first[b.Unit] {
		return false, nil
	}
	if a.units[b.Unit] {
		return true, fmt.Errorf("unit %s is taken back from byte %d, and it is complete", b.Unit, b.Off)
	}
	return true, nil // also of a result of which nothing came
}

// flows takes a piece of a result as a reader sees it.
func (s *shell) flows(e *turn.Publish) {
	w := s.host.w
	d := e.Update.Delta
	if c := s.audit.calls[d.Action]; d.Unit.Turn == s.audit.turn && (c == nil || !c.stream) {
		w.violated("order", "a piece of the result of %s is shown, which does not stream", d.Action)
	}
	name := leftID(d.Unit.Turn, d.Action)
	so := s.flowing[name] + d.Text
	if int64(len(so)) != d.Off {
		w.violated("order", "a piece of action %s ends at %d, %d bytes were shown", d.Action, d.Off, len(so))
	}
	s.flowing[name] = so
	s.durable("a piece of a result", e.After)
}

// flowed checks at the end of an action that its reader has a part of the result.
func (s *shell) flowed(turnIndex int64, b *messages.ActionEnded) {
	name := leftID(turnIndex, b.ID)
	so, ok := s.flowing[name]
	if ok && b.State == messages.ActionOK && !strings.HasPrefix(poured(b.Result), so) {
		s.host.w.violated("order", "action %s ends with %s, and %q was shown of it", b.ID, b.Result, so)
	}
	delete(s.flowing, name)
}

// tornBack takes what a reader drops of a response that quoted a result.
func (s *shell) tornBack(b *messages.Retract) {
	so := s.shown[b.Unit]
	if b.Thought {
		s.shown[b.Unit] = ""
		return
	}
	if !s.client.dialect.controls || s.client.rules.Durability == turn.WholeUnit {
		return
	}
	if b.Off > int64(len(so)) {
		s.host.w.violated("order", "unit %s is taken back from byte %d, %d bytes were shown", b.Unit, b.Off, len(so))
	}
	s.shown[b.Unit] = so[:b.Off]
}
