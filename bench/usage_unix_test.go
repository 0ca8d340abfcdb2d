//go:build unix

package bench

import (
	"os"
	"runtime"
	"syscall"
	"time"
)

// cpuTime is the processor time of this process so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// residentBytes is the most memory that a process had resident. Darwin tells it in bytes,
// others in KiB.
func residentBytes(p *os.ProcessState) int64 {
	most := int64(p.SysUsage().(*syscall.Rusage).Maxrss)
	if runtime.GOOS == "darwin" {
		return most
	}
	return most << 10
}
