package host_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
)

// unasked is a listener to which nothing connects.
type unasked chan struct{}

func (u unasked) Accept() (net.Conn, error) {
	<-u
	return nil, net.ErrClosed
}
func (u unasked) Close() error { close(u); return nil }
func (unasked) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

type health struct {
	Span   string
	Step   int64 `json:"step_s"`
	Since  string
	Times  []int64
	Series []struct {
		Name, Unit, Doc string
		Values          []*float64
	}
}

// A host that serves looks at its metrics every ten seconds, and shows what it saw: later points
// alone when it is asked for those, and nothing where there was nothing to measure.
func TestHealthOverTime(t *testing.T) {
	bubble(t, host.Config{}, []*stile.Agent{agentOf("talker", speaks([]string{"hello"}, always()))}, func(t *testing.T, c client) {
		ask := func(query string) (h health) {
			t.Helper()
			w := c.raw(t.Context(), "GET", "/v1/health"+query, "")
			if err := json.Unmarshal(w.Body.Bytes(), &h); err != nil || w.Code != http.StatusOK {
				t.Fatalf("%d %s: %v", w.Code, w.Body, err)
			}
			for _, s := range h.Series {
				if len(s.Values) != len(h.Times) || s.Doc == "" {
					t.Fatalf("%s: %d values, %d times", s.Name, len(s.Values), len(h.Times))
				}
			}
			return h
		}
		value := func(h health, name string, i int) *float64 {
			for _, s := range h.Series {
				if s.Name == name {
					return s.Values[i]
				}
			}
			t.Fatalf("no series %s", name)
			return nil
		}
		if h := ask(""); len(h.Times) != 0 || h.Since != "" || len(h.Series) == 0 {
			t.Errorf("a host that does not serve has %d points since %q", len(h.Times), h.Since)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.srv.Serve(ctx, unasked(make(chan struct{})), grace) }()
		time.Sleep(15 * time.Second) // between two looks
		c.raw(t.Context(), "POST", "/v1/sessions", `{"agent": "talker", "id": "a"}`, "Content-Type", "application/json")
		if w := c.raw(t.Context(), "POST", "/v1/sessions/a/runs?wait=1m", `{"input": "x"}`, "Content-Type", "application/json"); w.Code != http.StatusOK {
			t.Fatal(w.Code, w.Body)
		}
		time.Sleep(20 * time.Second)
		h := ask("")
		if h.Span != "hour" || h.Step != 10 || len(h.Times) != 3 || h.Times[1]-h.Times[0] != 10 {
			t.Fatalf("%s every %d s: %v", h.Span, h.Step, h.Times)
		}
		for i, want := range []float64{0, .1, 0} {
			if got := value(h, "turns", i); got == nil || *got != want {
				t.Errorf("point %d has %v turns a second, want %v", i, got, want)
			}
		}
		if value(h, "turn_p95", 0) != nil || value(h, "turn_p95", 1) == nil || value(h, "journal_file", 1) != nil || *value(h, "memory", 2) <= 0 {
			t.Error("what was not measured has a value, or the other way round")
		}
		if more := ask("?after=" + strconv.FormatInt(h.Times[1], 10)); len(more.Times) != 1 || more.Times[0] != h.Times[2] || more.Since != h.Since {
			t.Errorf("behind %d: %v", h.Times[1], more.Times)
		}
		if day := ask("?span=day"); day.Step != 120 || len(day.Times) != 0 {
			t.Errorf("the day every %d s: %v", day.Step, day.Times)
		}
		if w := c.raw(t.Context(), "GET", "/v1/health?span=year", ""); w.Code != http.StatusUnprocessableEntity && w.Code != http.StatusBadRequest {
			t.Errorf("a span that there is not: %d", w.Code)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
