package feeds

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"
)

// bubble runs a test in virtual time with a keeper and a session whose tools are
// scripted. The bubble's clock begins at midnight of 2000-01-01.
func bubble(t *testing.T, cfg Config, test func(t *testing.T, k *host, s Session, f *script)) {
	synctest.Test(t, func(t *testing.T) {
		k, err := newHost(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		f := &script{calls: map[string]int{}, does: map[string]func(context.Context, Source) (string, error){}}
		test(t, k, Session{Key: "s", Fetcher: f}, f)
	})
}

// script answers for tools by name: what they are told to, or how often they were
// called so far.
type script struct {
	mu    sync.Mutex
	calls map[string]int
	given []string
	does  map[string]func(context.Context, Source) (string, error)
}

func (f *script) Fetch(ctx context.Context, src Source) (string, error) {
	f.mu.Lock()
	f.calls[src.Name]++
	n := f.calls[src.Name]
	f.given = append(f.given, src.Name+src.Params)
	does := f.does[src.Name]
	f.mu.Unlock()
	if does != nil {
		return does(ctx, src)
	}
	return fmt.Sprintf("%q", fmt.Sprint(src.Name, n)), nil
}

func (f *script) set(name string, does func(context.Context, Source) (string, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.does[name] = does
}

func (f *script) count(name string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[name]
}

// after answers late, or when it is given up.
func after(d time.Duration, value string) func(context.Context, Source) (string, error) {
	return func(ctx context.Context, _ Source) (string, error) {
		select {
		case <-time.After(d):
			return value, nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}

func failing(context.Context, Source) (string, error)   { return "", errors.New("no") }
func panicking(context.Context, Source) (string, error) { panic("boom") }

// exiting ends the goroutine it is called on.
func exiting(context.Context, Source) (string, error) { runtime.Goexit(); return "", nil }

// seen shows a prompt's elements as "id=body" with their marks.
func seen(els []Element) string {
	var out []string
	for _, e := range els {
		s := e.ID + "=" + e.Body
		if e.Stale {
			s += "~"
		}
		if e.Truncated {
			s += "…"
		}
		if e.Error != "" {
			s += "!" + e.Error
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

func wantSeen(t *testing.T, k *host, s Session, set Set, want string) []Element {
	t.Helper()
	els := k.Prompt(context.Background(), s, set)
	if got := seen(els); got != want {
		t.Fatalf("at %s the prompt has %q, want %q", time.Now().Format("15:04:05.000"), got, want)
	}
	return els
}

func TestPromptOnDemand(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, k *host, s Session, f *script) {
		kept := onDemand("kept", "")
		kept.CacheTTL = ptr[int64](10)
		off := onDemand("off", "")
		off.Enabled = ptr("false")
		set := setOf(t, onDemand("each", ""), off, kept)
		wantSeen(t, k, s, set, "each=each1 kept=kept1")
		synctest.Wait()
		wantSeen(t, k, s, set, "each=each2 kept=kept1")
		time.Sleep(10 * time.Second)
		wantSeen(t, k, s, set, "each=each3 kept=kept1") // not older than its ttl
		time.Sleep(time.Nanosecond)
		wantSeen(t, k, s, set, "each=each4 kept=kept2")
		if f.count("off") != 0 {
			t.Error("a disabled feed was fetched")
		}
		// Another session, and the same feed after a clear, know nothing of it.
		synctest.Wait()
		wantSeen(t, k, Session{Key: "other", Fetcher: f}, set, "each=each5 kept=kept3")
		out, err := set.Do(Call{Name: ClearContext, Params: "{}", Permission: everything()})
		if err != nil {
			t.Fatal(err)
		}
		wantSeen(t, k, s, out.Set, "each=each6 kept=kept4")
		k.Forget("s", out.Set)
		synctest.Wait()
		wantSeen(t, k, s, out.Set, "each=each7 kept=kept5")
	})
}

// A feed has a deadline of its own, which others do not wait for and which is never later
// than the keeper's. While it is fetched its last value stands in, however old, unless its
// cache_ttl says how old it may be.
func TestOwnDeadline(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, k *host, s Session, f *script) {
		slow, brief, bound, kept := onDemand("slow", ""), onDemand("brief", ""), onDemand("bound", ""), onDemand("kept", "")
		slow.DeadlineMS, brief.DeadlineMS, bound.DeadlineMS, kept.DeadlineMS = 300, 100, 60_000, 100
		kept.CacheTTL = ptr[int64](10)
		set := setOf(t, slow, brief, bound, kept)
		took := func(want string, d time.Duration) {
			t.Helper()
			begun := time.Now()
			wantSeen(t, k, s, set, want)
			if got := time.Since(begun); got != d {
				t.Errorf("the prompt took %s, want %s", got, d)
			}
		}
		took("slow=slow1 brief=brief1 bound=bound1 kept=kept1", 0)
		time.Sleep(time.Hour)
		for id, d := range map[string]time.Duration{"slow": 10 * time.Second, "brief": time.Second, "bound": 0, "kept": 10 * time.Second} {
			f.set(id, after(d, `"later"`))
		}
		took("slow=slow1~ brief=brief1~ bound=later kept=!timeout", 300*time.Millisecond)
		f.set("bound", after(time.Minute, `"later"`))
		time.Sleep(10 * time.Second) // what was late has come
		took("slow=later~ brief=later~ bound=later~ kept=later", DefaultDeadline)
	})
}

func TestPromptDeadline(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, k *host, s Session, f *script) {
		kept := onDemand("kept", "")
		kept.CacheTTL = ptr[int64](100)
		set := setOf(t, onDemand("slow", ""), kept, onDemand("bad", ""), onDemand("quick", ""))
		f.set("slow", after(3*time.Second, `"slow"`))
		f.set("bad", failing)
		f.set("quick", after(time.Second, `{"b":1,"a":2.0}`))
		begun := time.Now()
		els := wantSeen(t, k, s, set, `slow=!timeout kept=kept1 bad=!failed quick={"a":2,"b":1}`)
		if d := time.Since(begun); d != DefaultDeadline {
			t.Errorf("the prompt took %s", d)
		}
		if els[0].Cause == nil || els[2].Cause == nil || els[0].Value != "" {
			t.Errorf("%+v", els)
		}
		if string(els[0].Append(nil)) != "<context_feed id=\"slow\" error=\"timeout\">\n\n</context_feed>\n" {
			t.Errorf("%s", els[0].Append(nil))
		}
		// The late one still runs; the next prompt joins it.
		wantSeen(t, k, s, set, `slow=slow kept=kept1 bad=!failed quick={"a":2,"b":1}`)
		if n := f.count("slow"); n != 1 {
			t.Errorf("slow was fetched %d times", n)
		}

		// A caller that gives up is answered at once.
		ctx, cancel := context.WithTimeout(context.Background(), time.Second/2)
		defer cancel()
		begun = time.Now()
		if got := seen(k.Prompt(ctx, s, set)); got != `slow=slow~ kept=kept1 bad=!failed quick={"a":2,"b":1}~` || time.Since(begun) != time.Second/2 {
			t.Errorf("%q after %s", got, time.Since(begun))
		}
	})
}

// One fetch is given up after its own time, for all that wait.
func TestFetchTimeout(t *testing.T) {
	bubble(t, Config{FetchTimeout: 5 * time.Second}, func(t *testing.T, k *host, s Session, f *script) {
		set := setOf(t, onDemand("slow", ""))
		f.set("slow", after(time.Hour, "1"))
		begun := time.Now()
		el, _, known, ok := k.Get(context.Background(), s, set, "slow", false)
		if known || !ok || el.Error != ErrorTimeout || time.Since(begun) != 5*time.Second {
			t.Errorf("%+v, %v, %v after %s", el, known, ok, time.Since(begun))
		}
	})
}

func TestMergedFetches(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, k *host, s Session, f *script) {
		set := setOf(t, onDemand("a", ""))
		f.set("a", after(time.Second, `"one"`))
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if got := seen(k.Prompt(context.Background(), s, set)); got != "a=one" {
					t.Error(got)
				}
			})
		}
		all.Wait()
		if n := f.count("a"); n != 1 {
			t.Errorf("fetched %d times", n)
		}
	})
}

