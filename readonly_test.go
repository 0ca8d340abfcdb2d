package stile_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// A runtime that only shows a journal reads all of it and changes nothing: each call that would is
// refused by name, without a key file, and also while another runtime works on the journal, whose
// records are seen as they come.
func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	man := manifest.Default("plain")
	man.Name = "plain"
	agent := &stile.Agent{Manifest: man, Model: stile.ScriptedModel("one.", "two.")}
	rt, err := stile.New(t.Context(), stile.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	ses, err := rt.Open(t.Context(), "a", agent)
	if err != nil {
		t.Fatal(err)
	}
	say := func(text string) {
		t.Helper()
		run, err := ses.Submit(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Decision(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	say("one")
	if err := os.Rename(filepath.Join(dir, stile.KeyFile), filepath.Join(dir, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	ro, err := stile.New(t.Context(), stile.Config{Dir: dir, ReadOnly: true, Agents: []*stile.Agent{agent}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, stile.KeyFile)); err == nil {
		t.Error("it made a key file")
	}
	if !ro.ReadOnly() || rt.ReadOnly() {
		t.Error("ReadOnly is not what was configured")
	}
	shown, err := ro.Find(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	before, err := shown.Head(t.Context())
	if err != nil || shown.AgentName() != "plain" {
		t.Fatal(err, shown.AgentName())
	}
	by := stile.Approval{ID: "x"}
	for name, err := range map[string]error{
		"Open":          second(ro.Open(t.Context(), "b", agent)),
		"Submit":        second(shown.Submit(t.Context(), "two")),
		"Cancel":        shown.Cancel(t.Context(), "ann"),
		"Approve":       shown.Approve(t.Context(), by, "ann"),
		"Describe":      shown.Describe(t.Context(), "title"),
		"Wake":          shown.Wake(t.Context()),
		"Feeds":         second(shown.Feeds(t.Context())),
		"Fork":          second(ro.Fork(t.Context(), "a", 1, "b")),
		"Delete":        ro.Delete(t.Context(), "a", "ann"),
		"EraseUser":     second(ro.EraseUser(t.Context(), "local", "local", "ann")),
		"RotateKeys":    ro.RotateKeys(t.Context(), 0),
		"ForgetProfile": ro.ForgetProfile(t.Context(), "local", "local"),
	} {
		var e *messages.Error
		if !errors.As(err, &e) || e.Code != messages.ErrDenied || e.Reason != stile.ReasonReadOnly {
			t.Errorf("%s: %v", name, err)
		}
	}
	if now, err := shown.Head(t.Context()); err != nil || now.Seq != before.Seq || now.Hash != before.Hash {
		t.Errorf("the session is at %d, was at %d: %v", now.Seq, before.Seq, err)
	}
	report, err := ro.Archive().Verify(t.Context(), shown.Incarnation(), stile.VerifyOptions{})
	if err != nil || len(report.Problems) > 0 {
		t.Errorf("%v %+v", err, report)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	said := make(chan error, 1)
	go func() {
		for u, err := range shown.Events(ctx, before.Seq) {
			if err != nil || u.Record != nil && u.Record.Body.Kind() == messages.KindRunEnd {
				said <- err
				return
			}
		}
		said <- errors.New("the events ended")
	}()
	say("two")
	if err := <-said; err != nil {
		t.Error(err)
	}
	for _, r := range []*stile.Runtime{ro, rt} {
		if err := r.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if _, err := stile.New(t.Context(), stile.Config{Dir: t.TempDir(), ReadOnly: true}); !errors.Is(err, os.ErrNotExist) && err == nil {
		t.Error("a directory without a journal is shown")
	}
}

func second[T any](_ T, err error) error { return err }
