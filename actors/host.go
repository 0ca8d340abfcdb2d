package actors

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/eventstream"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile/crypto/token"
	"github.com/seed14be6753/stile/feeds"
	"github.com/seed14be6753/stile/internal/attempt"
	"github.com/seed14be6753/stile/internal/directory"
	"github.com/seed14be6753/stile/internal/feedvalues"
	"github.com/seed14be6753/stile/internal/groupcommit"
	"github.com/seed14be6753/stile/internal/history"
	"github.com/seed14be6753/stile/internal/hub"
	"github.com/seed14be6753/stile/internal/intake"
	"github.com/seed14be6753/stile/internal/load"
	"github.com/seed14be6753/stile/internal/membership"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/pool"
	"github.com/seed14be6753/stile/internal/program"
	"github.com/seed14be6753/stile/internal/relics"
	"github.com/seed14be6753/stile/internal/reply"
	"github.com/seed14be6753/stile/internal/talk"
	"github.com/seed14be6753/stile/internal/telemetry"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/internal/wake"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/supervisor"
)

// Keys is what the shells need of a key ring.
type Keys interface {
	token.SignerSource
	// TokenKeys is the verification view in force at a time.
	TokenKeys(now time.Time) token.KeySource
}

// Observer sees what happens, for metrics and logs. It is called from many
// sessions at once and must not block.
type Observer interface {
	// ObserveRecord gets every record after it became durable, in the order of its
	// session, with the name of the session's agent.
	ObserveRecord(agent string, rec *messages.Record)
	// ModelCalled gets every call of a model when it has ended.
	ModelCalled(telemetry.ModelCall)
	// ModelAsked gets the bytes of text that a request to a model sends, and in which mode.
	ModelAsked(mode string, bytes int64)
	// ModelSession gets what became of a conversation that a provider keeps, in the words of
	// messages.ModelSession.
	ModelSession(what, reason string)
	SessionAwake()
	SessionAsleep()
	Abandoned(messages.Incarnation) // the session's actor ended in the middle of a turn
	FallbackMint()                  // the fallback signer minted a token
	Orphan()                        // a tool overran its time and was left behind
	ReceiptMissing()                // a record that should bear a receipt does not
	// LimitReached counts what met a limit and is told by no record.
	LimitReached(l string, n int)
	RolledBack(outcome string) // a group of actions was rolled back: ok, failed or unknown
}

// Counters are what a host counts besides what it tells its Observer. All are
// safe to read at any time.
type Counters struct {
	InFlight atomic.Int64 // runs at work: in a turn, or between two. Not those suspended
	Late     atomic.Int64 // answers that came too late and were dropped
	Crashes  atomic.Int64 // sessions restarted from the journal
}

// Config is what a Host is made of. Writer and Store are the caller's to close,
// after Stop.
type Config struct {
	Store    journal.Store
	Writer   *groupcommit.Writer
	Keys     Keys
	Receipts journal.Signer
	Observer Observer
	Log      *zap.Logger
	SLog     *slog.Logger // for the actor library
	Programs *neuroscript.Cache
	// Feeds keeps the context feeds of all sessions; nil keeps none. It is the
	// caller's to close, after Stop.
	Feeds *feeds.Keeper
	// Rand gives nonces, jti and salts; it must be safe for concurrent use.
	Rand io.Reader
	// Now is the wall clock; nil is time.Now.
	Now func() time.Time
	// IdleTimeout is how long a session without work stays in memory; 0 is ten
	// minutes, negative is for ever.
	IdleTimeout time.Duration
	// SnapshotEvery is the number of records after which a session that goes to
	// sleep leaves a snapshot; 0 is 256.
	SnapshotEvery int64
	// Agent finds the agent of a session; nil means that this process does not know it. It
	// must be safe for concurrent use. Without it only requests wake sessions.
	Agent func(context.Context, *journal.Head) (*Agent, error)
	// Relics returns the agent of the sessions in which relics of users and tenants are kept; nil
	// keeps none.
	Relics func(context.Context) (*Agent, error)
	// Alone says that no other process runs the sessions of the store. Only then the host
	// wakes sessions that no request asked for.
	Alone bool
	// Closed is why no request gets to a session; nil lets them.
	Closed error
	// Leases say which sessions this host may run, beside others.
	Leases membership.Guard
	// Boot says how what is open is taken up at the start.
	Boot wake.Boot
	// Proofs is what sessions that are woken must prove.
	Proofs load.Proofs
	// MemoryLimit is how many bytes the process may have; 0 is Go's own limit (GOMEMLIMIT),
	// negative is none. It bounds the long replies taken in, and the sessions recovered at
	// the start, side by side.
	MemoryLimit int64
	// ModelSessions is how many connections the host keeps with providers for conversations;
	// 0 is 256.
	ModelSessions int
}

