package stile

import (
	"context"
	"errors"

	"github.com/seed14be6753/stile/internal/compiler"
	"github.com/seed14be6753/stile/internal/fork"
	"github.com/seed14be6753/stile/internal/replay"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// ReplayReport is what a replay found equal.
type ReplayReport = replay.Report

// Divergence says where this build and a journal disagree.
type Divergence = replay.Divergence

// Replay runs a session again from its journal, without model, tools or network,
// and compares every record and hash; an explanation that another version worded
// otherwise is counted, not a difference. agent nil takes the manifests kept in the
// journal, which is enough for sessions whose agents had no Go tools or library of
// their own. A *Divergence says where this build and the journal disagree;
// other errors why nothing could be compared: ERR_CONFIG when the agent or a Go tool
// of it must be passed, ERR_JOURNAL when the history is damaged or erased, ERR_QUOTA when
// a program takes more than a replay gives (replay.MaxProgramGas).
func (rt *Runtime) Replay(ctx context.Context, name string, agent *Agent) (ReplayReport, error) {
	a := rt.Archive()
	head, err := a.Head(ctx, name)
	if err != nil {
		return ReplayReport{}, err
	}
	return a.Replay(ctx, head.Inc, agent)
}

// Replay runs one incarnation again; see Runtime.Replay.
func (a *Archive) Replay(ctx context.Context, inc messages.Incarnation, agent *Agent) (_ ReplayReport, err error) {
	held := compiler.Holder{}
	defer func() { err = errors.Join(err, held.Close()) }()
	src, agents, err := a.replayed(ctx, inc, agent, &held)
	if err != nil {
		return ReplayReport{}, err
	}
	return replay.Run(ctx, src, agents.For(ctx))
}

// Try runs one incarnation again under another agent than its own, such as an edited one:
// inputs, replies and the ends of calls are those of the journal, nothing is asked and no tool
// runs. It says what comes out otherwise: the first prompt and the first decision that differ,
// each as two texts, how many turns do, and where and why it could not go on. Errors are
// those of Replay but for a *Divergence; an agent must be passed.
func (a *Archive) Try(ctx context.Context, inc messages.Incarnation, agent *Agent) (_ replay.Trial, err error) {
	if agent == nil {
		return replay.Trial{}, &messages.Error{Code: messages.ErrConfig, Field: "agent", Detail: "pass the agent to try"}
	}
	held := compiler.Holder{}
	defer func() { err = errors.Join(err, held.Close()) }()
	src, agents, err := a.replayed(ctx, inc, agent, &held)
	if err != nil {
		return replay.Trial{}, err
	}
	if agents.Own == nil {
		return replay.Trial{}, refuseProfile(src.Key)
	}
	agents.Trial = true
	was := *agents
	was.Trial, was.Journal = false, true
	return replay.TryFrom(ctx, src, agents.For(ctx), was.For(ctx))
}

// replayed is what a replay of an incarnation takes.
func (a *Archive) replayed(ctx context.Context, inc messages.Incarnation, agent *Agent, held *compiler.Holder) (replay.Source, *compiler.Replayer, error) {
	head, recs, err := journal.Load(ctx, a.store, inc)
	if err != nil {
		return replay.Source{}, nil, err
	}
	key, err := messages.ParseSID(head.SID)
	if err != nil {
		return replay.Source{}, nil, err
	}
	if key.ID == messages.ProfileID {
		agent = nil // any agent of this user may have learned; the journal has what it takes
	}
	cfg := Config{Dialects: a.dialects}.withDefaults()
	agents := &compiler.Replayer{Env: cfg.compiler(compiler.Replay), SID: head.SID, Own: agent.definition(lineage{}), Kept: a.manifest}
	agents.Env.Keep = held.Keep
	return replay.Source{Key: key, Inc: inc, Records: recs, From: fork.Made(recs), MaxGas: a.maxGas, Blob: func(ctx context.Context, d messages.Digest) ([]byte, error) {
		return a.store.Blob(ctx, inc, d)
	}}, agents, nil
}

// manifest reads a manifest that the journal keeps.
func (a *Archive) manifest(ctx context.Context, d messages.Digest) (*manifest.Manifest, error) {
	doc, err := a.store.Meta(ctx, compiler.ManifestKey(d))
	if journal.IsNotFound(err) {
		return nil, &messages.Error{Code: messages.ErrConfig, Detail: "pass the agent of the session", Cause: ErrNoManifest}
	}
	if err != nil {
		return nil, err
	}
	return compiler.ParseKept(doc, a.dialects)
}
