package attacks

import (
	"bufio"
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
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/confine"
)

// jailMissing returns why this kernel confines no program. The kernel is asked here again, so
// that a Probe which finds less than there is fails the test instead of leaving rows out.
func jailMissing() string {
	box := confine.Probe()
	abi, _, errno := syscall.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if err := box.Err(); err != nil {
		if errno == 0 && int(abi) >= confine.MinLandlockABI {
			panic(fmt.Sprintf("the kernel has Landlock %d, and the host does not use it: %v", abi, err))
		}
		return "no Landlock: " + err.Error()
	}
	return ""
}

// attackAsProgram makes the attacks of a file, one a line, and says of each how it went. It
// ends without the exits of a test: under the race detector they take a second.
func attackAsProgram(args []string) {
	as := ""
	if len(args) > 1 {
		as = args[1]
	}
	report(as, func() string { return attacksOf(args[0]) })
	unix.Exit(0)
}

func attacksOf(list string) string {
	b, err := os.ReadFile(list)
	if err != nil {
		return "no list: " + err.Error()
	}
	var out strings.Builder
	for _, line := range strings.Split(strings.TrimSpace(string(b)), "\n") {
		kind, to, _ := strings.Cut(line, " ")
		if err := attempt(kind, to); err != nil {
			fmt.Fprintf(&out, "refused\t%s\t%s\n", line, strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Fprintf(&out, "succeeded\t%s\t\n", line)
		}
	}
	return out.String()
}

var errNoAttack = errors.New("there is no such attack")

// call makes a system call that an attacker makes by hand.
func call(nr uintptr, args ...any) error {
	var a [6]uintptr
	var keep [][]byte
	for i, arg := range args {
		switch v := arg.(type) {
		case int:
			a[i] = uintptr(v)
		case string:
			b := append([]byte(v), 0)
			keep = append(keep, b)
			a[i] = uintptr(unsafe.Pointer(&b[0]))
		case []byte:
			keep = append(keep, v)
			a[i] = uintptr(unsafe.Pointer(&v[0]))
		}
	}
	_, _, errno := syscall.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
	_ = keep
	if errno != 0 {
		return errno
	}
	return nil
}

// judged makes an attack succeed that got as far as the kernel's own look at its arguments.
func judged(err error) error {
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EFAULT) || errors.Is(err, unix.EBADF) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.E2BIG) {
		return nil
	}
	return err
}

// ofHostsThreads makes an attack on threads of the host, whose numbers it finds by trying. An
// error is that of the last number that is a thread of it.
func ofHostsThreads(how string) error {
	host, own := os.Getppid(), os.Getpid()
	last := own + 64
	if last < host {
		last = 1 << 16
	}
	err := errors.New("no thread found")
	for tid := host; tid < last; tid++ {
		is := unix.Tgkill(host, tid, 0)
		if errors.Is(is, unix.ESRCH) || tid == host { // its first thread is tried by other attacks
			continue
		}
		if err = ofThread(how, host, tid); err == nil {
			return nil
		}
	}
	return err
}

func ofThread(how string, host, tid int) error {
	b := make([]byte, 8)
	mine := []unix.Iovec{{Base: &b[0]}}
	mine[0].SetLen(len(b))
	theirs := []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&b[0])), Len: len(b)}}
	switch how {
	case "tgkill":
		return unix.Tgkill(host, tid, 0)
	case "kill":
		return unix.Kill(tid, 0)
	case "tkill":
		return call(unix.SYS_TKILL, tid, 0)
	case "queue":
		info := make([]byte, 128)
		info[8] = 0xff // SI_QUEUE
		info[9], info[10], info[11] = 0xff, 0xff, 0xff
		return call(unix.SYS_RT_TGSIGQUEUEINFO, host, tid, 0, info)
	case "own": // signals of a descriptor
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
		if err != nil {
			return err
		}
		owner := make([]byte, 8)
		owner[4], owner[5], owner[6], owner[7] = byte(tid), byte(tid>>8), byte(tid>>16), byte(tid>>24)
		return errors.Join(call(unix.SYS_FCNTL, fd, unix.F_SETOWN_EX, owner), unix.Close(fd))
	case "seize":
		return unix.PtraceSeize(tid)
	case "read":
		_, err := unix.ProcessVMReadv(tid, mine, theirs, 0)
		return judged(err)
	case "write":
		theirs[0].Base = 8 // nothing is there: the right is the harm
		_, err := unix.ProcessVMWritev(tid, mine, theirs, 0)
		return judged(err)
	case "pidfd":
		fd, err := unix.PidfdOpen(tid, unix.O_EXCL) // PIDFD_THREAD
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if err := unix.PidfdSendSignal(fd, 0, nil, 0); err != nil {
			_, err = unix.PidfdGetfd(fd, 0, 0)
			return err
		}
		return nil
	case "compare":
		_, _, errno := syscall.Syscall6(unix.SYS_KCMP, uintptr(tid), uintptr(tid), 1, 0, 0, 0)
		if errno != 0 {
			return errno
		}
		return nil
	case "pages":
		return call(unix.SYS_MOVE_PAGES, tid, 0, 0, 0, 0, 0)
	case "list":
		return call(unix.SYS_GET_ROBUST_LIST, tid, make([]byte, 8), make([]byte, 8))
	}
	return errNoAttack
}

