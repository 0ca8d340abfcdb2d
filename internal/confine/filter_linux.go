//go:build linux && (amd64 || arm64)

package confine

import (
	"math"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const filterKnown = true

// filtered are system calls that no command of a model needs and that lead around the
// rest, deep into the kernel, or out of the jail.
var filtered = []uint32{
	unix.SYS_IO_URING_SETUP, // opens sockets past this filter
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_SYSLOG,
	// Namespaces and mounts.
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_CHROOT, unix.SYS_PIVOT_ROOT, unix.SYS_MOUNT, unix.SYS_UMOUNT2,
	unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_MOUNT_SETATTR,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
	// System V and POSIX queues outlive a call, count as no process's memory, and are every
	// tenant's.
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_MSGGET, unix.SYS_MSGSND, unix.SYS_MSGRCV, unix.SYS_MSGCTL,
	unix.SYS_SEMGET, unix.SYS_SEMOP, unix.SYS_SEMTIMEDOP, unix.SYS_SEMCTL, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK,
	// What happens to files outside, which Landlock does not hide.
	unix.SYS_INOTIFY_ADD_WATCH, unix.SYS_FANOTIFY_INIT, unix.SYS_FANOTIFY_MARK,
}

// unsupported are answered as a file system without extended attributes answers, which
// programs that copy files take for what it is. Landlock does not guard them.
var unsupported = []uint32{
	unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_SETXATTRAT,
	unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR, unix.SYS_REMOVEXATTRAT, unix.SYS_FILE_SETATTR,
}

// hidden are answered as an older kernel does: their arguments lie in memory, where a
// filter cannot judge them, and what programs fall back to can be judged.
var hidden = []uint32{unix.SYS_CLONE3, unix.SYS_OPENAT2}

const (
	newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
	setID         = unix.S_ISUID | unix.S_ISGID
	prioProcess   = 0 // of setpriority
	ioprioProcess = 1 // of ioprio_set
)

// The answers of a filter.
const (
	passes      = unix.SECCOMP_RET_ALLOW
	refuse      = unix.SECCOMP_RET_ERRNO | uint32(syscall.EPERM)
	nothing     = unix.SECCOMP_RET_ERRNO // done, without doing anything
	unavailable = unix.SECCOMP_RET_ERRNO | uint32(syscall.EOPNOTSUPP)
	unknown     = unix.SECCOMP_RET_ERRNO | uint32(syscall.ENOSYS)
)

// filter is a program of the kernel's in the making.
type filter []unix.SockFilter

// load takes a word of seccomp_data. The low half of an argument comes first on both
// processors.
func (f *filter) load(at uint32) {
	*f = append(*f, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at})
}

func (f *filter) loadArg(n, half uint32) { f.load(16 + 8*n + 4*half) }

func (f *filter) answer(say uint32) {
	*f = append(*f, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: say})
}

// when answers if a test of what was loaded holds, and else goes on.
func (f *filter) when(test uint16, k, say uint32) {
	*f = append(*f, unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, Jf: 1, K: k})
	f.answer(say)
}

// unless answers if what was loaded is not k.
func (f *filter) unless(k, say uint32) {
	*f = append(*f, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: k})
	f.answer(say)
}

// of judges one system call; what judge leaves open is allowed.
func (f *filter) of(nr uint32, judge func(*filter)) {
	var block filter
	judge(&block)
	block.answer(passes)
	*f = append(*f, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: uint8(len(block)), K: nr})
	*f = append(*f, block...)
}

// own is the type of this processor to the kernel.
func own() uint32 {
	if runtime.GOARCH == "arm64" {
		return unix.AUDIT_ARCH_AARCH64
	}
	return unix.AUDIT_ARCH_X86_64
}

