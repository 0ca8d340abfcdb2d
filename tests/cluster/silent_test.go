package cluster

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Packets between two hosts vanish, while both have their leases and no connection closes. A stream that
// one forwards from the other goes on when they meet again, and a wait is answered.
func TestSilentCut(t *testing.T) {
	w := prepare(t)
	if w == nil {
		return
	}
	var private atomic.Value
	between := newRelay(t, func() (net.Conn, error) {
		to, ok := private.Load().(string)
		if !ok {
			return nil, errors.New("the host has not started")
		}
		return net.Dial("tcp", to)
	})
	w.start("a")
	w.job.Address = between.address()
	private.Store(w.start("b").private)
	broken := func() string {
		for line := range strings.Lines(string(w.raw("a", http.MethodGet, "/metrics", "").body)) {
			if strings.HasPrefix(line, "stile_cluster_events_total") && strings.Contains(line, `"broken"`) {
				return line
			}
		}
		return ""
	}
	w.ask("b", http.MethodPost, "/v1/sessions", `{"agent":"talker","id":"ada"}`, http.StatusCreated)
	events := w.follow("a", http.MethodPost, "/v1/sessions/ada/runs?stream=token", `{"input":"one"}`, "")
	r := w.reply()
	if r.host != "b" {
		t.Fatalf("the session of b runs at %s", r.host)
	}
	r.say(t, "Hello ")
	head, _ := w.next(events, "delta")
	waits := w.later("a", http.MethodGet, "/v1/sessions/ada/runs/1?wait=1m", "")
	was := broken()
	between.cut()
	r.say(t, "Ada")
	for begun := time.Now(); broken() == was; time.Sleep(50 * time.Millisecond) {
		if time.Since(begun) > patience {
			t.Fatal("a host waits for one that gives no sign of life")
		}
	}
	between.join(true)
	r.say(t, ".")
	r.end()
	rest, _ := w.next(events, "run.end")
	if got := text(t, append(head, rest...)); got != "Hello Ada." {
		t.Errorf("the reader has %q", got)
	}
	if a := <-waits; a.err != nil || a.status != http.StatusOK || !strings.Contains(string(a.body), `"DONE"`) {
		t.Errorf("the wait is answered with %d, %s, %v", a.status, a.body, a.err)
	}
}
