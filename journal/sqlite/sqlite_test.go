package sqlite

import (
	"bufio"
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/seed14be6753/stile/internal/groupcommit"
	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/internal/sqlstore"
	"github.com/seed14be6753/stile/journal/journaltest"
	"github.com/seed14be6753/stile/messages"
)

var ctx = context.Background()

// childEnv names the file for the test process that is to be killed.
const childEnv = "STILE_JOURNAL_TEST_FILE"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		appendUntilKilled(path)
	}
	goleak.VerifyTestMain(m)
}

func TestConformance(t *testing.T) {
	journaltest.Run(t, func(t *testing.T) journal.Store { return open(t, Options{Path: t.TempDir()}) })
}

func open(t testing.TB, opts Options) *store {
	t.Helper()
	s, err := openStore(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func wantReason(t testing.TB, err error, reason string) {
	t.Helper()
	if journal.ReasonOf(err) != reason {
		t.Fatalf("got %v, want reason %s", err, reason)
	}
}

func TestReopenedFileHoldsEverything(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "dir", "x.db")
	s := open(t, Options{Path: path})
	ses := specimen.Start(t, "local:local:a", 1)
	b := ses.Notes(3)
	b.Blobs = []messages.Blob{specimen.NewBlob("x")}
	b.Snapshot = &journal.Snapshot{Seq: 3, Hash: b.Records[2].Hash, State: []byte("s")}
	specimen.Must(t, s, b)
	if err := s.PutMeta(ctx, journal.MetaReceiptKeys, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(path + "*"); err != nil || len(left) != 1 {
		t.Errorf("after closing: %v, %v", left, err)
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", fi.Mode(), err)
	}
	s = open(t, Options{Path: path})
	if _, recs, err := journal.Load(ctx, s, ses.Inc); err != nil || len(recs) != 3 {
		t.Fatal(err)
	}
	if v, err := s.Meta(ctx, journal.MetaReceiptKeys); err != nil || string(v) != "{}" {
		t.Fatal(err)
	}
	if _, err := s.Blob(ctx, ses.Inc, b.Blobs[0].Digest); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Snapshot(ctx, ses.Inc); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(ctx); err != nil {
		t.Fatal(err)
	}
	specimen.Must(t, s, ses.Notes(1))
}

func TestPaths(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"plain", "with space", "question?mark=1", "per%20cent", "hash#tag", "ünïcode", "a&b;c"} {
		s := open(t, Options{Path: filepath.Join(dir, name)})
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if fi, err := os.Stat(filepath.Join(dir, name)); err != nil || fi.Size() == 0 {
			t.Errorf("%q: %v", name, err)
		}
	}
	s := open(t, Options{Path: dir})
	s.Close()
	if _, err := os.Stat(filepath.Join(dir, FileName)); err != nil {
		t.Error(err)
	}
	if _, err := openStore(Options{}); messages.CodeOf(err) != messages.ErrConfig {
		t.Error(err)
	}
}

func TestOpenRefusesForeignFiles(t *testing.T) {
	dir := t.TempDir()
	make := func(name string, statements ...string) string {
		path := filepath.Join(dir, name)
		db, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		for _, s := range statements {
			if _, err := db.Exec(s); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	text := filepath.Join(dir, "text")
	if err := os.WriteFile(text, []byte(strings.Repeat("this is no database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"text":                text,
		"tables of others":    make("others", "CREATE TABLE notes (x)"),
		"id of others":        make("id", "PRAGMA application_id = 77"),
		"ours by id, damaged": make("tables", fmt.Sprintf("PRAGMA application_id = %d", applicationID+1), "CREATE TABLE records (x)"),
	} {
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s, err := openStore(Options{Path: path})
		if s != nil || journal.ReasonOf(err) != journal.ReasonFormat {
			t.Errorf("%s: %v", name, err)
		}
		if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
			t.Errorf("%s: the file has changed", name)
		}
	}
}

// A file of the first format gets what it lacks, and keeps what it has.
func TestOpenMigrates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	s := open(t, Options{Path: path})
	ses, named := specimen.Start(t, "local:local:a", 1), specimen.Start(t, "acme:ann:b", 2)
	specimen.Must(t, s, ses.Notes(3), named.Batch(&messages.SessionOpened{Name: "clerk", Manifest: messages.Digest{7}, Parent: &messages.ParentLink{SID: "acme:ann:p"}}, &messages.Input{Text: "x"}, &messages.RunBegin{}, &messages.RunEnd{Decision: messages.Halt, Reason: messages.ErrQuota}))
	listed, err := journal.Listings(ctx, s, journal.Query{Prefix: "acme:ann:"})
	if err != nil || len(listed) != 1 {
		t.Fatal(listed, err)
	}
	for _, q := range []string{
		"DROP TABLE listing_text", "DROP TABLE listings", "DROP TABLE recall", "DROP TABLE recall_text", "DROP TABLE recall_marks", "DROP INDEX sessions_wake", "ALTER TABLE sessions DROP COLUMN wake", "DELETE FROM goose_db_version WHERE version_id > 1",
	} {
		if _, err := s.w.conn.ExecContext(ctx, q); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	s = open(t, Options{Path: path})
	defer s.Close()
	head, recs, err := journal.Load(ctx, s, ses.Inc)
	if err != nil || len(recs) != 3 || head.Wake != 0 {
		t.Fatalf("%+v, %d records, %v", head, len(recs), err)
	}
	if again, err := journal.Listings(ctx, s, journal.Query{Prefix: "acme:ann:"}); err != nil || !cmp.Equal(again, listed) {
		t.Fatalf("listed %+v, now %+v, %v", listed, again, err)
	}
	if every, err := journal.Listings(ctx, s, journal.Query{}); err != nil || len(every) != 2 {
		t.Fatal(every, err)
	}
	specimen.Must(t, s, ses.Batch(&messages.TurnSuspended{Until: specimen.Epoch.Format(time.RFC3339Nano)}, &messages.Input{Text: "to be found"}))
	if hits, err := s.Recall(ctx, journal.RecallQuery{Owner: "local:local:", Words: []string{"found"}}); err != nil || len(hits) != 1 {
		t.Fatalf("recalls %v %v", hits, err)
	}
	if heads, err := s.Wakes(ctx, 0, 0); err != nil || len(heads) != 1 {
		t.Fatalf("wakes %v %v", heads, err)
	}
}

func TestOpenRefusesTheFuture(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	s := open(t, Options{Path: path})
	specimen.Must(t, s, specimen.Start(t, "local:local:a", 1).Notes(1))
	if _, err := s.w.conn.ExecContext(ctx, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, 1)"); err != nil {
		t.Fatal(err)
	}
	s.Close()
	_, err := openStore(Options{Path: path})
	wantReason(t, err, journal.ReasonFormat)
	if !strings.Contains(err.Error(), "99") {
		t.Error(err)
	}
}

// A file that lost its table of versions, or the first of them, is damaged. Goose would
// take it for one that is to be made, or look for what is not there for a while.
func TestOpenRefusesDamagedVersions(t *testing.T) {
	for _, damage := range []string{
		"DROP TABLE goose_db_version", "DELETE FROM goose_db_version", "DELETE FROM goose_db_version WHERE version_id <> 1",
		"UPDATE goose_db_version SET version_id = version_id - 1", "UPDATE goose_db_version SET is_applied = 0 WHERE version_id > 1",
	} {
		path := filepath.Join(t.TempDir(), "x.db")
		s := open(t, Options{Path: path})
		if _, err := s.w.conn.ExecContext(ctx, damage); err != nil {
			t.Fatal(err)
		}
		s.Close()
		_, err := openStore(Options{Path: path})
		wantReason(t, err, journal.ReasonFormat)
	}
}

func TestOpenWhereNothingCanBeWritten(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := openStore(Options{Path: filepath.Join(file, "x.db")})
	wantReason(t, err, journal.ReasonIO)
	if strings.Contains(err.Error(), dir) {
		t.Errorf("the error names a host path: %v", err)
	}
	locked := filepath.Join(dir, "locked")
	if err := os.Mkdir(locked, 0o500); err != nil {
		t.Fatal(err)
	}
	// Whether mode bits bind depends on who runs the test.
	binds := os.WriteFile(filepath.Join(locked, "probe"), nil, 0o600) != nil
	s, err := openStore(Options{Path: filepath.Join(locked, "x.db")})
	if binds {
		wantReason(t, err, journal.ReasonIO)
	} else if err != nil {
		t.Fatal(err)
	} else {
		s.Close()
	}
	// A directory in the place of the log: SQLite cannot write.
	path := filepath.Join(dir, "y.db")
	if err := os.MkdirAll(path+"-wal", 0o700); err != nil {
		t.Fatal(err)
	}
	_, err = openStore(Options{Path: path})
	wantReason(t, err, journal.ReasonIO)
}

func TestExclusive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	a := open(t, Options{Path: path, Exclusive: true})
	_, err := openStore(Options{Path: path, Exclusive: true})
	wantReason(t, err, journal.ReasonOwned)
	a.Close()
	b := open(t, Options{Path: path, Exclusive: true})
	if err := b.Reopen(); err != nil {
		t.Fatal(err)
	}
}

// Any failing step of a commit refuses the whole commit, for good, until Reopen.
func TestStickyFailure(t *testing.T) {
	for _, step := range []string{"begin", "insert", "commit"} {
		var failing error
		s := open(t, Options{Path: t.TempDir(), fail: func(at string) error {
			if at == step {
				return failing
			}
			return nil
		}})
		a, b := specimen.Start(t, "local:local:a", 1), specimen.Start(t, "local:local:b", 2)
		specimen.Must(t, s, a.Notes(1))
		failing = errors.New("the disk is gone")
		lost := a.Notes(1)
		for i, err := range s.Commit([]journal.Batch{lost, b.Notes(1)}) {
			if journal.ReasonOf(err) != journal.ReasonIO || !errors.Is(err, failing) {
				t.Errorf("%s: batch %d: %v", step, i, err)
			}
		}
		failing = nil
		wantReason(t, s.Commit([]journal.Batch{lost})[0], journal.ReasonIO)
		wantReason(t, s.PutMeta(ctx, "k", nil), journal.ReasonIO)
		_, err := s.Erase(ctx, a.Inc, 0, 0)
		wantReason(t, err, journal.ReasonIO)
		if h, err := s.Head(ctx, a.SID); err != nil || h.Seq != 1 {
			t.Errorf("%s: reading: %+v, %v", step, h, err)
		}
		if err := s.Reopen(); err != nil {
			t.Fatal(err)
		}
		specimen.Must(t, s, lost, specimen.Start(t, "local:local:b", 2).Notes(1))
		if err := s.Check(ctx); err != nil {
			t.Error(err)
		}
	}
}

// SQLite's own "disk is full" takes the same way.
func TestFullDisk(t *testing.T) {
	s := open(t, Options{Path: t.TempDir()})
	ses := specimen.Start(t, "local:local:a", 1)
	specimen.Must(t, s, ses.Notes(1))
	if _, err := s.w.conn.ExecContext(ctx, "PRAGMA max_page_count = 1"); err != nil { // SQLite raises it to what there is
		t.Fatal(err)
	}
	big := ses.Batch(&messages.Note{Text: strings.Repeat("x", 1<<20)})
	wantReason(t, s.Commit([]journal.Batch{big})[0], journal.ReasonIO)
	wantReason(t, s.Commit([]journal.Batch{big})[0], journal.ReasonIO)
	if err := s.Reopen(); err != nil {
		t.Fatal(err)
	}
	specimen.Must(t, s, big)
}

func TestBusyIsNotSticky(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	a, b := open(t, Options{Path: path, BusyTimeout: time.Millisecond}), open(t, Options{Path: path})
	ses := specimen.Start(t, "local:local:a", 1)
	tx, err := b.w.conn.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	batch := ses.Notes(1)
	wantReason(t, a.Commit([]journal.Batch{batch})[0], journal.ReasonBusy)
	wantReason(t, a.PutMeta(ctx, "k", nil), journal.ReasonBusy)
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	specimen.Must(t, a, batch)
}

// A row that cannot be there costs its own session alone.
func TestDamageStaysAlone(t *testing.T) {
	s := open(t, Options{Path: t.TempDir()})
	var batches []journal.Batch
	for i := range 4 {
		ses := specimen.Start(t, fmt.Sprintf("local:local:%d", i), i+1)
		specimen.Must(t, s, ses.Notes(1))
		batches = append(batches, ses.Notes(2))
	}
	if _, err := s.w.conn.ExecContext(ctx, `INSERT INTO records (pos, epoch, run, turn, type, ts, hash)
		SELECT (id << 32) + 3, 1, 1, 1, 'note', 0, x'00' FROM sessions WHERE sid = 'local:local:2'`); err != nil {
		t.Fatal(err)
	}
	for i, err := range s.Commit(batches) {
		if (err != nil) != (i == 2) || i == 2 && journal.ReasonOf(err) != journal.ReasonCorrupt {
			t.Errorf("batch %d: %v", i, err)
		}
	}
	if h, err := s.Head(ctx, "local:local:3"); err != nil || h.Seq != 3 {
		t.Errorf("%+v, %v", h, err)
	}
	if h, err := s.Head(ctx, "local:local:2"); err != nil || h.Seq != 1 {
		t.Errorf("%+v, %v", h, err)
	}
}

// Changes behind the store's back are found by Load, which names the record.
func TestLoadFindsDamage(t *testing.T) {
	for _, c := range []struct{ change, where string }{
		{"UPDATE records SET body = '{\"text\":\"other\"}' WHERE pos & 255 = 4", "record 4"},
		{"UPDATE records SET body = replace(body, 'note', 'nope') WHERE pos & 255 = 4", "record 4"},
		{"UPDATE records SET salt = zeroblob(16) WHERE pos & 255 = 4", "record 4"},
		{"UPDATE records SET salt = x'01' WHERE pos & 255 = 4", "record 4"},
		{"UPDATE records SET epoch = 9 WHERE pos & 255 = 4", "record 4"},
		{"UPDATE records SET run = 9 WHERE pos & 255 = 4", "record 4"},
		{"UPDATE records SET turn = 9 WHERE pos & 255 = 4", "record 4"},
		{"UPDATE records SET ts = ts + 1 WHERE pos & 255 = 4", "record 4"},
		{"UPDATE records SET type = 'emit' WHERE pos & 255 = 4", "record 4"},
		{"UPDATE records SET hash = zeroblob(32) WHERE pos & 255 = 4", "record 4"},
		{"UPDATE records SET hash = x'00' WHERE pos & 255 = 4", "record 4"},
		{"UPDATE records SET body = NULL WHERE pos & 255 = 4", "record 4"},
		{"UPDATE records SET body = NULL, salt = NULL WHERE pos & 255 = 4", "record 4"},
		{"UPDATE records SET body = NULL, salt = NULL, digest = zeroblob(32) WHERE pos & 255 = 4", "record 4"},
		{"UPDATE records SET pos = pos + 100 WHERE pos & 255 = 4", "record 5"},
		{"DELETE FROM records WHERE pos & 255 = 4", "record 5"},
		{"DELETE FROM records WHERE pos & 255 = 1", "record 2"},
		{"DELETE FROM records WHERE pos & 255 = 6", "ends at 5"},
		{"DELETE FROM records", "ends at 0"},
		{"UPDATE sessions SET seq = 5", "ends at 5"},
		{"UPDATE sessions SET hash = zeroblob(32)", "ends at 6"},
		{"UPDATE sessions SET hash = x'00'", "damaged"},
		{"UPDATE sessions SET epoch = 7", "summarise"},
		{"UPDATE sessions SET open = 1", "summarise"},
		{"UPDATE sessions SET queued = 3", "summarise"},
		{"UPDATE sessions SET closed = 1", "summarise"},
		{"UPDATE sessions SET seq = -1", "damaged"},
		{"UPDATE sessions SET sid = 'local:local:other'", "record 1"},
	} {
		s := open(t, Options{Path: t.TempDir()})
		ses := specimen.Start(t, "local:local:a", 1)
		specimen.Must(t, s, ses.Notes(6))
		if _, err := s.w.conn.ExecContext(ctx, c.change); err != nil {
			t.Fatal(err)
		}
		_, recs, err := journal.Load(ctx, s, ses.Inc)
		if recs != nil || journal.ReasonOf(err) != journal.ReasonCorrupt || !strings.Contains(err.Error(), c.where) {
			t.Errorf("%s: %v", c.change, err)
		}
		s.Close()
	}
}

func TestSnapshotDamageIsFound(t *testing.T) {
	s := open(t, Options{Path: t.TempDir()})
	ses := specimen.Start(t, "local:local:a", 1)
	b := ses.Notes(2)
	for _, change := range []string{"seq = 1", "hash = zeroblob(32)", "format = 9", "state = x'00'", "sum = x'00'"} {
		if err := s.DropSnapshot(ctx, ses.Inc); err != nil && !journal.IsNotFound(err) {
			t.Fatal(err)
		}
		if b.ExpectSeq == 0 {
			specimen.Must(t, s, b)
			b.ExpectSeq = 2
		}
		if err := s.PutSnapshot(ctx, ses.Inc, journal.Snapshot{Seq: 2, Hash: b.Records[1].Hash, Format: 1, State: []byte("state")}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.w.conn.ExecContext(ctx, "UPDATE snapshots SET "+change); err != nil {
			t.Fatal(err)
		}
		_, err := s.Snapshot(ctx, ses.Inc)
		wantReason(t, err, journal.ReasonCorrupt)
	}
}

// What was erased or deleted is in no file any more, not even the log.
func TestErasedBytesAreGone(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{Path: dir})
	erase, remove := specimen.Start(t, "local:local:a", 1), specimen.Start(t, "local:local:b", 2)
	for i, ses := range []*specimen.Session{erase, remove} {
		for range 3 {
			secret := fmt.Sprintf("SECRET-%d-", i) + strings.Repeat("z", 3000)
			b := ses.Batch(&messages.Note{Text: secret}, &messages.Note{Text: "SECRET short"})
			b.Blobs = []messages.Blob{specimen.NewBlob(secret)}
			b.Snapshot = &journal.Snapshot{Seq: 1, State: []byte(secret)}
			specimen.Must(t, s, b)
		}
	}
	found := func() bool {
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			data, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(data), "SECRET") {
				return true
			}
		}
		return false
	}
	if !found() {
		t.Fatal("the secrets should be in the file first")
	}
	if n, err := s.Erase(ctx, erase.Inc, 0, 0); err != nil || n != 6 {
		t.Fatal(n, err)
	}
	if err := s.Delete(ctx, remove.Inc); err != nil {
		t.Fatal(err)
	}
	if found() {
		t.Error("erased bytes are still there")
	}
	if rep := journal.Verify(s.Read(ctx, erase.Inc, 0, 0), journal.VerifyOptions{}); !rep.OK() || rep.Records != 6 {
		t.Errorf("%+v", rep)
	}
}

