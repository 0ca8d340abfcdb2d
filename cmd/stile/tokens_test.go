package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A token is shown once; what lists and keeps it does not give it away; and it is told
// apart from one that was revoked.
func TestTokens(t *testing.T) {
	dir := t.TempDir()
	made := stileDo(t, "tokens", "create", "--dir", dir, "--tenant", "acme", "--user", "ann", "--scope", "read,submit", "--note", "laptop\x1b[31m")
	secret := strings.TrimSpace(made.out)
	if made.status != 0 || !strings.HasPrefix(secret, "stile_") || strings.Contains(made.err, secret) {
		t.Fatalf("%+v", made)
	}
	must(t, "tokens", "create", "--dir", dir, "--scope", "metrics", "--expires", "0")
	list := must(t, "tokens", "list", "--dir", dir)
	holds(t, list, "TOKEN", "acme", "ann", "read,submit", "good", "local", "metrics", "good", "-")
	if strings.Contains(list, secret[len(secret)-20:]) || strings.Contains(list, "\x1b") {
		t.Errorf("%s", list)
	}
	var first struct{ ID, State, Tenant string }
	if err := json.Unmarshal([]byte(strings.Split(must(t, "tokens", "list", "--dir", dir, "--json"), "\n")[0]), &first); err != nil || first.Tenant != "acme" || first.State != "good" {
		t.Fatalf("%+v, %v", first, err)
	}
	next := stileDo(t, "tokens", "rotate", first.ID, "--dir", dir)
	if again := strings.TrimSpace(next.out); next.status != 0 || !strings.HasPrefix(again, "stile_") || again == secret || strings.Contains(next.err, again) {
		t.Fatalf("%+v", next)
	}
	holds(t, next.err, first.ID, "which it replaces, is good until", "acme:ann, read,submit, until")
	holds(t, must(t, "tokens", "revoke", first.ID, "--dir", dir), first.ID, "acme:ann", "revoked")
	holds(t, must(t, "tokens", "list", "--dir", dir), "revoked", "good")
	audit, err := os.ReadFile(filepath.Join(dir, "audit.jsonl"))
	if err != nil || strings.Contains(string(audit), secret) {
		t.Errorf("%s, %v", audit, err)
	}
	holds(t, string(audit), `"tenant":"acme"`, `"action":"create-token"`, "read,submit", `"action":"create-token"`, "metrics", `"action":"rotate-token"`, "for "+first.ID, `"action":"revoke-token"`, first.ID)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"tokens", "revoke", "nobody", "--dir", dir}, "no token"},
		{[]string{"tokens", "rotate", "nobody", "--dir", dir}, "no token"},
		{[]string{"tokens", "rotate", first.ID, "--dir", dir, "--grace", "-1h"}, "grace"},
		{[]string{"tokens", "create", "--dir", dir, "--scope", "root"}, "no scope"},
		{[]string{"tokens", "create", "--dir", dir, "--tenant", "a:b"}, "tenant"},
		{[]string{"tokens", "create", "--dir", dir, "--expires", "-1h"}, "expires"},
		{[]string{"serve", "../../examples/plain/agent.yaml", "--dir", t.TempDir(), "--auth", "tokens"}, "there are no tokens"},
		{[]string{"serve", "../../examples/plain/agent.yaml", "--dir", dir, "--auth", "maybe"}, "want auto, tokens or none"},
		{[]string{"serve", "../../examples/plain/agent.yaml", "--dir", dir, "--auth", "none", "--listen", "0.0.0.0:0"}, "does not authenticate"},
	} {
		if a := stileDo(t, c.args...); a.status != 2 || !strings.Contains(a.err, c.want) {
			t.Errorf("%q: status %d, %s", c.args, a.status, a.err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "tokens.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if a := stileDo(t, "serve", "../../examples/plain/agent.yaml", "--dir", dir); a.status != 2 || !strings.Contains(a.err, "tokens.json") {
		t.Errorf("a damaged file: %+v", a)
	}
}

// A host without tokens is set up over HTTP by the bearer of a token whose hash its settings have.
func TestBootstrapToken(t *testing.T) {
	const secret = "a-secret-that-the-operator-chose-0123"
	dir := t.TempDir()
	write(t, dir, "chat.jsonl", `{"chunks": [{"text": "hello"}]}`+"\n")
	write(t, dir, "ada.yaml", "name: ada\ndialect: plain\nmodel: {provider: scripted, script: chat.jsonl}\n")
	file := write(t, dir, "stile.yaml", "agents: [ada.yaml]\ndir: data\nlisten: 127.0.0.1:0\nauth: tokens\nbootstrap_token_sha256: "+fmt.Sprintf("%x", sha256.Sum256([]byte(secret)))+"\n")
	p := startProcess(t, "--config", file)
	if status, text := ask(t, "GET", p.url+"/v1/agents", "", ""); status != 401 {
		t.Errorf("without a token: %d %s", status, text)
	}
	status, text := ask(t, "POST", p.url+"/v1/tokens", secret, `{"scopes": ["read", "submit"], "user": "ann"}`)
	var made struct{ ID, Secret, User, Tenant string }
	if err := json.Unmarshal([]byte(text), &made); err != nil || status != 201 || made.Secret == "" || made.User != "ann" || made.Tenant != "local" {
		t.Fatalf("%d %s, %v", status, text, err)
	}
	if status, text := ask(t, "GET", p.url+"/v1/agents", made.Secret, ""); status != 200 || !strings.Contains(text, "ada") {
		t.Errorf("%d %s", status, text)
	}
	if status, text := ask(t, "DELETE", p.url+"/v1/tokens/"+made.ID, secret, ""); status != 200 {
		t.Errorf("%d %s", status, text)
	}
	if status, _ := ask(t, "GET", p.url+"/v1/agents", made.Secret, ""); status != 401 {
		t.Errorf("a revoked token: %d", status)
	}
	p.end()
	if got := p.status(); got != 0 {
		t.Errorf("status %d", got)
	}
	for _, c := range []struct{ line, want string }{{"bootstrap_token_sha256: abc", "64 hex digits"}, {"bootstrap_token_sha256: " + strings.Repeat("a", 64) + "\nauth: none", "goes not together"}} {
		bad := write(t, dir, "bad.yaml", "agents: [ada.yaml]\nlisten: 127.0.0.1:0\nmemory: true\n"+c.line+"\n")
		if a := stileDo(t, "serve", "--config", bad); a.status != 2 || !strings.Contains(a.err, c.want) {
			t.Errorf("%s: status %d, %s", c.line, a.status, a.err)
		}
	}
}
