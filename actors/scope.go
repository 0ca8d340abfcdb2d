package actors

import (
	"context"
	"time"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools/catalog"
)

// Relics of a user or tenant are kept in a session of their own, whichever host runs it. A call
// is answered when its change is on disk there (docs/decisions/026-a-scope-is-a-session.md).

const (
	// scopeTries is how often a call is made whose session loses its journal to another host.
	scopeTries = 40
	// scopePause is the pause after the first try; it doubles up to scopeMaxPause.
	scopePause    = 2 * time.Millisecond
	scopeMaxPause = 250 * time.Millisecond
	// clockSkew is how far the clocks of hosts may differ: no change of an older time than the
	// calling session, by more than that, can be the call's.
	clockSkew = time.Hour
)

// caller is the session whose action or feed calls a relic.
type caller struct {
	sid   string
	inc   messages.Incarnation
	epoch int64
	reads bool // a feed, which only looks
	// repeat says that an earlier attempt, of a process that is gone, may have done the operation:
	// then its result is in the journal.
	repeat bool
}

// keepScoped does one operation on a relic of the user or tenant of a session.
func (h *Host) keepScoped(ctx context.Context, by caller, k catalog.KeepCall) (string, error) {
	from, err := messages.ParseSID(by.sid)
	if err != nil {
		return "", err
	}
	key, ok := from.Relics(k.Scope)
	if !ok {
		return "", messages.Errorf(messages.ErrConfig, "tenant and user of %s leave no room for the name of the session of their relics", by.sid)
	}
	if h.cfg.Relics == nil {
		return "", messages.Errorf(messages.ErrConfig, "this host keeps no relics of a %s", k.Scope)
	}
	agent, err := h.cfg.Relics(ctx)
	if err != nil {
		return "", err
	}
	call := &turn.ScopeCall{By: by.sid, Key: k.Key, Relic: k.Relic, Args: k.Args, Limits: k.Limits, Reads: by.reads, Repeat: by.repeat}
	pause := scopePause
	for try := 1; ; try++ {
		result, done, err := h.tryScoped(ctx, key, agent, call, &by)
		if done || try == scopeTries {
			return result, err
		}
		call.Repeat = !by.reads // it may have been written all the same
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return "", err
		}
		pause = min(2*pause, scopeMaxPause)
	}
}

// tryScoped makes a call once; done is false where it may be made again.
func (h *Host) tryScoped(ctx context.Context, key messages.SessionKey, agent *Agent, call *turn.ScopeCall, by *caller) (result string, done bool, err error) {
	own := *call
	head, err := h.cfg.Store.Head(ctx, key.SID())
	switch {
	case journal.IsNotFound(err) || err == nil && head.Closed:
		if own.Reads { // a look opens no session
			result, err = new(turn.State).ReadRelic(call.Relic, call.Args, h.cfg.Now())
			return result, true, err
		}
	case err != nil:
		return "", false, err
	default:
		own.Head = head.Seq
		if own.Repeat {
			own.Searched = head.Seq
			since := time.Unix(by.inc.Time().UnixTime()).Add(-clockSkew)
			if result, done, err = h.scopedBefore(ctx, &head, call.Key, since); done || err != nil {
				return result, done, err
			}
		}
	}
	// A host that took the session over repeats what this one was at, behind the position above.
	if !own.Reads {
		switch head, err := h.cfg.Store.HeadOf(ctx, by.inc); {
		case err != nil:
			return "", false, err
		case head.Epoch > by.epoch:
			return "", true, messages.Errorf(messages.ErrFenced, "another host has the session %s", by.sid)
		}
	}
	rep, err := h.ask(ctx, &request{key: key, agent: agent, op: opScope, scoped: &own})
	switch messages.CodeOf(err) {
	case messages.ErrBusy, messages.ErrFenced, messages.ErrJournal, messages.ErrCancelled, messages.ErrCrash:
		select {
		case <-h.closing:
			return "", true, err
		default:
			return "", ctx.Err() != nil, err
		}
	}
	return rep.result, true, err
}

// scopedBefore looks for the change of a call in the journal, the latest first.
func (h *Host) scopedBefore(ctx context.Context, head *journal.Head, key string, since time.Time) (result string, done bool, err error) {
	for r, err := range journal.Backward(ctx, h.cfg.Store, head.Inc, 1, head.Seq, 0) {
		if err != nil {
			return "", false, err
		}
		if r.TS.Before(since) {
			break
		}
		if r.Raw == nil || r.Body.Kind() != messages.KindRelicChanged {
			continue
		}
		if r, err = journal.Typed(r); err != nil {
			return "", false, err
		}
		if b := r.Body.(*messages.RelicChanged); b.Key == key {
			return b.Result, true, nil
		}
	}
	return "", false, nil
}