func TestPromptReferences(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, k *host, s Session, f *script) {
		long := onDemand("long", "")
		long.MaxSizeBytes = ptr[int64](3)
		set := setOf(t, onDemand("last", `{"whole":"$obj","in":"is ${obj.n} of $long, $$5","cut":"$long"}`), onDemand("obj", ""), long)
		f.set("obj", after(time.Second, `{"n":1.0}`))
		f.set("long", after(time.Second/2, `"abcdef"`))
		f.set("last", func(_ context.Context, src Source) (string, error) { return src.Params, nil })
		els := wantSeen(t, k, s, set,
			`last={"cut":"abc\n[truncated: 3 of 6 bytes]","in":"is 1 of abc\n[truncated: 3 of 6 bytes], $5","whole":{"n":1}} obj={"n":1} long=abc`+"\n[truncated: 3 of 6 bytes]…")
		if els[2].Value != `"abc\n[truncated: 3 of 6 bytes]"` || els[1].Value != `{"n":1.0}` {
			t.Errorf("values %q, %q", els[1].Value, els[2].Value)
		}
		// Each was fetched once for the prompt that shows it and the feed that needs it.
		if f.count("obj") != 1 || f.count("long") != 1 {
			t.Errorf("calls %v", f.calls)
		}
		f.set("obj", failing)
		wantSeen(t, k, s, set, "last=!failed obj=!failed long=abc\n[truncated: 3 of 6 bytes]…")
		f.set("obj", after(0, `{"m":1}`))
		f.given = nil
		wantSeen(t, k, s, set, `last={"cut":"abc\n[truncated: 3 of 6 bytes]","in":"is ${obj.n} of abc\n[truncated: 3 of 6 bytes], $5","whole":{"m":1}} obj={"m":1} long=abc`+"\n[truncated: 3 of 6 bytes]…")

		out, err := set.Do(Call{Name: RemoveFeed, Params: `{"id":"obj"}`, Permission: everything()})
		if err != nil {
			t.Fatal(err)
		}
		wantSeen(t, k, s, out.Set, "last=!failed long=abc\n[truncated: 3 of 6 bytes]…")
	})
}

