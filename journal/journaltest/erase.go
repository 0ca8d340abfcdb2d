package journaltest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

func eraseAll(t *testing.T, s journal.Store) {
	ses := specimen.Start(t, "local:local:erase", 1)
	blob := specimen.NewBlob("reply")
	b := ses.Batch(&messages.SessionOpened{}, &messages.ModelReply{Blob: blob.Digest}, &messages.TurnDecided{})
	b.Blobs = []messages.Blob{blob, specimen.NewBlob("in no record")}
	b.Snapshot = &journal.Snapshot{Seq: 3, Hash: b.Records[2].Hash, State: []byte("x")}
	specimen.Must(t, s, b)
	kept := collect(t, s.Read(ctx, ses.Inc, 0, 0))
	n, err := s.Erase(ctx, ses.Inc, 0, 0)
	if err != nil || n != 3 {
		t.Fatalf("%d, %v", n, err)
	}
	if n, err = s.Erase(ctx, ses.Inc, 0, 0); err != nil || n != 0 {
		t.Fatalf("again: %d, %v", n, err)
	}
	for i, r := range collect(t, s.Read(ctx, ses.Inc, 0, 0)) {
		if r.Raw != nil || r.Salt != [16]byte{} || r.BodyDigest != kept[i].BodyDigest || r.Hash != kept[i].Hash || r.Body.Kind() != kept[i].Body.Kind() {
			t.Errorf("record %d: %+v", r.Seq, r)
		}
	}
	if b.Records[0].Raw == nil || kept[0].Raw == nil {
		t.Error("a record that was handed out has changed")
	}
	head, err := s.Head(ctx, ses.SID)
	if err != nil {
		t.Fatal(err)
	}
	rep := journal.Verify(s.Read(ctx, ses.Inc, 0, 0), journal.VerifyOptions{SID: ses.SID, Inc: ses.Inc, Head: journal.Anchor{Seq: head.Seq, Hash: head.Hash}})
	if !rep.OK() || cmp.Diff([][2]int64{{1, 3}}, rep.Erased) != "" {
		t.Fatalf("%+v", rep)
	}
	_, _, err = journal.Load(ctx, s, ses.Inc)
	wantReason(t, err, journal.ReasonErased)
	for _, b := range b.Blobs {
		_, err = s.Blob(ctx, ses.Inc, b.Digest)
		wantReason(t, err, journal.ReasonNotFound)
	}
	_, err = s.Snapshot(ctx, ses.Inc)
	wantReason(t, err, journal.ReasonNotFound)
	specimen.Must(t, s, ses.Notes(1)) // the chain goes on
	_, err = s.Erase(ctx, specimen.Inc(9), 0, 0)
	wantReason(t, err, journal.ReasonNotFound)
}

func erasePart(t *testing.T, s journal.Store) {
	ses := specimen.Start(t, "local:local:part", 1)
	gone, shared, other, fed, said, system := specimen.NewBlob("gone"), specimen.NewBlob("shared"), specimen.NewBlob("in no record"), specimen.NewBlob("of a feed"), specimen.NewBlob("said again"), specimen.NewBlob("a system message")
	side, kept := specimen.NewBlob("beside what is gone"), specimen.NewBlob("beside what was said again")
	b := ses.Batch(&messages.ModelRequest{System: system.Digest}, &messages.ModelReply{Blob: gone.Digest, Side: side.Digest}, &messages.TurnDecided{Output: shared.Digest, Scratch: fed.Digest, Minted: said.Digest},
		&messages.FeedInjected{ID: "f", Digest: fed.Digest}, &messages.TurnDecided{Minted: shared.Digest}, &messages.ModelReply{Blob: said.Digest, Side: kept.Digest},
		&messages.ModelRequest{System: system.Digest})
	b.Blobs = []messages.Blob{gone, shared, other, fed, said, system, side, kept}
	specimen.Must(t, s, b)
	if n, err := s.Erase(ctx, ses.Inc, 1, 3); err != nil || n != 3 {
		t.Fatalf("%d, %v", n, err)
	}
	for _, b := range []messages.Blob{gone, side} {
		_, err := s.Blob(ctx, ses.Inc, b.Digest)
		wantReason(t, err, journal.ReasonNotFound)
	}
	for _, b := range []messages.Blob{shared, other, fed, said, system, kept} {
		if _, err := s.Blob(ctx, ses.Inc, b.Digest); err != nil {
			t.Error(err)
		}
	}
	rep := journal.Verify(s.Read(ctx, ses.Inc, 0, 0), journal.VerifyOptions{})
	if !rep.OK() || rep.Records != 7 || cmp.Diff([][2]int64{{1, 3}}, rep.Erased) != "" {
		t.Fatalf("%+v", rep)
	}
	_, recs, err := journal.LoadAfter(ctx, s, ses.Inc, journal.Anchor{Seq: 3, Hash: b.Records[2].Hash})
	if err != nil || len(recs) != 4 {
		t.Fatalf("what follows the erased part: %v", err)
	}
}

