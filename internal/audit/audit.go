// Package audit keeps a log in which each line has the hash of the line before, and finds
// changes in such a log.
//
// One idea: a line cannot be changed, removed or inserted without changing all later lines,
// so one hash kept elsewhere proves everything before it.
//
// What holds:
//   - The chain continues over files, restarts and processes: a full file is renamed with a
//     number, and a new file follows one that was moved away.
//   - A line is written whole or not at all, under a lock of all processes. A part of a
//     line that a crash of the machine left is a line of its own, which the chain covers.
//   - A reader orders files by their hashes, not by their names.
//
// It does not sign: a program that can write the log can write all of it anew, which a hash
// kept elsewhere shows. It removes no file: the operator decides how long to keep the log.
package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/seed14be6753/stile/internal/files"
)

// Name is the name of the log in a data directory.
const Name = "audit.jsonl"

// MaxBytes is the size at which a file is put aside, unless File.Max is set.
const MaxBytes = 64 << 20

// maxLine bounds a line, in bytes.
const maxLine = 1 << 20

// HeadSuffix names, behind the log's own name, the file with the hash of the last line and
// the number of the last file that was put aside. It is the lock as well.
const HeadSuffix = ".head"

// lockTime is how long an append waits for other processes: a process that holds the lock for
// longer was stopped, and must not stop the host.
const lockTime = 5 * time.Second

// Hash returns the hash of a line that the next line must have: SHA-256, in hex.
func Hash(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:])
}

// Zero is the hash in the first line of a log.
var Zero = strings.Repeat("0", 2*sha256.Size)

func isHash(text string) bool {
	b, err := hex.DecodeString(text)
	return err == nil && len(b) == sha256.Size && strings.ToLower(text) == text
}

// File is a log. Several processes may append to one at once.
type File struct {
	Path string
	Max  int64 // bytes; 0 is MaxBytes
}

// Check reports whether the log can be appended to. It makes an empty one where there is
// none. Errors are those of the file system.
func (l File) Check() error {
	unlock, err := files.LockWithin(l.Path+HeadSuffix, lockTime)
	if err != nil {
		return err
	}
	defer unlock()
	f, err := l.open()
	if err != nil {
		return err
	}
	return f.Close()
}

func (l File) open() (*os.File, error) {
	return regular(os.OpenFile(l.Path, os.O_RDWR|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o600))
}

// regular returns an open file, and an error for one that is not regular, such as a pipe. Opened
// without blocking, a pipe waits for nothing.
func regular(f *os.File, err error) (*os.File, error) {
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: f.Name(), Err: errors.New("it is not a regular file")}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Append appends the line that entry returns, without its LF. entry gets the hash that the
// line must have. Errors are those of the file system, and entry's; then nothing was
// appended.
func (l File) Append(entry func(prev string) ([]byte, error)) error {
	unlock, err := files.LockWithin(l.Path+HeadSuffix, lockTime)
	if err != nil {
		return err
	}
	defer unlock()
	f, err := l.open()
	if err != nil {
		return err
	}
	defer func() { f.Close() }() // what was written is written
	last, n := readHead(l.Path + HeadSuffix)
	size, prev, torn, err := tail(f)
	if err != nil {
		return err
	}
	if size == 0 { // a new file: the one before was put aside or moved away
		prev = last
	}
	line, err := entry(prev)
	if err != nil {
		return err
	}
	if len(line) >= maxLine || bytes.IndexByte(line, '\n') >= 0 {
		return fmt.Errorf("a line of %d bytes cannot be logged", len(line))
	}
	limit := l.Max
	if limit <= 0 {
		limit = MaxBytes
	}
	if size > 0 && size+int64(len(line)) >= limit {
		if f, n, err = l.aside(f, n); err != nil {
			return err
		}
		size, torn = 0, false
	}
	if err := appendLine(f, size, line, torn); err != nil {
		return err
	}
	// Without it the chain is whole as long as the file stays where it is.
	_ = writeHead(l.Path+HeadSuffix, Hash(line), n)
	return nil
}

// appendLine writes a line in one write. It removes a part of a line, which a full disk
// leaves.
func appendLine(f *os.File, size int64, line []byte, torn bool) error {
	var b []byte
	if torn {
		b = append(b, '\n')
	}
	b = append(append(b, line...), '\n')
	if _, err := f.Write(b); err != nil {
		return errors.Join(err, f.Truncate(size))
	}
	return nil
}

// aside renames the file with its number and begins a new one.
func (l File) aside(f *os.File, n int64) (*os.File, int64, error) {
	for {
		n++
		to := fmt.Sprintf("%s.%06d", l.Path, n)
		switch err := os.Link(l.Path, to); { // which replaces nothing
		case errors.Is(err, fs.ErrExist):
			continue
		case err != nil:
			if link := (*os.LinkError)(nil); errors.As(err, &link) {
				err = link.Err // its paths are the host's business
			}
			return f, n, err
		}
		if err := os.Remove(l.Path); err != nil {
			return f, n, errors.Join(err, os.Remove(to))
		}
		next, err := l.open()
		if err != nil {
			return f, n, err
		}
		f.Close() // it was written to line by line
		return next, n, nil
	}
}

