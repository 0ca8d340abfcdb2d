package journaltest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// searches compares a store's own search with a look at every record.
func searches(t *testing.T, s journal.Store, q journal.RecallQuery) {
	t.Helper()
	want, wantMore, err := journal.ScanPlaces(ctx, s, q)
	if err != nil {
		t.Fatal(err)
	}
	got, more, behind, err := journal.Places(ctx, s, q)
	if err != nil || more != wantMore || behind {
		t.Fatalf("a search for %+v: more %v, not %v, behind %v, %v", q, more, wantMore, behind, err)
	}
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty()); d != "" {
		t.Fatalf("a search for %+v: %s", q, d)
	}
	found, _, _, err := journal.Search(ctx, s, q)
	if err != nil || len(found) != len(got) {
		t.Fatalf("a search for %+v: %d of %d sessions, %v", q, len(found), len(got), err)
	}
	for _, f := range found {
		if !strings.HasPrefix(f.SID, q.Owner) || !slices.Contains(q.Words, journal.Fold(f.Match)) {
			t.Fatalf("a search for %+v shows %+v", q, f)
		}
	}
}

// recall compares a store's own recalls with a look at every record, while sessions grow,
// are erased and deleted; nothing of another user is ever found.
func recall(t *testing.T, s journal.Store) {
	rng := specimen.Seed(t)
	// Owners whose names are the beginnings of each other's, or patterns of them.
	owners := []string{"t:al:", "t:alice:", "t:al_ce:", "t:a-l:", "tt:al:"}
	var sessions []*specimen.Session
	for i := range 12 {
		ses := specimen.Start(t, fmt.Sprintf("%ss%d", owners[i%len(owners)], i), i+1)
		b := ses.Batch(specimen.Saying(rng, 6)...)
		specimen.Must(t, s, b)
		sessions = append(sessions, ses)
	}
	check := func(when string) {
		t.Helper()
		for range 12 {
			q := journal.RecallQuery{Owner: owners[rng.IntN(len(owners))], Words: journal.Words(specimen.Sentence(rng, 4)), Limit: rng.IntN(5)}
			if rng.IntN(2) == 0 {
				q.Except = sessions[rng.IntN(len(sessions))].Inc
			}
			want, err := journal.Scan(ctx, s, q)
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.Recall(ctx, q)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("%s: %+v: %s", when, q, d)
			}
			for _, h := range got {
				if !strings.HasPrefix(h.SID, q.Owner) || h.Inc == q.Except {
					t.Fatalf("%s: %+v finds %+v", when, q, h)
				}
			}
			searches(t, s, journal.RecallQuery{Owner: q.Owner, Words: q.Words[:min(len(q.Words), 1+rng.IntN(2))], Limit: q.Limit})
		}
	}
	hears := func(when string) {
		t.Helper()
		q := journal.HeardQuery{Owner: owners[rng.IntN(len(owners))], Limit: rng.IntN(5)}
		all, err := journal.ScanHeard(ctx, s, journal.HeardQuery{Owner: q.Owner})
		if err != nil {
			t.Fatal(err)
		}
		if len(all) > 0 && rng.IntN(4) > 0 {
			q.After = all[rng.IntN(len(all))]
		}
		want, err := journal.ScanHeard(ctx, s, q)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Heard(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("%s: %+v: %s", when, q, d)
		}
		for i, h := range got {
			if !strings.HasPrefix(h.SID, q.Owner) || h.Compare(q.After) <= 0 || i > 0 && h.Compare(got[i-1]) <= 0 {
				t.Fatalf("%s: %+v gives %+v", when, q, h)
			}
		}
	}
	looks := check
	check = func(when string) {
		t.Helper()
		looks(when)
		for range 6 {
			hears(when)
		}
	}
	check("at first")
	for range 4 {
		for range 5 {
			ses := sessions[rng.IntN(len(sessions))]
			if _, err := s.HeadOf(ctx, ses.Inc); err == nil {
				specimen.Must(t, s, ses.Batch(specimen.Saying(rng, 1+rng.IntN(5))...))
			}
		}
		check("after more was said")
		ses := sessions[rng.IntN(len(sessions))]
		if _, err := s.HeadOf(ctx, ses.Inc); err != nil {
			continue
		}
		if rng.IntN(2) == 0 {
			_, err := s.Erase(ctx, ses.Inc, int64(rng.IntN(3)), int64(3+rng.IntN(4)))
			if err != nil {
				t.Fatal(err)
			}
			check("after an erasure")
		} else {
			if err := s.Delete(ctx, ses.Inc); err != nil {
				t.Fatal(err)
			}
			check("after a deletion")
		}
	}
	for _, owner := range []string{"", "t:al", "t:", "t::", "::", "t:al:s:"} {
		_, err := s.Heard(ctx, journal.HeardQuery{Owner: owner})
		wantReason(t, err, journal.ReasonInvalid)
	}
	for _, q := range []journal.RecallQuery{
		{Words: []string{"a"}},
		{Owner: "t:al", Words: []string{"a"}},
		{Owner: "t:", Words: []string{"a"}},
		{Owner: "t::", Words: []string{"a"}},
		{Owner: "::", Words: []string{"a"}},
		{Owner: "t:al:s:", Words: []string{"a"}},
		{Owner: "t:al:"},
		{Owner: "t:al:", Words: []string{""}},
		{Owner: "t:al:", Words: []string{"A"}},
		{Owner: "t:al:", Words: []string{"a", "a"}},
		{Owner: "t:al:", Words: make([]string, journal.MaxRecallWords+1)},
	} {
		_, err := s.Recall(ctx, q)
		wantReason(t, err, journal.ReasonInvalid)
	}
}

// recallOrder is docs/spec/cogency.md §10 by example.
func recallOrder(t *testing.T, s journal.Store) {
	ses := specimen.Start(t, "t:u:one", 1)
	long := "The ROUTER in the cellar needs a new fan; " + strings.Repeat("x", 200)
	specimen.Must(t, s, ses.Batch(
		&messages.Input{Text: "my router is broken"}, &messages.UnitText{Unit: "1.0", UnitKind: messages.ResponseUnit, Text: "Which router?"},
		&messages.Input{Text: long}, &messages.Input{Text: "route 66"}, &messages.Input{Text: "fan of rain"},
	))
	other := specimen.Start(t, "t:other:one", 2)
	specimen.Must(t, s, other.Batch(&messages.Input{Text: "router fan router fan: a secret"}))
	got, err := s.Recall(ctx, journal.RecallQuery{Owner: "t:u:", Words: journal.Words("Router  fan ROUTER"), Limit: 3})
	if err != nil {
		t.Fatal(err)
	}
	var seqs []int64
	for _, h := range got {
		seqs = append(seqs, h.Seq)
	}
	if fmt.Sprint(seqs) != "[3 2 1]" {
		t.Errorf("records %v, want both words first, then the newest", seqs)
	}
	if len(got) > 0 && (len([]rune(got[0].Shown)) != journal.ShownRunes || !strings.HasPrefix(got[0].Shown, "The ROUTER in the cellar") || got[0].Words != 2 || got[0].Runes != 9) {
		t.Errorf("%+v", got[0])
	}
	if got, err = s.Recall(ctx, journal.RecallQuery{Owner: "t:u:", Words: []string{"rout_r"}}); err != nil || len(got) != 0 {
		t.Errorf("a wildcard is one: %+v, %v", got, err)
	}
}
