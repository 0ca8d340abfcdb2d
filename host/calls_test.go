package host_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/messages"
)

// counted is a model whose replies take a time, and are counted.
type counted struct {
	runs  *atomic.Int64
	first string // before the time
	take  time.Duration
	fail  bool
}

func (m counted) Stream(ctx context.Context, _ llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		n := m.runs.Add(1)
		if m.first != "" && !yield(llm.Chunk{Text: []byte(m.first)}, nil) {
			return
		}
		select {
		case <-time.After(m.take):
		case <-ctx.Done():
			yield(llm.Chunk{Finish: messages.FinishCancelled}, nil)
			return
		}
		if m.fail {
			yield(llm.Chunk{}, errors.New("the wire is cut"))
			return
		}
		if yield(llm.Chunk{Text: fmt.Appendf(nil, "reply %d", n)}, nil) {
			yield(llm.Chunk{Finish: messages.FinishComplete}, nil)
		}
	}
}

// asksFirst is an agent whose call waits for approval.
func asksFirst(t *testing.T, name string, busy messages.Policy) *stile.Agent {
	t.Helper()
	pay := `<execute>[{"name":"lab.pay","args":{"v":"b"}}]</execute>`
	a := simplySpoken(t, name, "cogency", pay, "Paid.")
	a.Model = scripted.New(pay, pay, pay, pay)
	a.Manifest.Loop.Busy = busy
	a.Manifest.Approval.Tools = map[string]messages.GateAnswer{"lab.pay": messages.GateConfirm}
	return a
}

// client asks a host without a network, in a bubble of its own time.
type client struct {
	t   *testing.T
	h   http.Handler
	srv *host.Server
}

type reply struct {
	status  int
	header  http.Header
	text    string // of the answer
	run     int64
	kind    string // of an error
	code    string
	param   string
	message string
}

func (c client) raw(ctx context.Context, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, method, "http://localhost"+path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	c.h.ServeHTTP(w, r)
	return w
}

