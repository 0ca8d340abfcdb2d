//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package sqlite

import (
	"errors"
	"os"
	"syscall"

	"github.com/seed14be6753/stile/journal"
)

// attend takes the shared lock. A host that can first take the exclusive lock is alone; it
// holds that for a moment, so waiting for the shared one is short.
func attend(path string) (f *os.File, alone bool, err error) {
	f, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, false, journal.Fail(journal.ReasonIO, bare(err), "the host file beside the journal")
	}
	alone, err = tryAlone(f)
	if err == nil {
		err = flock(f, syscall.LOCK_SH)
	}
	if err != nil {
		f.Close()
		return nil, false, journal.Fail(journal.ReasonIO, err, "the host file beside the journal")
	}
	return f, alone, nil
}

// stillAlone reports whether f, which holds the shared lock, is the only file that does.
// f still holds it afterwards.
func stillAlone(f *os.File) (alone bool, err error) {
	alone, err = tryAlone(f)
	if err == nil {
		err = flock(f, syscall.LOCK_SH)
	}
	if err != nil {
		return false, journal.Fail(journal.ReasonIO, err, "the host file beside the journal")
	}
	return alone, nil
}

// isAttended reports whether any host holds the lock.
func isAttended(path string) (bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, journal.Fail(journal.ReasonIO, bare(err), "the host file beside the journal")
	}
	defer f.Close()
	alone, err := tryAlone(f)
	if err != nil {
		return false, journal.Fail(journal.ReasonIO, err, "the host file beside the journal")
	}
	return !alone, nil
}

// tryAlone takes the exclusive lock if no other file has one, and reports whether it did.
func tryAlone(f *os.File) (bool, error) {
	err := flock(f, syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
