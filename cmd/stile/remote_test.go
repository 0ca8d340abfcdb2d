package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// served starts stile serve, in process, and gives its address and how to end it.
func served(t *testing.T, env map[string]string, args ...string) (url string, stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	said, out := io.Pipe()
	status := make(chan int, 1)
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		status <- execute(ctx, append([]string{"serve"}, args...), console{in: strings.NewReader(""), out: out, err: log, env: func(name string) string { return env[name] }})
		out.Close()
	}()
	line := make([]byte, 200)
	n, err := said.Read(line)
	m := regexp.MustCompile(`https?://127\.0\.0\.1:\d+`).Find(line[:n])
	if err != nil || m == nil {
		b, _ := os.ReadFile(log.Name())
		t.Fatalf("%q, %v\n%s", line[:n], err, b)
	}
	go io.Copy(io.Discard, said)
	ended := false
	stop = func() int {
		if ended {
			return 0
		}
		ended = true
		http.DefaultClient.CloseIdleConnections()
		cancel()
		return <-status
	}
	t.Cleanup(func() { stop(); log.Close() })
	return string(m), stop
}

// ask sends a request with a token and gives the answer.
func ask(t *testing.T, method, url, token, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(b)
}

// Sessions of a running host are followed, cancelled and deleted from outside, by those
// who may; a backup of it is restored.
func TestRemote(t *testing.T) {
	dir := t.TempDir()
	token := func(args ...string) (file, secret string) {
		t.Helper()
		secret = strings.TrimSpace(must(t, append([]string{"tokens", "create", "--dir", dir, "--tenant", "acme"}, args...)...))
		return write(t, t.TempDir(), "token", secret+"\n"), secret
	}
	admin, secret := token("--user", "ann", "--scope", "admin")
	reader, _ := token("--user", "ann", "--scope", "read")
	backend, _ := token("--user", "svc", "--scope", "admin,users")
	url, stop := served(t, nil, example("plain/agent.yaml"), "--dir", dir, "--listen", "127.0.0.1:0")
	for _, id := range []string{"ada", "eve"} {
		if status, text := ask(t, "POST", url+"/v1/sessions", secret, `{"agent": "plain", "id": "`+id+`"}`); status != 201 {
			t.Fatal(text)
		}
		if status, text := ask(t, "POST", url+"/v1/sessions/"+id+"/runs?stream=token", secret, `{"input": "I am Ada."}`); status != 200 || !strings.Contains(text, "run.end") {
			t.Fatal(text)
		}
	}
	at := func(file string) []string { return []string{"--host", url, "--token-file", file} }
	shown := must(t, append([]string{"sessions", "tail", "ada", "--run", "1"}, at(reader)...)...)
	holds(t, shown, "I am Ada.", "DONE")
	lines := must(t, append([]string{"sessions", "tail", "acme:ann:ada", "--run", "1", "--json"}, at(backend)...)...)
	for line := range strings.Lines(lines) {
		if !json.Valid([]byte(line)) {
			t.Errorf("%s", line)
		}
	}
	holds(t, lines, `"type":"input"`, `"type":"run.end"`)
	holds(t, must(t, "backup", filepath.Join(dir, "b"), "--dir", dir), "2 sessions", "verified")
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{append([]string{"sessions", "delete", "ada"}, at(reader)...), 1, "ERR_DENIED/SCOPE"},
		{append([]string{"sessions", "cancel", "ada"}, at(reader)...), 1, "ERR_DENIED/SCOPE"},
		{append([]string{"sessions", "cancel", "ada"}, at(admin)...), 1, "not in flight"},
		{append([]string{"sessions", "tail", "nobody"}, at(reader)...), 2, "no session"},
		{[]string{"sessions", "tail", "ada", "--host", url}, 1, "UNAUTHENTICATED"},
		{[]string{"sessions", "tail", "ada", "--host", "nowhere"}, 2, "host"},
		{[]string{"sessions", "delete", "ada", "--host", "http://127.0.0.1:1"}, 1, "does not answer"},
		{append([]string{"sessions", "tail", "ada", "--after", "x"}, at(reader)...), 2, "Last-Event-ID"},
	} {
		if a := stileDo(t, c.args...); a.status != c.status || !strings.Contains(a.err, c.want) {
			t.Errorf("%q: %+v", c.args, a)
		}
	}
	holds(t, must(t, append([]string{"sessions", "set", "ada", "--title", "Refund", "--tag", "desk=3", "--tag", "new"}, at(admin)...)...), "ada is Refund [desk=3] [new]\n")
	holds(t, must(t, append([]string{"sessions", "set", "ada", "--title", "", "--untag", "new"}, at(admin)...)...), "ada is [desk=3]\n")
	if a := stileDo(t, append([]string{"sessions", "set", "ada", "--tag", "a b"}, at(admin)...)...); a.status != 2 || !strings.Contains(a.err, "has a space") {
		t.Errorf("%+v", a)
	}
	if a := stileDo(t, append([]string{"sessions", "set", "ada", "--tag", "x"}, at(reader)...)...); a.status != 1 || !strings.Contains(a.err, "ERR_DENIED/SCOPE") {
		t.Errorf("%+v", a)
	}
	holds(t, must(t, append([]string{"sessions", "delete", "ada"}, at(admin)...)...), "ada is deleted")
	if a := stileDo(t, append([]string{"sessions", "delete", "ada"}, at(admin)...)...); a.status != 2 {
		t.Errorf("%+v", a)
	}
	call := call{args: []string{"sessions", "delete", "eve", "--host", url}, env: map[string]string{"STILE_TOKEN": secret}}
	if a := call.do(t); a.status != 0 {
		t.Errorf("%+v", a)
	}
	holds(t, must(t, append([]string{"sessions", "erase", "ann"}, at(backend)...)...), "ann is erased: 0 sessions")
	if a := stileDo(t, append([]string{"sessions", "erase", "eve"}, at(admin)...)...); a.status != 1 || !strings.Contains(a.err, "ERR_DENIED/SCOPE") {
		t.Errorf("%+v", a)
	}
	if got := stop(); got != 0 {
		t.Errorf("the host ended with %d", got)
	}
	must(t, "verify", "--dir", dir)
	back := filepath.Join(t.TempDir(), "back")
	holds(t, must(t, "restore", filepath.Join(dir, "b"), "--dir", back), "2 sessions", "verified")
	holds(t, must(t, "sessions", "show", "acme:ann:ada", "--dir", back), "I am Ada.")
	if a := stileDo(t, "restore", filepath.Join(dir, "b"), "--dir", back); a.status != 2 {
		t.Errorf("%+v", a)
	}
}

