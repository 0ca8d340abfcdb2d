package sim

import (
	"fmt"
	"strings"

	"github.com/seed14be6753/stile/messages"
)

// Control blocks (docs/spec/extensions.md §§0–3). A model nests conditions, loops and groups,
// well or badly, with groups of actions and streamed results in them; between the records of a
// block hosts die. What the records must say is in nesting.go; here is what the model writes, and
// what only a reader of the reply can check: which branch a child stands in, and what waits
// behind a block.

// nested are further ids for replies with blocks, where more has an id.
var nested = []string{"p", "q", "r", "s", "t", "u"}

// controlled is a reply of cortex with control blocks, groups and streamed results.
func (a *author) controlled() []byte {
	var b strings.Builder
	if !a.calm {
		a.wide, a.pours = true, true
		for range a.rnd.IntN(4) {
			switch n := a.rnd.IntN(10); {
			case n < 3:
				a.list(&b)
			case n < 4:
				a.member(&b, a.one("g", "h"))
			case n < 5:
				a.child(&b)
			default:
				if len(a.lists) == 0 {
					a.list(&b)
				}
				a.control(&b, 1, "")
			}
		}
	}
	if len(a.used) > 0 && a.rnd.IntN(2) == 0 { // what follows is mostly no good
		if a.rnd.IntN(2) == 0 {
			fmt.Fprintf(&b, `<response final="false">%s ${%s.partial} and ${%s.partial}</response>`, a.word(), a.block(), a.block())
		}
		a.response(&b, a.one("false", "maybe", "true"))
		return []byte(b.String())
	}
	return append([]byte(b.String()), a.stream()...)
}

// fresh is an id that nothing has, or mostly.
func (a *author) fresh() string {
	if a.often(40) {
		return a.block()
	}
	id := fmt.Sprintf("x%d", len(a.used))
	a.used = append(a.used, id)
	return id
}

// list is an action that gives something to loop over.
func (a *author) list(b *strings.Builder) {
	id := a.fresh()
	fmt.Fprintf(b, `<action id=%q mode=%q>{"name":%q,"parameters":{"what":%q}`, id, a.one("sync", "async"), solo, a.one("list", "list", "list", "list", "object", "a"))
	a.manner(b)
	a.lists = append(a.lists, "$"+id)
}

// child is an action that mostly ends well.
func (a *author) child(b *strings.Builder) {
	what := a.one("a", "b", "c")
	switch n := a.rnd.IntN(8); {
	case n < 3 && a.loops > 0:
		what = a.one("$item", "$item_index", "so $item")
	case n < 3 && len(a.used) > 0:
		what = a.one("$"+a.block(), "${"+a.block()+".partial}", "so ${"+a.block()+".partial}")
	}
	needs := ""
	if a.rnd.IntN(8) == 0 && len(a.used) > 0 {
		needs = fmt.Sprintf(`,"depends_on":[%q]`, a.block())
	}
	fmt.Fprintf(b, `<action id=%q mode=%q>`, a.fresh(), a.one("sync", "async", "async", "async", "fire_and_forget"))
	fmt.Fprintf(b, `{"name":%q,"parameters":{"what":%q}%s`, a.one(toolNames...), what, needs)
	a.manner(b)
}

// manner closes an action that mostly ends well.
func (a *author) manner(b *strings.Builder) {
	if a.rnd.IntN(4) == 0 {
		b.WriteString(a.one(`,"on_error":"skip"`, `,"output_key":"k"`))
	}
	if a.rnd.IntN(3) == 0 {
		b.WriteString(a.one(`,"stream":true`, `,"stream":true,"retry":2`))
	}
	b.WriteString("}</action>")
}

// control is a block of a depth in another one, "" for none.
func (a *author) control(b *strings.Builder, depth int, in string) {
	kind := a.one("if", "if", "foreach", "foreach", "parallel")
	a.blockHead(b, kind)
	a.children(b, depth, kind, in)
	if kind == "if" && a.rnd.IntN(2) == 0 {
		if a.rnd.IntN(2) == 0 {
			fmt.Fprintf(b, `<elif test='%s'>`, a.test())
			a.children(b, depth, kind, in)
		}
		b.WriteString("<else>")
		a.children(b, depth, kind, in)
	}
	switch n := a.rnd.IntN(60); {
	case n > 1 || a.calm:
		b.WriteString("</" + kind + ">")
	case n == 1:
		b.WriteString("</" + a.one("if", "foreach", "parallel") + ">")
	}
}

