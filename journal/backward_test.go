package journal_test

import (
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"testing"

	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/messages"
)

// spans counts what is asked of a store.
type spans struct {
	journal.Store
	reads [][2]int64
	heads int
}

func (s *spans) Read(ctx context.Context, inc messages.Incarnation, from, to int64) iter.Seq2[*messages.Record, error] {
	s.reads = append(s.reads, [2]int64{from, to})
	return s.Store.Read(ctx, inc, from, to)
}

func (s *spans) HeadOf(ctx context.Context, inc messages.Incarnation) (journal.Head, error) {
	s.heads++
	return s.Store.HeadOf(ctx, inc)
}

// notes is a store with a session of n records: one that opens it, and notes.
func notes(t *testing.T, n int) (*spans, messages.Incarnation) {
	t.Helper()
	store := memory.New()
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	ses := specimen.Start(t, "t:u:back", 1)
	specimen.Must(t, store, ses.Batch(&messages.SessionOpened{Dialect: "plain", Incarnation: ses.Inc.String(), Parent: &messages.ParentLink{SID: "t:u:p", Depth: 2}}))
	for n--; n > 0; n -= 1000 {
		specimen.Must(t, store, ses.Notes(min(n, 1000)))
	}
	return &spans{Store: store}, ses.Inc
}

// positions reads to the end, or to the first error.
func positions(records iter.Seq2[*messages.Record, error]) (seqs []int64, err error) {
	for r, err := range records {
		if err != nil {
			return seqs, err
		}
		seqs = append(seqs, r.Seq)
	}
	return seqs, nil
}

// Backward gives what Read gives for the span, in the other order.
func TestBackwardIsReadReversed(t *testing.T) {
	rng := specimen.Seed(t)
	const n = 700
	store, inc := notes(t, n)
	for range 400 {
		from, to, window := rng.Int64N(n+60)-20, rng.Int64N(n+200)-20, rng.Int64N(100)-1
		want, err := positions(store.Store.Read(t.Context(), inc, from, to))
		if err != nil {
			t.Fatal(err)
		}
		slices.Reverse(want)
		got, err := positions(journal.Backward(t.Context(), store, inc, from, to, window))
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("from %d to %d, window %d: %v, %v; want %v", from, to, window, got, err, want)
		}
	}
}

// Windows grow, do not overlap, and end at the bounds of the span. The head is asked for
// only when it is not known.
func TestBackwardWindows(t *testing.T) {
	store, inc := notes(t, 9000)
	for _, c := range []struct {
		from, to, window int64
		reads            [][2]int64
		heads            int
	}{
		{0, 9000, 0, [][2]int64{{8937, 9000}, {8681, 8936}, {7657, 8680}, {3561, 7656}, {1, 3560}}, 0},
		{0, 0, 0, [][2]int64{{8937, 9000}, {8681, 8936}, {7657, 8680}, {3561, 7656}, {1, 3560}}, 1},
		{0, 9000, 5000, [][2]int64{{4905, 9000}, {809, 4904}, {1, 808}}, 0},
		{5, 9, 5, [][2]int64{{5, 9}}, 0},
		{5, 9, 4, [][2]int64{{6, 9}, {5, 5}}, 0},
		{5, 9, 6, [][2]int64{{5, 9}}, 0},
		{9, 9, 1, [][2]int64{{9, 9}}, 0},
		{1, 5, 1, [][2]int64{{5, 5}, {1, 4}}, 0},
		{9, 8, 1, nil, 0},
		{9001, 0, 1, nil, 1},
		{8999, math.MaxInt64, 2, [][2]int64{{math.MaxInt64 - 1, math.MaxInt64}, {8999, 9000}}, 1},
		{9001, 9100, 10, [][2]int64{{9091, 9100}}, 1},
		{8990, 9005, 10, [][2]int64{{8996, 9005}, {8990, 8995}}, 0},
	} {
		store.reads, store.heads = nil, 0
		if _, err := positions(journal.Backward(t.Context(), store, inc, c.from, c.to, c.window)); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(store.reads, c.reads) || store.heads != c.heads {
			t.Errorf("%d..%d, window %d: read %v and %d heads, want %v and %d", c.from, c.to, c.window, store.reads, store.heads, c.reads, c.heads)
		}
	}
}

