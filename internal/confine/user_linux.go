package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Programs may have a user of their own, who owns nothing. The folders that they may change are
// mounted with that user in the place of the host's: what a program makes belongs on the disc
// to the host's user, and what the host makes to the program's, so that both can go on with
// the other's work.

// owned mounts the folders that the jail may change over themselves, with its user as the owner
// of what the host's user owns.
func (j *Jail) owned() error {
	if j.User == nil {
		return nil
	}
	ids, err := j.User.ids()
	if err != nil {
		return fmt.Errorf("user of programs: %w", err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(ids)}
	for _, p := range j.Write {
		if err := remount(p, &attr); err != nil {
			return &fs.PathError{Op: "give to the user of programs", Path: p, Err: err}
		}
	}
	return nil
}

// remount mounts a file, or a folder with all mounts below it, over itself.
func remount(path string, attr *unix.MountAttr) error {
	at, err := target(path)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	tree, err := unix.OpenTree(at, "", unix.OPEN_TREE_CLONE|unix.O_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, attr); err != nil {
		return err
	}
	return over(tree, at)
}

// become makes the calling thread the jail's user. Its capabilities go with that. Only this
// thread: the wrappers of package syscall change all threads of the process.
func (u *User) become() error {
	if u == nil {
		return nil
	}
	if _, _, errno := syscall.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0); errno != 0 {
		return os.NewSyscallError("setgroups", errno)
	}
	gid, uid := uintptr(u.GID), uintptr(u.UID)
	if _, _, errno := syscall.RawSyscall(unix.SYS_SETRESGID, gid, gid, gid); errno != 0 {
		return os.NewSyscallError("setresgid", errno)
	}
	if _, _, errno := syscall.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid); errno != 0 {
		return os.NewSyscallError("setresuid", errno)
	}
	return nil
}

// idmaps are user namespaces that say who stands for the host's user, by user. They are held for
// as long as this process runs: there are as many as users that programs run as.
var idmaps sync.Map // of User to func() (int, error)

// ids returns a descriptor of a user namespace that maps the host's user to u.
func (u *User) ids() (int, error) {
	made, _ := idmaps.LoadOrStore(*u, sync.OnceValues(u.mapped))
	return made.(func() (int, error))()
}

// mapped makes the namespace with a process that ends before its first instruction.
func (u *User) mapped() (int, error) {
	runtime.LockOSThread() // which traces
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Ptrace: true, Cloneflags: unix.CLONE_NEWUSER, Pdeathsig: syscall.SIGKILL,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: int(u.UID), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: int(u.GID), Size: 1}},
	}
	if err := cmd.Start(); err != nil {
		return -1, err
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/ns/user", cmd.Process.Pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // killed
	if err != nil {
		return -1, os.NewSyscallError("open", err)
	}
	return fd, nil
}

// Try returns why a program could not begin in the folders of the jail as its user: their file
// system cannot show other owners, or a folder above may not be entered by others.
func (j *Jail) Try() error {
	if j.User == nil {
		return nil
	}
	tried := make(chan error)
	onThreadOfItsOwn(func() {
		v, err := j.mount()
		defer v.close()
		if err == nil {
			err = j.User.become()
		}
		for _, p := range j.Write {
			if err == nil {
				err = unix.Access(p, unix.W_OK|unix.X_OK) // by the real user, who is this one
			}
			if err != nil {
				var at *fs.PathError
				if !errors.As(err, &at) {
					err = &fs.PathError{Op: "enter", Path: p, Err: err}
				}
				break
			}
		}
		tried <- err
	})
	return <-tried
}

// uid is whom programs run as.
func (u *User) uid() uint32 {
	if u == nil {
		return uint32(unix.Geteuid())
	}
	return u.UID
}

func (u *User) gid() uint32 {
	if u == nil {
		return uint32(unix.Getegid())
	}
	return u.GID
}