func TestPeriodic(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, k *host, s Session, f *script) {
		p := periodic("p", 30)
		set := setOf(t, p)
		k.Sync(s, set)
		synctest.Wait()
		if f.count("p") != 1 {
			t.Fatal("not fetched at start")
		}
		wantSeen(t, k, s, set, "p=p1")
		time.Sleep(95 * time.Second)
		wantSeen(t, k, s, set, "p=p4") // at 0, 30, 60, 90
		// Refreshes fail: the last value for three intervals, marked, then none.
		f.set("p", failing)
		time.Sleep(24 * time.Second)
		wantSeen(t, k, s, set, "p=p4")
		time.Sleep(2 * time.Second) // 121 s
		wantSeen(t, k, s, set, "p=p4~")
		time.Sleep(59 * time.Second) // 180 s: 90 s old
		wantSeen(t, k, s, set, "p=p4~")
		time.Sleep(time.Second)
		wantSeen(t, k, s, set, "p=!failed")
		f.set("p", nil)
		time.Sleep(30 * time.Second)
		got := f.count("p")
		wantSeen(t, k, s, set, fmt.Sprintf("p=p%d", got))

		// A refresh that does not end is late.
		f.set("p", after(25*time.Second, `"late"`))
		time.Sleep(25 * time.Second)
		wantSeen(t, k, s, set, fmt.Sprintf("p=p%d", got))
		time.Sleep(8 * time.Second)
		wantSeen(t, k, s, set, fmt.Sprintf("p=p%d~", got))

		// Gone, it ticks no more; a passivated session neither.
		f.set("p", nil)
		k.Sync(s, Set{})
		time.Sleep(time.Minute)
		before := f.count("p")
		k.Sync(s, set)
		synctest.Wait()
		if f.count("p") != before+1 {
			t.Error("not fetched when it came back")
		}
		k.Stop("s")
		time.Sleep(time.Hour)
		if f.count("p") != before+1 {
			t.Error("a stopped session's feed was fetched")
		}
		if n, _ := k.wheel.Len(); n != 0 || len(k.actors) != 0 {
			t.Error("something of the session is left")
		}
		wantSeen(t, k, s, set, fmt.Sprintf("p=p%d", before+2)) // too old, so this prompt fetches
	})
}

// cache_ttl of a periodic feed bounds staleness; 0 serves nothing when a refresh fails.
func TestPeriodicTTL(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, k *host, s Session, f *script) {
		long, never := periodic("long", 10), periodic("never", 10)
		long.CacheTTL, never.CacheTTL = ptr[int64](300), ptr[int64](0)
		set := setOf(t, long, never)
		k.Sync(s, set)
		time.Sleep(time.Second)
		wantSeen(t, k, s, set, "long=long1 never=never1")
		f.set("long", failing)
		f.set("never", failing)
		time.Sleep(8 * time.Second)
		wantSeen(t, k, s, set, "long=long1 never=never1") // no refresh failed yet
		time.Sleep(time.Second)
		synctest.Wait()
		wantSeen(t, k, s, set, "long=long1~ never=!failed")
		time.Sleep(290 * time.Second)
		wantSeen(t, k, s, set, "long=long1~ never=!failed")
		time.Sleep(time.Second)
		wantSeen(t, k, s, set, "long=!failed never=!failed")
	})
}

