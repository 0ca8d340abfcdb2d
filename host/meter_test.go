package host

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// handClock is a clock that a test sets.
type handClock struct{ at time.Time }

func (c *handClock) now() time.Time { return c.at }

func meterAt(t *testing.T, c *handClock, file string) *meter {
	t.Helper()
	m, err := newMeter(c.now, file)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func noon() *handClock { return &handClock{time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)} }

// A tenant has its burst, then its rate; what the refusal says is enough to wait; and
// another tenant hears nothing of it.
func TestRate(t *testing.T) {
	c := noon()
	m := meterAt(t, c, "")
	l := Limits{RequestsPerSecond: 4, Burst: 3}
	for i := range 3 {
		if wait := m.request("a", l); wait != 0 {
			t.Errorf("request %d waits %v", i, wait)
		}
	}
	for range 5 { // refused requests cost nothing
		if wait := m.request("a", l); wait != 250*time.Millisecond {
			t.Errorf("the fourth waits %v", wait)
		}
	}
	if wait := m.request("b", l); wait != 0 {
		t.Errorf("another tenant waits %v", wait)
	}
	c.at = c.at.Add(250 * time.Millisecond)
	if wait := m.request("a", l); wait != 0 {
		t.Errorf("after the wait it waits %v", wait)
	}
	if wait := m.request("a", l); wait == 0 {
		t.Error("two requests in the place of one")
	}
	for range 1000 {
		if wait := m.request("a", Limits{}); wait != 0 {
			t.Errorf("without a limit: %v", wait)
		}
	}
	if wait := m.request("c", Limits{RequestsPerSecond: 0.5}); wait != 0 {
		t.Errorf("a slow rate lets nobody in: %v", wait)
	}
}

// Whatever tenants do, there are never more runs than the host takes, one that has none
// gets in while there is room, and one alone gets most of the host and leaves some.
func TestRunsAreShared(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 50 {
		all := 1 + rnd.IntN(40)
		m := meterAt(t, noon(), "")
		type flight struct {
			sid string
			run int64
		}
		var air []flight
		own := map[string]int{}
		for run := int64(1); run < 500; run++ {
			if rnd.IntN(3) == 0 && len(air) > 0 {
				i := rnd.IntN(len(air))
				m.observe(&messages.Record{SID: air[i].sid, Run: air[i].run, Body: &messages.RunEnd{}})
				own[tenantOf(air[i].sid)]--
				air = append(air[:i], air[i+1:]...)
				continue
			}
			tenant := string(rune('a' + rnd.IntN(4)))
			done, over := m.submit(tenant+":u:s", Limits{}, all)
			switch {
			case over != "" && own[tenant] == 0 && len(air) < all:
				t.Fatalf("seed %d: %s has no run, %d of %d are in flight, and it is refused: %s", seed, tenant, len(air), all, over)
			case over == "" && len(air) >= all:
				t.Fatalf("seed %d: %d of %d are in flight, and one more is taken", seed, len(air), all)
			case over == "":
				done(run)
				air = append(air, flight{tenant + ":u:s", run})
				own[tenant]++
			}
			if m.runs != len(air) {
				t.Fatalf("seed %d: counted %d, there are %d", seed, m.runs, len(air))
			}
		}
	}
	m := meterAt(t, noon(), "")
	n := 0
	for ; ; n++ {
		done, over := m.submit("greedy:u:s", Limits{}, 100)
		if over != "" {
			break
		}
		done(int64(n + 1))
	}
	if n < 75 || n > 85 {
		t.Errorf("one tenant alone gets %d of 100", n)
	}
}

