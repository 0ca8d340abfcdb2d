package workspace

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed14be6753/stile/internal/confine"
	"github.com/seed14be6753/stile/messages"
)

// wrapped is a shell whose programs bubblewrap confines. The test is skipped where it cannot.
func wrapped(t *testing.T) func(*Shell) {
	t.Helper()
	if _, err := confine.Bubblewrap(); err != nil {
		t.Skip(err)
	}
	return func(s *Shell) { s.Bubblewrap, s.Sandbox, s.Unconfined = true, confine.Sandbox{}, false }
}

// The attacks on Landlock's jail fail in bubblewrap's as well. Those that need nothing but the
// host's user succeed without it.
func TestBubblewrapAttacks(t *testing.T) {
	set := wrapped(t)
	b := newWorkbench(t, AccessSandbox)
	b.attacker(t)
	b.script(t, "victim", "x")
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	socket := filepath.Join(b.outside, "daemon.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	abstract, err := net.Listen("unix", "@stile-wrapped-"+strconv.Itoa(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	defer abstract.Close()
	foreign, pid := filepath.Join(b.outside, "secret.txt"), strconv.Itoa(os.Getpid())
	file, err := os.Open(foreign)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	inherited, err := unix.Dup(int(file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(inherited)
	outsideBin := filepath.Join(b.outside, "program")
	if err := os.WriteFile(outsideBin, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	free := []string{
		"read " + foreign, "list " + b.outside, "read /etc/passwd", "read /proc/self/environ", "read /proc/" + pid + "/environ", "link " + foreign, "hardlink " + foreign, "run " + outsideBin,
		"write " + filepath.Join(b.outside, "made"), "write /tmp/stile-wrapped-" + pid, "truncate " + foreign, "chmod " + foreign, "utimensat " + foreign, "setuid attacker", "made-setuid",
		"tcp " + tcp.Addr().String(), "listen 127.0.0.1:0", "unix " + socket, "unix " + abstract.Addr().String(), "signal " + pid, "limit " + pid, "affinity " + pid, "scheduler " + pid, "watch " + b.outside, "clone3", "tree",
	}
	others := []string{
		"rename " + filepath.Join(b.outside, "moved"), "ptrace " + pid, "namespace", "ring", "mount", "device", "owner", "raw", "netlink", "priority " + pid, "disk " + pid, "chown victim", "attribute victim", "fsopen",
		"clone 0x10000000", "clone 0x10020000", "shm", "messages", "semaphores", "queue", "descriptor " + strconv.Itoa(inherited), "remove " + foreign,
	}
	all := append(append([]string{}, free...), others...)
	b.script(t, "all.sh", "#!/bin/sh\nwhile read -r what; do echo \"$what: $("+attackVar+"=\"$what\" ./attacker 2>/dev/null)\"; rm -f door; done < attacks.txt\n")
	for _, network := range []bool{false, true} {
		if network { // which opens sockets, and nothing else
			all = []string{"unix " + socket, "netlink", "fsopen", "mount", "signal " + pid, "read " + foreign}
		}
		b.put(t, "attacks.txt", strings.Join(all, "\n")+"\n")
		got := sh(t, newShell(t, b, func(s *Shell) { set(s); s.Network, s.Loopback = network, network }), "./all.sh")
		lines := strings.Split(strings.TrimSuffix(strings.TrimPrefix(got, "Success|"), "\n"), "\n")
		if len(lines) != len(all) {
			t.Fatalf("%d answers to %d attacks: %s", len(lines), len(all), got)
		}
		for i, what := range all {
			if !strings.HasPrefix(lines[i], what+": refused: ") || strings.Contains(lines[i], "no attack") {
				t.Errorf("network %v: %s", network, lines[i])
			}
		}
	}
	if is, err := os.ReadFile(foreign); err != nil || string(is) != theirs {
		t.Fatalf("outside: %q %v", is, err)
	}
	for _, what := range free {
		cmd := exec.Command("./attacker")
		cmd.Dir, cmd.Env = b.dir, []string{attackVar + "=" + what}
		if out, _ := cmd.Output(); string(out) != "succeeded\n" {
			t.Errorf("without a jail %s is no attack: %q", what, out)
		}
		_, _ = os.Remove(filepath.Join(b.dir, "door")), os.Remove("/tmp/stile-wrapped-"+pid)
	}
}

// What programs need they keep: modes, links, archives, children, limits, their exit code, and
// the network where the manifest gives it.
func TestBubblewrapKeepsWhatProgramsNeed(t *testing.T) {
	set := wrapped(t)
	b := newWorkbench(t, AccessSandbox)
	b.put(t, "d/e.txt", "hello\n")
	b.script(t, "needs.sh", `#!/bin/sh
set -e
ulimit -n 64
echo x > a; chmod 755 a; chmod u+w,g-w a; touch -d 2001-01-01 a
cp -p a b; mv b c; cp -a a d2; install -m 644 a e; ln a f; ln -s a g
mkdir -p h/i; tar cf h.tar h a; mkdir out; tar xf h.tar -C out; chown "$(id -u)" a
mkfifo p; echo t > "$TMPDIR/t"; echo c > "$CACHE/c"
(sleep 0 & wait)
pwd; ulimit -v
`)
	b.script(t, "fails.sh", "#!/bin/sh\necho bad >&2\nexit 3\n")
	cache := t.TempDir()
	all := newShell(t, b, func(s *Shell) {
		set(s)
		s.Memory, s.Caches = 1<<30, []string{"CACHE"}
		s.Cache = func(string) (string, error) { return cache, nil }
	})
	for command, want := range map[string]string{
		"./needs.sh": "Success|.\n1048576\n", "cat d/e.txt": "Success|hello\n", "./fails.sh": "code 21: exit code 3\nbad\n", "true": "Success|",
	} {
		if got := sh(t, all, command); got != want {
			t.Errorf("%s: %q", command, got)
		}
	}
	if got := sh(t, all, "cat e.txt", "d"); got != "Success|hello\n" {
		t.Error(got)
	}
	if _, err := os.Stat(filepath.Join(cache, "c")); err != nil {
		t.Error(err)
	}
	var e *messages.Error
	if _, err := NewShell(Shell{Workspace: b.w, Bubblewrap: true, Network: true}); !errors.As(err, &e) || e.Field != "shell.network" {
		t.Errorf("without a keeper of the network: %v", err)
	}
}

// Nothing outlives a call, whatever session and group it is in.
func TestBubblewrapLeavesNothing(t *testing.T) {
	set := wrapped(t)
	b := newWorkbench(t, AccessSandbox)
	mark := fmt.Sprintf("6%d.25", os.Getpid())
	b.script(t, "daemon.sh", "#!/bin/sh\nsetsid sh -c 'setsid sleep "+mark+" & sleep "+mark+"' >/dev/null 2>&1 &\necho started\n$1\n")
	for line, want := range map[string]string{"./daemon.sh true": "Success|started\n", "./daemon.sh 'sleep 600'": "code 21: timed out"} {
		got := sh(t, newShell(t, b, func(s *Shell) {
			if set(s); strings.Contains(line, "600") {
				s.Timeout = time.Second
			}
		}), line)
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q", line, got)
		}
		eventually(t, "what it started ends", func() bool {
			all, err := filepath.Glob("/proc/[0-9]*/cmdline")
			if err != nil || len(all) == 0 {
				t.Fatal(err)
			}
			for _, p := range all {
				if line, err := os.ReadFile(p); err == nil && strings.Contains(string(line), mark) {
					return false
				}
			}
			return true
		})
	}
}
