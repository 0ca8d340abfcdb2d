package journal

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/seed14be6753/stile/messages"
)

// Bounds of a search.
const (
	MaxMatches   = 2_000  // texts of which a page is made
	MaxCaughtUp  = 1_000  // sessions that one search puts into an index
	maxScanned   = 50_000 // records that one search without an index reads
	excerptAhead = 60     // runes in front of the word that was found
	excerptAfter = 160    // runes behind its beginning
)

// Search finds the live sessions of a user in which a text has all words of the query, each
// anywhere in it, and the newest such text of each that was looked at, with an excerpt; the newest
// is first. more reports that there may be other matches: more sessions than the limit, or more
// texts than a search looks at. behind reports that sessions were left out that the index does not
// have yet: the same search finds more of them, until it reports false. A store with a method
// Places answers from an index; of other stores the sessions that changed last are read, within a
// bound. What was erased is not found.
func Search(ctx context.Context, s Store, q RecallQuery) (found []Recollection, more, behind bool, err error) {
	all, more, behind, err := Places(ctx, s, q)
	if err != nil {
		return nil, false, false, err
	}
	for _, f := range all {
		for r, err := range s.Read(ctx, f.Inc, f.Seq, f.Seq) {
			if IsNotFound(err) {
				break // it was deleted meanwhile
			}
			if err != nil {
				return nil, false, false, err
			}
			typed, err := Typed(r)
			if err != nil {
				return nil, false, false, err
			}
			if _, text, ok := Said(typed.Body); ok && hasAll(Fold(text), q.Words) {
				f.Run, f.Turn = r.Run, r.Turn
				f.Before, f.Match, f.After = Excerpt(text, q.Words)
				found = append(found, f)
			}
		}
	}
	return found, more, behind, nil
}

// Places is Search without the excerpts: it says where the texts are.
func Places(ctx context.Context, s Store, q RecallQuery) (found []Recollection, more, behind bool, err error) {
	if err := q.Check(); err != nil {
		return nil, false, false, err
	}
	if own, ok := s.(interface {
		Places(ctx context.Context, q RecallQuery) ([]Recollection, bool, bool, error)
	}); ok {
		return own.Places(ctx, q)
	}
	found, more, err = ScanPlaces(ctx, s, q)
	return found, more, false, err
}

// ScanPlaces implements Places without an index, by reading sessions, the one that changed last
// first, until it has read as much as a search may.
func ScanPlaces(ctx context.Context, s Store, q RecallQuery) (found []Recollection, more bool, err error) {
	if err := q.Check(); err != nil {
		return nil, false, err
	}
	read := 0
	for list := (Query{Prefix: q.Owner, Limit: 100}); ; {
		some, err := Listings(ctx, s, list)
		if err != nil {
			return nil, false, err
		}
		for i := range some {
			l := &some[i]
			if read >= maxScanned {
				found, _ = Newest(found, q.Limit)
				return found, true, nil
			}
			if l.Inc != q.Except {
				f, n, err := lastMatch(ctx, s, &l.Head, q.Words)
				if err != nil {
					return nil, false, err
				}
				if read += n; f != nil {
					found = append(found, *f)
				}
			}
			list.AfterUpdated, list.AfterInc = l.Updated, l.Inc
		}
		if len(some) < list.Page() {
			found, more = Newest(found, q.Limit)
			return found, more, nil
		}
	}
}

// lastMatch is the newest text of a session that has all words; nil for none. It gives how many
// records it has read.
func lastMatch(ctx context.Context, s Store, h *Head, words []string) (last *Recollection, read int, err error) {
	for r, err := range s.Read(ctx, h.Inc, 0, h.Seq) {
		if err != nil {
			return nil, read, err
		}
		read++
		if r.Raw == nil || !slices.Contains(SaidKinds, r.Body.Kind()) {
			continue
		}
		body, err := DecodeBody(r.Body.Kind(), r.Raw)
		if err != nil {
			return nil, read, err
		}
		if role, text, ok := Said(body); ok && hasAll(Fold(text), words) {
			last = &Recollection{SID: h.SID, Inc: h.Inc, Seq: r.Seq, TS: r.TS, Role: role}
		}
	}
	return last, read, nil
}

func hasAll(folded string, words []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(folded, w) })
}

// Newest returns a page of matches, the newest first, of which it keeps the newest of each
// session, and reports whether the limit left out some.
func Newest(all []Recollection, limit int) (page []Recollection, more bool) {
	slices.SortFunc(all, Better)
	seen := make(map[messages.Incarnation]bool)
	all = slices.DeleteFunc(all, func(f Recollection) bool {
		was := seen[f.Inc]
		seen[f.Inc] = true
		return was
	})
	if len(all) > limit {
		return all[:limit], true
	}
	return all, false
}

// Excerpt returns the first of the words as a text has it, with what stands in front of it and
// behind it, on one line. The words are folded; "…" stands for what is left out.
func Excerpt(text string, words []string) (before, match, after string) {
	text = Line(text)
	var folded strings.Builder
	var at []int // offset in text of each byte of folded
	for i, r := range text {
		f := Fold(string(r))
		for range len(f) {
			at = append(at, i)
		}
		folded.WriteString(f)
	}
	at = append(at, len(text))
	from, to := len(text), len(text)
	for _, w := range words {
		if i := strings.Index(folded.String(), w); i >= 0 && at[i] < from {
			from, to = at[i], at[i+len(w)]
		}
	}
	if from == len(text) {
		from, to = 0, 0
	}
	begin := from
	for n := 0; begin > 0 && n < excerptAhead; n++ {
		_, size := utf8.DecodeLastRuneInString(text[:begin])
		begin -= size
	}
	end := to
	for n := 0; end < len(text) && n < excerptAfter; n++ {
		_, size := utf8.DecodeRuneInString(text[end:])
		end += size
	}
	before, match, after = text[begin:from], text[from:to], text[to:end]
	if begin > 0 {
		before = "…" + before
	}
	if end < len(text) {
		after += "…"
	}
	return before, match, after
}
