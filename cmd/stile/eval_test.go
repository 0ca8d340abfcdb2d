package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/internal/audit"
	"github.com/seed14be6753/stile/internal/eval"
)

func evalReport(t *testing.T, status status, args ...string) eval.Report {
	t.Helper()
	a := stileDo(t, append([]string{"eval", "--json", "-"}, args...)...)
	if a.status != int(status) {
		t.Fatalf("%q: status %d, want %d\n%s%s", args, a.status, status, a.out, a.err)
	}
	var r eval.Report
	if err := json.Unmarshal([]byte(a.out), &r); err != nil {
		t.Fatalf("%v\n%s", err, a.out)
	}
	return r
}

// The example passes, and its sessions stay; it goes on where it was and runs nothing twice.
func TestEval(t *testing.T) {
	dir, cases, agent := t.TempDir(), example("eval/cases.jsonl"), example("eval/agent.yaml")
	junit := filepath.Join(t.TempDir(), "report.xml")
	out := must(t, "eval", cases, "--agent", agent, "--dir", dir, "--repeat", "2", "--junit", junit)
	holds(t, out, "evaluation ", "100.0 %", "[count] ", "[effects] ", "[words] ")
	b, err := os.ReadFile(junit)
	if err != nil || xml.Unmarshal(b, &struct{}{}) != nil || bytes.Count(b, []byte("<testcase ")) != 8 {
		t.Errorf("%v\n%s", err, b)
	}
	r := evalReport(t, exitBelow, cases, "--agent", agent, "--dir", dir, "--budget", "tokens=900", "--parallel", "1")
	if s := r.Agents[0]; s.NotRun != 3 || s.Failed != 0 { // the first one spends it
		t.Errorf("a budget: %+v", s)
	}
	again := evalReport(t, exitOK, cases, "--agent", agent, "--dir", dir, "--resume", r.Run)
	if again.Run != r.Run || again.Agents[0].Passed != 4 {
		t.Errorf("resumed: %+v", again.Agents[0])
	}
	for _, a := range again.Attempts {
		holds(t, must(t, "sessions", "show", a.SID, "--dir", dir), ", 1 run, ")
		if a.Case == "write" && a.Refused != 1 {
			t.Errorf("%+v", a)
		}
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(agent), "birds.txt")); err == nil {
		t.Error("an effect was done")
	}
	must(t, "verify", "--dir", dir)
}

// Two agents on the same cases; results that a case brings stand for its tools.
func TestEvalAgainst(t *testing.T) {
	dir, work := t.TempDir(), t.TempDir()
	write(t, work, "a.jsonl", `{"match": {"contains": "status=\"ok\""}, "chunks": [{"text": "<response>Paid: $p.</response>"}]}`+"\n"+
		`{"match": {"contains": "pay"}, "chunks": [{"text": "<action id=\"p\">{\"name\": \"write\", \"parameters\": {\"path\": \"pay.txt\", \"content\": \"7\"}}</action>"}]}`+"\n"+
		`{"match": {"re2": "(?s).*"}, "chunks": [{"text": "<response>Yes.</response>"}]}`+"\n")
	write(t, work, "b.jsonl", `{"match": {"re2": "(?s).*"}, "chunks": [{"text": "<response>No.</response>"}]}`+"\n")
	doc := "dialect: cortex\nmodel: {provider: scripted, script: SCRIPT}\nimport: {tools: [write]}\n"
	a := write(t, work, "a.yaml", strings.Replace(doc, "SCRIPT", "a.jsonl", 1))
	b := write(t, work, "b.yaml", strings.Replace(doc, "SCRIPT", "b.jsonl", 1))
	cases := write(t, work, "cases.jsonl", `{"id": "pay", "input": "pay 7", "expect": {"equals": "Paid: done.", "calls": [{"name": "write"}]}, "results": [{"tool": "write", "args": {"path": "pay.txt", "content": "7"}, "result": "done"}]}
{"id": "yes", "input": "well?", "expect": {"equals": "Yes."}}
`)
	r := evalReport(t, exitOK, cases, "--agent", a, "--against", b, "--dir", dir)
	if r.Agents[0].Passed != 2 || r.Agents[1].Passed != 0 || r.Agents[1].Failed != 2 || r.Versus == nil || r.Versus.Better != 2 {
		t.Errorf("%+v, %+v", r.Agents, r.Versus)
	}
	text := stileDo(t, "eval", cases, "--agent", b, "--against", a, "--dir", dir)
	if text.status != int(exitBelow) {
		t.Errorf("status %d", text.status)
	}
	holds(t, text.out, "difference", "-100.0", "0 cases better, 2 worse", "failed", "equals: the answer is «No.», want «Paid: done.»", "below    pass>=1: it is 0")
	if _, err := os.Stat(filepath.Join(work, "pay.txt")); err == nil {
		t.Error("a call with a result of its own was done")
	}
	// Recorded sessions are cases too: what they called is answered as it was.
	must(t, "run", a, "--dir", dir, "--session", "old", "well?")
	if r := evalReport(t, exitOK, "--from-journal", "--agent", a, "--dir", dir); len(r.Attempts) != 1 || r.Attempts[0].Decision != "DONE" {
		t.Errorf("%+v", r.Attempts)
	}
}