func TestSyncRestarts(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, k *host, s Session, f *script) {
		set := setOf(t, periodic("p", 30), periodic("q", 30))
		k.Sync(s, set)
		do := func(name, params string) {
			t.Helper()
			out, err := set.Do(Call{Name: name, Params: params, Permission: everything()})
			if err != nil {
				t.Fatal(err)
			}
			set = out.Set
			k.Sync(s, set)
			synctest.Wait()
		}
		want := func(p, q int) {
			t.Helper()
			if f.count("p") != p || f.count("q") != q {
				t.Fatalf("fetched %v, want %d and %d", f.calls, p, q)
			}
		}
		time.Sleep(20 * time.Second)
		want(1, 1)
		do(UpdateFeed, `{"id":"p","interval":60}`) // begins now: 20, 80
		want(2, 1)
		time.Sleep(59 * time.Second) // 79
		want(2, 3)
		time.Sleep(2 * time.Second)
		want(3, 3)
		do(UpdateFeed, `{"id":"p","max_tokens":9}`) // not another feed
		want(3, 3)
		do(UpdateFeed, `{"id":"p","enabled":false}`)
		time.Sleep(time.Hour)
		want(3, 123)
		do(ClearContext, `{}`)
		want(3, 124)
		do(UpdateFeed, `{"id":"p","enabled":true}`)
		want(4, 124)
		time.Sleep(61 * time.Second)
		want(5, 126)
	})
}

func TestCrashes(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, k *host, s Session, f *script) {
		f.set("p", panicking)
		set := setOf(t, periodic("p", 60), onDemand("o", ""))
		begun := time.Now()
		var at []time.Duration
		f.set("p", func(context.Context, Source) (string, error) {
			at = append(at, time.Since(begun))
			panic("boom")
		})
		k.Sync(s, set)
		time.Sleep(time.Second / 2)
		els := wantSeen(t, k, s, set, "p=!failed o=o1")
		if !isReason(els[0].Cause, ReasonBackOff) {
			t.Errorf("%v", els[0].Cause)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		want := []time.Duration{0, 1 * time.Second, 3 * time.Second, 7 * time.Second, 15 * time.Second, 31 * time.Second}
		if !slices.Equal(at, want) {
			t.Errorf("fetched at %v, want %v", at, want)
		}
		els = wantSeen(t, k, s, set, "p=!failed o=o2") // the session is not affected
		if !isReason(els[0].Cause, ReasonDisabled) {
			t.Errorf("%v", els[0].Cause)
		}
		if n, _ := k.wheel.Len(); n != 0 {
			t.Error("a disabled feed ticks")
		}
		// Another source is another feed.
		p := everything()
		out, err := set.Do(Call{Name: UpdateFeed, Params: `{"id":"p","source":{"type":"tool","name":"t"}}`, Permission: p})
		if err != nil {
			t.Fatal(err)
		}
		k.Sync(s, out.Set)
		synctest.Wait()
		wantSeen(t, k, s, out.Set, "p=t1 o=o3")
	})
}

// A source that ends the goroutine it is called on crashes its feed and no more: a caller that
// waits is told, its worker is replaced, and the feed goes on behind its back-off.
func TestSourceExits(t *testing.T) {
	bubble(t, Config{Workers: 1}, func(t *testing.T, k *host, s Session, f *script) {
		set := setOf(t, periodic("p", 60), periodic("q", 60), periodic("r", 60), onDemand("o", ""), onDemand("n", `{"x":"$o"}`))
		f.set("p", exiting)
		f.set("r", exiting)
		f.set("o", exiting)
		k.Sync(s, set)
		synctest.Wait()
		if p, q, r := f.count("p"), f.count("q"), f.count("r"); p != 1 || q != 1 || r != 1 {
			t.Fatalf("fetched %d, %d, %d times", p, q, r)
		}
		els := wantSeen(t, k, s, set, "p=!failed q=q1 r=!failed o=!failed n=!failed")
		var crash *PanicError
		if !errors.As(els[3].Cause, &crash) || !strings.Contains(crash.Error(), "Goexit") || len(crash.Stack) == 0 {
			t.Errorf("%v", els[3].Cause)
		}
		for _, id := range []string{"p", "r", "o"} {
			f.set(id, nil)
		}
		time.Sleep(BackOffFirst + Tick)
		synctest.Wait()
		wantSeen(t, k, s, set, "p=p2 q=q1 r=r2 o=o2 n=n1")
		time.Sleep(time.Minute)
		synctest.Wait()
		wantSeen(t, k, s, set, "p=p3 q=q2 r=r3 o=o3 n=n2")
		if st := k.Stats(); st.InFlight != 0 || st.Crashed != 3 || st.Dropped != 0 || st.Periodic != 3 {
			t.Errorf("%+v", st)
		}
		// For ever is too long.
		f.set("p", exiting)
		time.Sleep(time.Hour)
		synctest.Wait()
		if n, _ := k.wheel.Len(); n != 2 || k.Stats().Disabled != 1 {
			t.Errorf("%d feeds tick, %+v", n, k.Stats())
		}
	})
}

