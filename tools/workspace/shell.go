package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/internal/confine"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

// Shell configures the tool shell, which runs one program in the folder of a Workspace, without
// a shell in between (docs/spec/cogency.md §14). With Landlock, the program reaches that
// folder, a temporary one, the system's programs and libraries, and the paths of Read and
// Write; it opens no socket, and signals no process outside.
type Shell struct {
	Workspace *Workspace
	// Sandbox is what the kernel supports. Without Landlock NewShell fails, unless
	// Unconfined is set.
	Sandbox    confine.Sandbox
	Unconfined bool
	// Mounts refuses a host that cannot give programs a mount namespace. Without it they get
	// one where the host can.
	Mounts bool
	// Bubblewrap has bubblewrap confine programs, in place of Landlock: an installed bwrap makes
	// namespaces of a user. NewShell fails where it does not.
	Bubblewrap bool
	// User is whom programs run as; nil is the host's user. Their folders look to them as if
	// they owned what the host's user owns. It needs a mount namespace of Landlock's jail.
	User *confine.User
	// Host has files of the host that programs must not find in Read and Path, beside those
	// that the Workspace denies, which they must not find in its folder and in Write. A mount
	// namespace hides them; without one they must lie elsewhere.
	Host     []string
	Network  bool     // the program may open internet sockets, to other machines
	Loopback bool     // and to this machine and link-local addresses
	Path     []string // folders of programs, before the usual ones
	Read     []string // absolute paths that may be read and executed, with all below
	Write    []string // absolute paths that may be changed
	Env      map[string]string
	// Caches are environment variables, each for a folder that is kept between calls; Cache
	// returns the folder and creates a missing one.
	Caches  []string
	Cache   func(variable string) (dir string, err error)
	Timeout time.Duration // 0 is 30 s
	Memory  int64         // bytes of address space of a process; 0 is 4 GiB
	CPU     time.Duration // of a process; 0 is one minute
	Files   int64         // open files of a process; 0 is 1024
	// Processes is how many processes and threads the host's user may have in addition to
	// those that run when a program begins; 0 is 1024. Linux has no such bound for root.
	Processes int64
	// Ready has jails that wait for programs; nil has none.
	Ready *confine.Ready

	wrapper string   // bwrap
	absent  []string // and of that what is not there yet
	hidden  []string // what Host and the Workspace deny, as far as it is in reach
}

// Limits of the tool shell.
const (
	ShellTimeout   = 30 * time.Second // docs/spec/cogency.md §15
	MaxStreamBytes = 64 << 10         // kept of each stream, its beginning and its end
	// shellGrace is the time of a call beside its program's: to begin, to end the group, to
	// clean up. The tool bounds its program's time itself.
	shellGrace     = 5 * time.Second
	shellMemory    = 4 << 30
	shellCPU       = time.Minute
	shellFiles     = 1024
	shellProcesses = 1024
	shellFileBytes = 1 << 30 // of one file that it writes
)

// usualPath has the folders of programs.
var usualPath = []string{"/usr/local/bin", "/usr/bin", "/bin"}

