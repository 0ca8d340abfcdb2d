package main

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// findings runs doctor and gives what it found, by check.
func findings(t *testing.T, status int, c call) map[string]finding {
	t.Helper()
	c.args = append([]string{"doctor", "--json"}, c.args...)
	a := c.do(t)
	if a.status != status {
		t.Fatalf("status %d, want %d: %s%s", a.status, status, a.out, a.err)
	}
	all := map[string]finding{}
	for line := range strings.Lines(a.out) {
		var f finding
		if err := json.Unmarshal([]byte(line), &f); err != nil || f.Detail == "" {
			t.Fatalf("%s: %v", line, err)
		}
		all[f.Check] = f
	}
	return all
}

// Doctor finds nothing to fail in a fresh directory, and names what is wrong in others.
// Doctor says of a webhook that its secret is missing, that its address is not asked, and what it was not told.
func TestDoctorWebhooks(t *testing.T) {
	dir := t.TempDir()
	secret := "whsec_" + strings.Repeat("YWFh", 12)
	config := write(t, t.TempDir(), "stile.yaml", "dir: "+dir+`
webhooks:
  ci: {url: "https://1.1.1.1/hook", secret_env: HOOK}
  inside: {url: "https://127.0.0.1/hook", secret_env: HOOK}
  listed: {url: "http://127.0.0.1/hook", networks: [127.0.0.1], secret_env: HOOK}
`)
	write(t, dir, "webhooks.json", `{"format": 1, "dead": [{"hook": "listed"}]}`)
	env := map[string]string{"HOOK": secret}
	all := findings(t, 1, call{args: []string{example("plain/agent.yaml"), "--config", config}, env: env})
	for name, want := range map[string][2]string{"ci": {isOK, "good"}, "inside": {isFail, "networks"}, "listed": {isWarn, "1 event could not be delivered"}} {
		if f := all["webhook "+name]; f.State != want[0] || !strings.Contains(f.Detail, want[1]) || strings.Contains(f.Detail, secret) {
			t.Errorf("%s: %+v", name, f)
		}
	}
	all = findings(t, 1, call{args: []string{example("plain/agent.yaml"), "--config", config}})
	if f := all["webhooks"]; f.State != isFail || !strings.Contains(f.Detail, "HOOK") {
		t.Errorf("%+v", f)
	}
}

