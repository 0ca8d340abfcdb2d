package cluster

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/postgrestest"
)

// What a session may spend it may spend once, also if it goes to another host and comes back, and
// its host dies; and what a user may spend in a day, wherever.
func TestSpending(t *testing.T) {
	const ofSession, ofUser, each = 100, 260, 40
	w := prepare(t)
	if w == nil {
		return
	}
	w.job.Spending = stile.Spending{SessionTokens: ofSession, UserTokensPerDay: ofUser}
	w.job.Idle = 10 * time.Millisecond
	names := []string{"a", "b", "c"}
	for _, name := range names {
		w.start(name)
	}
	table := w.table()
	run := func(host, session string, tokens int) {
		t.Helper()
		w.untilSays(host, http.MethodPost, "/v1/sessions/"+session+"/runs", `{"input":"one"}`, func(status int, v map[string]any) bool {
			return status == http.StatusAccepted
		})
		r := w.reply()
		if r.host != host {
			t.Fatalf("the session runs at %s, and was asked for at %s", r.host, host)
		}
		r.say(t, strings.Repeat("x", tokens))
		r.end()
		for begun := time.Now(); w.ownerOf(table, "local:local:"+session) != ""; time.Sleep(10 * time.Millisecond) {
			if time.Since(begun) > patience {
				t.Fatal("an idle session is not given up")
			}
		}
	}
	refused := func(session, reason string, hosts ...string) {
		t.Helper()
		for _, name := range hosts {
			w.untilSays(name, http.MethodPost, "/v1/sessions/"+session+"/runs", `{"input":"two"}`, func(status int, v map[string]any) bool {
				if status == http.StatusAccepted {
					t.Errorf("%s begins a run of %s", name, session)
				}
				return status == http.StatusTooManyRequests && v["reason"] == reason
			})
		}
	}
	for n := range 3 {
		w.ask("a", http.MethodPost, "/v1/sessions", fmt.Sprintf(`{"agent":"talker","id":"s%d"}`, n), http.StatusCreated)
	}
	run("a", "s0", each)
	run("b", "s0", each)
	run("a", "s0", ofSession-2*each) // which has read what it used itself
	refused("s0", stile.OverSessionTokens, names...)
	// What a host that dies has not told yet, at most what it counted in a quarter of its lease, is forgotten.
	told := "SELECT coalesce(max(used), 0) FROM (SELECT sum(used) AS used FROM " + w.job.Schema + ".shares WHERE kind = 'tokens' GROUP BY tenant, day) AS s"
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		used, err := postgrestest.Query(w.job.URL, told)
		if err != nil {
			t.Fatal(err)
		}
		if used == fmt.Sprint(ofSession) {
			break
		}
		if time.Since(begun) > patience {
			t.Fatalf("hosts have told %s tokens of %d", used, ofSession)
		}
	}
	w.hosts["a"].kill()
	refused("s0", stile.OverSessionTokens, "b", "c")
	run("b", "s1", ofSession)
	run("c", "s2", ofUser-2*ofSession)
	refused("s2", stile.OverUserTokens, "c")
	// A host that has a part left lets runs in, until it has given it up as one that it does not need.
	for begun := 0; ; begun++ {
		status, v := w.try("b", http.MethodPost, "/v1/sessions/s2/runs", `{"input":"two"}`)
		if status == http.StatusTooManyRequests && v["reason"] == stile.OverUserTokens {
			break
		}
		if status != http.StatusAccepted || begun == each {
			t.Fatalf("a user has spent all, and b answers %d, %v, behind %d runs", status, v, begun)
		}
		r := w.reply()
		r.say(t, "x")
		r.end()
		w.ask("b", http.MethodGet, fmt.Sprintf("/v1/sessions/s2/runs/%d?wait=1m", begun+2), "", http.StatusOK)
	}
}