// NewShell returns the tool. Errors are ERR_CONFIG, with Field shell.isolation or
// shell.network if the host cannot confine a command, and shell.path, shell.read or
// shell.write for a path that does not exist.
func NewShell(s Shell) (tools.Tool, error) {
	if !confine.Supported {
		return tools.Tool{}, &messages.Error{Code: messages.ErrConfig, Field: "shell.isolation", Detail: "commands can be neither confined nor limited on this system"}
	}
	switch {
	case s.Unconfined:
	case s.Bubblewrap:
		var err error
		if s.wrapper, err = confine.Bubblewrap(); err != nil {
			return tools.Tool{}, err
		}
	default:
		if err := s.Sandbox.Err(); err != nil {
			return tools.Tool{}, err
		}
	}
	if s.Network && !s.Loopback && !s.Unconfined && (s.Bubblewrap || !s.Sandbox.Peers) {
		return tools.Tool{}, &messages.Error{Code: messages.ErrConfig, Field: "shell.network", Detail: "this host cannot keep programs with the network from this machine, where a host without tokens takes them for its user; say network: {loopback: true} where that is meant"}
	}
	if s.Mounts && !s.Sandbox.Mounts {
		return tools.Tool{}, &messages.Error{Code: messages.ErrConfig, Field: "shell.isolation", Detail: "this host cannot give programs a mount namespace, which needs the right to mount (CAP_SYS_ADMIN); isolation: bubblewrap may do it without, and isolation: landlock does without it"}
	}
	if s.User != nil {
		if err := s.tryUser(); err != nil {
			return tools.Tool{}, err
		}
	}
	if s.namespaced() {
		var host own
		host.add(s.Host)
		for _, part := range []struct{ paths, folders []string }{
			{s.Workspace.own.now(), append([]string{s.Workspace.dir}, s.Write...)},
			{host.now(), slices.Concat(s.Read, s.Path)},
		} {
			hidden, absent, bare := hides(part.paths, part.folders)
			if bare != "" {
				return tools.Tool{}, &messages.Error{Code: messages.ErrConfig, Field: "workspace.root", Detail: filepath.Base(bare) + " is the host's, and cannot be hidden from programs"}
			}
			s.hidden, s.absent = append(s.hidden, hidden...), append(s.absent, absent...)
		}
		for _, all := range []*[]string{&s.hidden, &s.absent} {
			slices.Sort(*all)
			*all = slices.Compact(*all)
		}
	}
	for _, part := range []struct {
		field string
		paths []string
	}{{"shell.path", s.Path}, {"shell.read", s.Read}, {"shell.write", s.Write}} {
		for i, p := range part.paths {
			if _, err := os.Stat(p); err != nil {
				return tools.Tool{}, &messages.Error{Code: messages.ErrConfig, Field: fmt.Sprintf("%s[%d]", part.field, i), Detail: "is not there, or cannot be opened", Cause: pathless(err)}
			}
		}
	}
	for _, set := range []struct {
		p *int64
		d int64
	}{{(*int64)(&s.Timeout), int64(ShellTimeout)}, {&s.Memory, shellMemory}, {(*int64)(&s.CPU), int64(shellCPU)}, {&s.Files, shellFiles}, {&s.Processes, shellProcesses}} {
		if *set.p <= 0 {
			*set.p = set.d
		}
	}
	return s.tool(), nil
}

// tryUser returns why programs cannot run as their own user.
func (s *Shell) tryUser() error {
	bad := func(detail string, err error) error {
		return &messages.Error{Code: messages.ErrConfig, Field: "program_user", Detail: detail, Cause: pathless(err)}
	}
	// Before version 6 of Landlock a program could signal threads that have become the user.
	if s.Unconfined || s.Bubblewrap || !s.Sandbox.Mounts || s.Sandbox.ABI < 6 {
		return bad("programs can have a user of their own on a host that is root and may mount (Linux 6.12), with shell.isolation: namespace or landlock", nil)
	}
	write, err := real(append([]string{s.Workspace.dir}, s.Write...))
	if err == nil {
		err = (&confine.Jail{Sandbox: s.Sandbox, User: s.User, Write: write}).Try()
	}
	if err == nil {
		return nil
	}
	var at *fs.PathError
	if !errors.As(err, &at) {
		return bad("this host cannot run programs as another user", err)
	}
	return bad("the user of programs cannot work in "+filepath.Base(at.Path)+": every folder above it must let others enter (mode 0711), it must be the host's, and its file system must take mapped mounts", err)
}

// real resolves the symbolic links of paths.
func real(paths []string) (all []string, err error) {
	for _, p := range paths {
		to, err := filepath.EvalSymlinks(p)
		if err != nil {
			return nil, err
		}
		all = append(all, to)
	}
	return all, nil
}

