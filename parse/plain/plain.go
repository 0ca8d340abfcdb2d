// Package plain is the host's own and no part of the public API: it may change in any release.
//
// It is the dialect of plain text: the reply is one response, and the run is done
// (docs/spec/design.md §5).
//
// Invariants:
//   - the response is the reply as valid UTF-8: every byte that belongs to no
//     character becomes one U+FFFD, wherever the reply was cut into pushes;
//   - text passes without copying; at most three bytes, the beginning of one
//     character, are held back, and in rendering 2 what may be a tag of a thought.
//
// It knows no tools or control. In rendering 2 the thoughts that a reply begins with are not
// part of the answer, and a reply that says nothing is asked for again, once. A thought that
// begins without its tag is a response until its end.
package plain

import (
	"strings"
	"unicode/utf8"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/internal/reasoning"
)

// Dialect is plain text. The zero value is ready to use, and safe for concurrent use.
type Dialect struct {
	// Rendering is the version of prompts and of the reading of replies (messages.Rendering);
	// 0 is 1.
	Rendering int64
	// Forgive are the habits that are corrected in rendering 2: a thought before the answer,
	// and a reply without text. None by default.
	Forgive parse.Habits
}

var _ parse.Dialect = Dialect{}

// Name is "plain".
func (Dialect) Name() string { return "plain" }

// Traits returns the dialect's traits: a run has one turn, guards judge CONTINUE only and so never,
// and the prompt grows at its end.
func (Dialect) Traits() messages.Traits {
	return messages.Traits{AppendOnly: true, MaxTurns: 1, Busy: messages.Enqueue}
}

// Primer returns "": there is nothing to teach.
func (Dialect) Primer([]messages.ToolSpec) string { return "" }

// Render returns the transcript and then the input, its text or else its USERDATA
// verbatim. Tools and a last error have no place in plain talk.
func (d Dialect) Render(p messages.Projection) []messages.Message {
	out := make([]messages.Message, 0, len(p.History)+1)
	for i := range p.History {
		out = append(out, d.Past(&p.History[i])...)
	}
	text := p.Text
	if text == "" {
		text = p.Userdata
	}
	out = append(out, messages.Message{Role: messages.RoleUser, Text: text, Parts: p.Parts})
	if d.Rendering >= 2 && len(p.Replies) > 0 && p.Broken == "" { // each said nothing
		out = append(out, messages.Message{Role: messages.RoleSystem, Text: askAgain})
	}
	return out
}

// askAgain follows a reply that said nothing.
const askAgain = "You have said nothing to the user. Answer now, in plain text."

// Decide is DONE for any reply that ended, also one cut at the length limit,
// whose unit says that it is incomplete. An empty reply is an empty response; in rendering 2
// it is CONTINUE, and the second one HALT ERR_NO_PROGRESS.
func (d Dialect) Decide(f messages.Facts) messages.Verdict {
	switch why := parse.Failure(f); {
	case len(f.Errors) > 0 && f.Breach == "":
		return parse.Halt(f.Errors[0].Code, f.Errors[0].Detail)
	case why != "":
		return parse.Halt(why, "")
	case !d.silent(f):
	case f.Pass > 1:
		return parse.Halt(messages.ErrNoProgress, "two replies said nothing to the user")
	default:
		return messages.Verdict{Decision: messages.Continue, Lints: []messages.Code{messages.LintSilence}, Token: -1}
	}
	return messages.Verdict{Decision: messages.Done, Token: -1}
}

// silent reports whether a reply has no answer, so that the model is asked again.
func (d Dialect) silent(f messages.Facts) bool {
	if d.Rendering < 2 || !d.Forgive.Has(parse.HabitSilence) {
		return false
	}
	for i := range f.Units {
		if f.Units[i].Kind == messages.ResponseUnit && strings.TrimSpace(f.Units[i].Text) != "" {
			return false
		}
	}
	return true
}

