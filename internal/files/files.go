// Package files writes files that are whole or not there, for their owner's eyes alone,
// and makes errors of files that name no path of the host.
package files

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// Cause takes the path out of a file error: it is the host's business.
func Cause(err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// MakeDir makes a data directory with mode 0700. Errors are ERR_CONFIG.
func MakeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return &messages.Error{Code: messages.ErrConfig, Field: "dir", Detail: "cannot make the data directory", Cause: err}
	}
	return nil
}

// Create writes a new file durably, with mode 0600. A file that is there stays: the error
// is fs.ErrExist then.
func Create(path string, b []byte) error { return write(path, b, os.Link) }

// Replace writes a file durably, with mode 0600. The old one is replaced in one step: a
// crash leaves one or the other.
func Replace(path string, b []byte) error { return write(path, b, os.Rename) }

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

// Copy makes a durable copy with mode 0600. A file that is there stays: the error is
// fs.ErrExist then.
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

// CopyFrom makes a durable file of what a reader has, with mode 0600. A file that is there
// stays: the error is fs.ErrExist then.
func CopyFrom(r io.Reader, to string) error {
	return place(to, os.Link, func(f *os.File) error {
		_, err := io.Copy(f, r)
		return err
	})
}

// ErrHeld is that of a lock that another process kept for too long.
var ErrHeld = errors.New("another process holds the lock")

// until tries again and again, with growing pauses, for as long as d.
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

// place fills a temporary file beside path, syncs it, and puts it there: os.Rename
// replaces what is there, os.Link refuses to.
func place(path string, put func(from, to string) error, fill func(*os.File) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // made with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after a rename, when there is nothing left to remove
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
