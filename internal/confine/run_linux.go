package confine

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Supported reports whether programs can be held to limits on this system.
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
	if err := keepDescriptors(); err != nil {
		return nil, fmt.Errorf("inherited descriptors: %w", err)
	}
	cmd.WaitDelay = pipeGrace
	// The kernel kills it with the thread that starts it, and so with the host, also while
	// it is still stopped. That thread starts no other process: those of the runtime come and go.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Ptrace: true, Pdeathsig: syscall.SIGKILL}
	over, err := startApart(cmd, l, j)
	if err != nil {
		return nil, err
	}
	return func() error {
		// Until it is waited for, no other process or group can have its number.
		awaitEnd(cmd.Process.Pid)
		_ = killGroup(cmd.Process.Pid)
		over()
		return cmd.Wait()
	}, nil
}

// startApart starts a command on a thread of its own, in a jail if there is one. over lets
// the thread go; it must not be called before the command has ended.
func startApart(cmd *exec.Cmd, l *Limits, j *Jail) (over func(), err error) {
	if j != nil && j.Bubblewrap != "" {
		done, err := j.wrap(cmd)
		if err != nil {
			return nil, err
		}
		defer done()
		j = nil
	}
	if j == nil {
		return sit(nil, func(*seat) error { return startLimited(cmd, l, numbers{}) })
	}
	start := func(s *seat) error {
		cmd.SysProcAttr.Pgid = int(uint64(s.own.group) << 32)
		switch {
		case s.view.dir >= 0:
			cmd.Dir = magic(s.view.dir)
		case j.Dir != nil:
			cmd.Dir = magic(int(j.Dir.Fd()))
		}
		return startLimited(cmd, l, s.own)
	}
	if s := j.takeSeat(); s != nil {
		over, err = s.use(start)
	} else {
		over, err = sit(j, start)
	}
	j.begun = err == nil && len(j.ReadOnly) == 0 && len(j.Hidden) == 0
	return over, err
}

// keepDescriptors marks every descriptor of the host but the standard ones as closed on
// exec: those that the host was started with (socket activation, flock 9>, a wrapper's
// own) are not the programs'. A program gets the descriptors that exec.Cmd names. It is
// done for each start, because code that is not Go's can open descriptors at any time.
func keepDescriptors() error {
	err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if err == nil {
		return nil
	}
	// Before Linux 5.11, or below a filter that does not know the call.
	open, err := os.ReadDir("/proc/self/fd")
	for _, e := range open {
		if fd, bad := strconv.Atoi(e.Name()); bad == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return err
}

// startLimited starts a command and sets its limits while it stands before its first instruction.
// Tracing is the thread's business.
func startLimited(cmd *exec.Cmd, l *Limits, own numbers) error {
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
	if err := l.set(pid, own); err != nil {
		return abandon(err)
	}
	if err := syscall.PtraceDetach(pid); err != nil {
		return abandon(err)
	}
	return nil
}

// set holds a process to the limits. It is called on the thread that started the process.
func (l *Limits) set(pid int, own numbers) error {
	tasks := uint64(math.MaxUint64)
	if l.Tasks > 0 {
		// Linux counts those of a user; there are not more of them than of the machine.
		var now unix.Sysinfo_t
		if err := unix.Sysinfo(&now); err != nil {
			return err
		}
		tasks = uint64(now.Procs) + uint64(l.Tasks)
	}
	for _, r := range []struct {
		resource uintptr
		limit    uint64
	}{
		{unix.RLIMIT_NPROC, tasks},
		{syscall.RLIMIT_AS, uint64(l.Memory)},
		{syscall.RLIMIT_CPU, uint64((l.CPU + time.Second - 1) / time.Second)},
		{syscall.RLIMIT_NOFILE, uint64(l.Files)},
		{syscall.RLIMIT_FSIZE, uint64(l.FileBytes)},
		{syscall.RLIMIT_CORE, 0},
	} {
		if errno := lower(pid, r.resource, r.limit, own); errno != 0 {
			return errno
		}
	}
	return nil
}

// lower sets a limit of a process, or leaves it where the host itself has a lower one.
func lower(pid int, resource uintptr, limit uint64, own numbers) syscall.Errno {
	var has syscall.Rlimit
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), resource, 0, uintptr(unsafe.Pointer(&has)), 0, 0); errno != 0 {
		return errno
	}
	both := syscall.Rlimit{Cur: min(limit, has.Max), Max: min(limit, has.Max)}
	// The kernel reads half of each of these two arguments, the jail's filter the whole.
	process, which := uintptr(uint64(own.limits[0])<<32|uint64(pid)), uintptr(uint64(own.limits[1])<<32|uint64(resource))
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, process, which, uintptr(unsafe.Pointer(&both)), 0, 0, 0)
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
