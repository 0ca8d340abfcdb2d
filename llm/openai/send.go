package openai

import (
	"context"

	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/seed14be6753/stile/llm/internal/wire"
)

// send asks an interface of OpenAI, whose SDK has two calls for it: for an answer in one
// piece, and for a stream. What came is with the Transport.
func send[Params, Answer, Event any](ctx context.Context, ask *wire.Ask, p Params,
	whole func(context.Context, Params, ...option.RequestOption) (Answer, error),
	stream func(context.Context, Params, ...option.RequestOption) *ssestream.Stream[Event],
) error {
	if ask.Whole {
		_, err := whole(ctx, p)
		return err
	}
	s := stream(ctx, p)
	s.Next() // the Transport kept the stream: this ends at once
	return s.Err()
}
