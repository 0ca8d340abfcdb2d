package workspace

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

// Access says how far the tools of a Workspace reach (docs/spec/cogency.md §14).
type Access string

// The access levels.
const (
	// AccessSandbox is a folder for the agent alone. A leading sandbox/ of a path is dropped,
	// because models write it.
	AccessSandbox Access = "sandbox"
	// AccessProject is a folder that people and other programs use too.
	AccessProject Access = "project"
	// AccessSystem is every file of the machine but those of a short list; relative paths
	// begin in the folder.
	AccessSystem Access = "system"
)

// Limits of the tools of a Workspace.
const (
	MaxPathBytes     = 4096
	MaxEditBytes     = 1 << 20 // of a file that edit, replace and find read
	MaxWriteBytes    = 4 << 20 // of the content of write
	MaxWalkEntries   = 100_000 // that one call visits
	MaxWalkDepth     = 64      // directories below each other
	maxWalkReadBytes = 64 << 20
)

// Workspace is a folder with the tools read, write, edit, list, find and replace
// (docs/spec/cogency.md §15), and in which shell runs.
//
// Paths are resolved below an open directory, step by step: neither "..", an absolute
// path nor a symbolic link leads out, and no race between check and use does. Mounts
// inside it are part of it. Devices, pipes and sockets are neither read nor written.
// Calls that change files run one after the other; a call fails if another program changes
// the file meanwhile. Safe for concurrent use.
type Workspace struct {
	root   *os.Root
	access Access
	dir    string   // absolute
	denied []string // folders that AccessSystem may not enter, as written and as resolved
	own    own
	room   room
	mu     sync.Mutex
}

// Open opens a folder. The error is ERR_CONFIG with Field workspace.root. The caller must close
// the Workspace after the last call of its tools.
func Open(dir string, access Access) (*Workspace, error) {
	bad := func(detail string, err error) (*Workspace, error) {
		return nil, &messages.Error{Code: messages.ErrConfig, Field: "workspace.root", Detail: detail, Cause: err}
	}
	abs, err := filepath.Abs(dir)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return bad("the folder of the agent's work cannot be opened", pathless(err))
	}
	from := abs
	if access == AccessSystem {
		from = string(filepath.Separator)
	}
	root, err := os.OpenRoot(from)
	if err != nil {
		return bad("the folder of the agent's work cannot be opened", pathless(err))
	}
	if access == "" {
		access = AccessSandbox
	}
	w := &Workspace{root: root, access: access, dir: abs}
	if access == AccessSystem {
		for _, d := range deniedRoots {
			w.denied = append(w.denied, d)
			if real, err := filepath.EvalSymlinks(d); err == nil && real != d {
				w.denied = append(w.denied, real)
			}
		}
	}
	return w, nil
}

