//go:build unix

package postgrestest

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// startWait bounds how long a server may take to come up, recovery included.
const startWait = time.Minute

// Server is a private server. Its methods are for one goroutine.
type Server struct {
	dir, bin, password string
	cred               *syscall.Credential // nil: as this process

	process *os.Process
	ended   chan struct{} // closed when the process has
}

// Start makes a data directory and a server on it.
func Start() (*Server, error) {
	bin, err := binaries()
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin}
	if s.cred, err = credential(); err != nil {
		return nil, err
	}
	if s.dir, err = os.MkdirTemp("", "stile-pg-"); err != nil {
		return nil, err
	}
	if err := s.initialize(); err != nil {
		os.RemoveAll(s.dir)
		return nil, err
	}
	if err := s.Restart(); err != nil {
		os.RemoveAll(s.dir)
		return nil, err
	}
	return s, nil
}

// binaries finds the newest server that is installed.
func binaries() (string, error) {
	var found []string
	if dir := os.Getenv(EnvBin); dir != "" {
		found = append(found, dir)
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		if path, err = filepath.EvalSymlinks(path); err == nil {
			found = append(found, filepath.Dir(path))
		}
	}
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin", "/opt/homebrew/opt/postgresql*/bin"} {
		more, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		sort.Slice(more, func(i, j int) bool { return number(more[i]) > number(more[j]) })
		found = append(found, more...)
	}
	for _, dir := range found {
		if _, err := os.Stat(filepath.Join(dir, "initdb")); err == nil {
			return dir, nil
		}
	}
	return "", errors.New("no PostgreSQL server is installed")
}

func number(path string) int {
	n := 0
	for _, c := range path {
		if c >= '0' && c <= '9' {
			n = 10*n + int(c-'0')
		}
	}
	return n
}

// credential is whom the server runs as: it refuses to be root.
func credential() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("PostgreSQL refuses to run as root, and there is no user postgres or nobody")
}

func (s *Server) initialize() error {
	var b [12]byte
	if _, err := rand.Read(b[:]); err != nil {
		return err
	}
	s.password = "p@ss/" + hex.EncodeToString(b[:]) // with what a URL has to escape
	secret := filepath.Join(s.dir, "secret")
	if err := os.WriteFile(secret, []byte(s.password), 0o600); err != nil {
		return err
	}
	if s.cred != nil {
		for _, path := range []string{s.dir, secret} {
			if err := os.Chown(path, int(s.cred.Uid), int(s.cred.Gid)); err != nil {
				return err
			}
		}
	}
	out, err := s.command("initdb", "-D", s.data(), "-U", "stile", "-A", "scram-sha-256", "--pwfile", secret,
		"-E", "UTF8", "--locale=C", "--no-sync").CombinedOutput()
	if err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return nil
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir
	cmd.Env = []string{"LC_ALL=C", "TZ=UTC", "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = attributes(s.cred)
	return cmd
}

// URL reaches the server through its socket.
func (s *Server) URL() string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword("stile", s.password), Path: "/postgres"}
	u.RawQuery = url.Values{"host": {s.dir}, "sslmode": {"disable"}}.Encode()
	return u.String()
}

// Through reaches it through something that listens on a TCP port of this machine.
func (s *Server) Through(address string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword("stile", s.password), Host: address, Path: "/postgres"}
	u.RawQuery = url.Values{"sslmode": {"disable"}}.Encode()
	return u.String()
}

// Socket is the path of the server's socket.
func (s *Server) Socket() string { return filepath.Join(s.dir, ".s.PGSQL.5432") }

// Restart starts the server on its data and returns when it takes connections. What
// a killed server has left in memory may need a moment to go.
func (s *Server) Restart(settings ...string) error {
	for deadline := time.Now().Add(startWait); ; {
		log, err := s.start(settings)
		if err == nil || !strings.Contains(log, "still in use") || time.Now().After(deadline) {
			return err
		}
	}
}

func (s *Server) start(settings []string) (log string, err error) {
	args := []string{"-D", s.data(), "-k", s.dir, "-c", "listen_addresses=", "-c", "max_connections=80", "-c", "shared_buffers=32MB"}
	for _, set := range settings {
		args = append(args, "-c", set)
	}
	cmd := s.command("postgres", args...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return "", err
	}
	started, ready := make(chan error, 1), make(chan bool, 1)
	ended := make(chan struct{})
	var output strings.Builder
	go func() {
		defer close(ended)
		runtime.LockOSThread() // its end would be taken for ours: see attributes
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		up := false
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			if !up {
				output.WriteString(lines.Text() + "\n")
				if up = strings.Contains(lines.Text(), "ready to accept connections"); up {
					ready <- true
				}
			}
		}
		_ = cmd.Wait() // killed or stopped, as the test wants
		if !up {
			ready <- false
		}
	}()
	if err := <-started; err != nil {
		return "", err
	}
	if up := <-ready; !up {
		<-ended
		return output.String(), fmt.Errorf("the server did not start: %s", output.String())
	}
	s.process, s.ended = cmd.Process, ended
	return "", nil
}

// Kill ends the server and all it has started, at once, as a crash of it would.
func (s *Server) Kill() {
	if s.process == nil {
		return
	}
	_ = s.process.Signal(syscall.SIGSTOP) // so that it starts no process meanwhile
	children := childrenOf(s.process.Pid)
	_ = s.process.Kill()
	for _, pid := range children {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	<-s.ended
	s.process = nil
}

// Quit ends it in order: clients are cut off, what is committed is written.
func (s *Server) Quit() {
	if s.process == nil {
		return
	}
	_ = s.process.Signal(syscall.SIGINT)
	<-s.ended
	s.process = nil
}

// Stop ends it and removes its data.
func (s *Server) Stop() {
	s.Kill()
	os.RemoveAll(s.dir)
}

// childrenOf reads the process table of Linux. Elsewhere the children notice by
// themselves that their parent has gone.
func childrenOf(pid int) []int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if err != nil {
		return nil
	}
	var all []int
	for _, f := range strings.Fields(string(b)) {
		if n, err := strconv.Atoi(f); err == nil && n > 1 {
			all = append(all, n)
		}
	}
	return all
}
