package stile

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/actors"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/profile"
	"github.com/seed14be6753/stile/tools/mcp"
)

// Boot says how a runtime takes up what was open when the process before it ended.
// It does so for the sessions of Config.Agents; every other session waits until it
// is opened (docs/decisions/011).
type Boot struct {
	// Off leaves every session alone until it is opened, also suspended ones whose
	// approvals expire.
	Off bool
	// Concurrency bounds how many sessions are loaded and settled at once; 0 is 16.
	Concurrency int
	// PerSecond bounds how many are begun in a second; 0 is 50. Each may go on with a
	// turn, and asks its model then.
	PerSecond int
}

// BootReport tells what the boot scan did.
type BootReport = actors.BootReport

// Booted waits until the scan of the start is over, and tells what it did: how many
// sessions had something open, how many of them run again or have ended, how many
// wait to be opened because none of Config.Agents is theirs. Without Config.Agents
// there is no scan. The error is the journal's, or ctx's.
func (rt *Runtime) Booted(ctx context.Context) (BootReport, error) { return rt.host.Boot(ctx) }

// attended is a store that knows which runtimes work on it.
type attended interface {
	Attend(now time.Time) (alone bool, leave func() error, err error)
}

// attend says that a runtime works on this journal, and tells whether what is open
// in it is nobody else's.
func (rt *Runtime) attend() (alone bool, err error) {
	if s, ok := rt.store.(attended); ok {
		alone, rt.leave, err = s.Attend(rt.cfg.Now())
		return alone, err
	}
	return true, nil
}

// boot prepares what the host wakes by itself: it compiles the agents of the
// configuration, so that a mistake in one of them is found at the start.
func (rt *Runtime) boot(ctx context.Context, to *actors.Config) error {
	alone, err := rt.attend()
	if err != nil {
		return err
	}
	k := &rt.known
	k.rt, k.digests, k.names, k.named = rt, map[messages.Digest]*compiled{}, map[string]*compiled{}, map[messages.Digest]string{}
	for _, a := range rt.cfg.Agents {
		c, err := rt.compile(ctx, a)
		if mcp.Unreachable(err) {
			// A host must not stay down because another one is.
			rt.log.Warn("sessions of an agent wait until it is opened", zap.Error(err))
			continue
		}
		if err != nil {
			return err
		}
		if name := c.agent.Name; name != "" {
			if k.names[name] != nil {
				return &messages.Error{Code: messages.ErrConfig, Field: "agents", Detail: "two agents are named " + name}
			}
			k.names[name] = c
		}
		k.digests[c.agent.Rules.ManifestDigest] = c
	}
	if !alone && len(rt.cfg.Agents) > 0 && !rt.cfg.Boot.Off {
		rt.log.Warn("another runtime works on this journal: sessions that are open in it are left alone")
	}
	to.Agent, to.Alone = k.find, alone && !rt.cfg.Boot.Off
	to.Boot = actors.Boot{On: len(rt.cfg.Agents) > 0, Concurrency: rt.cfg.Boot.Concurrency, PerSecond: rt.cfg.Boot.PerSecond}
	return nil
}

// known finds the agents of sessions, among those of the configuration and those
// that sessions were opened with here.
type known struct {
	rt      *Runtime
	digests map[messages.Digest]*compiled
	names   map[string]*compiled

	mu    sync.Mutex
	named map[messages.Digest]string // names in the journal's manifests
}

// find gives the agent whose manifest the session was last seen under, or else the
// one of the same name: a manifest may have been edited meanwhile.
func (k *known) find(ctx context.Context, head *journal.Head) (*actors.Agent, error) {
	c, err := k.lookup(ctx, head)
	if c == nil || err != nil {
		return nil, err
	}
	return c.agent, nil
}

// awake gives the agent under which a session runs here, without a look at the journal;
// nil when it sleeps.
func (k *known) awake(sid string) *compiled {
	agent := k.rt.host.Agent(sid)
	if agent == nil {
		return nil
	}
	return k.opened(func(c *compiled) bool { return c.agent == agent })
}

// lookup is find, with all that is compiled; nil when nobody here knows the agent.
func (k *known) lookup(ctx context.Context, head *journal.Head) (*compiled, error) {
	d, err := lastManifest(ctx, k.rt.store, head)
	if err != nil {
		return nil, err
	}
	if c := k.digests[d]; c != nil {
		return c, nil
	}
	if c := k.opened(func(c *compiled) bool { return c.agent.Rules.ManifestDigest == d }); c != nil {
		return c, nil
	}
	name, err := k.nameOf(ctx, d)
	if err != nil || name == "" {
		return nil, err
	}
	if c := k.names[name]; c != nil {
		return c, nil
	}
	if c := k.opened(func(c *compiled) bool { return c.agent.Name == name }); c != nil {
		return c, nil
	}
	return nil, nil
}

