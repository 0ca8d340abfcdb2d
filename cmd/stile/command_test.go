package main

import (
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/messages"
)

const envelopeHead = "<<<NSENV:V3:START>>>\n<<<NSENV:V3:USERDATA>>>\n{\"subject\":\"s\",\"fields\":{\"n\":2}}\n<<<NSENV:V3:ACTIONS>>>\n"

func envelope(lines ...string) string {
	return envelopeHead + "command\n" + strings.Join(lines, "\n") + "\nendcommand\n<<<NSENV:V3:END>>>\n"
}

func decides(action string) string {
	return `emit tool.aeiou.magic("LOOP", {"action": "` + action + `"})`
}

// What people type wrongly is named with place and code, and ends with status 2.
func TestMistakes(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	must(t, "run", example("plain/agent.yaml"), "hello", "--dir", data, "--session", "one")
	wrong := write(t, dir, "wrong.yaml", "dialect: aeiou\nmodel: {provider: scripted, script: none.jsonl}\nquotas: {gas: many}\nloop: {max_turns: -1}\ncolour: blue\n")
	noScript := write(t, dir, "noscript.yaml", "dialect: plain\nmodel: {provider: scripted, script: none.jsonl}\n")
	badScript := write(t, dir, "badscript.yaml", "dialect: plain\nmodel: {provider: scripted, script: bad.jsonl}\n")
	write(t, dir, "bad.jsonl", "{\"chunks\":[{\"txt\":\"x\"}]}\n")
	unknownTool := write(t, dir, "tool.yaml", "dialect: aeiou\nimport: {tools: [sea.chest]}\nmodel: {provider: scripted, script: ok.jsonl}\n")
	write(t, dir, "ok.jsonl", "{\"chunks\":[{\"text\":\"x\"}]}\n")
	notKeys := write(t, dir, "notkeys.json", "{\"keys\":7}")
	empty := write(t, dir, "empty", "\n")
	plain := example("plain/agent.yaml")
	for name, c := range map[string]struct {
		args []string
		in   string
		want []string // on stderr, in order
	}{
		"unknown command":            {[]string{"sail"}, "", []string{`unknown command "sail"`, "stile --help"}},
		"command of sessions":        {[]string{"export", "x"}, "", []string{`unknown command "export"`, "sessions"}},
		"command of others":          {[]string{"init"}, "", []string{`unknown command "init"`, "tour"}},
		"completion of no shell":     {[]string{"completion", "nope"}, "", []string{`unknown command "nope"`, "stile completion --help"}},
		"unknown subcommand":         {[]string{"keys", "sail"}, "", []string{`unknown command "sail"`, "stile keys --help"}},
		"unknown flag":               {[]string{"verify", "--deep"}, "", []string{"unknown flag: --deep", "stile verify --help"}},
		"no manifest named":          {[]string{"run"}, "", []string{"arg(s)", "stile run --help"}},
		"too many arguments":         {[]string{"run", "a", "b", "c"}, "", []string{"arg(s)"}},
		"no such manifest":           {[]string{"run", "nowhere.yaml", "x"}, "", []string{"nowhere.yaml: ERR_CONFIG", "no such file"}},
		"message for a manifest":     {[]string{"run", "hi"}, "", []string{"hi: ERR_CONFIG", "no such file", "--provider"}},
		"model of nobody":            {[]string{"run", "--model", "m", "hi"}, "", []string{"--provider: ERR_CONFIG: is missing: openai, anthropic or gemini"}},
		"dialect of nobody":          {[]string{"run", "--dialect", "aeiou", strings.Repeat("long ", 200)}, "", []string{"--provider: ERR_CONFIG: is missing"}},
		"address of nobody":          {[]string{"run", "--base-url", "http://localhost:1"}, "hi", []string{"--provider: ERR_CONFIG: is missing"}},
		"manifest, all mistakes":     {[]string{"run", wrong, "x", "--memory"}, "", []string{"wrong.yaml:3:", "quotas.gas", "wrong.yaml:4:", "loop.max_turns", "wrong.yaml:5:", "colour"}},
		"no such script":             {[]string{"run", noScript, "x", "--memory"}, "", []string{"none.jsonl: model.script: ERR_CONFIG"}},
		"bad script":                 {[]string{"run", badScript, "x", "--memory"}, "", []string{"bad.jsonl:1:", "chunks[0].txt: ERR_CONFIG"}},
		"unknown tool":               {[]string{"run", unknownTool, "x", "--memory"}, "", []string{"ERR_CONFIG", "sea.chest"}},
		"no message":                 {[]string{"run", plain, "--memory"}, "\n", []string{"standard input: ERR_INVALID", "empty"}},
		"empty message":              {[]string{"run", plain, "", "--memory"}, "", []string{"MESSAGE: ERR_INVALID"}},
		"message too long":           {[]string{"run", plain, "--memory"}, strings.Repeat("x", maxMessageBytes+1), []string{"standard input: ERR_CONFIG", "more than 512.0 KiB"}},
		"bad session":                {[]string{"run", plain, "x", "--memory", "--session", "a b"}, "", []string{"id: ERR_INVALID at byte 1"}},
		"bad policy":                 {[]string{"run", plain, "x", "--memory", "--policy", "shout"}, "", []string{"policy: ERR_INVALID"}},
		"bad userdata":               {[]string{"run", example("gallery/no-token.yaml"), `{"subject":1,"fields":{}}`, "--memory"}, "", []string{"ERR_USERDATA_SCHEMA"}},
		"exec, no file":              {[]string{"exec", "nowhere.env"}, "", []string{"nowhere.env: ERR_CONFIG"}},
		"exec, no manifest":          {[]string{"exec", "-", "--manifest", "nowhere.yaml"}, "", []string{"nowhere.yaml: ERR_CONFIG"}},
		"verify, no directory":       {[]string{"verify", "--dir", "nowhere"}, "", []string{"nowhere: dir: ERR_CONFIG"}},
		"verify, no session":         {[]string{"verify", "two", "--dir", data}, "", []string{"ERR_JOURNAL/NOT_FOUND", "local:local:two"}},
		"verify, no keys":            {[]string{"verify", "--dir", data, "--keys", "nowhere.jwks"}, "", []string{"nowhere.jwks: ERR_CONFIG"}},
		"verify, bad keys":           {[]string{"verify", "--dir", data, "--keys", notKeys}, "", []string{"notkeys.json: ", "ERR_CONFIG/JWKS"}},
		"verify, head for all":       {[]string{"verify", "--dir", data, "--head", "1:00"}, "", []string{"head: ERR_CONFIG", "name it"}},
		"verify, bad head":           {[]string{"verify", "one", "--dir", data, "--head", "1:00"}, "", []string{"head: ERR_CONFIG", "SEQ:HASH"}},
		"verify, bad receipts":       {[]string{"verify", "--dir", data, "--receipts", "some"}, "", []string{"receipts: ERR_CONFIG"}},
		"replay, no session":         {[]string{"replay", "two", "--dir", data}, "", []string{"ERR_JOURNAL/NOT_FOUND"}},
		"replay, no manifest":        {[]string{"replay", "one", "--dir", data, "--manifest", "nowhere.yaml"}, "", []string{"nowhere.yaml: ERR_CONFIG"}},
		"fork, no session":           {[]string{"fork", "two", "--dir", data}, "", []string{"ERR_JOURNAL/NOT_FOUND"}},
		"fork, no turn":              {[]string{"fork", "one", "--at", "9", "--dir", data}, "", []string{"at: ERR_NOT_FOUND"}},
		"fork, bad turn":             {[]string{"fork", "one", "--at", "-1", "--dir", data}, "", []string{"at: ERR_CONFIG"}},
		"fork, onto itself":          {[]string{"fork", "one", "--as", "one", "--dir", data}, "", []string{"as: ERR_CONFLICT", "exists already"}},
		"show, no session":           {[]string{"sessions", "show", "two", "--dir", data}, "", []string{"ERR_JOURNAL/NOT_FOUND"}},
		"export, no session":         {[]string{"sessions", "export", "a:b", "--dir", data}, "", []string{"sid: ERR_INVALID"}},
		"keys, there already":        {[]string{"keys", "generate", "--dir", data}, "", []string{"keys.json: ERR_CONFLICT", "rotate"}},
		"keys, none":                 {[]string{"keys", "list", "--dir", dir}, "", []string{"keys.json: ERR_CONFIG", "generate"}},
		"keys, none to rotate":       {[]string{"keys", "rotate", "--dir", dir}, "", []string{"keys.json: ERR_CONFIG", "generate"}},
		"keys, retention":            {[]string{"keys", "rotate", "--dir", data, "--retention", "-1s"}, "", []string{"retention: ERR_CONFIG"}},
		"keys, no passphrase file":   {[]string{"keys", "list", "--dir", data, "--passphrase-file", "nowhere"}, "", []string{"nowhere: ERR_CONFIG"}},
		"keys, empty passphrase":     {[]string{"keys", "list", "--dir", data, "--passphrase-file", empty}, "", []string{"empty: ERR_CONFIG", "passphrase is empty"}},
		"conform, nothing named":     {[]string{"conform"}, "", []string{"arg(s)"}},
		"conform, no such path":      {[]string{"conform", "nowhere"}, "", []string{"nowhere: ERR_CONFIG"}},
		"tour, examples not there":   {[]string{"tour", "--examples", "nowhere", "--dir", data}, "", []string{"nowhere/plain/agent.yaml: ERR_CONFIG", "examples: ERR_CONFIG"}},
		"passphrase as an argument?": {[]string{"keys", "list", "--passphrase", "secret"}, "", []string{"unknown flag: --passphrase"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := call{args: c.args, in: c.in}.do(t)
			if a.status != int(exitUsage) {
				t.Errorf("status %d\n%s%s", a.status, a.out, a.err)
			}
			holds(t, a.err, c.want...)
			for _, line := range strings.Split(strings.TrimSpace(a.err), "\n") {
				if strings.Contains(line, "ERR_") && !strings.HasPrefix(line, "stile: ") {
					t.Errorf("a line of its own for every mistake: %q", line)
				}
			}
		})
	}
	if _, err := os.Stat("nowhere"); err == nil {
		t.Error("a mistyped directory was made")
	}
}

