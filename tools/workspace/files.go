package workspace

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// Limits of the file tools.
const (
	MaxFileReadBytes = 1 << 20  // of the text one file.read gives
	MaxFileScanBytes = 64 << 20 // of the file one file.read with lines goes through
	MaxFileEntries   = 10_000   // of the directory one file.list reads
)

// Files has the tools file.read, file.list and file.stat of one directory. Nothing outside it
// can be reached: paths are resolved below an open directory, step by step, so neither "..",
// an absolute path nor a symbolic link leads out, and no race between check and use does.
// Mounts inside the directory are part of it. Devices, pipes and sockets are refused. Safe
// for concurrent use.
type Files struct {
	root *os.Root
	own  own
}

// NewFiles opens the directory. The error is ERR_CONFIG. The caller must close Files after the
// last call of its tools.
func NewFiles(dir string) (*Files, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, &messages.Error{Code: messages.ErrConfig, Detail: "the directory of the file tools cannot be opened", Cause: err}
	}
	return &Files{root: root}, nil
}

// Close closes the directory.
func (f *Files) Close() error { return f.root.Close() }

// Tools returns the tools, which only read.
func (f *Files) Tools() []tools.Tool {
	return []tools.Tool{
		{
			Name: "file.read", Class: messages.ReadOnly, Run: f.read,
			Description: "The text of a file, or max_lines of its lines from line from_line on (the first is 1).",
			Params:      []neuroscript.Param{{Name: "path", Type: "string"}, {Name: "from_line", Type: "int", Optional: true}, {Name: "max_lines", Type: "int", Optional: true}},
		},
		{
			Name: "file.list", Class: messages.ReadOnly, Run: f.list,
			Description: "The names in a directory, in ascending order; those of directories end in a slash.",
			Params:      []neuroscript.Param{{Name: "path", Type: "string", Optional: true}},
		},
		{
			Name: "file.stat", Class: messages.ReadOnly, Run: f.stat,
			Description: "A map of type (file, directory, other), size in bytes and modified; nil if there is no such file.",
			Params:      []neuroscript.Param{{Name: "path", Type: "string"}},
		},
	}
}

// read returns a whole file or a range of its lines, with their line ends.
func (f *Files) read(ctx context.Context, c *tools.Call) (v neuroscript.Value, err error) {
	path, err := pathArg(c, "")
	if err != nil {
		return v, err
	}
	from, err := lineArg(c, 1, "from_line", 1)
	if err != nil {
		return v, err
	}
	most, err := lineArg(c, 2, "max_lines", math.MaxInt64)
	if err != nil {
		return v, err
	}
	file, err := f.open(path)
	if err != nil {
		return v, err
	}
	defer func() {
		if closing := file.Close(); err == nil && closing != nil {
			err = fileError(path, closing)
		}
	}()
	in := &scanned{r: file, left: MaxFileScanBytes, ctx: ctx}
	text, err := readLines(in, from, most)
	if err != nil {
		return v, fileError(path, err)
	}
	if !utf8.Valid(text) {
		return v, neuroscript.Errorf(neuroscript.CodeInvalid, "%s is not UTF-8 text", path)
	}
	return neuroscript.String(string(text)), nil
}

// open opens a regular file. It checks the kind of file before it opens it, because opening a
// device can have effects, and again afterwards, because the file may have been swapped. It
// opens without blocking, so that a pipe put there in between does not block the action.
func (f *Files) open(path string) (*os.File, error) {
	info, err := f.root.Stat(path)
	if err == nil {
		err = regular(info)
	}
	if err != nil {
		return nil, fileError(path, err)
	}
	file, err := f.root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fileError(path, err)
	}
	if info, err = file.Stat(); err == nil {
		err = regular(info)
	}
	if err == nil {
		err = f.own.judge(file)
	}
	if err != nil {
		return nil, fileError(path, errors.Join(err, file.Close()))
	}
	return file, nil
}

var (
	errIrregular = errors.New("not a regular file")
	errDirectory = errors.New("a directory")
	errTooLarge  = errors.New("more than 1 MiB; ask for fewer lines with from_line and max_lines")
	errTooFar    = errors.New("the lines are beyond the first 64 MiB")
)

func regular(info fs.FileInfo) error {
	switch {
	case info.Mode().IsRegular():
		return nil
	case info.IsDir():
		return errDirectory
	}
	return errIrregular
}

