package compiler

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/internal/confine"
	"github.com/seed14be6753/stile/internal/files"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/web"
	"github.com/seed14be6753/stile/tools/workspace"
)

// The tools of docs/spec/cogency.md §15 that work on files and run programs, as a manifest sets
// them up.

// ownAnswers are the gate's for tools that no rule names.
var ownAnswers = map[string]messages.GateAnswer{"shell": messages.GateDeny}

// overWorkspace are the tools that need a workspace.
var overWorkspace = []string{"read", "write", "edit", "list", "find", "replace", "shell"}

// workTools returns the tools over the agent's workspace, those of them that it imports.
func (e *Env) workTools(a *Definition, m *manifest.Manifest) ([]tools.Tool, error) {
	if !importsAny(m, overWorkspace...) {
		return nil, nil
	}
	w, err := e.workspace(a, m)
	if err != nil {
		return nil, err
	}
	w.Deny(e.hosts(a, m)...)
	w.Editable(m.Workspace.Editable...)
	w.Bound(m.Workspace.MaxBytes)
	if err := e.Keep(w); err != nil {
		return nil, err
	}
	if e.replays() {
		all := w.Tools()
		if importsAny(m, "shell") {
			all = append(all, workspace.DeclareShell(m.Shell.Timeout))
		}
		return all, nil
	}
	who, err := e.share(m)
	if err != nil {
		return nil, err
	}
	p := &places{share: who, base: w, open: map[string]*place{}, log: cmp.Or(e.Log, zap.NewNop())}
	p.make = func(w *workspace.Workspace, _ []string) ([]tools.Tool, error) { return w.Tools(), nil }
	if importsAny(m, "shell") {
		if err := e.apart(a, m, w); err != nil {
			return nil, err
		}
		c := &shellCaches{dir: filepath.Join(e.Caches, "agent-"+m.Name), temporary: e.Caches == ""}
		if err := e.Keep(c); err != nil {
			return nil, err
		}
		var user *confine.User
		if e.ProgramUser != "" {
			if user, err = confine.FindUser(e.ProgramUser); err != nil {
				return nil, err
			}
		}
		ready := &confine.Ready{}
		if err := e.Keep(ready); err != nil {
			return nil, err
		}
		p.make = func(w *workspace.Workspace, names []string) ([]tools.Tool, error) {
			s := e.shell(a, m, w, c.of(names))
			s.User, s.Ready = user, ready
			shell, err := workspace.NewShell(s)
			return append(w.Tools(), shell), err
		}
	}
	if e.Folders != nil && (who.per == perUser || who.per == perSession) {
		e.Folders.note(w.Dir())
	}
	if err := e.holdApart(a, m, w, who); err != nil {
		return nil, err
	}
	if err := e.Keep(p); err != nil {
		return nil, err
	}
	own, err := p.make(w, nil)
	if err != nil {
		return nil, err
	}
	return p.apart(own), nil
}

// shell returns the settings of the tool shell in a folder.
func (e *Env) shell(a *Definition, m *manifest.Manifest, w *workspace.Workspace, cache func(variable string) (string, error)) workspace.Shell {
	s := m.Shell
	return workspace.Shell{
		Workspace: w, Sandbox: e.Sandbox(), Unconfined: s.Isolation == "none", Mounts: s.Isolation == "namespace", Bubblewrap: s.Isolation == "bubblewrap", Host: e.Own, Network: s.Network, Loopback: s.Loopback,
		Path: a.beside(s.Path), Read: a.beside(s.Read), Write: a.beside(s.Write), Env: s.Environment,
		Caches: s.Caches, Cache: cache, Timeout: s.Timeout, Memory: s.Memory, CPU: s.CPU, Files: s.Files, Processes: s.Processes,
	}
}

