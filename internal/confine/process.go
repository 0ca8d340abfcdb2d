package confine

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// Server describes a program that runs beside the host and is spoken to over its
// standard streams, under the limits of commands and in a process group of its own.
type Server struct {
	Dir        string   // working directory; a relative program with a slash is in it
	Entrypoint []string // program and arguments; a bare name is looked up in Path
	Env        []string // NAME=value, beside PATH, HOME and LANG: nothing of the host's own
	Memory     int64    // bytes of address space of a process; 0 is 4 GiB
	CPU        time.Duration
	Files      int64
	Reach      *Reach // nil is all that the host's user reaches
}

// The bounds of a server that sets none. Address space is not memory: interpreters
// reserve gigabytes of it and use little.
const (
	serverMemory    = 4 << 30
	serverCPU       = time.Hour
	serverFiles     = 256
	serverFileBytes = 64 << 20 // of one file that it writes
	serverOutput    = 2 << 10  // of its standard error, the end
	outputExcerpt   = 256      // of that, in Output
)

// Path is where programs of a bare name are looked for.
const Path = "/usr/local/bin:/usr/bin:/bin"

// Process is a running Server. Its methods are safe for concurrent use; reading and
// writing belong to one goroutine each.
type Process struct {
	Stdin  *os.File
	Stdout *os.File

	output *tail
	kill   func()
	done   chan struct{} // closed when it has ended and its group is gone
	err    error
}

// Start starts a server. Errors are ERR_CONFIG with Field command when there is no such
// program or this system cannot limit it, else the system's.
func (s Server) Start() (*Process, error) {
	bad := func(err error) error {
		return &messages.Error{Code: messages.ErrConfig, Field: "command", Detail: err.Error()}
	}
	if len(s.Entrypoint) == 0 || s.Entrypoint[0] == "" {
		return nil, bad(errors.New("it names no program"))
	}
	if !Supported {
		return nil, bad(errors.New("programs cannot be limited on this system"))
	}
	program, err := s.program()
	if err != nil {
		return nil, bad(err)
	}
	jail, own, clean, err := s.Reach.Jail()
	if err != nil {
		return nil, err
	}
	theirIn, in, err := os.Pipe()
	if err != nil {
		clean()
		return nil, err
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		clean()
		return nil, errors.Join(err, theirIn.Close(), in.Close())
	}
	p := &Process{Stdin: in, Stdout: out, output: &tail{}, done: make(chan struct{})}
	cmd := exec.Command(program, s.Entrypoint[1:]...)
	cmd.Dir = s.Dir
	cmd.Env = slices.Concat([]string{"PATH=" + Path, "HOME=" + home(), "LANG=C.UTF-8"}, own, s.Env)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = theirIn, theirOut, p.output
	l := Limits{Memory: s.Memory, CPU: s.CPU, Files: s.Files, FileBytes: serverFileBytes}
	if l.Memory <= 0 {
		l.Memory = serverMemory
	}
	if l.CPU <= 0 {
		l.CPU = serverCPU
	}
	if l.Files <= 0 {
		l.Files = serverFiles
	}
	wait, err := startGroup(cmd, &l, jail)
	_, _ = theirIn.Close(), theirOut.Close()
	if err != nil {
		clean()
		return nil, errors.Join(err, in.Close(), out.Close())
	}
	var once sync.Once
	p.kill = func() {
		select {
		case <-p.done: // another process may have its number
		default:
			once.Do(func() { _ = killGroup(cmd.Process.Pid) })
		}
	}
	go func() {
		p.err = wait()
		clean()
		close(p.done)
	}()
	return p, nil
}

// program finds what is run.
func (s *Server) program() (string, error) {
	name := s.Entrypoint[0]
	if strings.Contains(name, "/") {
		return Program(s.Dir, name)
	}
	for _, dir := range filepath.SplitList(Path) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("there is no program %s in %s; name what is elsewhere by its whole path", strconv.Quote(name), Path)
}

// home is the folder that programs keep their caches in.
func home() string {
	if dir, err := os.UserHomeDir(); err == nil {
		return dir
	}
	return os.TempDir()
}

// Stop closes the process's standard input, gives it grace to end, kills its group, and
// returns when it is gone.
func (p *Process) Stop(grace time.Duration) {
	_ = p.Stdin.Close()
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-p.done:
	case <-t.C:
		p.kill()
		<-p.done
	}
	_ = p.Stdout.Close()
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended is how the process ended, once it has.
func (p *Process) Ended() string {
	select {
	case <-p.done:
		if p.err != nil {
			return p.err.Error()
		}
		return "it ended"
	default:
		return "it runs"
	}
}

// Output is the end of what it wrote to its standard error, on one line: traces and paths
// of the host may be in it.
func (p *Process) Output() string { return p.output.String() }

// tail keeps the end of what is written to it.
type tail struct {
	mu sync.Mutex
	b  []byte
}

// Write implements io.Writer.
func (w *tail) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.b = append(w.b, p[max(0, len(p)-serverOutput):]...)
	if over := len(w.b) - serverOutput; over > 0 {
		w.b = append(w.b[:0], w.b[over:]...)
	}
	return len(p), nil
}

// String is the end, on one line.
func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := strings.Join(strings.Fields(strings.ToValidUTF8(string(w.b), "\ufffd")), " ")
	if over := len(s) - outputExcerpt; over > 0 {
		s = "…" + strings.ToValidUTF8(s[over:], "")
	}
	return s
}
