// Package journaltest is the conformance suite of journal stores: what every
// store must do, told by doing it. Its generators serve other tests too.
package journaltest

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// Run checks a store. open makes an empty one each time; the suite closes it.
func Run(t *testing.T, open func(t *testing.T) journal.Store) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, s journal.Store)
	}{
		{"CommitAndRead", commitAndRead},
		{"EveryBody", everyBody},
		{"Fence", fence},
		{"RefusalStaysAlone", refusalStaysAlone},
		{"Pipelined", pipelined},
		{"Malformed", malformed},
		{"Create", create},
		{"FirstBatchRace", firstBatchRace},
		{"ClosedFreesTheName", closedFreesTheName},
		{"NameChangesHands", nameChangesHands},
		{"Summary", summary},
		{"Listing", listing},
		{"Listings", listings},
		{"ListingErased", listingErased},
		{"Wakes", wakes},
		{"ReadRanges", readRanges},
		{"Blobs", blobs},
		{"Parts", parts},
		{"Measure", measure},
		{"Snapshots", snapshots},
		{"EraseAll", eraseAll},
		{"ErasePart", erasePart},
		{"Delete", remove},
		{"Recall", recall},
		{"RecallOrder", recallOrder},
		{"Meta", meta},
		{"TwoOwners", twoOwners},
		{"ReadersBesideWriter", readersBesideWriter},
		{"LoadAfterSnapshot", loadAfterSnapshot},
		{"Cancelled", cancelled},
		{"Closed", closed},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			defer func() {
				if err := s.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			}()
			c.run(t, s)
		})
	}
}

var ctx = context.Background()

func collect(t testing.TB, seq iter.Seq2[*messages.Record, error]) []*messages.Record {
	t.Helper()
	var recs []*messages.Record
	for r, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		own := *r
		if own.Raw != nil {
			if err := journal.Decode(&own); err != nil {
				t.Fatal(err)
			}
		}
		recs = append(recs, &own)
	}
	return recs
}

func wantReason(t testing.TB, err error, reason string) {
	t.Helper()
	if journal.ReasonOf(err) != reason {
		t.Fatalf("got %v, want reason %s", err, reason)
	}
}

var errGone = errors.New("the caller went away")

func cancelled(t *testing.T, s journal.Store) {
	ses := specimen.Start(t, "local:local:c", 1)
	specimen.Must(t, s, ses.Notes(1))
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errGone)
	_, head := s.Head(ctx, ses.SID)
	_, _, load := journal.Load(ctx, s, ses.Inc)
	_, list := s.Sessions(ctx, journal.Query{})
	_, erase := s.Erase(ctx, ses.Inc, 0, 0)
	var read error
	for _, read = range s.Read(ctx, ses.Inc, 0, 0) {
	}
	for i, err := range []error{head, load, list, erase, read, s.PutMeta(ctx, "k", nil), s.Delete(ctx, ses.Inc)} {
		if !errors.Is(err, errGone) {
			t.Errorf("call %d: %v", i, err)
		}
	}
}

func closed(t *testing.T, s journal.Store) {
	ses := specimen.Start(t, "local:local:c", 1)
	specimen.Must(t, s, ses.Notes(1))
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, head := s.Head(ctx, ses.SID)
	_, of := s.HeadOf(ctx, ses.Inc)
	_, list := s.Sessions(ctx, journal.Query{})
	_, erase := s.Erase(ctx, ses.Inc, 0, 0)
	_, blob := s.Blob(ctx, ses.Inc, messages.Digest{})
	_, snap := s.Snapshot(ctx, ses.Inc)
	_, get := s.Meta(ctx, "k")
	_, made := s.Create(ctx, messages.SessionKey{Tenant: "a", User: "b", ID: "c"}, specimen.Inc(2))
	var read error
	for _, read = range s.Read(ctx, ses.Inc, 0, 0) {
	}
	for i, err := range []error{
		head, of, list, erase, blob, snap, get, made, read, s.PutMeta(ctx, "k", nil), s.Delete(ctx, ses.Inc),
		s.DropSnapshot(ctx, ses.Inc), s.PutSnapshot(ctx, ses.Inc, journal.Snapshot{}), s.Reopen(), s.Commit([]journal.Batch{ses.Notes(1)})[0],
	} {
		if journal.ReasonOf(err) != journal.ReasonClosed {
			t.Errorf("call %d: %v", i, err)
		}
	}
}