// webTools returns the tools of the network that the agent imports.
func (e *Env) webTools(a *Definition, m *manifest.Manifest) (all []tools.Tool, err error) {
	if importsAny(m, "scrape") {
		all = append(all, web.Scrape())
	}
	if !importsAny(m, "search") {
		return all, nil
	}
	backend := a.Search
	switch {
	case e.replays() || backend != nil:
	case m.Search.BaseURL != "":
		backend, err = web.NewSearXNG(m.Search.BaseURL)
	case m.Search.Documents != "":
		backend, err = a.documents(m.Search.Documents)
	default:
		err = &messages.Error{Code: messages.ErrConfig, Field: "search", Detail: "the tool search needs a backend: search.base_url, search.documents, or Agent.Search"}
	}
	if err != nil {
		return nil, err
	}
	return append(all, web.Search(backend)), nil
}

// documents reads what is searched without a network.
func (a *Definition) documents(dir string) (*web.Index, error) {
	root, err := os.OpenRoot(a.beside([]string{dir})[0])
	if err != nil {
		return nil, &messages.Error{Code: messages.ErrConfig, Field: "search.documents", Detail: "the folder cannot be opened", Cause: files.Cause(err)}
	}
	defer root.Close()
	docs, err := web.ReadDocuments(workspace.Apart(root.FS()))
	if err != nil {
		return nil, err
	}
	return web.NewIndex(docs)
}

// beside makes paths of a manifest absolute: they are relative to its folder.
func (a *Definition) beside(paths []string) []string {
	out := slices.Clone(paths)
	for i, p := range out {
		if !filepath.IsAbs(p) {
			p = filepath.Join(a.Dir, p)
		}
		if abs, err := filepath.Abs(p); err == nil { // else NewShell says that it is not there
			p = abs
		}
		out[i] = p
	}
	return out
}

// shellCaches are the folders that programs of an agent keep things in.
type shellCaches struct {
	dir       string
	temporary bool // the runtime has no data directory: they end with it
	mu        sync.Mutex
	made      string
}

// of returns the folders of those who have them together; no names are the agent's own.
func (c *shellCaches) of(names []string) func(variable string) (string, error) {
	return func(variable string) (string, error) {
		return c.folder(filepath.Join(append(slices.Clone(names), variable)...))
	}
}

// folder returns the absolute path of a folder and makes it.
func (c *shellCaches) folder(name string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made == "" {
		dir, err := filepath.Abs(c.dir)
		if c.temporary {
			dir, err = os.MkdirTemp("", "stile-caches-")
		}
		if err != nil {
			return "", err
		}
		c.made = dir
	}
	dir := filepath.Join(c.made, name)
	return dir, os.MkdirAll(dir, 0o700)
}

// Close removes what is temporary.
func (c *shellCaches) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.temporary || c.made == "" {
		return nil
	}
	return os.RemoveAll(c.made)
}

// sandboxDir is the folder of a sandbox that the manifest does not name.
const sandboxDir = "sandbox"

// workspace opens the folder that the tools of docs/spec/cogency.md §15 work in. A replay declares
// them and calls none.
func (e *Env) workspace(a *Definition, m *manifest.Manifest) (*workspace.Workspace, error) {
	if e.replays() {
		return workspace.Open(os.TempDir(), workspace.AccessSandbox)
	}
	access, dir := workspace.Access(m.Workspace.Access), m.Workspace.Root
	if a.Dir == "" && !filepath.IsAbs(dir) {
		return nil, &messages.Error{Code: messages.ErrConfig, Field: "workspace.root", Detail: "the tools that work on files need Agent.Dir, or a root that is a whole path"}
	}
	if dir == "" && (access == "" || access == workspace.AccessSandbox) {
		dir = sandboxDir
		if err := os.Mkdir(filepath.Join(a.Dir, dir), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, &messages.Error{Code: messages.ErrConfig, Field: "workspace.root", Detail: "the folder " + sandboxDir + " cannot be made", Cause: files.Cause(err)}
		}
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(a.Dir, dir)
	}
	return workspace.Open(dir, access)
}
