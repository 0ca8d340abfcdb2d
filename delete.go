package stile

import (
	"context"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// Delete ends a session and erases what it said: what is in flight is cancelled, the
// session is closed, and the bodies of its records, its blobs and its place in recall are
// removed for good, those of its child sessions too. The headers stay, so that the chain
// still verifies and shows that something was erased; replay and fork refuse it
// (docs/decisions/009). Its name is free for another session: a handle on it that is kept
// begins one with its next submit. by goes into session.closed.
//
// A session that does not exist is ERR_CONFIG and IsNotFound. ERR_BUSY tells that
// something in flight does not end before ctx does. It may be called again until it
// succeeds.
func (rt *Runtime) Delete(ctx context.Context, name, by string) error {
	head, err := rt.Archive().Head(ctx, name)
	if err == nil && head.Closed {
		var gone bool
		if gone, err = rt.erased(ctx, &head); gone {
			err = journal.Fail(journal.ReasonNotFound, nil, "session %s", head.SID)
		}
	}
	if journal.IsNotFound(err) {
		return &messages.Error{Code: messages.ErrConfig, Reason: journal.ReasonNotFound, Field: "session", Detail: "there is no session " + name}
	}
	if err != nil {
		return closedError(err)
	}
	return closedError(rt.remove(ctx, head, by))
}

// erasePasses is how often EraseUser looks for sessions that were begun meanwhile.
const erasePasses = 3

// EraseUser is Delete of all sessions of a user, what was said under an id that has
// been another session's since included, and ForgetProfile. It gives the names of those it
// erased, also with an error. It may be called again until it succeeds, and then finds
// nothing.
//
// ERR_BUSY tells that something in flight does not end before ctx does, or that sessions are
// begun as fast as they are erased: revoke the user's tokens first. What says nothing of
// what was said stays: headers and hashes under the sessions' names, the audit log, the
// tokens; and so do backups.
func (rt *Runtime) EraseUser(ctx context.Context, tenant, user, by string) (names []string, err error) {
	key := messages.SessionKey{Tenant: tenant, User: user, ID: messages.ProfileID}
	if err := key.Validate(); err != nil {
		return nil, err
	}
	own := strings.TrimSuffix(key.SID(), messages.ProfileID)
	for range erasePasses {
		before := len(names)
		for head, err := range rt.Archive().Sessions(ctx, own) {
			if err != nil {
				return names, closedError(err)
			}
			if head.SID == key.SID() {
				continue // below, after what it is learned from
			}
			if head.Closed {
				gone, err := rt.erased(ctx, &head)
				if err != nil {
					return names, closedError(err)
				}
				if gone {
					continue
				}
			}
			if err := rt.remove(ctx, head, by); err != nil {
				return names, closedError(err)
			}
			names = append(names, head.SID)
		}
		if len(names) == before {
			return names, rt.ForgetProfile(ctx, tenant, user)
		}
	}
	return names, messages.Errorf(messages.ErrBusy, "sessions of the user are begun as fast as they are erased")
}

// remove is Delete of a session that is there.
func (rt *Runtime) remove(ctx context.Context, head journal.Head, by string) error {
	if !head.Closed {
		if err := rt.end(ctx, head, by); err != nil {
			return err
		}
	}
	children, err := rt.childrenOf(ctx, &head)
	if err != nil {
		return err
	}
	for _, child := range children {
		if err := rt.remove(ctx, child, by); err != nil {
			return err
		}
	}
	n, err := rt.store.Erase(ctx, head.Inc, 0, 0)
	if err == nil {
		rt.log.Info("a session was deleted", zap.String("SID", head.SID), zap.String("incarnation", head.Inc.String()), zap.Int64("bodies", n))
	}
	return err
}

// erased tells that a session's bodies are gone already.
func (rt *Runtime) erased(ctx context.Context, head *journal.Head) (bool, error) {
	for r, err := range rt.store.Read(ctx, head.Inc, 1, 1) {
		return err == nil && r.Raw == nil, err
	}
	return true, nil
}

// childrenOf are the sessions that actions of this one ran, as far as they are there.
func (rt *Runtime) childrenOf(ctx context.Context, head *journal.Head) (all []journal.Head, err error) {
	seen := map[string]bool{}
	for r, err := range rt.store.Read(ctx, head.Inc, 0, 0) {
		if err != nil {
			return nil, err
		}
		if r.Raw == nil {
			continue // erased before, with what it named
		}
		if r, err = typed(r); err != nil {
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
			child, err := rt.store.Head(ctx, sid)
			if journal.IsNotFound(err) {
				continue
			}
			if err != nil {
				return nil, err
			}
			if gone, err := rt.erased(ctx, &child); err != nil || gone {
				if err != nil {
					return nil, err
				}
				continue
			}
			// Of the same name another session may be there meanwhile.
			parent, err := rt.Archive().Parent(ctx, child.Inc)
			if err != nil {
				return nil, err
			}
			if parent != nil && parent.Incarnation == head.Inc.String() {
				all = append(all, child)
			}
		}
	}
	return all, nil
}

// endWait is how long Delete waits between two looks at what it has cancelled.
const endWait = 20 * time.Millisecond

// end cancels what a session does, and closes it.
func (rt *Runtime) end(ctx context.Context, head journal.Head, by string) error {
	key, err := messages.ParseSID(head.SID)
	if err != nil {
		return err
	}
	c, err := rt.known.lookup(ctx, &head)
	if err != nil || c == nil {
		// Nobody here can wake it, and what cannot be read nobody can wake anywhere.
		return rt.closeAsleep(ctx, &head, by)
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
		err := rt.host.Close(ctx, key, c.agent, by)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			continue
		case slices.Contains([]string{journal.ReasonErased, journal.ReasonCorrupt}, journal.ReasonOf(err)):
			return rt.closeAsleep(ctx, &head, by)
		case messages.CodeOf(err) != messages.ErrBusy:
			return err
		}
		// One that ends meanwhile, or has not begun, is found by the next look.
		if _, err := rt.host.Cancel(ctx, key, c.agent, 0, by); err != nil && messages.CodeOf(err) != messages.ErrDenied && ctx.Err() == nil {
			return err
		}
	}
}

