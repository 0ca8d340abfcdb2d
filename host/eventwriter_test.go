package host

import (
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile/host/access"
)

// recorder is an answer that can be given deadlines.
type recorder struct{ *httptest.ResponseRecorder }

func (recorder) SetWriteDeadline(time.Time) error { return nil }

// A stream whose reader has lost the right to it is cut with the next heartbeat, also
// when nothing happens; until then the reader is asked about once a heartbeat.
func TestStreamsEndWithTheirToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		var bad, cut atomic.Bool
		w := recorder{httptest.NewRecorder()}
		e := newEventWriter(w, func() error {
			if asked.Add(1); !bad.Load() {
				return nil
			}
			return access.Denied(access.ReasonRevoked, "the token was revoked")
		}, func() { cut.Store(true) })
		defer e.stop()
		e.begin()
		wait := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}
		wait(heartbeat + time.Second)
		if asked.Load() != 1 || cut.Load() || !strings.Contains(w.Body.String(), ": heartbeat") {
			t.Errorf("asked %d times, cut %v: %q", asked.Load(), cut.Load(), w.Body)
		}
		for range 100 {
			if err := e.refused(); err != nil {
				t.Error(err)
			}
		}
		if asked.Load() != 1 {
			t.Errorf("asked %d times in one heartbeat", asked.Load())
		}
		bad.Store(true)
		wait(heartbeat)
		if !cut.Load() || e.refused() == nil {
			t.Error("the stream goes on without a token")
		}
	})
}
