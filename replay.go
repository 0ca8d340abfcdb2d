package stile

import (
	"context"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/replay"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/neuroscript"
	"github.com/seed14be6753/stile/tools"
)

// manifestKey is where the journal keeps the manifests its sessions ran under, so
// that a session can be replayed from the data directory alone.
func manifestKey(d messages.Digest) string { return "manifest/" + d.String() }

// Replay runs a session again from its journal, without model, tools or network,
// and compares every record and hash. agent nil takes the manifest kept in the
// journal, which is enough for sessions whose agent had no Go code of its own. A
// *replay.Divergence says where this build and the journal disagree.
func (rt *Runtime) Replay(ctx context.Context, name string, agent *Agent) (replay.Report, error) {
	a := rt.Archive()
	head, err := a.Head(ctx, name)
	if err != nil {
		return replay.Report{}, err
	}
	return a.Replay(ctx, head.Inc, agent)
}

// Replay runs one incarnation again; see Runtime.Replay.
func (a *Archive) Replay(ctx context.Context, inc messages.Incarnation, agent *Agent) (replay.Report, error) {
	head, recs, err := journal.Load(ctx, a.store, inc)
	if err != nil {
		return replay.Report{}, err
	}
	key, err := messages.ParseSID(head.SID)
	if err != nil {
		return replay.Report{}, err
	}
	if agent == nil {
		if agent, err = a.agentOf(ctx, recs); err != nil {
			return replay.Report{}, err
		}
	}
	rt, err := newCompiler()
	if err != nil {
		return replay.Report{}, err
	}
	defer rt.closeFiles()
	c, err := rt.compile(agent.offline())
	if err != nil {
		return replay.Report{}, err
	}
	src := replay.Source{Key: key, Inc: inc, Records: recs, From: forkPoint(recs), Blob: func(ctx context.Context, d messages.Digest) ([]byte, error) {
		return a.store.Blob(ctx, inc, d)
	}}
	set := c.agent.Tools
	return replay.Run(ctx, src, &replay.Agent{
		Name: c.agent.Name, Rules: c.agent.Rules, Dialect: c.agent.Dialect, Specs: c.agent.Specs, Primer: c.agent.Primer,
		Library: c.agent.Library, Limits: c.agent.Limits, MagicCalls: c.agent.MagicCalls,
		Tools: func(act replay.Act, own []*neuroscript.Tool) neuroscript.ToolSet {
			return set.Bind(tools.Binding{Turn: own, Act: func(call *neuroscript.Call, t *tools.Tool, args []neuroscript.Value) (neuroscript.Value, error) {
				return act(call, t.Name, t.Class, args, t.Result)
			}})
		},
	})
}

// offline is the agent without what would reach out: the model answers from the
// journal, and actions end as they ended.
func (a *Agent) offline() *Agent {
	b := *a
	b.Model, b.replayed = silent{}, true
	return &b
}

// agentOf rebuilds an agent from the manifest that the session's first turn names.
func (a *Archive) agentOf(ctx context.Context, recs []*messages.Record) (*Agent, error) {
	for _, r := range recs {
		b, ok := r.Body.(*messages.TurnBegin)
		if !ok {
			continue
		}
		doc, err := a.store.Meta(ctx, manifestKey(b.Manifest))
		if err != nil {
			return nil, &messages.Error{Code: messages.ErrConfig, Detail: "the manifest of the session", Cause: ErrNoManifest}
		}
		m, err := manifest.Parse("manifest", doc)
		if err != nil {
			return nil, err
		}
		return &Agent{Manifest: m}, nil
	}
	return &Agent{Dialect: "plain"}, nil // no turn, so nothing of the agent matters
}

// forkPoint is the last record a forked session took over; 0 for others.
func forkPoint(recs []*messages.Record) int64 {
	if len(recs) == 0 {
		return 0
	}
	if b, ok := recs[0].Body.(*messages.SessionOpened); ok && b.Origin != nil {
		return b.Origin.Seq
	}
	return 0
}
