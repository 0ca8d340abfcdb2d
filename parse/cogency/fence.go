package cogency

import "github.com/seed14be6753/stile/parse/scan"

// fence follows a code fence around a batch, such as ```json … ``` (docs/spec/cogency.md §2.4):
// backticks before the JSON, with a word after three or more of them, and backticks after it.
type fence struct {
	state fenceState
	ticks int
	word  int // bytes of the word
	used  bool
}

type fenceState uint8

const (
	fenceNone fenceState = iota
	fenceTicks
	fenceWord
	fenceInside
)

const (
	fenceRun   = 3  // backticks of a fence
	fenceBytes = 24 // of the word after them
)

// opening reports whether the next byte may belong to the fence's first line.
func (f *fence) opening() bool { return f.state == fenceTicks || f.state == fenceWord }

// open takes a byte of the fence's first line. It returns false when the JSON begins.
func (f *fence) open(c byte) bool {
	switch {
	case c == '`' && f.state == fenceTicks:
		f.ticks++
		return true
	case isWord(c) && f.ticks >= fenceRun && f.word < fenceBytes:
		f.state = fenceWord
		f.word++
		return true
	}
	f.state = fenceInside
	return false
}

// edge takes a backtick that j refuses.
func (f *fence) edge(c byte, j *scan.JSON) bool {
	switch {
	case c != '`':
		return false
	case f.state == fenceNone && j.Blank():
		f.state, f.ticks, f.used = fenceTicks, 1, true
		return true
	}
	f.used = true
	return j.End()
}

// isWord reports whether c may be in a name.
func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '+' || c == '.'
}
