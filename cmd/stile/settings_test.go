package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
)

func envOf(pairs ...string) func(string) string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return func(name string) string { return m[name] }
}

// What the environment says goes before the file, that before the defaults; paths of the
// file are seen from its folder.
func TestSettings(t *testing.T) {
	dir := t.TempDir()
	path := write(t, dir, "stile.yaml", `
agents: [a.yaml, /abs/b.yaml]
dir: data
listen: 127.0.0.1:9000
auth: tokens
grace: 30s
max_runs: 7
limits: {requests_per_second: 2.5, runs: 3, model_sessions: 9}
tenants:
  acme: {limits: {runs: 9, tokens_per_day: 1000000}}
may_use: {acme: ["*"], "*": [a], none: []}
oidc:
  issuer: https://id.example
  algorithms: [RS256]
audit_log: log/audit.jsonl
decision_log: log/decisions.jsonl
boot: {off: true}
log_level: debug
`)
	a := &app{console: console{env: envOf("STILE_LISTEN", "127.0.0.1:9001", "STILE_LIMITS_RUNS", "4", "STILE_HOSTS", "a.example, b.example", "STILE_BOOT_OFF", "false", "STILE_RETENTION", "720h")}}
	s, err := a.loadSettings(path)
	if err != nil {
		t.Fatal(err)
	}
	want := defaultSettings()
	want.Agents, want.Dir = []string{filepath.Join(dir, "a.yaml"), "/abs/b.yaml"}, filepath.Join(dir, "data")
	want.Listen, want.Auth, want.Grace, want.MaxRuns = "127.0.0.1:9001", "tokens", 30*time.Second, 7
	want.Limits = hostLimitSettings{limitSettings{RequestsPerSecond: 2.5, Runs: 4}, 9}
	want.Tenants = map[string]tenant{"acme": {limitSettings{Runs: 9, TokensPerDay: 1000000}}}
	want.MayUse = map[string][]string{"acme": {"*"}, "*": {"a"}, "none": {}}
	want.OIDC = oidcSettings{Issuer: "https://id.example", Algorithms: []string{"RS256"}}
	want.DecisionLog = filepath.Join(dir, "log/decisions.jsonl")
	want.AuditLog, want.LogLevel = filepath.Join(dir, "log/audit.jsonl"), "debug"
	want.Hosts, want.Retention = []string{"a.example", "b.example"}, 720*time.Hour
	if !reflect.DeepEqual(s, want) {
		t.Errorf("%+v, want\n%+v", s, want)
	}
	a.env = envOf("STILE_CONFIG", path)
	if s, err = a.loadSettings(""); err != nil || s.MaxRuns != 7 {
		t.Errorf("by STILE_CONFIG: %+v, %v", s, err)
	}
	a.env = envOf()
	if s, err = a.loadSettings(""); err != nil || !reflect.DeepEqual(s, defaultSettings()) {
		t.Errorf("without a file: %+v, %v", s, err)
	}
}

