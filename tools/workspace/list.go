package workspace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

const (
	maxPattern  = 256
	listDepth   = 3    // docs/spec/cogency.md §15
	listEntries = 1000 // docs/spec/cogency.md §15
	findShown   = 100  // docs/spec/cogency.md §15
	dirChunk    = 512
)

// skippedDirs are folders of dependencies and builds; dot entries are skipped as well.
var skippedDirs = []string{"node_modules", "bower_components", "vendor", "venv", "__pycache__", "dist", "build", "target"}

func skips(e fs.DirEntry) bool {
	return strings.HasPrefix(e.Name(), ".") || e.IsDir() && slices.Contains(skippedDirs, e.Name())
}

// glob is a pattern of paths; case does not matter. A pattern with a slash is matched against
// the path below the start of the search, any other against the name.
type glob struct {
	text, lower string
	literal     bool // no pattern: it matches names that contain it
}

func newGlob(text string) (*glob, error) {
	g := &glob{text: text, lower: strings.ToLower(text)}
	if text == "" || !doublestar.ValidatePattern(g.lower) {
		return nil, neuroscript.Errorf(neuroscript.CodeArgument, "argument pattern: not a pattern")
	}
	g.literal = !strings.ContainsAny(text, `*?[{\/`)
	return g, nil
}

// match reports whether a file matches; below is its path from the start of the search.
func (g *glob) match(at, below string) bool {
	name := strings.ToLower(path.Base(at))
	if g.literal {
		return strings.Contains(name, g.lower)
	}
	if strings.Contains(g.lower, "/") {
		name = strings.ToLower(below)
	}
	return doublestar.MatchUnvalidated(g.lower, name)
}

