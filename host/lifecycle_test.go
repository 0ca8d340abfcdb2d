package host_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/messages"
)

// A deleted session is gone for everybody: who follows it hears the end, its id is free,
// and what was said under it is nowhere.
func TestDeleteOverHTTP(t *testing.T) {
	goOn := make(chan struct{})
	d := serve(t, host.Config{Limits: host.Limits{Sessions: 2, Runs: 1}}, agentOf("talker", speaks([]string{"swordfish"}, always())), agentOf("stuck", speaks([]string{"x"}, goOn)))
	d.session("s", "talker")
	events(t, d.ask("POST", "/v1/sessions/s/runs?stream=event", `{"input": "swordfish"}`).Body, 100)
	d.session("busy", "stuck")
	d.call(202, nil, "POST", "/v1/sessions/busy/runs", `{"input": "go"}`)
	followed := d.ask("GET", "/v1/sessions/busy/events", "")
	for _, id := range []string{"s", "busy"} {
		d.call(204, nil, "DELETE", "/v1/sessions/"+id, "")
		d.refused(404, messages.ErrNotFound, "DELETE", "/v1/sessions/"+id, "")
		d.refused(404, messages.ErrNotFound, "GET", "/v1/sessions/"+id, "")
		d.refused(404, messages.ErrNotFound, "GET", "/v1/sessions/"+id+"/export", "")
		d.refused(404, messages.ErrNotFound, "POST", "/v1/sessions/"+id+"/fork", `{}`)
		d.refused(404, messages.ErrNotFound, "POST", "/v1/sessions/"+id+"/runs", `{"input": "x"}`)
	}
	all := events(t, followed.Body, 1000) // it ends by itself
	if n := len(all); n == 0 || all[n-1].name != "session.closed" {
		t.Errorf("who followed heard %+v", all)
	}
	var list struct{ Sessions []any }
	if d.call(200, &list, "GET", "/v1/sessions", ""); len(list.Sessions) != 0 {
		t.Errorf("%+v", list)
	}
	var usage struct{ Runs int }
	if d.call(200, &usage, "GET", "/v1/usage", ""); usage.Runs != 0 {
		t.Errorf("%+v", usage)
	}
	d.session("s", "talker")
	d.session("busy", "talker")
	b, err := io.ReadAll(d.ask("GET", "/v1/sessions/s/export", "").Body)
	if err != nil || strings.Contains(string(b), "swordfish") || strings.Count(string(b), "\n") != 1 {
		t.Errorf("%s, %v", b, err)
	}
}

// A person is erased with one request, by who may act for them, and nobody else is.
func TestEraseUserOverHTTP(t *testing.T) {
	k := newTokens(t)
	audit := filepath.Join(t.TempDir(), "audit.jsonl")
	goOn := make(chan struct{})
	d := serve(t, host.Config{Access: k, Audit: host.AuditFile(audit), Limits: host.Limits{Sessions: 2, Runs: 1}}, agentOf("talker", speaks([]string{"swordfish"}, always())), agentOf("stuck", speaks([]string{"x"}, goOn)))
	backend, _ := k.make("acme", "svc", "admin", "users")
	admin, _ := k.make("acme", "bob", "admin")
	stranger, _ := k.make("globex", "svc", "admin", "users")
	const ann = "ann@example.com"
	as := func(user string) []string { return auth(backend, "X-Stile-User", user) }
	d.call(201, nil, "POST", "/v1/sessions", `{"agent": "talker", "id": "s"}`, as(ann)...)
	d.call(201, nil, "POST", "/v1/sessions", `{"agent": "stuck", "id": "busy"}`, as(ann)...)
	d.call(202, nil, "POST", "/v1/sessions/busy/runs", `{"input": "go"}`, as(ann)...)
	if p := d.refused(403, messages.ErrDenied, "DELETE", "/v1/users/"+ann, "", auth(admin)...); p.Reason != access.ReasonScope {
		t.Errorf("%+v", p)
	}
	var gone struct {
		User     string
		Sessions int
	}
	if d.call(200, &gone, "DELETE", "/v1/users/"+ann, "", auth(stranger)...); gone.Sessions != 0 {
		t.Errorf("another tenant erased %+v", gone)
	}
	for _, want := range []int{2, 0} {
		if d.call(200, &gone, "DELETE", "/v1/users/"+ann, "", auth(backend)...); gone.Sessions != want || gone.User != access.Part(ann) {
			t.Errorf("%+v, want %d sessions", gone, want)
		}
	}
	d.refused(404, messages.ErrNotFound, "GET", "/v1/sessions/s", "", as(ann)...)
	d.call(201, nil, "POST", "/v1/sessions", `{"agent": "talker", "id": "s"}`, as("bob")...) // there is room again
	d.call(202, nil, "POST", "/v1/sessions/s/runs", `{"input": "go"}`, as("bob")...)
	if d.call(200, &gone, "DELETE", "/v1/users/bob", "", auth(admin)...); gone.Sessions != 1 {
		t.Errorf("%+v", gone)
	}
	if log, err := os.ReadFile(audit); err != nil || !strings.Contains(string(log), `"detail":"user `+access.Part(ann)+`, 2 sessions"`) || strings.Contains(string(log), "swordfish") {
		t.Errorf("%s, %v", log, err)
	}
}