// pathless returns an error without its path.
func pathless(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// Close closes the folder.
func (w *Workspace) Close() error { return w.root.Close() }

// Dir returns the folder's absolute path, which must not be in the text of a tool.
func (w *Workspace) Dir() string { return w.dir }

// Tools returns the tools for files.
func (w *Workspace) Tools() []tools.Tool {
	file := catalog.Parameter{Name: "file", Type: "string", Required: true, Description: "Path of the file."}
	in := catalog.Parameter{Name: "path", Type: "string", Default: `"."`, Description: "Folder to begin in."}
	all := []tools.Tool{
		catalog.Reporting("read", "Reads a file, or lines of it from line start on (the first is 0).", messages.ReadOnly, catalog.Parameters{
			file,
			{Name: "start", Type: "integer", Default: "0", Max: maxLines, Description: "First line, counted from 0."},
			{Name: "lines", Type: "integer", Min: 1, Max: maxReadLines, Description: "How many lines."},
		}, w.read),
		catalog.Reporting("write", "Writes a file; one that is there only with overwrite. Parent folders are made.", messages.Effectful, catalog.Parameters{
			file,
			{Name: "content", Type: "string", Required: true},
			{Name: "overwrite", Type: "boolean", Default: "false", Description: "Replace a file that is there."},
		}, w.write),
		catalog.Reporting("edit", "Replaces a text that occurs exactly once in a file.", messages.Effectful, catalog.Parameters{
			file,
			{Name: "old", Type: "string", Required: true, Description: "Text to replace, with enough around it to occur once."},
			{Name: "new", Type: "string", Required: true, Description: "Text to put there."},
		}, w.edit),
		catalog.Reporting("list", "Lists a folder as a tree, three levels deep.", messages.ReadOnly, catalog.Parameters{
			in,
			{Name: "pattern", Type: "string", Max: maxPattern, Description: "Glob that names of files must match, such as *.go."},
		}, w.list),
		catalog.Reporting("find", "Finds files by a pattern of their path, or lines by a text in them, in any case.", messages.ReadOnly, catalog.Parameters{
			{Name: "pattern", Type: "string", Max: maxPattern, Description: "Glob such as *_test.go or cmd/**/*.go; without * a part of the name."},
			{Name: "content", Type: "string", Max: maxPattern, Description: "Text that a line must hold."},
			in,
		}, w.find),
		catalog.Reporting("replace", "Replaces a text in all files that match a pattern, in all of them or in none.", messages.Effectful, catalog.Parameters{
			{Name: "pattern", Type: "string", Required: true, Max: maxPattern, Description: "Glob such as **/*.go."},
			{Name: "old", Type: "string", Required: true, Description: "Text, or with exact false an RE2 expression."},
			{Name: "new", Type: "string", Required: true, Description: "Text to put there; with exact false $1 is a group."},
			{Name: "exact", Type: "boolean", Default: "true", Description: "Take old as it stands, once in each file."},
		}, w.replace),
	}
	for i := range all {
		all[i].Form.Basis = func(string) map[string]string { return Basis(w.dir) }
	}
	return all
}

// Basis returns what an approved call depends on: the folder, by the digest of its path, so
// that readers of a journal do not see the host's paths.
func Basis(dir string) map[string]string {
	return map[string]string{"folder": messages.Digest(sha256.Sum256([]byte(dir))).String()}
}

// deniedNames are the folders that even AccessSystem may not enter: credentials, wherever they
// are, and those of the system.
var (
	deniedNames = []string{".ssh", ".aws", ".gnupg", ".kube", ".docker", UsersDir}
	deniedRoots = []string{"/etc", "/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/boot", "/proc", "/sys", "/dev"}
)

// place converts a path of the model to one below the root.
func (w *Workspace) place(p string) (string, error) {
	if p == "" || len(p) > MaxPathBytes || strings.IndexByte(p, 0) >= 0 {
		return "", neuroscript.Errorf(neuroscript.CodeArgument, "invalid path")
	}
	// Also a path that comes back: the meaning of "a/.." depends on what a is.
	if slices.Contains(strings.FieldsFunc(p, isSeparator), "..") {
		return "", w.outside(p)
	}
	if ofUsers(p) {
		return "", denied(p)
	}
	if w.access == AccessSystem {
		return w.anywhere(p)
	}
	if filepath.IsAbs(p) || !filepath.IsLocal(p) {
		return "", w.outside(p)
	}
	p = path.Clean(filepath.ToSlash(p))
	if rest, ok := strings.CutPrefix(p, "sandbox/"); ok && w.access == AccessSandbox {
		p = rest
	} else if p == "sandbox" && w.access == AccessSandbox {
		p = "."
	}
	return p, nil
}

func isSeparator(r rune) bool { return r < 0x80 && os.IsPathSeparator(uint8(r)) }

// outside returns the refusal of a path. It is a denial, so that a program cannot mistake it
// for a missing file.
func (w *Workspace) outside(p string) error {
	return neuroscript.Errorf(neuroscript.CodeDenied, "path outside sandbox: %s", clip.Excerpt(p))
}

// denied returns the refusal of a file of the host.
func denied(p string) error {
	return neuroscript.Errorf(neuroscript.CodeDenied, "%s: %s", clip.Excerpt(p), errOwn)
}

// anywhere is place under AccessSystem: links are resolved first, so that none leads to a
// denied folder.
func (w *Workspace) anywhere(p string) (string, error) {
	abs := filepath.Clean(p)
	if !filepath.IsAbs(p) {
		abs = filepath.Join(w.dir, p)
	}
	there, rest := abs, ""
	for {
		resolved, err := filepath.EvalSymlinks(there)
		if err == nil {
			abs = filepath.Join(resolved, rest)
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", w.outside(p)
		}
		if _, err := os.Lstat(there); err == nil {
			return "", w.outside(p) // a link to nothing: what is made through it may be anywhere
		}
		rest = filepath.Join(filepath.Base(there), rest)
		there = filepath.Dir(there)
	}
	if w.denies(abs) {
		return "", w.outside(p)
	}
	rel, err := filepath.Rel(string(filepath.Separator), abs)
	if err != nil {
		return "", w.outside(p)
	}
	return filepath.ToSlash(rel), nil
}

// denies reports whether AccessSystem may not reach a clean absolute path.
func (w *Workspace) denies(abs string) bool {
	return slices.ContainsFunc(strings.FieldsFunc(abs, isSeparator), func(name string) bool { return slices.Contains(deniedNames, name) }) ||
		slices.ContainsFunc(w.denied, func(dir string) bool { return within(abs, dir) })
}

// base returns the folder in which relative paths begin, as a path below the root.
func (w *Workspace) base() (string, error) { return w.place(".") }

// name returns the path that tools show and accept for a path below the root: relative to the
// folder, or absolute for a path outside it.
func (w *Workspace) name(at string) string {
	if w.access != AccessSystem {
		return at
	}
	abs := "/" + at
	if rel, ok := strings.CutPrefix(abs, strings.TrimSuffix(filepath.ToSlash(w.dir), "/")+"/"); ok {
		return rel
	}
	return abs
}

// within reports whether a clean absolute path is dir or below it.
func within(p, dir string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, string(filepath.Separator))+string(filepath.Separator))
}

