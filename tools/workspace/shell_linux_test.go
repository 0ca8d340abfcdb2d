package workspace

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed14be6753/stile/internal/confine"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
	"github.com/seed14be6753/stile/tools/internal/toolstest"
)

// attackVar makes the test binary an attacker: it does the one thing that is named there,
// says how it went, and ends.
const attackVar = "STILE_TEST_ATTACK"

func TestMain(m *testing.M) {
	if what := os.Getenv(attackVar); what != "" {
		kind, to, _ := strings.Cut(what, " ")
		if err := attack(kind, to); err != nil {
			fmt.Println("refused:", err)
		} else {
			fmt.Println("succeeded")
		}
		// Not os.Exit, which has the race detector sleep for a second: in a jail it does not
		// find GORACE, because it reads its environment in /proc.
		_, _, _ = syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
	}
	os.Exit(m.Run())
}

func attack(kind, to string) error {
	switch kind {
	case "read":
		_, err := os.ReadFile(to)
		return err
	case "list":
		_, err := os.ReadDir(to)
		return err
	case "write":
		return os.WriteFile(to, []byte("pwned"), 0o644)
	case "truncate":
		return os.Truncate(to, 0)
	case "remove":
		return os.Remove(to)
	case "link": // out of the folder and read through it
		if err := os.Symlink(to, "door"); err != nil {
			return err
		}
		_, err := os.ReadFile("door")
		return err
	case "hardlink":
		return os.Link(to, "hard")
	case "rename":
		return os.Rename("victim", to)
	case "run":
		return exec.Command(to).Run()
	case "tcp", "udp", "unix":
		c, err := net.Dial(kind, to)
		if err != nil {
			return err
		}
		_, err = c.Write([]byte("hello"))
		return errors.Join(err, c.Close())
	case "listen":
		l, err := net.Listen("tcp", to)
		if err != nil {
			return err
		}
		return l.Close()
	case "raw":
		fd, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW, 0)
		if err != nil {
			return err
		}
		return syscall.Close(fd)
	case "signal":
		pid, err := strconv.Atoi(to)
		if err != nil {
			return err
		}
		return syscall.Kill(pid, 0)
	case "ptrace":
		pid, err := strconv.Atoi(to)
		if err != nil {
			return err
		}
		return syscall.PtraceAttach(pid)
	case "namespace":
		return syscall.Unshare(syscall.CLONE_NEWUSER)
	case "ring":
		_, _, errno := syscall.Syscall(unix.SYS_IO_URING_SETUP, 1, 0, 0)
		if errno == syscall.EPERM {
			return errno
		}
		return nil // any other answer is one of the ring's own
	case "mount":
		return syscall.Mount("tmpfs", ".", "tmpfs", 0, "")
	case "device":
		return syscall.Mknod("device", syscall.S_IFCHR|0o666, 1<<8|3)
	case "owner": // what root may do to processes that are not its own
		return syscall.Sethostname([]byte("pwned"))
	}
	return attackHost(kind, to)
}

// newShell makes a shell over a workbench, confined when the kernel can.
func newShell(t *testing.T, b *workbench, change func(*Shell)) []tools.Tool {
	t.Helper()
	if b.ready == nil { // so that what is tried twice is tried in a jail that waited
		b.ready = &confine.Ready{}
		t.Cleanup(func() { _ = b.ready.Close() })
	}
	s := Shell{Workspace: b.w, Sandbox: confine.Probe(), Ready: b.ready}
	s.Unconfined = s.Sandbox.Err() != nil
	if change != nil {
		change(&s)
	}
	tool, err := NewShell(s)
	if err != nil {
		t.Fatal(err)
	}
	return []tools.Tool{tool}
}

// script puts an executable file into the workspace.
func (b *workbench) script(t *testing.T, name, text string) {
	t.Helper()
	b.put(t, name, text)
	if err := os.Chmod(filepath.Join(b.dir, filepath.FromSlash(name)), 0o755); err != nil {
		t.Fatal(err)
	}
}

func sh(t *testing.T, all []tools.Tool, command string, cwd ...string) string {
	t.Helper()
	args := `{"command":` + toolstest.Quote(t, command)
	if len(cwd) > 0 {
		args += `,"cwd":` + toolstest.Quote(t, cwd[0])
	}
	return toolstest.Do(t, all, "shell", args+"}")
}

