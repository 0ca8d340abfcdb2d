package cortex

import (
	"bytes"
	"strconv"
	"time"

	"github.com/seed14be6753/stile/internal/expr"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/scan"
)

// Bounds and defaults of the attributes of blocks (docs/spec/extensions.md §0).
const (
	MaxIterations  = 1000
	MaxSideBySide  = 64
	iterations     = 50
	sideBySide     = 5
	maxCountDigits = 9
	maxGroupTime   = 3600 * time.Second

	failAll  = "all"
	failFast = "fast"
)

// extended acts on an opener that an extension has a say in, and reports whether it did.
func (d *decoder) extended(name int, p []byte, at int64) bool {
	if within, bad := d.misplaced(name); bad {
		d.misplace(name, within, at)
		return true
	}
	if !d.onTag(name) {
		if controls[name] != 0 {
			d.ext.broken() // it is refused as unsupported
		}
		return false
	}
	switch name {
	case tagElif, tagElse:
		d.beginBranch(name, p, at)
	case tagRollback:
		d.beginRollback(p, at)
	case tagTemplate:
		d.beginTemplate(p, at)
	default:
		d.beginBlock(name, p, at)
	}
	return true
}

// misplaced reports whether an opener may not stand here, and what it stands in that forbids
// it.
func (d *decoder) misplaced(name int) (within string, bad bool) {
	x := d.ext
	if !d.onTag(name) && name != tagAction && name != tagResponse {
		return "", false
	}
	top, kind := x.top()
	switch name {
	case tagElif, tagElse:
		return kind, top == nil || top.kind != tagIf || top.branch == tagElse
	case tagTemplate:
		return kind, len(x.nest) > 0
	case tagResponse:
		for i := len(x.nest) - 1; i >= 0; i-- {
			if b := x.nest[i].block; b != nil && b.kind != tagIf {
				return names[b.kind], true
			}
		}
	}
	if b := x.innermost(); b != nil && b.gap {
		return names[b.kind], true
	}
	if name == tagRollback {
		for i := len(x.nest) - 1; i >= 0; i-- {
			if b := x.nest[i].block; b == nil {
				return names[tagThought], true
			} else if b.kind != tagIf {
				return names[b.kind], true
			}
		}
	}
	return "", false
}

// misplace reports an element that may not stand here, and discards it: of a branch in a
// block the tag alone.
func (d *decoder) misplace(name int, within string, at int64) {
	f := fault(Misplaced, at)
	f.Tag, f.Within = names[name], within
	f.Detail = Misplaced + ": " + whereMisplaced(name)
	d.fault(f)
	d.ext.broken()
	branch := name == tagElif || name == tagElse
	if top, _ := d.ext.top(); branch && top != nil {
		return
	}
	d.drop(name, at)
}

// whereMisplaced says where an element may stand.
func whereMisplaced(name int) string {
	switch name {
	case tagElif, tagElse:
		return "it stands directly in an if, elif in front of else: nothing of the block runs"
	case tagResponse:
		return "a response stands in no foreach and no parallel, and not between two branches: write it behind the block"
	case tagRollback:
		return "rollback stands at top level or in a branch of an if"
	case tagTemplate:
		return "action_template stands at top level, outside of blocks and thoughts"
	}
	return "behind the end of a branch only elif, else or </if> may follow"
}

// drop discards the element whose opener was read, unless that closes itself.
func (d *decoder) drop(name int, at int64) {
	if !d.tag.SelfClosing() || name == tagElse {
		d.dropFrom(name, at)
	}
}

// dropFrom discards an element. In blocks the bodies of actions are read as such, so that a
// closer in a string is data; a response ends at its first closer.
func (d *decoder) dropFrom(name int, at int64) {
	d.discard(name, at)
	switch name {
	case tagIf, tagElif, tagElse, tagForeach, tagParallel:
		d.skip.opens |= 1 << tagAction
	case tagResponse:
		d.skip.opens = 0
	}
}

// badControl acts on a tag of a control element that is broken, and reports whether it is
// discarded with its element: what stands under a condition never runs without it.
func (d *decoder) badControl(at int64) bool {
	name := d.tag.Name()
	if controls[name] == 0 {
		return false
	}
	d.ext.broken()
	if d.tag.Closing() || name == tagElif || name == tagElse || !d.onTag(name) {
		return false
	}
	d.dropFrom(name, at)
	return true
}

// badInSkip counts an opener that is broken in a discarded block of its name: a closer that
// belongs to it must not end what is discarded.
func (d *decoder) badInSkip() {
	if d.state == inSkip && d.skip.opens&(1<<tagAction) != 0 && !d.tag.Closing() && d.tag.Name() == d.skip.tag {
		d.skip.depth++
	}
}

