package feeds

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Fetches that wait bring as many workers as there may be, whatever was before.
func TestWorkersGrowWithWaiting(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, k *host, _ Session, _ *script) {
		var most atomic.Int64
		var wait atomic.Bool
		f := fetchFunc(func(ctx context.Context, src Source) (string, error) {
			k.workers.mu.Lock()
			most.Store(max(most.Load(), int64(k.workers.running)))
			k.workers.mu.Unlock()
			if wait.Load() {
				return after(time.Second, "1")(ctx, src)
			}
			return "1", nil
		})
		set := setOf(t, periodic("p", 60))
		for i := range 200 {
			k.Sync(Session{Key: fmt.Sprint(i), Fetcher: f}, set)
		}
		time.Sleep(59 * time.Second)
		wait.Store(true)
		most.Store(0)
		time.Sleep(10 * time.Second)
		if n := most.Load(); n != DefaultWorkers {
			t.Errorf("%d workers at most, want %d", n, DefaultWorkers)
		}
		if _, dropped := k.wheel.Len(); dropped != 0 {
			t.Errorf("%d starts dropped", dropped)
		}
	})
}

// A queue that is never empty keeps no more than what waits in it.
func TestWorkersKeepWhatWaits(t *testing.T) {
	w := workers{}
	for range 1000 {
		for range 8 {
			w.take(&Fetch{})
		}
		w.taken = len(w.waiting) - 3
	}
	if cap(w.waiting) > 100 {
		t.Errorf("room for %d where 11 wait at most", cap(w.waiting))
	}
}

// What is due when the keeper is closed is fetched no more, and Close waits for what is
// under way.
func TestCloseEndsWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, err := newHost(Config{Workers: 2})
		if err != nil {
			t.Fatal(err)
		}
		var n atomic.Int64
		f := fetchFunc(func(context.Context, Source) (string, error) {
			n.Add(1)
			time.Sleep(10 * time.Second) // deaf
			return "1", nil
		})
		set := setOf(t, periodic("a", 5), periodic("b", 5), periodic("c", 5), periodic("d", 5))
		k.Sync(Session{Key: "s", Fetcher: f}, set)
		time.Sleep(time.Second)
		began := time.Now()
		k.Close()
		if d := time.Since(began); d != 9*time.Second || n.Load() != 2 {
			t.Errorf("closed after %s with %d fetches", d, n.Load())
		}
		if st := k.Stats(); st.InFlight != 0 || k.workers.running != 0 || k.workers.waiting != nil {
			t.Errorf("%+v, %d workers", st, k.workers.running)
		}
		k.workers.take(&Fetch{})
		if k.workers.running != 0 {
			t.Error("a worker came after all")
		}
	})
}
