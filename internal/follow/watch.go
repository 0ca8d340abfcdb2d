package follow

import (
	"context"
	"time"

	"github.com/seed14be6753/stile/internal/hub"
)

// watchPause is how often a host checks sessions that other hosts of its journal run.
const watchPause = time.Second

// Watch serves subscribers of sessions that other hosts run: this host's hub does not get the
// records of other hosts, and when such a host dies its open runs must be taken up. It checks
// once in a while, and only sessions with subscribers that are not awake here.
type Watch struct {
	Hub *hub.Hub
	// Awake reports whether a session is in memory here.
	Awake func(sid string) bool
	// Alone reports whether no other host works on the journal.
	Alone func() (bool, error)
	// Settle recovers a session, so that an open run goes on.
	Settle func(ctx context.Context, sid string)
	// Elsewhere ends the subscriptions to sessions that other hosts run by lease; nil where hosts
	// have none.
	Elsewhere func(ctx context.Context, sids []string)

	alone bool // at the last check
}

// Run checks until ctx ends.
func (w *Watch) Run(ctx context.Context) {
	tick := time.NewTicker(watchPause)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			w.look(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// look is one check. Sessions of a dead host are recovered once: later subscribers wake their
// sessions themselves.
func (w *Watch) look(ctx context.Context) {
	var elsewhere []string
	for _, sid := range w.Hub.Subscribed() {
		if !w.Awake(sid) {
			elsewhere = append(elsewhere, sid)
		}
	}
	if len(elsewhere) == 0 {
		w.alone = false // later subscriptions are checked
		return
	}
	if w.Elsewhere != nil {
		w.Elsewhere(ctx, elsewhere)
		return
	}
	alone, err := w.Alone()
	if err != nil {
		return // readers of the journal get the error themselves
	}
	for _, sid := range elsewhere {
		switch {
		case !alone:
			w.Hub.Stir(sid)
		case !w.alone:
			w.Settle(ctx, sid)
			w.Hub.Stir(sid) // what they wrote last
		}
	}
	w.alone = alone
}
