// Package erase ends sessions and erases their contents: one session, all of a user, all past
// their retention. Headers stay, so that the chain still verifies and shows the erasure
// (docs/decisions/009).
package erase

import (
	"context"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/actors"
	"github.com/seed14be6753/stile/internal/compiler"
	"github.com/seed14be6753/stile/internal/groupcommit"
	"github.com/seed14be6753/stile/internal/turn/driver"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// Eraser erases sessions of a host.
type Eraser struct {
	Host   *actors.Host
	Agents *compiler.Directory
	Store  journal.Store
	Writer *groupcommit.Writer
	// Seal seals records that continue a head outside of an activation.
	Seal func(head *journal.Head, b *journal.Batch, signed journal.Receipts) error
	Log  *zap.Logger
	Now  func() time.Time
}

// Session erases a session and its child sessions. It cancels the runs in flight, closes the
// session, and removes the bodies of its records, its blobs and its texts in recall. by goes
// into session.closed. The error is ERR_NOT_FOUND if the session was erased before, ERR_BUSY if
// a run does not end before ctx does.
func (e *Eraser) Session(ctx context.Context, head journal.Head, by string) error {
	if head.Closed {
		gone, err := e.erased(ctx, &head)
		if err == nil && gone {
			err = journal.Fail(journal.ReasonNotFound, nil, "session %s", head.SID)
		}
		if err != nil {
			return err
		}
	}
	return e.remove(ctx, head, by)
}

// erasePasses bounds how often User looks for sessions that were begun meanwhile.
const erasePasses = 3

// User erases all sessions of a user, retired incarnations included, and then calls forget for
// the profile; key is that of the profile. It returns the names of the erased sessions, also
// with an error. It may be called again until it succeeds.
func (e *Eraser) User(ctx context.Context, key messages.SessionKey, by string, forget func(context.Context, messages.SessionKey) error) (names []string, err error) {
	own := strings.TrimSuffix(key.SID(), messages.ProfileID)
	for range erasePasses {
		before := len(names)
		for head, err := range journal.List(ctx, e.Store, own, "") {
			if err != nil {
				return names, err
			}
			if head.SID == key.SID() {
				continue // the profile is erased below, after its sources
			}
			if head.Closed {
				gone, err := e.erased(ctx, &head)
				if err != nil {
					return names, err
				}
				if gone {
					continue
				}
			}
			if err := e.remove(ctx, head, by); err != nil {
				return names, err
			}
			names = append(names, head.SID)
		}
		if len(names) == before {
			return names, forget(ctx, key)
		}
	}
	return names, messages.Errorf(messages.ErrBusy, "sessions of the user are begun as fast as they are erased")
}

// remove ends and erases one session.
func (e *Eraser) remove(ctx context.Context, head journal.Head, by string) error {
	if !head.Closed {
		if err := e.end(ctx, head, by); err != nil {
			return err
		}
	}
	children, err := e.childrenOf(ctx, &head)
	if err != nil {
		return err
	}
	for _, child := range children {
		if err := e.remove(ctx, child, by); err != nil {
			return err
		}
	}
	n, err := e.Store.Erase(ctx, head.Inc, 0, 0)
	if err == nil {
		e.Log.Info("a session was deleted", zap.String("SID", head.SID), zap.String("incarnation", head.Inc.String()), zap.Int64("bodies", n))
	}
	return err
}

// erased reports whether a session's bodies are gone already.
func (e *Eraser) erased(ctx context.Context, head *journal.Head) (bool, error) {
	for r, err := range e.Store.Read(ctx, head.Inc, 1, 1) {
		return err == nil && r.Raw == nil, err
	}
	return true, nil
}

// childrenOf returns the sessions that actions of this one have run, if they still exist.
func (e *Eraser) childrenOf(ctx context.Context, head *journal.Head) (all []journal.Head, err error) {
	seen := map[string]bool{}
	for r, err := range e.Store.Read(ctx, head.Inc, 0, 0) {
		if err != nil {
			return nil, err
		}
		if r.Raw == nil {
			continue // erased before, with what it named
		}
		if r, err = journal.Typed(r); err != nil {
			return nil, err
		}
		var sids []string
		switch b := r.Body.(type) {
		case *messages.ActionStarted:
			if b.Child != "" {
				sids = append(sids, b.Child)
			}
		case *messages.ActionEnded:
			for i := range b.Children {
				sids = append(sids, b.Children[i].SID)
			}
		}
		for _, sid := range sids {
			if seen[sid] {
				continue
			}
			seen[sid] = true
			child, err := e.Store.Head(ctx, sid)
			if journal.IsNotFound(err) {
				continue
			}
			if err != nil {
				return nil, err
			}
			if gone, err := e.erased(ctx, &child); err != nil || gone {
				if err != nil {
					return nil, err
				}
				continue
			}
			// Another session may have the name by now.
			parent, err := journal.Parent(ctx, e.Store, child.Inc)
			if err != nil {
				return nil, err
			}
			if parent != nil && parent.Incarnation == head.Inc.String() {
				all = append(all, child)
			}
		}
	}
	return e.feedSessions(ctx, head, all)
}

// feedSessions adds the sessions in which agents were asked for feeds of this one.
func (e *Eraser) feedSessions(ctx context.Context, head *journal.Head, all []journal.Head) ([]journal.Head, error) {
	key, err := messages.ParseSID(head.SID)
	if err != nil {
		return nil, err
	}
	for _, prefix := range driver.FeedPrefixes(key) {
		for child, err := range journal.List(ctx, e.Store, prefix, "") {
			if err != nil {
				return nil, err
			}
			gone, err := e.erased(ctx, &child)
			if err != nil || gone {
				if err != nil {
					return nil, err
				}
				continue
			}
			link, err := journal.Parent(ctx, e.Store, child.Inc)
			if err != nil {
				return nil, err
			}
			if link == nil || link.Incarnation != head.Inc.String() {
				continue
			}
			if _, ok := driver.FeedOf(link); ok {
				all = append(all, child)
			}
		}
	}
	return all, nil
}

// endWait is the pause between two checks whether cancelled runs have ended.
const endWait = 20 * time.Millisecond

// end cancels the runs of a session, and closes it.
func (e *Eraser) end(ctx context.Context, head journal.Head, by string) error {
	key, err := messages.ParseSID(head.SID)
	if err != nil {
		return err
	}
	c, err := e.Agents.Of(ctx, &head)
	if err != nil || c == nil {
		// No agent here can wake the session, and no host can wake one that cannot be read.
		return e.closeAsleep(ctx, &head, by)
	}
	wait := time.NewTimer(0)
	defer wait.Stop()
	for {
		select {
		case <-wait.C:
			wait.Reset(endWait)
		case <-ctx.Done():
			return messages.Errorf(messages.ErrBusy, "something of the session does not end")
		}
		err := e.Host.Close(ctx, key, c.Actor, by)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			continue
		case slices.Contains([]string{journal.ReasonErased, journal.ReasonCorrupt, journal.ReasonUnproved}, journal.ReasonOf(err)):
			// What was refused ends by itself, and is not woken again meanwhile.
			for e.Host.Awake(head.SID) {
				select {
				case <-wait.C:
					wait.Reset(endWait)
				case <-ctx.Done():
					return messages.Errorf(messages.ErrBusy, "the session does not end")
				}
			}
			return e.closeAsleep(ctx, &head, by)
		case messages.CodeOf(err) != messages.ErrBusy:
			return err
		}
		// One that ends meanwhile, or has not begun, is found by the next look.
		if _, err := e.Host.Cancel(ctx, key, c.Actor, 0, by); err != nil && messages.CodeOf(err) != messages.ErrDenied && ctx.Err() == nil {
			return err
		}
	}
}

