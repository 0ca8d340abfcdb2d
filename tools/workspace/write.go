package workspace

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/aymanbagabas/go-udiff"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

const (
	previewRunes    = 200 // docs/spec/cogency.md §15
	diffContext     = 3
	maxReplaceFiles = 1000 // docs/spec/cogency.md §15
)

func (w *Workspace) write(ctx context.Context, c *tools.Call) (outcome, content string, err error) {
	p, text, overwrite := c.Text(0), c.Text(1), c.Bool(2)
	at, err := w.place(p)
	if err != nil {
		return "", "", err
	}
	if len(text) > MaxWriteBytes {
		return "", "", neuroscript.Errorf(neuroscript.CodeArgument, "argument content: more than %d bytes", MaxWriteBytes)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	info, err := w.root.Lstat(at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		info, err = nil, nil
	case err == nil && info.Mode()&fs.ModeSymlink != 0:
		err = errLink
	case err == nil:
		err = regular(info)
		if err == nil && !overwrite {
			err = errExists
		}
	}
	if err == nil {
		err = w.need(ctx, growth(int64(len(text)), info))
	}
	if err == nil && info == nil {
		err = w.makeFolders(path.Dir(at))
	}
	if err == nil {
		err = w.put(at, []byte(text), info)
	}
	if err != nil {
		return "", "", w.failed(p, err)
	}
	return fmt.Sprintf("Wrote %s (+%d/-0)", p, clip.Lines(text)), clip.Runes(text, previewRunes), nil
}

// growth returns what a folder grows by when a file gets so many bytes; was is nil for a new one.
func growth(bytes int64, was fs.FileInfo) int64 {
	if was == nil {
		return bytes + entryBytes
	}
	return bytes - was.Size()
}

// put writes data to a file, whole or not at all: the bytes go to a new file beside it that
// then takes its name. was is the existing file, whose mode is kept; if it is nil, a file that
// was created meanwhile is not replaced.
func (w *Workspace) put(at string, data []byte, was fs.FileInfo) (err error) {
	beside, err := w.beside(at, data, was)
	if err != nil {
		return err
	}
	return w.swap(beside, at, was)
}

// beside writes the bytes to a new file in the same folder and returns its name.
func (w *Workspace) beside(at string, data []byte, was fs.FileInfo) (name string, err error) {
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		return "", err
	}
	dir, err := w.parent(at)
	if err != nil {
		return "", err
	}
	defer dir.Close()
	name = ".stile-" + hex.EncodeToString(random[:])
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err == nil && was != nil {
		err = f.Chmod(was.Mode().Perm())
	}
	if err == nil {
		err = f.Sync() // otherwise a power failure could leave the name without the bytes
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, dir.Remove(name))
	}
	return path.Join(path.Dir(at), name), nil
}

// swap renames a file that beside has made to its final name.
func (w *Workspace) swap(beside, at string, was fs.FileInfo) error {
	dir, err := w.parent(at)
	if err != nil {
		return errors.Join(err, w.root.Remove(beside))
	}
	defer dir.Close()
	beside, at = path.Base(beside), path.Base(at)
	drop := func(err error) error { return errors.Join(err, dir.Remove(beside)) }
	if was == nil {
		if err := dir.Link(beside, at); err == nil || errors.Is(err, fs.ErrExist) {
			if err != nil {
				err = errExists
			}
			return drop(err)
		}
		// A file system without links: the check before is all there is.
		if _, err := dir.Lstat(at); !errors.Is(err, fs.ErrNotExist) {
			return drop(errExists)
		}
	} else if now, err := dir.Lstat(at); err != nil || !unchanged(was, now) {
		return drop(errChanged)
	}
	if err := dir.Rename(beside, at); err != nil {
		return drop(err)
	}
	return nil
}

// unchanged reports whether a file is the one that was read, with the same size and times.
func unchanged(was, now fs.FileInfo) bool {
	return os.SameFile(was, now) && was.Size() == now.Size() && was.ModTime().Equal(now.ModTime())
}

