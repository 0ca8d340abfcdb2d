package workspace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/seed14be6753/stile/internal/confine"
	"github.com/seed14be6753/stile/messages"
)

// attackAsked does what the kernel asks the host about: modes and times of files, by every
// call that changes them, and peers of sockets.
func attackAsked(kind, to string) error {
	open := func(flags int) (int, error) { return unix.Open(to, flags|unix.O_CLOEXEC, 0) }
	name, _ := unix.BytePtrFromString(to)
	call := func(nr uintptr, args ...uintptr) error {
		var a [6]uintptr
		copy(a[:], args)
		if _, _, errno := syscall.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
			return errno
		}
		return nil
	}
	cwd := ^uintptr(99) // AT_FDCWD
	empty := new(byte)
	path := uintptr(unsafe.Pointer(name))
	switch kind {
	case "chmod":
		return unix.Chmod(to, 0o666)
	case "fchmodat2":
		return call(unix.SYS_FCHMODAT2, cwd, path, 0o666, 0)
	case "chmod-empty":
		fd, err := open(unix.O_PATH)
		if err != nil {
			return err
		}
		return call(unix.SYS_FCHMODAT2, uintptr(fd), uintptr(unsafe.Pointer(empty)), 0o666, unix.AT_EMPTY_PATH)
	case "chmod-magic":
		fd, err := open(unix.O_PATH)
		if err != nil {
			return err
		}
		return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0o666)
	case "chmod-dev":
		fd, err := open(unix.O_PATH)
		if err != nil {
			return err
		}
		return unix.Chmod("/dev/fd/"+strconv.Itoa(fd), 0o666)
	case "chmod-below": // from a descriptor of the folder
		fd, err := unix.Open(filepath.Dir(to), unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		return unix.Fchmodat(fd, filepath.Base(to), 0o666, 0)
	case "chmod-link":
		_ = os.Remove("door")
		if err := os.Symlink(to, "door"); err != nil {
			return err
		}
		return errors.Join(unix.Chmod("door", 0o666), os.Remove("door"))
	case "chmod-root": // by way of the process's own folder in /proc
		return unix.Chmod("/proc/self/root"+to, 0o666)
	case "chmod-swap":
		return swapped(to)
	case "fchmod":
		fd, err := open(unix.O_RDONLY)
		if err != nil {
			return err
		}
		return unix.Fchmod(fd, 0o666)
	case "utimensat":
		return unix.UtimesNanoAt(unix.AT_FDCWD, to, []unix.Timespec{{Sec: 7}, {Sec: 7}}, 0)
	case "utimensat-link":
		return unix.UtimesNanoAt(unix.AT_FDCWD, to, []unix.Timespec{{Sec: 7}, {Sec: 7}}, unix.AT_SYMLINK_NOFOLLOW)
	case "utimes-now":
		return call(unix.SYS_UTIMENSAT, cwd, path, 0, 0)
	case "futimens":
		fd, err := open(unix.O_RDONLY)
		if err != nil {
			return err
		}
		ts := [2]unix.Timespec{{Sec: 7}, {Sec: 7}}
		return call(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(&ts)), 0)
	case "tasks":
		var is unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_NPROC, &is); err != nil {
			return err
		}
		return fmt.Errorf("bound %d", is.Max)
	case "join":
		group, err := strconv.Atoi(to)
		if err != nil {
			return err
		}
		child := exec.Command("/bin/sleep", "600")
		if err := child.Start(); err != nil {
			return err
		}
		defer func() { _ = child.Process.Kill(); _ = child.Wait() }()
		return unix.Setpgid(child.Process.Pid, group)
	case "gram", "gram-raw", "gram-connect": // a socket in the file system, by one of a pair
		flags := unix.SOCK_DGRAM
		if kind == "gram-raw" {
			flags = unix.SOCK_RAW | unix.SOCK_CLOEXEC
		}
		pair, err := unix.Socketpair(unix.AF_UNIX, flags, 0)
		if err != nil {
			return err
		}
		if kind == "gram-connect" {
			return unix.Connect(pair[0], &unix.SockaddrUnix{Name: to})
		}
		return unix.Sendto(pair[0], []byte("hello"), 0, &unix.SockaddrUnix{Name: to})
	case "utimes":
		return unix.Utimes(to, []unix.Timeval{{Sec: 7, Usec: 5}, {Sec: 7, Usec: 5}})
	case "futimesat":
		return unix.Futimesat(unix.AT_FDCWD, to, []unix.Timeval{{Sec: 7}, {Sec: 7}})
	}
	return attackPeer(kind, to)
}

