package stile

import (
	"context"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// SessionQuery is the query of the sessions whose SID begins with prefix; its fields select
// among them, and say where the page begins.
func SessionQuery(prefix string) journal.Query { return journal.Query{Prefix: prefix} }

// Listings gives one page of a query, the session that changed last first, with agent, times,
// title and tags. The page after it is that of AfterUpdated and AfterInc, Updated and Inc of
// its last listing. In SQLite and PostgreSQL a page without filters reads as many rows as it
// has, however many sessions there are.
func (a *Archive) Listings(ctx context.Context, q journal.Query) ([]journal.Listing, error) {
	page, err := journal.Listings(ctx, a.store, q)
	return page, closedError(err)
}

// Listing is the listing of one session: of a head without records it is the head alone.
func (a *Archive) Listing(ctx context.Context, h Head) (journal.Listing, error) {
	page, err := a.Listings(ctx, journal.Query{Inc: h.Inc, Retired: true})
	if err != nil || len(page) == 0 {
		return journal.Listing{Head: h}, err
	}
	return page[0], nil
}

// Knows reports whether an agent of the listing's manifest or name is registered here, so
// that Find gives a handle. It reads nothing.
func (rt *Runtime) Knows(l journal.Listing) bool { return rt.agents.Known(l.Manifest, l.Agent) != nil }

// ReasonAgentGone is that of a session whose agent is not registered here.
const ReasonAgentGone = "AGENT_GONE"

func (rt *Runtime) agentGone(ctx context.Context, head *Head) error {
	name, err := rt.agents.LastName(ctx, head)
	if err != nil {
		return closedError(err)
	}
	who := "the agent " + name
	if name == "" {
		who = "the agent"
	}
	return &messages.Error{
		Code: messages.ErrConflict, Reason: ReasonAgentGone, Field: "agent",
		Detail: who + " of session " + head.SID + " is not registered here; register an agent of that name again, or go on in a fork under another agent",
	}
}

// Describe gives the session a title and tags, in place of those it had: a line of at most
// 200 bytes, and at most 16 tags, key or key=value, of 64 bytes each. They are a record of
// the session, erased with it, and a fork takes them over. It returns when the record is
// durable. Errors: ERR_INVALID names title or tags, ERR_JOURNAL.
func (s *Session) Describe(ctx context.Context, title string, tags ...string) error {
	return s.Amend(ctx, "", &title, append([]string{}, tags...), nil, nil)
}

// Amend changes a description on behalf of by, which may be empty: a title that is not nil
// takes the place of the one before, tags that are not nil that of all tags, then remove goes
// and add comes. Errors are those of Describe.
func (s *Session) Amend(ctx context.Context, by string, title *string, tags, add, remove []string) error {
	return s.rt.host.Describe(ctx, s.key, s.agent.Actor, turn.Describe{Title: title, Tags: tags, Add: add, Remove: remove, By: by})
}
