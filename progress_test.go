package stile_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// Progress reaches those who ask for it while the tool runs, ten times a second at most, and
// no one else; the journal has none of it.
func TestProgress(t *testing.T) {
	ctx := context.Background()
	followed, seen, kept := make(chan struct{}), make(chan struct{}, 1), make(chan *stile.ToolCall, 1)
	index, err := stile.DefineToolCall("files.index", "Indexes files.", stile.ReadOnly, func(ctx context.Context, c *stile.ToolCall, _ struct{}) (string, error) {
		<-followed
		c.Progress(1, 3, "one\nfile "+strings.Repeat("…", 200))
		c.Progress(2, 3, "too soon")
		for { // what is told between the records that are read and those that come live is lost
			c.Progress(3, 3, "all")
			select {
			case <-seen:
				kept <- c
				return "indexed", nil
			case <-ctx.Done():
				return "", ctx.Err()
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now() // the clock stands still: what is told at once is too soon
	rt, err := stile.New(ctx, stile.Config{InMemory: true, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close(ctx)
	agent := &stile.Agent{Dialect: "cortex", Tools: []stile.Tool{index}, Model: stile.ScriptedModel(`<action id="i" mode="sync">{"name":"files.index","parameters":{}}</action>`, `<response>Done.</response>`)}
	s, err := rt.Open(ctx, "files", agent)
	if err != nil {
		t.Fatal(err)
	}
	run, err := s.Submit(ctx, "go")
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	var first sync.Once
	for u, err := range run.Events(stile.WithProgress(ctx)) {
		if err != nil {
			t.Fatal(err)
		}
		// Not at action.started: of a tool that only reads, that record may wait for the tool's end.
		first.Do(func() { close(followed) })
		if u.Delta == nil || u.Delta.Kind != messages.KindProgress {
			continue
		}
		line, err := stile.AppendUpdate(nil, u)
		if err != nil {
			t.Fatal(err)
		}
		var p struct {
			Type, Action, Text     string
			Done, Total, Run, Turn int64
		}
		if err := json.Unmarshal(line, &p); err != nil || p.Type != "progress" || p.Action != "i" || p.Total != 3 || p.Run != 1 || p.Turn != 1 || len(p.Text) > 220 || strings.Contains(p.Text, "\n") {
			t.Errorf("%s, %v", line, err)
		}
		if u.At.Seq == 0 || u.Delta.Seq != u.At.Seq {
			t.Errorf("a reader that has seen %s resumes at %v", line, u.At)
		}
		told = append(told, p.Text)
		if p.Done == p.Total {
			select {
			case seen <- struct{}{}:
			default:
			}
		}
	}
	if n := len(told); n == 0 || told[n-1] != "all" || slices.Contains(told, "too soon") || told[0] != "all" && !strings.HasPrefix(told[0], "one file …") {
		t.Errorf("%q", told)
	}
	(<-kept).Progress(3, 3, "late") // nothing comes of it
	for u, err := range run.Events(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if u.Delta != nil && u.Delta.Kind == messages.KindProgress {
			t.Error("progress came unasked")
		}
	}
}

// A run that is followed without WithProgress gets text and records alone, also while a tool
// reports.
func TestProgressUnasked(t *testing.T) {
	ctx := context.Background()
	goOn := make(chan struct{})
	work, err := stile.DefineToolCall("work.do", "Works.", stile.ReadOnly, func(ctx context.Context, c *stile.ToolCall, _ struct{}) (string, error) {
		<-goOn
		c.Progress(1, 1, "done")
		return "worked", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	rt, err := stile.New(ctx, stile.Config{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close(ctx)
	s, err := rt.Open(ctx, "w", &stile.Agent{Dialect: "cortex", Tools: []stile.Tool{work}, Model: stile.ScriptedModel(`<action id="i" mode="sync">{"name":"work.do","parameters":{}}</action>`, `<response>Done.</response>`)})
	if err != nil {
		t.Fatal(err)
	}
	run, err := s.Submit(ctx, "go")
	if err != nil {
		t.Fatal(err)
	}
	for u, err := range run.Events(ctx) {
		switch {
		case err != nil:
			t.Fatal(err)
		case u.Delta != nil && u.Delta.Kind == messages.KindProgress:
			t.Error("progress came unasked")
		case u.Record != nil && u.Record.Body.Kind() == messages.KindActionStarted:
			close(goOn)
		}
	}
	if text, err := run.Text(ctx); err != nil || text != "Done." {
		t.Errorf("%q, %v", text, err)
	}
}
