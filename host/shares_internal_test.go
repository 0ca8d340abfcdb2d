package host

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile/internal/share"
	"github.com/seed14be6753/stile/internal/share/sharetest"
	"github.com/seed14be6753/stile/messages"
)

// sharer is a host of a cluster, as far as its limits are concerned.
type sharer struct {
	*sharetest.Memory
	mu   sync.Mutex
	id   uuid.UUID
	held bool
	n    int
	far  time.Duration  // how long a word takes to the table, and back
	said map[string]int // words by tenant

	meter  *meter
	shares *shared
	limits Limits
}

func (h *sharer) Life() (uuid.UUID, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.id, h.held
}

// Share is of a table that is some way off.
func (h *sharer) Share(ctx context.Context, id uuid.UUID, turn int64, asks []share.Ask) ([]share.Share, error) {
	time.Sleep(h.far)
	h.mu.Lock()
	for i := range asks {
		h.said[asks[i].Tenant]++
	}
	h.mu.Unlock()
	got, err := h.Memory.Share(ctx, id, turn, asks)
	time.Sleep(h.far)
	return got, err
}

func (h *sharer) Hosts() int           { return h.n }
func (h *sharer) Lease() time.Duration { return 2 * time.Second }

// die ends the lease, rejoin begins another life.
func (h *sharer) die() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held = false
	h.Memory.End(h.id)
}

func (h *sharer) rejoin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.id, h.held = uuid.New(), true
	h.Memory.Join(h.id)
}

// submit is what a request does that begins a run.
func (h *sharer) submit(ctx context.Context, sid string) (done func(int64), over string, err error) {
	done, over = h.meter.submit(sid, h.limits, 1<<20)
	over, err = h.shares.room(ctx, tenantOf(sid), over, func() string {
		done, over = h.meter.submit(sid, h.limits, 1<<20)
		return over
	})
	return done, over, err
}

// spend has a host see a reply that cost so many tokens.
func (h *sharer) spend(sid string, run, tokens int64) {
	h.meter.observe(&messages.Record{SID: sid, Run: run, Body: &messages.ModelReply{Usage: messages.Usage{Output: tokens}}})
}

func (h *sharer) end(sid string, run int64) {
	h.meter.observe(&messages.Record{SID: sid, Run: run, Body: &messages.RunEnd{}})
}

// lateInTheDay is a clock by which a bubble begins ten minutes before midnight.
func lateInTheDay() time.Time { return time.Now().Add(24*time.Hour - 10*time.Minute) }

// sharersOf are hosts on one table.
func sharersOf(t *testing.T, n int, l Limits) []*sharer {
	t.Helper()
	table := &sharetest.Memory{}
	all := make([]*sharer, n)
	for i := range all {
		m, err := newMeter(lateInTheDay, "")
		if err != nil {
			t.Fatal(err)
		}
		h := &sharer{Memory: table, n: n, meter: m, limits: l, said: map[string]int{}}
		h.rejoin()
		h.shares = newShared(m, h, func(string) Limits {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.limits
		}, zap.NewNop())
		t.Cleanup(h.shares.run())
		all[i] = h
	}
	return all
}

