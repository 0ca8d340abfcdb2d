package cogency

import (
	"bytes"
	"strings"
)

// Bounds of calls in words.
const (
	maxWordBytes = 120
	maxCallText  = 4 << 10
)

// The beginnings of calls in words, besides a bracket.
const (
	reactAction   = "Action:"
	functionGroup = "functions."
)

// words is judge for calls without markup: [TOOL_CALLS] of Mistral, [read(file="x")] of Llama,
// the lines of ReAct, and functions.read(…).
func (d *decoder) words(b []byte, n int, end bool) (finding, int) {
	behind := d.prose.from.anyText
	line := string(b[:min(len(b), 2*maxWordBytes+1)])
	switch {
	case b[0] == '[' && b[1] == 'T':
		for _, w := range []string{"[TOOL_CALLS]", "[TOOL_CALL]", "[TOOL_REQUEST]"} {
			if strings.HasPrefix(line, w) {
				return foundCall, n
			}
			if strings.HasPrefix(w, line) {
				return foundNothing, 0
			}
		}
	case b[0] == '[':
		i := 1
		for i < len(b) && (isLetter(b[i]) || b[i] == '.' || b[i] >= '0' && b[i] <= '9') {
			i++
		}
		switch {
		case behind || i < len(b) && b[i] != '(' || len(b) > maxCallText:
			return foundText, 0
		case i == len(b) && i > maxWordBytes:
			return foundText, 0
		case end && bytes.HasSuffix(bytes.TrimRight(b, " \t\r\n`"), []byte(")]")):
			return foundCall, n
		}
		return foundNothing, 0
	case b[0] == 'f':
		const group = functionGroup
		switch {
		case len(line) < len(group) && strings.HasPrefix(group, line):
			return foundNothing, 0
		case !strings.HasPrefix(line, group) || len(line) > maxWordBytes:
			return foundText, 0
		}
		name := strings.TrimLeft(line[len(group):], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
		switch {
		case name == "":
			return foundNothing, 0
		case len(name) < len(line)-len(group) && (name[0] == '(' || name[0] == ':'):
			return foundCall, n
		}
	case b[0] == 'A':
		const action, input = reactAction, "Action Input:"
		if len(line) < len(action) {
			if strings.HasPrefix(action, line) {
				return foundNothing, 0
			}
			return foundText, 0
		}
		name, next, more := strings.Cut(line, "\n")
		switch {
		case !strings.HasPrefix(line, action) || len(name) > maxWordBytes:
		case !more:
			return foundNothing, 0
		default:
			next = strings.TrimLeft(next, " \t\r\n")
			if len(next) < len(input) && strings.EqualFold(input[:len(next)], next) && len(line) < 2*maxWordBytes {
				return foundNothing, 0
			}
			if len(next) >= len(input) && strings.EqualFold(input, next[:len(input)]) {
				return foundCall, n
			}
		}
	}
	return foundText, 0
}
