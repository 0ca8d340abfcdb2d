package membership

import (
	"context"
	"time"

	"github.com/seed14be6753/stile/internal/lease"
	"github.com/seed14be6753/stile/messages"
)

// Leases are those of the sessions of hosts that share a journal. A Member has them.
type Leases interface {
	// Claim makes a session this host's. It is called before the session is loaded.
	Claim(ctx context.Context, sid string) error
	// GiveUp gives a session up, of which nothing runs any more. It does not wait.
	GiveUp(sid string)
	// Owe says that a session which may be this host's has stopped in the middle: it is looked at
	// again. It does not wait.
	Owe(sid string)
	// Held reports whether the host has its lease at this moment, by its own clock.
	Held() bool
}

// Guard is what a host asks before it runs a session. With the zero value it may run all. It is
// safe for concurrent use if its leases are.
type Guard struct{ Leases Leases }

// claimWait bounds the wait for a claim.
const claimWait = 10 * time.Second

// Claim makes a session this host's; the error says whose it is. Sessions of the host's own making,
// which keep profiles and relics, have no lease: hosts take turns in writing them, and the fence
// tells them when.
func (g Guard) Claim(ctx context.Context, key messages.SessionKey) error {
	if g.Leases == nil || key.ID == messages.ProfileID || key.ID == messages.RelicsID {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, claimWait)
	defer cancel()
	return g.Leases.Claim(ctx, key.SID())
}

// GiveUp gives a session up, of which nothing runs any more.
func (g Guard) GiveUp(sid string) {
	if g.Leases != nil {
		g.Leases.GiveUp(sid)
	}
}

// Owe has a session looked at again that has stopped in the middle.
func (g Guard) Owe(sid string) {
	if g.Leases != nil {
		g.Leases.Owe(sid)
	}
}

// Why is why a session stops: the loss of the lease, when there is none, and err otherwise.
func (g Guard) Why(err *messages.Error) *messages.Error {
	if g.Held() {
		return err
	}
	return lease.Lost()
}

// Held reports whether the host may go on with what it runs.
func (g Guard) Held() bool { return g.Leases == nil || g.Leases.Held() }
