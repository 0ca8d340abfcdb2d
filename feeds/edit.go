package feeds

import (
	"encoding/json"

	"github.com/seed14be6753/stile/messages"
)

// An Edit is what a session's model made of one feed, as the session's records keep it
// (messages.FeedChange). The edits of a session, the latest of each feed, laid over the
// set of its manifest are its feeds: what the operator changes in other feeds meanwhile
// counts, and nothing has to be done again.
type Edit struct {
	ID    string
	Added bool   // by the model
	Gone  bool   // a feed of the manifest that was removed
	Spec  string // JSON of a Spec, unless Gone
	// Since is the position of the record from which on values fetched before are not
	// the feed's; 0 is none.
	Since int64
}

// sinceVersion is the version of an entry that is the edit of a record. Manifests number
// theirs from 1.
func sinceVersion(seq int64) uint64 { return 1<<32 + uint64(seq) }

// With lays edits over the set of a manifest. cleared is the position of the record that
// dropped all values, 0 for none. An edit of a feed that the manifest does not have any
// more is left out, and so is an added one whose id it has now. The error is ERR_JOURNAL,
// for an edit that no set gave.
func (s Set) With(edits []Edit, cleared int64) (Set, error) {
	next := Set{rules: s.rules, version: sinceVersion(cleared)}
	place := func(d *Definition, e *Entry, added bool) {
		e.Definition, e.Added = *d, added
		if cleared > 0 {
			e.Version = max(e.Version, sinceVersion(cleared))
		}
		next.version = max(next.version, e.Version)
		next.entries = append(next.entries, *e)
	}
	latest := func(id string, added bool) *Edit {
		for i := range edits {
			if edits[i].ID == id && edits[i].Added == added {
				return &edits[i]
			}
		}
		return nil
	}
	for _, e := range s.entries {
		own := Entry{Version: e.Version}
		ed := latest(e.ID, false)
		switch {
		case ed == nil:
			place(&e.Definition, &own, false)
			continue
		case ed.Gone:
			continue
		}
		d, err := ed.definition()
		if err != nil {
			return Set{}, err
		}
		d.Pinned = e.Pinned
		if ed.Since > 0 {
			own.Version = sinceVersion(ed.Since)
		}
		place(&d, &own, false)
	}
	for i := range edits {
		ed := &edits[i]
		if !ed.Added || next.at(ed.ID) >= 0 {
			continue
		}
		d, err := ed.definition()
		if err != nil {
			return Set{}, err
		}
		place(&d, &Entry{Version: sinceVersion(ed.Since)}, true)
	}
	// References may lead nowhere, as after a removal; they were checked when they
	// came in.
	link(next.entries, -1, func(int) string { return "" }, false)
	return next, nil
}

func (e *Edit) definition() (Definition, error) {
	var spec Spec
	err := json.Unmarshal([]byte(e.Spec), &spec)
	var d Definition
	if err == nil {
		d, err = Normal(spec, "")
	}
	if err == nil && d.ID != e.ID {
		err = refuse("id", ReasonBadValue, "%q is another feed", shortened(d.ID))
	}
	if err != nil {
		return d, &messages.Error{Code: messages.ErrJournal, Detail: "no feed that a model made", Cause: err}
	}
	return d, nil
}

// Change is what the record of the call says of it; nil when it changed nothing.
func (o *Outcome) Change() *messages.FeedChange {
	switch {
	case o.Cleared:
		return &messages.FeedChange{Cleared: true}
	case o.Changed.ID == "":
		return nil
	}
	c := o.changeOf(&o.Changed)
	c.Fresh = o.Fresh
	for i := range o.Also {
		c.Also = append(c.Also, o.changeOf(&o.Also[i]))
	}
	return &c
}

func (o *Outcome) changeOf(e *Entry) messages.FeedChange {
	if o.Gone {
		return messages.FeedChange{ID: e.ID, Added: e.Added, Gone: true}
	}
	spec, err := json.Marshal(e.Spec())
	if err != nil { // strings, numbers and booleans alone
		panic("feeds: no edit: " + err.Error())
	}
	return messages.FeedChange{ID: e.ID, Added: e.Added, Disabled: e.Disabled, Spec: string(spec)}
}
