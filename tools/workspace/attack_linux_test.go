package workspace

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/seed14be6753/stile/internal/confine"
)

// attackHost does what reaches the host past the rules for files and sockets: its limits,
// its place among processes, owners and modes, memory that outlives a call.
func attackHost(kind, to string) error {
	pid, _ := strconv.Atoi(to)
	call := func(nr uintptr, args ...uintptr) error {
		var a [6]uintptr
		copy(a[:], args)
		if _, _, errno := syscall.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
			return errno
		}
		return nil
	}
	switch kind {
	case "limit": // the host's, to what it is: the right is the harm
		var is unix.Rlimit
		if err := unix.Prlimit(pid, unix.RLIMIT_CORE, nil, &is); err != nil {
			return err
		}
		return unix.Prlimit(pid, unix.RLIMIT_CORE, &is, nil)
	case "limit-by-number": // as the host sets its programs' limits, without its number
		var is unix.Rlimit
		if err := unix.Prlimit(pid, unix.RLIMIT_CORE, nil, &is); err != nil {
			return err
		}
		return call(unix.SYS_PRLIMIT64, uintptr(pid)|0x57414956<<32, unix.RLIMIT_CORE|0x57414957<<32, uintptr(unsafe.Pointer(&is)))
	case "priority":
		return unix.Setpriority(unix.PRIO_PROCESS, pid, 0)
	case "priorities": // of all processes of the user
		return unix.Setpriority(unix.PRIO_USER, 0, 0)
	case "affinity":
		var is unix.CPUSet
		if err := unix.SchedGetaffinity(pid, &is); err != nil {
			return err
		}
		return unix.SchedSetaffinity(pid, &is)
	case "scheduler":
		var param int32
		return call(unix.SYS_SCHED_SETSCHEDULER, uintptr(pid), unix.SCHED_NORMAL, uintptr(unsafe.Pointer(&param)))
	case "disk":
		return call(unix.SYS_IOPRIO_SET, 1, uintptr(pid), 2<<13|4)
	case "chown":
		return os.Chown(to, 1234, -1)
	case "group":
		return os.Lchown(to, -1, 1234)
	case "owners": // what the jail answers without doing it: it would take the bit of setuid away
		return os.Chown(to, os.Geteuid(), -1)
	case "attribute":
		return unix.Setxattr(to, "user.stile", []byte("pwned"), 0)
	case "setuid":
		return unix.Chmod(to, 0o4755)
	case "made-setuid":
		fd, err := unix.Open("made", unix.O_CREAT|unix.O_WRONLY, 0o4755)
		if err != nil {
			return err
		}
		return errors.Join(unix.Close(fd), os.Remove("made"))
	case "clone": // with a flag of the namespace to be
		flags, err := strconv.ParseUint(to, 0, 64)
		if err != nil {
			return err
		}
		// A thread without the signal handlers of its process: past the filter that is invalid,
		// and nothing is forked.
		return invalid(call(unix.SYS_CLONE, uintptr(flags)|unix.CLONE_THREAD))
	case "clone3":
		args := [11]uint64{0: unix.CLONE_NEWUSER | unix.CLONE_THREAD}
		return invalid(call(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), 64))
	case "fsopen":
		name := []byte("tmpfs\x00")
		return call(unix.SYS_FSOPEN, uintptr(unsafe.Pointer(&name[0])), 0)
	case "tree":
		dot := []byte(".\x00")
		return call(unix.SYS_OPEN_TREE, ^uintptr(99), uintptr(unsafe.Pointer(&dot[0])), 0) // AT_FDCWD
	case "shm":
		id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 1<<16, unix.IPC_CREAT|0o600)
		if err != nil {
			return err
		}
		_, err = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
		return err
	case "messages":
		id, _, errno := syscall.Syscall(unix.SYS_MSGGET, unix.IPC_PRIVATE, unix.IPC_CREAT|0o600, 0)
		if errno != 0 {
			return errno
		}
		return call(unix.SYS_MSGCTL, id, unix.IPC_RMID)
	case "semaphores":
		id, _, errno := syscall.Syscall(unix.SYS_SEMGET, unix.IPC_PRIVATE, 1, unix.IPC_CREAT|0o600)
		if errno != 0 {
			return errno
		}
		return call(unix.SYS_SEMCTL, id, 0, unix.IPC_RMID)
	case "queue":
		name := []byte("stile-test\x00")
		fd, _, errno := syscall.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(&name[0])), unix.O_CREAT|unix.O_RDWR, 0o600, 0, 0, 0)
		if errno != 0 {
			return errno
		}
		return errors.Join(unix.Close(int(fd)), call(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(&name[0]))))
	case "watch":
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
		if err != nil {
			return err
		}
		_, err = unix.InotifyAddWatch(fd, to, unix.IN_ALL_EVENTS)
		return errors.Join(err, unix.Close(fd))
	case "descriptor":
		fd, err := strconv.Atoi(to)
		if err != nil {
			return err
		}
		var b [64]byte
		n, err := unix.Pread(fd, b[:], 0)
		if err == nil && string(b[:n]) != theirs {
			err = fmt.Errorf("it reads %q", b[:n])
		}
		return err
	case "routes":
		_, err := net.Interfaces()
		return err
	case "netlink": // of another kind than routes
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	}
	return attackAsked(kind, to)
}

