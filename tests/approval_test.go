package tests

import (
	"context"
	"errors"
	"iter"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// payer is an agent whose payments need confirmation.
type payer struct {
	paid atomic.Int64
	*stile.Agent
}

func newPayer() *payer {
	p := &payer{}
	pay := tools.Tool{
		Name: "shop.pay", Class: messages.Effectful, Params: []neuroscript.Param{{Name: "amount", Type: "int"}},
		Run: func(_ context.Context, c *tools.Call) (neuroscript.Value, error) {
			n, _ := c.Args[0].AsInt()
			p.paid.Add(n)
			return neuroscript.String("receipt"), nil
		},
	}
	look := tool("shop.look", messages.ReadOnly, gives("a hat"))
	p.Agent = agent(says(program(handled, `emit "looking"`, `emit tool.shop.look()`, `emit "paying"`, `emit tool.shop.pay(7)`, `emit "after"`, sayDone)),
		func(m *manifest.Manifest) {
			m.Approval.Tools = map[string]messages.GateAnswer{"shop.pay": messages.GateConfirm}
			m.Quotas.TurnWall, m.Quotas.RunWall, m.Quotas.ProgramWall = time.Minute, 2*time.Minute, 30*time.Second
		}, pay, look)
	return p
}

// asked waits for the question of a session. Its record is what tells of it.
func asked(t *testing.T, s *stile.Session) stile.Approval {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for u, err := range s.Events(ctx, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if u.Record == nil || u.Record.Body.Kind() != messages.KindTurnSuspended {
			continue
		}
		list, err := s.Approvals(t.Context())
		if err != nil || len(list) > 1 {
			t.Fatalf("approvals %+v, %v", list, err)
		}
		if len(list) == 1 { // else it is an earlier one, answered since
			return list[0]
		}
	}
	t.Fatal("no question")
	return stile.Approval{}
}

func wantRefused(t *testing.T, err error, reason string) {
	t.Helper()
	code := messages.ErrApproval
	if reason == stile.ApprovalUnknown {
		code = messages.ErrNotFound
	}
	var e *stile.Error
	if !errors.As(err, &e) || e.Code != code || e.Reason != reason {
		t.Fatalf("%v, want %s/%s", err, code, reason)
	}
}

// A call that needs confirmation waits for it; approved, it happens once, and the
// program says nothing twice.
func TestApprove(t *testing.T) {
	onJournals(t, func(t *testing.T, l *life) {
		p := newPayer()
		rt := l.begin()
		defer l.end()
		s := open(t, rt, "ada", p.Agent)
		run := submit(t, s, "a hat, please")
		a := asked(t, s)
		if a.Tool != "shop.pay" || a.Args != "[7]" || a.Action != "#2" || a.Run != 1 || a.Turn != 1 || a.Class != messages.Effectful ||
			len(a.ID) != 22 || a.Expires.Sub(a.Asked) != 24*time.Hour {
			t.Errorf("asked %+v", a)
		}
		if st := statusOf(t, rt.Archive(), "ada"); st != stile.StatusSuspended || p.paid.Load() != 0 {
			t.Errorf("%s, paid %d", st, p.paid.Load())
		}
		if _, err := s.Submit(t.Context(), "x", stile.Policy(messages.Reject)); messages.CodeOf(err) != messages.ErrBusy {
			t.Errorf("a submit with reject: %v", err)
		}
		if err := s.Approve(t.Context(), a, "grace"); err != nil {
			t.Fatal(err)
		}
		wantDone(t, decision(t, run))
		if n := p.paid.Load(); n != 7 {
			t.Errorf("paid %d", n)
		}
		recs := restored(t, l, s, p.Agent, 1)
		if got := strings.Join(texts(recs), "|"); got != "looking|a hat|paying|receipt|after" {
			t.Errorf("emitted %q", got)
		}
		answers := bodies[*messages.ActionApproval](recs)
		if n := len(answers); n != 2 || answers[1].By != "grace" || answers[1].State != messages.GateApprove || answers[1].Approval != answers[0].Approval {
			t.Errorf("answers %+v", answers)
		}
	})
}

// Denied, the call fails with the reason, and the turn goes on.
func TestDeny(t *testing.T) {
	onJournals(t, func(t *testing.T, l *life) {
		p := newPayer()
		s := open(t, l.begin(), "ada", p.Agent)
		defer l.end()
		run := submit(t, s, "a hat, please")
		if err := s.Deny(t.Context(), asked(t, s), "grace", "too dear"); err != nil {
			t.Fatal(err)
		}
		wantDone(t, decision(t, run))
		recs := restored(t, l, s, p.Agent, 1)
		if got := strings.Join(texts(recs), "|"); got != "looking|a hat|paying|caught 1003: too dear|after" || p.paid.Load() != 0 {
			t.Errorf("emitted %q, paid %d", got, p.paid.Load())
		}
		ended := bodies[*messages.ActionEnded](recs)
		if e := ended[len(ended)-1]; e.State != messages.ActionFailed || e.Reason != "denied" {
			t.Errorf("ended %+v", e)
		}
	})
}

// Answers that do not count are refused, each with its reason, and change nothing.
func TestRefusedAnswers(t *testing.T) {
	onJournals(t, func(t *testing.T, l *life) {
		p, other := newPayer(), newPayer()
		p.MayApprove = func(by string, a stile.Approval) bool { return by != "ada" || a.Tool != "shop.pay" }
		rt := l.begin()
		defer l.end()
		s, o := open(t, rt, "ada", p.Agent), open(t, rt, "bob", other.Agent)
		run := submit(t, s, "a hat, please")
		submit(t, o, "a hat, please")
		a, foreign := asked(t, s), asked(t, o)
		changed := a
		changed.Digest[0] ^= 1
		wantRefused(t, s.Approve(t.Context(), changed, "grace"), stile.ApprovalChanged)
		wantRefused(t, s.Approve(t.Context(), foreign, "grace"), stile.ApprovalUnknown)
		wantRefused(t, s.Approve(t.Context(), stile.Approval{}, "grace"), stile.ApprovalUnknown)
		wantRefused(t, s.Approve(t.Context(), a, ""), stile.ApprovalPrincipal)
		wantRefused(t, s.Approve(t.Context(), a, "ada"), stile.ApprovalPrincipal)
		if p.paid.Load() != 0 {
			t.Fatal("paid")
		}
		if err := s.Approve(t.Context(), a, "grace"); err != nil {
			t.Fatal(err)
		}
		wantRefused(t, s.Deny(t.Context(), a, "heidi", ""), stile.ApprovalAnswered)
		wantDone(t, decision(t, run))
		wantRefused(t, s.Approve(t.Context(), a, "grace"), stile.ApprovalAnswered)
		if err := o.Cancel(t.Context(), "bob"); err != nil {
			t.Fatal(err)
		}
		wantHalt(t, decision(t, o.Run(1)), messages.ErrCancelled, "bob")
		wantRefused(t, o.Approve(t.Context(), foreign, "grace"), stile.ApprovalAnswered)
	})
}

// A suspended session sleeps, others wait behind it, and the answer wakes it.
func TestSuspendedSessionSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPayer()
		rt := start(t, stile.Config{IdleTimeout: time.Minute})
		s := open(t, rt, "ada", p.Agent)
		run := submit(t, s, "a hat, please")
		a := asked(t, s)
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if n := rt.SessionsInMemory(); n != 0 {
			t.Fatalf("%d sessions in memory", n)
		}
		next := submit(t, s, "another one") // it waits
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if n := rt.SessionsInMemory(); n != 0 || p.paid.Load() != 0 {
			t.Fatalf("%d sessions in memory, paid %d", n, p.paid.Load())
		}
		if err := s.Approve(t.Context(), a, "grace"); err != nil {
			t.Fatal(err)
		}
		wantDone(t, decision(t, run))
		if err := s.Approve(t.Context(), asked(t, s), "grace"); err != nil {
			t.Fatal(err)
		}
		wantDone(t, decision(t, next))
		if n := metric(t, rt, "sessions_waiting"); n != 0 {
			t.Errorf("%v sessions wait, and all was answered", n)
		}
		if n := p.paid.Load(); n != 14 {
			t.Errorf("paid %d", n)
		}
		if _, err := rt.Replay(t.Context(), "ada", p.Agent); err != nil {
			t.Error(err)
		}
	})
}

