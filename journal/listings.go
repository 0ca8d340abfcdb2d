package journal

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed14be6753/stile/messages"
)

// Listing is a session as lists show it: its head, and its name, times, title and tags.
type Listing struct {
	Head
	// Agent is the name in the session's first record, Manifest the digest there; both are
	// zero when that record has none or was erased.
	Agent    string
	Manifest messages.Digest
	// Created is the time of the first record; of a fork, the time of the fork. Updated is
	// when a listing last changed: an input came, a run began or ended, the session was
	// suspended, taken up, described or closed.
	Created, Updated time.Time
	// Title and Tags are of the record at Described, 0 for none or an erased one.
	Title     string
	Tags      []string
	Described int64
	// Decision and Code are of the record at Ended, the last run.end: zero for none or an
	// erased one. How the last run has ended is what Last says: it may be open.
	Decision messages.Decision
	Code     messages.Code
	Ended    int64
	// Parent is the SID of the session that this one works for, Origin the SID of the one that
	// it continues as a fork; "" for none, or when the first record was erased.
	Parent, Origin string
}

// Last returns how the last run has ended; zero values before a run has ended, while one is
// open, and when that record was erased.
func (l *Listing) Last() (messages.Decision, messages.Code) {
	if l.Open || l.Run == 0 {
		return "", ""
	}
	return l.Decision, l.Code
}

// Fold updates the listing with records of the session, in order, and reports whether they
// changed a field beside the head.
func (l *Listing) Fold(recs []*messages.Record) (changed bool) {
	for _, r := range recs {
		if r.Seq == 1 {
			l.Created, l.Updated, changed = r.TS, r.TS, true
		}
		if r.Body == nil || !lists(r.Body.Kind()) {
			continue
		}
		changed = true
		l.Updated = r.TS
		typed, err := Typed(r)
		if err != nil {
			continue // a body that cannot be read describes nothing
		}
		switch b := typed.Body.(type) {
		case *messages.SessionOpened:
			l.Agent, l.Manifest = listable(b.Name), b.Manifest
			if b.Parent != nil {
				l.Parent = listable(b.Parent.SID)
			}
			if b.Origin != nil { // its records keep the times of the original
				l.Origin = listable(b.Origin.SID)
				if id := r.Inc; id.Version() == 7 {
					sec, nsec := id.Time().UnixTime()
					l.Created = time.Unix(sec, nsec).UTC()
				}
			}
		case *messages.SessionDescribed:
			l.Title, l.Tags, l.Described = "", nil, r.Seq
			if b.Validate() == nil { // an import may bring anything
				l.Title, l.Tags = b.Title, b.Tags
			}
		case *messages.RunEnd:
			l.Decision, l.Code, l.Ended = "", "", r.Seq
			switch b.Decision {
			case messages.Done, messages.Abort, messages.Halt: // an import may bring anything
				l.Decision, l.Code = b.Decision, messages.Code(listable(string(b.Reason)))
			case messages.Continue: // ends no run
			}
		case *messages.Undecoded: // erased: what was said before it does not come back
			switch b.Of {
			case messages.KindDescribed:
				l.Title, l.Tags, l.Described = "", nil, 0
			case messages.KindRunEnd:
				l.Decision, l.Code, l.Ended = "", "", r.Seq
			}
		}
	}
	if changed && l.Updated.Before(l.Created) {
		l.Updated = l.Created
	}
	return changed
}

// lists reports whether records of a kind change what a list shows.
func lists(k messages.Kind) bool {
	switch k {
	case messages.KindSessionOpened, messages.KindSessionClosed, messages.KindDescribed, messages.KindInput, messages.KindRunBegin,
		messages.KindRunEnd, messages.KindTurnSuspended, messages.KindTurnRestored:
		return true
	}
	return false
}

// listable returns a name that every store can keep, or "" for one that is not text.
func listable(s string) string {
	if !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
		return ""
	}
	return s
}

// Forget clears the fields that come from the records from..to, both included, which were
// erased.
func (l *Listing) Forget(from, to int64) {
	if from <= 1 && to >= 1 {
		l.Agent, l.Manifest, l.Parent, l.Origin = "", messages.Digest{}, "", ""
	}
	if l.Ended >= from && l.Ended <= to {
		l.Decision, l.Code = "", ""
	}
	if l.Described >= from && l.Described <= to {
		l.Title, l.Tags, l.Described = "", nil, 0
	}
}

