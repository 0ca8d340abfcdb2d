package actors

import (
	"strconv"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile/actors/internal/mailbox"
	"github.com/seed14be6753/stile/internal/directory"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/supervisor"
)

// root supervises the sessions and alone spawns and retires them.
//
// Accepts: *request (spawn the session if it sleeps, pass the request on),
// *sessionOver (a session went to sleep), *stopAll, *letGo, *supervisor.Failure,
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
		actor.WithSupervisor(supervisor.OfTurn{}), actor.WithDispatcher(&h.pool), actor.WithMailbox(mailbox.New))
	return r
}

// sessionOver says that a session has nothing left to do and forwards what it still
// gets.
type sessionOver struct{ ref *directory.Session }

// stopAll ends every session; done is closed when none is left.
type stopAll struct{ done chan struct{} }

// letGo ends every session, and the host goes on.
type letGo struct{ why error }

// Receive implements actor.Actor.
func (r *root) Receive(c actor.Context) {
	switch msg := c.Message().(type) {
	case *request:
		r.pass(c, msg)
	case *sessionOver:
		r.remove(msg.ref)
		c.Stop(msg.ref.PID)
	case *stopAll:
		r.stopping = msg
		for _, pid := range c.Children() {
			c.Stop(pid)
		}
		r.maybeDone()
	case *letGo:
		for _, pid := range c.Children() {
			if ref := r.host.dir.Who(pid.Id); ref != nil && r.remove(ref) {
				r.host.hub.Fail(ref.SID, msg.why)
				c.Stop(pid)
			}
		}
	case *supervisor.Failure:
		r.host.log.Error("session failed", zap.String("pid", msg.Who.Id), zap.String("panic", supervisor.Detail(msg.Panic)),
			zap.Bool("stopped", msg.Stopped), zap.ByteString("stack", msg.Stack))
	case *actor.Terminated:
		r.ended(c, msg.Who)
	case *actor.Started, *actor.Stopping, *actor.Stopped, *actor.Restarting:
	default:
		r.host.log.Warn("root: unknown message", zap.Any("type", typeName(msg)))
	}
}

// remove takes a session out of the directory and reports whether it was there.
func (r *root) remove(ref *directory.Session) bool {
	if !r.host.dir.Remove(ref) {
		return false
	}
	r.host.cfg.Observer.SessionAsleep()
	return true
}

// maxHops bounds how often a request is sent on because its session stopped.
const maxHops = 8

// ended lets go of a session whose actor has stopped, and wakes it again for
// what was still on its way to it.
func (r *root) ended(c actor.Context, pid *actor.PID) {
	r.alive--
	if ref := r.host.dir.Who(pid.Id); ref != nil {
		if r.remove(ref) && r.stopping == nil {
			// It did not leave by itself: it crashed too often. Its runs stand
			// still until it is opened again, so no caller shall wait for them.
			r.host.hub.Fail(ref.SID, messages.Errorf(messages.ErrCrash, "the session crashed too often and was stopped"))
		}
		for _, sent := range r.host.dir.Forget(ref, pid.Id) {
			req := sent.Request.(*request)
			if req.hops++; req.hops > maxHops {
				req.refuse(messages.ErrCrash, "the session does not come up")
				continue
			}
			r.pass(c, req)
		}
		// What was open when the host stopped is for others to take: it stays this host's, whose
		// lease ends.
		if r.stopping == nil && r.host.dir.Find(ref.SID) == nil {
			r.host.cfg.Leases.GiveUp(ref.SID)
		}
	}
	r.maybeDone()
}

func (r *root) maybeDone() {
	if r.stopping != nil && r.alive == 0 {
		close(r.stopping.done)
	}
}

func (r *root) pass(c actor.Context, req *request) {
	if r.stopping != nil {
		req.refuse(messages.ErrCancelled, "the host is stopping")
		return
	}
	ref := r.host.dir.Aim(req.key.SID(), &req.transit)
	if ref == nil {
		if req.agent == nil {
			req.refuse(messages.ErrNotFound, "the session is not open here")
			return
		}
		if err := r.wake(c, req); err != nil {
			req.refuse(messages.ErrCrash, "the session's actor cannot be spawned")
			return
		}
		ref = r.host.dir.Aim(req.key.SID(), &req.transit)
	}
	c.Send(ref.PID, req)
}

// wake spawns a session. Its actor knows who it is before it runs.
func (r *root) wake(c actor.Context, req *request) error {
	r.spawned++
	name := "s" + strconv.FormatUint(r.spawned, 36)
	ref := &directory.Session{Key: req.key, SID: req.key.SID(), Agent: req.agent}
	id := c.Self().Id + "/" + name
	r.host.dir.Introduce(ref, id)
	pid, err := c.SpawnNamed(r.props, name)
	if err != nil {
		r.host.dir.Forget(ref, id)
		return err
	}
	ref.PID = pid
	r.host.dir.Put(ref)
	r.alive++
	r.host.cfg.Observer.SessionAwake()
	return nil
}
