package mailbox

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/seed14be6753/stile/internal/pool"
)

// invoker records what a mailbox hands out.
type invoker struct {
	got     []any
	failed  []any
	inside  atomic.Int32
	overlap atomic.Bool
	on      func(msg any)
}

func (v *invoker) invoke(msg any) {
	if v.inside.Add(1) != 1 {
		v.overlap.Store(true)
	}
	defer v.inside.Add(-1)
	v.got = append(v.got, msg)
	if v.on != nil {
		v.on(msg)
	}
}

func (v *invoker) InvokeSystemMessage(msg any)    { v.invoke(msg) }
func (v *invoker) InvokeUserMessage(msg any)      { v.invoke(msg) }
func (v *invoker) EscalateFailure(_ any, msg any) { v.failed = append(v.failed, msg) }

// later is a dispatcher that runs nothing before it is told to.
type later struct{ tasks []func() }

func (l *later) Schedule(f func()) { l.tasks = append(l.tasks, f) }
func (*later) Throughput() int     { return 2 }

func (l *later) run(t *testing.T) {
	t.Helper()
	if len(l.tasks) != 1 {
		t.Fatalf("%d goroutines for one mailbox", len(l.tasks))
	}
	f := l.tasks[0]
	l.tasks = nil
	f()
}

func filled(v *invoker, d actor.Dispatcher) *Mailbox {
	m := New().(*Mailbox)
	m.RegisterHandlers(v, d)
	m.Start()
	return m
}

func TestMailboxSystemFirst(t *testing.T) {
	v, d := &invoker{}, &later{}
	m := filled(v, d)
	for i := range 5 {
		m.PostUserMessage(i)
	}
	m.PostSystemMessage("stop")
	if n := m.UserMessageCount(); n != 5 {
		t.Fatalf("%d messages of users, want 5", n)
	}
	d.run(t)
	if want := []any{"stop", 0, 1, 2, 3, 4}; !slices.Equal(v.got, want) {
		t.Fatalf("got %v, want %v", v.got, want)
	}
	m.PostUserMessage(5) // it starts again
	d.run(t)
	if v.got[len(v.got)-1] != 5 || m.UserMessageCount() != 0 {
		t.Fatalf("got %v", v.got)
	}
}

// A failed actor gets nothing but what its supervisor says, until it may go on.
func TestMailboxSuspended(t *testing.T) {
	v, d := &invoker{}, &later{}
	m := filled(v, d)
	m.PostSystemMessage(&actor.SuspendMailbox{})
	m.PostUserMessage("user")
	m.PostSystemMessage("system")
	d.run(t)
	if want := []any{"system"}; !slices.Equal(v.got, want) {
		t.Fatalf("got %v, want %v", v.got, want)
	}
	m.PostSystemMessage(&actor.ResumeMailbox{})
	d.run(t)
	if want := []any{"system", "user"}; !slices.Equal(v.got, want) {
		t.Fatalf("got %v, want %v", v.got, want)
	}
}

func TestMailboxGoesOnAfterAPanic(t *testing.T) {
	v, d := &invoker{}, &later{}
	m := filled(v, d)
	v.on = func(msg any) {
		if msg == "bad" {
			panic("so")
		}
	}
	m.PostUserMessage("bad")
	m.PostUserMessage("good")
	d.run(t)
	if want := []any{"bad", "good"}; !slices.Equal(v.got, want) {
		t.Fatalf("got %v, want %v", v.got, want)
	}
	if !slices.Equal(v.failed, []any{"bad"}) {
		t.Fatalf("the supervisor heard of %v", v.failed)
	}
}

// A sender that offers its goroutine to an idle actor handles its own request there, and no
// more; an actor at work takes the request like any other.
func TestMailboxInline(t *testing.T) {
	v, d := &invoker{}, &later{}
	m := filled(v, d)
	own, other := &Handoff{Message: "own"}, &Handoff{Message: "other"}
	v.on = func(msg any) {
		if msg == "own" { // posted while its actor is at work
			m.PostUserMessage(other)
			m.PostUserMessage("more")
		}
	}
	m.PostUserMessage(own)
	if own.idle != m || len(d.tasks) != 0 {
		t.Fatalf("mailbox %v, %d goroutines", own.idle, len(d.tasks))
	}
	if !own.Inline() {
		t.Error("an idle actor did not take the goroutine")
	}
	if want := []any{"own"}; !slices.Equal(v.got, want) || other.Inline() {
		t.Fatalf("handled %v", v.got)
	}
	d.run(t)
	if want := []any{"own", "other", "more"}; !slices.Equal(v.got, want) {
		t.Fatalf("handled %v", v.got)
	}
	m.PostUserMessage("idle again")
	d.run(t)
}

