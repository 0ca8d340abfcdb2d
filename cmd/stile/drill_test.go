package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/seed14be6753/stile"
)

// drillCommands are the lines of commands in the drill of the documentation.
func drillCommands(t *testing.T) (lines []string) {
	t.Helper()
	b, err := os.ReadFile("../../docs/howto/backup.md")
	if err != nil {
		t.Fatal(err)
	}
	_, drill, ok := strings.Cut(string(b), "## The drill")
	if !ok {
		t.Fatal("there is no drill")
	}
	for line := range strings.Lines(drill) {
		if text, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "    stile "); ok {
			lines = append(lines, text)
		}
	}
	if len(lines) < 6 {
		t.Fatalf("the drill has %d commands", len(lines))
	}
	return lines
}

// The drill of docs/howto/backup.md runs as it stands there; and it fails for a backup that was changed.
func TestDrill(t *testing.T) {
	lines := drillCommands(t)
	agent, err := filepath.Abs(example("plain/agent.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for _, name := range []string{"ada", "bob"} {
		must(t, "run", agent, "I am Ada.", "--dir", "stile-data", "--session", name)
	}
	must(t, "tokens", "create", "--dir", "stile-data", "--scope", "read", "--note", "of the drill")
	var restore []string
	for _, line := range lines {
		command, out, redirected := strings.Cut(line, " > ")
		args := strings.Fields(command)
		a := stileDo(t, args...)
		if a.status != 0 {
			t.Fatalf("stile %s: status %d\n%s%s", line, a.status, a.out, a.err)
		}
		if redirected {
			if err := os.WriteFile(out, []byte(a.out), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		switch args[0] {
		case "backup":
			if args[1] == "backup-1" { // what the increment has
				must(t, "run", agent, "I am Cleo.", "--dir", "stile-data", "--session", "cleo")
				must(t, "run", agent, "I am Ada again.", "--dir", "stile-data", "--session", "ada")
				rt, err := stile.New(t.Context(), stile.Config{Dir: "stile-data"})
				if err == nil {
					err = errors.Join(rt.Delete(t.Context(), "bob", "drill"), rt.Close(t.Context()))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		case "restore":
			restore = args
		case "verify":
			holds(t, a.out, "3 sessions, 0 with problems")
		case "replay":
			holds(t, a.out, "2 sessions replayed, 3 turns, 0 different, 1 left out")
		case "tokens":
			holds(t, a.out, "of the drill")
		}
	}
	for _, name := range []string{"audit.jsonl", "tokens.json"} {
		was, err := os.ReadFile(filepath.Join("stile-data", name))
		is, bad := os.ReadFile(filepath.Join("drill", name))
		if err != nil || bad != nil || string(was) != string(is) || len(is) == 0 {
			t.Errorf("%s did not come back as it was: %v %v", name, err, bad)
		}
	}
	audit := filepath.Join("backup-1", "audit.jsonl") // which the increment has not copied again
	b, err := os.ReadFile(audit)
	if err == nil {
		err = os.WriteFile(audit, append(b, ' '), 0o600)
	}
	if err != nil || restore == nil {
		t.Fatal(err)
	}
	restore[slices.Index(restore, "drill")] = "drill-2"
	if a := stileDo(t, restore...); a.status == 0 || !strings.Contains(a.err, "audit.jsonl") {
		t.Errorf("a changed backup: %+v", a)
	}
}

// A host makes a backup when the last one that is there is old enough, keeps as many as it should, and removes
// what was not finished.
func TestScheduledBackups(t *testing.T) {
	dir, into := t.TempDir(), t.TempDir()
	must(t, "run", example("plain/agent.yaml"), "I am Ada.", "--dir", dir, "--session", "ada")
	for _, name := range []string{"stile-20260101T000000Z", "stile-20260102T000000Z", "stile-20260103T000000Z", "of-another", "stile-notes"} {
		if err := os.Mkdir(filepath.Join(into, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if name == "stile-20260103T000000Z" { // not finished
			continue
		}
		if err := os.WriteFile(filepath.Join(into, name, stile.BackupFile), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rt, err := stile.New(t.Context(), stile.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	s := &backupSettings{Dir: into, Every: time.Hour, Keep: 2}
	if err := backUp(t.Context(), rt, dir, s, zap.NewNop()); err != nil {
		t.Fatal(err)
	}
	names, err := scheduledIn(into, false)
	if err != nil || len(names) != 2 || names[0] != "stile-20260102T000000Z" {
		t.Fatal(names, err)
	}
	if b, err := stile.CheckBackup(t.Context(), filepath.Join(into, names[1])); err != nil || b.Sessions != 1 || b.Signature == nil {
		t.Errorf("%+v %v", b, err)
	}
	for _, name := range []string{"of-another", "stile-notes"} {
		if _, err := os.Stat(filepath.Join(into, name)); err != nil {
			t.Errorf("what is no backup of the schedule was removed: %v", err)
		}
	}
	if err := rt.Close(context.Background()); err != nil {
		t.Error(err)
	}
	for text, want := range map[string]string{
		"backup: {dir: b, whole: 1h}":        "backup.whole",
		"backup: {dir: b}\nmemory: true":     "backup.dir",
		"backup: {dir: b, every: 1s}":        "backup.every",
		"backup: {dir: b, keep: 0}":          "backup.keep",
		"backup: {dir: b, every: sometimes}": "backup.every",
		"backup: {folder: b}":                "backup.folder",
	} {
		config := write(t, t.TempDir(), "stile.yaml", text+"\n")
		if a := stileDo(t, "serve", example("plain/agent.yaml"), "--config", config); a.status != 2 || !strings.Contains(a.err, want) {
			t.Errorf("%s: %+v", text, a)
		}
	}
	config := write(t, t.TempDir(), "stile.yaml", "backup: {dir: b}\n")
	shared := map[string]string{envJournal: "postgres://127.0.0.1:1/none"}
	if a := (call{args: []string{"serve", example("plain/agent.yaml"), "--config", config}, env: shared}).do(t); a.status != 2 || !strings.Contains(a.err, "backup.dir") {
		t.Errorf("with a journal in a database: %+v", a)
	}
}

// Between whole backups a host makes increments; one that cannot be made is a whole backup; and what is removed
// goes with its increments.
func TestScheduledIncrements(t *testing.T) {
	dir, into := t.TempDir(), t.TempDir()
	must(t, "run", example("plain/agent.yaml"), "I am Ada.", "--dir", dir, "--session", "ada")
	rt, err := stile.New(t.Context(), stile.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close(context.Background())
	s := &backupSettings{Dir: into, Every: time.Minute, Whole: time.Hour, Keep: 2}
	core, lines := observer.New(zap.InfoLevel)
	// made makes a backup, and dates it back: a name has whole seconds.
	made := func(name string) string {
		t.Helper()
		if err := backUp(t.Context(), rt, dir, s, zap.New(core)); err != nil {
			t.Fatal(err)
		}
		names, err := scheduledIn(into, false)
		if err == nil {
			err = os.Rename(filepath.Join(into, names[len(names)-1]), filepath.Join(into, name))
		}
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	now := time.Now().UTC()
	named := func(ago time.Duration) string { return scheduledPrefix + now.Add(-ago).Format(scheduledTime) }
	old := made(named(3 * time.Hour))
	whole := made(named(50 * time.Minute))
	first := made(named(40 * time.Minute))
	second := made(named(30 * time.Minute))
	for name, want := range map[string]bool{old: false, whole: false, first: true, second: true} {
		if got := isIncrement(into, name); got != want {
			t.Errorf("%s is an increment: %v", name, got)
		}
	}
	if b, err := stile.CheckBackup(t.Context(), filepath.Join(into, second)); err != nil || b.Base == nil || b.Base.Folder != first || b.Sessions != 1 {
		t.Errorf("%+v %v", b, err)
	}
	if err := os.WriteFile(filepath.Join(into, first, "increment.db"), nil, 0o600); err != nil { // no link of a chain
		t.Fatal(err)
	}
	third := made(named(20 * time.Minute))
	names, err := scheduledIn(into, false)
	if err != nil || isIncrement(into, third) || slices.Contains(names, old) || len(names) != 4 || lines.FilterMessageSnippet("a whole backup is made").Len() != 1 {
		t.Errorf("%q %v %v", names, err, lines.All())
	}
	s.Keep = 1
	fourth := made(named(10 * time.Minute))
	if names, err := scheduledIn(into, false); err != nil || !slices.Equal(names, []string{third, fourth}) || !isIncrement(into, fourth) {
		t.Errorf("%q %v", names, err)
	}
}

// The time since the last backup counts over a restart: none is made before it is due.
func TestScheduleWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		into := t.TempDir()
		last := filepath.Join(into, scheduledPrefix+time.Now().UTC().Add(-time.Hour).Format(scheduledTime))
		if err := os.Mkdir(last, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(last, stile.BackupFile), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		rt, err := stile.New(t.Context(), stile.Config{InMemory: true}) // nothing to copy: each attempt fails
		if err != nil {
			t.Fatal(err)
		}
		defer rt.Close(context.Background())
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		core, lines := observer.New(zap.ErrorLevel)
		go func() {
			defer close(ended)
			scheduled(ctx, rt, t.TempDir(), &backupSettings{Dir: into, Every: 24 * time.Hour, Keep: 1}, zap.New(core))
		}()
		time.Sleep(23*time.Hour - 2*time.Second)
		synctest.Wait()
		if n := lines.Len(); n != 0 {
			t.Errorf("%d attempts before it was due", n)
		}
		time.Sleep(3*time.Second + time.Minute)
		synctest.Wait()
		if n := lines.Len(); n != 2 {
			t.Errorf("%d attempts when it was due and a minute later, want 2", n)
		}
		cancel()
		<-ended
	})
}
