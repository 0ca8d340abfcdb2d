package crash

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
)

// keeper is a speaker whose provider keeps the conversation: its model is told what the provider
// has, and what the request adds. What a life has not sent it does not know, so that a prompt that
// is not what the provider has would make another reply.
type keeper struct{ speaker }

// Connect implements llm.SessionModel.
func (k keeper) Connect(context.Context, llm.Request) (llm.Session, error) {
	if err := k.gate.at(beforeConnect); err != nil {
		return nil, err
	}
	return &kept{k: k}, nil
}

// TakesBack reports that what passes with a request does not stay in the conversation.
func (keeper) TakesBack() bool { return true }

// kept is what a provider has of a conversation.
type kept struct {
	k             keeper
	before, after []messages.Message // of the last request, and behind its reply
	whole         bool               // the reply was read to its end
}

// Continue implements llm.Session.
func (c *kept) Continue(ctx context.Context, req llm.Request, sent int) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		var has []messages.Message
		switch {
		case sent == 0:
		case c.whole && len(c.after) == sent:
			has = c.after
		case len(c.before) == sent:
			has = c.before
		default:
			yield(llm.Chunk{}, llm.Fail(llm.Failure{Kind: llm.KindRequest, Code: llm.CodeLost, Status: 400}, "no such conversation"))
			return
		}
		c.before, c.whole = has, false
		req.Messages = append(slices.Clone(has), req.Messages[sent:]...)
		lasting := slices.Clip(req.Messages[:len(req.Messages)-req.Passing])
		if req.Passing > 0 {
			c.before = lasting
		}
		text := ""
		for chunk, err := range c.k.Stream(ctx, req) {
			text += string(chunk.Text)
			if !yield(chunk, err) {
				break
			}
			c.whole = c.whole || chunk.Finish == messages.FinishComplete
		}
		c.after = append(lasting, messages.Message{Role: messages.RoleAssistant, Text: text})
	}
}

// Settle implements llm.Session.
func (c *kept) Settle(context.Context) (bool, error) { return c.whole, nil }

// Ended implements llm.Session.
func (c *kept) Ended() bool { return false }

// Expires implements llm.Session.
func (c *kept) Expires() time.Time { return time.Time{} }

// Close implements llm.Session.
func (c *kept) Close() error { return nil }
