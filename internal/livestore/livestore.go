// Package livestore is a journal's store as a running host uses it. It counts commits,
// keeps at hand what the next run of a session carries, and remembers a failed commit
// until the journal takes writes again. It holds nothing that a commit did not make
// durable.
package livestore

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/ristretto/v2"

	"github.com/seed14be6753/stile/internal/telemetry"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// carriedBytes bounds the streams that a runtime keeps at hand between runs.
const carriedBytes = 4 << 20

// Store wraps a journal's store. The cache keeps OUTPUT and SCRATCHPAD of the last turn of
// a session. A carried stream is read once, so it leaves the cache then: kept on, it
// would crowd out what is new. The cache may drop anything at any time.
type Store struct {
	journal.Store
	appending
	metrics *telemetry.Metrics
	synced  atomic.Int64                     // syncs that metrics know
	erased  atomic.Int64                     // for stores that do not count themselves
	carried *ristretto.Cache[string, []byte] // nil for a store that is memory itself
}

// New wraps a store, which stays its owner's to close.
func New(store journal.Store, metrics *telemetry.Metrics) (*Store, error) {
	w := &Store{Store: store, metrics: metrics}
	if store.Immediate() {
		return w, nil
	}
	var err error
	w.carried, err = ristretto.NewCache(&ristretto.Config[string, []byte]{
		NumCounters: 10 * carriedBytes / 1024, MaxCost: carriedBytes, BufferItems: 64,
	})
	return w, err
}

func blobKey(inc messages.Incarnation, d messages.Digest) string {
	return string(inc[:]) + string(d[:])
}

// Commit implements journal.Store.
func (w *Store) Commit(batches []journal.Batch) []error {
	begin := time.Now()
	errs := w.Store.Commit(batches)
	took := time.Since(begin)
	w.note(errs)
	records := 0
	for i := range batches {
		if errs[i] != nil {
			continue
		}
		records += len(batches[i].Records)
		if w.carried != nil {
			w.keep(&batches[i])
		}
	}
	w.metrics.Committed(records, took)
	if s, ok := w.Store.(interface{ Syncs() int64 }); ok {
		now := s.Syncs()
		w.metrics.Synced(max(now-w.synced.Swap(now), 0))
	}
	return errs
}

// Syncs is how often the store below had waited for the disk at the last commit; 0 where it does
// not say.
func (w *Store) Syncs() int64 { return w.synced.Load() }

// keep puts the carried streams of a batch at hand: those of its last decision.
func (w *Store) keep(b *journal.Batch) {
	for i := len(b.Records) - 1; i >= 0; i-- {
		d, ok := b.Records[i].Body.(*messages.TurnDecided)
		if !ok {
			continue
		}
		for _, blob := range b.Blobs {
			if blob.Digest == d.Output || blob.Digest == d.Scratch {
				w.carried.Set(blobKey(b.Inc, blob.Digest), blob.Data, int64(len(blob.Data))+64)
			}
		}
		return
	}
}

// Blob implements journal.Store.
func (w *Store) Blob(ctx context.Context, inc messages.Incarnation, d messages.Digest) ([]byte, error) {
	if w.carried != nil {
		key := blobKey(inc, d)
		if b, ok := w.carried.Get(key); ok {
			w.carried.Del(key)
			return b, nil
		}
	}
	return w.Store.Blob(ctx, inc, d)
}

// Erase implements journal.Store: what is erased must not come back from memory.
func (w *Store) Erase(ctx context.Context, inc messages.Incarnation, from, to int64) (int64, error) {
	n, err := w.Store.Erase(ctx, inc, from, to)
	w.forget()
	return n, err
}

// Delete implements journal.Store.
func (w *Store) Delete(ctx context.Context, inc messages.Incarnation) error {
	err := w.Store.Delete(ctx, inc)
	w.forget()
	return err
}

// Listings is journal.Listings of the store below.
func (w *Store) Listings(ctx context.Context, q journal.Query) ([]journal.Listing, error) {
	return journal.Listings(ctx, w.Store, q)
}

// Places is journal.Places of the store below.
func (w *Store) Places(ctx context.Context, q journal.RecallQuery) (found []journal.Recollection, more, behind bool, err error) {
	return journal.Places(ctx, w.Store, q)
}

// Erasures counts erasures, for the shells, which keep at hand what prompts are made of.
func (w *Store) Erasures() int64 {
	if s, ok := w.Store.(interface{ Erasures() int64 }); ok {
		return s.Erasures()
	}
	return w.erased.Load()
}

func (w *Store) forget() {
	w.erased.Add(1)
	if w.carried != nil {
		w.carried.Wait() // what is on its way in counts as in
		w.carried.Clear()
	}
}

// CloseCache frees the cache; the store below stays open.
func (w *Store) CloseCache() {
	if w.carried != nil {
		w.carried.Close()
	}
}