func TestShell(t *testing.T) {
	t.Setenv("SECRET_OF_THE_HOST", "x")
	b := newWorkbench(t, AccessSandbox)
	b.put(t, "d/e.txt", "hello\n")
	b.script(t, "tool.sh", "#!/bin/sh\necho \"$@\"\necho oh >&2\nexit ${CODE:-0}\n")
	b.script(t, "d/here.sh", "#!/bin/sh\ncat e.txt; pwd\n")
	b.script(t, "fails.sh", "#!/bin/sh\necho out\necho bad >&2\nexit 3\n")
	b.script(t, "quiet.sh", "#!/bin/sh\nexit 4\n")
	b.script(t, "env.sh", "#!/bin/sh\nenv | sort | grep -v -e ^PWD= -e ^_= -e ^OLDPWD= -e ^SHLVL=\n")
	b.put(t, "plain.txt", "not executable")
	all := newShell(t, b, func(s *Shell) { s.Env = map[string]string{"GIVEN": "yes", "LANG": "C"} })
	for _, c := range []struct{ command, cwd, want string }{
		{"cat d/e.txt", "", "Success|hello\n"},
		{"cat e.txt", "d", "Success|hello\n"},
		{"cat e.txt", "sandbox/d", "Success|hello\n"},
		{"pwd", "d", "Success|./d\n"},
		{"./here.sh", "d", "Success|hello\n./d\n"},
		{"true", "", "Success|"},
		{`./tool.sh 'a b' "c 'd'" e\ f '$HOME' "\x" ''`, "", "Success|a b c 'd' e f $HOME \\x \nWarnings:\noh\n"},
		{"./fails.sh", "", "code 21: exit code 3\nbad\nOutput:\nout\n"},
		{"./quiet.sh", "", "code 21: exit code 4"},
		{"nosuchprogram", "", "code 21: not found: nosuchprogram"},
		{"./nosuch.sh", "", "code 21: not found: ./nosuch.sh"},
		{"./plain.txt", "", "code 21: not found: ./plain.txt"},
		{"true", "nowhere", "code 21: nowhere: no such file"},
		{"true", "plain.txt", "code 21: plain.txt: not a directory"},
		{"true", "../outside", "code 1003: path outside sandbox: ../outside"},
		{"./env.sh", "", "Success|GIT_CONFIG_NOSYSTEM=1\nGIVEN=yes\nHOME=$TMPDIR\nLANG=C\nPATH=/usr/local/bin:/usr/bin:/bin\nTERM=dumb\nTMPDIR=$TMPDIR\n"},
	} {
		got := sh(t, all, c.command)
		if c.cwd != "" {
			got = sh(t, all, c.command, c.cwd)
		}
		if want, begins := strings.CutSuffix(c.want, "|"); got != c.want && !(begins && strings.HasPrefix(c.want, "code") && strings.HasPrefix(got, want)) {
			t.Errorf("%s in %q:\n%q, want\n%q", c.command, c.cwd, got, c.want)
		}
	}
}

