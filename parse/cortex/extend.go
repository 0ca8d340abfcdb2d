package cortex

import (
	"bytes"
	"unicode"
	"unicode/utf8"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/scan"
)

// Extensions are the parts of docs/spec/extensions.md that a dialect reads, as a set. What is
// not in the set is refused as if there were no extensions.
type Extensions uint16

// The extensions that concern replies.
const (
	ExtIf Extensions = 1 << iota
	ExtForeach
	ExtParallel
	ExtRollback
	ExtStream
	ExtSubThoughts
	ExtTemplates
)

// extensionWords are the extensions as manifests name them.
var extensionWords = map[string]Extensions{
	"if": ExtIf, "foreach": ExtForeach, "parallel": ExtParallel, "rollback": ExtRollback,
	"stream": ExtStream, "sub_thoughts": ExtSubThoughts, "templates": ExtTemplates,
}

// ExtensionsOf is the set of the words that concern replies; others are not looked at.
func ExtensionsOf(words []string) (set Extensions) {
	for _, word := range words {
		set |= extensionWords[word]
	}
	return set
}

// controls are the tags of extensions; 0 for all others. Every opener asks, so it is no map.
var controls = [...]Extensions{
	tagIf: ExtIf, tagElif: ExtIf, tagElse: ExtIf, tagForeach: ExtForeach, tagParallel: ExtParallel,
	tagRollback: ExtRollback, tagTemplate: ExtTemplates,
}

// extendedNames is the grammar with branches, in which conditions may hold "<".
var extendedNames = scan.NewGrammar(names...).Quoting(1<<tagIf | 1<<tagElif)

// extended is what a decoder with extensions knows more.
//
//	depth of the decoder = thoughts in nest    open = blocks in nest ≤ maxBlocks
type extended struct {
	set      Extensions
	branches uint32  // the tags of branches, while they are known
	nest     []level // thoughts and blocks that are open, outermost first
	open     int     // blocks among them
	blocks   int     // openers of blocks so far
	thoughts int     // openers of thoughts so far
	keys     map[string]bool
	gates    bool // the outermost block has a sync action
	quiet    bool // an action in a discarded element is read

	rollback  messages.Block // whose closer is awaited
	awaited   bool
	templates templates
}

// level is a thought or a block that is open.
type level struct {
	block *openBlock      // nil for a thought
	place *messages.Block // of the texts of a thought; nil while thoughts are not numbered
	at    int64
}

// openBlock is a control block that is open.
type openBlock struct {
	kind   int // its tag
	id     string
	as     string // the variable of a foreach
	ok     bool   // nothing has broken it
	branch int    // tagIf, tagElif or tagElse: of an if, the branch that is open
	elifs  int
	gap    bool // behind the closer of a branch
}

// extend switches the extensions on.
func (d *decoder) extend(x Dialect, known []*messages.ActionTemplate) {
	if x.Extensions == 0 {
		return
	}
	d.ext = &extended{set: x.Extensions, templates: templates{manifest: x.Templates}}
	d.recall(known)
	if d.on(ExtIf) {
		d.ext.branches = 1<<tagElif | 1<<tagElse
		d.grammar, d.first = extendedNames.Within(d.limits.TagBytes), firstWithBranches
	}
}

// on reports whether an extension is on.
func (d *decoder) on(e Extensions) bool { return d.ext != nil && d.ext.set&e != 0 }

// onTag reports whether a tag is one of an extension that is on.
func (d *decoder) onTag(name int) bool { return d.on(controls[name]) }

// inBlock reports whether a control block is open.
func (d *decoder) inBlock() bool { return d.ext != nil && d.ext.open > 0 }

// innermost is the block that is innermost, thoughts not counted; nil for none.
func (x *extended) innermost() *openBlock {
	for i := len(x.nest) - 1; i >= 0; i-- {
		if b := x.nest[i].block; b != nil {
			return b
		}
	}
	return nil
}

// within is the id of the innermost block, "" for none.
func (x *extended) within() string {
	if b := x.innermost(); b != nil {
		return b.id
	}
	return ""
}

// top is what encloses the next byte directly: a block, or a thought, or nothing.
func (x *extended) top() (b *openBlock, kind string) {
	if len(x.nest) == 0 {
		return nil, ""
	}
	if b = x.nest[len(x.nest)-1].block; b == nil {
		return nil, names[tagThought]
	}
	return b, names[b.kind]
}