// readLines copies lines from..from+most-1 (the first is 1).
func readLines(r io.Reader, from, most int64) ([]byte, error) {
	in := bufio.NewReaderSize(r, 32<<10)
	var text []byte
	for line := int64(1); line-from < most; {
		piece, err := in.ReadSlice('\n')
		if line >= from {
			if len(text)+len(piece) > MaxFileReadBytes {
				return nil, errTooLarge
			}
			text = append(text, piece...)
		}
		switch {
		case err == nil:
			line++
		case errors.Is(err, io.EOF):
			return text, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
	return text, nil
}

// scanned reads at most left bytes, and checks the context before each read.
type scanned struct {
	r    io.Reader
	left int64
	ctx  context.Context // of the one call it serves
}

func (s *scanned) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	if s.left <= 0 {
		return 0, errTooFar
	}
	n, err := s.r.Read(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	return n, err
}

func (f *Files) list(ctx context.Context, c *tools.Call) (v neuroscript.Value, err error) {
	path, err := pathArg(c, ".")
	if err != nil {
		return v, err
	}
	info, err := f.root.Stat(path)
	if err != nil {
		return v, fileError(path, err)
	}
	if !info.IsDir() {
		return v, neuroscript.Errorf(neuroscript.CodeToolFailed, "%s: not a directory", path)
	}
	dir, err := f.root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return v, fileError(path, err)
	}
	defer func() {
		if closing := dir.Close(); err == nil && closing != nil {
			err = fileError(path, closing)
		}
	}()
	if err := f.own.folder(dir); err != nil {
		return v, fileError(path, err)
	}
	var names []string
	for {
		if err := ctx.Err(); err != nil {
			return v, err
		}
		found, err := dir.ReadDir(512)
		for _, e := range found {
			name := strings.ToValidUTF8(e.Name(), "\uFFFD")
			if e.IsDir() {
				name += "/"
			}
			names = append(names, name)
		}
		if len(names) > MaxFileEntries {
			return v, neuroscript.Errorf(neuroscript.CodeToolFailed, "%s: more than %d entries", path, MaxFileEntries)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return v, fileError(path, err)
		}
	}
	sort.Strings(names)
	l := make([]neuroscript.Value, len(names))
	for i, n := range names {
		l[i] = neuroscript.String(n)
	}
	return neuroscript.List(l), nil
}

func (f *Files) stat(_ context.Context, c *tools.Call) (neuroscript.Value, error) {
	path, err := pathArg(c, "")
	if err != nil {
		return neuroscript.Value{}, err
	}
	info, err := f.root.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return neuroscript.Value{}, nil
	}
	if err != nil {
		return neuroscript.Value{}, fileError(path, err)
	}
	if err := f.own.looks(f.root, path, info); err != nil {
		return neuroscript.Value{}, fileError(path, err)
	}
	kind := "other"
	switch err := regular(info); {
	case err == nil:
		kind = "file"
	case errors.Is(err, errDirectory):
		kind = "directory"
	}
	return neuroscript.MapOf([]neuroscript.Entry{
		{Key: "modified", Value: neuroscript.TimeDate(info.ModTime())},
		{Key: "size", Value: neuroscript.Number(float64(info.Size()))},
		{Key: "type", Value: neuroscript.String(kind)},
	}), nil
}

// pathArg returns the path of a call, or absent if the call has none and absent is not "". A
// path whose spelling leaves the directory is denied here, with the reason; os.Root stops
// one that leaves it by a link.
func pathArg(c *tools.Call, absent string) (string, error) {
	if absent != "" && c.Arg(0).IsNil() {
		return absent, nil
	}
	path, err := c.RequireText(0, "path")
	if err != nil {
		return "", err
	}
	if path == "" || strings.IndexByte(path, 0) >= 0 {
		return "", neuroscript.Errorf(neuroscript.CodeArgument, "argument path: not a path")
	}
	if !filepath.IsLocal(path) {
		return "", neuroscript.Errorf(neuroscript.CodeDenied, "%s: outside the directory", path)
	}
	if ofUsers(path) {
		return "", denied(path)
	}
	return path, nil
}

func lineArg(c *tools.Call, i int, name string, absent int64) (int64, error) {
	v := c.Arg(i)
	if v.IsNil() {
		return absent, nil
	}
	n, ok := v.AsInt()
	if !ok || n < 1 {
		return 0, neuroscript.Errorf(neuroscript.CodeArgument, "argument %s: want an integer from 1 on", name)
	}
	return n, nil
}

// fileError returns the program's error for a path that it named, without paths of the host.
// The error of a cancelled context is returned unchanged.
func fileError(path string, err error) error {
	var why string
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, errOwn):
		return denied(path)
	case errors.Is(err, errChanged):
		why = errChanged.Error()
	case errors.Is(err, errIrregular):
		why = errIrregular.Error()
	case errors.Is(err, errDirectory):
		why = errDirectory.Error()
	case errors.Is(err, errTooLarge):
		why = errTooLarge.Error()
	case errors.Is(err, errTooFar):
		why = errTooFar.Error()
	case errors.Is(err, fs.ErrNotExist):
		why = "no such file"
	case errors.Is(err, fs.ErrClosed):
		why = "the directory has been closed"
	case errors.Is(err, fs.ErrPermission):
		why = "permission denied"
	default:
		// The refusals of os.Root have no exported error. Of the errors that remain, a
		// program can cause only that of a link that leads out.
		var pe *fs.PathError
		if errors.As(err, &pe) {
			if _, system := errors.AsType[syscall.Errno](pe.Err); !system {
				return neuroscript.Errorf(neuroscript.CodeDenied, "%s: outside the directory", path)
			}
			why = pe.Err.Error()
		} else {
			why = "cannot be read"
		}
	}
	return neuroscript.Errorf(neuroscript.CodeToolFailed, "%s: %s", path, why)
}
