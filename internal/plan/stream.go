package plan

import (
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Streamed results (docs/spec/extensions.md §5). ${a.partial} is the text so far of an action
// with stream. It is no dependency: parameters have what there was when the action was handed
// out, and a response goes on as the text grows.

// partialPath is the path of a reference to the text so far.
const partialPath = "partial"

// StreamedText returns the text that the chunks of a result have together: a string itself,
// the items of an array one a line, nothing for null, and other values as they are.
func StreamedText(value string) string {
	v := strings.TrimSpace(value)
	switch {
	case v == "" || v == "null":
		return ""
	case v[0] == '"':
		return unquote(v)
	case v[0] != '[':
		return v
	}
	var b strings.Builder
	d := jsontext.NewDecoder(strings.NewReader(v))
	if _, err := d.ReadToken(); err != nil {
		return v
	}
	for d.PeekKind() != ']' {
		item, err := d.ReadValue()
		if err != nil {
			return v
		}
		b.Write(item)
		b.WriteByte('\n')
	}
	return b.String()
}

// Chunk adds to the text so far of a running action. The error is *IllegalError for another one.
func (p *Plan) Chunk(r Ref, text []byte) error {
	n := p.find(r)
	if n == none || p.nodes[n].state.Terminal() {
		return &IllegalError{Ref: r, Input: "Chunk", Why: "no such action runs"}
	}
	p.nodes[n].partial = append(p.nodes[n].partial, text...)
	return nil
}

// Again drops the text so far of an action, whose next attempt begins.
func (p *Plan) Again(r Ref) {
	if n := p.find(r); n != none {
		p.nodes[n].partial = nil
	}
}

// Follows returns the action at whose text so far the response is open; ok is false if it is
// open at none.
func (t *Text) Follows() (r Ref, ok bool) {
	if !t.flow.on {
		return Ref{}, false
	}
	return t.p.nodes[t.flow.node].ref(), true
}

// Flowed returns where in the response the first text of an action that grows began since the
// last call; ok is false if none did.
func (t *Text) Flowed() (from int, ok bool) {
	ok, t.news = t.news, false
	return t.first, ok
}

// Rewind takes back what the response has of the action at which it is open, and returns how
// many of its bytes stay.
func (t *Text) Rewind() (stay int) {
	t.grown -= t.flow.given
	t.shown = t.flow.from
	t.flow.given = 0
	return t.shown
}

// flow is the place of a response in the text of an action that grows.
type flow struct {
	on    bool
	node  int32 // the action
	given int   // bytes of its text that the response has
	from  int   // bytes of the response before them
}

// partial returns the text so far of the action that a reference means; ok is false for a
// reference to something else.
func (p *Plan) partial(r reference, viewer int32) (n int32, text []byte, ok bool) {
	if r.path != partialPath {
		return none, nil, false
	}
	n = p.named(r.name, viewer)
	if n == none || !p.nodes[n].Stream {
		return none, nil, false
	}
	x := &p.nodes[n]
	if x.state == OK {
		return n, []byte(StreamedText(x.value)), true
	}
	return n, x.partial, true
}

// follow appends what the text of action n has grown by. held reports that the response stays
// open for more of it.
func (t *Text) follow(dst []byte, n int32, text []byte, r reference, before int) (_ []byte, held bool) {
	p := t.p
	x := &p.nodes[n]
	if !t.flow.on {
		t.flow = flow{on: true, node: n, from: t.shown + before}
		if !t.news {
			t.news, t.first = true, t.flow.from
		}
		t.own = t.own || x.gen == p.gen
	}
	ended := x.state.Terminal() || p.stuck(n, int32(len(p.nodes))) || p.awaits(n, t.viewer)
	more := text[min(t.flow.given, len(text)):]
	// The cut must not depend on the pieces that the text came in.
	if room := max(0, p.o.GrowthBytes-t.grown); t.full || len(more) > room {
		for room > 0 && !utf8.RuneStart(more[room]) {
			room--
		}
		if t.full {
			room = 0
		}
		more, t.full, ended = more[:room], true, true
	}
	dst = append(dst, more...)
	t.flow.given += len(more)
	t.grown += len(more)
	if !ended {
		t.wait = Wait{Action: x.ref()}
		return dst, true
	}
	t.flow = flow{}
	if x.state != OK || t.full {
		dst = append(append(append(dst, "[unavailable: "...), r.full()...), ']')
	}
	return dst, false
}