// What a shell would act on is refused before anything is run.
func TestShellSyntax(t *testing.T) {
	b := newWorkbench(t, AccessSandbox)
	all := newShell(t, b, nil)
	const noShell = "code 21: there is no shell: "
	for command, want := range map[string]string{
		"touch a; touch b": noShell + ";", "touch a|cat": noShell + "|", "touch a & touch b": noShell + "&", "cat < a": noShell + "<", "echo > a": noShell + ">", "echo `id`": noShell + "`",
		"touch a；touch b": noShell + "；", "touch a＆": noShell + "＆", "a ｜ b": noShell + "｜", "a ＜ b": noShell + "＜", "a ＞ b": noShell + "＞", "｀id｀": noShell + "｀",
		"touch a && touch b": "code 21: there is no &&: calls are independent", "touch a&&touch b": "code 21: there is no &&", "a || b": noShell + "|",
		"echo $HOME": "code 21: $ is not expanded", `echo "$HOME"`: "code 21: $ is not expanded", `echo \$HOME`: "code 21: $ is not expanded", "echo ＄HOME": "code 21: $ is not expanded", "echo $(id)": "code 21: $ is",
		"touch a\ntouch b": "code 21: a command is one line", "touch a\rb": "code 21: a command is one line", "touch 'a\nb'": "code 21: a command is one line", "touch a\x00b": "code 21: a command is one line",
		"echo 'a": "code 21: a ' is not closed", `echo "a`: "code 21: a \" is not closed", `echo a\`: "code 21: nothing follows", "": "code 21: the command is empty", "  ": "code 21: the command is empty",
		"cat /etc/passwd": "code 21: path outside sandbox: /etc/passwd", "cat ../outside/secret.txt": "code 21: path outside sandbox", "cat a/../../b": "code 21: path outside sandbox", "cat --file=/etc/passwd": "code 21: path outside sandbox",
		"cat '/etc/passwd'": "code 21: path outside sandbox", `c\at \/etc/passwd`: "code 21: path outside sandbox", "/bin/cat x": "code 21: path outside sandbox", "../x": "code 21: path outside sandbox",
		"sudo ls": "code 21: sudo is not available", "su": "code 21: su is", "mkfs.ext4 x": "code 21: mkfs.ext4 is", "sh -c ls": "code 21: sh is not available", "'bash' -c ls": "code 21: bash is", "./sudo": "code 21: sudo is", "reboot": "code 21: reboot is",
		strings.Repeat("a ", 1025): "code 21: the command has more than 1024 words", strings.Repeat("a", 40_000): "code 21: the command has more than 32768 bytes",
	} {
		if got := sh(t, all, command); !strings.HasPrefix(got, want) {
			t.Errorf("%.60q: %q, want %q", command, got, want)
		}
	}
	for command, want := range map[string]string{
		`echo 'a;b|c&d<e>f` + "`" + `$g'`: "Success|a;b|c&d<e>f`$g\n", `echo "a;b && c"`: "Success|a;b && c\n", `echo a\;b`: "Success|a;b\n", "echo ./... a..b ...": "Success|./... a..b ...\n",
		"echo *.go ~ #x": "Success|*.go ~ #x\n", `echo "a\"b\\c"`: "Success|a\"b\\c\n",
	} {
		if got := sh(t, all, command); got != want {
			t.Errorf("%q: %q, want %q", command, got, want)
		}
	}
	if left, err := os.ReadDir(b.dir); err != nil || len(left) > 0 {
		t.Errorf("something was run: %v %v", left, err)
	}
}

// Where the folder is all there is, no word of a command leads out of it; what changes the
// system is denied everywhere.
func TestShellWordsByAccess(t *testing.T) {
	for _, access := range []Access{AccessSandbox, AccessProject, AccessSystem} {
		for _, words := range [][]string{{"cat", "/etc/passwd"}, {"/bin/cat"}, {"cat", "a/../../b"}, {"cat", ".."}, {"grep", "--file=/x", "y"}, {"cat", "--file=../x"}} {
			if err := judgeWords(words, access); (err == nil) != (access == AccessSystem) {
				t.Errorf("%s: %q: %v", access, words, err)
			}
		}
		for _, words := range [][]string{{"sudo", "ls"}, {"mkfs.ext4", "x"}, {"/usr/bin/sudo"}, {"dd"}, {"shred", "x"}, {"bash", "x"}} {
			if judgeWords(words, access) == nil {
				t.Errorf("%s: %q is run", access, words)
			}
		}
		for _, words := range [][]string{{"go", "test", "./..."}, {"cat", "a..b", "etc/x"}, {"./tool", "-o=out"}} {
			if err := judgeWords(words, access); err != nil {
				t.Errorf("%s: %q: %v", access, words, err)
			}
		}
	}
}