// chat asks for a completion until patience is over; 0 is for ever.
func (c client) chat(patience time.Duration, body string, headers ...string) reply {
	c.t.Helper()
	ctx := c.t.Context()
	if patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	w := c.raw(ctx, "POST", "/v1/chat/completions", body, headers...)
	var v struct {
		Choices []struct{ Message struct{ Content string } }
		Stile   struct{ Run int64 }
		Error   struct{ Type, Code, Param, Message string }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil && ctx.Err() == nil {
		c.t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	out := reply{status: w.Code, header: w.Header(), run: v.Stile.Run, kind: v.Error.Type, code: v.Error.Code, param: v.Error.Param, message: v.Error.Message}
	if len(v.Choices) == 1 {
		out.text = v.Choices[0].Message.Content
	}
	return out
}

// bubble serves agents in time of its own.
func bubble(t *testing.T, cfg host.Config, agents []*stile.Agent, f func(*testing.T, client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		rt, err := stile.New(t.Context(), stile.Config{InMemory: true, Shared: cfg.Access != nil, Agents: agents})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := rt.Close(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		}()
		cfg.Runtime, cfg.Agents = rt, agents
		srv, err := host.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		f(t, client{t, srv.Handler(), srv})
	})
}

func chatBody(model, text string) string {
	return fmt.Sprintf(`{"model": %q, "messages": [{"role": "user", "content": %q}]}`, model, text)
}

// Clients repeat, one or the other of them, 408, 409, 422, 424, 429 and 5xx. What ends a run is
// answered with none of these.
func TestEndedRunsAreNotRepeated(t *testing.T) {
	var runs atomic.Int64
	bubble(t, host.Config{}, []*stile.Agent{agentOf("broken", counted{runs: &runs, fail: true}), asksFirst(t, "asks", "")}, func(t *testing.T, c client) {
		for model, code := range map[string]messages.Code{"broken": messages.ErrModel, "asks": messages.ErrApproval} {
			got := c.chat(0, chatBody(model, "go"))
			if got.status != 400 || got.kind != "stile_halt" || got.code != string(code) || got.header.Get("X-Should-Retry") != "false" || got.header.Get("Retry-After") != "" {
				t.Errorf("%s: %+v", model, got)
			}
			if strings.Count(got.message, string(code)) != 1 || !strings.HasPrefix(got.message, string(code)) {
				t.Errorf("%s: the message is %q", model, got.message)
			}
			if got.header.Get("X-Stile-Session") == "" || got.header.Get("X-Stile-Run") != "1" {
				t.Errorf("%s: %v", model, got.header)
			}
		}
	})
}

// A stream begins with its first text, or when its client has waited for a while: what ends
// before is answered with a status, as one client repeats a stream that fails before any text.
func TestStreamsBeginLate(t *testing.T) {
	var runs atomic.Int64
	agents := []*stile.Agent{
		agentOf("broken", counted{runs: &runs, fail: true}), asksFirst(t, "asks", ""), agentOf("late", counted{runs: &runs, fail: true, take: 14 * time.Second}),
		agentOf("later", counted{runs: &runs, fail: true, take: 16 * time.Second}), agentOf("speaks", counted{runs: &runs, fail: true, first: "Well"}),
	}
	bubble(t, host.Config{}, agents, func(t *testing.T, c client) {
		for agent, status := range map[string]int{"broken": 400, "asks": 400, "late": 400, "later": 200, "speaks": 200} {
			w := c.raw(t.Context(), "POST", "/v1/chat/completions", strings.Replace(chatBody(agent, "go"), "{", `{"stream": true, `, 1))
			kind, body := w.Header().Get("Content-Type"), w.Body.String()
			if w.Code != status || strings.Count(body, `"type":"stile_halt"`) != 1 || (kind == "application/json") != (status == 400) || (w.Header().Get("X-Should-Retry") == "false") != (status == 400) || strings.Contains(body, "[DONE]") {
				t.Errorf("%s: %d %s %s", agent, w.Code, kind, body)
			}
		}
	})
}

// A repeat is joined when its client marks it, and nothing else is.
func TestRepeatsJoin(t *testing.T) {
	var runs atomic.Int64
	slow := agentOf("slow", counted{runs: &runs, take: 5 * time.Second})
	first, again := []string{"X-Stainless-Retry-Count", "0"}, []string{"X-Stainless-Retry-Count", "1"}
	named := func(id string, more []string) []string { return append([]string{"X-Stile-Session", id}, more...) }
	for name, c := range map[string]struct {
		first, again []string // headers
		patience     time.Duration
		pause        time.Duration // before the second request
		body         string        // of the second request
		runs         int64
		want         string // of the second request
	}{
		"in flight":                       {first: named("s", first), again: named("s", again), patience: time.Second, runs: 1, want: "reply 1"},
		"ended a moment ago":              {first: named("s", first), again: named("s", again), patience: time.Second, pause: time.Minute, runs: 1, want: "reply 1"},
		"answered a moment ago":           {first: named("s", first), again: named("s", again), runs: 1, want: "reply 1"},
		"ended before":                    {first: named("s", first), again: named("s", again), patience: time.Second, pause: time.Minute + 5*time.Second, runs: 2, want: "reply 2"},
		"not marked":                      {first: named("s", first), again: named("s", first), patience: time.Second, runs: 2, want: "reply 2"},
		"without the header":              {first: named("s", nil), again: named("s", nil), runs: 2, want: "reply 2"},
		"another session":                 {first: named("s", first), again: named("z", again), patience: time.Second, runs: 2, want: "reply 2"},
		"another user":                    {first: named("s", first), again: append(named("s", again), "X-Stile-User", "bob"), patience: time.Second, runs: 2, want: "reply 2"},
		"other words":                     {first: named("s", first), again: named("s", again), patience: time.Second, body: chatBody("slow", "no"), runs: 2, want: "reply 2"},
		"no session, in flight":           {first: first, again: again, patience: time.Second, pause: 8 * time.Second, runs: 1, want: "reply 1"},
		"no session, not marked":          {first: nil, again: nil, patience: time.Second, runs: 2, want: "reply 2"},
		"no session, with a key":          {first: []string{"Idempotency-Key", "k"}, again: []string{"Idempotency-Key", "k"}, runs: 1, want: "reply 1"},
		"no session, another key":         {first: []string{"Idempotency-Key", "k"}, again: []string{"Idempotency-Key", "l"}, runs: 2, want: "reply 2"},
		"named, with a key":               {first: named("s", []string{"Idempotency-Key", "k"}), again: named("s", []string{"Idempotency-Key", "k"}), patience: time.Second, runs: 1, want: "reply 1"},
		"a key for other words":           {first: []string{"Idempotency-Key", "k"}, again: []string{"Idempotency-Key", "k"}, body: chatBody("slow", "no"), runs: 1},
		"a mark that is no number":        {first: named("s", first), again: named("s", []string{"X-Stainless-Retry-Count", "x"}), runs: 2, want: "reply 2"},
		"a repeat of what has never come": {first: named("z", first), again: named("s", again), runs: 2, want: "reply 2"},
	} {
		t.Run(name, func(t *testing.T) {
			runs.Store(0)
			bubble(t, host.Config{}, []*stile.Agent{slow}, func(t *testing.T, cl client) {
				cl.chat(c.patience, chatBody("slow", "yes"), c.first...)
				time.Sleep(c.pause)
				got := cl.chat(0, cmp.Or(c.body, chatBody("slow", "yes")), c.again...)
				if got.text != c.want || runs.Load() != c.runs {
					t.Errorf("%d runs, %+v", runs.Load(), got)
				}
				if c.want == "" && (got.status != 422 || got.code != "ERR_CONFLICT" || got.param != "Idempotency-Key") {
					t.Errorf("%+v", got)
				}
			})
		})
	}
}

// A client that hangs up ends a run that no other knows of: at once, or, when it marks repeats,
// when none has come.
func TestRepeatsOfWhatWasHungUp(t *testing.T) {
	var runs atomic.Int64
	slow, speaks := agentOf("slow", counted{runs: &runs, take: time.Hour}), agentOf("speaks", counted{runs: &runs, take: time.Hour, first: "Well"})
	stream := func(model string) string {
		return strings.Replace(chatBody(model, "go"), "{", `{"stream": true, `, 1)
	}
	for _, c := range []struct {
		name    string
		headers []string
		body    string
		after   time.Duration
	}{
		{"unmarked", nil, chatBody("slow", "go"), 0},
		{"marked", []string{"X-Stainless-Retry-Count", "0"}, chatBody("slow", "go"), 10 * time.Second},
		{"a stream", []string{"X-Stainless-Retry-Count", "0"}, stream("slow"), 10 * time.Second},
		{"a stream with text", []string{"X-Stainless-Retry-Count", "0"}, stream("speaks"), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			core, logged := observer.New(zap.WarnLevel)
			defer func() {
				for _, e := range logged.All() {
					t.Errorf("logged: %s %v", e.Message, e.ContextMap())
				}
			}()
			bubble(t, host.Config{Log: zap.New(core)}, []*stile.Agent{slow, speaks}, func(t *testing.T, cl client) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				w := cl.raw(ctx, "POST", "/v1/chat/completions", c.body, c.headers...)
				state := func() string {
					t.Helper()
					synctest.Wait()
					var v struct{ State string }
					res := cl.raw(t.Context(), "GET", "/v1/sessions/"+w.Header().Get("X-Stile-Session")+"/runs/1", "")
					if err := json.Unmarshal(res.Body.Bytes(), &v); err != nil || res.Code != 200 {
						t.Fatalf("%d %s", res.Code, res.Body)
					}
					return v.State
				}
				if c.after > 0 {
					if time.Sleep(c.after - time.Millisecond); state() != "running" {
						t.Error("the run has ended before a repeat could come")
					}
					time.Sleep(2 * time.Millisecond)
				}
				if got := state(); got != "ended" {
					t.Errorf("the run is %s", got)
				}
			})
		})
	}
}