// One whose request fails the actor stays until the supervisor has been told.
func TestMailboxInlineAndPanics(t *testing.T) {
	v, d := &invoker{}, &later{}
	m := filled(v, d)
	v.on = func(msg any) {
		if msg == "bad" {
			panic("so")
		}
	}
	bad := &Handoff{Message: "bad"}
	m.PostUserMessage(bad)
	bad.Inline()
	if !slices.Equal(v.failed, []any{"bad"}) || len(d.tasks) != 0 {
		t.Fatalf("the supervisor heard of %v; %d goroutines", v.failed, len(d.tasks))
	}
	m.PostUserMessage("good")
	d.run(t)
	if want := []any{"bad", "good"}; !slices.Equal(v.got, want) {
		t.Fatalf("handled %v", v.got)
	}
}

// Many post at once: nothing is lost or doubled, what one posts stays in order, and
// one message is handled at a time. Both dispatchers that are used.
func TestMailboxConcurrent(t *testing.T) {
	const posters, each = 8, 500
	for name, d := range map[string]actor.Dispatcher{"pool": &pool.Pool{}, "on the spot": OnTheSpot{}} {
		t.Run(name, func(t *testing.T) {
			v := &invoker{}
			m := filled(v, d)
			var all sync.WaitGroup
			all.Add(posters * each)
			v.on = func(any) { all.Done() }
			for p := range posters {
				go func() {
					for i := range each {
						if p%2 == 0 {
							m.PostUserMessage([2]int{p, i})
							continue
						}
						handoff := &Handoff{Message: [2]int{p, i}}
						m.PostUserMessage(handoff)
						handoff.Inline()
					}
				}()
			}
			all.Wait()
			if p, ok := d.(*pool.Pool); ok {
				p.Close()
				p.Wait()
			}
			if v.overlap.Load() {
				t.Error("two messages were handled at once")
			}
			var next [posters]int
			for _, msg := range v.got {
				at, ok := msg.([2]int)
				if !ok {
					t.Fatalf("handled %T", msg)
				}
				if next[at[0]] != at[1] {
					t.Fatalf("poster %d: message %d, want %d", at[0], at[1], next[at[0]])
				}
				next[at[0]]++
			}
		})
	}
}

func TestQueue(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	var q queue
	in, out := 0, 0
	most := 0 // messages since it was empty
	for range 20_000 {
		if q.len() > 0 && rnd.IntN(2) == 0 {
			if got := q.pop(); got != out {
				t.Fatalf("got %v, want %d", got, out)
			}
			out++
		} else {
			q.push(in)
			in++
		}
		if q.len() != in-out {
			t.Fatalf("length %d, want %d", q.len(), in-out)
		}
		if most = max(most, q.len()); q.len() == 0 {
			most = 0
		}
		// It grows to twice what it holds when less than half of that is behind its
		// head, and the allocator rounds a block up by an eighth at most.
		if cap(q.buf) > 5*max(most, keptQueue) {
			t.Fatalf("%d places for at most %d messages", cap(q.buf), most)
		}
	}
	for q.len() > 0 {
		q.pop()
	}
	if cap(q.buf) > keptQueue {
		t.Fatalf("an empty queue keeps %d places", cap(q.buf))
	}
}

// The mailbox of a stopped actor without children holds nothing and takes nothing in.
func TestMailboxLeaf(t *testing.T) {
	v, d := &invoker{}, &later{}
	m := NewLeaf().(*Mailbox)
	m.RegisterHandlers(v, d)
	m.PostUserMessage("before")
	m.PostSystemMessage(&actor.Stop{})
	d.run(t)
	m.PostUserMessage("after")
	m.PostSystemMessage("after")
	if len(v.got) != 1 || len(d.tasks) != 0 || m.invoker != nil || m.UserMessageCount() != 0 {
		t.Fatalf("got %v, %d goroutines, %d messages", v.got, len(d.tasks), m.UserMessageCount())
	}
}
