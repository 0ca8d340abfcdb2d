package plan

import "bytes"

// Text resolves the references in one response while it grows (docs/spec/streaming.md §6).
// It holds back an unfinished reference, at most MaxReferenceBytes, and everything
// behind a reference to something that has not ended: whoever feeds it counts what
// Held says among what waits behind a gate. It is used by the goroutine of its plan.
type Text struct {
	p     *Plan
	held  []byte
	grown int  // bytes that substitution added so far
	full  bool // more than that was asked for: no value follows
	steps int  // what is left of MaxPathBytes
	whole bool // no more bytes follow
	own   bool // it refers to an action of its own generation
	wait  Wait
}

// Wait is what a response waits for: the end of an action, or a feed that the
// caller has to fetch.
type Wait struct {
	Action Ref
	Feed   string
}

// Text begins a response at the place the document has reached.
func (p *Plan) Text() *Text { return &Text{p: p, steps: MaxPathBytes} }

// Push takes the next bytes and appends to dst what can be shown now. With a nil
// dst the result may alias text.
func (t *Text) Push(dst, text []byte) []byte {
	if len(t.held) > 0 {
		t.held = append(t.held, text...)
		return t.advance(dst)
	}
	if bytes.IndexByte(text, '$') < 0 {
		if dst == nil {
			return text
		}
		return append(dst, text...)
	}
	dst, n := t.run(dst, text)
	t.held = append(t.held[:0], text[n:]...)
	return dst
}

// End says that no more bytes follow. What is still held follows by Resume.
func (t *Text) End(dst []byte) []byte {
	t.whole = true
	return t.advance(dst)
}

// Resume looks again at what the response waits for: after an action of the plan
// ended, or the feed has a value or never will.
func (t *Text) Resume(dst []byte) []byte {
	t.wait = Wait{}
	return t.advance(dst)
}

// Waits tells what the response waits for, if it does.
func (t *Text) Waits() (Wait, bool) { return t.wait, t.wait != Wait{} }

// Quotes tells that a reference so far was to an action of the generation that the
// response is of.
func (t *Text) Quotes() bool { return t.own }

// Held counts the bytes held back.
func (t *Text) Held() int { return len(t.held) }

// Done tells that everything was given out.
func (t *Text) Done() bool { return t.whole && len(t.held) == 0 }

func (t *Text) advance(dst []byte) []byte {
	if t.wait != (Wait{}) || len(t.held) == 0 {
		return dst
	}
	dst, n := t.run(dst, t.held)
	t.held = append(t.held[:0], t.held[n:]...)
	if len(t.held) == 0 && cap(t.held) > 2*MaxReferenceBytes {
		t.held = nil // what piled up behind a wait
	}
	return dst
}

// run gives out text up to where it has to hold back, and says how far it came.
func (t *Text) run(dst, text []byte) ([]byte, int) {
	at := 0
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
			if dst, held = t.replace(dst, head[:r.n], r); held {
				return dst, at
			}
		}
		at += r.n
	}
	return dst, at
}

// replace appends what stands for a reference, or tells that it has to be waited
// for.
func (t *Text) replace(dst, written []byte, r reference) (_ []byte, held bool) {
	p := t.p
	p.pending, p.above, p.budget = p.pending[:0], 0, t.steps
	here := int32(len(p.nodes))
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
			case !p.nodes[w.node].state.Terminal() && !p.stuck(w.node, here):
				t.wait = Wait{Action: p.nodes[w.node].ref()}
				return dst, true
			}
		}
		// What it waits for can only come after this response.
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
