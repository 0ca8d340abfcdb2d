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

// MaxReferences is how deep feeds may refer to each other: of a>b, a is 1 deep.
const MaxReferences = 8

// Referring returns a text of a manifest with its placeholders %{feed.path} written as the
// references ${feed.path}; %% is %, and any other % stands for itself. ok is false for a
// placeholder that is no reference; bad is its text.
func Referring(text string) (refers, bad string, ok bool) {
	if !strings.Contains(text, "%") {
		return text, "", true
	}
	var b strings.Builder
	for {
		i := strings.IndexByte(text, '%')
		if i < 0 || i+1 == len(text) {
			b.WriteString(text)
			return b.String(), "", true
		}
		b.WriteString(text[:i])
		switch text[i+1] {
		case '%':
			b.WriteByte('%')
			text = text[i+2:]
		case '{':
			end := strings.IndexByte(text[i:], '}')
			if end < 0 {
				return "", shortened(text[i:]), false
			}
			ref := "$" + text[i+1:i+end+1]
			if _, whole := plan.Whole(ref); !whole {
				return "", shortened(text[i : i+end+1]), false
			}
			b.WriteString(ref)
			text = text[i+end+1:]
		default:
			b.WriteByte('%')
			text = text[i+1:]
		}
	}
}

// users returns the feeds of a set that are fetched and refer to the feed at i, directly or
// through others, in their order.
func (s *Set) users(i int) (all []int) {
	used := map[string]bool{s.entries[i].ID: true}
	for again := true; again; {
		again = false
		for j := range s.entries {
			e := &s.entries[j]
			if !e.Disabled && !used[e.ID] && slices.ContainsFunc(e.needs, func(name string) bool { return used[name] }) {
				used[e.ID], again = true, true
			}
		}
	}
	for j := range s.entries {
		if j != i && used[s.entries[j].ID] {
			all = append(all, j)
		}
	}
	return all
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
// model adds one; -1 checks all. bounded holds the chains of references to MaxReferences.
func link(entries []Entry, at int, place func(i int) string, bounded bool) (found []error) {
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
	needs := func(i int) []int {
		deps := make([]int, 0, len(entries[i].needs))
		for _, name := range entries[i].needs {
			if t, ok := index[name]; ok {
				deps = append(deps, t)
			}
		}
		return deps
	}
	order, cycle := plan.Order(len(entries), needs)
	if bounded {
		depths := make([]int, len(entries))
		for _, i := range order {
			for _, dep := range needs(i) {
				depths[i] = max(depths[i], depths[dep]+1)
			}
			if depths[i] > MaxReferences {
				found = append(found, refuse(place(i)+"source.params", ReasonBadValue, "references are %d deep from %s, more than %d", depths[i], entries[i].ID, MaxReferences))
				break
			}
		}
	}
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
