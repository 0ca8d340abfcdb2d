package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// rowsOf returns the rows of a journal's file. The numbers of blobs mean nothing.
func rowsOf(t *testing.T, path string) (rows []string) {
	t.Helper()
	err := onFile(ctx, path, "mode=ro", func(db *sql.DB) error {
		for _, query := range []string{
			"SELECT 'session', id, hex(inc), sid, live, seq, hex(hash), epoch, run, turn, open, queued, closed, wake FROM sessions ORDER BY id",
			"SELECT 'record', id, pos, epoch, run, turn, type, ts, coalesce(hex(salt), '-'), coalesce(body, '-'), coalesce(hex(digest), '-'), hex(hash), coalesce(kid, '-'), coalesce(hex(sig), '-') FROM records ORDER BY pos",
			"SELECT 'blob', session, hex(digest), hex(data) FROM blobs ORDER BY session, digest",
			"SELECT 'listing', session, hex(inc), owner, agent, coalesce(hex(manifest), '-'), created, changed, title, folded, tags, described, decision, code, ended, parent, origin FROM listings ORDER BY session",
			"SELECT 'meta', key, hex(value) FROM meta ORDER BY key",
		} {
			found, err := db.QueryContext(ctx, query)
			if err != nil {
				return err
			}
			columns, err := found.Columns()
			for err == nil && found.Next() {
				row := make([]string, len(columns))
				to := make([]any, len(row))
				for i := range row {
					to[i] = &row[i]
				}
				err = found.Scan(to...)
				rows = append(rows, strings.Join(row, "|"))
			}
			if err == nil {
				err = found.Err()
			}
			found.Close()
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func copied(t *testing.T, from string) string {
	t.Helper()
	b, err := os.ReadFile(from)
	to := filepath.Join(t.TempDir(), FileName)
	if err == nil {
		err = os.WriteFile(to, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// A copy and its increments are the journal at each of their moments, whatever was appended, erased and
// deleted; and an earlier moment forgets what was erased and deleted later.
func TestIncrements(t *testing.T) {
	rng := specimen.Seed(t)
	s := open(t, Options{Path: t.TempDir()})
	folder := t.TempDir()
	var all []*specimen.Session
	fresh, secret := 0, 0
	work := func() {
		for range 30 {
			if len(all) < 4 || rng.IntN(6) == 0 {
				fresh++
				ses := specimen.Start(t, fmt.Sprintf("acme:ann:%d", rng.IntN(12)), fresh)
				if head, err := s.Head(ctx, ses.SID); err == nil && !head.Closed {
					continue
				}
				specimen.Must(t, s, ses.Batch(&messages.SessionOpened{Name: "clerk"}))
				all = append(all, ses)
				continue
			}
			i := rng.IntN(len(all))
			ses := all[i]
			head, err := s.HeadOf(ctx, ses.Inc)
			if err != nil {
				t.Fatal(err)
			}
			switch rng.IntN(10) {
			case 0:
				if err := s.Delete(ctx, ses.Inc); err != nil {
					t.Fatal(err)
				}
				all = slices.Delete(all, i, i+1)
			case 1:
				from := 1 + rng.Int64N(head.Seq)
				if _, err := s.Erase(ctx, ses.Inc, from, from+rng.Int64N(3)); err != nil {
					t.Fatal(err)
				}
			case 2:
				if !head.Closed {
					specimen.Must(t, s, ses.Batch(&messages.SessionClosed{}))
				}
				if _, err := s.Erase(ctx, ses.Inc, 0, 0); err != nil {
					t.Fatal(err)
				}
				all = slices.Delete(all, i, i+1)
			case 3:
				if err := s.PutMeta(ctx, fmt.Sprint("key", rng.IntN(3)), []byte(fmt.Sprint(rng.IntN(9)))); err != nil {
					t.Fatal(err)
				}
			default:
				if head.Closed {
					continue
				}
				secret++
				blob := specimen.NewBlob(fmt.Sprint("blob", rng.IntN(6))) // comes again, also when it was erased
				b := ses.Batch(&messages.Input{Text: fmt.Sprintf("secret-%d.", secret)}, &messages.ModelReply{Blob: blob.Digest}, &messages.SessionDescribed{Title: fmt.Sprint("title", rng.IntN(9))})
				b.Blobs = []messages.Blob{blob}
				specimen.Must(t, s, b)
			}
		}
	}
	work()
	var chain []string
	var was [][]string
	for k := range 6 {
		file := filepath.Join(folder, fmt.Sprintf("%d.db", k))
		if k == 0 {
			if err := Backup(ctx, s.path, file); err != nil {
				t.Fatal(err)
			}
		} else if x, err := BackupSince(ctx, s.path, file, chain...); err != nil {
			t.Fatal(err)
		} else if heads, err := s.Sessions(ctx, journal.Query{Retired: true}); err != nil || int64(len(heads)) != x.Sessions {
			t.Fatalf("%d sessions of %d, %v", x.Sessions, len(heads), err)
		}
		chain = append(chain, file)
		was = append(was, rowsOf(t, s.path))
		work()
	}
	last := filepath.Join(folder, "whole.db")
	if err := Backup(ctx, s.path, last); err != nil {
		t.Fatal(err)
	}
	for k := range chain {
		path := copied(t, chain[0])
		if err := Restore(ctx, path, chain[1:k+1], nil); err != nil {
			t.Fatal(k, err)
		}
		if diff := cmp.Diff(was[k], rowsOf(t, path)); diff != "" {
			t.Fatalf("after increment %d (-journal +copy):\n%s", k, diff)
		}
		path = copied(t, chain[0])
		if err := Restore(ctx, path, chain[1:k+1], append(slices.Clone(chain[k+1:]), last)); err != nil {
			t.Fatal(k, err)
		}
		alive := strings.Join(rowsOf(t, last), "\n")
		for _, row := range rowsOf(t, path) {
			if text := strings.Split(row, "|"); text[0] == "record" && text[9] != "-" && !strings.Contains(alive, row) {
				t.Errorf("moment %d has %s, which the journal does not", k, row)
			}
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for n := 1; n <= secret; n++ {
			if text := fmt.Sprintf("secret-%d.", n); !strings.Contains(alive, text) && strings.Contains(string(raw), text) {
				t.Errorf("moment %d: the file still has the erased %s", k, text)
			}
		}
		back := open(t, Options{Path: path})
		for h, err := range journal.List(ctx, back, "", "") {
			if err != nil {
				t.Fatal(err)
			}
			if rep := journal.Verify(back.Read(ctx, h.Inc, 0, 0), journal.VerifyOptions{SID: h.SID, Inc: h.Inc, Head: journal.Anchor{Seq: h.Seq, Hash: h.Hash}, Receipts: journal.ReceiptsOff}); rep.Records != h.Seq {
				t.Errorf("session %s: %+v", h.SID, rep)
			}
		}
	}
}

// What is no chain of a journal is refused, and leaves nothing.
func TestIncrementsRefused(t *testing.T) {
	folder := t.TempDir()
	begun1 := func(text string) *store {
		s := open(t, Options{Path: t.TempDir()})
		ses := specimen.Start(t, "acme:ann:1", 1)
		specimen.Must(t, s, ses.Batch(&messages.SessionOpened{Name: text}), ses.Notes(2))
		return s
	}
	s, other := begun1("one"), begun1("other")
	whole, inc, foreign := filepath.Join(folder, "whole.db"), filepath.Join(folder, "inc.db"), filepath.Join(folder, "foreign.db")
	for path, file := range map[string]string{s.path: whole, other.path: foreign} {
		if err := Backup(ctx, path, file); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := BackupSince(ctx, s.path, inc, whole); err != nil {
		t.Fatal(err)
	}
	stopped, stop := context.WithCancel(ctx)
	stop()
	for name, row := range map[string]struct {
		ctx    context.Context
		chain  []string
		reason string
	}{
		"no chain":               {ctx, nil, journal.ReasonInvalid},
		"of another journal":     {ctx, []string{foreign}, journal.ReasonCorrupt},
		"an increment alone":     {ctx, []string{inc}, journal.ReasonInvalid},
		"a whole copy behind it": {ctx, []string{whole, whole}, journal.ReasonInvalid},
		"not there":              {ctx, []string{filepath.Join(folder, "absent")}, journal.ReasonNotFound},
		"interrupted":            {stopped, []string{whole}, journal.ReasonIO},
	} {
		dest := filepath.Join(folder, "refused.db")
		if _, err := BackupSince(row.ctx, s.path, dest, row.chain...); journal.ReasonOf(err) != row.reason {
			t.Errorf("%s: %v, want %s", name, err, row.reason)
		}
		if _, err := os.Stat(dest); err == nil {
			t.Errorf("%s: a file is left", name)
		}
	}
	if _, err := BackupSince(ctx, s.path, inc, whole); journal.ReasonOf(err) != journal.ReasonIO {
		t.Errorf("over a file: %v", err)
	}
	// Twice the same increment: its records are there.
	ses := specimen.Continue(t, must(s.Head(ctx, "acme:ann:1")), nil)
	specimen.Must(t, s, ses.Notes(1))
	more := filepath.Join(folder, "more.db")
	if _, err := BackupSince(ctx, s.path, more, whole, inc); err != nil {
		t.Fatal(err)
	}
	path := copied(t, whole)
	if err := Restore(ctx, path, []string{more}, nil); err != nil {
		t.Fatal(err)
	}
	wantReason(t, Restore(ctx, path, []string{more}, nil), journal.ReasonCorrupt)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
