package recovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed14be6753/stile/bench/workload"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// host is a server that keeps runs over its kills, or loses some, as a test says.
type host struct {
	mu      sync.Mutex
	srv     *httptest.Server
	runs    map[string]bool
	starts  int
	loses   string // the session whose run is gone after a kill
	witness string
	fails   error
}

func (h *host) Start(context.Context) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.starts++; h.starts > 1 && h.fails != nil {
		return "", h.fails
	}
	if h.runs == nil {
		h.runs = map[string]bool{}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /readyz", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /v1/sessions", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") })
	mux.HandleFunc("POST /v1/sessions/{id}/runs", func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.runs[r.PathValue("id")] = true
		fmt.Fprint(w, `{"run": 1}`)
	})
	mux.HandleFunc("GET /v1/sessions/{id}/runs/1", func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if id := r.PathValue("id"); !h.runs[id] || id == h.loses {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		b, _ := json.Marshal(map[string]any{"run": 1, "ended": true, "decision": "DONE", "ended_at": time.Now()})
		_, _ = w.Write(b)
	})
	h.srv = httptest.NewServer(mux)
	return h.srv.URL, nil
}

func (h *host) Kill() error {
	h.mu.Lock()
	srv := h.srv
	h.srv = nil
	h.mu.Unlock()
	if srv != nil {
		srv.CloseClientConnections()
		srv.Close()
	}
	return nil
}

func (h *host) Witness() (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(h.witness)), nil
}

func killed(t *testing.T) *workload.Workload {
	t.Helper()
	w, err := workload.Parse("w", []byte("name: w\nagents: [{name: a}]\njobs: [{agent: a}]"))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestNothingLost(t *testing.T) {
	h := &host{witness: "0 0\n0 1\n1 0\n"}
	seen := 0
	r, err := Run(t.Context(), killed(t), h, Options{Kills: 2, Runs: 6, After: 50 * time.Millisecond, Watch: func(int, Kill) { seen++ }})
	if err != nil || len(r.Kills) != 2 || seen != 2 || r.Lost() != 0 || r.Doubled != 0 || r.Effects != 3 {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, k := range r.Kills {
		if k.Accepted == 0 || k.InFlight != k.Accepted || k.Ready <= 0 || k.First < k.Ready || k.All < k.First {
			t.Errorf("%+v", k)
		}
	}
	if h.srv != nil || h.starts != 4 {
		t.Errorf("the host was started %d times, and stays", h.starts)
	}
}

func TestLostAndDoubled(t *testing.T) {
	h := &host{loses: "recovery-0", witness: "0 0\n1 0\n0 0\n\n1 0\n1 1\n"}
	r, err := Run(t.Context(), killed(t), h, Options{Kills: 1, Runs: 1, After: time.Millisecond})
	if err != nil || r.Lost() != 1 || r.Doubled != 2 || r.Effects != 5 || r.Decisions["DONE"] != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestHostThatStaysDown(t *testing.T) {
	h := &host{fails: errors.New("the disk is full")}
	r, err := Run(t.Context(), killed(t), h, Options{Kills: 1, Runs: 1, After: time.Millisecond})
	if !errors.Is(err, h.fails) || len(r.Kills) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, err := Run(ctx, killed(t), &host{}, Options{Kills: 1000, Runs: 1, After: time.Millisecond, Watch: func(n int, _ Kill) {
		if n == 1 {
			cancel()
		}
	}})
	if err != nil || !r.Partial || len(r.Kills) != 2 {
		t.Errorf("%d kills, %v", len(r.Kills), err)
	}
}
