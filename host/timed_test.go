package host

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// clocked is an answer whose deadline is looked at when it is written to.
type clocked struct {
	*httptest.ResponseRecorder
	t     *testing.T
	until time.Time
}

func (c *clocked) SetWriteDeadline(until time.Time) error {
	c.until = until
	return nil
}

func (c *clocked) Write(p []byte) (int, error) {
	if left := time.Until(c.until); left < writeTimeout || left > 2*writeTimeout {
		c.t.Errorf("a write has %v", left)
	}
	if len(p) > pieceBytes {
		c.t.Errorf("a write of %d bytes", len(p))
	}
	<-time.After(writeTimeout / 2) // the client takes its time
	return c.ResponseRecorder.Write(p)
}

// Each piece of an answer has its time, and waiting for the next costs none.
func TestTimed(t *testing.T) {
	for _, proto := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			c := &clocked{ResponseRecorder: httptest.NewRecorder(), t: t}
			w := newTimed(c, &http.Request{ProtoMajor: proto})
			long := make([]byte, 5*pieceBytes+1)
			for range 3 {
				w.WriteHeader(http.StatusOK)
				if n, err := w.Write(long); n != len(long) || err != nil {
					t.Errorf("%d bytes, %v", n, err)
				}
				if err := http.NewResponseController(w).Flush(); err != nil {
					t.Error(err)
				}
				if free := c.until.IsZero(); free != (proto == 2) {
					t.Errorf("HTTP/%d: behind a flush the deadline is %v", proto, c.until)
				}
				<-time.After(time.Hour)
			}
			if got, err := io.ReadAll(c.Body); len(got) != 3*len(long) || err != nil {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
}

// A server without deadlines gets its answers all the same.
func TestTimedWithoutDeadlines(t *testing.T) {
	c := httptest.NewRecorder()
	if _, err := newTimed(c, &http.Request{ProtoMajor: 1}).Write([]byte("hello")); err != nil || c.Body.String() != "hello" {
		t.Errorf("%q, %v", c.Body, err)
	}
}