// DeclareShell returns the tool for a replay, which never calls it; timeout is as in Shell.
func DeclareShell(timeout time.Duration) tools.Tool {
	return (&Shell{Timeout: cmp.Or(max(timeout, 0), ShellTimeout)}).tool()
}

func (s *Shell) tool() tools.Tool {
	t := catalog.Reporting("shell", "Runs one program, such as go test ./...; no shell reads the line: no pipes, no redirections, no variables, no globs.", messages.Effectful, catalog.Parameters{
		{Name: "command", Type: "string", Required: true, Description: "Program and arguments; quotes as in a shell."},
		{Name: "cwd", Type: "string", Default: `"."`, Description: "Folder to run in."},
	}, s.run)
	t.Timeout = s.Timeout + shellGrace
	if s.Workspace != nil {
		t.Form.Basis = func(string) map[string]string { return Basis(s.Workspace.dir) }
	}
	return t
}

func (s *Shell) run(ctx context.Context, c *tools.Call) (outcome, content string, err error) {
	words, err := splitCommand(c.Text(0))
	if err == nil {
		err = judgeWords(words, s.Workspace.access)
	}
	if err != nil {
		return "", "", err
	}
	cwd := c.Text(1)
	at, err := s.Workspace.place(cwd)
	if err != nil {
		return "", "", err
	}
	// The folder is held open, so that it stays the one that was judged.
	dir, err := s.Workspace.openFolder(at)
	if err != nil {
		return "", "", s.Workspace.failed(cwd, err)
	}
	defer dir.Close()
	program, err := s.program(words[0], at)
	if err != nil {
		return "", "", err
	}
	vars, write, err := s.environment()
	if err != nil {
		return "", "", err
	}
	if s.User != nil {
		if write, err = real(write); err != nil {
			return "", "", catalog.Failed("a folder of the program is not there")
		}
	}
	jail := s.jail(write)
	temp, clean, err := s.Ready.Place(jail)
	if err != nil {
		return "", "", catalog.Failed("there is no place for temporary files")
	}
	defer clean()
	if s.Unconfined {
		jail = nil
	}
	env := listed(vars, temp)
	room, err := s.Workspace.programRoom(ctx)
	if err != nil {
		return "", "", err
	}
	own, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	outEnds, errEnds := newEnds(MaxStreamBytes), newEnds(MaxStreamBytes)
	cmd := exec.CommandContext(own, program)
	cmd.Args = words
	cmd.Dir = fmt.Sprintf("/proc/self/fd/%d", dir.Fd())
	cmd.Env, cmd.Stdout, cmd.Stderr = env, outEnds, errEnds
	var guards *guarded
	if s.namespaced() {
		if guards, err = s.Workspace.guards(maxGuardFolders); err != nil {
			return "", "", s.Workspace.failed(".", err)
		}
		defer guards.root.Close()
		jail.Dir, jail.Hidden, jail.ReadOnly = dir, s.hidden, guards.fixed(s.Workspace.dir)
	}
	unwatch := s.Workspace.watch(own, cancel)
	err = confine.Run(cmd, &confine.Limits{Memory: s.Memory, CPU: s.CPU, Files: s.Files, FileBytes: room, Tasks: s.Processes}, jail)
	tooMuch := unwatch()
	hide := s.hider(temp, env)
	stdout, stderr := hide(outEnds.text()), hide(errEnds.text())
	if guards != nil {
		stderr = noted(stderr, append(s.Workspace.settle(guards), reclaim(s.absent)...))
	}
	if room == 0 {
		stderr = joined(stderr, s.Workspace.full()+"; until then programs write no files")
	}
	var exit *exec.ExitError
	switch {
	case err != nil && tooMuch && ctx.Err() == nil:
		return "", "", catalog.Failed("%s", report(s.Workspace.full()+"; the program was ended with all that it had started", stdout, stderr))
	case err == nil:
		if stderr != "" {
			stdout = joinStreams(stdout, "Warnings:\n", stderr)
		}
		return "Success", stdout, nil
	case ctx.Err() != nil:
		return "", "", context.Cause(ctx)
	case own.Err() != nil:
		return "", "", catalog.Failed("%s", report(fmt.Sprintf("timed out after %s; it was ended with all that it had started", s.Timeout), stdout, stderr))
	case errors.As(err, &exit):
		why := fmt.Sprintf("exit code %d", exit.ExitCode())
		if exit.ExitCode() < 0 {
			why = exit.Error() // a signal, such as that of a limit
		}
		return "", "", catalog.Failed("%s", report(why, stdout, stderr))
	}
	return "", "", catalog.Failed("%s cannot be run: %s", clip.Excerpt(words[0]), clip.Excerpt(hide(pathless(err).Error())))
}

