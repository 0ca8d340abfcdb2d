package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/internal/files"
	"github.com/seed14be6753/stile/internal/telemetry"
)

// serving is a host on its way from settings to its end. Its stages are in the order in which mistakes are
// best found: what the settings say by themselves comes before what takes a database, that before what
// takes a port, and that before the runtime, which goes on with sessions.
type serving struct {
	a    *app
	s    *settings
	read func() (settings, error) // reads the settings anew

	standard zapcore.WriteSyncer // standard error: lines of several logs, each whole
	cfg      stile.Config
	checked  stile.Config         // that agents are checked for, now and when the settings are read anew
	who      access.Authenticator // nil where callers show no token
	door     host.Config
	l        net.Listener

	answered func() // says that the database has answered; not nil
	rt       *stile.Runtime
	observe  func(*stile.Runtime) // exports traces and metrics of it

	closers []func() // of what the stages opened, in their order
}

// serve serves until ctx ends. What goes by the database before the host serves is begun anew, as a whole,
// when the database goes away in the middle: nothing stays open meanwhile, a port least of all, because a
// balancer could take it for one of a host that lives.
func (a *app) serve(ctx context.Context, s *settings, read func() (settings, error)) error {
	v := &serving{a: a, s: s, read: read}
	if err := v.configure(); err != nil {
		return err
	}
	// The runtime shares out what the process may have of memory, so that is set first.
	defer host.Tune(host.TuneOptions{Disk: !s.Memory && !a.inDatabase(s)})()
	log := v.cfg.Log.Named("journal")
	manager := newNotifier(a.env, log)
	begun, err := waitFor(ctx, log, func() { manager.tell("STATUS=waiting for the database of the journal", moreTime) }, transient, v.begin)
	switch {
	case err != nil && ctx.Err() != nil:
		v.cfg.Log.Info("stopped before the host served", zap.Error(err))
		return nil
	case err != nil:
		return err
	}
	defer begun.close()
	return begun.serve(ctx)
}

// begin is one attempt at all that comes before the serving. One that fails leaves nothing open.
func (v *serving) begin(ctx context.Context, answered func()) (*serving, error) {
	one := *v // another attempt begins with what the settings say
	if one.answered = answered; one.s.Memory || !one.a.inDatabase(one.s) {
		answered() // there is none
	}
	for _, stage := range []func(context.Context) error{one.admit, one.load, one.listen, one.equip, one.trace, one.start} {
		if err := stage(ctx); err != nil {
			one.close()
			return nil, err
		}
	}
	return &one, nil
}

func (v *serving) close() {
	for _, closes := range slices.Backward(v.closers) {
		closes()
	}
}

// configure takes what the settings say of the runtime and of its log.
func (v *serving) configure() (err error) {
	a, s := v.a, v.s
	a.dir, a.journal, a.passphraseFile, a.keyRest, a.unproved, a.programUser = s.Dir, s.Journal, s.PassphraseFile, s.KeyRest, s.Unproved, s.ProgramUser
	if len(s.Agents) == 0 {
		return configError("agents", "name a manifest to serve, as an argument or in "+settingsFile+"; stile serve --demo needs none")
	}
	if s.Memory && s.Journal != "" {
		return configError("journal", "goes not together with --memory")
	}
	a.own = append(a.own, s.ownFiles()...)
	a.own = append(a.own, auditFiles(s.AuditLog)...)
	a.own = append(a.own, decisionLogFiles(s.DecisionLog, s.DecisionKeep)...)
	if v.cfg, err = a.config(); err != nil {
		return err
	}
	level, err := zapcore.ParseLevel(s.LogLevel)
	if err != nil {
		return configError("log_level", err.Error())
	}
	v.standard = zapcore.Lock(zapcore.AddSync(a.err))
	v.cfg.Log = telemetry.NewLogger(level, true, v.standard)
	return nil
}

// admit finds out how callers show who they are. The tokens of a cluster are in its database.
func (v *serving) admit(ctx context.Context) (err error) {
	var shared *access.Tokens
	if v.s.Cluster.Address != "" {
		store, err := v.openJournal(ctx)
		if err != nil {
			return err
		}
		if shared, err = v.a.tokensIn(ctx, v.s, store, v.cfg.Log.Named("tokens")); err != nil {
			return err
		}
		v.closers = append(v.closers, shared.Close)
	}
	if v.who, err = v.a.access(v.s, shared); err != nil {
		return err
	}
	v.cfg.Shared = v.who != nil
	return nil
}

// load reads the agents, and what the door needs of files.
func (v *serving) load(context.Context) (err error) {
	v.checked = v.cfg
	if v.cfg.Agents, err = agentsOf(v.s, v.checked); err != nil {
		return err
	}
	v.door = v.a.doorOf(v.s, v.who)
	if v.door.Certificate, err = certificateOf(v.s); err != nil {
		return err
	}
	v.door.Webhooks, err = hooksOf(v.s, v.a.env)
	return err
}