// The kernel confines what a command does, whatever its words look like: every attack is
// made by a program inside. The same attacks succeed without the jail, so they are real.
func TestShellAttacks(t *testing.T) {
	box := confine.Probe()
	b := newWorkbench(t, AccessSandbox)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	b.script(t, "attacker", string(bin))
	b.script(t, "victim", "x")
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	socket := filepath.Join(b.outside, "daemon.sock")
	unixListener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer unixListener.Close()
	abstract, err := net.Listen("unix", "@stile-test-"+strconv.Itoa(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	defer abstract.Close()
	foreign := filepath.Join(b.outside, "secret.txt")
	outsideBin := filepath.Join(b.outside, "program")
	if err := os.WriteFile(outsideBin, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	pid := strconv.Itoa(os.Getpid())
	root := os.Geteuid() == 0
	attacks := []struct {
		what    string
		abi     int  // Landlock that stops it
		filter  bool // or the filter does
		succeed bool // without the jail
	}{
		{"read " + foreign, 3, false, true},
		{"list " + b.outside, 3, false, true},
		{"read /etc/passwd", 3, false, true},
		{"read /proc/self/environ", 3, false, true},
		{"read /proc/" + pid + "/environ", 3, false, true},
		{"read /proc/" + pid + "/root" + foreign, 3, false, true},
		{"list /", 3, false, true},
		{"link " + foreign, 3, false, true},
		{"hardlink " + foreign, 3, false, true},
		{"run " + outsideBin, 3, false, true},
		{"write " + filepath.Join(b.outside, "made"), 3, false, true},
		{"rename " + filepath.Join(b.outside, "moved"), 3, false, true},
		{"tcp " + tcp.Addr().String(), 4, true, true},
		{"udp " + udp.LocalAddr().String(), 99, true, true},
		{"listen 127.0.0.1:0", 4, true, true},
		{"unix " + socket, 99, true, true},
		{"unix " + abstract.Addr().String(), 6, true, true},
		{"raw", 99, true, root},
		{"signal " + pid, 6, false, true},
		{"ptrace " + pid, 3, false, false},
		{"namespace", 99, true, false},
		{"ring", 99, true, false},
		{"mount", 3, false, false},
		{"device", 3, false, root},
		{"owner", 3, false, false},
		{"truncate " + foreign, 3, false, true},
		{"remove " + foreign, 3, false, true},
	}
	if box.Err() != nil {
		t.Logf("this kernel cannot confine commands (%v): that shell refuses is tested in TestShellWithoutLandlock", box.Err())
	}
	for _, a := range attacks {
		if a.abi > box.ABI && !(a.filter && box.Filter) {
			t.Logf("not stopped by this kernel, and documented so: %s", a.what)
			continue
		}
		all := newShell(t, b, func(s *Shell) { s.Env = map[string]string{attackVar: a.what} })
		if got := sh(t, all, "./attacker"); !strings.HasPrefix(got, "Success|refused: ") || strings.Contains(got, "no attack") {
			t.Errorf("%s: %q", a.what, got)
		}
		_ = os.Remove(filepath.Join(b.dir, "door"))
	}
	if got, err := os.ReadFile(foreign); err != nil || string(got) != theirs {
		t.Fatalf("outside: %q %v", got, err)
	}
	for _, a := range attacks {
		if !a.succeed {
			continue
		}
		all := newShell(t, b, func(s *Shell) { s.Env, s.Unconfined = map[string]string{attackVar: a.what}, true })
		if got := sh(t, all, "./attacker"); got != "Success|succeeded\n" {
			t.Errorf("without a jail %s is no attack: %q", a.what, got)
		}
		_ = os.Remove(filepath.Join(b.dir, "door"))
	}
}

// The host itself is not confined by the jails of its commands, however many there were.
func TestShellLeavesTheHostFree(t *testing.T) {
	b := newWorkbench(t, AccessSandbox)
	all := newShell(t, b, nil)
	var wait sync.WaitGroup
	for range 16 {
		wait.Go(func() {
			if got := sh(t, all, "true"); got != "Success|" {
				t.Error(got)
			}
		})
	}
	wait.Wait()
	for range 64 { // goroutines on whatever threads there are now
		wait.Go(func() {
			if _, err := os.ReadFile(filepath.Join(b.outside, "secret.txt")); err != nil {
				t.Error(err)
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Error(err)
				return
			}
			_ = l.Close()
		})
	}
	wait.Wait()
	_ = b.ready.Close() // the jail that waits for the next program has a thread
	eventually(t, "the threads of the jails end", func() bool {
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			status, err := os.ReadFile("/proc/self/task/" + task.Name() + "/status")
			if err == nil && !strings.Contains(string(status), "NoNewPrivs:\t0") {
				return false
			}
		}
		return true
	})
}

// A kernel without Landlock: the tool is refused with what is missing, and runs when the
// operator does without.
func TestShellWithoutLandlock(t *testing.T) {
	b := newWorkbench(t, AccessSandbox)
	for _, box := range []confine.Sandbox{{Why: "this kernel does not have it"}, {ABI: 1}, {ABI: 2, Filter: true}, {ABI: 7}} {
		_, err := NewShell(Shell{Workspace: b.w, Sandbox: box})
		var e *messages.Error
		if !errors.As(err, &e) || e.Code != messages.ErrConfig || e.Field != "shell.isolation" || !strings.Contains(e.Detail, "isolation: none") || box.Layers() != "none" {
			t.Errorf("%+v: %v", box, err)
		}
	}
	all := newShell(t, b, func(s *Shell) { s.Sandbox, s.Unconfined = confine.Sandbox{}, true })
	if got := sh(t, all, "echo free"); got != "Success|free\n" {
		t.Error(got)
	}
	if (confine.Sandbox{ABI: 3, Filter: true}).Err() != nil {
		t.Error("Linux 6.2 is enough")
	}
	if got := (confine.Sandbox{ABI: 7, Filter: true}).Layers(); got != "Landlock 7: files, TCP, signals, no sockets" {
		t.Error(got)
	}
	for name, change := range map[string]func(*Shell){
		"shell.path[0]":  func(s *Shell) { s.Path = []string{b.dir + "/gone"} },
		"shell.read[1]":  func(s *Shell) { s.Read = []string{b.dir, b.dir + "/gone"} },
		"shell.write[0]": func(s *Shell) { s.Write = []string{b.dir + "/gone"} },
	} {
		s := Shell{Workspace: b.w, Unconfined: true}
		change(&s)
		_, err := NewShell(s)
		var e *messages.Error
		if !errors.As(err, &e) || e.Field != name || strings.Contains(err.Error(), b.dir) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What the manifest opens is open, and no more of it: reading is not writing.
func TestShellOpens(t *testing.T) {
	b := newWorkbench(t, AccessSandbox)
	extra := t.TempDir()
	write(t, filepath.Join(extra, "given.txt"), "given\n")
	b.script(t, "look.sh", "#!/bin/sh\ncat \"$EXTRA/given.txt\"; echo x > \"$EXTRA/made\"; echo \"$?\"\n")
	for name, c := range map[string]struct {
		change func(*Shell)
		want   string
	}{
		"nothing": {func(*Shell) {}, "cat:"},
		"read":    {func(s *Shell) { s.Read = []string{extra} }, "given\n"},
		"write":   {func(s *Shell) { s.Write = []string{extra} }, "given\n0\n"},
	} {
		all := newShell(t, b, func(s *Shell) {
			s.Env = map[string]string{"EXTRA": extra}
			c.change(s)
		})
		got := sh(t, all, "./look.sh")
		made := os.Remove(filepath.Join(extra, "made")) == nil
		free := confine.Probe().Err() != nil
		if !free && (!strings.Contains(got, c.want) || made != (name == "write")) {
			t.Errorf("%s: %q, made %t", name, got, made)
		}
	}
	kept := filepath.Join(t.TempDir(), "cache")
	all := newShell(t, b, func(s *Shell) {
		s.Caches, s.Cache = []string{"MYCACHE"}, func(name string) (string, error) { return kept, os.MkdirAll(kept, 0o700) }
	})
	b.script(t, "count.sh", "#!/bin/sh\necho x >> \"$MYCACHE/n\"; wc -l < \"$MYCACHE/n\"; echo \"$MYCACHE/n\"\n")
	for _, want := range []string{"Success|1\n$MYCACHE/n\n", "Success|2\n$MYCACHE/n\n"} {
		if got := sh(t, all, "./count.sh"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	network := newShell(t, b, func(s *Shell) { s.Network, s.Env = true, map[string]string{attackVar: "listen 127.0.0.1:0"} })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	b.script(t, "attacker", string(bin))
	if got := sh(t, network, "./attacker"); got != "Success|succeeded\n" {
		t.Errorf("with network: %q", got)
	}
}

// Time, memory, processors, output: each bound holds, and the group ends with its command.
func TestShellBounds(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()) // what is left there is this test's, not another's
	b := newWorkbench(t, AccessSandbox)
	b.script(t, "hang.sh", "#!/bin/sh\necho begun\nsleep 300 &\necho $! > child\nwait\n")
	all := newShell(t, b, func(s *Shell) { s.Timeout = 300 * time.Millisecond })
	if got := sh(t, all, "./hang.sh"); got != "code 21: timed out after 300ms; it was ended with all that it had started\nOutput:\nbegun\n" {
		t.Errorf("%q", got)
	}
	wantGone(t, b, "child")
	b.script(t, "leave.sh", "#!/bin/sh\nsleep 300 >/dev/null 2>&1 &\necho $! > left\n")
	if got := sh(t, newShell(t, b, nil), "./leave.sh"); got != "Success|" {
		t.Errorf("%q", got)
	}
	wantGone(t, b, "left")

	b.script(t, "much.sh", "#!/bin/sh\nyes abcdefg | head -c 3000000\nyes ABC | head -c 500000 >&2\n")
	got := sh(t, newShell(t, b, nil), "./much.sh")
	if len(got) > catalog.MaxResultBytes+16 || !strings.HasPrefix(got, "Success|abcdefg\n") || !strings.Contains(got, "bytes left out]") || !strings.Contains(got, "Warnings:\nABC\n") || !strings.HasSuffix(got, "ABC\n") {
		t.Errorf("%d bytes: %.50q … %q", len(got), got, got[len(got)-50:])
	}
	b.script(t, "binary.sh", "#!/bin/sh\nprintf 'a\\000\\377b'\n")
	if got := sh(t, newShell(t, b, nil), "./binary.sh"); got != "Success|a\ufffd\ufffdb" {
		t.Errorf("%q", got)
	}
	b.script(t, "limits.sh", "#!/bin/sh\necho $(ulimit -v) $(ulimit -t) $(ulimit -n) $(ulimit -c)\n")
	limited := newShell(t, b, func(s *Shell) { s.Memory, s.CPU, s.Files = 64<<20, 2*time.Second, 32 })
	if got := sh(t, limited, "./limits.sh"); got != "Success|65536 2 32 0\n" {
		t.Errorf("%q", got)
	}
	b.script(t, "spin.sh", "#!/bin/sh\nwhile :; do :; done\n")
	spin := newShell(t, b, func(s *Shell) { s.CPU = time.Second })
	if got := sh(t, spin, "./spin.sh"); got != "code 21: signal: killed" {
		t.Errorf("%q", got)
	}
	_ = b.ready.Close()
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "stile-program-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
}

// wantGone waits until the process whose number is in a file has ended.
func wantGone(t *testing.T, b *workbench, file string) {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(b.get(t, file)))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, fmt.Sprintf("process %d of %s ends", pid, file), func() bool {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(state), ") Z ")
	})
}

// eventually waits for what the kernel does on its own, half a minute at most.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range 30_000 {
		if done() {
			return
		}
		<-tick.C
	}
	t.Errorf("it does not come about that %s", what)
}

