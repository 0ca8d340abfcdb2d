package stile

import "github.com/seed14be6753/stile/journal"

// ArchiveOf reads a store without a runtime.
func ArchiveOf(store journal.Store) *Archive { return &Archive{store: store} }

// SetMaxGas bounds replayed programs, for tests that have no ten seconds.
func (a *Archive) SetMaxGas(n int64) { a.maxGas = n }