// Crashes of an on-demand feed hold it back, too, and an older value is shown
// meanwhile.
func TestCrashOnDemand(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, k *host, s Session, f *script) {
		o := onDemand("o", "")
		o.CacheTTL = ptr[int64](3600)
		set := setOf(t, o)
		k.Sync(s, set)
		wantSeen(t, k, s, set, "o=o1")
		synctest.Wait()
		f.set("o", panicking)
		for n := range BackOffTimes {
			el, v, known, _ := k.Get(context.Background(), s, set, "o", true)
			var p *PanicError
			if !known || !v.Failed || !el.Stale || !errors.As(el.Cause, &p) || len(p.Stack) == 0 {
				t.Fatalf("crash %d: %+v", n, el)
			}
			wantSeen(t, k, s, set, "o=o1~")
			if f.count("o") != n+2 {
				t.Fatalf("fetched %d times during a back-off", f.count("o"))
			}
			time.Sleep(BackOffFirst << n)
		}
		f.set("o", nil)
		if el, _, _, _ := k.Get(context.Background(), s, set, "o", true); el.Stale || el.Body != "o7" {
			t.Fatalf("restarted: %+v", el)
		}
		f.set("o", panicking)
		k.Get(context.Background(), s, set, "o", true)
		wantSeen(t, k, s, set, "o=!failed")
	})
}

// No call makes a feed need a disabled one; a state that was tampered with may.
func TestNeedsDisabled(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, k *host, s Session, f *script) {
		set, err := setOf(t, onDemand("a", `{"x":"$b"}`), onDemand("b", "")).With([]Edit{
			{ID: "b", Spec: `{"id":"b","enabled":"no","source":{"type":"tool","name":"b"}}`},
		}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if els := wantSeen(t, k, s, set, "a=!failed"); !isReason(els[0].Cause, ReasonNeeds) || f.count("b") != 0 {
			t.Error(els[0].Cause)
		}
	})
}

// What cannot be fetched is failed, each for its reason.
func TestFailedFetches(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, k *host, s Session, f *script) {
		f.set("text", func(context.Context, Source) (string, error) { return "no JSON", nil })
		f.set("two", func(context.Context, Source) (string, error) { return "1 2", nil })
		f.set("big", func(context.Context, Source) (string, error) {
			return `"` + strings.Repeat("x", MaxValueBytes) + `"`, nil
		})
		set := setOf(t, onDemand("text", ""), onDemand("two", ""), onDemand("big", ""), onDemand("path", `{"a":"${text2.x}"}`), onDemand("text2", ""),
			Spec{ID: "files", Type: "ingest", Source: SourceSpec{Params: `{"paths":["."]}`}})
		els := wantSeen(t, k, s, set, "text=!failed two=!failed big=!failed path=!failed text2=text21 files=!failed")
		for i, reason := range []string{ReasonInvalidJSON, ReasonInvalidJSON, ReasonValueTooLarge, "unresolved_variable:text2.x", "", ReasonNoFiles} {
			if reason != "" && !isReason(els[i].Cause, reason) {
				t.Errorf("%s: %v, want %s", els[i].ID, els[i].Cause, reason)
			}
		}
		set = setOf(t, onDemand("t", ""))
		if els := wantSeen(t, k, Session{Key: "x"}, set, "t=!failed"); !isReason(els[0].Cause, ReasonUnknownTarget) {
			t.Error(els[0].Cause)
		}
		k.Close()
		if els := wantSeen(t, k, s, set, "t=!failed"); !isReason(els[0].Cause, ReasonClosed) {
			t.Error(els[0].Cause)
		}
		k.Sync(s, set)
	})
}

