package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// A Place in a log is in front of a line: File is the number that the line's file has, or will have
// when it is put aside. The zero place is behind the last line.
type Place struct {
	File   int64
	Offset int64
}

// String is what ParsePlace takes.
func (p Place) String() string { return fmt.Sprintf("%d-%d", p.File, p.Offset) }

// ParsePlace reads a place.
func ParsePlace(s string) (p Place, ok bool) {
	file, offset, _ := strings.Cut(s, "-")
	var bad, worse error
	p.File, bad = strconv.ParseInt(file, 10, 64)
	p.Offset, worse = strconv.ParseInt(offset, 10, 64)
	return p, bad == nil && worse == nil && p.File > 0 && p.Offset >= 0
}

// Back passes the lines in front of a place to each, the last one first and without its end, until
// each returns false, the log begins, or some bytes were read: most, and the rest of a line.
// It returns the place to go on at; ok is false where nothing lies in front of it. The log begins
// behind a file that was moved away.
func (l File) Back(from Place, most int, each func(line []byte) bool) (next Place, ok bool, err error) {
	most = max(most, maxLine)
	for most > 0 {
		f, number, size, err := l.at(from.File)
		if errors.Is(err, fs.ErrNotExist) {
			return Place{}, false, nil
		}
		if err != nil {
			return Place{}, false, err
		}
		if from.File == 0 {
			from = Place{number, size}
		}
		from.Offset = min(from.Offset, size)
		start := max(0, from.Offset-int64(most))
		window := make([]byte, from.Offset-start)
		_, err = f.ReadAt(window, start)
		if err = errors.Join(err, f.Close()); err != nil {
			return Place{}, false, err
		}
		most -= len(window)
		for len(window) > 0 {
			line := bytes.TrimSuffix(window, []byte("\n"))
			begin := bytes.LastIndexByte(line, '\n') + 1
			if begin == 0 && start > 0 {
				if len(window) >= maxLine {
					from.Offset = start // no entry is as long
				}
				break // the line begins in front of the window
			}
			from.Offset = start + int64(begin)
			goOn := each(line[begin:])
			if window = window[:begin]; !goOn {
				return from, from.Offset > 0 || from.File > 1, nil
			}
		}
		if from.Offset > 0 {
			return from, true, nil
		}
		if from.File == 1 {
			return Place{}, false, nil
		}
		if from = (Place{from.File - 1, 1 << 62}); most <= 0 {
			return from, true, nil
		}
	}
	return from, true, nil
}

// at opens the file of a number, or the one that is written to for 0.
func (l File) at(number int64) (f *os.File, is, size int64, err error) {
	for {
		_, n := readHead(l.Path + HeadSuffix)
		path := l.Path
		switch {
		case number == 0 || number == n+1:
			is = n + 1
		default:
			is, path = number, fmt.Sprintf("%s.%06d", l.Path, number)
		}
		f, err := regular(os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0))
		if err != nil {
			return nil, 0, 0, err
		}
		if _, now := readHead(l.Path + HeadSuffix); now != n { // it was put aside meanwhile
			if err := f.Close(); err != nil {
				return nil, 0, 0, err
			}
			continue
		}
		info, err := f.Stat()
		if err != nil {
			return nil, 0, 0, errors.Join(err, f.Close())
		}
		return f, is, info.Size(), nil
	}
}