// Errors name files as they were typed: the directory one stands in is the host's
// business.
func TestErrorsShowNoHostPath(t *testing.T) {
	here := t.TempDir()
	t.Chdir(here)
	write(t, here, "agent.yaml", "dialect: plain\nmodel: {provider: scripted, script: none.jsonl}\n")
	write(t, here, "file", "")
	for _, args := range [][]string{
		{"keys", "list"},
		{"verify"},
		{"run", "none.yaml", "x"},
		{"run", "agent.yaml", "x"},
		{"run", "agent.yaml", "x", "--dir", "file/below"},
		{"keys", "generate", "--dir", "file/below"},
		{"verify", "--dir", "file"},
		{"exec", "none"},
		{"exec", "."},
		{"conform", "none"},
		{"tour", "--examples", "none"},
	} {
		a := stileDo(t, args...)
		if a.status != int(exitUsage) && a.status != int(exitFailure) || a.err == "" {
			t.Errorf("%q: status %d, %q", args, a.status, a.err)
		}
		if strings.Contains(a.err, here) {
			t.Errorf("%q shows where it runs: %s", args, a.err)
		}
	}
}

func TestRun(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	out := must(t, "run", example("plain/agent.yaml"), "I am Ada.", "--dir", data, "--session", "acme:ann:chat")
	holds(t, out, "session  acme:ann:chat\n", "input    I am Ada.\n", "turn     1\n", "says     Good morning, Ada.", "DONE     (", "run      1 ended DONE after 1 turn\n")
	if strings.Contains(out, "\x1b") {
		t.Error("colours without a terminal")
	}
	// The session goes on, with the message on standard input.
	a := call{args: []string{"run", example("plain/agent.yaml"), "--dir", data, "--session", "acme:ann:chat"}, in: "And now?\n"}.do(t)
	if a.status != 0 {
		t.Fatal(a.err)
	}
	holds(t, a.out, "input    And now?\n", "turn     2\n", "says     You said it yourself", "run      2 ended DONE")

	// JSON lines: records as exports have them, deltas between them.
	out = must(t, "run", example("plain/agent.yaml"), "I am Ada.", "--memory", "--json")
	var types []string
	deltas := ""
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		var u struct{ Type, Text string }
		if err := json.Unmarshal([]byte(line), &u); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		switch u.Type {
		case "delta":
			deltas += u.Text
		case string(messages.KindModelChunk): // where the machine is slow
		default:
			types = append(types, u.Type)
		}
	}
	if got := strings.Join(types, " "); got != "input run.begin turn.begin model.request response model.reply turn.decided run.end" {
		t.Error(got)
	}
	if deltas != "Good morning, Ada. A stile is the step in a fence that lets people over one at a time." {
		t.Errorf("deltas %q", deltas)
	}
	if _, err := os.Stat(stile.DefaultDir); err == nil {
		t.Error("--memory made a data directory")
	}
	// Without a name the session is a new one, every time.
	first, second := must(t, "run", example("plain/agent.yaml"), "x", "--dir", data), must(t, "run", example("plain/agent.yaml"), "x", "--dir", data)
	one, _, _ := strings.Cut(first, "\n")
	if two, _, _ := strings.Cut(second, "\n"); one == two || !strings.HasPrefix(one, "session  local:local:plain-") {
		t.Errorf("%q and %q", one, two)
	}
}