// Of so many submits at each host as many get in, in all, as the tenant may have runs, whichever
// host they ask, and no run is refused while there is room for one.
func TestRunsOfAllHosts(t *testing.T) {
	for _, most := range []int{1, 3, 7, 100} {
		synctest.Test(t, func(t *testing.T) {
			hosts := sharersOf(t, 3, Limits{Runs: most})
			var mu sync.Mutex
			in := map[int][]int64{} // runs by host
			try := func(i int, run int64) (ok bool) {
				done, over, err := hosts[i].submit(t.Context(), "acme:ann:s")
				if err != nil {
					t.Error(err)
				}
				if over != "" {
					if over != overRuns {
						t.Errorf("refused for %s", over)
					}
					return false
				}
				done(run)
				mu.Lock()
				defer mu.Unlock()
				in[i] = append(in[i], run)
				return true
			}
			var work sync.WaitGroup
			for i := range hosts {
				for run := range int64(most + 2) {
					work.Go(func() { try(i, run+1) })
				}
			}
			work.Wait()
			if got := len(in[0]) + len(in[1]) + len(in[2]); got > most || got < most-2 { // those that waited in vain may have just missed one
				t.Errorf("of %d runs the hosts let in %d", most, got)
			}
			// What one host has, and another one wants: at once, and after a while.
			for i, h := range hosts {
				for _, run := range in[i] {
					h.end("acme:ann:s", run)
				}
			}
			time.Sleep(600 * time.Millisecond) // the hosts know that the runs have ended, and have kept some room
			if try(0, 900); most > 1 {
				for run := range int64(most - 1) {
					if !try(2, 901+run) {
						t.Errorf("run %d of %d is refused, and another host has room that it does not use", run+2, most)
					}
				}
				for run := range int64(most - 1) {
					hosts[2].end("acme:ann:s", 901+run)
				}
			}
			hosts[0].end("acme:ann:s", 900)
			time.Sleep(time.Minute)
			for run := range int64(most) {
				if !try(1, 1000+run) {
					t.Errorf("run %d of %d at one host is refused, and the others have none", run+1, most)
				}
			}
			if try(0, 2000) || try(2, 2001) || try(1, 2002) {
				t.Errorf("more than %d runs", most)
			}
			// A run that ends makes room at any host.
			hosts[1].end("acme:ann:s", 1000)
			time.Sleep(time.Second)
			if !try(2, 3000) || try(0, 3001) {
				t.Error("a run has ended, and there is not room for just one")
			}
			// The runs of a host that is gone are its own no more.
			hosts[1].die()
			time.Sleep(time.Second)
			for run := range int64(most - 1) {
				if !try(0, 4000+run) {
					t.Errorf("a host is gone that had %d runs, and run %d is refused", most-1, run+1)
				}
			}
			if try(2, 5000) {
				t.Errorf("more than %d runs behind a host that is gone", most)
			}
			if _, _, err := hosts[1].submit(t.Context(), "acme:ann:s"); messages.CodeOf(err) != messages.ErrBusy {
				t.Errorf("a host without a lease says %v", err)
			}
			before, _, _ := hosts[0].meter.used("acme")
			for range 2 { // a run of the dead host, which this one goes on with
				hosts[0].meter.observe(&messages.Record{SID: "acme:ann:taken", Run: 1, Body: &messages.TurnBegin{}})
			}
			if runs, _, _ := hosts[0].meter.used("acme"); runs != before+1 {
				t.Errorf("a host that takes over one run has %d, and had %d", runs, before)
			}
			hosts[0].end("acme:ann:taken", 1)
			hosts[1].rejoin()
			if try(1, 6000) {
				t.Error("a host that comes back has the runs that it had")
			}
		})
	}
}

// While words are on their way, hosts come and go, and runs begin and end, there are never more
// runs at hosts that have their lease than the tenant may have.
func TestRunsWhileWordsAreOnTheirWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 8
		hosts := sharersOf(t, 3, Limits{Runs: most})
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		var mu sync.Mutex
		in := map[uuid.UUID]int{} // runs by life
		check := func() {
			all := 0
			for _, h := range hosts {
				if id, held := h.Life(); held {
					all += in[id]
				}
			}
			if all > most {
				t.Errorf("%d runs of %d", all, most)
			}
		}
		var work sync.WaitGroup
		got, run := 0, int64(0)
		for i, h := range hosts {
			h.far = time.Duration(7*(i+1)) * time.Millisecond
			for client := range 6 {
				rnd := rand.New(rand.NewPCG(seed, uint64(10*i+client)))
				pause := func(most time.Duration) { time.Sleep(time.Duration(rnd.Int64N(int64(most)))) }
				work.Go(func() {
					for range 40 {
						if client == 0 && rnd.IntN(8) == 0 { // an idle moment, in which the lease ends
							h.die()
							pause(time.Second)
							h.rejoin()
						}
						id, _ := h.Life()
						done, over, err := h.submit(t.Context(), "acme:ann:s")
						if err != nil || over != "" {
							pause(time.Second)
							continue
						}
						mu.Lock()
						run++
						mine, n := run, 1
						if now, held := h.Life(); now != id || !held {
							n = 0 // such a submit finds out
						}
						in[id] += n
						got += n
						check()
						mu.Unlock()
						done(mine)
						pause(2 * time.Second)
						mu.Lock()
						in[id] -= n
						mu.Unlock()
						h.end("acme:ann:s", mine)
						pause(time.Second)
					}
				})
			}
		}
		work.Wait()
		if got < 100 {
			t.Errorf("%d runs in all", got)
		}
	})
}

