package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// A host that is started serves its agents, and an interrupt ends it with status 0;
// what it did can be verified then.
func TestServe(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	said, out := io.Pipe()
	var log strings.Builder // read when the host has ended
	status := make(chan int, 1)
	go func() {
		status <- execute(ctx, []string{"serve", "../../examples/plain/agent.yaml", "--listen", "127.0.0.1:0", "--dir", dir}, console{
			in: strings.NewReader(""), out: out, err: &log, env: func(string) string { return "" },
		})
		out.Close()
	}()
	line := make([]byte, 100)
	n, err := said.Read(line)
	m := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).Find(line[:n])
	if err != nil || m == nil {
		t.Fatalf("%q, %v", line[:n], err)
	}
	go io.Copy(io.Discard, said)
	url := string(m)
	for _, c := range []struct{ path, body, want string }{
		{"/v1/sessions", `{"agent": "plain", "id": "ada"}`, `"id":"ada"`},
		{"/v1/sessions/ada/runs?stream=token", `{"input": "I am Ada."}`, `"decision":"DONE"`},
	} {
		res, err := http.Post(url+c.path, "application/json", strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || !strings.Contains(string(got), c.want) {
			t.Errorf("%s: %s %s, %v", c.path, res.Status, got, err)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if got := <-status; got != 0 {
		t.Errorf("status %d", got)
	}
	holds(t, log.String(), `"msg":"serving"`, `"address":"`+url+`"`, `"agents":["plain"]`, `"settings":"flags, environment and defaults"`, `"msg":"stopped","turns_left":0`)
	must(t, "verify", "ada", "--dir", dir)
}

// A host of the binary alone: no manifest, no key, no file that stays.
func TestServeDemo(t *testing.T) {
	t.Chdir(t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	said, saying := io.Pipe()
	status := make(chan int, 1)
	go func() {
		status <- execute(ctx, []string{"serve", "--demo", "--listen", "127.0.0.1:0"}, console{in: strings.NewReader(""), out: saying, err: io.Discard, env: func(string) string { return "" }})
		saying.Close()
	}()
	line := make([]byte, 1000)
	n, err := said.Read(line)
	m := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).Find(line[:n])
	if err != nil || m == nil || !strings.Contains(string(line[:n]), "curl -N "+string(m)+"/v1/chat/completions") {
		t.Fatalf("%q, %v", line[:n], err)
	}
	go io.Copy(io.Discard, said)
	for question, want := range map[string]string{"What time is it?": "The clock of this host says 20", "Hello": "no key is needed"} {
		for range 2 { // as often as one likes
			res, err := http.Post(string(m)+"/v1/chat/completions", "application/json", strings.NewReader(`{"model": "demo", "messages": [{"role": "user", "content": "`+question+`"}]}`))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil || res.StatusCode != http.StatusOK || !strings.Contains(string(got), want) {
				t.Errorf("%s: %s %s, %v", question, res.Status, got, err)
			}
		}
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if got := <-status; got != 0 {
		t.Errorf("status %d", got)
	}
	if left, err := os.ReadDir("."); err != nil || len(left) > 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}

// A shell completes the values of flags that have only some.
func TestFlagValues(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"serve", "--auth", ""}, "auto tokens none :4"},
		{[]string{"doctor", "--auth", ""}, "auto tokens none :4"},
		{[]string{"tokens", "create", "--scope", ""}, "read submit approve admin users metrics feeds operator :4"},
		{[]string{"run", "--provider", ""}, "openai anthropic gemini :4"},
	} {
		if a := stileDo(t, append([]string{"__complete"}, c.args...)...); strings.Join(strings.Fields(a.out), " ") != c.want {
			t.Errorf("%q: %q", c.args, a.out)
		}
	}
}

func TestServeRefuses(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"serve"}, "name a manifest to serve, as an argument or in stile.yaml; stile serve --demo needs none"},
		{[]string{"serve", "--demo", "testdata/nowhere.yaml"}, "it brings an agent of its own"},
		{[]string{"serve", "testdata/nowhere.yaml"}, "nowhere.yaml"},
		{[]string{"serve", "../../examples/plain/agent.yaml", "--memory", "--listen", "0.0.0.0:0"}, "does not authenticate"},
		{[]string{"serve", "../../examples/plain/agent.yaml", "../../examples/plain/agent.yaml", "--memory", "--listen", "127.0.0.1:0"}, "two agents are named plain"},
	} {
		if a := stileDo(t, c.args...); a.status == 0 || !strings.Contains(a.err, c.want) {
			t.Errorf("%q: status %d, %s", c.args, a.status, a.err)
		}
	}
}

// The line of the start says where the journal is, also when the environment alone names a database,
// and never its address.
func TestStartTellsTheJournal(t *testing.T) {
	for _, c := range []struct {
		s    settings
		env  string
		want string
	}{
		{settings{Dir: "d"}, "", "SQLite in d"},
		{settings{Dir: "d", Memory: true}, "", "memory"},
		{settings{Dir: "d", Journal: "postgres://db/x"}, "", "PostgreSQL"},
		{settings{Dir: "d", Cluster: clusterSettings{Address: "10.0.0.1:8472"}}, "postgres://u:secret@db/x", "PostgreSQL"},
	} {
		core, lines := observer.New(zapcore.InfoLevel)
		a := &app{console: console{env: func(string) string { return c.env }}}
		a.tellStart(zap.New(core), &c.s, "http://127.0.0.1:1", true, nil)
		if got := lines.All()[0].ContextMap(); got["journal"] != c.want || got["cluster"] != c.s.Cluster.Address {
			t.Errorf("%+v: %v", c.s, got)
		}
	}
}
