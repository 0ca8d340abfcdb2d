package journaltest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// listings: the index of a store gives what a look at every session gives, whatever was
// committed, erased and deleted, and pages come to the whole.
func listings(t *testing.T, s journal.Store) {
	rng := specimen.Seed(t)
	var all []*specimen.Session
	for n := range 24 {
		sid := fmt.Sprintf("%s:%s:%d", pickOf(rng, "acme", "acme", "zeta"), pickOf(rng, "ann", "an", "bob"), n)
		ses := specimen.Start(t, sid, n+1)
		all = append(all, ses)
		specimen.Must(t, s, ses.Batch(&messages.SessionOpened{Name: pickOf(rng, "clerk", "ledger", "", "na\x00me"), Manifest: specimen.NewBlob("m").Digest, Parent: pickOf(rng, nil, &messages.ParentLink{SID: "acme:ann:p"})}))
	}
	for range 120 {
		ses := all[rng.IntN(len(all))]
		if head, err := s.HeadOf(ctx, ses.Inc); err != nil || head.Closed {
			continue
		}
		switch rng.IntN(12) {
		case 0:
			head, err := s.HeadOf(ctx, ses.Inc)
			if err != nil {
				t.Fatal(err)
			}
			from := 1 + rng.Int64N(head.Seq)
			if _, err := s.Erase(ctx, ses.Inc, from, from+rng.Int64N(4)); err != nil {
				t.Fatal(err)
			}
		case 1:
			if rng.IntN(3) == 0 {
				specimen.Must(t, s, ses.Batch(&messages.SessionClosed{}))
			}
		case 2:
			if rng.IntN(4) == 0 {
				if err := s.Delete(ctx, ses.Inc); err != nil {
					t.Fatal(err)
				}
			}
		case 3, 4, 5:
			specimen.Must(t, s, ses.Batch(&messages.Note{Text: "x"}, described(rng)))
		case 6:
			specimen.Must(t, s, ses.Batch(described(rng)), ses.Batch(&messages.Input{Text: "hello"}, &messages.RunBegin{Input: 1}), ses.Notes(2))
		case 7:
			specimen.Must(t, s, ses.Batch(&messages.TurnSuspended{Until: "2030-01-01T00:00:00Z"}))
		case 8:
			end := pickOf(rng, &messages.RunEnd{}, &messages.RunEnd{Decision: messages.Done}, &messages.RunEnd{Decision: messages.Halt, Reason: messages.ErrQuota}, &messages.RunEnd{Decision: "x\x00y", Reason: "\x00"})
			specimen.Must(t, s, ses.Batch(&messages.TurnRestored{}, &messages.RunBegin{}, end))
		default:
			specimen.Must(t, s, ses.Batch(&messages.Input{Text: "hello"}), ses.Notes(1))
		}
	}
	for range 60 {
		q := journal.Query{
			Prefix: pickOf(rng, "", "", "acme:", "acme:ann:", "acme:an", "acme:ann:1", "zeta:bob:", "none:"),
			Agent:  pickOf(rng, "", "", "clerk", "ledger", "none"), Title: pickOf(rng, "", "", "bill", "ÄRGER", "%", "none"),
			Retired: rng.IntN(2) == 0, Pending: rng.IntN(5) == 0, Suspended: rng.IntN(5) == 0, Decision: pickOf(rng, "", "", messages.Done, messages.Halt, "none"), Limit: 1 + rng.IntN(9),
		}
		for rng.IntN(3) == 0 {
			q.Tags = append(q.Tags, pickOf(rng, "arm", "arm=a", "ar", "urgent", "größe=ü"))
		}
		if rng.IntN(4) == 0 {
			q.CreatedAfter = specimen.Epoch.Add(time.Duration(rng.IntN(4)) * time.Millisecond)
		}
		if rng.IntN(4) == 0 {
			q.UpdatedAfter = specimen.Epoch.Add(time.Duration(rng.IntN(12)) * time.Millisecond)
		}
		if rng.IntN(8) == 0 {
			q.Inc = specimen.Inc(1 + rng.IntN(25))
		}
		whole := q
		whole.Limit = 0
		want, err := journal.ScanListings(ctx, s, whole)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.IsSortedFunc(want, func(a, b journal.Listing) int { return journal.Listed(&a, &b) }) {
			t.Fatalf("%+v: not the newest first", q)
		}
		var got []journal.Listing
		for {
			page, err := journal.Listings(ctx, s, q)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) > q.Limit {
				t.Fatalf("%d listings in a page of %d", len(page), q.Limit)
			}
			got = append(got, page...)
			if len(page) < q.Limit {
				break
			}
			last := &page[len(page)-1]
			q.AfterUpdated, q.AfterInc = last.Updated, last.Inc
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%+v: scanned -, indexed +\n%s", whole, diff)
		}
	}
}

