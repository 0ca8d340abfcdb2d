package membership

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile/internal/lease"
)

// A release of which the host hears nothing may get to the database after all. A session that is
// claimed meanwhile is not taken away by it, at whatever moment it gets there.
func TestReleaseThatComesLate(t *testing.T) {
	for _, after := range []time.Duration{0, lease.Default / 2, lease.Default + lease.Default/16, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			d := newTable()
			a := d.join(t, "a")
			if err := a.Claim(t.Context(), "s"); err != nil {
				t.Fatal(err)
			}
			d.mu.Lock()
			d.keeps = true
			d.mu.Unlock()
			a.GiveUp("s")
			synctest.Wait()
			d.mu.Lock()
			late := d.late
			d.keeps = false
			d.mu.Unlock()
			if len(late) != 1 {
				t.Fatalf("%d releases are on their way", len(late))
			}
			began, claimed := time.Now(), make(chan error, 1)
			go func() { claimed <- a.Claim(t.Context(), "s") }()
			time.Sleep(after)
			d.mu.Lock()
			late[0]()
			d.mu.Unlock()
			if err := <-claimed; err != nil {
				t.Fatal(err)
			}
			if after == time.Minute && time.Since(began) > time.Minute {
				t.Error("the claim waits for a release that can do nothing any more")
			}
			d.mu.Lock()
			owner := d.leases["s"]
			d.mu.Unlock()
			if owner != a.ID() {
				t.Errorf("after %v the release took the session away", after)
			}
			leave(t, a)
		})
	}
}

// looked lists the sessions that the host has looked at in a while, in order.
func (n *node) looked(while time.Duration) (sids []string) {
	time.Sleep(while)
	for len(n.taken) > 0 {
		sids = append(sids, <-n.taken)
	}
	slices.Sort(sids)
	return sids
}

// A session that may be this host's, because the answer to a claim was lost, and one that has
// stopped in the middle are looked at with the next renewal; and so is what a host had that lost its
// lease. No other host would.
func TestLooksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTable()
		a := d.join(t, "a")
		d.mu.Lock()
		d.loses = true
		d.mu.Unlock()
		if err := a.Claim(t.Context(), "unsure"); err == nil {
			t.Fatal("the answer to the claim is not lost")
		}
		d.mu.Lock()
		d.loses = false
		d.mu.Unlock()
		if err := a.Claim(t.Context(), "stopped"); err != nil {
			t.Fatal(err)
		}
		a.Owe("stopped")
		a.Owe("another's")
		a.GiveUp("stopped")
		if got := a.looked(lease.Default); !slices.Equal(got, []string{"stopped", "unsure"}) {
			t.Errorf("it looks at %v", got)
		}
		// The claim may get there until then: what does not run here is given up.
		if got := a.looked(lease.Default); !slices.Equal(got, []string{"unsure"}) {
			t.Errorf("behind the claim it looks at %v", got)
		}
		if got := a.looked(time.Minute); len(got) > 0 {
			t.Errorf("later it looks at %v", got)
		}
		d.set(true)
		<-a.lost
		time.Sleep(lease.Default)
		d.set(false)
		// It is the one to find a dead host that had them, too.
		if got := slices.Compact(a.looked(2 * lease.Default)); !slices.Equal(got, []string{"stopped", "unsure"}) {
			t.Errorf("with its next lease it looks at %v", got)
		}
		leave(t, a)
	})
}