// broken breaks all blocks that are open: a block is whole or nothing.
func (x *extended) broken() {
	for i := range x.nest {
		if b := x.nest[i].block; b != nil {
			b.ok = false
		}
	}
}

// closers are those that mean something in a thought: of blocks that were opened in it, and
// of the branch that encloses the next byte directly.
func (x *extended) closers() (set uint32) {
	for i := len(x.nest) - 1; i >= 0 && x.nest[i].block != nil; i-- {
		set |= 1 << x.nest[i].block.kind
	}
	if b, _ := x.top(); b != nil && b.branch != tagIf && !b.gap {
		set |= 1 << b.branch
	}
	return set
}

// variable reports whether a name is that of a loop around.
func (x *extended) variable(name string) bool {
	if x.open == 0 {
		return false
	}
	for i := range x.nest {
		if b := x.nest[i].block; b != nil && b.kind == tagForeach && (name == b.as || name == b.as+indexSuffix) {
			return true
		}
	}
	return false
}

// indexSuffix makes of a loop's variable that of its index.
const indexSuffix = "_index"

// standing is where a unit stands; nil at top level.
func (d *decoder) standing(kind messages.Kind) *messages.Block {
	switch {
	case d.ext == nil:
		return nil
	case kind == messages.ResponseUnit && d.ext.open > 0:
		return &messages.Block{Within: d.ext.within(), OK: d.response.explicit}
	case kind == messages.ThoughtUnit && d.depth > 0:
		return d.ext.thought()
	}
	return nil
}

// thought is the place of the innermost thought; nil while thoughts are not numbered.
func (x *extended) thought() *messages.Block {
	for i := len(x.nest) - 1; i >= 0; i-- {
		if x.nest[i].block == nil {
			return x.nest[i].place
		}
	}
	return nil
}

// Bounds of extensions (docs/spec/extensions.md).
const (
	maxBlocks     = 3
	maxLabelRunes = 64
)

// thoughtOpens takes a thought whose depth is counted already.
func (d *decoder) thoughtOpens(p []byte, at int64) {
	x := d.ext
	x.thoughts++
	if d.depth == 1 {
		d.thoughtAt = at
	}
	d.state = inThought
	switch {
	case d.depth > d.limits.ThoughtDepth:
		f := fault(TooDeep, at)
		f.Limit = messages.LimitThoughtDepth
		d.fault(f)
	case d.depth > 1 && !d.on(ExtSubThoughts):
		d.fault(fault(NestedThought, at))
	}
	l := level{at: at}
	if d.on(ExtSubThoughts) {
		l.place = &messages.Block{Kind: names[tagThought], N: x.thoughts, Depth: d.depth, Label: d.label(p, at)}
		if around := x.thought(); around != nil {
			l.place.Parent = around.N
		}
	}
	x.nest = append(x.nest, l)
}

// label reads the label of a thought.
func (d *decoder) label(p []byte, at int64) string {
	v := trim(d.attr(p, "label"))
	if utf8.RuneCount(v) > maxLabelRunes || bytes.ContainsFunc(v, unicode.IsControl) {
		f := fault(BadAttribute, at)
		f.Name = "label"
		d.fault(f)
		return ""
	}
	return string(v)
}

// placed says where an action stands, and keeps its key.
func (d *decoder) placed(a *messages.Action) {
	x := d.ext
	a.Block = x.within()
	if t := x.thought(); t != nil {
		a.Thought = t.N
	}
	x.key(a.OutputKey)
	if x.open > 0 && (a.Mode == messages.ModeSync || a.Type == messages.TypeInternal) {
		x.gates = true
	}
}

// key keeps an output key: no later loop may have it as its variable.
func (x *extended) key(key string) {
	if key == "" {
		return
	}
	if x.keys == nil {
		x.keys = make(map[string]bool)
	}
	x.keys[key] = true
}

// beginQuiet reads the body of an action in a discarded element, so that what its strings
// hold is data.
func (d *decoder) beginQuiet() {
	if d.tag.SelfClosing() {
		return
	}
	d.json.Reset()
	d.raw, d.white, d.bodyBytes, d.body = false, true, 0, body{}
	d.bodyTag, d.bodyLimit = tagAction, d.limits.BodyBytes
	d.state, d.ext.quiet = inAction, true
}

// quiet reports whether the action that is read is one in a discarded element.
func (d *decoder) quiet() bool { return d.ext != nil && d.ext.quiet }

func (d *decoder) endQuiet() { d.state, d.ext.quiet = inSkip, false }