// A suspended turn outlives its process: nothing takes it up but the answer.
func TestSuspendedTurnSurvivesTheProcess(t *testing.T) {
	onJournals(t, func(t *testing.T, l *life) {
		p := newPayer()
		s := open(t, l.begin(), "ada", p.Agent)
		run := submit(t, s, "a hat, please")
		a := asked(t, s)
		l.end()
		for range 5 { // more than a run is settled
			l.cfg.Agents = []*stile.Agent{p.Agent}
			rt := l.begin()
			if rep, err := rt.Booted(t.Context()); err != nil || rep.Found != 0 {
				t.Fatalf("%+v %v", rep, err)
			}
			if st := statusOf(t, rt.Archive(), "ada"); st != stile.StatusSuspended {
				t.Errorf("it is %s", st)
			}
			if n := metric(t, rt, "sessions_waiting"); n != 1 {
				t.Errorf("%v sessions wait", n)
			}
			s = open(t, rt, "ada", p.Agent)
			list, err := s.Approvals(t.Context())
			if err != nil || len(list) != 1 || list[0] != a {
				t.Fatalf("approvals %+v, %v; was %+v", list, err, a)
			}
			l.end()
		}
		s = open(t, l.begin(), "ada", p.Agent)
		defer l.end()
		if err := s.Approve(t.Context(), a, "grace"); err != nil {
			t.Fatal(err)
		}
		wantDone(t, decision(t, s.Run(run.Ordinal())))
		recs := restored(t, l, s, p.Agent, 1)
		if got := strings.Join(texts(recs), "|"); got != "looking|a hat|paying|receipt|after" || p.paid.Load() != 7 {
			t.Errorf("emitted %q, paid %d", got, p.paid.Load())
		}
	})
}

