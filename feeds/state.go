package feeds

import (
	"bytes"
	"encoding/json"

	"github.com/seed14be6753/stile/messages"
)

// savedSet is a Set as a snapshot keeps it.
type savedSet struct {
	Version uint64       `json:"version"`
	Feeds   []savedEntry `json:"feeds"`
}

type savedEntry struct {
	Spec    Spec   `json:"spec"`
	Added   bool   `json:"added"`
	Version uint64 `json:"version"`
}

// State is the set as JSON, for a session's snapshot. RestoreSet reads it back, so
// that what was recorded after the snapshot is all that has to be folded again.
func (s Set) State() []byte {
	saved := savedSet{Version: s.version, Feeds: []savedEntry{}}
	for i := range s.entries {
		e := &s.entries[i]
		saved.Feeds = append(saved.Feeds, savedEntry{e.Spec(), e.Added, e.Version})
	}
	b, err := json.Marshal(saved)
	if err != nil { // strings, numbers and booleans alone
		panic("feeds: no state: " + err.Error())
	}
	return b
}

// RestoreSet reads a State under the rules of the host. A state that no set gave is
// ERR_JOURNAL: the caller folds the records instead.
func RestoreSet(state []byte, rules Rules) (Set, error) {
	bad := func(cause error, why string) (Set, error) {
		e := messages.Errorf(messages.ErrJournal, "no state of feeds: %s", why)
		e.Cause = cause
		return Set{}, e
	}
	var saved savedSet
	d := json.NewDecoder(bytes.NewReader(state))
	d.DisallowUnknownFields()
	if err := d.Decode(&saved); err != nil || d.More() {
		return bad(err, "it cannot be read")
	}
	s := Set{rules: rules, version: saved.Version}
	versions := map[uint64]bool{}
	added := false
	for _, f := range saved.Feeds {
		def, err := Normal(f.Spec, "")
		switch {
		case err != nil:
			return bad(err, "a feed is none")
		case s.at(def.ID) >= 0 || f.Version == 0 || f.Version > saved.Version || versions[f.Version] || added && !f.Added:
			return bad(nil, "its feeds do not fit together")
		}
		versions[f.Version], added = true, f.Added
		s.entries = append(s.entries, Entry{Definition: def, Added: f.Added, Version: f.Version})
	}
	// References may lead nowhere, as after a removal; they were checked when they
	// came in.
	link(s.entries, -1, func(int) string { return "" })
	return s, nil
}