func attempt(kind, to string) error {
	pid, _ := strconv.Atoi(to)
	closing := func(fd int, err error) error {
		if err == nil {
			err = unix.Close(fd)
		}
		return err
	}
	switch kind {
	case "read":
		f, err := os.Open(to)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.Read(make([]byte, 64))
		return err
	case "list":
		_, err := os.ReadDir(to)
		return err
	case "write":
		f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			return err
		}
		return f.Close() // the right is the harm: the same is tried without a jail
	case "append":
		return closing(unix.Open(to, unix.O_WRONLY|unix.O_APPEND, 0))
	case "truncating-open":
		return closing(unix.Open(to, unix.O_RDONLY|unix.O_TRUNC, 0))
	case "truncate":
		return os.Truncate(to, int64(len(secret)))
	case "allocate":
		fd, err := unix.Open(to, unix.O_RDWR, 0)
		if err != nil {
			return err
		}
		return errors.Join(unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, 0, 1), unix.Close(fd))
	case "reopen": // what was opened as a path alone, through /proc
		fd, err := unix.Open(to, unix.O_PATH, 0)
		if err != nil {
			return err
		}
		return closing(unix.Open("/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDONLY, 0))
	case "from-path": // below a folder that was opened as a path alone
		fd, err := unix.Open(filepath.Dir(to), unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		return closing(unix.Openat(fd, filepath.Base(to), unix.O_RDONLY, 0))
	case "by-link":
		_ = os.Remove("door")
		if err := os.Symlink(to, "door"); err != nil {
			return err
		}
		return attempt("read", "door")
	case "by-root":
		return attempt("read", "/proc/self/root"+to)
	case "by-cwd":
		return attempt("read", "/proc/self/cwd/../outside/"+filepath.Base(to))
	case "by-host":
		host, path, _ := strings.Cut(to, " ")
		return attempt("read", "/proc/"+host+"/root"+path)
	case "hardlink":
		_ = os.Remove("hard")
		return os.Link(to, "hard")
	case "hardlink-out":
		return os.Link("victim", to)
	case "rename-out":
		return os.Rename("victim", to)
	case "rename-in":
		if err := os.Rename(to, "in"); err != nil {
			return err
		}
		return os.Rename("in", to)
	case "exchange":
		if err := unix.Renameat2(unix.AT_FDCWD, to, unix.AT_FDCWD, "victim", unix.RENAME_EXCHANGE); err != nil {
			return err
		}
		return unix.Renameat2(unix.AT_FDCWD, to, unix.AT_FDCWD, "victim", unix.RENAME_EXCHANGE)
	case "remove":
		return os.Remove(to)
	case "mkdir":
		return os.Mkdir(to, 0o755)
	case "symlink-out":
		return os.Symlink("x", to)
	case "socket-out":
		return closing(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0))
	case "fifo-out":
		return unix.Mkfifo(to, 0o600)
	case "run":
		return exec.Command(to).Run()
	case "loader": // the program as the argument of the loader
		for _, l := range []string{"/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1"} {
			if _, err := os.Stat(l); err == nil {
				out, err := exec.Command(l, to).CombinedOutput()
				if err != nil {
					return fmt.Errorf("%w: %.80s", err, out)
				}
				return nil
			}
		}
		return errors.New("no loader")
	case "map":
		fd, err := unix.Open(to, unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		_, err = unix.Mmap(fd, 0, 1, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE)
		return errors.Join(err, unix.Close(fd))
	case "tcp", "tcp6", "udp", "unix", "unixgram", "unixpacket":
		c, err := net.DialTimeout(kind, to, time.Second)
		if err != nil {
			return err
		}
		return c.Close()
	case "listen":
		l, err := net.Listen("tcp", to)
		if err != nil {
			return err
		}
		return l.Close()
	case "socket": // family type protocol
		var n [3]int
		for i, f := range strings.Fields(to) {
			n[i], _ = strconv.Atoi(f)
		}
		return closing(unix.Socket(n[0], n[1], n[2]))
	case "signal":
		return unix.Kill(pid, 0)
	case "signal-group":
		return unix.Kill(-pid, 0)
	case "signal-thread":
		return unix.Tgkill(pid, pid, 0)
	case "pidfd-signal":
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return err
		}
		return errors.Join(unix.PidfdSendSignal(fd, 0, nil, 0), unix.Close(fd))
	case "pidfd-take":
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			return err
		}
		got, err := unix.PidfdGetfd(fd, 0, 0)
		return errors.Join(closing(got, err), unix.Close(fd))
	case "ptrace":
		if err := unix.PtraceAttach(pid); err != nil {
			return err
		}
		return unix.PtraceDetach(pid)
	case "seize":
		return unix.PtraceSeize(pid)
	case "memory-read", "memory-write":
		b := make([]byte, 8)
		mine := []unix.Iovec{{Base: &b[0]}}
		mine[0].SetLen(len(b))
		theirs := []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&b[0])), Len: len(b)}}
		if kind == "memory-read" {
			_, err := unix.ProcessVMReadv(pid, mine, theirs, 0)
			return err
		}
		_, err := unix.ProcessVMWritev(pid, mine, theirs, 0)
		return err
	case "limit":
		what, host, _ := strings.Cut(to, " ")
		n, _ := strconv.Atoi(what)
		p, _ := strconv.Atoi(host)
		var is unix.Rlimit
		if err := unix.Prlimit(p, n, nil, &is); err != nil {
			return err
		}
		return unix.Prlimit(p, n, &is, nil)
	case "priority":
		return unix.Setpriority(unix.PRIO_PROCESS, pid, 0)
	case "priority-group":
		return unix.Setpriority(unix.PRIO_PGRP, pid, 0)
	case "priority-user":
		return unix.Setpriority(unix.PRIO_USER, 0, 0)
	case "affinity":
		var is unix.CPUSet
		if err := unix.SchedGetaffinity(pid, &is); err != nil {
			return err
		}
		return unix.SchedSetaffinity(pid, &is)
	case "scheduler":
		return call(unix.SYS_SCHED_SETSCHEDULER, pid, unix.SCHED_NORMAL, make([]byte, 4))
	case "scheduling":
		return call(unix.SYS_SCHED_SETPARAM, pid, make([]byte, 4))
	case "attributes":
		a := make([]byte, 56)
		a[0] = 56
		return call(unix.SYS_SCHED_SETATTR, pid, a, 0)
	case "disk":
		return call(unix.SYS_IOPRIO_SET, 1, pid, 2<<13|4)
	case "disk-user":
		return call(unix.SYS_IOPRIO_SET, 3, os.Getuid(), 2<<13|4)
	case "chown":
		return os.Chown(to, 1234, -1)
	case "chgrp":
		return os.Chown(to, -1, 1234)
	case "lchown":
		return os.Lchown(to, 1234, 1234)
	case "attribute":
		return unix.Setxattr(to, "user.stile", []byte("x"), 0)
	case "no-attribute":
		return judgedMissing(unix.Removexattr(to, "user.stile"))
	case "setuid":
		return unix.Chmod(to, 0o4755)
	case "setgid":
		return unix.Chmod(to, 0o2755)
	case "mode":
		return unix.Chmod(to, 0o600)
	case "mode-open":
		return unix.Chmod(to, 0o666)
	case "mode-of-open":
		fd, err := unix.Open(to, unix.O_PATH, 0)
		if err != nil {
			return err
		}
		return errors.Join(unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), 0o600), unix.Close(fd))
	case "mode-at":
		return unix.Fchmodat(unix.AT_FDCWD, to, 0o600, 0)
	case "mode-by-link":
		_ = os.Remove("mode-door")
		if err := os.Symlink(to, "mode-door"); err != nil {
			return err
		}
		return unix.Chmod("mode-door", 0o600)
	case "times":
		return unix.UtimesNanoAt(unix.AT_FDCWD, to, nil, 0)
	case "times-by-link":
		_ = os.Remove("times-door")
		if err := os.Symlink(to, "times-door"); err != nil {
			return err
		}
		return unix.UtimesNanoAt(unix.AT_FDCWD, "times-door", nil, 0)
	case "made-setuid":
		return closing(unix.Open("made", unix.O_CREAT|unix.O_WRONLY, 0o4755))
	case "clone":
		flags, _ := strconv.ParseUint(to, 0, 64)
		return judged(call(unix.SYS_CLONE, int(flags|unix.CLONE_THREAD)))
	case "clone3":
		a := make([]byte, 88)
		a[3], a[2] = 0x10, 0x01
		return judged(call(unix.SYS_CLONE3, a, 64))
	case "unshare":
		flags, _ := strconv.ParseUint(to, 0, 64)
		return unix.Unshare(int(flags))
	case "setns":
		return judged(unix.Setns(0, unix.CLONE_NEWNET))
	case "mount":
		return unix.Mount("tmpfs", ".", "tmpfs", 0, "")
	case "bind":
		return unix.Mount(to, ".", "", unix.MS_BIND, "")
	case "umount":
		return judged(unix.Unmount("/proc/self/no", 0))
	case "pivot":
		return judged(unix.PivotRoot(".", "."))
	case "chroot":
		return unix.Chroot(".")
	case "fsopen":
		return call(unix.SYS_FSOPEN, "tmpfs", 0)
	case "fspick":
		return judged(call(unix.SYS_FSPICK, -100, ".", 0))
	case "fsconfig":
		return judged(call(unix.SYS_FSCONFIG, 0, 0, 0, 0, 0))
	case "fsmount":
		return judged(call(unix.SYS_FSMOUNT, 0, 0, 0))
	case "move-mount":
		return judged(call(unix.SYS_MOVE_MOUNT, -100, ".", -100, ".", 0))
	case "open-tree":
		return call(unix.SYS_OPEN_TREE, -100, ".", 0)
	case "mount-attributes":
		return judged(call(unix.SYS_MOUNT_SETATTR, -100, ".", 0, make([]byte, 32), 32))
	case "handle": // of a file, opened again by its number
		h, at, err := unix.NameToHandleAt(unix.AT_FDCWD, to, 0)
		if err != nil {
			return err
		}
		_ = at
		fd, err := unix.Open(".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		got, err := unix.OpenByHandleAt(fd, h, unix.O_RDONLY)
		return errors.Join(closing(got, err), unix.Close(fd))
	case "node":
		return unix.Mknod("device", unix.S_IFCHR|0o666, 1<<8|3)
	case "block-node":
		return unix.Mknod("block", unix.S_IFBLK|0o666, 8<<8)
	case "hostname":
		return unix.Sethostname([]byte("x"))
	case "domain":
		return unix.Setdomainname([]byte("x"))
	case "clock":
		var now unix.Timeval
		if err := unix.Gettimeofday(&now); err != nil {
			return err
		}
		return unix.Settimeofday(&now)
	case "swap":
		return call(unix.SYS_SWAPON, "/nonexistent", 0)
	case "module":
		return judged(call(unix.SYS_INIT_MODULE, make([]byte, 8), 8, ""))
	case "kexec":
		return judged(call(unix.SYS_KEXEC_LOAD, 0, 0, 0, 0))
	case "accounting":
		return call(unix.SYS_ACCT, "/nonexistent")
	case "ring":
		return judged(call(unix.SYS_IO_URING_SETUP, 1, make([]byte, 120)))
	case "bpf":
		return judged(call(unix.SYS_BPF, 0, make([]byte, 72), 72))
	case "perf":
		a := make([]byte, 120)
		a[0], a[4] = 1, 120
		return judged(call(unix.SYS_PERF_EVENT_OPEN, a, 0, -1, -1, 0))
	case "faults":
		return call(unix.SYS_USERFAULTFD, 0)
	case "key":
		return call(unix.SYS_ADD_KEY, "user", "stile", "x", 1, -1)
	case "key-control":
		return judged(call(unix.SYS_KEYCTL, 0, -3, 1))
	case "key-request":
		return call(unix.SYS_REQUEST_KEY, "user", "stile", "", -1)
	case "kernel-log":
		return call(unix.SYS_SYSLOG, 3, make([]byte, 64), 64)
	case "shm":
		id, err := unix.SysvShmGet(unix.IPC_PRIVATE, 1<<16, unix.IPC_CREAT|0o600)
		if err != nil {
			return err
		}
		_, err = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
		return err
	case "shm-attach":
		return judged(call(unix.SYS_SHMAT, 99999, 0, 0))
	case "queue":
		id, _, errno := syscall.Syscall(unix.SYS_MSGGET, unix.IPC_PRIVATE, unix.IPC_CREAT|0o600, 0)
		if errno != 0 {
			return errno
		}
		return call(unix.SYS_MSGCTL, int(id), unix.IPC_RMID)
	case "semaphores":
		id, _, errno := syscall.Syscall(unix.SYS_SEMGET, unix.IPC_PRIVATE, 1, unix.IPC_CREAT|0o600)
		if errno != 0 {
			return errno
		}
		return call(unix.SYS_SEMCTL, int(id), 0, unix.IPC_RMID)
	case "posix-queue":
		fd, _, errno := syscall.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(&[]byte("stile-attack\x00")[0])), unix.O_CREAT|unix.O_RDWR, 0o600, 0, 0, 0)
		if errno != 0 {
			return errno
		}
		return errors.Join(unix.Close(int(fd)), call(unix.SYS_MQ_UNLINK, "stile-attack"))
	case "watch":
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
		if err != nil {
			return err
		}
		_, err = unix.InotifyAddWatch(fd, to, unix.IN_ALL_EVENTS)
		return errors.Join(err, unix.Close(fd))
	case "watch-all":
		return judged(call(unix.SYS_FANOTIFY_INIT, 0, 0))
	case "descriptor":
		_, err := unix.Pread(pid, make([]byte, 64), 0)
		return err
	case "environment":
		for _, v := range os.Environ() {
			if strings.Contains(v, secret) || strings.Contains(strings.ToUpper(v), "API_KEY") {
				return nil
			}
		}
		return errors.New("nothing of the host in it")
	case "openat2":
		return closing(unix.Openat2(unix.AT_FDCWD, to, &unix.OpenHow{}))
	case "as-root":
		if err := unix.Setuid(0); err != nil {
			return err
		}
		return attempt("read", to)
	case "free-of-landlock": // a new domain only adds to the one there is
		_, _, _ = syscall.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, ^uintptr(0), 0, 0)
		return attempt("read", to)
	case "free-of-privileges":
		return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0)
	case "free-of-filter":
		return unix.Prctl(unix.PR_SET_SECCOMP, 0, 0, 0, 0)
	case "by-child": // a child keeps the jail
		out, err := exec.Command("cat", to).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %.80s", err, out)
		}
		return nil
	case "by-shell":
		out, err := exec.Command("sh", "-c", "cat < "+to).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %.80s", err, out)
		}
		return nil
	case "by-thread":
		failed := make(chan error, 1)
		go func() { failed <- attempt("read", to) }()
		return <-failed
	case "host-thread": // the one that has started this program is in the jail as well
		return ofHostsThreads(to)
	case "copy-range":
		fd, err := unix.Open(to, unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	case "io-control": // of a terminal: typing into it
		fd, err := unix.Open("/dev/tty", unix.O_RDWR, 0)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	}
	return errNoAttack
}