func (a *author) blockHead(b *strings.Builder, kind string) {
	b.WriteString("<" + kind)
	if a.rnd.IntN(10) == 0 {
		fmt.Fprintf(b, ` depends_on=%q`, a.block())
	}
	if a.rnd.IntN(3) > 0 {
		fmt.Fprintf(b, " id=%q", a.fresh())
	}
	switch kind {
	case "if":
		fmt.Fprintf(b, ` test='%s'`, a.test())
	case "foreach":
		fmt.Fprintf(b, ` in=%q`, a.over())
		if a.rnd.IntN(2) == 0 {
			fmt.Fprintf(b, ` parallel="%d"`, 1+a.rnd.IntN(3))
		}
		if a.rnd.IntN(4) == 0 {
			fmt.Fprintf(b, ` max="%d"`, 1+a.rnd.IntN(4))
		}
		if a.rnd.IntN(3) == 0 {
			b.WriteString(` fail="fast"`)
		}
	case "parallel":
		if a.rnd.IntN(2) == 0 {
			fmt.Fprintf(b, ` max="%d"`, 1+a.rnd.IntN(3))
		}
		if a.rnd.IntN(2) == 0 {
			b.WriteString(` fail="all"`)
		}
		if a.rnd.IntN(5) == 0 {
			fmt.Fprintf(b, ` timeout="%d"`, 1+a.rnd.IntN(9))
		}
	}
	if a.rnd.IntN(4) == 0 {
		fmt.Fprintf(b, " output_key=%q", a.one("k", "m"))
	}
	b.WriteString(">")
}

// over is what a loop goes over.
func (a *author) over() string {
	switch n := a.rnd.IntN(12); {
	case n < 8 && len(a.lists) > 0:
		return a.one(a.lists...)
	case n < 10 && a.loops > 0:
		return a.one("$item", "$item", "${item.value}", "${item.k}")
	}
	return a.one("$"+solo, "$k", "$"+a.block(), "$v")
}

// test is a condition: mostly one that a reader of the records can decide as well.
func (a *author) test() string {
	switch n := a.rnd.IntN(10); {
	case n < 3:
		return a.one("true", "true", "false")
	case n < 7:
		return fmt.Sprintf(`status("%s") == "%s"`, a.block(), a.one("ok", "ok", "failed", "unknown"))
	case n < 8:
		return strings.ReplaceAll(a.one("length(L) > 1", "empty(L)", "exists(L.0)", `L == []`), "L", a.over())
	case n < 9:
		return fmt.Sprintf("exists($%s)", a.block())
	}
	return a.one(`$item == "x"`, "$item_index < 1", "!exists($k) || true", fmt.Sprintf("$%s > 3", a.block()), `$nobody`, "$p.partial", "$k")
}

// children is what stands in a block or a branch of one.
func (a *author) children(b *strings.Builder, depth int, kind, in string) {
	if kind == "foreach" {
		a.loops++
		defer func() { a.loops-- }()
	}
	open := kind == "if" && in == "" // a response or a rollback may stand here
	within := in
	if kind != "if" {
		within = kind
	}
	for range 1 + a.rnd.IntN(3) {
		switch n := a.rnd.IntN(14); {
		case n < 6:
			a.child(b)
		case n < 7:
			switch a.rnd.IntN(4) {
			case 0:
				a.relic(b)
			case 1:
				a.internal(b)
			case 2:
				a.delegate(b)
			default:
				a.action(b)
			}
		case n < 8:
			a.member(b, a.one("g", "h"))
		case n < 9:
			a.list(b)
		case n < 12 && depth < 3 || n == 11 && depth == 3 && a.often(8):
			a.control(b, depth+1, within)
		case n < 13 && (open || a.often(40)):
			a.response(b, a.one("false", "false", "maybe", "true"))
		case n < 13:
			fmt.Fprintf(b, "<thought>%s</thought>", a.word())
		case open || a.often(40):
			fmt.Fprintf(b, `<rollback group=%q/>`, a.one("g", "h"))
		case a.often(20):
			b.WriteString(a.one("</action>", `<action id="1">{}</action>`, `<else>`, `<action mode="soon">`))
		}
	}
}

