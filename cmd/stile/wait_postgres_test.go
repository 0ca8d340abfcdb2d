//go:build !lite

package main

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/internal/postgrestest"
)

// starting is a host that has been started. Its log and its output are lines that come as they are
// written.
func starting(t *testing.T, env map[string]string, args ...string) (lines <-chan string, stop context.CancelFunc, status <-chan int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	said, ended := make(chan string, 1024), make(chan int, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ended <- execute(ctx, append([]string{"serve", example("plain/agent.yaml"), "--listen", "127.0.0.1:0"}, args...), console{
			in: strings.NewReader(""), out: told(said), err: told(said), env: func(name string) string { return env[name] },
		})
	}()
	t.Cleanup(func() {
		cancel()
		http.DefaultClient.CloseIdleConnections()
		<-done
	})
	return said, cancel, ended
}

// told is a writer that passes on what is written.
type told chan<- string

func (w told) Write(p []byte) (int, error) {
	w <- string(p)
	return len(p), nil
}

// until waits for a line that has a text, and returns it.
func until(t *testing.T, lines <-chan string, text string) string {
	t.Helper()
	deadline := time.After(time.Minute)
	var before []string
	for {
		select {
		case line := <-lines:
			if strings.Contains(line, text) {
				return line
			}
			before = append(before, line)
		case <-deadline:
			t.Fatalf("no %q behind %q", text, before)
		}
	}
}

const waitsFor = "waiting for the database of the journal"

// awayURL is the URL of a database at a port that no process listens at. The kernel gives it to no
// listener that asks for any port.
const awayURL = "postgres://ada:hunter2@127.0.0.1:1/x?sslmode=disable"

// A database that starts behind the host is waited for. A wrong password and an unknown database are told
// at once.
func TestServeWaitsForTheDatabase(t *testing.T) {
	server, ok := postgrestest.Private(t)
	if !ok {
		return
	}
	env := map[string]string{envJournal: server.URL()}
	for what, wrong := range map[string]func(*url.URL){
		"password": func(u *url.URL) { u.User = url.UserPassword(u.User.Username(), "wrong") },
		"database": func(u *url.URL) { u.Path = "/nowhere" },
	} {
		u, err := url.Parse(server.URL())
		if err != nil {
			t.Fatal(err)
		}
		wrong(u)
		a := call{args: []string{"serve", example("plain/agent.yaml"), "--listen", "127.0.0.1:0", "--dir", t.TempDir()}, env: map[string]string{envJournal: u.String()}}.do(t)
		if a.status != int(exitUsage) || strings.Contains(a.err, waitsFor) {
			t.Errorf("a wrong %s: status %d, %s", what, a.status, a.err)
		}
	}
	server.Kill()
	lines, stop, status := starting(t, env, "--dir", filepath.Join(t.TempDir(), "a"))
	until(t, lines, waitsFor)
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	until(t, lines, "the database of the journal answers")
	until(t, lines, "listening on")
	stop()
	if got := <-status; got != 0 {
		t.Errorf("status %d", got)
	}
}

// A host that is told to stop while it waits stops at once and without an error, in a cluster and
// without one. Its port is not open before. Other commands do not wait.
func TestServeStopsWhileItWaits(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "secret", strings.Repeat("0123456789abcdef", 4))
	config := write(t, dir, "stile.yaml", "auth: tokens\ndir: "+dir+"\ncluster:\n  address: "+free(t)+"\n  secret_file: secret\n")
	env := map[string]string{envJournal: awayURL}
	for _, args := range [][]string{{"--dir", filepath.Join(dir, "a")}, {"--config", config}} {
		listen := free(t)
		lines, stop, status := starting(t, env, append(args, "--listen", listen)...)
		line := until(t, lines, waitsFor)
		if !strings.Contains(line, "dial") || strings.Contains(line, "hunter2") {
			t.Errorf("%q: it says %s", args, line)
		}
		if c, err := net.Dial("tcp", listen); err == nil {
			c.Close()
			t.Errorf("%q: its port is open", args)
		}
		stop()
		if got := <-status; got != 0 {
			t.Errorf("%q: status %d", args, got)
		}
		until(t, lines, "stopped before the journal was open")
	}
	a := call{args: []string{"hosts", "list"}, env: env}.do(t)
	if a.status != int(exitFailure) || !strings.Contains(a.err, "UNAVAILABLE") {
		t.Errorf("another command: status %d, %s", a.status, a.err)
	}
}
