package host

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// recorder is an answer that can be given deadlines.
type recorder struct{ *httptest.ResponseRecorder }

func (recorder) SetWriteDeadline(time.Time) error { return nil }

// A stream in which nothing happens beats.
func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := recorder{httptest.NewRecorder()}
		e := newEventWriter(w, func() { t.Error("the stream was cut") })
		defer e.stop()
		e.begin()
		for n := range 3 {
			e.mu.Lock()
			got := strings.Count(w.Body.String(), ": heartbeat")
			e.mu.Unlock()
			if got != n {
				t.Errorf("%d heartbeats, want %d", got, n)
			}
			<-time.After(heartbeat)
			synctest.Wait()
		}
	})
}

// writes keeps each write of an answer apart, and fails when it is told to.
type writes struct {
	recorder
	all []string
	bad error
}

func (w *writes) Write(p []byte) (int, error) {
	w.all = append(w.all, string(p))
	return len(p), w.bad
}

// The first line goes out with the first events, and the last events with the end of the answer: each
// write wakes a reader, and behind a host that forwards two.
func TestBeginningAndEndAreJoined(t *testing.T) {
	w := &writes{recorder: recorder{httptest.NewRecorder()}}
	e := newEventWriter(w, func() { t.Error("the stream was cut") })
	defer e.stop()
	e.begin()
	if len(w.all) != 0 {
		t.Errorf("written without events: %q", w.all)
	}
	e.event("leaving", "", []byte("{}"))
	if len(w.all) != 1 || w.all[0] != "retry: 1000\n\nevent: leaving\ndata: {}\n\n" || !w.Flushed {
		t.Errorf("written: %q, sent: %v", w.all, w.Flushed)
	}
	e.last()
	if len(w.all) != 1 {
		t.Errorf("written without events: %q", w.all)
	}
	w.Flushed = false
	if err := e.tell(told{update: stile.Update{Delta: &messages.Delta{Unit: messages.UnitID{Turn: 1}, Text: "end"}}}); err != nil {
		t.Fatal(err)
	}
	if e.last(); len(w.all) != 2 || !strings.Contains(w.all[1], `"end"`) || w.Flushed {
		t.Errorf("written: %q, sent apart from the end: %v", w.all, w.Flushed)
	}
}

// A stream in which nothing happens has its head at once.
func TestHeadOfQuietStream(t *testing.T) {
	w := &writes{recorder: recorder{httptest.NewRecorder()}}
	e := newEventWriter(w, func() { t.Error("the stream was cut") })
	defer e.stop()
	e.begin()
	if e.flush(); len(w.all) != 1 || w.all[0] != "retry: 1000\n\n" || !w.Flushed {
		t.Errorf("written: %q, sent: %v", w.all, w.Flushed)
	}
}

// What comes together is written together, within a bound; a reader that cannot take it
// gets no more.
func TestUpdatesAreJoined(t *testing.T) {
	w := &writes{recorder: recorder{httptest.NewRecorder()}}
	cut := 0
	e := newEventWriter(w, func() { cut++ })
	say := func(text string) {
		t.Helper()
		if err := e.tell(told{update: stile.Update{Delta: &messages.Delta{Unit: messages.UnitID{Turn: 1}, Text: text}}}); err != nil {
			t.Fatal(err)
		}
	}
	e.flush()
	say("one")
	say("two")
	if len(w.all) != 0 {
		t.Errorf("written before the last: %q", w.all)
	}
	e.flush()
	e.flush()
	if len(w.all) != 1 || strings.Count(w.all[0], "event: delta") != 2 {
		t.Errorf("written: %q", w.all)
	}
	say(strings.Repeat("x", maxJoined))
	if len(w.all) != 2 {
		t.Errorf("%d writes: what is joined has no bound", len(w.all))
	}
	w.bad = errors.New("gone")
	say("three")
	if e.flush(); cut != 1 || !e.failed() {
		t.Errorf("cut %d times, failed %v", cut, e.failed())
	}
	if e.tell(told{update: stile.Update{Delta: &messages.Delta{Text: "four"}}}) == nil {
		t.Error("an update is taken for a reader that is gone")
	}
	if e.flush(); len(w.all) != 3 {
		t.Errorf("written behind a failure: %q", w.all)
	}
}
