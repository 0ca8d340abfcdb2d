package cluster

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed14be6753/stile/internal/lease"
	"github.com/seed14be6753/stile/internal/postgrestest"
	"github.com/seed14be6753/stile/internal/turn/driver"
)

// parted is a session, pat, that waits for its child, whose host has died: another host, which runs
// nothing, has both.
type parted struct {
	*world
	table  lease.Table
	other  lease.Host
	parent string // SID
	child  string
}

// part begins such a session; nil without a PostgreSQL.
func part(t *testing.T) *parted {
	t.Helper()
	w := prepare(t)
	if w == nil {
		return nil
	}
	w.job.Boss = true
	w.start("a")
	w.ask("a", http.MethodPost, "/v1/sessions", `{"agent":"boss","id":"pat"}`, http.StatusCreated)
	w.ask("a", http.MethodPost, "/v1/sessions/pat/runs", `{"input":"one"}`, http.StatusAccepted)
	w.speaks("a", `<action id="a" type="agent">{"name":"talker","parameters":{"message":"write"}}</action><response>got $a</response>`)
	child := w.reply().session
	w.until("a record of the reply", func() bool {
		return strings.Contains(string(w.raw("a", http.MethodGet, "/v1/sessions/pat/export", "").body), `"model.reply"`)
	})
	return w.orphaned(child)
}

