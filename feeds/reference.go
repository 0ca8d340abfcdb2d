package feeds

import (
	"slices"
	"strings"

	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/messages"
)

// References lists the names that the strings of a JSON text refer to, in the order
// of the text, each once. The syntax is that of actions (docs/spec/streaming.md §6): $name,
// ${name.path}, and $$ for a dollar.
func References(params string) ([]string, error) {
	if !strings.Contains(params, "$") && !strings.Contains(params, `\u0024`) {
		return nil, nil
	}
	var r recorder
	// The answer to every name is that it comes later, so every one is asked for and
	// nothing is substituted.
	_, err := plan.New(plan.Options{Environment: &r}).Resolve(params)
	if err != nil && len(r.names) == 0 {
		return nil, err
	}
	return r.names, nil
}

type recorder struct{ names []string }

func (r *recorder) Lookup(name string) (string, plan.Status) {
	if !slices.Contains(r.names, name) {
		r.names = append(r.names, name)
	}
	return "", plan.Pending
}

// resolve substitutes the references in a source's parameters. values are JSON.
func resolve(params string, values map[string]string) (string, error) {
	if !strings.Contains(params, "$") && !strings.Contains(params, `\u0024`) {
		return params, nil
	}
	return plan.New(plan.Options{Environment: known(values), ParameterBytes: MaxResolvedBytes}).Resolve(params)
}

// MaxResolvedBytes bounds a source's parameters after their references are resolved.
const MaxResolvedBytes = 1 << 20

type known map[string]string

func (k known) Lookup(name string) (string, plan.Status) {
	if v, ok := k[name]; ok {
		return v, plan.Present
	}
	return "", plan.Absent
}

// link works out what every feed of a set refers to, and refuses what names no feed
// that is fetched, and cycles. at names the feed that is checked alone, as when the
// model adds one; -1 checks all.
func link(entries []Entry, at int, place func(i int) string) (found []error) {
	index := make(map[string]int, len(entries))
	for i := range entries {
		index[entries[i].ID] = i
	}
	for i := range entries {
		e := &entries[i]
		names, err := References(e.Source.Params)
		if err != nil { // Normal read the parameters, so this is a broken invariant
			found = append(found, refuse(place(i)+"source.params", ReasonBadValue, "%v", err))
			continue
		}
		e.needs = names
		for _, name := range names {
			t, ok := index[name]
			switch {
			case at >= 0 && i != at && (t != at || !ok):
				// A feed that was removed under another one leaves that one failing
				// until it comes back; it does not stop changes elsewhere.
			case !ok:
				found = append(found, refuse(place(i)+"source.params", ReasonUnknownFeed, "$%s is no feed", name))
			case entries[t].Disabled && !e.Disabled:
				found = append(found, refuse(place(i)+"source.params", ReasonUnknownFeed, "$%s is disabled", name))
			}
		}
	}
	_, cycle := plan.Order(len(entries), func(i int) []int {
		deps := make([]int, 0, len(entries[i].needs))
		for _, name := range entries[i].needs {
			if t, ok := index[name]; ok {
				deps = append(deps, t)
			}
		}
		return deps
	})
	if cycle != nil {
		var b strings.Builder
		for _, i := range cycle {
			b.WriteString(entries[i].ID)
			b.WriteByte('>')
		}
		b.WriteString(entries[cycle[0]].ID)
		found = append(found, &messages.Error{Code: messages.ErrConfig, Reason: ReasonFeedCycle, Field: place(cycle[0]) + "source.params", Detail: b.String()})
	}
	return found
}
