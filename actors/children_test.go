package actors

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile/actors/internal/mailbox"
	"github.com/seed14be6753/stile/internal/attempt"
	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/internal/hub"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/program"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/supervisor"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

// parent stands for a session: it keeps what its children send it.
type parent struct {
	props *actor.Props
	spawn chan *actor.PID
	box   *inbox

	mu sync.Mutex
	heard
}

// heard is what a parent was told.
type heard struct {
	inputs []turn.Input
	failed []*supervisor.Failure
	ended  int // children
}

// heard returns what the parent was told so far.
func (c *child) heard() heard {
	c.parent.mu.Lock()
	defer c.parent.mu.Unlock()
	return c.parent.heard
}

// Receive implements actor.Actor.
func (p *parent) Receive(c actor.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch msg := c.Message().(type) {
	case *actor.Started:
		p.spawn <- c.Spawn(p.props)
	case *inbox:
		p.inputs = append(p.inputs, msg.take(nil)...)
	case *supervisor.Failure:
		p.failed = append(p.failed, msg)
	case *actor.Terminated:
		p.ended++
	}
}

// orphans counts tools that were left behind.
type orphans struct {
	Observer
	n atomic.Int64
}

func (o *orphans) Orphan() { o.n.Add(1) }

// child is one child actor under a parent.
type child struct {
	t       *testing.T
	pid     *actor.PID
	parent  *parent
	fam     *family
	orphans *orphans
}

// spawned spawns a child whose agent has the tool x.
func spawned(t *testing.T, props func(childProps) *actor.Props, run func(context.Context) error, gate func(tools.Request) (messages.GateAnswer, string, bool)) *child {
	t.Helper()
	registry, err := catalog.New(tools.Tool{Name: "x", Class: messages.Keyed, Run: func(ctx context.Context, _ *tools.Call) (neuroscript.Value, error) {
		return neuroscript.Value{}, run(ctx)
	}})
	if err != nil {
		t.Fatal(err)
	}
	set, err := registry.Apply(catalog.Policy{Allow: []string{"x"}})
	if err != nil {
		t.Fatal(err)
	}
	o := &orphans{}
	h := &Host{cfg: Config{Now: time.Now, Observer: o}, log: zap.NewNop(), hub: hub.New()}
	h.share()
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.system = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
	p := &parent{props: props(newChildProps(h)), spawn: make(chan *actor.PID, 1)}
	pid := h.system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return p },
		actor.WithSupervisor(supervisor.OfTurn{}), actor.WithDispatcher(&h.pool), actor.WithMailbox(mailbox.New)))
	p.box = newInbox(h.system, pid)
	c := &child{t: t, pid: <-p.spawn, parent: p, orphans: o, fam: &family{
		host: h, box: p.box, sid: "t:u:s",
		agent: &Agent{Tools: set, Targets: catalog.NewTargets(set, neuroscript.Limits{}), Gate: catalog.Gate{Hook: gate}},
	}}
	t.Cleanup(func() {
		h.cancel()
		_ = h.system.Root.StopFuture(pid).Wait()
		h.work.Wait()
		h.system.Shutdown()
		h.pool.Close()
		h.pool.Wait()
		time.Sleep(2 * time.Second) // the library keeps a goroutine a while after a dead letter
	})
	return c
}

// tell sends messages, and waits after each until nothing moves.
func (c *child) tell(msgs ...any) {
	for _, msg := range msgs {
		c.fam.tell(c.pid, msg)
		c.fam.host.pool.RunDeferred()
		synctest.Wait()
	}
}

func (c *child) declared(waits ...string) *declared {
	return &declared{id: "a", turn: c.fam.host.ctx, waits: waits}
}

func (c *child) begins(n int64) any {
	start := &turn.StartAction{Ident: anIdent, ID: "a", Name: "x", Type: messages.TypeTool, Args: "{}", Class: messages.Keyed, Attempt: n}
	if n == 2 {
		return &begin{under: c.fam.host.ctx, StartAction: start}
	}
	return start
}

var anIdent = turn.Ident{Turn: 3, Nonce: "n"}

// wantEnds holds the ends that the session was sent against states and attempts.
func (c *child) wantEnds(states ...messages.ActionState) {
	c.t.Helper()
	var got []messages.ActionState
	for i, in := range c.heard().inputs {
		end, ok := in.(*turn.ActionEnded)
		if !ok || end.ID != "a" || end.Ident != anIdent || end.Attempt != int64(i+1) {
			c.t.Errorf("input %d is %T %+v", i, in, in)
			continue
		}
		got = append(got, end.State)
	}
	if !slices.Equal(got, states) {
		c.t.Errorf("ends %q, want %q", got, states)
	}
}

