package forward

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// statuses notes what is written of an answer.
type statuses struct {
	*httptest.ResponseRecorder
	all   []int
	heads []http.Header
}

func (s *statuses) WriteHeader(status int) {
	s.all, s.heads = append(s.all, status), append(s.heads, s.Header().Clone())
	if status >= http.StatusOK {
		s.ResponseRecorder.WriteHeader(status)
	}
}

// A request that another host sent is said to be taken when its answer is long in coming, once, and
// never behind the answer.
func TestTaken(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer func(w http.ResponseWriter)
		want   []int
	}{
		{"at once", func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusAccepted)
			time.Sleep(2 * takenWait)
		}, []int{http.StatusAccepted}},
		{"late", func(w http.ResponseWriter) {
			time.Sleep(5 * takenWait)
			w.WriteHeader(http.StatusAccepted)
			w.WriteHeader(http.StatusConflict)
		}, []int{http.StatusProcessing, http.StatusAccepted}},
		{"by its text", func(w http.ResponseWriter) { _, _ = w.Write([]byte("x")) }, []int{http.StatusOK}},
		{"by a flush", func(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }, []int{http.StatusOK}},
		{"without a word", func(http.ResponseWriter) {}, nil},
		{"a word of its own", func(w http.ResponseWriter) { w.WriteHeader(http.StatusEarlyHints) }, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			out := &statuses{ResponseRecorder: httptest.NewRecorder()}
			w := NewTaken(out)
			w.Header().Set("A", "b")
			c.answer(w)
			w.End()
			time.Sleep(2 * takenWait)
			if !slices.Equal(out.all, c.want) {
				t.Errorf("%s: %d, want %d", c.name, out.all, c.want)
			}
			if out.Header().Get("A") != "b" {
				t.Errorf("%s: the head is %v", c.name, out.Header())
			}
			if len(out.all) > 1 && len(out.heads[0]) > 0 {
				t.Errorf("%s: it is said with the head %v", c.name, out.heads[0])
			}
		})
	}
}
