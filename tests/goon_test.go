package tests

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/sqlite"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
)

// put writes a forged history in the place of the one that a journal has, as who can write
// its file can.
func (f forger) put(t *testing.T, dir string) {
	t.Helper()
	store, err := sqlite.Open(sqlite.Options{Path: filepath.Join(dir, stile.JournalFile)})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	inc := f[0].Inc
	seen := map[messages.Digest]bool{}
	var blobs []messages.Blob
	for _, r := range f {
		if err := journal.Decode(r); err != nil {
			t.Fatal(err)
		}
		for _, d := range journal.Blobs(r.Body) {
			if data, err := store.Blob(t.Context(), inc, d); err == nil && !seen[d] {
				seen[d] = true
				blobs = append(blobs, messages.Blob{Digest: d, Data: data})
			}
		}
	}
	if err := store.Delete(t.Context(), inc); err != nil {
		t.Fatal(err)
	}
	for from := 0; from < len(f); {
		to := from + 1
		for to < len(f) && f[to].Epoch == f[from].Epoch {
			to++
		}
		b := journal.Batch{SID: f[0].SID, Inc: inc, ExpectSeq: int64(from), Epoch: f[from].Epoch, Records: f[from:to], Blobs: blobs}
		if errs := store.Commit([]journal.Batch{b}); errs[0] != nil {
			t.Fatal(errs[0])
		}
		blobs, from = nil, to
	}
}

