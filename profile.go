package stile

import (
	"context"

	"github.com/seed14be6753/stile/internal/learn"
	"github.com/seed14be6753/stile/messages"
)

// Profile is what is known of a user.
type Profile = learn.Profile

// Profile gives what is known of the session's user.
func (s *Session) Profile(ctx context.Context) (Profile, error) {
	return s.rt.Profile(ctx, s.key.Tenant, s.key.User)
}

// Profile gives what is known of a user; the zero Profile when nothing is. Errors are
// ERR_INVALID (names) and ERR_JOURNAL.
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

// Learned returns when all profiles are learned that were due when it was called.
func (rt *Runtime) Learned(ctx context.Context) error { return rt.learner.Wait(ctx) }

// ForgetProfile deletes all that is known of a user, every version of it. What is learned
// later is learned from what the user says from now on. Prompts that showed the profile
// are records of their sessions and stay there until those are erased.
func (rt *Runtime) ForgetProfile(ctx context.Context, tenant, user string) error {
	key := messages.SessionKey{Tenant: tenant, User: user, ID: messages.ProfileID}
	if err := key.Validate(); err != nil {
		return err
	}
	return closedError(rt.learner.Forget(ctx, key))
}

// refuseProfile keeps all but the host out of the sessions of profiles.
func refuseProfile(key messages.SessionKey) error {
	if key.ID != messages.ProfileID {
		return nil
	}
	return &messages.Error{Code: messages.ErrDenied, Field: "id", Detail: key.SID() + " is the profile of its user, which the host alone writes"}
}
