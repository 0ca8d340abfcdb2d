package stile

import (
	"context"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// SessionQuery returns a query for the sessions whose SID begins with prefix. Set its fields
// to filter them and to continue after a page.
func SessionQuery(prefix string) journal.Query { return journal.Query{Prefix: prefix} }

// Listings returns one page of a query, the last changed session first, with agent, times,
// title and tags. For the next page set AfterUpdated and AfterInc to Updated and Inc of the
// last listing. In SQLite and PostgreSQL a page without filters reads only its own rows,
// however many sessions exist.
func (a *Archive) Listings(ctx context.Context, q journal.Query) ([]journal.Listing, error) {
	page, err := journal.Listings(ctx, a.store, q)
	return page, closedError(err)
}

// Listing returns the listing of one session; for a session without records it has the head
// alone.
func (a *Archive) Listing(ctx context.Context, h Head) (journal.Listing, error) {
	page, err := a.Listings(ctx, journal.Query{Inc: h.Inc, Retired: true})
	if err != nil || len(page) == 0 {
		return journal.Listing{Head: h}, err
	}
	return page[0], nil
}

// SearchQuery returns a query for texts of the user whose SIDs begin with owner, "tenant:user:",
// that have all words of text.
func SearchQuery(owner, text string) journal.RecallQuery {
	words := journal.Words(text)
	return journal.RecallQuery{Owner: owner, Words: words[:min(len(words), journal.MaxRecallWords)]}
}

// Search returns the sessions of a user in which a text has all words of the query, with an
// excerpt of the newest such text of each that was looked at, the newest first. It is bounded: more
// reports that there may be other matches, behind that the index lacks sessions, of which the next
// search finds more. Errors: ERR_JOURNAL, reason INVALID for a query without words.
func (a *Archive) Search(ctx context.Context, q journal.RecallQuery) (found []journal.Recollection, more, behind bool, err error) {
	found, more, behind, err = journal.Search(ctx, a.store, q)
	return found, more, behind, closedError(err)
}

// Knows reports whether an agent with the listing's manifest or name is registered in this
// runtime, so that Find can return a handle. It does no I/O.
func (rt *Runtime) Knows(l journal.Listing) bool { return rt.agents.Known(l.Manifest, l.Agent) != nil }

// ReasonAgentGone means that the agent of a session is not registered in this runtime.
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
		Detail: who + " of session " + head.SID + " is not registered here; register an agent of that name again, or fork the session under another agent",
	}
}

// Describe replaces the title and tags of the session: a line of at most 200 bytes, and at
// most 16 tags, key or key=value, of 64 bytes each. They are a record of the session, erased
// with it and copied by a fork. Describe returns when the record is durable. Errors:
// ERR_INVALID (field title or tags), ERR_JOURNAL.
func (s *Session) Describe(ctx context.Context, title string, tags ...string) error {
	return s.Amend(ctx, "", &title, append([]string{}, tags...), nil, nil)
}

// Amend changes title and tags on behalf of the principal by, which may be "". A title that
// is not nil replaces the title, tags that are not nil replace all tags; then the tags in
// remove are removed and those in add are added. Errors are those of Describe.
func (s *Session) Amend(ctx context.Context, by string, title *string, tags, add, remove []string) error {
	return s.rt.host.Describe(ctx, s.key, s.agent.Actor, turn.Describe{Title: title, Tags: tags, Add: add, Remove: remove, By: by})
}
