package host_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

const hookSecret = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"

// notice is what an endpoint is told.
type notice struct {
	ID, Type, Timestamp string
	Data                struct {
		Session, Tenant, User, Agent, Decision, Code, Approval, Digest, Expires string
		Run, Turns                                                              int64
	}
	body string
}

// endpoint is a server that verifies what it is told; it answers as status says.
func endpoint(t *testing.T, status func(*notice) int) (hook host.Webhook, got chan notice) {
	t.Helper()
	verifier, err := standardwebhooks.NewWebhook(hookSecret)
	if err != nil {
		t.Fatal(err)
	}
	got = make(chan notice, 64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err == nil {
			err = verifier.Verify(b, r.Header)
		}
		n := notice{ID: r.Header.Get("Webhook-Id"), body: string(b)}
		if err == nil {
			dec := json.NewDecoder(bytes.NewReader(b))
			dec.DisallowUnknownFields()
			err = dec.Decode(&n)
		}
		if err != nil {
			t.Error(err)
		}
		w.WriteHeader(status(&n))
		got <- n
	}))
	t.Cleanup(server.Close)
	return host.Webhook{Name: "ci", URL: server.URL, Networks: []string{"127.0.0.0/8"}, Secrets: []string{hookSecret}}, got
}

func ok(*notice) int { return http.StatusNoContent }

// A call that waits and the end of its run are told, signed, with names and codes, and without what was said.
func TestWebhooks(t *testing.T) {
	hook, got := endpoint(t, ok)
	d := serve(t, host.Config{Webhooks: []host.Webhook{hook}}, asksFirst(t, "payer", stile.Enqueue))
	d.session("s", "payer")
	d.call(202, nil, "POST", "/v1/sessions/s/runs", `{"input": "hunter2"}`)
	asked := <-got
	if n := asked.Data; asked.Type != "approval.waiting" || !strings.HasPrefix(asked.ID, "msg_") || n.Session != "s" || n.Tenant != "local" || n.User != "local" || n.Agent != "payer" || n.Run != 1 || n.Approval == "" || n.Expires == "" || n.Decision != "" {
		t.Errorf("%+v", asked)
	}
	d.call(204, nil, "POST", "/v1/sessions/s/approvals/"+asked.Data.Approval, `{"allow": true, "digest": "`+asked.Data.Digest+`"}`)
	second := <-got // it pays twice
	d.call(204, nil, "POST", "/v1/sessions/s/approvals/"+second.Data.Approval, `{"allow": false, "digest": "`+second.Data.Digest+`"}`)
	for n := range got {
		if strings.Contains(n.body, "hunter2") || strings.Contains(n.body, "pay\"") {
			t.Errorf("it tells what was said: %s", n.body)
		}
		if n.Type == "run.ended" {
			if n.Data.Decision == "" || n.Data.Turns == 0 || n.Data.Run != 1 || n.ID == asked.ID {
				t.Errorf("%+v", n)
			}
			break
		}
		d.call(204, nil, "POST", "/v1/sessions/s/approvals/"+n.Data.Approval, `{"allow": false, "digest": "`+n.Data.Digest+`"}`)
	}
}

// serving has a host of an agent serve meanwhile.
func serving(t *testing.T, rt *stile.Runtime, cfg host.Config, agent *stile.Agent, meanwhile func()) {
	t.Helper()
	l, err := host.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Runtime, cfg.Agents = rt, []*stile.Agent{agent}
	srv, err := host.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ctx, l, grace) }()
	meanwhile()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Behind a crash a question is told that still waits, and not one that was answered meanwhile.
