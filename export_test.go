package stile

import (
	"context"

	"github.com/seed14be6753/stile/internal/compiler"
	"github.com/seed14be6753/stile/internal/fork"
	"github.com/seed14be6753/stile/internal/replay"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// ArchiveOf reads a store without a runtime.
func ArchiveOf(store journal.Store) *Archive { return &Archive{store: store} }

// SetMaxGas bounds replayed programs, for tests that have no ten seconds.
func (a *Archive) SetMaxGas(n int64) { a.maxGas = n }

// Replayer is Archive.Replay for many histories of one session: its agent is compiled
// once.
type Replayer struct {
	agents compiler.Replayer
	held   compiler.Holder
}

// NewReplayer makes the replayer of a session. Close it.
func NewReplayer(sid string, agent *Agent) *Replayer {
	cfg := Config{}.withDefaults()
	r := &Replayer{agents: compiler.Replayer{Env: cfg.compiler(compiler.Replay), SID: sid, Own: agent.definition(lineage{})}}
	r.agents.Env.Keep = r.held.Keep
	return r
}

// Close lets go of what the agent held.
func (r *Replayer) Close() error { return r.held.Close() }

// Replay runs a history again, whose bodies store has.
func (r *Replayer) Replay(ctx context.Context, inc messages.Incarnation, recs []*messages.Record, store journal.Store) (ReplayReport, error) {
	key, err := messages.ParseSID(r.agents.SID)
	if err != nil {
		return ReplayReport{}, err
	}
	src := replay.Source{Key: key, Inc: inc, Records: recs, From: fork.Made(recs), Blob: func(ctx context.Context, d messages.Digest) ([]byte, error) {
		return store.Blob(ctx, inc, d)
	}}
	return replay.Run(ctx, src, func(d messages.Digest, rendering int64) (*replay.Agent, error) {
		return r.agents.Agent(ctx, d, rendering)
	})
}
