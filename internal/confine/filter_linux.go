//go:build linux && (amd64 || arm64)

package confine

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
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

// rules are what a filter says of system calls, by number.
type rules map[uint32]filter

func (r rules) answer(say uint32, calls ...uint32) {
	for _, nr := range calls {
		r.add(nr, filter{{Code: unix.BPF_RET | unix.BPF_K, K: say}})
	}
}

// of judges one system call; what judge leaves open is allowed.
func (r rules) of(nr uint32, judge func(*filter)) {
	var block filter
	judge(&block)
	block.answer(passes)
	r.add(nr, block)
}

func (r rules) add(nr uint32, block filter) {
	if r[nr] != nil { // one of them would be lost
		panic(fmt.Sprintf("confine: two rules for system call %d", nr))
	}
	r[nr] = block
}

// search finds the rule of the number that was loaded by halves: the kernel runs a filter
// for each number there is when it is installed, and for many calls afterwards.
func (r rules) search(calls []uint32) (f filter) {
	if len(calls) <= 2 {
		for _, nr := range calls {
			f = append(f, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: uint8(len(r[nr])), K: nr})
			f = append(f, r[nr]...)
		}
		f.answer(passes)
		return f
	}
	half := len(calls) / 2
	below := r.search(calls[:half])
	f = append(f, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, Jf: 1, K: calls[half]},
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JA, K: uint32(len(below))})
	return append(append(f, below...), r.search(calls[half:])...)
}

// own is the type of this processor to the kernel.
func own() uint32 {
	if runtime.GOARCH == "arm64" {
		return unix.AUDIT_ARCH_AARCH64
	}
	return unix.AUDIT_ARCH_X86_64
}

// asked are the calls that change modes and times of files, about which the kernel asks.
func asked() []uint32 {
	return append([]uint32{unix.SYS_FCHMOD, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_UTIMENSAT}, askedHere...)
}

// reach is how far sockets of a jail reach.
type reach int

const (
	noSockets  reach = iota
	others           // other machines; the kernel asks about each peer
	everywhere       // this machine too
	unfiltered       // what the host's user may open, by a jail that guards
)

// protocols are those of sockets of the internet whose peers are named as connect and
// sendto name them.
var protocols = []uint32{0, unix.IPPROTO_ICMP, unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_ICMPV6, unix.IPPROTO_MPTCP}

// byWayOf are options of sockets that lead packets by way of an address of their own.
var byWayOf = [][2]uint32{{unix.SOL_IP, unix.IP_OPTIONS}, {unix.SOL_IPV6, unix.IPV6_RTHDR}, {unix.SOL_IPV6, unix.IPV6_2292RTHDR}, {unix.SOL_IPV6, unix.IPV6_2292PKTOPTIONS}}

// ownGroup stands in a filter for a number that each jail draws. The host's own child makes
// its group before it becomes the program, while Go's scheduler waits for it: a question
// would wait for a scheduler that waits for its answer. So the child's call says the number,
// in the half of an argument that the kernel does not look at.
const ownGroup = 0x5741_4954

// ownThread stands in a filter for the thread of the host that starts the program. Landlock
// takes that thread for a part of the jail, and it shares memory and fate with the host: a
// program that could trace or end it would have the host.
const ownThread = 0x5741_4955

// ownLimitsA and ownLimitsB stand in a filter for a number of 64 bits that each jail draws. The
// thread that starts the program sets its limits, as it says by the number, in the halves of two
// arguments that the kernel does not look at. A program would guess for longer than it lives.
const (
	ownLimitsA = 0x5741_4956
	ownLimitsB = 0x5741_4957
)

