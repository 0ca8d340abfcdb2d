package stile_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

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

// An increment restores to what the journal was; an earlier point in time comes without what was erased or
// revoked later; and a chain that lacks or changed a link is refused.
func TestBackupIncrements(t *testing.T) {
	ctx := context.Background()
	dir, into := t.TempDir(), t.TempDir()
	at := func(name string) string { return filepath.Join(into, name) }
	tokens := func(text string) {
		if err := os.WriteFile(filepath.Join(dir, "tokens.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// dated sets the time at which a backup, which is not signed, was made.
	dated := func(name string, hour int) {
		doc, err := os.ReadFile(filepath.Join(at(name), stile.BackupFile))
		if err == nil {
			doc = regexp.MustCompile(`"made": "[^"]*"`).ReplaceAll(doc, fmt.Appendf(nil, `"made": "2026-11-21T%02d:00:00Z"`, hour))
			err = os.WriteFile(filepath.Join(at(name), stile.BackupFile), doc, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	rt := start(t, stile.Config{Dir: dir})
	agent := &stile.Agent{Dialect: "plain", Model: said("good day")}
	a := opened(t, rt, "a", agent)
	decided(t, submitted(t, a, "one"))
	tokens("first")
	whole, err := stile.MakeBackup(ctx, dir, at("0"), "tokens.json")
	if err != nil {
		t.Fatal(err)
	}
	dated("0", 9)
	decided(t, submitted(t, opened(t, rt, "b", agent), "swordfish"))
	one, err := stile.MakeBackupSince(ctx, nil, dir, at("1"), at("0"), "tokens.json")
	if err != nil || one.Sessions != 2 || one.Records <= whole.Records {
		t.Fatalf("%+v, %v", one, err)
	}
	dated("1", 10)
	for _, f := range one.Files { // what has not changed is not copied again
		if _, err := os.Stat(filepath.Join(at("1"), f.Name)); (f.In == "") != (err == nil) || (f.Name == "tokens.json") != (f.In == "0") && f.Name != "keys.json" {
			t.Errorf("%+v: %v", f, err)
		}
	}
	if err := rt.Delete(ctx, "b", "test"); err != nil {
		t.Fatal(err)
	}
	decided(t, submitted(t, a, "two"))
	tokens("second")
	if _, err := stile.MakeBackupSince(ctx, rt.Keys(), dir, at("2"), at("1"), "tokens.json"); err != nil {
		t.Fatal(err)
	}
	texts := func(dir, name string) (all string) {
		t.Helper()
		ar, err := stile.OpenArchive(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer ar.Close()
		h, err := ar.Head(ctx, name)
		if err != nil {
			return "none"
		}
		for r, err := range ar.Records(ctx, h.Inc) {
			if err != nil {
				t.Fatal(err)
			}
			if in, ok := r.Body.(*messages.Input); ok {
				all += in.Text + "."
			}
		}
		return all
	}
	hour := func(h int) time.Time { return time.Date(2026, 11, 21, h, 30, 0, 0, time.UTC) }
	for name, row := range map[string]struct {
		restore         func(dir string) (stile.Backup, error)
		a, b, tokens    string
		erased, unfound bool
	}{
		"the whole one":        {restore: func(dir string) (stile.Backup, error) { return stile.RestoreBackup(ctx, at("0"), dir) }, a: "one.", b: "none", tokens: "first"},
		"the first increment":  {restore: func(dir string) (stile.Backup, error) { return stile.RestoreBackup(ctx, at("1"), dir) }, a: "one.", b: "swordfish.", tokens: "first"},
		"the last increment":   {restore: func(dir string) (stile.Backup, error) { return stile.RestoreBackup(ctx, at("2"), dir) }, a: "one.two.", erased: true, tokens: "second"},
		"before the erasure":   {restore: func(dir string) (stile.Backup, error) { return stile.RestoreBackupTo(ctx, nil, into, hour(10), dir) }, a: "one.", erased: true, tokens: "second"},
		"before there was one": {restore: func(dir string) (stile.Backup, error) { return stile.RestoreBackupTo(ctx, nil, into, hour(9), dir) }, a: "one.", b: "none", tokens: "second"},
		"now":                  {restore: func(dir string) (stile.Backup, error) { return stile.RestoreBackupTo(ctx, nil, into, time.Now(), dir) }, a: "one.two.", erased: true, tokens: "second"},
		"before the first":     {restore: func(dir string) (stile.Backup, error) { return stile.RestoreBackupTo(ctx, nil, into, hour(8), dir) }, unfound: true},
		"with keys, not all signed": {restore: func(dir string) (stile.Backup, error) {
			b, err := stile.RestoreBackupTo(ctx, rt.Keys().Set(), into, hour(10), dir)
			if !stile.IsUnproved(err) {
				t.Errorf("%v", err)
			}
			return b, &messages.Error{Code: messages.ErrNotFound}
		}, unfound: true},
	} {
		t.Run(name, func(t *testing.T) {
			back := filepath.Join(t.TempDir(), "back")
			b, err := row.restore(back)
			if row.unfound {
				if messages.CodeOf(err) != messages.ErrNotFound {
					t.Errorf("%v", err)
				}
				if _, err := os.Stat(filepath.Join(back, "journal.db")); err == nil {
					t.Error("a journal was left")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := texts(back, "a"); got != row.a {
				t.Errorf("a has %q, want %q", got, row.a)
			}
			if got := texts(back, "b"); !row.erased && got != row.b {
				t.Errorf("b has %q, want %q", got, row.b)
			}
			files, err := os.ReadDir(back)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				data, err := os.ReadFile(filepath.Join(back, f.Name()))
				if err != nil || row.erased && bytes.Contains(data, []byte("swordfish")) {
					t.Errorf("%s: %v, or it has what was erased", f.Name(), err)
				}
				if f.Name() == "tokens.json" && string(data) != row.tokens {
					t.Errorf("tokens %q, want %q", data, row.tokens)
				}
			}
			again := start(t, stile.Config{Dir: back})
			decided(t, submitted(t, opened(t, again, "a", agent), "three"))
			if b.Sessions == 0 {
				t.Errorf("%+v", b)
			}
		})
	}
	if b, err := stile.CheckBackup(ctx, at("2")); err != nil || b.Base == nil {
		t.Errorf("%+v, %v", b, err)
	}
	if _, err := stile.MakeBackupSince(ctx, nil, dir, filepath.Join(t.TempDir(), "3"), at("2")); messages.CodeOf(err) != messages.ErrConfig {
		t.Errorf("elsewhere than its base: %v", err)
	}
	other := t.TempDir()
	decided(t, submitted(t, opened(t, start(t, stile.Config{Dir: other}), "a", agent), "one"))
	if _, err := stile.MakeBackupSince(ctx, nil, other, at("3"), at("2")); err != nil {
		t.Errorf("sessions of other incarnations replace those of the base: %v", err)
	}
	for name, change := range map[string]func() error{
		"a byte of a link": func() error {
			path := filepath.Join(at("1"), "increment.db")
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			b[len(b)/2] ^= 1
			return os.WriteFile(path, b, 0o600)
		},
		"a link's description": func() error { dated("1", 11); return nil },
		"the whole one gone":   func() error { return os.Rename(at("0"), at("elsewhere")) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		back := filepath.Join(t.TempDir(), "back")
		if _, err := stile.RestoreBackup(ctx, at("2"), back); messages.CodeOf(err) != messages.ErrConfig {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(filepath.Join(back, "journal.db")); err == nil {
			t.Errorf("%s: a journal was left", name)
		}
	}
}
