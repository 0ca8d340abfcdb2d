package host

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/coder/websocket"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile/host/internal/conns"
	"github.com/seed14be6753/stile/messages"
)

// A stream of events asked for with an upgrade comes over a WebSocket: each event is one
// text message {"event", "id", "data"} with what a server-sent one has in these fields,
// and {"event": "heartbeat"} when nothing was sent for one. To resume ask with after. The
// client sends nothing.

// socketProtocol is what the host speaks. Who offers a token in Sec-WebSocket-Protocol
// offers this as well: browsers want one of what they offered to be chosen.
const socketProtocol = "stile.v1"

// Why a socket is closed, beside what RFC 6455 has.
const (
	closeEnd     = websocket.StatusNormalClosure // there is no more
	closeLeaving = websocket.StatusGoingAway     // the host stops: come back
	closeRefused = websocket.StatusPolicyViolation
	closeFailed  = websocket.StatusInternalError
)

func isSocket(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// lacks names the header that keeps a request from being a handshake.
func lacks(r *http.Request) string {
	switch {
	case !strings.Contains(strings.ToLower(strings.Join(r.Header.Values("Connection"), ",")), "upgrade"):
		return "Connection"
	case r.Header.Get("Sec-WebSocket-Version") != "13":
		return "Sec-WebSocket-Version"
	}
	if key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(r.Header.Get("Sec-WebSocket-Key"))); err != nil || len(key) != 16 {
		return "Sec-WebSocket-Key"
	}
	return ""
}

// accept opens a WebSocket.
func accept(w http.ResponseWriter, r *http.Request) (*websocket.Conn, error) {
	return websocket.Accept(w, r, &websocket.AcceptOptions{
		Subprotocols: []string{socketProtocol},
		// The guard has checked Origin, by the rules of all routes.
		InsecureSkipVerify: true,
	})
}

// socket answers with a WebSocket.
func (s *Server) socket(w http.ResponseWriter, r *http.Request, all telling) {
	if field := lacks(r); field != "" {
		write(w, refusalOf(messages.ErrInvalid, field, "this is no handshake of a WebSocket, version 13"))
		return
	}
	s.tasks.Add(1) // the HTTP server does not know of it any more
	defer s.tasks.Done()
	conns.Unframe(r.Context())
	conn, err := accept(w, r)
	if err != nil {
		s.log.Info("a WebSocket was not opened", zap.Error(err)) // the client has been told
		return
	}
	// Nothing is expected but the close; a message is refused. The reader ends with the
	// connection, which its context would close at once.
	reading, stopReading := context.WithCancel(context.WithoutCancel(r.Context()))
	// open lives as long as the connection: who has lost the right is told so.
	open, hungUp := context.WithCancel(context.WithoutCancel(r.Context()))
	here, gone := context.WithCancel(r.Context())
	read := make(chan struct{})
	var spoke atomic.Bool
	go func() {
		defer close(read)
		defer gone()
		_, _, err := conn.Reader(reading)
		if spoke.Store(err == nil); err != nil {
			hungUp()
		}
	}()
	defer func() {
		hungUp()
		stopReading()
		<-read
		_ = conn.CloseNow() // it may be closed
	}()
	r = r.WithContext(here)
	ctx, cancel := context.WithCancel(here)
	defer cancel()
	defer context.AfterFunc(s.leaving, cancel)()
	// An event that is being written is written whole for a client that is still there:
	// with its context the connection would go, and the client not learn why.
	out := newEventWriterTo(&socketForm{conn: conn, ctx: open}, cancel)
	out.start("") // the upgrade has told that the stream is open
	err = s.pump(ctx, r, out, all)
	out.stop()
	code := closeEnd
	var e *messages.Error
	switch {
	case spoke.Load():
		code = closeRefused
	case open.Err() != nil:
		return // there is no client to tell
	case errors.Is(err, errLeaving):
		code = closeLeaving
	case errors.As(err, &e) && e.Code == messages.ErrDenied:
		code = closeRefused
	case err != nil:
		code = closeFailed
	}
	_ = conn.Close(code, "") // a client that is gone does not answer
}

// socketForm is the form of events in messages.
type socketForm struct {
	conn *websocket.Conn
	ctx  context.Context // of the connection, whose life the form has
}

func (*socketForm) frame(buf *bytes.Buffer, name, id string, data []byte) {
	buf.WriteString(`{"event":"`)
	buf.WriteString(name) // kinds and positions have nothing to escape
	if id != "" {
		buf.WriteString(`","id":"`)
		buf.WriteString(id)
	}
	buf.WriteString(`","data":`)
	buf.Write(data)
	buf.WriteByte('}')
}

func (*socketForm) beat(buf *bytes.Buffer) { buf.WriteString(`{"event":"heartbeat"}`) }

// joins implements eventForm: an event is a message.
func (*socketForm) joins() bool { return false }

func (f *socketForm) write(p []byte, _ bool) error {
	ctx, cancel := context.WithTimeout(f.ctx, writeTimeout)
	defer cancel()
	return f.conn.Write(ctx, websocket.MessageText, p)
}

// settle waits until the sockets have told their clients, and tasks have ended, within ctx.
func (s *Server) settle(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		s.tasks.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
