package journal

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed14be6753/stile/messages"
)

// Bounds of a recall (docs/spec/cogency.md §10).
const (
	MaxRecallWords = 100 // distinct ones; a query of 200 runes has no more
	MaxRecallHits  = 100
	ShownRunes     = 100 // of a hit
)

// RecallQuery searches the messages of a user, and the replies to them, in other sessions.
type RecallQuery struct {
	// Owner is the prefix of the user's SIDs, "tenant:user:". No other session is searched.
	Owner string
	// Except is the incarnation that asks, which is not searched.
	Except messages.Incarnation
	// Words are searched for anywhere in a text: folded (Fold), distinct, none empty.
	Words []string
	Limit int // of hits; 0 is MaxRecallHits
}

// Recollection is a hit: how many words of the query a text contains, and how it begins.
type Recollection struct {
	SID   string
	Inc   messages.Incarnation
	Seq   int64
	TS    time.Time
	Role  messages.Role // user, or assistant
	Shown string        // at most ShownRunes, on one line
	Words int           // distinct words of the query in it
	Runes int           // of those words

	// The members below are of Search alone, which leaves Shown, Words and Runes zero.

	Run, Turn int64 // of the record
	// Before, Match and After are an excerpt on one line, around the first word of the query.
	Before, Match, After string
}

// Check sets the default limit and returns INVALID for a query that is malformed.
func (q *RecallQuery) Check() error {
	switch {
	case strings.Count(q.Owner, ":") != 2 || !strings.HasSuffix(q.Owner, ":") || strings.HasPrefix(q.Owner, ":") || strings.Contains(q.Owner, "::"):
		return Fail(ReasonInvalid, nil, "a recall without an owner")
	case len(q.Words) == 0 || len(q.Words) > MaxRecallWords:
		return Fail(ReasonInvalid, nil, "a recall of %d words; it takes 1 to %d", len(q.Words), MaxRecallWords)
	}
	for i, w := range q.Words {
		if w == "" || w != Fold(w) || slices.Contains(q.Words[:i], w) {
			return Fail(ReasonInvalid, nil, "word %d of a recall is empty, not folded, or there before", i+1)
		}
	}
	if q.Limit <= 0 || q.Limit > MaxRecallHits {
		q.Limit = MaxRecallHits
	}
	return nil
}

// Words returns the distinct folded words of a text, for RecallQuery.Words.
func Words(text string) []string {
	var words []string
	for _, w := range strings.FieldsFunc(Fold(text), unicode.IsSpace) {
		if !slices.Contains(words, w) {
			words = append(words, w)
		}
	}
	return words
}

// Fold returns the form in which texts are compared: lower case, with characters that a
// store cannot hold replaced.
func Fold(text string) string {
	return strings.ReplaceAll(strings.ToLower(strings.ToValidUTF8(text, "\ufffd")), "\x00", "\ufffd")
}

// Line returns a text on one line, with characters that a store cannot hold replaced.
func Line(text string) string {
	return strings.Join(strings.FieldsFunc(strings.ReplaceAll(strings.ToValidUTF8(text, "\ufffd"), "\x00", "\ufffd"), unicode.IsSpace), " ")
}

// Show returns the first ShownRunes runes of a text, on one line.
func Show(text string) string {
	text = Line(text)
	n := 0
	for i := range text {
		if n == ShownRunes {
			return text[:i]
		}
		n++
	}
	return text
}

// SaidKinds are the kinds of the records for which Said may report a text.
var SaidKinds = []messages.Kind{messages.KindInput, messages.KindResponse, messages.KindEmit}

// Said returns the text of a conversation that a body holds, and who said it; ok is false
// for a body without such text. Lines of a program that only operators see, and the host's
// own requests for a profile, are not part of a conversation.
func Said(b messages.Body) (role messages.Role, text string, ok bool) {
	switch b := b.(type) {
	case *messages.Input:
		if b.User == messages.ProfileKeeper {
			return "", "", false
		}
		role, text = messages.RoleUser, b.Text
		if text == "" {
			text = b.Userdata
		}
	case *messages.UnitText:
		if b.UnitKind == messages.ResponseUnit {
			role, text = messages.RoleAssistant, b.Text
		}
	case *messages.Emit:
		if !b.Candidate {
			role, text = messages.RoleAssistant, b.Text
		}
	}
	return role, text, strings.TrimSpace(text) != ""
}

// Scan implements Store.Recall without an index, by reading every session of the owner.
func Scan(ctx context.Context, s Store, q RecallQuery) ([]Recollection, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	var best []Recollection
	for head, err := range sessionsOf(ctx, s, q.Owner) {
		if err == nil && head.Inc != q.Except {
			best, err = scan(ctx, s, head, &q, best)
		}
		if err != nil {
			return nil, err
		}
	}
	return best, nil
}

// sessionsOf iterates over all sessions of an owner, retired incarnations included, a page
// at a time. It ends at the first error.
func sessionsOf(ctx context.Context, s Store, owner string) iter.Seq2[*Head, error] {
	return func(yield func(*Head, error) bool) {
		page := Query{Prefix: owner, Retired: true}
		for {
			heads, err := s.Sessions(ctx, page)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range heads {
				if !yield(&heads[i], nil) {
					return
				}
			}
			if len(heads) < page.Page() {
				return
			}
			page.AfterSID, page.AfterInc = heads[len(heads)-1].SID, heads[len(heads)-1].Inc
		}
	}
}

func scan(ctx context.Context, s Store, h *Head, q *RecallQuery, best []Recollection) ([]Recollection, error) {
	for rec, err := range s.Read(ctx, h.Inc, 0, 0) {
		if err != nil {
			return nil, err
		}
		if rec.Raw == nil || !slices.Contains(SaidKinds, rec.Body.Kind()) {
			continue
		}
		body, err := DecodeBody(rec.Body.Kind(), rec.Raw)
		if err != nil {
			return nil, err
		}
		role, text, ok := Said(body)
		if !ok {
			continue
		}
		hit := Recollection{SID: h.SID, Inc: h.Inc, Seq: rec.Seq, TS: rec.TS, Role: role}
		folded := Fold(text)
		for _, w := range q.Words {
			if strings.Contains(folded, w) {
				hit.Words++
				hit.Runes += utf8.RuneCountInString(w)
			}
		}
		if hit.Words == 0 {
			continue
		}
		at, _ := slices.BinarySearchFunc(best, hit, Better)
		if at < q.Limit {
			hit.Shown = Show(text)
			best = slices.Insert(best, at, hit)
			best = best[:min(len(best), q.Limit)]
		}
	}
	return best, nil
}

// Better compares two hits in the order of Store.Recall, the best first.
func Better(a, b Recollection) int {
	return cmp.Or(cmp.Compare(b.Words, a.Words), cmp.Compare(b.Runes, a.Runes), b.TS.Compare(a.TS), slices.Compare(b.Inc[:], a.Inc[:]), cmp.Compare(b.Seq, a.Seq))
}
