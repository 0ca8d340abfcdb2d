package scan

import (
	"slices"

	"github.com/seed14be6753/stile/internal/jsonstring"
)

// sort orders the members of an object that is about to close, and drops those that a later
// member of the same name replaces.
func (j *JSON) sort(f frame) {
	ms := j.members[f.members:]
	slices.SortFunc(ms, func(a, b Pair) int {
		if c := j.compare(a, b); c != 0 {
			return c
		}
		return b.Key - a.Key // the last of one name first
	})
	j.spare = j.spare[:0]
	kept := ms[:0]
	var before Pair
	for i, m := range ms {
		again := i > 0 && j.compare(before, m) == 0
		before = m
		if again {
			continue
		}
		if len(kept) > 0 {
			j.spare = append(j.spare, ',')
		}
		from := m.Key
		to := f.at + 1 + len(j.spare)
		j.spare = append(j.spare, j.buf[from:m.ValueEnd]...)
		kept = append(kept, Pair{to, m.KeyEnd - from + to, m.Value - from + to, m.ValueEnd - from + to})
	}
	j.members = j.members[:f.members+len(kept)]
	j.buf = append(j.buf[:f.at+1], j.spare...)
}

// compare orders two members by name.
func (j *JSON) compare(a, b Pair) int {
	return jsonstring.Compare(j.buf[a.Key+1:a.KeyEnd-1], j.buf[b.Key+1:b.KeyEnd-1])
}