// Tokens of a running host are made, listed and revoked from outside, as with its
// directory.
func TestTokensAtHost(t *testing.T) {
	dir := t.TempDir()
	admin := write(t, t.TempDir(), "token", must(t, "tokens", "create", "--dir", dir, "--tenant", "acme", "--user", "ann", "--scope", "admin"))
	url, _ := served(t, nil, example("plain/agent.yaml"), "--dir", dir, "--listen", "127.0.0.1:0")
	at := func(args ...string) []string {
		return append(append([]string{"tokens"}, args...), "--host", url, "--token-file", admin)
	}
	made := strings.TrimSpace(must(t, at("create", "--scope", "admin", "--note", "deputy", "--expires", "0")...))
	if status, text := ask(t, "GET", url+"/v1/tokens", made, ""); status != 200 {
		t.Error(text)
	}
	list := must(t, at("list")...)
	holds(t, list, "MADE BY", "acme", "ann", "deputy")
	if here := must(t, "tokens", "list", "--dir", dir); here != list {
		t.Errorf("the directory:\n%s\nthe host:\n%s", here, list)
	}
	var ids []string
	for line := range strings.Lines(must(t, at("list", "--json")...)) {
		var tok struct{ ID string }
		if err := json.Unmarshal([]byte(line), &tok); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, tok.ID)
	}
	third := strings.TrimSpace(must(t, at("create", "--note", "to be rotated", "--scope", "read")...))
	id, _, _ := strings.Cut(strings.TrimPrefix(third, "stile_"), "_")
	next := stileDo(t, at("rotate", id, "--grace", "0", "--expires", "0")...)
	if again := strings.TrimSpace(next.out); next.status != 0 || !strings.HasPrefix(again, "stile_") || !strings.Contains(next.err, id+", which it replaces, is revoked") || !strings.Contains(next.err, "for ever") {
		t.Errorf("%+v", next)
	} else if status, text := ask(t, "GET", url+"/v1/agents", again, ""); status != 200 {
		t.Error(text)
	}
	for _, c := range []struct {
		args   []string
		status int
		want   string
	}{
		{at("rotate", id, "--grace", "-1s"), 2, "grace"},
		{at("create", "--tenant", "globex"), 2, "tenant"},
		{at("create", "--user", "bob"), 1, "ERR_DENIED/SCOPE"},
		{at("revoke", "nobody"), 2, "there is no token"},
		{append(at("list"), "--dir", dir), 2, "[dir host]"},
		{[]string{"tokens", "list", "--dir", dir, "--token-file", admin}, 2, "token-file"},
	} {
		if a := stileDo(t, c.args...); a.status != c.status || !strings.Contains(a.err, c.want) {
			t.Errorf("%q: %+v", c.args, a)
		}
	}
	a := stileDo(t, "tokens", "revoke", ids[0], "--dir", dir)
	if a.status != 0 || !strings.Contains(a.err, "it made "+ids[1]+", ") || !strings.Contains(a.err, ", still good") {
		t.Errorf("%+v", a)
	}
	second := write(t, t.TempDir(), "token", made)
	holds(t, must(t, "tokens", "revoke", ids[0], "--with-made", "--host", url, "--token-file", second), ids[0]+" of acme:ann is revoked", ids[1]+" of acme:ann is revoked")
	if status, text := ask(t, "GET", url+"/v1/tokens", made, ""); status != 401 {
		t.Error(text)
	}
}

