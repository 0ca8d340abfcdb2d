package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/internal/audit"
	"github.com/seed14be6753/stile/messages"
)

// Who changed what is on record, with what came of it, also when it was refused; and
// neither secrets nor what was said are.
func TestAudit(t *testing.T) {
	k := newTokens(t)
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	d := serve(t, host.Config{Access: k, Audit: host.AuditFile(path), TenantLimits: map[string]host.Limits{"slow": {RequestsPerSecond: 0.001, Burst: 1}}}, agentOf("talker", speaks([]string{"swordfish"}, always())))
	admin, adminID := k.make("acme", "ann", "admin", "users")
	reader, readerID := k.make("acme", "bob", "read")
	slow, slowID := k.make("slow", "eve", "admin")
	d.call(201, nil, "POST", "/v1/sessions", `{"agent": "talker", "id": "s"}`, auth(admin, "X-Request-Id", "r-1")...)
	events(t, d.ask("POST", "/v1/sessions/s/runs?stream=token", `{"input": "swordfish"}`, auth(admin)...).Body, 100)
	d.call(200, nil, "GET", "/v1/sessions/s", "", auth(admin)...) // leaves no line
	d.ask("GET", "/v1/sessions/s/export", "", auth(admin)...)
	d.refused(403, messages.ErrDenied, "DELETE", "/v1/sessions/s", "", auth(reader)...)
	d.refused(404, messages.ErrNotFound, "POST", "/v1/sessions/nobody/runs", `{"input": "x"}`, auth(admin)...)
	d.refused(401, messages.ErrDenied, "DELETE", "/v1/sessions/s", "") // nobody: no line
	d.call(201, nil, "POST", "/v1/sessions/s/fork", `{"id": "f"}`, auth(admin)...)
	if err := os.Rename(path, path+".1"); err != nil { // as who rotates logs does
		t.Fatal(err)
	}
	d.refused(404, messages.ErrNotFound, "POST", "/v1/sessions/s/approvals/abc", `{"allow": true, "digest": "`+strings.Repeat("0", 64)+`"}`, auth(admin)...)
	d.call(204, nil, "DELETE", "/v1/sessions/s", "", auth(admin)...)
	d.call(201, nil, "POST", "/v1/sessions", `{"agent": "talker", "id": "s"}`, auth(slow)...)
	d.full(429, messages.ErrBusy, "RATE", "DELETE", "/v1/sessions/s", "", auth(slow)...)
	d.call(201, nil, "POST", "/v1/sessions", `{"agent": "talker", "id": "s"}`, auth(admin, "X-Stile-User", "carl", "X-Request-Id", "bad id\"")...)
	first, err := os.ReadFile(path + ".1")
	if err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all := append(first, second...)
	for _, secret := range []string{admin, reader, slow, "swordfish"} {
		if bytes.Contains(all, []byte(secret)) {
			t.Errorf("the log tells %q", secret)
		}
	}
	var got []host.AuditEntry
	for line := range bytes.Lines(all) {
		var e host.AuditEntry
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if e.At.IsZero() || e.Request == "" || strings.ContainsAny(e.Request, ` "`) {
			t.Errorf("%s", line)
		}
		// What the client calls its request is kept, and is not the id.
		if first := e.Action == "create-session" && e.User == "ann"; e.Request == "r-1" || first != (e.Client == "r-1") || !first && e.Client != "" {
			t.Errorf("%s", line)
		}
		e.Request, e.Client, e.Prev = "", "", ""
		got = append(got, e)
	}
	want := []host.AuditEntry{
		{Token: adminID, Tenant: "acme", User: "ann", Action: "create-session", Session: "s", Status: 201},
		{Token: adminID, Tenant: "acme", User: "ann", Action: "submit", Session: "s", Run: "1", Status: 200},
		{Token: adminID, Tenant: "acme", User: "ann", Action: "export-session", Session: "s", Status: 200},
		{Token: readerID, Tenant: "acme", User: "bob", Action: "delete-session", Session: "s", Status: 403, Code: "ERR_DENIED", Reason: "SCOPE"},
		{Token: adminID, Tenant: "acme", User: "ann", Action: "submit", Session: "nobody", Status: 404, Code: "ERR_NOT_FOUND", Reason: "NOT_FOUND"},
		{Token: adminID, Tenant: "acme", User: "ann", Action: "fork-session", Session: "s as f", Status: 201},
		{Token: adminID, Tenant: "acme", User: "ann", Action: "answer-approval", Session: "s", Approval: "abc", Status: 404, Code: "ERR_NOT_FOUND", Reason: "UNKNOWN"},
		{Token: adminID, Tenant: "acme", User: "ann", Action: "delete-session", Session: "s", Status: 204},
		{Token: slowID, Tenant: "slow", User: "eve", Action: "create-session", Session: "s", Status: 201},
		{Token: slowID, Tenant: "slow", User: "eve", Action: "delete-session", Session: "s", Status: 429, Code: "ERR_BUSY", Reason: "RATE"},
		{Token: adminID, Tenant: "acme", User: "carl", Action: "create-session", Session: "s", Status: 201},
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) {
			t.Fatalf("%d lines, want %d: %s", len(got), len(want), all)
		}
		got[i].At = want[i].At
		if got[i] != want[i] {
			t.Errorf("line %d:\n%+v, want\n%+v", i, got[i], want[i])
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	// The chain goes on behind a file that was moved away.
	whole(t, path, len(want), 2)
}

// whole checks that a log is as it was written.
func whole(t *testing.T, path string, lines, files int) {
	t.Helper()
	rep, err := audit.Verify(t.Context(), path, audit.Expect{})
	if err != nil {
		t.Fatal(err)
	}
	if rep.Lines != lines || rep.Files != files || len(rep.Problems) > 0 {
		t.Errorf("%+v, want %d lines in %d files", rep, lines, files)
	}
}

// A call over MCP names the tool, the session and the run, whoever began the protocol's
// session, and one that does nothing says why.
func TestAuditOfTools(t *testing.T) {
	k := newTokens(t)
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	d := serve(t, host.Config{Access: k, Audit: host.AuditFile(path)}, agentOf("echo", echo))
	first, firstID := k.make("acme", "ann", "submit")
	second, secondID := k.make("acme", "ann", "submit")
	res := d.ask("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, auth(first, "Accept", rpcAccept)...)
	if _, err := io.ReadAll(res.Body); err != nil {
		t.Fatal(err)
	}
	say := func(token, body string) {
		t.Helper()
		res := d.ask("POST", "/mcp", body, auth(token, "Accept", rpcAccept, "Mcp-Session-Id", res.Header.Get("Mcp-Session-Id"), "X-Request-Id", "c-1")...)
		if b, err := io.ReadAll(res.Body); err != nil || res.StatusCode >= 300 {
			t.Fatalf("%s %s %v", res.Status, b, err)
		}
	}
	call := func(id, tool, session string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"` + tool + `","arguments":{"message":"swordfish","session":"` + session + `"}}}`
	}
	say(first, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	say(second, call("2", "echo", "s"))
	say(second, call("3", "echo", "a:b"))
	say(first, call("4", "nobody", "s"))
	say(first, "["+call("5", "echo", "s")+","+call("6", "echo", "t")+"]")
	d.ask("DELETE", "/mcp", "", auth(first, "Mcp-Session-Id", res.Header.Get("Mcp-Session-Id"))...)
	d.call(200, nil, "POST", "/v1/chat/completions", `{"model": "echo", "messages": [{"role": "user", "content": "hello"}]}`, auth(first, "X-Stile-Session", "u")...)
	all, err := os.ReadFile(path)
	if err != nil || bytes.Contains(all, []byte("swordfish")) {
		t.Errorf("%s %v", all, err)
	}
	var got []string
	for line := range bytes.Lines(all) {
		var e host.AuditEntry
		if err := json.Unmarshal(line, &e); err != nil || e.Request == "" || e.Request == "c-1" || (e.Client == "c-1") == (e.Action == "mcp:initialize" || e.Action == "mcp" || e.Action == "chat-completion") {
			t.Fatalf("%s: %v", line, err)
		}
		got = append(got, strings.Join([]string{map[string]string{firstID: "first", secondID: "second"}[e.Token], e.Action, e.Tool, e.Session, e.Run, strconv.Itoa(e.Status), e.Code}, " "))
	}
	slices.Sort(got[5:7]) // a batch's calls are at once
	want := []string{
		"first mcp:initialize    200 ", "first mcp:notifications/initialized    202 ", "second mcp:tools/call echo s 1 200 ", "second mcp:tools/call echo   400 ERR_INVALID",
		"first mcp:tools/call nobody   200 ", "first mcp:tools/call echo s 2 200 ", "first mcp:tools/call echo t 1 200 ", "first mcp    204 ", "first chat-completion  u 1 200 ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want\n%q", got, want)
	}
	whole(t, path, len(want), 1)
}

// Hosts and commands that write to one log at once make one chain.
func TestAuditTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 25 {
				if err := host.WriteAudit(host.AuditFile(path), host.AuditEntry{Action: "x"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	whole(t, path, 200, 1)
}

// failing is a log on a disk that may be full.
type failing struct {
	bytes.Buffer
	full atomic.Bool
	torn bool // a part of a line went to the log before it was full
}

func (f *failing) Write(p []byte) (int, error) {
	if f.full.Load() {
		if !f.torn {
			f.torn = true
			f.Buffer.Write(p[:len(p)/2])
			return len(p) / 2, syscall.ENOSPC
		}
		return 0, &os.PathError{Op: "write", Path: "/var/log/secret", Err: syscall.ENOSPC}
	}
	return f.Buffer.Write(p)
}

// What could not be recorded is refused, but for what was under way when the log failed:
// that is recorded as soon as the log takes it.
func TestAuditFails(t *testing.T) {
	log := &failing{}
	d := serve(t, host.Config{Audit: log}, agentOf("talker", speaks([]string{"hello"}, always())))
	d.session("before", "talker")
	d.call(200, nil, "GET", "/readyz", "")
	log.full.Store(true)
	d.session("while", "talker") // the log fails when that is done
	for range 3 {
		d.full(503, messages.ErrAudit, "AUDIT", "POST", "/v1/sessions", `{"agent": "talker", "id": "refused"}`)
		d.full(503, messages.ErrAudit, "AUDIT", "DELETE", "/v1/sessions/before", "")
		d.full(503, messages.ErrAudit, "AUDIT", "GET", "/v1/sessions/before/export", "")
	}
	var told struct{ Code, Title string }
	d.call(503, &told, "DELETE", "/v1/sessions/before", "")
	if told.Code != "ERR_AUDIT" || !strings.HasPrefix(told.Title, "The audit log cannot be written") {
		t.Errorf("%+v", told)
	}
	d.call(200, nil, "GET", "/v1/sessions/before", "") // who only looks is let in
	d.call(503, nil, "GET", "/readyz", "")
	log.full.Store(false)
	d.call(200, nil, "GET", "/readyz", "")
	d.session("after", "talker")
	var got []string
	for line := range strings.Lines(log.String()) {
		var e host.AuditEntry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			got = append(got, "torn")
			continue
		}
		got = append(got, e.Action+" "+e.Session)
	}
	if want := []string{"create-session before", "torn", "create-session while", "create-session after"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	if err := os.WriteFile(path, log.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	whole(t, path, 4, 1) // the chain covers what was torn
	d.refused(404, messages.ErrNotFound, "GET", "/v1/sessions/refused", "")
}

// A host does not begin with an audit log that it cannot write.
func TestAuditCannotBegin(t *testing.T) {
	rt, err := stile.New(t.Context(), stile.Config{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close(context.Background())
	path := filepath.Join(t.TempDir(), "gone", "audit.jsonl")
	if _, err := host.New(host.Config{Runtime: rt, Audit: host.AuditFile(path)}); messages.CodeOf(err) != messages.ErrConfig || strings.Contains(err.Error(), path) {
		t.Errorf("%v", err)
	}
}

// A full disk under the log, the lines of requests and the log of decisions costs those lines alone: work goes on, and
// the host stays ready. When there is room again the lines come.
func TestLogOnAFullDisk(t *testing.T) {
	var mu sync.Mutex
	lines, decisions := &failing{}, &failing{}
	lines.full.Store(true)
	decisions.full.Store(true)
	log := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(locked{&mu, lines}), zap.InfoLevel), zap.ErrorOutput(zapcore.AddSync(io.Discard)))
	agent := agentOf("talker", speaks([]string{"hello"}, always()))
	rt, err := stile.New(t.Context(), stile.Config{InMemory: true, Agents: []*stile.Agent{agent}, Log: log, DecisionLog: decisions})
	if err != nil {
		t.Fatal(err)
	}
	l, err := host.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := serveRuntime(t, l, rt, host.Config{Log: log}, agent)
	d.session("s", "talker")
	for range 3 {
		b, err := io.ReadAll(d.ask("POST", "/v1/sessions/s/runs?stream=token", `{"input": "hello"}`).Body)
		if err != nil || !strings.Contains(string(b), "hello") {
			t.Errorf("%s, %v", b, err)
		}
		d.call(200, nil, "GET", "/readyz", "")
	}
	lines.full.Store(false)
	d.call(404, nil, "GET", "/v1/sessions/nobody", "")
	d.call(204, nil, "DELETE", "/v1/sessions/s", "")
	if err := rt.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if got := lines.String(); !strings.Contains(got, `"msg":"request"`) {
		t.Errorf("no line came: %q", got)
	}
}

// locked writes under a lock.
type locked struct {
	mu *sync.Mutex
	to io.Writer
}

func (l locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(p)
}
