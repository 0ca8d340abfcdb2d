// Package plain is the host's own and no part of the public API: it may change in any release.
//
// It is the dialect of models that just talk: the reply is one
// response and the turn is done (docs/spec/design.md §5).
//
// Invariants:
//   - the response is the reply as valid UTF-8: every byte that belongs to no
//     character becomes one U+FFFD, wherever the reply was cut into pushes;
//   - text passes without copying; at most three bytes, the beginning of one
//     character, are held back.
//
// It knows no tools, thoughts or control.
package plain

import (
	"unicode/utf8"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// Dialect is plain text. The zero value is ready and safe for concurrent use.
type Dialect struct{}

var _ parse.Dialect = Dialect{}

// Name is "plain".
func (Dialect) Name() string { return "plain" }

// Traits says: one turn a run, guards judge CONTINUE only and so never, and the
// prompt grows at its end.
func (Dialect) Traits() messages.Traits {
	return messages.Traits{AppendOnly: true, MaxTurns: 1, Busy: messages.Enqueue}
}

// Primer is empty: there is nothing to teach.
func (Dialect) Primer([]messages.ToolSpec) string { return "" }

// Render gives the transcript and then the input, its text or else its USERDATA
// verbatim. Tools and a last error have no place in plain talk.
func (Dialect) Render(p messages.Projection) []messages.Message {
	out := make([]messages.Message, 0, len(p.History)+1)
	for _, it := range p.History {
		out = append(out, messages.Message{Role: it.Role, Text: it.Text})
	}
	text := p.Text
	if text == "" {
		text = p.Userdata
	}
	return append(out, messages.Message{Role: messages.RoleUser, Text: text})
}

// Decide is DONE for any reply that ended, also one cut at the length limit,
// whose unit says that it is incomplete. An empty reply is an empty response.
func (Dialect) Decide(f messages.Facts) messages.Verdict {
	switch why := parse.Failure(f); {
	case len(f.Errors) > 0 && f.Breach == "":
		return parse.Halt(f.Errors[0].Code, f.Errors[0].Detail)
	case why != "":
		return parse.Halt(why, "")
	}
	return messages.Verdict{Decision: messages.Done, Token: -1}
}

// Digest is the one all dialects but aeiou share.
func (Dialect) Digest(f messages.Facts) (out, scr []byte) { return parse.Digest(f) }

// NewDecoder reads one reply; nothing of the turn matters to it.
func (Dialect) NewDecoder(messages.TurnInfo) parse.Decoder { return &decoder{} }

// decoder holds the beginning of one character, cut[:n], between pushes. off is
// the reply offset of the first byte not yet emitted.
type decoder struct {
	cut  [utf8.UTFMax]byte
	n    int
	off  int64
	open bool
}

// Push emits the text in p; the unit begins with its first text.
func (d *decoder) Push(p []byte, emit func(messages.Event)) {
	for d.n > 0 && len(p) > 0 {
		d.cut[d.n] = p[0]
		d.n++
		p = p[1:]
		if utf8.FullRune(d.cut[:d.n]) {
			d.flush(emit)
		}
	}
	if utf8.Valid(p) {
		d.text(p, emit)
		return
	}
	for i := 0; i < len(p); {
		if p[i] < utf8.RuneSelf {
			i++
			continue
		}
		if !utf8.FullRune(p[i:]) {
			d.text(p[:i], emit)
			d.n = copy(d.cut[:], p[i:])
			return
		}
		r, size := utf8.DecodeRune(p[i:])
		if r != utf8.RuneError || size > 1 {
			i += size
			continue
		}
		d.text(p[:i], emit)
		d.replace(emit)
		p, i = p[i+1:], 0
	}
	d.text(p, emit)
}

// flush emits what the bytes held back have become. A byte that begins no
// character is replaced; those behind it may begin one, and stay.
func (d *decoder) flush(emit func(messages.Event)) {
	for d.n > 0 && utf8.FullRune(d.cut[:d.n]) {
		r, size := utf8.DecodeRune(d.cut[:d.n])
		if r == utf8.RuneError && size == 1 {
			d.replace(emit)
		} else {
			d.text(d.cut[:size], emit)
		}
		d.n = copy(d.cut[:], d.cut[size:d.n])
	}
}

// End closes the unit. A reply that was complete has one, even without a byte; a
// broken one only if it had begun.
func (d *decoder) End(f messages.Finish, emit func(messages.Event)) {
	for ; d.n > 0; d.n-- {
		d.replace(emit)
	}
	whole := f == messages.FinishComplete || f == messages.FinishStop
	if whole || f == messages.FinishLength {
		d.begin(emit)
	}
	if d.open {
		emit(messages.Event{Kind: messages.EventUnitEnd, UnitKind: messages.ResponseUnit, Offset: d.off, Final: whole, Complete: whole})
		d.open = false
	}
}

func (d *decoder) begin(emit func(messages.Event)) {
	if !d.open {
		d.open = true
		emit(messages.Event{Kind: messages.EventUnitBegin, UnitKind: messages.ResponseUnit, Offset: d.off})
	}
}

func (d *decoder) text(p []byte, emit func(messages.Event)) {
	if len(p) > 0 {
		d.put(p, len(p), emit)
	}
}

// replace stands in for one byte of the reply.
func (d *decoder) replace(emit func(messages.Event)) { d.put([]byte("\ufffd"), 1, emit) }

// put emits text that stands for n bytes of the reply.
func (d *decoder) put(text []byte, n int, emit func(messages.Event)) {
	d.begin(emit)
	emit(messages.Event{Kind: messages.EventUnitText, UnitKind: messages.ResponseUnit, Text: text, Offset: d.off})
	d.off += int64(n)
}
