package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Landlock opens folders whole. Where this process may make a mount namespace, a program gets
// one of its own, in which parts of its folders are read-only or empty. The namespace belongs
// to the thread that starts the program, as the rest of the jail does.

// view is a mount namespace of a jail, joined by the calling thread.
type view struct {
	ns  int // a descriptor of it
	dir int // the folder that the program begins in, as the namespace has it; -1 without one
}

// noView is the mount namespace of the host.
var noView = view{ns: -1, dir: -1}

func (v view) close() {
	for _, fd := range []int{v.ns, v.dir} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// mount gives the calling thread a mount namespace with what the jail asks for. Without
// ReadOnly and Hidden there is nothing to do. Every part must be there: a program could move
// one that is not found to another place.
func (j *Jail) mount() (v view, err error) {
	if len(j.ReadOnly) == 0 && len(j.Hidden) == 0 && j.User == nil {
		return noView, nil
	}
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return noView, os.NewSyscallError("unshare", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return noView, os.NewSyscallError("mount", err)
	}
	if err := j.owned(); err != nil {
		return noView, err
	}
	for _, p := range j.ReadOnly {
		if err := remount(p, &fixed); err != nil {
			return noView, &fs.PathError{Op: "protect", Path: p, Err: err}
		}
	}
	if len(j.Hidden) > 0 {
		if err := hide(j.Hidden); err != nil {
			return noView, err
		}
	}
	v = noView
	if v.ns, err = unix.Open("/proc/thread-self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return noView, os.NewSyscallError("open", err)
	}
	if j.Dir != nil {
		if v.dir, err = seen(j.Dir); err != nil {
			v.close()
			return noView, err
		}
	}
	return v, nil
}

// target opens what a mount is to cover. A symbolic link anywhere on the path is an error.
func target(path string) (int, error) {
	return unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
}

// over mounts what tree is at a file or folder.
func over(tree, at int) error {
	return unix.MoveMount(tree, "", at, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// fixed makes mounts read-only for this namespace.
var fixed = unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}

// hide covers files with an empty file, and folders with an empty folder. Both are read-only.
func hide(paths []string) error {
	nothing, err := emptiness()
	if err != nil {
		return fmt.Errorf("an empty file system: %w", err)
	}
	defer unix.Close(nothing)
	// Before Linux 6.15 parts can be cloned only of what is mounted somewhere. Here it covers a
	// folder for that time, in which nothing below it is looked up.
	if err := unix.MoveMount(nothing, "", unix.AT_FDCWD, "/proc", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("an empty file system: %w", err)
	}
	for _, p := range paths {
		if err := cover(p, nothing); err != nil {
			return &fs.PathError{Op: "hide", Path: p, Err: err}
		}
	}
	return os.NewSyscallError("umount", unix.Unmount("/proc", unix.MNT_DETACH))
}

// The parts of an empty file system: its root has to be writable when they are made.
const (
	emptyFile   = "file"
	emptyFolder = "folder"
)

// emptiness returns a file system in memory with an empty file and an empty folder.
func emptiness() (root int, err error) {
	fd, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fd)
	if err := errors.Join(unix.FsconfigSetString(fd, "size", "4k"), unix.FsconfigCreate(fd)); err != nil {
		return -1, err
	}
	root, err = unix.Fsmount(fd, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return -1, err
	}
	file, err := unix.Openat(root, emptyFile, unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o444)
	if err == nil {
		err = errors.Join(unix.Close(file), unix.Mkdirat(root, emptyFolder, 0o555))
	}
	if err != nil {
		return -1, errors.Join(err, unix.Close(root))
	}
	return root, nil
}

// cover mounts an empty file or folder at a path.
func cover(path string, nothing int) error {
	at, err := target(path)
	if err != nil {
		return err
	}
	defer unix.Close(at)
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return err
	}
	part := emptyFile
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		part = emptyFolder
	}
	tree, err := unix.OpenTree(nothing, part, unix.OPEN_TREE_CLONE|unix.O_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &fixed); err != nil {
		return err
	}
	return over(tree, at)
}

// seen opens a folder anew, in the mount namespace of the calling thread: a descriptor of the
// host's leads to the host's mounts, whichever namespace it is used in.
func seen(dir *os.File) (int, error) {
	path, err := os.Readlink(magic(int(dir.Fd())))
	if err != nil {
		return -1, err
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	var is, was unix.Stat_t
	err = errors.Join(unix.Fstat(fd, &is), unix.Fstat(int(dir.Fd()), &was))
	if err == nil && (is.Dev != was.Dev || is.Ino != was.Ino) {
		err = errors.New("the folder was moved, or is out of reach")
	}
	if err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

// magic is a path that leads to what a descriptor is of.
func magic(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// join has the calling thread, which must end with its goroutine, join a mount namespace.
func join(ns int) error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	return os.NewSyscallError("setns", unix.Setns(ns, unix.CLONE_NEWNS))
}

// mounts reports whether this process may make mount namespaces for programs. It makes one, on
// a thread that is thrown away.
func mounts() bool {
	dir, err := os.MkdirTemp("", "stile-probe-")
	if err != nil {
		return false
	}
	defer os.RemoveAll(dir)
	j := &Jail{ReadOnly: []string{dir}, Hidden: []string{dir}}
	made := make(chan bool)
	onThreadOfItsOwn(func() {
		v, err := j.mount()
		v.close()
		made <- err == nil
	})
	return <-made
}

// place opens a path of a jail, which may lead through symbolic links.
func place(path string) (int, error) { return unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0) }
