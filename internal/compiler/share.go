package compiler

import (
	"context"
	"errors"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
	"github.com/seed14be6753/stile/tools/workspace"
)

// What sessions of one agent work with, apart from each other: folders of files, caches of
// programs, connections to MCP servers.

// Who has what together, as workspace.per says it.
const (
	perSession = "session"
	perUser    = "user"
	perTenant  = "tenant"
	perAgent   = "agent"
)

// local is tenant and user of the host's own sessions.
const local = "local"

// share is who has what together.
type share struct {
	per string
	// owned: the host's own user, local:local, is the only one who calls, and has what is
	// the agent's. Where callers are told apart that user is one of them.
	owned bool
}

// share is that of a manifest. One that shares what nothing can hold apart, or does not say
// it where callers are told apart, is refused.
func (e *Env) share(m *manifest.Manifest) (share, error) {
	s := share{per: m.Workspace.Per, owned: !e.Shared}
	access := workspace.Access(m.Workspace.Access)
	bad := func(detail string) (share, error) {
		return s, &messages.Error{Code: messages.ErrConfig, Reason: manifest.ReasonBadValue, Field: "workspace.per", Detail: detail}
	}
	if m.Workspace.MaxBytes > 0 && access == workspace.AccessSystem {
		return s, &messages.Error{Code: messages.ErrConfig, Reason: manifest.ReasonBadValue, Field: "workspace.max_bytes", Detail: "access: system reaches every file, and bounds none: leave it out, or say another access"}
	}
	switch {
	case access == workspace.AccessSystem && s.per != "" && s.per != perAgent:
		return bad("access: system reaches every file, so nothing holds a " + s.per + "'s apart: say agent, or another access")
	case e.Shared && s.per == "" && (access == workspace.AccessSystem || access == workspace.AccessProject):
		return bad("this host tells callers apart, and access: " + string(access) + " is a folder that others use too: say per: agent to let all callers work in it together, or per: user, session or tenant for folders below it")
	case e.Shared && s.per != perAgent && m.Shell.Isolation == "none" && importsAny(m, "shell"):
		return bad("this host tells callers apart, and programs that nothing confines (shell.isolation: none) reach the folders of all: say agent, or confine them")
	case s.per == "" && access == workspace.AccessSystem:
		s.per = perAgent
	case s.per == "":
		s.per = perUser
	}
	return s, nil
}

// of names what a session works with: names of folders, below each other, and the tenant.
// No names are what is the agent's.
func (s share) of(sid string) (names []string, tenant string, err error) {
	if s.per == perAgent || sid == "" && s.owned { // a call outside of any session
		return nil, "", nil
	}
	key, err := messages.ParseSID(sid)
	if err != nil {
		return nil, "", err
	}
	switch s.per {
	case perSession:
		names = []string{key.Tenant, key.User, key.ID}
	case perTenant:
		names = []string{key.Tenant}
	default:
		names = []string{key.Tenant, key.User}
	}
	if s.owned && s.per != perSession && key.Tenant == local && key.User == local {
		return nil, key.Tenant, nil
	}
	for i := range names {
		names[i] = workspace.Part(names[i])
	}
	return append([]string{workspace.UsersDir, s.per}, names...), key.Tenant, nil
}

// maxPlaces bounds the folders of an agent that are held open between calls.
const maxPlaces = 256

// places are the folders of an agent's sessions, with the tools that work in them.
type places struct {
	share share
	base  *workspace.Workspace
	make  func(w *workspace.Workspace, names []string) ([]tools.Tool, error)
	log   *zap.Logger

	mu   sync.Mutex
	open map[string]*place
	turn int64 // counts uses
}

// place is one of them.
type place struct {
	dir  *workspace.Workspace
	run  map[string]func(context.Context, *tools.Call) (tools.Value, error)
	uses int
	last int64
}

// apart has tools of the agent's own folder work in that of the session that calls.
func (p *places) apart(own []tools.Tool) []tools.Tool {
	all := slices.Clone(own)
	for i := range all {
		all[i].Form.Basis = func(sid string) map[string]string {
			names, _, err := p.share.of(sid)
			if err != nil {
				return nil
			}
			return workspace.Basis(filepath.Join(append([]string{p.base.Dir()}, names...)...))
		}
		name, run := all[i].Name, all[i].Run
		all[i].Run = func(ctx context.Context, c *tools.Call) (tools.Value, error) {
			names, _, err := p.share.of(c.SID)
			if err != nil {
				return tools.Value{}, err
			}
			if names == nil {
				return run(ctx, c)
			}
			at, err := p.take(names)
			if err != nil {
				p.log.Warn("a folder of the workspace cannot be opened", zap.Strings("names", names), zap.Error(err))
				return tools.Value{}, catalog.Failed("the folder to work in cannot be opened")
			}
			defer p.leave(at)
			return at.run[name](ctx, c)
		}
	}
	return all
}

