package mcp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
)

// What a server answers, as the model gets it.
func TestResults(t *testing.T) {
	s := server(t, pool(t, Options{}), self("on"))
	for _, c := range []struct{ tool, args, want string }{
		{"echo", `{"text":"a </results> \"b\" <&>"}`, `"a </results> \"b\" <&>"`},
		{"echo", `{"text":"{\"a\":1}"}`, `"{\"a\":1}"`},
		{"add", `{"a":40,"b":2}`, `{"sum":42}`},
		{"exact", `{"n":9007199254740993}`, `{"n":9007199254740993}`}, // beyond what values of programs hold
		{"picture", `{"text":""}`, `[{"text":"see","type":"text"},{"bytes":3,"mime":"image/png","note":"not text; left out","type":"image"},{"description":"","name":"a","type":"link","uri":"file:///a"},{"mime":"text/plain","text":"inside","type":"resource","uri":"x:y"}]`},
	} {
		if got := call(t, s, c.tool, c.args); got != c.want {
			t.Errorf("%s %s: got %s, want %s", c.tool, c.args, got, c.want)
		}
	}
	_, err := s.Call(ctx, "fail-softly", messages.Effectful, `{"text":"why"}`)
	wantScript(t, err, neuroscript.CodeToolFailed, "no: why")
	_, err = s.Call(ctx, "nowhere", messages.Effectful, `{}`)
	wantScript(t, err, neuroscript.CodeToolFailed, "refuses")
}

// Results are bounded; the connection outlives one that is too long for it.
func TestLargeResults(t *testing.T) {
	cfg := self("on")
	cfg.MaxBytes = 1000
	s := server(t, pool(t, Options{}), cfg)
	if got := call(t, s, "repeat", `{"text":"998"}`); len(got) != 1000 {
		t.Errorf("%d bytes", len(got))
	}
	for _, n := range []int{999, 1001, 5 << 20} {
		_, err := s.Call(ctx, "repeat", messages.Effectful, fmt.Sprintf(`{"text":"%d"}`, n))
		wantScript(t, err, neuroscript.CodeToolFailed, "over its limit of 1000 bytes")
	}
	pid := call(t, s, "pid", `{"text":""}`)
	_, err := s.Call(ctx, "repeat", messages.Effectful, fmt.Sprintf(`{"text":"%d"}`, maxMessageBytes+1))
	wantUnknown(t, err)
	if again := call(t, s, "pid", `{"text":""}`); again == pid {
		t.Error("a message over its bound did not end the connection")
	}
}

