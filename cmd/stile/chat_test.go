package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
)

// Each line from a pipe is a message, and the chat is one session.
func TestChat(t *testing.T) {
	dir := t.TempDir()
	a := call{args: []string{"chat", example("demo/agent.yaml"), "--dir", dir, "--session", "ada"}, in: "Hello\n\n/session\n/what\nWhat time is it?\n//slash\n/new\nHi\n/quit\nnot said\n"}.do(t)
	if a.status != 0 || a.err != "" {
		t.Fatalf("%+v", a)
	}
	holds(t, a.out, "session  local:local:ada\n", "no key is needed", "session  local:local:ada\n", "/new  /session  /approvals  /cancel  /help  /quit", "The clock of this host says 20", "input    /slash", "session  local:local:demo-", "input    Hi\n")
	if strings.Contains(a.out, "not said") {
		t.Error("a line behind /quit was said")
	}
	holds(t, must(t, "sessions", "show", "ada", "--dir", dir), "3 runs")
	again := call{args: []string{"chat", example("demo/agent.yaml"), "--dir", dir, "--session", "ada"}, in: "Hello"}.do(t)
	if again.status != 0 {
		t.Errorf("%+v", again)
	}
	holds(t, must(t, "sessions", "show", "ada", "--dir", dir), "4 runs")
	if a := stileDo(t, "chat", "none.yaml"); a.status != int(exitUsage) {
		t.Errorf("%+v", a)
	}
}

// The first interrupt cancels the run in flight, and the chat goes on; the second leaves.
func TestChatInterrupts(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "slow.jsonl", `{"match": {"contains": "slow"}, "chunks": [{"text": "I begin"}, {"at_ms": 600000, "text": " and never end"}]}
{"match": {"re2": "(?s).*"}, "chunks": [{"text": "Yes."}]}
`)
	agent := write(t, dir, "agent.yaml", "dialect: plain\nmodel: {provider: scripted, script: slow.jsonl}\n")
	chat := func(in string, presses int) (status int, out string) {
		var b bytes.Buffer
		interrupts := make(chan struct{}, 2)
		w := &trigger{w: &b, text: "slow", fire: func() {
			for range presses {
				interrupts <- struct{}{}
			}
		}}
		status = execute(t.Context(), []string{"chat", agent, "--dir", dir, "--session", "s"}, console{
			in: strings.NewReader(in), out: w, err: io.Discard, env: func(string) string { return "" },
			interrupts: func() (<-chan struct{}, func()) { return interrupts, func() {} },
		})
		return status, b.String()
	}
	status, out := chat("be slow\nare you there?\n", 1)
	if status != 0 {
		t.Errorf("status %d\n%s", status, out)
	}
	holds(t, out, "input    be slow", "HALT     ERR_CANCELLED", "input    are you there?", "says     Yes.", "DONE")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := execute(ctx, []string{"chat", agent, "--memory"}, console{in: blocked{t.Context()}, out: io.Discard, err: io.Discard, env: func(string) string { return "" }}); got != int(exitInterrupted) {
		t.Errorf("a signal at the prompt: status %d", got)
	}
}

// blocked is an input from which nothing comes.
type blocked struct{ until context.Context }

func (b blocked) Read([]byte) (int, error) {
	<-b.until.Done()
	return 0, io.EOF
}

// An interrupt at the prompt clears the line, the second one is the end.
func TestChatKeys(t *testing.T) {
	for in, want := range map[string]string{
		"ab\r": "ab\r", "a\x03b": "a\x05\x15b", "\x03\x03": "\x05\x15\x04", "\x03a\x03": "\x05\x15a\x05\x15",
	} {
		got, err := io.ReadAll(&keys{in: strings.NewReader(in)})
		if err != nil || string(got) != want {
			t.Errorf("%q: %q, %v, want %q", in, got, err, want)
		}
	}
	// At a question there is always an answer: the end of the input would be that of the chat.
	for in, want := range map[string]string{"ye\x03": "ye\x05\x15\r", "\x04": "\x05\x15\r", "yes\r": "yes\r"} {
		if got, err := io.ReadAll(&keys{in: strings.NewReader(in), question: true}); err != nil || string(got) != want {
			t.Errorf("at a question, %q: %q, %v, want %q", in, got, err, want)
		}
	}
}
