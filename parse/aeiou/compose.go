package aeiou

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"github.com/seed14be6753/stile/messages"
)

// Compose returns e as an envelope (docs/spec/aeiou.md §3.4): START, the present sections in order,
// END, each line with LF. An optional section without a body is left out. Parse, not Compose,
// checks the USERDATA schema.
//
// USERDATA and ACTIONS are the caller's own: a line in them that a parser would
// take for a marker is ERR_ENV_MARKERS_INVALID, a body over its limit
// ERR_ENV_SIZE. OUTPUT and SCRATCHPAD were written by a program, so they are made
// to fit: lines that look like markers get one space in front and lose their
// trailing SP, HTAB, CR (LINT_MARKER_ESCAPED), and what is over a limit is cut at
// the front, on a line boundary (LINT_CARRY_TRUNCATED). Each lint is reported once
// per section. Bytes that are not UTF-8, in any section, are
// ERR_ENV_MARKERS_INVALID with reason NON_UTF8. Offsets are in the section named
// by Field.
//
// The result shares nothing with e. Safe for concurrent use.
func Compose(e Envelope) ([]byte, []messages.Code, error) {
	for k, body := range e.bodies() {
		if !utf8.Valid(body) {
			return nil, nil, fault{
				code: messages.ErrEnvMarkersInvalid, reason: "NON_UTF8", offset: firstInvalid(body),
				field: kind(k).String(), detail: "the bytes are not UTF-8",
			}.err(body)
		}
	}
	for _, own := range []struct {
		k    kind
		body []byte
	}{{userdata, e.Userdata}, {actions, e.Actions}} {
		if m, ok := nextMark(own.body, 0); ok {
			return nil, nil, fault{
				code: messages.ErrEnvMarkersInvalid, offset: m.line, field: own.k.String(),
				detail: "the line would be read as a marker",
			}.err(own.body)
		}
		if n := len(own.body); n > MaxSectionBytes {
			return nil, nil, fault{
				code: messages.ErrEnvSize, offset: MaxSectionBytes, field: own.k.String(),
				detail: fmt.Sprintf("%d bytes; the limit is %d", n, MaxSectionBytes),
			}.err(own.body)
		}
	}

	out, outEsc := escape(e.Output)
	scr, scrEsc := escape(e.Scratchpad)
	outLen, scrLen := len(out), len(scr)
	out = tail(shortLines(out), MaxSectionBytes)
	scr = tail(scr, MaxSectionBytes)

	// START LF, two required sections, END; the LF behind END does not count.
	room := MaxEnvelopeBytes - len(markStart) - 1 - len(markEnd) -
		sectionBytes(userdata, e.Userdata) - sectionBytes(actions, e.Actions)
	if room < 0 {
		return nil, nil, fault{
			code:   messages.ErrEnvSize,
			detail: fmt.Sprintf("USERDATA and ACTIONS leave no room within %d bytes", MaxEnvelopeBytes),
		}.err(nil)
	}
	out = fit(output, out, room-optionalBytes(scratchpad, scr))
	scr = fit(scratchpad, scr, room-optionalBytes(output, out))

	var lints []messages.Code
	for _, s := range []struct{ escaped, cut bool }{{scrEsc, len(scr) < scrLen}, {outEsc, len(out) < outLen}} {
		if s.escaped {
			lints = append(lints, messages.LintMarkerEscaped)
		}
		if s.cut {
			lints = append(lints, messages.LintCarryTruncated)
		}
	}

	b := make([]byte, 0, MaxEnvelopeBytes-room+optionalBytes(scratchpad, scr)+optionalBytes(output, out)+1)
	b = append(b, markStart+"\n"...)
	b = appendSection(b, markUserdata, e.Userdata)
	if len(scr) > 0 {
		b = appendSection(b, markScratchpad, scr)
	}
	if len(out) > 0 {
		b = appendSection(b, markOutput, out)
	}
	b = appendSection(b, markActions, e.Actions)
	return append(b, markEnd+"\n"...), lints, nil
}

// bodies lists the sections by kind.
func (e *Envelope) bodies() [sections][]byte {
	return [sections][]byte{userdata: e.Userdata, scratchpad: e.Scratchpad, output: e.Output, actions: e.Actions}
}

// Carry is the body a stream of the previous turn becomes: its text without the
// final LF. It aliases stream.
func Carry(stream []byte) []byte { return bytes.TrimSuffix(stream, []byte{'\n'}) }

func appendSection(b []byte, marker string, body []byte) []byte {
	b = append(b, marker...)
	b = append(b, '\n')
	b = append(b, body...)
	return append(b, '\n')
}

func sectionBytes(k kind, body []byte) int {
	return len(markerPrefix) + len(k.String()) + len(">>>\n") + len(body) + 1
}

func optionalBytes(k kind, body []byte) int {
	if len(body) == 0 {
		return 0
	}
	return sectionBytes(k, body)
}

// fit cuts a carried body so that its section takes at most room bytes.
func fit(k kind, body []byte, room int) []byte {
	if over := optionalBytes(k, body) - room; over > 0 {
		return tail(body, max(0, len(body)-over))
	}
	return body
}

// escape indents every line of a carried body that would be read as a marker,
// known or not, and drops the blanks behind it. Without this a program could
// write sections of the next envelope. A body without such lines is returned as
// it is.
func escape(body []byte) (_ []byte, escaped bool) {
	m, ok := nextMark(body, 0)
	if !ok {
		return body, false
	}
	out := make([]byte, 0, len(body)+len(body)/len(markEnd)+1)
	at := 0
	for ; ok; m, ok = nextMark(body, m.next) {
		out = append(out, body[at:m.line]...)
		out = append(out, ' ')
		out = append(out, body[m.line:m.close]...)
		at = m.blank
	}
	return append(out, body[at:]...), true
}

// shortLines keeps what follows the last line that is too long for OUTPUT. A
// program cannot emit one, but a space in front can make one of a line of exactly
// MaxLineBytes.
func shortLines(body []byte) []byte {
	for {
		at := overlongLine(body)
		if at < 0 {
			return body
		}
		_, body, _ = bytes.Cut(body[at:], []byte{'\n'})
	}
}

// tail keeps the last whole lines of body that are within limit bytes.
func tail(body []byte, limit int) []byte {
	from := len(body) - limit
	if from <= 0 {
		return body
	}
	if body[from-1] == '\n' {
		return body[from:]
	}
	_, rest, _ := bytes.Cut(body[from:], []byte{'\n'})
	return rest
}