// plot is a control block as the model wrote it.
type plot struct {
	kind, parent string
	branch       int            // of what comes next
	branches     []string       // of an if, in order
	tests        []string       // of these
	kids         map[string]int // actions and blocks that stand in it: their branch
	says         bool           // or responses and rollbacks
	syncs        bool           // or a sync action, at any depth
	broken       bool
}

// plots are the control blocks of replies, by turn and id, and those that are open.
type plots struct {
	of   map[string]*plot
	open []string
	on   int64 // the turn that is read
}

// hears follows the blocks of a reply.
func (p *plots) hears(turnIndex int64, ev *messages.Event) {
	if p.of == nil || p.on != turnIndex {
		p.of, p.open, p.on = map[string]*plot{}, nil, turnIndex
	}
	var top *plot
	if n := len(p.open); n > 0 {
		top = p.of[p.open[n-1]]
	}
	adds := func(id string) {
		if top != nil {
			top.kids[id] = top.branch
		}
	}
	switch ev.Kind {
	case messages.EventBlock:
		adds(ev.Block.ID)
		one := &plot{kind: ev.Block.Kind, parent: ev.Block.Within, branches: []string{"then"}, tests: []string{ev.Block.Test}, kids: map[string]int{}}
		p.of[ev.Block.ID] = one
		p.open = append(p.open, ev.Block.ID)
		if one.kind == "parallel" {
			p.gates()
		}
	case messages.EventBranch:
		if top != nil {
			top.branch++
			top.branches, top.tests = append(top.branches, ev.Block.Branch), append(top.tests, ev.Block.Test)
		}
	case messages.EventBlockEnd:
		if top != nil {
			top.broken = top.broken || !ev.Block.OK
			p.open = p.open[:len(p.open)-1]
		}
	case messages.EventAction:
		adds(ev.Action.ID)
		if top != nil && (ev.Action.Mode == messages.ModeSync || ev.Action.Mode == "" || ev.Action.Type == messages.TypeInternal) {
			p.gates()
		}
	case messages.EventUnitBegin:
		if top != nil && ev.UnitKind == messages.ResponseUnit {
			top.says = true
		}
	case messages.EventRollback:
		if top != nil {
			top.says = true
		}
	case messages.EventParseError:
		if top != nil {
			top.says = true // a child that was not accepted counts
		}
	}
}

// gates notes that what follows the outermost open block waits for its end.
func (p *plots) gates() {
	for _, id := range p.open {
		p.of[id].syncs = true
	}
}

// written is an id as the reply has it: of an instance without its iterations.
func written(id string) string {
	name, _, _ := strings.Cut(id, "[")
	return name
}

// stands checks a record against the blocks of the reply.
func (s *shell) stands(r *messages.Record) error {
	a := s.audit
	if !s.client.dialect.controls || r.Turn == 0 || r.Turn != a.turn || s.plots.on != r.Turn {
		return nil
	}
	switch b := r.Body.(type) {
	case *messages.ActionDeclared:
		if b.Compensates == "" && b.Block == "" {
			return s.gated("action " + b.ID)
		}
	case *messages.BlockBegin:
		one := s.plots.of[written(b.ID)]
		if one == nil || one.kind != b.BlockKind || written(b.Block) != one.parent || b.Test != one.tests[0] {
			return fmt.Errorf("block %s is recorded as %+v, and the reply has %+v", b.ID, b, one)
		}
		if b.Block == "" {
			return s.gated("block " + b.ID)
		}
	case *messages.BlockDecided:
		return s.decidesWell(b)
	case *messages.BlockEnded:
		return s.ended(b)
	case *messages.ActionStarted:
		if c := a.calls[b.ID]; c != nil && c.block != "" {
			return s.reached(c.block, b.ID)
		}
	}
	return nil
}

// gated finds what has passed a block that is a gate.
func (s *shell) gated(what string) error {
	a := s.audit
	if a.stopped || a.gaveUp() {
		return nil
	}
	for id, c := range a.controls {
		if one := s.plots.of[id]; c.parent == "" && !c.ended && one != nil && one.syncs && !one.broken && what != "block "+id {
			return fmt.Errorf("%s comes from behind block %s, which has not ended", what, id)
		}
	}
	return nil
}

