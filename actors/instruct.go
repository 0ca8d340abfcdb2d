package actors

import (
	"context"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile/feeds"
	"github.com/seed14be6753/stile/messages"
)

// instructionsFeed is what the system says in front of all else in the turns of a run: made
// for its first prompt, and the same from then on, which known names. Without it no model is
// asked.
func (h *Host) instructionsFeed(ctx context.Context, agent *Agent, sid string, inc messages.Incarnation, from *feedSource, known messages.Digest) []messages.Feed {
	if agent.Instructions == "" {
		return nil
	}
	fd := messages.Feed{ID: messages.InstructionsFeed}
	var err error
	if known.IsZero() {
		var text string
		if text, err = agent.Fill(ctx, sid, func(id string) messages.Feed { return h.feed(ctx, agent, from, agent.Feeds.Set, id) }); err == nil {
			quoted, _ := jsontext.AppendQuote(nil, text)
			fd.Value = string(quoted)
		}
	} else {
		var kept []byte
		kept, err = h.cfg.Store.Blob(ctx, inc, known)
		fd.Value = string(kept)
	}
	if err != nil {
		h.log.Warn("the instructions of a run cannot be made", zap.String("SID", sid), zap.Error(err))
		fd.Value, fd.Error, fd.Reason = "", feeds.ErrorFailed, err.Error()
	}
	return []messages.Feed{fd}
}
