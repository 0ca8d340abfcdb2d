package forward

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"time"
)

// Response is the answer to a client whose request may take several attempts: what an attempt writes
// that is not the last is dropped, and server-sent events are passed on whole.
type Response struct {
	http.ResponseWriter
	head    http.Header // of the attempt
	discard func() bool // what the attempt writes is not for the client
	begun   bool
	stream  bool
	events  Events
	edit    func(whole []byte) []byte // or nil
}

// NewResponse returns the answer that w writes.
func NewResponse(w http.ResponseWriter) *Response {
	return &Response{ResponseWriter: w, head: w.Header().Clone()}
}

// Attempt begins another attempt. What is written is dropped while discard says so; it may be nil.
func (p *Response) Attempt(discard func() bool) { p.discard = discard }

// Edit has the events of a stream pass through f, which returns what the client is sent of them. f gets
// them whole and in their order.
func (p *Response) Edit(f func(whole []byte) []byte) { p.edit = f }

// Again says that another host goes on with the stream: the beginning of an event whose end never came
// is dropped.
func (p *Response) Again() { p.events.rest = nil }

// Reset forgets the head that an attempt made which was not the last.
func (p *Response) Reset() { p.head = p.ResponseWriter.Header().Clone() }

// Begun reports whether the client has been sent an answer.
func (p *Response) Begun() bool { return p.begun }

// Streams reports whether the client has been sent the head of server-sent events.
func (p *Response) Streams() bool { return p.stream }

// LastID returns the id of the last whole event that was passed on.
func (p *Response) LastID() string { return p.events.Last }

// Adopt makes the head of another host's answer this one's, but for what this host says of every
// answer. It returns the attempt's head.
func (p *Response) Adopt(h http.Header) http.Header {
	Drop(h)
	for name, values := range h {
		if p.ResponseWriter.Header()[name] == nil {
			p.head[name] = values
		}
	}
	return p.head
}

// SetReadDeadline does nothing: the body was read before the first attempt, and what would meet the
// deadline is the read that notices when the client goes. The request would end as if it had.
func (p *Response) SetReadDeadline(time.Time) error { return nil }

// Header implements http.ResponseWriter.
func (p *Response) Header() http.Header {
	if p.begun {
		return p.ResponseWriter.Header()
	}
	return p.head
}

func (p *Response) dropping() bool { return !p.begun && p.discard != nil && p.discard() }

// WriteHeader implements http.ResponseWriter.
func (p *Response) WriteHeader(status int) {
	if p.begun || p.dropping() {
		return
	}
	h := p.ResponseWriter.Header()
	for name, values := range p.head {
		h[name] = values
	}
	if status >= http.StatusOK {
		p.begun, p.stream = true, strings.HasPrefix(h.Get("Content-Type"), "text/event-stream")
	}
	p.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (p *Response) Write(b []byte) (int, error) {
	if p.dropping() {
		return len(b), nil
	}
	p.WriteHeader(http.StatusOK)
	if !p.stream {
		return p.ResponseWriter.Write(b)
	}
	whole, err := p.events.Whole(b)
	if err == nil && p.edit != nil && len(whole) > 0 {
		whole = p.edit(whole)
	}
	if err == nil && len(whole) > 0 {
		_, err = p.ResponseWriter.Write(whole)
	}
	return len(b), err
}

// FlushError is what http.ResponseController flushes with.
func (p *Response) FlushError() error {
	if p.dropping() {
		return nil
	}
	return http.NewResponseController(p.ResponseWriter).Flush()
}

// Unwrap is for http.ResponseController.
func (p *Response) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// Recorder keeps an answer.
type Recorder struct {
	Status int
	Body   bytes.Buffer
	Head   http.Header
}

// Header implements http.ResponseWriter.
func (m *Recorder) Header() http.Header {
	if m.Head == nil {
		m.Head = http.Header{}
	}
	return m.Head
}

// WriteHeader implements http.ResponseWriter.
func (m *Recorder) WriteHeader(status int) { m.Status = status }

// Write implements http.ResponseWriter.
func (m *Recorder) Write(p []byte) (n int, err error) { return m.Body.Write(p) }

// Events passes server-sent events on, each whole or not at all, and knows the id of the last one.
type Events struct {
	Last string // id
	rest []byte
}

// maxEvent bounds an event that has not ended.
const maxEvent = 16 << 20

// ErrLong means that an event is longer than events are.
var ErrLong = errors.New("forward: an event without an end")

// Whole takes what came, and returns the events that are whole by now. What it returns is good
// until the next call.
func (e *Events) Whole(p []byte) ([]byte, error) {
	all := p
	if len(e.rest) > 0 {
		all = append(e.rest, p...)
	}
	end := bytes.LastIndex(all, endOfEvent) + len(endOfEvent)
	if end < len(endOfEvent) {
		if len(all) > maxEvent {
			return nil, ErrLong
		}
		e.rest = append(e.rest, p...)
		return nil, nil
	}
	whole := all[:end:end]
	e.rest = bytes.Clone(all[end:])
	// Data is one line, so a line's end in it is followed by the next line. whole ends with one.
	id, some := bytes.CutPrefix(whole, idLine[1:])
	if i := bytes.LastIndex(whole, idLine); i >= 0 {
		id, some = whole[i+len(idLine):], true
	}
	if some {
		e.Last = string(id[:bytes.IndexByte(id, '\n')])
	}
	return whole, nil
}

var endOfEvent, idLine = []byte("\n\n"), []byte("\nid: ")