// tail returns the size of a file and the hash of its last line; torn reports whether the line
// lacks its LF.
func tail(f *os.File) (size int64, hash string, torn bool, err error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return 0, Zero, false, err
	}
	size = info.Size()
	for window := int64(4 << 10); ; window *= 8 {
		from := max(0, size-window)
		b := make([]byte, size-from)
		if _, err := f.ReadAt(b, from); err != nil {
			return size, "", false, err
		}
		torn = b[len(b)-1] != '\n'
		if !torn {
			b = b[:len(b)-1]
		}
		if i := bytes.LastIndexByte(b, '\n'); i >= 0 || from == 0 {
			return size, Hash(b[i+1:]), torn, nil
		}
		if window > maxLine {
			return size, "", false, fmt.Errorf("the last line has more than %d bytes", maxLine)
		}
	}
}

// readHead reads what is kept beside a log; Zero and 0 where there is nothing.
func readHead(path string) (hash string, n int64) {
	b, err := os.ReadFile(path)
	if err != nil || len(b) > 256 {
		return Zero, 0
	}
	hash, number, _ := strings.Cut(strings.TrimSpace(string(b)), " ")
	n, err = strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || !isHash(hash) {
		return Zero, 0
	}
	return hash, n
}

// writeHead writes it in place, because the file is the lock.
func writeHead(path, hash string, n int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(fmt.Appendf(nil, "%s %06d\n", hash, n), 0)
	return errors.Join(err, f.Close())
}

// Head returns the hash of the last line; Zero for a log without lines.
func (l File) Head() (string, error) {
	f, err := regular(os.OpenFile(l.Path, os.O_RDONLY|syscall.O_NONBLOCK, 0))
	if errors.Is(err, fs.ErrNotExist) {
		hash, _ := readHead(l.Path + HeadSuffix)
		return hash, nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	size, hash, _, err := tail(f)
	if err == nil && size == 0 {
		hash, _ = readHead(l.Path + HeadSuffix)
	}
	return hash, err
}

// Copy copies the log of a folder, with the files that were put aside, to another folder, and
// returns the names of the copies; none without a log. The log may be written to meanwhile.
func Copy(dir, dest string) (names []string, err error) {
	l := File{Path: filepath.Join(dir, Name)}
	if _, err := os.Lstat(l.Path + HeadSuffix); errors.Is(err, fs.ErrNotExist) {
		if err := files.Copy(l.Path, filepath.Join(dest, Name)); err == nil {
			names = append(names, Name) // of a version without a chain
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		return names, nil
	}
	f, size, head, old, err := l.hold()
	if err != nil {
		return nil, err
	}
	put := func(name string, r io.Reader) error {
		err := files.CopyFrom(r, filepath.Join(dest, name))
		if err == nil {
			names = append(names, name)
		}
		return err
	}
	if f != nil {
		defer f.Close()
		if err := put(Name, io.NewSectionReader(f, 0, size)); err != nil {
			return names, err
		}
	}
	if err := put(Name+HeadSuffix, bytes.NewReader(head)); err != nil {
		return names, err
	}
	for _, path := range old { // which do not change
		if err := files.Copy(path, filepath.Join(dest, filepath.Base(path))); err != nil {
			return names, err
		}
		names = append(names, filepath.Base(path))
	}
	return names, nil
}

// hold returns the log as it is at one moment: a file that is only appended to needs no lock
// to be read up to a size. f is nil without a file; the caller must close it.
func (l File) hold() (f *os.File, size int64, head []byte, old []string, err error) {
	unlock, err := files.LockWithin(l.Path+HeadSuffix, lockTime)
	if err != nil {
		return nil, 0, nil, nil, err
	}
	defer unlock()
	if head, err = os.ReadFile(l.Path + HeadSuffix); err != nil {
		return nil, 0, nil, nil, err
	}
	if old, err = l.old(); err != nil {
		return nil, 0, nil, nil, err
	}
	f, err = regular(os.OpenFile(l.Path, os.O_RDONLY|syscall.O_NONBLOCK, 0))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0, head, old, nil
	}
	if err != nil {
		return nil, 0, nil, nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, nil, nil, err
	}
	return f, info.Size(), head, old, nil
}

// maxFiles bounds the files of a log that are read.
const maxFiles = 10000

// old lists the files that were put aside or moved away.
func (l File) old() ([]string, error) {
	d, err := os.Open(filepath.Dir(l.Path))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	var all []string
	for {
		entries, err := d.ReadDir(256)
		for _, e := range entries {
			if rest, ok := strings.CutPrefix(e.Name(), filepath.Base(l.Path)+"."); ok && "."+rest != HeadSuffix && e.Type().IsRegular() {
				all = append(all, filepath.Join(filepath.Dir(l.Path), e.Name()))
			}
		}
		if len(all) > maxFiles {
			return nil, fmt.Errorf("the log has more than %d files", maxFiles)
		}
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
	}
}
