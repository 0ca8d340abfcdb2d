package wake

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/internal/lease"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/internal/turn/driver"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// EndChildren cancels the runs that an action of parent, in its incarnation inc, left in child
// sessions when a crash ended its turn: no action waits for them any more. A child whose agent this
// host does not know stays as it is until it is opened. It returns when they are cancelled.
func (w *Waker) EndChildren(parent string, inc messages.Incarnation, e *turn.EndChildren) {
	err := w.children(w.ctx, parent, e.SID, func(head *journal.Head, link *messages.ParentLink) error {
		if !driver.Ends(e, parent, inc.String(), link) {
			return nil
		}
		return w.endChild(w.ctx, head, driver.Unawaited(link))
	})
	if err != nil && w.ctx.Err() == nil {
		w.Log.Error("the child sessions of an action cannot be stopped", zap.String("SID", parent), zap.String("action", e.ID), zap.Error(err))
	}
}

// children visits the sessions with something open that have parent's name in theirs,
// and the one of the name sid, if there is one, with whom they are children of.
func (w *Waker) children(ctx context.Context, parent, sid string, visit func(*journal.Head, *messages.ParentLink) error) error {
	see := func(head *journal.Head) error {
		if !head.Open && head.Queued == 0 {
			return nil
		}
		link, err := journal.Parent(ctx, w.Store, head.Inc)
		if err != nil || link == nil {
			return err
		}
		return visit(head, link)
	}
	if sid != "" && !strings.HasPrefix(sid, parent+".") {
		head, err := w.Store.Head(ctx, sid)
		if err == nil {
			err = see(&head)
		}
		if err != nil && !journal.IsNotFound(err) {
			return err
		}
	}
	q := journal.Query{Prefix: parent + "."}
	for {
		page, err := w.Store.Sessions(ctx, q)
		if err != nil {
			return err
		}
		for i := range page {
			if err := see(&page[i]); err != nil {
				return err
			}
		}
		if len(page) < q.Page() {
			return nil
		}
		last := &page[len(page)-1]
		q.AfterSID, q.AfterInc = last.SID, last.Inc
	}
}

// endChild cancels whatever is open in a session.
func (w *Waker) endChild(ctx context.Context, head *journal.Head, by string) error {
	key, err := messages.ParseSID(head.SID)
	if err != nil || w.Agent == nil {
		return err
	}
	agent, err := w.Agent(ctx, head)
	if err != nil {
		return err
	}
	if agent == nil {
		w.Log.Warn("a child session that no action waits for stays open: its agent is not known here", zap.String("SID", head.SID))
		return nil
	}
	return w.CancelChild(ctx, key, agent, messages.ChildLink{SID: head.SID, Incarnation: head.Inc.String()}, by)
}

// How long a cancel looks for the host that runs a child session, longer than a lease that is not
// renewed, and the time between two looks.
const (
	cancelPatience = 15 * time.Second
	cancelPause    = 100 * time.Millisecond
)

// CancelChild cancels a run of a child session (0: what is in flight), at the host that runs it: this
// one, or the one whose lease says so. It returns nil for a run that has ended.
func (w *Waker) CancelChild(ctx context.Context, key messages.SessionKey, agent *compiled.Agent, run messages.ChildLink, by string) error {
	for until := time.Now().Add(cancelPatience); ; {
		err := w.Cancel(ctx, key, agent, run.Run, by)
		if owner, elsewhere := lease.Owner(err); elsewhere && w.CancelAt != nil {
			within, cancel := context.WithDeadline(ctx, until)
			err = w.CancelAt(within, owner, run)
			cancel()
		}
		var e *messages.Error
		switch {
		case messages.CodeOf(err) == messages.ErrDenied: // it has ended
			return nil
		case !errors.As(err, &e) || e.Reason != lease.ReasonElsewhere || time.Now().After(until):
			return err
		}
		select {
		case <-time.After(cancelPause):
		case <-ctx.Done():
			return err
		case <-w.ctx.Done():
			return err
		}
	}
}
