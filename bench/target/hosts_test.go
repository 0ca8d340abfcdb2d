package target

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/seed14be6753/stile/bench/measure"
)

// Each request goes to the next of several hosts. What they take is the sum of what each says, and
// said apart, as is what their database takes.
func TestHosts(t *testing.T) {
	var asked [3]atomic.Int64
	var bases []string
	for i := range asked {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/metrics" {
				_, _ = fmt.Fprintf(w, "process_cpu_seconds_total %d\nstile_journal_commits_total 5\n", 1+i)
				return
			}
			asked[i].Add(1)
		}))
		defer s.Close()
		bases = append(bases, s.URL)
	}
	h, err := NewHost(strings.Join(bases, ","), "")
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for range 9 {
		if !h.Ready(t.Context()) {
			t.Error("not ready")
		}
	}
	for i := range asked {
		if n := asked[i].Load(); n != 3 {
			t.Errorf("host %d was asked %d times", i, n)
		}
	}
	if u := h.Usage(t.Context()); !h.TellsUsage() || u.CPUMicros != 6e6 || u.Commits != 15 || u.RSS >= 0 {
		t.Errorf("%+v", u)
	}
	u := h.Usage(t.Context())
	for i, part := range u.Parts {
		if want := (measure.Part{Name: bases[i], CPUMicros: int64(1+i) * 1e6, Commits: 5}); part != want {
			t.Errorf("%+v, want %+v", part, want)
		}
	}
	h.Beside(os.Getpid())
	if u := h.Usage(t.Context()); len(u.Parts) != 4 || u.Parts[3].Name != measure.Database || (u.Parts[3].CPUMicros < 0) != (runtime.GOOS != "linux") {
		t.Errorf("%+v", u.Parts)
	}
	for _, bad := range []string{"", ",", bases[0] + ",", bases[0] + ",ftp://x"} {
		if _, err := NewHost(bad, ""); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
