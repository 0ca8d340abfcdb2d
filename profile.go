package stile

import (
	"context"

	"github.com/seed14be6753/stile/internal/learn"
	"github.com/seed14be6753/stile/messages"
)

// Profile is the learned profile of a user.
type Profile = learn.Profile

// Profile returns the profile of the session's user.
func (s *Session) Profile(ctx context.Context) (Profile, error) {
	return s.rt.Profile(ctx, s.key.Tenant, s.key.User)
}

// Profile returns the profile of a user; the zero Profile when nothing was learned. Errors:
// ERR_INVALID (tenant or user is malformed), ERR_JOURNAL.
func (rt *Runtime) Profile(ctx context.Context, tenant, user string) (Profile, error) {
	key := messages.SessionKey{Tenant: tenant, User: user, ID: messages.ProfileID}
	if err := key.Validate(); err != nil {
		return Profile{}, err
	}
	state, _, err := rt.learner.State(ctx, key)
	if err != nil {
		return Profile{}, closedError(err)
	}
	p := Profile{Version: state.Version, Characters: state.Data.Runes(), Messages: state.Meta.MessagesProcessed}
	if !state.Data.IsZero() {
		p.JSON = state.Data.JSON()
	}
	return p, nil
}

// Learned waits until every profile update that was due when it was called is done.
func (rt *Runtime) Learned(ctx context.Context) error { return rt.learner.Wait(ctx) }

// ForgetProfile deletes every version of a user's profile. Later profiles are learned from
// later inputs alone. Prompts that showed the profile are records of their sessions, and stay
// until those are erased.
func (rt *Runtime) ForgetProfile(ctx context.Context, tenant, user string) error {
	if err := rt.cfg.readOnly(); err != nil {
		return err
	}
	key := messages.SessionKey{Tenant: tenant, User: user, ID: messages.ProfileID}
	if err := key.Validate(); err != nil {
		return err
	}
	return closedError(rt.learner.Forget(ctx, key))
}

// refuseProfile refuses sessions that the host alone writes: those of profiles, and of relics of
// users and tenants.
func refuseProfile(key messages.SessionKey) error {
	switch key.ID {
	case messages.ProfileID:
	case messages.RelicsID:
		return &messages.Error{Code: messages.ErrDenied, Field: "id", Detail: key.SID() + " keeps key-value relics, which the host alone writes"}
	default:
		return nil
	}
	return &messages.Error{Code: messages.ErrDenied, Field: "id", Detail: key.SID() + " is the profile of its user, which the host alone writes"}
}
