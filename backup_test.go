package stile_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// A backup of a runtime at work is the journal as it was at one moment; restored it
// verifies, without what was erased, and its sessions go on.
func TestBackup(t *testing.T) {
	ctx := context.Background()
	dir, dest, back := t.TempDir(), filepath.Join(t.TempDir(), "b"), filepath.Join(t.TempDir(), "back")
	rt := start(t, stile.Config{Dir: dir})
	agent := &stile.Agent{Dialect: "plain", Model: said("good day")}
	s := opened(t, rt, "s", agent)
	decided(t, submitted(t, s, "hello"))
	erased := opened(t, rt, "erased", agent)
	decided(t, submitted(t, erased, "swordfish"))
	if err := rt.Delete(ctx, "erased", "test"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tokens.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() { // the runtime works on
		busy := opened(t, rt, "busy", agent)
		for {
			select {
			case <-stop:
				return
			default:
				decided(t, submitted(t, busy, "hello"))
			}
		}
	})
	b, err := stile.MakeBackup(ctx, dir, dest, "tokens.json", "absent.json")
	close(stop)
	wg.Wait()
	if err != nil || b.Sessions < 2 || len(b.Files) != 3 {
		t.Fatalf("%+v, %v", b, err)
	}
	files, err := os.ReadDir(dest)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(dest, f.Name()))
		if info, ierr := f.Info(); err != nil || ierr != nil || info.Mode().Perm()&0o077 != 0 || bytes.Contains(data, []byte("swordfish")) {
			t.Errorf("%s: %v %v %v", f.Name(), info.Mode(), err, ierr)
		}
	}
	if _, err := stile.MakeBackup(ctx, dir, dest); messages.CodeOf(err) != messages.ErrConfig {
		t.Errorf("over a backup: %v", err)
	}
	got, err := stile.RestoreBackup(ctx, dest, back)
	if err != nil || got.Records != b.Records {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := stile.RestoreBackup(ctx, dest, back); messages.CodeOf(err) != messages.ErrConfig || !strings.Contains(err.Error(), "already") {
		t.Errorf("over a directory in use: %v", err)
	}
	again := start(t, stile.Config{Dir: back})
	same := opened(t, again, "s", agent)
	if same.Incarnation() != s.Incarnation() {
		t.Error("the session is another one")
	}
	decided(t, submitted(t, same, "hello again"))
	if rep, err := again.Archive().Verify(ctx, same.Incarnation(), stile.VerifyOptions{}); err != nil || !rep.OK() {
		t.Errorf("%+v, %v", rep, err)
	}
}

// A backup that was changed is not restored, and what is refused leaves nothing.
func TestBackupChanged(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	rt := start(t, stile.Config{Dir: dir})
	decided(t, submitted(t, opened(t, rt, "s", &stile.Agent{Dialect: "plain", Model: said("good day")}), "hello"))
	for name, change := range map[string]func(dest string) error{
		"a byte of the journal": func(dest string) error {
			path := filepath.Join(dest, "journal.db")
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			b[len(b)/2] ^= 1
			return os.WriteFile(path, b, 0o600)
		},
		"keys gone":         func(dest string) error { return os.Remove(filepath.Join(dest, "keys.json")) },
		"no description":    func(dest string) error { return os.Remove(filepath.Join(dest, "backup.json")) },
		"empty description": func(dest string) error { return os.WriteFile(filepath.Join(dest, "backup.json"), []byte("{}"), 0o600) },
		"a way out": func(dest string) error {
			return os.WriteFile(filepath.Join(dest, "backup.json"), []byte(`{"format": 1, "files": [{"name": "../x"}]}`), 0o600)
		},
		"another member": func(dest string) error {
			return os.WriteFile(filepath.Join(dest, "backup.json"), []byte(`{"format": 1, "more": 1}`), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dest, back := filepath.Join(t.TempDir(), "b"), filepath.Join(t.TempDir(), "back")
			if _, err := stile.MakeBackup(ctx, dir, dest); err != nil {
				t.Fatal(err)
			}
			if err := change(dest); err != nil {
				t.Fatal(err)
			}
			if _, err := stile.RestoreBackup(ctx, dest, back); messages.CodeOf(err) != messages.ErrConfig {
				t.Errorf("restored with %v", err)
			}
			if _, err := os.Stat(filepath.Join(back, "journal.db")); err == nil {
				t.Error("a journal was left")
			}
		})
	}
	if _, err := stile.MakeBackup(ctx, t.TempDir(), filepath.Join(t.TempDir(), "b")); messages.CodeOf(err) != messages.ErrConfig {
		t.Errorf("of nothing: %v", err)
	}
	// One that fails before something is copied can be made again.
	dest := filepath.Join(t.TempDir(), "b")
	stopped, stop := context.WithCancel(ctx)
	stop()
	if _, err := stile.MakeBackup(stopped, dir, dest); err == nil {
		t.Error("made although no caller waited")
	}
	t.Chdir(filepath.Dir(dest)) // and be named relative to the working directory
	if _, err := stile.MakeBackup(ctx, dir, filepath.Base(dest)); err != nil {
		t.Error(err)
	}
}