// A session that waits for approval answers at once, and what it was asked is not queued.
func TestWaitingSessionAnswersAtOnce(t *testing.T) {
	agents := []*stile.Agent{asksFirst(t, "asks", messages.Enqueue), asksFirst(t, "joins", messages.Merge), asksFirst(t, "cuts", messages.Interrupt), asksFirst(t, "busy", messages.Reject)}
	bubble(t, host.Config{}, agents, func(t *testing.T, c client) {
		for agent, runs := range map[string]int64{"asks": 1, "joins": 1, "cuts": 2, "busy": 1} {
			in := []string{"X-Stile-Session", agent, "Idempotency-Key", "first"}
			for n, text := range []string{"pay", "and now?"} {
				got := c.chat(time.Minute, chatBody(agent, text), in...)
				if got.status != 400 || got.code != "ERR_APPROVAL" {
					t.Errorf("%s, %d: %+v", agent, n, got)
				}
				in = in[:2]
			}
			var ses struct {
				State       string
				Run, Queued int64
			}
			if err := json.Unmarshal(c.raw(t.Context(), "GET", "/v1/sessions/"+agent, "").Body.Bytes(), &ses); err != nil || ses.Run != runs || ses.Queued != 0 || ses.State != "suspended" {
				t.Errorf("%s: %+v, %v", agent, ses, err)
			}
			// A repeat of the first request is still that request.
			if got := c.chat(time.Minute, chatBody(agent, "pay"), "X-Stile-Session", agent, "Idempotency-Key", "first"); agent != "cuts" && got.header.Get("X-Stile-Run") != "1" {
				t.Errorf("%s: %+v", agent, got)
			}
		}
	})
}