// LetGo stops every session, as Stop does, and the host goes on: others may run them from now
// on. It does not wait.
func (h *Host) LetGo(why error) { h.system.Root.Send(h.root, &letGo{why: why}) }

// Sleep puts all idle sessions to sleep. It does not wait.
func (h *Host) Sleep() {
	for _, ref := range h.dir.IdleBefore(h.cfg.Now().Add(time.Hour)) {
		h.system.Root.Send(ref.PID, &sleep{})
	}
}

// Alarm has the clock of alarms look again: sessions may have come that wait for one.
func (h *Host) Alarm() { h.waker.Suspended(h.cfg.Now()) }

// Expire looks at the questions of a session that is suspended.
func (h *Host) Expire(ctx context.Context, key messages.SessionKey, agent *Agent) error {
	_, err := h.ask(ctx, &request{key: key, agent: agent, op: opExpire})
	return err
}

// Host runs sessions. One process needs one: an actor system costs megabytes.
// Its methods are safe for concurrent use.
type Host struct {
	cfg        Config
	log        *zap.Logger
	system     *actor.ActorSystem
	root       *actor.PID
	dir        *directory.Directory
	hub        *hub.Hub
	counters   Counters
	closing    chan struct{}   // closed when Stop begins
	ctx        context.Context // ends when all sessions have ended; parent of all children's work
	cancel     context.CancelFunc
	pool       pool.Pool
	work       sync.WaitGroup // functions of children and loaders at work
	childProps childProps
	wheel      chan struct{}
	waker      *wake.Waker
	scopes     relics.Scopes
	programs   program.Env
	histories  *history.Kept
	replies    reply.Env
	attempts   attempt.Env
	feeds      feedvalues.Env
	intake     *intake.Intake
	loader     *load.Loader
	talks      *talk.Pool
	inline     bool // the writer answers before Append returns

	stop    sync.Once
	stopped chan struct{}
}

// Stopping reports whether Stop has begun.
func (h *Host) Stopping() bool {
	select {
	case <-h.closing:
		return true
	default:
		return false
	}
}

// StopGrace is how long a host that stops waits for tools and models.
const StopGrace = 5 * time.Second

// New makes a host, in which nothing runs before Start.
func New(cfg Config) *Host {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.IdleTimeout = cmp.Or(cfg.IdleTimeout, 10*time.Minute)
	cfg.SnapshotEvery = cmp.Or(cfg.SnapshotEvery, 256)
	cfg.MemoryLimit = intake.MemoryLimit(cfg.MemoryLimit)
	cfg.Log = cmp.Or(cfg.Log, zap.NewNop())
	cfg.SLog = cmp.Or(cfg.SLog, slog.New(slog.DiscardHandler))
	h := &Host{cfg: cfg, log: cfg.Log, dir: directory.New(), hub: hub.New(), intake: intake.New(cfg.MemoryLimit, func() int64 { _, n := cfg.Writer.Queued(); return n }, intake.LiveHeap), closing: make(chan struct{}), stopped: make(chan struct{}), wheel: make(chan struct{})}
	h.loader = load.New(load.Config{Store: cfg.Store, Writer: cfg.Writer, Proofs: cfg.Proofs, Rand: cfg.Rand, Now: cfg.Now, Log: cfg.Log})
	h.share()
	h.scopes = relics.Scopes{
		Store: cfg.Store, Now: cfg.Now, Agent: cfg.Relics, Stopping: h.Stopping,
		Ask: func(ctx context.Context, key messages.SessionKey, agent *Agent, call *turn.ScopeCall) (string, error) {
			rep, err := h.ask(ctx, &request{key: key, agent: agent, op: opScope, scoped: call})
			return rep.result, err
		},
	}
	h.waker = wake.New(wake.Config{
		Store: cfg.Store, Intake: h.intake, Log: cfg.Log, Now: cfg.Now, Agent: cfg.Agent, Alone: cfg.Alone, Boot: cfg.Boot,
		Open: func(ctx context.Context, key messages.SessionKey, agent *Agent) error {
			_, err := h.Open(ctx, key, agent)
			return err
		},
		Expire: h.Expire,
		Cancel: func(ctx context.Context, key messages.SessionKey, agent *Agent, run int64, by string) error {
			_, err := h.Cancel(ctx, key, agent, run, by)
			return err
		},
	})
	h.talks = talk.NewPool(cfg.ModelSessions, cfg.Now, cfg.Observer.ModelSession)
	h.inline = cfg.Store.Immediate()
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.system = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return cfg.SLog }))
	// The host does not listen to dead letters. A request cannot become one unnoticed (see
	// directory.Aim), the other messages mean nothing to a stopped actor, and the
	// library's own listener prints what is in them and leaves a goroutine behind.
	h.system.EventStream = eventstream.NewEventStream()
	h.childProps = newChildProps(h)
	h.root = h.system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return newRoot(h) },
		actor.WithSupervisor(supervisor.OfSessions{}), actor.WithDispatcher(&h.pool)))
	return h
}