// invalid makes an attack succeed that got as far as the kernel's own look at it.
func invalid(err error) error {
	if errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}

// attacker is the environment of an attack.
func attacker(what string) map[string]string { return map[string]string{attackVar: what} }

// A program in the jail reaches the host no more by its limits, its scheduling, owners and
// modes of files, queues, namespaces and inherited descriptors than by files. Each attack
// succeeds without the jail, where the kernel has what it needs.
func TestShellProtectsTheHost(t *testing.T) {
	box := confine.Probe()
	if !box.Filter || box.Err() != nil {
		t.Skip("this kernel cannot filter system calls or has no Landlock: ", box.Layers())
	}
	b := newWorkbench(t, AccessSandbox)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	b.script(t, "attacker", string(self))
	foreign := filepath.Join(b.outside, "secret.txt")
	// A descriptor as one that the host was started with: not closed on exec.
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
	pid := strconv.Itoa(os.Getpid())
	const (
		always   = 1 // it succeeds without the jail
		kernel   = 2 // there it depends on the kernel's settings
		anywhere = 3 // it is refused without the jail too
	)
	for _, a := range []struct {
		what string
		free int
	}{
		{"limit " + pid, always},
		{"limit-by-number " + pid, always},
		{"priority " + pid, kernel},
		{"priorities", kernel},
		{"affinity " + pid, always},
		{"scheduler " + pid, always},
		{"disk " + pid, always},
		{"chown " + foreign, kernel}, // root alone may
		{"group " + foreign, kernel},
		{"attribute " + foreign, kernel},
		{"setuid " + foreign, always},
		{"setuid attacker", always},
		{"made-setuid", always},
		{"clone 0x10000000", kernel},
		{"clone 0x10020000", kernel},
		{"clone 0x50000000", kernel},
		{"clone 0x30000000", kernel},
		{"clone 0x18000000", kernel},
		{"clone 0x14000000", kernel},
		{"clone 0x12000000", kernel},
		{"clone3", always},
		{"fsopen", kernel},
		{"tree", always},
		{"shm", kernel},
		{"messages", kernel},
		{"semaphores", kernel},
		{"queue", kernel},
		{"watch " + b.outside, always},
		{"descriptor " + strconv.Itoa(inherited), anywhere},
		{"netlink", kernel},
	} {
		for _, network := range []bool{false, true} {
			all := newShell(t, b, func(s *Shell) { s.Env, s.Network = attacker(a.what), network })
			if got := sh(t, all, "./attacker"); !strings.HasPrefix(got, "Success|refused: ") || strings.Contains(got, "no attack") {
				t.Errorf("%s: %q", a.what, got)
			}
		}
		all := newShell(t, b, func(s *Shell) { s.Env, s.Unconfined = attacker(a.what), true })
		got := sh(t, all, "./attacker")
		switch succeeded := got == "Success|succeeded\n"; {
		case a.free == always && !succeeded:
			t.Errorf("without a jail %s is no attack: %q", a.what, got)
		case a.free == kernel && !succeeded:
			t.Logf("this kernel stops %s without a jail: %q", a.what, got)
		case a.free == anywhere && succeeded:
			t.Errorf("without a jail %s succeeds", a.what)
		}
	}
	all := newShell(t, b, func(s *Shell) { s.Env = attacker("owners " + foreign) })
	if got := sh(t, all, "./attacker"); got != "Success|succeeded\n" {
		t.Errorf("a program's own user: %q", got)
	}
	if info, err := os.Stat(foreign); err != nil || info.Mode()&os.ModeSetuid == 0 {
		t.Errorf("the program took the mode away: %v %v", info.Mode(), err)
	}
}

// What programs need of the calls that the filter judges, they keep: their own limits and
// priority, modes of files, threads, children, and with network the addresses of this
// machine.
func TestShellKeepsWhatProgramsNeed(t *testing.T) {
	if box := confine.Probe(); box.Err() != nil {
		t.Skip("this kernel cannot confine commands: ", box.Err())
	}
	b := newWorkbench(t, AccessSandbox)
	b.script(t, "needs.sh", `#!/bin/sh
set -e
ulimit -n 64
nice -n 1 true
echo x > a; chmod 755 a; chmod u+w,g-w a; touch a
cp -p a b; mv b c; cp -a a d; install -m 644 a e; ln a f; ln -s a g
mkdir -p h/i; tar cf h.tar h a; mkdir out; tar xf h.tar -C out; chown "$(id -u)" a
mkfifo p
(sleep 0 & wait)
echo done
`)
	if got := sh(t, newShell(t, b, nil), "./needs.sh"); got != "Success|done\n" {
		t.Errorf("%q", got)
	}
	all := newShell(t, b, func(s *Shell) { s.Network, s.Env = true, attacker("routes") })
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	b.script(t, "attacker", string(self))
	if got := sh(t, all, "./attacker"); got != "Success|succeeded\n" {
		t.Errorf("with network: %q", got)
	}
}
