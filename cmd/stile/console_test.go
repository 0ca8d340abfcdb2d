package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/seed14be6753/stile"
)

// The console over a journal at rest shows what is in it, changes nothing, and stays on this machine.
func TestConsole(t *testing.T) {
	dir := t.TempDir()
	if a := (call{args: []string{"run", "../../examples/plain/agent.yaml", "I am Ada.", "--session", "ada", "--dir", dir}}).do(t); a.status != 0 {
		t.Fatal(a)
	}
	if err := os.Remove(filepath.Join(dir, stile.KeyFile)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	said, saying := io.Pipe()
	status := make(chan int, 1)
	go func() {
		status <- execute(ctx, []string{"console", "--dir", dir, "--listen", "127.0.0.1:0"}, console{in: strings.NewReader(""), out: saying, err: io.Discard, env: func(string) string { return "" }})
		saying.Close()
	}()
	line := make([]byte, 1000)
	n, err := said.Read(line)
	m := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).Find(line[:n])
	if err != nil || m == nil {
		t.Fatalf("%q, %v", line[:n], err)
	}
	go io.Copy(io.Discard, said)
	for _, c := range []struct{ method, path, want string }{
		{"GET", "/", `<div id="app">`},
		{"GET", "/v1/agents", `"read_only":true`},
		{"GET", "/v1/sessions?last=true", `"decision":"DONE"`},
		{"GET", "/v1/keys", `"kid"`},
		{"GET", "/readyz", "ok"},
		{"DELETE", "/v1/sessions/ada", `"reason":"READ_ONLY"`},
		{"POST", "/v1/keys/rotate", `"reason":"READ_ONLY"`},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, string(m)+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || !strings.Contains(string(got), c.want) {
			t.Errorf("%s %s: %s %s, %v", c.method, c.path, res.Status, got, err)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if got := <-status; got != 0 {
		t.Errorf("status %d", got)
	}
	for want, args := range map[string][]string{
		"other machines": {"--dir", dir, "--listen", "0.0.0.0:0"}, "no journal": {"--dir", t.TempDir(), "--listen", "127.0.0.1:0"},
		"tenant:user": {"--dir", dir, "--listen", "127.0.0.1:0", "--user", "ann"},
	} {
		if a := (call{args: append([]string{"console"}, args...)}).do(t); a.status != 2 || !strings.Contains(a.err, want) {
			t.Errorf("%q: %d %s", args, a.status, a.err)
		}
	}
}
