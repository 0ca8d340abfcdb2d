package stile_test

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
)

// gated is a model that answers when it is let: it waits, and heeds a cancel.
type gated struct {
	open chan struct{}
	llm.Model
}

// Stream implements llm.Model.
func (g *gated) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		select {
		case <-g.open:
			g.Model.Stream(ctx, req)(yield)
		case <-ctx.Done():
			yield(llm.Chunk{Finish: messages.FinishCancelled}, nil)
		}
	}
}

// echo is a model of one's own: a method that streams one reply.
type echo struct{}

// Stream implements llm.Model.
func (echo) Stream(_ context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		for word := range strings.FieldsSeq(req.Messages[len(req.Messages)-1].Text) {
			if !yield(llm.Chunk{Text: []byte(strings.ToUpper(word) + " ")}, nil) {
				return
			}
		}
		yield(llm.Chunk{Finish: messages.FinishComplete, Usage: messages.Usage{Output: 3}}, nil)
	}
}

func Example_model() {
	ctx := context.Background()
	rt, err := stile.New(ctx, stile.Config{InMemory: true, Models: map[string]llm.Model{"echo": echo{}}})
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
	for u, err := range run.Events(ctx) {
		if err != nil {
			panic(err)
		}
		if u.Record == nil {
			continue
		}
		switch b := u.Record.Body.(type) {
		case *messages.UnitText:
			fmt.Println(strings.TrimSpace(b.Text))
		case *messages.ModelReply:
			fmt.Println(b.Usage.Output, "tokens")
		}
	}
	// Output:
	// IS ANYBODY THERE
	// 3 tokens
}