// Every mistake is told, with file, line and key.
func TestSettingsRefused(t *testing.T) {
	path := write(t, t.TempDir(), "stile.yaml", `listne: x
listen: [a]
grace: soon
max_runs: -1
limits:
  runs: 1.5
  rnus: 2
memory: yes
tenants: {"a:b": {limits: {}}}
auth: maybe
agents: a.yaml
oidc: 7
listen: again
max_streams: ~
boot: {off: [true]}
log_level: true
`)
	a := &app{console: console{env: envOf("STILE_MAX_STREAMS", "many")}}
	_, err := a.loadSettings(path)
	text := err.Error()
	for _, want := range []string{
		":1:1: listne: ", ":2:9: listen: ", ":3:8: grace: ", ":4:11: max_runs: ", ":6:9: limits.runs: ", ":7:3: limits.rnus: ", ":8:9: memory: ", ":10:7: auth: ", ":11:9: agents: ",
		":12:7: oidc: ", ":13:1: listen: ", ":14:14: max_streams: ", ":15:13: boot.off: ", ":16:12: log_level: ",
	} {
		if !strings.Contains(text, path+want+"ERR_CONFIG") {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for _, c := range []struct{ text, want string }{
		{"a: [", ":1"},
		{"a: b: c", ":1"},
		{"\tx: 1", ":1"},
		{"auth: maybe", ":1:7: auth: ERR_CONFIG: want auto, tokens, none"},
		{"memory: true\nlog_level: loud", ":2:12: log_level: ERR_CONFIG: want debug, info, warn, error"},
		{"\ngrace: 2h", ":2:8: grace: ERR_CONFIG"},
		{"tenants: {\"a:b\": {}}", ":1:18: tenants.a:b: ERR_CONFIG"},
		{"may_use: {\"a:b\": [x]}", ":1:18: may_use.a:b: ERR_CONFIG"},
		{"may_use: {a: x}", "may_use.a: ERR_CONFIG: want a list"},
		{"- a", "want settings by name"},
		{"limits: {<<: {runs: 1}}", "name of a setting"},
		{strings.Repeat("a: {", 200), ":1"},
		{"x: &a [*a]", "x: ERR_CONFIG"},
		{"hosts: &a [*a]", "hosts[0]"},
		{"feeds: {deadline: 0}", ":1:19: feeds.deadline: ERR_CONFIG: want more than 0"},
		{"limits: {model_sessions: 0}", ":1:26: limits.model_sessions: ERR_CONFIG: want 1 or more"},
		{"tenants: {a: {limits: {model_sessions: 3}}}", "tenants.a.limits.model_sessions: ERR_CONFIG: is no setting"},
		{"feeds: {deadline: 6m}", "feeds.deadline: ERR_CONFIG: want more than 0"},
		{"feeds: {deadline: -1s}", ":1:19: feeds.deadline: ERR_CONFIG"},
	} {
		path := write(t, t.TempDir(), "s.yaml", c.text)
		if _, err := (&app{console: console{env: envOf()}}).loadSettings(path); messages.CodeOf(err) != messages.ErrConfig && !strings.Contains(fmt.Sprint(err), "ERR_CONFIG") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
	a.env = envOf("STILE_MAX_STREAMS", "many", "STILE_MEMORY", "1", "STILE_GRACE", "-1s")
	if _, err := a.loadSettings(""); err == nil || strings.Count(err.Error(), "ERR_CONFIG") != 3 {
		t.Errorf("%v", err)
	}
	if _, err := a.loadSettings("nowhere.yaml"); messages.CodeOf(err) != messages.ErrConfig {
		t.Errorf("%v", err)
	}
}

// A wrong choice is told where it was made: what the environment says is no mistake of the
// file.
func TestWrongChoiceOfTheEnvironment(t *testing.T) {
	path := write(t, t.TempDir(), "stile.yaml", "auth: none")
	_, err := (&app{console: console{env: envOf("STILE_AUTH", "maybe")}}).loadSettings(path)
	if err == nil || err.Error() != "STILE_AUTH: ERR_CONFIG: want auto, tokens, none" {
		t.Errorf("%v", err)
	}
}

// A name that is nearly that of a setting is refused with what was meant: passed over, it
// could leave a host more open than was wanted. Others are somebody else's.
func TestMisspeltVariables(t *testing.T) {
	for name, meant := range map[string]string{
		"STILE_TOKENS": "STILE_TOKEN", "STILE_AUHT": "STILE_AUTH", "STILE_AUTHS": "STILE_AUTH", "STILE_HOST": "STILE_HOSTS", "STILE_LISTNE": "STILE_LISTEN",
		"STILE_TLS_CERTS": "STILE_TLS_CERT", "STILE_LIMIT_RUN": "STILE_LIMITS_RUNS", "STILE_CONFG": "STILE_CONFIG", "STILE_OIDC_ISUER": "STILE_OIDC_ISSUER",
		"STILE_AUTH": "", "STILE_TOKEN": "", "STILE_PASSPHRASE": "", "STILE_JOURNAL": "", "STILE_PATH": "", "STILE_OPENAI_KEY": "", "AUHT": "", "": "",
		"STILE_PORT": "", "STILE_SERVICE_HOST": "", "STILE_SERVICE_PORT": "", "STILE_PORT_8471_TCP_ADDR": "", // of a service in Kubernetes
		"STILE_SESSION": "", "STILE_KEY": "", "STILE_EPOCH": "", "STILE_ATTEMPT": "", // of a command that an agent runs
	} {
		a := &app{console: console{env: envOf(), environ: func() []string { return []string{"HOME=/", name + "=x"} }}}
		_, err := a.loadSettings("")
		want := name + ": ERR_CONFIG: is no setting; " + meant + " is"
		if meant == "" && err != nil || meant != "" && (err == nil || err.Error() != want) {
			t.Errorf("%q: %v, want %q", name, err, meant)
		}
	}
}

// The reference is made of the settings.
func TestSettingsReference(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "settings.md")
	got := settingsReference()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || string(want) != got {
		t.Errorf("docs/settings.md is not what the settings are (%v): go test ./cmd/stile -run TestSettingsReference -update", err)
	}
	defaults := defaultSettings()
	for _, one := range defaults.each() {
		if one.doc == "" || !strings.HasSuffix(one.doc, ".") {
			t.Errorf("%s has no sentence", one.key)
		}
	}
}

func FuzzSettings(f *testing.F) {
	f.Add([]byte("agents: [a.yaml]\nlimits: {runs: 1}\n"))
	f.Add([]byte("tenants: {a: {limits: {runs: 1}}}\nx: &a [*a]\n"))
	f.Add([]byte("grace: 10s\nmemory: true"))
	f.Fuzz(func(t *testing.T, b []byte) {
		s := defaultSettings()
		if _, err := s.parse("f.yaml", b); err == nil {
			for _, one := range s.each() {
				if one.value.CanInt() && one.value.Int() < 0 {
					t.Errorf("%s is %d", one.key, one.value.Int())
				}
			}
		}
	})
}

// Commands about a host's directory find it, and the audit log, in the host's settings;
// --dir goes before them.
func TestSettingsOfOtherCommands(t *testing.T) {
	home, other := t.TempDir(), t.TempDir()
	config := write(t, home, "stile.yaml", "dir: data\naudit_log: log/audit.jsonl\n")
	if err := os.Mkdir(filepath.Join(home, "log"), 0o700); err != nil {
		t.Fatal(err)
	}
	there := map[string]string{"STILE_CONFIG": config}
	in := func(env map[string]string, args ...string) string {
		t.Helper()
		a := call{args: args, env: env}.do(t)
		if a.status != 0 {
			t.Fatalf("%q: status %d, %s", args, a.status, a.err)
		}
		return a.out
	}
	in(nil, "tokens", "create", "--config", config, "--note", "first")
	in(there, "tokens", "create", "--note", "second")
	in(map[string]string{"STILE_DIR": filepath.Join(home, "data")}, "tokens", "create", "--note", "third")
	in(there, "tokens", "create", "--note", "elsewhere", "--dir", other)
	holds(t, in(nil, "tokens", "list", "--config", config), "first", "second", "third")
	if list := in(there, "tokens", "list", "--dir", other); strings.Contains(list, "first") || !strings.Contains(list, "elsewhere") {
		t.Errorf("%s", list)
	}
	id := strings.Fields(strings.Split(in(there, "tokens", "list"), "\n")[1])[0]
	in(there, "tokens", "revoke", id)
	audit, err := os.ReadFile(filepath.Join(home, "log", "audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	holds(t, string(audit), "create-token", "create-token", "create-token", "revoke-token", id)
	off := write(t, home, "off.yaml", "dir: data\naudit_log: \"off\"\n")
	in(nil, "tokens", "create", "--config", off)
	if now, err := os.ReadFile(filepath.Join(home, "log", "audit.jsonl")); err != nil || len(now) != len(audit) {
		t.Errorf("%s, %v", now, err)
	}

	must(t, "run", example("plain/agent.yaml"), "hello", "--dir", filepath.Join(home, "data"))
	copied, restored := filepath.Join(t.TempDir(), "copy"), filepath.Join(t.TempDir(), "restored")
	holds(t, in(there, "backup", copied), "1 session", "verified")
	holds(t, in(map[string]string{"STILE_DIR": restored}, "restore", copied), "1 session", "verified")
	holds(t, must(t, "tokens", "list", "--dir", restored), "first", "second", "third")

	for _, args := range [][]string{{"tokens", "list"}, {"tokens", "create"}, {"tokens", "revoke", "x"}, {"backup", copied + "2"}, {"restore", copied}} {
		if a := stileDo(t, append(args, "--config", write(t, home, "bad.yaml", "nonsense: 1"))...); a.status != 2 || !strings.Contains(a.err, "bad.yaml:1:1: nonsense") {
			t.Errorf("%q: %+v", args, a)
		}
	}
	shared := write(t, home, "shared.yaml", "journal: postgres://localhost/stile\n")
	if a := stileDo(t, "backup", copied+"3", "--config", shared); a.status != 2 || !strings.Contains(a.err, "tools of its database") {
		t.Errorf("%+v", a)
	}
}

// Every command looks where the host does: a flag goes before the environment, that before
// the file. A file with a mistake is refused before anything is done.
func TestSettingsOfEveryCommand(t *testing.T) {
	agent, err := filepath.Abs(example("plain/agent.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	write(t, ".", settingsFile, "dir: data\npassphrase_file: secret\n")
	write(t, ".", "secret", "open sesame\n")
	in := func(env map[string]string, args ...string) answer {
		t.Helper()
		return call{args: args, env: env}.do(t)
	}
	if a := in(nil, "run", agent, "hello", "--session", "s"); a.status != 0 {
		t.Fatalf("%+v", a)
	}
	elsewhere := map[string]string{"STILE_DIR": "elsewhere"}
	if a := in(elsewhere, "run", agent, "hello", "--session", "e"); a.status != 0 {
		t.Fatalf("%+v", a)
	}
	for _, dir := range []string{"data", "elsewhere"} {
		if _, err := os.Stat(filepath.Join(dir, "journal.db")); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat("stile-data"); err == nil {
		t.Error("a command made the default directory")
	}
	for _, c := range []struct {
		env  map[string]string
		args []string
		want string // a session that is shown
	}{
		{nil, nil, "local:local:s"},
		{elsewhere, nil, "local:local:e"},
		{elsewhere, []string{"--dir", "data"}, "local:local:s"},
	} {
		for _, command := range [][]string{{"sessions", "list"}, {"sessions", "cost"}, {"verify"}} {
			a := in(c.env, append(command, c.args...)...)
			if a.status != 0 || strings.Count(a.out, "local:local:") != 1 || !strings.Contains(a.out, c.want) {
				t.Errorf("%v %v under %v: %+v", command, c.args, c.env, a)
			}
		}
	}
	// The keys open with the passphrase of the settings alone.
	if a := in(nil, "keys", "list"); a.status != 0 {
		t.Errorf("%+v", a)
	}
	if a := in(nil, "replay", "s"); a.status != 0 {
		t.Errorf("%+v", a)
	}
	write(t, ".", settingsFile, "dir: data\nlisten: 1\nlimits: {run: 2}\ngrace: 2h\n")
	if a := in(nil, "sessions", "list"); a.status != int(exitUsage) || !strings.Contains(a.err, "stile.yaml:3:") {
		t.Errorf("%+v", a)
	}
	if a := in(map[string]string{"STILE_CONFIG": "none.yaml"}, "verify"); a.status != int(exitUsage) || !strings.Contains(a.err, "none.yaml") {
		t.Errorf("%+v", a)
	}
}
