package confine

import "time"

// Limits are what the kernel holds each process of a command to.
type Limits struct {
	Memory    int64         // bytes of address space
	Files     int64         // open files
	FileBytes int64         // of one file that it writes
	CPU       time.Duration // processor time, in whole seconds
	// Tasks is how many processes and threads the host's user may have beyond those that the
	// machine has when the command begins; 0 bounds nothing. Linux does not bound root's.
	Tasks int64
}

// pipeGrace is how long the end of a command waits for pipes that a process outside its group
// holds open.
const pipeGrace = time.Second
