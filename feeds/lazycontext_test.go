package feeds

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A fetch's context is one like any other, for those who look.
func TestLazyContext(t *testing.T) {
	gone := errors.New("gone")
	for name, c := range map[string]struct {
		run   func(cancel context.CancelCauseFunc, p *lazyContext)
		err   error
		cause error
		at    time.Duration
	}{
		"its time":              {func(context.CancelCauseFunc, *lazyContext) {}, context.DeadlineExceeded, context.DeadlineExceeded, 30 * time.Second},
		"its parent":            {func(cancel context.CancelCauseFunc, _ *lazyContext) { time.Sleep(time.Second); cancel(gone) }, context.Canceled, gone, time.Second},
		"its end":               {func(_ context.CancelCauseFunc, p *lazyContext) { time.Sleep(2 * time.Second); p.end() }, context.Canceled, context.Canceled, 2 * time.Second},
		"a parent that is over": {func(cancel context.CancelCauseFunc, _ *lazyContext) { cancel(gone) }, context.Canceled, gone, 0},
	} {
		for _, first := range []bool{true, false} { // whether a caller waits before it ends
			synctest.Test(t, func(t *testing.T) {
				parent, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				p := newLazyContext(parent, 30*time.Second)
				defer p.end()
				began := time.Now()
				if at, ok := p.Deadline(); !ok || !at.Equal(began.Add(30*time.Second)) {
					t.Errorf("%s: deadline %v %v", name, at, ok)
				}
				if p.over() {
					t.Errorf("%s: over at once", name)
				}
				var child context.Context = p
				if first {
					var stop context.CancelFunc
					child, stop = context.WithTimeout(p, time.Hour)
					defer stop()
				}
				go c.run(cancel, p)
				if !first {
					time.Sleep(c.at)
					synctest.Wait()
				}
				<-child.Done()
				if took := time.Since(began); took != c.at {
					t.Errorf("%s, waited for first %v: ended after %s", name, first, took)
				}
				if !errors.Is(child.Err(), c.err) || !errors.Is(context.Cause(child), c.cause) || !p.over() {
					t.Errorf("%s, waited for first %v: %v, because of %v, over %v", name, first, child.Err(), context.Cause(child), p.over())
				}
			})
		}
	}
}

// Who asks for nothing pays for nothing: there is no timer and no place in the parent.
func TestLazyContextUnused(t *testing.T) {
	p := newLazyContext(t.Context(), time.Hour)
	if _, ok := p.Deadline(); !ok || p.over() || p.real != nil {
		t.Errorf("%+v", p)
	}
	parent, cancel := context.WithCancel(t.Context())
	q := newLazyContext(parent, time.Hour)
	defer q.end()
	cancel()
	if !q.over() || q.real != nil {
		t.Errorf("its parent is over: %+v", q)
	}
	p.end()
	if p.Err() == nil {
		t.Error("it goes on behind its end")
	}
}

// A prompt joins the fetch of a tick, and a tick that of a prompt: nothing is fetched
// twice at a time, for any caller.
func TestTicksAndPromptsShareFetches(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, k *host, s Session, f *script) {
		f.set("a", after(1500*time.Millisecond, `"a"`))
		set := setOf(t, periodic("a", 10))
		k.Sync(s, set)
		synctest.Wait()
		for range 3 { // side by side, of which none has to begin
			go k.Prompt(t.Context(), s, set)
		}
		wantSeen(t, k, s, set, "a=a")
		if n := f.count("a"); n != 1 {
			t.Errorf("%d fetches", n)
		}
		if st := k.Stats(); st.Merged != 4 || st.Fetches != 1 || st.InFlight != 0 {
			t.Errorf("%+v", st)
		}
		time.Sleep(10*time.Second - 1500*time.Millisecond - time.Nanosecond)
		synctest.Wait()
		_, _, _, ok := k.Get(t.Context(), s, set, "a", true) // right in front of the tick
		if n := f.count("a"); !ok || n != 2 {
			t.Errorf("%d fetches, want two: the tick joins the one that runs", n)
		}
	})
}

// A value of the same size takes the place of the one before; one of another size and
// one that is no JSON are what they are.
func TestValuesReplaceEachOther(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, k *host, s Session, f *script) {
		var says atomic.Pointer[string]
		f.set("a", func(context.Context, Source) (string, error) { return *says.Load(), nil })
		set := setOf(t, periodic("a", 5))
		for i, v := range []struct{ says, shown string }{
			{`"one"`, "a=one"}, {`"two"`, "a=two"}, {`"three"`, "a=three"}, {`"three"`, "a=three"}, {`"bro`, "a=three~"}, {"", "a=three~"}, {`"tree!"`, "a=tree!"}, {`"ok"`, "a=ok"},
		} {
			says.Store(&v.says)
			if i == 0 {
				k.Sync(s, set)
			} else {
				time.Sleep(5 * time.Second)
			}
			synctest.Wait()
			k.cache.Wait()
			wantSeen(t, k, s, set, v.shown)
		}
	})
}

// A feed that begins anew while it is held back after a crash is still held back.
func TestBegunAnewWhileHeldBack(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, k *host, s Session, f *script) {
		f.set("a", panicking)
		k.Sync(s, setOf(t, periodic("a", 30)))
		synctest.Wait()
		k.Sync(s, setOf(t, periodic("a", 40)))
		synctest.Wait()
		if n := f.count("a"); n != 1 {
			t.Errorf("%d fetches within the first second", n)
		}
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		if n := f.count("a"); n != 2 {
			t.Errorf("%d fetches, want the restart after a second", n)
		}
	})
}
