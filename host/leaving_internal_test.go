package host

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/host/internal/forward"
)

// The reader of a stream whose host gives no sign of life, and that no other host goes on with, is told
// why it ends. The simple format has no word for that, and is cut.
func TestStreamEndsWithTheReason(t *testing.T) {
	for _, c := range []struct {
		query string
		cut   bool
	}{{"", false}, {"?format=simple", true}} {
		rec := httptest.NewRecorder()
		p := &proxy{w: forward.NewResponse(rec), r: httptest.NewRequest("GET", "/v1/sessions/ada/events"+c.query, nil)}
		p.w.Header().Set("Content-Type", "text/event-stream")
		p.w.WriteHeader(200)
		func() {
			defer func() {
				if cut := recover() != nil; cut != c.cut {
					t.Errorf("%q: it is cut: %v", c.query, cut)
				}
			}()
			p.refuse(`the host "b" gives no sign of life`)
		}()
		const want = "event: leaving\ndata: {\"detail\":\"the host \\\"b\\\" gives no sign of life; come back with the last id\"}\n\n"
		if got := rec.Body.String(); (got == want) == c.cut || strings.Count(got, "event:") > 1 {
			t.Errorf("%q: the reader has %q", c.query, got)
		}
	}
}
