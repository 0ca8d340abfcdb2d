package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A host takes up its settings as a whole, or with a mistake not at all, by a request and by SIGHUP,
// and says what has changed.
func TestReload(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "chat.jsonl", `{"match": {"contains": "x"}, "chunks": [{"text": "hello"}]}`+"\n")
	agent := func(name, summary string) {
		write(t, dir, name+".yaml", "name: "+name+"\nsummary: "+summary+"\ndialect: plain\nmodel: {provider: scripted, script: chat.jsonl}\n")
	}
	settings := func(lines ...string) string {
		return write(t, dir, "stile.yaml", strings.Join(append(lines, "dir: data", "listen: 127.0.0.1:0"), "\n")+"\n")
	}
	agent("ada", "one")
	agent("bob", "one")
	file := settings("agents: [ada.yaml]", "limits: {runs: 5}")
	p := startProcess(t, "--config", file)
	offered := func() string {
		_, text := ask(t, "GET", p.url+"/v1/agents", "", "")
		return text
	}
	reload := func() (status int, said []string, text string) {
		status, text = ask(t, "POST", p.url+"/v1/reload", "", "")
		var out struct{ Changes []string }
		if status == 200 {
			if err := json.Unmarshal([]byte(text), &out); err != nil {
				t.Fatal(err)
			}
		}
		return status, out.Changes, text
	}
	changes := func(want ...string) {
		t.Helper()
		if status, got, text := reload(); status != 200 || strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("%d %s, want %q", status, text, want)
		}
	}
	changes()
	if status, text := ask(t, "POST", p.url+"/v1/sessions", "", `{"agent": "ada", "id": "s"}`); status != 201 {
		t.Fatal(text)
	}

	agent("ada", "two")
	settings("agents: [ada.yaml, bob.yaml]", "limits: {runs: 7, sessions: 9}", "tenants: {local: {limits: {runs: 3}}}", "grace: 3s", "hosts: [a.example]")
	changes("agents: ada has changed", "agents: bob is new", "limits: runs 7, was 5, sessions 9, was 0", "tenants: local is new", "hosts has changed", "at the next start: grace")
	changes()
	if text := offered(); !strings.Contains(text, `"summary":"two"`) || !strings.Contains(text, "bob") {
		t.Errorf("offered are %s", text)
	}
	for _, session := range []string{"s", "t"} { // one of before, and a new one of the new agent
		if session == "t" {
			if status, text := ask(t, "POST", p.url+"/v1/sessions", "", `{"agent": "bob", "id": "t"}`); status != 201 {
				t.Fatal(text)
			}
		}
		if _, text := ask(t, "POST", p.url+"/v1/sessions/"+session+"/runs?stream=event", "", `{"input": "x"}`); !strings.Contains(text, `"decision":"DONE"`) {
			t.Errorf("%s: %s", session, text)
		}
	}

	before := offered()
	agent("ada", "three")
	for name, c := range map[string]struct {
		lines []string
		want  string
	}{
		"a wrong limit":      {[]string{"agents: [ada.yaml]", "limits: {runs: -1}"}, "limits"},
		"a wrong key":        {[]string{"agents: [ada.yaml]", "limitz: {runs: 1}"}, "limitz"},
		"a manifest missing": {[]string{"agents: [ada.yaml, eve.yaml]"}, "cannot read the manifest"},
		"an unknown agent":   {[]string{"agents: [ada.yaml]", "may_use: {acme: [eve]}"}, "eve"},
		"no agents":          {[]string{"limits: {runs: 1}"}, "name a manifest"},
		"a name twice":       {[]string{"agents: [ada.yaml, ada.yaml]"}, "two agents"},
	} {
		settings(c.lines...)
		if status, _, text := reload(); status == 200 || !strings.Contains(text, c.want) {
			t.Errorf("%s: %d %s", name, status, text)
		}
		if text := offered(); text != before {
			t.Errorf("%s: offered are %s", name, text)
		}
	}

	settings("agents: [ada.yaml]")
	p.signal(syscall.SIGHUP)
	for deadline := time.Now().Add(30 * time.Second); offered() == before; {
		if time.Now().After(deadline) {
			t.Fatal("SIGHUP took nothing up")
		}
	}
	if text := offered(); !strings.Contains(text, `"summary":"three"`) || strings.Contains(text, "bob") {
		t.Errorf("offered are %s", text)
	}
	p.end()
	if got := p.status(); got != 0 {
		t.Errorf("status %d", got)
	}
	must(t, "verify", "--dir", filepath.Join(dir, "data"))
}
