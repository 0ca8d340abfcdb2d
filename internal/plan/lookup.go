package plan

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/messages"
)

// A found is what a reference stands for.
type found struct {
	kind  foundKind
	value string // JSON, of foundValue
	node  int32  // of foundBroken: the action that ended without a value
}

type foundKind uint8

const (
	foundNothing foundKind = iota // no action, feed or variable has the name, or the value no such path
	foundValue
	foundLater  // the value depends on those of p.pending that have not ended
	foundBroken // the action ended without a value
)

// A pend is an action or feed that the answer of a lookup rests on. Actions that have ended are
// included: the dependencies of an action must not depend on how fast others ran.
type pend struct {
	node int32
	soft bool // an end of any kind decides
	feed string
}

// lookup resolves a reference for a viewer: a node, or len(p.nodes) for the place that the
// document has reached. It tries, in this order, output key, id, environment and target name
// (docs/spec/streaming.md §6).
func (p *Plan) lookup(r reference, viewer int32) found {
	if f, ok := p.looped(r, viewer); ok {
		return f
	}
	if n := p.named(r.name, viewer); n != none {
		if _, text, ok := p.partial(r, viewer); ok {
			value, _ := jsontext.AppendQuote(nil, text)
			return found{kind: foundValue, value: string(value)}
		}
		return p.result(n, r)
	}
	if f := p.known(p.o.Environment, r); f.kind != foundNothing {
		return f
	}
	if f := p.target(r, viewer); f.kind != foundNothing || !r.braced || viewer == int32(len(p.nodes)) || p.nodes[viewer].role == roleSay {
		return f
	}
	return p.known(p.o.Variables, r)
}

// known looks a name up in an environment.
func (p *Plan) known(env Environment, r reference) found {
	if env == nil {
		return found{}
	}
	switch v, status := env.Lookup(r.name); {
	case status == Pending:
		p.pending = append(p.pending, pend{node: none, soft: true, feed: r.name})
		return found{kind: foundLater}
	case status == Void:
		p.lost = true
	case status == Present && p.valid(v):
		return p.part(v, r)
	}
	return found{}
}

// named returns the action that has a name as its output key, or else as its id. References do
// not know fire_and_forget actions and rejected blocks.
func (p *Plan) named(name string, viewer int32) int32 {
	if n, ok := p.inLap(name, viewer); ok {
		if p.nodes[n].quiet || p.nodes[n].Mode == messages.ModeFireAndForget {
			return none
		}
		return n
	}
	if n, ok := p.keys[name]; ok {
		for ; n != none; n = p.nodes[n].prevKey {
			// An action does not see the key that it binds itself: $count in the
			// parameters of the action that binds count is the value before.
			if n != viewer && p.sees(viewer, n) && (n >= p.forgotten || viewer < p.forgotten) {
				return n
			}
		}
	}
	if n, ok := p.ids[name]; ok {
		for ; n != none; n = p.nodes[n].prevID {
			if p.sees(viewer, n) {
				if x := &p.nodes[n]; x.refused || x.quiet || x.Mode == messages.ModeFireAndForget {
					return none // the id belongs to an action without a value
				}
				return n
			}
		}
	}
	return none
}

// target resolves a name as the target of exactly one ok action. An action with that target
// that has not ended may become the one, so the viewer waits for it. A target of exactly this
// name wins over one whose dots are written as '_'.
func (p *Plan) target(r reference, viewer int32) found {
	n, ok := p.names[r.name]
	dotted := false
	if !ok {
		if n, dotted = p.dotted[r.name]; !dotted {
			return found{}
		}
	}
	one, oks, waits := none, 0, false
	for ; n != none; n = p.before(n, dotted) {
		if n == viewer || !p.sees(viewer, n) {
			continue
		}
		p.pending = append(p.pending, pend{node: n, soft: true})
		switch x := &p.nodes[n]; {
		case x.state == OK:
			one = n
			oks++
		case !x.state.Terminal() && !p.stuck(n, viewer):
			waits = true
		}
	}
	switch {
	case oks > 1:
		return found{}
	case waits:
		return found{kind: foundLater}
	case oks == 1:
		return p.part(p.nodes[one].value, r)
	}
	return found{}
}

