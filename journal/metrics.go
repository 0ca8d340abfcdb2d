package journal

import "sync/atomic"

// Metrics count the commits to a store since its runtime was made. Each counter is safe to
// read from any goroutine; two counters are not read at one instant.
type Metrics struct {
	Commits  atomic.Int64 // calls of Store.Commit
	Syncs    atomic.Int64 // how often the store has waited for the disk, where it says so
	Batches  atomic.Int64 // accepted
	Records  atomic.Int64 // accepted
	Bytes    atomic.Int64 // accepted, estimated
	Fenced   atomic.Int64 // batches refused with ERR_FENCED
	Stale    atomic.Int64 // batches refused with a stale head
	Failed   atomic.Int64 // batches that failed otherwise when tried
	Cascaded atomic.Int64 // batches refused without trying
}