// Lists reports whether the query selects a listing. It ignores AfterUpdated and AfterInc.
func (q *Query) Lists(l *Listing) bool {
	switch {
	case q.Inc != (messages.Incarnation{}) && l.Inc != q.Inc:
		return false
	case !strings.HasPrefix(l.SID, q.Prefix), !q.Retired && !l.Live, q.Pending && !l.Pending(), q.Suspended && !l.Suspended():
		return false
	case q.Agent != "" && l.Agent != q.Agent, !strings.Contains(strings.ToLower(l.Title), strings.ToLower(q.Title)):
		return false
	case q.Decision != "" && !l.endedWith(q.Decision):
		return false
	case !q.CreatedAfter.IsZero() && !l.Created.After(q.CreatedAfter), !q.UpdatedAfter.IsZero() && !l.Updated.After(q.UpdatedAfter):
		return false
	}
	for _, t := range q.Tags {
		if !slices.ContainsFunc(l.Tags, func(own string) bool { return own == t || strings.HasPrefix(own, t+"=") }) {
			return false
		}
	}
	return true
}

func (l *Listing) endedWith(d messages.Decision) bool {
	last, _ := l.Last()
	return last == d
}

// Listed compares two listings in the order of lists: the one that changed last is first.
func Listed(a, b *Listing) int {
	return cmp.Or(b.Updated.Compare(a.Updated), bytes.Compare(b.Inc[:], a.Inc[:]))
}

// behind reports whether a listing comes after the page before.
func (q *Query) behind(l *Listing) bool {
	if q.AfterUpdated.IsZero() {
		return true
	}
	after := Listing{Head: Head{Inc: q.AfterInc}, Updated: q.AfterUpdated}
	return Listed(&after, l) < 0
}

// PageOf returns the page of listings that a query selects out of all of a store, each of
// which is given once. It holds at most one page in memory.
func (q *Query) PageOf(all iter.Seq[*Listing]) []Listing {
	var page []Listing
	all(func(l *Listing) bool {
		if !q.Lists(l) || !q.behind(l) {
			return true
		}
		at, _ := slices.BinarySearchFunc(page, l, func(a Listing, l *Listing) int { return Listed(&a, l) })
		if at < q.Page() {
			page = slices.Insert(page, at, *l)
			page = page[:min(len(page), q.Page())]
		}
		return true
	})
	return page
}

// Listings returns one page of a query, the session that changed last first: sessions with at
// least one record that the query selects. For the next page set AfterUpdated and AfterInc to
// Updated and Inc of the last listing: a session that changes meanwhile moves to the front,
// and no other is repeated or left out. A store with a method Listings answers from an index
// that each commit keeps up to date; of other stores every session is read.
func Listings(ctx context.Context, s Store, q Query) ([]Listing, error) {
	if own, ok := s.(interface {
		Listings(ctx context.Context, q Query) ([]Listing, error)
	}); ok {
		return own.Listings(ctx, q)
	}
	return ScanListings(ctx, s, q)
}

// ScanListings implements Listings without an index, by reading every session that Prefix
// selects.
func ScanListings(ctx context.Context, s Store, q Query) ([]Listing, error) {
	var failed error
	page := q.PageOf(func(yield func(*Listing) bool) {
		heads := Query{Prefix: q.Prefix, Retired: q.Retired, Pending: q.Pending}
		for {
			found, err := s.Sessions(ctx, heads)
			if err != nil {
				failed = err
				return
			}
			for i := range found {
				l, err := ListingOf(ctx, s, found[i])
				if err != nil {
					failed = err
					return
				}
				if l.Seq > 0 && !yield(&l) {
					return
				}
			}
			if len(found) < heads.Page() {
				return
			}
			last := found[len(found)-1]
			heads.AfterSID, heads.AfterInc = last.SID, last.Inc
		}
	})
	return page, failed
}

// ListingOf makes the listing of the session with head h by reading its records.
func ListingOf(ctx context.Context, s Store, h Head) (Listing, error) {
	l := Listing{Head: h}
	if h.Seq == 0 {
		return l, nil
	}
	for r, err := range s.Read(ctx, h.Inc, 1, h.Seq) {
		if err != nil {
			return l, err
		}
		l.Fold([]*messages.Record{r})
	}
	return l, nil
}
