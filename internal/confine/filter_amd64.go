//go:build linux

package confine

import "golang.org/x/sys/unix"

// The system calls of this processor that newer ones have no more.
var (
	ownersHere = map[uint32]uint32{unix.SYS_CHOWN: 1, unix.SYS_LCHOWN: 1}
	modesHere  = map[uint32]uint32{unix.SYS_CREAT: 1, unix.SYS_MKNOD: 1}
	askedHere  = []uint32{chmodHere, utimeHere, utimesHere, futimesatHere}
	opensHere  = map[uint32]uint32{unix.SYS_OPEN: 1}
)

const (
	chmodHere     = unix.SYS_CHMOD
	utimeHere     = unix.SYS_UTIME
	utimesHere    = unix.SYS_UTIMES
	futimesatHere = unix.SYS_FUTIMESAT
)
