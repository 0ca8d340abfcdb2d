package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Programs change what is in the folder without asking the tools of files. Where they have a
// mount namespace, what other programs act on is read-only for them too, and the host's own
// files are hidden. What a program makes under a guarded name cannot be covered before it is
// there: it gets another name when the program has ended.

// maxGuardFolders bounds the folders that are searched for guarded names, those nearest the
// root first.
const maxGuardFolders = 2000

// guarded is what a folder has of readOnlyNames.
type guarded struct {
	root   *os.Root
	paths  []string          // below root, with slashes: files and folders
	known  []fs.FileInfo     // of paths
	links  map[string]string // symbolic links, which no mount covers: where they lead
	looked map[string]bool   // folders that were searched
	most   int               // so many of them at most
	whole  bool              // that is all folders
}

// guards searches the folder of programs, at most so many folders. The caller closes the
// result.
func (w *Workspace) guards(most int) (*guarded, error) {
	root, err := os.OpenRoot(w.dir)
	if err != nil {
		return nil, err
	}
	g := &guarded{root: root, most: most, links: map[string]string{}, looked: map[string]bool{}}
	g.whole = w.search(root, most, func(at string, entries []fs.DirEntry) {
		g.looked[at] = true
		for _, e := range entries {
			if !w.own.readOnly(e.Name()) {
				continue
			}
			p := path.Join(at, e.Name())
			if to, err := root.Readlink(p); err == nil {
				g.links[p] = to
			} else if info, err := e.Info(); err == nil {
				g.paths, g.known = append(g.paths, p), append(g.known, info)
			}
		}
	})
	return g, nil
}

// search lists folders, those nearest the root first, but for guarded ones, and reports
// whether it came to all. What is removed meanwhile, or cannot be opened, is not missed.
func (w *Workspace) search(root *os.Root, most int, in func(at string, entries []fs.DirEntry)) (whole bool) {
	next := []string{"."}
	for n := 0; len(next) > 0; n++ {
		if n == most {
			return false
		}
		at := next[0]
		next = next[1:]
		dir, err := root.Open(at)
		if err != nil {
			continue
		}
		entries, _ := dir.ReadDir(-1)
		_ = dir.Close()
		in(at, entries)
		for _, e := range entries {
			if e.IsDir() && !w.own.readOnly(e.Name()) {
				next = append(next, path.Join(at, e.Name()))
			}
		}
	}
	return true
}

// fixed returns the absolute paths that a mount can make read-only.
func (g *guarded) fixed(dir string) []string {
	all := make([]string, len(g.paths))
	for i, p := range g.paths {
		all[i] = filepath.Join(dir, filepath.FromSlash(p))
	}
	return all
}

// settle gives another name to what a program has made under guarded names, puts back links
// that it has replaced, and returns what the program's user must know of that. It removes
// nothing.
func (w *Workspace) settle(g *guarded) (notes []string) {
	// A link may be removed, and its number be another file's by then.
	is := func(p string, info fs.FileInfo) bool {
		if to, err := g.root.Readlink(p); err == nil {
			was, there := g.links[p]
			return there && was == to
		}
		return slices.ContainsFunc(g.known, func(was fs.FileInfo) bool { return os.SameFile(was, info) })
	}
	var made []string
	w.search(g.root, g.most, func(at string, entries []fs.DirEntry) {
		if !g.whole && !g.looked[at] {
			return // what is there may be older than the program
		}
		for _, e := range entries {
			p := path.Join(at, e.Name())
			if !w.own.readOnly(e.Name()) {
				continue
			}
			if info, err := e.Info(); err == nil && !is(p, info) {
				made = append(made, p)
			}
		}
	})
	for _, p := range made {
		aside, err := setAside(g.root, p)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			notes = append(notes, p+" is read-only here, and what the program made cannot be renamed")
		default:
			notes = append(notes, fmt.Sprintf("%s is read-only here: what the program made is now %s", p, aside))
		}
	}
	for _, p := range slices.Sorted(maps.Keys(g.links)) {
		if g.root.Symlink(g.links[p], p) == nil { // else it is still there
			notes = append(notes, p+" is read-only here: it is again the link that it was")
		}
	}
	return notes
}

// setAside renames a file or folder so that no program takes it for what it was named.
func setAside(root *os.Root, p string) (string, error) {
	dir, base := path.Split(p)
	for n := 1; ; n++ {
		name := "aside" + base
		if n > 1 {
			name = fmt.Sprintf("aside-%d%s", n, base)
		}
		name = path.Join(dir, name)
		if _, err := root.Lstat(name); err == nil {
			continue
		}
		return name, root.Rename(p, name)
	}
}

// noted joins the standard error of a program and what settle returned.
func noted(stderr string, notes []string) string {
	if len(notes) == 0 {
		return stderr
	}
	return joined(stderr, strings.Join(notes, "\n")+"\n(workspace.editable of the manifest opens such names)")
}

// joined puts a line behind a text.
func joined(text, line string) string {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + line + "\n"
}

// hides returns those of the paths that lie in one of the folders, as a mount can cover them;
// those that are not there yet; or the first one that no mount can cover: a symbolic link, and
// the folder itself.
func hides(paths, folders []string) (hidden, absent []string, bare string) {
	for _, dir := range folders {
		within, err := filepath.EvalSymlinks(dir)
		if err != nil {
			continue
		}
		is, err := os.Stat(within)
		if err != nil {
			continue
		}
		for _, p := range paths {
			real, err := filepath.EvalSymlinks(p)
			if !lies(p, is) && (err != nil || !lies(real, is)) {
				continue
			}
			parent, failed := filepath.EvalSymlinks(filepath.Dir(p))
			info, missing := os.Lstat(p)
			switch at := filepath.Join(parent, filepath.Base(p)); {
			case failed == nil && errors.Is(missing, fs.ErrNotExist):
				absent = append(absent, at)
			case err != nil || failed != nil || missing != nil || info.Mode().Type() == fs.ModeSymlink || os.SameFile(info, is):
				return nil, nil, p
			default:
				hidden = append(hidden, at)
			}
		}
	}
	return hidden, absent, ""
}

// reclaim gives another name to what a program has made in the place of a file of the host,
// such as settings that it would read.
func reclaim(absent []string) (notes []string) {
	for _, p := range absent {
		root, err := os.OpenRoot(filepath.Dir(p))
		if err != nil {
			continue
		}
		if _, err := root.Lstat(filepath.Base(p)); err == nil {
			aside, err := setAside(root, filepath.Base(p))
			if err != nil {
				aside = "not to be renamed"
			}
			notes = append(notes, filepath.Base(p)+" belongs to the host: what the program made is now "+aside)
		}
		_ = root.Close()
	}
	return notes
}

// Bare returns the first file of the host in one of the folders that a mount cannot hide from
// programs, or "".
func (w *Workspace) Bare(folders ...string) string {
	_, _, bare := hides(w.own.now(), folders)
	return bare
}
