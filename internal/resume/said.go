package resume

import (
	"crypto/sha256"
	"hash"

	"github.com/seed14be6753/stile/internal/native"
	"github.com/seed14be6753/stile/messages"
)

// Said gathers a reply as it is taken, to find it in the next prompt. The zero value is an
// empty reply.
type Said struct {
	sum    hash.Hash // of what counts, without white space
	n      int64     // bytes so far
	more   bool      // the model went on behind what counts
	called bool      // it called in the provider's own form
}

// Add takes a piece. Of the reply the first counts bytes count, all of it if counts is negative.
func (s *Said) Add(piece []byte, counts int64) {
	own := piece
	if counts >= 0 {
		own = piece[:max(0, min(int64(len(piece)), counts-s.n))]
	}
	for _, c := range piece[len(own):] {
		s.more = s.more || !blank(c)
	}
	s.n += int64(len(piece))
	if s.sum == nil {
		s.sum = sha256.New()
	}
	squeeze(s.sum, own)
}

// Called reports that the reply has calls in the provider's own form.
func (s *Said) Called() { s.called = true }

// blank reports whether a byte is white space: dialects trim and join texts.
func blank(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// squeeze hashes a text without its white space.
func squeeze(h hash.Hash, text []byte) {
	from := 0
	for i, c := range text {
		if blank(c) {
			h.Write(text[from:i])
			from = i + 1
		}
	}
	h.Write(text[from:])
}

// In reports whether message n of a prompt tells this reply, and stands alone for it. made
// reports whether the prompt's maker has made the message of the recorded reply itself, as a
// dialect does that renders a run as it went; else the texts must be the same, but for white
// space.
func (s *Said) In(prompt []messages.Message, n int, made bool) bool {
	if s.more || n+1 >= len(prompt) || prompt[n].Role != messages.RoleAssistant || prompt[n+1].Role == messages.RoleAssistant {
		return false
	}
	m := &prompt[n]
	if s.called != (m.Native != "") || s.called && !answered(prompt[n:n+2]) {
		return false
	}
	if made {
		return true
	}
	var sum Said
	sum.Add([]byte(m.Text), -1)
	if s.sum == nil {
		s.sum = sha256.New()
	}
	return string(sum.sum.Sum(nil)) == string(s.sum.Sum(nil))
}

// answered reports whether every call of a message has its id, and its result in the message
// behind it: a provider that has calls accepts nothing else.
func answered(pair []messages.Message) bool {
	own := native.Pair(pair)
	if own[0] == nil {
		return false
	}
	for i := range own[0].Calls {
		if own[0].Calls[i].ID == "" {
			return false
		}
	}
	return true
}