// tampers runs statements on a journal's file.
func tampers(t *testing.T, dir string, statements ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, stile.JournalFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range statements {
		if _, bad := db.ExecContext(t.Context(), s); bad != nil {
			err = errors.Join(err, bad)
		}
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// wantUnproved checks that a session was refused, by name and record.
func wantUnproved(t *testing.T, err error, sid, record string) {
	t.Helper()
	wantCode(t, err, messages.ErrJournal)
	if journal.ReasonOf(err) != journal.ReasonUnproved || !strings.Contains(err.Error(), sid) || !strings.Contains(err.Error(), record) {
		t.Errorf("%v: want UNPROVED of %s, %s", err, sid, record)
	}
}

// A host does not go on with a session whose receipts do not prove its history: the request
// is refused, nothing is written, no model is asked. The sessions beside it go on.
func TestGoingOnWithForgedHistories(t *testing.T) {
	const last = `(SELECT max(id) FROM records WHERE sig IS NOT NULL AND pos >> 32 = (SELECT min(pos) >> 32 FROM records))`
	const ofFirst = ` WHERE pos >> 32 = (SELECT min(pos) >> 32 FROM records)`
	for name, attack := range map[string]struct {
		sql       []string
		forge     func(f forger) forger
		record    string
		strict    bool // found by strict alone
		untouched bool
	}{
		"honest":       {untouched: true},
		"no receipts":  {sql: []string{`UPDATE records SET kid = NULL, sig = NULL` + ofFirst}, record: "record 1 (session.opened)"},
		"junk receipt": {sql: []string{`UPDATE records SET kid = 'x', sig = zeroblob(64) WHERE id = ` + last}, record: "(turn.decided)"},
		"none of the last turn": {
			sql: []string{`UPDATE records SET kid = NULL, sig = NULL WHERE id = ` + last}, record: "(turn.decided)",
		},
		"rewritten and stripped": {forge: func(f forger) forger {
			for _, r := range f {
				r.Sig = nil
			}
			return f.says("pay 100 to bob", "pay 900 to eve").rehash()
		}, record: "record 1 (session.opened)"},
		"rewritten, receipts left": {forge: func(f forger) forger {
			return f.says("pay 100 to bob", "pay 900 to eve").rehash()
		}, record: "(turn.decided)"},
		"rewritten to a fork without receipts": {forge: func(f forger) forger {
			for _, r := range f {
				r.Sig = nil
			}
			return f.says(`"receipts":"decision"`, `"origin":{"hash":"`+strings.Repeat("1", 64)+`","incarnation":"x","seq":9,"sid":"a:b:c"},"receipts":"off"`).rehash()
		}, record: "record 1 (session.opened)"},
		"rewritten to a session of before": {forge: func(f forger) forger {
			for _, r := range f {
				r.Sig = nil
			}
			return f.says(`,"receipts":"decision"`, ``).says("pay 100 to bob", "pay 900 to eve").rehash()
		}, record: "record 1 (session.opened)", strict: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			rt, err := stile.New(t.Context(), stile.Config{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			s := open(t, rt, "s", plain())
			wantDone(t, ask(t, s, "pay 100 to bob"))
			wantDone(t, ask(t, s, "and 50 to ann"))
			wantDone(t, ask(t, open(t, rt, "beside", plain()), "hello"))
			f := history(t, rt.Archive(), s.Incarnation())
			if err := rt.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if attack.forge != nil {
				attack.forge(f).put(t, dir)
			}
			tampers(t, dir, attack.sql...)
			for _, unproved := range []string{"", stile.UnprovedStrict} {
				asked := 0
				a := plain()
				a.Model = model(func(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
					asked++
					return says("yes")(nil, llm.Request{})
				})
				rt := start(t, stile.Config{Dir: dir, Unproved: unproved})
				_, err := rt.Open(t.Context(), "s", a)
				switch {
				case attack.untouched, attack.strict && unproved == "":
					if err != nil {
						t.Error(err)
					}
				default:
					wantUnproved(t, err, "local:local:s", attack.record)
					ses, err := rt.Find(t.Context(), "s")
					if err == nil {
						_, err = ses.Submit(t.Context(), "go on")
					}
					if err == nil || asked > 0 {
						t.Errorf("a turn began: %v, the model was asked %d times", err, asked)
					}
				}
				wantDone(t, ask(t, open(t, rt, "beside", plain()), "and again"))
				if err := rt.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// The way out: with go_on the host goes on and logs it; the receipts of what follows prove
// it from then on. A session that is refused can be erased.
func TestGoingOnAllTheSame(t *testing.T) {
	dir := t.TempDir()
	rt, err := stile.New(t.Context(), stile.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"s", "gone"} {
		ask(t, open(t, rt, name, plain()), "hello")
	}
	if err := rt.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	tampers(t, dir, `UPDATE records SET kid = NULL, sig = NULL`)
	again := func(unproved string) *stile.Runtime {
		rt, err := stile.New(t.Context(), stile.Config{Dir: dir, Unproved: unproved, Agents: []*stile.Agent{plain()}})
		if err != nil {
			t.Fatal(err)
		}
		return rt
	}
	rt = again("")
	_, err = rt.Open(t.Context(), "s", plain())
	wantUnproved(t, err, "local:local:s", "record 1 ")
	_, err = rt.Fork(t.Context(), "s", 0, "fork")
	wantUnproved(t, err, "local:local:s", "record 1 ")
	if _, err := rt.Booted(t.Context()); err != nil { // its scan looks at the session too
		t.Fatal(err)
	}
	if err := rt.Delete(t.Context(), "gone", "test"); err != nil {
		t.Errorf("a session that is refused cannot be erased: %v", err)
	}
	if err := rt.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	rt = again(stile.UnprovedGoOn)
	wantDone(t, ask(t, open(t, rt, "s", plain()), "go on"))
	if err := rt.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	rt = again("")
	wantDone(t, ask(t, open(t, rt, "s", plain()), "as before"))
	if err := rt.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := stile.New(t.Context(), stile.Config{Dir: dir, Unproved: "never"}); messages.CodeOf(err) != messages.ErrConfig {
		t.Errorf("of a word that is none: %v", err)
	}
}

// The boot scan leaves a session alone whose receipts do not prove it, and takes the others up.
func TestBootPassesForgedSessionsBy(t *testing.T) {
	dir := t.TempDir()
	a := plain()
	a.Manifest.Name = "clerk"
	a.Model = stalls("")
	rt, err := stile.New(t.Context(), stile.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"forged", "honest"} {
		submit(t, open(t, rt, name, a), "hello")
	}
	if err := rt.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	tampers(t, dir, `UPDATE records SET kid = NULL, sig = NULL WHERE pos >> 32 = (SELECT min(pos) >> 32 FROM records)`)
	a = plain()
	a.Manifest.Name = "clerk"
	rt = start(t, stile.Config{Dir: dir, Agents: []*stile.Agent{a}})
	rep, err := rt.Booted(t.Context())
	if err != nil || rep.Found != 2 || rep.Settled != 1 || rep.Failed != 1 {
		t.Errorf("%+v, %v", rep, err)
	}
}

// long is a session of more records than a host looks back over, which left a snapshot.
func long(t *testing.T, dir string, turns int) {
	t.Helper()
	rt, err := stile.New(t.Context(), stile.Config{Dir: dir, IdleTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, rt, "s", plain())
	for i := range turns {
		wantDone(t, ask(t, s, fmt.Sprintf("pay %03d to bob", i)))
	}
	time.Sleep(2 * time.Minute)
	synctest.Wait()
	if n := rt.SessionsInMemory(); n != 0 {
		t.Fatalf("%d sessions awake", n)
	}
	if err := rt.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
}

// A forged snapshot is not gone on from: the records are.
func TestForgedSnapshotIsPassedBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		const turns = 40
		long(t, dir, turns)
		var honest journal.Snapshot
		snapshot := func(change func(*journal.Snapshot)) {
			store, err := sqlite.Open(sqlite.Options{Path: filepath.Join(dir, stile.JournalFile)})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			head, err := store.Head(t.Context(), "local:local:s")
			if err != nil {
				t.Fatal(err)
			}
			if honest.Seq == 0 {
				if honest, err = store.Snapshot(t.Context(), head.Inc); err != nil || honest.Seq != head.Seq {
					t.Fatalf("the snapshot is of %d, the head at %d: %v", honest.Seq, head.Seq, err)
				}
			}
			s := honest
			change(&s)
			if err := store.PutSnapshot(t.Context(), head.Inc, s); err != nil {
				t.Fatal(err)
			}
		}
		old := []byte(fmt.Sprintf(`"turn":%d`, turns))
		if snapshot(func(*journal.Snapshot) {}); !bytes.Contains(honest.State, old) {
			t.Fatalf("%.200s has no %s", honest.State, old)
		}
		for name, change := range map[string]func(*journal.Snapshot){
			"changed": func(s *journal.Snapshot) { s.State = bytes.Replace(s.State, old, []byte(`"turn":999`), 1) },
			"unsigned": func(s *journal.Snapshot) {
				_, state, _ := bytes.Cut(s.State, []byte("\n"))
				s.State = append([]byte(`{"kid":"","at":0,"sig":""}`+"\n"), bytes.Replace(state, old, []byte(`"turn":999`), 1)...)
			},
			"without a statement": func(s *journal.Snapshot) {
				_, s.State, _ = bytes.Cut(s.State, []byte("\n"))
				s.State = bytes.Replace(s.State, old, []byte(`"turn":999`), 1)
			},
		} {
			snapshot(change)
			rt := start(t, stile.Config{Dir: dir})
			ses := open(t, rt, "s", plain())
			if got := ask(t, ses, "on").Turn.TurnIndex; got > turns+3 {
				t.Errorf("%s: the session went on at turn %d", name, got)
			}
			if err := rt.Close(context.WithoutCancel(t.Context())); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// What lies before a snapshot is held against the head as well: near the end when the session
// is woken, farther back when a prompt is made of it. The model is not asked.
func TestForgedHistoryBeforeASnapshot(t *testing.T) {
	for name, seq := range map[string]int{"near": 1100, "far": 3} {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			long(t, dir, 150)
			tampers(t, dir, fmt.Sprintf(`UPDATE records SET body = replace(body, 'bob', 'eve') WHERE pos & 4294967295 BETWEEN %d AND %d`, seq-8, seq+8))
			asked := 0
			a := plain()
			a.Model = model(func(context.Context, llm.Request) iter.Seq2[llm.Chunk, error] {
				asked++
				return says("yes")(nil, llm.Request{})
			})
			rt := start(t, stile.Config{Dir: dir})
			ses, err := rt.Open(t.Context(), "s", a)
			if name == "near" {
				wantCode(t, err, messages.ErrJournal)
			} else {
				if err != nil {
					t.Fatal(err)
				}
				wantHalt(t, ask(t, ses, "on"), messages.ErrJournal)
			}
			if asked > 0 {
				t.Errorf("%s: the model was asked", name)
			}
		})
	}
}

// A fork is signed when it is made: also of records of a time before the keys in force, it
// verifies before it has a decision of its own.
func TestForkBehindARotation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := start(t, stile.Config{Dir: t.TempDir()})
		s := open(t, rt, "s", plain())
		ask(t, s, "one")
		ask(t, s, "two")
		if err := rt.RotateKeys(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		head, err := rt.Fork(t.Context(), "s", 0, "fork")
		if err != nil {
			t.Fatal(err)
		}
		check := func() journal.Report {
			doc, err := rt.Keys().JWKS()
			if err != nil {
				t.Fatal(err)
			}
			trusted, err := keyring.ParseJWKS(doc)
			if err != nil {
				t.Fatal(err)
			}
			rep, err := rt.Archive().Verify(t.Context(), head.Inc, stile.VerifyOptions{Keys: trusted})
			if err != nil || !rep.OK() || rep.Missing > 0 {
				t.Errorf("%+v, %v", rep, err)
			}
			return rep
		}
		if rep := check(); rep.Valid != 3 {
			t.Errorf("%d receipts, want those of the opening and two decisions", rep.Valid)
		}
		wantDone(t, ask(t, open(t, rt, "fork", plain()), "three"))
		if rep := check(); rep.Valid != 4 {
			t.Errorf("%d receipts, want 4", rep.Valid)
		}
		// A fork of the fork, behind another rotation, is proved by what the first one signed.
		if err := rt.RotateKeys(t.Context(), time.Minute); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if head, err = rt.Fork(t.Context(), "fork", 1, "again"); err != nil {
			t.Fatal(err)
		}
		check()
	})
}

// An honest beginning can be forked out of a history that was spoilt behind it.
func TestForkOfTheHonestBeginning(t *testing.T) {
	dir := t.TempDir()
	rt, err := stile.New(t.Context(), stile.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, rt, "s", plain())
	ask(t, s, "one")
	ask(t, s, "two")
	if err := rt.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	tampers(t, dir, `UPDATE records SET kid = 'x' WHERE id = (SELECT max(id) FROM records WHERE sig IS NOT NULL)`)
	rt = start(t, stile.Config{Dir: dir})
	if _, err := rt.Fork(t.Context(), "s", 2, "whole"); journal.ReasonOf(err) != journal.ReasonUnproved {
		t.Errorf("%v", err)
	}
	if _, err := rt.Fork(t.Context(), "s", 1, "honest"); err != nil {
		t.Error(err)
	}
}

// What the opening of a session promises is kept when its manifest changes.
func TestPromisedReceiptsAreKept(t *testing.T) {
	rt := start(t, stile.Config{Dir: t.TempDir(), IdleTimeout: time.Nanosecond})
	a := plain()
	s := open(t, rt, "s", a)
	ask(t, s, "one")
	off := plain()
	off.Manifest.Receipts = "off"
	wantDone(t, ask(t, open(t, rt, "s", off), "two"))
	rep, err := rt.Archive().Verify(t.Context(), s.Incarnation(), stile.VerifyOptions{Keys: rt.Keys().Set()})
	if err != nil || !rep.OK() || rep.Valid != 3 {
		t.Errorf("%+v, %v", rep, err)
	}
}

// What stands behind the last receipt is proved by no key, and by a head of an earlier time.
func TestVerifySinceAnEarlierHead(t *testing.T) {
	dir := t.TempDir()
	rt, err := stile.New(t.Context(), stile.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, rt, "s", plain())
	ask(t, s, "pay 100 to bob")
	f := history(t, rt.Archive(), s.Incarnation())
	head, err := s.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	trusted := rt.Keys().Set()
	if err := rt.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	since := journal.Anchor{Seq: head.Seq, Hash: head.Hash}
	end := f[len(f)-1]
	end.Raw = bytes.Replace(end.Raw, []byte("DONE"), []byte("HALT"), 1)
	f.rehash().put(t, dir)
	ar, err := stile.OpenArchive(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer ar.Close()
	for _, opts := range []stile.VerifyOptions{{Keys: trusted}, {Keys: trusted, Since: since}, {Keys: trusted, Since: journal.Anchor{Seq: since.Seq + 1, Hash: since.Hash}}} {
		rep, err := ar.Verify(t.Context(), f[0].Inc, opts)
		if err != nil || rep.OK() != (opts.Since == journal.Anchor{}) || !rep.OK() && rep.Problems[0].What != journal.WhatSince {
			t.Errorf("since %d: %+v, %v", opts.Since.Seq, rep, err)
		}
	}
}