func theAction(p childProps) *actor.Props { return p.action }

// An action makes its attempts one after the other, and stays until it is released.
func TestActionAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		c := spawned(t, theAction, func(context.Context) error {
			if n++; n < 3 {
				return errors.New("not yet")
			}
			return nil
		}, nil)
		c.tell(c.fam, c.declared("b", "c"), &dependencyEnded{"c"}, &dependencyEnded{"b"})
		if n != 0 || len(c.heard().inputs) > 0 {
			t.Fatalf("%d attempts and %v before it begins", n, c.heard().inputs)
		}
		c.tell(c.begins(1), c.begins(2), c.begins(3))
		c.wantEnds(messages.ActionFailed, messages.ActionFailed, messages.ActionOK)
		if c.heard().ended != 0 {
			t.Error("it ended before it was released")
		}
		c.tell(&stopChild{over: true})
		if c.heard().ended != 1 || len(c.heard().failed) > 0 {
			t.Errorf("ended %d times, failures %v", c.heard().ended, c.heard().failed)
		}
	})
}

// A cancel ends the attempt under way, and means nothing between two attempts.
func TestActionCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var causes []error
		c := spawned(t, theAction, func(ctx context.Context) error {
			if len(causes) == 1 {
				return nil
			}
			<-ctx.Done()
			causes = append(causes, context.Cause(ctx))
			return ctx.Err()
		}, nil)
		cancel := &turn.CancelAction{Ident: anIdent, ID: "a"}
		c.tell(c.fam, c.declared(), cancel, c.begins(1), cancel, c.begins(2), cancel)
		c.wantEnds(messages.ActionUnknown, messages.ActionOK)
		if len(causes) != 1 || messages.CodeOf(causes[0]) != messages.ErrCancelled {
			t.Errorf("cancelled with %v", causes)
		}
	})
}

// An action that is released ends its attempt as an orphan once the grace is over, and then
// itself: the late answer of its tool reaches nothing.
func TestActionReleased(t *testing.T) {
	for _, why := range []*messages.Error{nil, tools.ErrLetGo} {
		synctest.Test(t, func(t *testing.T) {
			goOn := make(chan struct{})
			c := spawned(t, theAction, func(context.Context) error { <-goOn; return nil }, nil)
			c.tell(c.fam, c.declared(), c.begins(1), &stopChild{why: why})
			if c.heard().ended != 0 {
				t.Fatal("the action ended before its attempt")
			}
			if why == nil {
				time.Sleep(2 * attempt.OverrunGrace)
				synctest.Wait()
				if c.orphans.n.Load() != 0 || c.heard().ended != 0 {
					t.Fatal("an attempt that is not cancelled was left behind")
				}
				close(goOn)
				synctest.Wait()
				c.wantEnds(messages.ActionOK)
			} else {
				time.Sleep(2 * attempt.OverrunGrace)
				synctest.Wait()
				c.wantEnds(messages.ActionUnknown)
				if c.orphans.n.Load() != 1 {
					t.Errorf("%d orphans", c.orphans.n.Load())
				}
				close(goOn)
				synctest.Wait()
				c.wantEnds(messages.ActionUnknown)
			}
			if c.heard().ended != 1 {
				t.Error("the action stays after its attempt")
			}
		})
	}
}

// Crashes of a tool and of the gate's hook fail the action: the strategy stops it and tells the
// session what each is to its machine.
func TestActionCrashes(t *testing.T) {
	for name, c := range map[string]struct {
		run  func(context.Context) error
		gate func(tools.Request) (messages.GateAnswer, string, bool)
		want turn.ChildDown
	}{
		"tool": {
			func(context.Context) error { panic("broken") }, nil,
			turn.ChildDown{Ident: anIdent, Child: turn.ChildAction, ID: "a", Attempt: 1, Detail: "panic: broken"},
		},
		"hook": {
			func(context.Context) error { return nil }, func(tools.Request) (messages.GateAnswer, string, bool) { panic("broken") },
			turn.ChildDown{Ident: anIdent, Child: turn.ChildGate, ID: "a", Detail: "the gate's hook: panic: broken"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := spawned(t, theAction, c.run, c.gate)
				a.tell(a.fam, a.declared())
				if c.gate != nil {
					a.tell(&turn.AskGate{Ident: anIdent, ID: "a", Name: "x", Args: "[]"})
				} else {
					a.tell(a.begins(1))
				}
				if len(a.heard().failed) != 1 || a.heard().ended != 1 || len(a.heard().inputs) != 0 {
					t.Fatalf("failures %v, ended %d times, inputs %v", a.heard().failed, a.heard().ended, a.heard().inputs)
				}
				f := a.heard().failed[0]
				if down, ok := f.For.(*turn.ChildDown); !ok || *down != c.want || len(f.Stack) == 0 {
					t.Errorf("the session is told %+v, want %+v", f.For, c.want)
				}
			})
		})
	}
}

