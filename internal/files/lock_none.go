//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package files

import (
	"sync"
	"time"
)

var changing sync.Mutex

// LockWithin is Lock for those who must not wait longer than d: the error is ErrHeld then.
func LockWithin(_ string, d time.Duration) (unlock func(), err error) {
	if err := until(d, func() (bool, error) { return changing.TryLock(), nil }); err != nil {
		return nil, err
	}
	return changing.Unlock, nil
}

// Lock keeps changes of this process apart: there is no lock here that dies with its
// process, so two commands at once may lose one change.
func Lock(string) (unlock func(), err error) {
	changing.Lock()
	return changing.Unlock, nil
}