// judgedMissing is for what is not there to be taken away.
func judgedMissing(err error) error {
	if errors.Is(err, unix.ENODATA) {
		return nil
	}
	return err
}

// prepare puts the attacker into a folder, with a list of what to try.
func prepare(dir, list string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.Link(self, filepath.Join(dir, programName)); err != nil { // on another file system
		b, err := os.ReadFile(self)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, programName), b, 0o755); err != nil {
			return err
		}
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, "victim"), []byte("x"), 0o755), os.WriteFile(filepath.Join(dir, "attacks.txt"), []byte(list), 0o644))
}

// said are the lines of the attacker, by attack.
func said(text string) map[string]string {
	out := map[string]string{}
	in := bufio.NewScanner(strings.NewReader(text))
	for in.Scan() {
		if f := strings.SplitN(in.Text(), "\t", 3); len(f) == 3 {
			out[f[1]] = f[0] + " " + f[2]
		}
	}
	return out
}

// onlineMissing returns why this kernel lets no program have the network and not this machine.
func onlineMissing() string {
	if why := jailMissing(); why != "" {
		return why
	}
	if !confine.Probe().Asks {
		return "the kernel does not ask about peers"
	}
	return ""
}

// onlineRows are what a program in the jail tries that has the network: to reach what listens
// on this machine.
func onlineRows(w *world) (rows []row) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := errors.Join(tcp.Close(), udp.Close()); err != nil {
			w.t.Error(err)
		}
	})
	_, port, err := net.SplitHostPort(tcp.Addr().String())
	if err != nil {
		w.t.Fatal(err)
	}
	_, datagrams, err := net.SplitHostPort(udp.LocalAddr().String())
	if err != nil {
		w.t.Fatal(err)
	}
	tries := []string{"tcp " + strings.TrimPrefix(w.url, "http://")}
	for _, at := range []string{"127.0.0.1", "127.0.0.2", "127.255.255.254", "0.0.0.0", "[::ffff:127.0.0.1]", "[::1]", "[::]", "169.254.169.254", "[fe80::1%lo]", "[::ffff:169.254.169.254]"} {
		tries = append(tries, "tcp "+at+":"+port, "udp "+at+":"+datagrams)
	}
	tries = append(tries,
		"socket 2 3 1", "socket 10 3 58", "socket 2 3 255", "socket 17 3 768", "socket 38 5 0", "socket 40 1 0", "socket 44 3 0", "socket 16 3 15", "socket 16 3 12", "socket 16 3 9", "socket 16 3 16", "socket 1 1 0", "socket 1 2 0",
		"read "+filepath.Join(w.data, "keys.json"), "read /proc/"+strconv.Itoa(os.Getpid())+"/environ", "signal "+strconv.Itoa(os.Getpid()), "limit 7 "+strconv.Itoa(os.Getpid()), "ring", "key", "shm", "mode "+filepath.Join(w.data, "tokens.json"),
	)
	confined := sync.OnceValues(func() (map[string]string, error) {
		if err := prepare(w.folder("online", filepath.Join(filepath.Dir(w.outside), "online")), strings.Join(tries, "\n")); err != nil {
			return nil, err
		}
		got, err := w.calls("online", []tool{{"shell", map[string]any{"command": "./" + programName + " attacks.txt"}}})
		if err != nil {
			return nil, err
		}
		all := said(got[0].Content)
		if len(all) != len(tries) {
			return nil, errf("%d of %d attacks: %s", len(all), len(tries), got[0].String())
		}
		return all, nil
	})
	for _, what := range tries {
		rows = append(rows, row{class: "programs with the network", by: byProgram, tries: strings.ReplaceAll(what, filepath.Dir(w.outside), "…"), holds: "refused", cannot: onlineMissing(), attack: func() error {
			all, err := confined()
			if err != nil {
				return err
			}
			// An address that this machine lacks is out of reach as well.
			if got := all[what]; !strings.HasPrefix(got, "refused ") || strings.Contains(got, errNoAttack.Error()) {
				return errf("%s", got)
			}
			return nil
		}})
	}
	return rows
}

