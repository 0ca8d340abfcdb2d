package cortex

import (
	"bytes"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/scan"
)

// The known tags (docs/spec/streaming.md §1), as indices of the grammar's names.
const (
	tagThought = iota
	tagAction
	tagResponse
	tagFeed
	tagResult
	tagIf
	tagForeach
	tagParallel
	tagRollback
	tagTemplate
	tagThink // and those after it: thoughts under other names (parse.HabitThink)
)

// Branches of an if are tags while that extension is on.
const (
	tagElif = 20
	tagElse = 21
)

var names = []string{
	tagThought:  "thought",
	tagAction:   "action",
	tagResponse: "response",
	tagFeed:     "context_feed",
	tagResult:   "action_result",
	tagIf:       "if",
	tagForeach:  "foreach",
	tagParallel: "parallel",
	tagRollback: "rollback",
	tagTemplate: "action_template",
	tagThink:    "think",
	"thinking", "thoughts", "reasoning", "Think", "Thinking", "Thought", "THINK", "THINKING", "THOUGHT",
	tagElif: "elif",
	tagElse: "else",
}

// known are the names as scan.Tag needs them.
var known = scan.NewGrammar(names[:tagElif]...)

// Sets of tags.
const (
	setAll      uint32 = 1<<(tagTemplate+1) - 1
	setThought  uint32 = 1 << tagThought
	setResponse uint32 = 1 << tagResponse
	setFeed     uint32 = 1 << tagFeed
	setThink    uint32 = 1<<20 - 1<<tagThink

	// setSkipped are the elements that are discarded whole: the host's own, and those of
	// extensions that are off.
	setSkipped uint32 = 1<<tagResult | 1<<tagIf | 1<<tagForeach | 1<<tagParallel | 1<<tagRollback | 1<<tagTemplate
)

// meaningful returns the openers and closers that mean something in the current state at the
// "<" at seg[i]; all others are text (docs/spec/streaming.md §2).
func (d *decoder) meaningful(seg []byte, i int, blank bool) (open, close uint32) {
	switch d.state {
	case inThought:
		open, close = setThought|1<<tagAction|setSkipped, setThought
		if lineStart(seg[:i], blank) {
			open |= setResponse
		}
		if d.ext != nil {
			open |= d.ext.branches
			close |= d.ext.closers()
		}
		return open, close
	case inResponse:
		return 0, setResponse
	case inFeed:
		return 0, setFeed
	case inSkip:
		return d.skip.opens, 1 << d.skip.tag
	case inThink:
		if lineStart(seg[:i], blank) {
			open = setResponse
		}
		return open, setThink | setThought
	}
	open, close = setAll, setAll
	if d.ext != nil {
		open |= d.ext.branches
		close |= d.ext.branches
	}
	if d.second && d.state == inTop && !d.top.tagged && d.forgives(parse.HabitBare) {
		close &^= setResponse // its opener is in another case or missing: see bare
	}
	if d.state == inTop && d.thinks() {
		if lineStart(seg[:i], blank) {
			open |= setThink
		}
		if d.endsThought() {
			close |= setThink
		}
	}
	return open, close
}

// lineStart reports whether only spaces and tabs follow the last LF of the input up to the end
// of p. blank says the same of the input before p.
func lineStart(p []byte, blank bool) bool {
	for i := len(p) - 1; i >= 0; i-- {
		switch p[i] {
		case '\n':
			return true
		case ' ', '\t':
		default:
			return false
		}
	}
	return blank
}

// first are the bytes a known name begins with; firstWithBranches has those of branches too.
var first, firstWithBranches = firstOf(names[:tagElif]), firstOf(names)

func firstOf(names []string) *[256]bool {
	t := new([256]bool)
	for _, name := range names {
		t[name[0]] = true
	}
	return t
}

// candidate finds the next "<" that may begin a tag; −1 is none. Responses and
// feeds look for a closer alone.
func (d *decoder) candidate(p []byte) int {
	opens := d.state != inResponse && d.state != inFeed // an opener in inThink may begin the answer
	for n := 0; ; n++ {
		k := bytes.IndexByte(p[n:], '<')
		if k < 0 {
			return -1
		}
		n += k
		if n+1 == len(p) || p[n+1] == '/' || opens && d.first[p[n+1]] {
			return n
		}
	}
}

// reports reports whether a malformed tag is an error and not just text.
func (d *decoder) reports() bool { return d.state == inTop || d.state == inThought }

// follow reads the tag that may begin at seg[i], to the byte that decides or to the end of seg.
// end is the index after the tag, or of the first byte that cannot belong to it.
func (d *decoder) follow(seg []byte, i int, blank bool) (r scan.Result, end int) {
	open, close := d.meaningful(seg, i, blank)
	d.tag.Begin(&d.grammar, open, close)
	n, r := d.tag.Take(seg[i+1:])
	end = i + 1 + n
	if r == scan.More && end < len(seg) && !d.forgotten() {
		n, r = d.tag.Take(seg[end:])
		end += n
	}
	return r, end
}

// settle acts on the result of follow and returns the index to go on from: after the tag, or at
// its beginning if it must be read again in another state.
func (d *decoder) settle(r scan.Result, seg []byte, i, end int, off int64, blank bool) int {
	at := off + int64(i)
	switch {
	case d.forgotten():
		d.forgot()
		return i
	case r == scan.Done:
		if !d.complete(seg[i:end], at) {
			return i
		}
	case r == scan.More:
		d.held = append(d.held[:0], seg[i:]...)
		d.heldAt, d.heldBlank = at, lineStart(seg[:i], blank)
		d.inTag = true
	default:
		d.refused(r, seg[i:end], at)
	}
	return end
}

