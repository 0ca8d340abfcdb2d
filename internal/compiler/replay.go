package compiler

import (
	"cmp"
	"context"
	"path"
	"slices"

	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/replay"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/profile"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

// Replayer gives a replay the agents of one session.
type Replayer struct {
	Env *Env // its Mode is Replay
	SID string
	// Own is the agent that the caller passed; nil takes the manifests that the journal
	// keeps.
	Own *Definition
	// Trial takes Own as it is, with what the journal's manifests say that MCP servers offer.
	Trial bool
	// Journal takes the manifests of the journal, with what Go adds to Own.
	Journal bool
	// Kept reads the manifest of a digest from the journal.
	Kept func(context.Context, messages.Digest) (*manifest.Manifest, error)

	done map[version]*replay.Agent
}

// version is what a turn ran under.
type version struct {
	manifest  messages.Digest
	rendering int64
}

// ParseKept reads a manifest as the journal keeps it.
func ParseKept(doc []byte, further []parse.Dialect) (*manifest.Manifest, error) {
	return manifest.Parse("manifest", doc, append(names(further), profile.Name)...)
}

// Agent is the agent under whose manifest of digest d, and under which rendering
// (messages.Rendering), a turn ran. It is compiled once for each pair.
func (r *Replayer) Agent(ctx context.Context, d messages.Digest, rendering int64) (*replay.Agent, error) {
	if r.Own != nil && !r.Own.asksServers() && !r.Journal {
		d = messages.Digest{} // the one that was passed, whatever the journal says
	}
	v := version{d, rendering}
	if ra := r.done[v]; ra != nil {
		return ra, nil
	}
	own, err := r.definition(ctx, d)
	if err != nil {
		return nil, err
	}
	env := *r.Env
	env.Rendering = rendering
	c, err := Compile(ctx, &env, own)
	if err != nil {
		return nil, err
	}
	if r.done == nil {
		r.done = map[version]*replay.Agent{}
	}
	r.done[v] = c.replay(r.SID)
	return r.done[v], nil
}

// For returns the agents of a replay.
func (r *Replayer) For(ctx context.Context) replay.Agents {
	return func(d messages.Digest, rendering int64) (*replay.Agent, error) { return r.Agent(ctx, d, rendering) }
}

// definition is the caller's agent, or what the journal keeps of it. An agent that asks
// MCP servers runs under the manifest of the journal, which has what they said.
func (r *Replayer) definition(ctx context.Context, d messages.Digest) (*Definition, error) {
	switch {
	case d.IsZero() && r.Own != nil:
		return r.Own, nil
	case d.IsZero():
		return &Definition{Dialect: "plain"}, nil // nothing of the agent matters
	}
	m, err := r.Kept(ctx, d)
	if r.Trial {
		return r.Own.offered(m), nil
	}
	if err != nil {
		return nil, err
	}
	if r.Own == nil {
		return &Definition{Manifest: m, Keeper: m.Dialect == profile.Name}, nil
	}
	own := *r.Own
	own.Manifest, own.Agents = m, nil // it has those, too
	if r.Journal {                    // and these
		own.Instructions, own.Output = "", nil
	}
	return &own, nil
}

// offered is the definition with what its MCP servers offered by a manifest that a journal kept;
// nil where it kept none, and then the servers offer what the definition says of them itself.
func (a *Definition) offered(kept *manifest.Manifest) *Definition {
	own := *a
	if kept == nil || a.Manifest == nil {
		return &own
	}
	m := *a.Manifest
	m.Import.MCP = slices.Clone(m.Import.MCP)
	for i := range m.Import.MCP {
		s := &m.Import.MCP[i]
		j := slices.IndexFunc(kept.Import.MCP, func(k manifest.MCP) bool { return k.Name == s.Name })
		if j < 0 || described(s) {
			continue
		}
		var all []manifest.MCPTool
		for _, t := range kept.Import.MCP[j].Tools {
			k := slices.IndexFunc(s.Tools, func(want manifest.MCPTool) bool {
				ok, err := path.Match(want.Name, t.Name)
				return ok && err == nil
			})
			if k < 0 && len(s.Tools) > 0 {
				continue
			}
			if k >= 0 { // what the definition says of it goes first
				merged := s.Tools[k]
				merged.Name, merged.Schema = t.Name, cmp.Or(merged.Schema, t.Schema)
				merged.Description, merged.As = cmp.Or(merged.Description, t.Description), cmp.Or(merged.As, t.As)
				t = merged
			}
			all = append(all, t)
		}
		s.Tools = all
	}
	own.Manifest = &m
	return &own
}

// replay is the agent as a replay needs it.
func (c *Agent) replay(sid string) *replay.Agent {
	a := c.Actor
	rules := catalog.Gate{Default: c.Manifest.Approval.Default, ByTool: c.Manifest.Approval.Tools, Own: ownAnswers, Aliases: c.aliases}
	return &replay.Agent{
		Rules: a.Rules, Dialect: a.Dialect, Specs: a.Specs, Native: a.Native, Primer: a.Primer,
		Receipts: string(a.Receipts), Library: a.Library, Limits: a.Limits, Window: a.Window, Shape: shape(a.Shape, sid),
		MagicCalls: a.MagicCalls, TokenTTL: a.TokenTTL, TokenMaxTTL: a.TokenMaxTTL,
		Gate: func(e *turn.AskGate) turn.Judged {
			v := rules.Decide(tools.Request{Tool: e.Name, Class: e.Class, ArgsDigest: e.ArgsDigest})
			return turn.Judged{Answer: v.Answer, By: v.By, Reason: v.Reason, Record: v.By != catalog.ByDefault}
		},
		Tools: func(act replay.Act, own []*neuroscript.Tool) neuroscript.ToolSet {
			return a.Tools.Bind(catalog.Binding{Turn: own, Act: func(call *neuroscript.Call, t *tools.Tool, args []neuroscript.Value) (neuroscript.Value, error) {
				return act(call, t.Name, t.Class, args, catalog.Result(t))
			}})
		},
	}
}

// shape is the agent's Transform as a replay calls it.
func shape(f func(compiled.History) []messages.Message, sid string) func(run, turn int64, ms []messages.Message) []messages.Message {
	if f == nil {
		return nil
	}
	return func(run, turn int64, ms []messages.Message) []messages.Message {
		return f(compiled.History{SID: sid, Run: run, Turn: turn, Messages: ms})
	}
}