// Two stores on one file, as two processes would be, and several owners who
// believe they are alone: the fence leaves one history.
func TestTwoStoresOneFile(t *testing.T) {
	rng := specimen.Seed(t)
	path := filepath.Join(t.TempDir(), "x.db")
	stores := []*store{open(t, Options{Path: path}), open(t, Options{Path: path})}
	const sid, owners, rounds = "local:local:shared", 4, 15
	specimen.Must(t, stores[0], specimen.Start(t, sid, 1).Notes(1))
	var mu sync.Mutex
	accepted := int64(1)
	var wg sync.WaitGroup
	for i := range owners {
		s := stores[i%2]
		stay := 1 + rng.IntN(3)
		wg.Go(func() {
			for range rounds {
				head, err := s.Head(ctx, sid)
				if err != nil {
					t.Error(err)
					return
				}
				ses := specimen.Continue(t, head, nil)
				for range stay {
					b := ses.Notes(1)
					err := s.Commit([]journal.Batch{b})[0]
					if err == nil {
						mu.Lock()
						accepted++
						mu.Unlock()
						continue
					}
					if !journal.IsFenced(err) && !journal.IsStale(err) {
						t.Error(err)
					}
					break
				}
			}
		})
	}
	wg.Wait()
	head, recs, err := journal.Load(ctx, stores[1], specimen.Inc(1))
	if err != nil || int64(len(recs)) != accepted || head.Seq != accepted {
		t.Fatalf("%d records, %d accepted, %v", len(recs), accepted, err)
	}
	if err := stores[0].Check(ctx); err != nil {
		t.Error(err)
	}
}

func TestOpenAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			s, err := openStore(Options{Path: path})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			if err := s.Commit([]journal.Batch{specimen.Start(t, fmt.Sprintf("local:local:%d", i), i+1).Notes(1)})[0]; err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	s := open(t, Options{Path: path})
	if heads, err := s.Sessions(ctx, journal.Query{}); err != nil || len(heads) != 6 {
		t.Fatal(len(heads), err)
	}
}

// appendUntilKilled is the child of TestKill: it says what was acknowledged.
func appendUntilKilled(path string) {
	s, err := openStore(Options{Path: path})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	w := groupcommit.New(s, groupcommit.Options{})
	var tb testing.T
	ses := specimen.Start(&tb, "local:local:killed", 1)
	for {
		done := make(chan error, 1)
		b := ses.Notes(3)
		w.Append(b, func(err error) { done <- err })
		if err := <-done; err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(b.Records[2].Seq)
	}
}

// A process that is killed has lost nothing it acknowledged.
func TestKill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.db")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var acknowledged int64
	for n := 0; lines.Scan(); n++ {
		if _, err := fmt.Sscan(lines.Text(), &acknowledged); err != nil {
			t.Fatal(lines.Text())
		}
		if n == 40 {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed, as it should be
	s := open(t, Options{Path: path})
	head, recs, err := journal.Load(ctx, s, specimen.Inc(1))
	if err != nil || head.Seq < acknowledged || head.Seq%3 != 0 || int64(len(recs)) != head.Seq || acknowledged < 120 {
		t.Fatalf("%d acknowledged, head %+v, %v", acknowledged, head, err)
	}
}

// copies of a journal file and its log, to be damaged.
type copies struct {
	db, wal []byte
	vfs     string // "" is the real disk
	all     map[messages.Incarnation][]*messages.Record
}

func (c *copies) load(t *testing.T, dir string) {
	t.Helper()
	var err error
	if c.db, err = os.ReadFile(filepath.Join(dir, FileName)); err != nil {
		t.Fatal(err)
	}
	c.wal, err = os.ReadFile(filepath.Join(dir, FileName+"-wal"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
}

// check opens db and wal: whatever they hold, it answers with typed errors or with
// beginnings of the true histories. It returns how many records it accepted.
func (c *copies) check(t *testing.T, name string, db, wal []byte) (n int) {
	t.Helper()
	dir, err := os.MkdirTemp("", "stile-copies") // t.TempDir would keep hundreds of thousands of them
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}()
	path := filepath.Join(dir, FileName)
	if err := os.WriteFile(path, db, 0o600); err != nil {
		t.Fatal(err)
	}
	if wal != nil {
		if err := os.WriteFile(path+"-wal", wal, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return c.judge(t, name, path)
}

// judge is check of a journal that is in its place.
func (c *copies) judge(t *testing.T, name, path string) (n int) {
	t.Helper()
	typed := func(err error) bool { return err == nil || messages.CodeOf(err) == messages.ErrJournal }
	s, err := openStore(Options{Path: path, vfs: c.vfs})
	if err != nil {
		if !typed(err) {
			t.Errorf("%s: %v", name, err)
		}
		return 0
	}
	defer s.Close()
	for inc, want := range c.all {
		_, recs, err := journal.Load(ctx, s, inc)
		if !typed(err) || len(recs) > len(want) {
			t.Errorf("%s: %d records, %v", name, len(recs), err)
			continue
		}
		for i, r := range recs {
			if r.Hash != want[i].Hash || string(r.Raw) != string(want[i].Raw) || r.SID != want[i].SID {
				t.Errorf("%s: record %d is another", name, i+1)
			}
			reply, ok := r.Body.(*messages.ModelReply)
			if !ok {
				continue
			}
			if b, err := s.Blob(ctx, inc, reply.Blob); !typed(err) || err == nil && sha256.Sum256(b) != reply.Blob {
				t.Errorf("%s: the blob of record %d: %q, %v", name, i+1, b, err)
			}
		}
		n += len(recs)
		snap, err := s.Snapshot(ctx, inc)
		if !typed(err) || err == nil && (snap.Seq < 1 || snap.Seq > int64(len(want)) || snap.Hash != want[snap.Seq-1].Hash || string(snap.State) != "state") {
			t.Errorf("%s: snapshot %+v, %v", name, snap, err)
		}
	}
	if _, err := s.Sessions(ctx, journal.Query{}); !typed(err) {
		t.Errorf("%s: %v", name, err)
	}
	if _, err := s.Recall(ctx, journal.RecallQuery{Owner: "local:local:", Words: []string{"gopher"}}); !typed(err) {
		t.Errorf("%s: %v", name, err)
	}
	return n
}

// small makes a journal of three sessions with 8 batches each.
func small(t *testing.T, dir string) (*store, *copies) {
	s := open(t, Options{Path: dir})
	c := &copies{all: map[messages.Incarnation][]*messages.Record{}}
	sessions := []*specimen.Session{specimen.Start(t, "local:local:a", 1), specimen.Start(t, "local:local:b", 2), specimen.Start(t, "acme:ann:c", 3)}
	for round := range 8 {
		for _, ses := range sessions {
			blob := specimen.NewBlob(fmt.Sprint("reply ", ses.SID, round))
			b := ses.Batch(&messages.ModelReply{Blob: blob.Digest}, &messages.UnitText{UnitKind: messages.ResponseUnit, Text: "x"}, &messages.Note{Text: strings.Repeat("n", 40*round)})
			b.Blobs = []messages.Blob{blob}
			b.Snapshot = &journal.Snapshot{Seq: b.Records[0].Seq, Hash: b.Records[0].Hash, State: []byte("state")}
			specimen.Must(t, s, b)
			c.all[ses.Inc] = append(c.all[ses.Inc], b.Records...)
		}
	}
	return s, c
}

func TestDamagedFiles(t *testing.T) {
	rng := specimen.Seed(t)
	dir := t.TempDir()
	s, c := small(t, dir)
	c.load(t, dir) // as a kill would leave them: everything is in the log
	total := 0
	for _, recs := range c.all {
		total += len(recs)
	}
	if n := c.check(t, "killed", c.db, c.wal); n != total {
		t.Fatalf("after a kill %d of %d records are there", n, total)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	settled := copies{all: c.all}
	settled.load(t, dir)
	if n := settled.check(t, "closed", settled.db, nil); n != total {
		t.Fatalf("after closing %d of %d records are there", n, total)
	}
	flip := func(b []byte) []byte {
		b = append([]byte(nil), b...)
		for range 1 + rng.IntN(2) {
			b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
		}
		return b
	}
	for i := range 40 {
		c.check(t, fmt.Sprint("log cut ", i), c.db, c.wal[:rng.IntN(len(c.wal))])
		c.check(t, fmt.Sprint("log flipped ", i), c.db, flip(c.wal))
		settled.check(t, fmt.Sprint("file cut ", i), settled.db[:rng.IntN(len(settled.db))], nil)
		settled.check(t, fmt.Sprint("file flipped ", i), flip(settled.db), nil)
	}
	for page := 0; page+4096 <= len(settled.db); page += 4096 { // and a page of zeros in each place
		b := append([]byte(nil), settled.db...)
		clear(b[page : page+4096])
		settled.check(t, fmt.Sprint("page zeroed ", page/4096), b, nil)
	}
}

func TestSnapshotSumCoversEverything(t *testing.T) {
	snap := journal.Snapshot{Seq: 1, Hash: sha256.Sum256(nil), Format: 1, State: []byte("x")}
	base := sqlstore.SnapshotSum(specimen.Inc(1), &snap)
	if base == sqlstore.SnapshotSum(specimen.Inc(2), &snap) {
		t.Error("the incarnation is not covered")
	}
}