// Digest is the one all dialects but aeiou share.
func (Dialect) Digest(f messages.Facts) (out, scr []byte) { return parse.Digest(f) }

// NewDecoder reads one reply; nothing of the turn matters to it.
func (d Dialect) NewDecoder(messages.TurnInfo) parse.Decoder {
	x := &decoder{}
	if d.Rendering >= 2 && d.Forgive&(parse.HabitThink|parse.HabitSilence) != 0 {
		x.front = &front{think: d.Forgive.Has(parse.HabitThink), quiet: d.Forgive.Has(parse.HabitSilence)}
		if x.quiet = x.front.quiet; x.front.think {
			x.reasoning = &reasoning.Finder{}
		}
	}
	return x
}

// decoder holds the beginning of one character, cut[:n], between pushes. off is
// the reply offset of the first byte not yet emitted.
type decoder struct {
	cut  [utf8.UTFMax]byte
	n    int
	off  int64
	open bool

	front *front // of rendering 2, until the answer has begun
	unit  int
	// reasoning looks in the answer for the end of a thought without an opener; nil when there
	// can be none.
	reasoning *reasoning.Finder
	quiet     bool // no answer is none, and not an empty one
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
	if d.front != nil && !d.front.end(d, emit) { // there is no answer
		return
	}
	if d.reasoning != nil {
		d.reasoning.End(func(p []byte, at int64) { d.say(p, at, emit) }, func(at int64) { d.thought(at, emit) })
		if d.front != nil && !d.front.end(d, emit) {
			return
		}
	}
	if whole || f == messages.FinishLength {
		d.begin(d.off, emit)
	}
	if d.open {
		emit(messages.Event{Kind: messages.EventUnitEnd, Unit: d.unit, UnitKind: messages.ResponseUnit, Offset: d.off, Final: whole, Complete: whole})
		d.open = false
	}
}

func (d *decoder) begin(at int64, emit func(messages.Event)) {
	if !d.open {
		d.open = true
		emit(messages.Event{Kind: messages.EventUnitBegin, Unit: d.unit, UnitKind: messages.ResponseUnit, Offset: at})
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
	switch {
	case d.front != nil:
		d.front.take(d, text, n, emit)
		return
	case d.reasoning == nil:
		d.say(text, d.off, emit)
	case len(text) == n:
		d.reason(text, emit)
		return
	default:
		d.reasoning.Push(text, d.off, func(p []byte, at int64) { d.say(p, at, emit) }, nil) // no tag has such a character
	}
	d.off += int64(n)
}

// reason emits text that may be a thought up to a closing tag. What follows the tag comes in
// front of the answer again.
func (d *decoder) reason(text []byte, emit func(messages.Event)) {
	from, behind := d.off, -1
	d.off += int64(len(text))
	d.reasoning.Push(text, from, func(p []byte, at int64) {
		if behind < 0 {
			d.say(p, at, emit)
		} else {
			behind = len(text) - len(p)
		}
	}, func(at int64) {
		behind = len(text)
		d.thought(at, emit)
	})
	if d.reasoning != nil && d.reasoning.Over() {
		d.reasoning = nil
	}
	if behind >= 0 && behind < len(text) {
		d.off = from + int64(behind)
		d.text(text[behind:], emit)
	}
}

// thought ends the unit as a thought: its closing tag is at an offset of the reply.
func (d *decoder) thought(at int64, emit func(messages.Event)) {
	if d.open {
		d.open = false
		emit(messages.Event{Kind: messages.EventUnitEnd, Unit: d.unit, UnitKind: messages.ThoughtUnit, Offset: at, Complete: true})
		d.unit++
	}
	lint(at, emit)
	d.front = &front{think: true, state: frontBehind, quiet: d.quiet}
}

// say emits text of the answer.
func (d *decoder) say(p []byte, at int64, emit func(messages.Event)) {
	d.begin(at, emit)
	emit(messages.Event{Kind: messages.EventUnitText, Unit: d.unit, UnitKind: messages.ResponseUnit, Text: p, Offset: at})
}
