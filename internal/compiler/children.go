package compiler

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

// Agents that an agent's actions may run, each in a child session of its own.

// name returns the name by which an agent is imported.
func (a *Definition) name() string {
	if a.Manifest != nil && a.Manifest.Name != "" {
		return a.Manifest.Name
	}
	return a.Name
}

// lineage refuses agents that call themselves, that nest too deep or are too many,
// before anything descends into them.
func (a *Definition) lineage() error {
	l := lineage{}
	return l.walk(a, a.effective(), nil)
}

type lineage struct{ agents int }

func (l *lineage) walk(a *Definition, m *manifest.Manifest, within []string) error {
	fault := func(format string, args ...any) error {
		return &messages.Error{Code: messages.ErrConfig, Reason: manifest.ReasonBadValue, Field: "import.agents", Detail: fmt.Sprintf(format, args...)}
	}
	name := cmp.Or(m.Name, a.Name)
	if name != "" && slices.Contains(within, name) {
		return fault("the agent %s calls itself: %s", name, strings.Join(append(within[slices.Index(within, name):], name), " > "))
	}
	if len(within) > manifest.MaxAgentDepth {
		return fault("agents nest at most %d deep: %s", manifest.MaxAgentDepth, strings.Join(append(within, name), " > "))
	}
	if l.agents++; l.agents > manifest.MaxAgents+1 {
		return fault("an agent has at most %d agents, all depths together", manifest.MaxAgents)
	}
	within = append(within[:len(within):len(within)], name)
	for _, imported := range m.Import.Agents {
		child, _ := a.child(m, imported)
		if child == nil {
			continue // the import reports it
		}
		if err := l.walk(child, child.effective(), within); err != nil {
			return err
		}
	}
	return nil
}

// child returns an agent that the manifest imports, or nil. given reports whether it is one of
// a's Agents.
func (a *Definition) child(m *manifest.Manifest, name string) (child *Definition, given bool) {
	for _, c := range a.Agents {
		if c != nil && c.name() == name {
			return c, true
		}
	}
	for i := range m.Define.Agents {
		if m.Define.Agents[i].Name == name {
			return &Definition{Manifest: &m.Define.Agents[i], Dir: a.Dir}, false
		}
	}
	return nil, false
}

// children compiles the agents that m imports, and puts their manifests in effect into m, where
// a replay finds all that the parent knows about them. A child whose manifest names no model
// has that of its parent.
func (e *Env) children(ctx context.Context, a *Definition, m *manifest.Manifest, routes []compiled.Route, c *Agent) error {
	for _, name := range m.Import.Agents {
		child, given := a.child(m, name)
		if child == nil || e.replays() && !given {
			continue // the journal has the manifest in effect
		}
		own := *child
		own.Name = name
		own.Manifest = child.effective()
		if unsaid := manifest.Default(own.Manifest.Dialect).Model; own.Model == nil && reflect.DeepEqual(own.Manifest.Model, unsaid) {
			own.Manifest.Model, own.routes = m.Model, routes
		}
		cc, err := e.compile(ctx, &own)
		if err != nil {
			return messages.At(err, "agent "+name)
		}
		if c.Children == nil {
			c.Children = map[string]*Agent{}
		}
		c.Children[name] = cc
		i := slices.IndexFunc(m.Define.Agents, func(d manifest.Manifest) bool { return d.Name == name })
		if i < 0 {
			m.Define.Agents = append(slices.Clip(m.Define.Agents), *cc.Manifest)
		} else {
			m.Define.Agents = slices.Clone(m.Define.Agents)
			m.Define.Agents[i] = *cc.Manifest
		}
	}
	return nil
}

// childGrace is how long a child session may take to stop. Its turn has turn.CancelGrace for
// work that cannot be abandoned at once.
const childGrace = turn.CancelGrace + 500*time.Millisecond

// delegate makes the target of an agent. child is nil in a replay.
func (e *Env) delegate(d *manifest.Manifest, child *Agent) *catalog.Executor {
	return &catalog.Executor{
		Type: messages.TypeAgent, Name: d.Name, Summary: d.Summary, Signature: "(message, ...)", Class: messages.Keyed, Grace: childGrace,
		Spends: &messages.Budget{Actions: d.Quotas.Actions, CostUSD: d.Quotas.CostMicroUSD, Tokens: d.Quotas.Tokens},
		Run: func(ctx context.Context, c *tools.Call, args string) (string, error) {
			return e.Sessions.Delegate(ctx, child, c, args)
		},
	}
}