// pair finds the first attribute with a key.
func (d *decoder) pair(p []byte, key string) (a scan.Pair, ok bool) {
	for i := range d.tag.Attrs() {
		if a = d.tag.Attr(i); string(p[a.Key:a.KeyEnd]) == key {
			return a, true
		}
	}
	return scan.Pair{}, false
}

// test reads the condition of an if or elif. It must stand in quotes.
func (d *decoder) test(p []byte) (text string, ok bool) {
	a, ok := d.pair(p, "test")
	if !ok || a.Value == 0 || p[a.Value-1] != '"' && p[a.Value-1] != '\'' {
		return "", false
	}
	return string(p[a.Value:a.ValueEnd]), true
}

// wantedOf says what the attributes of blocks must be.
var wantedOf = map[string]string{
	"test":       `the condition in quotes, such as test="$n > 3"`,
	"in":         `one reference, such as in="$list"`,
	"as":         "a name of letters, digits and _ that no id, output key or loop around has",
	"max":        "an integer of at least 1",
	"parallel":   "an integer of at least 1",
	"fail":       "all or fast",
	"timeout":    "a number of seconds above 0",
	"depends_on": "ids of actions, with commas between",
	"output_key": "a name of letters, digits and _, and not that of a loop around",
	"group":      "the group's id",
}

func badAttribute(id, field string, at int64) messages.ParseError {
	f := fault(BadField, at)
	f.ID, f.Field = id, field
	f.Detail = BadField + `: "` + field + `" must be ` + wantedOf[field]
	return f
}

func conditionFault(id string, wrong *expr.Error, at int64) messages.ParseError {
	f := fault(BadCondition, at)
	f.ID, f.At = id, wrong.At
	f.Detail = BadCondition + ": " + wrong.Error()
	return f
}

// beginBlock opens a block, or reports the first fault in the order of docs/spec/extensions.md §0.
func (d *decoder) beginBlock(name int, p []byte, at int64) {
	x := d.ext
	x.blocks++
	if x.open == maxBlocks {
		f := fault(TooDeep, at)
		f.Tag = names[name]
		f.Detail = TooDeep + ": blocks nest at most " + strconv.Itoa(maxBlocks) + " deep"
		d.rejectBlock(name, f)
		return
	}
	id := string(d.attr(p, "id"))
	if id == "" {
		id = "#b" + strconv.Itoa(x.blocks)
	} else if !isID([]byte(id)) {
		f := fault(BadID, at)
		f.ID = id
		d.taken(id)
		d.rejectBlock(name, f)
		return
	}
	e := &messages.Block{Kind: names[name], ID: id, Within: x.within(), InThought: d.depth > 0}
	if field := d.readBlock(name, p, e); field != "" {
		d.taken(id)
		d.rejectBlock(name, badAttribute(id, field, at))
		return
	}
	if name == tagIf {
		if _, wrong := expr.Parse(e.Test); wrong != nil {
			d.taken(id)
			d.rejectBlock(name, conditionFault(id, wrong, at))
			return
		}
	}
	if d.taken(id) || x.variable(id) {
		f := fault(DuplicateID, at)
		f.ID = id
		d.rejectBlock(name, f)
		return
	}
	x.key(e.OutputKey)
	d.emit(messages.Event{Kind: messages.EventBlock, Offset: at, Block: e})
	if x.open == 0 {
		x.gates = false
	}
	x.open++
	x.nest = append(x.nest, level{at: at, block: &openBlock{kind: name, id: id, as: e.As, ok: true, branch: tagIf}})
	if d.tag.SelfClosing() {
		d.endBlock(at)
	}
}

// rejectBlock reports a block that is not accepted, and discards it.
func (d *decoder) rejectBlock(name int, f messages.ParseError) {
	d.fault(f)
	d.ext.broken()
	d.drop(name, f.Offset)
}

