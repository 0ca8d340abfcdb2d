//go:build linux

package confine

import "math"

// The system calls of this processor alone: there are none.
var (
	ownersHere map[uint32]uint32
	modesHere  map[uint32]uint32
	opensHere  map[uint32]uint32
	askedHere  []uint32
)

// Numbers that no system call has.
const (
	chmodHere = math.MaxUint32 - iota
	utimeHere
	utimesHere
	futimesatHere
)