// A cancelled call ends its command, and says that it was cancelled.
func TestShellCancel(t *testing.T) {
	b := newWorkbench(t, AccessSandbox)
	b.script(t, "hang.sh", "#!/bin/sh\necho $$ > child\nexec sleep 300\n")
	all := newShell(t, b, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	go func() {
		for {
			if raw, err := os.ReadFile(filepath.Join(b.dir, "child")); err == nil && len(raw) > 1 {
				cancel(why)
				return
			}
		}
	}()
	_, err := all[0].Run(ctx, &tools.Call{Args: []neuroscript.Value{neuroscript.String("./hang.sh")}})
	if !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
	wantGone(t, b, "child")
}

func FuzzSplitCommand(f *testing.F) {
	for _, s := range []string{"go test ./...", `a 'b c' "d\"e" f\ g`, "a;b", "a && b", "＄x", "'", `\`, "", "a\x00b", "a '$b' c", `"a\b"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		words, err := splitCommand(line)
		if err != nil {
			return
		}
		if len(words) == 0 || len(words) > maxWords {
			t.Fatalf("%d words", len(words))
		}
		// Quoted again, they are the same words: nothing of one became another.
		var again []string
		for _, w := range words {
			if strings.ContainsAny(w, "\n\r\x00'") || strings.ContainsAny(w, "\u0085\u2028\u2029") {
				return
			}
			again = append(again, "'"+w+"'")
		}
		got, err := splitCommand(strings.Join(again, " "))
		if err != nil || strings.Join(got, "\x01") != strings.Join(words, "\x01") {
			t.Fatalf("%q became %q, %v", words, got, err)
		}
	})
}

