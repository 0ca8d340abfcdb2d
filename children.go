package stile

import (
	"context"

	"github.com/seed14be6753/stile/internal/lease"
	"github.com/seed14be6753/stile/internal/turn/driver"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// A session and its child sessions may run at different hosts of a cluster. When an action ends, its host
// has the other one cancel the child's run. A fetch of a feed has the other one begin a run.

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

// SubmitsToChildrenAt says how the runtime has another host of its cluster begin a run in the child session
// of a feed: that host's runtime does it by SubmitToChild. An error with ReasonElsewhere means that it may not
// have done so, and that the runtime may ask again, also another host: the key of the input makes one run of
// both. Without it, the fetch fails. submit is safe for concurrent use.
func (rt *Runtime) SubmitsToChildrenAt(submit func(ctx context.Context, to Peer, sid string, parent messages.ParentLink, in messages.Input) (messages.ChildLink, error)) {
	rt.submitAt.Store(&submit)
}

// submitToChildAt has another host begin a run in the child session of a feed.
func (rt *Runtime) submitToChildAt(ctx context.Context, owner lease.Host, sid string, link messages.ParentLink, in messages.Input) (run messages.ChildLink, err error) {
	submit := rt.submitAt.Load()
	if submit == nil {
		return run, messages.Errorf(messages.ErrConfig, "this host has no way to ask %s, which runs %s", owner.Address, sid)
	}
	return (*submit)(ctx, rt.peer(owner), sid, link, in)
}

// SubmitToChild begins a run in the child session of a feed, for the host of the cluster that runs the session
// whose feed it is, and returns the run when the input is durable. The input has a key. It is queued, on behalf
// of the child's own user, and has no parts. The errors are those of a submit, ERR_INVALID for a session that
// is of no feed or of another one and for an input without a key, and one with ReasonElsewhere for a session
// that this host does not run.
func (rt *Runtime) SubmitToChild(ctx context.Context, sid string, parent messages.ParentLink, in messages.Input) (run messages.ChildLink, err error) {
	key, err := messages.ParseSID(sid)
	if err != nil {
		return run, err
	}
	if in.Key == "" {
		return run, messages.Errorf(messages.ErrInvalid, "the input for %s has no key", sid)
	}
	head, err := rt.store.Head(ctx, sid)
	if journal.IsNotFound(err) || err == nil && head.Closed { // the asker begins it
		return run, &messages.Error{Code: messages.ErrBusy, Reason: ReasonElsewhere, Detail: sid + " is not open"}
	}
	if err != nil {
		return run, closedError(err)
	}
	link, err := journal.Parent(ctx, rt.store, head.Inc)
	if err != nil {
		return run, closedError(err)
	}
	if _, feed := driver.FeedOf(&parent); !feed || link == nil || *link != parent {
		return run, messages.Errorf(messages.ErrInvalid, "%s is not the session of %s of %s", sid, parent.Action, parent.SID)
	}
	agent, err := rt.agents.Find(ctx, &head)
	if err == nil && agent == nil {
		err = messages.Errorf(messages.ErrConfig, "the agent of %s is not known here", sid)
	}
	if err != nil {
		return run, closedError(err)
	}
	in.Policy, in.User, in.Parts, in.Data = messages.Enqueue, key.User, nil, nil
	rep, err := rt.host.SubmitChild(ctx, key, agent, parent, in)
	if err != nil {
		return run, closedError(err)
	}
	if rep.End != nil {
		rep.End.Cancel() // the asker waits by the journal
	}
	return messages.ChildLink{SID: sid, Incarnation: rep.Inc.String(), Run: rep.Run}, nil
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