// closeAsleep closes a session that does not run here.
func (rt *Runtime) closeAsleep(ctx context.Context, head *journal.Head, by string) error {
	if rt.host.Awake(head.SID) {
		return messages.Errorf(messages.ErrBusy, "the session runs")
	}
	batch := journal.Batch{SID: head.SID, Inc: head.Inc, ExpectSeq: head.Seq, Epoch: head.Epoch + 1}
	batch.Records = []*messages.Record{{Seq: head.Seq + 1, Run: head.Run, Turn: head.Turn, TS: rt.cfg.Now(), Body: &messages.SessionClosed{Reason: by}}}
	sealer := journal.NewSealer(journal.SealerConfig{Head: *head, Epoch: batch.Epoch, Rand: rt.cfg.Rand, Signer: ringKeys{rt.keys}, Receipts: journal.ReceiptsDecision})
	if err := sealer.Seal(batch.Records, rt.cfg.Now()); err != nil {
		return err
	}
	done := make(chan error, 1)
	rt.writer.Append(batch, func(err error) { done <- err })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Expire deletes the sessions, of all tenants, whose last record is older than before, at
// most limit of them (0: all), and tells how many. Sessions that have something in
// flight, wait for an approval or belong to another one stay. What fails is logged and
// left for the next time; the error is the journal's, or ctx's.
func (rt *Runtime) Expire(ctx context.Context, before time.Time, limit int) (n int, err error) {
	for head, err := range rt.Archive().Sessions(ctx, "") {
		if err != nil {
			return n, closedError(err)
		}
		if limit > 0 && n >= limit {
			break
		}
		old, err := rt.expired(ctx, &head, before)
		if err != nil {
			return n, closedError(err)
		}
		if !old {
			continue
		}
		if err := rt.remove(ctx, head, "retention"); err != nil {
			if ctx.Err() != nil {
				return n, ctx.Err()
			}
			rt.log.Warn("a session whose time is over stays", zap.String("SID", head.SID), zap.Error(err))
			continue
		}
		n++
	}
	return n, nil
}

// expired tells that retention has nothing to wait for.
func (rt *Runtime) expired(ctx context.Context, head *journal.Head, before time.Time) (bool, error) {
	if head.Open || head.Queued > 0 || head.Suspended() || head.Seq == 0 {
		return false, nil
	}
	if gone, err := rt.erased(ctx, head); gone || err != nil {
		return false, err
	}
	for r, err := range rt.store.Read(ctx, head.Inc, head.Seq, head.Seq) {
		if err != nil || !r.TS.Before(before) {
			return false, err
		}
	}
	parent, err := rt.Archive().Parent(ctx, head.Inc)
	return err == nil && parent == nil, err
}
