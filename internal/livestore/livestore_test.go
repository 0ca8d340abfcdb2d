package livestore

import (
	"context"
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed14be6753/stile/internal/telemetry"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// slow is a store on some disk that accepts everything and counts what is read.
type slow struct {
	journal.Store
	reads int
}

func (*slow) Immediate() bool { return false }

func (*slow) Commit(batches []journal.Batch) []error { return make([]error, len(batches)) }

func (s *slow) Blob(context.Context, messages.Incarnation, messages.Digest) ([]byte, error) {
	s.reads++
	return []byte("from the disk"), nil
}

// What a session carries is at hand for its next run, however many turns others
// took before; what is not read again is not kept.
func TestCarriedStreamsAreAtHand(t *testing.T) {
	disk := &slow{}
	w, err := New(disk, telemetry.NewMetrics())
	if err != nil {
		t.Fatal(err)
	}
	defer w.CloseCache()
	blob := func(text string) messages.Blob {
		return messages.Blob{Digest: sha256.Sum256([]byte(text)), Data: []byte(text)}
	}
	inc := uuid.MustParse("01900000-0000-7000-8000-000000000001")
	ctx := context.Background()
	const turns = 3 * carriedBytes / 1024 // of 1 KiB each: three times what fits
	text := func(i int) string { return fmt.Sprintf("%01000d", i) }
	for i := range turns {
		out, reply := blob(text(i)), blob("reply "+text(i))
		w.Commit([]journal.Batch{{Inc: inc, Blobs: []messages.Blob{reply, out}, Records: []*messages.Record{
			{Body: &messages.TurnDecided{Output: out.Digest}}, {Body: &messages.RunEnd{}},
		}}})
		w.carried.Wait()
		got, err := w.Blob(ctx, inc, out.Digest)
		if err != nil || string(got) != text(i) {
			t.Fatalf("turn %d: %q, %v", i, got, err)
		}
	}
	if disk.reads != 0 {
		t.Errorf("%d of %d carried streams were read from the disk", disk.reads, turns)
	}
	if got, _ := w.Blob(ctx, inc, blob("reply "+text(turns-1)).Digest); string(got) != "from the disk" {
		t.Errorf("a reply was kept: %.20q", got)
	}
}

// trodden is a store whose file a test can take away.
type trodden struct {
	journal.Store
	err error
}

func (*trodden) Immediate() bool { return true }

func (s *trodden) Stands() error { return s.err }

// A journal whose file is not in its place takes no writes, whether or not there was a
// commit since.
func TestWritableLooksAtTheFile(t *testing.T) {
	file := &trodden{}
	w, err := New(file, telemetry.NewMetrics())
	if err != nil {
		t.Fatal(err)
	}
	defer w.CloseCache()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if err := w.Writable(t.Context(), nil, now); err != nil {
		t.Error(err)
	}
	file.err = journal.Fail(journal.ReasonIO, nil, "gone")
	if err := w.Writable(t.Context(), nil, now); journal.ReasonOf(err) != journal.ReasonIO {
		t.Errorf("%v", err)
	}
	if w.failed.Load() == nil {
		t.Error("the failure is forgotten, and the file is not opened again")
	}
}
