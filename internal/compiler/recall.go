package compiler

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

// recalls reports whether an agent may search its user's earlier sessions.
func recalls(m *manifest.Manifest) bool {
	return m.Memory.Recall || slices.Contains(m.Import.Tools, catalog.RecallName)
}

// recall searches the sessions of the user whose session sid is.
func (e *Env) recall(ctx context.Context, sid, query string, limit int) ([]catalog.Memory, error) {
	hits, err := e.recollect(ctx, sid, journal.Words(query), limit)
	if err != nil {
		return nil, err
	}
	all := make([]catalog.Memory, len(hits))
	for i, h := range hits {
		all[i] = catalog.Memory{At: h.TS, Text: h.Shown}
	}
	return all, nil
}

// recollect finds words in the sessions of the user whose session sid is, but in that
// one. Whose they are comes from the session alone, never from the model.
func (e *Env) recollect(ctx context.Context, sid string, words []string, limit int) ([]journal.Recollection, error) {
	key, err := messages.ParseSID(sid)
	if err != nil {
		return nil, err
	}
	head, err := e.Store.Head(ctx, sid)
	if err != nil {
		return nil, err
	}
	return e.Store.Recall(ctx, journal.RecallQuery{
		Owner: key.Tenant + ":" + key.User + ":", Except: head.Inc, Words: words, Limit: limit,
	})
}

// recallSearcher is the search of action tokens in what the user said, and was told, in earlier
// sessions (kitsu.search: recall).
type recallSearcher struct{ env *Env }

// Search returns who said what and when. A query has at most 256 characters, and so more
// words than a recall takes only if most have one letter: the first ones count.
func (s recallSearcher) Search(ctx context.Context, q tools.SearchRequest) ([]tools.SearchResult, error) {
	words := journal.Words(q.Query)
	if len(words) == 0 {
		return nil, nil
	}
	hits, err := s.env.recollect(ctx, q.SID, words[:min(len(words), journal.MaxRecallWords)], q.Max)
	if err != nil {
		return nil, err
	}
	found := make([]tools.SearchResult, len(hits))
	for i, h := range hits {
		key, err := messages.ParseSID(h.SID)
		if err != nil {
			return nil, err
		}
		found[i] = tools.SearchResult{
			Title:   string(h.Role) + ", " + h.TS.UTC().Format(time.RFC3339),
			Snippet: h.Shown,
			URL:     "session:" + key.ID + "#" + strconv.FormatInt(h.Seq, 10),
		}
	}
	return found, nil
}
