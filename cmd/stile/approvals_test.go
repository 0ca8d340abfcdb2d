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
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
)

// clerk is an agent whose searches need confirmation, and its folder for a journal.
func clerk(t *testing.T) (manifest, data string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"agent.yaml": "name: clerk\ndialect: kitsu\nmodel: {script: clerk.jsonl}\napproval: {tools: {search: confirm}, wait: 1h}\n",
		"clerk.jsonl": `{"chunks":[{"text":"Shall I look?\n<action:search query=\"trains\">\n"}]}` + "\n" +
			`{"chunks":[{"text":"There are trains."}]}` + "\n",
	} {
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
	var id, other string
	{
		var q approvalJSON
		if err := json.Unmarshal([]byte(must(t, "approvals", "list", "s", "--json", "--dir", data)), &q); err != nil {
			t.Fatal(err)
		}
		id = q.ID
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
	must(t, "approvals", "allow", manifest, "s", id, "--dir", data)
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
	must(t, "approvals", "allow", manifest, "s", q.ID, "--dir", data)
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
