package conform

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/messages"
)

// path runs one path of the command line.
func (r *run) path(ctx context.Context, path string) {
	info, err := os.Stat(path)
	if err != nil {
		r.unreadable(path, err)
		return
	}
	if !info.IsDir() {
		r.file(ctx, path)
		return
	}
	r.folder(ctx, path)
}

// folder runs everything below a folder. A folder named on the command line may
// be a symbolic link; links to folders inside it are not followed, because they
// can form circles, and are named instead.
func (r *run) folder(ctx context.Context, root string) {
	published := map[string]bool{}
	walk := func(path string, entry fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return fs.SkipAll
		case err != nil:
			r.unreadable(path, err)
			if entry != nil && entry.IsDir() {
				return fs.SkipDir
			}
		case entry.IsDir() && published[path]:
			return fs.SkipDir
		case entry.IsDir() && path != root && hidden(entry.Name()):
			r.ignored(path, "a hidden folder")
			return fs.SkipDir
		case entry.IsDir():
			if parts := publishedFolders(path); parts != nil {
				for _, p := range parts {
					published[p] = true
				}
				r.published(ctx, path)
			}
		case hidden(entry.Name()):
			r.ignored(path, "a hidden file")
		default:
			r.file(ctx, path)
		}
		return nil
	}
	// The separator makes the walk enter a root that is a symbolic link.
	if err := filepath.WalkDir(root+string(filepath.Separator), func(path string, entry fs.DirEntry, err error) error {
		return walk(filepath.Clean(path), entry, err)
	}); err != nil {
		r.unreadable(root, err)
	}
}

// file runs one file: as the vectors it holds, or as a note if it is none and is
// called like one.
func (r *run) file(ctx context.Context, path string) {
	b, fault := r.read(path)
	if fault != nil {
		r.problem(fault)
		return
	}
	d, fault := open(b)
	if fault != nil {
		if note(path) {
			r.ignored(path, "a note")
			return
		}
		fault.Detail = "not a strict JSON document"
		r.unsupported(path, fault)
		return
	}
	f, fault := recognise(d)
	if fault != nil {
		r.unsupported(path, fault)
		return
	}
	if formats[f].cases == nil {
		r.unsupported(path, messages.Errorf(messages.ErrConfig, "format %s is not in this release", formats[f].name))
		return
	}
	all, err := formats[f].cases(d)
	if err != nil {
		fault := faultOf(err)
		fault.File = path
		r.problem(fault)
		return
	}
	r.cases(ctx, path, f, all)
}

func (r *run) unsupported(path string, fault *messages.Error) {
	r.sum.Unsupported++
	fault.File = path
	r.problem(fault)
}

func (r *run) unreadable(path string, err error) {
	r.problem(&messages.Error{Code: messages.ErrConfig, File: path, Detail: "cannot be read", Cause: bare(err)})
}

// read reads one regular file within the limit.
func (r *run) read(path string) ([]byte, *messages.Error) {
	fault := func(err error) *messages.Error {
		return &messages.Error{Code: messages.ErrConfig, File: path, Detail: "cannot be read", Cause: bare(err)}
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fault(err)
	}
	if info.IsDir() {
		return nil, &messages.Error{Code: messages.ErrConfig, File: path, Detail: "a symbolic link to a folder is not followed"}
	}
	if !info.Mode().IsRegular() {
		return nil, &messages.Error{Code: messages.ErrConfig, File: path, Detail: "not a regular file"}
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fault(err)
	}
	b, err := io.ReadAll(io.LimitReader(file, r.limit+1))
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, fault(err)
	}
	if int64(len(b)) > r.limit {
		e := messages.Errorf(messages.ErrConfig, "larger than %d bytes", r.limit)
		e.File = path
		return nil, e
	}
	return b, nil
}

// bare leaves out the path that an error of the file system repeats.
func bare(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func hidden(name string) bool { return strings.HasPrefix(name, ".") }

// note reports whether a file that is not JSON is called like a note beside the
// vectors: Markdown or text, or a name by which licences and notices go.
func note(path string) bool {
	name := strings.ToLower(filepath.Base(path))
	ext := filepath.Ext(name)
	return slices.Contains([]string{".md", ".markdown", ".txt"}, ext) ||
		ext == "" && slices.Contains([]string{"readme", "notice", "license", "licence", "copying"}, name)
}

// faultOf adds the place to an error of decoding: the byte for a syntax error, the
// member for a value of the wrong type, whose offset would count from the case.
func faultOf(err error) *messages.Error {
	var fault *messages.Error
	var syntax *jsontext.SyntacticError
	var semantic *json.SemanticError
	switch {
	case errors.As(err, &semantic):
		place := member(semantic.JSONPointer)
		if errors.As(semantic.Err, &fault) {
			return &messages.Error{Code: fault.Code, Field: place, Detail: fault.Detail}
		}
		return &messages.Error{
			Code: messages.ErrConfig, Field: place,
			Detail: "a " + semantic.JSONKind.String() + " does not fit here", Cause: semantic.Err,
		}
	case errors.As(err, &fault):
		return fault
	case errors.As(err, &syntax):
		return &messages.Error{Code: messages.ErrConfig, Offset: syntax.ByteOffset, HasOffset: true, Cause: syntax.Err}
	}
	return &messages.Error{Code: messages.ErrConfig, Cause: err}
}

// member writes a JSON pointer as the key path that errors carry.
func member(p jsontext.Pointer) string {
	return strings.Join(slices.Collect(p.Tokens()), ".")
}
