package stile

import (
	"context"

	"github.com/seed14be6753/stile/internal/lease"
	"github.com/seed14be6753/stile/internal/turn/driver"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// A session and the child sessions of its actions may run at different hosts of a cluster. When the
// action ends, its host has the other one cancel the child's run.

// CancelsChildrenAt says how the runtime has another host of its cluster cancel the run of a child
// session: that host's runtime does it by CancelChild. An error with ReasonElsewhere means that it did
// not, and that another host may have to. Without it, such a run goes on to its end. cancel is safe
// for concurrent use.
func (rt *Runtime) CancelsChildrenAt(cancel func(ctx context.Context, to Peer, run messages.ChildLink) error) {
	rt.cancelAt.Store(&cancel)
}

// cancelChildAt has another host cancel the run of a child session.
func (rt *Runtime) cancelChildAt(ctx context.Context, owner lease.Host, run messages.ChildLink) error {
	cancel := rt.cancelAt.Load()
	if cancel == nil {
		return lease.Refuse(run.SID, owner)
	}
	return (*cancel)(ctx, rt.peer(owner), run)
}

// CancelChild cancels the run of a child session, or what is in flight there (Run 0), because the
// action of the parent, at another host of the cluster, has ended. A run that has ended, or whose
// session is closed or begun anew, is no error. The error is ERR_INVALID for a session that is no
// child, and has ReasonElsewhere for one that yet another host runs.
func (rt *Runtime) CancelChild(ctx context.Context, run messages.ChildLink) error {
	key, err := messages.ParseSID(run.SID)
	if err != nil {
		return err
	}
	head, err := rt.store.Head(ctx, run.SID)
	if journal.IsNotFound(err) || err == nil && (head.Closed || head.Inc.String() != run.Incarnation) {
		return nil
	}
	if err != nil {
		return closedError(err)
	}
	link, err := journal.Parent(ctx, rt.store, head.Inc)
	if err != nil {
		return closedError(err)
	}
	if link == nil {
		return messages.Errorf(messages.ErrInvalid, "%s is no child session", run.SID)
	}
	agent, err := rt.agents.Find(ctx, &head)
	if err == nil && agent == nil {
		err = messages.Errorf(messages.ErrConfig, "the agent of %s is not known here", run.SID)
	}
	if err != nil {
		return closedError(err)
	}
	by := driver.Canceller(link)
	if run.Run == 0 {
		by = driver.Unawaited(link)
	}
	if _, err = rt.host.Cancel(ctx, key, agent, run.Run, by); messages.CodeOf(err) == messages.ErrDenied {
		return nil
	}
	return closedError(err)
}