// opened finds one of the agents that were compiled here.
func (k *known) opened(match func(*compiled) bool) (found *compiled) {
	k.rt.agents.Range(func(_, v any) bool {
		if c := v.(*compiled); match(c) {
			found = c
		}
		return found == nil
	})
	return found
}

// maxManifests bounds the names that are remembered.
const maxManifests = 4096

// nameOf reads the name in a manifest that the journal keeps; "" when there is none.
func (k *known) nameOf(ctx context.Context, d messages.Digest) (string, error) {
	k.mu.Lock()
	name, ok := k.named[d]
	k.mu.Unlock()
	if ok {
		return name, nil
	}
	doc, err := k.rt.store.Meta(ctx, manifestKey(d))
	if err != nil && !journal.IsNotFound(err) {
		return "", err
	}
	if err == nil {
		m, err := manifest.Parse("manifest", doc, profile.Name)
		if err == nil {
			name = m.Name
		} else { // of a release that knew more: not ours to run
			k.rt.log.Warn("a manifest in the journal cannot be read", zap.Error(err))
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.named) < maxManifests {
		k.named[d] = name
	}
	return name, nil
}

// lastManifest is the digest of the manifest that the session's records name last.
// It looks from the end: what is open began a moment ago, in records.
func lastManifest(ctx context.Context, store journal.Store, head *journal.Head) (messages.Digest, error) {
	for to, window := head.Seq, int64(64); to > 0; window *= 4 {
		from := max(1, to-window+1)
		var found messages.Digest
		for r, err := range store.Read(ctx, head.Inc, from, to) {
			if err != nil {
				return messages.Digest{}, err
			}
			switch r.Body.Kind() {
			case messages.KindSessionOpened, messages.KindTurnBegin, messages.KindTurnRestored:
			default:
				continue
			}
			if r, err = typed(r); err != nil {
				return messages.Digest{}, err
			}
			switch b := r.Body.(type) {
			case *messages.SessionOpened:
				found = b.Manifest
			case *messages.TurnBegin:
				found = b.Manifest
			case *messages.TurnRestored:
				found = b.Manifest
			}
		}
		if !found.IsZero() {
			return found, nil
		}
		to = from - 1
	}
	return messages.Digest{}, nil
}

// Status says in a word what a session is about.
type Status string

// The statuses of sessions.
const (
	StatusIdle    Status = "idle"    // nothing is open
	StatusRunning Status = "running" // a run is in flight
	// StatusSuspended: the run in flight waits for an approval.
	StatusSuspended Status = "suspended"
	// StatusInterrupted: a run or an input is open, and nobody is at it. It goes on
	// when the session is opened, or when a runtime starts that knows its agent.
	StatusInterrupted Status = "interrupted"
	StatusClosed      Status = "closed"
	StatusRetired     Status = "retired" // another incarnation has its name now
)

// Status tells what a session that was listed is about. A runtime's own archive
// knows what runs in it. Any other looks whether a runtime works on the journal, and
// whether it has touched the session since it started.
func (a *Archive) Status(ctx context.Context, h journal.Head) (Status, error) {
	switch {
	case !h.Live:
		return StatusRetired, nil
	case h.Closed:
		return StatusClosed, nil
	case h.Suspended():
		return StatusSuspended, nil
	case !h.Open && h.Queued == 0:
		return StatusIdle, nil
	}
	running, err := a.running(ctx, h)
	if err != nil || running {
		return StatusRunning, err
	}
	return StatusInterrupted, nil
}

func (a *Archive) running(ctx context.Context, h journal.Head) (bool, error) {
	if a.awake != nil {
		return a.awake(h.SID), nil
	}
	store, ok := a.store.(interface {
		Attended() (since time.Time, attended bool, err error)
	})
	if !ok {
		return false, nil
	}
	since, attended, err := store.Attended()
	if err != nil || !attended {
		return false, err
	}
	for r, err := range a.store.Read(ctx, h.Inc, h.Seq, h.Seq) {
		if err != nil {
			return false, err
		}
		return !r.TS.Before(since), nil
	}
	return false, nil
}