// A caller that has what it looked for reads no farther, and may range again.
func TestBackwardEndsEarly(t *testing.T) {
	store, inc := notes(t, 500)
	records := journal.Backward(t.Context(), store, inc, 0, 0, 10)
	for range 2 {
		store.reads = nil
		var got []int64
		for r, err := range records {
			if err != nil {
				t.Fatal(err)
			}
			if got = append(got, r.Seq); len(got) == 10 {
				break
			}
		}
		if got[0] != 500 || got[9] != 491 || !slices.Equal(store.reads, [][2]int64{{491, 500}}) {
			t.Errorf("gave %v of %v", got, store.reads)
		}
	}
}

func TestBackwardFails(t *testing.T) {
	store, inc := notes(t, 300)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	cause := errors.New("enough")
	var got []int64
	var failed error
	for r, err := range journal.Backward(ctx, store, inc, 0, 300, 100) {
		if failed != nil {
			t.Fatal("a record or an error after the error")
		}
		if failed = err; err == nil {
			got = append(got, r.Seq)
			cancel(cause)
		}
	}
	if len(got) != 100 || !errors.Is(failed, cause) {
		t.Errorf("%d records and %v after a cancel in the first window", len(got), failed)
	}
	for _, to := range []int64{0, 10} {
		got, err := positions(journal.Backward(t.Context(), store, messages.Incarnation{9}, 0, to, 0))
		if len(got) != 0 || !journal.IsNotFound(err) {
			t.Errorf("an unknown session, to %d: %v, %v", to, got, err)
		}
	}
}

// Erased bodies are passed on: their records have their place in the chain.
func TestTypedAndErased(t *testing.T) {
	store, inc := notes(t, 200)
	if _, err := store.Erase(t.Context(), inc, 40, 160); err != nil {
		t.Fatal(err)
	}
	seq := int64(200)
	for r, err := range journal.Backward(t.Context(), store, inc, 0, 0, 30) {
		if err != nil || r.Seq != seq {
			t.Fatalf("record %v, %v; want %d", r, err, seq)
		}
		typed, err := journal.Typed(r)
		if err != nil {
			t.Fatal(err)
		}
		_, undecoded := typed.Body.(*messages.Undecoded)
		if erased := seq >= 40 && seq <= 160; undecoded != erased || typed.Body.Kind() != r.Body.Kind() || erased != (r.Raw == nil) {
			t.Errorf("record %d, erased %v: a body of %T", seq, erased, typed.Body)
		}
		if again, err := journal.Typed(typed); err != nil || again != typed {
			t.Errorf("record %d: a typed record is not given as it is: %v", seq, err)
		}
		seq--
	}
	bad := &messages.Record{SID: "t:u:back", Seq: 7, Raw: []byte("{"), Body: &messages.Undecoded{Of: messages.KindNote}}
	if _, err := journal.Typed(bad); journal.ReasonOf(err) != journal.ReasonCorrupt {
		t.Errorf("a body that is not canonical: %v", err)
	}
	if _, ok := bad.Body.(*messages.Undecoded); !ok {
		t.Error("the record of the store was changed")
	}
}

func TestOpened(t *testing.T) {
	store, inc := notes(t, 3)
	opened, err := journal.Opened(t.Context(), store, inc)
	if err != nil || opened.Parent == nil || opened.Parent.Depth != 2 {
		t.Errorf("%+v, %v", opened, err)
	}
	if _, err := store.Erase(t.Context(), inc, 1, 1); err != nil {
		t.Fatal(err)
	}
	for _, of := range []messages.Incarnation{inc, {9}} {
		if opened, err := journal.Opened(t.Context(), store, of); !journal.IsNotFound(err) {
			t.Errorf("%+v, %v", opened, err)
		}
	}
	empty, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("stopped"))
	if _, err := journal.Opened(empty, store, inc); err == nil || journal.IsNotFound(err) {
		t.Errorf("a read that was cancelled: %v", err)
	}
}
