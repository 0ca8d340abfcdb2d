//go:build unix

package process

import (
	"runtime"
	"syscall"

	"github.com/seed14be6753/stile/bench/measure"
)

// Own is what this process has taken.
func Own() measure.Usage {
	u := measure.Unknown()
	u.Shared = true
	u.Goroutines = int64(runtime.NumGoroutine())
	u.RSS, u.Descriptors = resident(), descriptors()
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) == nil {
		u.CPUMicros = (r.Utime.Nano() + r.Stime.Nano()) / 1000
	}
	return u
}
