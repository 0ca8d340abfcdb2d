package tests

import (
	"context"
	"iter"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// Two hosts work on one journal. Who follows at one of them what the other runs hears
// that, and when the other has gone the run reads interrupted, goes on here and ends.
func TestAHostThatHasGone(t *testing.T) {
	dir := t.TempDir()
	host := func(m llm.Model) (*stile.Runtime, *stile.Agent) {
		a := &stile.Agent{Manifest: manifest.Default("plain"), Model: m}
		a.Manifest.Name = "talker"
		return start(t, stile.Config{Dir: dir, Agents: []*stile.Agent{a}}), a
	}
	stuck := model(func(ctx context.Context, _ llm.Request) iter.Seq2[llm.Chunk, error] {
		return func(yield func(llm.Chunk, error) bool) {
			<-ctx.Done()
			yield(llm.Chunk{Finish: messages.FinishCancelled}, nil)
		}
	})
	first, a := host(stuck)
	second, _ := host(says("hello"))
	status := func(want stile.Status) {
		t.Helper()
		h, err := second.Archive().Head(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := second.Archive().Status(t.Context(), h); err != nil || got != want {
			t.Fatalf("%s, %v; want %s", got, err, want)
		}
	}
	theirs := open(t, first, "s", a)
	run := submit(t, theirs, "go")
	status(stile.StatusRunning)
	ours, err := second.Find(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}

	// What the other writes is heard.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	heard := make(chan messages.Kind, 64)
	go func() {
		defer close(heard)
		for u, err := range ours.Events(ctx, 0) {
			if err != nil {
				return
			}
			if u.Record != nil {
				heard <- u.Record.Body.Kind()
			}
		}
	}()
	until := func(want messages.Kind) {
		t.Helper()
		for k := range heard {
			if k == want {
				return
			}
		}
		t.Fatalf("the stream ended without %s", want)
	}
	until(messages.KindRunBegin)
	if err := run.Cancel(t.Context(), "ada"); err != nil {
		t.Fatal(err)
	}
	until(messages.KindRunEnd)

	// What it leaves is gone on with.
	submit(t, theirs, "again")
	until(messages.KindRunBegin)
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(messages.KindRunEnd)
	status(stile.StatusIdle)
}