// reached checks that everything around a child was decided so that the child is reached.
func (s *shell) reached(around, id string) error {
	a := s.audit
	for around != "" {
		c, one := a.controls[around], s.plots.of[written(around)]
		if c == nil || one == nil {
			return fmt.Errorf("%s begins in block %s, which is not there", id, around)
		}
		branch, known := one.kids[written(id)]
		if !known {
			return fmt.Errorf("%s begins in block %s, and the reply has it elsewhere", id, around)
		}
		if c.kind == "if" && one.branches[branch] != c.branch {
			return fmt.Errorf("%s begins in branch %s of block %s, which took %s", id, one.branches[branch], around, c.branch)
		}
		around, id = c.parent, around
	}
	return nil
}

// ended checks that an if which ends well has no failed child in the branch that it took.
func (s *shell) ended(b *messages.BlockEnded) error {
	a := s.audit
	c, one := a.controls[b.ID], s.plots.of[written(b.ID)]
	if c.kind != "if" || one == nil || b.State != messages.ActionOK {
		return nil
	}
	for id, branch := range one.kids {
		id += lap(b.ID) // of an instance
		k, in := a.calls[id], a.controls[id]
		if one.branches[branch] == c.branch && (k != nil && k.fails() || in != nil && in.fails()) {
			return fmt.Errorf("block %s ends ok in branch %s, and %s in it failed", b.ID, c.branch, id)
		}
	}
	return nil
}

// decidesWell checks the branch of an if against conditions that the records decide.
func (s *shell) decidesWell(b *messages.BlockDecided) error {
	c, one := s.audit.controls[b.ID], s.plots.of[written(b.ID)]
	if c == nil || one == nil || c.kind != "if" {
		return nil
	}
	for i, test := range one.tests {
		if one.branches[i] == "else" {
			test = "true"
		}
		holds, known := s.audit.holdsTrue(c, test)
		if !known {
			return nil
		}
		if holds {
			if b.Branch != one.branches[i] {
				return fmt.Errorf("block %s takes %s, and %s holds: %s", b.ID, b.Branch, one.branches[i], test)
			}
			return nil
		}
	}
	if b.Branch != "none" {
		return fmt.Errorf("block %s takes %s, and no condition holds", b.ID, b.Branch)
	}
	return nil
}

// holdsTrue decides a condition from the records; known is false for one that it cannot read.
func (a *audit) holdsTrue(c *control, test string) (holds, known bool) {
	switch test {
	case "true":
		return true, true
	case "false":
		return false, true
	}
	var id, state string
	if n, err := fmt.Sscanf(strings.NewReplacer("(", " ", ")", " ").Replace(test), "status %q == %q", &id, &state); err != nil || n != 2 {
		return false, false
	}
	d := a.calls[id]
	if d == nil || d.block != "" || d.mode == messages.ModeFireAndForget || d.declaredSeq > c.seq || !d.ended {
		return false, false
	}
	return string(d.state) == state, true
}

// lingers finds a block that was decided, whose children have all ended, and that has not ended.
func (s *shell) lingers() error {
	a := s.audit
	if a.stopped || a.gaveUp() || a.suspended || !s.client.dialect.controls || s.plots.on != a.turn {
		return nil
	}
	for id, c := range a.controls {
		one := s.plots.of[written(id)]
		if !c.decided || c.ended || one == nil || one.says || !a.whole(id, c, one) {
			continue
		}
		return fmt.Errorf("all that stands in block %s has ended, and the block has not", id)
	}
	return nil
}

// whole reports whether all children of a block are recorded and have ended.
func (a *audit) whole(id string, c *control, one *plot) bool {
	times := int64(1)
	if c.kind == "foreach" {
		times = c.count
	}
	have := int64(0)
	for _, k := range a.calls {
		if k.block == id {
			if !k.ended && (k.mode != messages.ModeFireAndForget || k.attempts == 0) {
				return false
			}
			have++
		}
	}
	for _, k := range a.controls {
		if k.parent == id {
			if !k.ended {
				return false
			}
			have++
		}
	}
	return have == times*int64(len(one.kids))
}
