// Package process is the host's own and no part of the public API: it may change in any release.
//
// It reports the processor time, memory and descriptors of this process, and of others on this
// machine.
package process

import (
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
	s, ok := statOf(strconv.Itoa(pid))
	if !ok {
		return u
	}
	u.CPUMicros, u.RSS = s.own*1e6/ticks, s.pages*int64(os.Getpagesize())
	return u
}

// Family is the processor time in microseconds that another process of this machine and its
// children have taken, those that have ended included; -1 when the kernel does not tell. So a
// server is measured that has a process for each connection, as PostgreSQL does.
func Family(pid int) int64 {
	s, ok := statOf(strconv.Itoa(pid))
	if !ok {
		return -1
	}
	sum := s.own + s.waited
	all, _ := os.ReadDir("/proc") // it was there
	for _, one := range all {
		if c, ok := statOf(one.Name()); ok && c.parent == int64(pid) {
			sum += c.own + c.waited
		}
	}
	return sum * 1e6 / ticks
}

// stat is part of what the kernel tells of a process. Times are in ticks.
type stat struct {
	parent, own, pages int64
	waited             int64 // of children that have ended
}

// statOf reads the stat of a process; ok is false when name is no number of one.
func statOf(name string) (s stat, ok bool) {
	if _, err := strconv.Atoi(name); err != nil {
		return s, false
	}
	b, err := os.ReadFile("/proc/" + name + "/stat")
	if err != nil {
		return s, false
	}
	// The name, in parentheses, may hold anything.
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(f) < 22 {
		return s, false
	}
	number := func(i int) int64 { n, _ := strconv.ParseInt(f[i], 10, 64); return n }
	return stat{parent: number(1), own: number(11) + number(12), waited: number(13) + number(14), pages: number(21)}, true
}
