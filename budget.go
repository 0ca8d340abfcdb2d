package stile

import (
	"context"
	"slices"
	"time"

	"github.com/seed14be6753/stile/internal/budget"
	"github.com/seed14be6753/stile/internal/fork"
	"github.com/seed14be6753/stile/internal/membership"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// Spending bounds the model use of users and sessions; 0 means no bound. Use is counted from
// the journal's records, so a restart loses no count. A submit above a bound is refused with
// ERR_QUOTA and one of the reasons below. Otherwise the run gets the remainder as its budget,
// and ends HALT(ERR_QUOTA) when that is used up. Submits at the same time each get the whole
// remainder. Replies without a price count as free.
type Spending struct {
	UserTokensPerDay    int64 // tokens per UTC day
	UserCostPerDay      int64 // millionths of a dollar per UTC day
	SessionTokens       int64 // tokens over the session's life
	SessionCostMicroUSD int64 // millionths of a dollar over the session's life
}

// Reasons in Error.Reason of a submit that Config.Spending refuses.
const (
	OverUserTokens    = budget.UserTokens
	OverUserCost      = budget.UserCost
	OverSessionTokens = budget.SessionTokens
	OverSessionCost   = budget.SessionCost
)

// spend looks whether a submit is within what its user and session may spend, and gives its
// run what is left.
func (rt *Runtime) spend(ctx context.Context, sid string, inc messages.Incarnation, in *messages.Input) error {
	if rt.book == nil {
		return nil
	}
	if rt.member != nil && !rt.host.Awake(sid) {
		rt.book.Forget(sid) // it may have been another host's
	}
	return rt.spendOf(ctx, sid, rt.book.Session(sid), inc, 0, in)
}

// spendForked is spend for the input with which a fork begins. The session is not there yet: what it
// has used is in the records that it takes over.
func (rt *Runtime) spendForked(ctx context.Context, s fork.Start, in *messages.Input) error {
	if rt.book == nil {
		return nil
	}
	return rt.spendOf(ctx, s.SID, rt.book.Unopened(), s.From, s.Cut, in)
}

// spendOf is spend, where the records of an incarnation up to a position, 0 for all, say what the
// session has used.
func (rt *Runtime) spendOf(ctx context.Context, sid string, session *budget.Account, inc messages.Incarnation, to int64, in *messages.Input) error {
	now := rt.cfg.Now().UTC()
	user := rt.book.User(sid, now)
	if !rt.book.Known(user) {
		all, err := rt.usedToday(ctx, sid, now)
		if err != nil {
			return err
		}
		rt.book.Read(user, all)
	}
	if !rt.book.Known(session) {
		all, err := rt.costs(ctx, inc, 1, to, time.Time{})
		if err != nil {
			return err
		}
		rt.book.Read(session, all)
	}
	left, over := rt.book.Check(user, session)
	switch over {
	case OverUserTokens, OverUserCost:
		return &Error{Code: messages.ErrQuota, Reason: over, Detail: "the user has used what they may in a day; the next one begins at " + budget.Resets(now).Format(time.RFC3339)}
	case OverSessionTokens, OverSessionCost:
		return &Error{Code: messages.ErrQuota, Reason: over, Detail: "the session has used what it may"}
	}
	if left == (messages.Budget{}) {
		return nil
	}
	if in.Budget != nil {
		least(&left.Tokens, in.Budget.Tokens)
		least(&left.CostUSD, in.Budget.CostUSD)
		left.Actions = in.Budget.Actions
	}
	in.Budget = &left
	return nil
}

// counted are the leases of sessions whose usage is known only while a session is this host's.
type counted struct {
	membership.Leases
	book *budget.Book
}

// Claim implements membership.Leases. What was read before, another host may have added to.
func (c counted) Claim(ctx context.Context, sid string) error {
	err := c.Leases.Claim(ctx, sid)
	c.book.Forget(sid)
	return err
}

// GiveUp implements membership.Leases.
func (c counted) GiveUp(sid string) {
	c.book.Forget(sid)
	c.Leases.GiveUp(sid)
}

func least(to *int64, other int64) {
	if other > 0 && (*to == 0 || other < *to) {
		*to = other
	}
}

// usedToday are the records of a user's sessions that say what was used since midnight.
func (rt *Runtime) usedToday(ctx context.Context, sid string, now time.Time) (all []*messages.Record, err error) {
	key, err := messages.ParseSID(sid)
	if err != nil {
		return nil, err
	}
	since := now.Truncate(24 * time.Hour)
	// A listing says when an input came or a run ended, so that a run over midnight is
	// listed before; a day more is read.
	q := journal.Query{Prefix: key.Tenant + ":" + key.User + ":", Retired: true, UpdatedAfter: since.Add(-24 * time.Hour)}
	for {
		page, err := journal.Listings(ctx, rt.store, q)
		if err != nil {
			return nil, err
		}
		for _, l := range page {
			from := int64(1)
			if l.Origin != "" { // what a fork has taken over was used by its original
				opened, err := journal.Opened(ctx, rt.store, l.Inc)
				if journal.IsNotFound(err) {
					continue // it was erased meanwhile
				}
				if err != nil {
					return nil, err
				}
				from = opened.Origin.Seq + 1
			}
			own, err := rt.costs(ctx, l.Inc, from, 0, since)
			if err != nil {
				return nil, err
			}
			all = append(all, own...)
		}
		if len(page) < q.Page() {
			return all, nil
		}
		last := page[len(page)-1]
		q.AfterUpdated, q.AfterInc = last.Updated, last.Inc
	}
}

// costs are the records of a session, between two positions and since a time, that say what was
// used, in order.
func (rt *Runtime) costs(ctx context.Context, inc messages.Incarnation, from, to int64, since time.Time) (all []*messages.Record, err error) {
	for r, err := range journal.Backward(ctx, rt.store, inc, from, to, 0) {
		if err != nil {
			return nil, err
		}
		if r.TS.Before(since) {
			break
		}
		if typed, err := journal.Typed(r); err == nil && budget.Of(typed) != (messages.Budget{}) {
			all = append(all, typed)
		}
	}
	slices.Reverse(all)
	return all, nil
}
