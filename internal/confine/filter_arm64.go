//go:build linux

package confine

// The system calls of this processor alone: there are none.
var (
	ownersHere map[uint32]uint32
	modesHere  map[uint32]uint32
	opensHere  map[uint32]uint32
)