// before returns the previous action whose target has the same name, or with dotted the same
// name with its dots written as '_'.
func (p *Plan) before(n int32, dotted bool) int32 {
	if dotted {
		return p.nodes[n].prevDotted
	}
	return p.nodes[n].prevName
}

// result resolves a reference to the action n.
func (p *Plan) result(n int32, r reference) found {
	p.pending = append(p.pending, pend{node: n, soft: p.nodes[n].role == roleEach || p.nodes[n].listed})
	switch x := &p.nodes[n]; {
	case x.role == roleEach && x.state.Terminal() && x.value != "":
		return p.part(x.value, r)
	case x.state == OK:
		return p.part(x.value, r)
	case x.state.Terminal():
		return found{kind: foundBroken, node: n}
	}
	return found{kind: foundLater}
}

// part follows the path of a reference into a value.
func (p *Plan) part(value string, r reference) found {
	v, ok := step(value, r.path, &p.budget)
	if !ok {
		return found{}
	}
	return found{kind: foundValue, value: v}
}

// sees reports whether a viewer sees an action: one that was declared before it, or one that it
// depends on, however indirectly. The dependencies are computed when they are first needed
// for a text; p.above is 0 until then.
func (p *Plan) sees(viewer, n int32) bool { return p.seesIn(viewer, n, p.home(viewer)) }

// seesIn is sees for a viewer that stands at a place of the document.
func (p *Plan) seesIn(viewer, n, place int32) bool {
	if n <= place || !p.ahead {
		return n <= place
	}
	if p.above == 0 {
		p.mark++
		p.above = p.mark
		p.walk = append(p.walk[:0], viewer)
		for i := 0; i < len(p.walk); i++ {
			for e := p.nodes[p.walk[i]].deps; e != none; e = p.edges[e].nextDep {
				if d := p.edges[e].dep; p.nodes[d].mark != p.above {
					p.nodes[d].mark = p.above
					p.walk = append(p.walk, d)
				}
			}
		}
	}
	return p.nodes[n].mark == p.above
}

// stuck reports whether a response at the place that the document has reached cannot wait for
// n, because n waits, however indirectly, for an id that can only be declared after it.
func (p *Plan) stuck(n, viewer int32) bool {
	if viewer < int32(len(p.nodes)) || p.forwards == 0 {
		return false
	}
	if p.blocked != p.epoch {
		p.blocked = p.epoch
		p.walk = p.walk[:0]
		for m := p.genStart; m < int32(len(p.nodes)); m++ {
			if x := &p.nodes[m]; x.forward > 0 {
				x.blocked = p.epoch
				p.walk = append(p.walk, m)
			}
		}
		for i := 0; i < len(p.walk); i++ {
			for e := p.nodes[p.walk[i]].users; e != none; e = p.edges[e].nextUser {
				if x := &p.nodes[p.edges[e].user]; p.edges[e].open && x.blocked != p.epoch {
					x.blocked = p.epoch
					p.walk = append(p.walk, p.edges[e].user)
				}
			}
		}
	}
	return p.nodes[n].blocked == p.epoch
}

// valid reports whether s is one JSON value without repeated members.
func valid(s string) bool { return jsontext.Value(s).IsValid() }

// valid is like the function, without an allocation for texts of common size.
func (p *Plan) valid(s string) bool {
	const keep = 64 << 10
	if len(s) > keep {
		return valid(s)
	}
	p.scratch = append(p.scratch[:0], s...)
	return jsontext.Value(p.scratch).IsValid()
}

// mayRefer reports whether a JSON text can hold a reference at all.
func mayRefer(s string) bool {
	return strings.IndexByte(s, '$') >= 0 || strings.Contains(s, `\u0024`)
}
