package cluster

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed14be6753/stile/internal/lease"
	"github.com/seed14be6753/stile/internal/turn/driver"
)

// A session whose host has died goes on at one host, and the child that it waits for is another host's:
// it waits until that one gives the child up, or the child's run has ended.
func TestChildElsewhere(t *testing.T) {
	w := prepare(t)
	if w == nil {
		return
	}
	w.job.Boss = true
	w.start("a")
	until := func(what string, done func() bool) {
		t.Helper()
		for end := time.Now().Add(patience); !done(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal(what)
			}
		}
	}
	w.ask("a", http.MethodPost, "/v1/sessions", `{"agent":"boss","id":"pat"}`, http.StatusCreated)
	w.ask("a", http.MethodPost, "/v1/sessions/pat/runs", `{"input":"one"}`, http.StatusAccepted)
	w.speaks("a", `<action id="a" type="agent">{"name":"talker","parameters":{"message":"write"}}</action><response>got $a</response>`)
	child := w.reply().session
	until("the reply gets no record", func() bool {
		return strings.Contains(string(w.raw("a", http.MethodGet, "/v1/sessions/pat/export", "").body), `"model.reply"`)
	})
	table := w.table()
	w.hosts["a"].kill()
	other := lease.Host{ID: uuid.New(), Address: "127.0.0.1:1", Version: "other"}
	if _, err := table.Join(t.Context(), other, patience); err != nil {
		t.Fatal(err)
	}
	until("the child is not to be had", func() bool {
		owner, err := table.Claim(t.Context(), other.ID, child, time.Now().Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		return owner.ID == other.ID
	})
	w.start("b")
	// The scan of what is open asks once. An attempt that gave up asks so often.
	until("the session does not ask for its child", func() bool {
		for line := range strings.Lines(string(w.raw("b", http.MethodGet, "/metrics", "").body)) {
			if n, ok := strings.CutPrefix(line, `stile_cluster_events_total{event="refused"} `); ok {
				asked, err := strconv.Atoi(strings.TrimSpace(n))
				return err == nil && asked > 3*driver.DelegationTries
			}
		}
		return false
	})
	if v := w.ask("b", http.MethodGet, "/v1/sessions/pat/runs/1", "", http.StatusOK); v["state"] != "running" {
		t.Errorf("the run is %v", v)
	}
	if err := table.GiveUp(t.Context(), other.ID, []string{child}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := table.Resign(t.Context(), other.ID); err != nil {
		t.Fatal(err)
	}
	r := w.reply()
	if r.host != "b" || r.session != child {
		t.Fatalf("%s is asked for %s", r.host, r.session)
	}
	r.say(t, "the answer")
	r.end()
	if v := w.ask("b", http.MethodGet, "/v1/sessions/pat/runs/1?wait=1m", "", http.StatusOK); v["decision"] != "DONE" || v["text"] != "got the answer" {
		t.Errorf("%v", v)
	}
}
