package plan

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/seed14be6753/stile/internal/jsonstring"
	"github.com/seed14be6753/stile/messages"
)

// Loops (docs/spec/extensions.md §2). What stands in a loop is a pattern: outside, its id and its
// key mean the list of what the instances came to. When the loop is decided, each item has an
// iteration, a block of the plan alone, with an instance of what stands in the loop: a becomes
// a[0], in a loop within a[0][2]. An iteration is a child of its loop as an action is of a group.
//
//	begin ◀── iteration's begin ◀── instance ◀── iteration's end ◀── end
//	                                   └──◀── pattern ◀── end

const (
	kindForeach   = "foreach"
	kindIteration = "iteration"
	indexSuffix   = "_index" // makes of a loop's variable that of its index

	reasonLoop = "loop " // the id follows

	// ReasonTooMany is of a loop with more instances than it may have; the numbers follow.
	ReasonTooMany = "too_many"
	// ReasonNotAList is of a loop over something else; what it is follows.
	ReasonNotAList = "not_a_list"
)

// crowd reports whether the children of a block have places.
func (t *Tree) crowd() bool { return t.Kind == kindParallel || t.Kind == kindForeach }

// places is how many children of a block go on at once.
func (p *Plan) places(t *Tree) int {
	if t.Kind == kindForeach {
		return min(t.Parallel, p.o.Parallel)
	}
	return t.Max
}

// stopReason is why the children of a block are stopped.
func (t *Tree) stopReason() string {
	if t.Kind == kindForeach {
		return reasonLoop + t.ID
	}
	return reasonGroup + t.ID
}

// reference returns the list of a loop.
func (t *Tree) reference() reference {
	text := strings.TrimPrefix(t.List, "$")
	if inner, ok := strings.CutPrefix(text, "{"); ok {
		text = strings.TrimSuffix(inner, "}")
	}
	name, path, _ := strings.Cut(text, ".")
	return reference{kind: refName, name: name, path: path}
}

// Instances is how many actions one item of a loop is: those of its body, at any depth, and one
// for a body without any. A loop within counts once here, and for its own items when it is decided.
func (t *Tree) Instances() int { return max(1, t.Actions()) }

// Actions counts the actions in a block, at any depth.
func (t *Tree) Actions() (n int) {
	t.each(func(c *Child) {
		if c.Action != nil {
			n++
		}
	})
	return n
}

// each calls f with what stands in a block, at any depth, in document order.
func (t *Tree) each(f func(c *Child)) {
	for i := range t.Children {
		f(&t.Children[i])
		if b := t.Children[i].Block; b != nil {
			b.each(f)
		}
	}
}

// Each calls f with the id and the output key of what has a value in a block, at any depth, in
// document order.
func (t *Tree) Each(f func(id, key string, block bool)) {
	t.each(func(c *Child) {
		switch {
		case c.Action != nil && c.Action.Mode != messages.ModeFireAndForget:
			f(c.Action.ID, c.Action.OutputKey, false)
		case c.Block != nil:
			f(c.Block.ID, c.Block.OutputKey, true)
		}
	})
}

// Iteration returns the id of the innermost iteration that a block is or is in; "" for none.
func (p *Plan) Iteration(r Ref) string {
	if b := p.blockOf(r); b != nil {
		if lap := b.lap(); lap != nil {
			return lap.tree.ID
		}
	}
	return ""
}

// childID is the id of an action or block; "" for others.
func (t *Child) childID() string {
	switch {
	case t.Action != nil:
		return t.Action.ID
	case t.Block != nil:
		return t.Block.ID
	}
	return ""
}

// iteration returns what stands in a loop for its item i.
func (t *Tree) iteration(i int) *Tree {
	suffix := "[" + strconv.Itoa(i) + "]"
	inside := map[string]bool{}
	t.each(func(c *Child) { inside[c.childID()] = true })
	return &Tree{
		Block:    messages.Block{Kind: kindIteration, ID: t.ID + suffix, Within: t.Within},
		Children: t.instances(suffix, inside, t.ID),
	}
}

