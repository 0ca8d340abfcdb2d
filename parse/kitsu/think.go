package kitsu

import "bytes"

// thoughtTags are what models put around their reasoning in front of a reply.
var thoughtTags = [...]string{"think", "thinking", "thought", "reasoning"}

// maxLead is how much white space in front of a reply is held back, because a thought may
// follow. It is more than models write.
const maxLead = 256

// thinker parts the thoughts at the beginning of a reply from the rest: elements of one of
// thoughtTags, with white space around them, which goes with them. A tag anywhere else is
// text, for an answer may speak of tags. It gets whole characters, in pieces of any size.
type thinker struct {
	state   thinkState
	held    []byte // white space and the beginning of a tag; inside, that of the closer
	heldAt  int64
	closer  string // such as "</think>"
	any     bool   // there was a thought
	thought func(text []byte, at int64)
	shut    func(at int64)    // the thought's end
	skip    func(text []byte) // what goes with thoughts: tags, and white space around them
	rest    func(text []byte, at int64)
}

type thinkState uint8

const (
	thinkLead   thinkState = iota // white space so far, and maybe the beginning of a tag
	thinkInside                   // in a thought
	thinkRest                     // no thought can come any more
)

func (t *thinker) push(p []byte, at int64) {
	for len(p) > 0 {
		n := 1
		switch t.state {
		case thinkRest:
			t.rest(p, at)
			return
		case thinkInside:
			n = t.inside(p, at)
		case thinkLead:
			t.lead(p[0], at)
		}
		p, at = p[n:], at+int64(n)
	}
}

// lead takes a byte in front of the reply.
func (t *thinker) lead(c byte, at int64) {
	if len(t.held) == 0 {
		t.heldAt = at
	}
	t.held = append(t.held, c)
	tag := bytes.TrimLeft(t.held, " \t\r\n")
	if len(tag) == 0 {
		if len(t.held) > maxLead {
			t.give()
		}
		return
	}
	fits := false
	for _, word := range thoughtTags {
		opener := "<" + word + ">"
		if len(tag) > len(opener) || !bytes.EqualFold(tag, []byte(opener[:len(tag)])) {
			continue
		}
		if fits = true; len(tag) == len(opener) {
			t.skip(t.held)
			t.state, t.closer, t.any, t.held = thinkInside, "</"+word+">", true, t.held[:0]
			t.thought(nil, at)
			return
		}
	}
	if !fits {
		t.give()
	}
}

// give hands on what was held as the beginning of the rest.
func (t *thinker) give() {
	held := t.held
	t.state, t.held = thinkRest, nil
	if t.any {
		text := bytes.TrimLeft(held, " \t\r\n")
		t.skip(held[:len(held)-len(text)])
		held = text
	}
	if len(held) > 0 {
		t.rest(held, t.heldAt)
	}
}

// inside takes bytes of a thought, and gives how many.
func (t *thinker) inside(p []byte, at int64) int {
	if len(t.held) == 0 {
		if n := bytes.IndexByte(p, '<'); n != 0 {
			if n < 0 {
				n = len(p)
			}
			t.thought(p[:n], at)
			return n
		}
	}
	if c, want := p[0], t.closer[len(t.held)]; c == want || sameLetter(c, want) {
		if t.held = append(t.held, c); len(t.held) == len(t.closer) {
			t.state, t.held = thinkLead, t.held[:0]
			t.shut(at + 1)
		}
		return 1
	}
	// What looked like the closer is of the thought; no "<" is in it but the first.
	t.spill(at)
	return 0
}

// spill makes what is held of a closer part of the thought that goes on at a place.
func (t *thinker) spill(at int64) {
	if n := len(t.held); n > 0 {
		t.thought(t.held, at-int64(n))
		t.held = t.held[:0]
	}
}

// end is the end of the reply. A thought that is open stays one.
func (t *thinker) end(at int64) {
	switch t.state {
	case thinkLead:
		t.give()
	case thinkInside:
		t.spill(at)
		t.shut(at)
	}
	t.state = thinkRest
}
