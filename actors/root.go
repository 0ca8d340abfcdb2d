package actors

import (
	"strconv"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/supervisor"
)

// root supervises the sessions and alone spawns and retires them.
//
// Accepts: *request (spawn the session if it sleeps, pass the request on),
// *retired (a session went to sleep), *stopAll, *supervisor.Failure,
// *actor.Terminated.
type root struct {
	host     *Host
	props    *actor.Props // of every session
	spawned  uint64
	alive    int // session actors that have not terminated
	stopping *stopAll
}

func newRoot(h *Host) *root {
	r := &root{host: h}
	// One Props for all: an idle session does not pay for its own. A session finds
	// out who it is by its PID, also after a restart.
	r.props = actor.PropsFromProducer(func() actor.Actor { return &session{host: h} },
		actor.WithSupervisor(supervisor.OfTurn{}), actor.WithDispatcher(&h.pool), actor.WithMailbox(actor.UnboundedLockfree()))
	return r
}

// retired says that a session has nothing left to do and forwards what it still
// gets.
type retired struct {
	sid string
	pid *actor.PID
}

// stopAll ends every session; done is closed when none is left.
type stopAll struct{ done chan struct{} }

// Receive implements actor.Actor.
func (r *root) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *request:
		r.pass(c, msg)
	case *retired:
		r.forget(msg.pid)
		c.Stop(msg.pid)
	case *stopAll:
		r.stopping = msg
		for _, pid := range c.Children() {
			c.Stop(pid)
		}
		r.maybeDone()
	case *supervisor.Failure:
		r.host.log.Error("session failed", zap.String("pid", msg.Who.Id), zap.String("panic", supervisor.Detail(msg.Panic)),
			zap.Bool("stopped", msg.Stopped), zap.ByteString("stack", msg.Stack))
	case *actor.Terminated:
		r.alive--
		r.forget(msg.Who)
		r.maybeDone()
	case *actor.Started, *actor.Stopping, *actor.Stopped, *actor.Restarting:
	default:
		r.host.log.Warn("root: unknown message", zap.Any("type", typeName(msg)))
	}
}

func (r *root) forget(pid *actor.PID) {
	if r.host.dir.forget(pid.Id) {
		r.host.cfg.Observer.SessionAsleep()
	}
}

func (r *root) maybeDone() {
	if r.stopping != nil && r.alive == 0 {
		select {
		case <-r.stopping.done:
		default:
			close(r.stopping.done)
		}
	}
}

func (r *root) pass(c actor.Context, req *request) {
	if r.stopping != nil {
		req.refuse(messages.ErrCancelled, "the host is stopping")
		return
	}
	sid := req.key.SID()
	ref := r.host.dir.get(sid)
	if ref == nil {
		if req.agent == nil {
			req.refuse(messages.ErrConfig, "the session is not open here")
			return
		}
		var err error
		if ref, err = r.wake(c, req, sid); err != nil {
			req.refuse(messages.ErrCrash, "the session's actor cannot be spawned")
			return
		}
	}
	c.Send(ref.pid, req)
}

// wake spawns a session. Its actor knows who it is before it runs.
func (r *root) wake(c actor.Context, req *request, sid string) (*sessionRef, error) {
	r.spawned++
	name := "s" + strconv.FormatUint(r.spawned, 36)
	ref := &sessionRef{key: req.key, sid: sid, agent: req.agent}
	id := c.Self().Id + "/" + name
	r.host.dir.introduce(ref, id)
	pid, err := c.SpawnNamed(r.props, name)
	if err != nil {
		r.host.dir.forget(id)
		return nil, err
	}
	ref.pid = pid
	r.host.dir.put(ref)
	r.alive++
	r.host.cfg.Observer.SessionAwake()
	return ref, nil
}
