package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed14be6753/stile/host"
)

// try asks a host, and returns the status of its answer and what is in it.
func (w *world) try(host, method, path, body string) (status int, v map[string]any) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+w.hosts[host].public+path, strings.NewReader(body))
	if err != nil {
		w.t.Error(err)
		return 0, nil
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(r)
	if err != nil {
		w.t.Errorf("%s %s at %s: %v", method, path, host, err)
		return 0, nil
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		w.t.Errorf("%s %s at %s: %s, %s, %v", method, path, host, resp.Status, b, err)
	}
	return resp.StatusCode, v
}

// untilSays asks until the answer is what is waited for.
func (w *world) untilSays(host, method, path, body string, good func(status int, v map[string]any) bool) {
	w.t.Helper()
	for begun := time.Now(); ; {
		status, v := w.try(host, method, path, body)
		switch {
		case w.t.Failed() || good(status, v):
			return
		case time.Since(begun) > patience:
			w.t.Fatalf("%s %s at %s still answers %d, %v", method, path, host, status, v)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Three hosts have the limits of one: as many runs as a tenant may have get in at all of them
// together, and what runs use of a day at one host is used up at the others. Any host says what
// all of them use.
func TestLimits(t *testing.T) {
	const runs, tokens = 4, 200
	names := []string{"a", "b", "c"}
	w := beginWith(t, host.Limits{Runs: runs, TokensPerDay: tokens}, names...)
	if w == nil {
		return
	}
	submit := func(n int) (status int, v map[string]any) {
		return w.try(names[n%3], http.MethodPost, fmt.Sprintf("/v1/sessions/s%d/runs", n), `{"input":"one"}`)
	}
	const sessions = 2 * runs
	for n := range sessions {
		w.ask(names[n%3], http.MethodPost, "/v1/sessions", fmt.Sprintf(`{"agent":"talker","id":"s%d"}`, n), http.StatusCreated)
	}
	var mu sync.Mutex
	in := map[int]bool{} // sessions with a run
	var work sync.WaitGroup
	for n := range sessions {
		work.Go(func() {
			status, v := submit(n)
			switch {
			case status == http.StatusAccepted:
				mu.Lock()
				defer mu.Unlock()
				in[n] = true
			case status != http.StatusTooManyRequests || v["reason"] != "RUNS":
				t.Errorf("session %d: %d, %v", n, status, v)
			}
		})
	}
	work.Wait()
	if len(in) > runs {
		t.Errorf("the hosts let in %d runs of %d", len(in), runs)
	}
	for n := 0; len(in) < runs; n = (n + 1) % sessions { // who was refused comes again while there is room
		if !in[n] {
			w.untilSays(names[n%3], http.MethodPost, fmt.Sprintf("/v1/sessions/s%d/runs", n), `{"input":"one"}`, func(status int, _ map[string]any) bool { return status == http.StatusAccepted })
			in[n] = true
		}
	}
	for n := range sessions {
		if !in[n] {
			if status, v := submit(n); status != http.StatusTooManyRequests {
				t.Errorf("with %d runs in flight another one is answered %d, %v", runs, status, v)
			}
		}
	}
	for _, name := range names {
		w.untilSays(name, http.MethodGet, "/v1/usage", "", func(_ int, v map[string]any) bool { return v["runs"] == float64(runs) })
	}
	each := strings.Repeat("x", tokens/runs-1)
	for range runs {
		r := w.reply()
		r.say(t, each)
		r.end()
	}
	for _, name := range names {
		w.untilSays(name, http.MethodGet, "/v1/usage", "", func(_ int, v map[string]any) bool {
			return v["runs"] == 0.0 && v["tokens"] == float64(runs*len(each))
		})
	}
	// What is left lets a run in at any host; then none is, wherever.
	w.untilSays("b", http.MethodPost, "/v1/sessions/s0/runs", `{"input":"two"}`, func(status int, v map[string]any) bool {
		return status == http.StatusAccepted
	})
	r := w.reply()
	r.say(t, each)
	r.end()
	for _, name := range names {
		w.untilSays(name, http.MethodGet, "/v1/usage", "", func(_ int, v map[string]any) bool {
			return v["tokens"] == float64((runs+1)*len(each))
		})
		for n := range 3 {
			status, v := w.try(name, http.MethodPost, fmt.Sprintf("/v1/sessions/s%d/runs", n), `{"input":"three"}`)
			if status != http.StatusTooManyRequests || v["reason"] != "TOKENS" {
				t.Errorf("the day is used up, and %s answers %d, %v", name, status, v)
			}
		}
	}
}

// What a tenant keeps counts at all hosts: as many sessions begin as may exist, also behind a host
// that is gone, and a run at one host fills the journal for the others.
func TestKeptByAllHosts(t *testing.T) {
	const most, bytes = 5, 100_000
	names := []string{"a", "b", "c"}
	w := beginWith(t, host.Limits{Sessions: most, JournalBytes: bytes}, names...)
	if w == nil {
		return
	}
	at := map[string]string{} // sessions, and where they began
	var mu sync.Mutex
	begin := func(n int) (status int) {
		name := names[n%3]
		status, v := w.try(name, http.MethodPost, "/v1/sessions", fmt.Sprintf(`{"agent":"talker","id":"s%d"}`, n))
		switch {
		case status == http.StatusCreated:
			mu.Lock()
			defer mu.Unlock()
			at[fmt.Sprintf("s%d", n)] = name
		case status != http.StatusTooManyRequests || v["reason"] != "SESSIONS":
			t.Errorf("session %d: %d, %v", n, status, v)
		}
		return status
	}
	const moves = "s2"
	begin(2) // at c
	var work sync.WaitGroup
	for n := range 3 * most {
		work.Go(func() { begin(3 + n) })
	}
	work.Wait()
	next := 3 + 3*most
	full := func(hosts ...int) {
		t.Helper()
		for begun := time.Now(); len(at) < most; next += 3 { // who was refused comes again while there is room
			if begin(next + hosts[0]); t.Failed() || time.Since(begun) > patience {
				t.Fatalf("%d sessions of %d", len(at), most)
			}
		}
		for _, i := range hosts {
			if begin(next + i); len(at) != most {
				t.Fatalf("%d sessions of %d", len(at), most)
			}
		}
		next += 3
	}
	full(2, 0, 1)
	w.hosts["c"].kill()
	w.untilSays("b", http.MethodPost, "/v1/sessions/"+moves+"/runs", `{"input":"one"}`, func(status int, _ map[string]any) bool { return status == http.StatusAccepted })
	r := w.reply()
	r.say(t, "hello")
	r.end()
	full(0, 1)
	w.ask("b", http.MethodDelete, "/v1/sessions/"+moves, "", http.StatusNoContent)
	delete(at, moves)
	full(0, 1)

	var last string
	for id, name := range at {
		if name == "a" {
			last = id
		}
	}
	w.ask("b", http.MethodGet, "/v1/usage", "", http.StatusOK) // it measures before a run fills the journal
	w.ask("a", http.MethodPost, "/v1/sessions/"+last+"/runs", `{"input":"much"}`, http.StatusAccepted)
	r = w.reply()
	r.say(t, strings.Repeat("x", bytes))
	r.end()
	for _, name := range names[:2] {
		w.untilSays(name, http.MethodPost, "/v1/sessions/"+last+"/runs", `{"input":"more"}`, func(status int, v map[string]any) bool {
			return status == http.StatusTooManyRequests && v["reason"] == "JOURNAL_BYTES"
		})
	}
}
