package catalog

import (
	"slices"
	"strconv"
	"strings"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/messages"
)

// Bounds of the hint about an unknown target.
const (
	maxNear       = 3
	maxListed     = 8
	maxNamedBytes = 100 // of the name that was written
)

// Missing returns a hint for a model that named an unknown target: targets of another type
// with the name, targets with a similar name, or the first of all.
func (t *Targets) Missing(typ messages.ActionType, name string) string {
	if typ == "" {
		typ = messages.TypeTool
	}
	var near, elsewhere []string
	all := t.names(typ)
	for _, other := range [...]messages.ActionType{
		messages.TypeTool, messages.TypeAgent, messages.TypeRelic, messages.TypeWorkflow, messages.TypeLLM, messages.TypeInternal,
	} {
		if other != typ && slices.Contains(t.names(other), name) {
			elsewhere = append(elsewhere, `it is called with type="`+string(other)+`"`)
		}
	}
	near = Near(name, all)
	text := "no " + string(typ) + " " + strconv.Quote(clip.Short(name, maxNamedBytes))
	switch {
	case len(elsewhere) > 0:
		return text + "; " + elsewhere[0]
	case len(near) > 0:
		return text + "; near: " + strings.Join(near, ", ")
	case len(all) == 0:
		return text + "; there is no " + string(typ) + " at all"
	case len(all) > maxListed:
		return text + "; there is: " + strings.Join(all[:maxListed], ", ") + " and others"
	}
	return text + "; there is: " + strings.Join(all, ", ")
}

// Near returns the known names that are similar to name, the most similar first, at most
// three.
func Near(name string, known []string) (near []string) {
	type ranked struct {
		name string
		far  int
	}
	var found []ranked
	for _, k := range known {
		if far := distance(name, k); far < tooFar {
			found = append(found, ranked{k, far})
		}
	}
	slices.SortStableFunc(found, func(a, b ranked) int { return a.far - b.far })
	for i := range min(len(found), maxNear) {
		near = append(near, found[i].name)
	}
	return near
}

// names returns the names of a type, sorted.
func (t *Targets) names(typ messages.ActionType) (all []string) {
	if typ == messages.TypeTool {
		for _, name := range t.set.Names() {
			if _, found := t.set.Target(name); found {
				all = append(all, name)
			}
		}
	}
	for _, x := range t.others {
		if x.Type == typ && x.refuse == "" {
			all = append(all, x.Name)
		}
	}
	slices.Sort(all)
	return all
}

// tooFar is the distance from which two names are not similar.
const tooFar = 100

// distance returns how different two names are: by case and punctuation alone, by the order
// of their words, by letters, by words that only one of them has.
func distance(a, b string) int {
	wa, wb := words(a), words(b)
	ja, jb := strings.Join(wa, ""), strings.Join(wb, "")
	if ja == jb {
		return 0
	}
	slices.Sort(wa)
	slices.Sort(wb)
	if slices.Equal(wa, wb) {
		return 1
	}
	if n := edits(ja, jb); n <= max(1, min(len(ja), len(jb))/4) {
		return 1 + n
	}
	shared := 0
	for _, w := range wa {
		if len(w) > 2 && slices.Contains(wb, w) {
			shared++
		}
	}
	if shared > 0 {
		return 20 + len(wa) + len(wb) - 2*shared
	}
	if len(ja) > 2 && strings.Contains(jb, ja) || len(jb) > 2 && strings.Contains(ja, jb) {
		return 40
	}
	return tooFar
}

// words returns the parts of a name, in lower case: file.read, read_file, ReadFile.
func words(name string) (all []string) {
	var b strings.Builder
	end := func() {
		if b.Len() > 0 {
			all = append(all, strings.ToLower(b.String()))
			b.Reset()
		}
	}
	lower := false
	for _, c := range clip.Short(name, maxNamedBytes) {
		upper := c >= 'A' && c <= 'Z'
		switch {
		case upper && lower:
			end()
		case !upper && (c < 'a' || c > 'z') && (c < '0' || c > '9') && c < 0x80:
			end()
			lower = false
			continue
		}
		b.WriteRune(c)
		lower = !upper
	}
	end()
	return all
}

// edits returns the edit distance of two words: letters to insert, delete or change.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			best := before
			if a[i] != b[j] {
				best++
			}
			before = row[j+1]
			row[j+1] = min(best, row[j]+1, before+1)
		}
	}
	return row[len(b)]
}