// Files go with the message, under the name of the file alone; what cannot be sent is refused before
// anything is made.
func TestRunAttaches(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	write(t, dir, "dot.png", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06\x00\x00\x00")
	write(t, dir, "notes.txt", "two lines\nof notes\n")
	write(t, dir, "program", "\x7fELF\x02\x01\x01\x00\x00")
	write(t, dir, "long.txt", strings.Repeat("x", stile.MaxPartBytes+1))
	file := func(name string) string { return filepath.Join(dir, name) }
	out := must(t, "run", example("plain/agent.yaml"), "I am Ada.", "--attach", file("dot.png"), "--attach", file("notes.txt"), "--dir", data, "--session", "s", "--json")
	holds(t, out, `"name":"dot.png"`, `"type":"image/png"`, `"name":"notes.txt"`, `"type":"text/plain"`)
	if strings.Contains(out, dir) {
		t.Errorf("the record has a path of this machine: %s", out)
	}
	holds(t, must(t, "sessions", "show", "s", "--dir", data), "dot.png", "notes.txt")
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"nothing there":   {[]string{"I am Ada.", "--attach", file("none.png")}, "none.png"},
		"a folder":        {[]string{"I am Ada.", "--attach", dir}, "--attach"},
		"too large":       {[]string{"I am Ada.", "--attach", file("long.txt")}, "more than 4 MiB"},
		"no such type":    {[]string{"I am Ada.", "--attach", file("program")}, "parts[0].type"},
		"without MESSAGE": {[]string{"--resume", "--session", "s", "--attach", file("dot.png")}, "--attach"},
	} {
		a := stileDo(t, append([]string{"run", example("plain/agent.yaml"), "--dir", filepath.Join(dir, "other")}, c.args...)...)
		if a.status != int(exitUsage) && a.status != int(exitFailure) {
			t.Errorf("%s: status %d", name, a.status)
		}
		holds(t, a.err, c.want)
	}
}

func TestRunInATerminal(t *testing.T) {
	for name, c := range map[string]struct {
		env     map[string]string
		colours bool
	}{
		"terminal": {nil, true}, "NO_COLOR": {map[string]string{"NO_COLOR": "1"}, false},
		"NO_COLOR without a value": {map[string]string{"NO_COLOR": ""}, true}, "dumb": {map[string]string{"TERM": "dumb"}, false},
	} {
		a := call{args: []string{"run", example("plain/agent.yaml"), "x", "--memory"}, terminal: true, env: c.env}.do(t)
		if a.status != 0 || strings.Contains(a.out, "\x1b[") != c.colours {
			t.Errorf("%s: status %d, %q", name, a.status, a.out)
		}
		if strings.Count(a.out, "Good morning, Ada. A stile is the step in a fence that lets people over one at a time.\n") != 1 {
			t.Errorf("%s: the text is not there once: %q", name, a.out)
		}
	}
	a := call{args: []string{"run", example("plain/agent.yaml"), "--memory"}, terminal: true}.do(t)
	if a.status != int(exitUsage) || !strings.Contains(a.err, "MESSAGE") {
		t.Errorf("waits for a message from the keyboard: %d %q", a.status, a.err)
	}
}

// Decisions are exit statuses.
func TestRunStatuses(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "abort.jsonl", `{"chunks":[{"text":"command\nemit \"no\"\n emit tool.aeiou.magic(\"LOOP\", {\"action\": \"abort\"})\nendcommand"}]}`)
	abort := write(t, dir, "abort.yaml", "dialect: aeiou\nmodel: {provider: scripted, script: abort.jsonl}\n")
	for _, c := range []struct {
		manifest string
		status   status
		want     string
	}{
		{example("gallery/no-token.yaml"), exitHalt, "HALT     ERR_TOKEN_MISSING: "},
		{example("gallery/panicking-tool.yaml"), exitHalt, "HALT     ERR_CRASH: "},
		{abort, exitAbort, "ABORT    ("},
	} {
		a := stileDo(t, "run", c.manifest, "Go on.", "--memory")
		if a.status != int(c.status) || a.err != "" {
			t.Errorf("%s: status %d, %q", c.manifest, a.status, a.err)
		}
		holds(t, a.out, c.want)
	}
}

// An interrupt cancels the run: a control record, a HALT, the end of the run.
// A process of one run learns the profile that is due before it ends.
func TestRunLearnsTheProfile(t *testing.T) {
	folder, data := t.TempDir(), t.TempDir()
	agent := write(t, folder, "agent.yaml", "name: friend\ndialect: plain\nmodel: {script: s.jsonl}\nmemory: {profile: true, profile_cadence: 2}\n")
	write(t, folder, "s.jsonl", `{"match":{"contains":"\"messages\":["},"chunks":[{"text":"{\"who\":\"Ada, a sailor\"}"}]}`+"\n"+`{"match":{"contains":"I"},"chunks":[{"text":"hello"}]}`+"\n")
	run := func(text string) string {
		return must(t, "run", agent, text, "--session", "local:ada:one", "--dir", data)
	}
	holds(t, run("I am Ada"), "hello")
	holds(t, run("I sail"), "hello")
	if got := must(t, "sessions", "list", "--dir", data); !strings.Contains(got, "local:ada:stile.profile") {
		t.Errorf("no profile was learned:\n%s", got)
	}
	holds(t, run("I am back"), "feed     builtin.profile", "hello")
	// A learner that takes long is left by an interrupt, and the run was done.
	write(t, folder, "s.jsonl", `{"match":{"contains":"\"messages\":["},"chunks":[{"at_ms":600000,"text":"{}"}]}`+"\n"+`{"match":{"contains":"I"},"chunks":[{"text":"hello"}]}`+"\n")
	a := call{args: []string{"run", agent, "I stay", "--session", "local:ada:one", "--dir", data}, interruptAt: "run      "}.do(t)
	if a.status != 0 {
		t.Errorf("status %d\n%s%s", a.status, a.out, a.err)
	}
}

