//go:build !unix

package process

import (
	"runtime"

	"github.com/seed14be6753/stile/bench/measure"
)

// Own is what this process has taken, as far as it is known on this system.
func Own() measure.Usage {
	u := measure.Unknown()
	u.Shared = true
	u.Goroutines = int64(runtime.NumGoroutine())
	u.RSS, u.Descriptors = resident(), descriptors()
	return u
}
