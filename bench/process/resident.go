// Package process is the host's own and no part of the public API: it may change in any release.
//
// It reports the processor time, memory and descriptors of this process, and of others on this
// machine.
package process

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/seed14be6753/stile/bench/measure"
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

// ticks is the kernel's unit of processor time in /proc, which Linux has the same on every machine
// that Go runs on.
const ticks = 100

// Of is what another process of this machine has taken, as far as the kernel tells.
func Of(pid int) measure.Usage {
	u := measure.Unknown()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u
	}
	// The name, in parentheses, may hold anything.
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(f) < 22 {
		return u
	}
	number := func(i int) int64 { n, _ := strconv.ParseInt(f[i], 10, 64); return n }
	u.CPUMicros = (number(11) + number(12)) * 1e6 / ticks
	u.RSS = number(21) * int64(os.Getpagesize())
	return u
}
