package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// How a command gets confined, and why no helper process is needed: Landlock, the filter
// of system calls and capabilities belong to a thread, and what a thread forks inherits
// them. So a thread is taken for one command, confined for ever, made to start it, and
// thrown away; the runtime makes no other thread from it (docs/decisions).

// Probe asks the kernel. The answer does not change while it runs.
func Probe() Sandbox {
	abi, _, errno := syscall.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	s := Sandbox{Filter: filterKnown && canFilter()}
	if s.Filter {
		s.Asks, s.Peers = asks()
	}
	s.Mounts = errno == 0 && mounts()
	switch errno {
	case 0:
		s.ABI = int(abi)
	case syscall.ENOSYS:
		s.Why = "this kernel does not have it"
	case syscall.EOPNOTSUPP:
		s.Why = "it is switched off at the kernel's start (lsm=)"
	default: // such as EPERM of a container's own filter
		s.Why = "this host does not let it be used: " + errno.Error()
	}
	return s
}

// canFilter reports whether the kernel knows the filter's answers.
func canFilter() bool {
	action := uint32(unix.SECCOMP_RET_ERRNO)
	_, _, errno := syscall.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	return errno == 0
}

// systemRead is what programs are made of and run with. What is not there is not missed.
var systemRead = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store",
	"/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime",
}

// systemDevices hold nothing of anybody's.
var systemDevices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// Rights of Landlock, by what they are about.
const (
	fileRights = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	readRights = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	makeDevice = unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK
	// allRights are those of MinLandlockABI; the next one came with version 5.
	allRights   = unix.LANDLOCK_ACCESS_FS_TRUNCATE<<1 - 1
	writeRights = allRights &^ makeDevice
)

// onThreadOfItsOwn runs do on a thread that ends with it. The process's first thread does
// not end, so it is not taken.
func onThreadOfItsOwn(do func()) {
	go func() {
		runtime.LockOSThread() // never unlocked: the thread goes with the goroutine
		if unix.Gettid() != unix.Getpid() {
			do()
			return
		}
		taken := make(chan struct{})
		onThreadOfItsOwn(func() { close(taken); do() })
		<-taken
		runtime.UnlockOSThread()
	}()
}

