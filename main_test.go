package stile_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start makes a runtime that the test closes; without store and folder it keeps
// everything in memory.
func start(t testing.TB, cfg stile.Config) *stile.Runtime {
	t.Helper()
	if cfg.Store == nil && cfg.Dir == "" {
		cfg.InMemory = true
	}
	if cfg.Store != nil && cfg.Keys == nil {
		keys, err := stile.GenerateKeys(cfg)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Keys = keys
	}
	rt, err := stile.New(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, rt) })
	return rt
}

func closed(t testing.TB, rt *stile.Runtime) {
	t.Helper()
	if err := rt.Close(context.Background()); err != nil {
		t.Errorf("close: %v", err)
	}
}

func opened(t testing.TB, rt *stile.Runtime, name string, a *stile.Agent) *stile.Session {
	t.Helper()
	s, err := rt.Open(context.Background(), name, a)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func submitted(t testing.TB, s *stile.Session, text string, opts ...stile.SubmitOption) *stile.Run {
	t.Helper()
	r, err := s.Submit(context.Background(), text, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func decided(t testing.TB, r *stile.Run) stile.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Hour) // of a bubble; elsewhere the test's own comes first
	defer cancel()
	o, err := r.Decision(ctx)
	if err != nil {
		t.Fatalf("run %d: %v", r.Ordinal(), err)
	}
	return o
}

func wantCode(t testing.TB, err error, code messages.Code) {
	t.Helper()
	if messages.CodeOf(err) != code {
		t.Fatalf("%v has the code %q, want %s", err, messages.CodeOf(err), code)
	}
}

// replays holds every session of an archive to its journal: the chain verifies, and
// the replay makes every record again. It gives how many records and programs.
// Under its own agent nothing is tried otherwise.
func replays(t testing.TB, ar *stile.Archive, agent *stile.Agent) (records, programs, taken int64) {
	t.Helper()
	ctx := context.Background()
	for head, err := range ar.Sessions(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		rep, err := ar.Replay(ctx, head.Inc, agent)
		if err != nil {
			t.Errorf("%s: %v", head.SID, err)
			dump(t, ar, head.Inc)
			continue
		}
		if rep.Head != head.Hash {
			t.Errorf("%s: replayed to %s, the head is %s", head.SID, rep.Head, head.Hash)
		}
		if key, _ := messages.ParseSID(head.SID); agent != nil && key.ID != messages.ProfileID {
			if trial, err := ar.Try(ctx, head.Inc, agent); err != nil || trial.Differs() || trial.Same != rep.Turns {
				t.Errorf("%s: tried under its own agent: %+v, stopped %v, %v", head.SID, trial, trial.Stopped, err)
			}
		}
		if v, err := ar.Verify(ctx, head.Inc, stile.VerifyOptions{}); err != nil || !v.OK() {
			t.Errorf("%s: %+v, %v", head.SID, v, err)
		}
		records, programs, taken = records+rep.Records, programs+rep.Programs, taken+rep.Taken
	}
	return records, programs, taken
}

func dump(t testing.TB, ar *stile.Archive, inc messages.Incarnation) {
	t.Helper()
	for r, err := range ar.Records(context.Background(), inc) {
		if err != nil {
			t.Log(err)
			return
		}
		raw := r.Raw
		if len(raw) > 300 {
			raw = raw[:300]
		}
		t.Logf("%d e%d r%d t%d %s %s %s", r.Seq, r.Epoch, r.Run, r.Turn, r.TS.Format("05.000000000"), r.Body.Kind(), raw)
	}
}

// all reads a session's records as they are stored.
func all(t testing.TB, ar *stile.Archive, inc messages.Incarnation) (recs []*stile.Record) {
	t.Helper()
	for r, err := range ar.Records(context.Background(), inc) {
		if err != nil {
			t.Fatal(err)
		}
		recs = append(recs, r)
	}
	return recs
}

// reseal copies records into a journal of their own: the chain, the salts and the
// activations stay, the bodies may have been changed.
func reseal(t testing.TB, head journal.Head, recs []*stile.Record, blobs []messages.Blob, store journal.Store) error {
	t.Helper()
	sealed, err := chained(head, nil, recs)
	if err != nil {
		return err
	}
	for len(sealed) > 0 {
		n := sameEpoch(sealed)
		batch := journal.Batch{SID: head.SID, Inc: head.Inc, ExpectSeq: sealed[0].Seq - 1, Epoch: sealed[0].Epoch, Records: sealed[:n], Blobs: blobs}
		if err := store.Commit([]journal.Batch{batch})[0]; err != nil {
			return err
		}
		sealed, blobs = sealed[n:], nil
	}
	return nil
}

// chained seals copies of records behind prev; nil is the beginning.
func chained(head journal.Head, prev *stile.Record, recs []*stile.Record) (sealed []*stile.Record, err error) {
	at := journal.NewHead(head.SID, head.Inc)
	for len(recs) > 0 {
		if prev != nil {
			at.Seq, at.Hash = prev.Seq, prev.Hash
		}
		n := sameEpoch(recs)
		var own []*stile.Record
		for i, r := range recs[:n] {
			own = append(own, &stile.Record{Seq: at.Seq + int64(i) + 1, Run: r.Run, Turn: r.Turn, TS: r.TS, Body: r.Body})
		}
		sealer := journal.NewSealer(journal.SealerConfig{Head: at, Epoch: recs[0].Epoch, Rand: saltsOf(recs[:n]), Receipts: journal.ReceiptsOff})
		if err := sealer.Seal(own, recs[0].TS); err != nil {
			return nil, err
		}
		sealed, prev, recs = append(sealed, own...), own[n-1], recs[n:]
	}
	return sealed, nil
}

// sameEpoch is how many records of the first one's epoch there are in front.
func sameEpoch(recs []*stile.Record) int {
	n := 1
	for n < len(recs) && recs[n].Epoch == recs[0].Epoch {
		n++
	}
	return n
}

// saltsOf gives the salts of records, in order; the sealer reads some ahead.
type salts struct{ recs []*stile.Record }

func saltsOf(recs []*stile.Record) *salts { return &salts{recs} }

func (s *salts) Read(b []byte) (int, error) {
	clear(b)
	for n := 0; n+16 <= len(b) && len(s.recs) > 0; n += 16 {
		copy(b[n:], s.recs[0].Salt[:])
		s.recs = s.recs[1:]
	}
	return len(b), nil
}
