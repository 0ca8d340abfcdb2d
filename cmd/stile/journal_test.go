//go:build !lite

package main

import (
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/internal/postgrestest"
	"github.com/seed14be6753/stile/messages"
)

// Every command that reads or writes sessions does so in a shared journal as well,
// from whatever directory.
func TestSharedJournal(t *testing.T) {
	base, ok := postgrestest.ForTest(t)
	if !ok {
		return
	}
	env := map[string]string{envJournal: postgrestest.With(t, base, "schema", postgrestest.Schema(t, base))}
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	do := func(data string, args ...string) string {
		t.Helper()
		a := call{args: append(args, "--dir", data), env: env}.do(t)
		if a.status != 0 {
			t.Fatalf("%q: status %d\n%s%s", args, a.status, a.out, a.err)
		}
		return a.out
	}
	early := call{args: []string{"verify"}, env: env}.do(t)
	if early.status != int(exitUsage) || !strings.Contains(early.err, "NOT_FOUND") {
		t.Errorf("reading a journal that is not there: status %d, %s", early.status, early.err)
	}
	holds(t, do(one, "run", example("plain/agent.yaml"), "I am Ada.", "--session", "acme:ann:chat"), "session  acme:ann:chat")
	do(two, "run", example("plain/agent.yaml"), "And now?", "--session", "acme:ann:chat")
	do(two, "run", example("ledger/agent.yaml"), "What is open?", "--session", "ledger")
	holds(t, do(one, "sessions", "list"), "local:local:ledger", "acme:ann:chat") // newest first
	holds(t, do(one, "sessions", "show", "acme:ann:chat"), "I am Ada.", "And now?")
	holds(t, do(one, "sessions", "export", "acme:ann:chat"), `"sid":"acme:ann:chat"`)
	do(one, "verify") // the receipt keys of both hosts are beside the records
	do(two, "replay", "ledger")
	do(one, "fork", "ledger", "--at", "1", "--as", "again")
	do(two, "verify", "again")
	do(one, "keys", "rotate")
	do(one, "run", example("plain/agent.yaml"), "I am Bob.", "--session", "acme:bob:chat")
	do(two, "verify")
	if files, err := filepath.Glob(filepath.Join(dir, "*", "*.db*")); err != nil || len(files) != 0 {
		t.Errorf("a journal was made beside the shared one: %v, %v", files, err)
	}

	// The flag wins over the environment, and goes without a password.
	u, err := url.Parse(env[envJournal])
	if err != nil {
		t.Fatal(err)
	}
	if pass, has := u.User.Password(); has {
		a := stileDo(t, "sessions", "list", "--journal", u.String())
		if a.status != int(exitUsage) || !strings.Contains(a.err, "argument") || strings.Contains(a.err, pass) {
			t.Errorf("a password in an argument: status %d, %s", a.status, a.err)
		}
		u.User = url.User(u.User.Username())
		t.Setenv("PGPASSWORD", pass)
	}
	a := call{args: []string{"sessions", "list", "--journal", u.String()}, env: map[string]string{envJournal: "postgres://nobody@127.0.0.1:1/none"}}.do(t)
	if a.status != 0 {
		t.Errorf("status %d, %s", a.status, a.err)
	}
}

func TestSharedJournalMistakes(t *testing.T) {
	for _, c := range []struct {
		args   []string
		url    string
		status status
		said   string
	}{
		{[]string{"sessions", "list"}, "journal.db", exitUsage, "postgres://"},
		{[]string{"sessions", "list", "--journal", "mysql://h/db"}, "", exitUsage, "postgres://"},
		{[]string{"verify"}, "postgres://u:hunter2@127.0.0.1:1/db", exitFailure, "UNAVAILABLE"},
		{[]string{"run", example("plain/agent.yaml"), "x", "--memory", "--journal", "postgres://h/db"}, "", exitUsage, "--memory"},
	} {
		a := call{args: c.args, env: map[string]string{envJournal: c.url}}.do(t)
		if a.status != int(c.status) || !strings.Contains(a.err, c.said) || strings.Contains(a.err, "hunter2") {
			t.Errorf("%q %q: status %d, %s", c.args, c.url, a.status, a.err)
		}
	}
	// What is kept in memory needs no journal, whatever the environment says.
	a := call{args: []string{"run", example("plain/agent.yaml"), "x", "--memory"}, env: map[string]string{envJournal: "postgres://127.0.0.1:1/db"}}.do(t)
	if a.status != 0 {
		t.Errorf("status %d, %s", a.status, a.err)
	}
}

// A shared journal is named by the variable that holds its address: an address may hold a
// password.
func TestSharedJournalIsNoAddress(t *testing.T) {
	path := write(t, t.TempDir(), "s.yaml", "journal: postgres://u:p@h/d")
	_, err := (&app{console: console{env: envOf()}}).loadSettings(path)
	if messages.CodeOf(err) != messages.ErrConfig || !strings.Contains(err.Error(), ":1:10: journal: ERR_CONFIG") {
		t.Errorf("%v", err)
	}
}