// A stream that is cut anywhere is resumed where it broke, and shows every update once.
func TestTailResumes(t *testing.T) {
	dir := t.TempDir()
	url, _ := served(t, nil, example("plain/agent.yaml"), "--dir", dir, "--listen", "127.0.0.1:0")
	ask(t, "POST", url+"/v1/sessions", "", `{"agent": "plain", "id": "ada"}`)
	ask(t, "POST", url+"/v1/sessions/ada/runs?stream=token", "", `{"input": "I am Ada."}`)
	whole := must(t, "sessions", "tail", "ada", "--run", "1", "--json", "--host", url)
	connections, cut := 0, 40
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		connections++
		out := r.Clone(r.Context())
		out.RequestURI, out.URL.Scheme, out.URL.Host, out.Host = "", "http", strings.TrimPrefix(url, "http://"), ""
		res, err := http.DefaultClient.Do(out)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer res.Body.Close()
		w.WriteHeader(res.StatusCode)
		cut += 97
		if n, _ := io.CopyN(w, res.Body, int64(cut)); n == int64(cut) {
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler) // in the middle of it
		}
	}))
	defer proxy.Close()
	if got := must(t, "sessions", "tail", "ada", "--run", "1", "--json", "--host", proxy.URL); got != whole || connections < 3 {
		t.Errorf("over %d connections:\n%s\nwhole:\n%s", connections, got, whole)
	}
}

// A command that waits for a host says why, and does not wait for what waiting does not mend.
func TestHostsThatDoNotAnswer(t *testing.T) {
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	for host, want := range map[string]string{
		secure.URL: "SSL_CERT_FILE", strings.Replace(plain.URL, "http:", "https:", 1): "it speaks no TLS", plain.URL: "404",
	} {
		a := stileDo(t, "sessions", "tail", "ada", "--host", host)
		if a.status != int(exitFailure) && a.status != int(exitUsage) || !strings.Contains(a.err, want) || strings.Contains(a.err, "trying again") {
			t.Errorf("%s: %+v", host, a)
		}
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	var errs bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	status := execute(ctx, []string{"sessions", "tail", "ada", "--host", gone.URL}, console{
		in: strings.NewReader(""), out: io.Discard, err: &trigger{w: &errs, text: "trying again in", fire: cancel}, env: func(string) string { return "" },
	})
	if status != int(exitInterrupted) || !strings.Contains(errs.String(), "the host does not answer: ") || !strings.Contains(errs.String(), "refused; trying again in ") {
		t.Errorf("status %d: %s", status, errs.String())
	}
}
