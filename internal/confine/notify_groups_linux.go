//go:build linux && (amd64 || arm64)

package confine

import (
	"bytes"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// A program is ended by its process group. What leaves that group says so here before it
// does, and its own group is ended with the jail: nothing of a call outlives it.

// maxGroups bounds the groups of a jail.
const maxGroups = 1024

// groups are those that processes of a jail have made, by their number. They belong to the
// goroutine that answers, and to the one that ends the jail after it.
type groups map[int]struct{}

// ofGroups lets a call that leaves a process group be done by the kernel: its arguments
// are numbers, which nothing changes in between. known is false for another call.
func (l *listener) ofGroups(q *question) (flags uint32, errno syscall.Errno, known bool) {
	of, group := 0, 0 // 0 is the caller, and the group that has a process's own number
	switch q.nr {
	case unix.SYS_SETSID:
	case unix.SYS_SETPGID:
		of, group = descriptor(q.args[0]), descriptor(q.args[1])
	default:
		return 0, 0, false
	}
	if of == 0 {
		if of, errno = q.process(); errno != 0 {
			return 0, errno, true
		}
	}
	if group == 0 {
		group = of
	}
	_, ours := l.groups[group]
	switch {
	case !ours && group != of: // one of the host's, to be taken for its own
		return 0, unix.EPERM, true
	case !ours && len(l.groups) >= maxGroups:
		return 0, unix.EAGAIN, true
	}
	l.groups[group] = struct{}{}
	return unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE, 0, true
}

// end kills what is in the groups. No other one is made any more: the kernel has no answer.
func (g groups) end() {
	if len(g) == 0 {
		return
	}
	all, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	for _, e := range all {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		// The descriptor is of the process that is looked at, whatever its number is by then.
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		if group, err := unix.Getpgid(pid); err == nil && confined(pid) {
			if _, ours := g[group]; ours && unix.PidfdSendSignal(fd, unix.SIGKILL, nil, signalGroup) != nil {
				_ = killGroup(group) // before Linux 6.9
			}
		}
		_ = unix.Close(fd)
	}
}

// signalGroup is PIDFD_SIGNAL_PROCESS_GROUP, which the library does not name.
const signalGroup = 1 << 2

// confined reports whether a process is below a filter as those of a jail are. A group's
// number may be that of another one by now, which a jail has not made.
func confined(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	return err == nil && bytes.Contains(b, []byte("\nSeccomp:\t2\n")) && bytes.Contains(b, []byte("\nNoNewPrivs:\t1\n"))
}