// share makes what the work of all sessions' children shares.
func (h *Host) share() {
	cfg := &h.cfg
	h.histories = history.New(cfg.Store, cfg.Now)
	h.replies = reply.Env{Now: cfg.Now, LimitReached: cfg.Observer.LimitReached, ModelAsked: cfg.Observer.ModelAsked, ModelCalled: cfg.Observer.ModelCalled, Systems: &h.histories.Systems}
	h.programs = program.Env{Programs: cfg.Programs, Signers: cfg.Keys, Rand: cfg.Rand, Now: cfg.Now, Log: cfg.Log, FallbackMint: cfg.Observer.FallbackMint}
	h.attempts = attempt.Env{
		Now: cfg.Now, Log: h.log, Outputs: load.Outputs{Store: cfg.Store}, Orphan: cfg.Observer.Orphan, Held: cfg.Leases.Held, Followed: h.hub.Followed, Tell: h.tell,
	}
	h.feeds = feedvalues.Env{
		Keeper: cfg.Feeds, Store: cfg.Store, Outputs: load.Outputs{Store: cfg.Store}, Scopes: &h.scopes, Now: cfg.Now, Log: h.log,
		LimitReached: cfg.Observer.LimitReached, Orphan: cfg.Observer.Orphan, Run: h.run,
	}
}

// tell shows text that has no record yet.
func (h *Host) tell(sid string, d *messages.Delta) {
	if h.cfg.Leases.Held() {
		h.hub.Tell(sid, d)
	}
}

// Start begins the boot scan and the clocks. It is called once, before the first request.
func (h *Host) Start() {
	go h.idleWheel()
	h.waker.Start()
}

// Waker wakes the sessions of the host. Start starts it, and Stop stops it.
func (h *Host) Waker() *wake.Waker { return h.waker }

// Hub is where the host publishes.
func (h *Host) Hub() *hub.Hub { return h.hub }

// Counters are live.
func (h *Host) Counters() *Counters { return &h.counters }

// Awake reports whether a session is in memory here: what is open in it runs, or is
// about to.
func (h *Host) Awake(sid string) bool { return h.dir.Find(sid) != nil }

// Agent is what a session in memory here runs under; nil when it is not.
func (h *Host) Agent(sid string) *Agent {
	if ref := h.dir.Find(sid); ref != nil {
		return ref.Agent
	}
	return nil
}

// Sessions counts the sessions in memory.
func (h *Host) Sessions() int { return h.dir.Len() }

// Open makes sure that the session exists, and creates it durably when it does
// not.
func (h *Host) Open(ctx context.Context, key messages.SessionKey, agent *Agent) (Reply, error) {
	return h.ask(ctx, &request{key: key, agent: agent, op: opOpen})
}

// Submit starts, queues or joins a run. The reply comes when the input is durable.
func (h *Host) Submit(ctx context.Context, key messages.SessionKey, agent *Agent, in messages.Input) (Reply, error) {
	return h.ask(ctx, &request{key: key, agent: agent, op: opSubmit, input: in})
}

// SubmitChild is Submit to the session in which an action of another one runs an agent.
// It is created when it does not exist; one that does keeps the parent it has.
func (h *Host) SubmitChild(ctx context.Context, key messages.SessionKey, agent *Agent, parent messages.ParentLink, in messages.Input) (Reply, error) {
	return h.ask(ctx, &request{key: key, agent: agent, op: opSubmit, input: in, parent: &parent})
}

// Cancel stops a run in flight (0: the current one) or a waiting one.
func (h *Host) Cancel(ctx context.Context, key messages.SessionKey, agent *Agent, run int64, by string) (Reply, error) {
	return h.ask(ctx, &request{key: key, agent: agent, op: opCancel, run: run, by: by})
}

// Approve answers the question of a call that waits for approval. The reply comes
// when the answer is durable; one that does not count is ERR_APPROVAL.
func (h *Host) Approve(ctx context.Context, key messages.SessionKey, agent *Agent, word turn.Approve) error {
	_, err := h.ask(ctx, &request{key: key, agent: agent, op: opApprove, word: &word})
	return err
}

// Approvals lists the calls of a session that wait for approval.
func (h *Host) Approvals(ctx context.Context, key messages.SessionKey, agent *Agent) ([]turn.Approval, error) {
	rep, err := h.ask(ctx, &request{key: key, agent: agent, op: opApprovals})
	return rep.Approvals, err
}

// Flush writes what a session still holds back lazily and waits for it.
func (h *Host) Flush(ctx context.Context, key messages.SessionKey, agent *Agent) error {
	_, err := h.ask(ctx, &request{key: key, agent: agent, op: opFlush})
	return err
}

