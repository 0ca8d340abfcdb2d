package host

import (
	"errors"
	"net/http"
	"time"
)

// pieceBytes is what a client must take of an answer within writeTimeout.
const pieceBytes = 64 << 10

// timed is an answer with a deadline for each write, also for those that net/http makes
// when the handler is done: a client that does not read is cut, and holds no goroutine. Its
// methods are for one goroutine at a time, as those of any http.ResponseWriter.
type timed struct {
	http.ResponseWriter
	ctl    *http.ResponseController
	until  time.Time
	begun  time.Time
	status int // that was written; 0 before
	// eager reports whether the deadline ends the answer when it passes, also while nothing
	// is written: so it is with HTTP/2.
	eager bool
}

func newTimed(w http.ResponseWriter, r *http.Request) *timed {
	return &timed{begun: time.Now(), ResponseWriter: w, ctl: http.NewResponseController(w), eager: r.ProtoMajor > 1}
}

// move gives the next write its time. To move the deadline costs more than to make the
// bytes of a token: it is moved when less than writeTimeout is left. An answer of a
// server that has no deadlines, which Handler may be behind, goes without.
func (t *timed) move() error {
	now := time.Now()
	if t.until.Sub(now) >= writeTimeout {
		return nil
	}
	return t.set(now.Add(writeTimeout + writeTimeout/2))
}

func (t *timed) set(until time.Time) error {
	t.until = until
	if err := t.ctl.SetWriteDeadline(until); !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}

// WriteHeader implements http.ResponseWriter.
func (t *timed) WriteHeader(status int) {
	if t.status == 0 && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		t.status = status
	}
	_ = t.move() // a write will tell
	t.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (t *timed) Write(p []byte) (n int, err error) {
	for {
		if err := t.move(); err != nil {
			return n, err
		}
		k, err := t.ResponseWriter.Write(p[n:min(len(p), n+pieceBytes)])
		if n += k; err != nil || n == len(p) {
			return n, err
		}
	}
}

// FlushError is what http.ResponseController flushes with.
func (t *timed) FlushError() error {
	if err := t.move(); err != nil {
		return err
	}
	if err := t.ctl.Flush(); err != nil || !t.eager {
		return err
	}
	return t.set(time.Time{}) // all was taken, and the next event may be long in coming
}

// Unwrap is for http.ResponseController.
func (t *timed) Unwrap() http.ResponseWriter { return t.ResponseWriter }
