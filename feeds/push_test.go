package feeds

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// announcer is a peer with one feed, which tells of changes.
type announcer struct {
	mu      sync.Mutex
	n       int           // of the value
	change  chan struct{} // closed at the next change
	broken  bool
	hasty   bool // answers at once that nothing has changed
	fetched int
	waited  int
}

func (p *announcer) tag() string { return fmt.Sprintf("t%d", p.n) }

func (p *announcer) Fetch(_ context.Context, _ Source, tag string) (Value, bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fetched++
	if p.broken {
		return Value{}, false, errors.New("gone")
	}
	return Value{JSON: fmt.Sprint(p.n), Tag: p.tag(), Origin: "s@i, 1"}, tag == p.tag(), nil
}

func (p *announcer) Wait(ctx context.Context, _ Source, tag string) (bool, error) {
	p.mu.Lock()
	p.waited++
	c, same, broken, hasty := p.change, tag == p.tag(), p.broken, p.hasty
	p.mu.Unlock()
	switch {
	case broken:
		return false, errors.New("gone")
	case !same || hasty:
		return !same, nil
	}
	select {
	case <-c:
		return true, nil
	case <-time.After(25 * time.Second):
		return false, nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

func (p *announcer) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	close(p.change)
	p.change = make(chan struct{})
}

func (p *announcer) counts() (fetched, waited int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	defer func() { p.fetched, p.waited = 0, 0 }()
	return p.fetched, p.waited
}

// A pushed feed is fetched when its peer has another value and at no other time; a peer that is
// gone is asked with pauses, and prompts fetch again; a session that sleeps does not ask.
func TestPush(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, k *host, s Session, _ *script) {
		p := &announcer{change: make(chan struct{})}
		s.Peers = p
		set := setOf(t, Spec{ID: "x", Source: SourceSpec{Type: "remote", Params: PeerParams("https://h:1", "a:b:c", "x", "S", true)}})
		k.Sync(s, set)
		settle := func(d time.Duration) { time.Sleep(d); synctest.Wait() }
		settle(2 * time.Second)
		wantSeen(t, k, s, set, "x=0")
		p.counts()
		wantSeen(t, k, s, set, "x=0")
		if fetched, _ := p.counts(); fetched != 0 {
			t.Errorf("a prompt fetched %d times what the peer would have told", fetched)
		}
		p.set(func() { p.n++ })
		settle(time.Millisecond)
		wantSeen(t, k, s, set, "x=1")
		if fetched, _ := p.counts(); fetched != 1 {
			t.Errorf("a change was fetched %d times", fetched)
		}
		settle(time.Minute)
		if fetched, waited := p.counts(); fetched != 0 || waited < 2 || waited > 4 {
			t.Errorf("in a quiet minute %d fetches, asked %d times", fetched, waited)
		}
		p.set(func() { p.hasty = true })
		settle(time.Minute)
		if _, waited := p.counts(); waited > 62 {
			t.Errorf("a peer that answers at once was asked %d times a minute", waited)
		}
		p.set(func() { p.hasty, p.broken = false, true })
		settle(10 * time.Minute)
		if _, waited := p.counts(); waited > 18 {
			t.Errorf("a peer that is gone was asked %d times in ten minutes", waited)
		}
		k.Prompt(t.Context(), s, set)
		if fetched, _ := p.counts(); fetched != 1 {
			t.Errorf("without its peer the feed was fetched %d times for a prompt", fetched)
		}
		p.set(func() { p.broken = false; p.n++ })
		settle(2 * time.Minute)
		wantSeen(t, k, s, set, "x=2")
		p.counts()
		off := Set{entries: []Entry{set.entries[0]}}
		off.entries[0].Disabled = true
		k.Sync(s, off)
		settle(time.Minute)
		p.counts()
		settle(time.Minute)
		if fetched, waited := p.counts(); fetched+waited != 0 {
			t.Errorf("a disabled feed asks: %d, %d", fetched, waited)
		}
		k.Sync(s, set)
		settle(time.Minute)
		k.Stop(s.Key)
		settle(time.Minute)
		p.counts()
		settle(time.Minute)
		if fetched, waited := p.counts(); fetched+waited != 0 {
			t.Errorf("a session that sleeps asks: %d, %d", fetched, waited)
		}
	})
}

// Await returns at a change of the value, however it came, and of no other feed's.
func TestAwait(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, k *host, s Session, f *script) {
		f.set("a", func(context.Context, Source) (string, error) { return "1", nil })
		set := setOf(t, onDemand("a", ""), onDemand("b", ""))
		wantSeen(t, k, s, setOf(t, onDemand("a", "")), "a=1")
		k.Settle()
		ended := make(chan error, 1)
		await := func(ctx context.Context) {
			go func() { ended <- k.Await(ctx, s.Key, set, map[string]string{"a": "1", "none": "2"}) }()
			synctest.Wait()
		}
		await(t.Context())
		if err := k.Put(s.Key, set, "b", "5"); err != nil {
			t.Fatal(err)
		}
		if err := k.Put(s.Key, set, "a", "1"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("it returned without a change: %v", err)
		default:
		}
		f.set("a", func(context.Context, Source) (string, error) { return "22", nil })
		k.Get(t.Context(), s, set, "a", true)
		synctest.Wait()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { ended <- k.Await(ctx, s.Key, set, map[string]string{"a": "22"}) }()
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) || len(k.watches.waiting) != 0 {
			t.Errorf("%v, %d are left", err, len(k.watches.waiting))
		}
	})
}

// A value of another host is not given to a third one, whether the feed is remote, forwards by its
// definition, or refers to such a feed.
func TestForwards(t *testing.T) {
	set := setOf(t, onDemand("own", ""), onDemand("far", ""), onDemand("near", ""), onDemand("nearer", ""), onDemand("agent", ""), onDemand("of", ""))
	needs := map[string][]string{"near": {"far"}, "nearer": {"near"}, "of": {"agent"}}
	for i := range set.entries {
		e := &set.entries[i]
		e.needs, e.Source.Forwards = needs[e.ID], e.ID == "agent"
		if e.ID == "far" {
			e.Source.Kind = Remote
		}
	}
	for id, want := range map[string]bool{"own": false, "far": true, "near": true, "nearer": true, "agent": true, "of": true, "none": false} {
		if set.Forwards(id) != want {
			t.Errorf("%s forwards: %t", id, !want)
		}
	}
}
