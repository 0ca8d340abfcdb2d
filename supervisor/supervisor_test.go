package supervisor_test

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/seed14be6753/stile/supervisor"
)

// Guard reports every way out but the return, Goexit too, before the goroutine
// ends.
func TestGuard(t *testing.T) {
	inner := &supervisor.Crash{Panic: "inner", Stack: []byte("its stack")}
	for name, c := range map[string]struct {
		f    func()
		want any // nil: no report
	}{
		"returns":   {func() {}, nil},
		"panics":    {func() { panic("boom") }, "boom"},
		"error":     {func() { panic(errors.ErrUnsupported) }, errors.ErrUnsupported},
		"nil map":   {func() { write(nil) }, "assignment to entry in nil map"},
		"goexit":    {runtime.Goexit, "the goroutine ended with runtime.Goexit"},
		"passed on": {func() { panic(inner) }, "inner"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []*supervisor.Crash
			done := make(chan struct{})
			go func() {
				defer close(done)
				supervisor.Guard(c.f, func(crash *supervisor.Crash) { got = append(got, crash) })
			}()
			<-done
			if c.want == nil {
				if len(got) != 0 {
					t.Errorf("reported %v", got[0].Panic)
				}
				return
			}
			if len(got) != 1 || !strings.Contains(fmt.Sprint(got[0].Panic), fmt.Sprint(c.want)) {
				t.Fatalf("reported %v, want %v", got, c.want)
			}
			if stack := string(got[0].Stack); name == "passed on" && stack != "its stack" || name != "passed on" && !strings.Contains(stack, "goroutine") {
				t.Errorf("stack %q", stack)
			}
		})
	}
}

// Detail is for records: bounded, whole characters, no stack.
func TestDetail(t *testing.T) {
	for _, c := range []struct {
		p    any
		want string
	}{
		{"boom", "panic: boom"},
		{errors.ErrUnsupported, "panic: unsupported operation"},
		{42, "panic: 42"},
		{nil, "panic: <nil>"},
		{&supervisor.Crash{Panic: "deep", Stack: []byte("goroutine 1 [running]")}, "panic: deep"},
	} {
		if got := supervisor.Detail(c.p); got != c.want {
			t.Errorf("Detail(%v) is %q, want %q", c.p, got, c.want)
		}
	}
	for pad := range 4 {
		got := supervisor.Detail(strings.Repeat("x", pad) + strings.Repeat("语", 1000))
		if len(got) > 220 || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
			t.Errorf("a long panic's text became %d bytes: %q", len(got), got)
		}
	}
}

// parent spawns one child under a strategy and keeps what it is told.
type parent struct {
	child actor.Actor
	told  chan *supervisor.Failure
	ended chan struct{}
	pid   chan *actor.PID
}

func (p *parent) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *actor.Started:
		p.pid <- c.Spawn(actor.PropsFromProducer(func() actor.Actor { return p.child }))
	case *supervisor.Failure:
		p.told <- msg
	case *actor.Terminated:
		close(p.ended)
	}
}

type fragile struct{ starts int }

func (f *fragile) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *actor.Started:
		f.starts++
	case *supervisor.Crash:
		panic(msg)
	case string:
		panic(msg)
	}
}

func spawn(t *testing.T, strategy actor.SupervisorStrategy, child actor.Actor) (*actor.ActorSystem, *parent, *actor.PID) {
	t.Helper()
	sys := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
	p := &parent{child: child, told: make(chan *supervisor.Failure, 16), ended: make(chan struct{}), pid: make(chan *actor.PID, 1)}
	pid := sys.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return p }, actor.WithSupervisor(strategy)))
	t.Cleanup(func() {
		_ = sys.Root.StopFuture(pid).Wait()
		sys.Shutdown()
		time.Sleep(2 * time.Second) // the library keeps a goroutine a while after a dead letter
	})
	return sys, p, <-p.pid
}

// A turn's child is stopped by its first failure, and its parent learns who it was,
// why, and with which stack.
func TestOfTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		child := &fragile{}
		sys, p, pid := spawn(t, supervisor.OfTurn{}, child)
		sys.Root.Send(pid, &supervisor.Crash{Panic: "boom", Stack: []byte("where it was"), For: "the parent"})
		f := <-p.told
		if !f.Who.Equal(pid) || f.Panic != "boom" || string(f.Stack) != "where it was" || !f.Stopped || f.For != "the parent" {
			t.Errorf("told %+v", f)
		}
		<-p.ended
		if child.starts != 1 {
			t.Errorf("the child started %d times", child.starts)
		}
	})
}

// part is a part of a child's state.
type part string

func (p part) Part() string { return string(p) }

// mended keeps what it gets, and panics with what it is told to.
type mended struct {
	starts int
	got    []string
}

func (m *mended) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *actor.Started:
		m.starts++
	case string:
		m.got = append(m.got, msg)
	case *supervisor.Failure:
		m.got = append(m.got, fmt.Sprint(msg.For.(part).Part(), " ", msg.Panic, " ", msg.Stopped))
	case *supervisor.Crash:
		panic(msg)
	}
}

// A child of which a part has failed goes on as it is, and is told which; its parent is not. What
// came meanwhile is handled.
func TestOfTurnPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		child := &mended{}
		sys, p, pid := spawn(t, supervisor.OfTurn{}, child)
		sys.Root.Send(pid, "before")
		for _, name := range []part{"one", "two"} {
			sys.Root.Send(pid, &supervisor.Crash{Panic: "boom", For: name})
			sys.Root.Send(pid, "behind")
			synctest.Wait()
		}
		slices.Sort(child.got) // a message may overtake the failure, or not
		if want := []string{"before", "behind", "behind", "one boom false", "two boom false"}; !slices.Equal(child.got, want) || child.starts != 1 {
			t.Errorf("the child started %d times and got %q, want %q", child.starts, child.got, want)
		}
		select {
		case f := <-p.told:
			t.Errorf("the parent is told %+v", f)
		case <-p.ended:
			t.Error("the child has ended")
		default:
		}
	})
}

// A session is restarted within its budget, which time refills, and then stopped.
func TestOfSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		child := &fragile{}
		sys, p, pid := spawn(t, supervisor.OfSessions{Restarts: 2, Within: time.Minute}, child)
		crash := func(stopped bool) {
			t.Helper()
			sys.Root.Send(pid, "boom")
			f := <-p.told
			if f.Stopped != stopped || f.Panic != "boom" || len(f.Stack) == 0 {
				t.Errorf("told %+v, want stopped %v", f, stopped)
			}
			synctest.Wait()
		}
		crash(false)
		crash(false)
		time.Sleep(2 * time.Minute)
		crash(false)
		crash(false)
		if child.starts != 5 {
			t.Errorf("the child started %d times, want 5", child.starts)
		}
		crash(true)
		<-p.ended
	})
}

// write panics on a nil map, where no linter sees it coming.
func write(m map[string]int) { m["x"] = 1 }
