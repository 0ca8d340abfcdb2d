// Package relics does the calls of key-value relics that leave their session's goroutine: those that
// wait for the session's answer, and those of a user or tenant, which another session keeps.
//
// Invariants:
//   - a call whose change may be in the journal is not done again: its result is looked for first;
//   - a call of an owner that another host has superseded changes nothing;
//   - a look opens no session.
//
// What an operation does is internal/turn's, and who may ask was checked by the tool.
package relics

import (
	"context"
	"time"

	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools/catalog"
)

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

// Scopes calls the relics of users and tenants. They are kept in a session of their own, whichever
// host runs it. A call is answered when its change is on disk there
// (docs/decisions/026-a-scope-is-a-session.md).
type Scopes struct {
	Store journal.Store
	Now   func() time.Time
	// Agent finds the agent of the sessions that keep relics; nil keeps none.
	Agent func(context.Context) (*compiled.Agent, error)
	// Ask asks such a session, which is awake then.
	Ask      func(ctx context.Context, key messages.SessionKey, agent *compiled.Agent, call *turn.ScopeCall) (string, error)
	Stopping func() bool // the host stops: no call is made again
}

// Caller is the session whose action or feed calls a relic.
type Caller struct {
	SID   string
	Inc   messages.Incarnation
	Epoch int64
	Reads bool // a feed, which only looks
	// Repeat reports that an earlier attempt, of a process that is gone, may have done the operation:
	// then its result is in the journal.
	Repeat bool
}

// Keep does one operation on a relic of the user or tenant of a session.
func (s *Scopes) Keep(ctx context.Context, by Caller, k catalog.KeepCall) (string, error) {
	from, err := messages.ParseSID(by.SID)
	if err != nil {
		return "", err
	}
	key, ok := from.Relics(k.Scope)
	if !ok {
		return "", messages.Errorf(messages.ErrConfig, "tenant and user of %s leave no room for the name of the session of their relics", by.SID)
	}
	if s.Agent == nil {
		return "", messages.Errorf(messages.ErrConfig, "this host keeps no relics of a %s", k.Scope)
	}
	agent, err := s.Agent(ctx)
	if err != nil {
		return "", err
	}
	call := &turn.ScopeCall{By: by.SID, Key: k.Key, Relic: k.Relic, Args: k.Args, Limits: k.Limits, Reads: by.Reads, Repeat: by.Repeat}
	pause := scopePause
	for n := 1; ; n++ {
		result, done, err := s.try(ctx, key, agent, call, &by)
		if done || n == scopeTries {
			return result, err
		}
		call.Repeat = !by.Reads // it may have been written all the same
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return "", err
		}
		pause = min(2*pause, scopeMaxPause)
	}
}

// try makes a call once; done is false where it may be made again.
func (s *Scopes) try(ctx context.Context, key messages.SessionKey, agent *compiled.Agent, call *turn.ScopeCall, by *Caller) (result string, done bool, err error) {
	own := *call
	head, err := s.Store.Head(ctx, key.SID())
	switch {
	case journal.IsNotFound(err) || err == nil && head.Closed:
		if own.Reads { // a look opens no session
			result, err = new(turn.State).ReadRelic(call.Relic, call.Args, s.Now())
			return result, true, err
		}
	case err != nil:
		return "", false, err
	default:
		own.Head = head.Seq
		if own.Repeat {
			own.Searched = head.Seq
			since := time.Unix(by.Inc.Time().UnixTime()).Add(-clockSkew)
			if result, done, err = s.before(ctx, &head, call.Key, since); done || err != nil {
				return result, done, err
			}
		}
	}
	// A host that took the session over repeats what this one was at, behind the position above.
	if !own.Reads {
		switch head, err := s.Store.HeadOf(ctx, by.Inc); {
		case err != nil:
			return "", false, err
		case head.Epoch > by.Epoch:
			return "", true, messages.Errorf(messages.ErrFenced, "another host has the session %s", by.SID)
		}
	}
	result, err = s.Ask(ctx, key, agent, &own)
	switch messages.CodeOf(err) {
	case messages.ErrBusy, messages.ErrFenced, messages.ErrJournal, messages.ErrCancelled, messages.ErrCrash:
		return "", s.Stopping() || ctx.Err() != nil, err
	}
	return result, true, err
}

// before looks for the change of a call in the journal, the latest first.
func (s *Scopes) before(ctx context.Context, head *journal.Head, key string, since time.Time) (result string, done bool, err error) {
	for r, err := range journal.Backward(ctx, s.Store, head.Inc, 1, head.Seq, 0) {
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
