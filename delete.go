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

// Delete ends a session and erases its content: it cancels the run in flight, closes the
// session, and removes the bodies of its records, its blobs and its recall entries for good,
// and those of its child sessions. The headers stay, so that the chain still verifies and
// shows the erasure; replay and fork refuse the session (docs/decisions/009). The name is
// then free: the next submit by an old handle begins a new session. by is recorded in
// session.closed.
//
// Errors: ERR_NOT_FOUND when the session does not exist; ERR_BUSY when work in flight does
// not end before ctx does. Delete may be called again until it succeeds.
func (rt *Runtime) Delete(ctx context.Context, name, by string) error {
	if err := rt.cfg.readOnly(); err != nil {
		return err
	}
	head, err := rt.Archive().Head(ctx, name)
	if err == nil {
		err = rt.eraser().Session(ctx, head, by)
	}
	if journal.IsNotFound(err) {
		return noSession(name)
	}
	return closedError(err)
}

// EraseUser does Delete for all sessions of a user, retired ones included, and ForgetProfile,
// and removes the folders of the user and of the user's sessions (workspace.per) below those of
// the agents that this runtime has opened. It returns the names of the erased sessions, also with an error. It may be called again
// until it succeeds.
//
// ERR_BUSY means that work in flight does not end before ctx does, or that new sessions begin
// as fast as others are erased: revoke the user's tokens first. Not erased are the headers
// and hashes under the sessions' names, the audit log, the tokens, and backups.
func (rt *Runtime) EraseUser(ctx context.Context, tenant, user, by string) (names []string, err error) {
	if err := rt.cfg.readOnly(); err != nil {
		return nil, err
	}
	key := messages.SessionKey{Tenant: tenant, User: user, ID: messages.ProfileID}
	if err := key.Validate(); err != nil {
		return nil, err
	}
	if names, err = rt.eraser().User(ctx, key, by, rt.learner.Forget); err == nil {
		err = rt.folders.Erase(tenant, user)
	}
	return names, closedError(err)
}

// Expire deletes the sessions of all tenants whose last record is older than before, at
// most limit of them (0: all), and returns their number. It skips child sessions and sessions
// with a run in flight or a waiting approval. A session that cannot be deleted is logged and
// tried again by the next call; the error is the journal's, or ctx's.
func (rt *Runtime) Expire(ctx context.Context, before time.Time, limit int) (n int, err error) {
	if err := rt.cfg.readOnly(); err != nil {
		return 0, err
	}
	n, err = rt.eraser().Expire(ctx, before, limit)
	return n, closedError(err)
}
