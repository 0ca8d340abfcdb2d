package compiler

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed14be6753/stile/internal/confine"
	"github.com/seed14be6753/stile/internal/files"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools/workspace"
)

// What belongs to the host is out of the reach of an agent's tools.

// hosts are the files of the host that tools of an agent leave alone: the host's, those
// that the agent and its neighbours were read from, and programs that their tools and
// servers are.
func (e *Env) hosts(a *Definition, m *manifest.Manifest) []string {
	if e.replays() {
		return nil
	}
	all := slices.Concat(e.Own, a.made(m))
	if e.Neighbours != nil {
		for _, n := range e.Neighbours() {
			all = append(all, n.made(n.Manifest)...)
		}
	}
	return all
}

// made are the files that an agent is made of, and its children.
func (a *Definition) made(m *manifest.Manifest) []string {
	all := slices.Clone(a.Files)
	if m != nil {
		var programs []string
		for i := range m.Define.Tools {
			programs = append(programs, m.Define.Tools[i].Implementation.Entrypoint...)
		}
		for i := range m.Import.MCP {
			programs = append(programs, m.Import.MCP[i].Command...)
		}
		for _, p := range a.beside(programs) { // also scripts that an interpreter is given
			if info, err := os.Stat(p); err == nil && info.Mode().IsRegular() {
				all = append(all, p)
			}
		}
	}
	return all
}

// reach is what a program of a manifest may reach; nil is everything. name is as the manifest
// has the program.
func (e *Env) reach(a *Definition, m *manifest.Manifest, d *manifest.Confine, name string) (*confine.Reach, error) {
	if e.replays() || !confine.Supported || d.Kind() == manifest.IsolationNone {
		return nil, nil
	}
	r := &confine.Reach{Sandbox: e.Sandbox(), Guard: d.Kind() == manifest.IsolationGuard, Network: d.Network, Loopback: d.Loopback, Apart: absolute(e.Own), Kept: absolute(a.made(m))}
	if e.Neighbours != nil {
		for _, n := range e.Neighbours() {
			r.Kept = append(r.Kept, absolute(n.made(n.Manifest))...)
		}
	}
	program := ""
	if strings.Contains(name, "/") {
		program = a.beside([]string{name})[0]
	}
	if !r.Guard {
		r.Read, r.Write = a.beside(d.Read), a.beside(d.Write)
		for _, part := range []struct {
			key   string
			paths []string
		}{{"read", r.Read}, {"write", r.Write}} {
			for i, p := range part.paths {
				if _, err := os.Stat(p); err != nil {
					return nil, &messages.Error{Code: messages.ErrConfig, Field: fmt.Sprintf("confine.%s[%d]", part.key, i), Detail: "is not there, or cannot be opened", Cause: files.Cause(err)}
				}
			}
		}
		if a.Dir != "" {
			r.Read = append(r.Read, a.beside([]string{"."})...)
		}
		if program != "" {
			r.Read = append(r.Read, program)
		}
	}
	return r, messages.At(r.Check(program), "confine")
}

func absolute(paths []string) []string {
	all := make([]string, 0, len(paths))
	for _, p := range paths {
		if abs, err := filepath.Abs(p); err == nil {
			all = append(all, abs)
		}
	}
	return all
}

// apart refuses a shell whose programs would reach files of the host: Landlock opens
// folders and cannot leave out a part of one. A mount namespace can, of what exists.
func (e *Env) apart(a *Definition, m *manifest.Manifest, w *workspace.Workspace) error {
	if m.Shell.Isolation == "none" {
		return nil // all that the host's user can reach is open
	}
	holds := (*workspace.Workspace).Holds
	if e.Sandbox().Mounts || m.Shell.Isolation == "bubblewrap" {
		holds = (*workspace.Workspace).Bare
	}
	for field, folders := range map[string][]string{"workspace.root": {w.Dir()}, "shell.write": a.beside(m.Shell.Write)} {
		if p := holds(w, folders...); p != "" {
			return e.reaches(field, p)
		}
		// What is hidden takes what lies in it along.
		if p := w.Holds(folders...); p != "" && len(m.Shell.Caches) > 0 && e.Caches != "" && below(e.Caches, p) {
			return e.reaches(field, p)
		}
	}
	for field, folders := range map[string][]string{"shell.read": a.beside(m.Shell.Read), "shell.path": a.beside(m.Shell.Path)} {
		for _, p := range e.Own { // an agent's own files may be read
			only := workspace.Workspace{}
			only.Deny(p)
			if holds(&only, folders...) != "" {
				return e.reaches(field, p)
			}
		}
	}
	return nil
}

// holdApart refuses programs that would reach the folders of users, of this agent or of
// another one of the host, for all callers.
func (e *Env) holdApart(a *Definition, m *manifest.Manifest, w *workspace.Workspace, who share) error {
	if !e.Shared || e.Folders == nil {
		return nil
	}
	users := filepath.Join(w.Dir(), workspace.UsersDir)
	if who.per == perAgent {
		users = ""
	}
	var open []string
	if importsAny(m, "shell") && m.Shell.Isolation != "none" {
		open = slices.Concat(a.beside(m.Shell.Write), a.beside(m.Shell.Read), a.beside(m.Shell.Path))
		if who.per == perAgent {
			open = append(open, w.Dir())
		}
	}
	if dir := e.Folders.claim(users, open); dir != "" {
		return &messages.Error{Code: messages.ErrConfig, Reason: manifest.ReasonBadValue, Field: "workspace.per", Detail: "programs of the tool shell would reach the folders of users in " + filepath.Base(dir) + ": give the agents folders (workspace.root, shell.read, shell.write) of which none holds the other's"}
	}
	return nil
}

// below reports whether a path is a folder or in it.
func below(p, folder string) bool {
	rel, err := filepath.Rel(folder, p)
	return err == nil && filepath.IsLocal(rel)
}

func (e *Env) reaches(field, p string) error {
	return &messages.Error{Code: messages.ErrConfig, Reason: manifest.ReasonBadValue, Field: field, Detail: "programs of the tool shell would reach " + filepath.Base(p) + ", which is the host's; keep the data directory elsewhere (--dir), or name a folder of its own in workspace.root"}
}
