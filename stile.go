// Package stile hosts sessions of language-model agents inside a Go program: one
// turn in flight per session, the model's reply acted on while it streams, every
// turn ended by exactly one decision that is verified, journaled and replayable.
//
//	rt, err := stile.New(ctx, stile.Config{})      // SQLite in ./stile-data
//	s, err := rt.Open(ctx, "support-42", agent)
//	run, err := s.Submit(ctx, "hello")
//	d, err := run.Decision(ctx)
//
// A Runtime owns what it starts: Close ends it all, and is safe to call twice.
// Every method is safe for concurrent use unless it says otherwise. Failures are
// *messages.Error values; compare codes, not texts.
//
// What a decision promises: it is on disk before anyone sees it, nothing that was
// acknowledged is forgotten by a restart, and a turn that could not end well ends
// as HALT with a code. What it does not promise is in docs/reference.md.
package stile

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"path/filepath"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/actors"
	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/crypto/token"
	"github.com/seed14be6753/stile/feeds"
	"github.com/seed14be6753/stile/internal/confine"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/telemetry"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/journal/sqlite"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/aeiou"
	"github.com/seed14be6753/stile/parse/cogency"
	"github.com/seed14be6753/stile/parse/cortex"
	"github.com/seed14be6753/stile/parse/kitsu"
	"github.com/seed14be6753/stile/parse/plain"
	"github.com/seed14be6753/stile/parse/profile"
	"github.com/seed14be6753/stile/tools/mcp"
)

// DefaultDir is where a Runtime keeps its journal and keys.
const DefaultDir = "stile-data"

// JournalFile is the journal's name inside the data directory.
const JournalFile = "journal.db"

// Config says how to run. The zero value works: SQLite and generated keys in
// ./stile-data, the scripted model, no logs.
type Config struct {
	// Dir is the data directory; "" is DefaultDir. It is made with mode 0700.
	Dir string
	// InMemory keeps journal and keys in memory: nothing survives Close.
	InMemory bool
	// Store replaces the journal's store, such as one of journal/postgres that several
	// hosts share. It stays the caller's to close. Keys are still those of Dir.
	Store journal.Store
	// Keys replaces the key file. It must hold a token key, a fallback and, unless
	// receipts are off, a receipt key.
	Keys *keyring.Ring
	// Passphrase seals the key file; empty leaves it protected by its mode alone.
	Passphrase []byte
	// Models are the providers that manifests may name. "scripted" is built in.
	Models map[string]llm.Model
	// Providers make the models of manifests that say where a model is and which key
	// it gets: model.base_url, secret and so on. Models goes before it.
	Providers map[string]llm.Provider
	// Databases are the kinds of database, beside sqlite, that relics may be in, such as
	// postgres: tools/sql/postgres.Open.
	Databases map[string]Database
	// Dialects are further ones, beside plain, aeiou, cortex, cogency and kitsu.
	Dialects []parse.Dialect
	// Log gets what operators want to know; nil is silent.
	Log *zap.Logger
	// DecisionLog gets one JSON object per decided turn (docs/spec/aeiou.md §17); may be nil. It is
	// written to on the way of the session, and may be on that of a Submit: a writer that
	// blocks holds them up.
	DecisionLog io.Writer
	// IdleTimeout is how long a session without work stays in memory; 0 is ten
	// minutes, negative for ever.
	IdleTimeout time.Duration
	// ProgramCacheBytes bounds the cache of parsed programs; 0 is 32 MiB.
	ProgramCacheBytes int64
	// Agents are those whose sessions go on by themselves when the runtime starts: runs
	// that were in flight when the process before it ended, and inputs that waited.
	// Names must differ. Boot says how fast. Open works with any agent.
	Agents []*Agent
	Boot   Boot
	// Sandbox replaces what the kernel is found to be able to confine commands with, for
	// tests; nil asks it.
	Sandbox func() confine.Sandbox
	// Feeds says how context feeds are kept.
	Feeds Feeds
	// Rand and Now replace randomness and clock, for tests. Rand must be safe for
	// concurrent use.
	Rand io.Reader
	Now  func() time.Time
}