// What runs use of a day at one host is used up at all; it is counted once, also when its host dies
// and comes back; and a run is let in while any of it is left, at any host.
func TestBudgetOfAllHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := sharersOf(t, 3, Limits{TokensPerDay: 1000})
		ctx := t.Context()
		try := func(i int) string {
			t.Helper()
			done, over, err := hosts[i].submit(ctx, "acme:ann:s")
			if err != nil {
				t.Fatal(err)
			}
			if over == "" {
				done(0)
			}
			return over
		}
		used := func(i int) int64 {
			t.Helper()
			runs, streams, today := hosts[i].meter.used("acme")
			if err := hosts[i].shares.elsewhere(ctx, "acme", &runs, &streams, &today); err != nil {
				t.Fatal(err)
			}
			return today.Tokens
		}
		for i := range hosts {
			if over := try(i); over != "" {
				t.Errorf("host %d refuses for %s", i, over)
			}
		}
		hosts[0].spend("acme:ann:s", 1, 300)
		hosts[1].spend("acme:ann:s", 1, 200)
		time.Sleep(time.Second)
		for i := range hosts {
			if got := used(i); got != 500 {
				t.Errorf("host %d says that %d were used", i, got)
			}
		}
		// A host that dies and comes back says again what it has said.
		hosts[0].die()
		time.Sleep(time.Second)
		if got := used(1); got != 500 {
			t.Errorf("behind a host that is gone %d were used", got)
		}
		hosts[0].rejoin()
		hosts[0].spend("acme:ann:s", 1, 99)
		time.Sleep(time.Second)
		for i := range hosts {
			if got := used(i); got != 599 {
				t.Errorf("host %d says that %d were used", i, got)
			}
		}
		// To the last token; and what one run uses beyond it is heard at once.
		hosts[1].spend("acme:ann:s", 1, 400)
		time.Sleep(time.Second)
		for i := range hosts {
			if over := try(i); over != "" {
				t.Errorf("one token is left, and host %d refuses for %s", i, over)
			}
			time.Sleep(time.Second)
		}
		hosts[2].spend("acme:ann:s", 1, 5000)
		synctest.Wait()
		for i := range hosts {
			if over := try(i); over != overTokens {
				t.Errorf("nothing is left, and host %d says %q", i, over)
			}
		}
		// The next day has its own.
		time.Sleep(10 * time.Minute)
		for i := range hosts {
			if over := try(i); over != "" || used(i) != 0 {
				t.Errorf("on the next day host %d says %q, and that %d were used", i, over, used(i))
			}
		}
	})
}

// A tenant that asks all hosts gets its rate, once; so does one that asks one of them, or first one
// and then another.
func TestRateOfAllHosts(t *testing.T) {
	const rate, seconds = 20, 30
	for name, of := range map[string]func(request int) int{
		"all":   func(n int) int { return n % 3 },
		"one":   func(int) int { return 1 },
		"turns": func(n int) int { return n / (100 * 5) % 3 },
		"most":  func(n int) int { return min(n%10, 2) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hosts := sharersOf(t, 3, Limits{RequestsPerSecond: rate})
				begun := time.Now()
				var in []time.Duration
				var mu sync.Mutex
				var work sync.WaitGroup
				for n := 0; time.Since(begun) < seconds*time.Second; n++ { // 100 a second
					h := hosts[of(n)]
					work.Go(func() {
						wait := h.meter.request("acme", h.limits)
						err := h.shares.more(t.Context(), "acme", share.Requests, func() bool {
							wait = h.meter.request("acme", h.limits)
							return wait == 0
						}, wait > 0)
						if err != nil {
							t.Error(err)
						}
						if wait == 0 {
							mu.Lock()
							defer mu.Unlock()
							in = append(in, time.Since(begun))
						}
					})
					time.Sleep(10 * time.Millisecond)
				}
				work.Wait()
				for i := range in {
					for j := i; j < len(in); j++ {
						if most := rate + rate*(in[j]-in[i]).Seconds() + 3; float64(j-i+1) > most {
							t.Fatalf("%d requests are let in within %v", j-i+1, in[j]-in[i])
						}
					}
				}
				if len(in) < rate*seconds*8/10 {
					t.Errorf("%d requests are let in within %d seconds", len(in), seconds)
				}
			})
		})
	}
}

