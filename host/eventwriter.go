package host

import (
	"bytes"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// eventWriter writes events in a form, server-sent or messages of a WebSocket, and a
// heartbeat whenever nothing was written for one. Each write has a deadline. Its methods
// are safe for concurrent use.
type eventWriter struct {
	form eventForm

	mu    sync.Mutex
	buf   bytes.Buffer
	line  []byte
	err   error  // of the first write that failed; it sticks
	cut   func() // ends the updates
	over  bool
	wrote time.Time // when something was written last
	timer *time.Timer
}

// eventForm is how events go over the wire.
type eventForm interface {
	// frame appends an event; data is one line of JSON.
	frame(buf *bytes.Buffer, name, id string, data []byte)
	// beat appends a heartbeat.
	beat(buf *bytes.Buffer)
	// write sends what was appended, with writeTimeout or a little more to do it. With last it may
	// leave that to the end of the answer, which comes at once.
	write(p []byte, last bool) error
	// joins reports whether several events may be sent at once.
	joins() bool
}

func newEventWriter(w http.ResponseWriter, cut func()) *eventWriter {
	return newEventWriterTo(&serverSent{w: w, ctl: http.NewResponseController(w)}, cut)
}

func newEventWriterTo(form eventForm, cut func()) *eventWriter {
	return &eventWriter{form: form, cut: cut}
}

// serverSent is the form of an answer that streams.
type serverSent struct {
	ctl *http.ResponseController
	w   http.ResponseWriter
}

func (*serverSent) frame(buf *bytes.Buffer, name, id string, data []byte) {
	appendEvent(buf, name, id, data)
}

func (*serverSent) beat(buf *bytes.Buffer) { buf.WriteString(": heartbeat\n\n") }

func (*serverSent) joins() bool { return true }

func (s *serverSent) write(p []byte, last bool) error {
	if _, err := s.w.Write(p); err != nil || last {
		return err
	}
	return s.ctl.Flush()
}

// begin begins the answer. The client is told how long to wait before it comes back with the first
// events, or by the first flush when there are none.
func (e *eventWriter) begin() { e.start("retry: 1000\n\n") }

// start begins the answer with a first line of its own, which goes out with what is sent next.
func (e *eventWriter) start(first string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.timer = time.AfterFunc(heartbeat, e.beat)
	e.buf.WriteString(first)
}

// failed reports whether nothing reaches the client any more.
func (e *eventWriter) failed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err != nil
}

func (e *eventWriter) beat() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over || e.err != nil {
		return
	}
	// What is written leaves the timer alone: a stream writes often, and beats seldom.
	if quiet := time.Since(e.wrote); quiet < heartbeat {
		e.timer.Reset(heartbeat - quiet)
		return
	}
	e.form.beat(&e.buf)
	if e.send(false) == nil {
		e.timer.Reset(heartbeat)
	}
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

// tell appends an event, which flush sends.
func (e *eventWriter) tell(t told) (err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if t.simple != nil {
		// The name of an event is what an EventSource listens to, and this one it has anyway.
		line := bytes.NewBuffer(e.line[:0])
		to := json.NewEncoder(line)
		to.SetEscapeHTML(false)
		if err = to.Encode(t.simple); err != nil {
			return err
		}
		e.line = line.Bytes()
		e.form.frame(&e.buf, "message", t.simple.ID, bytes.TrimSuffix(e.line, []byte("\n")))
		return e.sendSoon()
	}
	u := t.update
	if e.line, err = stile.AppendUpdate(e.line[:0], u); err != nil {
		return err
	}
	name := "delta"
	switch {
	case u.Record != nil:
		name = string(u.Record.Body.Kind())
	case u.Delta.Retract:
		name = "retract"
	case u.Delta.Kind == messages.KindProgress:
		name = messages.KindProgress
	}
	e.form.frame(&e.buf, name, u.At.String(), e.line)
	return e.sendSoon()
}

// sendSoon sends what is in the buffer when there is enough of it, with the lock held.
func (e *eventWriter) sendSoon() error {
	if e.form.joins() && e.buf.Len() < maxJoined {
		return e.err
	}
	return e.send(false)
}

// flush sends the updates that are still here. Who cannot take them gets no more.
func (e *eventWriter) flush() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.buf.Len() > 0 && e.send(false) != nil {
		e.cut()
	}
}

// last sends the updates that are still here, behind which the answer ends at once.
func (e *eventWriter) last() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.buf.Len() > 0 {
		_ = e.send(true) // there is no more that a client could miss
	}
}

func (e *eventWriter) event(name, id string, data []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.form.frame(&e.buf, name, id, data)
	_ = e.send(false) // it sticks: failed tells of it
}

// send writes what is in the buffer, with the lock held. With last the answer ends behind it.
func (e *eventWriter) send(last bool) error {
	if e.err == nil {
		e.wrote = time.Now()
		e.err = e.form.write(e.buf.Bytes(), last)
	}
	e.buf.Reset()
	if e.buf.Cap() > maxKept {
		e.buf, e.line = bytes.Buffer{}, nil
	}
	return e.err
}

// maxKept bounds the buffers that a quiet stream holds on to.
const maxKept = 4 << 10

// maxJoined is how much is joined before it is sent: the events of a short turn.
const maxJoined = 16 << 10
