package stile

import (
	"context"

	"github.com/dgraph-io/ristretto/v2"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/telemetry"
)

// recentBlobBytes bounds the blobs a runtime keeps at hand. What a run carries into
// the next one is nearly always among them: it was written a moment ago.
const recentBlobBytes = 4 << 20

// watched is the runtime's view of its store: it tells the metrics of every commit
// and keeps recent blobs at hand. The cache may drop anything at any time, and
// holds nothing that a commit did not make durable.
type watched struct {
	journal.Store
	metrics *telemetry.Metrics
	recent  *ristretto.Cache[string, []byte] // nil for a store that is memory itself
}

func watch(store journal.Store, metrics *telemetry.Metrics) (*watched, error) {
	w := &watched{Store: store, metrics: metrics}
	if store.Immediate() {
		return w, nil
	}
	var err error
	w.recent, err = ristretto.NewCache(&ristretto.Config[string, []byte]{
		NumCounters: 10 * recentBlobBytes / 1024, MaxCost: recentBlobBytes, BufferItems: 64,
	})
	return w, err
}

func blobKey(inc messages.Incarnation, d messages.Digest) string {
	return string(inc[:]) + string(d[:])
}

// Commit implements journal.Store.
func (w *watched) Commit(batches []journal.Batch) []error {
	errs := w.Store.Commit(batches)
	records := 0
	for i := range batches {
		if errs[i] != nil {
			continue
		}
		records += len(batches[i].Records)
		if w.recent == nil {
			continue
		}
		for _, b := range batches[i].Blobs {
			w.recent.Set(blobKey(batches[i].Inc, b.Digest), b.Data, int64(len(b.Data))+64)
		}
	}
	w.metrics.Committed(records)
	return errs
}

// Blob implements journal.Store.
func (w *watched) Blob(ctx context.Context, inc messages.Incarnation, d messages.Digest) ([]byte, error) {
	if w.recent != nil {
		if b, ok := w.recent.Get(blobKey(inc, d)); ok {
			return b, nil
		}
	}
	return w.Store.Blob(ctx, inc, d)
}

// Erase implements journal.Store: what is erased must not come back from memory.
func (w *watched) Erase(ctx context.Context, inc messages.Incarnation, from, to int64) (int64, error) {
	n, err := w.Store.Erase(ctx, inc, from, to)
	w.forget()
	return n, err
}

// Delete implements journal.Store.
func (w *watched) Delete(ctx context.Context, inc messages.Incarnation) error {
	err := w.Store.Delete(ctx, inc)
	w.forget()
	return err
}

func (w *watched) forget() {
	if w.recent != nil {
		w.recent.Wait() // what is on its way in counts as in
		w.recent.Clear()
	}
}

// release lets the cache go. The store is its owner's to close.
func (w *watched) release() {
	if w.recent != nil {
		w.recent.Close()
	}
}
