package stile

import "github.com/seed14be6753/stile/journal"

// ArchiveOf reads a store without a runtime.
func ArchiveOf(store journal.Store) *Archive { return &Archive{store: store} }
