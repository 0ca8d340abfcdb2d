package forward

import (
	"maps"
	"net/http"
	"sync"
	"time"
)

// takenWait is how long a request from another host may go without an answer before its host is told
// that the request is taken. Most are answered sooner, and cost nothing more.
const takenWait = TakeWait / 3

// Taken is the answer to another host. While there is none, it says after takenWait that the request
// is taken. The head is its own until it is sent, because that word may be sent while a handler sets
// the head. The word and the answer may be written at once; the answer is for one goroutine.
type Taken struct {
	http.ResponseWriter
	head http.Header
	ctl  *http.ResponseController
	late *time.Timer

	mu    sync.Mutex
	begun bool // the answer is under way, or over
}

// NewTaken returns the answer that w writes. End must be called behind it.
func NewTaken(w http.ResponseWriter) *Taken {
	t := &Taken{ResponseWriter: w, head: http.Header{}, ctl: http.NewResponseController(w)}
	t.late = time.AfterFunc(takenWait, t.say)
	return t
}

// End ends the answer: nothing is said of the request any more.
func (t *Taken) End() {
	if t.begin() { // the library sends a head without a body
		maps.Copy(t.ResponseWriter.Header(), t.head)
	}
}

// say says that the request is taken.
func (t *Taken) say() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.begun {
		t.ResponseWriter.WriteHeader(http.StatusProcessing)
	}
}

// begin reports whether the answer begins now.
func (t *Taken) begin() bool {
	t.late.Stop()
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.begun
	t.begun = true
	return !was
}

// Header implements http.ResponseWriter.
func (t *Taken) Header() http.Header { return t.head }

// WriteHeader implements http.ResponseWriter.
func (t *Taken) WriteHeader(status int) {
	if status < http.StatusOK && status != http.StatusSwitchingProtocols {
		return // of this request one such word is enough
	}
	if t.begin() {
		maps.Copy(t.ResponseWriter.Header(), t.head)
		t.ResponseWriter.WriteHeader(status)
	}
}

// Write implements http.ResponseWriter.
func (t *Taken) Write(p []byte) (int, error) {
	t.WriteHeader(http.StatusOK)
	return t.ResponseWriter.Write(p)
}

// FlushError is what http.ResponseController flushes with.
func (t *Taken) FlushError() error {
	t.WriteHeader(http.StatusOK)
	return t.ctl.Flush()
}

// Unwrap is for http.ResponseController.
func (t *Taken) Unwrap() http.ResponseWriter { return t.ResponseWriter }
