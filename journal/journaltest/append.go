package journaltest

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

func commitAndRead(t *testing.T, s journal.Store) {
	ses := specimen.Start(t, "local:local:a", 1)
	one := ses.Batch(&messages.SessionOpened{Dialect: "aeiou", Incarnation: ses.Inc.String()}, &messages.Input{Text: "hello", User: "u", Policy: messages.Reject})
	two := ses.Notes(3)
	specimen.Must(t, s, one)
	specimen.Must(t, s, two)
	want := append(append([]*messages.Record{}, one.Records...), two.Records...)
	got := collect(t, s.Read(ctx, ses.Inc, 0, 0))
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
	head, err := s.Head(ctx, ses.SID)
	if err != nil {
		t.Fatal(err)
	}
	wantHead := journal.Head{SID: ses.SID, Inc: ses.Inc, Seq: 5, Hash: want[4].Hash, Epoch: 1, Queued: 1, Live: true}
	if head != wantHead {
		t.Fatalf("head %+v, want %+v", head, wantHead)
	}
	of, err := s.HeadOf(ctx, ses.Inc)
	if err != nil || of != head {
		t.Fatalf("HeadOf gives %+v, %v", of, err)
	}
	loaded, recs, err := journal.Load(ctx, s, ses.Inc)
	if err != nil || loaded != head || cmp.Diff(want, recs) != "" {
		t.Fatalf("Load: %v", err)
	}
	if _, err := s.Head(ctx, "local:local:b"); !journal.IsNotFound(err) {
		t.Fatalf("an unknown session: %v", err)
	}
	if _, err := s.HeadOf(ctx, specimen.Inc(99)); !journal.IsNotFound(err) {
		t.Fatalf("an unknown incarnation: %v", err)
	}
	for _, err := range s.Read(ctx, specimen.Inc(99), 0, 0) {
		if !journal.IsNotFound(err) {
			t.Fatalf("reading an unknown incarnation: %v", err)
		}
	}
}

func everyBody(t *testing.T, s journal.Store) {
	rng := specimen.Seed(t)
	ses := specimen.Start(t, "local:local:bodies", 1)
	var want []*messages.Record
	for range 4 {
		var bodies []messages.Body
		for _, b := range specimen.Bodies() {
			if b.Kind() == messages.KindSessionClosed {
				continue
			}
			specimen.Fill(rng, b)
			bodies = append(bodies, b)
		}
		b := ses.Batch(bodies...)
		for _, r := range b.Records {
			if rng.IntN(3) == 0 {
				r.Sig = &messages.Receipt{KID: "k" + specimen.Text(rng, 3), Sig: []byte(specimen.Text(rng, 64) + "s")}
			}
		}
		specimen.Must(t, s, b)
		want = append(want, b.Records...)
	}
	if d := cmp.Diff(want, collect(t, s.Read(ctx, ses.Inc, 0, 0))); d != "" {
		t.Fatal(d)
	}
	if rep := journal.Verify(s.Read(ctx, ses.Inc, 0, 0), journal.VerifyOptions{}); !rep.OK() || rep.Records != int64(len(want)) {
		t.Fatalf("%+v", rep)
	}
}

