package follow

import (
	"context"
	"time"

	"github.com/seed14be6753/stile/internal/hub"
)

// watchPause is how often a host looks after what other hosts of its journal do.
const watchPause = time.Second

// Watch has those who follow sessions hear of them where other hosts run them: what those
// write the hub of this one does not hear, and when they are gone nobody goes on with
// what they had open. It looks once in a while, only at sessions that are followed and
// not awake here.
type Watch struct {
	Hub *hub.Hub
	// Awake reports whether a session is in memory here.
	Awake func(sid string) bool
	// Alone reports whether no other host works on the journal.
	Alone func() (bool, error)
	// Settle has a session go on with what is open in it, if something is.
	Settle func(ctx context.Context, sid string)

	alone bool // at the last look
}

// Run looks until ctx ends.
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

// look is one look. Sessions of hosts that have gone are settled once: whoever comes
// later asks for himself.
func (w *Watch) look(ctx context.Context) {
	var elsewhere []string
	for _, sid := range w.Hub.Subscribed() {
		if !w.Awake(sid) {
			elsewhere = append(elsewhere, sid)
		}
	}
	if len(elsewhere) == 0 {
		w.alone = false // who is followed next is looked at
		return
	}
	alone, err := w.Alone()
	if err != nil {
		return // a journal that cannot be asked says so to those who read it
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
