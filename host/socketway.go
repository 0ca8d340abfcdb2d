package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/coder/websocket"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile/host/internal/conns"
	"github.com/seed14be6753/stile/host/internal/forward"
	"github.com/seed14be6753/stile/messages"
)

// A WebSocket for the events of a session is opened by the host that the client is connected to, for
// the life of the client. Behind it is a stream of server-sent events, here or at another host, that
// goes on where the session goes.

// socket answers a request for a stream that comes with an upgrade; t is its way.
func (c *cluster) socket(w http.ResponseWriter, r *http.Request, t *proxy) {
	ctx, gone := context.WithCancel(r.Context())
	defer gone()
	plain := r.Clone(ctx)
	if token := bearer(r); token != "" {
		plain.Header.Set("Authorization", "Bearer "+token)
	}
	for name := range plain.Header {
		if name == "Upgrade" || name == "Connection" || strings.HasPrefix(name, "Sec-Websocket-") {
			plain.Header.Del(name)
		}
	}
	a := &socketAnswer{s: c.s, w: w, r: r, gone: gone, head: w.Header().Clone()}
	t.w, t.r = forward.NewResponse(a), plain
	defer a.close()
	defer func() {
		why := recover()
		if err, ok := why.(error); a.conn == nil && why != nil || why != nil && (!ok || !errors.Is(err, http.ErrAbortHandler)) {
			panic(why)
		}
		if why != nil {
			_ = a.event("leaving", "", []byte(`{"detail":"no host runs the session at the moment; come back with the last id"}`))
		}
	}()
	t.serve()
}

// socketAnswer is the client of a stream of events, behind whom is a WebSocket. An answer that is no
// stream is one without an upgrade.
type socketAnswer struct {
	s       *Server
	w       http.ResponseWriter
	r       *http.Request
	gone    context.CancelFunc // ends the stream
	head    http.Header
	begun   bool
	streams bool // it is a stream of events

	conn   *websocket.Conn // nil before it is open
	form   socketForm
	read   chan struct{}   // closed when nothing is read any more
	stop   func()          // ends reading
	over   context.Context // of the connection
	spoke  atomic.Bool
	last   string // event of those that end a stream: leaving or problem
	denied bool   // the problem is that of a right that was lost
}

// Header implements http.ResponseWriter.
func (a *socketAnswer) Header() http.Header { return a.head }

// WriteHeader implements http.ResponseWriter.
func (a *socketAnswer) WriteHeader(status int) {
	if a.begun || status < http.StatusOK {
		return
	}
	a.begun = true
	if status == http.StatusOK || status == http.StatusNoContent { // there it is the close that tells
		a.streams = true
		a.open()
		return
	}
	h := a.w.Header()
	for name, values := range a.head {
		h[name] = values
	}
	a.w.WriteHeader(status)
}

// open opens the WebSocket.
func (a *socketAnswer) open() {
	a.s.tasks.Add(1) // the HTTP server does not know of it any more
	conns.Unframe(a.r.Context())
	conn, err := accept(a.w, a.r)
	if err != nil {
		a.s.tasks.Done()
		a.s.log.Info("a WebSocket was not opened", zap.Error(err)) // the client has been told
		a.gone()
		return
	}
	reading, stop := context.WithCancel(context.WithoutCancel(a.r.Context()))
	over, hungUp := context.WithCancel(context.WithoutCancel(a.r.Context()))
	a.conn, a.form, a.read, a.over = conn, socketForm{conn: conn, ctx: over}, make(chan struct{}), over
	a.stop = func() { hungUp(); stop() }
	go func() { // nothing is expected but the close; a message is refused
		defer close(a.read)
		defer a.gone()
		_, _, err := conn.Reader(reading)
		if a.spoke.Store(err == nil); err != nil {
			hungUp()
		}
	}()
}

// Write implements http.ResponseWriter: of a stream it gets whole events.
func (a *socketAnswer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	switch {
	case a.conn == nil && a.streams:
		return 0, http.ErrHijacked // it was not opened
	case a.conn == nil:
		return a.w.Write(p)
	}
	for event := range bytes.SplitAfterSeq(p, []byte("\n\n")) {
		var name, id string
		var data []byte
		for line := range bytes.Lines(event) {
			key, value, some := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(": "))
			switch string(key) {
			case "event":
				name = string(value)
			case "id":
				id = string(value)
			case "data":
				data = value
			case "":
				if some { // a comment: the heartbeat
					name = string(value)
				}
			}
		}
		var err error
		switch {
		case data != nil:
			err = a.event(name, id, data)
		case name == "heartbeat":
			var out bytes.Buffer
			a.form.beat(&out)
			err = a.form.write(out.Bytes(), false)
		}
		if err != nil {
			a.gone()
			return 0, err
		}
	}
	return len(p), nil
}

// event sends an event.
func (a *socketAnswer) event(name, id string, data []byte) error {
	switch {
	case name == "leaving":
		a.last = name
	case name == "problem", name == "message" && id == "" && bytes.Contains(data, []byte(`"type":"error"`)): // of the simple format
		var p struct{ Code messages.Code }
		a.denied = json.Unmarshal(data, &p) == nil && p.Code == messages.ErrDenied
		a.last = "problem"
	}
	var out bytes.Buffer
	a.form.frame(&out, name, id, data)
	return a.form.write(out.Bytes(), false)
}

// FlushError is what http.ResponseController flushes with.
func (a *socketAnswer) FlushError() error {
	if a.conn != nil || !a.begun {
		return nil
	}
	return http.NewResponseController(a.w).Flush()
}

// close ends the WebSocket, with why.
func (a *socketAnswer) close() {
	if a.conn == nil {
		return
	}
	defer a.s.tasks.Done()
	no := lost(a.r.Context())
	if no != nil && a.last == "" && a.over.Err() == nil {
		if b, err := json.Marshal(problemOf(no)); err == nil {
			_ = a.event("problem", "", b) // the close tells as well
		}
	}
	code := closeEnd
	switch {
	case a.spoke.Load(), no != nil, a.denied:
		code = closeRefused
	case a.last == "leaving":
		code = closeLeaving
	case a.last != "":
		code = closeFailed
	}
	if a.over.Err() == nil {
		_ = a.conn.Close(code, "") // a client that is gone does not answer
	}
	a.stop()
	<-a.read
	_ = a.conn.CloseNow() // it may be closed
}
