package stile

import (
	"context"
	"errors"

	"github.com/seed14be6753/stile/internal/compiler"
	"github.com/seed14be6753/stile/internal/replay"
	"github.com/seed14be6753/stile/messages"
)

// Prompt is one request to a model, rebuilt from the journal: the messages sent, whether they
// are exact, and the reply.
type Prompt = replay.Prompt

// Prompts returns the model requests of one turn in order: one, or more when a failed request
// was retried. They are rebuilt from the journal by replaying the session up to the turn,
// without model and tools, and compared with the recorded digest of the request; Prompt.Exact
// and Prompt.Why report a difference. Pass agent for sessions whose agents have Go tools or a
// library; nil takes the manifests in the journal. Errors: ERR_NOT_FOUND for a turn without a
// model request, ERR_JOURNAL for an erased session.
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
