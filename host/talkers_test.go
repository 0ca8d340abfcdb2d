package host_test

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// echo says what it was asked, message by message, in pieces.
var echo = model(func(_ context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		for _, m := range req.Messages {
			if !yield(llm.Chunk{Text: []byte("[" + string(m.Role) + ": ")}, nil) || !yield(llm.Chunk{Text: []byte(m.Text + "]")}, nil) {
				return
			}
		}
		yield(llm.Chunk{Finish: messages.FinishComplete, Usage: messages.Usage{Input: 12, Output: 7, CacheRead: 3}}, nil)
	}
})

// kitsuAgent replaces its first text by a second one.
func kitsuAgent(t *testing.T) *stile.Agent {
	t.Helper()
	man := manifest.Default("kitsu")
	man.Name, man.Kitsu.Search = "kitsu", manifest.SearchStub
	return &stile.Agent{Manifest: man, Model: scripted.New("Let me see.\n<action:search query=\"weather\">\n", "It will rain.")}
}

// talkers is a door with agents of all manners: one that repeats, one that replaces its
// text, one that breaks.
func talkers(t *testing.T, more ...*stile.Agent) *door {
	t.Helper()
	broken := model(func(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
		return func(yield func(llm.Chunk, error) bool) {
			if yield(llm.Chunk{Text: []byte("I beg")}, nil) {
				yield(llm.Chunk{}, errors.New("the wire is cut"))
			}
		}
	})
	return serve(t, host.Config{}, append(more, agentOf("echo", echo), kitsuAgent(t), agentOf("broken", broken))...)
}
