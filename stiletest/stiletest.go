// Package stiletest is for the tests of programs that have agents: it runs an agent on a
// scripted model, in memory, and says what the model saw, what was called, and how it ended.
//
//	func TestRefund(t *testing.T) {
//		s := stiletest.Open(t, shop.Agent(), "<action id=…>", "<response>Done.</response>")
//		s.Approve = func(stile.Approval) bool { return true }
//		r := s.Say("I want my money back.")
//		r.Want(stile.Done)
//		r.WantCall("shop.refund", `{"order": "A-17"}`)
//	}
//
// The script is a model that answers with its replies in their order: what is tested is all
// of the agent but the model. Tools run as they do in the program; a test gives the agent
// tools of its own where they must not.
//
// Time is that of the test: inside testing/synctest the clocks, deadlines and retries of the
// runtime are those of the bubble, and a test of a timeout takes no time.
//
// A session belongs to one test; Say is for one goroutine at a time.
package stiletest

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// Session is a session of an agent under test. Its embedded session has all that sessions
// have.
type Session struct {
	*stile.Session
	// Runtime is where the session lives, for what a test wants beyond it.
	Runtime *stile.Runtime
	// Approve answers calls that wait for a person. Without it such a call fails the test,
	// and is denied.
	Approve func(stile.Approval) bool

	t     testing.TB
	model *recorder
}

// Open runs agent in memory, with replies as its model's. Without replies the agent keeps the
// model that it has. The agent itself is not changed. The runtime is closed when the test
// ends; errors end the test.
func Open(t testing.TB, agent *stile.Agent, replies ...string) *Session {
	t.Helper()
	return OpenIn(t, stile.Config{InMemory: true}, agent, replies...)
}

// OpenIn is Open in a runtime with these settings, such as a data directory that a second
// session of the test opens again.
func OpenIn(t testing.TB, cfg stile.Config, agent *stile.Agent, replies ...string) *Session {
	t.Helper()
	own := *agent
	s := &Session{t: t}
	switch {
	case len(replies) > 0:
		s.model = &recorder{Model: stile.ScriptedModel(replies...)}
		own.Model = s.model
	case own.Model != nil:
		s.model = &recorder{Model: own.Model}
		own.Model = s.model
	}
	rt, err := stile.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rt.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	s.Runtime = rt
	if s.Session, err = rt.Open(t.Context(), "test", &own); err != nil {
		t.Fatal(err)
	}
	return s
}

// Say submits an input and waits until its run has ended. Errors end the test; a HALT is
// none.
func (s *Session) Say(input string, opts ...stile.SubmitOption) *Reply {
	s.t.Helper()
	ctx := s.t.Context()
	run, err := s.Submit(ctx, input, opts...)
	if err != nil {
		s.t.Fatal(err)
	}
	for u, err := range run.Events(ctx) {
		if err != nil {
			s.t.Fatal(err)
		}
		if u.Record == nil {
			continue
		}
		if _, waits := u.Record.Body.(*messages.TurnSuspended); waits {
			s.answer(ctx)
		}
	}
	r := &Reply{t: s.t}
	if r.Outcome, err = run.Decision(ctx); err != nil {
		s.t.Fatal(err)
	}
	r.Calls = s.calls(ctx, run.Ordinal())
	return r
}