// swapped changes the path in memory while calls read it.
func swapped(to string) error {
	inside, _ := filepath.Abs("swap")
	if err := os.WriteFile(inside, nil, 0o600); err != nil {
		return err
	}
	pad := func(s string) []byte { return append([]byte(strings.Repeat("/", 256-len(s))+s), 0) }
	mine, theirs := pad(inside), pad(to)
	b := slices.Clone(mine)
	var stop atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stop.Load() {
			swapBytes(b, theirs)
			swapBytes(b, mine)
		}
	}()
	for range 300 {
		_, _, _ = syscall.Syscall6(unix.SYS_FCHMODAT, ^uintptr(99), uintptr(unsafe.Pointer(&b[0])), 0o666, 0, 0, 0)
	}
	stop.Store(true)
	<-done
	info, err := os.Stat(to)
	if errors.Is(err, fs.ErrPermission) || err == nil && info.Mode().Perm() != 0o666 {
		return errors.New("it kept its mode")
	}
	return err
}

//go:norace
func swapBytes(to, from []byte) { copy(to, from) }

// attackPeer speaks to a peer: by a connection, or a message without one.
func attackPeer(kind, to string) error {
	dial := func(network string) error {
		c, err := net.DialTimeout(network, to, 5*time.Second)
		if err != nil {
			return err
		}
		_, err = c.Write([]byte("hello"))
		return errors.Join(err, c.Close())
	}
	switch kind {
	case "connect-tcp":
		return dial("tcp")
	case "connect-udp":
		return dial("udp")
	}
	peer, err := netip.ParseAddrPort(to)
	if err != nil {
		return fmt.Errorf("there is no attack %s", kind)
	}
	family := unix.AF_INET6
	if peer.Addr().Is4() {
		family = unix.AF_INET
	}
	sa := make([]byte, 16)
	binary.NativeEndian.PutUint16(sa, uint16(family))
	binary.BigEndian.PutUint16(sa[2:], peer.Port())
	if family == unix.AF_INET {
		copy(sa[4:], peer.Addr().AsSlice())
	} else {
		ip := peer.Addr().As16()
		sa = append(append(sa[:8], ip[:]...), 0, 0, 0, 0)
	}
	text := []byte("hello")
	at, size := uintptr(unsafe.Pointer(&sa[0])), uintptr(len(sa))
	stream := func(flags int) (int, error) { return unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|flags, 0) }
	packets := func() (int, error) { return unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0) }
	header := func() *unix.Msghdr {
		return &unix.Msghdr{Name: &sa[0], Namelen: uint32(len(sa)), Iov: &unix.Iovec{Base: &text[0], Len: uint64(len(text))}, Iovlen: 1}
	}
	var fd int
	switch kind {
	case "connect-blocking", "fastopen":
		fd, err = stream(0)
	case "connect-nonblocking":
		fd, err = stream(unix.SOCK_NONBLOCK)
	case "sctp":
		fd, err = unix.Socket(family, unix.SOCK_STREAM, unix.IPPROTO_SCTP)
	default:
		fd, err = packets()
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	errno := syscall.Errno(0)
	switch kind {
	case "connect-blocking", "sctp":
		_, _, errno = syscall.Syscall(unix.SYS_CONNECT, uintptr(fd), at, size)
	case "connect-nonblocking":
		if _, _, errno = syscall.Syscall(unix.SYS_CONNECT, uintptr(fd), at, size); errno == unix.EINPROGRESS {
			errno = 0
		}
	case "fastopen":
		_, _, errno = syscall.Syscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&text[0])), 5, unix.MSG_FASTOPEN, at, size)
	case "sendto":
		_, _, errno = syscall.Syscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&text[0])), 5, 0, at, size)
	case "sendto-unspecified": // without a family it is one of IPv4
		binary.NativeEndian.PutUint16(sa, unix.AF_UNSPEC)
		_, _, errno = syscall.Syscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&text[0])), 5, 0, at, size)
	case "sendmsg":
		_, _, errno = syscall.Syscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(header())), 0)
	case "sendmmsg":
		all := []struct {
			unix.Msghdr
			n uint32
			_ uint32
		}{{Msghdr: *header()}, {Msghdr: *header()}}
		var n uintptr
		if n, _, errno = syscall.Syscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&all[0])), 2, 0, 0, 0); errno == 0 && (n != 2 || all[1].n != 5) {
			return fmt.Errorf("sendmmsg: %d %d", n, all[1].n)
		}
	case "options":
		return unix.SetsockoptString(fd, unix.SOL_IP, unix.IP_OPTIONS, "\x83\x07\x04\x7f\x00\x00\x01\x00")
	default:
		return fmt.Errorf("there is no attack %s", kind)
	}
	if errno != 0 {
		return errno
	}
	return nil
}

