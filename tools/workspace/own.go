package workspace

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// own has the files of the host itself: data directory, keys, tokens, settings, manifests,
// entrypoints. Tools must not reach them, wherever they lie. An opened file is compared by
// identity, so neither a link, a hard link nor another name leads to them, and a swap between
// check and use gains nothing.
type own struct {
	paths    []string // absolute: folders with all that is below them, and files
	prefixes []string // absolute: files whose paths begin so
	editable []string // names of readOnlyNames that may be changed
}

// errOwn refuses a file of the host.
var errOwn = errors.New("it belongs to the host")

// errReadOnly refuses a change of a file of readOnlyNames.
var errReadOnly = errors.New("read-only here, as what other programs act on is; workspace.editable of the manifest opens it")

// readOnlyNames are folders and files that other programs act on: a hook in .git, a task of an
// editor or a line of .env would run outside the sandbox.
var readOnlyNames = []string{".git", ".hg", ".svn", ".vscode", ".idea", ".vs", ".zed", ".fleet", ".devcontainer", ".env"}

// Deny denies the tools files and folders of the host, with all below them. The paths need
// not exist yet. A path that ends in * denies the files whose paths begin so, also those that
// come later. Deny must be called before the tools are used.
func (w *Workspace) Deny(paths ...string) { w.own.add(paths) }

// Editable lets tools change files and folders with these names, such as .git, which they
// can otherwise only read.
func (w *Workspace) Editable(names ...string) {
	w.own.editable = append(w.own.editable, names...)
}

// Deny denies the tools files and folders of the host, as Workspace.Deny does.
func (f *Files) Deny(paths ...string) { f.own.add(paths) }

func (o *own) add(paths []string) {
	for _, p := range paths {
		abs, err := filepath.Abs(p)
		if err != nil {
			continue
		}
		if prefix, ok := strings.CutSuffix(abs, "*"); ok {
			o.prefixes = append(o.prefixes, prefix)
		} else {
			o.paths = append(o.paths, abs)
		}
	}
}

func (o *own) none() bool { return len(o.paths) == 0 && len(o.prefixes) == 0 }

// now are the paths, with those that begin with one of the prefixes.
func (o *own) now() []string {
	all := slices.Clone(o.paths)
	for _, p := range o.prefixes {
		dir, begin := filepath.Split(p)
		entries, _ := os.ReadDir(dir) // what can be read of it
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), begin) && !e.IsDir() {
				all = append(all, filepath.Join(dir, e.Name()))
			}
		}
	}
	return all
}

// cachesDir is the part of a data directory for caches of programs. It may grow large, and has
// nothing that a hard link could reveal.
const cachesDir = "caches"

// holds reports whether a file is the host's, by its identity, so that other names of it count
// as well. Folders are judged by lineage.
func (o *own) holds(info fs.FileInfo) bool {
	for _, p := range o.now() {
		is, err := os.Stat(p)
		if err != nil {
			continue
		}
		if os.SameFile(is, info) {
			return true
		}
		if is.IsDir() && !info.IsDir() && o.within(p, info) {
			return true
		}
	}
	return false
}

// within looks for a file below a folder of the host.
func (o *own) within(dir string, info fs.FileInfo) bool {
	found := false
	_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil // removed meanwhile
		case d.IsDir() && d.Name() == cachesDir:
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		if is, err := d.Info(); err == nil && os.SameFile(is, info) {
			found = true
			return fs.SkipAll
		}
		return nil
	})
	return found
}

// judge returns an error for an open file that is the host's.
func (o *own) judge(f *os.File) error {
	if o.none() {
		return nil
	}
	before, err := f.Stat()
	if err != nil {
		return err
	}
	if o.holds(before) {
		return errOwn
	}
	// A file that has lost its name may have been the host's, which replaces its files.
	if unnamed(f) {
		return errChanged
	}
	return nil
}

// looks returns an error for a file or folder below a root that must not be shown.
func (o *own) looks(root *os.Root, at string, info fs.FileInfo) error {
	if o.none() {
		return nil
	}
	if o.holds(info) {
		return errOwn
	}
	if !info.IsDir() {
		at = path.Dir(filepath.ToSlash(at))
	}
	dir, err := root.Open(at)
	if err != nil {
		return err
	}
	return errors.Join(o.folder(dir), dir.Close())
}

