package actors

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile/crypto/token"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/neuroscript"
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
	// session.
	ObserveRecord(*messages.Record)
	SessionAwake()
	SessionAsleep()
	FallbackMint()   // the fallback signer minted a token
	Orphan()         // a tool overran its time and was left behind
	ReceiptMissing() // a record that should bear a receipt does not
}

// Counters are what a host counts besides what it tells its Observer. All are
// safe to read at any time.
type Counters struct {
	InFlight atomic.Int64 // turns
	Late     atomic.Int64 // answers that came too late and were dropped
	Crashes  atomic.Int64 // sessions restarted from the journal
}

// Config is what a Host is made of. Writer and Store are the caller's to close,
// after Stop.
type Config struct {
	Store    journal.Store
	Writer   *journal.Writer
	Keys     Keys
	Receipts journal.Signer
	Observer Observer
	Log      *zap.Logger
	SLog     *slog.Logger // for the actor library
	Programs *neuroscript.Cache
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
}

// Host runs sessions. One process needs one: an actor system costs megabytes.
// Its methods are safe for concurrent use.
type Host struct {
	cfg        Config
	log        *zap.Logger
	system     *actor.ActorSystem
	root       *actor.PID
	dir        *directory
	hub        *Hub
	counters   Counters
	ctx        context.Context // ends when Stop begins; parent of all children's work
	cancel     context.CancelFunc
	pool       pool
	work       sync.WaitGroup // functions of children and loaders at work
	childProps *actor.Props
	lost       func()
	wheel      chan struct{}
	inline     bool // the writer answers before Append returns
	stop       sync.Once
	stopped    chan struct{}
}

// Start makes a host. Nothing runs in it until a session is opened.
func Start(cfg Config) *Host {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.IdleTimeout == 0 {
		cfg.IdleTimeout = 10 * time.Minute
	}
	if cfg.SnapshotEvery == 0 {
		cfg.SnapshotEvery = 256
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	if cfg.SLog == nil {
		cfg.SLog = slog.New(slog.DiscardHandler)
	}
	h := &Host{cfg: cfg, log: cfg.Log, dir: newDirectory(), hub: NewHub(), stopped: make(chan struct{}), wheel: make(chan struct{})}
	h.inline = cfg.Store.Immediate()
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.system = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return cfg.SLog }),
		actor.WithDeadLetterRequestLogging(false))
	h.childProps = actor.PropsFromProducer(func() actor.Actor { return child{} },
		actor.WithMailbox(actor.UnboundedLockfree()), actor.WithDispatcher(&h.pool))
	sub := h.system.EventStream.Subscribe(h.deadLetter)
	h.lost = func() { h.system.EventStream.Unsubscribe(sub) }
	h.root = h.system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return newRoot(h) },
		actor.WithSupervisor(supervisor.OfSessions{}), actor.WithDispatcher(&h.pool)))
	go h.idleWheel()
	return h
}

// Hub is where the host publishes.
func (h *Host) Hub() *Hub { return h.hub }

// Counters are live.
func (h *Host) Counters() *Counters { return &h.counters }

// Sessions counts the sessions in memory.
func (h *Host) Sessions() int { return h.dir.len() }

// maxHops bounds how often a request is sent on after a dead letter.
const maxHops = 8

// deadLetter brings back what was sent to a session that had just gone to sleep:
// the root wakes the session again and passes the request on.
func (h *Host) deadLetter(evt any) {
	dead, ok := evt.(*actor.DeadLetterEvent)
	if !ok {
		return
	}
	req, ok := dead.Message.(*request)
	if !ok {
		return
	}
	if req.hops++; req.hops > maxHops || dead.PID.Equal(h.root) {
		req.refuse(messages.ErrCrash, "the session does not come up")
		return
	}
	h.system.Root.Send(h.root, req)
}

// Open makes sure that the session exists, and creates it durably when it does
// not.
func (h *Host) Open(ctx context.Context, key messages.SessionKey, agent *Agent) (Reply, error) {
	return h.ask(ctx, &request{key: key, agent: agent, op: opOpen})
}

// Submit starts, queues or joins a run. The reply comes when the input is durable.
func (h *Host) Submit(ctx context.Context, key messages.SessionKey, agent *Agent, in messages.Input) (Reply, error) {
	return h.ask(ctx, &request{key: key, agent: agent, op: opSubmit, input: in})
}

// Cancel stops a run in flight (0: the current one) or a waiting one.
func (h *Host) Cancel(ctx context.Context, key messages.SessionKey, agent *Agent, run int64, by string) (Reply, error) {
	return h.ask(ctx, &request{key: key, agent: agent, op: opCancel, run: run, by: by})
}

// Flush writes what a session still holds back lazily and waits for it.
func (h *Host) Flush(ctx context.Context, key messages.SessionKey, agent *Agent) error {
	_, err := h.ask(ctx, &request{key: key, agent: agent, op: opFlush})
	return err
}

func (h *Host) ask(ctx context.Context, req *request) (Reply, error) {
	req.reply = make(chan Reply, 1)
	select {
	case <-h.ctx.Done():
		return Reply{}, messages.Errorf(messages.ErrCancelled, "the host is stopping")
	default:
	}
	if ref := h.dir.get(req.key.SID()); ref != nil {
		h.system.Root.Send(ref.pid, req)
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
		<-h.ctx.Done()
		return
	}
	tick := time.NewTicker(max(h.cfg.IdleTimeout/4, 10*time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-h.ctx.Done():
			return
		case <-tick.C:
			for _, ref := range h.dir.idleBefore(h.cfg.Now().Add(-h.cfg.IdleTimeout)) {
				h.system.Root.Send(ref.pid, &sleep{})
			}
		}
	}
}

// Stop ends every session: turns in flight end as the process dying would end
// them, and are settled by the next activation. It returns when nothing started
// here runs any more, or with ctx's error. Calling it again waits as well.
func (h *Host) Stop(ctx context.Context) error {
	h.stop.Do(func() {
		h.cancel()
		go h.shutdown()
	})
	select {
	case <-h.stopped:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *Host) shutdown() {
	defer close(h.stopped)
	all := &stopAll{done: make(chan struct{})}
	h.system.Root.Send(h.root, all)
	<-all.done
	h.work.Wait()
	h.hub.Close()
	<-h.wheel
	_ = h.system.Root.StopFuture(h.root).Wait()
	h.lost()
	h.system.Shutdown()
	h.pool.Close()
}

// run runs f on a goroutine that Stop waits for.
func (h *Host) run(f func()) {
	h.work.Add(1)
	h.pool.Run(func() {
		defer h.work.Done()
		f()
	})
}

// typeName names an unknown message without printing what it holds.
func typeName(v any) string { return fmt.Sprintf("%T", v) }