func TestGet(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, k *host, s Session, f *script) {
		o := onDemand("o", "")
		o.CacheTTL = ptr[int64](60)
		off := onDemand("off", "")
		off.Enabled = ptr("off")
		set := setOf(t, o, off)
		call := func(params, fetch string) string {
			t.Helper()
			out, err := set.Do(Call{Name: GetFeed, Params: params, Now: time.Now(), Value: func(e Entry) (Value, bool) { return k.Value("s", e) }})
			if err != nil || out.Fetch != fetch {
				t.Fatalf("%+v, %v", out, err)
			}
			if out.Fetch == "" {
				return out.Result
			}
			_, v, known, ok := k.Get(context.Background(), s, set, out.Fetch, strings.Contains(params, "refresh"))
			if !ok {
				t.Fatal("not there")
			}
			e, _ := set.Get(out.Fetch)
			return GetResult(e, v, known, time.Now(), nil)
		}
		want := func(got, want string) {
			t.Helper()
			if got != want {
				t.Fatalf("%s, want %s", got, want)
			}
		}
		want(call(`{"id":"o"}`, "o"), `{"age_ms":0,"id":"o","stale":false,"value":"o1"}`)
		time.Sleep(1234 * time.Millisecond)
		want(call(`{"id":"o"}`, ""), `{"age_ms":1234,"id":"o","stale":false,"value":"o1"}`)
		want(call(`{"id":"o","refresh":true}`, "o"), `{"age_ms":0,"id":"o","stale":false,"value":"o2"}`)
		f.set("o", failing)
		time.Sleep(time.Second)
		want(call(`{"id":"o","refresh":true}`, "o"), `{"age_ms":1000,"id":"o","stale":true,"value":"o2"}`)
		// A refresh that is not waited for: the older value, marked.
		f.set("o", nil)
		want(call(`{"id":"o","refresh":true}`, "o"), `{"age_ms":0,"id":"o","stale":false,"value":"o4"}`)
		f.set("o", after(9*time.Second, `"late"`))
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		el, v, known, _ := k.Get(ctx, s, set, "o", true)
		cancel()
		if !known || !v.Failed || !el.Stale || el.Body != "o4" {
			t.Errorf("%+v, %+v", el, v)
		}
		time.Sleep(9 * time.Second)
		if el, _, _, _ := k.Get(context.Background(), s, set, "o", false); el.Stale || el.Body != "late" {
			t.Errorf("%+v", el)
		}
		f.set("o", failing)
		want(call(`{"id":"off"}`, ""), `{"age_ms":null,"id":"off","stale":true,"value":null}`)
		time.Sleep(time.Minute)
		want(call(`{"id":"o","refresh":true}`, "o"), `{"age_ms":null,"id":"o","stale":true,"value":null}`)
		e, _ := set.Get("o")
		e.MaxTokens = 1
		want(GetResult(e, Value{JSON: `{"b":1, "a":2.0}`, At: time.Now()}, true, time.Now(), nil), `{"age_ms":0,"id":"o","stale":false,"value":"{\"a\"\n[truncated: 1 of 4 tokens]"}`)
		before := f.count("o")
		for _, id := range []string{"off", "", "none"} {
			if _, _, _, ok := k.Get(context.Background(), s, set, id, true); ok || f.count("o") != before {
				t.Errorf("%q, which is no feed or disabled, is known, or fetches another one", id)
			}
		}
	})
}

// Each session shows what its own manifest allows, also by a reference.
func TestEnvironmentOfSessions(t *testing.T) {
	cfg := Config{Internals: Internals{Env: func(name string) (string, bool) { return "of " + name, true }}}
	bubble(t, cfg, func(t *testing.T, k *host, s Session, f *script) {
		f.set("name", func(context.Context, Source) (string, error) { return `["HOME","SECRET"]`, nil })
		set := setOf(t, Spec{ID: "home", Type: "internal", Source: SourceSpec{Action: Env, Params: `{"names":["HOME"]}`}}, onDemand("name", ""),
			Spec{ID: "both", Type: "internal", Source: SourceSpec{Action: Env, Params: `{"names":"$name"}`}})
		wantSeen(t, k, s, set, `home={"HOME":"of HOME"} name=["HOME","SECRET"] both=!failed`)
	})
}