// What clients send beside a text.
func TestChatTakes(t *testing.T) {
	const picture, said = `{"role": "user", "content": [{"type": "text", "text": "Look:"}, {"type": "image_url", "image_url": {"url": "data:,"}}]}`, `{"role": "user", "content": "x"}`
	bubble(t, host.Config{}, []*stile.Agent{agentOf("echo", echo)}, func(t *testing.T, c client) {
		for name, row := range map[string]struct{ body, text, code, param string }{
			"an old picture":       {body: `"model": "echo", "messages": [` + picture + `, ` + said + `]`, text: "[user: Look:\n[not shown: image]][user: x]"},
			"no picture":           {body: `"model": "echo", "messages": [` + picture + `]`, code: "ERR_INVALID", param: "messages[0].content[1].image_url.url"},
			"a picture elsewhere":  {body: `"model": "echo", "messages": [` + strings.Replace(picture, "data:,", "https://example.com/x.png", 1) + `]`, code: "ERR_INVALID", param: "messages[0].content[1].image_url.url"},
			"a model of texts":     {body: `"model": "echo", "messages": [` + strings.Replace(picture, "data:,", "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAA=", 1) + `]`, code: "ERR_INVALID", param: "parts[0].type"},
			"an old part unheard":  {body: `"model": "echo", "messages": [{"role": "user", "content": [{"type": "ghost"}]}, ` + said + `]`, code: "ERR_INVALID", param: "messages[0].content"},
			"an old empty message": {body: `"model": "echo", "messages": [{"role": "assistant", "content": ""}, {"role": "assistant", "content": null}, ` + said + `]`, text: "[user: x]"},
			"an empty message":     {body: `"model": "echo", "messages": [{"role": "user", "content": ""}]`, code: "ERR_INVALID", param: "messages[0].content"},
			"no model":             {body: `"messages": [` + said + `]`, code: "ERR_INVALID", param: "model"},
			"an unknown model":     {body: `"model": "gpt", "messages": [` + said + `]`, code: "model_not_found", param: "model"},
			"tools for nothing":    {body: `"model": "echo", "tools": [{"type": "function"}], "tool_choice": "none", "messages": [` + said + `]`, text: "[user: x]"},
			"tools":                {body: `"model": "echo", "tools": [{"type": "function"}], "messages": [` + said + `]`, code: "ERR_INVALID", param: "tools"},
			"tools by name":        {body: `"model": "echo", "tools": [{"type": "function"}], "tool_choice": {"type": "function"}, "messages": [` + said + `]`, code: "ERR_INVALID", param: "tools"},
		} {
			got := c.chat(0, "{"+row.body+"}")
			status := 200
			switch row.code {
			case "model_not_found":
				status = 404
			case "ERR_INVALID":
				status = 400
			}
			if got.status != status || got.text != row.text || got.code != row.code || got.param != row.param {
				t.Errorf("%s: %+v", name, got)
			}
		}
	})
}

// A path with a segment that clients and proxies leave out or resolve is none.
func TestPathsAreWhole(t *testing.T) {
	bubble(t, host.Config{}, []*stile.Agent{agentOf("echo", echo)}, func(t *testing.T, c client) {
		for _, path := range []string{"/v1/sessions//fork", "/v1/sessions//events", "//v1/agents", "/v1//agents", "/v1/./agents", "/v1/sessions/../agents", "/v1/agents/..", "/v1/sessions/."} {
			for _, method := range []string{"GET", "POST"} {
				w := c.raw(t.Context(), method, path, "")
				if w.Code != 404 || !strings.Contains(w.Header().Get("Content-Type"), "json") || !strings.Contains(w.Body.String(), `"ERR_NOT_FOUND"`) {
					t.Errorf("%s %s: %d %s", method, path, w.Code, w.Body)
				}
			}
		}
		for _, path := range []string{"/v1/agents", "/v1/sessions?q=a//b&tag=../x", "/", "/v1/models/echo"} {
			if w := c.raw(t.Context(), "GET", path, ""); w.Code != 200 {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
		}
	})
}
