package aeiou

import (
	"bytes"
	"strings"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// found is what a reply holds: one program, or why it holds none.
type found struct {
	lo, hi int          // of the program
	habits parse.Habits // that have to be forgiven for it
	lints  []Lint       // of its envelope
	closed bool         // an END line stands behind it, with its line end
	fault  fault        // what refuses the reply; its code is "" where there is a program
}

// search looks for the one program of a reply (docs/spec/aeiou.md §2.1). Thoughts are no
// part of the reply, and what stands inside the strings of a program is its own: neither
// begins or ends anything. Two programs, or a line that may begin or end another one, are
// refused. It walks the lines once, and those of a program once more.
type search struct {
	b      []byte
	limit  int
	strict bool

	habits  parse.Habits
	text    bool // something stands outside of programs, thoughts and fences
	stray   int  // of it, the first line that is a statement; -1 for none
	fenced  bool // a fence was seen
	thought bool // a thought was seen
	// lead is where comments and metadata begin that stand directly in front of a program
	// and belong to it; -1 where there are none.
	lead    int
	cased   int // the line that would be `command` in lower case; -1 for none
	program *found

	next   mark // the first line of an envelope that is not in front of the walk
	looked bool
}

func (s *search) reply() found {
	s.cased, s.lead, s.stray = -1, -1, -1
	got := s.walk(0, len(s.b), true)
	got.habits |= s.habits
	if s.thought {
		got.habits |= parse.HabitThink
	}
	return got
}

// walk searches lines. markers reports whether lines of the envelope may be met: inside its
// ACTIONS they are none.
func (s *search) walk(at, hi int, markers bool) found {
	from := at
	for at < hi {
		line, next := lineAt(s.b[:hi], at)
		text := trimLine(line)
		if after, ok := s.shutsThought(at, next); ok {
			// What was thought of, a program among it, is not meant.
			s.thought, s.text, s.fenced, s.program, s.lead, s.cased, s.stray = true, false, false, nil, -1, -1, -1
			at = after
			continue
		}
		if open := opensThought(text); open != "" {
			s.thought = true
			if at = endOfThought(s.b[:hi], at, open); at < 0 {
				break
			}
			continue
		}
		if m, ok := s.marker(at); ok && markers {
			switch {
			case s.program != nil && m.kind == end:
				return s.around(true, m)
			case s.program != nil && (m.kind == start || m.kind == actions):
				return found{fault: fault{code: messages.ErrActionsParse, offset: at, detail: refusedTwo(s.b, s.program.lo, at)}}
			case s.program != nil && m.kind != unknown:
				s.habits |= parse.HabitSections // what the host writes, made up
			case m.kind == start:
				return s.envelope(at)
			case m.kind == actions:
				return s.headless(m)
			}
			at = next
			continue
		}
		switch {
		case s.program != nil && (isWord(text, "command") || isWord(text, "endcommand")):
			return found{fault: fault{code: messages.ErrActionsParse, offset: at, detail: refusedTwo(s.b, s.program.lo, at)}}
		case isWord(text, "command"):
			lo := at
			if s.lead >= 0 && !s.text {
				lo = s.lead
			}
			over, whole := programEnd(s.b[:hi], next)
			if !whole {
				return s.open(lo, hi)
			}
			s.program = &found{lo: lo, hi: over}
			_, next = lineAt(s.b[:hi], over)
		case len(text) == 0:
		case bytes.HasPrefix(text, []byte("```")):
			s.fenced, s.lead = true, -1
		case s.program == nil && !s.text && isComment(text):
			if s.lead < 0 {
				s.lead = at
			}
			at = next
			continue
		default:
			if s.cased < 0 && s.program == nil && strings.EqualFold(string(text), "command") {
				s.cased = at
			}
			if s.stray < 0 && isStatement(text) {
				s.stray = at
			}
			s.text = true
		}
		at = next
	}
	if s.program != nil {
		return s.around(false, mark{})
	}
	return s.none(from, hi)
}

// around returns the program with what stands around it.
func (s *search) around(ended bool, m mark) found {
	got := *s.program
	if s.stray >= 0 {
		return found{fault: fault{code: messages.ErrActionsParse, offset: s.stray, detail: refusedStray}}
	}
	if ended {
		got.habits |= parse.HabitSections
		got.closed = m.blank < len(s.b)
	}
	if s.text {
		got.habits |= parse.HabitProse
	}
	if s.fenced {
		got.habits |= parse.HabitFence
	}
	return got
}

// open returns a program whose end is missing: the interpreter says what is wrong with it,
// and where.
func (s *search) open(lo, stop int) found {
	got := found{lo: lo, hi: stop}
	for m, ok := nextMark(s.b[:stop], lo); ok; m, ok = nextMark(s.b[:stop], m.next) {
		if m.kind == end {
			got.hi = m.line
			break
		}
	}
	src := bytes.TrimRight(s.b[lo:got.hi], white)
	src = bytes.TrimRight(bytes.TrimSuffix(src, []byte("```")), white)
	got.hi = lo + len(src)
	s.program = &got
	return s.around(false, mark{})
}

// envelope reads the envelope whose START line is at. What the host does not take from a
// reply anyway may be missing, and the END line when the program is whole.
func (s *search) envelope(at int) found {
	b := s.b[at:]
	l, f := read(b, Options{Extract: true, StrictDuplicates: s.strict}, limits{whole: s.limit, input: int64(len(b)), lax: true})
	if f.code != "" {
		f.offset += at
		f.detail = curedEnvelope(f)
		return found{fault: f}
	}
	body := l.at[actions]
	s.text, s.fenced, s.lead, s.cased, s.stray = false, false, -1, -1, -1
	got := s.walk(at+body.lo, at+body.hi, false)
	if s.program != nil && l.ended && got.fault.code == "" {
		if hi, whole := programEnd(s.b, s.program.lo); whole && hi > at+body.hi {
			got.hi = hi // the END line stood in one of its strings
		}
	}
	got.closed = l.ended && l.end.blank < len(b)
	if !l.have[userdata] {
		got.habits |= parse.HabitSections
	}
	if !l.ended {
		got.habits |= parse.HabitClosing
	}
	for _, lint := range l.lints {
		lint.Offset += at
		got.lints = append(got.lints, lint)
	}
	return got
}

// headless reads what goes on where the prompt's envelope stopped: behind an ACTIONS line.
func (s *search) headless(m mark) found {
	stop, closed := len(s.b), false
	for e, ok := nextMark(s.b, m.next); ok; e, ok = nextMark(s.b, e.next) {
		if e.kind == end {
			stop, closed = e.line, e.blank < len(s.b)
			break
		}
	}
	s.text, s.fenced, s.lead, s.cased, s.stray = false, false, -1, -1, -1
	got := s.walk(m.next, stop, false)
	got.closed = closed
	got.habits |= parse.HabitSections
	return got
}

// none says what a reply is that holds no program. A line that is `Command` is taken for
// the beginning of one: the interpreter refuses it, with its place.
func (s *search) none(from, stop int) found {
	if s.cased >= 0 {
		return s.open(s.cased, stop)
	}
	return found{fault: fault{code: messages.ErrActionsParse, offset: from, detail: s.refusal(s.b[from:stop])}}
}

// marker finds a line of the envelope at the beginning of a line. The next one is looked
// for once, however many lines stand in front of it.
func (s *search) marker(at int) (mark, bool) {
	if s.next.line < at || !s.looked {
		s.looked = true
		var ok bool
		if s.next, ok = nextMark(s.b, at); !ok {
			s.next.line = len(s.b)
		}
	}
	return s.next, s.next.line == at && at < len(s.b)
}

// white is what may surround a program.
const white = " \t\n\v\f\r"

// lineAt is the line of b that holds the byte at, from there on, and where the next begins.
func lineAt(b []byte, at int) (line []byte, next int) {
	if n := bytes.IndexByte(b[at:], '\n'); n >= 0 {
		return b[at : at+n], at + n + 1
	}
	return b[at:], len(b)
}

func trimLine(line []byte) []byte {
	return bytes.Trim(bytes.TrimPrefix(line, []byte(bom)), " \t\v\f\r")
}

// isWord reports whether a line is a keyword alone, a comment behind it aside.
func isWord(text []byte, word string) bool {
	rest, ok := bytes.CutPrefix(text, []byte(word))
	return ok && (len(rest) == 0 || (rest[0] == ' ' || rest[0] == '\t' || rest[0] == '#') && isComment(bytes.TrimLeft(rest, " \t")))
}

// isStatement reports whether a line outside of a program looks like one of a program's: it
// was meant to run, and without it the rest may not do what was meant.
func isStatement(text []byte) bool {
	word, rest, _ := bytes.Cut(text, []byte(" "))
	rest = bytes.TrimLeft(rest, " ")
	switch string(word) {
	case "func":
		return bytes.HasSuffix(rest, []byte(" means"))
	case "on":
		return bytes.HasPrefix(rest, []byte("error "))
	case "call":
		name, _, _ := bytes.Cut(rest, []byte(" "))
		return bytes.Contains(name, []byte("("))
	case "emit":
		return bytes.HasPrefix(rest, []byte("tool.")) || len(rest) > 0 && (rest[0] == '"' || rest[0] == '\'')
	case "set":
		return bytes.Contains(rest, []byte(" = "))
	case "whisper":
		return bytes.HasPrefix(rest, []byte("self,"))
	}
	return false
}

// isComment reports whether a line is a comment of a program, or metadata.
func isComment(text []byte) bool {
	for _, mark := range []string{"#", "--", "//", "::"} {
		if bytes.HasPrefix(text, []byte(mark)) {
			return true
		}
	}
	return false
}

// programEnd is where the program whose lines begin at ends: behind the first line
// `endcommand` that stands outside of strings. Strings are told as the interpreter tells
// them (docs/spec/neuroscript.md §2); one that its line does not close ends with the line,
// so that the rest of a faulty program is still seen.
func programEnd(b []byte, at int) (end int, ok bool) {
	for at < len(b) {
		line, next := lineAt(b, at)
		if text := trimLine(line); isWord(text, "endcommand") {
			return at + len(bytes.TrimRight(line, white)), true
		}
		if at, ok = lineEnd(b, at, next); !ok {
			return 0, false
		}
	}
	return 0, false
}

// lineEnd is where the line that follows the statement text at begins: a string of several
// lines takes their line ends along. ok is false for one that nothing closes.
func lineEnd(b []byte, at, next int) (end int, ok bool) {
	for i := at; i < len(b); i++ {
		switch c := b[i]; c {
		case '\n':
			return i + 1, true
		case '#':
			return next, true
		case '-', '/':
			if i+1 < len(b) && b[i+1] == c {
				return next, true
			}
		case '"', '\'', '`':
			if raw := b[i:min(i+3, len(b))]; c != '"' && (string(raw) == "'''" || string(raw) == "```") {
				n := bytes.Index(b[i+3:], raw)
				if n < 0 {
					return 0, false
				}
				i += 3 + n + 2
				_, next = lineAt(b, i)
				continue
			}
			i, next = quoted(b, i, next)
		}
	}
	return len(b), true
}

// quoted is the last byte of the string that begins at i, or the one in front of the line
// end that it is not closed before. A backslash joins the next line.
func quoted(b []byte, i, next int) (last, _ int) {
	if b[i] == '`' {
		return i, next
	}
	for j := i + 1; j < len(b); j++ {
		switch b[j] {
		case b[i]:
			return j, next
		case '\n':
			return j - 1, next
		case '\\':
			if j++; j < len(b) && b[j] == '\r' && j+1 < len(b) && b[j+1] == '\n' {
				j++
			}
			if j < len(b) && b[j] == '\n' {
				_, next = lineAt(b, min(j+1, len(b)))
			}
		}
	}
	return len(b) - 1, next
}

// thoughts are the tags in which models reason aloud.
var thoughts = []string{"think", "thinking", "thought", "thoughts", "reasoning", "analysis"}

// opensThought returns the tag with which a line opens a thought.
func opensThought(text []byte) string {
	if len(text) < 3 || text[0] != '<' {
		return ""
	}
	for _, tag := range thoughts {
		if n := len(tag) + 2; len(text) >= n && text[n-1] == '>' && strings.EqualFold(string(text[1:n-1]), tag) {
			return tag
		}
	}
	return ""
}

// endOfThought is where the text behind a thought goes on, or -1 when nothing closes it.
func endOfThought(b []byte, at int, tag string) int {
	shut := "</" + tag + ">"
	for i := at; ; i++ {
		n := bytes.Index(b[i:], []byte("</"))
		if n < 0 {
			return -1
		}
		if i += n; len(b)-i >= len(shut) && strings.EqualFold(string(b[i:i+len(shut)]), shut) {
			return i + len(shut)
		}
	}
}

// shutsThought reports whether a line shuts a thought that the reply did not open: the
// model's template did. after is behind the tag. Behind a program only a tag that begins
// or ends its line is one: what would be thrown away is what runs.
func (s *search) shutsThought(at, next int) (after int, ok bool) {
	line := s.b[at:next]
	if !bytes.Contains(line, []byte("</")) || opensThought(trimLine(line)) != "" {
		return 0, false
	}
	text := trimLine(bytes.TrimSuffix(line, []byte{'\n'}))
	for _, tag := range thoughts {
		shut := "</" + tag + ">"
		for i := endOfThought(line, 0, tag); i >= 0 && s.program == nil; {
			more := endOfThought(line, i, tag)
			if more < 0 {
				return at + i, true
			}
			i = more
		}
		if len(text) < len(shut) {
			continue
		}
		if strings.EqualFold(string(text[:len(shut)]), shut) {
			return at + bytes.Index(line, text) + len(shut), true
		}
		if strings.EqualFold(string(text[len(text)-len(shut):]), shut) {
			return next, true
		}
	}
	return 0, false
}
