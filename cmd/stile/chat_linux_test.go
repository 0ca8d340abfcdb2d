package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// pty makes a terminal: what is written to keys is typed at it, what it shows is read there.
func pty(t *testing.T) (keys, terminal *os.File) {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { keys.Close() })
	if err := unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	return keys, terminal
}

// shownOn keeps what a terminal showed.
type shownOn struct {
	mu   sync.Mutex
	more *sync.Cond
	b    bytes.Buffer
	over bool
}

func (s *shownOn) read(from *os.File) {
	buf := make([]byte, 4096)
	for {
		n, err := from.Read(buf)
		s.mu.Lock()
		s.b.Write(buf[:n])
		s.over = err != nil
		s.more.Broadcast()
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// await waits until the terminal has shown a text behind what was awaited before.
func (s *shownOn) await(t *testing.T, text string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if i := strings.Index(s.b.String(), text); i >= 0 {
			s.b.Next(i + len(text))
			return
		}
		if s.over {
			t.Fatalf("no %q in %q", text, s.b.String())
		}
		s.more.Wait()
	}
}

func TestChatOnATerminal(t *testing.T) {
	master, slave := pty(t)
	before, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	s := &shownOn{}
	s.more = sync.NewCond(&s.mu)
	go s.read(master)
	dir := t.TempDir()
	ended := make(chan int, 1)
	go func() {
		ended <- execute(t.Context(), []string{"chat", example("demo/agent.yaml"), "--dir", dir, "--session", "ada"}, console{
			in: slave, out: slave, err: slave, env: func(string) string { return "" }, inTerminal: true, outTerminal: true,
			size: func() (int, int) { return 100, 30 },
		})
	}()
	typed := func(text string) {
		t.Helper()
		if _, err := master.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	s.await(t, "> ")
	typed("Hello there\r")
	s.await(t, "no key is needed")
	s.await(t, "DONE")
	s.await(t, "> ")
	typed("\x1b[A\r") // the arrow brings it back
	s.await(t, "Hello there")
	s.await(t, "DONE")
	s.await(t, "> ")
	typed("\x1b[200~What time\ris it?\x1b[201~\r") // pasted together
	s.await(t, "The clock of this host says")
	s.await(t, "DONE")
	s.await(t, "> ")
	typed("not this\x03/session\r") // an interrupt clears the line
	s.await(t, "session  local:local:ada")
	s.await(t, "> ")
	typed("\x03\x03")
	if got := <-ended; got != 0 {
		t.Errorf("status %d", got)
	}
	after, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err != nil || *after != *before {
		t.Errorf("the terminal is left as %+v, was %+v, %v", after, before, err)
	}
	out := must(t, "sessions", "show", "ada", "--dir", dir)
	holds(t, out, "3 runs", "input    Hello there", "input    Hello there", "input    What time\n         is it?")
	if strings.Contains(out, "not this") {
		t.Errorf("a cleared line was said:\n%s", out)
	}
}

// onTerminal runs a chat at a terminal of its own. ended has its exit status.
func onTerminal(t *testing.T, presses <-chan struct{}, args ...string) (s *shownOn, typed func(string), ended <-chan int) {
	t.Helper()
	master, slave := pty(t)
	s = &shownOn{}
	s.more = sync.NewCond(&s.mu)
	go s.read(master)
	status := make(chan int, 1)
	go func() {
		status <- execute(t.Context(), append([]string{"chat"}, args...), console{
			in: slave, out: slave, err: slave, env: func(string) string { return "" }, inTerminal: true, outTerminal: true,
			size:       func() (int, int) { return 100, 30 },
			interrupts: func() (<-chan struct{}, func()) { return presses, func() {} },
		})
	}()
	return s, func(text string) {
		t.Helper()
		if _, err := master.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}, status
}

// A call that waits is asked about until the answer is yes, no or nothing; one that is left
// is asked about again before the next message, which is sent when none waits.
func TestChatAnswersInPlace(t *testing.T) {
	manifest, data := scribe(t, "x")
	s, typed, ended := onTerminal(t, nil, manifest, "--dir", data, "--session", "s")
	s.await(t, "> ")
	typed("write it\r")
	s.await(t, "Allow this call? yes, no, or nothing for later: ")
	typed("y\r")
	s.await(t, "Type yes or no, or press Enter to answer later: ")
	typed("\r")
	s.await(t, "stile approvals allow MANIFEST local:local:s ")
	s.await(t, "> ")
	typed("hello\r")
	s.await(t, "Allow this call?")
	typed("\r")
	s.await(t, "it is not sent while a call waits for approval")
	s.await(t, "> ")
	typed("/approvals\r")
	s.await(t, "Allow this call?")
	typed("yes\r")
	s.await(t, "approve by ")
	s.await(t, "It is done.")
	s.await(t, "> ")
	typed("/approvals\r")
	s.await(t, "no call waits for approval")
	s.await(t, "> ")
	typed("\x04")
	if got := <-ended; got != 0 {
		t.Errorf("status %d", got)
	}
	if out := must(t, "sessions", "show", "s", "--dir", data); strings.Contains(out, "hello") {
		t.Errorf("a message was sent while a call waited:\n%s", out)
	}
}

// A chat that begins with a call that waits asks about it first; /cancel ends its run.
func TestChatTakesUpWhatWaits(t *testing.T) {
	manifest, data := scribe(t, "x")
	if a := stileDo(t, "run", manifest, "write it", "--dir", data, "--session", "s"); a.status != int(exitSuspended) {
		t.Fatalf("%+v", a)
	}
	s, typed, ended := onTerminal(t, nil, manifest, "--dir", data, "--session", "s")
	s.await(t, "Allow this call?")
	typed("y\x03") // for later
	s.await(t, "stile approvals allow MANIFEST local:local:s ")
	s.await(t, "> ")
	typed("/cancel\r")
	s.await(t, "ERR_CANCELLED")
	s.await(t, "> ")
	typed("/cancel\r")
	s.await(t, "no run waits for approval")
	s.await(t, "> ")
	typed("\x03\x03")
	if got := <-ended; got != 0 {
		t.Errorf("status %d", got)
	}
	// From a pipe no person can be asked.
	if a := stileDo(t, "run", manifest, "write it", "--dir", data, "--session", "p"); a.status != int(exitSuspended) {
		t.Fatalf("%+v", a)
	}
	a := call{args: []string{"chat", manifest, "--dir", data, "--session", "p"}, in: "hello\n/approvals\n/cancel\nhello\n"}.do(t)
	holds(t, a.out, "it is not sent while a call waits", "stile approvals allow MANIFEST local:local:p ", "ERR_CANCELLED", "input    hello")
}

// The interrupt that cancels a run counts: the next one, at the prompt, leaves.
func TestChatInterruptedTwice(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "slow.jsonl", `{"chunks": [{"text": "I begin"}, {"at_ms": 600000, "text": " and never end"}]}
{"chunks": [{"text": "I am here."}]}
{"chunks": [{"text": "I begin"}, {"at_ms": 600000, "text": " and never end"}]}
`)
	agent := write(t, dir, "agent.yaml", "dialect: plain\nmodel: {provider: scripted, script: slow.jsonl}\n")
	presses := make(chan struct{})
	s, typed, ended := onTerminal(t, presses, agent, "--dir", dir, "--session", "s")
	stuck := func() {
		t.Helper()
		s.await(t, "> ")
		typed("wait\r")
		s.await(t, "I begin")
		presses <- struct{}{}
		s.await(t, "ended HALT")
		s.await(t, "> ")
	}
	stuck()
	typed("not this\x03are you there?\r") // with keys between, an interrupt clears the line
	s.await(t, "I am here.")
	s.await(t, "DONE")
	stuck()
	typed("\x03")
	if got := <-ended; got != 0 {
		t.Errorf("status %d", got)
	}
}
