package compiler

import (
	"cmp"
	"context"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/profile"
)

// The keeper of an agent's users' profiles is an agent of the host's own. It asks the same
// models, without what is for the agent's answers alone.

// learning has an agent's sessions shown, and learned, what their users are like.
func (e *Env) learning(ctx context.Context, m *manifest.Manifest, routes []compiled.Route, on parts, c *Agent) error {
	if e.Mode != Run {
		return nil
	}
	if on.profile {
		c.Actor.Profile = e.Profiles.JSON
	}
	if !m.Memory.Profile {
		return nil
	}
	own := manifest.Default(profile.Name)
	own.Name, own.Model, own.Quotas, own.Receipts = messages.ProfileID, modelOfKeeper(m.Model), quotasOfKeeper(m.Quotas), m.Receipts
	own.Loop.Recovery = messages.RecoverHalt
	keeper, err := e.compile(ctx, &Definition{Manifest: own, Keeper: true, routes: routesOfKeeper(routes)})
	if err != nil {
		return messages.At(err, "memory.profile")
	}
	c.Keeper = keeper
	cadence := int(cmp.Or(m.Memory.Cadence, profile.Cadence))
	quotas := messages.Budget{CostUSD: m.Quotas.CostMicroUSD, Tokens: m.Quotas.Tokens}
	c.Actor.Ended = func(sid string, end *messages.Record) { e.Profiles.Ended(keeper, quotas, cadence, sid, end) }
	return nil
}

// quotasOfKeeper are an agent's own without those that only its dialect has.
func quotasOfKeeper(q manifest.Quotas) manifest.Quotas {
	q.Calls, q.Emits = 0, 0
	q.Tag, q.Body, q.JSONDepth, q.ThoughtDepth, q.Result = 0, 0, 0, 0, 0
	return q
}

// modelOfKeeper is an agent's own without stop sequences, which would cut a profile, and
// without calls in the provider's form, of which there are none.
func modelOfKeeper(m manifest.Model) manifest.Model {
	m.ToolCalls, m.Options.Stop = "", nil
	m.Fallback = slices.Clone(m.Fallback)
	for i := range m.Fallback {
		m.Fallback[i].Options.Stop = nil
	}
	return m
}

// routesOfKeeper are an agent's own, asked without stop sequences: those that a model was
// made with are taken back by each request.
func routesOfKeeper(routes []compiled.Route) []compiled.Route {
	routes = slices.Clone(routes)
	for i := range routes {
		var o map[string]jsontext.Value
		if json.Unmarshal([]byte(routes[i].Options), &o) != nil || o["stop"] == nil {
			continue
		}
		o["stop"] = jsontext.Value("[]")
		if b, err := json.Marshal(o, json.Deterministic(true)); err == nil { // it was JSON before
			routes[i].Options = string(b)
		}
	}
	return routes
}