// folder returns an error for an open folder that is the host's or lies in one.
func (o *own) folder(dir *os.File) error {
	if o.none() {
		return nil
	}
	above, err := lineage(dir)
	if err != nil {
		return err
	}
	for _, p := range o.paths {
		is, err := os.Stat(p)
		if err == nil && slices.ContainsFunc(above, func(step ancestor) bool { return os.SameFile(step.info, is) }) {
			return errOwn
		}
	}
	return nil
}

// ancestor is a folder on the way up from one.
type ancestor struct {
	info fs.FileInfo
	name string // in the next one; "" at the top
}

// changes returns an error if name in an open folder must not be changed.
func (o *own) changes(dir *os.File, name string) error {
	if err := o.folder(dir); err != nil {
		return err
	}
	in, err := dir.Stat()
	if err != nil {
		return err
	}
	for _, p := range o.paths { // also paths that do not exist yet
		if filepath.Base(p) != name {
			continue
		}
		if is, err := os.Stat(filepath.Dir(p)); err == nil && os.SameFile(is, in) {
			return errOwn
		}
	}
	for _, p := range o.prefixes {
		folder, begin := filepath.Split(p)
		if !strings.HasPrefix(name, begin) {
			continue
		}
		if is, err := os.Stat(folder); err == nil && os.SameFile(is, in) {
			return errOwn
		}
	}
	if o.readOnly(name) {
		return errReadOnly
	}
	above, err := lineage(dir)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(above, func(step ancestor) bool { return o.readOnly(step.name) }) {
		return errReadOnly
	}
	return nil
}

// readOnly reports whether files of a name must not be changed; case does not matter.
func (o *own) readOnly(name string) bool {
	name = strings.ToLower(name)
	if strings.HasPrefix(name, ".env") { // .envrc, .env.local
		name = ".env"
	}
	return slices.Contains(readOnlyNames, name) && !slices.Contains(o.editable, name)
}

// parent opens the folder of a path for a change, and refuses one of the host. The caller
// holds it open during the change, so that it stays the folder that was judged, and closes
// it.
func (w *Workspace) parent(at string) (*os.Root, error) {
	dir, err := w.root.OpenRoot(path.Dir(at))
	if err != nil {
		return nil, err
	}
	f, err := dir.Open(".")
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	err = w.own.changes(f, path.Base(at))
	if err == nil {
		if is, looked := dir.Lstat(path.Base(at)); looked == nil && w.own.holds(is) {
			err = errOwn
		}
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return dir, nil
}

// makeFolders makes a folder and those above it.
func (w *Workspace) makeFolders(at string) error {
	if info, err := w.root.Stat(at); err == nil && info.IsDir() {
		return nil
	}
	if at != "." {
		if err := w.makeFolders(path.Dir(at)); err != nil {
			return err
		}
	}
	dir, err := w.parent(at)
	if err != nil {
		return err
	}
	if err = dir.Mkdir(path.Base(at), 0o777); errors.Is(err, fs.ErrExist) {
		err = nil
	}
	return errors.Join(err, dir.Close())
}

// Denies reports whether a file is the host's, or cannot be examined.
func (w *Workspace) Denies(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return true
	}
	defer f.Close()
	return w.own.judge(f) != nil
}

// Holds returns the first file of the host in one of the folders, or "": programs that may use
// these folders would reach it. A folder inside a folder of the host is allowed: the host
// gives it to programs.
func (w *Workspace) Holds(folders ...string) string {
	for _, dir := range folders {
		within, err := filepath.EvalSymlinks(dir)
		if err != nil {
			continue
		}
		is, err := os.Stat(within)
		if err != nil {
			continue
		}
		for _, p := range w.own.now() {
			real, err := filepath.EvalSymlinks(p)
			if lies(p, is) || err == nil && lies(real, is) {
				return p
			}
		}
	}
	return ""
}

// lies reports whether a path is a folder or below it.
func lies(p string, folder fs.FileInfo) bool {
	for {
		if is, err := os.Stat(p); err == nil && os.SameFile(is, folder) {
			return true
		}
		if p == filepath.Dir(p) {
			return false
		}
		p = filepath.Dir(p)
	}
}