// Close waits for what still runs, and what is counted adds up.
func TestCloseAndStats(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, k *host, s Session, f *script) {
		f.set("deaf", func(context.Context, Source) (string, error) { time.Sleep(10 * time.Second); return "1", nil })
		f.set("bad", panicking)
		set := setOf(t, onDemand("deaf", ""), onDemand("bad", ""), periodic("p", 5))
		k.Sync(s, set)
		synctest.Wait()
		wantSeen(t, k, s, set, "deaf=!timeout bad=!failed p=p1")
		synctest.Wait()
		wantSeen(t, k, s, set, "deaf=!timeout bad=!failed p=p1")
		want := Stats{Fetches: 4, Merged: 1, Failed: 2, Crashed: 2, Late: 2, Periodic: 1, InFlight: 1}
		if got := k.Stats(); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
		begun := time.Now()
		k.Close()
		if d := time.Since(begun); d != 6*time.Second {
			t.Errorf("closed after %s", d)
		}
		if got := k.Stats(); got.InFlight != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// However many feeds are due at once, no more than Workers are fetched at a time, and
// afterwards nothing runs.
func TestWorkersAreBounded(t *testing.T) {
	bubble(t, Config{Workers: 3}, func(t *testing.T, k *host, s Session, f *script) {
		var now, most atomic.Int64
		fetch := fetchFunc(func(ctx context.Context, _ Source) (string, error) {
			n := now.Add(1)
			defer now.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			return after(time.Second, "1")(ctx, Source{})
		})
		set := setOf(t, periodic("a", 60), periodic("b", 60))
		for i := range 20 {
			k.Sync(Session{Key: fmt.Sprint(i), Fetcher: fetch}, set)
		}
		time.Sleep(50 * time.Second)
		k.workers.mu.Lock()
		defer k.workers.mu.Unlock()
		if n := k.Stats().InFlight; most.Load() != 3 || k.workers.running != 0 || k.workers.waiting != nil || n != 0 {
			t.Errorf("%d at a time; %d workers, %d fetches are left", most.Load(), k.workers.running, n)
		}
	})
}

// Prompts, changes and ticks of many sessions at once, for the race detector.
func TestKeeperRace(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, k *host, _ Session, f *script) {
		f.set("p", failing)
		f.set("c", panicking)
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				s := Session{Key: fmt.Sprint("s", i%4), Fetcher: f}
				set := setOf(t, periodic("a", 5), periodic("p", 5), periodic("c", 5), onDemand("o", `{"x":"$a"}`))
				for n := range 20 {
					if i < 4 {
						out, err := set.Do(Call{Name: UpdateFeed, Params: fmt.Sprintf(`{"id":"a","interval":%d}`, 5+n%3), Permission: everything()})
						if err != nil {
							t.Error(err)
							return
						}
						set = out.Set
						k.Sync(s, set)
					}
					if got := seen(k.Prompt(context.Background(), s, set)); !strings.HasPrefix(got, "a=a") {
						t.Error(got)
					}
					time.Sleep(time.Duration(i*n) * time.Millisecond * 100)
				}
			})
		}
		all.Wait()
		for i := range 4 {
			k.Stop(fmt.Sprint("s", i))
		}
	})
}

// The cache is never truth: with none that keeps anything, prompts show the same.
func TestWithoutCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, err := NewCache(1) // smaller than any value
		if err != nil {
			t.Fatal(err)
		}
		defer cache.Close()
		k, err := newHost(Config{Cache: cache})
		if err != nil {
			t.Fatal(err)
		}
		defer k.Close()
		f := &script{calls: map[string]int{}}
		s := Session{Key: "s", Fetcher: f}
		set := setOf(t, periodic("p", 30), onDemand("o", `{"x":"$p"}`))
		k.Sync(s, set)
		synctest.Wait()
		wantSeen(t, k, s, set, "p=p2 o=o1")
		time.Sleep(time.Minute)
		synctest.Wait()
		wantSeen(t, k, s, set, "p=p5 o=o2")
	})
}

func TestConfig(t *testing.T) {
	for field, cfg := range map[string]Config{"Deadline": {Deadline: -1}, "FetchTimeout": {FetchTimeout: -1}, "Workers": {Workers: -1}} {
		_, err := NewKeeper(cfg)
		wantMistakes(t, err, field+" "+ReasonBadValue)
	}
}

