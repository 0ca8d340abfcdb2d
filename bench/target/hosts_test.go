package target

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// Each request goes to the next of several hosts, and what they take is the sum of what each says.
func TestHosts(t *testing.T) {
	var asked [3]atomic.Int64
	var bases []string
	for i := range asked {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/metrics" {
				_, _ = w.Write([]byte("process_cpu_seconds_total 2\nstile_journal_commits_total 5\n"))
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
	for _, bad := range []string{"", ",", bases[0] + ",", bases[0] + ",ftp://x"} {
		if _, err := NewHost(bad, ""); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
