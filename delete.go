package stile

import (
	"context"
	"time"

	"github.com/seed14be6753/stile/internal/erase"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

func (rt *Runtime) eraser() *erase.Eraser {
	return &erase.Eraser{
		Host: rt.host, Agents: rt.agents, Store: rt.store, Writer: rt.writer, Seal: rt.seal, Log: rt.log, Now: rt.cfg.Now,
	}
}

// Delete ends a session and erases what it said: what is in flight is cancelled, the
// session is closed, and the bodies of its records, its blobs and its place in recall are
// removed for good, those of its child sessions too. The headers stay, so that the chain
// still verifies and shows that something was erased; replay and fork refuse it
// (docs/decisions/009). Its name is free for another session: a handle on it that is kept
// begins one with its next submit. by goes into session.closed.
//
// A session that does not exist is ERR_NOT_FOUND. ERR_BUSY means that
// something in flight does not end before ctx does. It may be called again until it
// succeeds.
func (rt *Runtime) Delete(ctx context.Context, name, by string) error {
	head, err := rt.Archive().Head(ctx, name)
	if err == nil {
		err = rt.eraser().Session(ctx, head, by)
	}
	if journal.IsNotFound(err) {
		return noSession(name)
	}
	return closedError(err)
}

// EraseUser is Delete of all sessions of a user, what was said under an id that has
// been another session's since included, and ForgetProfile. It gives the names of those it
// erased, also with an error. It may be called again until it succeeds, and then finds
// nothing.
//
// ERR_BUSY means that something in flight does not end before ctx does, or that sessions are
// begun as fast as they are erased: revoke the user's tokens first. What says nothing of
// what was said stays: headers and hashes under the sessions' names, the audit log, the
// tokens; and so do backups.
func (rt *Runtime) EraseUser(ctx context.Context, tenant, user, by string) (names []string, err error) {
	key := messages.SessionKey{Tenant: tenant, User: user, ID: messages.ProfileID}
	if err := key.Validate(); err != nil {
		return nil, err
	}
	names, err = rt.eraser().User(ctx, key, by, rt.learner.Forget)
	return names, closedError(err)
}

// Expire deletes the sessions, of all tenants, whose last record is older than before, at
// most limit of them (0: all), and returns how many. Sessions that have something in
// flight, wait for an approval or belong to another one stay. What fails is logged and
// left for the next time; the error is the journal's, or ctx's.
func (rt *Runtime) Expire(ctx context.Context, before time.Time, limit int) (n int, err error) {
	n, err = rt.eraser().Expire(ctx, before, limit)
	return n, closedError(err)
}
