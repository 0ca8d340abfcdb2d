package stile_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// A session with calls, carried streams, a rejected token and a fork replays to
// the same hashes, from the data directory alone.
func TestReplay(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "log.txt"), []byte("rope 3\nsail 4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := manifest.Default("aeiou")
	m.Name = "replayed"
	m.Import.Tools = []string{"file.read"}
	agent := &stile.Agent{Manifest: m, Dir: dir, Model: scripted.New(
		"command\n set text = tool.file.read(\"log.txt\")\n emit text\n whisper self, \"read it\"\n emit tool.aeiou.magic(\"LOOP\", {\"action\": \"continue\"})\nendcommand",
		"command\n on error as e do\n  emit \"caught \" + e.code\n  clear_error\n endon\n set x = tool.file.read(\"../secret\")\n set tok = tool.aeiou.magic(\"LOOP\", {\"action\": \"done\"})\n emit tok\n emit tok\nendcommand",
		"command\n emit 1/0\nendcommand",
		"command\n while true\n  set x = 1\n endwhile\nendcommand",
	)}
	rt, err := stile.New(ctx, stile.Config{Dir: filepath.Join(dir, "data")})
	if err != nil {
		t.Fatal(err)
	}
	s, err := rt.Open(ctx, "a", agent)
	if err != nil {
		t.Fatal(err)
	}
	want := []messages.Code{"", messages.ErrActionsRuntime, messages.ErrQuota}
	for i, code := range want {
		run, err := s.Submit(ctx, "go")
		if err != nil {
			t.Fatal(err)
		}
		d, err := run.Decision(ctx)
		if err != nil || d.Reason != code {
			t.Fatalf("run %d: %v %q %s, %v", i+1, d.Decision, d.Reason, d.Detail, err)
		}
	}
	fork, err := rt.Fork(ctx, "a", 1, "b")
	if err != nil {
		t.Fatal(err)
	}
	if err := rt.Close(ctx); err != nil {
		t.Fatal(err)
	}
	ar, err := stile.OpenArchive(filepath.Join(dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	defer ar.Close()
	for head, err := range ar.Sessions(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		rep, err := ar.Replay(ctx, head.Inc, nil)
		if err != nil {
			t.Errorf("%s: %v", head.SID, err)
		}
		if rep.Head != head.Hash {
			t.Errorf("%s: replayed to %s, the head is %s", head.SID, rep.Head, head.Hash)
		}
		t.Logf("%s: %+v", head.SID, rep)
		v, err := ar.Verify(ctx, head.Inc, stile.VerifyOptions{})
		if err != nil || !v.OK() {
			t.Errorf("%s: %+v %v", head.SID, v, err)
		}
	}
	_ = fork
	_ = journal.Anchor{}
}
