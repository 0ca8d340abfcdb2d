// Package stile hosts sessions of language-model agents inside a Go program: one
// turn in flight per session, actions started while the model's reply streams, every
// turn ended by exactly one decision that is verified, journaled and replayable.
//
//	rt, err := stile.New(ctx, stile.Config{})      // SQLite in ./stile-data
//	s, err := rt.Open(ctx, "support-42", agent)
//	run, err := s.Submit(ctx, "hello")
//	text, err := run.Text(ctx)
//
// An Agent comes from a manifest ([LoadAgent], [ParseManifest]) or is written in Go. Its
// tools are Go functions ([DefineTool]); its model is a provider that the manifest names,
// or a [Model] of the program's own, such as [ScriptedModel] in tests.
//
// A Runtime owns everything that it starts: Close stops all of it, and may be called twice.
// Every method is safe for concurrent use unless it says otherwise. Failures are
// *Error values: branch on [CodeOf] or on predicates such as [IsNotFound], not on texts.
//
// Guarantees: a decision is on disk before a subscriber gets it, a restart loses no
// acknowledged record, and a turn that fails ends as HALT with a code. The limits are in
// docs/limits.md.
//
// # Compatibility
//
// From version 1.0 on, what this package and those under "Public packages" in
// ARCHITECTURE.md export keeps its name, type and meaning within a major version.
// Structs may gain fields, so name those that you set; codes, kinds of records and
// members of JSON may be added, so ignore unknown ones. Interfaces that a program
// implements, such as [Model], gain no method. Before 1.0 a release may change an
// exported name, and CHANGELOG.md says how to follow. A package whose comment says that
// it is the host's own promises nothing. A journal that a release wrote is opened,
// verified and replayed by every later one.
package stile

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/actors"
	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/feeds"
	"github.com/seed14be6753/stile/internal/backup"
	"github.com/seed14be6753/stile/internal/budget"
	"github.com/seed14be6753/stile/internal/compiler"
	"github.com/seed14be6753/stile/internal/confine"
	"github.com/seed14be6753/stile/internal/delegate"
	"github.com/seed14be6753/stile/internal/files"
	"github.com/seed14be6753/stile/internal/follow"
	"github.com/seed14be6753/stile/internal/groupcommit"
	"github.com/seed14be6753/stile/internal/keyfile"
	"github.com/seed14be6753/stile/internal/learn"
	"github.com/seed14be6753/stile/internal/lease"
	"github.com/seed14be6753/stile/internal/livestore"
	"github.com/seed14be6753/stile/internal/membership"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/share"
	"github.com/seed14be6753/stile/internal/talk"
	"github.com/seed14be6753/stile/internal/telemetry"
	"github.com/seed14be6753/stile/internal/wake"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/journal/sqlite"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/tools/mcp"
)

// DefaultDir is the data directory of a Runtime whose Config names none.
const DefaultDir = "stile-data"

// JournalFile is the journal's name inside the data directory.
const JournalFile = backup.JournalFile

// DefaultModelSessions is the default of Config.ModelSessions.
const DefaultModelSessions = talk.DefaultMost

