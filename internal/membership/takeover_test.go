package membership

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile/internal/lease"
)

// have has a host claim so many sessions.
func (n *node) have(t *testing.T, name string, many int) (sids []string) {
	t.Helper()
	for i := range many {
		sids = append(sids, fmt.Sprint(name, i))
		if err := n.Claim(t.Context(), sids[i]); err != nil {
			t.Fatal(err)
		}
	}
	return sids
}

// die ends a host, which does not even leave.
func (n *node) die() {
	n.stop()
	n.work.Wait()
}

// Hundreds of sessions that a dead host left are looked at side by side, at most 16 at once, and not
// more of them are taken up in a second than may be.
func TestTakeOverAtOnce(t *testing.T) {
	const (
		many  = 500
		takes = 200 * time.Millisecond
	)
	for _, c := range []struct {
		found lease.Found
		most  time.Duration // for all
	}{
		{lease.Runs, many*time.Second/50 + takes}, // PerSecond, however long each takes itself
		{lease.Idle, (many/atOnce + 1) * takes},   // what is not taken up is not paced
	} {
		synctest.Test(t, func(t *testing.T) {
			d := newTable()
			a, b := d.join(t, "a"), d.join(t, "b")
			var mu sync.Mutex // looks that begin at one moment are of several goroutines
			var now, most, begun int
			var first time.Time
			b.look = func(string) lease.Found {
				mu.Lock()
				if begun++; begun == 1 {
					first = time.Now()
				}
				now++
				most = max(most, now)
				if c.found == lease.Runs && begun > atOnce+1+int(50*time.Since(first).Seconds()) {
					t.Errorf("%d sessions are taken up in %v", begun, time.Since(first))
				}
				mu.Unlock()
				time.Sleep(takes)
				mu.Lock()
				defer mu.Unlock()
				now--
				return c.found
			}
			sids := a.have(t, "s", many)
			a.die()
			for range sids {
				<-b.taken
			}
			if took := time.Since(first); took > c.most || most != atOnce {
				t.Errorf("found %d: %v for all, %d at once", c.found, took, most)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if begun != many || len(b.Hosts()) != 1 {
				t.Errorf("found %d: %d looks at %d sessions, %d hosts", c.found, begun, many, len(b.Hosts()))
			}
			leave(t, b)
		})
	}
}

// What a host owes a look is not in the way of what dead hosts left, and neither is what cannot be
// taken up there, however much it is.
func TestTakeOverPastWhatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTable()
		a, b, c := d.join(t, "a"), d.join(t, "b"), d.join(t, "c")
		done := make(chan struct{})
		b.look = func(sid string) lease.Found {
			switch sid[0] {
			case 'o': // it does not come to an end
				<-done
				return lease.Runs
			case 'b':
				return lease.Unknown
			}
			return lease.Runs
		}
		for _, sid := range b.have(t, "owed", 100) {
			b.Owe(sid)
		}
		time.Sleep(lease.Default)
		a.have(t, "bad", 3*page) // they are listed first
		c.have(t, "kc", 1)
		a.have(t, "ka", 2)
		c.die()
		a.die()
		began, known := time.Now(), 0
		for known < 3 {
			if sid := <-b.taken; sid[0] == 'k' {
				known++
			}
			if time.Since(began) > time.Minute {
				close(done)
				t.Fatalf("%d of 3 sessions are taken up", known)
			}
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("the last one is taken up after %v", took)
		}
		close(done)
		leave(t, b)
	})
}

// A host that has looked at a session of its own, and does not run it, gives it up: another one may
// have to go on with what came to the journal behind the look.
func TestGivesUpBehindTheLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTable()
		a, b := d.join(t, "a"), d.join(t, "b")
		looks := make(chan struct{})
		a.look = func(string) lease.Found { <-looks; return lease.Idle }
		a.have(t, "s", 1)
		a.Owe("s0") // its journal refuses
		a.GiveUp("s0")
		time.Sleep(lease.Default)
		if err := b.Claim(t.Context(), "s0"); err == nil {
			t.Error("the session is given up before the host has looked")
		}
		close(looks)
		synctest.Wait()
		if a.Sessions() != 0 || b.Claim(t.Context(), "s0") != nil {
			t.Errorf("behind the look the host has %d sessions", a.Sessions())
		}
		leave(t, a, b)
	})
}

// What another host has when this one has lost it, this one looks at until that one goes on with it.
func TestLooksUntilAnotherGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTable()
		a, b := d.join(t, "a"), d.join(t, "b")
		b.look = func(string) lease.Found { return lease.Idle }
		a.have(t, "s", 1)
		d.mu.Lock()
		d.hosts[a.ID()].until = d.now() // another one has ended the lease
		d.mu.Unlock()
		if err := b.Claim(t.Context(), "s0"); err != nil {
			t.Fatal(err)
		}
		<-a.lost
		time.Sleep(time.Minute)
		if len(a.taken) != 0 {
			t.Error("a session that another host has is taken up")
		}
		b.GiveUp("s0")
		began := time.Now()
		if sid := <-a.taken; sid != "s0" || time.Since(began) > time.Minute+lease.Default {
			t.Errorf("%s is taken up %v after the other one has given it up", sid, time.Since(began))
		}
		leave(t, a, b)
	})
}
