// Package files writes files whole or not at all, which only their owner may read, and returns
// errors of files without paths of the host.
package files

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// Cause returns a file error without its path.
func Cause(err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// Find looks for a file of a directory, which is called what. Where it is missing, or cannot be
// looked for, that is ERR_CONFIG.
func Find(dir, name, what string) error {
	_, err := os.Stat(filepath.Join(dir, name))
	if err == nil {
		return nil
	}
	detail := "there is no " + what + " in this directory"
	if !errors.Is(err, fs.ErrNotExist) {
		detail = "the " + what + " in this directory cannot be looked for"
	}
	return &messages.Error{Code: messages.ErrConfig, Field: "dir", File: dir, Detail: detail, Cause: Cause(err)}
}

// MakeDir creates a data directory with mode 0700. Errors are ERR_CONFIG.
func MakeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return &messages.Error{Code: messages.ErrConfig, Field: "dir", Detail: "cannot make the data directory", Cause: err}
	}
	return nil
}

// Create writes a new file durably, with mode 0600. The error is fs.ErrExist if the file
// exists.
func Create(path string, b []byte) error { return write(path, b, os.Link) }

// Replace writes a file durably, with mode 0600. The old one is replaced in one step: a
// crash leaves one or the other.
func Replace(path string, b []byte) error { return write(path, b, os.Rename) }

// ReplaceWith is Replace for content that fill writes. The error is fill's, or the file system's.
func ReplaceWith(path string, fill func(io.Writer) error) error {
	return place(path, os.Rename, func(f *os.File) error { return fill(f) })
}

func write(path string, b []byte, put func(from, to string) error) error {
	err := place(path, put, func(f *os.File) error {
		_, err := f.Write(b)
		return err
	})
	if err != nil {
		return &messages.Error{Code: messages.ErrConfig, File: filepath.Base(path), Detail: "cannot write the file", Cause: err}
	}
	return nil
}

// Copy makes a durable copy with mode 0600. The error is fs.ErrExist if to exists.
func Copy(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	return place(to, os.Link, func(f *os.File) error {
		_, err := io.Copy(f, in)
		return err
	})
}

// CopyFrom writes the content of a reader to a new file durably, with mode 0600. The error is
// fs.ErrExist if the file exists.
func CopyFrom(r io.Reader, to string) error {
	return place(to, os.Link, func(f *os.File) error {
		_, err := io.Copy(f, r)
		return err
	})
}

// ErrHeld is the error of a lock that another process held for too long.
var ErrHeld = errors.New("another process holds the lock")

// until calls try repeatedly, with growing pauses, for at most d.
func until(d time.Duration, try func() (done bool, err error)) error {
	end := time.Now().Add(d)
	for pause := 50 * time.Microsecond; ; pause = min(2*pause, 10*time.Millisecond) {
		if done, err := try(); done || err != nil {
			return err
		}
		if time.Now().After(end) {
			return ErrHeld
		}
		time.Sleep(pause)
	}
}

// place fills a temporary file beside path, syncs it, and moves it to path: with os.Rename it
// replaces an existing file, with os.Link it does not.
func place(path string, put func(from, to string) error, fill func(*os.File) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // made with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after a rename, when the file is gone
	if err = fill(f); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err = put(f.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
