//go:build unix

package workspace

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxLineage bounds the way up from a folder.
const maxLineage = 4096

// lineage returns a folder and those above it, from their descriptors: a rename meanwhile
// leads to the answer of before or after it, and to no other.
func lineage(dir *os.File) (all []ancestor, err error) {
	at := dir
	defer func() {
		if at != dir {
			_ = at.Close()
		}
	}()
	info, err := at.Stat()
	if err != nil {
		return nil, err
	}
	for range maxLineage {
		fd, err := unix.Openat(int(at.Fd()), "..", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if errors.Is(err, fs.ErrPermission) {
			return append(all, ancestor{info: info}), nil // folders above cannot be the host's
		}
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: "..", Err: err}
		}
		up := os.NewFile(uintptr(fd), "..")
		above, err := up.Stat()
		if err != nil || os.SameFile(above, info) {
			return append(all, ancestor{info: info}), errors.Join(err, up.Close())
		}
		all = append(all, ancestor{info: info, name: nameIn(fd, info)})
		if at != dir {
			_ = at.Close()
		}
		at, info = up, above
	}
	return nil, errors.New("it lies too deep")
}

// nameIn returns the name among readOnlyNames that a folder has in the open one above it.
func nameIn(above int, info fs.FileInfo) string {
	own, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	for _, name := range readOnlyNames {
		var st unix.Stat_t
		if unix.Fstatat(above, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && uint64(st.Dev) == uint64(own.Dev) && uint64(st.Ino) == uint64(own.Ino) {
			return name
		}
	}
	return ""
}

// unnamed reports whether an open file has lost its last name.
func unnamed(f *os.File) bool {
	info, err := f.Stat()
	if err != nil {
		return true
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Nlink == 0
}

// onDisc returns the bytes that a file takes on the disc.
func onDisc(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int64(st.Blocks) * 512
	}
	return info.Size()
}
