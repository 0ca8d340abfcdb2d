package stile

import (
	"context"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/replay"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/profile"
	"github.com/seed14be6753/stile/tools"
)

// manifestKey is where the journal keeps the manifests its sessions ran under, so
// that a session can be replayed from the data directory alone.
func manifestKey(d messages.Digest) string { return "manifest/" + d.String() }

// Replay runs a session again from its journal, without model, tools or network,
// and compares every record and hash; an explanation that another version worded
// otherwise is counted, not a difference. agent nil takes the manifests kept in the
// journal, which is enough for sessions whose agents had no Go tools or library of
// their own. A *replay.Divergence says where this build and the journal disagree;
// other errors why nothing could be compared: ERR_CONFIG when the agent or a Go tool
// of it must be passed, ERR_JOURNAL when the history is damaged or erased, ERR_QUOTA when
// a program takes more than a replay gives (replay.MaxProgramGas).
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
	rt, err := newCompiler(a.dialects)
	if err != nil {
		return replay.Report{}, err
	}
	defer rt.closeFiles()
	src := replay.Source{Key: key, Inc: inc, Records: recs, From: forkPoint(recs), MaxGas: a.maxGas, Blob: func(ctx context.Context, d messages.Digest) ([]byte, error) {
		return a.store.Blob(ctx, inc, d)
	}}
	if key.ID == messages.ProfileID {
		agent = nil // whoever has sessions of this user may have learned; the journal has what it takes
	}
	agents := map[messages.Digest]*replay.Agent{}
	return replay.Run(ctx, src, func(d messages.Digest) (*replay.Agent, error) {
		if agent != nil && !agent.asksServers() {
			d = messages.Digest{} // the one that was passed, whatever the journal says
		}
		if ra := agents[d]; ra != nil {
			return ra, nil
		}
		own := agent
		var err error
		switch {
		case own == nil:
			own, err = a.agentOf(ctx, d)
		case own.asksServers():
			own, err = a.withServers(ctx, own, d)
		}
		if err != nil {
			return nil, err
		}
		c, err := rt.compile(ctx, own.offline())
		if err != nil {
			return nil, err
		}
		agents[d] = c.again(head.SID)
		return agents[d], nil
	})
}

// again is the agent as a replay needs it.
func (c *compiled) again(sid string) *replay.Agent {
	set, rules := c.agent.Tools, tools.Gate{Default: c.man.Approval.Default, ByTool: c.man.Approval.Tools, Own: ownAnswers}
	return &replay.Agent{
		Rules: c.agent.Rules, Dialect: c.agent.Dialect, Specs: c.agent.Specs, Primer: c.agent.Primer,
		Library: c.agent.Library, Limits: c.agent.Limits, Window: c.agent.Window, Shape: c.shape(sid),
		MagicCalls: c.agent.MagicCalls, TokenTTL: c.agent.TokenTTL, TokenMaxTTL: c.agent.TokenMaxTTL,
		Gate: func(e *turn.AskGate) turn.Judged {
			v := rules.Decide(tools.Request{Tool: e.Name, Class: e.Class, ArgsDigest: e.ArgsDigest})
			return turn.Judged{Answer: v.Answer, By: v.By, Reason: v.Reason, Record: v.By != tools.ByDefault}
		},
		Tools: func(act replay.Act, own []*neuroscript.Tool) neuroscript.ToolSet {
			return set.Bind(tools.Binding{Turn: own, Act: func(call *neuroscript.Call, t *tools.Tool, args []neuroscript.Value) (neuroscript.Value, error) {
				return act(call, t.Name, t.Class, args, t.Result)
			}})
		},
	}
}

// shape is the agent's Transform as a replay calls it.
func (c *compiled) shape(sid string) func(run, turn int64, ms []messages.Message) []messages.Message {
	if c.agent.Shape == nil {
		return nil
	}
	return func(run, turn int64, ms []messages.Message) []messages.Message {
		return c.agent.Shape(History{SID: sid, Run: run, Turn: turn, Messages: ms})
	}
}

// offline is the agent without what would reach out: the model answers from the
// journal, and actions end as they ended.
func (a *Agent) offline() *Agent {
	b := *a
	b.Model, b.replayed = silent{}, true
	return &b
}

// agentOf rebuilds an agent from its manifest, as the journal keeps it.
func (a *Archive) agentOf(ctx context.Context, d messages.Digest) (*Agent, error) {
	if d.IsZero() {
		return &Agent{Dialect: "plain"}, nil // nothing of the agent matters
	}
	doc, err := a.store.Meta(ctx, manifestKey(d))
	if err != nil {
		if journal.IsNotFound(err) {
			err = &messages.Error{Code: messages.ErrConfig, Detail: "pass the agent of the session", Cause: ErrNoManifest}
		}
		return nil, err
	}
	m, err := manifest.Parse("manifest", doc, append(names(a.dialects), profile.Name)...)
	if err != nil {
		return nil, err
	}
	return &Agent{Manifest: m, keeper: m.Dialect == profile.Name}, nil
}

// forkPoint is the last record that a fork wrote by itself, before anything ran: what
// it took over, and the ends of what it left behind. 0 for other sessions.
func forkPoint(recs []*messages.Record) (seq int64) {
	if len(recs) == 0 {
		return 0
	}
	if b, ok := recs[0].Body.(*messages.SessionOpened); !ok || b.Origin == nil {
		return 0
	}
	for _, r := range recs {
		if r.Epoch != forkEpoch {
			break
		}
		seq = r.Seq
	}
	return seq
}
