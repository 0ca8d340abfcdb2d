// Package examples is the host's own and no part of the public API: it may change in any release.
//
// It holds the agents of this folder as files, so that the command has them wherever it is
// run: for the tour, and for a host that has none of its own (stile serve --demo).
package examples

import "embed"

// Files are the manifests with what they name, by their paths in this folder.
//
//go:embed booking coder companion demo gallery ledger newsroom plain research
var Files embed.FS
