package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Landlock opens folders with all that is below them and cannot leave a part out. So a folder
// in which a part of the host lies is opened entry by entry, and can itself be listed alone:
// what is made there later, by whomever, is not the program's.

// maxRules bounds the entries of folders that are opened one by one.
const maxRules = 20_000

// granter adds rules to a ruleset of Landlock.
type granter struct {
	rules  int
	parts  parts
	made   int
	linked map[inode]part // files of the host with several names, once one was met
	seen   []seenFolder   // opened entry by entry, as they were before
	blind  bool           // one of them could not be looked at
	opened []opened       // before the first of these
	looks  bool           // what is opened now is looked at again
}

// inode is a file, whatever its name. A rule for a file counts for all of its names.
type inode struct{ dev, number uint64 }

// severalNames returns a file, and whether it has several names. A folder has its own entry's.
func severalNames(path string) (inode, bool) {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	return inode{uint64(st.Dev), st.Ino}, err == nil && st.Nlink > 1 && st.Mode&unix.S_IFMT != unix.S_IFDIR
}

// of says what of the host a file with several names is.
func (g *granter) of(path string) part {
	this, several := severalNames(path)
	if !several {
		return 0
	}
	if g.linked == nil {
		g.linked = linkedOf(g.parts)
	}
	return g.linked[this]
}

// grant opens a path without symbolic links, but for the parts of the host.
func (g *granter) grant(path string, rights uint64) error {
	is := g.parts[path]
	if g.parts.lies(path, apart) {
		return nil
	}
	if g.parts.lies(path, kept) {
		rights &= readRights
	}
	if is&aboveApart == 0 && (is&aboveKept == 0 || rights&^readRights == 0) {
		return g.allow(path, rights)
	}
	whole := uint64(unix.LANDLOCK_ACCESS_FS_READ_DIR)
	if is&aboveApart == 0 {
		whole = rights & readRights
	}
	if err := g.allow(path, whole); err != nil {
		return err
	}
	return g.grantEntries(path, rights)
}

func (g *granter) grantEntries(path string, rights uint64) error {
	g.sees(path)
	entries, err := os.ReadDir(path)
	if err != nil && len(entries) == 0 {
		return nil // the host's user cannot list it
	}
	if g.made += len(entries); g.made > maxRules {
		return &fs.PathError{Op: "allow", Path: path, Err: fmt.Errorf("files of the host lie in folders with more than %d entries", maxRules)}
	}
	for _, e := range entries {
		if err := g.entry(filepath.Join(path, e.Name()), e.Type(), rights); err != nil {
			return err
		}
	}
	return nil
}

// sees remembers a folder before its entries are opened.
func (g *granter) sees(path string) {
	f, ok := look(path)
	g.seen, g.blind = append(g.seen, f), g.blind || !ok
}

// procFiles are those of /proc that say nothing of any process.
var procFiles = []string{"cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "sys", "uptime", "version"}

// memoryDevices are the memory of the machine, and what the kernel says.
var memoryDevices = []string{"/dev/kmem", "/dev/kmsg", "/dev/mem", "/dev/port"}

// entry opens an entry of a folder. One that is gone meanwhile, or a link by now, is left out.
func (g *granter) entry(path string, kind fs.FileMode, rights uint64) error {
	switch {
	case kind&fs.ModeSymlink != 0:
		return nil // what it leads to counts
	case path == "/proc":
		for _, name := range procFiles {
			if err := g.entry(filepath.Join(path, name), 0, readRights); err != nil {
				return err
			}
		}
		return nil
	case path == "/dev":
		g.sees(path)
		entries, _ := os.ReadDir(path)
		for _, e := range entries {
			at := filepath.Join(path, e.Name())
			if kind := e.Type(); kind&fs.ModeDevice != 0 && kind&fs.ModeCharDevice == 0 || slices.Contains(memoryDevices, at) {
				continue
			}
			if err := g.entry(at, e.Type(), rights); err != nil {
				return err
			}
		}
		return nil
	case path == "/sys":
		rights &= readRights
	case kind.IsRegular():
		switch is := g.of(path); {
		case is&apart != 0:
			return nil
		case is&kept != 0:
			rights &= readRights
		}
	}
	err := g.grant(path, rights)
	for _, gone := range []error{unix.ENOENT, unix.EACCES, unix.ELOOP, unix.EBADFD} {
		if errors.Is(err, gone) {
			return nil
		}
	}
	return err
}
