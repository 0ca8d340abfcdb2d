package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"

	embedded "github.com/seed14be6753/stile/examples"
)

// ownExamples is the folder of the examples: the one of the working directory where that is
// a clone of the repository, else a copy of those in this binary.
func (a *app) ownExamples() (string, error) {
	if inRepository() {
		return "examples", nil
	}
	to := a.dir + "-examples" // the data directory is out of the reach of tools
	return to, putExamples(to, ".")
}

// inRepository reports whether the working directory is a clone of the repository.
func inRepository() bool {
	_, err := os.Stat(filepath.Join("cmd", "stile", "tour.go"))
	return err == nil
}

// putExamples writes what the binary has of a folder below to. A file that is there with
// other bytes is the user's work, and an error.
func putExamples(to, folder string) error {
	return fs.WalkDir(embedded.Files, folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		at := filepath.Join(to, filepath.FromSlash(path))
		if d.IsDir() {
			return os.MkdirAll(at, 0o755)
		}
		b, err := embedded.Files.ReadFile(path)
		if err != nil {
			return err
		}
		if was, err := os.ReadFile(at); err == nil {
			if bytes.Equal(was, b) {
				return nil
			}
			return configError("examples", at+" is there and is not this version's: remove it, or name a folder with --examples")
		}
		return os.WriteFile(at, b, 0o644)
	})
}

// demoAgent is the agent of serve --demo, in the folder of the examples.
const demoAgent = "demo/agent.yaml"

// demonstrate has a host serve the command's own agent, in memory. undo removes what it
// wrote.
func (a *app) demonstrate(s *settings) (undo func(), err error) {
	dir, err := os.MkdirTemp("", "stile-demo-")
	if err != nil {
		return nil, err
	}
	undo = func() { _ = os.RemoveAll(dir) }
	if err := putExamples(dir, filepath.Dir(demoAgent)); err != nil {
		undo()
		return nil, err
	}
	s.Agents, s.Memory, a.demo = []string{filepath.Join(dir, filepath.FromSlash(demoAgent))}, true, true
	return undo, nil
}

// hint is how to try a host that shows what it does.
func (a *app) hint(base string) string {
	if !a.demo {
		return ""
	}
	return "a page is at " + base + "/, and this is a message to the agent:\n" +
		"  curl -N " + base + `/v1/chat/completions -H 'Content-Type: application/json' -d '{"model": "demo", "stream": true, "messages": [{"role": "user", "content": "What time is it?"}]}'` + "\n"
}
