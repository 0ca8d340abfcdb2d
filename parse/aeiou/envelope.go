package aeiou

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/seed14be6753/stile/messages"
)

// Envelope is the content of one envelope. Optional sections are nil when absent
// and empty but not nil when present without a body; the format itself treats
// both alike. Parsed bodies alias the input.
type Envelope struct {
	Userdata   []byte // a JSON object (§4)
	Scratchpad []byte // optional
	Output     []byte // optional
	Actions    []byte // a program; Parse does not look inside
}

// Options are the settings of Parse.
type Options struct {
	// StrictDuplicates makes a repeated section ERR_ENV_SECTION_DUP instead of a
	// lint. Hosts use it to check what they composed.
	StrictDuplicates bool
	// Extract reads an author's reply: everything before the first START line is
	// skipped and the USERDATA schema, a section the host discards, is left out
	// (§3 rule 6).
	Extract bool
}

// Lint is a remark about a valid envelope.
type Lint struct {
	Code    messages.Code
	Section string // the section's name
	Offset  int    // of the line, in bytes
	Line    int    // 1-based
}

// Parse reads one envelope from START to the first END; bytes after END are not
// looked at. It checks in the order of docs/spec/aeiou.md §3.3, from the size of the whole
// to USERDATA, and the first failure wins. ACTIONS is not parsed.
//
// Errors are *messages.Error with offset and line in b: ERR_ENV_SIZE,
// ERR_ENV_MARKERS_INVALID (reason NON_UTF8 for bytes that are no UTF-8),
// ERR_ENV_ORDER, ERR_ENV_SECTION_MISSING, ERR_ENV_SECTION_DUP,
// ERR_USERDATA_SCHEMA. Lints come with a good envelope only. It is safe to call
// from many goroutines.
func Parse(b []byte, o Options) (Envelope, []Lint, error) {
	l, f := read(b, o, limits{whole: MaxEnvelopeBytes, input: int64(len(b))})
	if f.code != "" {
		return Envelope{}, nil, f.err(b)
	}
	if !o.Extract {
		if ft := checkUserdata(l.body(b, userdata)); ft.detail != "" {
			ft.offset += l.at[userdata].lo
			return Envelope{}, nil, ft.err(b)
		}
	}
	return Envelope{
		Userdata:   l.body(b, userdata),
		Scratchpad: l.body(b, scratchpad),
		Output:     l.body(b, output),
		Actions:    l.body(b, actions),
	}, l.lints, nil
}

// limits of one read: the whole envelope, and how long the input was before a
// reader stopped keeping it.
type limits struct {
	whole int
	input int64
	// lax lets USERDATA and the END line be missing: the reply's is not used, and a
	// program has an end of its own (§2.1).
	lax bool
}

// layout is where an envelope's bodies lie.
type layout struct {
	at    [sections]span
	have  [sections]bool
	lints []Lint
	ended bool // there is an END line
	end   mark // which is this
}

type span struct{ lo, hi int }

func (l *layout) body(b []byte, k kind) []byte {
	if !l.have[k] {
		return nil
	}
	s := l.at[k]
	return b[s.lo:s.hi:s.hi]
}

// fault is a failure before it becomes an error: cheap to keep while a check that
// comes later in the bytes may still come earlier in the order.
type fault struct {
	code   messages.Code
	reason string
	offset int
	field  string
	detail string
}

func (f *fault) first(g fault) {
	if f.code == "" {
		*f = g
	}
}

func (f fault) err(b []byte) *messages.Error {
	line, col := place(b, f.offset)
	return &messages.Error{
		Code: f.code, Reason: f.reason, Field: f.field, Detail: f.detail,
		Offset: int64(f.offset), HasOffset: true, Line: line, Col: col,
	}
}

// place returns the 1-based line and byte column of an offset.
func place(b []byte, off int) (line, col int) {
	head := b[:min(off, len(b))]
	return 1 + bytes.Count(head, []byte{'\n'}), off - bytes.LastIndexByte(head, '\n')
}