// orphaned has the host of pat and of its child die.
func (w *world) orphaned(child string) *parted {
	t := w.t
	t.Helper()
	p := &parted{world: w, child: child}
	p.parent = p.child[:strings.LastIndex(p.child, ":")] + ":pat"
	p.table = w.table()
	w.hosts["a"].kill()
	p.other = lease.Host{ID: uuid.New(), Address: "127.0.0.1:1", Version: "other"}
	if _, err := p.table.Join(t.Context(), p.other, patience); err != nil {
		t.Fatal(err)
	}
	for _, sid := range []string{p.child, p.parent} {
		w.until("the session "+sid, func() bool {
			owner, err := p.table.Claim(t.Context(), p.other.ID, sid, time.Now().Add(time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			return owner.ID == p.other.ID
		})
	}
	return p
}

// give gives a session to a host, which goes on with it: a change of its title wakes it.
func (p *parted) give(sid, host string) {
	p.t.Helper()
	all, err := p.table.Hosts(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	for _, h := range all {
		if h.Version == host {
			if err := postgrestest.Exec(p.job.URL, fmt.Sprintf("UPDATE %q.leases SET host = '%s' WHERE sid = '%s'", p.job.Schema, h.ID, sid)); err != nil {
				p.t.Fatal(err)
			}
		}
	}
	p.ask(host, http.MethodPatch, "/v1/sessions/"+sid[strings.LastIndex(sid, ":")+1:], `{"title":"given"}`, http.StatusOK)
}

// asks waits until a host asks for a session that another one has. The scan of what is open asks once,
// for each. An attempt that gave up asks so often.
func (p *parted) asks(host string) {
	p.t.Helper()
	p.until("that the session asks for its child", func() bool {
		for line := range strings.Lines(string(p.raw(host, http.MethodGet, "/metrics", "").body)) {
			if n, ok := strings.CutPrefix(line, `stile_cluster_events_total{event="refused"} `); ok {
				asked, err := strconv.Atoi(strings.TrimSpace(n))
				return err == nil && asked > 3*driver.DelegationTries
			}
		}
		return false
	})
}

// A session whose host has died goes on at one host, and the child that it waits for is another host's:
// it waits until that one gives the child up, or the child's run has ended.
func TestChildElsewhere(t *testing.T) {
	w := part(t)
	if w == nil {
		return
	}
	w.start("b")
	w.give(w.parent, "b")
	waits := w.later("b", http.MethodGet, "/v1/sessions/pat/runs/1?wait=1m", "")
	w.asks("b")
	if v := w.ask("b", http.MethodGet, "/v1/sessions/pat/runs/1", "", http.StatusOK); v["state"] != "running" {
		t.Errorf("the run is %v", v)
	}
	if err := w.table.GiveUp(t.Context(), w.other.ID, []string{w.child}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := w.table.Resign(t.Context(), w.other.ID); err != nil {
		t.Fatal(err)
	}
	r := w.reply()
	if r.host != "b" || r.session != w.child {
		t.Fatalf("%s is asked for %s", r.host, r.session)
	}
	r.say(t, "the answer")
	r.end()
	if got := <-waits; !strings.Contains(string(got.body), `"got the answer"`) {
		t.Errorf("%d %s, %v", got.status, got.body, got.err)
	}
}

// A cancel of a session reaches the child that another host runs: its run ends there, and its model is not
// listened to any more.
func TestCancelOfChildElsewhere(t *testing.T) {
	w := part(t)
	if w == nil {
		return
	}
	w.start("b")
	w.start("c")
	run := "/v1/sessions/" + w.child[strings.LastIndex(w.child, ":")+1:] + "/runs/1"
	w.give(w.child, "c")
	r := w.reply()
	if r.host != "c" || r.session != w.child {
		t.Fatalf("%s is asked for %s", r.host, r.session)
	}
	childEnds := w.later("c", http.MethodGet, run+"?wait=1m", "")
	w.give(w.parent, "b")
	ends := w.later("b", http.MethodGet, "/v1/sessions/pat/runs/1?wait=1m", "")
	w.asks("b")
	w.ask("c", http.MethodPost, "/v1/sessions/pat/runs/1/cancel", "", http.StatusNoContent)
	select {
	case <-r.gone:
	case <-time.After(patience):
		t.Fatal("the child goes on")
	}
	for name, end := range map[string]<-chan answer{"child": childEnds, "parent": ends} {
		if got := <-end; !strings.Contains(string(got.body), "ERR_CANCELLED") {
			t.Errorf("the run of the %s ends with %d %s, %v", name, got.status, got.body, got.err)
		}
	}
	if got := w.raw("b", http.MethodGet, strings.TrimSuffix(run, "/runs/1")+"/export", ""); !strings.Contains(string(got.body), `"action a of `+w.parent+`"`) {
		t.Errorf("no action has cancelled the child: %s", got.body)
	}
}

// A session whose feed has the answer of an agent goes on at one host, and the session of that agent is another
// host's: that one asks the agent, in the session that remembers what it said before.
func TestFeedOfAgentElsewhere(t *testing.T) {
	w := prepare(t)
	if w == nil {
		return
	}
	w.job.Boss = true
	w.start("a")
	w.ask("a", http.MethodPost, "/v1/sessions", `{"agent":"reader","id":"pat"}`, http.StatusCreated)
	run := w.later("a", http.MethodPost, "/v1/sessions/pat/runs?wait=1m", `{"input":"one"}`)
	news := func(host, text string) (sid string) {
		t.Helper()
		r := w.reply()
		if r.host != host || !strings.HasSuffix(r.session, ":pat.feed.news") {
			t.Fatalf("%s is asked for %s", r.host, r.session)
		}
		r.say(t, text)
		r.end()
		return r.session
	}
	child := news("a", "old news")
	w.speaks("a", "<response>one</response>")
	if got := <-run; got.err != nil || !strings.Contains(string(got.body), `"one"`) {
		t.Fatalf("%d %s, %v", got.status, got.body, got.err)
	}
	p := w.orphaned(child)
	w.start("b")
	w.start("c")
	p.give(child, "c")
	p.give(p.parent, "b")
	run = w.later("b", http.MethodPost, "/v1/sessions/pat/runs?wait=1m", `{"input":"two"}`)
	news("c", "fresh news")
	w.speaks("b", "<response>two</response>")
	if got := <-run; got.err != nil || !strings.Contains(string(got.body), `"two"`) {
		t.Errorf("%d %s, %v", got.status, got.body, got.err)
	}
	all := string(w.raw("b", http.MethodGet, "/v1/sessions/pat/export", "").body)
	for _, text := range []string{"old news", "fresh news"} {
		if value := fmt.Sprintf("%x", sha256.Sum256([]byte(strconv.Quote(text)))); !strings.Contains(all, value) {
			t.Errorf("no prompt had the %s: %s", text, all)
		}
	}
	if v := w.ask("b", http.MethodGet, "/v1/sessions/pat.feed.news/runs/2", "", http.StatusOK); v["state"] != "ended" {
		t.Errorf("the run of the fetch is %v", v)
	}
}
