//go:build linux && (amd64 || arm64)

package confine

import (
	"encoding/binary"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Modes and times of files: changed below the folders that the jail may change, and of
// descriptors that lead there. Everything else is EPERM.

// ofFiles is what is to be done for a call that changes the mode or the times of a file;
// nil for another call.
func (l *listener) ofFiles(q *question) func() syscall.Errno {
	at := uint64(unix.AT_FDCWD & (1<<32 - 1))
	switch uint32(q.nr) {
	case unix.SYS_FCHMOD:
		return func() syscall.Errno { return l.chmod(q, q.args[0], 0, q.args[1], unix.AT_EMPTY_PATH) }
	case unix.SYS_FCHMODAT:
		return func() syscall.Errno { return l.chmod(q, q.args[0], q.args[1], q.args[2], 0) }
	case unix.SYS_FCHMODAT2:
		return func() syscall.Errno { return l.chmod(q, q.args[0], q.args[1], q.args[2], q.args[3]) }
	case unix.SYS_UTIMENSAT:
		return func() syscall.Errno { return l.utimes(q, q.args[0], q.args[1], q.args[2], q.args[3], nanoseconds) }
	case chmodHere:
		return func() syscall.Errno { return l.chmod(q, at, q.args[0], q.args[1], 0) }
	case utimeHere:
		return func() syscall.Errno { return l.utimes(q, at, q.args[0], q.args[1], 0, wholeSeconds) }
	case utimesHere:
		return func() syscall.Errno { return l.utimes(q, at, q.args[0], q.args[1], 0, microseconds) }
	case futimesatHere:
		return func() syscall.Errno { return l.utimes(q, q.args[0], q.args[1], q.args[2], 0, microseconds) }
	}
	return nil
}

func (l *listener) chmod(q *question, dir, path, mode, flags uint64) syscall.Errno {
	if mode&setID != 0 {
		return unix.EPERM // no file becomes one that others run as the host's user
	}
	if flags&^(unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH) != 0 {
		return unix.EINVAL
	}
	f, st, errno := l.open(q, dir, path, flags)
	if errno != 0 {
		return errno
	}
	defer unix.Close(f)
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return unix.EOPNOTSUPP
	}
	return errnoOf(unix.Chmod(magic(f), uint32(mode&0o7777)))
}

// The forms in which calls give the two times of a file.
const (
	nanoseconds  = 0 // struct timespec[2]
	microseconds = 1 // struct timeval[2]
	wholeSeconds = 2 // struct utimbuf
)

func (l *listener) utimes(q *question, dir, path, times, flags uint64, form int) syscall.Errno {
	if flags&^(unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH) != 0 {
		return unix.EINVAL
	}
	var ts []unix.Timespec // nil is now
	if times != 0 {
		size := 32
		if form == wholeSeconds {
			size = 16
		}
		b, errno := q.memory(times, size)
		if errno != 0 {
			return errno
		}
		word := func(i int) int64 { return int64(binary.NativeEndian.Uint64(b[8*i:])) }
		switch form {
		case nanoseconds:
			ts = []unix.Timespec{{Sec: word(0), Nsec: word(1)}, {Sec: word(2), Nsec: word(3)}}
		case microseconds:
			for _, i := range []int{0, 2} {
				if word(i+1) < 0 || word(i+1) >= 1e6 {
					return unix.EINVAL
				}
				ts = append(ts, unix.Timespec{Sec: word(i), Nsec: word(i+1) * 1000})
			}
		case wholeSeconds:
			ts = []unix.Timespec{{Sec: word(0)}, {Sec: word(1)}}
		}
	}
	if path == 0 {
		if descriptor(dir) == unix.AT_FDCWD {
			return unix.EFAULT
		}
		flags |= unix.AT_EMPTY_PATH
	}
	f, st, errno := l.open(q, dir, path, flags)
	if errno != 0 {
		return errno
	}
	defer unix.Close(f)
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return errnoOf(unix.UtimesNanoAt(f, "", ts, unix.AT_EMPTY_PATH))
	}
	return errnoOf(unix.UtimesNanoAt(unix.AT_FDCWD, magic(f), ts, 0))
}