func TestInterrupt(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	write(t, dir, "slow.jsonl", `{"chunks":[{"text":"One moment"},{"at_ms":600000,"text":", please."}]}`)
	manifest := write(t, dir, "slow.yaml", "dialect: plain\nmodel: {provider: scripted, script: slow.jsonl}\n")
	a := call{args: []string{"run", manifest, "x", "--dir", data, "--session", "slow"}, interruptAt: "turn     "}.do(t)
	if a.status != int(exitInterrupted) {
		t.Errorf("status %d\n%s%s", a.status, a.out, a.err)
	}
	holds(t, a.out, "turn     1", "control  cancel", "interrupt", "HALT     ERR_CANCELLED", "run      1 ended HALT")
	holds(t, must(t, "sessions", "show", "slow", "--dir", data), "control  cancel", "HALT     ERR_CANCELLED", "run      1 ended HALT")
	must(t, "verify", "slow", "--dir", data)
	holds(t, must(t, "sessions", "list", "--dir", data), "local:local:slow", "idle")
	// Before anything began, an interrupt is one too.
	a = call{args: []string{"tour", "--dir", filepath.Join(dir, "tour"), "--examples", examples}, interruptAt: "input"}.do(t)
	if a.status != int(exitInterrupted) || !strings.Contains(a.err, "interrupted") {
		t.Errorf("tour: status %d, %q", a.status, a.err)
	}
}

// The decision log of a command has a line for each decided turn.
func TestDecisionLog(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "decisions.jsonl")
	for range 2 {
		must(t, "run", example("plain/agent.yaml"), "I am Ada.", "--dir", dir, "--session", "one", "--decision-log", log)
	}
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	if len(lines) != 2 {
		t.Fatalf("%q", lines)
	}
	for i, line := range lines {
		var d struct {
			SID      string
			Index    int64 `json:"turn_index"`
			Decision string
			TS       time.Time
		}
		if err := json.Unmarshal([]byte(line), &d); err != nil || d.SID != "local:local:one" || d.Index != int64(i+1) || d.Decision != "DONE" || d.TS.IsZero() {
			t.Errorf("%s: %+v, %v", line, d, err)
		}
	}
	a := stileDo(t, "run", example("plain/agent.yaml"), "I am Ada.", "--memory", "--decision-log", "stderr")
	if a.status != 0 || !strings.HasPrefix(a.err, `{"ts":"`) {
		t.Errorf("%+v", a)
	}
	a = stileDo(t, "run", example("plain/agent.yaml"), "I am Ada.", "--memory", "--decision-log", filepath.Join(dir, "none", "x"))
	if a.status != 2 || !strings.Contains(a.err, "decision_log") {
		t.Errorf("%+v", a)
	}
}

// A name that a group of commands does not have is told with what is near.
func TestNearCommands(t *testing.T) {
	for _, c := range [][]string{{"sessions", "sho", "show"}, {"keys", "rotat", "rotate"}, {"tokens", "creat", "create"}} {
		a := stileDo(t, c[:2]...)
		if a.status != int(exitUsage) || !strings.Contains(a.err, "Did you mean this?\n\t"+c[2]+"\n") {
			t.Errorf("%v: %+v", c[:2], a)
		}
	}
	a, b := stileDo(t, "--version"), stileDo(t, "version")
	if a.status != 0 || a.out != b.out || !strings.HasPrefix(a.out, "stile ") {
		t.Errorf("%+v, %+v", a, b)
	}
}

func TestExec(t *testing.T) {
	dir := t.TempDir()
	reader := write(t, dir, "reader.yaml", "dialect: aeiou\nimport: {tools: [file.read]}\nquotas: {gas: 2000}\n")
	write(t, dir, "log.txt", "fair wind")
	long := strings.Repeat("x", 2<<20)
	for name, c := range map[string]struct {
		in       string
		args     []string
		status   status
		decision stile.Decision
		reason   string
		output   string
	}{
		"done":           {envelope(`emit userdata.fields.n * 21`, decides("done")), nil, exitOK, stile.Done, "", "42\n"},
		"continue":       {envelope(`whisper self, "w"`, decides("continue")), nil, exitOK, stile.Continue, "", ""},
		"abort":          {envelope(decides("abort")), nil, exitAbort, stile.Abort, "", ""},
		"no token":       {envelope(`emit "x"`), nil, exitHalt, stile.Halt, "ERR_TOKEN_MISSING", "x\n"},
		"program error":  {envelope(`emit 1`, `emit 1/0`), nil, exitHalt, stile.Halt, "ERR_ACTIONS_RUNTIME", "1\n"},
		"no program":     {envelope(`emit`), nil, exitHalt, stile.Halt, "ERR_ACTIONS_PARSE", ""},
		"no file tools":  {envelope(`emit tool.file.read("log.txt")`), nil, exitHalt, stile.Halt, "ERR_ACTIONS_RUNTIME", ""},
		"with manifest":  {envelope(`emit tool.file.read("log.txt")`, decides("done")), []string{"--manifest", reader}, exitOK, stile.Done, "", "fair wind\n"},
		"its quotas":     {envelope(`while true`, `set x = 1`, `endwhile`), []string{"--manifest", reader}, exitHalt, stile.Halt, "ERR_QUOTA", ""},
		"no envelope":    {"hello", nil, exitHalt, stile.Halt, "ERR_ENV_MARKERS_INVALID", ""},
		"not even":       {"", nil, exitHalt, stile.Halt, "ERR_ENV_MARKERS_INVALID", ""},
		"bad userdata":   {strings.Replace(envelope(), `"s"`, "7", 1), nil, exitHalt, stile.Halt, "ERR_USERDATA_SCHEMA", ""},
		"too large":      {strings.Replace(envelope(), "command\n", "command\n# "+long+"\n", 1), nil, exitHalt, stile.Halt, "ERR_ENV_SIZE", ""},
		"long afterword": {envelope(`emit 1`, decides("done")) + long, nil, exitOK, stile.Done, "", "1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			a := call{args: append([]string{"exec", "-"}, c.args...), in: c.in}.do(t)
			var got execResult
			if err := json.Unmarshal([]byte(a.out), &got); err != nil {
				t.Fatalf("%v\n%s%s", err, a.out, a.err)
			}
			if a.status != int(c.status) || a.err != "" || got.Decision != c.decision || string(got.Reason) != c.reason {
				t.Errorf("status %d, %+v, %q", a.status, got, a.err)
			}
			if got.Decision == stile.Halt && got.Output != c.output || !strings.HasPrefix(got.Output, c.output) {
				t.Errorf("OUTPUT %q", got.Output)
			}
		})
	}
	file := write(t, dir, "turn.env", envelope(decides("done")))
	holds(t, must(t, "exec", file), `"decision":"DONE"`)
}

// alter changes the journal behind the runtime's back.
func alter(t *testing.T, data, statement string) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(data, stile.JournalFile))
	if err != nil {
		t.Fatal(err)
	}
	res, err := db.Exec(statement)
	if err == nil {
		var n int64
		if n, err = res.RowsAffected(); err == nil && n == 0 {
			t.Errorf("%s changed nothing", statement)
		}
	}
	if err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

