package manifest

import (
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/messages"
)

// Bounds of agents that run as child sessions (docs/spec/design.md §8).
const (
	MaxAgentDepth = 4  // agents inside agents
	MaxAgents     = 64 // in one manifest, all depths together
)

// isPath reports whether a name is the path of an agent's file.
func isPath(name string) bool {
	return strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}

// agent reads a manifest inside another one. It has the defaults of its own dialect and
// the environment that it allows itself. A document that contains itself ends at
// MaxAgentDepth, and one that names a part of itself often at MaxAgents.
func (l *loader) agent(path string, n *yaml.Node, m *Manifest) {
	if l.agents++; l.agents > MaxAgents {
		l.add(at(n), path, ReasonBadValue, "a manifest has at most %d agents, all depths together", MaxAgents)
		return
	}
	if l.depth >= MaxAgentDepth {
		l.add(at(n), path, ReasonBadValue, "agents nest at most %d deep", MaxAgentDepth)
		return
	}
	if !l.kind(path, n, yaml.MappingNode, "a mapping of keys") {
		return
	}
	outer := *l
	*m = *defaultOf(n)
	l.root, l.base, l.depth, l.allow, l.vars = reflect.ValueOf(m).Elem(), path+".", l.depth+1, nil, nil
	l.environment(n)
	l.structure(path, n, l.root)
	if m.Loop.NoProgressN <= 0 {
		m.Loop.NoProgressN = DefaultNoProgressN
	}
	l.root, l.base, l.depth, l.allow, l.vars = outer.root, outer.base, outer.depth, outer.allow, outer.vars
}

// AdoptAgent takes an agent that import names: its manifest, as Parse read it from
// file, with everything that it imports. An agent that was imported by its path is
// known by its name from then on.
func (m *Manifest) AdoptAgent(w Wanted, file string, child *Manifest) error {
	fault := func(reason, format string, args ...any) error {
		e := refuse(reason, format, args...)
		e.Field, e.File = "name", file
		return e
	}
	switch {
	case child.Name == "":
		return fault(ReasonMissing, "an agent that is imported has a name")
	case w.Name != "" && child.Name != w.Name:
		return fault(ReasonBadValue, "is %q, and %s imports it as %q", clip.Quoted(child.Name), w.Field, w.Name)
	case w.Name == "":
		if !shapes["tool"].re.MatchString(child.Name) {
			return fault(ReasonBadValue, "%q is not %s", clip.Quoted(child.Name), shapes["tool"].words)
		}
		names := slices.Clone(m.Import.Agents)
		if slices.Contains(names, child.Name) {
			return fault(ReasonDuplicate, "%q is imported already, and again by %s", child.Name, w.Field)
		}
		names[slices.Index(names, w.File)] = child.Name
		m.Import.Agents = names
	}
	m.Define.Agents = append(slices.Clip(m.Define.Agents), *child)
	if e := m.unbounded(); e != nil {
		e.File = file
		return e
	}
	return nil
}

// agent checks one that stands in the manifest.
func (c *checker) agent(path string, m *Manifest) {
	own := checker{dialects: c.dialects}
	own.across(m)
	for _, e := range own.found {
		e.Field = join(path, e.Field)
	}
	c.found = append(c.found, own.found...)
	if m.Name == "" {
		c.add(join(path, "name"), ReasonMissing, "missing")
	}
	if !shapes["tool"].re.MatchString(m.Name) && m.Name != "" {
		c.form(join(path, "name"), "tool", m.Name)
	}
}

// bounded reports agents that are too many or too deep.
func (c *checker) bounded(m *Manifest) bool {
	if e := m.unbounded(); e != nil {
		c.found = append(c.found, e)
		return false
	}
	return true
}

// unbounded counts the agents without trusting the depth.
func (m *Manifest) unbounded() *messages.Error {
	const at = "define.agents"
	level, n := []*Manifest{m}, 0
	for depth := 0; len(level) > 0; depth++ {
		var next []*Manifest
		for _, o := range level {
			if n += len(o.Define.Agents); n > MaxAgents {
				e := refuse(ReasonBadValue, "a manifest has at most %d agents, all depths together", MaxAgents)
				e.Field = at
				return e
			}
			for i := range o.Define.Agents {
				next = append(next, &o.Define.Agents[i])
			}
		}
		if depth >= MaxAgentDepth && len(next) > 0 {
			e := refuse(ReasonBadValue, "agents nest at most %d deep", MaxAgentDepth)
			e.Field = at
			return e
		}
		level = next
	}
	return nil
}

// defaulted are agents with their defaults filled in.
func defaulted(agents []Manifest) []Manifest {
	if len(agents) == 0 {
		return agents
	}
	out := make([]Manifest, len(agents))
	for i := range agents {
		out[i] = *agents[i].WithDefaults()
	}
	return out
}