// Without an answer the call fails after a day, whether its session sleeps, its process has
// died meanwhile, or its agent is unknown until it is opened.
func TestApprovalExpires(t *testing.T) {
	for _, where := range []string{"asleep", "restarted before", "restarted after", "unknown agent", "off"} {
		t.Run(where, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				keys, err := stile.GenerateKeys(stile.Config{})
				if err != nil {
					t.Fatal(err)
				}
				p := newPayer()
				l := &life{t: t, cfg: stile.Config{Store: memory.New(), Keys: keys, IdleTimeout: time.Minute, Agents: []*stile.Agent{p.Agent}}}
				rt := l.begin()
				s := open(t, rt, "ada", p.Agent)
				submit(t, s, "a hat, please")
				a := asked(t, s)
				time.Sleep(time.Hour)
				if where != "asleep" {
					l.end()
					if where == "restarted after" {
						time.Sleep(24 * time.Hour)
					}
					if where == "unknown agent" {
						l.cfg.Agents = nil
					}
					l.cfg.Boot.Off = where == "off"
					rt = l.begin()
				}
				time.Sleep(24 * time.Hour)
				synctest.Wait()
				head, err := rt.Archive().Head(t.Context(), "ada")
				if err != nil {
					t.Fatal(err)
				}
				waits := where == "unknown agent" || where == "off"
				if head.Open != waits {
					t.Fatalf("after a day: %+v", head)
				}
				s = open(t, rt, "ada", p.Agent)
				wantRefused(t, s.Approve(t.Context(), a, "grace"), stile.ApprovalLate)
				wantDone(t, decision(t, s.Run(1)))
				recs := restored(t, l, s, p.Agent, 1)
				if got := strings.Join(texts(recs), "|"); got != "looking|a hat|paying|caught 1003: nobody approved the call in time|after" {
					t.Errorf("emitted %q", got)
				}
				ended := bodies[*messages.ActionEnded](recs)
				if e := ended[len(ended)-1]; e.State != messages.ActionFailed || e.Reason != "expired" {
					t.Errorf("ended %+v", e)
				}
				l.end()
			})
		})
	}
}