// A fork has what was said up to its turn, and goes its own way.
func TestForkOverHTTP(t *testing.T) {
	d := serve(t, host.Config{}, agentOf("talker", speaks([]string{"hello"}, always())))
	d.session("s", "talker")
	for range 2 {
		events(t, d.ask("POST", "/v1/sessions/s/runs?stream=event", `{"input": "go"}`).Body, 100)
	}
	var fork struct {
		ID, State string
		Turn, Seq int64
	}
	d.call(201, &fork, "POST", "/v1/sessions/s/fork", `{"id": "f", "turn": 1}`)
	if fork.ID != "f" || fork.Turn != 1 || fork.State != "idle" {
		t.Errorf("%+v", fork)
	}
	events(t, d.ask("POST", "/v1/sessions/f/runs?stream=event", `{"input": "go"}`).Body, 100)
	if d.call(200, &fork, "GET", "/v1/sessions/f", ""); fork.Turn != 2 {
		t.Errorf("%+v", fork)
	}
	d.call(201, &fork, "POST", "/v1/sessions/s/fork", `{}`)
	if fork.ID == "" || fork.Turn != 2 {
		t.Errorf("%+v", fork)
	}
	// With an input it begins before the run of the turn, and the run begins at once.
	var again struct {
		State             string
		Queued, Run, Turn int64
	}
	d.call(201, &again, "POST", "/v1/sessions/s/fork", `{"id": "again", "turn": 2, "input": "another way"}`)
	if again.State == "interrupted" {
		t.Fatalf("nothing runs it: %+v", again)
	}
	events(t, d.ask("GET", "/v1/sessions/again/runs/2/events?stream=event", "").Body, 100)
	var told struct{ Text, Decision, State string }
	d.call(200, &told, "GET", "/v1/sessions/again/runs/2", "")
	if told.Decision != "DONE" || told.Text != "hello" {
		t.Errorf("%+v %+v", again, told)
	}
	d.call(201, &fork, "POST", "/v1/sessions/s/fork", `{"id": "stopped", "turn": 1, "stop": true}`)
	if fork.State != "idle" || fork.Turn != 1 {
		t.Errorf("%+v", fork)
	}
	d.refused(400, messages.ErrInvalid, "POST", "/v1/sessions/s/fork", `{"stop": true, "input": "x"}`)
	d.refused(404, messages.ErrNotFound, "POST", "/v1/sessions/s/fork", `{"turn": 99, "input": "x"}`)
	d.refused(409, messages.ErrConflict, "POST", "/v1/sessions/s/fork", `{"id": "f"}`)
	d.refused(400, messages.ErrInvalid, "POST", "/v1/sessions/s/fork", `{"id": "a:b"}`)
	d.refused(404, messages.ErrNotFound, "POST", "/v1/sessions/s/fork", `{"turn": 99}`)
	d.refused(404, messages.ErrNotFound, "POST", "/v1/sessions/nobody/fork", `{}`)
}

// A host with a retention deletes what is older, when it starts and from time to time.
func TestRetention(t *testing.T) {
	d := serve(t, host.Config{Retention: time.Millisecond}, agentOf("talker", speaks([]string{"hello"}, always())))
	d.session("s", "talker")
	for {
		var list struct{ Sessions []any }
		if d.call(200, &list, "GET", "/v1/sessions", ""); len(list.Sessions) == 0 {
			break
		}
	}
	d.session("s", "talker")
}

// What is old, and which run ended a moment ago, goes by the clock on which hosts agree, however far
// this host's own has gone.
func TestAgesByTheClockOfAll(t *testing.T) {
	cfg := host.Config{Retention: 24 * time.Hour, ChatRetention: 24 * time.Hour}
	bubble(t, cfg, []*stile.Agent{agentOf("echo", echo)}, func(t *testing.T, c client) {
		var late atomic.Int64 // by which that clock is behind this host's
		c.srv.SetNow(func() time.Time { return time.Now().Add(-time.Duration(late.Load())) })
		c.chat(0, chatBody("echo", "hello"), "X-Stile-Session", "named")
		first := c.chat(0, chatBody("echo", "hello"))
		begun := time.Now()
		defer c.srv.Retain()()
		for time.Since(begun) < 50*time.Hour {
			late.Store(int64(time.Since(begun) + time.Minute))
			time.Sleep(time.Minute)
		}
		if got := c.list("?ephemeral=true"); len(got) != 2 {
			t.Fatalf("of sessions of this minute there are %q", got)
		}
		if again := c.chat(0, chatBody("echo", "hello"), "X-Stainless-Retry-Count", "1"); again.header.Get("X-Stile-Session") != first.header.Get("X-Stile-Session") {
			t.Error("the repeat of a request of this minute has a run of its own")
		}
		late.Store(0)
		time.Sleep(2 * time.Hour)
		if got := c.list("?ephemeral=true"); len(got) != 0 {
			t.Errorf("of old sessions there are %q", got)
		}
	})
}