// take opens a place, or finds it open; leave is called when the call has ended.
func (p *places) take(names []string) (*place, error) {
	key := path.Join(names...)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn++
	at := p.open[key]
	if at != nil && at.uses == 0 && !at.dir.Stays() {
		delete(p.open, key)
		_ = at.dir.Close() // nothing was written through it
		at = nil
	}
	if at == nil {
		if p.open == nil {
			return nil, errors.New("the runtime has closed")
		}
		p.trim()
		dir, err := p.base.Below(names...)
		if err != nil {
			return nil, err
		}
		all, err := p.make(dir, names)
		if err != nil {
			return nil, errors.Join(err, dir.Close())
		}
		at = &place{dir: dir, run: map[string]func(context.Context, *tools.Call) (tools.Value, error){}}
		for i := range all {
			at.run[all[i].Name] = all[i].Run
		}
		p.open[key] = at
	}
	at.uses++
	at.last = p.turn
	return at, nil
}

func (p *places) leave(at *place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at.uses--
}

// trim closes the place that was not used for the longest time, if there are too many. p.mu is
// held.
func (p *places) trim() {
	if len(p.open) < maxPlaces {
		return
	}
	oldest := ""
	for key, at := range p.open {
		if at.uses == 0 && (oldest == "" || at.last < p.open[oldest].last) {
			oldest = key
		}
	}
	if oldest != "" {
		_ = p.open[oldest].dir.Close() // nothing was written through it
		delete(p.open, oldest)
	}
}

// Close implements io.Closer.
func (p *places) Close() (err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.open {
		err = errors.Join(err, at.dir.Close())
	}
	p.open = nil
	return err
}

// Folders are what programs of a host's agents reach, and the folders of users that they
// must not. Its methods are safe for concurrent use.
type Folders struct {
	mu    sync.Mutex
	users map[string]bool // folders of users
	open  map[string]bool // what programs reach for all callers
	parts map[string]bool // folders of agents that have folders of users
}

// note remembers the folder of an agent whose sessions work in folders of users below it.
func (f *Folders) note(dir string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.parts == nil {
		f.parts = map[string]bool{}
	}
	f.parts[dir] = true
}

// Erase removes the folders of a user, and of the user's sessions, from those of all agents.
// It may be called again until it succeeds.
func (f *Folders) Erase(tenant, user string) (err error) {
	f.mu.Lock()
	dirs := keys(f.parts)
	f.mu.Unlock()
	for _, dir := range dirs {
		for _, per := range []string{perUser, perSession} {
			err = errors.Join(err, workspace.Forget(dir, workspace.UsersDir, per, workspace.Part(tenant), workspace.Part(user)))
		}
	}
	return err
}

// claim notes the folders of users of an agent, "" for none, and those that its programs
// reach for all callers. It reports one of the latter that holds one of users.
func (f *Folders) claim(users string, open []string) (reached string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.users == nil {
		f.users, f.open = map[string]bool{}, map[string]bool{}
	}
	mine := f.users
	if users != "" {
		mine = map[string]bool{users: true}
		for dir := range f.users {
			mine[dir] = true
		}
	}
	for _, dir := range slices.Concat(open, keys(f.open)) {
		for u := range mine {
			if within(u, dir) {
				return dir
			}
		}
	}
	f.users = mine
	for _, dir := range open {
		f.open[dir] = true
	}
	return ""
}

func keys(m map[string]bool) (all []string) {
	for k := range m {
		all = append(all, k)
	}
	return all
}

// within reports whether a path is a folder or below it, links followed.
func within(p, dir string) bool {
	rel, err := filepath.Rel(real(dir), real(p))
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

// real is a path without links, as far as it is there.
func real(p string) string {
	if r, err := filepath.EvalSymlinks(p); err == nil {
		return r
	}
	return filepath.Join(real(filepath.Dir(p)), filepath.Base(p))
}
