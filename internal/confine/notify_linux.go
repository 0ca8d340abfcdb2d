//go:build linux && (amd64 || arm64)

package confine

import (
	"bytes"
	"errors"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Some system calls name what they are about by a path or an address in memory, where a
// filter cannot look: modes and times of files, which Landlock does not guard, and peers
// of sockets. The kernel asks for these (seccomp_unotify(2)). The answer is not "go on",
// since the program could change its memory in between: the call is judged and done here,
// on a descriptor of the same object. It also asks about process groups, by their numbers.

// maxPending bounds the calls of a jail that wait for the network.
const maxPending = 256

// question is struct seccomp_notif of the kernel.
type question struct {
	id    uint64
	tid   uint32
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

// reply is struct seccomp_notif_resp.
type reply struct {
	id    uint64
	val   int64
	errno int32
	flags uint32
}

// listener answers the questions of one jail.
type listener struct {
	file    *os.File
	jail    *Jail
	roots   []int // descriptors of the folders that may be changed
	keeps   bool  // programs have root's rights over files of other users
	network peers
	groups  groups
	pending chan struct{}
	ended   sync.WaitGroup
	done    chan struct{} // closed when the jail has ended
}

// listen answers what comes of a descriptor that the kernel gave, until it is stopped. It
// owns the descriptor. ns is the mount namespace of the jail, or -1 for the host's.
func (j *Jail) listen(fd, ns int) (*listener, error) {
	l := &listener{jail: j, keeps: j.User == nil && (j.Guard || foreign(j.Read) || foreign(j.Write)), network: j.peers, groups: groups{}, pending: make(chan struct{}, maxPending), done: make(chan struct{})}
	for _, p := range j.Write {
		root, err := unix.Open(p, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			l.closeRoots()
			_ = unix.Close(fd)
			return nil, &os.PathError{Op: "open", Path: p, Err: err}
		}
		l.roots = append(l.roots, root)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		l.closeRoots()
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	l.file = os.NewFile(uintptr(fd), "seccomp")
	if err := l.begin(ns); err != nil {
		l.closeRoots()
		return nil, errors.Join(err, l.file.Close())
	}
	return l, nil
}

// begin answers, on a thread that sees the mounts of the jail: paths mean what they mean to
// the program, and what is read-only for it stays so.
func (l *listener) begin(ns int) error {
	if ns < 0 {
		l.ended.Go(l.serve)
		return nil
	}
	joined := make(chan error)
	l.ended.Add(1)
	onThreadOfItsOwn(func() {
		defer l.ended.Done()
		err := join(ns)
		joined <- err
		if err == nil {
			l.serve()
		}
	})
	return <-joined
}

// stop answers nothing more, and ends what has left the program's process group.
func (l *listener) stop() {
	if l == nil {
		return
	}
	close(l.done)
	_ = l.file.SetReadDeadline(time.Unix(1, 0))
	l.ended.Wait()
	_ = l.file.Close()
	l.closeRoots()
	l.groups.end()
}

func (l *listener) closeRoots() {
	for _, fd := range l.roots {
		_ = unix.Close(fd)
	}
}

// serve answers until the deadline of the descriptor has passed.
func (l *listener) serve() {
	raw, err := l.file.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(fd uintptr) bool {
		for ready(int(fd), unix.POLLIN) {
			select {
			case <-l.done: // what is left of the jail may ask for ever
				return true
			default:
			}
			var q question
			_, _, errno := syscall.Syscall(unix.SYS_IOCTL, fd, unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&q)))
			switch errno {
			case 0:
				l.answer(int(fd), &q)
			case unix.EINTR, unix.ENOENT: // whose call it was is gone
			default:
				return true
			}
		}
		return false
	})
}

// answer judges a call and does it, at once or, where it may wait, beside others.
func (l *listener) answer(fd int, q *question) {
	reply := func(val int64, errno syscall.Errno, flags uint32) {
		r := reply{id: q.id, val: val, errno: -int32(errno), flags: flags}
		errno = unix.EINTR
		for errno == unix.EINTR {
			_, _, errno = syscall.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&r)))
		}
	}
	say := func(val int64, errno syscall.Errno) { reply(val, errno, 0) }
	if q.tid == 0 { // of a namespace that this process does not see
		say(0, unix.EPERM)
		return
	}
	if flags, errno, known := l.ofGroups(q); known {
		reply(0, errno, flags)
		return
	}
	if do := l.ofFiles(q); do != nil {
		say(0, do())
		return
	}
	select {
	case l.pending <- struct{}{}:
	default:
		say(0, unix.ENOBUFS)
		return
	}
	// The descriptor stays open: stop waits for what is in flight.
	l.ended.Go(func() {
		defer func() { <-l.pending }()
		say(l.ofNetwork(q))
	})
}

// still reports whether the call is still waited for: if so, what was read by the number
// of its thread was that thread's.
func (l *listener) still(q *question) bool {
	id := q.id
	_, _, errno := syscall.Syscall(unix.SYS_IOCTL, l.file.Fd(), notifIDValid, uintptr(unsafe.Pointer(&id)))
	return errno == 0
}

// notifIDValid is SECCOMP_IOCTL_NOTIF_ID_VALID, which the library does not name.
const notifIDValid = 0x40082102

// memory reads n bytes of the caller's memory.
func (q *question) memory(at uint64, n int) ([]byte, syscall.Errno) {
	b := make([]byte, n)
	return b, q.read(at, b)
}

func (q *question) read(at uint64, b []byte) syscall.Errno {
	if len(b) == 0 {
		return 0
	}
	local := []unix.Iovec{{Base: &b[0], Len: uint64(len(b))}}
	n, err := unix.ProcessVMReadv(int(q.tid), local, []unix.RemoteIovec{{Base: uintptr(at), Len: len(b)}}, 0)
	if err == nil && n != len(b) {
		return unix.EFAULT
	}
	return errnoOf(err)
}

// path reads a path of the caller's, page by page: what is behind its end may be no memory.
func (q *question) path(at uint64) (string, syscall.Errno) {
	page := uint64(os.Getpagesize())
	var text []byte
	for len(text) < unix.PathMax {
		b, errno := q.memory(at, int(min(page-at%page, uint64(unix.PathMax-len(text)))))
		if errno != 0 {
			return "", errno
		}
		if end := bytes.IndexByte(b, 0); end >= 0 {
			return string(append(text, b[:end]...)), 0
		}
		text = append(text, b...)
		at += uint64(len(b))
	}
	return "", unix.ENAMETOOLONG
}

// proc is a path below the caller's folder in /proc.
func (q *question) proc(name string) string {
	return "/proc/" + strconv.Itoa(int(q.tid)) + "/" + name
}

// process is the number of the caller's process.
func (q *question) process() (int, syscall.Errno) {
	b, err := os.ReadFile(q.proc("status"))
	if err != nil {
		return 0, unix.ESRCH
	}
	_, rest, _ := strings.Cut(string(b), "\nTgid:\t")
	line, _, _ := strings.Cut(rest, "\n")
	pid, err := strconv.Atoi(line)
	if err != nil {
		return 0, unix.ESRCH
	}
	return pid, 0
}

// errnoOf is the number of an error of a system call: EPERM for another error.
func errnoOf(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return unix.EPERM
}

// descriptor is an argument that is one: the kernel takes its low half.
func descriptor(arg uint64) int { return int(int32(arg & math.MaxUint32)) }
