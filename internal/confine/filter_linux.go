//go:build linux && (amd64 || arm64)

package confine

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

const filterKnown = true

// filtered are system calls that no command of a model needs and that lead around the
// rest, or deep into the kernel. Sockets are judged by themselves.
var filtered = []uint32{
	unix.SYS_IO_URING_SETUP, // opens sockets past this filter
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	unix.SYS_UNSHARE, unix.SYS_SETNS,
}

// installFilter makes the kernel refuse this thread, and all that it starts, sockets of
// every family: what Landlock does not know of, such as UDP and the sockets in the file
// system. With network those of the internet stay.
func installFilter(network bool) error {
	const (
		number, arch, arg0 = 0, 4, 16 // in seccomp_data; the low half comes first on both processors
		x32                = 0x40000000
	)
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	answer := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	// unless gives an answer, or passes it by when the test fails.
	given := func(test uint16, k, say uint32) []unix.SockFilter {
		return []unix.SockFilter{{Code: unix.BPF_JMP | test | unix.BPF_K, Jf: 1, K: k}, answer(say)}
	}
	const allow, refuse = unix.SECCOMP_RET_ALLOW, unix.SECCOMP_RET_ERRNO | uint32(syscall.EPERM)
	own, foreign := uint32(unix.AUDIT_ARCH_X86_64), []unix.SockFilter(nil)
	if runtime.GOARCH == "arm64" {
		own = unix.AUDIT_ARCH_AARCH64
	} else {
		foreign = given(unix.BPF_JGE, x32, refuse)
	}
	program := []unix.SockFilter{
		load(arch),
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: own},
		answer(refuse), // a program of another processor type has other numbers
		load(number),
	}
	program = append(program, foreign...)
	for _, nr := range filtered {
		program = append(program, given(unix.BPF_JEQ, nr, refuse)...)
	}
	var families []unix.SockFilter
	if network {
		families = append(families, load(arg0))
		for _, family := range []uint32{unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK} {
			families = append(families, given(unix.BPF_JEQ, family, allow)...)
		}
	}
	families = append(families, answer(refuse))
	program = append(program, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: uint8(len(families)), K: unix.SYS_SOCKET})
	program = append(program, families...)
	program = append(program, answer(allow))
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := syscall.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(program)
	if errno != 0 {
		return errno
	}
	return nil
}
