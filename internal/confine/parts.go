package confine

import (
	"os"
	"path/filepath"
	"strings"
)

// part says what of the host lies at a path, or below it.
type part int

const (
	apart      part = 1 << iota // out of the program's reach
	kept                        // to be read alone
	aboveApart                  // a folder with something apart below
	aboveKept
)

// parts are what of the host lies where, by paths without symbolic links.
type parts map[string]part

// maxLinks bounds the symbolic links on the way to a path.
const maxLinks = 40

func newParts(j *Jail) parts {
	p := parts{}
	if j.Guard {
		p["/"] = aboveApart // of /proc and /dev not everything is opened
	}
	for _, all := range []struct {
		paths     []string
		is, above part
	}{{j.Apart, apart, aboveApart}, {j.Kept, kept, aboveKept}} {
		for _, path := range all.paths {
			begin, many := strings.CutSuffix(path, "*")
			if !many {
				p.mark(path, all.is, all.above)
				continue
			}
			dir, base := filepath.Split(begin)
			entries, _ := os.ReadDir(dir)
			for _, e := range entries {
				if strings.HasPrefix(e.Name(), base) {
					p.mark(filepath.Join(dir, e.Name()), all.is, all.above)
				}
			}
			p.mark(begin, all.is, all.above) // so that others cannot be made
		}
	}
	return p
}

// mark marks a path: what it leads to, the symbolic links on the way, and the folders above
// all of them.
func (p parts) mark(path string, is, above part) {
	set := func(at string) {
		p[at] |= is
		for dir := filepath.Dir(at); ; dir = filepath.Dir(dir) {
			p[dir] |= above
			if dir == filepath.Dir(dir) {
				return
			}
		}
	}
	at, rest, links := "/", strings.Split(filepath.Clean(path), "/"), 0
	for len(rest) > 0 {
		next := filepath.Join(at, rest[0])
		rest = rest[1:]
		to, err := os.Readlink(next)
		if err != nil { // no link, or not there
			at = next
			continue
		}
		if set(next); links == maxLinks {
			return
		}
		links++
		if filepath.IsAbs(to) {
			at = "/"
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	set(at)
}

// free reports whether a path is the program's: neither the host's, nor in a part of it, nor a
// folder in which one lies.
func (p parts) free(path string) bool {
	if p[path]&(aboveApart|aboveKept) != 0 {
		return false
	}
	return !p.lies(path, apart|kept)
}

// lies reports whether a path is or lies in a part that is one of is.
func (p parts) lies(path string, is part) bool {
	for dir := path; ; dir = filepath.Dir(dir) {
		if p[dir]&is != 0 {
			return true
		}
		if dir == filepath.Dir(dir) {
			return false
		}
	}
}