// A run that ends before its submit has said which it was is not counted for ever; one
// that is joined is counted once; and a submit that fails leaves nothing.
func TestRunsAreCountedOnce(t *testing.T) {
	m := meterAt(t, noon(), "")
	l := Limits{Runs: 2}
	take := func() func(int64) {
		t.Helper()
		done, over := m.submit("a:u:s", l, 100)
		if over != "" {
			t.Fatal(over)
		}
		return done
	}
	done := take()
	m.observe(&messages.Record{SID: "a:u:s", Run: 1, Body: &messages.RunEnd{}})
	done(1)
	take()(0)
	take()(2)
	take()(2)
	if runs, _, _ := m.used("a"); runs != 1 || m.runs != 1 {
		t.Errorf("%d runs of the tenant, %d in all", runs, m.runs)
	}
	done = take()
	if _, over := m.submit("a:u:t", l, 100); over != overRuns {
		t.Errorf("a third run: %q", over)
	}
	if _, over := m.submit("b:u:t", l, 100); over != "" {
		t.Errorf("another tenant: %q", over)
	}
	done(3)
	m.forget("a:u:s")
	if runs, _, _ := m.used("a"); runs != 0 || len(m.pending) != 1 {
		t.Errorf("%d runs of a session that is gone, %v", runs, m.pending)
	}
}

