package stiletest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/stiletest"
)

type refund struct {
	Order string `json:"order"`
}

// desk is an agent with a tool that a person allows.
func desk(t *testing.T, do func(context.Context, refund) (string, error)) *stile.Agent {
	t.Helper()
	tool, err := stile.DefineTool("desk.refund", "Gives money back.", stile.Effectful, do)
	if err != nil {
		t.Fatal(err)
	}
	return &stile.Agent{
		Dialect: "cortex", Instructions: "You are at the desk.", Tools: []stile.Tool{tool},
		Gate: func(stile.GateRequest) (stile.GateAnswer, string, bool) {
			return stile.GateConfirm, "it is money", true
		},
	}
}

const asks = `<action id="r">{"name": "desk.refund", "parameters": {"order": "A-17"}}</action><response final="false">One moment.</response>`

func TestSession(t *testing.T) {
	paid := 0
	s := stiletest.Open(t, desk(t, func(_ context.Context, in refund) (string, error) {
		paid++
		return "paid " + in.Order, nil
	}), asks, `<response>Your money is on its way.</response>`)
	var asked []string
	s.Approve = func(q stile.Approval) bool {
		asked = append(asked, q.Tool)
		return true
	}
	r := s.Say("I want my money back.")
	r.Want(stile.Done)
	r.WantText("One moment.\n\nYour money is on its way.")
	if c := r.WantCall("desk.refund", `{ "order" : "A-17" }`); c.State != "ok" || !strings.Contains(c.Result, "paid A-17") {
		t.Errorf("%+v", c)
	}
	r.WantNoCall("desk.lookup")
	if paid != 1 || fmt.Sprint(asked) != "[desk.refund]" {
		t.Errorf("paid %d times, asked %q", paid, asked)
	}
	if n := len(s.Requests()); n != 2 {
		t.Fatalf("%d requests", n)
	}
	if p := s.Prompt(0); !strings.Contains(p, "You are at the desk.") || !strings.Contains(p, "--- user ---\n") || !strings.Contains(p, "I want my money back.") {
		t.Errorf("the first prompt is %s", p)
	}
	if p := s.Prompt(1); !strings.Contains(p, "paid A-17") {
		t.Errorf("the second prompt is %s", p)
	}
}

// failed runs f with a test that may fail, and gives what it said.
func failed(t *testing.T, f func(testing.TB)) string {
	t.Helper()
	fake := &recording{TB: t}
	done := make(chan struct{})
	go func() { // Fatal ends its goroutine
		defer close(done)
		f(fake)
	}()
	<-done
	for i := len(fake.undo) - 1; i >= 0; i-- {
		fake.undo[i]()
	}
	return strings.Join(fake.said, "\n")
}

// recording is a test that keeps its failures for itself.
type recording struct {
	testing.TB
	said []string
	undo []func()
}

func (r *recording) Errorf(format string, args ...any) {
	r.said = append(r.said, fmt.Sprintf(format, args...))
}
func (r *recording) Cleanup(f func()) { r.undo = append(r.undo, f) }

func TestFailuresAreTold(t *testing.T) {
	tool := func(context.Context, refund) (string, error) { return "", fmt.Errorf("the till is closed") }
	said := failed(t, func(t2 testing.TB) {
		s := stiletest.Open(t2, desk(t, tool), asks, `<response>Sorry.</response>`) // no principal approves
		r := s.Say("Please.")
		r.Want(stile.Halt)
		r.WantText("Done.")
		r.WantCall("desk.refund", `{"order": "B-2"}`)
		r.WantNoCall("desk.refund")
	})
	for _, want := range []string{
		`desk.refund {"order":"A-17"} waits for approval`, "the run ended DONE", "want HALT", "Sorry.\nwant\nDone.",
		`no call of desk.refund {"order": "B-2"} among`, `there is a call: desk.refund {"order":"A-17"}: `,
	} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not in\n%s", want, said)
		}
	}
}

// In a bubble of synctest a tool that sleeps for an hour takes no time.
func TestClockOfABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		agent := desk(t, func(ctx context.Context, _ refund) (string, error) {
			select {
			case <-ctx.Done():
			case <-time.After(time.Hour):
			}
			return "late", ctx.Err()
		})
		s := stiletest.Open(t, agent, asks, `<response>It took too long.</response>`)
		s.Approve = func(stile.Approval) bool { return true }
		r := s.Say("Please.")
		if c := r.WantCall("desk.refund", ""); c.State == "ok" {
			t.Errorf("%+v", c)
		}
		if d := time.Since(began); d < time.Second || d >= time.Hour {
			t.Errorf("it took %s of the bubble", d)
		}
	})
}

// The runtime's settings are the test's: what one session left another finds.
func TestOpenIn(t *testing.T) {
	dir := t.TempDir()
	t.Run("first", func(t *testing.T) {
		s := stiletest.OpenIn(t, stile.Config{Dir: dir}, &stile.Agent{Dialect: "plain"}, "Hello, Ada.")
		s.Say("I am Ada.").WantText("Hello, Ada.")
	})
	t.Run("second", func(t *testing.T) {
		s := stiletest.OpenIn(t, stile.Config{Dir: dir}, &stile.Agent{Dialect: "plain"}, "", "You are Ada.")
		s.Say("Who am I?").WantText("You are Ada.")
		if p := s.Prompt(0); !strings.Contains(p, "I am Ada.") {
			t.Errorf("the history is missing: %s", p)
		}
	})
}

func TestGolden(t *testing.T) {
	path := filepath.Join(t.TempDir(), "prompt.txt")
	t.Setenv("STILETEST_UPDATE", "1")
	stiletest.Golden(t, path, "text\n")
	t.Setenv("STILETEST_UPDATE", "")
	stiletest.Golden(t, path, "text\n")
	if said := failed(t, func(t testing.TB) { stiletest.Golden(t, path, "other\n") }); !strings.Contains(said, "another text") {
		t.Errorf("%q", said)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "text\n" {
		t.Errorf("%q, %v", b, err)
	}
}