// asking is the sandbox of a kernel that asks; the test is passed over without.
func asking(t *testing.T) {
	t.Helper()
	if box := confine.Probe(); !box.Peers || box.Err() != nil {
		t.Skip("this kernel cannot ask about system calls: ", box.Layers())
	}
}

func (b *workbench) attacker(t *testing.T) {
	t.Helper()
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	b.script(t, "attacker", string(self))
}

// A program changes modes and times in its workspace, and nowhere else, by whichever call
// and whichever name.
func TestShellModesAndTimes(t *testing.T) {
	asking(t)
	b := newWorkbench(t, AccessSandbox)
	b.attacker(t)
	foreign := filepath.Join(b.outside, "mode.txt")
	own := filepath.Join(b.dir, "own.txt")
	link := filepath.Join(b.dir, "own-link")
	if err := os.Symlink("own.txt", link); err != nil {
		t.Fatal(err)
	}
	old := time.Unix(1_000_000_000, 0)
	reset := func(p string) {
		t.Helper()
		write(t, p, "x")
		if err := errors.Join(os.Chmod(p, 0o640), os.Chtimes(p, old, old)); err != nil {
			t.Fatal(err)
		}
	}
	changed := func(p string) bool {
		info, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode().Perm() != 0o640 || !info.ModTime().Equal(old)
	}
	for _, kind := range []string{
		"chmod", "fchmodat2", "chmod-empty", "chmod-magic", "chmod-dev", "chmod-below", "chmod-link", "chmod-swap", "fchmod",
		"utimensat", "utimes-now", "futimens", "utimes", "futimesat",
	} {
		reset(foreign)
		all := newShell(t, b, func(s *Shell) { s.Env = attacker(kind + " " + foreign) })
		if got := sh(t, all, "./attacker"); !strings.HasPrefix(got, "Success|refused: ") || strings.Contains(got, "no attack") || changed(foreign) {
			t.Errorf("%s outside: %q, changed %t", kind, got, changed(foreign))
		}
		reset(own)
		all = newShell(t, b, func(s *Shell) { s.Env = attacker(kind + " " + own) })
		if got := sh(t, all, "./attacker"); got != "Success|succeeded\n" || !changed(own) {
			t.Errorf("%s inside: %q, changed %t", kind, got, changed(own))
		}
		if kind == "chmod-swap" {
			continue // without the jail both files are changed
		}
		all = newShell(t, b, func(s *Shell) { s.Env, s.Unconfined = attacker(kind+" "+foreign), true })
		if got := sh(t, all, "./attacker"); got != "Success|succeeded\n" || !changed(foreign) {
			t.Errorf("without a jail %s is no attack: %q", kind, got)
		}
	}
	reset(foreign)
	reset(own)
	readable := filepath.Join(t.TempDir(), "read.txt")
	reset(readable)
	for what, want := range map[string]string{
		"utimensat-link " + link: "succeeded", "chmod-root " + own: "refused: too many levels of symbolic links", "chmod-root " + foreign: "refused: too many levels of symbolic links",
		"chmod " + filepath.Join(b.dir, "gone"): "refused: no such file or directory", "chmod " + own + "/x": "refused: not a directory",
		"chmod " + readable: "refused: operation not permitted", "chmod-magic " + readable: "refused: operation not permitted", "fchmod " + readable: "refused: operation not permitted",
		"utimensat " + readable: "refused: operation not permitted", "futimens " + readable: "refused: operation not permitted", "chmod " + b.dir + "/../" + filepath.Base(b.outside) + "/mode.txt": "refused: ",
	} {
		all := newShell(t, b, func(s *Shell) { s.Env, s.Read = attacker(what), []string{filepath.Dir(readable)} })
		if got := sh(t, all, "./attacker"); !strings.HasPrefix(got, "Success|"+want) {
			t.Errorf("%s: %q", what, got)
		}
	}
	if changed(own) || changed(foreign) || changed(readable) {
		t.Error("a link's own times are those of its target, or a refused call was done")
	}
}

