// Package reasoning finds thoughts that begin in the prompt: the template of a reasoning model may
// end it with the opening tag, so that the reply begins in the thought and has the closing tag
// alone (docs/spec/design.md §2).
//
// Invariants:
//   - cuts do not matter: the same bytes give the same thought, however they were pushed;
//   - text passes at once; only a possible tag waits.
//
// It does not know what a dialect makes of a thought.
package reasoning

import (
	"bytes"
	"strings"
)

// Finder finds the end of a thought that a reply begins in. A closing tag counts if it begins the
// reply, is alone on its line, or follows a character other than a blank, a quote or a backtick;
// if no opening tag stands before it; and in no code fence. Elsewhere the text speaks of the tag.
// The zero value is ready to use. It is not safe for concurrent use.
type Finder struct {
	over   bool // the first tag was found
	held   []byte
	heldAt int64
	whole  bool // held is a closing tag that counts if its line ends

	// The place behind the text so far, without held.
	said   bool // there is more than white space
	inLine bool // the line has more than blanks
	ticks  int  // backticks that the line began with, so far
	fenced bool
	last   byte
}

// The tags of thoughts, in any case.
var (
	thoughtOpeners = [...]string{"<think>", "<thinking>", "<thought>", "<reasoning>"}
	thoughtClosers = [...]string{"</think>", "</thinking>", "</thought>", "</reasoning>"}
)

// fenceTicks is how many backticks at the beginning of a line are a code fence.
const fenceTicks = 3

// Over reports whether all that follows is text.
func (r *Finder) Over() bool { return r.over }

// Push takes whole characters, which begin at an offset of the reply, and gives them to text.
// Only a possible tag waits. Before it gives what follows the closing tag, it calls shut with the
// offset of the tag: what text got before was the thought.
func (r *Finder) Push(p []byte, at int64, text func(p []byte, at int64), shut func(at int64)) {
	for len(p) > 0 && !r.over {
		if r.whole {
			if p[0] == '\n' || p[0] == '\r' {
				r.close(shut)
			} else {
				r.give(text)
			}
			continue
		}
		if len(r.held) == 0 {
			k := bytes.IndexByte(p, '<')
			if k < 0 {
				k = len(p)
			}
			if k > 0 {
				r.pass(p[:k])
				text(p[:k], at)
				p, at = p[k:], at+int64(k)
				continue
			}
			r.heldAt = at
		}
		r.held = append(r.held, p[0])
		opener, begins := thoughtTag(r.held, thoughtOpeners[:])
		closer, ends := thoughtTag(r.held, thoughtClosers[:])
		switch {
		case closer && !r.said:
			r.close(shut)
		case closer && r.alone():
			r.whole = true
		case closer && !r.fenced && strings.IndexByte(" \t`\"'", r.last) < 0:
			r.close(shut)
		case opener, closer:
			r.over = opener
			r.give(text)
		case !begins && !ends: // the byte may begin another tag
			r.held = r.held[:len(r.held)-1]
			r.give(text)
			continue
		}
		p, at = p[1:], at+1
	}
	if len(p) > 0 {
		text(p, at)
	}
}

// End decides about what waits at the end of the reply.
func (r *Finder) End(text func(p []byte, at int64), shut func(at int64)) {
	if r.whole {
		r.close(shut)
	}
	r.give(text)
}

// close ends the thought in front of what is held.
func (r *Finder) close(shut func(at int64)) {
	r.over, r.whole, r.held = true, false, nil
	shut(r.heldAt)
}

// give passes on what is held: it is no tag that counts.
func (r *Finder) give(text func(p []byte, at int64)) {
	if held := r.held; len(held) > 0 {
		r.whole, r.held = false, nil
		r.pass(held)
		text(held, r.heldAt)
	}
}

// thoughtTag reports whether p is one of the tags, and whether it is the beginning of one.
func thoughtTag(p []byte, tags []string) (whole, begun bool) {
	for _, tag := range tags {
		if len(p) <= len(tag) && strings.EqualFold(string(p), tag[:len(p)]) {
			return len(p) == len(tag), true
		}
	}
	return false, false
}

// alone reports whether a tag may have its line for itself: nothing but blanks is in front of it.
func (r *Finder) alone() bool { return !r.fenced && !r.inLine && r.ticks == 0 }

// pass moves over text.
func (r *Finder) pass(p []byte) {
	for i := 0; i < len(p); i++ {
		switch c := p[i]; {
		case c == '\n':
			r.inLine, r.ticks = false, 0
		case r.inLine:
			if k := bytes.IndexByte(p[i:], '\n'); k >= 0 {
				i += k - 1
			} else {
				i = len(p)
			}
		case c == '`':
			r.said = true
			if r.ticks++; r.ticks == fenceTicks {
				r.fenced, r.inLine = !r.fenced, true
			}
		case r.ticks > 0 || c != ' ' && c != '\t' && c != '\r':
			r.said, r.inLine = true, true
		}
	}
	r.last = p[len(p)-1]
}
