package target

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// maxLine bounds a line of a stream.
const maxLine = 8 << 20

// event is one of a stream of server-sent events.
type event struct {
	name, id string
	data     []byte // of the reader, until the next event
}

// events reads server-sent events.
type events struct {
	in   *bufio.Reader
	line []byte
	data []byte
}

func newEvents(in io.Reader, buffer int) *events {
	return &events{in: bufio.NewReaderSize(in, buffer)}
}

var errLine = errors.New("a line of the stream has more than 8 MiB")

// next returns the next event; io.EOF at the end of the stream.
func (e *events) next() (ev event, err error) {
	e.data = e.data[:0]
	some := false
	for {
		line, err := e.read()
		if err != nil {
			return event{}, err
		}
		if len(line) == 0 {
			if some {
				ev.data = e.data
				return ev, nil
			}
			ev = event{}
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			ev.name = string(value)
		case "id":
			ev.id = string(value)
		case "data":
			if some {
				e.data = append(e.data, '\n')
			}
			e.data = append(e.data, value...)
			some = true
			if len(e.data) > maxLine {
				return event{}, errLine
			}
		}
	}
}

// read returns a line without its end, valid until the next call.
func (e *events) read() ([]byte, error) {
	e.line = e.line[:0]
	for {
		part, err := e.in.ReadSlice('\n')
		e.line = append(e.line, part...)
		switch {
		case err == nil:
			return bytes.TrimRight(e.line, "\r\n"), nil
		case errors.Is(err, bufio.ErrBufferFull):
			if len(e.line) > maxLine {
				return nil, errLine
			}
		case errors.Is(err, io.EOF) && len(e.line) > 0:
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}
