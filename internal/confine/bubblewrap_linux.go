package confine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/messages"
)

// Bubblewrap makes namespaces without the rights of root, where the kernel lets users make
// them: a program sees the folders of its jail and nothing else, no process but its own, and no
// network. The host starts it in place of the program, with the same limits.

// Bubblewrap finds bubblewrap and tries it. The error is ERR_CONFIG with Field shell.isolation.
// The answer does not change while this process runs.
var Bubblewrap = sync.OnceValues(func() (program string, err error) {
	for _, dir := range filepath.SplitList(Path) {
		program = filepath.Join(dir, "bwrap")
		if info, err := os.Stat(program); err == nil && info.Mode().IsRegular() {
			return program, tryBubblewrap(program)
		}
	}
	return "", noBubblewrap("there is no program bwrap in " + Path)
})

func noBubblewrap(why string) error {
	return &messages.Error{Code: messages.ErrConfig, Field: "shell.isolation", Detail: "isolation: bubblewrap cannot be had on this host: " + why}
}

// tryTime bounds the try.
const tryTime = 10 * time.Second

// tryBubblewrap runs a program in a jail that uses all that jails use.
func tryBubblewrap(program string) error {
	dir, err := os.MkdirTemp("", "stile-probe-")
	if err != nil {
		return noBubblewrap("there is no place for temporary files")
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), tryTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/true")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	l := Limits{Memory: serverMemory, CPU: time.Minute, Files: serverFiles, FileBytes: serverFileBytes}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return noBubblewrap("there is no place for temporary files")
	}
	err = Run(cmd, &l, &Jail{Bubblewrap: program, Write: []string{dir}, ReadOnly: []string{dir}, Hidden: []string{dir}})
	if err == nil {
		return nil
	}
	why := err.Error()
	if output := bytes.TrimSpace(out.Bytes()); len(output) > 0 {
		why = clip.Excerpt(string(output))
	}
	return noBubblewrap(why)
}

// wrap makes a command one of bubblewrap's, which starts the program in the jail. Folders go
// there as descriptors, so that they stay those that were judged. done closes them; it must
// be called once the command has started.
func (j *Jail) wrap(cmd *exec.Cmd) (done func(), err error) {
	var files []*os.File
	done = func() {
		for _, f := range files {
			_ = f.Close()
		}
	}
	defer func() {
		if err != nil {
			done()
		}
	}()
	// pass hands a file to bubblewrap and returns its number there.
	pass := func(f *os.File) string {
		files = append(files, f)
		cmd.ExtraFiles = append(cmd.ExtraFiles, f)
		return strconv.Itoa(2 + len(cmd.ExtraFiles))
	}
	args := []string{j.Bubblewrap, "--unshare-all", "--die-with-parent", "--cap-drop", "ALL"}
	if j.Network {
		args = append(args, "--share-net")
	}
	for _, p := range systemRead {
		args = append(args, "--ro-bind-try", p, p)
	}
	for _, p := range systemDevices {
		args = append(args, "--dev-bind-try", p, p)
	}
	bind := func(how string, paths []string, open func(string) (int, error)) error {
		for _, p := range paths {
			fd, err := open(p)
			if err != nil {
				return &fs.PathError{Op: "allow", Path: p, Err: err}
			}
			args = append(args, how, pass(os.NewFile(uintptr(fd), p)), p)
		}
		return nil
	}
	if err := errors.Join(bind("--ro-bind-fd", j.Read, place), bind("--bind-fd", j.Write, place), bind("--ro-bind-fd", j.ReadOnly, target)); err != nil {
		return nil, err
	}
	for _, p := range j.Hidden {
		info, err := os.Lstat(p)
		switch {
		case err != nil:
			return nil, err
		case info.IsDir():
			args = append(args, "--tmpfs", p, "--remount-ro", p)
		default:
			nothing, err := Given(nil)
			if err != nil {
				return nil, err
			}
			args = append(args, "--ro-bind-data", pass(nothing), p)
		}
	}
	args = append(args, "--remount-ro", "/") // else it is memory that no limit counts
	if filterKnown && canFilter() {
		sockets := noSockets
		if j.Network {
			sockets = everywhere
		}
		filter, err := Given(passing(sockets))
		if err != nil {
			return nil, err
		}
		args = append(args, "--seccomp", pass(filter))
	}
	dir := cmd.Dir
	if j.Dir != nil {
		if dir, err = os.Readlink(magic(int(j.Dir.Fd()))); err != nil {
			return nil, err
		}
	}
	if dir != "" {
		args = append(args, "--chdir", dir)
	}
	if cmd.Err != nil {
		return nil, fmt.Errorf("program: %w", cmd.Err)
	}
	cmd.Args = append(append(args, "--", cmd.Path), cmd.Args[1:]...)
	cmd.Path, cmd.Dir = j.Bubblewrap, "/"
	return done, nil
}
