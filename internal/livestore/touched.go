package livestore

import (
	"context"
	"time"

	"github.com/seed14be6753/stile/journal"
)

// Touched reports whether a runtime that has a journal open has written to a session since it
// started. It is false for a store that does not track its runtimes.
func Touched(ctx context.Context, s journal.Store, h journal.Head) (bool, error) {
	store, ok := s.(interface {
		Attended() (since time.Time, attended bool, err error)
	})
	if !ok {
		return false, nil
	}
	since, attended, err := store.Attended()
	if err != nil || !attended {
		return false, err
	}
	for r, err := range s.Read(ctx, h.Inc, h.Seq, h.Seq) {
		if err != nil {
			return false, err
		}
		return !r.TS.Before(since), nil
	}
	return false, nil
}
