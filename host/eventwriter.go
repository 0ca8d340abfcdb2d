package host

import (
	"bytes"
	"net/http"
	"sync"
	"time"

	"github.com/seed14be6753/stile"
)

// eventWriter writes server-sent events, and a comment whenever nothing was written
// for a heartbeat. Each write has a deadline. Its methods are safe for concurrent use.
type eventWriter struct {
	ctl *http.ResponseController
	w   http.ResponseWriter

	mu    sync.Mutex
	buf   bytes.Buffer
	line  []byte
	err   error // of the first write that failed; it sticks
	over  bool
	timer *time.Timer
}

func newEventWriter(w http.ResponseWriter) *eventWriter {
	return &eventWriter{w: w, ctl: http.NewResponseController(w)}
}

// begin sends the head of the answer, so that the client knows the stream is open, and
// how long to wait before it comes back.
func (e *eventWriter) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.timer = time.AfterFunc(heartbeat, e.beat)
	e.buf.WriteString("retry: 1000\n\n")
	e.send()
}

func (e *eventWriter) beat() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over || e.err != nil {
		return
	}
	e.buf.WriteString(": heartbeat\n\n")
	e.send()
}

// stop ends the heartbeat; nothing is written after it.
func (e *eventWriter) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.over = true
	if e.timer != nil {
		e.timer.Stop()
	}
}

func (e *eventWriter) update(u stile.Update) (err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.line, err = stile.AppendUpdate(e.line[:0], u); err != nil {
		return err
	}
	name := "delta"
	switch {
	case u.Record != nil:
		name = string(u.Record.Body.Kind())
	case u.Delta.Retract:
		name = "retract"
	}
	appendEvent(&e.buf, name, u.At.String(), e.line)
	return e.send()
}

func (e *eventWriter) event(name, id string, data []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	appendEvent(&e.buf, name, id, data)
	_ = e.send() // it is the last one: nobody is left to hear of a failure
}

// send writes what is in the buffer, with the lock held.
func (e *eventWriter) send() error {
	if e.err == nil {
		e.err = e.ctl.SetWriteDeadline(time.Now().Add(writeTimeout))
	}
	if e.err == nil {
		_, e.err = e.w.Write(e.buf.Bytes())
	}
	if e.err == nil {
		e.err = e.ctl.Flush()
	}
	e.buf.Reset()
	if e.buf.Cap() > maxKept {
		e.buf, e.line = bytes.Buffer{}, nil
	}
	if e.err == nil {
		e.timer.Reset(heartbeat)
	}
	return e.err
}

// maxKept bounds the buffers that a quiet stream holds on to.
const maxKept = 4 << 10
