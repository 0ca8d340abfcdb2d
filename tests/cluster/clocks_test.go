package cluster

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/postgrestest"
	"github.com/seed14be6753/stile/journal/postgres"
	"github.com/seed14be6753/stile/messages"
)

// databaseTime is what the database's clock says.
func (w *world) databaseTime() time.Time {
	w.t.Helper()
	text, err := postgrestest.Query(w.job.URL, "to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')")
	if err != nil {
		w.t.Fatal(err)
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		w.t.Fatal(err)
	}
	return at
}

// within fails unless a time of a host is between two of the database. A host's clock may be away from
// the database's by as long as an answer takes.
func (w *world) within(what string, at, first, last time.Time) {
	w.t.Helper()
	const answer = time.Second
	if at.Before(first.Add(-answer)) || at.After(last.Add(answer)) {
		w.t.Errorf("%s at %s, and by the database's clock it was between %s and %s", what, at.Format(time.RFC3339Nano), first.Format(time.RFC3339Nano), last.Format(time.RFC3339Nano))
	}
}

// question is a call that waits for a person.
type question struct{ ID, Digest string }

// asks has a session at a host ask a person, and returns when the question expires.
func (w *world) asks(host, agent, id string) (expires time.Time) {
	w.t.Helper()
	w.ask(host, http.MethodPost, "/v1/sessions", fmt.Sprintf(`{"agent":%q,"id":%q}`, agent, id), http.StatusCreated)
	followed := w.follow(host, http.MethodPost, "/v1/sessions/"+id+"/runs?stream=event", `{"input":"buy it"}`, "")
	w.speaks(host, `<execute>[{"name":"shop.pay","args":{"what":"a book"}}]</execute>`)
	// The list of questions may be empty again by the time that it is asked for.
	_, e := w.next(followed, "turn.suspended")
	var asked struct{ Body struct{ Until time.Time } }
	if err := json.Unmarshal([]byte(e.data), &asked); err != nil || asked.Body.Until.IsZero() {
		w.t.Fatalf("%s, %v", e.data, err)
	}
	return asked.Body.Until
}

// question returns the question that a session waits for.
func (w *world) question(host, id string) question {
	w.t.Helper()
	var list struct{ Approvals []question }
	if got := w.raw(host, http.MethodGet, "/v1/sessions/"+id+"/approvals", ""); json.Unmarshal(got.body, &list) != nil || len(list.Approvals) != 1 {
		w.t.Fatalf("%d %s, %v", got.status, got.body, got.err)
	}
	return list.Approvals[0]
}

// Three hosts whose wall clocks are five minutes ahead, five minutes late and right go by the clock of
// the database: questions expire when it says so, wherever they were asked, a question of a dead
// host is answered in time, what users may spend in a day is one day's at all of them, and the times of
// records are in order.
func TestClocks(t *testing.T) {
	w := prepare(t)
	if w == nil {
		return
	}
	const soon, late, tokens = 2 * time.Second, 3 * time.Minute, 4096
	w.job.Waits, w.job.Spending = []time.Duration{soon, late}, stile.Spending{UserTokensPerDay: tokens}
	ahead := map[string]time.Duration{"a": 5 * time.Minute, "b": -5 * time.Minute, "c": 0, "d": 25 * time.Hour}
	begun := w.databaseTime()
	for _, name := range []string{"a", "b", "c"} {
		w.job.Ahead = ahead[name]
		w.start(name)
	}

	// A question expires by itself.
	for _, name := range []string{"a", "b", "c"} {
		first := w.databaseTime()
		expires := w.asks(name, waiting(soon), "hasty-"+name)
		w.within("a question of "+name+" expires", expires, first.Add(soon), w.databaseTime().Add(soon))
		r := w.reply() // the turn goes on without the call
		if now := w.databaseTime(); now.Before(expires.Add(-time.Second)) {
			t.Errorf("the question of %s expires at %s, by the database's clock at %s", name, expires, now)
		}
		r.say(t, "Not bought.")
		r.end()
		w.ask(name, http.MethodGet, "/v1/sessions/hasty-"+name+"/runs/1?wait=1m", "", http.StatusOK)
	}

	// A host dies with a question, and with a turn in flight. The others, whose clocks say that the
	// question is over, and that the turn has taken minutes, go on with both.
	w.asks("b", waiting(late), "patient")
	q := w.question("b", "patient")
	w.ask("b", http.MethodPost, "/v1/sessions", `{"agent":"talker","id":"left"}`, http.StatusCreated)
	w.ask("b", http.MethodPost, "/v1/sessions/left/runs", `{"input":"one"}`, http.StatusAccepted)
	left := w.reply()
	left.say(t, "begun ")
	w.hosts["b"].kill()
	w.reply().end()
	w.ask("a", http.MethodGet, "/v1/sessions/left/runs/1?wait=1m", "", http.StatusOK)
	w.ask("a", http.MethodPost, "/v1/sessions/patient/approvals/"+q.ID, fmt.Sprintf(`{"allow":true,"digest":%q}`, q.Digest), http.StatusNoContent)
	r := w.reply()
	r.say(t, "Bought.")
	r.end()
	w.ask("c", http.MethodGet, "/v1/sessions/patient/runs/1?wait=1m", "", http.StatusOK)

	// What a user has spent today is spent at a host for which it is tomorrow.
	w.ask("c", http.MethodPost, "/v1/sessions", `{"agent":"talker","id":"dear"}`, http.StatusCreated)
	w.ask("c", http.MethodPost, "/v1/sessions/dear/runs", `{"input":"one"}`, http.StatusAccepted)
	w.speaks("c", strings.Repeat("x", tokens))
	w.ask("c", http.MethodGet, "/v1/sessions/dear/runs/1?wait=1m", "", http.StatusOK)
	w.job.Ahead = ahead["d"]
	w.start("d")
	w.ask("d", http.MethodPost, "/v1/sessions", `{"agent":"talker","id":"more"}`, http.StatusCreated)
	if v := w.ask("d", http.MethodPost, "/v1/sessions/more/runs", `{"input":"one"}`, http.StatusTooManyRequests); v["reason"] != stile.OverUserTokens {
		t.Errorf("%v", v)
	}

	w.verified(7)
	w.inTime(begun, w.databaseTime())
}

// inTime checks the times that records have, and how long turns say that they took.
func (w *world) inTime(first, last time.Time) {
	w.t.Helper()
	store, err := postgres.Open(w.t.Context(), postgres.Options{URL: w.job.URL, Schema: w.job.Schema, ReadOnly: true})
	if err != nil {
		w.t.Fatal(err)
	}
	defer store.Close()
	ar := stile.NewArchive(store)
	for h, err := range ar.Sessions(w.t.Context(), "") {
		if err != nil {
			w.t.Fatal(err)
		}
		for r, err := range ar.Records(w.t.Context(), h.Inc) {
			if err != nil {
				w.t.Fatal(err)
			}
			w.within(fmt.Sprintf("record %d of %s, %s, is", r.Seq, h.SID, r.Body.Kind()), r.TS, first, last)
			if d, ok := r.Body.(*messages.TurnDecided); ok {
				if took := time.Duration(d.LatencyMS) * time.Millisecond; took < 0 || took > last.Sub(first) {
					w.t.Errorf("turn %d of %s took %s", r.Turn, h.SID, took)
				}
			}
		}
	}
}
