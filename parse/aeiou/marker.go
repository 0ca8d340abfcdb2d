package aeiou

import "bytes"

// Limits of docs/spec/aeiou.md §3.2, all inclusive.
const (
	MaxEnvelopeBytes = 1_048_576 // first byte of START to last byte of END
	MaxSectionBytes  = 524_288   // one section body
	MaxLineBytes     = 8_192     // one line of OUTPUT, LF excluded
)

// markerPrefix opens every marker line and every line that looks like one.
const markerPrefix = "<<<NSENV:V3:"

// The six marker lines (§3).
const (
	markStart      = markerPrefix + "START>>>"
	markUserdata   = markerPrefix + "USERDATA>>>"
	markScratchpad = markerPrefix + "SCRATCHPAD>>>"
	markOutput     = markerPrefix + "OUTPUT>>>"
	markActions    = markerPrefix + "ACTIONS>>>"
	markEnd        = markerPrefix + "END>>>"
)

const bom = "\xef\xbb\xbf"

// kind of a marker line. The sections come first, in their required order.
type kind uint8

const (
	userdata kind = iota
	scratchpad
	output
	actions
	start
	end
	unknown // of the exact shape, with another name (§3 rule 4)

	sections = int(actions) + 1
)

// String is the marker's name.
func (k kind) String() string {
	return [...]string{"USERDATA", "SCRATCHPAD", "OUTPUT", "ACTIONS", "START", "END", "unknown"}[k]
}

func kindOf(name []byte) kind {
	switch string(name) {
	case "USERDATA":
		return userdata
	case "SCRATCHPAD":
		return scratchpad
	case "OUTPUT":
		return output
	case "ACTIONS":
		return actions
	case "START":
		return start
	case "END":
		return end
	}
	return unknown
}

// mark is one marker line of b, known or unknown.
//
//	line ≤ text < close ≤ blank ≤ next
//	│      │      │       │       └ first byte of the next line, len(b) at the end
//	│      │      │       └ the LF, or len(b)
//	│      │      └ behind ">>>"; SP, HTAB and CR may follow
//	│      └ "<<<"; a BOM may precede
//	└ first byte of the line
type mark struct {
	kind                           kind
	line, text, close, blank, next int
}

// nextMark finds the first marker line of b at or after from, which must be the
// first byte of a line. Lines end at LF only; one BOM before and SP, HTAB, CR
// behind do not hide a marker, anything else does (§3 rules 1, 2, 4).
//
// It searches the prefix instead of walking lines, so plain text costs a vector
// search. Each byte is looked at a bounded number of times whatever the input.
func nextMark(b []byte, from int) (m mark, ok bool) {
	for i := from; ; {
		k := bytes.Index(b[i:], []byte(markerPrefix))
		if k < 0 {
			return mark{}, false
		}
		text := i + k
		i = text + len(markerPrefix)
		line := text
		if line-len(bom) >= from && string(b[line-len(bom):line]) == bom {
			line -= len(bom)
		}
		if line > from && b[line-1] != '\n' {
			continue
		}
		name := i
		for i < len(b) && (b[i] >= 'A' && b[i] <= 'Z' || b[i] == '_') {
			i++
		}
		if i == name || !bytes.HasPrefix(b[i:], []byte(">>>")) {
			continue
		}
		m = mark{kind: kindOf(b[name:i]), line: line, text: text, close: i + len(">>>")}
		for i = m.close; i < len(b) && isBlank(b[i]); i++ {
		}
		if i < len(b) && b[i] != '\n' {
			continue
		}
		m.blank, m.next = i, min(i+1, len(b))
		return m, true
	}
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }

// overlongLine returns the offset of the first line of b with more than
// MaxLineBytes, or -1. A window one byte longer than the limit that holds an LF
// holds no overlong line before it, so it steps by windows, not by lines.
func overlongLine(b []byte) int {
	for at := 0; len(b)-at > MaxLineBytes; {
		lf := bytes.LastIndexByte(b[at:at+MaxLineBytes+1], '\n')
		if lf < 0 {
			return at
		}
		at += lf + 1
	}
	return -1
}