// Tokens, money and bytes are those of the day, of models and of actions, once; they
// survive a restart, and end with the day.
func TestDays(t *testing.T) {
	c := noon()
	file := filepath.Join(t.TempDir(), "usage.json")
	m := meterAt(t, c, file)
	m.observe(&messages.Record{SID: "a:u:s", Raw: make([]byte, 100), Body: &messages.ModelReply{Usage: messages.Usage{Input: 70, Output: 30, CacheRead: 50}, CostUSD: 5}})
	m.observe(&messages.Record{SID: "a:u:s", Raw: make([]byte, 10), Body: &messages.ActionEnded{Tokens: 11, CostUSD: 2}})
	m.observe(&messages.Record{SID: "a:u:s", Raw: make([]byte, 10), Body: &messages.ActionEnded{Tokens: 1000, CostUSD: 1000, Children: []messages.ChildLink{{}}}})
	want := spent{Day: "2026-11-21", Tokens: 111, Cost: 7, Bytes: 120}
	if _, _, got := m.used("a"); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if err := m.save(); err != nil {
		t.Fatal(err)
	}
	m = meterAt(t, c, file)
	if _, _, got := m.used("a"); got != want {
		t.Errorf("after a restart %+v, want %+v", got, want)
	}
	for over, l := range map[string]Limits{overTokens: {TokensPerDay: 111}, overCost: {CostPerDay: 7}, overBytes: {BytesPerDay: 120}, "": {TokensPerDay: 112, CostPerDay: 8, BytesPerDay: 121}} {
		if _, got := m.submit("a:u:s", l, 100); got != over {
			t.Errorf("%+v: %q, want %q", l, got, over)
		}
		if _, got := m.submit("b:u:s", l, 100); got != "" {
			t.Errorf("another tenant: %q", got)
		}
	}
	c.at = c.at.Add(12 * time.Hour)
	if _, over := m.submit("a:u:s", Limits{TokensPerDay: 1}, 100); over != "" {
		t.Errorf("the next day: %q", over)
	}
	m = meterAt(t, c, file)
	if _, _, got := m.used("a"); got != (spent{Day: "2026-11-22"}) {
		t.Errorf("yesterday's usage is today's: %+v", got)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := newMeter(c.now, file); messages.CodeOf(err) != messages.ErrConfig {
		t.Error(err)
	}
}

// Sessions are counted when it matters, and counted anew before a tenant stays refused.
func TestSessionsAreBounded(t *testing.T) {
	c := noon()
	m := meterAt(t, c, "")
	there, asked := 1, 0
	count := func(int) (int, error) { asked++; return there, nil }
	l := Limits{Sessions: 3}
	for i, want := range []bool{true, true, false, false} {
		if ok, err := m.session("a", l, count); ok != want || err != nil {
			t.Errorf("session %d: %v, %v", i, ok, err)
		}
	}
	m.forget("a:u:s")
	if ok, _ := m.session("a", l, count); !ok || asked != 1 {
		t.Errorf("after one was deleted: %v, counted %d times", ok, asked)
	}
	m.unsession("a")
	if ok, _ := m.session("a", l, count); !ok {
		t.Error("a session that did not come to be is counted")
	}
	c.at = c.at.Add(recount) // another host deleted some
	if ok, _ := m.session("a", l, count); !ok || asked != 2 {
		t.Errorf("%v, counted %d times", ok, asked)
	}
	if _, err := m.session("b", l, func(int) (int, error) { return 0, errors.New("no") }); err == nil {
		t.Error("an error was lost")
	}
	if ok, err := m.session("c", Limits{}, nil); !ok || err != nil {
		t.Error("without a limit")
	}
}

// The journal is measured when it has to be, not at each submit.
func TestJournalIsMeasuredSeldom(t *testing.T) {
	c := noon()
	m := meterAt(t, c, "")
	there, asked := int64(10), 0
	measure := func() (int64, error) { asked++; return there, nil }
	grow := func(n int) { m.observe(&messages.Record{SID: "a:u:s", Raw: make([]byte, n), Body: &messages.RunEnd{}}) }
	for i, step := range []struct {
		do    func()
		kept  int64
		asked int
	}{
		{func() {}, 10, 1},
		{func() { grow(99) }, 109, 1},
		{func() { there = 700; grow(1) }, 700, 2}, // an eighth: another host wrote too
		{func() { there = 800 }, 700, 2},
		{func() { grow(100); there = 800 }, 800, 3},
		{func() {}, 800, 4}, // at the limit
		{func() { there = 20 }, 800, 4},
		{func() { c.at = c.at.Add(recount) }, 20, 5}, // another host deleted some
		{func() { there = 900; grow(800) }, 900, 6},
		{func() { there = 30; m.forget("a:u:s") }, 30, 7},
	} {
		limit := int64(800)
		step.do()
		kept, err := m.journal("a", limit, measure)
		if i == 4 {
			c.at = c.at.Add(recount)
		}
		if err != nil || kept != step.kept || asked != step.asked {
			t.Errorf("step %d: %d, %v, measured %d times; want %d, %d", i, kept, err, asked, step.kept, step.asked)
		}
	}
	if _, err := m.journal("b", 1, func() (int64, error) { return 5, errors.New("no") }); err == nil {
		t.Error("an error was lost")
	}
	if kept, err := m.journal("b", 10, measure); err != nil || kept != 30 {
		t.Errorf("after an error: %d, %v", kept, err)
	}
}

// Tenants that do nothing are forgotten.
func TestSweep(t *testing.T) {
	c := noon()
	m := meterAt(t, c, "")
	busy, over := m.submit("busy:u:s", Limits{}, 100)
	if over != "" {
		t.Fatal(over)
	}
	for i := range 2 * maxIdleTenants {
		m.request("t"+time.Duration(i).String(), Limits{RequestsPerSecond: 1000})
		c.at = c.at.Add(time.Second)
	}
	if n := len(m.tenants); n > maxIdleTenants {
		t.Errorf("%d tenants are remembered", n)
	}
	busy(7)
	if runs, _, _ := m.used("busy"); runs != 1 {
		t.Errorf("%d runs", runs)
	}
}

// One tenant's streams leave some to each other one.
func TestStreamsOfTenants(t *testing.T) {
	m, err := newMeter(time.Now, "")
	if err != nil {
		t.Fatal(err)
	}
	take := func(tenant string) (n int) {
		for range 1000 {
			if _, ok := m.stream(tenant, Limits{}, 100); !ok {
				break
			}
			n++
		}
		return n
	}
	if n := take("evil"); n != 80 {
		t.Errorf("one alone has %d of 100", n)
	}
	if n := take("greedy"); n != 16 {
		t.Errorf("the next one has %d", n)
	}
	back, ok := m.stream("acme", Limits{}, 100)
	if !ok {
		t.Fatal("another one has none")
	}
	back()
	if m.streams != 96 {
		t.Errorf("%d are counted", m.streams)
	}
}
