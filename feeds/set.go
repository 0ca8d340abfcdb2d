package feeds

import (
	"errors"
	"fmt"
	"slices"
)

// An Entry is a feed of a set.
type Entry struct {
	Definition
	Added bool // by the model, not by the manifest
	// Version is another one whenever values fetched before are no longer the feed's:
	// a new feed, another source, a cleared context. It is never 0 and never used
	// again in the set.
	Version uint64

	needs []string // ids of feeds its parameters refer to
}

// A Set is the feeds of a session: those of the manifest in its order, then the added
// ones in theirs. It is a value; changes give another one. The zero Set is empty.
type Set struct {
	entries []Entry // never changed after the set is made
	version uint64  // the last one given out
	rules   Rules
}

// Rules is what a host allows the feeds of a session.
type Rules struct {
	// Env names what internal env sources may show (docs/spec/streaming.md §7.2).
	Env []string
	// MaxFeeds is how many a session may have; 0 is MaxFeeds.
	MaxFeeds int
	// References bounds how deep feeds refer to each other (MaxReferences), for sets whose
	// model may write references (docs/spec/extensions.md §9).
	References bool
}

func (r *Rules) maxFeeds() int {
	if r.MaxFeeds == 0 {
		return MaxFeeds
	}
	return r.MaxFeeds
}

// NewSet makes the set of a manifest. Its error joins everything that is wrong, each
// an ERR_CONFIG *messages.Error with its field below "context_feeds[i]".
func NewSet(specs []Spec, rules Rules) (Set, error) {
	s := Set{rules: rules}
	var found []error
	place := func(i int) string { return fmt.Sprintf("context_feeds[%d].", i) }
	if len(specs) > rules.maxFeeds() {
		return Set{}, refuse("context_feeds", ReasonBadValue, "%d feeds, more than %d", len(specs), rules.maxFeeds())
	}
	seen := map[string]bool{}
	whole := true
	for i, spec := range specs {
		d, err := Normal(spec, fmt.Sprintf("context_feeds[%d]", i))
		if err != nil {
			found = append(found, err)
			whole = false
			d.ID = spec.ID
		} else if err := s.allowed(&d, place(i)); err != nil {
			found = append(found, err)
		}
		if seen[spec.ID] && spec.ID != "" {
			found = append(found, refuse(place(i)+"id", ReasonDuplicate, "%q is the id of another feed", shortened(spec.ID)))
			whole = false
		}
		seen[spec.ID] = true
		s.version++
		s.entries = append(s.entries, Entry{Definition: d, Version: s.version})
	}
	if whole { // what names a feed that is itself wrong is not another mistake
		found = append(found, link(s.entries, -1, place, rules.References)...)
	}
	if len(found) > 0 {
		return Set{}, errors.Join(found...)
	}
	return s, nil
}

// allowed checks a definition against the rules of the host.
func (s *Set) allowed(d *Definition, place string) error {
	if d.Source.Kind != Internal || d.Source.Action != Env {
		return nil
	}
	o, bad := readObject(d.Source.Params, MaxParamsBytes)
	if bad != nil {
		return bad
	}
	o.open = true
	for i, name := range readNames(o) {
		if !slices.Contains(s.rules.Env, name) {
			return refuse(fmt.Sprintf("%ssource.params.names[%d]", place, i), ReasonBadValue, "%q is not in environment.allow", shortened(name))
		}
	}
	return nil
}

// Entries lists the feeds in the order of injection. The slice is a copy.
func (s Set) Entries() []Entry { return slices.Clone(s.entries) }

// Len counts the feeds, disabled ones too.
func (s Set) Len() int { return len(s.entries) }

// Get returns the feed of an id.
func (s Set) Get(id string) (Entry, bool) {
	if i := s.at(id); i >= 0 {
		return s.entries[i], true
	}
	return Entry{}, false
}

func (s *Set) at(id string) int {
	return slices.IndexFunc(s.entries, func(e Entry) bool { return e.ID == id })
}

// with is a copy that may be changed.
func (s Set) with() Set {
	s.entries = slices.Clone(s.entries)
	return s
}