// Config configures a Runtime. The zero value works: SQLite and generated keys in
// ./stile-data, the scripted model, no logs.
type Config struct {
	// Dir is the data directory; "" is DefaultDir. It is made with mode 0700.
	Dir string
	// Protect lists files and folders of the host, in addition to Dir, that tools of agents
	// must not read or change, such as TLS keys. One that ends in * is all files whose paths
	// begin so, also later ones.
	Protect []string
	// Shared says that several authenticated users use the runtime, as behind a host with
	// tokens. Then local:local works in a folder of its own like every other user, and an
	// agent with workspace.access: project or system must set workspace.per. Without Shared,
	// local:local works in the agent's folder itself.
	Shared bool
	// InMemory keeps journal and keys in memory: nothing survives Close.
	InMemory bool
	// ReadOnly shows a journal and changes nothing: no session is woken, settled or continued, what
	// would change one is ERR_DENIED, ReasonReadOnly, and no key file is needed. Dir must have
	// a journal; a Store may be open for reading alone. What another runtime writes meanwhile is
	// seen. Agents are passed over.
	ReadOnly bool
	// Store replaces the journal's store, for example by one of journal/postgres that several
	// hosts share. The caller closes it. Keys are still read from Dir.
	Store journal.Store
	// Keys replaces the key file. It must hold a token key, a fallback and, unless
	// receipts are off, a receipt key.
	Keys *keyring.Ring
	// Passphrase seals the key file; empty leaves it protected by its mode alone.
	Passphrase []byte
	// ProgramUser is the user, by name or number, that programs of the tool shell run as; "" is
	// the host's own. The host must be root and have the right to mount: the folders that
	// programs work in are mounted so that the user owns there what the host's user owns.
	// Otherwise agents with shell are refused.
	ProgramUser string
	// Unproved is the policy for a session whose receipts do not prove its history.
	// UnprovedRefuse, the default, refuses to open, continue or fork it with ERR_JOURNAL,
	// reason UNPROVED; it accepts sessions of early versions, whose opening record does not
	// say what is signed. UnprovedStrict refuses also these when nothing is signed.
	// UnprovedGoOn accepts all of them and logs a warning.
	Unproved string
	// Models are the providers that manifests may name. "scripted" is built in. Models
	// takes precedence over Providers.
	Models map[string]llm.Model
	// Providers make models from the model section of manifests: base_url, secret and so on.
	// The key is the provider's name.
	Providers map[string]llm.Provider
	// Databases are further kinds of database for relics, beside the built-in sqlite, such as
	// "postgres": postgres.Open of tools/sql/postgres.
	Databases map[string]Database
	// Dialects are further ones, beside plain, aeiou, cortex, cogency and kitsu.
	Dialects []parse.Dialect
	// Log gets warnings and notices for operators; nil logs nothing.
	Log *zap.Logger
	// Slog is Log for programs that use log/slog. Setting both is ERR_CONFIG.
	Slog *slog.Logger
	// DecisionLog gets one JSON object per decided turn (docs/spec/aeiou.md §17); may be nil.
	// The session writes to it synchronously, sometimes inside Submit: a slow writer
	// delays both.
	DecisionLog io.Writer
	// IdleTimeout is how long a session without work stays in memory; 0 is ten
	// minutes, negative for ever.
	IdleTimeout time.Duration
	// ProgramCacheBytes bounds the cache of parsed programs; 0 is 32 MiB.
	ProgramCacheBytes int64
	// Agents are the agents whose sessions are recovered when the runtime starts: runs that
	// were in flight when the previous process ended, and queued inputs. Their names must
	// differ. Boot limits the rate. Open works with any agent.
	Agents []*Agent
	Boot   Boot
	// Sandbox overrides the detected sandbox support of the kernel, for tests; nil detects
	// it.
	Sandbox func() Sandbox
	// Feeds configures context feeds.
	Feeds Feeds
	// Spending bounds the model tokens and cost of users and sessions.
	Spending Spending
	// Cluster has several runtimes share the sessions of Store.
	Cluster Cluster
	// ModelSessions is how many conversations the runtime keeps open with providers
	// (docs/reference/providers.md#conversations); 0 is DefaultModelSessions. At the limit the
	// one that was idle for longest is closed.
	ModelSessions int

	// Rand and Now replace randomness and clock, for tests. Rand must be safe for
	// concurrent use. A host of a Cluster goes by the clock of its database.
	Rand io.Reader
	Now  func() time.Time
}

// Database opens the backend of a relic. Its argument where returns the URL of the database,
// and is called for each connection.
type Database = compiler.Database

// Sandbox describes the sandbox support of the kernel, in which commands are confined.
type Sandbox = confine.Sandbox

// Runtime runs sessions. Make one with New and end it with Close. Its methods are safe for
// concurrent use.
type Runtime struct {
	cfg      Config
	log      *zap.Logger
	store    *livestore.Store
	ownStore bool
	leave    func() error       // ends this runtime's attendance of the journal
	unwatch  func()             // ends the watch of what other runtimes do
	table    lease.Table        // of the cluster; nil without one
	clock    *membership.Clock  // of its database
	member   *membership.Member // nil without a cluster
	shares   share.Table        // of the cluster
	runs     atomic.Pointer[func() (runs, most int)]
	cancelAt atomic.Pointer[func(context.Context, Peer, messages.ChildLink) error]
	submitAt atomic.Pointer[func(context.Context, Peer, string, messages.ParentLink, messages.Input) (messages.ChildLink, error)]
	writer   *groupcommit.Writer
	keys     *keyring.Ring
	keyFile  string      // "" for keys that are in memory alone
	keysSeen os.FileInfo // of the key file, from before it was read
	sealer   *keyring.Sealer
	keeper   *keyfile.Keeper
	metrics  *telemetry.Metrics
	observer *telemetry.Observer
	host     *actors.Host
	agents   *compiler.Directory
	folders  compiler.Folders
	pool     *mcp.Pool // connections to MCP servers
	feeds    *feeds.Keeper
	cache    *feeds.Cache
	learner  *learn.Learner
	book     *budget.Book    // of Config.Spending; nil without
	held     compiler.Holder // folders and databases that agents hold open

	reloading sync.Mutex               // held by Reload
	offered   atomic.Pointer[[]*Agent] // of the configuration

	closing sync.Once
	done    chan struct{} // closed when Close has done everything
	closed  error
}