// open opens, without any right to it, what a call names, and refuses what is outside the
// folders that the jail may change or belongs to another user.
func (l *listener) open(q *question, dir, path, flags uint64) (int, *unix.Stat_t, syscall.Errno) {
	name := ""
	if path != 0 {
		var errno syscall.Errno
		if name, errno = q.path(path); errno != 0 {
			return -1, nil, errno
		}
	}
	f, errno := q.find(descriptor(dir), name, flags)
	if errno != 0 {
		return -1, nil, errno
	}
	var st unix.Stat_t
	errno = errnoOf(unix.Fstat(f, &st))
	switch {
	case errno != 0:
	case !l.still(q): // the thread is gone: its number may be another's
		errno = unix.ESRCH
	case !l.inside(f), !l.keeps && st.Uid != l.jail.User.uid():
		errno = unix.EPERM
	}
	if errno != 0 {
		_ = unix.Close(f)
		return -1, nil, errno
	}
	return f, &st, 0
}

// find opens what the caller means by a path and a descriptor.
func (q *question) find(dir int, name string, flags uint64) (int, syscall.Errno) {
	name = q.own(name)
	if n, rest, ok := q.ofDescriptor(name); ok && rest == "" {
		dir, name, flags = n, "", unix.AT_EMPTY_PATH
	}
	from := "cwd"
	if dir != unix.AT_FDCWD {
		if dir < 0 {
			return -1, unix.EBADF
		}
		from = "fd/" + strconv.Itoa(dir)
	}
	if name == "" {
		if flags&unix.AT_EMPTY_PATH == 0 {
			return -1, unix.ENOENT
		}
		f, err := unix.Open(q.proc(from), unix.O_PATH|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.ENOENT) {
			err = unix.EBADF
		}
		return f, errnoOf(err)
	}
	base := unix.AT_FDCWD
	if name[0] != '/' {
		f, err := unix.Open(q.proc(from), unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1, unix.EBADF
		}
		defer unix.Close(f)
		base = f
	}
	// Magic links would lead to this process's own files.
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_MAGICLINKS}
	if flags&unix.AT_SYMLINK_NOFOLLOW != 0 {
		how.Flags |= unix.O_NOFOLLOW
	}
	f, err := unix.Openat2(base, name, &how)
	return f, errnoOf(err)
}

// own spells the caller's folder in /proc as this process does.
func (q *question) own(name string) string {
	for _, self := range []string{"/proc/self/", "/proc/thread-self/"} {
		if rest, ok := strings.CutPrefix(name, self); ok {
			return q.proc(rest)
		}
	}
	if rest, ok := strings.CutPrefix(name, "/dev/fd/"); ok {
		return q.proc("fd/" + rest)
	}
	return name
}

// ofDescriptor cuts a path that begins with one of the caller's descriptors in /proc.
func (q *question) ofDescriptor(name string) (n int, rest string, ok bool) {
	tail, ok := strings.CutPrefix(name, q.proc("fd/"))
	if !ok {
		return 0, "", false
	}
	digits, rest, _ := strings.Cut(tail, "/")
	n, err := strconv.Atoi(digits)
	return n, rest, err == nil && n >= 0
}

// inside reports whether a file lies in a folder that the jail may change, wherever that
// folder is by now, and not in a part that is the host's.
func (l *listener) inside(f int) bool {
	at, err := os.Readlink(magic(f))
	if err != nil || at == "" || at[0] != '/' || !l.jail.parts.free(at) {
		return false
	}
	if l.jail.Guard {
		return true
	}
	for _, root := range l.roots {
		dir, err := os.Readlink(magic(root))
		if err == nil && (at == dir || strings.HasPrefix(at, strings.TrimSuffix(dir, "/")+"/")) {
			return true
		}
	}
	return false
}
