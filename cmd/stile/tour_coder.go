package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/confine"
)

// prepareCoder copies the example coder beside the data directory and makes its module
// there, because the agent changes it. The toolchain is the one of this host. Where the
// kernel cannot confine commands the example does without, and says so.
func prepareCoder(ctx context.Context, g *guide, from, session string) (agent *stile.Agent, note string, err error) {
	goroot, err := toolchain(ctx)
	if err != nil {
		return nil, "", err
	}
	to := filepath.Join(g.dir+"-work", session) // the data directory is out of the reach of tools
	src := filepath.Dir(from)
	if err := copyFiles(to, src, "agent.yaml", "fix.jsonl"); err != nil {
		return nil, "", err
	}
	archive, err := os.ReadFile(filepath.Join(src, "module.txtar"))
	if err != nil {
		return nil, "", err
	}
	if err := unpack(filepath.Join(to, "module"), string(archive)); err != nil {
		return nil, "", err
	}
	if agent, err = stile.LoadAgent(filepath.Join(to, "agent.yaml")); err != nil {
		return nil, "", err
	}
	agent.Manifest.Shell.Path = []string{filepath.Join(goroot, "bin")}
	agent.Manifest.Shell.Read = []string{goroot}
	box := confine.Probe()
	note = "Its programs are confined: " + box.Layers() + "."
	if err := box.Err(); err != nil {
		agent.Manifest.Shell.Isolation = "none"
		note = "This host cannot confine its programs, so it says isolation: none."
	}
	return agent, note + " It works in " + filepath.Join(to, "module") + ".", nil
}

// errNoToolchain says that a stop has to be left out.
var errNoToolchain = errors.New("there is no Go toolchain here")

// toolchain finds where Go is installed.
func toolchain(ctx context.Context) (string, error) {
	goroot := os.Getenv("GOROOT")
	if goroot == "" {
		out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
		if err != nil {
			return "", errNoToolchain
		}
		goroot = strings.TrimSpace(string(out))
	}
	goroot, err := filepath.EvalSymlinks(goroot)
	if err != nil {
		return "", errNoToolchain
	}
	name := "go"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if _, err := os.Stat(filepath.Join(goroot, "bin", name)); err != nil {
		return "", errNoToolchain
	}
	return goroot, nil
}

func copyFiles(to, from string, names ...string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), b, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// unpack makes the files of an archive: text, then for each file a line of its name and
// its bytes.
//
//	-- name --
//	bytes
func unpack(to, archive string) error {
	var name string
	files := map[string]*strings.Builder{}
	for line := range strings.Lines(archive) {
		if n, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "-- "); ok && strings.HasSuffix(n, " --") {
			name = strings.TrimSuffix(n, " --")
			if !fs.ValidPath(name) || files[name] != nil {
				return fmt.Errorf("the archive holds %q, which is no name of a file or is there twice", name)
			}
			files[name] = &strings.Builder{}
			continue
		}
		if f := files[name]; f != nil {
			f.WriteString(line)
		}
	}
	for name, text := range files {
		p := filepath.Join(to, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(p, []byte(text.String()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
