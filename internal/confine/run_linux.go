package confine

import (
	"errors"
	"os/exec"
	"runtime"
	"syscall"
	"time"
	"unsafe"
)

// Supported tells whether programs can be held to limits on this system.
const Supported = true

// Run runs a command, made by exec.CommandContext, to its end: in a process group of its
// own, which the end of the context kills. It starts stopped, before its first
// instruction, and goes on when the kernel has its limits: whatever it starts inherits
// them. A jail is one more limit; nil is none.
func Run(cmd *exec.Cmd, l *Limits, j *Jail) error {
	cmd.Cancel = func() error { return killGroup(cmd.Process.Pid) }
	wait, err := startGroup(cmd, l, j)
	if err != nil {
		return err
	}
	return wait()
}

// startGroup starts a command under its limits. wait returns when it has ended, and
// leaves nothing of its group behind.
func startGroup(cmd *exec.Cmd, l *Limits, j *Jail) (wait func() error, err error) {
	cmd.WaitDelay = pipeGrace
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Ptrace: true}
	over := func() {}
	if j != nil {
		over, err = j.start(cmd, l)
	} else {
		err = startLimited(cmd, l)
	}
	if err != nil {
		return nil, err
	}
	return func() error {
		defer over()
		// Until it is waited for its number, and that of its group, is nobody else's.
		awaitEnd(cmd.Process.Pid)
		_ = killGroup(cmd.Process.Pid)
		return cmd.Wait()
	}, nil
}

// startLimited starts a command and sets its limits. Tracing is the thread's business.
func startLimited(cmd *exec.Cmd, l *Limits) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := cmd.Process.Pid
	abandon := func(err error) error {
		_ = killGroup(pid)
		_ = syscall.PtraceDetach(pid)
		_ = cmd.Wait()
		return err
	}
	var status syscall.WaitStatus
	for {
		_, err := syscall.Wait4(pid, &status, syscall.WALL, nil)
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EINTR) {
			return abandon(err)
		}
	}
	if !status.Stopped() {
		_ = cmd.Wait() // it was reaped here: killed before it began
		return errors.New("it ended before it began")
	}
	for _, r := range []struct {
		resource uintptr
		limit    uint64
	}{
		{syscall.RLIMIT_AS, uint64(l.Memory)},
		{syscall.RLIMIT_CPU, uint64((l.CPU + time.Second - 1) / time.Second)},
		{syscall.RLIMIT_NOFILE, uint64(l.Files)},
		{syscall.RLIMIT_FSIZE, uint64(l.FileBytes)},
		{syscall.RLIMIT_CORE, 0},
	} {
		if errno := lower(pid, r.resource, r.limit); errno != 0 {
			return abandon(errno)
		}
	}
	if err := syscall.PtraceDetach(pid); err != nil {
		return abandon(err)
	}
	return nil
}

// lower sets a limit of a process, or leaves it where the host itself has a lower one.
func lower(pid int, resource uintptr, limit uint64) syscall.Errno {
	var has syscall.Rlimit
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), resource, 0, uintptr(unsafe.Pointer(&has)), 0, 0); errno != 0 {
		return errno
	}
	both := syscall.Rlimit{Cur: min(limit, has.Max), Max: min(limit, has.Max)}
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), resource, uintptr(unsafe.Pointer(&both)), 0, 0, 0)
	return errno
}

// awaitEnd returns when a child has ended, and leaves it to be waited for.
func awaitEnd(pid int) {
	const (
		pPID    = 1
		wExited = 4
		wNoWait = 0x01000000
	)
	var info [128]byte
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, pPID, uintptr(pid), uintptr(unsafe.Pointer(&info)), wExited|wNoWait, 0, 0)
		if errno != syscall.EINTR {
			return
		}
	}
}

func killGroup(pid int) error { return syscall.Kill(-pid, syscall.SIGKILL) }