// report returns the message of a failure: standard error first.
func report(why, stdout, stderr string) string {
	if stderr != "" {
		why += "\n" + stderr
	}
	if stdout == "" {
		return clip.Middle(why, catalog.MaxResultBytes)
	}
	return joinStreams(strings.TrimSuffix(why, "\n"), "Output:\n", stdout)
}

// joinStreams joins two texts within the bound of a result: it keeps the shorter one whole, or
// half of each.
func joinStreams(a, heading, b string) string {
	const room = catalog.MaxResultBytes - 64
	if a != "" && !strings.HasSuffix(a, "\n") {
		a += "\n"
	}
	switch {
	case len(a)+len(b) <= room:
	case len(a) <= room/2:
		b = clip.Middle(b, room-len(a))
	case len(b) <= room/2:
		a = clip.Middle(a, room-len(b))
	default:
		a, b = clip.Middle(a, room/2), clip.Middle(b, room/2)
	}
	return a + heading + b
}

// openFolder opens a folder below the root.
func (w *Workspace) openFolder(at string) (*os.File, error) {
	if err := w.folder(at); err != nil {
		return nil, err
	}
	dir, err := w.root.Open(at)
	if err != nil {
		return nil, err
	}
	if err := w.own.folder(dir); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return dir, nil
}

// program finds the program of a command: a file in the workspace by a path relative to cwd,
// or a program of the search path.
func (s *Shell) program(name, cwd string) (string, error) {
	missing := catalog.Failed("not found: %s", clip.Excerpt(name))
	switch {
	case filepath.IsAbs(name): // judgeWords lets it pass under AccessSystem alone
		if !executable(os.Stat(name)) {
			return "", missing
		}
		return name, nil
	case strings.Contains(name, "/"): // from the folder that it is run in
		if !executable(s.Workspace.root.Stat(path.Join(cwd, name))) {
			return "", missing
		}
		return "./" + path.Clean(name), nil
	}
	for _, dir := range slices.Concat(s.Path, usualPath) {
		if p := filepath.Join(dir, name); executable(os.Stat(p)) {
			return p, nil
		}
	}
	return "", missing
}

func executable(info os.FileInfo, err error) bool {
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// environment returns the environment of a command but for its temporary folder. It has nothing of
// the host's. write are the folders in it, and beside it, that the command may change.
func (s *Shell) environment() (vars map[string]string, write []string, err error) {
	vars = map[string]string{
		"PATH": strings.Join(slices.Concat(s.Path, usualPath), ":"),
		"LANG": "C.UTF-8", "TERM": "dumb", "GIT_CONFIG_NOSYSTEM": "1",
	}
	maps.Copy(vars, s.Env)
	write = append([]string{s.Workspace.dir}, s.Write...)
	for _, name := range s.Caches {
		dir, err := s.Cache(name)
		if err != nil {
			return nil, nil, catalog.Failed("the folder of %s cannot be made", name)
		}
		vars[name] = dir
		write = append(write, dir)
	}
	return vars, write, nil
}

// listed returns an environment in order, with a temporary folder unless the operator names
// another.
func listed(vars map[string]string, temp string) (env []string) {
	for _, name := range []string{"HOME", "TMPDIR"} {
		if _, named := vars[name]; !named {
			vars[name] = temp
		}
	}
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		env = append(env, name+"="+vars[name])
	}
	return env
}

