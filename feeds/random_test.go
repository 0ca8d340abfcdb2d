package feeds

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Sessions live at random under a keeper, in virtual time: they wake and sleep, build
// prompts side by side, and change the interval of a feed; sources are slow, stall, fail,
// crash, end their goroutine, say the same again, too much, or no JSON. What
// docs/spec/streaming.md §7.2 says of it is read once more from the log of the fetches. What a source does follows
// from the seed, its name and how often it was asked, so the order of goroutines, which a
// bubble leaves open, changes nothing that is checked.
func TestRandomLives(t *testing.T) {
	base := uint64(time.Now().UnixNano())
	worlds := uint64(40)
	if testing.Short() {
		worlds = 15
	}
	for seed := base; seed < base+worlds; seed++ {
		randomLives(t, seed)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// randomLives is the world of a seed.
func randomLives(t *testing.T, seed uint64) {
	bubble(t, Config{}, func(t *testing.T, k *host, _ Session, _ *script) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		var lives []*life
		for n := range 3 {
			lives = append(lives, newLife(t, k, seed, n, rnd))
		}
		for range 120 {
			l := lives[rnd.IntN(len(lives))]
			switch n := rnd.IntN(10); {
			case n < 2:
				l.sleeps()
			case n < 4:
				l.wakes()
			case n < 5:
				l.retimes(5 + rnd.Int64N(4))
			case n < 6: // prompts of two sessions, side by side
				other := lives[(l.n+1)%len(lives)]
				var both sync.WaitGroup
				both.Go(l.prompts)
				both.Go(other.prompts)
				both.Wait()
			default:
				l.prompts()
			}
			pause := time.Duration(rnd.IntN(6000)) * time.Millisecond
			if rnd.IntN(8) == 0 {
				pause *= 8
			}
			// No two things happen at one instant, in an undefined order.
			time.Sleep(pause + time.Duration(1+rnd.IntN(999_999))*time.Nanosecond)
		}
		for _, l := range lives {
			l.sleeps()
		}
		time.Sleep(DefaultFetchTimeout + time.Second)
		synctest.Wait()
		for _, l := range lives {
			l.judge()
		}
		if n := k.Stats().Periodic; n != 0 {
			t.Errorf("no session is awake, and %d feeds tick", n)
		}
	})
}

// life is a session and the log of what its sources were asked.
type life struct {
	t     *testing.T
	k     *host
	n     int
	seed  uint64
	set   Set
	who   Session
	calm  bool // nothing goes wrong with its sources
	frail bool // they crash all the time

	mu     sync.Mutex
	log    map[string][]*asked // by feed
	prompt int                 // prompts under way
	awake  bool
	spans  []span
}

// span is a time in which a session was awake, under one interval of its feeds.
type span struct {
	woke     time.Time
	from, to time.Time
	every    time.Duration
}

// asked is one call of a source.
type asked struct {
	begun, ended time.Time // ended is zero while it runs
	value        string    // as it is shown; "" for none
	crashed      bool
	prompted     bool // a prompt was under way
}

func newLife(t *testing.T, k *host, seed uint64, n int, rnd *rand.Rand) *life {
	l := &life{t: t, k: k, n: n, seed: seed, calm: rnd.IntN(3) == 0, frail: rnd.IntN(6) == 0, log: map[string][]*asked{}}
	short := periodic("short", 7)
	short.CacheTTL, short.MaxSizeBytes = ptr[int64](10), ptr[int64](6)
	kept := onDemand("kept", "")
	kept.CacheTTL = ptr[int64](8)
	off := periodic("off", 5)
	off.Enabled = ptr("no")
	l.set = setOf(t, periodic("pulse", 5), short, onDemand("each", ""), off, kept)
	l.who = Session{Key: fmt.Sprint("s", n), Fetcher: l}
	return l
}

// Fetch implements Fetcher.
func (l *life) Fetch(ctx context.Context, src Source) (string, error) {
	l.mu.Lock()
	log := l.log[src.Name]
	if len(log) > 0 && log[len(log)-1].ended.IsZero() {
		l.t.Errorf("%s of %s is fetched twice at a time", src.Name, l.who.Key)
	}
	if e, ok := l.set.Get(src.Name); l.prompt == 0 && !(l.awake && ok && e.Trigger == Periodic) || !ok || e.Disabled {
		l.t.Errorf("%s of %s is fetched, awake: %v", src.Name, l.who.Key, l.awake)
	}
	a := &asked{begun: time.Now(), prompted: l.prompt > 0}
	l.log[src.Name] = append(log, a)
	l.mu.Unlock()

	value, crashed := "", false
	defer func() { // also when the goroutine ends
		l.mu.Lock()
		defer l.mu.Unlock()
		a.ended, a.value, a.crashed = time.Now(), value, crashed
	}()
	rnd := rand.New(rand.NewPCG(l.seed+uint64(l.n)<<32, uint64(len(src.Name))<<32+uint64(src.Name[0])<<40+uint64(len(log))))
	says := fmt.Sprintf("%s%d", src.Name[:1], len(log))
	n := rnd.IntN(24)
	if l.calm {
		n = 8 + n%8
	}
	switch {
	case n < 2:
		return "", errors.New("no")
	case n < 3:
		<-ctx.Done()
		return "", ctx.Err()
	case n < 4:
		crashed = true
		panic("boom")
	case n < 5 || l.frail && n < 16:
		crashed = true
		runtime.Goexit()
	case n < 6:
		return "no JSON", nil
	case n < 8:
		time.Sleep(time.Duration(500+rnd.IntN(7000)) * time.Millisecond)
	case n < 12:
		says = src.Name[:1] + "same"
	case n < 14:
		says += strings.Repeat("!", rnd.IntN(12))
	}
	value = says
	return fmt.Sprintf("%q", says), nil
}

// every is the interval of the feed that changes.
func (l *life) every() time.Duration {
	e, _ := l.set.Get("pulse")
	return e.Interval
}

func (l *life) wakes() {
	if !l.awake {
		l.mu.Lock()
		l.awake = true
		l.mu.Unlock()
		l.spans = append(l.spans, span{woke: time.Now(), from: time.Now(), every: l.every()})
	}
	l.k.Sync(l.who, l.set)
}

func (l *life) sleeps() {
	if !l.awake {
		return
	}
	l.k.Stop(l.who.Key)
	synctest.Wait() // what was handed out is begun
	l.mu.Lock()
	defer l.mu.Unlock()
	l.awake = false
	l.spans[len(l.spans)-1].to = time.Now()
}

// retimes has the model give a feed another interval, which begins anew.
func (l *life) retimes(seconds int64) {
	out, err := l.set.Do(Call{Name: UpdateFeed, Params: fmt.Sprintf(`{"id":"pulse","interval":%d}`, seconds), Permission: everything()})
	if err != nil {
		l.t.Error(err)
		return
	}
	l.mu.Lock()
	l.set = out.Set
	l.mu.Unlock()
	if !l.awake {
		return
	}
	if last := &l.spans[len(l.spans)-1]; last.every != l.every() {
		last.to = time.Now()
		l.spans = append(l.spans, span{woke: last.woke, from: time.Now(), every: l.every()})
	}
	l.k.Sync(l.who, l.set)
}

// prompts builds a prompt and checks what it has.
func (l *life) prompts() {
	l.mu.Lock()
	l.prompt++
	l.mu.Unlock()
	begun := time.Now()
	els := l.k.Prompt(l.t.Context(), l.who, l.set)
	took := time.Since(begun)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.prompt--
	if took > DefaultDeadline {
		l.t.Errorf("a prompt of %s waits for %s", l.who.Key, took)
	}
	var ids []string
	for i := range els {
		ids = append(ids, els[i].ID)
		l.shown(&els[i], begun, took)
	}
	if got := strings.Join(ids, " "); got != "pulse short each kept" {
		l.t.Errorf("a prompt has %s", got)
	}
}

// shown checks an element of a prompt. l.mu is held.
func (l *life) shown(el *Element, begun time.Time, took time.Duration) {
	e, _ := l.set.Get(el.ID)
	now := begun.Add(took)
	bad := func(format string, args ...any) {
		l.t.Errorf("%s of %s at %s, %+v: %s", el.ID, l.who.Key, now.Format("04:05.000"), *el, fmt.Sprintf(format, args...))
	}
	var last *asked // that gave a value before the prompt
	failed := false // one after it did not
	crashes := 0
	var may []*asked // give what is shown: the last one, and those that came meanwhile
	for _, a := range l.log[el.ID] {
		if a.crashed && now.Sub(a.ended) <= BackOffWindow {
			crashes++
		}
		switch {
		case a.ended.IsZero():
		case !a.ended.Before(begun):
			may = append(may, a)
		case a.value != "":
			last, failed = a, false
		default:
			failed = true
		}
	}
	if el.Error != "" {
		if el.Body != "" || el.Value != "" || el.Stale || el.Truncated || el.Error != ErrorTimeout && el.Error != ErrorFailed {
			bad("no value, and more")
		}
		if el.Error == ErrorTimeout && took < DefaultDeadline && !l.gaveUp(el.ID, begun, now) {
			bad("given up after %s", took)
		}
		if last != nil && now.Sub(last.ended) < e.ServedFor() && crashes <= BackOffTimes {
			bad("%q of %s could be shown", last.value, last.ended.Format("04:05.000"))
		}
		return
	}
	body, _, cut := strings.Cut(el.Body, "\n[truncated: ")
	if cut != el.Truncated || cut && int64(len(body)) != e.MaxBytes || !cut && e.MaxBytes > 0 && int64(len(body)) > e.MaxBytes {
		bad("cut: %v", cut)
	}
	for _, a := range may {
		if a.value == body || cut && strings.HasPrefix(a.value, body) {
			return
		}
	}
	if last == nil || last.value != body && !(cut && strings.HasPrefix(last.value, body)) {
		bad("of the source is %+v", last)
		return
	}
	age := begun.Sub(last.ended) // at least, when it was looked at
	late := e.Trigger == Periodic && (age > e.Interval+lateBy || failed)
	switch {
	case late && !el.Stale:
		bad("it is %s old, and a refresh failed: %v", age, failed)
	case el.Late && el.Stale && e.standsIn(): // the last value, however old
	case age > e.ServedFor() && (e.Trigger == OnDemand || late):
		bad("it is %s old, and may be %s", age, e.ServedFor())
	}
}

// gaveUp reports whether a fetch of the feed was given up while a prompt waited. l.mu is held.
func (l *life) gaveUp(id string, begun, now time.Time) bool {
	for _, a := range l.log[id] {
		if a.value == "" && !a.crashed && a.ended.Sub(a.begun) >= DefaultFetchTimeout && !a.ended.Before(begun) && !a.ended.After(now) {
			return true
		}
	}
	return false
}

// judge looks at the whole life: when what ticks was fetched, and what had crashed.
func (l *life) judge() {
	for i, s := range l.spans {
		l.ticked(s, "pulse", s.every)
		l.ticked(s, "short", 7*time.Second)
		if i+1 == len(l.spans) || l.spans[i+1].woke != s.woke {
			for id := range l.log {
				l.backedOff(id, s.woke, s.to)
			}
		}
	}
}

// backedOff checks that a feed which crashes is left alone for 1 s·2ⁿ, up to a minute, and
// for good when it does so for the sixth time in ten minutes, as long as its session is
// awake.
func (l *life) backedOff(id string, from, to time.Time) {
	row := 0
	var next time.Time
	var crashes []time.Time
	for _, a := range l.log[id] {
		if a.ended.Before(from) || !a.ended.Before(to) {
			continue
		}
		if !a.begun.Before(from) && a.begun.Before(next) {
			l.t.Errorf("%s of %s is fetched at %s, after %d crashes not before %s", id, l.who.Key, a.begun.Format("04:05.000"), row, next.Format("04:05.000"))
		}
		if !a.crashed {
			if a.value != "" {
				row, next = 0, time.Time{}
			}
			continue
		}
		next = a.ended.Add(min(BackOffMost, BackOffFirst<<row))
		row++
		crashes = append(crashes, a.ended)
		if n := len(crashes) - 1 - BackOffTimes; n >= 0 && a.ended.Sub(crashes[n]) < BackOffWindow {
			next = to
		}
	}
}

// ticked checks that a feed is fetched at the beginning of a span and then every interval,
// but for starts that fall into a fetch, and not more often. A crash changes that for as
// long as the session is awake.
func (l *life) ticked(s span, id string, every time.Duration) {
	bad := func(what string, at time.Time, gap time.Duration) {
		l.t.Errorf("%s of %s: %s from %s on, for %s; the interval is %s", id, l.who.Key, what, at.Format("04:05.000"), gap, every)
	}
	since := s.from // since when a start is due
	var before time.Time
	for _, a := range l.log[id] {
		switch {
		case a.crashed && !a.ended.Before(s.woke) && a.begun.Before(s.to):
			return
		case a.ended.Before(s.from):
			continue
		case a.begun.Before(s.from): // it runs on
			since = a.ended
			continue
		}
		if gap := minTime(a.begun, s.to).Sub(since); gap > every+2*Tick {
			bad("nothing is fetched", since, gap)
		}
		if !a.begun.Before(s.to) {
			return
		}
		if gap := a.begun.Sub(before); !before.IsZero() && !a.prompted && gap < every-Tick {
			bad("it is fetched twice", before, gap)
		}
		if since = a.ended; !a.prompted && a.begun.After(s.from) { // a tick of the span before may come as this one begins
			before = a.begun
		}
	}
	if gap := s.to.Sub(since); gap > every+2*Tick {
		bad("nothing is fetched", since, gap)
	}
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
