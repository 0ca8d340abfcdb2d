package confine

import (
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The rules of a guard open hundreds of entries one by one, which takes longer than most
// programs. They are the same for the next program, unless something has changed that they rest
// on; so they are kept, and each use looks again at all of that:
//
//   - the folders that were opened entry by entry, by identity and time of change: whatever is
//     made, renamed, linked or replaced there changes it;
//   - which of the host's files have several names, and are known by their inode for that;
//   - the mounts of the machine.
//
// A folder that has just changed, or is on a file system whose times are another machine's,
// keeps no rules: a second change could leave the same time. A rule that is missing for what
// came later is no danger, one for what is the host's by now would be.

// settled is how long a folder must have been left alone for its time to tell of the next
// change: some file systems keep whole seconds.
var settled = 1100 * time.Millisecond

const (
	// maxRulesAge bounds what nothing here notices, such as an entry of /proc.
	maxRulesAge = time.Minute
	maxRuleSets = 16
)

// keptRules are the rules of a guard, and what they rest on.
type keptRules struct {
	fd     int
	parts  parts
	seen   []seenFolder
	linked map[inode]part
	at     time.Time
}

// seenFolder is a folder whose entries were opened one by one.
type seenFolder struct {
	path    string
	id      inode
	changed unix.Timespec
}

// guards are the rules that were kept. Each use has a descriptor of its own.
var guards struct {
	sync.Mutex
	sets   map[string]*keptRules
	mounts int   // of /proc/self/mountinfo, which tells of changes; 0 before the first use
	turn   int64 // counts changes of mounts
}

// guardRules returns kept rules of the jail, whose descriptor the caller closes; ok is false
// where there are none that still hold.
func (j *Jail) guardRules() (fd int, ok bool) {
	guards.Lock()
	defer guards.Unlock()
	mountsTurn()
	key := j.guardKey()
	k := guards.sets[key]
	if k == nil {
		return -1, false
	}
	if !k.holds() {
		delete(guards.sets, key)
		_ = unix.Close(k.fd)
		return -1, false
	}
	fd, err := unix.FcntlInt(uintptr(k.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, false
	}
	j.parts, j.kept = k.parts, k
	return fd, true
}

// guard makes the rules of a guard, and keeps them if it can be seen later whether they hold.
func (g *granter) guard(j *Jail) error {
	guards.Lock()
	turn := mountsTurn()
	guards.Unlock()
	began := time.Now()
	g.linked = linkedOf(g.parts) // first: what comes later is a change
	if err := g.grant("/", writeRights); err != nil {
		return err
	}
	if turn == 0 || !g.lasts() {
		return nil
	}
	fd, err := unix.FcntlInt(uintptr(g.rules), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil // the rules are good for this time
	}
	guards.Lock()
	defer guards.Unlock()
	key := j.guardKey()
	if mountsTurn() != turn || guards.sets[key] != nil {
		_ = unix.Close(fd)
		return nil
	}
	if len(guards.sets) >= maxRuleSets {
		dropRules()
	}
	if guards.sets == nil {
		guards.sets = map[string]*keptRules{}
	}
	j.kept = &keptRules{fd: fd, parts: g.parts, seen: g.seen, linked: g.linked, at: began}
	guards.sets[key] = j.kept
	return nil
}

// lasts reports whether the times of all folders that were opened entry by entry tell of the
// next change.
func (g *granter) lasts() bool {
	var now unix.Timespec
	if g.blind || unix.ClockGettime(unix.CLOCK_REALTIME, &now) != nil {
		return false
	}
	for _, f := range g.seen {
		if now.Nano()-f.changed.Nano() < int64(settled) || !local(f.path) {
			return false
		}
	}
	return true
}

// mountsTurn returns a number that is another one once a mount has come or gone; 0 where the
// kernel does not tell. It forgets the rules of before. The lock is held.
func mountsTurn() int64 {
	if guards.mounts == 0 {
		fd, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return 0
		}
		guards.mounts, guards.turn = fd, 1
	}
	if ready(guards.mounts, unix.POLLERR|unix.POLLPRI) {
		guards.turn++
		dropRules()
	}
	return guards.turn
}

// ready reports whether a descriptor has an event, without waiting for one.
func ready(fd int, event int16) bool {
	p := []unix.PollFd{{Fd: int32(fd), Events: event}}
	n, _ := unix.Poll(p, 0)
	return n > 0 && p[0].Revents&event != 0
}

// guardKey names what makes the rules of two guards the same.
func (j *Jail) guardKey() string {
	return strconv.Itoa(j.Sandbox.ABI) + "\x00" + strings.Join(j.Apart, "\x00") + "\x00\x00" + strings.Join(j.Kept, "\x00")
}

// dropRules forgets all rules. The lock is held.
func dropRules() {
	for _, k := range guards.sets {
		_ = unix.Close(k.fd)
	}
	clear(guards.sets)
}

// holds reports whether rules that are made now would be the same.
func (k *keptRules) holds() bool {
	if time.Since(k.at) > maxRulesAge {
		return false
	}
	for _, f := range k.seen {
		if is, ok := look(f.path); !ok || is != f {
			return false
		}
	}
	return maps.Equal(linkedOf(k.parts), k.linked)
}

// look returns what tells of changes of a folder.
func look(path string) (f seenFolder, ok bool) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return f, false
	}
	return seenFolder{path, inode{uint64(st.Dev), st.Ino}, unix.Timespec(st.Ctim)}, true
}

// linkedOf returns the files of the host that have several names.
func linkedOf(p parts) map[inode]part {
	linked := map[inode]part{}
	for path, is := range p {
		if is &= apart | kept; is == 0 {
			continue
		}
		of := []string{path}
		entries, _ := os.ReadDir(path) // of a folder
		for _, e := range entries {
			of = append(of, filepath.Join(path, e.Name()))
		}
		for _, path := range of {
			if file, several := severalNames(path); several {
				linked[file] |= is
			}
		}
	}
	return linked
}

// local reports whether a folder is on a file system of this machine, whose times are from this
// machine's clock.
func local(path string) bool {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return false
	}
	switch int64(st.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC, zfsMagic:
		return true
	}
	return false
}

const zfsMagic = 0x2fc12fc1