// answer answers what waits.
func (s *Session) answer(ctx context.Context) {
	s.t.Helper()
	waiting, err := s.Approvals(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, q := range waiting {
		switch {
		case s.Approve == nil:
			s.t.Errorf("%s %s waits for approval, and the test has no Approve", q.Tool, q.Args)
			fallthrough
		case !s.Approve(q):
			err = s.Deny(ctx, q, "stiletest", "the test says no")
		default:
			err = s.Session.Approve(ctx, q, "stiletest")
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

// calls are those of a run, in the order in which they were asked for.
func (s *Session) calls(ctx context.Context, run int64) (all []Call) {
	s.t.Helper()
	at := map[string]int{}
	for rec, err := range s.Query(ctx, stile.RecordQuery{Run: run, Kinds: []stile.Kind{messages.KindActionDeclared, messages.KindActionEnded}}) {
		if err != nil {
			s.t.Fatal(err)
		}
		switch b := rec.Body.(type) {
		case *messages.ActionDeclared:
			at[fmt.Sprint(rec.Turn, b.ID)] = len(all)
			all = append(all, Call{Turn: rec.Turn, ID: b.ID, Name: b.Name, Args: b.Args})
		case *messages.ActionEnded:
			if i, ok := at[fmt.Sprint(rec.Turn, b.ID)]; ok {
				all[i].State, all[i].Result, all[i].Reason = b.State, b.Result, b.Reason
			}
		}
	}
	return all
}

// Requests are what the model was asked so far, in order; none where the agent's manifest
// names its model.
func (s *Session) Requests() []stile.ModelRequest {
	if s.model == nil {
		return nil
	}
	s.model.mu.Lock()
	defer s.model.mu.Unlock()
	return append([]stile.ModelRequest(nil), s.model.seen...)
}

// Prompt is the request of a number, from 0, as text: each message under a line with its
// role. It is what a golden file of prompts holds.
func (s *Session) Prompt(n int) string {
	s.t.Helper()
	all := s.Requests()
	if n < 0 || n >= len(all) {
		s.t.Fatalf("prompt %d of %d", n, len(all))
	}
	var b strings.Builder
	for _, m := range all[n].Messages {
		fmt.Fprintf(&b, "--- %s ---\n%s\n", m.Role, strings.TrimSuffix(m.Text, "\n"))
	}
	return b.String()
}

// Reply is how a run ended, with what it called. The outcome's Text is the answer.
type Reply struct {
	stile.Outcome
	Calls []Call

	t testing.TB
}

// Call is one call of a run: Args are JSON, Result and Reason as the model is told them.
type Call struct {
	Turn           int64
	ID, Name, Args string
	State          messages.ActionState
	Result, Reason string
}

func (c Call) String() string {
	text := c.Name + " " + c.Args + ": " + string(c.State)
	if c.Reason != "" {
		text += " (" + c.Reason + ")"
	}
	return text
}

// Want fails the test unless the run ended with this decision, and says why it did not.
func (r *Reply) Want(decision stile.Decision) {
	r.t.Helper()
	if r.Decision != decision {
		r.t.Errorf("the run ended %s %s %s, want %s; it said %q\ncalls:\n%s", r.Decision, r.Reason, r.Detail, decision, r.Text, r.list())
	}
}

// WantText fails the test unless the answer is this text, but for white space around it.
func (r *Reply) WantText(text string) {
	r.t.Helper()
	if got := strings.TrimSpace(r.Text); got != strings.TrimSpace(text) {
		r.t.Errorf("the run said\n%s\nwant\n%s", got, text)
	}
}

// WantCall fails the test unless the tool was called with these arguments, as JSON; "" is any.
// It gives the first such call.
func (r *Reply) WantCall(name, args string) Call {
	r.t.Helper()
	for _, c := range r.Calls {
		if c.Name == name && (args == "" || equal(r.t, c.Args, args)) {
			return c
		}
	}
	r.t.Errorf("no call of %s %s among\n%s", name, args, r.list())
	return Call{}
}

// WantNoCall fails the test if the tool was called.
func (r *Reply) WantNoCall(name string) {
	r.t.Helper()
	for _, c := range r.Calls {
		if c.Name == name {
			r.t.Errorf("there is a call: %s", c)
		}
	}
}

func (r *Reply) list() string {
	lines := make([]string, len(r.Calls))
	for i, c := range r.Calls {
		lines[i] = "  " + c.String()
	}
	return strings.Join(lines, "\n")
}

// equal compares values of JSON.
func equal(t testing.TB, got, want string) bool {
	t.Helper()
	var a, b any
	if err := json.Unmarshal([]byte(want), &b); err != nil {
		t.Fatalf("the wanted arguments are no JSON: %v", err)
	}
	return json.Unmarshal([]byte(got), &a) == nil && reflect.DeepEqual(a, b)
}

// Golden compares a text with a file of the test's folder. With STILETEST_UPDATE=1 in the
// environment it writes the file.
func Golden(t testing.TB, path, got string) {
	t.Helper()
	if os.Getenv("STILETEST_UPDATE") == "1" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; STILETEST_UPDATE=1 writes it", err)
	}
	if got != string(want) {
		t.Errorf("%s is another text; STILETEST_UPDATE=1 writes it. Got\n%s", path, got)
	}
}

// recorder is a model that keeps what it was asked.
type recorder struct {
	stile.Model
	mu   sync.Mutex
	seen []stile.ModelRequest
}

func (m *recorder) Stream(ctx context.Context, req stile.ModelRequest) iter.Seq2[stile.ModelChunk, error] {
	m.mu.Lock()
	m.seen = append(m.seen, req)
	m.mu.Unlock()
	return m.Model.Stream(ctx, req)
}

// Ordered is how a session counts the replies of a script that it has had.
func (m *recorder) Ordered(req stile.ModelRequest) bool {
	script, ok := m.Model.(interface {
		Ordered(req stile.ModelRequest) bool
	})
	return !ok || script.Ordered(req)
}
