package journaltest

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

func readRanges(t *testing.T, s journal.Store) {
	ses := specimen.Start(t, "local:local:long", 1)
	var hashes []messages.Digest
	for range 20 {
		b := ses.Notes(37)
		specimen.Must(t, s, b)
		for _, r := range b.Records {
			hashes = append(hashes, r.Hash)
		}
	}
	n := int64(len(hashes))
	for _, c := range [][4]int64{
		{0, 0, 1, n},
		{-5, -1, 1, n},
		{1, 1, 1, 1},
		{n, 0, n, n},
		{2, 3, 2, 3},
		{255, 258, 255, 258},
		{256, 600, 256, 600},
		{n + 1, 0, 0, -1},
		{5, 4, 0, -1},
		{700, n + 50, 700, n},
	} {
		recs := collect(t, s.Read(ctx, ses.Inc, c[0], c[1]))
		if int64(len(recs)) != c[3]-c[2]+1 {
			t.Fatalf("%v: %d records", c, len(recs))
		}
		for i, r := range recs {
			seq := c[2] + int64(i)
			if r.Seq != seq || r.Hash != hashes[seq-1] || seq > 1 && r.Prev != hashes[seq-2] {
				t.Fatalf("%v: record %d is %d", c, seq, r.Seq)
			}
		}
	}
	seen := 0
	for _, err := range s.Read(ctx, ses.Inc, 0, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if seen++; seen == 3 {
			break
		}
	}
	if seen != 3 {
		t.Fatal("a loop that ends early")
	}
}

func blobs(t *testing.T, s journal.Store) {
	a, b := specimen.Start(t, "local:local:a", 1), specimen.Start(t, "local:local:b", 2)
	one, two, empty := specimen.NewBlob("one"), specimen.NewBlob("two"), specimen.NewBlob("")
	ba, bb := a.Notes(1), b.Notes(1)
	ba.Blobs = []messages.Blob{one, two, one, empty}
	bb.Blobs = []messages.Blob{two, {Digest: one.Digest, Data: []byte("not one")}}
	specimen.Must(t, s, ba, bb)
	again := a.Notes(1)
	again.Blobs = []messages.Blob{two, {Digest: one.Digest, Data: []byte("changed")}}
	specimen.Must(t, s, again) // what is stored stays
	for _, blob := range []messages.Blob{one, two, empty} {
		got, err := s.Blob(ctx, a.Inc, blob.Digest)
		if err != nil || string(got) != string(blob.Data) {
			t.Errorf("%q, %v", got, err)
		}
	}
	_, err := s.Blob(ctx, b.Inc, one.Digest)
	wantReason(t, err, journal.ReasonCorrupt)
	_, err = s.Blob(ctx, b.Inc, empty.Digest)
	wantReason(t, err, journal.ReasonNotFound)
	_, err = s.Blob(ctx, specimen.Inc(9), one.Digest)
	wantReason(t, err, journal.ReasonNotFound)
}