// listingErased: nothing of a description is found once its record was erased.
func listingErased(t *testing.T, s journal.Store) {
	ses := specimen.Start(t, "acme:ann:a", 1)
	specimen.Must(t, s, ses.Batch(&messages.SessionOpened{Name: "clerk"}, &messages.SessionDescribed{Title: "first"}, &messages.SessionDescribed{Title: "her divorce", Tags: []string{"family"}}))
	one := func() journal.Listing {
		t.Helper()
		page, err := journal.Listings(ctx, s, journal.Query{Prefix: "acme:ann:"})
		if err != nil || len(page) != 1 {
			t.Fatalf("%v, %v", page, err)
		}
		return page[0]
	}
	if l := one(); l.Title != "her divorce" || !slices.Equal(l.Tags, []string{"family"}) || l.Described != 3 || l.Agent != "clerk" || l.Seq != 3 {
		t.Fatalf("%+v", l)
	}
	if _, err := s.Erase(ctx, ses.Inc, 3, 3); err != nil {
		t.Fatal(err)
	}
	if l := one(); l.Title != "" || l.Tags != nil || l.Described != 0 || l.Agent != "clerk" {
		t.Fatalf("an erased description: %+v", l)
	}
	specimen.Must(t, s, ses.Batch(&messages.RunBegin{}, &messages.RunEnd{Decision: messages.Halt, Reason: messages.ErrQuota}))
	if d, c := ptr(one()).Last(); d != messages.Halt || c != messages.ErrQuota {
		t.Fatalf("ended %s %s", d, c)
	}
	if _, err := s.Erase(ctx, ses.Inc, 5, 5); err != nil {
		t.Fatal(err)
	}
	if d, c := ptr(one()).Last(); d != "" || c != "" {
		t.Fatalf("an erased end: %s %s", d, c)
	}
	specimen.Must(t, s, ses.Batch(&messages.SessionDescribed{Title: "again"}))
	if _, err := s.Erase(ctx, ses.Inc, 0, 0); err != nil {
		t.Fatal(err)
	}
	if l := one(); l.Title != "" || l.Agent != "" || !l.Manifest.IsZero() {
		t.Fatalf("an erased session: %+v", l)
	}
	if err := s.Delete(ctx, ses.Inc); err != nil {
		t.Fatal(err)
	}
	// A fork was created when its incarnation was: its records keep the times they had.
	fork := specimen.Start(t, "acme:ann:f", 2)
	fork.Inc[0] = 2 // the year 2059
	fork = specimen.Continue(t, journal.NewHead(fork.SID, fork.Inc), nil)
	specimen.Must(t, s, fork.Batch(&messages.SessionOpened{Origin: &messages.ForkOrigin{SID: "acme:ann:a"}}))
	if l := one(); l.Created.Year() != 2059 || l.Origin != "acme:ann:a" || !l.Updated.Equal(l.Created) {
		t.Fatalf("a fork: %+v", l)
	}
	if err := s.Delete(ctx, fork.Inc); err != nil {
		t.Fatal(err)
	}
	if page, err := journal.Listings(ctx, s, journal.Query{Retired: true}); err != nil || len(page) != 0 {
		t.Fatalf("a deleted session: %v, %v", page, err)
	}
}

func ptr[T any](v T) *T { return &v }

func described(rng *rand.Rand) *messages.SessionDescribed {
	b := &messages.SessionDescribed{Title: pickOf(rng, "", "The Bill", "Ärger", "100%", "x\x00y")}
	for _, t := range []string{"arm=a", "arm=b", "größe=ü", "urgent"} {
		if rng.IntN(3) == 0 {
			b.Tags = append(b.Tags, t)
		}
	}
	return b
}

func pickOf[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }
