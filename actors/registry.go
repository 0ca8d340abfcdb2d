package actors

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"
)

// registryBuckets is how many of the registry's buckets are kept: a power of two, as is
// the library's own number, so that what lies in one of them lies where it belongs.
const registryBuckets = 16

// shrinkRegistry takes most of its tables from the registry of a system that has no
// actors yet. The library makes 1,024 buckets of 32 maps, each with a lock of its own:
// 65,000 objects, and 12 MB once as many actors have come and gone, which every
// collection of garbage goes through. The locks of 512 maps are enough for the
// processors of any machine.
func shrinkRegistry(system *actor.ActorSystem) {
	registry := system.ProcessRegistry
	all := registry.LocalPIDs.LocalPIDs
	registry.LocalPIDs.LocalPIDs = slices.Clone(all[:registryBuckets])
	for _, bucket := range all[registryBuckets:] {
		if bucket.IsEmpty() {
			continue
		}
		for name, process := range bucket.Items() { // the system's own
			registry.Add(process.(actor.Process), name)
		}
	}
}
