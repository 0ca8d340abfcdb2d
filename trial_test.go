package stile_test

import (
	"context"
	"strings"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/replay"
	"github.com/seed14be6753/stile/messages"
)

// An agent in Go with a manifest and tools of its own is tried as well, and the prompt that the
// model had is made again from the manifest that the journal keeps.
func TestTry(t *testing.T) {
	ctx := context.Background()
	rt := start(t, stile.Config{InMemory: true})
	agent, did := noted(t, "cogency", `<execute>[{"name":"note.add","args":{"text":"x"}}]</execute>`, "<respond>noted</respond><end>")
	agent.Instructions = "Keep notes."
	s := opened(t, rt, "s", agent)
	decided(t, submitted(t, s, "go"))
	head, err := rt.Archive().Head(ctx, "s")
	if err != nil {
		t.Fatal(err)
	}
	edited, _ := noted(t, "cogency")
	edited.Instructions = "Keep short notes."
	trial, err := rt.Archive().Try(ctx, head.Inc, edited)
	if err != nil {
		t.Fatal(err)
	}
	c := trial.Change(replay.ChangedPrompt)
	if c == nil || c.Missing != "" || !strings.Contains(c.Was, "Keep notes.") || !strings.Contains(c.Now, "Keep short notes.") || c.N != 2 || trial.Differ != 2 || trial.Stopped != nil || trial.First() != 1 {
		t.Errorf("%+v", trial)
	}
	// A tool that describes itself otherwise than then: the recorded prompt is lost, and that is said.
	look, err := stile.DefineTool("note.look", "Looks elsewhere.", messages.ReadOnly, func(context.Context, struct{}) (string, error) { return "", nil })
	if err != nil {
		t.Fatal(err)
	}
	edited.Tools[1] = look
	if trial, err = rt.Archive().Try(ctx, head.Inc, edited); err != nil {
		t.Fatal(err)
	}
	if c = trial.Change(replay.ChangedPrompt); c == nil || c.Was != "" || !strings.Contains(c.Missing, "cannot be made again") {
		t.Errorf("%+v", c)
	}
	if did.Load() != 1 {
		t.Errorf("the tool ran %d times", did.Load())
	}
	_, err = rt.Archive().Try(ctx, head.Inc, nil)
	wantCode(t, err, messages.ErrConfig)
}