// New starts a runtime. Errors: ERR_CONFIG for a setting or the key file, ERR_JOURNAL when
// the store cannot be opened.
func New(ctx context.Context, cfg Config) (_ *Runtime, err error) {
	if cfg.Log != nil && cfg.Slog != nil {
		return nil, &messages.Error{Code: messages.ErrConfig, Field: "slog", Detail: "a runtime has one log: Log or Slog"}
	}
	cfg = cfg.withDefaults()
	if _, err := compiler.Dialects(cfg.Dialects); err != nil {
		return nil, err
	}
	switch cfg.Unproved {
	case "", UnprovedRefuse, UnprovedStrict, UnprovedGoOn:
	default:
		return nil, &messages.Error{Code: messages.ErrConfig, Field: "unproved", Detail: "want refuse, strict or go_on"}
	}
	rt := &Runtime{cfg: cfg, log: cfg.Log, metrics: telemetry.NewMetrics(), done: make(chan struct{}), leave: func() error { return nil }}
	rt.offered.Store(&rt.cfg.Agents)
	var opened []func() error // closed in reverse order when a later step fails
	defer func() {
		if err != nil {
			for _, undo := range slices.Backward(opened) {
				err = errors.Join(err, undo())
			}
		}
	}()
	store, err := rt.openStore()
	if err != nil {
		return nil, err
	}
	rt.store, err = livestore.New(store, rt.metrics)
	opened = append(opened, rt.closeStore)
	if err != nil {
		return nil, err
	}
	if cfg.ReadOnly {
		rt.cfg.Agents, cfg.Agents = nil, nil
	}
	if err := rt.openCluster(ctx, store); err != nil {
		return nil, err
	}
	opened = append(opened, rt.closeTable)
	cfg.Now = rt.cfg.Now
	if rt.keys, err = rt.openKeys(ctx); err != nil {
		return nil, err
	}
	if err := rt.keepKeys(ctx, store); err != nil {
		return nil, err
	}
	opened = append(opened, rt.keeper.Close)
	if err := rt.startFeeds(); err != nil {
		return nil, err
	}
	opened = append(opened, rt.stopFeeds)
	rt.pool = mcp.NewPool(mcp.Options{Secret: os.LookupEnv, Notice: func(server, text string) {
		rt.log.Info("MCP server", zap.String("server", server), zap.String("notice", text))
	}, Changed: rt.toolsChanged, Known: rt.knownTools, Remember: rt.rememberTools})
	opened = append(opened, rt.pool.Close, rt.held.Close)
	alone := true
	if s, ok := store.(attended); ok && !cfg.ReadOnly {
		if alone, rt.leave, err = s.Attend(cfg.Now()); err != nil {
			return nil, err
		}
		opened = append(opened, rt.leave)
	}
	children := &delegate.Runner{Store: rt.store, Spend: rt.spend}
	rt.learner = learn.New(rt.store, rt.metrics, rt.log, cfg.Now)
	rt.agents = compiler.NewDirectory(rt.compileFor(children))
	if err := rt.configure(ctx, cfg.Agents); err != nil {
		return nil, err
	}
	if cfg.Cluster.Address == "" && !alone && len(cfg.Agents) > 0 && !cfg.Boot.Off {
		rt.log.Warn("another runtime works on this journal: sessions that are open in it are left alone")
	}
	if s, ok := store.(interface{ Notices() []string }); ok {
		for _, n := range s.Notices() {
			rt.log.Warn("journal", zap.String("notice", n))
		}
	}
	rt.metrics.SessionsWaiting(waitingSessions(rt.store))
	rt.observer = telemetry.NewObserver(rt.metrics, cfg.DecisionLog, rt.log)
	if l := cfg.Spending; l != (Spending{}) {
		rt.book = budget.NewBook(budget.Limits{UserTokens: l.UserTokensPerDay, UserCost: l.UserCostPerDay, SessionTokens: l.SessionTokens, SessionCost: l.SessionCostMicroUSD})
		rt.observer.Observe(rt.book.Observe)
	}
	rt.writer = groupcommit.New(rt.store, groupcommit.Options{})
	if err := rt.joinCluster(ctx); err != nil {
		rt.writer.Close()
		return nil, err
	}
	var leases membership.Guard
	if rt.member != nil {
		leases.Leases, alone = rt.member, true // what a session has to do is the lease's to say
		if rt.book != nil {
			leases.Leases = counted{rt.member, rt.book}
		}
	}
	rt.host = actors.New(actors.Config{
		Leases: leases,
		Store:  rt.store, Writer: rt.writer, Keys: rt.signer(), Receipts: rt.signer(), Feeds: rt.feeds,
		Observer: rt.observer, Log: rt.log, SLog: telemetry.Slog(rt.log.Named("actors")),
		Programs: neuroscript.NewCache(cfg.ProgramCacheBytes), Rand: cfg.Rand, Now: cfg.Now, IdleTimeout: cfg.IdleTimeout,
		Agent: rt.agents.Find, Relics: rt.agents.Relics, Alone: alone && !cfg.Boot.Off && !cfg.ReadOnly, Proofs: rt.proofs(),
		Closed: cfg.readOnly(),
		Boot:   wake.Boot{On: len(cfg.Agents) > 0, Concurrency: cfg.Boot.Concurrency, PerSecond: cfg.Boot.PerSecond}, ModelSessions: cfg.ModelSessions,
	})
	children.Host, rt.learner.Host = rt.host, rt.host
	if rt.member != nil {
		rt.host.Waker().CancelAt, children.SubmitAt = rt.cancelChildAt, rt.submitToChildAt
		rt.member.Start()
	}
	rt.host.Start()
	rt.unwatch = rt.watch()
	return rt, nil
}

