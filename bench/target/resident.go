package target

import (
	"os"
	"runtime"
	"strconv"
	"strings"
)

// resident is the memory that this process has resident, in bytes: as the kernel tells it, or,
// where it does not, what the Go runtime has of it.
func resident() int64 {
	if b, err := os.ReadFile("/proc/self/statm"); err == nil {
		if f := strings.Fields(string(b)); len(f) > 1 {
			if pages, err := strconv.ParseInt(f[1], 10, 64); err == nil {
				return pages * int64(os.Getpagesize())
			}
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys - m.HeapReleased)
}

// descriptors counts the files and sockets that this process has open; -1 where the system does
// not tell.
func descriptors() int64 {
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return int64(len(all))
}
