package postgres

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/seed14be6753/stile/internal/lease"
	"github.com/seed14be6753/stile/internal/postgrestest"
	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/internal/sqlstore"
	"github.com/seed14be6753/stile/journal/memory"
	"github.com/seed14be6753/stile/messages"
)

// pair opens two stores on one schema, as two hosts would.
func pair(t *testing.T, opts Options) (a, b *Store, ok bool) {
	t.Helper()
	u, ok := postgrestest.URL(t)
	if !ok {
		return nil, nil, false
	}
	opts.URL = u
	opts.Schema = postgrestest.Schema(t, u)
	return open(t, opts), open(t, opts), true
}

// Two stores on one database and several owners of each of several sessions, who
// all believe they are alone, in groups that overlap: the fence leaves one history
// of each, with exactly what was accepted.
func TestTwoStoresOneDatabase(t *testing.T) {
	rng := specimen.Seed(t)
	a, b, ok := pair(t, Options{})
	if !ok {
		return
	}
	stores := []*Store{a, b}
	const sessions, owners, rounds = 5, 4, 25
	var accepted [sessions]int64
	for i := range sessions {
		specimen.Must(t, a, specimen.Start(t, fmt.Sprintf("local:local:%d", i), i+1).Notes(1))
		accepted[i] = 1
	}
	var mu sync.Mutex
	refused := 0
	var wg sync.WaitGroup
	for i := range owners {
		s := stores[i%2]
		rng := rand.New(rand.NewPCG(rng.Uint64(), 2))
		wg.Go(func() {
			own := make([]*specimen.Session, sessions)
			for range rounds {
				var group []journal.Batch
				var of []int
				for _, k := range rng.Perm(sessions)[:1+rng.IntN(sessions)] {
					if own[k] == nil {
						head, err := s.Head(ctx, fmt.Sprintf("local:local:%d", k))
						if err != nil {
							t.Error(err)
							return
						}
						own[k] = specimen.Continue(t, head, nil)
					}
					for range 1 + rng.IntN(2) {
						group, of = append(group, own[k].Notes(1+rng.IntN(2))), append(of, k)
					}
				}
				for j, err := range s.Commit(group) {
					switch {
					case err == nil:
						mu.Lock()
						accepted[of[j]] += int64(len(group[j].Records))
						mu.Unlock()
					case journal.IsFenced(err) || journal.IsStale(err):
						own[of[j]] = nil
						mu.Lock()
						refused++
						mu.Unlock()
					default:
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	if refused == 0 {
		t.Error("no batch met the fence")
	}
	for i := range sessions {
		head, recs, err := journal.Load(ctx, b, specimen.Inc(i+1))
		if err != nil || int64(len(recs)) != accepted[i] || head.Seq != accepted[i] {
			t.Errorf("session %d: %d records, %d accepted, %v", i, len(recs), accepted[i], err)
		}
	}
}

// The server compares with its row, and with all of it, whatever the store remembers:
// a standby that took over may have another history of the same length.
func TestFenceComparesTheRow(t *testing.T) {
	s, _, ok := pair(t, Options{})
	if !ok {
		return
	}
	for i, c := range []struct {
		change string
		fenced bool
	}{
		{"hash = decode(repeat('07', 32), 'hex')", false},
		{"seq = seq + 1", false},
		{"seq = seq - 1", false},
		{"epoch = 9", true},
	} {
		ses := specimen.Start(t, fmt.Sprintf("local:local:%d", i), i+1)
		specimen.Must(t, s, ses.Notes(2))
		behind(t, s, fmt.Sprintf("UPDATE heads SET %s WHERE sid = '%s'", c.change, ses.SID))
		before, err := s.Head(ctx, ses.SID)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Commit([]journal.Batch{ses.Notes(1)})[0]; journal.IsFenced(err) != c.fenced || journal.IsStale(err) == c.fenced {
			t.Errorf("%s: %v", c.change, err)
		}
		if after, err := s.Head(ctx, ses.SID); err != nil || after != before {
			t.Errorf("%s: %+v, %v", c.change, after, err)
		}
	}
}

// Many hosts create the same sessions at once: one incarnation of each is live.
func TestCreateAtOnce(t *testing.T) {
	a, b, ok := pair(t, Options{})
	if !ok {
		return
	}
	const names = 20
	var mu sync.Mutex
	live := make(map[string]messages.Incarnation)
	wins := 0
	var wg sync.WaitGroup
	for i := range 4 {
		s := []*Store{a, b}[i%2]
		wg.Go(func() {
			var group []journal.Batch
			for n := range names {
				if i == 3 {
					n = names - 1 - n // in the other order: a deadlock, if order mattered
				}
				group = append(group, specimen.Start(t, fmt.Sprintf("local:local:%d", n), 100*i+n+1).Notes(1))
			}
			for j, err := range s.Commit(group) {
				if err != nil && !journal.IsStale(err) {
					t.Error(err)
				}
				if err == nil {
					mu.Lock()
					live[group[j].SID] = group[j].Inc
					wins++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if wins != names {
		t.Errorf("%d of %d creations won", wins, names)
	}
	for sid, inc := range live {
		if h, err := b.Head(ctx, sid); err != nil || h.Inc != inc || h.Seq != 1 {
			t.Errorf("%s: %+v, %v", sid, h, err)
		}
	}
}

// Groups at random, with everything that may be wrong in them, are decided as the
// store in memory decides them, which judges batch by batch.
func TestDecidesAsMemoryDoes(t *testing.T) {
	rng := specimen.Seed(t)
	a, b, ok := pair(t, Options{})
	if !ok {
		return
	}
	mem := memory.New()
	defer mem.Close()
	class := func(err error) string {
		if err == nil {
			return ""
		}
		return string(messages.CodeOf(err)) + "/" + journal.ReasonOf(err)
	}
	type life struct{ ses *specimen.Session } // what an owner of a name believes
	lives := map[string]*life{}
	next := 0
	for round := range 120 {
		var group []journal.Batch
		for range 1 + rng.IntN(8) {
			sid := fmt.Sprintf("local:local:%d", rng.IntN(4))
			l := lives[sid]
			if l == nil || rng.IntN(12) == 0 { // a first batch, wanted or not
				next++
				l = &life{specimen.Start(t, sid, next)}
				lives[sid] = l
			}
			if rng.IntN(6) == 0 { // the owner loads again, as far as there is something
				if h, err := mem.Head(ctx, sid); err == nil {
					h.Epoch -= int64(rng.IntN(2)) * min(h.Epoch, 1)
					l.ses = specimen.Continue(t, h, nil)
				}
			}
			var batch journal.Batch
			switch rng.IntN(8) {
			case 0:
				batch = l.ses.Batch(&messages.Input{Text: "x"}, &messages.RunBegin{Input: 1})
			case 1:
				batch = l.ses.Batch(&messages.SessionClosed{})
			default:
				batch = l.ses.Notes(1 + rng.IntN(3))
			}
			switch rng.IntN(12) {
			case 0:
				batch.Records[0].Raw = nil
			case 1:
				batch.SID = "local:local:other"
				for _, r := range batch.Records {
					r.SID = batch.SID
				}
			case 2:
				group = append(group, batch) // twice
			}
			group = append(group, batch)
		}
		want := mem.Commit(group)
		got := []*Store{a, b}[rng.IntN(2)].Commit(group)
		for i := range group {
			if class(got[i]) != class(want[i]) {
				t.Fatalf("round %d, batch %d of %d (%s at %d, epoch %d): %v, and memory says %v", round, i, len(group),
					group[i].SID, group[i].ExpectSeq, group[i].Epoch, got[i], want[i])
			}
		}
		q := journal.Query{Retired: true}
		here, err := a.Sessions(ctx, q)
		there, err2 := mem.Sessions(ctx, q)
		if err != nil || err2 != nil || len(here) != len(there) {
			t.Fatalf("round %d: %d sessions, and memory has %d; %v, %v", round, len(here), len(there), err, err2)
		}
		for i := range here {
			if here[i] != there[i] {
				t.Fatalf("round %d: %+v, and memory has %+v", round, here[i], there[i])
			}
		}
	}
}

// A row that another host holds costs its own session alone, and does not stick.
func TestBusyStaysAlone(t *testing.T) {
	a, b, ok := pair(t, Options{BusyTimeout: 100 * time.Millisecond})
	if !ok {
		return
	}
	var all []*specimen.Session
	var group []journal.Batch
	for i := range 4 {
		ses := specimen.Start(t, fmt.Sprintf("local:local:%d", i), i+1)
		specimen.Must(t, a, ses.Notes(1))
		all, group = append(all, ses), append(group, ses.Notes(1))
	}
	tx, err := b.pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, statements.HeadOf+" FOR UPDATE", all[2].Inc); err != nil {
		t.Fatal(err)
	}
	for i, err := range a.Commit(group) {
		if (err != nil) != (i == 2) || i == 2 && journal.ReasonOf(err) != journal.ReasonBusy {
			t.Errorf("batch %d: %v", i, err)
		}
	}
	wantReason(t, a.Commit(group[2:3])[0], journal.ReasonBusy)
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	specimen.Must(t, a, group[2])
}

// A host that stops in the middle of a transaction does not hold its rows for ever.
func TestIdleTransactionEnds(t *testing.T) {
	a, b, ok := pair(t, Options{BusyTimeout: 10 * time.Second, StatementTimeout: time.Second}) // for a, whose own statements must not take so long on a busy machine
	if !ok {
		return
	}
	b.opts.StatementTimeout = 10 * time.Second // b may wait, a is the one that stops
	if err := b.Reopen(); err != nil {
		t.Fatal(err)
	}
	ses := specimen.Start(t, "local:local:a", 1)
	specimen.Must(t, b, ses.Notes(1))
	tx, err := a.pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, statements.HeadOf+" FOR UPDATE", ses.Inc); err != nil {
		t.Fatal(err)
	}
	specimen.Must(t, b, ses.Notes(1))
	_ = tx.Rollback(ctx) // there is nothing left to roll back
}

// A host of a cluster that stops in the middle of a transaction does not hold its rows for longer than
// its lease, whatever the options say; also on the next connection.
func TestIdleTransactionOfAHost(t *testing.T) {
	a, b, ok := pair(t, Options{BusyTimeout: 10 * time.Second})
	if !ok {
		return
	}
	ses := specimen.Start(t, "local:local:a", 1)
	specimen.Must(t, a, ses.Notes(1))
	table, err := a.Hosts()
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	const length = time.Second // a's own transactions must not be idle for as long, also on a busy machine
	for wait := length; wait > 0; time.Sleep(wait) {
		if wait, err = table.Join(ctx, lease.Host{ID: uuid.New(), Address: "a:1"}, length); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		specimen.Must(t, a, ses.Notes(1))
		tx, err := a.w.conn.Begin(ctx)
		if err == nil {
			_, err = tx.Exec(ctx, statements.HeadOf+" FOR UPDATE", ses.Inc)
		}
		if err != nil {
			t.Fatal(err)
		}
		specimen.Must(t, b, ses.Notes(1))
		if err := a.Reopen(); err != nil {
			t.Fatal(err)
		}
	}
}

// A row that cannot be there costs its own session alone.
func TestDamageStaysAlone(t *testing.T) {
	s, _, ok := pair(t, Options{})
	if !ok {
		return
	}
	var batches []journal.Batch
	for i := range 4 {
		ses := specimen.Start(t, fmt.Sprintf("local:local:%d", i), i+1)
		specimen.Must(t, s, ses.Notes(1))
		batches = append(batches, ses.Notes(2))
	}
	behind(t, s, `INSERT INTO records (session, seq, epoch, run, turn, type, ts, hash)
		SELECT id, 3, 1, 1, 1, 'note', 0, '' FROM heads WHERE sid = 'local:local:2'`)
	for i, err := range s.Commit(batches) {
		if (err != nil) != (i == 2) || i == 2 && journal.ReasonOf(err) != journal.ReasonCorrupt {
			t.Errorf("batch %d: %v", i, err)
		}
	}
	for sid, want := range map[string]int64{"local:local:3": 3, "local:local:2": 1} {
		if h, err := s.Head(ctx, sid); err != nil || h.Seq != want {
			t.Errorf("%+v, %v", h, err)
		}
	}
}

// behind changes rows behind the store's back.
func behind(t *testing.T, s *Store, sql string) {
	t.Helper()
	if _, err := s.pool.Exec(ctx, sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// What the server says of its disk is sticky until Reopen; so is nothing else.
func TestStickyFailure(t *testing.T) {
	s, other, ok := pair(t, Options{})
	if !ok {
		return
	}
	a, b := specimen.Start(t, "local:local:a", 1), specimen.Start(t, "local:local:b", 2)
	specimen.Must(t, s, a.Notes(1))
	for code, sticky := range map[string]bool{"58030": true, "53100": true, "XX000": true, "53200": false, "40001": false, "57014": false} {
		behind(t, other, `CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN RAISE EXCEPTION 'the disk is gone' USING ERRCODE = '`+code+`'; END $$`)
		behind(t, other, "CREATE TRIGGER fail BEFORE INSERT ON records EXECUTE FUNCTION fail()")
		head, err := s.Head(ctx, a.SID)
		if err != nil {
			t.Fatal(err)
		}
		lost := specimen.Continue(t, head, nil).Notes(1)
		for i, err := range s.Commit([]journal.Batch{lost, b.Notes(1)}) {
			if (journal.ReasonOf(err) == journal.ReasonIO) != sticky || err == nil {
				t.Errorf("%s: batch %d: %v", code, i, err)
			}
		}
		behind(t, other, "DROP TRIGGER fail ON records")
		behind(t, other, "DROP FUNCTION fail")
		b = specimen.Start(t, "local:local:b", 2)
		if sticky {
			wantReason(t, s.Commit([]journal.Batch{lost})[0], journal.ReasonIO)
			wantReason(t, s.PutMeta(ctx, "k", nil), journal.ReasonIO)
			_, err := s.Erase(ctx, a.Inc, 0, 0)
			wantReason(t, err, journal.ReasonIO)
			if h, err := s.Head(ctx, a.SID); err != nil || h != head {
				t.Errorf("%s: reading: %+v, %v", code, h, err)
			}
			if err := s.Reopen(); err != nil {
				t.Fatal(err)
			}
		}
		specimen.Must(t, s, lost)
	}
}

// A connection that died while it was idle is not noticed.
func TestDeadConnections(t *testing.T) {
	s, other, ok := pair(t, Options{})
	if !ok {
		return
	}
	ses := specimen.Start(t, "local:local:a", 1)
	specimen.Must(t, s, ses.Notes(1))
	kill := func() {
		t.Helper()
		if _, err := s.Head(ctx, ses.SID); err != nil { // so that the pool has one
			t.Fatal(err)
		}
		behind(t, other, `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
			WHERE application_name = 'stile' AND pid <> pg_backend_pid()`)
	}
	kill()
	specimen.Must(t, s, ses.Notes(1))
	kill()
	if _, recs, err := journal.Load(ctx, s, ses.Inc); err != nil || len(recs) != 2 {
		t.Fatal(len(recs), err)
	}
	kill()
	if err := s.PutMeta(ctx, "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
}

// The pool has a bound, and later callers wait.
func TestConnectionsAreBounded(t *testing.T) {
	u, ok := postgrestest.URL(t)
	if !ok {
		return
	}
	name := "stile-" + strings.ReplaceAll(t.Name(), "/", "-")
	s := open(t, Options{URL: postgrestest.With(t, u, "application_name", name), Schema: postgrestest.Schema(t, u), Readers: 2})
	ses := specimen.Start(t, "local:local:a", 1)
	specimen.Must(t, s, ses.Notes(300))
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, recs, err := journal.Load(ctx, s, ses.Inc); err != nil || len(recs) != 300 {
				t.Error(len(recs), err)
			}
		})
	}
	wg.Wait()
	var n int
	if err := s.pool.QueryRow(ctx, "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", name).Scan(&n); err != nil {
		t.Fatal(err)
	}
	if n < 2 || n > 3 {
		t.Errorf("%d connections; 2 read and 1 commits", n)
	}
}

// A page of a Read is bounded in bytes, and one body may be larger than a page.
func TestReadPages(t *testing.T) {
	s, _, ok := pair(t, Options{})
	if !ok {
		return
	}
	ses := specimen.Start(t, "local:local:a", 1)
	for i := range 6 {
		specimen.Must(t, s, ses.Batch(&messages.Note{Text: strings.Repeat("x", i*300<<10)}, &messages.Note{}))
	}
	var r row
	if err := r.Scan(s.pool.QueryRow(ctx, statements.HeadOf, ses.Inc)); err != nil {
		t.Fatal(err)
	}
	largest := 0
	for next := int64(1); next <= 12; {
		size, last, from := 0, 0, next
		for row, err := range (conn{ctx, s.pool}).Rows("SELECT seq + 1, octet_length(body) + 256 FROM ("+sqlPage+") page", r.ID, next, int64(journal.MaxSeq)) {
			size += last
			if err == nil {
				err = row.Scan(&next, &last)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if next == from {
			t.Fatal("an empty page")
		}
		largest = max(largest, size)
	}
	if largest >= sqlstore.PageBytes || largest < sqlstore.PageBytes/4 {
		t.Errorf("a page had %d bytes before its last record", largest)
	}
	if _, recs, err := journal.Load(ctx, s, ses.Inc); err != nil || len(recs) != 12 {
		t.Fatal(len(recs), err)
	}
}

// A group larger than one INSERT is still one transaction.
func TestLargeGroup(t *testing.T) {
	s, _, ok := pair(t, Options{})
	if !ok {
		return
	}
	var group []journal.Batch
	for i := range 5 {
		ses := specimen.Start(t, fmt.Sprintf("local:local:%d", i), i+1)
		b := ses.Batch(&messages.Note{Text: strings.Repeat("y", parcelBytes/3)})
		b.Blobs = []messages.Blob{specimen.NewBlob(strings.Repeat("b", parcelBytes/2) + fmt.Sprint(i))}
		group = append(group, b)
	}
	specimen.Must(t, s, group...)
	for i := range group {
		if _, err := s.Blob(ctx, group[i].Inc, group[i].Blobs[0].Digest); err != nil {
			t.Error(err)
		}
		if _, recs, err := journal.Load(ctx, s, group[i].Inc); err != nil || len(recs) != 1 {
			t.Error(err)
		}
	}
}

// What PostgreSQL cannot hold as text is refused or not found, typed, and alone.
func TestOddNames(t *testing.T) {
	s, _, ok := pair(t, Options{})
	if !ok {
		return
	}
	for i, sid := range []string{"a\x00b", "a\xffb", strings.Repeat("x", messages.MaxSIDBytes+1)} {
		errs := s.Commit([]journal.Batch{specimen.Start(t, sid, 100+i).Notes(1), specimen.Start(t, fmt.Sprint("ok", i), i+1).Notes(1)})
		wantReason(t, errs[0], journal.ReasonInvalid)
		if errs[1] != nil {
			t.Error(errs[1])
		}
		if _, err := s.Head(ctx, sid); !journal.IsNotFound(err) {
			t.Errorf("%q: %v", sid, err)
		}
	}
	for _, odd := range []string{"a\x00b", "a\xffb"} {
		if heads, err := s.Sessions(ctx, journal.Query{Prefix: odd}); err != nil || len(heads) != 0 {
			t.Errorf("%q: %v, %v", odd, heads, err)
		}
		_, err := s.Meta(ctx, odd)
		wantReason(t, err, journal.ReasonNotFound)
		wantReason(t, s.PutMeta(ctx, odd, nil), journal.ReasonInvalid)
	}
	wantReason(t, s.PutMeta(ctx, strings.Repeat("k", maxMetaKeyBytes+1), nil), journal.ReasonInvalid)
	// Names are compared by their bytes, whatever the database's language.
	for i, sid := range []string{"B", "a", "_", "é", "Z", "z"} {
		specimen.Must(t, s, specimen.Start(t, "order:"+sid, 200+i).Notes(1))
	}
	heads, err := s.Sessions(ctx, journal.Query{Prefix: "order:"})
	if err != nil {
		t.Fatal(err)
	}
	var order string
	for _, h := range heads {
		order += strings.TrimPrefix(h.SID, "order:")
	}
	if order != "BZ_azé" {
		t.Errorf("the order is %s", order)
	}
}

// An append that names a blob while the only other body that named it is erased:
// the blob stays, because the erasure and the append take turns.
func TestEraseBesideAppends(t *testing.T) {
	a, b, ok := pair(t, Options{})
	if !ok {
		return
	}
	for round := range 15 {
		blob := specimen.NewBlob(fmt.Sprint("shared ", round))
		ses := specimen.Start(t, fmt.Sprintf("local:local:%d", round), round+1)
		first := ses.Batch(&messages.ModelReply{Blob: blob.Digest})
		first.Blobs = []messages.Blob{blob}
		specimen.Must(t, a, first)
		again := ses.Batch(&messages.ModelReply{Blob: blob.Digest})
		again.Blobs = []messages.Blob{blob}
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := b.Erase(ctx, ses.Inc, 1, 1); err != nil {
				t.Error(err)
			}
		})
		if err := a.Commit([]journal.Batch{again})[0]; err != nil {
			t.Error(err)
		}
		wg.Wait()
		if _, err := a.Blob(ctx, ses.Inc, blob.Digest); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
}

// Changes behind the store's back are found by Load, which names the record.
func TestLoadFindsDamage(t *testing.T) {
	s, _, ok := pair(t, Options{})
	if !ok {
		return
	}
	for i, c := range []struct{ change, where string }{
		{"UPDATE records SET body = '{\"text\":\"other\"}' WHERE seq = 4", "record 4"},
		{"UPDATE records SET salt = decode(repeat('00', 16), 'hex') WHERE seq = 4", "record 4"},
		{"UPDATE records SET salt = '\\x01' WHERE seq = 4", "record 4"},
		{"UPDATE records SET epoch = 9 WHERE seq = 4", "record 4"},
		{"UPDATE records SET run = 9 WHERE seq = 4", "record 4"},
		{"UPDATE records SET ts = ts + 1 WHERE seq = 4", "record 4"},
		{"UPDATE records SET type = 'emit' WHERE seq = 4", "record 4"},
		{"UPDATE records SET hash = decode(repeat('00', 32), 'hex') WHERE seq = 4", "record 4"},
		{"UPDATE records SET hash = '\\x00' WHERE seq = 4", "record 4"},
		{"UPDATE records SET body = NULL WHERE seq = 4", "record 4"},
		{"UPDATE records SET body = NULL, salt = NULL WHERE seq = 4", "record 4"},
		{"DELETE FROM records WHERE seq = 4", "record 5"},
		{"DELETE FROM records WHERE seq = 1", "record 2"},
		{"DELETE FROM records WHERE seq = 6", "ends at 5"},
		{"DELETE FROM records", "ends at 0"},
		{"UPDATE heads SET seq = 5", "ends at 5"},
		{"UPDATE heads SET hash = decode(repeat('00', 32), 'hex')", "ends at 6"},
		{"UPDATE heads SET hash = '\\x00'", "damaged"},
		{"UPDATE heads SET epoch = 7", "summarise"},
		{"UPDATE heads SET open = true", "summarise"},
		{"UPDATE heads SET seq = -1", "damaged"},
		{"UPDATE heads SET sid = 'local:local:other'", "record 1"},
	} {
		ses := specimen.Start(t, "local:local:a", i+1)
		specimen.Must(t, s, ses.Notes(6))
		behind(t, s, c.change)
		_, recs, err := journal.Load(ctx, s, ses.Inc)
		if recs != nil || journal.ReasonOf(err) != journal.ReasonCorrupt || !strings.Contains(err.Error(), c.where) {
			t.Errorf("%s: %v", c.change, err)
		}
		for _, table := range []string{"heads", "records"} {
			behind(t, s, "DELETE FROM "+table)
		}
	}
}

func TestSnapshotDamageIsFound(t *testing.T) {
	s, _, ok := pair(t, Options{})
	if !ok {
		return
	}
	ses := specimen.Start(t, "local:local:a", 1)
	b := ses.Notes(2)
	specimen.Must(t, s, b)
	for _, change := range []string{"seq = 1", "hash = decode(repeat('00', 32), 'hex')", "hash = ''", "format = 9", "state = '\\x00'", "sum = '\\x00'"} {
		if err := s.PutSnapshot(ctx, ses.Inc, journal.Snapshot{Seq: 2, Hash: b.Records[1].Hash, Format: 1, State: []byte("state")}); err != nil {
			t.Fatal(err)
		}
		behind(t, s, "UPDATE snapshots SET "+change)
		_, err := s.Snapshot(ctx, ses.Inc)
		wantReason(t, err, journal.ReasonCorrupt)
	}
}

// A head that counts records which are not there, or an index that knows of such, is
// damage, and no reason to look for them one span after the other.
func TestRecallFindsDamage(t *testing.T) {
	s, _, ok := pair(t, Options{})
	if !ok {
		return
	}
	q := journal.RecallQuery{Owner: "t:u:", Words: []string{"gopher"}}
	for i, damage := range []string{
		"UPDATE heads SET seq = 1 << 22", "UPDATE heads SET seq = 1::bigint << 32", "UPDATE heads SET seq = 9223372036854775807",
		"UPDATE recall_marks SET seq = -1", "UPDATE recall_marks SET seq = -9223372036854775808",
	} {
		ses := specimen.Start(t, "t:u:s", i+1)
		specimen.Must(t, s, ses.Batch(&messages.Input{Text: "a gopher"}))
		if hits, err := s.Recall(ctx, q); err != nil || len(hits) != 1 {
			t.Fatalf("%d hits, %v", len(hits), err)
		}
		behind(t, s, damage)
		_, err := s.Recall(ctx, q)
		wantReason(t, err, journal.ReasonCorrupt)
		for _, table := range []string{"heads", "records", "recall", "recall_marks"} {
			behind(t, s, "DELETE FROM "+table)
		}
	}
}

// A commit that gives up on a synchronous standby is not acknowledged, although
// the server says COMMIT.
func TestUnreplicated(t *testing.T) {
	srv, ok := postgrestest.Private(t)
	if !ok {
		return
	}
	s := open(t, Options{URL: srv.URL(), Schema: "alone"})
	ses := specimen.Start(t, "local:local:a", 1)
	specimen.Must(t, s, ses.Notes(1))
	set := func(names string) {
		t.Helper()
		for _, sql := range []string{
			"ALTER SYSTEM SET synchronous_standby_names = '" + names + "'",
			"SELECT pg_reload_conf()",
		} {
			if err := postgrestest.Exec(srv.URL(), sql); err != nil && !errors.Is(err, pgx.ErrNoRows) {
				t.Fatal(err)
			}
		}
		// The server takes its time to tell its sessions; new ones begin with what it has.
		seen := errors.New("never asked")
		for n := 0; seen != nil && n < 1000; n++ {
			seen = postgrestest.Exec(srv.URL(), `DO $$ BEGIN
				IF current_setting('synchronous_standby_names') <> '`+names+`' THEN
					PERFORM pg_sleep(0.01);
					RAISE EXCEPTION 'not yet';
				END IF;
			END $$`)
		}
		if seen != nil {
			t.Fatal(seen)
		}
		if err := s.Reopen(); err != nil {
			t.Fatal(err)
		}
	}
	set("absent")
	lost := ses.Notes(1)
	impatient := make(chan error, 1)
	go func() {
		impatient <- postgrestest.Exec(srv.URL(), `DO $$ BEGIN
			FOR i IN 1..1000 LOOP
				PERFORM pg_stat_clear_snapshot();
				EXIT WHEN EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep');
				PERFORM pg_sleep(0.01);
			END LOOP;
			PERFORM pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep';
		END $$`)
	}()
	err := s.Commit([]journal.Batch{lost})[0]
	wantReason(t, err, journal.ReasonUnavailable)
	if !strings.Contains(err.Error(), "standby") {
		t.Error(err)
	}
	if err := <-impatient; err != nil {
		t.Fatal(err)
	}
	set("")
	if err := s.Commit([]journal.Batch{lost})[0]; !journal.IsStale(err) {
		t.Fatalf("it is there, and may be continued: %v", err)
	}
	specimen.Must(t, s, ses.Notes(1))
}

// The first host is alone, the second is not, and when both are gone no host attends.
// Looking is not attending, and a broken connection is made again.
func TestAttend(t *testing.T) {
	u, ok := postgrestest.URL(t)
	if !ok {
		return
	}
	name := "attends"
	opts := Options{URL: postgrestest.With(t, u, "application_name", name), Schema: postgrestest.Schema(t, u)}
	reader := open(t, Options{URL: u, Schema: opts.Schema})
	at := time.Date(2026, 11, 21, 1, 2, 3, 4, time.UTC)
	// A session that ends lets its locks go a moment after its client has gone.
	want := func(since time.Time, attended bool) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); ; {
			got, ok, err := reader.Attended()
			if err == nil && ok == attended && got.Equal(since) {
				return
			}
			if err != nil || time.Now().After(deadline) {
				t.Fatalf("attended %v since %v, %v; want %v since %v", ok, got, err, attended, since)
			}
		}
	}
	attend := func(now time.Time, alone bool) (leave func() error) {
		t.Helper()
		got, leave, err := open(t, opts).Attend(now)
		if err != nil || got != alone {
			t.Fatalf("alone %v, %v; want %v", got, err, alone)
		}
		return leave
	}
	gone := func(leave func() error) {
		t.Helper()
		for range 2 { // once is enough
			if err := leave(); err != nil {
				t.Fatal(err)
			}
		}
	}
	want(time.Time{}, false)
	one := attend(at, true)
	want(at, true)
	two := attend(at.Add(time.Hour), false)
	want(at, true)
	gone(one)
	want(at, true)
	behind(t, reader, "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = '"+name+"'")
	want(at, true) // it came again
	gone(two)
	want(time.Time{}, false)
	three := attend(at.Add(2*time.Hour), true)
	want(at.Add(2*time.Hour), true)
	gone(three)
	want(time.Time{}, false)
	other := open(t, opts)
	if alone, _, err := other.Attend(at); err != nil || !alone {
		t.Fatal(alone, err)
	}
	other.Close() // leaves, too
	want(time.Time{}, false)
	_, leave, err := other.Attend(at)
	wantReason(t, err, journal.ReasonClosed)
	gone(leave)
}

// Reading alone makes nothing, changes nothing, and needs no right but SELECT.
func TestReadOnly(t *testing.T) {
	u, ok := postgrestest.URL(t)
	if !ok {
		return
	}
	opts := Options{URL: u, Schema: postgrestest.Schema(t, u), ReadOnly: true}
	_, err := Open(ctx, opts)
	wantReason(t, err, journal.ReasonNotFound)
	_, err = Open(ctx, opts) // the first look has made nothing
	wantReason(t, err, journal.ReasonNotFound)
	full := open(t, Options{URL: u, Schema: opts.Schema})
	ses := specimen.Start(t, "local:local:a", 1)
	b := ses.Notes(3)
	b.Snapshot = &journal.Snapshot{Seq: 3, Hash: b.Records[2].Hash}
	specimen.Must(t, full, b)
	s := open(t, opts)
	if _, recs, err := journal.Load(ctx, s, ses.Inc); err != nil || len(recs) != 3 {
		t.Fatal(len(recs), err)
	}
	if _, err := s.Snapshot(ctx, ses.Inc); err != nil {
		t.Error(err)
	}
	_, made := s.Create(ctx, messages.SessionKey{Tenant: "a", User: "b", ID: "c"}, specimen.Inc(2))
	_, erased := s.Erase(ctx, ses.Inc, 0, 0)
	_, _, attended := s.Attend(time.Now())
	for i, err := range []error{
		s.Commit([]journal.Batch{ses.Notes(1)})[0], made, erased, attended, s.PutMeta(ctx, "k", nil), s.Delete(ctx, ses.Inc),
		s.PutSnapshot(ctx, ses.Inc, *b.Snapshot), s.DropSnapshot(ctx, ses.Inc),
	} {
		if journal.ReasonOf(err) != journal.ReasonReadOnly {
			t.Errorf("call %d: %v", i, err)
		}
	}
	if err := s.Reopen(); err != nil {
		t.Error(err)
	}
	if _, err := s.pool.Exec(ctx, "DELETE FROM records"); err == nil {
		t.Error("the connection takes writes")
	}
	behind(t, full, "UPDATE "+formatTable+" SET version_id = 99 WHERE version_id = 1")
	_, err = Open(ctx, opts)
	wantReason(t, err, journal.ReasonFormat)
}

// A host that attends sees when the others have gone.
func TestAlone(t *testing.T) {
	u, ok := postgrestest.URL(t)
	if !ok {
		return
	}
	schema := postgrestest.Schema(t, u)
	one, two := open(t, Options{URL: u, Schema: schema}), open(t, Options{URL: u, Schema: schema})
	want := func(s *Store, alone bool) {
		t.Helper()
		for { // a lock that is let go of is gone a moment later
			got, err := s.Alone()
			if err != nil {
				t.Fatal(err)
			}
			if got == alone {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}
	want(one, false) // it does not attend
	_, leaveOne, err := one.Attend(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	want(one, true)
	_, leaveTwo, err := two.Attend(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	want(one, false)
	want(two, false)
	if err := leaveOne(); err != nil {
		t.Fatal(err)
	}
	want(two, true)
	if err := leaveTwo(); err != nil {
		t.Fatal(err)
	}
	want(two, false)
}