// closeAsleep closes a session that does not run here.
func (e *Eraser) closeAsleep(ctx context.Context, head *journal.Head, by string) error {
	if e.Host.Awake(head.SID) {
		return messages.Errorf(messages.ErrBusy, "the session runs")
	}
	batch := journal.Batch{SID: head.SID, Inc: head.Inc, ExpectSeq: head.Seq, Epoch: head.Epoch + 1}
	batch.Records = []*messages.Record{{Seq: head.Seq + 1, Run: head.Run, Turn: head.Turn, TS: e.Now(), Body: &messages.SessionClosed{Reason: by}}}
	if err := e.Seal(head, &batch, journal.ReceiptsDecision); err != nil {
		return err
	}
	return e.Writer.AppendWait(ctx, batch)
}

// Expire erases the sessions of all tenants whose last record is older than before, at most
// limit of them (0: all), and returns how many. Sessions with a run in flight or a pending
// approval, and child sessions, are kept. A failure with one session is logged and tried again
// the next time; the error is the journal's, or the cause of ctx.
func (e *Eraser) Expire(ctx context.Context, before time.Time, limit int) (n int, err error) {
	for head, err := range journal.List(ctx, e.Store, "", "") {
		if err != nil {
			return n, err
		}
		if limit > 0 && n >= limit {
			break
		}
		old, err := e.expired(ctx, &head, before)
		if err != nil {
			return n, err
		}
		if !old {
			continue
		}
		if err := e.remove(ctx, head, "retention"); err != nil {
			if ctx.Err() != nil {
				return n, ctx.Err()
			}
			e.Log.Warn("a session whose time is over stays", zap.String("SID", head.SID), zap.Error(err))
			continue
		}
		n++
	}
	return n, nil
}

// expired reports whether retention may erase a session.
func (e *Eraser) expired(ctx context.Context, head *journal.Head, before time.Time) (bool, error) {
	if head.Open || head.Queued > 0 || head.Suspended() || head.Seq == 0 {
		return false, nil
	}
	if gone, err := e.erased(ctx, head); gone || err != nil {
		return false, err
	}
	for r, err := range e.Store.Read(ctx, head.Inc, head.Seq, head.Seq) {
		if err != nil || !r.TS.Before(before) {
			return false, err
		}
	}
	parent, err := journal.Parent(ctx, e.Store, head.Inc)
	return err == nil && parent == nil, err
}
