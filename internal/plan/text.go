package plan

import "bytes"

// Text resolves the references in one response while it grows (docs/spec/streaming.md §6). It
// holds back an unfinished reference, at most MaxReferenceBytes, and everything after a
// reference to an action that has not ended. The caller must bound that: it counts the bytes
// of Held among those that wait at a gate. It is used by the goroutine of its plan.
type Text struct {
	p     *Plan
	held  []byte
	grown int  // bytes that substitution added so far
	full  bool // GrowthBytes is used up: no further value is inserted
	steps int  // what is left of MaxPathBytes
	whole bool // no more bytes follow
	own   bool // it refers to an action of its own generation
	// viewer is the place in the document that it sees the plan from, of a response in a
	// block; none for the place that the document has reached.
	viewer int32
	wait   Wait
	shown  int // bytes given
	flow   flow
	news   bool // a flow began since Flowed was asked
	first  int  // where
}

// Wait is what a response waits for: the end of an action, or a feed that the caller must
// fetch.
type Wait struct {
	Action Ref
	Feed   string
}

// Text begins a response at the place that the document has reached.
func (p *Plan) Text() *Text { return &Text{p: p, steps: MaxPathBytes, viewer: none} }

// Push takes the next bytes and appends to dst those that can be shown now. With a nil dst the
// result may alias text.
func (t *Text) Push(dst, text []byte) []byte {
	if len(t.held) > 0 {
		t.held = append(t.held, text...)
		return t.advance(dst)
	}
	if bytes.IndexByte(text, '$') < 0 {
		t.shown += len(text)
		if dst == nil {
			return text
		}
		return append(dst, text...)
	}
	before := len(dst)
	dst, n := t.run(dst, text)
	t.shown += len(dst) - before
	t.held = append(t.held[:0], text[n:]...)
	return dst
}

// End says that no more bytes follow, and appends to dst those that can be shown now. The bytes
// that are still held follow by Resume.
func (t *Text) End(dst []byte) []byte {
	t.whole = true
	return t.advance(dst)
}

// Resume tries again to go on: after an action of the plan has ended, or a feed has come or
// failed. It appends to dst the bytes that can be shown now.
func (t *Text) Resume(dst []byte) []byte {
	t.wait = Wait{}
	return t.advance(dst)
}

// Waits returns what the response waits for; ok is false if it does not wait.
func (t *Text) Waits() (w Wait, ok bool) { return t.wait, t.wait != Wait{} }

// Quotes reports whether the response so far refers to an action of its own generation.
func (t *Text) Quotes() bool { return t.own }

// Held returns the number of bytes held back.
func (t *Text) Held() int { return len(t.held) }

// Done reports whether the response has ended and no byte is held back.
func (t *Text) Done() bool { return t.whole && len(t.held) == 0 }

func (t *Text) advance(dst []byte) []byte {
	if t.wait != (Wait{}) || len(t.held) == 0 {
		return dst
	}
	before := len(dst)
	dst, n := t.run(dst, t.held)
	t.shown += len(dst) - before
	t.held = append(t.held[:0], t.held[n:]...)
	if len(t.held) == 0 && cap(t.held) > 2*MaxReferenceBytes {
		t.held = nil // drop the buffer of a long wait
	}
	return dst
}

// run appends text to dst up to the first byte that must be held back, and returns how many
// bytes it took.
func (t *Text) run(dst, text []byte) ([]byte, int) {
	at, start := 0, len(dst)
	for at < len(text) {
		i := bytes.IndexByte(text[at:], '$')
		if i < 0 {
			return append(dst, text[at:]...), len(text)
		}
		dst = append(dst, text[at:at+i]...)
		at += i
		head := text[at:min(len(text), at+MaxReferenceBytes+1)]
		r := refAt(head, t.whole && len(head) == len(text)-at)
		switch r.kind {
		case refMore:
			return dst, at
		case refText:
			dst = append(dst, '$')
		case refDollar:
			dst = append(dst, '$')
		case refName:
			var held bool
			here := int32(len(t.p.nodes))
			if t.viewer != none {
				here = t.viewer
			}
			if n, grown, ok := t.p.partial(r, here); ok {
				dst, held = t.follow(dst, n, grown, r, len(dst)-start)
			} else {
				dst, held = t.replace(dst, head[:r.n], r)
			}
			if held {
				return dst, at
			}
		}
		at += r.n
	}
	return dst, at
}

// replace appends the value of a reference. held reports that the response has to wait for it
// instead; t.wait says for what.
func (t *Text) replace(dst, written []byte, r reference) (_ []byte, held bool) {
	p := t.p
	p.pending, p.above, p.budget = p.pending[:0], 0, t.steps
	here := int32(len(p.nodes))
	if t.viewer != none {
		here = t.viewer
	}
	p.lost = false
	v := p.lookup(r, here)
	t.steps = p.budget
	if v.kind == foundNothing && p.lost {
		v.kind = foundBroken
	}
	if v.kind == foundLater {
		for _, w := range p.pending {
			switch {
			case w.node == none:
				t.wait = Wait{Feed: w.feed}
				return dst, true
			case !p.nodes[w.node].state.Terminal() && !p.stuck(w.node, int32(len(p.nodes))) && !p.awaits(w.node, t.viewer):
				t.wait = Wait{Action: p.nodes[w.node].ref()}
				return dst, true
			}
		}
		// The value can only come after this response.
		v.kind = foundBroken
	}
	for _, w := range p.pending {
		t.own = t.own || v.kind != foundNothing && w.node != none && p.nodes[w.node].gen == p.gen
	}
	switch v.kind {
	case foundNothing:
		return append(dst, written...), false
	case foundValue:
		if !t.full {
			before := len(dst)
			dst = appendEmbedded(dst, v.value)
			if grown := t.grown + len(dst) - before - r.n; grown <= p.o.GrowthBytes {
				t.grown = grown
				return dst, false
			}
			dst, t.full = dst[:before], true
		}
	}
	dst = append(dst, "[unavailable: "...)
	dst = append(dst, r.full()...)
	return append(dst, ']'), false
}