func TestDoctor(t *testing.T) {
	dir := t.TempDir()
	free := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		return l.Addr().String()
	}
	agent := "agent " + example("plain/agent.yaml")
	settings := func(text string) string {
		return write(t, t.TempDir(), "stile.yaml", "dir: "+dir+"\n"+text)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	good := findings(t, 0, call{args: []string{example("plain/agent.yaml"), "--config", settings("listen: " + free())}})
	for _, check := range []string{agent, "directory", "keys", "access", "journal", "address"} {
		if good[check].State != isOK {
			t.Errorf("%s: %+v", check, good[check])
		}
	}
	if f := good["history "+example("plain/agent.yaml")]; f.State != isOK || f.Detail != "replay: the provider scripted keeps no conversation here" {
		t.Errorf("the mode of the model: %+v", f)
	}
	for _, check := range []string{"disk", "sandbox", "clock"} {
		if f := good[check]; f.State == isFail || f.State == "" {
			t.Errorf("%s: %+v", check, f)
		}
	}
	flagged := findings(t, 1, call{args: []string{example("plain/agent.yaml"), "--config", settings("listen: " + free()), "--listen", "0.0.0.0:0", "--tls-cert", "nowhere.pem", "--tls-key", "nowhere.pem", "--auth", "none"}})
	if c, l := flagged["certificate"], flagged["address"]; c.State != isFail || l.State != isFail || !strings.Contains(l.Detail, "0.0.0.0:0") || flagged[agent].State != isOK {
		t.Errorf("the flags of stile serve: %+v", flagged)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 0 {
		t.Errorf("it left %v, %v", files, err)
	}
	must(t, "run", example("plain/agent.yaml"), "hello", "--dir", dir)
	must(t, "tokens", "create", "--dir", dir)
	url, _ := served(t, nil, example("plain/agent.yaml"), "--dir", dir, "--listen", "127.0.0.1:0")
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	go func() {
		for {
			c, err := busy.Accept()
			if err != nil {
				return
			}
			c.Close() // somebody who does not speak HTTP
		}
	}()
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("dialect: nonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fed := write(t, t.TempDir(), "fed.yaml", "name: fed\ndialect: cortex\nmodel: {script: fed.jsonl}\ncontext_feeds:\n  - {id: docs, source: {type: ingest, params: {paths: [fed.yaml, nope.txt]}}}\n")
	write(t, filepath.Dir(fed), "fed.jsonl", `{"chunks":[{"text":"hello"}]}`)
	endless := write(t, filepath.Dir(fed), "endless.yaml", "dialect: aeiou\nmodel: {script: fed.jsonl}\nloop: {iteration_cap: 0}\n")
	limited := write(t, filepath.Dir(fed), "limited.yaml", "dialect: aeiou\nmodel: {script: fed.jsonl}\nloop: {repairs: 1}\n")
	open := t.TempDir()
	must(t, "keys", "generate", "--dir", open)
	for _, f := range []string{open, filepath.Join(open, "keys.json")} {
		if err := os.Chmod(f, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(open, "tokens.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(open, "journal.db"), []byte("no journal of ours"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		status  int
		args    []string
		env     map[string]string
		check   string
		state   string
		details string
	}{
		"a journal in use":   {0, []string{example("plain/agent.yaml"), "--config", settings("listen: " + free())}, nil, "journal", isOK, "1 session"},
		"a host is there":    {0, []string{example("plain/agent.yaml"), "--config", settings("listen: " + strings.TrimPrefix(url, "http://"))}, nil, "address", isWarn, "already"},
		"tokens":             {0, []string{example("plain/agent.yaml"), "--config", settings("listen: " + free())}, nil, "access", isOK, "1 good token"},
		"no passphrase":      {0, []string{example("plain/agent.yaml"), "--config", settings("listen: " + free())}, nil, "keys", isWarn, "no passphrase"},
		"no agents":          {0, []string{"--config", settings("listen: " + free())}, nil, "agents", isWarn, "none"},
		"a missing document": {0, []string{fed, "--config", settings("listen: " + free())}, nil, "feed docs", isWarn, "nope.txt: no such file"},
		"no limit of turns":  {0, []string{endless, "--config", settings("listen: " + free())}, nil, "turns " + endless, isWarn, "loop.max_turns is 0, which in aeiou is the default, 50"},
		"the default turns":  {0, []string{limited, "--config", settings("listen: " + free())}, nil, "turns " + limited, "", ""},
		"a bad agent":        {1, []string{bad, "--config", settings("listen: " + free())}, nil, "agent " + bad, isFail, "nonsense"},
		"address in use":     {1, []string{example("plain/agent.yaml"), "--config", settings("listen: " + busy.Addr().String())}, nil, "address", isFail, "cannot listen"},
		"open to others":     {1, []string{example("plain/agent.yaml"), "--config", settings("listen: " + free())}, map[string]string{"STILE_DIR": open}, "keys", isFail, "others"},
		"an open directory":  {1, []string{example("plain/agent.yaml"), "--config", settings("listen: " + free())}, map[string]string{"STILE_DIR": open}, "directory", isWarn, "chmod 700"},
		"bad tokens":         {1, []string{example("plain/agent.yaml"), "--config", settings("listen: " + free())}, map[string]string{"STILE_DIR": open}, "access", isFail, "tokens.json"},
		"no journal of ours": {1, []string{example("plain/agent.yaml"), "--config", settings("listen: " + free())}, map[string]string{"STILE_DIR": open}, "journal", isFail, "ERR_JOURNAL"},
		"open to the world":  {1, []string{example("plain/agent.yaml"), "--config", settings("auth: none\nlisten: 0.0.0.0:0")}, nil, "address", isFail, "does not authenticate"},
		"in memory":          {0, []string{example("plain/agent.yaml"), "--config", settings("memory: true\nlisten: " + free())}, nil, "directory", isWarn, "memory"},
		"too many":           {0, []string{example("plain/agent.yaml"), "--config", settings("max_connections: 999999999\nlisten: " + free())}, nil, "open files", isWarn, "ulimit"},
	} {
		t.Run(name, func(t *testing.T) {
			f := findings(t, c.status, call{args: c.args, env: c.env})[c.check]
			if f.State != c.state || !strings.Contains(f.Detail, c.details) {
				t.Errorf("%+v, want %s: %s", f, c.state, c.details)
			}
		})
	}
	holds(t, must(t, "doctor", "--config", settings("listen: "+free())), "warn", "agents", "ok", "address")
	if a := stileDo(t, "doctor", "--config", settings("nonsense: 1")); a.status != 2 || !strings.Contains(a.err, ":2:1: nonsense") {
		t.Errorf("%+v", a)
	}
}
