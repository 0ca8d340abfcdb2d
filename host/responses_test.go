package host_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
)

// response is what a client makes of an answer.
type response struct {
	status                 int
	ID, Status             string
	Text                   string
	Item                   string
	session, over          string
	code, param, errorText string
}

func (c client) respond(body string, headers ...string) (out response) {
	c.t.Helper()
	w := c.raw(c.t.Context(), "POST", "/v1/responses", body, headers...)
	var v struct {
		ID, Status string
		Output     []struct {
			ID      string
			Content []struct{ Text string }
		}
		Error *struct{ Code, Param, Message string }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		c.t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	out = response{status: w.Code, ID: v.ID, Status: v.Status, session: w.Header().Get("X-Stile-Session"), over: w.Header().Get("X-Stile-Passed-Over")}
	if len(v.Output) == 1 && len(v.Output[0].Content) == 1 {
		out.Item, out.Text = v.Output[0].ID, v.Output[0].Content[0].Text
	}
	if v.Error != nil {
		out.code, out.param, out.errorText = v.Error.Code, v.Error.Param, v.Error.Message
	}
	return out
}

func ask(text, more string) string {
	return fmt.Sprintf(`{"model": "echo", "input": %q%s}`, text, more)
}

func previous(id string) string { return fmt.Sprintf(`, "previous_response_id": %q`, id) }

// What goes on with a response, and with what.
func TestResponseGoesOn(t *testing.T) {
	bubble(t, host.Config{ChatSessions: 100}, []*stile.Agent{agentOf("echo", echo), agentOf("other", echo)}, func(t *testing.T, c client) {
		first := c.respond(ask("one", ""))
		second := c.respond(ask("two", previous(first.ID)))
		if want := "[user: one][assistant: [user: one]][user: two]"; second.Text != want || second.session != first.session {
			t.Errorf("%+v", second)
		}
		// An id that is not the head forks, each time anew.
		forks := map[string]bool{}
		for _, text := range []string{"b", "c"} {
			fork := c.respond(ask(text, previous(first.ID)))
			forks[fork.session] = true
			if want := "[user: one][assistant: [user: one]][user: " + text + "]"; fork.Text != want {
				t.Errorf("%+v", fork)
			}
			if on := c.respond(ask("on", previous(fork.ID))); on.session != fork.session || !strings.HasPrefix(on.Text, fork.Text) {
				t.Errorf("%+v", on)
			}
		}
		if len(forks) != 2 || forks[first.session] {
			t.Errorf("%v", forks)
		}
		// A repeat with a key is the same run, of the head and of a fork.
		for _, prev := range []string{second.ID, first.ID} {
			a, b := c.respond(ask("k", previous(prev)), "Idempotency-Key", "k"), c.respond(ask("k", previous(prev)), "Idempotency-Key", "k")
			if a.ID != b.ID || a.status != 200 || a.Text != b.Text {
				t.Errorf("%+v, then %+v", a, b)
			}
		}
		a, b := c.respond(ask("k", ""), "Idempotency-Key", "k"), c.respond(ask("k", ""), "Idempotency-Key", "k")
		if a.ID != b.ID || a.Text != "[user: k]" || a.session == first.session {
			t.Errorf("%+v, then %+v", a, b)
		}
		if got := c.respond(`{"model": "other", "input": "k"}`, "Idempotency-Key", "k"); got.status != 422 || got.code != "ERR_CONFLICT" || got.param != "Idempotency-Key" {
			t.Errorf("a key of another agent: %+v", got)
		}
		for _, by := range []struct {
			agent  string
			status int
		}{{"echo", 200}, {"other", 422}} {
			if got := c.chat(time.Minute, chatBody(by.agent, "k"), "Idempotency-Key", "k"); got.status != by.status {
				t.Errorf("a completion by %s under a key: %+v", by.agent, got)
			}
		}
		// Of requests at once that go on from one response, one has its session.
		var all sync.Map
		var wait sync.WaitGroup
		for n := range 4 {
			wait.Go(func() {
				got := c.respond(ask(fmt.Sprint(n), previous(a.ID)))
				all.Store(got.session, true)
				if want := fmt.Sprintf("[user: k][assistant: [user: k]][user: %d]", n); got.Text != want {
					t.Errorf("%+v", got)
				}
			})
		}
		wait.Wait()
		n := 0
		all.Range(func(any, any) bool { n++; return true })
		if n != 4 {
			t.Errorf("4 requests have %d sessions", n)
		}
		for what, got := range map[string]response{
			"another user's":       c.respond(ask("x", previous(first.ID)), "X-Stile-User", "bob"),
			"one that is to come":  c.respond(ask("x", previous(strings.Replace(first.ID, "_1", "_99", 1)))),
			"one that never was":   c.respond(ask("x", previous("resp_"+strings.Repeat("0", 32)+"_1"))),
			"one not stored":       c.respond(ask("x", previous(c.respond(ask("x", `, "store": false`)).ID))),
			"one of another agent": c.respond(`{"model": "other", "input": "x"` + previous(second.ID) + `}`),
			"a session as well":    c.respond(ask("x", previous(first.ID)), "X-Stile-Session", "s"),
		} {
			if got.status != map[string]int{"one of another agent": 409, "a session as well": 400}[what] && (got.status != 404 || got.param != "previous_response_id" || !strings.Contains(got.errorText, "no response")) {
				t.Errorf("%s: %+v", what, got)
			}
		}
		gone := c.respond(ask("x", `, "conversation": "chat-00000000-0000-7000-8000-000000000000"`))
		if gone.status != 404 || gone.code != "ERR_NOT_FOUND" {
			t.Errorf("a conversation that has gone: %+v", gone)
		}
		// One that has expired.
		defer c.srv.Retain()()
		time.Sleep(26 * time.Hour)
		if got := c.respond(ask("x", previous(first.ID))); got.status != 404 || got.code != "ERR_NOT_FOUND" {
			t.Errorf("%+v", got)
		}
	})
}

// The client's instructions are a message of its user's, said once.
func TestResponseInstructions(t *testing.T) {
	bubble(t, host.Config{}, []*stile.Agent{agentOf("echo", echo)}, func(t *testing.T, c client) {
		brief, long := `, "instructions": "Be brief."`, `, "instructions": "Be long."`
		first := c.respond(ask("one", brief))
		second := c.respond(ask("two", brief+previous(first.ID)))
		third := c.respond(ask("three", previous(second.ID)))
		fourth := c.respond(ask("four", brief+previous(third.ID)))
		fifth := c.respond(ask("five", long+previous(fourth.ID)))
		if first.Text != "[user: Be brief.][user: one]" || !strings.HasPrefix(second.Text, first.Text) || !strings.HasSuffix(second.Text, "]][user: two]") || !strings.HasSuffix(fourth.Text, "]][user: four]") {
			t.Errorf("%q, %q, %q", first.Text, second.Text, fourth.Text)
		}
		if !strings.HasSuffix(fifth.Text, "[user: Be long.][user: five]") || strings.Contains(fourth.Text, "long") {
			t.Errorf("%q", fifth.Text)
		}
		// Of a conversation those count that it began with.
		begun := c.respond(ask("one", brief+`, "conversation": "talk"`))
		on := c.respond(ask("two", long+`, "conversation": {"id": "talk"}`))
		if begun.Text != "[user: Be brief.][user: one]" || on.Text != begun.Text+"[assistant: "+begun.Text+"][user: two]" || on.over != "instructions" || begun.over != "" || on.session != "talk" {
			t.Errorf("%+v, %+v", begun, on)
		}
		if named := c.respond(ask("three", ""), "X-Stile-Session", "talk"); !strings.HasPrefix(named.Text, on.Text) {
			t.Errorf("%+v", named)
		}
	})
}

// A client that keeps the conversation refers to answers by their ids.
func TestResponseItems(t *testing.T) {
	bubble(t, host.Config{}, []*stile.Agent{agentOf("echo", echo)}, func(t *testing.T, c client) {
		first := c.respond(ask("one", ""))
		items := func(id string) string {
			return `{"model": "echo", "input": [{"role": "user", "content": "one"}, {"type": "item_reference", "id": "` + id + `"}, {"role": "user", "content": "two"}]}`
		}
		if got := c.respond(items(first.Item)); got.Text != "[user: one][assistant: [user: one]][user: two]" || got.session == first.session {
			t.Errorf("%+v", got)
		}
		for what, got := range map[string]response{
			"another user's": c.respond(items(first.Item), "X-Stile-User", "bob"),
			"one to come":    c.respond(items(strings.Replace(first.Item, "_1", "_7", 1))),
			"one not stored": c.respond(items(c.respond(ask("x", `, "store": false`)).Item)),
		} {
			if got.status != 404 || got.param != "input[1].id" {
				t.Errorf("%s: %+v", what, got)
			}
		}
	})
}

// A repeat that its client marks is the same response.
func TestResponseRepeats(t *testing.T) {
	var runs atomic.Int64
	bubble(t, host.Config{}, []*stile.Agent{agentOf("echo", counted{runs: &runs, take: time.Second})}, func(t *testing.T, c client) {
		for _, more := range []string{"", `, "store": false, "temperature": 1`, `, "conversation": "s"`} {
			runs.Store(0)
			a := c.respond(ask("yes", more), "X-Stainless-Retry-Count", "0")
			b := c.respond(ask("yes", more), "X-Stainless-Retry-Count", "1")
			if a != b || a.status != 200 || runs.Load() != 1 {
				t.Errorf("%d runs: %+v, then %+v", runs.Load(), a, b)
			}
		}
	})
}