// instances returns the children of a block for an iteration. within is the id of the block that
// they are in.
func (t *Tree) instances(suffix string, inside map[string]bool, within string) []Child {
	own := func(ids []string) []string {
		all := slices.Clone(ids)
		for i, id := range all {
			if inside[id] {
				all[i] = id + suffix
			}
		}
		return all
	}
	all := slices.Clone(t.Children)
	for i := range all {
		c := &all[i]
		switch {
		case c.Action != nil:
			a := *c.Action
			a.ID, a.DependsOn, a.Block = a.ID+suffix, own(a.DependsOn), within
			c.Action = &a
		case c.Block != nil:
			b := *c.Block
			b.ID, b.DependsOn, b.Within = b.ID+suffix, own(b.DependsOn), within
			b.Children = c.Block.instances(suffix, inside, b.ID)
			c.Block = &b
		case c.Rejected != "":
			c.Rejected += suffix
		}
	}
	return all
}

// base is an id as the reply has it, and of an instance what follows it.
func base(id string) (name, suffix string) {
	if i := strings.IndexByte(id, '['); i >= 0 {
		return id[:i], id[i:]
	}
	return id, ""
}

// plantPatterns makes the nodes of what stands in a loop.
func (p *Plan) plantPatterns(b *block) {
	b.tree.each(func(c *Child) {
		x := node{
			Action: messages.Action{Mode: messages.ModeAsync, OnError: messages.OnErrorFail},
			gen:    p.gen, role: roleEach, box: &box{parent: b},
		}
		switch {
		case c.Action != nil && c.Action.Mode != messages.ModeFireAndForget:
			x.ID, x.Name, x.OutputKey, x.DependsOn = c.Action.ID, c.Action.Name, c.Action.OutputKey, c.Action.DependsOn
		case c.Block != nil:
			x.ID, x.OutputKey, x.DependsOn = c.Block.ID, c.Block.OutputKey, c.Block.DependsOn
		case c.Action != nil:
			x.ID, x.DependsOn, x.quiet = c.Action.ID, c.Action.DependsOn, true
		default:
			return
		}
		n := p.add(x)
		p.unended++
		p.key(n, b)
		b.each = append(b.each, n)
	})
}

// key makes a new node of a block known by its key, unless it is an instance: these are known in
// their iterations alone.
func (p *Plan) key(n int32, b *block) {
	if x := &p.nodes[n]; x.OutputKey != "" && b.lap() == nil {
		x.prevKey = p.chain(p.keys, x.OutputKey, n)
	}
}

// wirePatterns makes the edges of what stands in a loop.
func (p *Plan) wirePatterns(b *block, met *bool) {
	for _, n := range b.each {
		p.link(n, b.begin, true)
		_, far := p.wire(n, false)
		*met = *met || far >= b.root.begin
		p.link(b.end, n, true)
	}
}

// lap returns the innermost iteration that a block is or is in; nil outside of loops.
func (b *block) lap() *block {
	for ; b != nil; b = b.parent {
		if b.tree.Kind == kindIteration {
			return b
		}
	}
	return nil
}

// lap returns the innermost iteration that a viewer stands in; nil for one outside of loops.
func (p *Plan) lap(viewer int32) *block {
	if int(viewer) >= len(p.nodes) || p.nodes[viewer].box == nil {
		return nil
	}
	return p.nodes[viewer].box.parent.lap()
}

// home is where a viewer stands in the document: of an instance where its outermost loop does.
func (p *Plan) home(viewer int32) int32 {
	for lap := p.lap(viewer); lap != nil; lap = p.lap(viewer) {
		viewer = lap.parent.begin
	}
	return viewer
}

// looped resolves the variables of the loops around a viewer.
func (p *Plan) looped(r reference, viewer int32) (f found, ok bool) {
	for lap := p.lap(viewer); lap != nil; lap = lap.parent.parent.lap() {
		switch loop := lap.parent; r.name {
		case loop.tree.As:
			return p.part(loop.items[lap.index], r), true
		case loop.tree.As + indexSuffix:
			return p.part(strconv.Itoa(lap.index), r), true
		}
	}
	return found{}, false
}

