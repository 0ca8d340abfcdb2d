package host_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/host/access"
)

// passing has pauses end at once, and counts them.
type passing struct {
	bells
	pauses atomic.Int64
}

func (h *passing) make(d time.Duration, ring func()) host.Alarm {
	if d > 0 && d <= 5*time.Second { // longer ones are those of rights
		h.pauses.Add(1)
		return time.AfterFunc(0, ring)
	}
	return h.bells.make(d, ring)
}

// Five hundred guesses are counted, told in a line without the token, and slowed, while
// somebody behind the same address who has a good token waits for nothing.
func TestWrongTokensFlood(t *testing.T) {
	clock := &passing{}
	defer host.Ring(clock.make)()
	core, logged := observer.New(zap.InfoLevel)
	k := newTokens(t)
	good, _ := k.make("acme", "ann", "read", "metrics")
	gone, id := k.make("acme", "ann", "read")
	if _, _, err := k.Revoke(access.Revocation{ID: id}); err != nil {
		t.Fatal(err)
	}
	d := serve(t, host.Config{Access: k, Log: zap.New(core), WrongTokens: 20}, agentOf("talker", speaks(nil, always())))
	got := map[int]int{}
	for i := range 500 {
		res := d.ask("GET", "/v1/agents", "", auth(fmt.Sprintf("stile_0123456789ab_guess%d", i))...)
		got[res.StatusCode]++
		if res.StatusCode == http.StatusTooManyRequests && (!res.Close || res.Header.Get("Retry-After") == "") {
			t.Fatalf("%v", res.Header)
		}
		if i%50 == 0 {
			d.call(200, nil, "GET", "/v1/agents", "", auth(good)...)
		}
	}
	if got[401]+got[429] != 500 || got[401] < 20 || got[401] > 200 {
		t.Errorf("%v", got)
	}
	if n := clock.pauses.Load(); n == 0 || n > int64(got[401]) {
		t.Errorf("%d of them waited", n)
	}
	d.call(200, nil, "GET", "/v1/agents", "", auth(good)...)
	d.ask("GET", "/v1/agents", "", auth(gone)...)
	d.ask("GET", "/v1/agents", "")
	d.ask("POST", "/v1/sessions", `{"agent": "talker"}`, auth(good)...)
	b, err := io.ReadAll(d.ask("GET", "/metrics", "", auth(good)...).Body)
	if err != nil {
		t.Fatal(err)
	}
	for reason, n := range map[string]int{"unknown": 500, "revoked": 1, "missing": 1, "scope": 1} {
		if want := fmt.Sprintf("stile_token_refused_total{reason=%q} %d\n", reason, n); !strings.Contains(string(b), want) {
			t.Errorf("no %s", want)
		}
	}
	lines := logged.FilterMessage("tokens are refused").All()
	if len(lines) != 1 || lines[0].ContextMap()["peer"] != "127.0.0.1/32" || lines[0].ContextMap()["reason"] != "unknown" {
		t.Errorf("%+v", lines)
	}
	for _, line := range logged.All() {
		if text := fmt.Sprint(line.Message, line.ContextMap()); strings.Contains(text, "guess") || strings.Contains(text, good) {
			t.Errorf("the log tells a token: %s", text)
		}
	}
}
