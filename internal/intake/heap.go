package intake

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// MemoryLimit is how many bytes a process may have: what is configured, or with 0 Go's own limit
// (GOMEMLIMIT). It is negative where there is none.
func MemoryLimit(configured int64) int64 {
	if configured != 0 {
		return configured
	}
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		return limit
	}
	return -1
}

// LiveHeap collects garbage and returns how many bytes of the heap are alive. It is for moments
// at which a host with a memory limit takes megabytes.
func LiveHeap() int64 {
	runtime.GC()
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return int64(min(s[0].Value.Uint64(), math.MaxInt64))
}
