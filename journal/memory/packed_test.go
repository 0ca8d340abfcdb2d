package memory

import (
	"bytes"
	"context"
	"testing"

	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// Whatever bit of it is turned over, a journal in memory gives what was written or
// says that it is damaged.
func TestEveryBit(t *testing.T) {
	ctx := context.Background()
	s := New()
	ses := specimen.Start(t, "local:local:a", 1)
	var want []*messages.Record
	for i := range 3 {
		blob := specimen.NewBlob(string(rune('a' + i)))
		b := ses.Batch(&messages.ModelReply{Blob: blob.Digest}, &messages.Note{Text: "note"})
		b.Blobs = []messages.Blob{blob}
		specimen.Must(t, s, b)
		want = append(want, b.Records...)
	}
	if _, err := s.Erase(ctx, ses.Inc, 2, 2); err != nil {
		t.Fatal(err)
	}
	log := &s.sessions[ses.Inc].log
	seen, damaged := 0, 0
	for _, piece := range log.pieces {
		for i := range piece {
			for bit := range 8 {
				piece[i] ^= 1 << bit
				rep := journal.Verify(s.Read(ctx, ses.Inc, 0, 0), journal.VerifyOptions{})
				if rep.OK() {
					seen++
				} else {
					damaged++
				}
				n := int64(0)
				for r, err := range s.Read(ctx, ses.Inc, 0, 0) {
					if n++; err != nil || n > rep.Through.Seq {
						if err != nil && journal.ReasonOf(err) != journal.ReasonCorrupt {
							t.Fatal(err)
						}
						break
					}
					if w := want[n-1]; r.Hash != w.Hash || n != 2 && !bytes.Equal(r.Raw, w.Raw) {
						t.Fatalf("byte %d, bit %d: record %d is another", i, bit, n)
					}
				}
				for d := range s.sessions[ses.Inc].blobs {
					if b, err := s.Blob(ctx, ses.Inc, d); err == nil && specimen.NewBlob(string(b)).Digest != d {
						t.Fatalf("byte %d, bit %d: a blob is another", i, bit)
					} else if err != nil && journal.ReasonOf(err) != journal.ReasonCorrupt {
						t.Fatal(err)
					}
				}
				piece[i] ^= 1 << bit
			}
		}
	}
	if damaged < 6*8*fixedBytes || seen == 0 {
		t.Errorf("%d flips were seen, %d were not", damaged, seen)
	}
}