// What an evaluation answers in the place of a person is in the audit log of a host of the
// directory, also when several attempts answer at once.
func TestEvalIsAudited(t *testing.T) {
	manifest, data := scribe(t, "trains")
	must(t, "tokens", "create", "--dir", data) // a host keeps an audit log there
	cases := write(t, t.TempDir(), "cases.jsonl", `{"id": "known", "input": "trains?", "results": [{"tool": "write", "args": {"path": "x", "content": "trains"}, "result": "done"}]}
{"id": "unknown", "input": "trains?"}
`)
	r := evalReport(t, exitOK, cases, "--agent", manifest, "--dir", data, "--repeat", "3", "--parallel", "3", "--effects", "run", "--budget", "tokens=100000")
	must(t, "audit", "verify", "--dir", data)
	b, err := os.ReadFile(filepath.Join(data, audit.Name))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"known": `"detail":"approve by eval"`, "unknown": `"detail":"deny by eval"`}
	for _, a := range r.Attempts {
		n := 0
		for line := range strings.Lines(string(b)) {
			if strings.Contains(line, `"action":"answer-approval"`) && strings.Contains(line, `"session":"`+a.SID+`"`) && strings.Contains(line, `"run":"1"`) && strings.Contains(line, want[a.Case]) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%+v has %d lines in:\n%s", a, n, b)
		}
	}
	if len(r.Attempts) != 6 {
		t.Errorf("%d attempts", len(r.Attempts))
	}
}

func TestEvalRefuses(t *testing.T) {
	dir := t.TempDir()
	bad := write(t, dir, "bad.jsonl", "{\"id\": \"a\"}\n{\"id\": \"b\", \"inputs\": \"x\"}\n")
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{}, []string{"CASES", "--agent"}},
		{[]string{bad, "--agent", example("eval/agent.yaml")}, []string{"bad.jsonl:1:1: input", "bad.jsonl:2:", "inputs"}},
		{[]string{bad, "--agent", "none.yaml", "--repeat", "0", "--parallel", "999", "--effects", "run", "--threshold", "speed>1", "--resume", "a:b"}, []string{"none.yaml", "--repeat", "--parallel", "--budget", "--threshold", "--resume"}},
		{[]string{"--from-journal", "--agent", example("eval/agent.yaml")}, []string{"no session"}},
	} {
		a := stileDo(t, append([]string{"eval", "--dir", filepath.Join(dir, "data")}, c.args...)...)
		if a.status != int(exitUsage) {
			t.Errorf("%q: status %d", c.args, a.status)
		}
		for _, want := range c.want {
			if !strings.Contains(a.err, want) {
				t.Errorf("%q: %q is not in %s", c.args, want, a.err)
			}
		}
	}
}

// A terminal shows how far it is; an interrupt leaves what has ended and says how to go on.
func TestEvalLive(t *testing.T) {
	var out bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	args := []string{"eval", example("eval/cases.jsonl"), "--agent", example("eval/agent.yaml"), "--dir", t.TempDir()}
	on := console{in: strings.NewReader(""), out: &out, err: io.Discard, env: func(string) string { return "" }, outTerminal: true, size: func() (int, int) { return 60, 20 }}
	if got := execute(ctx, args, on); got != int(exitInterrupted) {
		t.Errorf("status %d: %s", got, out.String())
	}
	holds(t, out.String(), "not run", "interrupted", "--resume ")
	out.Reset()
	if got := execute(t.Context(), args, on); got != 0 {
		t.Errorf("status %d: %s", got, out.String())
	}
	holds(t, out.String(), "\r\x1b[K1 of 4 done, 1 passed", "\r\x1b[K4 of 4 done, 4 passed", "\r\x1b[Kevaluation ")
	out.Reset()
	if got := execute(t.Context(), append(args, "--quiet"), on); got != 0 || strings.Contains(out.String(), "\r") {
		t.Errorf("status %d: %q", got, out.String())
	}
}