// fence is the table of docs/spec/design.md §7.
func fence(t *testing.T, s journal.Store) {
	ses := specimen.Start(t, "local:local:fence", 1)
	specimen.Must(t, s, ses.Notes(3))
	head, err := s.Head(ctx, ses.SID)
	if err != nil {
		t.Fatal(err)
	}
	head.Epoch = 4
	second := specimen.Continue(t, head, nil) // epoch 5
	specimen.Must(t, s, second.Notes(1))
	if head, err = s.Head(ctx, ses.SID); err != nil || head.Epoch != 5 || head.Seq != 4 {
		t.Fatalf("head %+v, %v", head, err)
	}
	other := head
	other.Hash = sha256.Sum256([]byte("another history"))
	behind := head
	behind.Seq--
	ahead := head
	ahead.Seq++
	for _, c := range []struct {
		name   string
		at     journal.Head
		epoch  int64
		fenced bool
		stale  bool
	}{
		{"lower epoch at the head", head, 4, true, false},
		{"lower epoch behind the head", behind, 4, true, false},
		{"lower epoch ahead of the head", ahead, 1, true, false},
		{"same epoch behind", behind, 5, false, true},
		{"same epoch ahead", ahead, 5, false, true},
		{"same epoch, another history", other, 5, false, true},
		{"higher epoch behind", behind, 9, false, true},
		{"higher epoch, another history", other, 9, false, true},
		{"same epoch at the head", head, 5, false, false},
	} {
		c.at.Epoch = c.epoch - 1
		err := s.Commit([]journal.Batch{specimen.Continue(t, c.at, nil).Notes(1)})[0]
		if journal.IsFenced(err) != c.fenced || journal.IsStale(err) != c.stale || (err != nil) != (c.fenced || c.stale) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if head, err = s.Head(ctx, ses.SID); err != nil || head.Seq != 5 || head.Epoch != 5 {
		t.Fatalf("head %+v, %v", head, err)
	}
	specimen.Must(t, s, specimen.Continue(t, head, nil).Notes(2))
	if _, recs, err := journal.Load(ctx, s, ses.Inc); err != nil || len(recs) != 7 {
		t.Fatalf("%d records, %v", len(recs), err)
	}
}

func refusalStaysAlone(t *testing.T, s journal.Store) {
	var batches []journal.Batch
	var sessions []*specimen.Session
	for i := range 8 {
		ses := specimen.Start(t, fmt.Sprintf("local:local:s%d", i), i+1)
		sessions = append(sessions, ses)
		batches = append(batches, ses.Notes(2))
	}
	batches[3].ExpectSeq = 7
	for i, r := range batches[3].Records {
		r.Seq = int64(8 + i)
	}
	batches[5].Records[1].Hash = messages.Digest{}
	errs := s.Commit(batches)
	for i, err := range errs {
		switch i {
		case 3:
			if !journal.IsStale(err) {
				t.Errorf("batch 3: %v", err)
			}
		case 5:
			wantReason(t, err, journal.ReasonInvalid)
		default:
			if err != nil {
				t.Errorf("batch %d: %v", i, err)
			}
		}
		_, err := s.Head(ctx, sessions[i].SID)
		if journal.IsNotFound(err) != (i == 3 || i == 5) {
			t.Errorf("session %d: %v", i, err)
		}
	}
}

func pipelined(t *testing.T, s journal.Store) {
	ses := specimen.Start(t, "local:local:pipe", 1)
	batches := []journal.Batch{ses.Notes(2), ses.Notes(1), ses.Notes(3)}
	specimen.Must(t, s, batches...)
	four, five, six := ses.Notes(1), ses.Notes(1), ses.Notes(1)
	errs := s.Commit([]journal.Batch{four, six, five})
	if errs[0] != nil || !journal.IsStale(errs[1]) || errs[2] != nil {
		t.Fatalf("%v", errs)
	}
	if head, recs, err := journal.Load(ctx, s, ses.Inc); err != nil || head.Seq != 8 || len(recs) != 8 {
		t.Fatalf("head %+v, %v", head, err)
	}
	if errs := s.Commit(nil); len(errs) != 0 {
		t.Fatalf("no batches: %v", errs)
	}
}

func malformed(t *testing.T, s journal.Store) {
	specimen.Must(t, s, specimen.Start(t, "local:local:taken", 7).Notes(1))
	for name, change := range map[string]func(b *journal.Batch){
		"no session":          func(b *journal.Batch) { b.SID = "" },
		"no incarnation":      func(b *journal.Batch) { b.Inc = messages.Incarnation{} },
		"another incarnation": func(b *journal.Batch) { b.Inc = specimen.Inc(2) },
		"another epoch":       func(b *journal.Batch) { b.Epoch++ },
		"no epoch":            func(b *journal.Batch) { b.Epoch = 0 },
		"no records":          func(b *journal.Batch) { b.Records = nil },
		"nil record":          func(b *journal.Batch) { b.Records[1] = nil },
		"not sealed":          func(b *journal.Batch) { b.Records[0].Raw = nil },
		"no body":             func(b *journal.Batch) { b.Records[0].Body = nil },
		"gap inside":          func(b *journal.Batch) { b.Records[1].Seq++ },
		"broken inside":       func(b *journal.Batch) { b.Records[1].Prev[0] ^= 1 },
		"negative head":       func(b *journal.Batch) { b.ExpectSeq = -1 },
		"snapshot ahead":      func(b *journal.Batch) { b.Snapshot = &journal.Snapshot{Seq: 3} },
		"snapshot of nothing": func(b *journal.Batch) { b.Snapshot = &journal.Snapshot{} },
		"another's inc": func(b *journal.Batch) {
			b.Inc = specimen.Inc(7)
			for _, r := range b.Records {
				r.Inc = b.Inc
			}
		},
	} {
		b := specimen.Start(t, "local:local:m", 1).Notes(2)
		change(&b)
		err := s.Commit([]journal.Batch{b})[0]
		if journal.ReasonOf(err) != journal.ReasonInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.Head(ctx, "local:local:m"); !journal.IsNotFound(err) {
		t.Errorf("a refused batch left something: %v", err)
	}
}

// twoOwners lets owners interleave at random. Each appends with what it believes;
// one that is refused loads again. Whatever the order, the history is one chain,
// and of two owners of one head exactly one wins.
func twoOwners(t *testing.T, s journal.Store) {
	rng := specimen.Seed(t)
	for round := range 6 {
		sid := fmt.Sprintf("local:local:owned%d", round)
		first := specimen.Start(t, sid, round*10+1)
		specimen.Must(t, s, first.Notes(1))
		owners := make([]*specimen.Session, 3)
		accepted := int64(1)
		byHead := map[int64]int{}
		for range 60 {
			i := rng.IntN(len(owners))
			head, err := s.Head(ctx, sid)
			if err != nil {
				t.Fatal(err)
			}
			o := owners[i]
			if o == nil {
				owners[i] = specimen.Continue(t, head, nil)
				continue
			}
			b := o.Notes(1 + rng.IntN(3))
			should := b.ExpectSeq == head.Seq && b.Records[0].Prev == head.Hash && b.Epoch >= head.Epoch
			err = s.Commit([]journal.Batch{b})[0]
			switch {
			case (err == nil) != should:
				t.Fatalf("head %+v, batch at %d of epoch %d: %v", head, b.ExpectSeq, b.Epoch, err)
			case err == nil:
				accepted += int64(len(b.Records))
				byHead[b.ExpectSeq]++
			case journal.IsFenced(err) != (head.Epoch > b.Epoch):
				t.Fatalf("head %+v, epoch %d: %v", head, b.Epoch, err)
			default:
				owners[i] = nil
			}
		}
		for seq, n := range byHead {
			if n != 1 {
				t.Fatalf("%d batches continued record %d", n, seq)
			}
		}
		head, recs, err := journal.Load(ctx, s, first.Inc)
		if err != nil || head.Seq != accepted || int64(len(recs)) != accepted {
			t.Fatalf("head %+v, %d records, accepted %d, %v", head, len(recs), accepted, err)
		}
	}
}

func readersBesideWriter(t *testing.T, s journal.Store) {
	ses := specimen.Start(t, "local:local:busy", 1)
	specimen.Must(t, s, ses.Notes(1))
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 3 {
		wg.Go(func() {
			var last int64
			for {
				select {
				case <-stop:
					return
				default:
				}
				head, recs, err := journal.Load(ctx, s, ses.Inc)
				if err != nil || head.Seq < last || int64(len(recs)) != head.Seq {
					t.Errorf("head %+v after %d: %v", head, last, err)
					return
				}
				last = head.Seq
				if _, err := s.Sessions(ctx, journal.Query{}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 100 {
		specimen.Must(t, s, ses.Notes(2))
	}
	close(stop)
	wg.Wait()
}