// Runtime runs sessions.
type Runtime struct {
	cfg      Config
	log      *zap.Logger
	store    journal.Store
	ownStore bool
	watched  *watched     // store, as the shells see it
	leave    func() error // says that no runtime works on the journal any more
	writer   *journal.Writer
	probe    probe // of a writer that failed
	keys     *keyring.Ring
	dialects *parse.Registry
	metrics  *telemetry.Metrics
	observer *observer
	host     *actors.Host
	pool     *mcp.Pool // connections to MCP servers; nil in a runtime that only compiles

	feeds     *feeds.Keeper // of all sessions
	feedCache *feeds.Cache
	learning  *learning // of profiles; nil in a runtime that only compiles

	agents sync.Map // *Agent → *compiled
	known  known

	rotating sync.Mutex // held by RotateKeys

	mu      sync.Mutex
	files   []io.Closer // folders that file tools hold open
	over    bool        // files are closed
	closing sync.Once
	done    chan struct{} // closed when Close has done everything
	closed  error
}

func (rt *Runtime) closeFiles() (err error) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for _, c := range rt.files {
		err = errors.Join(err, c.Close())
	}
	rt.files, rt.over = nil, true
	return err
}

// newCompiler makes a runtime that only compiles agents: it has no store and runs
// nothing.
func newCompiler(dialects []parse.Dialect) (*Runtime, error) {
	rt := &Runtime{cfg: Config{Dialects: dialects}.withClock(), log: zap.NewNop()}
	var err error
	rt.dialects, err = rt.dialectSet()
	return rt, err
}

func (rt *Runtime) dialectSet() (*parse.Registry, error) {
	return parse.New(append([]parse.Dialect{plain.Dialect{}, aeiou.Dialect{}, cortex.Dialect{}, cogency.Dialect{}, kitsu.Dialect{}, profile.Dialect{}}, rt.cfg.Dialects...)...)
}

func (rt *Runtime) newIncarnation() (messages.Incarnation, error) {
	return actors.NewIncarnation(rt.cfg.Rand, rt.cfg.Now())
}

// keep closes c when the runtime closes, or at once when it has.
func (rt *Runtime) keep(c io.Closer) error {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.over {
		return errors.Join(errClosed(), c.Close())
	}
	rt.files = append(rt.files, c)
	return nil
}

func errClosed() error { return messages.Errorf(messages.ErrCancelled, "the runtime has closed") }

const defaultProgramCache = 32 << 20