// A tool that crashes after its attempt was ended without it fails nothing.
func TestActionCrashesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		goOn := make(chan struct{})
		c := spawned(t, theAction, func(context.Context) error { <-goOn; panic("late") }, nil)
		c.tell(c.fam, c.declared(), c.begins(1), &turn.CancelAction{Ident: anIdent, ID: "a"})
		time.Sleep(2 * attempt.OverrunGrace)
		close(goOn)
		synctest.Wait()
		c.wantEnds(messages.ActionUnknown)
		if len(c.heard().failed) != 0 {
			t.Errorf("failures %v", c.heard().failed)
		}
	})
}

// A program that ends is an input; one that breaches a limit of its own fails its interpreter,
// which the strategy stops.
func TestInterpreterBreaches(t *testing.T) {
	for code, fails := range map[messages.Code]bool{
		"": false, messages.ErrActionsRuntime: false, messages.ErrCancelled: false, messages.ErrTimeout: false,
		messages.ErrQuota: true, messages.ErrEnvSize: true,
	} {
		t.Run(string(code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ran runProgram
				c := spawned(t, func(childProps) *actor.Props {
					return actor.PropsFromProducer(func() actor.Actor { return &interpreter{run: &ran} },
						actor.WithMailbox(mailbox.NewLeaf), actor.WithDispatcher(mailbox.OnTheSpot{}))
				}, nil, nil)
				ran.family = c.fam
				end := &turn.ProgramEnd{Ident: anIdent, Code: code}
				c.tell(&programEnded{end, breached(end)})
				var told any
				switch {
				case len(c.heard().failed) == 1 && len(c.heard().inputs) == 0:
					told = c.heard().failed[0].For
				case len(c.heard().failed) == 0 && len(c.heard().inputs) == 1:
					told = c.heard().inputs[0]
				}
				if told != any(end) || (len(c.heard().failed) == 1) != fails || (c.heard().ended == 1) != fails {
					t.Errorf("inputs %v, failures %v, ended %d times", c.heard().inputs, c.heard().failed, c.heard().ended)
				}
			})
		})
	}
}

// nowhere is the inbox of a program that nothing waits for.
type nowhere struct{}

func (nowhere) Post(...turn.Input) {}

// A turn that is stopped stops its program, too.
func TestProgramIsStopped(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			registry, err := catalog.New()
			if err != nil {
				t.Fatal(err)
			}
			set, err := registry.Apply(catalog.Policy{})
			if err != nil {
				t.Fatal(err)
			}
			env := &program.Env{Programs: neuroscript.NewCache(1 << 20), Rand: rand.Reader, Now: time.Now, Log: zap.NewNop()}
			ran := runProgram{Program: program.New(t.Context(), env, &compiled.Agent{Tools: set, Rules: &turn.Rules{}}, "s", nowhere{},
				&turn.RunProgram{Ident: anIdent, Source: []byte("command\n  emit \"on\"\nendcommand\n"), Userdata: `{"subject":"s","fields":{}}`})}
			c := spawned(t, func(childProps) *actor.Props {
				return actor.PropsFromProducer(func() actor.Actor { return &interpreter{run: &ran} },
					actor.WithMailbox(mailbox.NewLeaf), actor.WithDispatcher(mailbox.OnTheSpot{}))
			}, nil, nil)
			if stopped {
				c.tell(&turn.StopProgram{Ident: anIdent, Code: messages.ErrCancelled})
			}
			if end := ran.Run(); (end.Code == messages.ErrCancelled) != stopped || (string(end.Out) == "on\n") == stopped {
				t.Errorf("stopped %t: %+v", stopped, end)
			}
		})
	}
}
