package stile

import (
	"context"
	"slices"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// recalls tells whether an agent may search its user's earlier sessions.
func recalls(m *manifest.Manifest) bool {
	return m.Memory.Recall || slices.Contains(m.Import.Tools, tools.RecallName)
}

// recall searches the sessions of the user whose session sid is. Whose they are comes
// from the session alone, never from the model.
func (rt *Runtime) recall(ctx context.Context, sid, query string, limit int) ([]tools.Memory, error) {
	key, err := messages.ParseSID(sid)
	if err != nil {
		return nil, err
	}
	head, err := rt.store.Head(ctx, sid)
	if err != nil {
		return nil, err
	}
	hits, err := journal.Recall(ctx, rt.store, journal.RecallQuery{
		Owner: key.Tenant + ":" + key.User + ":", Except: head.Inc, Words: journal.Words(query), Limit: limit,
	})
	if err != nil {
		return nil, err
	}
	all := make([]tools.Memory, len(hits))
	for i, h := range hits {
		all[i] = tools.Memory{At: h.TS, Text: h.Shown}
	}
	return all, nil
}