func (w *Workspace) edit(ctx context.Context, c *tools.Call) (outcome, content string, err error) {
	p, before, after := c.Text(0), c.Text(1), c.Text(2)
	at, err := w.place(p)
	if err != nil {
		return "", "", err
	}
	if before == "" {
		return "", "", catalog.Failed("%s: old is empty; say what to replace", clip.Excerpt(p))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	text, info, err := w.original(ctx, at)
	if err != nil {
		return "", "", w.failed(p, err)
	}
	switch n := strings.Count(text, before); n {
	case 0:
		return "", "", catalog.Failed("%s: old is not in it; it must match exactly, white space too", clip.Excerpt(p))
	case 1:
	default:
		return "", "", catalog.Failed("%s: old is in it %d times; take more of the text around it", clip.Excerpt(p), n)
	}
	changed := strings.Replace(text, before, after, 1)
	if len(changed) > MaxWriteBytes {
		return "", "", catalog.Failed("%s: it would have more than %d bytes", clip.Excerpt(p), MaxWriteBytes)
	}
	diff, added, removed, err := unified(p, text, changed)
	if err != nil {
		return "", "", err
	}
	err = w.need(ctx, int64(len(changed)-len(text)))
	if err == nil {
		err = w.put(at, []byte(changed), info)
	}
	if err != nil {
		return "", "", w.failed(p, err)
	}
	return fmt.Sprintf("Edited %s (+%d/-%d)", p, added, removed), clip.Bytes(diff, catalog.MaxResultBytes, ""), nil
}

// original reads a file before a change.
func (w *Workspace) original(ctx context.Context, at string) (string, fs.FileInfo, error) {
	if info, err := w.root.Lstat(at); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		return "", nil, errLink
	}
	return w.text(ctx, at)
}

// unified returns the unified diff of two texts, and how many lines it adds and removes.
func unified(name, before, after string) (diff string, added, removed int, err error) {
	diff, err = udiff.ToUnified(name, name, before, udiff.Lines(before, after), diffContext)
	if err != nil {
		return "", 0, 0, err
	}
	_, body, _ := strings.Cut(diff, "\n@@") // behind the names, which begin with - and +
	for line := range strings.Lines(body) {
		switch line[0] {
		case '+':
			added++
		case '-':
			removed++
		}
	}
	return diff, added, removed, nil
}

// change is a file that replace will write.
type change struct {
	at, before, after string
	info              fs.FileInfo
	hits              int
	beside            string
}