// byThread are the calls that reach into another process, or send it a signal, by which argument
// names it. A thread has a number as a process has. For the host's other threads Landlock
// does: the filter must leave them to the one that it holds, from which Go's runtime stops them
// by signals.
var byThread = []struct{ nr, arg uint32 }{
	{unix.SYS_PTRACE, 1},
	{unix.SYS_PROCESS_VM_READV, 0},
	{unix.SYS_PROCESS_VM_WRITEV, 0},
	{unix.SYS_PIDFD_OPEN, 0},
	{unix.SYS_KILL, 0},
	{unix.SYS_TKILL, 0},
	{unix.SYS_TGKILL, 1},
	{unix.SYS_RT_SIGQUEUEINFO, 0},
	{unix.SYS_RT_TGSIGQUEUEINFO, 1},
	{unix.SYS_GET_ROBUST_LIST, 0},
	{unix.SYS_MIGRATE_PAGES, 0},
	{unix.SYS_MOVE_PAGES, 0},
}

// program is the filter of a jail. ask is the answer to what the kernel asks about; u is whom
// its programs run as, nil for the host's user.
func program(sockets reach, ask uint32, u *User) filter {
	if sockets == unfiltered {
		return guarding(ask, u)
	}
	f := begun()
	r := rules{}
	r.answer(refuse, filtered...)
	r.answer(unavailable, unsupported...)
	r.answer(unknown, hidden...)
	r.of(unix.SYS_CLONE, func(f *filter) {
		f.loadArg(0, 0)
		f.when(unix.BPF_JSET, newNamespaces, refuse)
	})
	r.hosts(u)
	if ask == passes { // bubblewrap shows nothing of the outside that could be changed
		for nr, mode := range chmods() {
			r.of(nr, func(f *filter) {
				f.loadArg(mode, 0)
				f.when(unix.BPF_JSET, setID, refuse)
			})
		}
	} else {
		r.answer(ask, asked()...)
	}
	if ask != refuse { // else they pass, and what leaves its group outlives the call
		r.answer(ask, unix.SYS_SETSID)
		r.of(unix.SYS_SETPGID, func(f *filter) {
			f.loadArg(1, 1)
			f.when(unix.BPF_JEQ, ownGroup, passes)
			f.answer(ask)
		})
	}
	// No file becomes one that others run as the host's user.
	for nr, mode := range modes() {
		r.of(nr, func(f *filter) {
			f.loadArg(mode, 0)
			f.when(unix.BPF_JSET, setID, refuse)
		})
	}
	for nr, flags := range opens() {
		r.of(nr, func(f *filter) {
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
	r.of(unix.SYS_SOCKET, func(f *filter) {
		if sockets == noSockets {
			f.answer(refuse)
			return
		}
		internet := filter{}
		internet.loadArg(2, 0)
		if sockets == others {
			for _, p := range protocols {
				internet.when(unix.BPF_JEQ, p, passes)
			}
			internet.answer(refuse)
		} else {
			internet.answer(passes)
		}
		f.loadArg(0, 0)
		*f = append(*f, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: unix.AF_INET},
			unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: uint8(len(internet)), K: unix.AF_INET6})
		*f = append(*f, internet...)
		f.unless(unix.AF_NETLINK, refuse)
		f.loadArg(2, 0)
		f.when(unix.BPF_JEQ, unix.NETLINK_ROUTE, passes)
		f.answer(refuse)
	})
	// A pair of sockets for messages may be connected anew, to a socket in the file system;
	// one of streams may not.
	r.of(unix.SYS_SOCKETPAIR, func(f *filter) {
		f.loadArg(1, 0)
		*f = append(*f, unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: 0xf}) // without SOCK_CLOEXEC and SOCK_NONBLOCK
		f.when(unix.BPF_JEQ, unix.SOCK_STREAM, passes)
		f.unless(unix.SOCK_SEQPACKET, refuse)
	})
	if sockets == others {
		r.answer(ask, unix.SYS_CONNECT, unix.SYS_SENDMSG, unix.SYS_SENDMMSG)
		r.of(unix.SYS_SENDTO, func(f *filter) { // without an address it is the connection's
			for half := range uint32(2) {
				f.loadArg(4, half)
				f.unless(0, ask)
			}
		})
		r.of(unix.SYS_SETSOCKOPT, func(f *filter) {
			for _, o := range byWayOf {
				f.loadArg(1, 0)
				*f = append(*f, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 3, K: o[0]})
				f.loadArg(2, 0)
				f.when(unix.BPF_JEQ, o[1], refuse)
			}
		})
	}
	return append(f, r.search(slices.Sorted(maps.Keys(r)))...)
}