// What confining a program adds to starting one. floor is the same program without the
// tool.
// BenchmarkShell_TrueByTurns runs /usr/bin/true: the bare exec, the tool shell without a jail (free),
// with a jail that is made for the call (made), with one that waited for it, as a host has it
// (ready), and a call that comes at the end of that one (next); and the same of a command of a
// manifest, which a guard holds. An iteration is one call of each, two milliseconds after the one
// before. The results are medians in microseconds, and their ratios to the bare exec.
func BenchmarkShell_TrueByTurns(b *testing.B) {
	box := confine.Probe()
	if err := box.Err(); err != nil {
		b.Skip("this kernel cannot confine: ", err)
	}
	w, err := Open(b.TempDir(), AccessSandbox)
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	// Not in a temporary folder: others change the one above all the time, which guards notice.
	dir, err := os.MkdirTemp(".", ".bench-")
	if err != nil {
		b.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if dir, err = filepath.Abs(dir); err != nil {
		b.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		b.Fatal(err)
	}
	ready := &confine.Ready{}
	defer ready.Close()
	type variant struct {
		name string
		run  func() error
	}
	variants := []variant{{"exec", func() error { return exec.Command("true").Run() }}}
	next := func() {
		variants = append(variants, variant{strings.Replace(variants[len(variants)-1].name, "ready", "next", 1), variants[len(variants)-1].run})
	}
	add := func(name string, tool tools.Tool, err error, args ...neuroscript.Value) {
		if err != nil {
			b.Fatal(err)
		}
		variants = append(variants, variant{name, func() error {
			_, err := tool.Run(b.Context(), &tools.Call{SID: "local:local:bench", Args: args})
			return err
		}})
	}
	for _, s := range []struct {
		name string
		Shell
	}{{"free", Shell{Unconfined: true}}, {"made", Shell{}}, {"ready", Shell{Ready: ready}}} {
		s.Workspace, s.Sandbox = w, box
		tool, err := NewShell(s.Shell)
		add("shell-"+s.name, tool, err, neuroscript.String("true"))
	}
	next()
	for _, c := range []struct {
		name  string
		reach *confine.Reach
	}{{"free", nil}, {"made", &confine.Reach{}}, {"ready", &confine.Reach{Ready: ready}}} {
		if c.reach != nil {
			c.reach.Sandbox, c.reach.Guard, c.reach.Apart = box, true, []string{data}
		}
		tool, err := catalog.NewCommand(catalog.Command{Name: "nothing", Dir: dir, Entrypoint: []string{"/usr/bin/true"}, Reach: c.reach})
		add("guard-"+c.name, tool, err)
	}
	next()
	took := make([][]time.Duration, len(variants))
	b.ReportAllocs()
	for b.Loop() {
		for i, v := range variants {
			if !strings.HasSuffix(v.name, "next") {
				time.Sleep(2 * time.Millisecond)
			}
			began := time.Now()
			if err := v.run(); err != nil {
				b.Fatal(v.name, err)
			}
			took[i] = append(took[i], time.Since(began))
		}
	}
	floor := 0.0
	for i, v := range variants {
		slices.Sort(took[i])
		median := float64(took[i][len(took[i])/2].Nanoseconds()) / 1e3
		if i == 0 {
			floor = median
		}
		b.ReportMetric(median, v.name+"-µs")
		b.ReportMetric(median/floor, v.name+"/exec")
	}
}
