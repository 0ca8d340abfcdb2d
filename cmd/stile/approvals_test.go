package main

import (
	"context"
	"encoding/json"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/audit"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
)

// clerk is an agent whose searches need confirmation, and its folder for a journal.
func clerk(t *testing.T) (manifest, data string) {
	t.Helper()
	return agentOf(t, "name: clerk\ndialect: kitsu\nmodel: {script: script.jsonl}\napproval: {tools: {search: confirm}, wait: 1h}\n",
		"Shall I look?\n<action:search query=\"trains\">\n", "There are trains.")
}

// scribe is an agent that writes a text into a file, if it may.
func scribe(t *testing.T, text string) (manifest, data string) {
	t.Helper()
	args, err := json.Marshal([]any{map[string]any{"name": "write", "args": map[string]string{"path": "x", "content": text}}})
	if err != nil {
		t.Fatal(err)
	}
	return agentOf(t, "name: scribe\ndialect: cogency\nmodel: {script: script.jsonl}\nworkspace: {access: sandbox}\nimport: {tools: [write]}\napproval: {tools: {write: confirm}}\n",
		"<execute>"+string(args)+"</execute>", "It is done.")
}

func agentOf(t *testing.T, manifest string, replies ...string) (file, data string) {
	t.Helper()
	script := ""
	for _, r := range replies {
		line, err := json.Marshal(map[string]any{"chunks": []any{map[string]string{"text": r}}})
		if err != nil {
			t.Fatal(err)
		}
		script += string(line) + "\n"
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"agent.yaml": manifest, "script.jsonl": script} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "agent.yaml"), filepath.Join(dir, "data")
}

// waiting lists the one call that waits.
func waiting(t *testing.T, data string) approvalJSON {
	t.Helper()
	var q approvalJSON
	if err := json.Unmarshal([]byte(must(t, "approvals", "list", "--json", "--dir", data)), &q); err != nil {
		t.Fatal(err)
	}
	return q
}

// A run that waits is left there; whoever answers takes it up, in another process.
func TestApprovals(t *testing.T) {
	for _, c := range []struct {
		answer []string
		want   []string
	}{
		{[]string{"allow"}, []string{"approve by ann", "restored after an approval", "says     There are trains.", "DONE"}},
		{[]string{"deny", "--reason", "not now"}, []string{"deny by ann: not now", "#1 failed", "DONE"}},
	} {
		t.Run(c.answer[0], func(t *testing.T) {
			manifest, data := clerk(t)
			a := stileDo(t, "run", manifest, "trains?", "--dir", data, "--session", "s")
			if a.status != int(exitSuspended) {
				t.Fatalf("status %d\n%s%s", a.status, a.out, a.err)
			}
			q := waiting(t, data)
			holds(t, a.out, "says     Shall I look?", "waits    #1 for approval", "stile approvals allow MANIFEST local:local:s "+q.ID)
			if q.SID != "local:local:s" || q.Tool != "search" || q.Args != `{"query":"trains"}` || q.Run != 1 || q.Expires.Sub(q.Asked).Hours() != 1 {
				t.Errorf("%+v", q)
			}
			holds(t, must(t, "approvals", "list", "s", "--dir", data), "local:local:s  "+q.ID+"  search {\"query\":\"trains\"}  "+q.Digest[:12])
			args := append([]string{"approvals", c.answer[0], manifest, "s", q.ID, "--by", "ann", "--dir", data, "--digest", q.Digest[:10]}, c.answer[1:]...)
			holds(t, must(t, args...), c.want...)
			if out := must(t, "approvals", "list", "--json", "--dir", data); out != "" {
				t.Errorf("still waiting: %s", out)
			}
			must(t, "verify", "--dir", data)
			must(t, "replay", "s", "--dir", data)
		})
	}
}

