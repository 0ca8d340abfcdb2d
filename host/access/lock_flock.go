//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package access

import (
	"errors"
	"os"
	"syscall"
)

// lock waits until no other process changes the file. The end of a process releases it too.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}