// begun is the beginning of each filter: numbers of another processor type are refused.
func begun() (f filter) {
	const number, arch, x32 = 0, 4, 0x40000000
	f.load(arch)
	f.unless(own(), refuse) // a program of another processor type has other numbers
	f.load(number)
	if runtime.GOARCH == "amd64" {
		f.when(unix.BPF_JGE, x32, refuse)
	}
	return f
}

// hosts keeps the thread of the host that starts the program, limits and places of other
// processes, and owners of files.
func (r rules) hosts(u *User) {
	for _, c := range byThread {
		r.of(c.nr, func(f *filter) {
			f.loadArg(c.arg, 0)
			f.when(unix.BPF_JEQ, ownThread, refuse)
		})
	}
	r.of(unix.SYS_KCMP, func(f *filter) {
		for arg := range uint32(2) {
			f.loadArg(arg, 0)
			f.when(unix.BPF_JEQ, ownThread, refuse)
		}
	})
	r.of(unix.SYS_FCNTL, func(f *filter) { // it names in memory which thread gets signals
		f.loadArg(1, 0)
		f.when(unix.BPF_JEQ, unix.F_SETOWN_EX, refuse)
	})
	// A process changes its own limits and its own place among others: by the number 0,
	// because a filter cannot know the numbers of its processes.
	r.of(unix.SYS_PRLIMIT64, func(f *filter) {
		f.loadArg(0, 0)
		f.when(unix.BPF_JEQ, 0, passes)
		f.loadArg(0, 1)
		*f = append(*f, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 3, K: ownLimitsA})
		f.loadArg(1, 1)
		f.when(unix.BPF_JEQ, ownLimitsB, passes)
		for half := range uint32(2) {
			f.loadArg(2, half)
			f.unless(0, refuse)
		}
	})
	for _, nr := range []uint32{unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR} {
		r.of(nr, func(f *filter) {
			f.loadArg(0, 0)
			f.unless(0, refuse)
		})
	}
	for nr, which := range map[uint32]uint32{unix.SYS_SETPRIORITY: prioProcess, unix.SYS_IOPRIO_SET: ioprioProcess} {
		r.of(nr, func(f *filter) {
			f.loadArg(0, 0)
			f.unless(which, refuse)
			f.loadArg(1, 0)
			f.unless(0, refuse)
		})
	}
	// Owners of files, which Landlock does not guard. To give a file to the user that the
	// program runs as changes nothing of its own files, and tar run by root fails without.
	for nr, owner := range owners() {
		r.of(nr, func(f *filter) {
			for i, id := range []uint32{u.uid(), u.gid()} {
				f.loadArg(owner+uint32(i), 0)
				*f = append(*f, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 2, K: id})
				f.unless(math.MaxUint32, refuse) // which leaves it as it is
			}
			f.answer(nothing)
		})
	}
}