func remove(t *testing.T, s journal.Store) {
	a, b := specimen.Start(t, "local:local:a", 1), specimen.Start(t, "local:local:b", 2)
	ba := a.Notes(2)
	ba.Blobs = []messages.Blob{specimen.NewBlob("x")}
	specimen.Must(t, s, ba, b.Notes(2))
	if err := s.Delete(ctx, a.Inc); err != nil {
		t.Fatal(err)
	}
	wantReason(t, s.Delete(ctx, a.Inc), journal.ReasonNotFound)
	if _, err := s.Head(ctx, a.SID); !journal.IsNotFound(err) {
		t.Fatal(err)
	}
	if err := s.Commit([]journal.Batch{a.Notes(1)})[0]; !journal.IsStale(err) {
		t.Fatalf("the old owner: %v", err)
	}
	specimen.Must(t, s, specimen.Start(t, a.SID, 3).Notes(1))
	if _, recs, err := journal.Load(ctx, s, specimen.Inc(3)); err != nil || len(recs) != 1 {
		t.Fatalf("%d records, %v", len(recs), err)
	}
	if _, recs, err := journal.Load(ctx, s, b.Inc); err != nil || len(recs) != 2 {
		t.Fatalf("the other session: %v", err)
	}
}

// parts checks that pictures and files of inputs live as long as an input that names them.
func parts(t *testing.T, s journal.Store) {
	ses := specimen.Start(t, "local:local:parts", 1)
	one, both := specimen.NewBlob("a picture"), specimen.NewBlob("a picture that came twice")
	part := func(b messages.Blob) messages.Part {
		return messages.Part{Digest: b.Digest, Size: int64(len(b.Data)), Type: "image/png"}
	}
	b := ses.Batch(&messages.SessionOpened{}, &messages.Input{Text: "look", Parts: []messages.Part{part(one), part(both)}}, &messages.Input{Text: "again", Parts: []messages.Part{part(both)}})
	b.Blobs = []messages.Blob{one, both, both}
	specimen.Must(t, s, b)
	there := func(want ...messages.Blob) {
		t.Helper()
		for _, blob := range []messages.Blob{one, both} {
			got, err := s.Blob(ctx, ses.Inc, blob.Digest)
			for _, w := range want {
				if w.Digest == blob.Digest {
					if err != nil || string(got) != string(blob.Data) {
						t.Errorf("%q: %q, %v", blob.Data, got, err)
					}
					blob.Data = nil
				}
			}
			if blob.Data != nil {
				wantReason(t, err, journal.ReasonNotFound)
			}
		}
	}
	there(one, both)
	for i, want := range [][]messages.Blob{{both}, nil} {
		if _, err := s.Erase(ctx, ses.Inc, int64(2+i), int64(2+i)); err != nil {
			t.Fatal(err)
		}
		there(want...)
	}
}