// New starts a runtime. Errors are ERR_CONFIG (a setting or key file), or
// ERR_JOURNAL (the store refuses).
func New(ctx context.Context, cfg Config) (*Runtime, error) {
	if cfg.Dir == "" {
		cfg.Dir = DefaultDir
	}
	cfg = cfg.withClock()
	if len(cfg.Passphrase) == 0 {
		cfg.Passphrase = nil // to the key ring an empty passphrase is a mistake
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	if cfg.ProgramCacheBytes == 0 {
		cfg.ProgramCacheBytes = defaultProgramCache
	}
	rt := &Runtime{cfg: cfg, log: cfg.Log, metrics: telemetry.NewMetrics(), done: make(chan struct{}), leave: func() error { return nil }}
	var err error
	if rt.dialects, err = rt.dialectSet(); err != nil {
		return nil, err
	}
	rt.pool = rt.newPool()
	rt.startLearning()
	if err := rt.openStore(); err != nil {
		return nil, err
	}
	if err := rt.openKeys(ctx); err != nil {
		return nil, errors.Join(err, rt.closeStore())
	}
	if rt.watched, err = watch(rt.store, rt.metrics); err != nil {
		return nil, errors.Join(err, rt.closeStore())
	}
	rt.observer = newObserver(rt)
	host := actors.Config{
		Store: rt.watched, Keys: ringKeys{rt.keys}, Receipts: ringKeys{rt.keys},
		Observer: rt.observer, Log: rt.log, SLog: telemetry.Slog(rt.log.Named("actors")),
		Programs: neuroscript.NewCache(cfg.ProgramCacheBytes), Rand: cfg.Rand, Now: cfg.Now, IdleTimeout: cfg.IdleTimeout,
	}
	if err := rt.startFeeds(); err != nil {
		rt.watched.release()
		return nil, errors.Join(err, rt.closeStore())
	}
	host.Feeds = rt.feeds
	if err := rt.boot(ctx, &host); err != nil {
		rt.stopFeeds()
		rt.watched.release()
		return nil, errors.Join(err, rt.pool.Close(), rt.closeFiles(), rt.closeStore(), rt.leave())
	}
	if said, ok := rt.store.(interface{ Notices() []string }); ok {
		for _, n := range said.Notices() {
			rt.log.Warn("journal", zap.String("notice", n))
		}
	}
	rt.writer = journal.NewWriter(rt.watched, journal.WriterOptions{})
	host.Writer = rt.writer
	rt.host = actors.Start(host)
	return rt, nil
}

// withClock fills in clock and randomness.
func (c Config) withClock() Config {
	if c.Rand == nil {
		c.Rand = rand.Reader
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Sandbox == nil {
		c.Sandbox = confine.Probe
	}
	return c
}

func (rt *Runtime) openStore() error {
	switch {
	case rt.cfg.Store != nil:
		rt.store = rt.cfg.Store
		return nil
	case rt.cfg.InMemory:
		rt.store, rt.ownStore = memory.New(), true
		return nil
	}
	if err := makeDir(rt.cfg.Dir); err != nil {
		return err
	}
	store, err := sqlite.Open(sqlite.Options{Path: filepath.Join(rt.cfg.Dir, JournalFile)})
	if err != nil {
		return err
	}
	rt.store, rt.ownStore = store, true
	return nil
}

func (rt *Runtime) closeStore() error {
	if !rt.ownStore {
		return nil
	}
	return rt.store.Close()
}

// Metrics are the runtime's, in a registry of their own.
func (rt *Runtime) Metrics() *telemetry.Metrics { return rt.metrics }

// Journal counts commits and records since New.
func (rt *Runtime) Journal() *journal.Metrics { return rt.writer.Metrics() }

// Counters counts what leaves no record: turns in flight, late answers, orphans and the like.
func (rt *Runtime) Counters() *actors.Counters { return rt.host.Counters() }

// SessionsInMemory counts the sessions that are awake.
func (rt *Runtime) SessionsInMemory() int { return rt.host.Sessions() }

// Close stops every session, writes what was accepted, and closes the journal
// last. Turns in flight are settled by the next start. Tools that do not heed their
// context are left behind after five seconds; when ctx ends before, the error is its
// own and the rest of the work goes on in the background.
func (rt *Runtime) Close(ctx context.Context) error {
	rt.closing.Do(func() {
		go func() {
			defer close(rt.done)
			rt.learning.close()
			if rt.closed = rt.host.Stop(context.WithoutCancel(ctx)); rt.closed != nil {
				return
			}
			rt.stopFeeds()
			rt.writer.Close()
			rt.watched.release()
			rt.closed = errors.Join(rt.pool.Close(), rt.closeFiles(), rt.closeStore(), rt.leave())
		}()
	})
	select {
	case <-rt.done:
		return rt.closed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ringKeys gives the shells their view of the key ring.
type ringKeys struct{ ring *keyring.Ring }

func (k ringKeys) TokenSigner(now time.Time) token.Signer   { return k.ring.TokenSigner(now) }
func (k ringKeys) TokenFallback(now time.Time) token.Signer { return k.ring.TokenFallback(now) }
func (k ringKeys) TokenKeys(time.Time) token.KeySource      { return k.ring.TokenKeys() }

// Receipt implements journal.Signer.
func (k ringKeys) Receipt(inc string, seq int64, hash [32]byte, ts time.Time) (*messages.Receipt, error) {
	id, err := parseInc(inc)
	if err != nil {
		return nil, err
	}
	kid, sig, err := k.ring.SignReceipt(id, seq, hash, ts)
	if err != nil {
		return nil, err
	}
	return &messages.Receipt{KID: kid, Sig: sig}, nil
}
