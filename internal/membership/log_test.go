package membership

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/seed14be6753/stile/internal/lease"
)

// A host's log says once which hosts come, die, drain and leave, and what this one has taken up.
func TestLogOfHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, lines := observer.New(zapcore.InfoLevel)
		d := newTable()
		a := d.joinWith(t, "a", zap.New(core))
		told := func(want ...string) {
			t.Helper()
			time.Sleep(5 * lease.Default)
			var got []string
			for _, l := range lines.TakeAll() {
				got = append(got, fmt.Sprint(l.Message, " ", l.ContextMap()["host"]))
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%q, want %q", got, want)
			}
		}
		told()
		b := d.join(t, "b")
		told("another host is there b")
		a.look = func(sid string) lease.Found {
			if sid == "s0" {
				return lease.Runs
			}
			return lease.Idle
		}
		b.have(t, "s", 3)
		b.die()
		time.Sleep(2 * lease.Default)
		taken := lines.FilterMessage("this host has taken up sessions of a host that is gone").All()
		if len(taken) != 1 || taken[0].ContextMap()["go_on"] != int64(1) || taken[0].ContextMap()["idle"] != int64(2) {
			t.Errorf("%v", taken)
		}
		told("the lease of another host is over: its sessions go on at those that live b", "this host has taken up sessions of a host that is gone <nil>")
		c := d.join(t, "c")
		told("another host is there c")
		c.Drain()
		told("another host drains: it gives its sessions up c")
		leave(t, c)
		told("another host has left c")
		leave(t, a)
	})
}

// A database that is away is told when that begins, and not with every attempt.
func TestLogOfMissedRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, lines := observer.New(zapcore.InfoLevel)
		d := newTable()
		a := d.joinWith(t, "a", zap.New(core))
		count := func(what string) int { return lines.FilterMessage(what).Len() }
		for range 2 {
			d.setDown(true)
			time.Sleep(lease.Default / 2)
			d.setDown(false)
			time.Sleep(lease.Default)
		}
		if missed, again := count("the lease of this host cannot be renewed"), count("the lease of this host is renewed again"); missed != 2 || again != 2 {
			t.Errorf("two gaps are told %d and %d times", missed, again)
		}
		lines.TakeAll()
		d.setDown(true)
		time.Sleep(time.Minute)
		d.setDown(false)
		time.Sleep(2 * lease.Default)
		if missed, none, again := count("the lease of this host cannot be renewed"), count("this host has no lease"), count("this host has a lease again"); missed != 1 || none < 5 || none > 7 || again != 1 {
			t.Errorf("a minute is told %d, %d and %d times", missed, none, again)
		}
		leave(t, a)
	})
}

// Another error is told at once: it may be the only word that the database has lost commits.
func TestLogOfAnotherFailure(t *testing.T) {
	var f failures
	now := time.Unix(1, 0)
	for i, c := range []struct {
		err  error
		told bool
	}{{errAway, true}, {errAway, false}, {lease.Lost(), true}, {errAway, true}, {errAway, false}} {
		if told := f.more(now, c.err); told != c.told {
			t.Errorf("failure %d: told %v", i, told)
		}
	}
	if !f.more(now.Add(tellEvery), errAway) || f.end() != 6 || !f.more(now, errAway) {
		t.Error("a failure that goes on is not told again, or the next one not anew")
	}
}
