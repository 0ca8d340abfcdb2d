package compiler

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools/mcp"
)

// Directory caches the agents of a host and finds the agent of a session. A definition is
// compiled once, and again when one of its MCP servers offers other tools. It is safe for
// concurrent use.
type Directory struct {
	env   *Env
	byKey sync.Map                      // the caller's key of a definition → *Agent
	there sync.Map                      // set of all compiled *Agent, children and keepers too
	own   atomic.Pointer[configuration] // replaced as a whole

	mu    sync.Mutex
	named map[messages.Digest]string // names in the journal's manifests
}

// configuration is the agents that a host was configured with.
type configuration struct {
	keys    []any
	digests map[messages.Digest]*Agent
	names   map[string]*Agent
}

// NewDirectory returns an empty directory. It writes manifests in effect to the store of env.
func NewDirectory(env *Env) *Directory {
	d := &Directory{env: env, named: map[messages.Digest]string{}}
	d.own.Store(&configuration{})
	return d
}

// Keyed is a definition with the caller's key of it.
type Keyed struct {
	Key        any
	Definition *Definition
}

// Configure compiles the agents of the configuration, whose sessions the host recovers at its
// start. They replace the agents of the configuration before as a whole: if one cannot be
// compiled, all stay as they were. Sessions that are awake keep the agent that they have. An agent
// whose MCP server cannot be reached, or does not offer what is pinned, is compiled when it is
// opened: the host starts without it.
func (d *Directory) Configure(ctx context.Context, all []Keyed) error {
	before := d.own.Load()
	next := &configuration{digests: map[messages.Digest]*Agent{}, names: map[string]*Agent{}}
	var fresh []any
	for _, a := range all {
		if _, known := d.byKey.Load(a.Key); !known {
			fresh = append(fresh, a.Key)
		}
		c, err := d.Agent(ctx, a.Key, a.Definition)
		if mcp.Unreachable(err) || mcp.Differs(err) {
			d.env.Log.Warn("sessions of an agent wait until it is opened", zap.Error(err))
			continue
		}
		if name := ""; err == nil {
			if name = c.Name(); name != "" && next.names[name] != nil {
				err = &messages.Error{Code: messages.ErrConfig, Field: "agents", Detail: "two agents are named " + name}
			} else if name != "" {
				next.names[name] = c
			}
		}
		if err != nil {
			d.drop(fresh)
			return err
		}
		next.keys = append(next.keys, a.Key)
		next.digests[c.Digest()] = c
	}
	d.own.Store(next)
	d.drop(slices.DeleteFunc(slices.Clone(before.keys), func(k any) bool { return slices.Contains(next.keys, k) }))
	return nil
}

// drop forgets compiled agents by the keys of their definitions.
func (d *Directory) drop(keys []any) {
	for _, k := range keys {
		if v, ok := d.byKey.LoadAndDelete(k); ok {
			v.(*Agent).walk(func(c *Agent) { d.there.Delete(c) })
		}
	}
}

// Ready returns the compiled agent of a key, or nil if it must be compiled, for the first time
// or again.
func (d *Directory) Ready(key any) *Agent {
	if v, ok := d.byKey.Load(key); ok && !v.(*Agent).stale() {
		return v.(*Agent)
	}
	return nil
}

// Agent returns the compiled agent of a definition, which key names, and compiles it if needed.
// A failure is not cached.
func (d *Directory) Agent(ctx context.Context, key any, a *Definition) (*Agent, error) {
	if c := d.Ready(key); c != nil {
		return c, nil
	}
	v, _ := d.byKey.Load(key)
	before, _ := v.(*Agent)
	if a == nil {
		return nil, &messages.Error{Code: messages.ErrConfig, Field: "agent", Detail: "is nil"}
	}
	c, err := Compile(ctx, d.env, a)
	switch {
	case before != nil && err != nil && !mcp.Differs(err): // the compiled agent stays in use, unless a pin does not match
		d.env.Log.Warn("an agent keeps the tools it had", zap.String("agent", before.Name()), zap.Error(err))
		return before, nil
	case err != nil:
		return nil, err
	case before != nil && c.Digest() == before.Digest():
		before.servers.Store(c.servers.Load())
		return before, nil
	}
	if err := d.keepManifests(ctx, c); err != nil {
		return nil, err
	}
	if before != nil {
		if d.byKey.CompareAndSwap(key, before, c) {
			before.walk(func(c *Agent) { d.there.Delete(c) })
			c.walk(func(c *Agent) { d.there.Store(c, nil) })
		}
		return c, nil
	}
	actual, loaded := d.byKey.LoadOrStore(key, c)
	if !loaded {
		c.walk(func(c *Agent) { d.there.Store(c, nil) })
	}
	return actual.(*Agent), nil
}

// walk calls f for an agent, its children and its keeper. The recursion is as deep as agents
// nest.
func (c *Agent) walk(f func(*Agent)) {
	f(c)
	for _, child := range c.Children {
		child.walk(f)
	}
	if c.Keeper != nil {
		c.Keeper.walk(f)
	}
}

// ManifestKey returns the meta key under which a journal keeps a manifest that its sessions ran
// under, so that a session can be replayed from the data directory alone.
func ManifestKey(d messages.Digest) string { return "manifest/" + d.String() }

