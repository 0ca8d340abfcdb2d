package openai

import (
	"context"

	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/seed14be6753/stile/llm/internal/wire"
)

// send sends a request to one of the APIs. The SDK has a call for an answer in one piece and
// one for a stream; the Transport keeps the answer of both.
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
