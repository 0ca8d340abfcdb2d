package tests

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// attempts is a tool that hangs in its first attempt and succeeds in the others. It
// keeps what it was called with.
type attempts struct {
	mu    sync.Mutex
	calls []tools.Call
	in    chan struct{}
}

func newAttempts() *attempts { return &attempts{in: make(chan struct{}, 9)} }

func (a *attempts) run(ctx context.Context, c *tools.Call) (neuroscript.Value, error) {
	a.mu.Lock()
	a.calls = append(a.calls, *c)
	n := len(a.calls)
	a.mu.Unlock()
	a.in <- struct{}{}
	if n == 1 {
		return waits(ctx, c)
	}
	return neuroscript.String(fmt.Sprint("attempt ", c.Attempt)), nil
}

func (a *attempts) seen() []tools.Call {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.calls)
}

const handled = "on error as e do\nemit \"caught \" + e.code + \": \" + e.message\nclear_error\nendon"

// restored checks the records of a session whose first turn was restored, and that
// all of it verifies and replays.
func restored(t *testing.T, l *life, s *stile.Session, a *stile.Agent, want int) []*stile.Record {
	t.Helper()
	recs := records(t, s)
	got := bodies[*messages.TurnRestored](recs)
	if len(got) != want {
		t.Fatalf("the turn was restored %d times, want %d: %v", len(got), want, kinds(recs))
	}
	nonces := map[string]bool{bodies[*messages.TurnBegin](recs)[0].Nonce: true}
	for i, b := range got {
		if b.Count != int64(i)+1 || nonces[b.Nonce] {
			t.Errorf("restoration %d: %+v", i, b)
		}
		nonces[b.Nonce] = true
	}
	rep, err := l.rt.Replay(t.Context(), s.SID(), a)
	if err != nil {
		t.Fatal(err)
	}
	if rep.Head != recs[len(recs)-1].Hash {
		t.Errorf("replayed to %s, the head is %s", rep.Head, recs[len(recs)-1].Hash)
	}
	v, err := l.rt.Archive().Verify(t.Context(), s.Incarnation(), stile.VerifyOptions{})
	if err != nil || !v.OK() {
		t.Errorf("%+v %v", v, err)
	}
	return recs
}

// A turn whose reply is durable goes on after a restart: what may be repeated runs
// again with the same key, an effect that had begun is unknown, the program says
// nothing twice, and its token is minted under the new nonce.
func TestTurnIsRestored(t *testing.T) {
	for class, want := range map[messages.Class]string{
		messages.Effectful:  "caught 21: " + messages.UnknownText,
		messages.Keyed:      "got attempt 2",
		messages.Idempotent: "got attempt 2",
		messages.ReadOnly:   "got attempt 2",
	} {
		t.Run(string(class), func(t *testing.T) {
			onJournals(t, func(t *testing.T, l *life) {
				hung := newAttempts()
				after := tool("test.after", messages.Effectful, gives("after"))
				source := program(handled, `emit "before"`, `whisper self, "note"`, `emit tool.test.before()`,
					`set x = tool.test.hang()`, `if x != nil`, `emit "got " + x`, `endif`, `emit tool.test.after()`, sayDone)
				make := func(m *recorder) *stile.Agent {
					return agent(m, nil, tool("test.before", messages.Effectful, gives("was")), tool("test.hang", class, hung.run), after)
				}
				s := open(t, l.begin(), "cut", make(&recorder{Model: says(source)}))
				run := submit(t, s, "go")
				<-hung.in
				if err := s.Flush(t.Context()); err != nil { // what is lazy counts as known
					t.Fatal(err)
				}
				l.end()

				rec := &recorder{Model: says(source)}
				a := make(rec)
				s = open(t, l.begin(), "cut", a)
				defer l.end()
				o := decision(t, s.Run(run.Ordinal()))
				wantDone(t, o)
				if o.Turns != 1 || o.Turn.TurnIndex != 1 || o.Turn.Resumed || len(rec.requests()) != 0 {
					t.Errorf("%d turns, ended in turn %d, resumed %v, %d requests", o.Turns, o.Turn.TurnIndex, o.Turn.Resumed, len(rec.requests()))
				}
				recs := restored(t, l, s, a, 1)
				if got := texts(recs); strings.Join(got, "|") != "before|was|"+want+"|after" {
					t.Errorf("emitted %q", got)
				}
				calls := hung.seen()
				if class == messages.Effectful {
					if len(calls) != 1 {
						t.Errorf("the effect began %d times", len(calls))
					}
					return
				}
				if len(calls) != 2 || calls[0].Key == "" || calls[0].Key != calls[1].Key || calls[1].Attempt != 2 || calls[1].Epoch <= calls[0].Epoch {
					t.Errorf("called with %+v", calls)
				}
			})
		})
	}
}

