package actors

import (
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
	stopping *stopAll
	sids     map[string]string // by the id of the PID
}

func newRoot(h *Host) *root { return &root{host: h, sids: map[string]string{}} }

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
		r.maybeDone(c)
	case *supervisor.Failure:
		r.host.log.Error("session failed", zap.String("pid", msg.Who.Id), zap.String("panic", supervisor.Detail(msg.Panic)),
			zap.Bool("stopped", msg.Stopped), zap.ByteString("stack", msg.Stack))
	case *actor.Terminated:
		r.forget(msg.Who)
		r.maybeDone(c)
	case *actor.Started, *actor.Stopping, *actor.Stopped, *actor.Restarting:
	default:
		r.host.log.Warn("root: unknown message", zap.Any("type", typeName(msg)))
	}
}

// forget takes a session out of the directory; a second call for the same actor
// finds nothing.
func (r *root) forget(pid *actor.PID) {
	if sid, ok := r.sids[pid.Id]; ok {
		delete(r.sids, pid.Id)
		r.host.dir.delete(sid)
		r.host.cfg.Observer.SessionAsleep()
	}
}

func (r *root) maybeDone(c actor.Context) {
	if r.stopping != nil && len(c.Children()) == 0 {
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
		ref = &sessionRef{key: req.key}
		agent := req.agent
		ref.pid = c.Spawn(actor.PropsFromProducer(func() actor.Actor { return newSession(r.host, ref, agent) },
			actor.WithSupervisor(supervisor.OfTurn{}), actor.WithDispatcher(&r.host.pool)))
		r.sids[ref.pid.Id] = sid
		r.host.cfg.Observer.SessionAwake()
		r.host.dir.put(sid, ref)
	}
	c.Send(ref.pid, req)
}