// program is the filter of a jail.
func program(network bool) filter {
	const number, arch, x32 = 0, 4, 0x40000000
	var f filter
	f.load(arch)
	f.unless(own(), refuse) // a program of another processor type has other numbers
	f.load(number)
	if runtime.GOARCH == "amd64" {
		f.when(unix.BPF_JGE, x32, refuse)
	}
	for _, nr := range filtered {
		f.when(unix.BPF_JEQ, nr, refuse)
	}
	for _, nr := range unsupported {
		f.when(unix.BPF_JEQ, nr, unavailable)
	}
	for _, nr := range hidden {
		f.when(unix.BPF_JEQ, nr, unknown)
	}
	f.of(unix.SYS_CLONE, func(f *filter) {
		f.loadArg(0, 0)
		f.when(unix.BPF_JSET, newNamespaces, refuse)
	})
	// A process changes its own limits and its own place among others: by the number 0,
	// because a filter cannot know the numbers of its processes.
	f.of(unix.SYS_PRLIMIT64, func(f *filter) {
		f.loadArg(0, 0)
		f.when(unix.BPF_JEQ, 0, passes)
		for half := range uint32(2) {
			f.loadArg(2, half)
			f.unless(0, refuse)
		}
	})
	for _, nr := range []uint32{unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR} {
		f.of(nr, func(f *filter) {
			f.loadArg(0, 0)
			f.unless(0, refuse)
		})
	}
	for nr, which := range map[uint32]uint32{unix.SYS_SETPRIORITY: prioProcess, unix.SYS_IOPRIO_SET: ioprioProcess} {
		f.of(nr, func(f *filter) {
			f.loadArg(0, 0)
			f.unless(which, refuse)
			f.loadArg(1, 0)
			f.unless(0, refuse)
		})
	}
	// Owners of files, which Landlock does not guard. To give a file to the user that the
	// program runs as changes nothing of its own files, and tar run by root fails without.
	for nr, owner := range owners() {
		f.of(nr, func(f *filter) {
			for i, id := range []int{unix.Geteuid(), unix.Getegid()} {
				f.loadArg(owner+uint32(i), 0)
				*f = append(*f, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 2, K: uint32(id)})
				f.unless(math.MaxUint32, refuse) // which leaves it as it is
			}
			f.answer(nothing)
		})
	}
	// No file becomes one that others run as the host's user.
	for nr, mode := range modes() {
		f.of(nr, func(f *filter) {
			f.loadArg(mode, 0)
			f.when(unix.BPF_JSET, setID, refuse)
		})
	}
	for nr, flags := range opens() {
		f.of(nr, func(f *filter) {
			f.loadArg(flags, 0)
			*f = append(*f, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, Jt: 1, K: unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY})
			f.answer(passes) // the mode means nothing
			f.loadArg(flags+1, 0)
			f.when(unix.BPF_JSET, setID, refuse)
		})
	}
	// Sockets of every family: what Landlock does not know of, such as UDP and those in the
	// file system. With network those of the internet stay, and the question which
	// addresses this machine has.
	f.of(unix.SYS_SOCKET, func(f *filter) {
		if network {
			f.loadArg(0, 0)
			f.when(unix.BPF_JEQ, unix.AF_INET, passes)
			f.when(unix.BPF_JEQ, unix.AF_INET6, passes)
			f.unless(unix.AF_NETLINK, refuse)
			f.loadArg(2, 0)
			f.when(unix.BPF_JEQ, unix.NETLINK_ROUTE, passes)
		}
		f.answer(refuse)
	})
	f.answer(passes)
	return f
}

// owners are the calls that give a file its owner, by the argument of the user; the group
// stands behind.
func owners() map[uint32]uint32 {
	all := map[uint32]uint32{unix.SYS_FCHOWN: 1, unix.SYS_FCHOWNAT: 2}
	for nr, arg := range ownersHere {
		all[nr] = arg
	}
	return all
}

// modes are the calls that give a file its mode, by which argument.
func modes() map[uint32]uint32 {
	all := map[uint32]uint32{unix.SYS_FCHMOD: 1, unix.SYS_FCHMODAT: 2, unix.SYS_FCHMODAT2: 2, unix.SYS_MKNODAT: 2}
	for nr, arg := range modesHere {
		all[nr] = arg
	}
	return all
}

// opens are the calls that open a file, by the argument of flags; the mode stands behind.
func opens() map[uint32]uint32 {
	all := map[uint32]uint32{unix.SYS_OPENAT: 2}
	for nr, arg := range opensHere {
		all[nr] = arg
	}
	return all
}

// The programs are made once: they are the same for each call.
var programs = [2]filter{program(false), program(true)}

// installFilter has the kernel refuse this thread, and all that it starts, what the filter
// says.
func installFilter(network bool) error {
	f := programs[0]
	if network {
		f = programs[1]
	}
	prog := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	_, _, errno := syscall.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(f)
	if errno != 0 {
		return errno
	}
	return nil
}
