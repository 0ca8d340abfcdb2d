package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// lines reads the messages among the lines of a program's standard output. The protocol
// allows nothing else there, but programs and their launchers greet, log and warn on it, for
// which the SDK would end the connection.
type lines struct {
	src   io.ReadCloser
	buf   *bufio.Reader
	rest  []byte            // of a message, for the next Read
	stray func(line []byte) // gets lines that are no messages; it must not keep line
}

func newLines(src io.ReadCloser, stray func(line []byte)) *lines {
	return &lines{src: src, buf: bufio.NewReaderSize(src, 64<<10), stray: stray}
}

var errLongLine = errors.New("a line of its standard output is too long")

// Read implements io.Reader. It returns at most one message at a time.
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

// line returns the next line, valid until the next call. The last line may lack its LF.
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

// isMessage reports whether a line is for the SDK: an object with the key jsonrpc, a batch of
// such, or a damaged line that may have been one. If a damaged answer were dropped, its call
// would wait in vain.
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
