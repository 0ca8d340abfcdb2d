package host

import (
	"context"
	"slices"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/messages"
)

// Which tenants may use which agents. One that a tenant may not use is, to that tenant, one
// that there is not, and so are sessions that run it.

// everyone, among tenants, is each that is not named; among agents it is all of them.
const everyone = "*"

// checkUse finds names of agents that there are none of: a restriction that is misspelt
// would keep out, or let in, others than it says.
func (o *offer) checkUse() error {
	for tenant, agents := range o.MayUse {
		for _, name := range agents {
			if name != everyone && o.agents[name] == nil {
				return &messages.Error{Code: messages.ErrConfig, Field: "may_use." + tenant, Detail: "no agent named " + name + " is offered"}
			}
		}
	}
	return nil
}

// may reports whether a tenant may use an agent. Once something is said of agents, a
// tenant that is not named, and that "*" does not stand for, has none.
func (s *Server) may(tenant, agent string) bool { return s.offer.Load().may(tenant, agent) }

func (o *offer) may(tenant, agent string) bool {
	if o.MayUse == nil {
		return true
	}
	names, ok := o.MayUse[tenant]
	if !ok {
		names = o.MayUse[everyone]
	}
	return slices.Contains(names, everyone) || slices.Contains(names, agent)
}

// offered is the agent of a name, for the caller; nil when there is none.
func (s *Server) offered(ctx context.Context, name string) *stile.Agent {
	o := s.offer.Load()
	if !o.may(s.principal(ctx).tenant, name) {
		return nil
	}
	return o.agents[name]
}

// busyOf is the busy policy of an agent; "" of one that is not offered any more.
func (s *Server) busyOf(name string) messages.Policy {
	if a := s.offer.Load().agents[name]; a != nil {
		return a.Manifest.Loop.Busy
	}
	return ""
}

// offers lists the names of agents that a tenant may use, in order.
func (s *Server) offers(tenant string) (names []string) {
	o := s.offer.Load()
	for name := range o.agents {
		if o.may(tenant, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// usable refuses a session whose agent the tenant may not use, as one that is not there. An
// agent that the host does not offer is one that others run, and their callers see it.
func (s *Server) usable(sid, agent string) error {
	if o := s.offer.Load(); o.agents[agent] != nil && !o.may(tenantOf(sid), agent) {
		return &messages.Error{Code: messages.ErrNotFound, Reason: access.ReasonNotFound, Field: "session", Detail: "no session " + sid}
	}
	return nil
}

// reachable refuses a session that is there and not usable, for what needs no agent of it.
func (s *Server) reachable(ctx context.Context, sid string) error {
	if s.offer.Load().MayUse == nil {
		return nil
	}
	ses, err := s.rt.Find(ctx, sid)
	if err != nil {
		return nil // what is asked for says what is wrong
	}
	return s.usable(sid, ses.AgentName())
}