func TestInternals(t *testing.T) {
	noon := time.Date(2024, 6, 15, 12, 34, 56, 789, time.UTC)
	in := Internals{
		Now: func() time.Time { return noon }, Rand: strings.NewReader(strings.Repeat("\x80", 64)),
		Env: func(name string) (string, bool) {
			if name == "SECRET" {
				t.Error("SECRET was asked for")
			}
			return "/root \xff", name == "HOME"
		},
	}
	allow := []string{"HOME", "NONE"}
	facts := Facts{
		Session: SessionFacts{ID: "t:u:s", Run: 2, Turn: 7, Opened: noon},
		Agent:   AgentFacts{Name: "a", Version: "1", Summary: "s", Author: "x", State: "beta", Dialect: "cortex", Model: "m"},
	}
	for _, c := range []struct{ action, params, want string }{
		{SystemClock, `{}`, `"2024-06-15T12:34:56Z"`},
		{SystemClock, `{"format":"unix"}`, `1718454896`},
		{SystemClock, `{"format":"ISO8601","timezone":"Asia/Kolkata"}`, `"2024-06-15T18:04:56+05:30"`},
		{Random, `{"min":1,"max":6}`, `4`},
		{Random, `{"min":5,"max":5}`, `5`},
		{Random, `{"min":-9007199254740991,"max":9007199254740991,"seed":3}`, `-1`},
		{Env, `{"names":["NONE","HOME","HOME"]}`, "{\"HOME\":\"/root \uFFFD\",\"NONE\":null}"},
		{SessionInfo, `{}`, `{"id":"t:u:s","opened":"2024-06-15T12:34:56Z","run":2,"turn":7}`},
		{AgentMetadata, `{}`, `{"author":"x","dialect":"cortex","model":"m","name":"a","state":"beta","summary":"s","version":"1"}`},
	} {
		got, err := in.Fetch(Source{Kind: Internal, Action: c.action, Params: c.params}, facts, allow)
		if c.want == "-1" { // a fixed one, whichever
			again, _ := in.Fetch(Source{Kind: Internal, Action: c.action, Params: c.params}, facts, allow)
			c.want = again
		}
		if err != nil || got != c.want {
			t.Errorf("%s %s: %s, %v; want %s", c.action, c.params, got, err, c.want)
		}
	}
	if got, err := in.Fetch(Source{Action: SessionInfo, Params: "{}"}, Facts{}, nil); got != "{}" || err != nil {
		t.Errorf("nothing to tell: %s, %v", got, err)
	}
	// A draw that would make one number likelier is thrown away.
	in.Rand = strings.NewReader(strings.Repeat("\x00", 8) + strings.Repeat("\x80", 8))
	if got, err := in.Fetch(Source{Action: Random, Params: `{"min":1,"max":3}`}, facts, allow); got != "2" || err != nil {
		t.Errorf("drawn %s, %v", got, err)
	}
	for action, params := range map[string]string{
		Env: `{"names":["SECRET"]}`, SystemClock: `{"timezone":"$tz"}`, Random: `{"min":"1","max":2}`, "other": `{}`, SessionInfo: `[`,
	} {
		if got, err := in.Fetch(Source{Action: action, Params: params}, facts, allow); err == nil {
			t.Errorf("%s %s: %s", action, params, got)
		}
	}
	in.Rand = strings.NewReader("")
	if _, err := in.Fetch(Source{Action: Random, Params: `{"min":1,"max":2}`}, facts, allow); err == nil {
		t.Error("no randomness went unnoticed")
	}
	// Every number comes, both ends included, none more often than it should.
	in.Rand = nil
	var seen [3]int
	for range 3000 {
		got, err := in.Fetch(Source{Action: Random, Params: `{"min":0,"max":2}`}, facts, allow)
		if err != nil {
			t.Fatal(err)
		}
		seen[got[0]-'0']++
	}
	for _, n := range seen {
		if n < 700 || n > 1300 {
			t.Errorf("drawn %v", seen)
		}
	}
}

func TestKeeperIngests(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, k *host, s Session, _ *script) {
		var files fs.FS = fstest.MapFS{"a": &fstest.MapFile{Data: []byte("0123456789")}}
		s.Ingest = &Ingester{Files: files}
		s.Facts = func() Facts { return Facts{Session: SessionFacts{ID: "t:u:s"}} }
		set := setOf(t, Spec{ID: "docs", Type: "ingest", Source: SourceSpec{Params: `{"paths":["a"],"max_tokens":4}`}},
			Spec{ID: "me", Type: "internal", Source: SourceSpec{Action: SessionInfo}})
		wantSeen(t, k, s, set, "docs===> a <==\n012345\n[truncated: 4 of 6 tokens]… me={\"id\":\"t:u:s\"}")
	})
}