// inLap returns what has a name in the iterations around a viewer; ok is false if nothing has.
func (p *Plan) inLap(name string, viewer int32) (n int32, ok bool) {
	for lap := p.lap(viewer); lap != nil; lap = lap.parent.parent.lap() {
		for n := lap.last - 1; n > lap.begin; n-- {
			if x := &p.nodes[n]; x.OutputKey == name && n != viewer && x.role != roleBegin && p.seesIn(viewer, n, viewer) {
				return n, true
			}
		}
		if n, ok := p.idIn(lap, name, viewer); ok {
			return n, true
		}
	}
	return none, false
}

// idIn returns the instance with an id in an iteration that a viewer sees.
func (p *Plan) idIn(lap *block, id string, viewer int32) (n int32, ok bool) {
	_, suffix := base(lap.tree.ID)
	n, ok = p.ids[id+suffix]
	if !ok || n <= lap.begin || n >= lap.last || !p.seesIn(viewer, n, viewer) {
		return none, false
	}
	return n, true
}

// judgeLoop returns the items of a loop, by the values that there are.
func (p *Plan) judgeLoop(b *block) Decision {
	p.pending, p.above, p.budget = p.pending[:0], 0, MaxPathBytes
	r := b.tree.reference()
	v := p.tolerate(p.lookup(r, b.begin), r, b.begin)
	if v.kind != foundValue {
		return Decision{State: Failed, Reason: ReasonUnresolved + ":" + r.full()}
	}
	items, count, kind := listOf(v.value, b.tree.Max)
	switch {
	case kind != "":
		return Decision{State: Failed, Reason: ReasonNotAList + ": " + kind}
	case count*b.tree.Instances() > b.tree.Max:
		return Decision{State: Failed, Reason: ReasonTooMany + ": " + strconv.Itoa(count*b.tree.Instances()) + " > " + strconv.Itoa(b.tree.Max)}
	}
	return Decision{Items: items, Basis: "[" + strings.Join(items, ",") + "]"}
}

// listOf returns the items of a list, of an object its members by name. kind is what other
// values are. Of a list with more than most items it returns the number alone.
func listOf(value string, most int) (items []string, count int, kind string) {
	i := space(value, 0)
	if i == len(value) || value[i] != '[' && value[i] != '{' {
		return nil, 0, kindOf(value[i:])
	}
	object := value[i] == '{'
	type member struct{ key, item string }
	var members []member
	for i = space(value, i+1); i < len(value) && value[i] != ']' && value[i] != '}'; i = space(value, i+1) {
		from := i
		if object {
			from = space(value, space(value, quoteEnd(value, i))+1) // over the colon
		}
		end := valueEnd(value, from)
		if count++; count <= most {
			m := member{item: value[from:end]}
			if object {
				m.key = string(jsonstring.Append(nil, unquote(value[i:quoteEnd(value, i)])))
				m.item = `{"key":` + m.key + `,"value":` + m.item + `}`
			}
			members = append(members, m)
		}
		i = space(value, end)
	}
	if count > most {
		return nil, count, ""
	}
	if object {
		slices.SortFunc(members, func(a, b member) int { return jsonstring.Compare([]byte(a.key), []byte(b.key)) })
	}
	items = make([]string, len(members))
	for i := range members {
		items[i] = members[i].item
	}
	return items, count, ""
}

// kindOf names the kind of a value that is no list.
func kindOf(value string) string {
	switch {
	case value == "" || value[0] == 'n':
		return "null"
	case value[0] == '"':
		return "string"
	case value[0] == 't' || value[0] == 'f':
		return "boolean"
	}
	return "number"
}