// listen opens the port, behind the journal.
func (v *serving) listen(ctx context.Context) (err error) {
	if v.s.Cluster.Address == "" && !v.s.Memory {
		if _, err = v.openJournal(ctx); err != nil {
			return err
		}
	}
	if v.l, err = v.door.Listen(ctx, v.s.Listen); err != nil {
		return err
	}
	v.closers = append(v.closers, func() { _ = v.l.Close() }) // the server has closed it
	if err = clusterOf(ctx, v.s, &v.door, &v.cfg); err == nil && v.door.ClusterListener != nil {
		v.closers = append(v.closers, func() { _ = v.door.ClusterListener.Close() }) // and this one
	}
	return err
}

// openJournal opens the journal that the host shares, if it does.
func (v *serving) openJournal(ctx context.Context) (sharedJournal, error) {
	store, err := v.a.openShared(ctx, false)
	if store != nil {
		v.cfg.Store = store
		v.closers = append(v.closers, func() { _ = store.Close() }) // the runtime has closed what it wrote
		v.answered()
	}
	return store, err
}

// equip gives the runtime the rest of what the settings say.
func (v *serving) equip(context.Context) (err error) {
	s, cfg := v.s, &v.cfg
	if s.AuditLog == "-" {
		v.door.Audit = v.standard
	}
	if cfg.DecisionLog, err = decisionLog(s.DecisionLog, s.DecisionBytes, s.DecisionKeep, v.standard); err != nil {
		return err
	}
	cfg.InMemory = s.Memory
	cfg.IdleTimeout = s.IdleTimeout
	cfg.Spending = s.Spending.runtime()
	cfg.ModelSessions = s.Limits.ModelSessions
	cfg.Feeds.Deadline, cfg.Feeds.Remotes = s.Feeds.Deadline, s.Feeds.Remotes
	if s.Feeds.RemoteCA != "" {
		if cfg.Feeds.RemoteCA, err = os.ReadFile(s.Feeds.RemoteCA); err != nil {
			return configError("feeds.remote_ca", files.Cause(err).Error())
		}
	}
	cfg.Boot = stile.Boot{Off: s.Boot.Off, Concurrency: s.Boot.Concurrency, PerSecond: s.Boot.PerSecond}
	return nil
}

// trace prepares the export of traces and metrics, as the environment says. The last ones leave behind the end
// of the runtime.
func (v *serving) trace(ctx context.Context) error {
	observe, flush, err := tracing(ctx, v.a.env)
	if err != nil {
		return err
	}
	v.observe = observe
	v.closers = append(v.closers, func() {
		if bad := flush(); bad != nil {
			v.cfg.Log.Warn("the last traces were not exported", zap.Error(bad))
		}
	})
	return nil
}

// start makes the runtime. The end of ctx ends the attempt, and no runtime that has been made: that one is closed
// when the door is shut.
func (v *serving) start(ctx context.Context) (err error) {
	making, end := context.WithCancel(context.WithoutCancel(ctx))
	v.closers = append(v.closers, end)
	defer context.AfterFunc(ctx, end)()
	v.rt, err = stile.New(making, v.cfg)
	return err
}

// serve serves until ctx ends, and closes the runtime.
func (v *serving) serve(ctx context.Context) error {
	err := using(ctx, v.rt, func(rt *stile.Runtime) error {
		v.observe(rt)
		return v.answer(ctx, rt)
	})
	return settledBy(err, v.cfg.Log)
}

// answer answers requests until ctx ends, and turns in flight have had their time.
func (v *serving) answer(ctx context.Context, rt *stile.Runtime) error {
	log := v.cfg.Log
	v.door.Runtime, v.door.Agents, v.door.Log = rt, v.cfg.Agents, log
	again := &reloader{read: v.read, env: v.a.env, cfg: v.checked, log: log.Named("settings"), now: *v.s}
	v.door.Reload = again.reload
	srv, err := host.New(v.door)
	if err != nil {
		return err
	}
	again.srv = srv
	defer v.a.reload(ctx, again)()
	if !v.s.Memory {
		defer v.keep(ctx, rt)()
	}
	address := v.l.Addr().String()
	base := schemeOf(v.s) + "://" + address
	if _, err := fmt.Fprintf(v.a.out, "listening on %s\n%s", base, v.a.hint(base)); err != nil {
		return err
	}
	v.a.tellStart(log, v.s, base, v.who != nil, v.cfg.Agents)
	manager := newNotifier(v.a.env, log.Named("notify"))
	defer v.a.watched(ctx, manager, v.s, address)()
	err = srv.Serve(ctx, v.l, v.s.Grace)
	log.Info("stopped", zap.Int64("turns_left", turnsLeft(err)))
	if n := turnsLeft(err); n > 0 {
		log.Warn("turns were left in flight, and go on at the next start", zap.Int64("turns", n))
		return exitUnsettled
	}
	return err
}

// keep writes checkpoints and backups of the journal as the settings say, until the function that comes back
// is called.
func (v *serving) keep(ctx context.Context, rt *stile.Runtime) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var work sync.WaitGroup
	work.Go(func() { checkpoints(ctx, rt, v.s.Dir, v.s.Checkpoint, v.cfg.Log.Named("checkpoint")) })
	work.Go(func() { scheduled(ctx, rt, v.s.Dir, &v.s.Backup, v.cfg.Log.Named("backup")) })
	return func() {
		cancel()
		work.Wait()
	}
}