func TestVerifyFindsWhatWasChanged(t *testing.T) {
	for name, c := range map[string]struct {
		statement string
		want      []string
	}{
		"a body":       {`UPDATE records SET body = replace(body, 'Good morning', 'Good evening') WHERE type = 'response'`, []string{"record 6: hash"}},
		"a type":       {`UPDATE records SET type = 'note' WHERE type = 'response'`, []string{"record 6: hash"}},
		"a record":     {`DELETE FROM records WHERE type = 'model.request'`, []string{"record 6: gap"}},
		"the end":      {`DELETE FROM records WHERE type = 'run.end'`, []string{"tail"}},
		"a receipt":    {`UPDATE records SET sig = zeroblob(64) WHERE sig IS NOT NULL`, []string{"record 8: receipt"}},
		"another time": {`UPDATE records SET ts = ts + 1 WHERE type = 'input'`, []string{"record 2: hash"}},
	} {
		t.Run(name, func(t *testing.T) {
			data := filepath.Join(t.TempDir(), "data")
			must(t, "run", example("plain/agent.yaml"), "I am Ada.", "--dir", data, "--session", "a")
			must(t, "run", example("plain/agent.yaml"), "I am Bob.", "--dir", data, "--session", "b")
			holds(t, must(t, "verify", "--dir", data), "ok       local:local:a  ", "ok       local:local:b  ", "2 sessions, 0 with problems")
			alter(t, data, c.statement+` AND pos >> 32 = (SELECT id FROM sessions WHERE sid = 'local:local:a')`)
			a := stileDo(t, "verify", "--dir", data)
			if a.status != int(exitDifference) {
				t.Errorf("status %d\n%s%s", a.status, a.out, a.err)
			}
			holds(t, a.out, append(append([]string{"FAIL     local:local:a  "}, c.want...), "ok       local:local:b  ", "2 sessions, 1 with problems")...)
			if a := stileDo(t, "verify", "b", "--dir", data); a.status != 0 {
				t.Errorf("b: status %d", a.status)
			}
			a = stileDo(t, "verify", "a", "--dir", data, "--json")
			var rep verifyJSON
			if err := json.Unmarshal([]byte(a.out), &rep); err != nil || a.status != int(exitDifference) || rep.OK || len(rep.Problems) == 0 {
				t.Errorf("status %d, %+v, %v", a.status, rep, err)
			}
		})
	}
}

// Keys and heads that were exported prove what the directory alone cannot.
func TestVerifyAgainstExports(t *testing.T) {
	dir := t.TempDir()
	data, other := filepath.Join(dir, "data"), filepath.Join(dir, "other")
	must(t, "run", example("plain/agent.yaml"), "I am Ada.", "--dir", data, "--session", "a")
	jwks := write(t, dir, "keys.jwks", must(t, "keys", "export", "--dir", data))
	must(t, "keys", "generate", "--dir", other)
	foreign := write(t, dir, "foreign.jwks", must(t, "keys", "export", "--dir", other))
	var session sessionJSON
	if err := json.Unmarshal([]byte(must(t, "sessions", "list", "--dir", data, "--json")), &session); err != nil {
		t.Fatal(err)
	}
	must(t, "verify", "a", "--dir", data, "--keys", jwks, "--head", session.Head)
	if a := stileDo(t, "verify", "a", "--dir", data, "--keys", foreign); a.status != int(exitDifference) || !strings.Contains(a.out, "receipt") {
		t.Errorf("foreign keys: status %d\n%s", a.status, a.out)
	}
	// The key file and its passphrase are not needed.
	if err := os.Remove(filepath.Join(data, stile.KeyFile)); err != nil {
		t.Fatal(err)
	}
	must(t, "verify", "a", "--dir", data)
	// A cut tail with a head to match is found by the exported head alone.
	alter(t, data, `DELETE FROM records WHERE type = 'run.end'`)
	alter(t, data, `UPDATE sessions SET seq = seq - 1, hash = (SELECT hash FROM records ORDER BY pos DESC LIMIT 1)`)
	must(t, "verify", "a", "--dir", data)
	if a := stileDo(t, "verify", "a", "--dir", data, "--head", session.Head); a.status != int(exitDifference) || !strings.Contains(a.out, "tail") {
		t.Errorf("a cut tail: status %d\n%s", a.status, a.out)
	}
}

// An export is verified by itself, wherever it went.
func TestVerifyExport(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	must(t, "run", example("plain/agent.yaml"), "I am Ada.", "--dir", data, "--session", "a")
	jwks := write(t, dir, "keys.jwks", must(t, "keys", "export", "--dir", data))
	var session sessionJSON
	if err := json.Unmarshal([]byte(must(t, "sessions", "list", "--dir", data, "--json")), &session); err != nil {
		t.Fatal(err)
	}
	text := must(t, "sessions", "export", "a", "--dir", data)
	whole := write(t, dir, "a.jsonl", text)
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	holds(t, must(t, "verify", "--export", whole), "ok       local:local:a  ", "2 receipts unchecked")
	holds(t, must(t, "verify", "a", "--export", whole, "--keys", jwks, "--head", session.Head), "ok       local:local:a  ", "2 receipts valid")
	a := call{args: []string{"verify", "--export", "-", "--json"}, in: text}.do(t)
	var rep verifyJSON
	if err := json.Unmarshal([]byte(a.out), &rep); err != nil || a.status != 0 || !rep.OK || rep.Head != session.Head {
		t.Errorf("status %d, %+v, %v", a.status, rep, err)
	}
	for name, c := range map[string]struct {
		args []string
		want int
		say  string
	}{
		"changed":         {[]string{"--export", write(t, dir, "b.jsonl", strings.Replace(text, "I am Ada", "I am Bob", 1))}, int(exitDifference), "record 2: body"},
		"cut":             {[]string{"--export", write(t, dir, "c.jsonl", text[:len(text)-9])}, int(exitDifference), "was cut off"},
		"a line less":     {[]string{"--export", write(t, dir, "d.jsonl", text[:strings.LastIndex(text[:len(text)-1], "\n")+1]), "--head", session.Head}, int(exitDifference), "tail"},
		"another session": {[]string{"b", "--export", whole}, int(exitDifference), "identity"},
		"empty":           {[]string{"--export", write(t, dir, "e.jsonl", "")}, int(exitUsage), "no record"},
		"missing":         {[]string{"--export", filepath.Join(dir, "f.jsonl")}, int(exitUsage), "cannot be read"},
	} {
		a := stileDo(t, append([]string{"verify"}, c.args...)...)
		if a.status != c.want || !strings.Contains(a.out+a.err, c.say) {
			t.Errorf("%s: status %d\n%s%s", name, a.status, a.out, a.err)
		}
	}
}

