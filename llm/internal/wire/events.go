package wire

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// DefaultMaxEventBytes bounds one event. The largest real ones repeat the whole reply
// at its end.
const DefaultMaxEventBytes = 4 << 20

// errOversized ends a stream with an event over its bound.
var errOversized = errors.New("an event is over its bound")

// Event is one server-sent event. Data joins the event's data lines by LF, and is
// valid until the next call of Next.
type Event struct {
	Name string
	Data []byte
	// Loose reports whether the stream ended without the blank line that ends an event, so
	// that Data may be cut.
	Loose bool
}

// Reader reads an event stream (WHATWG HTML, "Server-sent events"): lines end in LF,
// CR LF or CR, comments and unknown fields are skipped, events without data too.
type Reader struct {
	br    *bufio.Reader
	max   int
	line  []byte // a line that is longer than br's buffer
	data  []byte
	name  string
	last  string // the last name
	some  bool   // the event has a data line
	cr    bool   // the last line ended in CR: an LF that follows belongs to it
	begun bool   // a byte order mark was looked for
	over  bool
}

// NewReader reads events of at most max bytes each, 0 for DefaultMaxEventBytes.
func NewReader(r io.Reader, max int) *Reader {
	if max <= 0 {
		max = DefaultMaxEventBytes
	}
	return &Reader{br: bufio.NewReaderSize(r, 4096), max: max}
}

// Next returns the next event. The error is io.EOF at the end of the stream, errOversized, or
// that of reading.
func (r *Reader) Next() (Event, error) {
	r.data, r.name, r.some = r.data[:0], "", false
	for !r.over {
		line, err := r.readLine()
		if err != nil && !errors.Is(err, io.EOF) {
			return Event{}, err
		}
		r.over = err != nil
		if len(line) == 0 && !r.over {
			if r.some {
				return Event{Name: r.name, Data: r.data}, nil
			}
			r.name = ""
			continue
		}
		if err := r.field(line); err != nil {
			return Event{}, err
		}
	}
	if r.some {
		r.some = false
		return Event{Name: r.name, Data: r.data, Loose: true}, nil
	}
	return Event{}, io.EOF
}

func (r *Reader) field(line []byte) error {
	key, value, _ := bytes.Cut(line, []byte(":"))
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	switch string(key) {
	case "event":
		if string(value) != r.last {
			r.last = string(value) // mostly that of the event before
		}
		r.name = r.last
	case "data":
		if len(r.data)+len(value)+1 > r.max {
			return errOversized
		}
		if r.some {
			r.data = append(r.data, '\n')
		}
		r.data, r.some = append(r.data, value...), true
	}
	return nil
}

// readLine returns a line without its end, valid until the next call; with io.EOF it returns
// the rest of the last line.
func (r *Reader) readLine() ([]byte, error) {
	r.line = r.line[:0]
	for {
		if _, err := r.br.Peek(1); err != nil {
			return r.line, err
		}
		b, _ := r.br.Peek(r.br.Buffered())
		if !r.begun {
			if mark := []byte("\ufeff"); len(b) < len(mark) && bytes.HasPrefix(mark, b) {
				if _, err := r.br.Peek(len(b) + 1); err == nil {
					continue
				}
			} else if bytes.HasPrefix(b, mark) {
				r.discard(len(mark))
				r.begun = true
				continue
			}
			r.begun = true
		}
		if r.cr {
			r.cr = false
			if b[0] == '\n' {
				r.discard(1)
				continue
			}
		}
		i := bytes.IndexAny(b, "\r\n")
		if i < 0 {
			if len(r.line)+len(b) > r.max {
				return nil, errOversized
			}
			r.line = append(r.line, b...)
			r.discard(len(b))
			continue
		}
		r.cr = b[i] == '\r'
		line := b[:i]
		if len(r.line) > 0 {
			if len(r.line)+i > r.max {
				return nil, errOversized
			}
			r.line = append(r.line, line...)
			line = r.line
		}
		r.discard(i + 1) // leaves the bytes where they are until the next fill
		return line, nil
	}
}

// discard drops n bytes that are in the buffer.
func (r *Reader) discard(n int) {
	if _, err := r.br.Discard(n); err != nil {
		panic("wire: " + err.Error()) // they were peeked at
	}
}
