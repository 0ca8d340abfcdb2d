package feeds

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// saying sets the replies of a script.
func saying(value string) func(context.Context, Source) (string, error) {
	return func(context.Context, Source) (string, error) { return value, nil }
}

// A start keeps at hand where its feed's value is. What the cache loses meanwhile, of
// whatever cause, is lost for it too, and the next start's value is found by prompts.
func TestValuesLostWhileAtHand(t *testing.T) {
	for name, lose := range map[string]func(k *host, s Session, set Set, f *script){
		"evicted":   func(k *host, _ Session, _ Set, _ *script) { k.cache.values.Clear() },
		"forgotten": func(k *host, s Session, set Set, _ *script) { k.Forget(s.Key, set) },
		"replaced":  func(k *host, s Session, set Set, _ *script) { _ = k.Put(s.Key, set, "p", `"put it"`) },
		"of another size": func(_ *host, _ Session, _ Set, f *script) {
			f.set("p", saying(`"longer"`))
			time.Sleep(5 * time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Config{}, func(t *testing.T, k *host, s Session, f *script) {
				set := setOf(t, periodic("p", 5))
				f.set("p", saying(`"one"`))
				k.Sync(s, set)
				synctest.Wait()
				time.Sleep(time.Second)
				was := k.state("s", "p").at
				lose(k, s, set, f)
				synctest.Wait()
				k.cache.Wait()
				if v, ok := was.held(); ok || v != (Value{}) {
					t.Errorf("the place still holds %+v", v)
				}
				f.set("p", saying(`"two"`)) // as long as the first one
				time.Sleep(5 * time.Second)
				synctest.Wait()
				k.cache.Wait()
				before := f.count("p")
				wantSeen(t, k, s, set, "p=two")
				if n := f.count("p"); n != before {
					t.Error("a prompt had to fetch what the start had fetched")
				}
			})
		})
	}
}

// However many feeds tick, what is kept of them is what the cache keeps.
func TestValuesAtHandAreBounded(t *testing.T) {
	const bound = 64 << 10
	synctest.Test(t, func(t *testing.T) {
		cache, err := NewCache(bound)
		if err != nil {
			t.Fatal(err)
		}
		defer cache.Close()
		k, err := newHost(Config{Cache: cache})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		n := 0
		var mu sync.Mutex
		f := fetchFunc(func(context.Context, Source) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			n++ // sizes change all the time
			return `"` + strings.Repeat("x", 3000+n%2000) + `"`, nil
		})
		set := setOf(t, periodic("a", 5), periodic("b", 5), periodic("c", 7), periodic("d", 7))
		for i := range 50 {
			k.Sync(Session{Key: fmt.Sprint("s", i), Fetcher: f}, set)
		}
		for range 10 {
			time.Sleep(5 * time.Second)
			synctest.Wait()
			cache.Wait()
			kept, held := 0, 0
			for _, m := range k.actors {
				for _, s := range m.feeds {
					v, ok := s.at.held()
					kept += len(v.JSON)
					if ok {
						held++
					}
				}
			}
			if kept > bound || held == 0 {
				t.Fatalf("%d bytes of %d values are kept, more than %d", kept, held, bound)
			}
		}
	})
}

// A cache that ends before its keeper keeps nothing, and prompts show the same.
func TestCacheEndsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, err := NewCache(0)
		if err != nil {
			t.Fatal(err)
		}
		k, err := newHost(Config{Cache: cache})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		f := &script{calls: map[string]int{}}
		s, set := Session{Key: "s", Fetcher: f}, setOf(t, periodic("p", 5))
		k.Sync(s, set)
		synctest.Wait()
		wantSeen(t, k, s, set, "p=p1")
		cache.Close()
		time.Sleep(6 * time.Second) // p2
		wantSeen(t, k, s, set, "p=p3")
		if v, ok := k.state("s", "p").at.held(); ok || v != (Value{}) {
			t.Errorf("%+v is kept", v)
		}
	})
}