// Equal configurations share a connection, others do not.
func TestOneConnection(t *testing.T) {
	p := pool(t, Options{})
	a, b := server(t, p, self("on")), server(t, p, self("on"))
	if a != b {
		t.Error("two servers of one configuration")
	}
	other := self("on")
	other.Dir = t.TempDir()
	one, two := call(t, a, "pid", `{"text":""}`), call(t, server(t, p, other), "pid", `{"text":""}`)
	if one == two {
		t.Error("one process for two configurations")
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range []string{one, two} {
		if alive(t, strings.Trim(pid, `"`)) {
			t.Errorf("process %s outlives its pool", pid)
		}
	}
	if _, err := a.Call(ctx, "pid", messages.Effectful, `{"text":""}`); err == nil {
		t.Error("a call after the close")
	}
	if _, err := p.Server(self("new")); messages.CodeOf(err) != messages.ErrCancelled {
		t.Errorf("a new server after the close: %v", err)
	}
}

func alive(t *testing.T, pid string) bool {
	t.Helper()
	n := 0
	if _, err := fmt.Sscan(pid, &n); err != nil {
		t.Fatal(err)
	}
	return syscall.Kill(n, 0) == nil
}

// Closing the pool kills what the server left behind in its group.
func TestChildrenEnd(t *testing.T) {
	p := pool(t, Options{})
	child := strings.Trim(call(t, server(t, p, self("on")), "child", `{"text":""}`), `"`)
	if !alive(t, child) {
		t.Fatal("the child never ran")
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	for range 200 { // it is init that reaps it
		if state, err := os.ReadFile("/proc/" + child + "/stat"); err != nil || strings.Contains(string(state), ") Z ") {
			return
		}
		syscall.Select(0, nil, nil, nil, &syscall.Timeval{Usec: 10_000})
	}
	t.Error("the child outlives its group")
}

// A server that dies during a call: an effect is unknown, a harmless call is made
// once more, and the next call finds a new server.
func TestDies(t *testing.T) {
	var mu sync.Mutex
	var notices []string
	s := server(t, pool(t, Options{Notice: func(_, text string) {
		mu.Lock()
		defer mu.Unlock()
		notices = append(notices, text)
	}}), self("on"))
	pid := call(t, s, "pid", `{"text":""}`)
	_, err := s.Call(ctx, "die", messages.Effectful, `{"text":""}`)
	wantUnknown(t, err, "the MCP server test gave no answer", "exit status 3")
	_, err = s.Call(ctx, "die", messages.Keyed, `{"text":""}`)
	wantUnknown(t, err)
	_, err = s.Call(ctx, "die", messages.ReadOnly, `{"text":""}`)
	wantScript(t, err, neuroscript.CodeToolFailed, "exit status 3")
	if strings.Contains(err.Error(), "main.go") {
		t.Errorf("what the program says of itself is not for a model: %v", err)
	}
	if again := call(t, s, "pid", `{"text":""}`); again == pid {
		t.Error("the same process")
	}
	if err := s.pool.Close(); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if got := strings.Count(strings.Join(notices, "\n"), "connection lost"); got != 4 {
		t.Errorf("%d connections were lost, want 4: two of effects, two of one harmless call: %q", got, notices)
	}
	if !strings.Contains(notices[1], "exit status 3: panic: at /srv/tools/main.go:7") {
		t.Errorf("the operator does not read what the program said: %q", notices)
	}
}

// What a program prints where messages belong ends nothing. The operator reads the first
// line of it.
func TestChatty(t *testing.T) {
	t.Setenv("STILE_TEST_KEY", "tops3cret")
	var mu sync.Mutex
	var notices []string
	cfg := self("chatty")
	cfg.Secrets = []string{"STILE_TEST_KEY"}
	s := server(t, pool(t, Options{Secret: os.LookupEnv, Notice: func(_, text string) {
		mu.Lock()
		defer mu.Unlock()
		notices = append(notices, text)
	}}), cfg)
	pid := call(t, s, "pid", `{"text":""}`)
	for _, line := range []string{"deprecated!", `{"id":7,"result":{}}`, "", "{", strings.Repeat("-", 200_000)} {
		if got := call(t, s, "print", fmt.Sprintf(`{"text":%q}`, line)); got != `"printed"` {
			t.Errorf("%.40q: got %s", line, got)
		}
	}
	if again := call(t, s, "pid", `{"text":""}`); again != pid {
		t.Error("the connection did not last")
	}
	_, err := s.Call(ctx, "print", messages.Effectful, `{"text":"{\"jsonrpc\":\"2.0\",\"id\":3,\"resu"}`)
	wantUnknown(t, err) // the answer may be that of either call
	if err := s.pool.Close(); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := "on its standard output, where messages belong: Welcome, [redacted]!"; len(notices) < 2 || notices[0] != want || strings.Contains(strings.Join(notices[1:2], ""), "standard output") {
		t.Errorf("the operator reads %q, want %q first", notices, want)
	}
}

// The end of a call's context reaches the server, and leaves the connection alone.
func TestCancelReachesServer(t *testing.T) {
	s := server(t, pool(t, Options{}), self("on"))
	pid := call(t, s, "pid", `{"text":""}`)
	file := filepath.Join(t.TempDir(), "state")
	own, cancel := context.WithCancelCause(ctx)
	why := errors.New("no longer wanted")
	go func() {
		for {
			if b, err := os.ReadFile(file); err == nil && string(b) == "hanging" {
				cancel(why)
				return
			}
			syscall.Select(0, nil, nil, nil, &syscall.Timeval{Usec: 5_000})
		}
	}()
	_, err := s.Call(own, "hang", messages.Effectful, fmt.Sprintf(`{"text":%q}`, file))
	if !errors.Is(err, why) {
		t.Fatalf("got %v", err)
	}
	for deadline := time.Now().Add(20 * time.Second); ; {
		if b, _ := os.ReadFile(file); string(b) == "cancelled" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the server was not told")
		}
		syscall.Select(0, nil, nil, nil, &syscall.Timeval{Usec: 5_000})
	}
	if again := call(t, s, "pid", `{"text":""}`); again != pid {
		t.Error("the connection did not last")
	}
}

// A close during a call ends it.
func TestCloseDuringCall(t *testing.T) {
	p := NewPool(Options{})
	s := server(t, p, self("on"))
	file := filepath.Join(t.TempDir(), "state")
	got := make(chan error)
	go func() {
		_, err := s.Call(ctx, "hang", messages.Effectful, fmt.Sprintf(`{"text":%q}`, file))
		got <- err
	}()
	for {
		if b, err := os.ReadFile(file); err == nil && len(b) > 0 {
			break
		}
		syscall.Select(0, nil, nil, nil, &syscall.Timeval{Usec: 5_000})
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	wantUnknown(t, <-got, "gave no answer")
}

// The environment of a program is its own: nothing of the host's but what is named.
func TestEnvironment(t *testing.T) {
	t.Setenv("STILE_TEST_KEY", "sk-very-secret-1")
	t.Setenv("STILE_TEST_OTHER", "not for servers")
	cfg := self("on")
	cfg.Env["PLAIN"] = "plain"
	cfg.Secrets = []string{"STILE_TEST_KEY"}
	s := server(t, pool(t, Options{Secret: os.LookupEnv}), cfg)
	got := call(t, s, "env", `{"text":""}`)
	for _, want := range []string{"PLAIN=plain", "STILE_TEST_KEY=[redacted]", "PATH=/usr/local/bin:/usr/bin:/bin", "HOME="} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
	if strings.Contains(got, "very-secret") || strings.Contains(got, "STILE_TEST_OTHER") {
		t.Errorf("too much: %s", got)
	}
	_, err := s.Call(ctx, "fail-softly", messages.Effectful, `{"text":"sk-very-secret-1"}`)
	wantScript(t, err, neuroscript.CodeToolFailed, "no: [redacted]")
	cfg.Secrets = []string{"STILE_TEST_ABSENT"}
	_, _, err = server(t, pool(t, Options{Secret: os.LookupEnv}), cfg).Tools(ctx)
	if messages.CodeOf(err) != messages.ErrConfig || !strings.Contains(err.Error(), "STILE_TEST_ABSENT is not set") {
		t.Errorf("got %v", err)
	}
}

// Programs that are no servers.
func TestNoServer(t *testing.T) {
	short := self("silent")
	short.Connect = 300 * time.Millisecond
	dir := t.TempDir()
	script := filepath.Join(dir, "wordy")
	if err := os.WriteFile(script, []byte("#!/bin/sh\necho 'no licence: key tops3cret' >&2\nexit 7\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("STILE_TEST_KEY", "tops3cret")
	wordy := Config{Name: "wordy", Command: []string{"./wordy"}, Dir: dir, Secrets: []string{"STILE_TEST_KEY"}}
	usage := Config{Name: "usage", Command: []string{"sh", "-c", "echo Usage: serve PORT tops3cret; read line; exit 2"}, Dir: dir, Secrets: []string{"STILE_TEST_KEY"}}
	garbage := self("garbage")
	garbage.Connect = short.Connect
	hungry := Config{Name: "hungry", Command: []string{"sh", "-c", "ulimit -v; exit 1"}, Dir: dir, Memory: 1 << 30}
	hungry.Command[2] = "ulimit -v >&2; exit 1"
	for _, c := range []struct {
		name  string
		cfg   Config
		words []string
	}{
		{"garbage", garbage, []string{"the MCP server test cannot be reached"}},
		{"usage", usage, []string{"exit status 2", "on its standard output, where messages belong: Usage: serve PORT [redacted]"}},
		{"full", self("full"), []string{"offers more tools than a host takes"}},
		{"silent", short, []string{"it took more than 300ms"}},
		{"ends at once", wordy, []string{"exit status 7", "no licence: key [redacted]"}},
		{"absent", Config{Name: "x", Command: []string{"no-such-program-here"}}, []string{"there is no program"}},
		{"outside", Config{Name: "x", Dir: dir, Command: []string{"../x"}}, []string{"name what is elsewhere by its whole path"}},
		{"limited", hungry, []string{"1048576"}}, // KiB of address space
	} {
		s := server(t, pool(t, Options{Secret: os.LookupEnv}), c.cfg)
		_, _, err := s.Tools(ctx)
		if messages.CodeOf(err) != messages.ErrConfig {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, w := range c.words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v lacks %q", c.name, err, w)
			}
		}
		_, err = s.Call(ctx, "x", messages.Effectful, "{}")
		wantScript(t, err, neuroscript.CodeToolFailed) // it never began
		if strings.Contains(err.Error(), "licence") || strings.Contains(err.Error(), "Usage") {
			t.Errorf("what the program says of itself is not for a model: %v", err)
		}
	}
}

// What a server offers, bounded and sorted, and how a change shows.
func TestListing(t *testing.T) {
	s := server(t, pool(t, Options{}), self("on"))
	all, changes, err := s.Tools(ctx)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]Tool{}
	for i, tool := range all {
		names[tool.Name] = tool
		if i > 0 && all[i-1].Name > tool.Name {
			t.Error("not sorted")
		}
	}
	if echo := names["echo"]; echo.Description != "Does echo." || !strings.Contains(echo.Schema, `"required":["text"]`) {
		t.Errorf("%+v", echo)
	}
	call(t, s, "grow", `{"text":""}`)
	for deadline := time.Now().Add(20 * time.Second); s.Changes() == changes; {
		if time.Now().After(deadline) {
			t.Fatal("the change was not noticed")
		}
		syscall.Select(0, nil, nil, nil, &syscall.Timeval{Usec: 5_000})
	}
	more, _, err := s.Tools(ctx)
	if err != nil || len(more) != len(all)+1 {
		t.Errorf("%d tools after %d: %v", len(more), len(all), err)
	}
}

func TestName(t *testing.T) {
	for _, c := range [][2]string{
		{"read", "read"},
		{"get-sum", "get_sum"},
		{"3d", "_3d"},
		{"a.b/c d", "a_b_c_d"},
		{"ä", "__"},
		{"", ""},
		{strings.Repeat("n", 200), strings.Repeat("n", 128)},
	} {
		if got := Name(c[0]); got != c[1] {
			t.Errorf("%q: got %q, want %q", c[0], got, c[1])
		}
	}
}
