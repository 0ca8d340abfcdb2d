package workspace

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

const (
	maxLines     = 1_000_000_000
	maxReadLines = 10_000 // docs/spec/cogency.md §15
	// contentBytes leaves room for a note after a cut.
	contentBytes = catalog.MaxResultBytes - 256
)

// read is the tool read: the file as it is, or numbered lines if the call has a range.
func (w *Workspace) read(ctx context.Context, c *tools.Call) (outcome, content string, err error) {
	p, start, most := c.Text(0), c.Int(1), c.Int(2)
	at, err := w.place(p)
	if err != nil {
		return "", "", err
	}
	f, _, err := w.open(at)
	if err != nil {
		return "", "", w.failed(p, err)
	}
	defer func() {
		if closing := f.Close(); err == nil && closing != nil {
			err = w.failed(p, closing)
		}
	}()
	numbered := start > 0 || most > 0
	if most == 0 {
		most = maxLines
	}
	r := pager{in: bufio.NewReaderSize(&scanned{r: f, left: MaxFileScanBytes, ctx: ctx}, 32<<10), numbered: numbered}
	if err := r.page(start, most); err != nil {
		return "", "", w.failed(p, err)
	}
	if r.line <= start && start > 0 {
		return "", "", catalog.Failed("%s: there is no line %d; it has %d lines", clip.Excerpt(p), start, r.line)
	}
	return fmt.Sprintf("Read %s (%d lines)", p, r.shown), string(r.text), nil
}

// pager reads lines of a text.
type pager struct {
	in       *bufio.Reader
	numbered bool
	text     []byte
	line     int64 // the next one
	shown    int
}

// page takes the lines from start on, at most most and as many as fit the result.
func (r *pager) page(start, most int64) error {
	for r.line < start {
		if err := r.skip(); err != nil {
			return unlessEnd(err)
		}
	}
	for int64(r.shown) < most {
		before := len(r.text)
		cut, err := r.take()
		switch {
		case errors.Is(err, io.EOF) && len(r.text) == before:
			return nil
		case err != nil && !errors.Is(err, io.EOF):
			return err
		case isBinary(r.text[before:]):
			return errBinary
		case len(r.text) > contentBytes && before > 0:
			r.text = append(r.text[:before], "[more lines follow; go on with start="+strconv.FormatInt(r.line, 10)+"]"...)
			return nil
		}
		r.line++
		r.shown++
		if cut { // one line that is longer than a result
			r.text = fmt.Appendf(r.text, "\n[line %d is longer; go on with start=%d]", r.line-1, r.line)
			return nil
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
	}
	return nil
}

func unlessEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (r *pager) skip() error {
	any := false
	for {
		piece, err := r.in.ReadSlice('\n')
		any = any || len(piece) > 0
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err == nil || errors.Is(err, io.EOF) && any {
			r.line++
		}
		return err
	}
}

// take appends a line. cut reports whether the line was too long and its end left out.
func (r *pager) take() (cut bool, err error) {
	began := false
	for {
		piece, err := r.in.ReadSlice('\n')
		if len(piece) > 0 && !began && r.numbered {
			r.text = append(strconv.AppendInt(r.text, r.line, 10), ": "...)
		}
		began = began || len(piece) > 0
		if room := contentBytes - len(r.text); len(piece) > room && r.shown == 0 {
			r.text = append(r.text, piece[:max(room, 0)]...)
			for n := 1; n < utf8.UTFMax && len(r.text) > 0; n++ { // a character that was cut
				if last, size := utf8.DecodeLastRune(r.text); last != utf8.RuneError || size != 1 {
					break
				}
				r.text = r.text[:len(r.text)-1]
			}
			return true, nil
		}
		r.text = append(r.text, piece...)
		if errors.Is(err, bufio.ErrBufferFull) {
			if len(r.text) > 2*contentBytes {
				return false, nil // page leaves this line out
			}
			continue
		}
		return false, err
	}
}

// isBinary reports whether bytes are not text: they have a zero byte, or are not UTF-8.
func isBinary(b []byte) bool { return bytes.IndexByte(b, 0) >= 0 || !utf8.Valid(b) }

// oneLineOf returns a line of a file, cut for a list of matches.
func oneLineOf(s string) string { return clip.Runes(strings.TrimSpace(s), 200) }