// A fetch in the air is joined by all that want its feed, whether that ticks or not, begins
// to or ends meanwhile: at most one at a time.
func TestOneFetchThroughout(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, k *host, s Session, f *script) {
		f.set("p", after(10*time.Second, `"slow"`))
		set := setOf(t, periodic("p", 60))
		prompt := func() { go k.Prompt(t.Context(), s, set); synctest.Wait() }
		want := func(fetches, left int) {
			t.Helper()
			synctest.Wait()
			k.Keeper.mu.Lock()
			defer k.Keeper.mu.Unlock()
			if n := f.count("p"); n != fetches || len(k.left) != left {
				t.Fatalf("%d fetches and %d of a session that sleeps, want %d and %d", n, len(k.left), fetches, left)
			}
		}
		prompt() // before it ticks
		want(1, 0)
		time.Sleep(DefaultDeadline)
		want(1, 1)
		k.Sync(s, set)
		want(1, 0)
		k.Stop("s")
		want(1, 1)
		prompt()
		want(1, 0)
		time.Sleep(DefaultDeadline)
		want(1, 1)
		k.Sync(s, set)
		k.Sync(s, Set{})
		want(1, 0)
		k.Sync(s, set)
		prompt()
		want(1, 0)
		time.Sleep(10*time.Second - 2*DefaultDeadline)
		want(1, 0)
		wantSeen(t, k, s, set, "p=slow")

		time.Sleep(55 * time.Second) // begun by a start
		want(2, 0)
		k.Stop("s")
		want(2, 1)
		prompt() // which takes the value at hand
		want(2, 1)
		time.Sleep(10 * time.Second)
		want(2, 0)
		wantSeen(t, k, s, set, "p=slow")
		if st := k.Stats(); st.InFlight != 0 || st.Fetches != 2 {
			t.Errorf("%+v", st)
		}
	})
}

// A feed that crashed before it ticked, or while it did not, is held back all the same.
func TestCrashedBeforeItTicks(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, k *host, s Session, f *script) {
		f.set("p", panicking)
		off, on := onDemand("p", ""), periodic("p", 60)
		k.Sync(s, setOf(t, off))
		wantSeen(t, k, s, setOf(t, off), "p=!failed")
		f.set("p", nil)
		k.Sync(s, setOf(t, on))
		synctest.Wait()
		if n := f.count("p"); n != 1 {
			t.Fatalf("%d fetches during a back-off", n)
		}
		time.Sleep(BackOffFirst + Tick)
		synctest.Wait()
		wantSeen(t, k, s, setOf(t, on), "p=p2")
	})
}

// Syncs, stops, prompts and values from outside cross the starts of slow, failing and
// crashing feeds; no feed is fetched twice at a time, and in the end nothing is left.
func TestStatesUnderRandomLife(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for round := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, round))
		bubble(t, Config{Workers: 1 + r.IntN(3)}, func(t *testing.T, k *host, s Session, _ *script) {
			var mu sync.Mutex
			flying := map[string]int{}
			lasts, ends := map[string]time.Duration{}, map[string]int{}
			for _, name := range []string{"a", "b", "c"} {
				lasts[name], ends[name] = time.Duration(r.IntN(4))*4*time.Second, r.IntN(4)
			}
			s.Fetcher = fetchFunc(func(ctx context.Context, src Source) (string, error) {
				mu.Lock()
				flying[src.Name]++
				n := flying[src.Name]
				mu.Unlock()
				defer func() {
					mu.Lock()
					flying[src.Name]--
					mu.Unlock()
				}()
				if n > 1 {
					t.Errorf("%s is fetched %d times at once", src.Name, n)
				}
				v, err := after(lasts[src.Name], `"v"`)(ctx, src)
				switch ends[src.Name] {
				case 0:
					return failing(ctx, src)
				case 1:
					panic("boom")
				}
				return v, err
			})
			set := setOf(t, periodic("a", 5), periodic("b", 7), onDemand("c", `{"x":"$a"}`))
			var prompts sync.WaitGroup
			for range 60 {
				switch r.IntN(6) {
				case 0:
					k.Stop(s.Key)
				case 1, 2:
					if out, err := set.Do(Call{Name: UpdateFeed, Params: fmt.Sprintf(`{"id":"a","interval":%d}`, 5+r.IntN(3)), Permission: everything()}); err == nil {
						set = out.Set
					}
					k.Sync(s, set)
				case 3:
					_ = k.Put(s.Key, set, "a", strings.Repeat("1", 1+r.IntN(3)))
				default:
					now := set
					prompts.Go(func() { k.Prompt(t.Context(), s, now) })
				}
				time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
			}
			k.Stop(s.Key)
			prompts.Wait()
			time.Sleep(time.Minute)
			synctest.Wait()
			st := k.Stats()
			k.Keeper.mu.Lock()
			defer k.Keeper.mu.Unlock()
			if len(k.left)+len(k.actors)+st.InFlight+st.Periodic+k.workers.running != 0 || st.Fetches == 0 {
				t.Errorf("seed %d, round %d: %d fetches, %d sessions, %d workers, %+v", seed, round, len(k.left), len(k.actors), k.workers.running, st)
			}
		})
	}
}
