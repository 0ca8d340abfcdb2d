// Package removals counts what stores have removed.
//
// A reader that keeps records at hand compares the count with the one it saw, and reads
// anew when something was removed since. The count is of this process alone.
package removals

import "sync/atomic"

// Count is embedded by a store, which counts before Erase and Delete return. All methods
// are safe from any goroutine.
type Count struct{ n atomic.Int64 }

// Erased counts one removal.
func (c *Count) Erased() { c.n.Add(1) }

// Erasures is the number of removals.
func (c *Count) Erasures() int64 { return c.n.Load() }