func TestReplayAndFork(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	must(t, "run", example("ledger/agent.yaml"), "Which entries are wrong?", "--dir", data, "--session", "ledger")
	holds(t, must(t, "replay", "ledger", "--dir", data), "ok       local:local:ledger  ", "3 turns decided again, 3 programs run again")
	var rep replayJSON
	if err := json.Unmarshal([]byte(must(t, "replay", "ledger", "--dir", data, "--json", "--manifest", example("ledger/agent.yaml"))), &rep); err != nil || !rep.OK || rep.Turns != 3 {
		t.Errorf("%+v, %v", rep, err)
	}
	// Under another manifest it goes otherwise.
	a := stileDo(t, "replay", "ledger", "--dir", data, "--manifest", example("gallery/no-token.yaml"))
	if a.status != int(exitDifference) {
		t.Errorf("status %d\n%s%s", a.status, a.out, a.err)
	}
	holds(t, a.out, "prompt   turn 1, record ", "differs  local:local:ledger")

	holds(t, must(t, "fork", "ledger", "--at", "2", "--dir", data), "local:local:ledger-fork-2  1 run, 2 turns, head ")
	var fork sessionJSON
	if err := json.Unmarshal([]byte(must(t, "fork", "ledger", "--as", "acme:ann:again", "--dir", data, "--json")), &fork); err != nil || fork.SID != "acme:ann:again" || fork.Turns != 3 {
		t.Errorf("%+v, %v", fork, err)
	}
	holds(t, must(t, "sessions", "show", "ledger-fork-2", "--dir", data), "forked from local:local:ledger at record ", "turn     2", "wrong lines: 101, 182, 264", "CONTINUE")
	must(t, "verify", "--dir", data)
	must(t, "replay", "acme:ann:again", "--dir", data)
	if a := stileDo(t, "fork", "ledger", "--at", "2", "--dir", data); a.status != int(exitUsage) || !strings.Contains(a.err, "exists already") {
		t.Errorf("status %d, %q", a.status, a.err)
	}
}

func TestSessions(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	for _, name := range []string{"acme:ann:x", "acme:bob:x", "x"} {
		must(t, "run", example("plain/agent.yaml"), "I am Ada.", "--dir", data, "--session", name)
	}
	holds(t, must(t, "sessions", "list", "--dir", data), "SESSION", "RUNS", "TURNS", "STATE", "UPDATED", "AGENT", "TITLE", "HEAD", "local:local:x", "acme:bob:x", "acme:ann:x", "idle", "9:")
	out := must(t, "sessions", "list", "--dir", data, "--prefix", "acme:", "--json")
	if strings.Count(out, "\n") != 2 || strings.Contains(out, "local:") {
		t.Error(out)
	}
	holds(t, must(t, "sessions", "show", "x", "--dir", data), "session  local:local:x, 1 run, 1 turn, idle\n", "opened   plain (plain)\n", "input    I am Ada.\n", "says     Good morning", "DONE")
	exported := must(t, "sessions", "export", "x", "--dir", data)
	if shown := must(t, "sessions", "show", "x", "--dir", data, "--json"); shown != exported || strings.Count(exported, "\n") != 9 {
		t.Errorf("%q", exported)
	}
}

func TestKeys(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	env := map[string]string{"STILE_PASSPHRASE": "ropes and sails"}
	do := func(status status, env map[string]string, args ...string) answer {
		t.Helper()
		a := call{args: append(args, "--dir", data), env: env}.do(t)
		if a.status != int(status) {
			t.Fatalf("%q: status %d\n%s%s", args, a.status, a.out, a.err)
		}
		if strings.Contains(a.out+a.err, "ropes") || strings.Contains(a.out+a.err, "tar and") {
			t.Errorf("%q shows the passphrase", args)
		}
		return a
	}
	out := do(exitOK, env, "keys", "generate").out
	holds(t, out, "KEY", "SIGNS", "PRIVATE", "tok-", "token", "here", "fbk-", "abort only", "rcp-", "receipt")
	refused := func(env map[string]string, args ...string) {
		t.Helper()
		if a := do(exitUsage, env, args...); !strings.Contains(a.err, "ERR_CONFIG") || !strings.Contains(a.err, stile.KeyFile) {
			t.Errorf("%q: %q", args, a.err)
		}
	}
	for _, args := range [][]string{{"keys", "list"}, {"keys", "rotate"}, {"keys", "export"}, {"run", example("plain/agent.yaml"), "x"}, {"tour", "--examples", examples}} {
		refused(nil, args...)
	}
	// Trying a passphrase is slow on purpose.
	refused(map[string]string{"STILE_PASSPHRASE": "tar and tallow"}, "keys", "list")
	file := write(t, dir, "pass", "ropes and sails\nsecond line\n")
	if do(exitOK, nil, "keys", "list", "--passphrase-file", file).out != out {
		t.Error("the list has changed")
	}
	// The file goes before the environment.
	do(exitOK, map[string]string{"STILE_PASSPHRASE": "tar and tallow"}, "keys", "list", "--passphrase-file", file)
	do(exitOK, env, "run", example("plain/agent.yaml"), "I am Ada.", "--session", "before")
	out = do(exitOK, env, "keys", "rotate").out
	// The old ones sign until the new ones begin.
	if strings.Count(out, "\n") != 7 || strings.Contains(out, "erased") || strings.Count(out, "to come") != 3 || strings.Count(out, "signs  ") != 3 {
		t.Error(out)
	}
	do(exitOK, env, "run", example("plain/agent.yaml"), "I am Ada.", "--session", "after")
	do(exitOK, nil, "verify") // public keys alone, of before and after
	var shown struct{ Keys []struct{ KID string } }
	if err := json.Unmarshal([]byte(do(exitOK, env, "keys", "list", "--json").out), &shown); err != nil || len(shown.Keys) != 6 {
		t.Errorf("%+v, %v", shown, err)
	}
	exported := do(exitOK, env, "keys", "export").out
	if strings.Contains(exported, `"d":`) || strings.Count(exported, `"kid"`) != 6 {
		t.Error(exported)
	}
	if fi, err := os.Stat(filepath.Join(data, stile.KeyFile)); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", fi, err)
	}
}

// The list of keys says which of them have retired, and which private halves are erased.
func TestKeysListShowsWhatIsErased(t *testing.T) {
	data := t.TempDir()
	began := time.Now().Add(-time.Hour)
	old, err := keyring.Generate("rcp-old", keyring.Receipt, keyring.EdDSA, rand.Reader, began)
	if err != nil {
		t.Fatal(err)
	}
	ring, err := keyring.New(old)
	if err != nil {
		t.Fatal(err)
	}
	next, err := keyring.Generate("rcp-new", keyring.Receipt, keyring.EdDSA, rand.Reader, began.Add(time.Minute))
	if err == nil {
		err = ring.Add(next, began.Add(time.Minute))
	}
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(data, stile.KeyFile)
	if err := stile.WriteKeys(path, ring, stile.Config{}); err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(must(t, "keys", "list", "--dir", data), "\n") {
		if strings.HasPrefix(line, "rcp-old") && !strings.HasSuffix(line, "retired  erased") || strings.HasPrefix(line, "rcp-new") && !strings.HasSuffix(line, "signs    here") {
			t.Errorf("%q", line)
		}
	}
}

