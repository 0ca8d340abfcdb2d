package forward

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// withDeadline is a connection that notes whether its reads get a deadline.
type withDeadline struct {
	*httptest.ResponseRecorder
	set bool
}

func (w *withDeadline) SetReadDeadline(time.Time) error {
	w.set = true
	return nil
}

// What serves an attempt bounds the time to read the body, which was read before. The deadline does not
// get to the connection: there it would end the request after five seconds, while its client waits.
func TestNoReadDeadline(t *testing.T) {
	w := &withDeadline{ResponseRecorder: httptest.NewRecorder()}
	if err := http.NewResponseController(NewResponse(w)).SetReadDeadline(time.Now()); err != nil || w.set {
		t.Errorf("the connection has a deadline: %v, %v", w.set, err)
	}
}