// namespaced reports whether programs get a mount namespace.
func (s *Shell) namespaced() bool { return !s.Unconfined && (s.Bubblewrap || s.Sandbox.Mounts) }

// jail returns the jail of a program. Unconfined ones have but its temporary folder.
func (s *Shell) jail(write []string) *confine.Jail {
	read := append(slices.Clone(s.Path), s.Read...)
	if s.Network {
		read = append(read, confine.NetworkFiles()...)
	}
	return &confine.Jail{Sandbox: s.Sandbox, Bubblewrap: s.wrapper, User: s.User, Read: read, Write: write, Network: s.Network, Loopback: s.Loopback}
}

// hider returns a function that removes the host's paths from the output of a program.
func (s *Shell) hider(temp string, env []string) func(string) string {
	type pair struct{ path, word string }
	pairs := []pair{{temp, "$TMPDIR"}}
	for _, e := range env {
		if name, dir, _ := strings.Cut(e, "="); slices.Contains(s.Caches, name) {
			pairs = append(pairs, pair{dir, "$" + name})
		}
	}
	if s.Workspace.dir != "/" {
		pairs = append(pairs, pair{s.Workspace.dir, "."})
	}
	return func(text string) string {
		for _, p := range pairs {
			text = replacePath(text, p.path, p.word)
		}
		return text
	}
}

// replacePath replaces an absolute path wherever it is not a part of a longer name.
func replacePath(text, dir, word string) string {
	var b strings.Builder
	for {
		at := strings.Index(text, dir)
		if at < 0 {
			b.WriteString(text)
			return b.String()
		}
		end := at + len(dir)
		b.WriteString(text[:at])
		if at > 0 && inName(text[at-1]) || end < len(text) && text[end] != '/' && inName(text[end]) {
			b.WriteString(dir)
		} else {
			b.WriteString(word)
		}
		text = text[end:]
	}
}

func inName(c byte) bool {
	return c == '/' || c == '_' || c == '-' || c == '.' || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= 0x80
}

// ends is a writer that keeps the beginning and the end of its input. It belongs to one
// goroutine until that has ended.
type ends struct {
	first, last []byte
	half        int
	total       int64
}

func newEnds(limit int) *ends { return &ends{half: limit / 2} }

// Write implements io.Writer. It accepts everything, so that output beyond the bound does not
// stop the program.
func (e *ends) Write(p []byte) (int, error) {
	n := len(p)
	e.total += int64(n)
	if room := e.half - len(e.first); room > 0 {
		take := min(room, len(p))
		e.first = append(e.first, p[:take]...)
		p = p[take:]
	}
	e.last = append(e.last, p...)
	if over := len(e.last) - e.half; over > e.half {
		e.last = append(e.last[:0], e.last[over:]...)
	}
	return n, nil
}

// ReadFrom implements io.ReaderFrom, with a buffer smaller than the 32 KiB that io.Copy would
// allocate for each stream of each call.
func (e *ends) ReadFrom(r io.Reader) (n int64, err error) {
	buf := make([]byte, 4<<10)
	for {
		m, err := r.Read(buf)
		_, _ = e.Write(buf[:m])
		n += int64(m)
		switch {
		case errors.Is(err, io.EOF):
			return n, nil
		case err != nil:
			return n, err
		}
	}
}

// text returns the kept output as valid UTF-8.
func (e *ends) text() string {
	last := e.last[max(len(e.last)-e.half, 0):]
	if left := e.total - int64(len(e.first)) - int64(len(last)); left > 0 {
		return clean(e.first) + fmt.Sprintf("\n[%d bytes left out]\n", left) + clean(last)
	}
	return clean(append(slices.Clone(e.first), last...))
}

func clean(b []byte) string {
	return strings.ReplaceAll(strings.ToValidUTF8(string(b), "\ufffd"), "\x00", "\ufffd")
}
