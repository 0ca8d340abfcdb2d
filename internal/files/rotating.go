package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// Rotating is a log file that only its owner may read. A file that would grow beyond Max bytes
// is renamed to Path.1, the file of that name to Path.2, and so on; files after the first Keep
// are removed. The log is opened for each write, so it can also be moved away, and several
// goroutines and processes may write to it concurrently.
type Rotating struct {
	Path string
	Max  int64 // bytes; 0 is without a bound
	Keep int   // files beside the one that is written to
}

// LockSuffix is added to the name of a log for the name of its lock file.
const LockSuffix = ".lock"

// rotateWait is how long a write waits for other processes.
const rotateWait = 5 * time.Second

// Write implements io.Writer: all of p or nothing, in one file. Errors are those of the file
// system, without paths.
func (r Rotating) Write(p []byte) (n int, err error) {
	unlock, err := LockWithin(r.Path+LockSuffix, rotateWait)
	if err != nil {
		return 0, Cause(err)
	}
	defer unlock()
	f, err := r.open()
	if err != nil {
		return 0, Cause(err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return 0, Cause(err)
	}
	size := info.Size()
	if r.Max > 0 && size > 0 && size+int64(len(p)) > r.Max && info.Mode().IsRegular() {
		if err := r.shift(); err != nil {
			return 0, err
		}
		next, err := r.open()
		if err != nil {
			return 0, Cause(err)
		}
		_ = f.Close() // its writes are complete
		f, size = next, 0
	}
	if n, err = f.Write(p); err != nil {
		// A part of a line, which a full disk leaves, would spoil the next one.
		return 0, errors.Join(Cause(err), f.Truncate(size))
	}
	return n, nil
}

func (r Rotating) open() (*os.File, error) {
	return os.OpenFile(r.Path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
}

// shift renames each file to the next number, the oldest first.
func (r Rotating) shift() error {
	if r.Keep <= 0 {
		return Cause(os.Remove(r.Path))
	}
	for i := r.Keep; i > 0; i-- {
		from := r.Path
		if i > 1 {
			from = fmt.Sprintf("%s.%d", r.Path, i-1)
		}
		if err := os.Rename(from, fmt.Sprintf("%s.%d", r.Path, i)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Cause(err)
		}
	}
	return nil
}
