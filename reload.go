package stile

import (
	"bytes"
	"context"
	"slices"

	"github.com/seed14be6753/stile/internal/compiler"
)

// configure compiles the agents of the configuration.
func (rt *Runtime) configure(ctx context.Context, agents []*Agent) error {
	var all []compiler.Keyed
	for _, a := range agents {
		all = append(all, compiler.Keyed{Key: a, Definition: a.definition(lineage{})})
	}
	return rt.agents.Configure(ctx, all)
}

// neighbours are the agents of the host as the compiler takes them.
func (rt *Runtime) neighbours() (all []*compiler.Definition) {
	for _, a := range *rt.offered.Load() {
		all = append(all, a.definition(lineage{}))
	}
	return all
}

// Reload replaces the agents of Config.Agents, as a whole or, with an error, not at all. An agent of
// LoadAgent whose files say what they said before stays as it is: inUse has it in the place of the
// new one. changed lists the names of the others, and of those that are gone, sorted. Sessions that are awake keep the agent that they have until
// they sleep; then, as after a restart, they have the agent of the same manifest or name. Sessions
// of an agent that is gone wait until it is opened. It is safe for concurrent use. Errors are those
// of New for an agent.
func (rt *Runtime) Reload(ctx context.Context, agents []*Agent) (inUse []*Agent, changed []string, err error) {
	if err := rt.cfg.readOnly(); err != nil {
		return nil, nil, err
	}
	rt.reloading.Lock()
	defer rt.reloading.Unlock()
	before := *rt.offered.Load()
	inUse = slices.Clone(agents)
	for i, a := range inUse {
		if k := slices.IndexFunc(before, func(b *Agent) bool { return a.same(b) }); k >= 0 {
			inUse[i] = before[k]
			continue
		}
		changed = append(changed, a.name())
		if a != nil {
			rt.keeper.Retain(a.Retention())
		}
	}
	for _, b := range before {
		if !slices.ContainsFunc(inUse, func(a *Agent) bool { return a.name() == b.name() }) {
			changed = append(changed, b.name())
		}
	}
	rt.offered.Store(&inUse) // the tools of an agent are kept from the files of all others
	if err := rt.configure(ctx, inUse); err != nil {
		rt.offered.Store(&before)
		return before, nil, closedError(err)
	}
	slices.Sort(changed)
	return inUse, slices.Compact(changed), nil
}

func (a *Agent) name() string {
	if a == nil || a.Manifest == nil {
		return ""
	}
	return a.Manifest.Name
}

// same reports whether a loaded agent and b are one: b itself, or read from files that said the same.
func (a *Agent) same(b *Agent) bool {
	if a == b || a == nil || b == nil {
		return a == b
	}
	return a.mark != nil && bytes.Equal(a.mark, b.mark) && a.Dir == b.Dir && a.name() == b.name()
}
