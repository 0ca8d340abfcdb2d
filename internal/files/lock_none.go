//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package files

import (
	"sync"
	"time"
)

var changing sync.Mutex

// LockWithin is Lock with a bound: it returns ErrHeld after waiting for d.
func LockWithin(_ string, d time.Duration) (unlock func(), err error) {
	if err := until(d, func() (bool, error) { return changing.TryLock(), nil }); err != nil {
		return nil, err
	}
	return changing.Unlock, nil
}

// Lock excludes other goroutines of this process alone: this system has no lock that ends with
// its process, so of two concurrent commands one may lose its change.
func Lock(string) (unlock func(), err error) {
	changing.Lock()
	return changing.Unlock, nil
}
