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
