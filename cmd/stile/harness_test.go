package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// call is a command line and the world it runs in.
type call struct {
	args     []string
	in       string
	env      map[string]string
	terminal bool
	typed    *string // at the terminal; nil is in, which comes from elsewhere
	// when a write to stdout holds this text, the context is cancelled: Ctrl-C.
	interruptAt string
}

// answer is what came of it.
type answer struct {
	status   int
	out, err string
}

// do runs a command line in process.
func (c call) do(t *testing.T) answer {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out, errs bytes.Buffer
	w := &trigger{w: &out, text: c.interruptAt, fire: cancel}
	in := io.Reader(strings.NewReader(c.in))
	if c.typed != nil {
		in = strings.NewReader(*c.typed)
	}
	status := execute(ctx, c.args, console{
		in: in, out: w, err: &errs,
		env:        func(name string) string { return c.env[name] },
		inTerminal: c.terminal && c.in == "", outTerminal: c.terminal,
	})
	a := answer{status, out.String(), errs.String()}
	if strings.Contains(a.err, "goroutine ") || strings.Contains(a.err, ".go:") {
		t.Errorf("%q shows a stack:\n%s", c.args, a.err)
	}
	return a
}

// trigger fires when it has seen a text.
type trigger struct {
	w    io.Writer
	text string
	fire func()
	once sync.Once
}

func (t *trigger) Write(p []byte) (int, error) {
	if t.text != "" && bytes.Contains(p, []byte(t.text)) {
		t.once.Do(t.fire)
	}
	return t.w.Write(p)
}

// stileDo runs a command line that needs nothing but its arguments.
func stileDo(t *testing.T, args ...string) answer {
	t.Helper()
	return call{args: args}.do(t)
}

// must runs a command line that has to end with status 0.
func must(t *testing.T, args ...string) string {
	t.Helper()
	a := stileDo(t, args...)
	if a.status != 0 {
		t.Fatalf("%q: status %d\n%s%s", args, a.status, a.out, a.err)
	}
	return a.out
}

// write makes a file in dir and gives its path.
func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// examples is the repository's folder of examples, seen from here.
var examples = filepath.Join("..", "..", "examples")

func example(path string) string { return filepath.Join(examples, filepath.FromSlash(path)) }

// holds checks that a text has all of these parts, in this order.
func holds(t *testing.T, text string, parts ...string) {
	t.Helper()
	rest := text
	for _, p := range parts {
		_, after, ok := strings.Cut(rest, p)
		if !ok {
			t.Errorf("no %q, in its place, in:\n%s", p, text)
			return
		}
		rest = after
	}
}
