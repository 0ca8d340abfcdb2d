//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sqlite

import (
	"errors"
	"os"
	"syscall"

	"github.com/seed14be6753/stile/journal"
)

// own takes the exclusive lock; closing the file, or dying, releases it. The file
// is beside the journal, never the journal itself: see place.
func own(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, journal.Fail(journal.ReasonIO, bare(err), "the lock beside the journal")
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, journal.Fail(journal.ReasonOwned, nil, "another process owns the journal")
		}
		return nil, journal.Fail(journal.ReasonIO, err, "the lock beside the journal")
	}
	return f, nil
}
