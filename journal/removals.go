package journal

import "sync/atomic"

// Removals counts how often a store has removed something that it once gave. Stores
// embed it, and count before Erase and Delete return: whoever keeps at hand what was read
// compares the count. It knows of this process alone.
type Removals struct{ n atomic.Int64 }

// Erased counts one.
func (r *Removals) Erased() { r.n.Add(1) }

// Erasures is the count.
func (r *Removals) Erasures() int64 { return r.n.Load() }
