package stile

import (
	"context"
	"errors"

	"github.com/seed14be6753/stile/internal/compiler"
	"github.com/seed14be6753/stile/internal/replay"
	"github.com/seed14be6753/stile/messages"
)

// Prompt is one request to a model, as the journal can show it: what was sent, whether that
// is exact, and what came back.
type Prompt = replay.Prompt

// Prompts are the requests of a turn of a session, in their order: one, or more where a model
// failed and was asked again. They are made again from the journal, by running the session up
// to the turn without model and tools, and compared with the digest of what was sent; one
// that differs says so and why (Prompt.Exact, Prompt.Why). agent is for sessions whose agents
// have Go tools or a library; nil takes the manifests that the journal keeps. Errors:
// ERR_NOT_FOUND for a turn that asked no model, ERR_JOURNAL for a session that was erased.
func (a *Archive) Prompts(ctx context.Context, inc messages.Incarnation, agent *Agent, turn int64) (_ []Prompt, err error) {
	held := compiler.Holder{}
	defer func() { err = errors.Join(err, held.Close()) }()
	src, kept, err := a.replayed(ctx, inc, nil, &held)
	if err != nil {
		return nil, err
	}
	all := []replay.Agents{kept.For(ctx)}
	if agent != nil {
		_, own, err := a.replayed(ctx, inc, agent, &held)
		if err != nil {
			return nil, err
		}
		all = append(all, own.For(ctx))
	}
	return replay.Prompts(ctx, src, turn, all...)
}
