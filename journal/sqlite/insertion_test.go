package sqlite

import (
	"fmt"
	"slices"
	"testing"

	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/journal"
)

// However many rows a commit has, all of them are there, in the order of the batches.
func TestRowsOfACommit(t *testing.T) {
	for n := range 2*rowsAtOnce + 2 {
		s := open(t, Options{Path: t.TempDir()})
		first, last := specimen.Start(t, "local:local:a", 1), specimen.Start(t, "local:local:b", 2)
		batches := []journal.Batch{first.Notes(n + 1), last.Notes(1)}
		for i := range n {
			batches[0].Blobs = append(batches[0].Blobs, specimen.NewBlob(fmt.Sprint(i)), specimen.NewBlob(fmt.Sprint(i)))
		}
		specimen.Must(t, s, batches...)
		for i := range batches {
			b := &batches[i]
			if _, recs, err := journal.Load(ctx, s, b.Inc); err != nil || len(recs) != len(b.Records) {
				t.Fatalf("%d rows: %d records of batch %d, %v", n+2, len(recs), i, err)
			}
			for k := range b.Blobs {
				if _, err := s.Blob(ctx, b.Inc, b.Blobs[k].Digest); err != nil {
					t.Fatalf("%d rows: blob %d: %v", n+2, k, err)
				}
			}
		}
		if got, want := column(t, s, "SELECT pos FROM records ORDER BY id"), column(t, s, "SELECT pos FROM records ORDER BY pos"); !slices.Equal(got, want) {
			t.Errorf("%d rows are in the order %x", n+2, got)
		}
	}
}

func column(t *testing.T, s *store, query string) (all []int64) {
	t.Helper()
	rows, err := s.w.conn.QueryContext(ctx, query)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var v int64
		if err := rows.Scan(&v); err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// Rows that a failed transaction had gathered are not those of the next one.
func TestDamagedHeadStaysAlone(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{Path: dir})
	var batches []journal.Batch
	for i := range 3 {
		ses := specimen.Start(t, fmt.Sprintf("local:local:%d", i), i+1)
		specimen.Must(t, s, ses.Notes(1))
		batches = append(batches, ses.Notes(2))
	}
	if _, err := s.w.conn.ExecContext(ctx, "UPDATE sessions SET hash = x'00' WHERE sid = 'local:local:1'"); err != nil {
		t.Fatal(err)
	}
	if err := s.Reopen(); err != nil { // what is known of the heads
		t.Fatal(err)
	}
	for i, err := range s.Commit(batches) {
		if (err != nil) != (i == 1) || i == 1 && journal.ReasonOf(err) != journal.ReasonCorrupt {
			t.Errorf("batch %d: %v", i, err)
		}
	}
	for _, i := range []int{0, 2} {
		if _, recs, err := journal.Load(ctx, s, batches[i].Inc); err != nil || len(recs) != 3 {
			t.Errorf("session %d: %d records, %v", i, len(recs), err)
		}
	}
}