// Nothing is said while nothing happens, and while much happens one word in a quarter of a lease.
func TestSharesAreSaidSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := sharersOf(t, 3, Limits{Runs: 1000, TokensPerDay: 1 << 40, Streams: 1000, RequestsPerSecond: 1e6})
		calls := func() int { synctest.Wait(); return int(hosts[0].Calls.Load()) }
		time.Sleep(time.Hour)
		if n := calls(); n != 0 {
			t.Errorf("hosts that do nothing ask %d times", n)
		}
		h := hosts[0]
		const seconds = 10
		for range seconds * 100 {
			if wait := h.meter.request("acme", h.limits); wait > 0 {
				_ = h.shares.more(t.Context(), "acme", share.Requests, func() bool { return h.meter.request("acme", h.limits) == 0 }, true)
			}
			done, over, err := h.submit(t.Context(), "acme:ann:s")
			if over != "" || err != nil {
				t.Fatal(over, err)
			}
			done(1)
			h.spend("acme:ann:s", 1, 10)
			h.end("acme:ann:s", 1)
			time.Sleep(10 * time.Millisecond)
		}
		if n := calls(); n > 2*seconds+8 {
			t.Errorf("1000 submits in %d seconds ask %d times", seconds, n)
		}
		// A tenant that has all it may have, and asks on.
		h.mu.Lock()
		h.limits.Runs = 1
		h.mu.Unlock()
		if _, over, err := h.submit(t.Context(), "acme:ann:s"); over != "" || err != nil {
			t.Fatal(over, err)
		}
		n := calls()
		for range seconds * 100 {
			if _, over, err := h.submit(t.Context(), "acme:ann:s"); over != overRuns || err != nil {
				t.Fatal(over, err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if n = calls() - n; n > 2*2*seconds+8 {
			t.Errorf("1000 submits that are refused in %d seconds ask %d times", seconds, n)
		}
		time.Sleep(10 * time.Second) // all is said
		n = calls()
		time.Sleep(time.Hour)
		if more := calls() - n; more != 0 {
			t.Errorf("hosts that do nothing any more ask %d times", more)
		}
	})
}

// A tenant of which there is nothing to say is in no word, and is not looked at, while others are
// busy; and comes back when it does something.
func TestIdleTenantsAreLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := sharersOf(t, 3, Limits{Runs: 10, TokensPerDay: 1 << 40, Sessions: 10, JournalBytes: 1 << 40})[0]
		run := func(tenant string) {
			t.Helper()
			done, over, err := h.submit(t.Context(), tenant+":ann:s")
			if over != "" || err != nil {
				t.Fatal(over, err)
			}
			done(1)
			h.spend(tenant+":ann:s", 1, 1)
			h.end(tenant+":ann:s", 1)
		}
		words := func(tenant string) int {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.said[tenant]
		}
		run("idle")
		for range 10 { // seconds, after one in which the idle one gives up what it had
			run("busy")
			time.Sleep(time.Second)
			if idle := words("idle"); idle == 0 {
				t.Fatal("nothing is said of a tenant that runs")
			}
		}
		idle, busy := words("idle"), words("busy")
		for range 10 {
			run("busy")
			time.Sleep(time.Second)
		}
		if now := words("idle"); now != idle || words("busy") < busy+10 {
			t.Errorf("in ten seconds %d words are of an idle tenant, and %d of a busy one", now-idle, words("busy")-busy)
		}
		active := func(tenant string) bool {
			h.meter.mu.Lock()
			defer h.meter.mu.Unlock()
			return h.shares.active[tenant]
		}
		if active("idle") {
			t.Error("each round looks at an idle tenant")
		}
		run("idle")
		if !active("idle") {
			t.Error("no round looks at a tenant that runs again")
		}
	})
}

// A tenant that was refused is not asked about for a quarter of a lease, and then again.
func TestRefusedTenantsAreAskedAboutSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := sharersOf(t, 3, Limits{Runs: 1})
		h := hosts[0]
		done, over, err := h.submit(t.Context(), "acme:ann:s")
		if over != "" || err != nil {
			t.Fatal(over, err)
		}
		done(1)
		refused := func(h *sharer) {
			t.Helper()
			if _, over, err := h.submit(t.Context(), "acme:ann:s"); over != overRuns || err != nil {
				t.Fatalf("%q, %v", over, err)
			}
		}
		refused(hosts[1])
		before := h.Calls.Load()
		for range 100 {
			refused(hosts[1])
		}
		if n := h.Calls.Load() - before; n > 2 {
			t.Errorf("100 refusals at one moment ask %d times", n)
		}
		h.end("acme:ann:s", 1)
		time.Sleep(2 * time.Second)
		if _, over, err := hosts[1].submit(t.Context(), "acme:ann:s"); over != "" || err != nil {
			t.Errorf("after the pause there is room, and a host says %q, %v", over, err)
		}
	})
}