// compileFor is the environment in which this runtime compiles its agents.
func (rt *Runtime) compileFor(children compiler.Sessions) *compiler.Env {
	env := rt.cfg.compiler(compiler.Run)
	env.Pool, env.Store, env.Cache, env.Keep = rt.pool, rt.store, rt.cache, rt.held.Keep
	env.Sessions, env.Profiles, env.ModelCalled = children, rt.learner, rt.metrics.ModelCalled
	env.Folders = &rt.folders
	env.Neighbours = rt.neighbours
	if !rt.cfg.InMemory {
		env.Caches = filepath.Join(rt.cfg.Dir, "caches")
	}
	return env
}

// compile makes an agent ready, once.
func (rt *Runtime) compile(ctx context.Context, a *Agent) (*compiler.Agent, error) {
	if c := rt.agents.Ready(a); c != nil {
		return c, nil
	}
	if a != nil {
		rt.keeper.Retain(a.Retention())
	}
	c, err := rt.agents.Agent(ctx, a, a.definition(lineage{}))
	return c, closedError(err)
}

// attended is a store that tracks which runtimes have it open.
type attended interface {
	Attend(now time.Time) (alone bool, leave func() error, err error)
}

const defaultProgramCache = 32 << 20

// withDefaults fills in what is not set.
func (c Config) withDefaults() Config {
	if c.Dir == "" {
		c.Dir = DefaultDir
	}
	if c.Rand == nil {
		c.Rand = rand.Reader
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Sandbox == nil {
		c.Sandbox = confine.Probe
	}
	if len(c.Passphrase) == 0 {
		c.Passphrase = nil // to the key ring an empty passphrase is a mistake
	}
	if c.Slog != nil {
		c.Log = telemetry.Zap(c.Slog.Handler())
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	if c.ProgramCacheBytes == 0 {
		c.ProgramCacheBytes = defaultProgramCache
	}
	return c
}

func (rt *Runtime) openStore() (journal.Store, error) {
	switch {
	case rt.cfg.Store != nil:
		return rt.cfg.Store, nil
	case rt.cfg.InMemory:
		rt.ownStore = true
		return memory.New(), nil
	}
	open := sqlite.Options{Path: filepath.Join(rt.cfg.Dir, JournalFile), ReadOnly: rt.cfg.ReadOnly}
	if rt.cfg.ReadOnly {
		if err := journalIn(rt.cfg.Dir); err != nil {
			return nil, err
		}
	} else if err := files.MakeDir(rt.cfg.Dir); err != nil {
		return nil, err
	}
	store, err := sqlite.Open(open)
	rt.ownStore = err == nil
	rt.metrics.JournalFile(filepath.Join(rt.cfg.Dir, JournalFile))
	return store, err
}

// Bounds of counting the sessions that wait.
const (
	maxWaiting  = 10000
	waitingPage = 500
	waitingTime = 2 * time.Second
)

// waitingSessions counts the sessions that wait for a person, for the metrics: as many as before
// while the journal does not answer.
func waitingSessions(store journal.Store) func() float64 {
	var last atomic.Int64
	return func() float64 {
		ctx, cancel := context.WithTimeout(context.Background(), waitingTime)
		defer cancel()
		n, after := 0, int64(0)
		for n < maxWaiting {
			heads, err := store.Wakes(ctx, after, waitingPage)
			if err != nil {
				return float64(last.Load())
			}
			if n += len(heads); len(heads) < waitingPage {
				break
			}
			after = heads[len(heads)-1].Wake
		}
		n = min(n, maxWaiting)
		last.Store(int64(n))
		return float64(n)
	}
}

func (rt *Runtime) closeStore() error {
	rt.store.CloseCache()
	if !rt.ownStore {
		return nil
	}
	return rt.store.Store.Close()
}

// closedError makes the end of the runtime a typed error.
func closedError(err error) error { return follow.Closed(err) }

// follow is the hub and store from which subscribers of the runtime's sessions read.
func (rt *Runtime) follow() follow.Source { return follow.Source{Hub: rt.host.Hub(), Store: rt.store} }

// Metrics are the Prometheus metrics of a runtime.
type Metrics = telemetry.Metrics

// Metrics returns the runtime's metrics. They are in a registry of their own.
func (rt *Runtime) Metrics() *Metrics { return rt.metrics }

// ReasonReadOnly means that the runtime shows a journal and changes nothing (Config.ReadOnly).
const ReasonReadOnly = "READ_ONLY"

// readOnly is why nothing may be asked of a session; nil where everything may.
func (c *Config) readOnly() error {
	if !c.ReadOnly {
		return nil
	}
	return &messages.Error{Code: messages.ErrDenied, Reason: ReasonReadOnly, Detail: "the journal is only shown: nothing in it runs or is changed"}
}

// ReadOnly reports whether Config.ReadOnly was set.
func (rt *Runtime) ReadOnly() bool { return rt.cfg.ReadOnly }

// Shared reports whether Config.Shared was set.
func (rt *Runtime) Shared() bool { return rt.cfg.Shared }

// Observe calls f with every record that becomes durable from now on, of every session,
// before subscribers get the record. Records of one session come in order. f is called from
// many goroutines, sometimes inside Submit; it must not block, call Observe or change the
// record. stop removes f.
func (rt *Runtime) Observe(f func(*Record)) (stop func()) { return rt.observer.Observe(f) }

// ObserveAgents is Observe with the name of the agent that the session has; "" if its manifest has none.
func (rt *Runtime) ObserveAgents(f func(agent string, r *Record)) (stop func()) {
	return rt.observer.ObserveAgents(f)
}

// Journal counts commits and records since New.
func (rt *Runtime) Journal() *journal.Metrics { return rt.writer.Metrics() }

// Counters are counts of events without a record: turns in flight, late answers, orphans.
func (rt *Runtime) Counters() *actors.Counters { return rt.host.Counters() }

// ProbePause is the least time between two attempts of Writable to write to a journal that
// failed.
const ProbePause = livestore.ProbePause

// Writable reports whether the journal accepts appends: it returns nil, or the error of the
// last commit, ERR_JOURNAL. While commits succeed it does no I/O. After a failed commit it
// reopens the journal and writes one small value, at most once every ProbePause, until that
// write succeeds.
func (rt *Runtime) Writable(ctx context.Context) error {
	return closedError(rt.store.Writable(ctx, rt.writer, rt.cfg.Now()))
}

// Spending returns Config.Spending.
func (rt *Runtime) Spending() Spending { return rt.cfg.Spending }

// SessionsInMemory returns the number of sessions that are awake.
func (rt *Runtime) SessionsInMemory() int { return rt.host.Sessions() }

// Close stops every session, writes all accepted records, and closes the journal last.
// The next start recovers turns in flight. Close waits up to five seconds for tools that
// ignore their cancelled context. When ctx ends first, Close returns ctx's error and
// finishes in the background.
func (rt *Runtime) Close(ctx context.Context) error {
	rt.closing.Do(func() {
		go func() {
			defer close(rt.done)
			rt.unwatch()
			rt.learner.Close()
			if rt.closed = rt.host.Stop(context.WithoutCancel(ctx)); rt.closed != nil {
				return
			}
			rt.closed = rt.stopFeeds()
			rt.writer.Close()
			rt.resign()
			rt.closed = errors.Join(rt.closed, rt.keeper.Close(), rt.pool.Close(), rt.held.Close(), rt.closeStore(), rt.leave())
		}()
	})
	select {
	case <-rt.done:
		return rt.closed
	case <-ctx.Done():
		return ctx.Err()
	}
}
