package cogency

import (
	"strconv"
	"strings"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// memory is the dialect's state within a run.
type memory struct {
	failures int  // turns in a row in which no call succeeded
	silent   int  // replies without text for the user, since a call succeeded
	said     bool // the user has seen a text; known in rendering 2
}

// The words of the encoded memory: "failures 2 silent 1 said 1", without values of 0.
const (
	wordFailures = "failures"
	wordSilent   = "silent"
	wordSaid     = "said"
)

// state encodes the memory; nil if all values are 0.
func (m memory) state() []byte {
	var words []string
	add := func(word string, n int) {
		if n > 0 {
			words = append(words, word, strconv.Itoa(n))
		}
	}
	add(wordFailures, m.failures)
	add(wordSilent, m.silent)
	if m.said {
		add(wordSaid, 1)
	}
	if words == nil {
		return nil
	}
	return []byte(strings.Join(words, " "))
}

// recall decodes a memory. Words that it does not know are ignored.
func recall(state []byte) (m memory) {
	words := strings.Split(string(state), " ")
	for i := 0; i+1 < len(words); i += 2 {
		n, err := strconv.Atoi(words[i+1])
		if err != nil || n < 0 {
			continue
		}
		switch words[i] {
		case wordFailures:
			m.failures = n
		case wordSilent:
			m.silent = n
		case wordSaid:
			m.said = n > 0
		}
	}
	return m
}

// said reports whether one of the texts is for the user.
func said(units []messages.Unit) bool {
	for i := range units {
		if units[i].Kind == messages.ResponseUnit && strings.TrimSpace(units[i].Text) != "" {
			return true
		}
	}
	return false
}

// silent reports whether a complete reply without a batch leaves the user without an answer: it
// has no text, and no <end> after texts of earlier turns.
func (x Dialect) silent(f messages.Facts, past memory) bool {
	return x.second() && x.Forgive.Has(parse.HabitSilence) && !said(f.Units) && !(f.Final && past.said)
}