// keepManifests stores the manifests in effect beside the records, for replay.
func (d *Directory) keepManifests(ctx context.Context, c *Agent) (err error) {
	c.walk(func(c *Agent) {
		key := ManifestKey(c.Digest())
		if err != nil {
			return
		}
		if _, err = d.env.Store.Meta(ctx, key); journal.IsNotFound(err) {
			err = d.env.Store.PutMeta(ctx, key, c.Manifest.Canonical())
		}
	})
	return err
}

// relics is the key of the agent that Relics returns.
type relics struct{}

// Relics returns the agent of the sessions in which relics of users and tenants are kept. Such a
// session has no runs: nothing asks its model.
func (d *Directory) Relics(ctx context.Context) (*compiled.Agent, error) {
	m := manifest.Default("plain")
	m.Name = messages.RelicsID
	c, err := d.Agent(ctx, relics{}, &Definition{Manifest: m, Model: scripted.New()})
	if err != nil {
		return nil, err
	}
	return c.Actor, nil
}

// Find is Of for the actors.
func (d *Directory) Find(ctx context.Context, head *journal.Head) (*compiled.Agent, error) {
	c, err := d.Of(ctx, head)
	if c == nil || err != nil {
		return nil, err
	}
	return c.Actor, nil
}

// Running returns the agent of a session that is awake; nil if the agent was replaced meanwhile.
func (d *Directory) Running(actor *compiled.Agent) *Agent {
	if actor == nil {
		return nil
	}
	return d.compiled(func(c *Agent) bool { return c.Actor == actor })
}

// Of returns the agent whose manifest a session last ran under, or else the agent of the same
// name, because a manifest may have been edited meanwhile. It returns nil if no agent matches
// the session.
func (d *Directory) Of(ctx context.Context, head *journal.Head) (*Agent, error) {
	digest, err := lastManifest(ctx, d.env.Store, head)
	if err != nil {
		return nil, err
	}
	own := d.own.Load()
	if c := own.digests[digest]; c != nil {
		return c, nil
	}
	if c := d.compiled(func(c *Agent) bool { return c.Digest() == digest }); c != nil {
		return c, nil
	}
	name, err := d.nameOf(ctx, digest)
	if err != nil || name == "" {
		return nil, err
	}
	if c := own.names[name]; c != nil {
		return c, nil
	}
	return d.compiled(func(c *Agent) bool { return c.Name() == name }), nil
}

// Known returns the agent of a manifest, or else of its name, or nil. It does not read the
// journal: use Of to run the session.
func (d *Directory) Known(digest messages.Digest, name string) *Agent {
	own := d.own.Load()
	if c := own.digests[digest]; c != nil {
		return c
	}
	if c := own.names[name]; c != nil && name != "" {
		return c
	}
	return d.compiled(func(c *Agent) bool { return c.Digest() == digest || name != "" && c.Name() == name })
}

// LastName returns the name in the manifest that a session last ran under; "" if the journal
// does not have the manifest.
func (d *Directory) LastName(ctx context.Context, head *journal.Head) (string, error) {
	digest, err := lastManifest(ctx, d.env.Store, head)
	if err != nil {
		return "", err
	}
	return d.nameOf(ctx, digest)
}

// compiled finds one of the agents that were compiled here.
func (d *Directory) compiled(match func(*Agent) bool) (found *Agent) {
	d.there.Range(func(c, _ any) bool {
		if c := c.(*Agent); match(c) {
			found = c
		}
		return found == nil
	})
	return found
}

// maxManifests bounds the cached names.
const maxManifests = 4096

// nameOf returns the name in a manifest that the journal keeps, or "".
func (d *Directory) nameOf(ctx context.Context, digest messages.Digest) (string, error) {
	d.mu.Lock()
	name, ok := d.named[digest]
	d.mu.Unlock()
	if ok {
		return name, nil
	}
	doc, err := d.env.Store.Meta(ctx, ManifestKey(digest))
	if err != nil && !journal.IsNotFound(err) {
		return "", err
	}
	if err == nil {
		m, err := ParseKept(doc, d.env.Dialects)
		if err == nil {
			name = m.Name
		} else { // a manifest of a newer version, which cannot run here
			d.env.Log.Warn("a manifest in the journal cannot be read", zap.Error(err))
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.named) < maxManifests {
		d.named[digest] = name
	}
	return name, nil
}

// lastManifest returns the digest of the manifest that the session's records name last. It
// reads them from the end, because an open turn began few records ago. They are checked
// against the head, because the manifest has the rights of the session.
func lastManifest(ctx context.Context, store journal.Store, head *journal.Head) (messages.Digest, error) {
	if head.Seq == 0 {
		return messages.Digest{}, nil
	}
	for r, err := range journal.BackwardHeld(ctx, store, head.Inc, 0, journal.Anchor{Seq: head.Seq, Hash: head.Hash}) {
		if err != nil {
			return messages.Digest{}, err
		}
		switch r.Body.Kind() {
		case messages.KindSessionOpened, messages.KindTurnBegin, messages.KindTurnRestored:
		default:
			continue
		}
		if r, err = journal.Typed(r); err != nil {
			return messages.Digest{}, err
		}
		var found messages.Digest
		switch b := r.Body.(type) {
		case *messages.SessionOpened:
			found = b.Manifest
		case *messages.TurnBegin:
			found = b.Manifest
		case *messages.TurnRestored:
			found = b.Manifest
		}
		if !found.IsZero() {
			return found, nil
		}
	}
	return messages.Digest{}, nil
}