// programRows are what a program in the jail tries. All are made by one program in one call
// of the tool, and those that no kernel refuses by itself once more without a jail, where
// they must succeed: else they would be no attacks.
func programRows(w *world) (rows []row) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	daemons, err := os.MkdirTemp("", "stile-attacks-")
	if err != nil {
		w.t.Fatal(err)
	}
	socket := filepath.Join(daemons, "daemon.sock")
	local, err := net.Listen("unix", socket)
	if err != nil {
		w.t.Fatal(err)
	}
	gram, err := net.ListenPacket("unixgram", filepath.Join(daemons, "gram.sock"))
	if err != nil {
		w.t.Fatal(err)
	}
	abstract, err := net.Listen("unix", "@"+daemons)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := errors.Join(tcp.Close(), udp.Close(), local.Close(), gram.Close(), abstract.Close(), os.RemoveAll(daemons)); err != nil {
			w.t.Error(err)
		}
	})
	file, err := os.Open(filepath.Join(w.outside, "secret.txt"))
	if err != nil {
		w.t.Fatal(err)
	}
	defer file.Close()
	inherited, err := unix.Dup(int(file.Fd())) // as one that the host was started with: not closed on exec
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = unix.Close(inherited) })
	out := func(name string) string { return filepath.Join(w.outside, name) }
	data := func(name string) string { return filepath.Join(w.data, name) }
	foreign, host := out("secret.txt"), strconv.Itoa(os.Getpid())
	// What is taken away for a moment without the jail is not what other rows look at.
	spare := filepath.Join(filepath.Dir(w.outside), "spare", "spare.txt")
	w.put(spare, secret)
	w.t.Cleanup(func() { // without the jail its mode was changed, and it is to be removed
		if err := os.Chmod(filepath.Dir(spare), 0o700); err != nil {
			w.t.Error(err)
		}
	})
	const (
		alone  = iota // it succeeds without the jail
		kernel        // there it depends on the kernel's settings and the user
	)
	type try struct {
		what string
		free int
		abi  int // of Landlock, that stops it; 0 is any
	}
	var tries []try
	add := func(free int, all ...string) {
		for _, what := range all {
			tries = append(tries, try{what, free, 0})
		}
	}
	add(alone, "read "+foreign, "read "+out("folder/deep.txt"), "list "+w.outside, "read "+data("keys.json"), "read "+data("tokens.json"), "read "+data(stile.JournalFile), "read "+data("audit.jsonl"), "list "+w.data, "read "+filepath.Join(w.agent, "shell.yaml"), "read "+filepath.Join(w.agent, "tls.pem"),
		"read /etc/passwd", "read /etc/hosts", "read /proc/self/environ", "read /proc/self/status", "read /proc/"+host+"/environ", "read /proc/"+host+"/cmdline", "read /proc/"+host+"/maps", "list /proc/"+host+"/fd", "read /proc/version", "list /proc", "list /", "list /etc", "list /tmp", "list /dev", "list /sys", "list "+filepath.Dir(w.outside),
		"by-link "+foreign, "by-link "+data("keys.json"), "by-root "+foreign, "by-cwd "+foreign, "by-host "+host+" "+foreign, "reopen "+foreign, "reopen "+data("keys.json"), "from-path "+foreign, "hardlink "+foreign, "hardlink "+data("keys.json"), "by-child "+foreign, "by-shell "+foreign, "by-thread "+foreign, "copy-range "+foreign, "map "+foreign, "openat2 "+foreign, "free-of-landlock "+foreign,
		"append "+foreign, "append "+data("tokens.json"), "append "+data(stile.JournalFile), "append "+filepath.Join(w.agent, "shell.yaml"), "append "+filepath.Join(w.agent, "count.sh"), "write "+foreign, "write "+data("keys.json"), "allocate "+foreign, "truncate "+foreign, "exchange "+spare, "rename-in "+spare, "run "+out("program"),
		"tcp "+tcp.Addr().String(), "udp "+udp.LocalAddr().String(), "listen 127.0.0.1:0", "listen 0.0.0.0:0", "unix "+socket, "unixgram "+filepath.Join(daemons, "gram.sock"), "unix "+abstract.Addr().String(), "tcp "+strings.TrimPrefix(w.url, "http://"),
		"socket 1 1 0", "socket 1 2 0", "socket 1 5 0", "socket 2 1 0", "socket 2 2 0", "socket 10 1 0", "socket 10 2 0", "socket 16 3 0", "socket 16 3 15",
		"signal "+host, "signal-thread "+host, "pidfd-signal "+host, "limit 4 "+host, "limit 7 "+host, "limit 0 "+host, "limit 1 "+host, "limit 9 "+host, "affinity "+host, "scheduler "+host, "scheduling "+host, "attributes "+host, "disk "+host, "mode "+spare, "mode-open "+spare, "mode-of-open "+spare, "mode-at "+spare, "mode-by-link "+spare, "times "+spare, "times-by-link "+spare, "mode "+filepath.Dir(spare), "times "+data("tokens.json"), "mode "+data("keys.json"), "times "+w.data, "setuid victim", "setgid victim", "made-setuid", "watch "+w.outside, "watch "+w.data, "open-tree", "environment",
	)
	add(alone, "host-thread tgkill", "host-thread kill", "host-thread tkill", "host-thread read", "host-thread write", "host-thread list", "host-thread pages", "host-thread own")
	add(kernel, "host-thread seize", "host-thread queue", "host-thread pidfd", "host-thread compare")
	add(kernel, "socket-out", "socket 2 1 262", "socket 2 3 1", "socket 2 3 255", "socket 2 1 132", "socket 17 3 768", "socket 38 5 0", "socket 40 1 0", "socket 44 3 0", "socket 29 3 1", "socket 31 5 0", "socket 41 2 0", "socket 30 5 0", "socket 21 5 0", "socket 15 3 2", "socket 16 3 16", "socket 16 3 9", "socket 16 3 12",
		"read /etc/shadow", "read /root/.ssh/id_rsa", "read /proc/kcore", "read /proc/kallsyms", "read /dev/mem", "read /dev/kmsg", "read /proc/1/environ", "read /proc/"+host+"/mem", "list /root", "list /home", "list /proc/"+host+"/root", "list /proc/"+host+"/task", "read /sys/kernel/mm/transparent_hugepage/enabled", "read /run/utmp", "list /run", "list /var/log", "list /dev/shm", "list /proc/"+host+"/cwd",
		"write /dev/shm/stile-attack", "write /tmp/stile-attack", "write /var/tmp/stile-attack", "write /etc/stile-attack", "write /usr/bin/stile-attack", "write /sys/fs/cgroup/cgroup.procs", "write /proc/sys/kernel/core_pattern", "write /proc/"+host+"/oom_score_adj", "write /proc/"+host+"/comm", "write /proc/"+host+"/mem", "write /proc/self/oom_score_adj", "write /dev/kmsg", "io-control", "as-root "+foreign, "handle "+foreign, "handle "+data("keys.json"), "loader "+out("program"),
		"signal-group "+host, "pidfd-take "+host, "ptrace "+host, "seize "+host, "memory-read "+host, "memory-write "+host, "priority "+host, "priority-group "+host, "priority-user", "disk-user", "signal 1", "ptrace 1", "limit 7 1",
		"chown "+foreign, "chgrp "+foreign, "lchown "+foreign, "attribute "+foreign, "attribute victim", "no-attribute "+foreign, "chown "+data("keys.json"), "setuid "+foreign, "setuid "+data("keys.json"),
		"clone 0x10000000", "clone 0x00020000", "clone 0x40000000", "clone 0x20000000", "clone 0x08000000", "clone 0x04000000", "clone 0x02000000", "clone 0x7e020000", "clone3", "unshare 0x10000000", "unshare 0x00020000", "unshare 0x40000000", "unshare 0x20000000", "unshare 0x08000000", "unshare 0x04000000", "unshare 0x02000000", "setns",
		"mount", "bind "+w.outside, "bind /", "umount", "pivot", "chroot", "fsopen", "fspick", "fsconfig", "fsmount", "move-mount", "mount-attributes", "node", "block-node", "hostname", "domain", "clock", "swap", "module", "kexec", "accounting",
		"ring", "bpf", "perf", "faults", "key", "key-control", "key-request", "kernel-log", "shm", "shm-attach", "queue", "semaphores", "posix-queue", "watch-all", "free-of-privileges", "free-of-filter", "descriptor "+strconv.Itoa(inherited),
		"hardlink-out "+out("made"), "rename-out "+out("made"), "mkdir "+out("made"), "symlink-out "+out("made"), "fifo-out "+out("made"), "write "+out("made"), "remove "+foreign, "remove "+data("keys.json"), "remove "+out("folder"), "truncating-open "+foreign, "truncate "+data("keys.json"),
	)
	for i := range tries {
		switch what := tries[i].what; {
		case strings.HasPrefix(what, "unix @"), strings.HasPrefix(what, "signal"), strings.HasPrefix(what, "pidfd-signal"):
			tries[i].abi = 6
		}
	}
	missing, box := jailMissing(), confine.Probe()
	// Without the filter sockets and other system calls are open, and documented so.
	needsFilter := func(what string) bool {
		kind, _, _ := strings.Cut(what, " ")
		return !slices.Contains([]string{"read", "list", "write", "append", "by-link", "by-root", "by-cwd", "by-host", "reopen", "from-path", "hardlink", "by-child", "by-shell", "by-thread", "copy-range", "map", "openat2", "free-of-landlock", "allocate", "truncate", "exchange", "rename-in", "run", "remove", "mkdir", "hardlink-out", "rename-out", "symlink-out", "fifo-out", "truncating-open"}, kind)
	}
	var list strings.Builder
	for _, try := range tries {
		list.WriteString(try.what + "\n")
	}
	confined := sync.OnceValues(func() (map[string]string, error) {
		dir := w.folder("shell", w.programs)
		if err := prepare(dir, list.String()); err != nil {
			return nil, err
		}
		got, err := w.calls("shell", []tool{{"shell", map[string]any{"command": "./" + programName + " attacks.txt"}}})
		if err != nil {
			return nil, err
		}
		if err := w.leaks(got[0].String()); err != nil {
			return nil, err
		}
		all := said(got[0].Content)
		if len(all) != len(tries) {
			return nil, errf("%d of %d attacks: %s", len(all), len(tries), got[0].String())
		}
		return all, nil
	})
	for i, try := range tries {
		r := row{class: "programs in the jail", by: byProgram, tries: strings.ReplaceAll(try.what, filepath.Dir(w.outside), "…"), holds: "refused"}
		switch {
		case missing != "":
			r.cannot = missing
		case try.abi > box.ABI && !box.Filter, try.abi > box.ABI && strings.HasPrefix(try.what, "signal"):
			r.cannot = fmt.Sprintf("Landlock %d, and %d stops it", box.ABI, try.abi)
		case !box.Filter && needsFilter(try.what):
			r.cannot = "no filter of system calls"
		}
		r.attack = func() error {
			all, err := confined()
			if err != nil {
				return err
			}
			if got := all[try.what]; !strings.HasPrefix(got, "refused ") || strings.Contains(got, errNoAttack.Error()) {
				return errf("%s", got)
			}
			if i == len(tries)-1 {
				return w.harmed()
			}
			return nil
		}
		rows = append(rows, r)
	}
	free := sync.OnceValues(func() (map[string]string, error) {
		dir := filepath.Join(filepath.Dir(w.outside), "free")
		if err := errors.Join(os.Mkdir(dir, 0o755), prepare(dir, "")); err != nil {
			return nil, err
		}
		var some strings.Builder
		for _, try := range tries {
			if try.free == alone {
				some.WriteString(try.what + "\n")
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "attacks.txt"), []byte(some.String()), 0o644); err != nil {
			return nil, err
		}
		cmd := exec.Command("./"+programName, "attacks.txt")
		cmd.Dir = dir
		b, err := cmd.CombinedOutput()
		return said(string(b)), err
	})
	rows = append(rows, row{class: "programs in the jail", by: byProgram, tries: "without it, all that no kernel refuses", holds: "they succeed, so they are attacks", cannot: missing, attack: func() error {
		if _, err := confined(); err != nil { // before what succeeds
			return err
		}
		all, err := free()
		if err != nil {
			return err
		}
		var wrong []string
		for _, try := range tries {
			if try.free == alone && !strings.HasPrefix(all[try.what], "succeeded") {
				wrong = append(wrong, try.what+": "+all[try.what])
			}
		}
		if len(wrong) > 0 {
			return errf("refused without a jail: %s", strings.Join(wrong, "; "))
		}
		return nil
	}})
	return rows
}