// ruleset makes the rules of the jail; the caller closes them.
func (j *Jail) ruleset() (fd int, err error) {
	if j.Guard {
		if fd, ok := j.guardRules(); ok {
			return fd, nil
		}
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: allRights}
	size := unsafe.Sizeof(attr.Handled_access_fs)
	if j.Sandbox.ABI >= 4 {
		size += unsafe.Sizeof(attr.Handled_access_net)
		if !j.Network && !j.Guard {
			attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
		}
	}
	if j.Sandbox.ABI >= 5 && !j.Guard {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if j.Sandbox.ABI >= 6 {
		size += unsafe.Sizeof(attr.Scoped)
		attr.Scoped = unix.LANDLOCK_SCOPE_SIGNAL
		if !j.Guard {
			attr.Scoped |= unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
		}
	}
	r, _, errno := syscall.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return -1, fmt.Errorf("the kernel takes no Landlock rules: %w", errno)
	}
	fd = int(r)
	if err := j.grant(fd); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// grant adds the folders of the jail to its rules.
func (j *Jail) grant(rules int) error {
	g := granter{rules: rules, parts: newParts(j)}
	j.parts, j.opened, j.kept = g.parts, nil, nil
	defer func() { j.opened, j.piecewise = g.opened, len(g.seen) > 0 }()
	if j.Guard {
		return g.guard(j)
	}
	for _, part := range []struct {
		paths  []string
		rights uint64
		must   bool
	}{
		{systemRead, readRights, false},
		{systemDevices, unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE, false},
		{j.Read, readRights, true},
		{j.Write, writeRights, true},
	} {
		g.looks = part.must
		for _, p := range part.paths {
			var err error
			if len(g.parts) == 0 {
				err = g.allow(p, part.rights)
			} else if p, err = filepath.EvalSymlinks(p); err == nil {
				err = g.grant(p, part.rights)
			}
			if errors.Is(err, fs.ErrNotExist) && !part.must {
				continue
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// allow adds a path, with all that is below it, to the rules.
func (g *granter) allow(path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "allow", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &fs.PathError{Op: "allow", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= fileRights // of a file the kernel takes no rights of folders
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	if _, _, errno := syscall.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(g.rules), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0, 0, 0); errno != 0 {
		return &fs.PathError{Op: "allow", Path: path, Err: errno}
	}
	if g.looks && len(g.seen) == 0 { // what was opened entry by entry is not looked at again so
		g.opened = append(g.opened, opened{path, inode{uint64(st.Dev), st.Ino}})
	}
	return nil
}

// enter confines this thread for ever, in a mount namespace if the jail needs one. What the kernel asks about it and what it starts the
// listener answers, which is nil where the kernel does not ask; it is stopped when both have
// ended. own are the numbers by which the filter knows the host's own calls.
func (j *Jail) enter(rules int, own numbers) (_ *listener, v view, err error) {
	defer func() {
		if err != nil {
			v.close()
		}
	}()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return nil, noView, fmt.Errorf("no_new_privs: %w", err)
	}
	v, err = j.mount()
	if err != nil {
		return nil, v, fmt.Errorf("mount namespace: %w", err)
	}
	if err := j.User.become(); err != nil {
		return nil, v, fmt.Errorf("user of programs: %w", err)
	}
	if err := j.dropCapabilities(); err != nil {
		return nil, v, fmt.Errorf("capabilities: %w", err)
	}
	if _, _, errno := syscall.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(rules), 0, 0); errno != 0 {
		return nil, v, fmt.Errorf("landlock: %w", errno)
	}
	if !j.Sandbox.Filter {
		return nil, v, nil
	}
	sockets := noSockets
	switch {
	case j.Guard:
		sockets = unfiltered
	case j.Network && j.Loopback:
		sockets = everywhere
	case j.Network:
		sockets = others
	}
	fd, err := installFilter(sockets, j.Sandbox.Asks, own, j.User)
	if err != nil {
		return nil, v, fmt.Errorf("filter of system calls: %w", err)
	}
	if fd < 0 {
		return nil, v, nil
	}
	l, err := j.listen(fd, v.ns)
	if err != nil {
		return nil, v, fmt.Errorf("questions about system calls: %w", err)
	}
	return l, v, nil
}

// dropCapabilities gives up what root may do. Where a folder of the jail is another user's,
// root keeps the rights to work in it; Landlock guards the files of others. With
// no_new_privs no program gets rights back.
func (j *Jail) dropCapabilities() error {
	keep := uint32(0)
	switch {
	case j.Guard:
		keep = guardCapabilities
	case j.User == nil && (foreign(j.Read) || foreign(j.Write)):
		keep = 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return err
	}
	data[0] = unix.CapUserData{Effective: data[0].Effective & keep, Permitted: data[0].Permitted & keep}
	data[1] = unix.CapUserData{}
	return unix.Capset(&header, &data[0])
}

// guardCapabilities are those of root that lead neither to the memory of the host nor, around
// the rules, to its files.
const guardCapabilities = 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID | 1<<unix.CAP_KILL |
	1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID | 1<<unix.CAP_NET_BIND_SERVICE | 1<<unix.CAP_NET_RAW

// foreign reports whether a path is another user's, or lies where the user that the
// host runs as may enter only with the rights of root.
func foreign(paths []string) bool {
	own := uint32(unix.Geteuid())
	for _, p := range paths {
		for at := p; ; at = filepath.Dir(at) {
			var st unix.Stat_t
			if err := unix.Stat(at, &st); err != nil || st.Uid != own && (at == p || st.Mode&unix.S_IXOTH == 0) {
				return true
			}
			if at == filepath.Dir(at) {
				break
			}
		}
	}
	return false
}
