package stile_test

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// gated is a model that answers when it is let: it waits, and heeds a cancel.
type gated struct {
	open chan struct{}
	stile.Model
}

// Stream implements stile.Model.
func (g *gated) Stream(ctx context.Context, req stile.ModelRequest) iter.Seq2[stile.ModelChunk, error] {
	return func(yield func(stile.ModelChunk, error) bool) {
		select {
		case <-g.open:
			g.Model.Stream(ctx, req)(yield)
		case <-ctx.Done():
			yield(stile.ModelChunk{Finish: messages.FinishCancelled}, nil)
		}
	}
}

// echo is a model of one's own: a method that streams one reply.
type echo struct{}

// Stream implements stile.Model.
func (echo) Stream(_ context.Context, req stile.ModelRequest) iter.Seq2[stile.ModelChunk, error] {
	return func(yield func(stile.ModelChunk, error) bool) {
		for word := range strings.FieldsSeq(req.Messages[len(req.Messages)-1].Text) {
			if !yield(stile.ModelChunk{Text: []byte(strings.ToUpper(word) + " ")}, nil) {
				return
			}
		}
		yield(stile.ModelChunk{Finish: stile.FinishComplete, Usage: messages.Usage{Output: 3}}, nil)
	}
}

func Example_model() {
	ctx := context.Background()
	rt, err := stile.New(ctx, stile.Config{InMemory: true, Models: map[string]stile.Model{"echo": echo{}}})
	if err != nil {
		panic(err)
	}
	defer rt.Close(ctx)
	s, err := rt.Open(ctx, "hall", &stile.Agent{Dialect: "plain", Model: echo{}})
	if err != nil {
		panic(err)
	}
	run, err := s.Submit(ctx, "is anybody there")
	if err != nil {
		panic(err)
	}
	o, err := run.Decision(ctx)
	if err != nil {
		panic(err)
	}
	fmt.Println(strings.TrimSpace(o.Text))
	fmt.Println(o.Usage.Output, "tokens")
	// Output:
	// IS ANYBODY THERE
	// 3 tokens
}