// Tokens may be of HS256; receipts are not, and a rotation keeps it so.
func TestKeysOfHS256(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	for _, command := range []string{"generate --alg HS256", "rotate"} {
		out := must(t, append([]string{"keys", "--dir", data}, strings.Fields(command)...)...)
		if n := strings.Count(out, "\n") / 3; strings.Count(out, "HS256") != 2*n || strings.Count(out, "EdDSA") != n {
			t.Errorf("%s: %s", command, out)
		}
	}
	must(t, "run", example("plain/agent.yaml"), "I am Ada.", "--dir", data)
	if a := stileDo(t, "keys", "generate", "--alg", "RS256", "--dir", data); a.status != int(exitUsage) {
		t.Errorf("status %d: %s", a.status, a.err)
	}
}

func TestConform(t *testing.T) {
	vectors := filepath.Join("..", "..", "tests", "testdata", "vectors")
	holds(t, must(t, "conform", filepath.Join(vectors, "turns.json"), filepath.Join(vectors, "envelopes.json")), "turns: ", " passed, 0 failed")
	var sum conformJSON
	if err := json.Unmarshal([]byte(must(t, "conform", filepath.Join(vectors, "turns.json"), "--json")), &sum); err != nil || !sum.OK || sum.Passed == 0 || sum.Formats[0].Format != "turns" {
		t.Errorf("%+v, %v", sum, err)
	}
	dir := t.TempDir()
	failing := write(t, dir, "failing.json", `[{"name":"no envelope","input":"aGVsbG8=","expect":{"ok":true}}]`)
	a := stileDo(t, "conform", failing)
	if a.status != int(exitConform) || a.err != "" {
		t.Errorf("status %d, %q", a.status, a.err)
	}
	holds(t, a.out, "FAIL", "no envelope", "ERR_ENV_MARKERS_INVALID", "0 passed, 1 failed")
	unknown := write(t, dir, "unknown.json", `[{"sails":3}]`)
	a = stileDo(t, "conform", unknown, "--json")
	if err := json.Unmarshal([]byte(a.out), &sum); err != nil || a.status != int(exitConform) || sum.OK || len(sum.Problems) == 0 {
		t.Errorf("status %d, %+v, %v", a.status, sum, err)
	}
}

func TestVersion(t *testing.T) {
	holds(t, must(t, "version"), "stile ", "go1")
	var v version
	if err := json.Unmarshal([]byte(must(t, "version", "--json")), &v); err != nil || v.Version == "" || v.Revision == "" || v.Platform == "" {
		t.Errorf("%+v, %v", v, err)
	}
	if v := versionOf(nil, false); v.Version != "(devel)" || v.Revision != "unknown" {
		t.Errorf("%+v", v)
	}
}

// A key that went on to sign after it retired is told from a forged receipt, and can be
// believed.
func TestVerifyLateKey(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	must(t, "run", example("plain/agent.yaml"), "I am Ada.", "--session", "a", "--dir", data)
	set, err := keyring.ParseJWKS([]byte(must(t, "keys", "export", "--dir", data)))
	if err != nil {
		t.Fatal(err)
	}
	keys, kid := set.Keys(), ""
	for i, k := range keys {
		if k.Purpose() != keyring.Receipt {
			continue
		}
		kid = k.KID()
		retired := k.NotBefore() - 50
		keys[i], err = keyring.NewPublic(keyring.Attributes{KID: kid, Purpose: keyring.Receipt, NotBefore: retired - 50, RetiredAt: &retired}, k.Public())
		if err != nil {
			t.Fatal(err)
		}
	}
	if set, err = keyring.NewSet(keys...); err != nil {
		t.Fatal(err)
	}
	doc, err := set.JWKS()
	if err != nil {
		t.Fatal(err)
	}
	jwks := write(t, dir, "keys.jwks", string(doc))
	a := stileDo(t, "verify", "--dir", data, "--keys", jwks)
	if a.status != int(exitDifference) {
		t.Errorf("status %d", a.status)
	}
	holds(t, a.out, "FAIL", "the signature is good", "--late KID")
	holds(t, must(t, "verify", "--dir", data, "--keys", jwks, "--late", kid), "ok ", "2 receipts valid")
	if a := stileDo(t, "verify", "--dir", data, "--keys", jwks, "--late", "x"); a.status != int(exitUsage) {
		t.Errorf("status %d, %s", a.status, a.err)
	}
}

// A session that was spoilt is copied and named; the copy can be restored, and nothing that
// is spoilt later can.
func TestBackupOfSpoiltSessions(t *testing.T) {
	dir := t.TempDir()
	data, copied := filepath.Join(dir, "data"), filepath.Join(dir, "copy")
	for _, name := range []string{"good", "spoilt"} {
		must(t, "run", example("plain/agent.yaml"), "I am Ada.", "--session", name, "--dir", data)
	}
	db, err := sql.Open("sqlite", filepath.Join(data, stile.JournalFile))
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), `UPDATE records SET sig = zeroblob(64) WHERE id = (SELECT max(id) FROM records WHERE sig IS NOT NULL)`)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	a := stileDo(t, "backup", copied, "--dir", data)
	if a.status != int(exitDifference) {
		t.Errorf("status %d: %s", a.status, a.err)
	}
	holds(t, a.out, "2 sessions", "verified but for 1 session", "local:local:spoilt does not verify")
	if a := stileDo(t, "restore", copied, "--dir", filepath.Join(dir, "again")); a.status != int(exitDifference) {
		t.Errorf("status %d: %s", a.status, a.err)
	}
	holds(t, must(t, "verify", "good", "--dir", filepath.Join(dir, "again")), "ok ")
}