// entries returns the entries of a folder, directories first, each by name, up to
// MaxFileEntries, without those that are denied.
func (w *Workspace) entries(ctx context.Context, at string) ([]fs.DirEntry, error) {
	dir, err := w.root.OpenFile(at, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if err := w.own.folder(dir); err != nil {
		return nil, err
	}
	var all []fs.DirEntry
	for len(all) < MaxFileEntries {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		some, err := dir.ReadDir(dirChunk)
		for _, e := range some {
			if !skips(e) && !w.denies("/"+path.Join(at, e.Name())) {
				all = append(all, e)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b fs.DirEntry) int {
		if a.IsDir() != b.IsDir() {
			if a.IsDir() {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name(), b.Name())
	})
	return all, nil
}

// tree is a listing in the making.
type tree struct {
	w           *Workspace
	ctx         context.Context // of the one call it serves
	glob        *glob
	from        string
	lines       []string
	dirs, files int
	more        bool
}

func (w *Workspace) list(ctx context.Context, c *tools.Call) (outcome, content string, err error) {
	p := c.Text(0)
	at, err := w.place(p)
	if err != nil {
		return "", "", err
	}
	t := tree{w: w, ctx: ctx, from: at}
	if pattern := c.Text(1); pattern != "" {
		if t.glob, err = newGlob(pattern); err != nil {
			return "", "", err
		}
	}
	if err := w.folder(at); err != nil {
		return "", "", w.failed(p, err)
	}
	if _, err := t.add(at, 0); err != nil {
		return "", "", w.failed(p, err)
	}
	content = strings.Join(t.lines, "\n")
	if t.more {
		content += fmt.Sprintf("\n[the first %d; list a folder of them for more]", listEntries)
	}
	return fmt.Sprintf("Listed %d items (%d dirs, %d files)", t.dirs+t.files, t.dirs, t.files), clip.Bytes(content, catalog.MaxResultBytes, "list a folder of it"), nil
}

// folder returns an error for a path that is no folder.
func (w *Workspace) folder(at string) error {
	info, err := w.root.Stat(at)
	if err == nil && !info.IsDir() {
		err = &fs.PathError{Op: "list", Path: at, Err: syscall.ENOTDIR}
	}
	return err
}

// add lists a folder, at most listDepth levels deep. With a pattern it shows a folder only if
// something in it matches.
func (t *tree) add(at string, depth int) (any bool, err error) {
	all, err := t.w.entries(t.ctx, at)
	if err != nil {
		return false, err
	}
	for _, e := range all {
		if len(t.lines) >= listEntries {
			t.more = true
			return any, nil
		}
		here := path.Join(at, e.Name())
		line := strings.Repeat("  ", depth) + strings.ToValidUTF8(strings.ReplaceAll(e.Name(), "\n", "\ufffd"), "\ufffd")
		if !e.IsDir() {
			if t.glob == nil || t.glob.match(here, below(t.from, here)) {
				t.lines = append(t.lines, line)
				t.files++
				any = true
			}
			continue
		}
		place := len(t.lines)
		t.lines = append(t.lines, line+"/")
		t.dirs++
		inside := false
		if depth+1 < listDepth {
			inside, err = t.add(here, depth+1)
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, errOwn) {
				return any, err
			}
		}
		if t.glob != nil && !inside {
			t.lines = t.lines[:place]
			t.dirs--
			continue
		}
		any = true
	}
	return any, nil
}

// below returns a path relative to a folder that it is in.
func below(from, at string) string {
	if from == "." {
		return at
	}
	return strings.TrimPrefix(at, from+"/")
}

var errWalk = errors.New("too many files; begin in a folder further down")

// walk visits the entries below a folder in the order of list, except skipped ones. It does
// not follow links, and skips folders that cannot be read.
func (w *Workspace) walk(ctx context.Context, from string, visit func(at string, e fs.DirEntry) error) error {
	seen := 0
	var down func(at string, depth int) error
	down = func(at string, depth int) error {
		all, err := w.entries(ctx, at)
		if err != nil {
			if depth > 0 && ctx.Err() == nil {
				return nil
			}
			return err
		}
		for _, e := range all {
			if seen++; seen > MaxWalkEntries {
				return errWalk
			}
			here := path.Join(at, e.Name())
			if err := visit(here, e); err != nil {
				return err
			}
			if e.IsDir() && depth < MaxWalkDepth {
				if err := down(here, depth+1); err != nil {
					return err
				}
			}
		}
		return nil
	}
	err := down(from, 0)
	if errors.Is(err, errWalk) {
		return catalog.Failed("more than %d files and folders; begin in a folder further down", MaxWalkEntries)
	}
	return err
}

// search has the conditions of find, and what it has found.
type search struct {
	glob    *glob
	content string // in lower case
	total   int
	shown   []string
	read    int64
}

func (w *Workspace) find(ctx context.Context, c *tools.Call) (outcome, content string, err error) {
	pattern, text, p := c.Text(0), c.Text(1), c.Text(2)
	var s search
	switch {
	case pattern == "" && text == "":
		return "", "", neuroscript.Errorf(neuroscript.CodeArgument, "want pattern or content")
	case text == "" && strings.Trim(pattern, "*") == "":
		return "", "", neuroscript.Errorf(neuroscript.CodeArgument, "argument pattern: %s alone matches everything; use list, or say more", pattern)
	}
	if pattern != "" {
		if s.glob, err = newGlob(pattern); err != nil {
			return "", "", err
		}
	}
	s.content = strings.ToLower(text)
	at, err := w.place(p)
	if err != nil {
		return "", "", err
	}
	if err := w.folder(at); err != nil {
		return "", "", w.failed(p, err)
	}
	err = w.walk(ctx, at, func(here string, e fs.DirEntry) error {
		if s.glob != nil && !s.glob.match(here, below(at, here)) {
			return nil
		}
		if s.content == "" {
			s.add(w.name(here))
			return nil
		}
		if !e.Type().IsRegular() {
			return nil
		}
		return w.lines(ctx, &s, here)
	})
	if err != nil {
		return "", "", w.failed(p, err)
	}
	content = strings.Join(s.shown, "\n")
	if s.total > len(s.shown) {
		content += fmt.Sprintf("\n[%d of %d shown; say more]", len(s.shown), s.total)
	}
	return fmt.Sprintf("Found %d matches", s.total), clip.Bytes(content, catalog.MaxResultBytes, "say more"), nil
}

func (s *search) add(line string) {
	if s.total++; len(s.shown) < findShown {
		s.shown = append(s.shown, strings.ReplaceAll(line, "\n", "\ufffd"))
	}
}

// lines searches one file. Files that are not text or too large are skipped.
func (w *Workspace) lines(ctx context.Context, s *search, at string) error {
	text, _, err := w.text(ctx, at)
	if err != nil {
		return ctx.Err()
	}
	if s.read += int64(len(text)); s.read > maxWalkReadBytes {
		return catalog.Failed("more than %d bytes to look through; begin in a folder further down", maxWalkReadBytes)
	}
	n := 0
	for line := range strings.Lines(text) {
		n++
		if strings.Contains(strings.ToLower(line), s.content) {
			s.add(fmt.Sprintf("%s:%d: %s", w.name(at), n, oneLineOf(line)))
		}
	}
	return nil
}
