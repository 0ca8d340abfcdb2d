package kitsu

import (
	"strconv"
	"strings"
)

// memory is the dialect's within a run; the zero value is that of its first turn. In
// version 1 it has the count alone.
type memory struct {
	continues int  // approved ones, and in version 2 each time the model was told of a mistake
	looked    bool // a search or get_time was done, or was refused by the host
	said      bool // the user reads something
	asked     bool // the model was asked for its answer, and for nothing else
}

// head begins a memory; behind it is the count, and behind that a word for each that holds.
const head = "continues "

// The words of a memory.
const (
	wordLooked = " looked"
	wordSaid   = " said"
	wordAsked  = " asked"
)

// recall decodes a memory. Bytes that no version of this dialect wrote count as a memory at its
// limits, which allows no further pass.
func recall(state []byte) (m memory) {
	if len(state) == 0 {
		return m
	}
	spent := memory{continues: 1 << 30, looked: true, asked: true}
	rest, ok := strings.CutPrefix(string(state), head)
	if !ok {
		return spent
	}
	digits, _, _ := strings.Cut(rest, " ")
	rest = rest[len(digits):]
	n, err := strconv.Atoi(digits)
	if err != nil || n < 0 || len(digits) >= 10 {
		return spent
	}
	m.continues = n
	for _, w := range []struct {
		word string
		set  *bool
	}{{wordLooked, &m.looked}, {wordSaid, &m.said}, {wordAsked, &m.asked}} {
		rest, *w.set = strings.CutPrefix(rest, w.word)
	}
	if rest != "" {
		return spent
	}
	return m
}

// bytes encodes the memory for recall.
func (m memory) bytes() []byte {
	b := strconv.AppendInt([]byte(head), int64(m.continues), 10)
	for _, w := range []struct {
		word string
		set  bool
	}{{wordLooked, m.looked}, {wordSaid, m.said}, {wordAsked, m.asked}} {
		if w.set {
			b = append(b, w.word...)
		}
	}
	return b
}

// Count returns the number of continues of a run, from the dialect's memory.
func Count(state []byte) int { return recall(state).continues }
