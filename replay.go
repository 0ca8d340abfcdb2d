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

// ReplayReport counts the records that a replay compared and found equal.
type ReplayReport = replay.Report

// Divergence is the first record in which a replay by this build differs from the journal.
type Divergence = replay.Divergence

// Replay runs a session again from its journal, without model, tools or network, and
// compares every record and hash. A detail text that another version worded differently is
// counted and is no difference. A nil agent takes the manifests in the journal, which is
// enough for agents without Go tools and libraries. The error is a *Divergence for the first
// record that differs. Other errors mean that nothing was compared: ERR_CONFIG when the agent
// must be passed, ERR_JOURNAL when the history is damaged or erased, ERR_QUOTA when a program
// exceeds a replay's budget (replay.MaxProgramGas).
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

// Try replays one incarnation under a different agent, such as an edited one: inputs, replies
// and ends of calls are taken from the journal; no model is called and no tool runs. The
// Trial has the first prompt and the first decision that differ, each as two texts, the number
// of turns that differ, and where and why the replay had to stop. An agent must be passed.
// Errors are those of Replay, except *Divergence.
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

// replayed collects the source and the agents for a replay of an incarnation.
func (a *Archive) replayed(ctx context.Context, inc messages.Incarnation, agent *Agent, held *compiler.Holder) (replay.Source, *compiler.Replayer, error) {
	head, recs, err := journal.Load(ctx, a.store, inc)
	if err != nil {
		return replay.Source{}, nil, err
	}
	key, err := messages.ParseSID(head.SID)
	if err != nil {
		return replay.Source{}, nil, err
	}
	if key.ID == messages.ProfileID || key.ID == messages.RelicsID {
		agent = nil // any agent of this user may have learned; the journal has what it takes
	}
	cfg := Config{Dialects: a.dialects}.withDefaults()
	agents := &compiler.Replayer{Env: cfg.compiler(compiler.Replay), SID: head.SID, Own: agent.definition(lineage{}), Kept: a.manifest}
	agents.Env.Keep = held.Keep
	return replay.Source{Key: key, Inc: inc, Records: recs, From: fork.Made(recs), MaxGas: a.maxGas, Blob: func(ctx context.Context, d messages.Digest) ([]byte, error) {
		return a.store.Blob(ctx, inc, d)
	}}, agents, nil
}

// manifest reads a manifest from the journal.
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
