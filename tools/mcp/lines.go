package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// lines reads the messages among the lines of a program's standard output. The protocol
// allows nothing else there, but programs greet, log and warn, and so do the launchers in
// front of them; the SDK would end the connection for it.
type lines struct {
	src   io.ReadCloser
	buf   *bufio.Reader
	rest  []byte            // of a message, for the next Read
	stray func(line []byte) // gets what is no message; line is not kept
}

func newLines(src io.ReadCloser, stray func(line []byte)) *lines {
	return &lines{src: src, buf: bufio.NewReaderSize(src, 64<<10), stray: stray}
}

var errLongLine = errors.New("a line of its standard output is too long")

// Read implements io.Reader. It gives no two messages at once.
func (l *lines) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		line, err := l.line()
		switch own := bytes.TrimSpace(line); {
		case isMessage(own):
			l.rest = append(own, '\n') // over the end that it had
		case err != nil && !errors.Is(err, io.EOF):
			return 0, err
		case len(own) > 0:
			l.stray(own)
		}
		if err != nil && len(l.rest) == 0 {
			return 0, err
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// line is the next line, which the reading of another may overwrite. The last may lack
// its end.
func (l *lines) line() ([]byte, error) {
	line, err := l.buf.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	long := bytes.Clone(line)
	for errors.Is(err, bufio.ErrBufferFull) {
		if line, err = l.buf.ReadSlice('\n'); len(long)+len(line) > maxMessageBytes {
			return nil, errLongLine
		}
		long = append(long, line...)
	}
	return long, err
}

// Close implements io.Closer.
func (l *lines) Close() error { return l.src.Close() }

// isMessage reports whether a line is for the SDK: an object with the key jsonrpc, a batch
// of such, or what may have been one before it was damaged. Who waits for its answer
// would wait in vain if that were dropped.
func isMessage(line []byte) bool {
	if len(line) == 0 || line[0] != '{' {
		return bytes.HasPrefix(line, []byte("[")) && bytes.HasPrefix(bytes.TrimSpace(line[1:]), []byte("{")) && mentions(line)
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(line), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	_, err := d.ReadToken()
	for err == nil && d.PeekKind() == '"' {
		var key jsontext.Token
		if key, err = d.ReadToken(); err == nil && key.String() == "jsonrpc" {
			return true
		}
		if err == nil {
			err = d.SkipValue()
		}
	}
	if err == nil {
		_, err = d.ReadToken() // the end of the object, if it is one
	}
	return err != nil && mentions(line)
}

func mentions(line []byte) bool { return bytes.Contains(line, []byte(`"jsonrpc"`)) }