// resume goes on with the tag that an earlier push has begun, and returns how many bytes of seg
// it has read.
func (d *decoder) resume(seg []byte) int {
	n, r := d.tag.Take(seg)
	d.held = append(d.held, seg[:n]...)
	switch {
	case r > scan.Done:
		d.inTag = false
		d.refused(r, d.held, d.heldAt)
	case r == scan.Done:
		d.inTag = false
		if !d.complete(d.held, d.heldAt) {
			d.again()
		}
	case d.forgotten():
		d.forgot()
		d.again()
	}
	return n
}

// again reads held once more, in the state outside the block that has just ended. It is the
// beginning of one tag, or a closer: if it must be held again, it stays in place.
func (d *decoder) again() {
	d.inTag = false
	d.segment(d.held, d.heldAt, d.heldBlank)
}

// refused makes text of bytes that turned out not to be a tag.
func (d *decoder) refused(r scan.Result, p []byte, at int64) {
	if r == scan.Bad && d.reports() {
		d.endUnit(at, true)
		d.top.tagged = true
		f := d.told(BadTag, at)
		f.Tag = names[d.tag.Name()]
		if d.tag.Over() {
			f.Limit = messages.LimitTag
		}
		d.fault(f)
		if d.ext != nil && d.badControl(at) {
			return
		}
	}
	if r == scan.Bad {
		d.badInSkip()
	}
	d.text(p, at)
}

// complete acts on a whole tag p. It returns false if the tag has only ended the block that it
// stands in and must be read again.
func (d *decoder) complete(p []byte, at int64) bool {
	name, closing := d.tag.Name(), d.tag.Closing()
	switch d.state {
	case inAction:
		if !closing || name != d.bodyTag {
			d.forgot()
			return false
		}
		d.endAction(at + int64(len(p))) // a closer is ASCII alone
	case inResponse:
		d.endResponse(at, d.response.final, true)
	case inFeed:
		d.endFeed()
	case inSkip:
		if name != d.skip.tag {
			d.beginQuiet()
			break
		}
		d.nested(closing)
	case inThink:
		d.inReasoning(p, at)
	default:
		if d.state == inTop && closing && isThink(name) {
			d.reasoned(at)
			return true
		}
		d.endUnit(at, true)
		if closing {
			d.closer(name, at)
		} else {
			d.opener(name, p, at)
		}
	}
	return true
}

// closer acts on a closer between blocks or in a thought.
func (d *decoder) closer(name int, at int64) {
	if d.ext != nil {
		d.closeLevel(name, at)
		return
	}
	if d.state == inTop {
		f := fault(StrayClose, at)
		f.Tag = names[name]
		d.fault(f)
		return
	}
	if d.depth--; d.depth == 0 {
		d.state = inTop
	}
}

// opener acts on an opener between blocks or in a thought. The errors come in the
// order of docs/spec/streaming.md §1: a thought left open, repeated keys, the tag's own.
func (d *decoder) opener(name int, p []byte, at int64) {
	switch {
	case name == tagResponse && d.state == inThought && d.ext != nil:
		d.closeThoughts()
	case name == tagResponse && d.state == inThought:
		d.fault(fault(UnclosedThought, d.thoughtAt))
		d.depth, d.state = 0, inTop
	}
	if name == tagResponse && d.response.ended && !d.inBlock() {
		d.stop(at, false)
		d.afterFinal = true
		d.fault(fault(AfterFinal, at))
		return
	}
	d.top.tagged = d.top.tagged || name != tagThought && !isThink(name)
	d.repeated(p, at)
	if d.ext != nil && d.extended(name, p, at) {
		return
	}
	switch name {
	case tagThought:
		d.beginThought(p, at)
	case tagAction:
		d.beginAction(p, at)
	case tagResponse:
		d.beginResponse(p, at)
	case tagFeed:
		d.beginFeed(p, at)
	default:
		if isThink(name) {
			d.beginReasoning(at)
			return
		}
		d.beginSkip(name, at)
	}
}

// isThink reports whether a tag is a thought under another name.
func isThink(name int) bool { return name >= tagThink && name < tagElif }

// repeated reports keys that a tag repeats, each once. It compares all pairs, because tags
// have few attributes.
func (d *decoder) repeated(p []byte, at int64) {
	for i := range d.tag.Attrs() {
		a, earlier := d.tag.Attr(i), 0
		for j := range i {
			if b := d.tag.Attr(j); bytes.Equal(p[a.Key:a.KeyEnd], p[b.Key:b.KeyEnd]) {
				earlier++
			}
		}
		if earlier == 1 {
			f := fault(DuplicateAttribute, at)
			f.Name = string(p[a.Key:a.KeyEnd])
			d.fault(f)
		}
	}
}

// attr returns the first value of a key; nil if the tag does not have it.
func (d *decoder) attr(p []byte, key string) []byte {
	for i := range d.tag.Attrs() {
		if a := d.tag.Attr(i); string(p[a.Key:a.KeyEnd]) == key {
			return p[a.Value:a.ValueEnd]
		}
	}
	return nil
}

func (d *decoder) fault(f messages.ParseError) {
	d.emit(messages.Event{Kind: messages.EventParseError, Offset: f.Offset, Fault: &f})
}
