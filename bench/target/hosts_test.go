package target

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed14be6753/stile/bench/load"
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

// All requests of a session go to the same of several hosts, from the one that begins it on, and
// sessions go to all hosts.
func TestSticky(t *testing.T) {
	const hosts, runs = 3, 4
	var asked [hosts]sync.Map // session → *atomic.Int64, requests
	var bases []string
	for i := range asked {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			session, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, sessions+"/"), "/")
			if r.URL.Path == sessions {
				var begun struct{ ID string }
				if err := json.NewDecoder(r.Body).Decode(&begun); err != nil {
					t.Error(err)
				}
				session = begun.ID
			}
			n, _ := asked[i].LoadOrStore(session, &atomic.Int64{})
			n.(*atomic.Int64).Add(1)
			_, _ = fmt.Fprint(w, `{"run": 1}`)
		}))
		defer s.Close()
		bases = append(bases, s.URL)
	}
	h, err := NewHost(strings.Join(bases, ","), "")
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	h.Sticky()
	for n := range 64 {
		for range runs {
			if _, err := h.Submit(t.Context(), &load.Request{Session: fmt.Sprintf("s-%d", n)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for n := range 64 {
		at := 0
		for i := range asked {
			if got, ok := asked[i].Load(fmt.Sprintf("s-%d", n)); ok {
				if at++; got.(*atomic.Int64).Load() != 1+runs {
					t.Errorf("session %d: host %d was asked %d times", n, i, got.(*atomic.Int64).Load())
				}
			}
		}
		if at != 1 {
			t.Errorf("session %d was at %d hosts", n, at)
		}
	}
	for i := range asked {
		some := false
		asked[i].Range(func(k, _ any) bool { some = strings.HasPrefix(k.(string), "s-"); return !some })
		if !some {
			t.Errorf("host %d has no session", i)
		}
	}
}
