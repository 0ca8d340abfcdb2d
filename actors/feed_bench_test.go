//go:build unix

package actors

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile/actors/internal/mailbox"
	"github.com/seed14be6753/stile/feeds"
	"github.com/seed14be6753/stile/supervisor"
)

// noop is a source that gives the same value at once.
type noop struct{ n atomic.Int64 }

// Fetch implements feeds.Fetcher.
func (f *noop) Fetch(context.Context, feeds.Source) (string, error) {
	f.n.Add(1)
	return "1", nil
}

// nursery spawns as many feed actors as it is told to, and says when each is there.
type nursery struct {
	props *actor.Props
	ready chan *actor.PID
}

// Receive implements actor.Actor.
func (n *nursery) Receive(c actor.Context) {
	if count, ok := c.Message().(int); ok {
		for range count {
			n.ready <- c.Spawn(n.props)
		}
	}
}

// BenchmarkFeedActors100000FeedsAt1s keeps 100,000 feeds, four in each of 25,000 feed actors,
// every one due each second, with a fetch that does nothing: what the actors, the keeper and the
// wheel cost. %core is processor time, all of the process, by wall time; B/feed the heap that the
// feeds take, values and actors included. An op is a second.
func BenchmarkFeedActors100000FeedsAt1s(b *testing.B) {
	const sessions, each = 25_000, 4
	keeper, err := feeds.NewKeeper(feeds.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer keeper.Close()
	h := &Host{cfg: Config{Now: time.Now, Feeds: keeper}, log: zap.NewNop()}
	h.system = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }))
	defer func() {
		h.system.Shutdown()
		h.pool.Close()
		h.pool.Wait()
		time.Sleep(2 * time.Second) // the library keeps a goroutine a while after a dead letter
	}()
	n := &nursery{props: newChildProps(h).feed, ready: make(chan *actor.PID)}
	parent := h.system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return n },
		actor.WithSupervisor(supervisor.OfTurn{}), actor.WithDispatcher(&h.pool), actor.WithMailbox(mailbox.New)))
	defer func() { _ = h.system.Root.StopFuture(parent).Wait() }()
	specs := make([]feeds.Spec, each)
	one := int64(1)
	for i := range specs {
		specs[i] = feeds.Spec{ID: fmt.Sprint("feed_", i), Type: "periodic", Interval: &one, Source: feeds.SourceSpec{Type: "tool", Name: "noop"}}
	}
	set, err := feeds.NewSet(specs, feeds.Rules{})
	if err != nil {
		b.Fatal(err)
	}
	f := &noop{}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	h.system.Root.Send(parent, sessions)
	for i := range sessions {
		pid := <-n.ready
		h.system.Root.Send(pid, keeper.Open(feeds.Session{Key: fmt.Sprint("session-", i), Fetcher: f}, func(msg any) { h.system.Root.Send(pid, msg) }))
		h.system.Root.Send(pid, &feedSet{set})
		if i%250 == 249 {
			time.Sleep(10 * time.Millisecond) // evenly over a second, as sessions wake
		}
	}
	time.Sleep(2 * time.Second)
	runtime.GC()
	runtime.ReadMemStats(&after)
	fetched, used := f.n.Load(), processorTime(b)
	began := time.Now()
	for b.Loop() {
		time.Sleep(time.Second)
	}
	took := time.Since(began)
	b.ReportMetric(100*float64(processorTime(b)-used)/float64(took), "%core")
	b.ReportMetric(float64(f.n.Load()-fetched)/took.Seconds(), "fetches/s")
	b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/(sessions*each), "B/feed")
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
