package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/stiletest"
)

// The service as its users have it: a stream, a question, a refund that is made once,
// numbers, an end that leaves nothing undone.
func TestDesk(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	own := &shop{paid: map[string]string{}}
	dir := t.TempDir()
	go func() {
		err := serve(ctx, l, stile.Config{Dir: dir}, own)
		if ctx.Err() == nil {
			t.Errorf("the desk closed: %v", err)
		}
		ended <- err
	}()
	d := client{t, "http://" + l.Addr().String()}

	if p := d.get("/"); !strings.Contains(p, "<h1>The desk</h1>") {
		t.Errorf("the page is %s", p)
	}
	d.post("/v1/sessions", `{"agent": "desk", "id": "ada"}`, http.StatusCreated)
	res, err := http.Post(d.url+"/v1/sessions/ada/runs?stream=token&format=simple", "application/json", strings.NewReader(`{"input": "My order A-17 arrived broken."}`))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	said, asked := "", 0
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var e struct{ Type, Content string }
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatal(err)
		}
		switch e.Type {
		case "respond":
			said += e.Content
		case "interrupt":
			asked++
			var list struct {
				Approvals []struct{ ID, Name, Args, Digest string }
			}
			if err := json.Unmarshal([]byte(d.get("/v1/sessions/ada/approvals")), &list); err != nil || len(list.Approvals) != 1 || list.Approvals[0].Name != "desk.refund" {
				t.Fatalf("%+v, %v", list, err)
			}
			if n := d.refunds(); n != "0" {
				t.Errorf("%s refunds before one was allowed", n)
			}
			q := list.Approvals[0]
			d.post("/v1/sessions/ada/approvals/"+q.ID, `{"allow": true, "digest": "`+q.Digest+`"}`, http.StatusNoContent)
		}
	}
	if !strings.Contains(said, "Let me look.") || !strings.HasSuffix(strings.TrimSpace(said), "The money for your teapot is on its way.") || asked != 1 {
		t.Errorf("asked %d times, said %q", asked, said)
	}
	if n := d.refunds(); n != "1" {
		t.Errorf("%s refunds", n)
	}
	http.DefaultClient.CloseIdleConnections()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if len(own.paid) != 1 {
		t.Errorf("paid %v", own.paid)
	}
}

// The agent alone.
func TestRefundIsRefused(t *testing.T) {
	own := &shop{paid: map[string]string{}}
	agent, err := own.agent()
	if err != nil {
		t.Fatal(err)
	}
	s := stiletest.Open(t, agent)
	s.Approve = func(stile.Approval) bool { return false }
	r := s.Say("My order A-17 arrived broken.")
	r.Want(stile.Done)
	r.WantCall("desk.order", `{"order": "A-17"}`)
	if len(own.paid) != 0 || !strings.Contains(r.Text, "the refund was not allowed") {
		t.Errorf("paid %v, said %q", own.paid, r.Text)
	}
}

// The program is short: that is what it shows.
func TestLength(t *testing.T) {
	b, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(b, []byte("\n")); n >= 200 {
		t.Errorf("%d lines", n)
	}
}

type client struct {
	t   *testing.T
	url string
}

func (c client) get(path string) string {
	c.t.Helper()
	res, err := http.Get(c.url + path)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		c.t.Fatalf("%s: %s %s, %v", path, res.Status, b, err)
	}
	return string(b)
}

func (c client) post(path, body string, want int) {
	c.t.Helper()
	res, err := http.Post(c.url+path, "application/json", strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	if b, err := io.ReadAll(res.Body); err != nil || res.StatusCode != want {
		c.t.Fatalf("%s: %s %s, %v", path, res.Status, b, err)
	}
}

// refunds is the number in the metrics, beside those of the runtime.
func (c client) refunds() string {
	c.t.Helper()
	text := c.get("/metrics")
	if !strings.Contains(text, "stile_turns_in_flight ") || !strings.Contains(text, "go_goroutines ") {
		c.t.Errorf("the metrics are %s", text)
	}
	_, n, _ := strings.Cut(text, "\ndesk_refunds_total ")
	n, _, _ = strings.Cut(n, "\n")
	return n
}
