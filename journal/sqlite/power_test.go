package sqlite

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// ledger appends batches of three records and remembers what was acknowledged.
type ledger struct {
	ses   *specimen.Session
	sent  []*messages.Record
	acked int
}

const ledgerBatch = 3

func newLedger(t testing.TB) *ledger {
	return &ledger{ses: specimen.Start(t, "local:local:powered", 1)}
}

func (l *ledger) batch() journal.Batch {
	blob := specimen.NewBlob(fmt.Sprint("reply ", len(l.sent)))
	b := l.ses.Batch(&messages.ModelReply{Blob: blob.Digest}, &messages.Note{Text: fmt.Sprintf("%0900d", len(l.sent))}, &messages.RunEnd{Decision: messages.Done})
	b.Blobs = []messages.Blob{blob}
	b.Snapshot = &journal.Snapshot{Seq: b.Records[0].Seq, Hash: b.Records[0].Hash, State: []byte("state")}
	return b
}

func (l *ledger) append(s *store) error {
	b := l.batch()
	l.sent = append(l.sent, b.Records...)
	err := s.Commit([]journal.Batch{b})[0]
	if err == nil {
		l.acked = len(l.sent)
	}
	return err
}

// check opens what is left and wants everything acknowledged, whole batches, and no
// decision that was never made.
func (l *ledger) check(t testing.TB, name, dir string, acked int) {
	t.Helper()
	_, vfs := newDisk(t) // a sound one, which costs no real sync
	s, err := openStore(Options{Path: dir, vfs: vfs})
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	defer s.Close()
	_, recs, err := journal.Load(ctx, s, l.ses.Inc)
	if err != nil && (acked > 0 || !journal.IsNotFound(err)) {
		t.Errorf("%s: %v", name, err)
		return
	}
	if len(recs) < acked || len(recs)%ledgerBatch != 0 || len(recs) > len(l.sent) {
		t.Errorf("%s: %d records are left, %d were acknowledged, %d sent", name, len(recs), acked, len(l.sent))
		return
	}
	for i, r := range recs {
		if r.Hash != l.sent[i].Hash {
			t.Errorf("%s: record %d is another", name, i+1)
		}
		if b, ok := r.Body.(*messages.ModelReply); ok {
			if _, err := s.Blob(ctx, l.ses.Inc, b.Blob); err != nil {
				t.Errorf("%s: the blob of record %d: %v", name, i+1, err)
			}
		}
	}
	if snap, err := s.Snapshot(ctx, l.ses.Inc); err != nil && !journal.IsNotFound(err) || snap.Seq > int64(len(recs)) {
		t.Errorf("%s: snapshot %+v, %v", name, snap, err)
	}
	if err := s.Check(ctx); err != nil {
		t.Errorf("%s: %v", name, err)
	}
	if head, err := s.HeadOf(ctx, l.ses.Inc); err == nil { // and it goes on
		if err := s.Commit([]journal.Batch{specimen.Continue(t, head, nil).Notes(1)})[0]; err != nil {
			t.Errorf("%s: appending: %v", name, err)
		}
	}
}