func TestAnsweredApprovalsAreNotToldLate(t *testing.T) {
	hook, got := endpoint(t, ok)
	agent := asksFirst(t, "payer", stile.Enqueue) // it asks again once it was answered
	cfg := host.Config{Webhooks: []host.Webhook{hook}, WebhookFile: filepath.Join(t.TempDir(), "webhooks.json")}
	rt, err := stile.New(t.Context(), stile.Config{InMemory: true, Agents: []*stile.Agent{agent}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := rt.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	serving(t, rt, cfg, agent, func() {})
	s, err := rt.Open(t.Context(), "s", agent)
	if err != nil {
		t.Fatal(err)
	}
	run, err := s.Submit(t.Context(), "buy") // nothing tells of it
	if err != nil {
		t.Fatal(err)
	}
	var asked []string
	for u, err := range run.Events(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if u.Record == nil || u.Record.Body.Kind() != messages.KindTurnSuspended {
			continue
		}
		waiting, err := s.Approvals(t.Context())
		if err != nil || len(waiting) != 1 {
			t.Fatalf("%v, %v", waiting, err)
		}
		if asked = append(asked, waiting[0].ID); len(asked) == 2 {
			break
		}
		if err := s.Approve(t.Context(), waiting[0], "grace"); err != nil {
			t.Fatal(err)
		}
	}
	serving(t, rt, cfg, agent, func() {
		if n := <-got; n.Type != "approval.waiting" || n.Data.Approval != asked[1] {
			t.Errorf("%+v, want the second one of %q", n, asked)
		}
	})
	if len(got) > 0 {
		t.Errorf("told as well: %+v", <-got)
	}
}

// The end of a child session's run is a part of its parent's, and not told by itself.
func TestNoWebhooksOfChildren(t *testing.T) {
	hook, got := endpoint(t, ok)
	child, parent := manifest.Default("cortex"), manifest.Default("cortex")
	child.Name, child.Summary = "writer", "Writes."
	parent.Name, parent.Loop.Strict, parent.Import.Agents = "boss", []string{"unseen"}, []string{"writer"}
	writer := &stile.Agent{Manifest: child, Model: scripted.New(`<response>a poem</response>`)}
	boss := &stile.Agent{Manifest: parent, Agents: []*stile.Agent{writer}, Model: scripted.New(`<action id="a" type="agent" mode="async">{"name":"writer","parameters":{"message":"write"}}</action><response>got $a</response>`)}
	d := serve(t, host.Config{Webhooks: []host.Webhook{hook}}, boss)
	d.session("s", "boss")
	var run struct{ Text string }
	if d.call(200, &run, "POST", "/v1/sessions/s/runs?wait=1m", `{"input": "go"}`); run.Text != "got a poem" {
		t.Errorf("%+v", run)
	}
	d.call(200, nil, "POST", "/v1/sessions/s/runs?wait=1m", `{"input": "again"}`) // the script has ended: HALT
	for i := range 2 {
		if n := <-got; n.Data.Session != "s" || n.Data.Agent != "boss" {
			t.Errorf("%d: %+v", i, n)
		}
	}
}

// What happened while no process told of it is found in the journal, once; what was told before is not told
// again, and an approval that was answered meanwhile is none.
func TestWebhooksAfterACrash(t *testing.T) {
	hook, got := endpoint(t, ok)
	dir := t.TempDir()
	agent := agentOf("talker", speaks([]string{"hello"}, always()))
	life := func() (*stile.Runtime, host.Config) {
		rt, err := stile.New(t.Context(), stile.Config{Dir: dir, Agents: []*stile.Agent{agent}})
		if err != nil {
			t.Fatal(err)
		}
		return rt, host.Config{Webhooks: []host.Webhook{hook}, WebhookFile: filepath.Join(dir, "webhooks.json")}
	}
	submit := func(rt *stile.Runtime, id string) {
		t.Helper()
		s, err := rt.Open(t.Context(), id, agent)
		if err != nil {
			t.Fatal(err)
		}
		run, err := s.Submit(t.Context(), "hi")
		if err == nil {
			_, err = run.Decision(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	rt, cfg := life()
	serving(t, rt, cfg, agent, func() {
		submit(rt, "told")
		if n := <-got; n.Data.Session != "told" {
			t.Errorf("%+v", n)
		}
	})
	submit(rt, "untold") // as behind a crash: nothing tells of it
	if err := rt.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	rt, cfg = life()
	serving(t, rt, cfg, agent, func() {
		if n := <-got; n.Data.Session != "untold" || n.Data.Agent != "talker" || n.Data.Decision != "DONE" {
			t.Errorf("%+v", n)
		}
	})
	submit(rt, "later")
	if err := rt.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	rt, cfg = life()
	serving(t, rt, cfg, agent, func() {
		if n := <-got; n.Data.Session != "later" {
			t.Errorf("%+v", n)
		}
	})
	if err := rt.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(got) > 0 {
		t.Errorf("told again: %+v", <-got)
	}
}

// Dead letters are of their tenant; they can be read, sent again and forgotten, each with a line in the audit
// log. A reload takes webhooks up.
func TestDeadLetters(t *testing.T) {
	state := http.StatusGone
	answers := make(chan int, 1)
	hook, got := endpoint(t, func(*notice) int { return <-answers })
	k := newTokens(t)
	audit := filepath.Join(t.TempDir(), "audit.jsonl")
	agent := agentOf("talker", speaks([]string{"hello"}, always()))
	d := serve(t, host.Config{Access: access.First(k), Audit: host.AuditFile(audit)}, agent)
	offer := host.Offer{Agents: []*stile.Agent{agent}, Webhooks: []host.Webhook{hook}}
	if changes, err := d.srv.Reload(t.Context(), offer); err != nil || strings.Join(changes, "") != "webhooks has changed" {
		t.Fatal(changes, err)
	}
	bad := offer
	bad.Webhooks = []host.Webhook{{Name: "ci", URL: "https://hooks.example.com", Secrets: []string{"whsec_short"}}}
	if _, err := d.srv.Reload(t.Context(), bad); messages.CodeOf(err) != messages.ErrConfig {
		t.Errorf("a wrong one: %v", err)
	}
	ann, _ := k.make("acme", "ann", "admin")
	eve, _ := k.make("globex", "eve", "admin")
	reader, _ := k.make("acme", "bob", "read")
	d.call(201, nil, "POST", "/v1/sessions", `{"agent": "talker", "id": "s"}`, auth(ann)...)
	d.call(200, nil, "POST", "/v1/sessions/s/runs?wait=1m", `{"input": "hi"}`, auth(ann)...)
	answers <- state
	<-got
	type letters struct {
		Letters []struct {
			ID, Webhook, Type, Error string
			Attempts                 int
			Body                     notice
		}
	}
	var dead letters
	for len(dead.Letters) == 0 { // until the sender has taken up what it was answered
		d.call(200, &dead, "GET", "/v1/webhooks/dead", "", auth(ann)...)
	}
	l := dead.Letters[0]
	if l.Webhook != "ci" || l.Type != "run.ended" || l.Attempts != 1 || !strings.Contains(l.Error, "410") || l.Body.Data.Session != "s" {
		t.Errorf("%+v", l)
	}
	var hooks struct {
		Webhooks []struct {
			Name, Origin  string
			Events        []string
			Waiting, Dead int
		}
	}
	d.call(200, &hooks, "GET", "/v1/webhooks", "", auth(ann)...)
	if h := hooks.Webhooks; len(h) != 1 || h[0].Dead != 1 || h[0].Waiting != 0 || h[0].Origin != hook.URL || len(h[0].Events) != 2 {
		t.Errorf("%+v", h)
	}
	var others letters
	if d.call(200, &others, "GET", "/v1/webhooks/dead", "", auth(eve)...); len(others.Letters) > 0 {
		t.Errorf("another tenant sees %+v", others)
	}
	retry := "/v1/webhooks/dead/" + l.ID + "/retry"
	d.refused(404, messages.ErrNotFound, "POST", retry, "", auth(eve)...)
	d.refused(404, messages.ErrNotFound, "DELETE", "/v1/webhooks/dead/"+l.ID, "", auth(eve)...)
	d.refused(403, messages.ErrDenied, "POST", retry, "", auth(reader)...)
	d.call(204, nil, "POST", retry, "", auth(ann)...)
	answers <- http.StatusGone
	if n := <-got; n.ID != l.Body.ID && !strings.HasSuffix(l.ID, n.ID) {
		t.Errorf("sent again as %s", n.ID)
	}
	for dead.Letters = nil; len(dead.Letters) == 0; {
		d.call(200, &dead, "GET", "/v1/webhooks/dead", "", auth(ann)...)
	}
	d.call(204, nil, "DELETE", "/v1/webhooks/dead/"+l.ID, "", auth(ann)...)
	d.refused(404, messages.ErrNotFound, "POST", retry, "", auth(ann)...)
	d.refused(400, messages.ErrInvalid, "GET", "/v1/webhooks/dead?after=ci.msg_x", "", auth(ann)...)
}