// A program with the network reaches this machine by none of its addresses and no
// link-local one, unless the manifest says so; other machines it reaches.
func TestShellPeers(t *testing.T) {
	asking(t)
	b := newWorkbench(t, AccessSandbox)
	b.attacker(t)
	tcp, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	port := strconv.Itoa(tcp.Addr().(*net.TCPAddr).Port)
	udp, err := net.ListenPacket("udp", "0.0.0.0:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	go func() {
		for {
			c, err := tcp.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	for _, kind := range []string{"connect-tcp", "connect-udp", "connect-blocking", "connect-nonblocking", "fastopen", "sendto", "sendto-unspecified", "sendmsg", "sendmmsg"} {
		all := newShell(t, b, func(s *Shell) { s.Env, s.Network = attacker(kind+" 127.0.0.1:"+port), true })
		if got := sh(t, all, "./attacker"); !strings.HasPrefix(got, "Success|refused: ") || !strings.Contains(got, "not permitted") {
			t.Errorf("%s: %q", kind, got)
		}
		all = newShell(t, b, func(s *Shell) {
			s.Env, s.Network, s.Loopback = attacker(kind+" 127.0.0.1:"+port), true, true
		})
		if got := sh(t, all, "./attacker"); got != "Success|succeeded\n" {
			t.Errorf("%s with loopback: %q", kind, got)
		}
	}
	addresses := []string{"127.0.0.5", "0.0.0.0", "0.1.2.3", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::127.0.0.1]", "169.254.169.254", "[fe80::1]", "224.0.0.1", "[ff02::1]"}
	own, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range own {
		if n, is := a.(*net.IPNet); is && n.IP.To4() != nil {
			addresses = append(addresses, n.IP.String())
		}
	}
	for _, a := range addresses {
		for _, kind := range []string{"connect-blocking", "sendto"} {
			all := newShell(t, b, func(s *Shell) { s.Env, s.Network = attacker(kind+" "+a+":"+port), true })
			if got := sh(t, all, "./attacker"); !strings.HasPrefix(got, "Success|refused: operation not permitted") && !strings.HasPrefix(got, "Success|refused: address family not") {
				t.Errorf("%s %s: %q", kind, a, got)
			}
		}
	}
	for _, what := range []string{"sctp 127.0.0.1:" + port, "options 127.0.0.1:" + port} {
		all := newShell(t, b, func(s *Shell) { s.Env, s.Network = attacker(what), true })
		if got := sh(t, all, "./attacker"); !strings.HasPrefix(got, "Success|refused: operation not permitted") {
			t.Errorf("%s: %q", what, got)
		}
	}
	// No host has the addresses for documentation: the kernel's answer is not from this test.
	for _, a := range []string{"192.0.2.1", "198.51.100.7"} {
		for _, kind := range []string{"connect-nonblocking", "sendto", "sendmmsg"} {
			all := newShell(t, b, func(s *Shell) { s.Env, s.Network = attacker(kind+" "+a+":9"), true })
			if got := sh(t, all, "./attacker"); strings.Contains(got, "not permitted") || strings.Contains(got, "no attack") {
				t.Errorf("%s %s: %q", kind, a, got)
			}
		}
	}
}

// A pair of sockets is no way to a socket in the file system, whatever the network.
func TestShellPairs(t *testing.T) {
	asking(t)
	b := newWorkbench(t, AccessSandbox)
	b.attacker(t)
	at := filepath.Join(b.outside, "gram.sock")
	gram, err := net.ListenPacket("unixgram", at)
	if err != nil {
		t.Fatal(err)
	}
	defer gram.Close()
	for _, kind := range []string{"gram", "gram-raw", "gram-connect"} {
		for _, change := range []func(*Shell){func(*Shell) {}, func(s *Shell) { s.Network = true }, func(s *Shell) { s.Network, s.Loopback = true, true }} {
			all := newShell(t, b, func(s *Shell) {
				s.Env = attacker(kind + " " + at)
				change(s)
			})
			if got := sh(t, all, "./attacker"); !strings.HasPrefix(got, "Success|refused: operation not permitted") {
				t.Errorf("%s: %q", kind, got)
			}
		}
		all := newShell(t, b, func(s *Shell) { s.Env, s.Unconfined = attacker(kind+" "+at), true })
		if got := sh(t, all, "./attacker"); got != "Success|succeeded\n" {
			t.Errorf("without a jail %s is no attack: %q", kind, got)
		}
	}
}

// Where the kernel cannot ask, the network of programs is refused at load with the cure.
func TestShellNetworkNeedsAKeeper(t *testing.T) {
	b := newWorkbench(t, AccessSandbox)
	box := confine.Sandbox{ABI: confine.MinLandlockABI, Filter: true, Asks: true}
	_, err := NewShell(Shell{Workspace: b.w, Sandbox: box, Network: true})
	var bad *messages.Error
	if !errors.As(err, &bad) || bad.Code != messages.ErrConfig || bad.Field != "shell.network" || !strings.Contains(bad.Detail, "network: {loopback: true}") {
		t.Errorf("%v", err)
	}
	if _, err := NewShell(Shell{Workspace: b.w, Sandbox: box, Network: true, Loopback: true}); err != nil {
		t.Error(err)
	}
}

// What leaves its process group ends with its call all the same, also with a program that
// runs into its time, and with what it has started; the host and other calls go on.
func TestShellLeavesNothing(t *testing.T) {
	asking(t)
	b := newWorkbench(t, AccessSandbox)
	b.script(t, "daemon.sh", `#!/bin/sh
setsid sh -c 'setsid sh -c "echo \$\$ > inner; sleep 600 & wait" & echo $$ > outer; for i in 1 2 3 4 5 6; do while :; do : > "busy$i"; chmod 600 "busy$i"; done & done; wait' >/dev/null 2>&1 &
while [ ! -s inner ] || [ ! -s outer ]; do sleep 0.01; done
$1
echo done
`)
	for line, want := range map[string]string{"./daemon.sh true": "Success|done\n", "./daemon.sh 'sleep 600'": "code 21: timed out"} {
		all := newShell(t, b, func(s *Shell) {
			if strings.Contains(line, "sleep") {
				s.Timeout = 2 * time.Second
			}
		})
		if got := sh(t, all, line); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q", line, got)
		}
		wantGone(t, b, "inner")
		wantGone(t, b, "outer")
		if err := errors.Join(os.Remove(filepath.Join(b.dir, "inner")), os.Remove(filepath.Join(b.dir, "outer"))); err != nil {
			t.Error(err)
		}
	}
	// A group of the host's is none that a program may join.
	b.attacker(t)
	all := newShell(t, b, func(s *Shell) { s.Env = attacker("join " + strconv.Itoa(unix.Getpgrp())) })
	if got := sh(t, all, "./attacker"); !strings.HasPrefix(got, "Success|refused: operation not permitted") {
		t.Errorf("join: %q", got)
	}
}

// The kernel bounds the processes and threads of a program, as it counts them: with all of
// the host's user.
func TestShellProcesses(t *testing.T) {
	b := newWorkbench(t, AccessSandbox)
	b.attacker(t)
	const bound = 64
	all := newShell(t, b, func(s *Shell) { s.Env, s.Processes = attacker("tasks"), bound })
	got := sh(t, all, "./attacker")
	has, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(got, "Success|refused: bound "), "\n"))
	var now unix.Sysinfo_t
	if err := errors.Join(err, unix.Sysinfo(&now)); err != nil {
		t.Fatalf("%q %v", got, err)
	}
	if has <= bound || has > bound+int(now.Procs)+1000 { // others come and go meanwhile
		t.Errorf("bound %d with %d on the machine", has, now.Procs)
	}
}
