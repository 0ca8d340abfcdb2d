package host

import (
	"io/fs"
	"math"
	"net/http"
	"os"
	"path"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// What a process in a container may have is said by its control group, and a process that
// takes more is killed, with all that it had taken on. So Go's collector is told (GOMEMLIMIT),
// with room for what is not its own, and a host whose memory is taken by what lives takes
// no more work until some of it has gone.
const (
	// restShare of a group's limit is not the collector's, in percent, and at least restLeast
	// bytes, at most half: SQLite's memory, which holds a record twice while it is written,
	// and files.
	restShare = 25
	restLeast = 64 << 20
	// liveShare of the collector's limit may be alive, and fullShare taken at all, in
	// percent, where work is still taken.
	liveShare = 75
	fullShare = 90
)

const reasonMemory = "MEMORY"

// limitMemory holds the collector to the limit of the process's group, unless an operator
// has set one. limit is what holds now, 0 for none.
func limitMemory(groups fs.FS) (limit int64, undo func()) {
	if now := debug.SetMemoryLimit(-1); os.Getenv("GOMEMLIMIT") != "" || now != math.MaxInt64 {
		return now, func() {}
	}
	most := groupLimit(groups)
	if most == 0 {
		return 0, func() {}
	}
	limit = most - min(max(most/100*restShare, restLeast), most/2)
	was := debug.SetMemoryLimit(limit)
	return limit, func() { debug.SetMemoryLimit(was) }
}

// groupLimit is the memory that this process's control group, and those around it, may
// have, in bytes; 0 when no group has a limit.
func groupLimit(files fs.FS) int64 {
	b, err := fs.ReadFile(files, "proc/self/cgroup")
	if err != nil {
		return 0
	}
	least := int64(math.MaxInt64)
	for line := range strings.Lines(string(b)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		root, name := "sys/fs/cgroup", "memory.max"
		switch {
		case parts[0] == "0" && parts[1] == "":
		case parts[1] == "memory":
			root, name = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		for dir := path.Clean("/" + parts[2]); ; dir = path.Dir(dir) {
			if text, err := fs.ReadFile(files, path.Join(root, dir, name)); err == nil {
				if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 {
					least = min(least, n)
				}
			}
			if dir == "/" {
				break
			}
		}
	}
	if least > 1<<50 { // more than machines have: how the first version says none
		return 0
	}
	return least
}

// memory is how much of its memory a process has used.
type memory struct{ limit, live, taken uint64 }

func readMemory() (m memory) {
	s := []metrics.Sample{{Name: "/gc/gomemlimit:bytes"}, {Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	for i, to := range []*uint64{&m.limit, &m.live, &m.taken} {
		if s[i].Value.Kind() == metrics.KindUint64 {
			*to = s[i].Value.Uint64()
		}
	}
	return m
}

// tight reports whether more work would be the end of what is there.
func (m memory) tight() bool {
	return m.limit > 0 && m.limit < math.MaxInt64 && (m.live > m.limit/100*liveShare || m.taken > m.limit/100*fullShare)
}

func tooFull() *problem {
	return tooMuch(http.StatusServiceUnavailable, messages.ErrBusy, reasonMemory, "the host's memory is taken; ask again", time.Second)
}