// FeedStates lists the feeds of a session, in the order of injection. It wakes the
// session.
func (h *Host) FeedStates(ctx context.Context, key messages.SessionKey, agent *Agent) ([]feedvalues.State, error) {
	rep, err := h.ask(ctx, &request{key: key, agent: agent, op: opFeeds})
	return rep.Feeds, err
}

// Describe changes the title and tags of a session. The reply comes when the change is
// durable; nothing to change is no error.
func (h *Host) Describe(ctx context.Context, key messages.SessionKey, agent *Agent, about turn.Describe) error {
	_, err := h.ask(ctx, &request{key: key, agent: agent, op: opDescribe, about: &about})
	return err
}

// Close ends a session for good. ERR_BUSY while something of it is in flight.
func (h *Host) Close(ctx context.Context, key messages.SessionKey, agent *Agent, reason string) error {
	_, err := h.ask(ctx, &request{key: key, agent: agent, op: opClose, by: reason})
	return err
}

// IngestFeed gives a feed of a session a value.
func (h *Host) IngestFeed(ctx context.Context, key messages.SessionKey, agent *Agent, id, value string) error {
	_, err := h.ask(ctx, &request{key: key, agent: agent, op: opIngest, feed: id, value: value})
	return err
}

func (h *Host) ask(ctx context.Context, req *request) (Reply, error) {
	if h.cfg.Closed != nil {
		return Reply{}, h.cfg.Closed
	}
	req.reply = make(chan Reply, 1)
	req.transit.Request = req
	select {
	case <-h.closing:
		return Reply{}, messages.Errorf(messages.ErrCancelled, "the host is stopping")
	default:
	}
	if ref := h.dir.Aim(req.key.SID(), &req.transit); ref != nil {
		req.handoff.Message = req
		h.system.Root.Send(ref.PID, &req.handoff)
		if req.handoff.Inline() {
			h.pool.RunDeferred() // what the session put off until this goroutine is done
		}
	} else {
		h.system.Root.Send(h.root, req)
	}
	select {
	case rep := <-req.reply:
		return rep, rep.Err
	case <-ctx.Done():
		return Reply{}, ctx.Err()
	case <-h.stopped:
		// The answer may have come while the host stopped.
		select {
		case rep := <-req.reply:
			return rep, rep.Err
		default:
			return Reply{}, messages.Errorf(messages.ErrCancelled, "the host has stopped")
		}
	}
}

// idleWheel is the one timer for all idle sessions.
func (h *Host) idleWheel() {
	defer close(h.wheel)
	if h.cfg.IdleTimeout < 0 {
		<-h.closing
		return
	}
	tick := time.NewTicker(max(h.cfg.IdleTimeout/4, 10*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-h.closing:
			return
		case <-tick.C:
			for _, ref := range h.dir.IdleBefore(h.cfg.Now().Add(-h.cfg.IdleTimeout)) {
				h.system.Root.Send(ref.PID, &sleep{})
			}
		}
	}
}

// Stop ends every session: turns in flight end as the process dying would end
// them, and are settled by the next activation. It returns when nothing started
// here runs any more, or with ctx's error. Calling it again waits as well. A tool or
// a model that is deaf to its context is left behind after StopGrace: what it says
// or does from then on reaches no session.
func (h *Host) Stop(ctx context.Context) error {
	h.stop.Do(func() {
		close(h.closing)
		h.waker.Stop()
		go h.stopAndWait()
	})
	select {
	case <-h.stopped:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *Host) stopAndWait() {
	defer close(h.stopped)
	all := &stopAll{done: make(chan struct{})}
	h.system.Root.Send(h.root, all)
	<-all.done
	// Not before: a session that is still there would take what its children say of
	// being cancelled for the end of its turn, and no next activation would settle it.
	h.cancel()
	h.hub.Close() // no caller waits behind a tool that is deaf to its context
	<-h.wheel
	h.waker.Wait()
	grace := time.NewTimer(StopGrace)
	defer grace.Stop()
	whole := pool.Within(func() { h.work.Wait(); h.talks.Wait() }, grace.C)
	_ = h.system.Root.StopFuture(h.root).Wait()
	h.system.Shutdown()
	h.pool.Close()
	if !whole || !pool.Within(h.pool.Wait, grace.C) {
		h.log.Warn("the host stopped before everything that ran in it: some tool or model does not heed its context")
	}
}

// run runs f on a goroutine that Stop waits for.
func (h *Host) run(f func()) {
	h.work.Add(1)
	h.pool.Run(func(*pool.Worker) {
		defer h.work.Done()
		f()
	})
}

// typeName names an unknown message without printing what it holds.
func typeName(v any) string { return fmt.Sprintf("%T", v) }
