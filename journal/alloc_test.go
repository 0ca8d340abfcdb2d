//go:build !race

// The race detector makes sync.Pool forget at random, so allocations are
// counted in the plain test run alone.

package journal_test

import (
	"testing"

	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

func TestAppendBodyAllocatesNothing(t *testing.T) {
	rng := specimen.Seed(t)
	buf := make([]byte, 0, 64<<10)
	for _, b := range specimen.Bodies() {
		specimen.Fill(rng, b)
		if n := testing.AllocsPerRun(20, func() { buf = journal.AppendBody(buf[:0], b) }); n != 0 {
			t.Errorf("%s: %v allocations", b.Kind(), n)
		}
	}
}

func TestSealAllocations(t *testing.T) {
	s := journal.NewSealer(journal.SealerConfig{Head: journal.NewHead("local:local:a", specimen.Inc(1)), Rand: specimen.Random(1), Receipts: journal.ReceiptsOff})
	r := &messages.Record{Body: specimen.Decided(), TS: specimen.Epoch}
	recs := []*messages.Record{r}
	seq := int64(0)
	n := testing.AllocsPerRun(200, func() {
		seq++
		r.Seq = seq
		if err := s.Seal(recs, specimen.Epoch); err != nil {
			t.Fatal(err)
		}
	})
	if n > 3 {
		t.Errorf("%v allocations", n)
	}
}
