package catalog

import (
	"slices"
	"strings"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// Binding is what one run of a program adds to a Set.
type Binding struct {
	// Act performs every call of a tool that is not pure. It is called on the
	// program's goroutine and waits for the action to end. If it is nil, such a call
	// raises code 1003.
	Act func(c *neuroscript.Call, t *tools.Tool, args []neuroscript.Value) (neuroscript.Value, error)
	// Turn are the tools of this turn alone, such as aeiou.magic. They take precedence
	// over the registry's, and no policy applies to them.
	Turn []*neuroscript.Tool
}

// Program is a Set bound to one run of one program. It implements
// neuroscript.ToolSet, counts the calls of limited tools, and belongs to the
// goroutine of that run.
type Program struct {
	set     *Set
	binding Binding
	turn    []string            // lower-cased names of binding.Turn
	made    []*neuroscript.Tool // by place in set.entries; nil until one is needed
	calls   []int64             // by place in set.entries; nil without limits
}

var _ neuroscript.ToolSet = (*Program)(nil)

// Bind returns the program's view of the set for one run. It costs one small allocation,
// and one for each of these that the run has: turn tools, limits, tools that are not pure.
func (s *Set) Bind(b Binding) *Program {
	p := &Program{set: s, binding: b}
	if len(b.Turn) > 0 {
		p.turn = make([]string, len(b.Turn))
		for i, t := range b.Turn {
			p.turn[i] = strings.ToLower(t.Name)
		}
	}
	if s.limited {
		p.calls = make([]int64, len(s.entries))
	}
	return p
}

// Lookup implements neuroscript.ToolSet. It counts a call that then fails for its arguments,
// because the policy comes before coercion (docs/spec/neuroscript.md §11).
func (p *Program) Lookup(name string) (*neuroscript.Tool, error) {
	for i, n := range p.turn {
		if n == name {
			return p.binding.Turn[i], nil
		}
	}
	i, ok := p.set.lookup[name]
	if !ok {
		return nil, nil
	}
	e := &p.set.entries[i]
	if !e.allowed {
		return nil, denied(e.tool)
	}
	if e.limit >= 0 {
		if p.calls[i] >= e.limit {
			return nil, overLimit(e.tool, e.limit)
		}
		p.calls[i]++
	}
	if e.native != nil {
		return e.native, nil
	}
	return p.make(i), nil
}

// Names returns the names that the program may call, ascending by lower-cased name.
func (p *Program) Names() []string {
	names := p.set.Names()
	for _, t := range p.binding.Turn {
		at, _ := slices.BinarySearchFunc(names, strings.ToLower(t.Name), func(n, own string) int { return strings.Compare(strings.ToLower(n), own) })
		names = slices.Insert(names, at, t.Name)
	}
	return names
}

var _ neuroscript.Guide = (*Program)(nil)

// Near implements neuroscript.Guide.
func (p *Program) Near(name string) []string {
	type ranked struct {
		name string
		far  int
	}
	var found []ranked
	for _, known := range p.Names() {
		if far := distance(name, known); far < tooFar {
			found = append(found, ranked{known, far})
		}
	}
	slices.SortStableFunc(found, func(a, b ranked) int { return a.far - b.far })
	near := make([]string, 0, maxNear)
	for i := range min(len(found), maxNear) {
		near = append(near, p.Signature(strings.ToLower(found[i].name)))
	}
	return near
}

// Signature implements neuroscript.Guide.
func (p *Program) Signature(name string) string {
	var t tools.Tool
	if i := slices.Index(p.turn, name); i >= 0 {
		t.Name, t.Params = p.binding.Turn[i].Name, p.binding.Turn[i].Params
	} else if i, ok := p.set.lookup[name]; ok && p.set.entries[i].allowed {
		t.Name, t.Params = p.set.entries[i].tool.Name, p.set.entries[i].tool.Params
	} else {
		return ""
	}
	params := make([]string, len(t.Params))
	for i, v := range t.Params {
		params[i] = v.Name
		if v.Optional {
			params[i] += "?"
		}
		params[i] += ": " + v.Type
	}
	return "tool." + t.Name + "(" + strings.Join(params, ", ") + ")"
}

// make returns the native tool of an entry that depends on its program.
func (p *Program) make(i int) *neuroscript.Tool {
	if p.made == nil {
		p.made = make([]*neuroscript.Tool, len(p.set.entries))
	}
	if p.made[i] != nil {
		return p.made[i]
	}
	t := p.set.entries[i].tool
	do := p.act(t)
	if t.Class == messages.Pure {
		do = t.Form.Bound(p.Names)
	}
	p.made[i] = native(t, do)
	return p.made[i]
}

func (p *Program) act(t *tools.Tool) func(*neuroscript.Call, []neuroscript.Value) (neuroscript.Value, error) {
	act := p.binding.Act
	return func(c *neuroscript.Call, args []neuroscript.Value) (neuroscript.Value, error) {
		if act == nil {
			return neuroscript.Value{}, neuroscript.Errorf(neuroscript.CodeDenied, "tool %s is an action, and there are none here", t.Name)
		}
		return act(c, t, args)
	}
}

// native returns the interpreter's form of a tool. A tool that prepares its own arguments
// takes any types, and at most as many as it has parameters.
func native(t *tools.Tool, do func(*neuroscript.Call, []neuroscript.Value) (neuroscript.Value, error)) *neuroscript.Tool {
	n := &neuroscript.Tool{Name: t.Name, Params: t.Params, Gas: t.Gas, Uncounted: t.Class == messages.Pure, Appends: t.Form.Appends, Func: do}
	if t.Form.Prepare == nil {
		return n
	}
	n.Params = make([]neuroscript.Param, len(t.Params))
	for i, p := range t.Params {
		n.Params[i] = neuroscript.Param{Name: p.Name, Type: "any", Optional: true}
	}
	n.Func = func(c *neuroscript.Call, args []neuroscript.Value) (neuroscript.Value, error) {
		args, err := t.Form.Prepare(args)
		if err != nil {
			return neuroscript.Value{}, err
		}
		return do(c, args)
	}
	return n
}