// What is beyond the width of a list, what has no width and what turns the direction of
// writing is seen by who decides, and what was cut cannot be answered from the list.
func TestApprovalsHideNothing(t *testing.T) {
	const begin, end = "print(1) # list files", "evil.py --exfiltrate"
	manifest, data := scribe(t, begin+"\u200b\u2060\ufeff\u061c\u202e\U000e0065"+strings.Repeat("\u00a0", 60)+strings.Repeat("e\u0301\u0301\u0301\u0301\u0301", 2)+end)
	a := stileDo(t, "run", manifest, "trains?", "--dir", data, "--session", "s")
	if a.status != int(exitSuspended) {
		t.Fatalf("status %d\n%s%s", a.status, a.out, a.err)
	}
	q := waiting(t, data)
	list := must(t, "approvals", "list", "--dir", data)
	holds(t, list, "[cut: ", " bytes in all]", "see show", "1 call cut; stile approvals show APPROVAL has all of one")
	if strings.Contains(list, q.Digest[:8]) {
		t.Errorf("a call that was cut has its digest in the list:\n%s", list)
	}
	seen := begin + `\u{200b}\u{2060}\u{feff}\u{61c}\u{202e}\u{e0065}` + strings.Repeat(`\u{a0}`, 60) + strings.Repeat("e\u0301\u0301\u0301\u0301\\u{301}", 2) + end
	show := must(t, "approvals", "show", q.ID, "--dir", data)
	command := "stile approvals allow MANIFEST local:local:s " + q.ID + " --digest " + q.Digest
	for _, out := range []string{show, a.out} {
		holds(t, out, seen, `\u{…} stands for`, "digest    "+q.Digest, command)
	}
	var raw approvalJSON
	if err := json.Unmarshal([]byte(must(t, "approvals", "show", q.ID, "--json", "--dir", data)), &raw); err != nil || raw != q {
		t.Errorf("%v: %+v, want %+v", err, raw, q)
	}
	if a := stileDo(t, "approvals", "show", "forged", "--dir", data); a.status != int(exitFailure) {
		t.Errorf("a call that is not there: status %d", a.status)
	}
	for _, typed := range []string{"no\n", "", "YES, but\n"} {
		a := call{args: []string{"approvals", "allow", manifest, "s", q.ID, "--dir", data}, terminal: true, typed: &typed}.do(t)
		holds(t, a.out, seen, "digest    "+q.Digest, "Allow this call? Type yes: ")
		if a.status != int(exitFailure) || waiting(t, data).ID != q.ID {
			t.Errorf("%q: status %d\n%s%s", typed, a.status, a.out, a.err)
		}
	}
	typed := "yes\n"
	a = call{args: []string{"approvals", "allow", manifest, "s", q.ID, "--dir", data}, terminal: true, typed: &typed}.do(t)
	if a.status != 0 {
		t.Errorf("status %d\n%s%s", a.status, a.out, a.err)
	}
	holds(t, a.out, "It is done.")
}

// A folder that is another by the time of the answer is not the one that was approved: the
// answer does not count, nothing is written, and the call can be denied.
func TestApprovalsOfAnotherFolder(t *testing.T) {
	manifest, data := scribe(t, "text")
	stileDo(t, "run", manifest, "write", "--dir", data, "--session", "s")
	q := waiting(t, data)
	holds(t, must(t, "approvals", "show", q.ID, "--dir", data), `rests on  {"folder":"`, `"tool":"write"}`, q.Digest)
	other := filepath.Join(filepath.Dir(manifest), "other")
	text, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{os.Mkdir(other, 0o755), os.WriteFile(manifest, []byte(strings.Replace(string(text), "sandbox}", "sandbox, root: other}", 1)), 0o644)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	a := stileDo(t, "approvals", "allow", manifest, "s", q.ID, "--digest", q.Digest, "--dir", data)
	if a.status != int(exitFailure) {
		t.Errorf("status %d\n%s%s", a.status, a.out, a.err)
	}
	holds(t, a.err, "ERR_APPROVAL/CHANGED")
	if list, err := os.ReadDir(other); err != nil || len(list) > 0 || waiting(t, data).ID != q.ID {
		t.Errorf("%v %v", list, err)
	}
	must(t, "approvals", "deny", manifest, "s", q.ID, "--dir", data)
	must(t, "verify", "--dir", data)
}

// At a terminal a run shows its calls and asks, and goes on with the answer.
func TestRunAsks(t *testing.T) {
	for typed, want := range map[string]string{"yes\n": "approve by ", "no\n": "deny by "} {
		manifest, data := scribe(t, "tra\u200bins")
		must(t, "tokens", "create", "--dir", data) // a host keeps an audit log there
		a := call{args: []string{"run", manifest, "trains?", "--dir", data, "--session", "s"}, terminal: true, typed: &typed}.do(t)
		if a.status != 0 {
			t.Errorf("%q: status %d\n%s%s", typed, a.status, a.out, a.err)
		}
		holds(t, a.out, `tra\u{200b}ins`, "Allow this call? yes, no, or nothing for later: ", want, "It is done.", "DONE")
		must(t, "replay", "s", "--dir", data)
		must(t, "audit", "verify", "--dir", data)
		b, err := os.ReadFile(filepath.Join(data, audit.Name))
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(b)), "\n")
		if len(lines) != 2 {
			t.Fatalf("%d lines: %s", len(lines), b)
		}
		holds(t, lines[1], `"action":"answer-approval"`, `"session":"s"`, want)
	}
	manifest, data := clerk(t)
	later := "\n"
	a := call{args: []string{"run", manifest, "trains?", "--dir", data, "--session", "s"}, terminal: true, typed: &later}.do(t)
	if a.status != int(exitSuspended) {
		t.Errorf("status %d\n%s%s", a.status, a.out, a.err)
	}
	holds(t, a.out, "stile approvals allow MANIFEST local:local:s "+waiting(t, data).ID)
}