// guarding is the filter of a jail that guards.
func guarding(ask uint32, u *User) filter {
	f := begun()
	r := rules{}
	r.answer(refuse, unix.SYS_IO_URING_SETUP) // changes attributes past this filter
	r.answer(unavailable, unsupported...)
	r.hosts(u)
	if ask == unix.SECCOMP_RET_USER_NOTIF { // else modes and times are not guarded
		r.answer(ask, asked()...)
	}
	return append(f, r.search(slices.Sorted(maps.Keys(r)))...)
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

// chmods are the calls that change a file's mode, by which argument.
func chmods() map[uint32]uint32 {
	return map[uint32]uint32{unix.SYS_FCHMOD: 1, unix.SYS_FCHMODAT: 2, unix.SYS_FCHMODAT2: 2, chmodHere: 1}
}

// modes are the calls that make a file with a mode, by which argument.
func modes() map[uint32]uint32 {
	all := map[uint32]uint32{unix.SYS_MKNODAT: 2}
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

// The programs are made once: they are the same for each call. The second one of each is
// for a kernel that does not ask.
var programs = [4][2]filter{
	{program(noSockets, unix.SECCOMP_RET_USER_NOTIF, nil), program(noSockets, refuse, nil)},
	{program(others, unix.SECCOMP_RET_USER_NOTIF, nil), program(others, refuse, nil)},
	{program(everywhere, unix.SECCOMP_RET_USER_NOTIF, nil), program(everywhere, refuse, nil)},
	{program(unfiltered, unix.SECCOMP_RET_USER_NOTIF, nil), program(unfiltered, refuse, nil)},
}

// installFilter has the kernel refuse this thread, and all that it starts, what the filter
// says. The kernel asks the descriptor, if asks is set; else it is -1. own has the
// numbers of the jail, for which ownGroup, ownLimitsA and ownLimitsB stand.
// u is whom the programs run as, nil for the host's user.
func installFilter(sockets reach, asks bool, own numbers, u *User) (fd int, err error) {
	ask, flags := uint32(unix.SECCOMP_RET_USER_NOTIF), uintptr(listens)
	made := programs[sockets][0]
	if !asks {
		ask, flags, made = refuse, 0, programs[sockets][1]
	}
	f := slices.Clone(made)
	if u != nil {
		f = program(sockets, ask, u)
	}
	for i := range f {
		switch f[i].K {
		case ownGroup:
			f[i].K = own.group
		case ownLimitsA:
			f[i].K = own.limits[0]
		case ownLimitsB:
			f[i].K = own.limits[1]
		case ownThread:
			f[i].K = uint32(unix.Gettid())
		}
	}
	return install(f, flags)
}

func install(f filter, flags uintptr) (fd int, err error) {
	prog := unix.SockFprog{Len: uint16(len(f)), Filter: &f[0]}
	r, _, errno := syscall.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(f)
	switch {
	case errno != 0:
		return -1, errno
	case flags == 0:
		return -1, nil
	}
	return int(r), nil
}

// listens asks for a descriptor of questions. A call about which the kernel has asked is
// not begun anew by a signal, so nothing is done twice (Linux 5.19, which Landlock's
// smallest version is newer than).
const listens = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV

// asks tries, on a thread that is thrown away, whether the kernel asks about calls: a
// container whose own keeper is asked has no room for a second one. takes is whether this
// process may take descriptors of its programs, which Docker's own filter refuses.
func asks() (asks, takes bool) {
	var f filter
	f.answer(passes)
	answer := make(chan bool)
	onThreadOfItsOwn(func() {
		fd, err := -1, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		if err == nil {
			fd, err = install(f, listens)
		}
		if err == nil {
			err = unix.Close(fd)
		}
		answer <- err == nil
	})
	if !<-answer {
		return false, false
	}
	self := question{tid: uint32(unix.Getpid())}
	b := [1]byte{}
	if self.read(uint64(uintptr(unsafe.Pointer(&b[0]))), make([]byte, 1)) != 0 {
		return false, false
	}
	p, err := unix.PidfdOpen(int(self.tid), 0)
	if err != nil {
		return true, false
	}
	defer unix.Close(p)
	fd, err := unix.PidfdGetfd(p, p, 0)
	if err != nil {
		return true, false
	}
	return true, unix.Close(fd) == nil
}

// passing is the filter of a jail that bubblewrap makes, as the kernel reads it. No
// supervisor is asked: what is outside cannot be named there.
func passing(sockets reach) []byte {
	f := program(sockets, passes, nil)
	return bytes.Clone(unsafe.Slice((*byte)(unsafe.Pointer(&f[0])), len(f)*int(unsafe.Sizeof(f[0]))))
}