// readBlock reads the attributes of a block in the order in which a bad one is reported, and
// gives the first of those.
func (d *decoder) readBlock(name int, p []byte, e *messages.Block) (bad string) {
	ok := true
	if name == tagIf {
		if e.Test, ok = d.test(p); !ok {
			return "test"
		}
	}
	e.Fail = failFast
	if name == tagForeach {
		if e.List = string(trim(d.attr(p, "in"))); !isReference(e.List) {
			return "in"
		}
		e.Max, e.Parallel, e.Fail = iterations, sideBySide, failAll
	}
	output, hasOutput := d.pair(p, "output_key")
	if hasOutput {
		e.OutputKey = string(p[output.Value:output.ValueEnd])
	}
	if name == tagForeach {
		if e.As, ok = d.variableOf(p, e); !ok {
			return "as"
		}
		if !d.countOf(p, "max", &e.Max, MaxIterations) {
			return "max"
		}
		if !d.countOf(p, "parallel", &e.Parallel, MaxSideBySide) {
			return "parallel"
		}
	}
	if name == tagParallel {
		if e.Max = sideBySide; !d.countOf(p, "max", &e.Max, MaxSideBySide) {
			return "max"
		}
	}
	if name != tagIf {
		if a, has := d.pair(p, "fail"); has {
			if e.Fail = string(p[a.Value:a.ValueEnd]); e.Fail != failAll && e.Fail != failFast {
				return "fail"
			}
		}
	} else {
		e.Fail = ""
	}
	if a, has := d.pair(p, "timeout"); has && name == tagParallel {
		if e.Timeout, ok = groupTime(p[a.Value:a.ValueEnd]); !ok {
			return "timeout"
		}
	}
	if e.DependsOn, ok = d.dependsOf(p); !ok {
		return "depends_on"
	}
	if hasOutput && (!isKey([]byte(e.OutputKey)) || d.ext.variable(e.OutputKey)) {
		return "output_key"
	}
	return ""
}

// isReference reports whether a text is one reference.
func isReference(text string) bool {
	_, ok := expr.ParseRef(text)
	return ok
}

// variableOf reads the variable of a loop, which shadows nothing.
func (d *decoder) variableOf(p []byte, e *messages.Block) (as string, ok bool) {
	as = "item"
	if a, has := d.pair(p, "as"); has {
		as = string(p[a.Value:a.ValueEnd])
	}
	if !isKey([]byte(as)) {
		return "", false
	}
	for _, name := range [...]string{as, as + indexSuffix} {
		if d.ids.has(name) || d.ext.keys[name] || name == e.ID || name == e.OutputKey || d.ext.variable(name) {
			return "", false
		}
	}
	return as, true
}

// countOf reads an integer of at least 1, up to a cap.
func (d *decoder) countOf(p []byte, key string, n *int, limit int) bool {
	a, has := d.pair(p, key)
	if !has {
		return true
	}
	v := p[a.Value:a.ValueEnd]
	if len(v) == 0 || len(v) > maxCountDigits || v[0] == '0' || !digits(v) {
		return false
	}
	count, err := strconv.Atoi(string(v))
	*n = min(count, limit)
	return err == nil
}