// A program that is not the same again is the turn's end.
func TestDivergedProgram(t *testing.T) {
	onJournals(t, func(t *testing.T, l *life) {
		hung := newAttempts()
		lives := 0
		moody := tools.Tool{
			Name: "test.mood", Class: messages.Pure, Returns: "string",
			Pure: func(*neuroscript.Call, []neuroscript.Value) (neuroscript.Value, error) {
				return neuroscript.String(fmt.Sprint("life ", lives)), nil
			},
		}
		a := agent(says(program(`emit tool.test.mood()`, `set x = tool.test.hang()`, sayDone)), nil, moody, tool("test.hang", messages.Keyed, hung.run))
		s := open(t, l.begin(), "moody", a)
		run := submit(t, s, "go")
		<-hung.in
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.end()
		lives++
		s = open(t, l.begin(), "moody", a)
		defer l.end()
		wantHalt(t, decision(t, s.Run(run.Ordinal())), messages.ErrCrash, "diverged")
		recs := records(t, s)
		if got := texts(recs); len(got) != 1 || got[0] != "life 0" {
			t.Errorf("emitted %q", got)
		}
		if n := len(bodies[*messages.ActionEnded](recs)); n != 1 {
			t.Errorf("%d ends of one action", n)
		}
		wantDone(t, ask(t, s, "again"))
	})
}

// A tool that kills every process it runs in: three restorations, then the end.
func TestRestorationsAreBounded(t *testing.T) {
	onJournals(t, func(t *testing.T, l *life) {
		in := make(chan struct{}, 9)
		a := agent(says(program(`set x = tool.test.kill()`, sayDone)), nil, entered("test.kill", messages.Keyed, in))
		var run *stile.Run
		for i := range 5 {
			s := open(t, l.begin(), "cursed", a)
			switch i {
			case 0:
				run = submit(t, s, "go")
				fallthrough
			case 1, 2, 3:
				<-in
			case 4:
				wantHalt(t, decision(t, s.Run(run.Ordinal())), messages.ErrCrash, "restarted")
				restored(t, l, s, a, 3)
			}
			l.end()
		}
	})
}

// recovery: halt restores nothing: the run ends.
func TestRecoveryHaltRestoresNothing(t *testing.T) {
	onJournals(t, func(t *testing.T, l *life) {
		hung := newAttempts()
		a := agent(says(program(`set x = tool.test.hang()`, sayDone)), func(m *manifest.Manifest) { m.Loop.Recovery = messages.RecoverHalt },
			tool("test.hang", messages.Keyed, hung.run))
		s := open(t, l.begin(), "cut", a)
		run := submit(t, s, "go")
		<-hung.in
		l.end()
		s = open(t, l.begin(), "cut", a)
		defer l.end()
		wantHalt(t, decision(t, s.Run(run.Ordinal())), messages.ErrCrash, "restarted")
		restored(t, l, s, a, 0)
	})
}

// The time between two lives is not the turn's.
func TestRestoredTurnHasItsTimeLeft(t *testing.T) {
	onJournals(t, func(t *testing.T, l *life) {
		if _, virtual := l.cfg.Store.(quiet); !virtual {
			return // time runs by itself in a bubble alone
		}
		hung := newAttempts()
		short := func(m *manifest.Manifest) {
			m.Quotas.TurnWall, m.Quotas.RunWall = time.Minute, 24*time.Hour // the run's time goes on between lives
		}
		a := agent(says(program(`set x = tool.test.hang()`, sayDone)), short, tool("test.hang", messages.ReadOnly, hung.run))
		s := open(t, l.begin(), "slow", a)
		run := submit(t, s, "go")
		<-hung.in
		time.Sleep(20 * time.Second)
		l.end()
		time.Sleep(time.Hour)
		s = open(t, l.begin(), "slow", a)
		defer l.end()
		wantDone(t, decision(t, s.Run(run.Ordinal())))
	})
}