// A refused answer and a listing wake no session: a run that was interrupted stays as it is,
// however often that happens, and goes on when it is recovered.
func TestRefusedAnswersTouchNothing(t *testing.T) {
	onJournals(t, func(t *testing.T, l *life) {
		p := newPayer()
		first := p.Agent.Model
		var asks atomic.Int64
		spoke := make(chan struct{})
		p.Agent.Model = model(func(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
			if asks.Add(1) == 1 {
				return first.Stream(ctx, req)
			}
			return signals(stalls("x"), spoke)(ctx, req)
		})
		l.cfg.Agents, l.cfg.Boot.Off = []*stile.Agent{p.Agent}, true
		rt := l.begin()
		s := open(t, rt, "ada", p.Agent)
		submit(t, s, "a hat, please")
		a := asked(t, s)
		if err := s.Approve(t.Context(), a, "grace"); err != nil {
			t.Fatal(err)
		}
		wantDone(t, decision(t, s.Run(1)))
		submit(t, s, "another hat, please")
		<-spoke
		l.end()
		foreign := a
		foreign.ID = "forged"
		var before journal.Head
		for i := range 5 { // more than a run has settlements
			rt := l.begin()
			s, err := rt.Find(t.Context(), "ada")
			if err != nil {
				t.Fatal(err)
			}
			if list, err := s.Approvals(t.Context()); err != nil || len(list) > 0 {
				t.Fatalf("%+v %v", list, err)
			}
			wantRefused(t, s.Approve(t.Context(), a, "grace"), stile.ApprovalAnswered)
			wantRefused(t, s.Deny(t.Context(), a, "grace", "no"), stile.ApprovalAnswered)
			wantRefused(t, s.Approve(t.Context(), foreign, "grace"), stile.ApprovalUnknown)
			wantRefused(t, s.Approve(t.Context(), a, ""), stile.ApprovalPrincipal)
			ar := rt.Archive()
			h, err := ar.Head(t.Context(), "ada")
			if i == 0 {
				before = h
			}
			if err != nil || !h.Open || h.Seq != before.Seq || h.Hash != before.Hash {
				t.Fatalf("was %+v, is %+v, %v", before, h, err)
			}
			if st := statusOf(t, ar, "ada"); st != stile.StatusInterrupted {
				t.Fatalf("it is %s", st)
			}
			l.end()
		}
		l.cfg.Agents = nil
		rt = l.begin()
		defer l.end()
		well := *p.Agent
		well.Model = says(program(`emit "a cap"`, sayDone))
		wantDone(t, decision(t, open(t, rt, "ada", &well).Run(2)))
	})
}

// Many expire at different times; each at its own, with one timer.
func TestApprovalsExpireInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPayer()
		rt := start(t, stile.Config{IdleTimeout: time.Minute})
		var all []*stile.Session
		for i := range 5 {
			s := open(t, rt, string(rune('a'+i)), p.Agent)
			submit(t, s, "a hat, please")
			asked(t, s)
			all = append(all, s)
			time.Sleep(time.Hour)
		}
		time.Sleep(19*time.Hour - time.Minute) // a minute before the first
		for i, s := range all {
			synctest.Wait()
			if st := statusOf(t, rt.Archive(), s.SID()); st != stile.StatusSuspended {
				t.Fatalf("session %d is %s before its time", i, st)
			}
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if st := statusOf(t, rt.Archive(), s.SID()); st != stile.StatusIdle {
				t.Fatalf("session %d is %s after its time", i, st)
			}
			time.Sleep(58 * time.Minute)
		}
	})
}