func digits(v []byte) bool {
	for _, c := range v {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(v) > 0
}

// groupTime reads a decimal number of seconds above 0.
func groupTime(v []byte) (time.Duration, bool) {
	whole, fraction, point := bytes.Cut(v, []byte{'.'})
	if !digits(whole) || point && !digits(fraction) {
		return 0, false
	}
	if whole = bytes.TrimLeft(whole, "0"); len(whole) == 0 {
		whole = []byte{'0'}
	}
	number := append([]byte(nil), whole...)
	if point {
		number = append(append(number, '.'), fraction...)
	}
	t, ok := seconds(number)
	return min(t, maxGroupTime), ok
}

// dependsOf reads the attribute depends_on: nothing, ids between commas, or a JSON array.
func (d *decoder) dependsOf(p []byte) (all []string, ok bool) {
	v := trim(d.attr(p, "depends_on"))
	if len(v) == 0 {
		return nil, true
	}
	if v[0] == '[' {
		j := scan.JSON{MaxDepth: 1}
		if j.Write(v) < len(v) || !j.End() {
			return nil, false
		}
		list := j.Bytes()
		if v = list[1 : len(list)-1]; len(v) == 0 {
			return nil, true
		}
		for item := range bytes.SplitSeq(v, []byte{','}) {
			id, ok := plainString(item)
			if !ok || !isID(id) {
				return nil, false
			}
			all = append(all, string(id))
		}
		return distinct(all), true
	}
	for item := range bytes.SplitSeq(v, []byte{','}) {
		id := trim(item)
		if !isID(id) {
			return nil, false
		}
		all = append(all, string(id))
	}
	return distinct(all), true
}

// beginBranch begins another branch of the if around.
func (d *decoder) beginBranch(name int, p []byte, at int64) {
	b, _ := d.ext.top()
	e := &messages.Block{ID: b.id, Branch: names[tagElse]}
	if name == tagElif {
		var ok bool
		if e.Test, ok = d.test(p); !ok {
			d.fault(badAttribute(b.id, "test", at))
			d.ext.broken()
			return
		}
		if _, wrong := expr.Parse(e.Test); wrong != nil {
			d.fault(conditionFault(b.id, wrong, at))
			d.ext.broken()
			return
		}
		b.elifs++
		e.Branch = names[tagElif] + strconv.Itoa(b.elifs)
	}
	b.branch, b.gap = name, name == tagElif && d.tag.SelfClosing()
	d.emit(messages.Event{Kind: messages.EventBranch, Offset: at, Block: e})
}

// closeLevel acts on a closer.
func (d *decoder) closeLevel(name int, at int64) {
	x := d.ext
	if name == tagElif || name == tagElse {
		if b, _ := x.top(); b != nil && b.branch == name && !b.gap {
			b.gap = true
			return
		}
	} else if i := x.opener(name); i >= 0 {
		for len(x.nest)-1 > i {
			d.cross()
		}
		if name != tagThought {
			d.endBlock(at + int64(d.tag.Len()))
			return
		}
		d.endThought()
		return
	}
	f := fault(StrayClose, at)
	f.Tag = names[name]
	d.fault(f)
}

// opener finds what a closer closes: the innermost thought, or a block with no thought
// between. −1 is nothing.
func (x *extended) opener(name int) int {
	for i := len(x.nest) - 1; i >= 0; i-- {
		switch b := x.nest[i].block; {
		case b == nil && name == tagThought:
			return i
		case b == nil:
			return -1
		case b.kind == name:
			return i
		}
	}
	return -1
}

// endBlock closes the innermost level, a block, whose closer ends in front of end.
func (d *decoder) endBlock(end int64) {
	x := d.ext
	b := x.nest[len(x.nest)-1].block
	x.nest = x.nest[:len(x.nest)-1]
	x.open--
	d.state = d.enclosing()
	d.emit(messages.Event{Kind: messages.EventBlockEnd, Offset: end, Block: &messages.Block{ID: b.id, Kind: names[b.kind], OK: b.ok}})
	if d.cuts && b.ok && x.open == 0 && (b.kind == tagParallel || x.gates) {
		d.state = inCut
		d.emit(messages.Event{Kind: messages.EventCut, Offset: end})
	}
}

// cross closes the innermost level, a block that has no closer of its own.
func (d *decoder) cross() {
	x := d.ext
	l := x.nest[len(x.nest)-1]
	x.broken()
	x.nest = x.nest[:len(x.nest)-1]
	x.open--
	d.emit(messages.Event{Kind: messages.EventBlockEnd, Offset: l.at, Block: &messages.Block{ID: l.block.id, Kind: names[l.block.kind]}})
	f := d.told(UnclosedTag, l.at)
	f.Tag = names[l.block.kind]
	d.fault(f)
}

// endThought closes the innermost level, a thought.
func (d *decoder) endThought() {
	d.ext.nest = d.ext.nest[:len(d.ext.nest)-1]
	d.depth--
	d.state = d.enclosing()
}

// closeThoughts closes all thoughts, and the blocks in them, at the opener of a response.
func (d *decoder) closeThoughts() {
	listed := false
	for d.depth > 0 {
		if d.ext.nest[len(d.ext.nest)-1].block != nil {
			d.cross()
			continue
		}
		d.endThought()
		if !listed {
			d.fault(fault(UnclosedThought, d.thoughtAt))
			listed = true
		}
	}
	d.state = inTop
}

// closeAll reports what is open at the end of the reply, from the inside out.
func (d *decoder) closeAll() {
	if len(d.ext.nest) == 0 {
		return
	}
	if d.state != inOver {
		d.endUnit(d.off, false)
	}
	listed := false
	for len(d.ext.nest) > 0 {
		if d.ext.nest[len(d.ext.nest)-1].block != nil {
			d.cross()
			continue
		}
		d.endThought()
		if !listed {
			d.fault(d.told(UnclosedThought, d.thoughtAt))
			listed = true
		}
	}
}

// ownCloser judges a tag that the end of the reply has cut within blocks and thoughts, and
// reports whether it is the beginning of the innermost one's closer, which is dropped.
func (d *decoder) ownCloser() bool {
	if len(d.held) == 1 {
		return true
	}
	if !d.tag.Closing() {
		return false
	}
	begins := func(name int) bool {
		if d.tag.Known() {
			return d.tag.Name() == name
		}
		return bytes.HasPrefix([]byte(names[name]), d.held[2:])
	}
	b, _ := d.ext.top()
	return b == nil && begins(tagThought) || b != nil && (begins(b.kind) || b.branch != tagIf && !b.gap && begins(b.branch))
}