// A journal that a host went on signing with a key that had retired, and one whose key file
// was lost, are refused with the way out, and gone on with when the operator has taken it.
func TestWaysOutOfAnUnprovedJournal(t *testing.T) {
	data, dir := t.TempDir(), t.TempDir()
	write(t, dir, "yes.jsonl", "{\"match\":{\"contains\":\"Ada\"},\"chunks\":[{\"text\":\"yes\"}]}\n")
	agent := write(t, dir, "agent.yaml", "dialect: plain\nmodel: {provider: scripted, script: yes.jsonl}\n")
	run := func(want status) string {
		t.Helper()
		a := stileDo(t, "run", agent, "I am Ada.", "--dir", data, "--session", "s")
		if a.status != int(want) {
			t.Fatalf("status %d: %s%s", a.status, a.out, a.err)
		}
		return a.err
	}
	run(exitOK)
	path := filepath.Join(data, stile.KeyFile)
	ring, err := stile.ReadKeys(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	exported, err := ring.JWKS()
	if err != nil {
		t.Fatal(err)
	}
	// As after the rotation of before: the key had retired when it signed.
	var kid string
	var keys []*keyring.Key
	for _, k := range ring.Set().Keys() {
		if k.Purpose() != keyring.Receipt {
			keys = append(keys, k)
			continue
		}
		kid = k.KID()
		began := k.NotBefore() - 3600
		retired := k.NotBefore() - 60
		old, err := keyring.NewPublic(keyring.Attributes{KID: kid, Purpose: keyring.Receipt, NotBefore: began, RetiredAt: &retired}, k.Public())
		if err != nil {
			t.Fatal(err)
		}
		next, err := keyring.Generate("", keyring.Receipt, keyring.EdDSA, rand.Reader, time.Unix(retired, 0))
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, old, next)
	}
	put := func(keys ...*keyring.Key) {
		t.Helper()
		ring, err := keyring.New(keys...)
		if err == nil {
			err = stile.WriteKeys(path, ring, stile.Config{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put(keys...)
	holds(t, run(exitFailure), "UNPROVED", "local:local:s: record", "the signature is good", "docs/upgrade.md")
	if a := stileDo(t, "keys", "extend", "rcp-none", "--dir", data); a.status != int(exitUsage) {
		t.Errorf("status %d: %s", a.status, a.err)
	}
	must(t, "keys", "extend", kid, "--dir", data)
	run(exitOK)
	must(t, "verify", "--dir", data)

	// The key file is lost, and another one made.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	must(t, "keys", "generate", "--dir", data)
	holds(t, run(exitFailure), "UNPROVED", "names no known receipt key")
	if a := stileDo(t, "keys", "trust", "--dir", data); a.status != int(exitUsage) {
		t.Errorf("status %d: %s", a.status, a.err)
	}
	must(t, "keys", "trust", write(t, dir, "keys.jwks", string(exported)), "--dir", data)
	holds(t, run(exitFailure), "UNPROVED") // the last decision is of the key after that
	must(t, "keys", "trust", "--published", "--dir", data)
	run(exitOK)

	// Receipts are missing for another reason.
	db, err := sql.Open("sqlite", filepath.Join(data, stile.JournalFile))
	if err == nil {
		_, err = db.ExecContext(t.Context(), `UPDATE records SET kid = NULL, sig = NULL`)
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	holds(t, run(exitFailure), "UNPROVED", "its receipt is missing")
	a := call{args: []string{"run", agent, "I am Ada.", "--dir", data, "--session", "s"}, env: map[string]string{"STILE_UNPROVED": "go_on"}}.do(t)
	if a.status != int(exitOK) {
		t.Errorf("status %d: %s", a.status, a.err)
	}
	run(exitOK)
}

// A backup is signed. With keys from elsewhere none is restored that was changed together with
// what it says of itself, that another key signed, or whose signature was taken away.
func TestForgedBackups(t *testing.T) {
	dir := t.TempDir()
	data, copied := filepath.Join(dir, "data"), filepath.Join(dir, "copied")
	must(t, "run", example("plain/agent.yaml"), "I am Ada.", "--dir", data, "--session", "s")
	keys := write(t, dir, "keys.jwks", must(t, "keys", "export", "--dir", data))
	must(t, "backup", copied, "--dir", data)
	other := filepath.Join(dir, "other")
	must(t, "keys", "generate", "--dir", other)
	doc, err := os.ReadFile(filepath.Join(copied, stile.BackupFile))
	if err != nil {
		t.Fatal(err)
	}
	var said map[string]any
	put := func(change func()) {
		t.Helper()
		said = nil
		if err := json.Unmarshal(doc, &said); err != nil {
			t.Fatal(err)
		}
		change()
		b, err := json.Marshal(said)
		if err == nil {
			err = os.WriteFile(filepath.Join(copied, stile.BackupFile), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	restore := func(want status, args ...string) answer {
		t.Helper()
		n++
		back := filepath.Join(dir, fmt.Sprint("back", n))
		a := stileDo(t, append([]string{"restore", copied, "--dir", back}, args...)...)
		if a.status != int(want) {
			t.Errorf("status %d: %s%s", a.status, a.out, a.err)
		}
		if _, err := os.Stat(filepath.Join(back, stile.JournalFile)); (err == nil) != (want == exitOK) {
			t.Errorf("the journal of the restored directory: %v", err)
		}
		return a
	}
	put(func() {}) // spelt in another order
	restore(exitOK, "--keys", keys)
	holds(t, restore(exitOK).err, "not checked")
	restore(exitFailure, "--keys", write(t, dir, "other.jwks", must(t, "keys", "export", "--dir", other)))

	// The tokens are the attacker's, and backup.json fits.
	path := filepath.Join(copied, tokenFile)
	forged := []byte(`{"format":1,"tokens":[]}`)
	if err := os.WriteFile(path, forged, 0o600); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(forged)
	put(func() {
		said["files"] = append(said["files"].([]any), map[string]any{"name": tokenFile, "bytes": len(forged), "sha256": hex.EncodeToString(sum[:])})
	})
	holds(t, restore(exitFailure, "--keys", keys).err, "backup.json", "signature", "UNPROVED")
	for name, change := range map[string]func(){
		"no signature": func() { delete(said, "signature") },
		"another time": func() { said["made"] = "2026-01-02T03:04:05Z" },
		"fewer":        func() { said["records"] = 1 },
	} {
		put(change)
		if a := restore(exitFailure, "--keys", keys); !strings.Contains(a.err, "UNPROVED") {
			t.Errorf("%s: %s", name, a.err)
		}
	}
	put(func() { delete(said, "signature") })
	holds(t, restore(exitOK).err, "not signed") // as of a version before

	// Without keys that can sign there is a backup, and it says so.
	if err := os.Remove(filepath.Join(data, stile.KeyFile)); err != nil {
		t.Fatal(err)
	}
	a := stileDo(t, "backup", filepath.Join(dir, "unsigned"), "--dir", data)
	if a.status != int(exitOK) || !strings.Contains(a.err, "not signed: there is no key file") {
		t.Errorf("status %d: %s", a.status, a.err)
	}

	// Keys that cannot be looked for are not called missing.
	a = stileDo(t, "backup", filepath.Join(dir, "none"), "--dir", filepath.Join(data, stile.JournalFile))
	if a.status != int(exitUsage) || !strings.Contains(a.err, "not signed: the key file cannot be looked for: not a directory") {
		t.Errorf("status %d: %s", a.status, a.err)
	}
}