// The power fails after every single write and sync, from the making of the file to
// its closing: what was acknowledged is there, and nothing is there in parts.
func TestPowerFailure(t *testing.T) {
	rng := specimen.Seed(t)
	d, vfs := newDisk(t)
	l := newLedger(t)
	type picture struct {
		name  string
		acked int
		files []map[string][]byte
	}
	var pictures []picture
	d.passed = func(op, file string) {
		p := picture{name: fmt.Sprintf("%d: after a %s of %s", len(pictures), op, file), acked: l.acked}
		p.files = append(p.files, d.cut(nil), d.cut(rng))
		pictures = append(pictures, p)
	}
	s := open(t, Options{Path: t.TempDir(), vfs: vfs})
	for i := range 8 {
		if err := l.append(s); err != nil {
			t.Fatal(err)
		}
		if i == 5 {
			s.settle() // a checkpoint in the middle
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if len(pictures) < 60 || l.acked != 24 {
		t.Fatalf("%d pictures, %d acknowledged", len(pictures), l.acked)
	}
	skip := rng.IntN(2) // of a place's two pictures one is enough, unless all are asked for
	for n, p := range pictures {
		for i, files := range p.files {
			if !*exhaustive && (n+i+skip)%2 == 0 {
				continue
			}
			dir := t.TempDir()
			lay(t, dir, files)
			l.check(t, fmt.Sprintf("%s, %d", p.name, i), dir, p.acked)
		}
	}
	t.Logf("the power failed at %d places", len(pictures))
}

// A sync or a write fails, at every place where there is one with -exhaustive, and else at
// one of three. The commit is refused, nothing is written or synced after it, and not even a
// later success makes it good; reopened, the journal goes on from the head it reads.
func TestFailedSync(t *testing.T) {
	rng, step := specimen.Seed(t), 3
	if *exhaustive {
		step = 1
	}
	for _, kind := range []struct {
		op   string
		code int32
	}{{"sync", sqlite3.SQLITE_IOERR_FSYNC}, {"write", sqlite3.SQLITE_IOERR_WRITE}, {"write", sqlite3.SQLITE_FULL}} {
		hit := 0
		for target := 1 + rng.IntN(step); ; target += step {
			d, vfs := newDisk(t)
			dir := t.TempDir()
			s := open(t, Options{Path: dir, vfs: vfs})
			l := newLedger(t)
			if err := l.append(s); err != nil {
				t.Fatal(err)
			}
			n, failed := 0, false
			d.fault = func(op, _ string) int32 {
				if op == kind.op {
					if n++; n == target {
						failed = true
						return kind.code
					}
				}
				return sqlite3.SQLITE_OK
			}
			var err error
			for i := 0; i < 3 && err == nil; i++ {
				err = l.append(s)
			}
			if !failed { // there are not so many
				s.Close()
				break
			}
			hit++
			name := fmt.Sprintf("%s %d fails with %d", kind.op, target, kind.code)
			wantReason(t, err, journal.ReasonIO)
			var cause *sqlite.Error
			if !errors.As(err, &cause) || cause.Code()&0xff != int(kind.code)&0xff {
				t.Errorf("%s: %v", name, err)
			}
			writes, syncs := d.count("write"), d.count("sync")
			wantReason(t, s.Commit([]journal.Batch{l.ses.Notes(1)})[0], journal.ReasonIO)
			wantReason(t, s.PutMeta(ctx, "k", nil), journal.ReasonIO)
			wantReason(t, s.PutSnapshot(ctx, l.ses.Inc, journal.Snapshot{}), journal.ReasonIO)
			if d.count("write") != writes || d.count("sync") != syncs {
				t.Errorf("%s: something was written after it", name)
			}
			if err := s.Reopen(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			head, err := s.HeadOf(ctx, l.ses.Inc)
			if err != nil || int(head.Seq) < l.acked {
				t.Fatalf("%s: %d were acknowledged, the head is %+v, %v", name, l.acked, head, err)
			}
			l.sent = l.sent[:head.Seq]
			l.ses = specimen.Continue(t, head, nil)
			for range 2 {
				if err := l.append(s); err != nil {
					t.Fatalf("%s: reopened: %v", name, err)
				}
			}
			d.mu.Lock()
			left := d.cut(rand.New(rand.NewPCG(1, uint64(target))))
			d.mu.Unlock()
			s.Close()
			l.check(t, name+", closed", dir, l.acked)
			after := t.TempDir()
			lay(t, after, left)
			l.check(t, name+", and then the power", after, l.acked)
		}
		if hit*step < 3 {
			t.Errorf("%s: only %d places", kind.op, hit)
		}
	}
}

// A disk of every size: full sooner or later, and never a lie.
func TestDiskOfEverySize(t *testing.T) {
	for room := 0; ; room += 6 {
		d, vfs := newDisk(t)
		used := 0
		d.fault = func(op, _ string) int32 {
			if op == "write" {
				if used++; used > room {
					return sqlite3.SQLITE_FULL
				}
			}
			return sqlite3.SQLITE_OK
		}
		dir := t.TempDir()
		l := newLedger(t)
		s, err := openStore(Options{Path: filepath.Join(dir, FileName), vfs: vfs})
		if err != nil {
			wantReason(t, err, journal.ReasonIO)
		} else {
			for err == nil && l.acked < 9 {
				err = l.append(s)
			}
			if err != nil {
				wantReason(t, err, journal.ReasonIO)
			}
			s.Close()
		}
		l.check(t, fmt.Sprint("room for ", room), dir, l.acked)
		if err == nil {
			if room < 30 {
				t.Errorf("9 records in %d writes", room)
			}
			return
		}
	}
}
