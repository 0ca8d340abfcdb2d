package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/internal/audit"
	"github.com/seed14be6753/stile/internal/files"
	"github.com/seed14be6753/stile/messages"
)

// auditLines are the entries of an audit log.
func auditLines(t *testing.T, path string) (all []host.AuditEntry) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(b) {
		var e host.AuditEntry
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

// What a command changes beside a host is in the chain of its audit log, refusals too. A
// directory without a log gets none.
func TestCommandsAreAudited(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	log := filepath.Join(data, audit.Name)
	must(t, "keys", "generate", "--dir", data)
	must(t, "run", example("plain/agent.yaml"), "I am Ada.", "--session", "ada", "--dir", data)
	must(t, "keys", "rotate", "--dir", data)
	if _, err := os.Lstat(log); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("a log is made where no host keeps one: %v", err)
	}
	must(t, "tokens", "create", "--dir", data)

	exported := write(t, t.TempDir(), "keys.jwks", must(t, "keys", "export", "--dir", data))
	must(t, "keys", "rotate", "--dir", data)
	must(t, "keys", "trust", exported, "--dir", data)
	if a := stileDo(t, "keys", "extend", "rcp-nobody", "--dir", data); a.status == 0 {
		t.Errorf("%+v", a)
	}
	must(t, "fork", "ada", "--dir", data)

	holds(t, must(t, "audit", "verify", "--dir", data), "5 lines in 1 file", "each follows the one before")
	all := auditLines(t, log)
	if len(all) != 5 {
		t.Fatalf("%+v", all)
	}
	for i, want := range []host.AuditEntry{
		{Action: "create-token", Tenant: "local", User: "local"},
		{Action: "rotate-keys"},
		{Action: "trust-keys"},
		{Action: "extend-key"},
		{Action: "fork-session", Tenant: "local", User: "local", Session: "ada as local:local:ada-fork"},
	} {
		got := all[i]
		if got.Action != want.Action || got.Tenant != want.Tenant || got.User != want.User || got.Session != want.Session || got.At.IsZero() {
			t.Errorf("%d: %+v", i, got)
		}
		holds(t, got.Token, "command by ")
		if refused := got.Code != ""; refused != (want.Action == "extend-key") {
			t.Errorf("%d: %+v", i, got)
		}
	}
	holds(t, all[1].Detail, "new keys tok-", "fbk-", "rcp-")
	holds(t, all[3].Detail, "key rcp-nobody until ")
}

// What cannot be recorded is not done, and is told with the name of the log.
func TestUnrecordedCommandsChangeNothing(t *testing.T) {
	data := t.TempDir()
	log := filepath.Join(data, "elsewhere.jsonl")
	env := map[string]string{"STILE_AUDIT_LOG": log}
	if a := (call{args: []string{"keys", "generate", "--dir", data}, env: env}).do(t); a.status != 0 {
		t.Fatalf("%+v", a)
	}
	before, err := os.ReadFile(filepath.Join(data, stile.KeyFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(log+audit.HeadSuffix, 0o700); err != nil { // in the way of the lock
		t.Fatal(err)
	}
	a := call{args: []string{"keys", "rotate", "--dir", data}, env: env}.do(t)
	if a.status == 0 {
		t.Errorf("%+v", a)
	}
	holds(t, a.err, log, string(messages.ErrAudit), "nothing was changed")
	after, err := os.ReadFile(filepath.Join(data, stile.KeyFile))
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the keys have changed: %v", err)
	}
	held := (&app{auditPath: log}).unrecorded("nothing was changed", files.ErrHeld).Error()
	holds(t, held, log, "the lock is "+log+audit.HeadSuffix, "another process holds the lock")
}
