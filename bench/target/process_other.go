//go:build !unix

package target

import (
	"runtime"

	"github.com/seed14be6753/stile/bench/measure"
)

// Process is what this process has taken, as far as it is known on this system.
func Process() measure.Usage {
	u := measure.Unknown()
	u.Shared = true
	u.Goroutines = int64(runtime.NumGoroutine())
	u.RSS, u.Descriptors = resident(), descriptors()
	return u
}