func (w *Workspace) replace(ctx context.Context, c *tools.Call) (outcome, content string, err error) {
	sub, err := substitution(c.Text(1), c.Text(2), c.Bool(3))
	if err != nil {
		return "", "", err
	}
	glob, err := newGlob(c.Text(0))
	if err != nil {
		return "", "", err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	changes, err := w.changes(ctx, glob, sub)
	if err != nil {
		return "", "", err
	}
	var counts, diffs strings.Builder
	total := 0
	for i := range changes {
		ch := &changes[i]
		total += ch.hits
		fmt.Fprintf(&counts, "%s: %d\n", w.name(ch.at), ch.hits)
		if diffs.Len() < catalog.MaxResultBytes {
			diff, _, _, err := unified(w.name(ch.at), ch.before, ch.after)
			if err != nil {
				return "", "", err
			}
			diffs.WriteString(diff)
		}
	}
	more := 0
	for i := range changes {
		more += len(changes[i].after) - len(changes[i].before)
	}
	if err := w.need(ctx, int64(more)); err != nil {
		return "", "", err
	}
	if err := w.apply(changes); err != nil {
		return "", "", err
	}
	return fmt.Sprintf("Replaced %d in %d files", total, len(changes)), clip.Bytes(counts.String()+"\n"+diffs.String(), catalog.MaxResultBytes, ""), nil
}

// substitution returns the function that replace applies to each text.
func substitution(before, after string, exact bool) (func(string) (string, int, error), error) {
	if before == "" {
		return nil, catalog.Failed("old is empty; say what to replace")
	}
	if exact {
		return func(text string) (string, int, error) {
			n := strings.Count(text, before)
			if n > 1 {
				return "", n, fmt.Errorf("old is in it %d times; take more of the text around it, or exact false", n)
			}
			return strings.Replace(text, before, after, 1), n, nil
		}, nil
	}
	re, err := regexp.Compile(before)
	if err != nil {
		return nil, neuroscript.Errorf(neuroscript.CodeArgument, "argument old: %s", clip.Excerpt(strings.TrimPrefix(err.Error(), "error parsing regexp: ")))
	}
	if err := checkGroups(re, after); err != nil {
		return nil, err
	}
	return func(text string) (string, int, error) {
		var out []byte
		from, n := 0, 0
		for _, m := range re.FindAllStringSubmatchIndex(text, -1) {
			out = append(out, text[from:m[0]]...)
			out = re.ExpandString(out, after, text, m)
			from = m[1]
			n++
			if len(out) > MaxWriteBytes {
				return "", n, fmt.Errorf("it would have more than %d bytes", MaxWriteBytes)
			}
		}
		if out = append(out, text[from:]...); !utf8.Valid(out) {
			return "", n, errors.New("it would be no text any more")
		}
		return string(out), n, nil
	}, nil
}

// groupName matches what ExpandString takes for the name of a group.
var groupName = regexp.MustCompile(`\$\$|\$([\pL\p{Nd}_]+)|\$\{([\pL\p{Nd}_]+)\}`)

// checkGroups refuses a replacement that names a group which old does not have: in $1x the
// name is 1x, and the result would be empty.
func checkGroups(re *regexp.Regexp, after string) error {
	for _, m := range groupName.FindAllStringSubmatch(after, -1) {
		name := m[1] + m[2]
		if name == "" || re.SubexpIndex(name) >= 0 {
			continue
		}
		if n, err := strconv.Atoi(name); err == nil && n <= re.NumSubexp() && strconv.Itoa(n) == name {
			continue
		}
		return neuroscript.Errorf(neuroscript.CodeArgument, "argument new: old has no group %s; write ${1} before a letter or digit, and $$ for one $", clip.Excerpt(name))
	}
	return nil
}

// changes reads all files and returns their new texts; it writes nothing.
func (w *Workspace) changes(ctx context.Context, glob *glob, sub func(string) (string, int, error)) ([]change, error) {
	var found []change
	kept := 0
	from, err := w.base()
	if err != nil {
		return nil, err
	}
	err = w.walk(ctx, from, func(at string, info fs.DirEntry) error {
		if !info.Type().IsRegular() || !glob.match(at, below(from, at)) {
			return nil
		}
		text, was, err := w.text(ctx, at)
		if errors.Is(err, errBinary) || errors.Is(err, errEditSize) || errors.Is(err, errOwn) {
			return nil // find does not show the file either
		}
		if err != nil {
			return w.failed(w.name(at), err)
		}
		after, n, err := sub(text)
		switch {
		case err != nil:
			return catalog.Failed("%s: %s; nothing was changed", clip.Excerpt(w.name(at)), err)
		case n == 0:
			return nil
		case len(after) > MaxWriteBytes:
			return catalog.Failed("%s: it would have more than %d bytes; nothing was changed", clip.Excerpt(w.name(at)), MaxWriteBytes)
		case len(found) == maxReplaceFiles:
			return catalog.Failed("more than %d files; nothing was changed", maxReplaceFiles)
		}
		if kept += len(text) + len(after); kept > maxWalkReadBytes {
			return catalog.Failed("the files have more than %d bytes together; nothing was changed", maxWalkReadBytes)
		}
		found = append(found, change{at: at, before: text, after: after, info: was, hits: n})
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, catalog.Failed("old is in no file that matches %s", clip.Excerpt(glob.text))
	}
	return found, nil
}

// apply writes all changes or none: all new files are complete before the first takes its
// name, and if a later one fails, the earlier ones get their old bytes back.
func (w *Workspace) apply(changes []change) error {
	var failure error
	done := 0
	for i := range changes {
		ch := &changes[i]
		if ch.beside, failure = w.beside(ch.at, []byte(ch.after), ch.info); failure != nil {
			failure = w.failed(w.name(ch.at), failure)
			break
		}
	}
	for ; failure == nil && done < len(changes); done++ {
		ch := &changes[done]
		if err := w.swap(ch.beside, ch.at, ch.info); err != nil {
			failure = w.failed(w.name(ch.at), err)
			break
		}
		ch.beside = ""
	}
	if failure == nil {
		return nil
	}
	for i := range changes {
		if ch := &changes[i]; ch.beside != "" {
			_ = w.root.Remove(ch.beside) // swap may have removed it already
		}
	}
	for i := range changes[:done] {
		ch := &changes[i]
		now, err := w.root.Lstat(ch.at)
		if err == nil {
			err = w.put(ch.at, []byte(ch.before), now)
		}
		if err != nil {
			return catalog.Failed("%s; and %s could not be set back", failure, clip.Excerpt(w.name(ch.at)))
		}
	}
	return catalog.Failed("%s; nothing was changed", failure)
}