// An answer that is forged, changed, nobody's, foreign, double or late does not count.
func TestApprovalsRefused(t *testing.T) {
	manifest, data := clerk(t)
	refused := func(reason string, args ...string) {
		t.Helper()
		code := string(messages.ErrApproval)
		if reason == stile.ApprovalUnknown {
			code = string(messages.ErrNotFound)
		}
		for _, verb := range []string{"allow", "deny"} {
			a := stileDo(t, append([]string{"approvals", verb, manifest, "s"}, append(args, "--dir", data)...)...)
			if a.status != int(exitFailure) {
				t.Errorf("%s %v: status %d\n%s", verb, args, a.status, a.out)
			}
			holds(t, a.err, code+"/"+reason)
		}
	}
	stileDo(t, "run", manifest, "trains?", "--dir", data, "--session", "s")
	stileDo(t, "run", manifest, "trains?", "--dir", data, "--session", "other")
	var id, digest, other string
	{
		var q approvalJSON
		if err := json.Unmarshal([]byte(must(t, "approvals", "list", "s", "--json", "--dir", data)), &q); err != nil {
			t.Fatal(err)
		}
		id, digest = q.ID, q.Digest
		if err := json.Unmarshal([]byte(must(t, "approvals", "list", "other", "--json", "--dir", data)), &q); err != nil {
			t.Fatal(err)
		}
		other = q.ID
	}
	refused(stile.ApprovalUnknown, "forged")
	refused(stile.ApprovalUnknown, "-JanDujaudcBaG5EphLXVA")
	refused(stile.ApprovalUnknown, other)
	refused(stile.ApprovalChanged, id, "--digest", "0000000000")
	refused(stile.ApprovalPrincipal, id, "--by", "")
	if a := stileDo(t, "approvals", "allow", manifest, "s", id, "--dir", data); a.status != int(exitUsage) {
		t.Errorf("without a digest: status %d\n%s%s", a.status, a.out, a.err)
	} else {
		holds(t, a.err, "--digest", "stile approvals show "+id+" --dir "+data)
	}
	must(t, "approvals", "allow", manifest, "s", id, "--dir", data, "--digest", digest)
	refused(stile.ApprovalAnswered, id)

	if a := stileDo(t, "approvals", "allow", manifest, "other", other, "--digest", "abc", "--dir", data); a.status != int(exitUsage) {
		t.Errorf("a short digest: status %d", a.status)
	}
	if a := stileDo(t, "approvals", "allow", manifest, "nobody", id, "--dir", data); a.status == 0 {
		t.Error("a session that is not there was answered")
	}
	if a := stileDo(t, "approvals", "list", "nobody", "--dir", data); a.status == 0 {
		t.Error("a session that is not there was listed")
	}
}

// stuck answers nothing until it is stopped.
type stuck struct{ asked chan struct{} }

func (s stuck) Stream(ctx context.Context, _ llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		close(s.asked)
		<-ctx.Done()
		yield(llm.Chunk{}, ctx.Err())
	}
}

// Lists and refused answers leave a run that was interrupted as it is, however many there
// are: an answer that settled it each time would end it at the fourth.
func TestApprovalsTouchNothing(t *testing.T) {
	manifest, data := clerk(t)
	stileDo(t, "run", manifest, "trains?", "--dir", data, "--session", "s")
	q := waiting(t, data)
	must(t, "approvals", "allow", manifest, "s", q.ID, "--dir", data, "--digest", q.Digest)
	agent, err := stile.LoadAgent(manifest)
	if err != nil {
		t.Fatal(err)
	}
	slow := stuck{make(chan struct{})}
	agent.Model = slow
	rt, err := stile.New(t.Context(), stile.Config{Dir: data})
	if err != nil {
		t.Fatal(err)
	}
	s, err := rt.Open(t.Context(), "s", agent)
	if err == nil {
		_, err = s.Submit(t.Context(), "trains?")
	}
	if err != nil {
		t.Fatal(err)
	}
	<-slow.asked
	if err := rt.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := must(t, "sessions", "export", "s", "--dir", data)
	holds(t, must(t, "sessions", "list", "--dir", data), "interrupted")
	for range 4 {
		must(t, "approvals", "list", "s", "--dir", data)
		for verb, id := range map[string]string{"allow": "forged", "deny": q.ID} {
			if a := stileDo(t, "approvals", verb, manifest, "s", id, "--dir", data); a.status != int(exitFailure) {
				t.Errorf("%s %s: status %d\n%s%s", verb, id, a.status, a.out, a.err)
			}
		}
	}
	if after := must(t, "sessions", "export", "s", "--dir", data); after != before {
		t.Errorf("the session has changed: %s", strings.TrimPrefix(after, before))
	}
	holds(t, must(t, "sessions", "list", "--dir", data), "interrupted")
}