// measure checks the size of sessions, in a store that has it: of bodies and blobs, by prefix,
// without what was erased.
func measure(t *testing.T, s journal.Store) {
	m, ok := s.(interface {
		Bytes(ctx context.Context, prefix string) (int64, error)
	})
	if !ok {
		return // an archive reads the records
	}
	size := func(prefix string) int64 {
		t.Helper()
		n, err := m.Bytes(ctx, prefix)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := size("a:"); n != 0 {
		t.Errorf("of nothing: %d", n)
	}
	want := map[string]int64{}
	var last *specimen.Session
	for i, sid := range []string{"a:u:1", "a:v:2", "ab:u:1", "b:u:1"} {
		last = specimen.Start(t, sid, i+1)
		b := last.Notes(3 + i)
		b.Blobs = []messages.Blob{specimen.NewBlob("ein Stück")}
		specimen.Must(t, s, b)
		for _, r := range b.Records {
			want[sid] += int64(len(r.Raw))
		}
		want[sid] += int64(len("ein Stück"))
	}
	for prefix, n := range map[string]int64{"a:": want["a:u:1"] + want["a:v:2"], "a:u:": want["a:u:1"], "ab:": want["ab:u:1"], "b:": want["b:u:1"], "c:": 0, "a_": 0, "\xff": 0} {
		if got := size(prefix); got != n {
			t.Errorf("%q: %d, want %d", prefix, got, n)
		}
	}
	if _, err := s.Erase(ctx, last.Inc, 1, 2); err != nil {
		t.Fatal(err)
	}
	if n := size("b:"); n <= 0 || n >= want["b:u:1"] {
		t.Errorf("%d after an erasure, %d before", n, want["b:u:1"])
	}
	if err := s.Delete(ctx, last.Inc); err != nil {
		t.Fatal(err)
	}
	if n := size("b:"); n != 0 {
		t.Errorf("%d after all was deleted", n)
	}
}

func snapshots(t *testing.T, s journal.Store) {
	ses := specimen.Start(t, "local:local:snap", 1)
	_, err := s.Snapshot(ctx, ses.Inc)
	wantReason(t, err, journal.ReasonNotFound)
	b := ses.Notes(3)
	b.Snapshot = &journal.Snapshot{Seq: 2, Hash: b.Records[1].Hash, Format: 3, State: []byte("state")}
	specimen.Must(t, s, b)
	got, err := s.Snapshot(ctx, ses.Inc)
	if err != nil || cmp.Diff(*b.Snapshot, got) != "" {
		t.Fatalf("%+v, %v", got, err)
	}
	next := journal.Snapshot{Seq: 3, Hash: b.Records[2].Hash, State: []byte{}}
	if err := s.PutSnapshot(ctx, ses.Inc, next); err != nil {
		t.Fatal(err)
	}
	if got, err = s.Snapshot(ctx, ses.Inc); err != nil || got.Seq != 3 || len(got.State) != 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	for _, bad := range []journal.Snapshot{{Seq: 4, Hash: next.Hash}, {Seq: 2, Hash: next.Hash}, {Seq: 0}, {Seq: -1}} {
		wantReason(t, s.PutSnapshot(ctx, ses.Inc, bad), journal.ReasonInvalid)
	}
	wantReason(t, s.PutSnapshot(ctx, specimen.Inc(9), next), journal.ReasonNotFound)
	for range 2 {
		if err := s.DropSnapshot(ctx, ses.Inc); err != nil {
			t.Fatal(err)
		}
	}
	_, err = s.Snapshot(ctx, ses.Inc)
	wantReason(t, err, journal.ReasonNotFound)
	wantReason(t, s.DropSnapshot(ctx, specimen.Inc(9)), journal.ReasonNotFound)
}

func loadAfterSnapshot(t *testing.T, s journal.Store) {
	ses := specimen.Start(t, "local:local:tail", 1)
	for range 4 {
		specimen.Must(t, s, ses.Notes(5))
	}
	head, all, err := journal.Load(ctx, s, ses.Inc)
	if err != nil {
		t.Fatal(err)
	}
	for cut := 0; cut <= 20; cut++ {
		from := journal.Anchor{Hash: journal.Genesis(ses.SID, ses.Inc)}
		if cut > 0 {
			from = journal.Anchor{Seq: int64(cut), Hash: all[cut-1].Hash}
		}
		h, tail, err := journal.LoadAfter(ctx, s, ses.Inc, from)
		if err != nil || h != head || cmp.Diff(append(all[:cut:cut], tail...), all) != "" {
			t.Fatalf("after %d: %v", cut, err)
		}
		from.Hash[3] ^= 1
		_, _, err = journal.LoadAfter(ctx, s, ses.Inc, from)
		wantReason(t, err, journal.ReasonCorrupt)
	}
	_, _, err = journal.LoadAfter(ctx, s, ses.Inc, journal.Anchor{Seq: 21, Hash: head.Hash})
	wantReason(t, err, journal.ReasonCorrupt)
	_, _, err = journal.LoadAfter(ctx, s, specimen.Inc(9), journal.Anchor{})
	wantReason(t, err, journal.ReasonNotFound)
}

func meta(t *testing.T, s journal.Store) {
	_, err := s.Meta(ctx, journal.MetaReceiptKeys)
	wantReason(t, err, journal.ReasonNotFound)
	for _, v := range []string{`{"keys":[]}`, "", "other"} {
		if err := s.PutMeta(ctx, journal.MetaReceiptKeys, []byte(v)); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Meta(ctx, journal.MetaReceiptKeys); err != nil || string(got) != v {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if err := s.PutMeta(ctx, "nothing", nil); err != nil {
		t.Fatal(err)
	}
}