// open opens a regular file below the root for reading. It checks the kind of file before it
// opens it, because opening a device can have effects, and again afterwards, because the file
// may have been swapped. It opens without blocking, so that a pipe put there in between does
// not block the action.
func (w *Workspace) open(at string) (*os.File, fs.FileInfo, error) {
	info, err := w.root.Stat(at)
	if err == nil {
		err = regular(info)
	}
	if err != nil {
		return nil, nil, err
	}
	f, err := w.root.OpenFile(at, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	if info, err = f.Stat(); err == nil {
		err = regular(info)
	}
	if err == nil {
		err = w.own.judge(f)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, info, nil
}

var errEditSize = errors.New("more than 1 MiB")

// text reads a whole file of at most MaxEditBytes.
func (w *Workspace) text(ctx context.Context, at string) (text string, info fs.FileInfo, err error) {
	f, info, err := w.open(at)
	if err != nil {
		return "", nil, err
	}
	b, err := io.ReadAll(&scanned{r: f, left: MaxEditBytes + 1, ctx: ctx})
	if errors.Is(err, errTooFar) || len(b) > MaxEditBytes {
		err = errEditSize
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", nil, err
	}
	if isBinary(b) {
		return "", nil, errBinary
	}
	return string(b), info, nil
}

var (
	errBinary  = errors.New("a binary file")
	errChanged = errors.New("it was changed by another program meanwhile; read it again")
	errExists  = errors.New("it exists; edit it, or write it with overwrite true")
	errLink    = errors.New("a symbolic link; name the file it leads to")
)

// failed returns the model's error for a path that it named.
func (w *Workspace) failed(p string, err error) error {
	for _, own := range []error{errEditSize, errBinary, errChanged, errExists, errLink, errReadOnly} {
		if errors.Is(err, own) {
			return catalog.Failed("%s: %s", clip.Excerpt(p), own)
		}
	}
	if errors.Is(err, errOwn) {
		return denied(p)
	}
	var told *neuroscript.ScriptError
	if errors.As(err, &told) {
		return told
	}
	var le *os.LinkError
	if errors.As(err, &le) {
		err = &fs.PathError{Op: le.Op, Path: le.New, Err: le.Err}
	}
	var pe *fs.PathError
	if errors.As(err, &pe) && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, fs.ErrClosed) {
		// The refusals of os.Root have no exported error; a model can cause that of a
		// link that leads out.
		if _, system := errors.AsType[syscall.Errno](pe.Err); !system {
			return w.outside(p)
		}
	}
	return fileError(clip.Excerpt(p), err)
}