// read finds the sections of b and makes the checks up to the sizes. One walk
// over the marker lines notes the first fault of every stage; the stages are then
// judged in their order.
func read(b []byte, o Options, lim limits) (l layout, f fault) {
	var markers, order, dup, size fault

	first, haveStart := nextMark(b, 0)
	for haveStart && first.kind != start {
		first, haveStart = nextMark(b, first.next)
	}
	if !haveStart {
		return l, noStart(b, o, lim)
	}
	if !o.Extract && first.line != 0 {
		markers = fault{code: messages.ErrEnvMarkersInvalid, detail: "something stands before " + markStart}
	}

	var (
		ended    bool
		last     mark
		reached  = -1 // the highest section seen so far, by its place in the order
		open     = start
		openAt   = first.next
		openDup  bool
		preamble = true
	)
	for m, ok := nextMark(b, first.next); ok; m, ok = nextMark(b, m.next) {
		if preamble && m.kind != unknown && m.kind != start {
			preamble = false
			if at := stray(b[first.next:m.line]); at >= 0 {
				markers.first(fault{
					code: messages.ErrEnvMarkersInvalid, offset: first.next + at,
					detail: "text between START and the first section",
				})
			}
		}
		switch m.kind {
		case start:
			markers.first(fault{code: messages.ErrEnvMarkersInvalid, offset: m.line, detail: "a second START before END"})
			continue
		case unknown:
			markers.first(fault{
				code: messages.ErrEnvMarkersInvalid, offset: m.line,
				detail: fmt.Sprintf("no such marker: %.60q", b[m.text:m.close]),
			})
			continue
		}
		if open != start {
			l.close(b, open, openAt, m.line, openDup, &size)
		}
		if m.kind == end {
			last, ended = m, true
			break
		}
		open, openAt, openDup = m.kind, m.next, l.have[m.kind]
		switch {
		case openDup:
			dup.first(fault{code: messages.ErrEnvSectionDup, offset: m.line, field: m.kind.String(), detail: "the section is repeated"})
			l.lints = append(l.lints, Lint{Code: messages.LintDupSectionIgnored, Section: m.kind.String(), Offset: m.line})
		case int(m.kind) < reached:
			order.first(fault{
				code: messages.ErrEnvOrder, offset: m.line, field: m.kind.String(),
				detail: "comes after " + kind(reached).String(),
			})
			l.have[m.kind] = true
		default:
			reached = int(m.kind)
			l.have[m.kind] = true
		}
	}

	whole, text := lim.input, b
	l.ended, l.end = ended, last
	if !ended && lim.lax && open != start {
		l.close(b, open, openAt, len(b)+1-bytes.Count(b[len(b)-1:], []byte{'\n'}), openDup, &size)
	} else if ended {
		whole, text = int64(last.close-first.text), b[:last.blank]
	} else {
		markers.first(fault{code: messages.ErrEnvMarkersInvalid, offset: len(b), detail: "there is no " + markEnd})
	}
	from := 0
	if o.Extract {
		from = first.line // what precedes START is skipped, not read
	}
	switch {
	case whole > int64(lim.whole):
		return l, tooBig(first.text, lim.whole)
	case !utf8.Valid(text[from:]):
		return l, fault{code: messages.ErrEnvMarkersInvalid, reason: "NON_UTF8", offset: from + firstInvalid(text[from:]), detail: "the bytes are not UTF-8"}
	case markers.code != "":
		return l, markers
	case order.code != "":
		return l, order
	case !l.have[userdata] && !lim.lax:
		return l, fault{code: messages.ErrEnvSectionMissing, offset: last.line, field: userdata.String(), detail: "the section is missing"}
	case !l.have[actions]:
		return l, fault{code: messages.ErrEnvSectionMissing, offset: last.line, field: actions.String(), detail: "the section is missing"}
	case o.StrictDuplicates && dup.code != "":
		return l, dup
	case size.code != "":
		return l, size
	}
	line, at := 1, 0
	for i := range l.lints {
		line += bytes.Count(b[at:l.lints[i].Offset], []byte{'\n'})
		l.lints[i].Line, at = line, l.lints[i].Offset
	}
	return l, fault{}
}

// close ends the body that began at lo in front of the marker line at next. The
// LF between them is a separator and belongs to no body (§3 rule 3).
func (l *layout) close(b []byte, k kind, lo, next int, dup bool, size *fault) {
	hi := max(lo, next-1)
	if !dup {
		l.at[k] = span{lo, hi}
	}
	if hi-lo > MaxSectionBytes {
		size.first(fault{
			code: messages.ErrEnvSize, offset: lo, field: k.String(),
			detail: fmt.Sprintf("the body has %d bytes; the limit is %d", hi-lo, MaxSectionBytes),
		})
	}
	if k == output {
		if at := overlongLine(b[lo:hi]); at >= 0 {
			size.first(fault{
				code: messages.ErrEnvSize, offset: lo + at, field: k.String(),
				detail: fmt.Sprintf("a line is longer than %d bytes", MaxLineBytes),
			})
		}
	}
}

// noStart judges an input without a START line: its size is that of all of it.
func noStart(b []byte, o Options, lim limits) fault {
	if lim.input > int64(lim.whole) {
		return tooBig(0, lim.whole)
	}
	text := b
	for m, ok := nextMark(b, 0); ok; m, ok = nextMark(b, m.next) {
		if m.kind == end {
			text = b[:m.blank]
			break
		}
	}
	if !o.Extract && !utf8.Valid(text) {
		return fault{code: messages.ErrEnvMarkersInvalid, reason: "NON_UTF8", offset: firstInvalid(text), detail: "the bytes are not UTF-8"}
	}
	return fault{code: messages.ErrEnvMarkersInvalid, detail: "there is no " + markStart}
}

func tooBig(offset, limit int) fault {
	return fault{code: messages.ErrEnvSize, offset: offset, detail: fmt.Sprintf("the envelope is larger than %d bytes", limit)}
}

// stray returns the offset of the first byte that keeps b from being blank lines.
func stray(b []byte) int {
	for i, c := range b {
		if !isBlank(c) && c != '\n' {
			return i
		}
	}
	return -1
}

func firstInvalid(b []byte) int {
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(b)
}
