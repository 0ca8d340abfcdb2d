package stile_test

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/messages"
)

// inputs are what a session was told, in order; one that was cancelled before its run began
// has a mark.
func inputs(t *testing.T, s *stile.Session) (all []string) {
	t.Helper()
	runs := map[int64]int{}
	for r, err := range s.Records(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		switch b := r.Body.(type) {
		case *messages.Input:
			runs[r.Run] = len(all)
			all = append(all, b.Text+b.Userdata)
		case *messages.RunEnd:
			if strings.Contains(b.Detail, "before it began") {
				all[runs[r.Run]] += " (left)"
			}
		}
	}
	return all
}

// A fork that is stopped has ended at its turn: nothing goes on, also after a restart, and
// the next input is its next run. The fork beside it goes on with the old input.
func TestForkStopped(t *testing.T) {
	ctx := context.Background()
	data := filepath.Join(t.TempDir(), "data")
	rt := start(t, stile.Config{Dir: data})
	look := `<execute>[{"name":"note.look","args":{"text":"x"}}]</execute>`
	agent := func() *stile.Agent {
		a, _ := noted(t, "cogency", look, "<respond>seen</respond><end>", "<respond>more</respond><end>")
		return a
	}
	s := opened(t, rt, "a", agent())
	if d := decided(t, submitted(t, s, "look")); d.Decision != stile.Done || d.Turn.TurnIndex != 2 {
		t.Fatalf("%+v", d)
	}
	plain, err := rt.Fork(ctx, "a", 1, "goes")
	if err != nil || !plain.Open {
		t.Fatalf("%+v %v", plain, err)
	}
	h, err := rt.ForkStopped(ctx, "a", 1, "stops")
	if err != nil || h.Open || h.Queued != 0 || h.Turn != 1 {
		t.Fatalf("%+v %v", h, err)
	}
	if h, err = rt.ForkStopped(ctx, "a", 2, "was-over"); err != nil || h.Open {
		t.Fatalf("%+v %v", h, err)
	}
	closed(t, rt)
	rt = start(t, stile.Config{Dir: data})
	stopped := opened(t, rt, "stops", agent())
	if d := decided(t, stopped.Run(1)); d.Decision != stile.Halt || d.Reason != messages.ErrCancelled || d.Detail != "ended by the fork" {
		t.Errorf("%+v", d)
	}
	if d := decided(t, submitted(t, stopped, "again")); d.Turn.TurnIndex != 2 {
		t.Errorf("%+v", d)
	}
	if d := decided(t, opened(t, rt, "goes", agent()).Run(1)); d.Decision != stile.Done || d.Turn.TurnIndex != 2 {
		t.Errorf("%+v", d)
	}
	_, err = rt.ForkStopped(ctx, "a", 9, "none")
	wantCode(t, err, messages.ErrNotFound)
	replays(t, rt.Archive(), agent())
}

// A fork with an input has what was before the run, and says the new words there; they are
// on disk with it and run when it is opened after a restart. Waiting inputs stay behind.
func TestForkInput(t *testing.T) {
	ctx := context.Background()
	data := filepath.Join(t.TempDir(), "data")
	rt := start(t, stile.Config{Dir: data})
	model := &gated{open: make(chan struct{}), Model: said("yes")}
	agent := &stile.Agent{Dialect: "plain", Model: model}
	s := opened(t, rt, "a", agent)
	one := submitted(t, s, "one", stile.Zone("Europe/Oslo"), stile.User("ann"), stile.IdempotencyKey("k"))
	two := submitted(t, s, "two")
	close(model.open)
	decided(t, one)
	decided(t, two)
	three := submitted(t, s, "three")
	decided(t, three)
	for _, f := range []struct {
		at         int64
		text, name string
		want       []string
	}{
		{1, "uno", "f1", []string{"uno"}},
		{2, "due", "f2", []string{"one", "two (left)", "due"}},
		{0, "tre", "f3", []string{"one", "two", "tre"}},
		{1, "", "same", []string{"one"}},
	} {
		h, err := rt.ForkInput(ctx, "a", f.at, f.name, f.text)
		if err != nil || h.Queued != 1 || h.Open {
			t.Fatalf("%s: %+v %v", f.name, h, err)
		}
	}
	closed(t, rt)
	rt = start(t, stile.Config{Dir: data})
	for name, want := range map[string][]string{"f1": {"uno"}, "f2": {"one", "two (left)", "due"}, "f3": {"one", "two", "tre"}, "same": {"one"}} {
		s := opened(t, rt, name, agent)
		last := int64(len(want))
		if d := decided(t, s.Run(last)); d.Decision != stile.Done {
			t.Errorf("%s: %+v", name, d)
		}
		if got := inputs(t, s); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
		decided(t, submitted(t, s, "on", stile.IdempotencyKey("k2")))
	}
	for r, err := range opened(t, rt, "same", agent).Records(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if b, ok := r.Body.(*messages.Input); ok && b.Text == "one" && (b.Zone != "Europe/Oslo" || b.User != "ann" || b.Key != "") {
			t.Errorf("%+v", b)
		}
	}
	_, err := rt.ForkInput(ctx, "a", 9, "none", "x")
	wantCode(t, err, messages.ErrNotFound)
	_, err = rt.ForkInput(ctx, "a", 1, "f1", "x")
	wantCode(t, err, messages.ErrConflict)
	if _, err := rt.ForkInput(ctx, "f2", 2, "again", "fork of a fork"); err != nil {
		t.Error(err)
	}
	replays(t, rt.Archive(), agent)
}

// The dialect checks the new input as it would a submitted one.
func TestForkInputIsChecked(t *testing.T) {
	ctx := context.Background()
	rt := start(t, stile.Config{InMemory: true})
	agent := &stile.Agent{Dialect: "aeiou", Model: scripted.New(
		"command\n emit tool.aeiou.magic(\"LOOP\", {\"action\": \"done\"})\nendcommand", "command\n emit tool.aeiou.magic(\"LOOP\", {\"action\": \"done\"})\nendcommand",
	)}
	s := opened(t, rt, "a", agent)
	decided(t, submitted(t, s, "first"))
	if _, err := rt.ForkInput(ctx, "a", 1, "b", "second"); err != nil {
		t.Fatal(err)
	}
	b := opened(t, rt, "b", agent)
	decided(t, b.Run(1))
	if got := inputs(t, b); len(got) != 1 || !strings.Contains(got[0], `"text":"second"`) {
		t.Errorf("%q", got)
	}
	_, err := rt.ForkInput(ctx, "a", 1, "c", `{"subject": 3, "fields": {}}`)
	wantCode(t, err, messages.ErrUserdataSchema)
	if _, err := rt.Archive().Head(ctx, "c"); !stile.IsNotFound(err) {
		t.Errorf("a refused fork is there: %v", err)
	}
	replays(t, rt.Archive(), agent)
}