// openLoop makes the iterations of a loop that was decided.
func (p *Plan) openLoop(dst *[]Effect, b *block, items []string) error {
	b.decided, b.items = true, items
	p.show(dst, b)
	b.kids = make([]int32, 0, len(items))
	for _, e := range b.each {
		p.yield(e, b.begin)
	}
	for i := range items {
		t := b.tree.iteration(i)
		lap, err := p.plant(t, b)
		if err != nil { // mayDeclareBlock has looked at all
			return err
		}
		lap.index = i
		b.kids = append(b.kids, lap.begin)
		p.link(lap.begin, b.begin, false)
		p.link(b.end, lap.end, true)
		_, suffix := base(t.ID)
		for _, e := range b.each {
			name, _ := base(p.nodes[e].ID)
			p.link(e, p.ids[name+suffix], true)
		}
		p.settleEdges(dst, lap, false)
	}
	p.nodes[b.begin].state = OK
	p.queue = append(p.queue, b.begin)
	return nil
}

// yield has a pattern wait for nothing but the begin of its loop: its instances wait for what it
// depends on, if they are there and begin at all.
func (p *Plan) yield(n, begin int32) {
	x := &p.nodes[n]
	p.forwards -= x.forward
	x.unmet -= x.forward
	x.forward = 0
	for e := x.deps; e != none; e = p.edges[e].nextDep {
		if g := &p.edges[e]; g.open && g.dep != begin {
			g.open = false
			x.unmet--
		}
	}
}

// concludeEach ends what stands in a loop when its instances have ended.
func (p *Plan) concludeEach(n int32) {
	x := &p.nodes[n]
	x.state = OK
	reason := ""
	out := []byte{'['}
	p.instancesOf(n, func(i *node) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, i.result()...)
		if i.fails() && x.state == OK {
			x.state, reason = Failed, ReasonChildFailed+":"+i.ID
		}
	})
	if x.quiet {
		x.state, reason = OK, ""
	}
	if p.halted != "" {
		x.state, reason = Cancelled, p.halted
	}
	x.value = string(append(out, ']'))
	p.ended(n, reason)
}

// result is what a list of results has of a node.
func (x *node) result() string {
	if (x.state == OK || x.role == roleEach) && x.value != "" && x.Mode != messages.ModeFireAndForget {
		return x.value
	}
	return "null"
}

// instancesOf calls f with the instances of what stands in a loop, in list order.
func (p *Plan) instancesOf(n int32, f func(x *node)) {
	loop := p.nodes[n].box.parent
	name, _ := base(p.nodes[n].ID)
	for _, begin := range loop.kids {
		_, suffix := base(p.nodes[begin].ID)
		f(&p.nodes[p.ids[name+suffix]])
	}
}

// concludeLoop works out how a loop ends whose iterations have ended.
func (p *Plan) concludeLoop(b *block, out *Effect) (state State, reason string) {
	state = OK
	for _, begin := range b.kids {
		end := &p.nodes[p.nodes[begin].box.own.end]
		if !end.fails() {
			out.OK++
			continue
		}
		out.Failed++
		if state == OK {
			state, reason = Failed, end.reason
			if end.state != Failed {
				reason = ReasonChildFailed + ":" + end.ID
			}
		}
	}
	return state, reason
}

// valueOfLoop is the list of what the iterations came to.
func (p *Plan) valueOfLoop(b *block) string {
	var ids []string
	b.tree.each(func(c *Child) {
		if c.Action != nil && c.Action.Mode != messages.ModeFireAndForget {
			name, _ := base(c.Action.ID)
			ids = append(ids, name)
		}
	})
	slices.Sort(ids) // ids are ASCII
	var out bytes.Buffer
	out.WriteByte('[')
	for i, begin := range b.kids {
		if i > 0 {
			out.WriteByte(',')
		}
		_, suffix := base(p.nodes[begin].ID)
		switch {
		case len(ids) == 1:
			out.WriteString(p.nodes[p.ids[ids[0]+suffix]].result())
		default:
			out.WriteByte('{')
			for j, id := range ids {
				if j > 0 {
					out.WriteByte(',')
				}
				out.Write(jsonstring.Append(nil, id))
				out.WriteByte(':')
				out.WriteString(p.nodes[p.ids[id+suffix]].result())
			}
			out.WriteByte('}')
		}
	}
	out.WriteByte(']')
	return out.String()
}
