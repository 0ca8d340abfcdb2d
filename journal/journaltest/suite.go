// Package journaltest is the conformance suite of journal stores: what every
// store must do, told by doing it. Its generators serve other tests too.
package journaltest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// Run checks a store. open makes an empty one each time; the suite closes it.
func Run(t *testing.T, open func(t *testing.T) journal.Store) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, s journal.Store)
	}{
		{"CommitAndRead", commitAndRead},
		{"EveryBody", everyBody},
		{"Fence", fence},
		{"RefusalStaysAlone", refusalStaysAlone},
		{"Pipelined", pipelined},
		{"Malformed", malformed},
		{"Create", create},
		{"FirstBatchRace", firstBatchRace},
		{"ClosedFreesTheName", closedFreesTheName},
		{"NameChangesHands", nameChangesHands},
		{"Summary", summary},
		{"Listing", listing},
		{"Wakes", wakes},
		{"ReadRanges", readRanges},
		{"Blobs", blobs},
		{"Snapshots", snapshots},
		{"EraseAll", eraseAll},
		{"ErasePart", erasePart},
		{"Delete", remove},
		{"Recall", recall},
		{"RecallOrder", recallOrder},
		{"Meta", meta},
		{"TwoOwners", twoOwners},
		{"ReadersBesideWriter", readersBesideWriter},
		{"LoadAfterSnapshot", loadAfterSnapshot},
		{"Cancelled", cancelled},
		{"Closed", closed},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			defer func() {
				if err := s.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			}()
			c.run(t, s)
		})
	}
}

var ctx = context.Background()

// Must commits batches that have to be accepted.
func Must(t testing.TB, s journal.Store, batches ...journal.Batch) {
	t.Helper()
	for i, err := range s.Commit(batches) {
		if err != nil {
			t.Fatalf("batch %d: %v", i, err)
		}
	}
}

func collect(t testing.TB, seq iter.Seq2[*messages.Record, error]) []*messages.Record {
	t.Helper()
	var recs []*messages.Record
	for r, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		own := *r
		if own.Raw != nil {
			if err := journal.Decode(&own); err != nil {
				t.Fatal(err)
			}
		}
		recs = append(recs, &own)
	}
	return recs
}

func wantReason(t testing.TB, err error, reason string) {
	t.Helper()
	if journal.ReasonOf(err) != reason {
		t.Fatalf("got %v, want reason %s", err, reason)
	}
}

func commitAndRead(t *testing.T, s journal.Store) {
	ses := Start(t, "local:local:a", 1)
	one := ses.Batch(&messages.SessionOpened{Dialect: "aeiou", Incarnation: ses.Inc.String()}, &messages.Input{Text: "hello", User: "u", Policy: messages.Reject})
	two := ses.Notes(3)
	Must(t, s, one)
	Must(t, s, two)
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
	if _, err := s.HeadOf(ctx, Inc(99)); !journal.IsNotFound(err) {
		t.Fatalf("an unknown incarnation: %v", err)
	}
	for _, err := range s.Read(ctx, Inc(99), 0, 0) {
		if !journal.IsNotFound(err) {
			t.Fatalf("reading an unknown incarnation: %v", err)
		}
	}
}

func everyBody(t *testing.T, s journal.Store) {
	rng := Seed(t)
	ses := Start(t, "local:local:bodies", 1)
	var want []*messages.Record
	for range 4 {
		var bodies []messages.Body
		for _, b := range Bodies() {
			if b.Kind() == messages.KindSessionClosed {
				continue
			}
			Fill(rng, b)
			bodies = append(bodies, b)
		}
		b := ses.Batch(bodies...)
		for _, r := range b.Records {
			if rng.IntN(3) == 0 {
				r.Sig = &messages.Receipt{KID: "k" + Text(rng, 3), Sig: []byte(Text(rng, 64) + "s")}
			}
		}
		Must(t, s, b)
		want = append(want, b.Records...)
	}
	if d := cmp.Diff(want, collect(t, s.Read(ctx, ses.Inc, 0, 0))); d != "" {
		t.Fatal(d)
	}
	if rep := journal.Verify(s.Read(ctx, ses.Inc, 0, 0), journal.VerifyOptions{}); !rep.OK() || rep.Records != int64(len(want)) {
		t.Fatalf("%+v", rep)
	}
}

// fence is the table of design.md §7.
func fence(t *testing.T, s journal.Store) {
	ses := Start(t, "local:local:fence", 1)
	Must(t, s, ses.Notes(3))
	head, err := s.Head(ctx, ses.SID)
	if err != nil {
		t.Fatal(err)
	}
	head.Epoch = 4
	second := Continue(t, head, nil) // epoch 5
	Must(t, s, second.Notes(1))
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
		err := s.Commit([]journal.Batch{Continue(t, c.at, nil).Notes(1)})[0]
		if journal.IsFenced(err) != c.fenced || journal.IsStale(err) != c.stale || (err != nil) != (c.fenced || c.stale) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if head, err = s.Head(ctx, ses.SID); err != nil || head.Seq != 5 || head.Epoch != 5 {
		t.Fatalf("head %+v, %v", head, err)
	}
	Must(t, s, Continue(t, head, nil).Notes(2))
	if _, recs, err := journal.Load(ctx, s, ses.Inc); err != nil || len(recs) != 7 {
		t.Fatalf("%d records, %v", len(recs), err)
	}
}

func refusalStaysAlone(t *testing.T, s journal.Store) {
	var batches []journal.Batch
	var sessions []*Session
	for i := range 8 {
		ses := Start(t, fmt.Sprintf("local:local:s%d", i), i+1)
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
	ses := Start(t, "local:local:pipe", 1)
	batches := []journal.Batch{ses.Notes(2), ses.Notes(1), ses.Notes(3)}
	Must(t, s, batches...)
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
	Must(t, s, Start(t, "local:local:taken", 7).Notes(1))
	for name, change := range map[string]func(b *journal.Batch){
		"no session":          func(b *journal.Batch) { b.SID = "" },
		"no incarnation":      func(b *journal.Batch) { b.Inc = messages.Incarnation{} },
		"another incarnation": func(b *journal.Batch) { b.Inc = Inc(2) },
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
			b.Inc = Inc(7)
			for _, r := range b.Records {
				r.Inc = b.Inc
			}
		},
	} {
		b := Start(t, "local:local:m", 1).Notes(2)
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

func create(t *testing.T, s journal.Store) {
	key := messages.SessionKey{Tenant: "acme", User: "ann", ID: "x"}
	head, err := s.Create(ctx, key, Inc(1))
	if err != nil || head != journal.NewHead(key.SID(), Inc(1)) {
		t.Fatalf("%+v, %v", head, err)
	}
	again, err := s.Create(ctx, key, Inc(2))
	if err != nil || again != head {
		t.Fatalf("%+v, %v", again, err)
	}
	Must(t, s, Continue(t, head, nil).Notes(1))
	again, err = s.Create(ctx, key, Inc(3))
	if err != nil || again.Inc != Inc(1) || again.Seq != 1 {
		t.Fatalf("%+v, %v", again, err)
	}
	if _, err := s.Create(ctx, messages.SessionKey{Tenant: "acme", User: "bob", ID: "x"}, Inc(1)); journal.ReasonOf(err) != journal.ReasonInvalid {
		t.Fatalf("an incarnation used twice: %v", err)
	}
	if _, err := s.Create(ctx, messages.SessionKey{Tenant: "acme", User: "bob", ID: "x"}, messages.Incarnation{}); journal.ReasonOf(err) != journal.ReasonInvalid {
		t.Fatalf("no incarnation: %v", err)
	}
	if _, err := s.Create(ctx, messages.SessionKey{Tenant: "a:b", User: "bob", ID: "x"}, Inc(4)); messages.CodeOf(err) != messages.ErrConfig {
		t.Fatalf("a bad key: %v", err)
	}
}

// firstBatchRace: two owners find no session and both begin one.
func firstBatchRace(t *testing.T, s journal.Store) {
	a, b := Start(t, "local:local:race", 1), Start(t, "local:local:race", 2)
	errs := s.Commit([]journal.Batch{a.Notes(1), b.Notes(1)})
	if errs[0] != nil || !journal.IsStale(errs[1]) {
		t.Fatalf("%v", errs)
	}
	if head, err := s.Head(ctx, a.SID); err != nil || head.Inc != a.Inc {
		t.Fatalf("%+v, %v", head, err)
	}
	if _, err := s.HeadOf(ctx, b.Inc); !journal.IsNotFound(err) {
		t.Fatalf("the loser left something: %v", err)
	}
	// A batch that continues a history nobody has is stale as well.
	h := journal.NewHead("local:local:gone", Inc(3))
	h.Seq = 4
	if err := s.Commit([]journal.Batch{Continue(t, h, nil).Notes(1)})[0]; !journal.IsStale(err) {
		t.Fatal(err)
	}
}

func closedFreesTheName(t *testing.T, s journal.Store) {
	key := messages.SessionKey{Tenant: "local", User: "local", ID: "again"}
	first := Start(t, key.SID(), 1)
	Must(t, s, first.Batch(&messages.Note{Text: "x"}, &messages.SessionClosed{Reason: "done"}))
	head, err := s.Head(ctx, key.SID())
	if err != nil || !head.Closed || !head.Live {
		t.Fatalf("%+v, %v", head, err)
	}
	Must(t, s, Start(t, key.SID(), 2).Batch(&messages.SessionClosed{}))
	if head, err = s.Create(ctx, key, Inc(3)); err != nil || head.Inc != Inc(3) || head.Seq != 0 {
		t.Fatalf("%+v, %v", head, err)
	}
	for i, live := range []bool{false, false, true} {
		if h, err := s.HeadOf(ctx, Inc(i+1)); err != nil || h.Live != live {
			t.Errorf("incarnation %d: %+v, %v", i+1, h, err)
		}
	}
	if _, recs, err := journal.Load(ctx, s, first.Inc); err != nil || len(recs) != 2 {
		t.Errorf("the retired history: %v", err)
	}
}

// nameChangesHands: in one group a name may go from one incarnation to the next.
// Batches are decided in order, so who comes before the close is refused and who comes
// after it is not.
func nameChangesHands(t *testing.T, s journal.Store) {
	const sid = "local:local:a"
	first, early := Start(t, sid, 1), Start(t, sid, 2)
	second, third := Start(t, sid, 3), Start(t, sid, 4)
	Must(t, s, first.Notes(1))
	errs := s.Commit([]journal.Batch{
		early.Notes(1), Start(t, "local:local:b", 5).Notes(1), first.Batch(&messages.SessionClosed{}),
		second.Batch(&messages.SessionClosed{}), third.Notes(1), second.Notes(1),
	})
	for i, err := range errs {
		if i == 0 && !journal.IsStale(err) || i > 0 && err != nil {
			t.Errorf("batch %d: %v", i, err)
		}
	}
	if h, err := s.Head(ctx, sid); err != nil || h.Inc != third.Inc {
		t.Errorf("%+v, %v", h, err)
	}
	for inc, n := range map[int]int{1: 2, 3: 2, 4: 1} {
		if h, recs, err := journal.Load(ctx, s, Inc(inc)); err != nil || len(recs) != n || h.Live != (inc == 4) {
			t.Errorf("incarnation %d: %+v, %d records, %v", inc, h, len(recs), err)
		}
	}
}

func summary(t *testing.T, s journal.Store) {
	ses := Start(t, "local:local:sum", 1)
	step := func(want journal.Head, bodies ...messages.Body) {
		t.Helper()
		b := ses.Batch(bodies...)
		Must(t, s, b)
		got, err := s.Head(ctx, ses.SID)
		if err != nil {
			t.Fatal(err)
		}
		want.SID, want.Inc, want.Live, want.Epoch = ses.SID, ses.Inc, true, 1
		want.Seq, want.Hash = got.Seq, ses.Sealer.Head().Hash
		if got != want {
			t.Fatalf("%+v, want %+v", got, want)
		}
		if got.Pending() != ((want.Open || want.Queued > 0) && want.Wake == 0) || got.Suspended() != (want.Wake != 0) {
			t.Fatalf("pending %v", got.Pending())
		}
	}
	step(journal.Head{Queued: 2}, &messages.SessionOpened{}, &messages.Input{}, &messages.Input{})
	step(journal.Head{Queued: 1, Open: true, Run: 1}, &messages.RunBegin{Input: 2})
	step(journal.Head{Queued: 1, Open: true, Run: 1, Turn: 1}, &messages.TurnBegin{}, &messages.TurnDecided{})
	at := Epoch.Add(time.Hour)
	suspended := &messages.TurnSuspended{Until: at.Format(time.RFC3339Nano), Waiting: []string{"#1"}}
	step(journal.Head{Queued: 1, Open: true, Run: 1, Turn: 1, Wake: at.UnixNano()}, &messages.TurnBegin{}, suspended)
	step(journal.Head{Queued: 2, Open: true, Run: 1, Turn: 1, Wake: at.UnixNano()}, &messages.Input{})
	step(journal.Head{Queued: 2, Open: true, Run: 1, Turn: 1}, &messages.TurnRestored{})
	step(journal.Head{Queued: 2, Open: true, Run: 1, Turn: 1, Wake: 1}, &messages.TurnSuspended{Until: "never"})
	step(journal.Head{Queued: 2, Open: true, Run: 1, Turn: 1}, &messages.TurnDecided{})
	step(journal.Head{Queued: 2, Run: 1, Turn: 1}, &messages.RunEnd{})
	step(journal.Head{Queued: 1, Open: true, Run: 1, Turn: 1}, &messages.RunBegin{Input: 3})
	step(journal.Head{Run: 1, Turn: 1, Closed: true}, &messages.SessionClosed{})
}

// wakes: suspended sessions in the order of their time, until they go on or are gone.
func wakes(t *testing.T, s journal.Store) {
	after := int64(0)
	list := func(limit int, want ...string) {
		t.Helper()
		heads, err := s.Wakes(ctx, after, limit)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		last := int64(0)
		for _, h := range heads {
			if h.Wake < last || !h.Suspended() {
				t.Errorf("%s wakes at %d, after %d", h.SID, h.Wake, last)
			}
			got, last = append(got, h.SID), h.Wake
		}
		if !slices.Equal(got, want) {
			t.Fatalf("wakes %v, want %v", got, want)
		}
	}
	list(0)
	sessions := map[string]*Session{}
	for i, sid := range []string{"t:u:c", "t:u:a", "t:u:d", "t:u:b"} {
		ses := Start(t, sid, i+1)
		sessions[sid] = ses
		until := Epoch.Add(time.Duration(len(sid)+int(sid[4])) * time.Hour)
		Must(t, s, ses.Batch(&messages.Input{}, &messages.RunBegin{}, &messages.TurnBegin{}, &messages.TurnSuspended{Until: until.Format(time.RFC3339Nano)}))
	}
	Must(t, s, Start(t, "t:u:awake", 9).Batch(&messages.Input{}, &messages.RunBegin{}, &messages.TurnBegin{}))
	list(0, "t:u:a", "t:u:b", "t:u:c", "t:u:d")
	list(2, "t:u:a", "t:u:b")
	after = Epoch.Add(time.Duration(5+'b') * time.Hour).UnixNano()
	list(0, "t:u:c", "t:u:d")
	after--
	list(1, "t:u:b")
	after = 0
	pending, err := s.Sessions(ctx, journal.Query{Pending: true})
	if err != nil || len(pending) != 1 || pending[0].SID != "t:u:awake" {
		t.Fatalf("pending %v %v", pending, err)
	}
	Must(t, s, sessions["t:u:b"].Batch(&messages.TurnRestored{}))
	Must(t, s, sessions["t:u:a"].Batch(&messages.TurnDecided{}, &messages.RunEnd{}))
	list(0, "t:u:c", "t:u:d")
	Must(t, s, sessions["t:u:c"].Batch(&messages.TurnRestored{}, &messages.TurnSuspended{Until: Epoch.Add(9999 * time.Hour).Format(time.RFC3339Nano)}))
	list(0, "t:u:d", "t:u:c")
	for i := range 3 { // a page does not end between equals
		Must(t, s, Start(t, fmt.Sprint("t:u:same", i), 20+i).Batch(&messages.TurnSuspended{Until: "now"}))
	}
	list(1, "t:u:same0", "t:u:same1", "t:u:same2")
	after = 1
	list(0, "t:u:d", "t:u:c")
	if err := s.Delete(ctx, sessions["t:u:d"].Inc); err != nil {
		t.Fatal(err)
	}
	list(0, "t:u:c")
	Must(t, s, sessions["t:u:c"].Batch(&messages.SessionClosed{}))
	list(0)
}

func listing(t *testing.T, s journal.Store) {
	want := map[string][]string{}
	n := 0
	for _, tenant := range []string{"acme2", "acme", "beta"} {
		for _, user := range []string{"ann", "bob"} {
			for id := range 5 {
				n++
				sid := fmt.Sprintf("%s:%s:%d", tenant, user, id)
				ses := Start(t, sid, n)
				if id == 0 {
					Must(t, s, ses.Batch(&messages.Input{}))
					want["pending"] = append(want["pending"], sid)
				} else {
					Must(t, s, ses.Notes(1))
				}
				want["all"] = append(want["all"], sid)
				if tenant == "acme" {
					want["acme:"] = append(want["acme:"], sid)
					if user == "bob" {
						want["acme:bob:"] = append(want["acme:bob:"], sid)
					}
				}
			}
		}
	}
	Must(t, s, Start(t, "zeta:ann:0", 1000).Batch(&messages.SessionClosed{}))
	Must(t, s, Start(t, "zeta:ann:0", 1001).Notes(1))
	want["all"] = append(want["all"], "zeta:ann:0")
	want["zeta:"] = []string{"zeta:ann:0", "zeta:ann:0"}
	for _, c := range []struct {
		name string
		q    journal.Query
	}{
		{"all", journal.Query{}},
		{"all", journal.Query{Limit: 1}},
		{"all", journal.Query{Limit: 7}},
		{"acme:", journal.Query{Prefix: "acme:", Limit: 3}},
		{"acme:bob:", journal.Query{Prefix: "acme:bob:"}},
		{"pending", journal.Query{Pending: true, Limit: 2}},
		{"zeta:", journal.Query{Prefix: "zeta:", Retired: true, Limit: 1}},
		{"none", journal.Query{Prefix: "nobody:"}},
	} {
		var got []string
		q := c.q
		for {
			page, err := s.Sessions(ctx, q)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) > q.Page() {
				t.Fatalf("%s: a page of %d", c.name, len(page))
			}
			for _, h := range page {
				got = append(got, h.SID)
			}
			if len(page) < q.Page() {
				break
			}
			q.AfterSID, q.AfterInc = page[len(page)-1].SID, page[len(page)-1].Inc
		}
		if d := cmp.Diff(want[c.name], got); d != "" {
			t.Errorf("%s %+v: %s", c.name, c.q, d)
		}
	}
}

func readRanges(t *testing.T, s journal.Store) {
	ses := Start(t, "local:local:long", 1)
	var hashes []messages.Digest
	for range 20 {
		b := ses.Notes(37)
		Must(t, s, b)
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
	for range s.Read(ctx, ses.Inc, 0, 0) {
		if seen++; seen == 3 {
			break
		}
	}
	if seen != 3 {
		t.Fatal("a loop that ends early")
	}
}

func blobs(t *testing.T, s journal.Store) {
	a, b := Start(t, "local:local:a", 1), Start(t, "local:local:b", 2)
	one, two, empty := NewBlob("one"), NewBlob("two"), NewBlob("")
	ba, bb := a.Notes(1), b.Notes(1)
	ba.Blobs = []messages.Blob{one, two, one, empty}
	bb.Blobs = []messages.Blob{two, {Digest: one.Digest, Data: []byte("not one")}}
	Must(t, s, ba, bb)
	again := a.Notes(1)
	again.Blobs = []messages.Blob{two, {Digest: one.Digest, Data: []byte("changed")}}
	Must(t, s, again) // what is stored stays
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
	_, err = s.Blob(ctx, Inc(9), one.Digest)
	wantReason(t, err, journal.ReasonNotFound)
}

func snapshots(t *testing.T, s journal.Store) {
	ses := Start(t, "local:local:snap", 1)
	_, err := s.Snapshot(ctx, ses.Inc)
	wantReason(t, err, journal.ReasonNotFound)
	b := ses.Notes(3)
	b.Snapshot = &journal.Snapshot{Seq: 2, Hash: b.Records[1].Hash, Format: 3, State: []byte("state")}
	Must(t, s, b)
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
	wantReason(t, s.PutSnapshot(ctx, Inc(9), next), journal.ReasonNotFound)
	for range 2 {
		if err := s.DropSnapshot(ctx, ses.Inc); err != nil {
			t.Fatal(err)
		}
	}
	_, err = s.Snapshot(ctx, ses.Inc)
	wantReason(t, err, journal.ReasonNotFound)
	wantReason(t, s.DropSnapshot(ctx, Inc(9)), journal.ReasonNotFound)
}

func eraseAll(t *testing.T, s journal.Store) {
	ses := Start(t, "local:local:erase", 1)
	blob := NewBlob("reply")
	b := ses.Batch(&messages.SessionOpened{}, &messages.ModelReply{Blob: blob.Digest}, &messages.TurnDecided{})
	b.Blobs = []messages.Blob{blob, NewBlob("nobody names it")}
	b.Snapshot = &journal.Snapshot{Seq: 3, Hash: b.Records[2].Hash, State: []byte("x")}
	Must(t, s, b)
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
	if !rep.OK() || cmp.Diff([]journal.Span{{From: 1, To: 3}}, rep.Erased) != "" {
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
	Must(t, s, ses.Notes(1)) // the chain goes on
	_, err = s.Erase(ctx, Inc(9), 0, 0)
	wantReason(t, err, journal.ReasonNotFound)
}

func erasePart(t *testing.T, s journal.Store) {
	ses := Start(t, "local:local:part", 1)
	gone, shared, other, fed, said := NewBlob("gone"), NewBlob("shared"), NewBlob("nobody names it"), NewBlob("of a feed"), NewBlob("said again")
	b := ses.Batch(&messages.ModelReply{Blob: gone.Digest}, &messages.TurnDecided{Output: shared.Digest, Scratch: fed.Digest, Minted: said.Digest},
		&messages.FeedInjected{ID: "f", Digest: fed.Digest}, &messages.TurnDecided{Minted: shared.Digest}, &messages.ModelReply{Blob: said.Digest})
	b.Blobs = []messages.Blob{gone, shared, other, fed, said}
	Must(t, s, b)
	if n, err := s.Erase(ctx, ses.Inc, 1, 2); err != nil || n != 2 {
		t.Fatalf("%d, %v", n, err)
	}
	_, err := s.Blob(ctx, ses.Inc, gone.Digest)
	wantReason(t, err, journal.ReasonNotFound)
	for _, b := range []messages.Blob{shared, other, fed, said} {
		if _, err := s.Blob(ctx, ses.Inc, b.Digest); err != nil {
			t.Error(err)
		}
	}
	rep := journal.Verify(s.Read(ctx, ses.Inc, 0, 0), journal.VerifyOptions{})
	if !rep.OK() || rep.Records != 5 || cmp.Diff([]journal.Span{{From: 1, To: 2}}, rep.Erased) != "" {
		t.Fatalf("%+v", rep)
	}
	_, recs, err := journal.LoadAfter(ctx, s, ses.Inc, journal.Anchor{Seq: 2, Hash: b.Records[1].Hash})
	if err != nil || len(recs) != 3 {
		t.Fatalf("what follows the erased part: %v", err)
	}
}

func remove(t *testing.T, s journal.Store) {
	a, b := Start(t, "local:local:a", 1), Start(t, "local:local:b", 2)
	ba := a.Notes(2)
	ba.Blobs = []messages.Blob{NewBlob("x")}
	Must(t, s, ba, b.Notes(2))
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
	Must(t, s, Start(t, a.SID, 3).Notes(1))
	if _, recs, err := journal.Load(ctx, s, Inc(3)); err != nil || len(recs) != 1 {
		t.Fatalf("%d records, %v", len(recs), err)
	}
	if _, recs, err := journal.Load(ctx, s, b.Inc); err != nil || len(recs) != 2 {
		t.Fatalf("the other session: %v", err)
	}
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

// twoOwners lets owners interleave at random. Each appends with what it believes;
// one that is refused loads again. Whatever the order, the history is one chain,
// and of two owners of one head exactly one wins.
func twoOwners(t *testing.T, s journal.Store) {
	rng := Seed(t)
	for round := range 6 {
		sid := fmt.Sprintf("local:local:owned%d", round)
		first := Start(t, sid, round*10+1)
		Must(t, s, first.Notes(1))
		owners := make([]*Session, 3)
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
				owners[i] = Continue(t, head, nil)
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
	ses := Start(t, "local:local:busy", 1)
	Must(t, s, ses.Notes(1))
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
		Must(t, s, ses.Notes(2))
	}
	close(stop)
	wg.Wait()
}

func loadAfterSnapshot(t *testing.T, s journal.Store) {
	ses := Start(t, "local:local:tail", 1)
	for range 4 {
		Must(t, s, ses.Notes(5))
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
	_, _, err = journal.LoadAfter(ctx, s, Inc(9), journal.Anchor{})
	wantReason(t, err, journal.ReasonNotFound)
}

var errGone = errors.New("the caller went away")

func cancelled(t *testing.T, s journal.Store) {
	ses := Start(t, "local:local:c", 1)
	Must(t, s, ses.Notes(1))
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errGone)
	_, head := s.Head(ctx, ses.SID)
	_, _, load := journal.Load(ctx, s, ses.Inc)
	_, list := s.Sessions(ctx, journal.Query{})
	_, erase := s.Erase(ctx, ses.Inc, 0, 0)
	var read error
	for _, read = range s.Read(ctx, ses.Inc, 0, 0) {
	}
	for i, err := range []error{head, load, list, erase, read, s.PutMeta(ctx, "k", nil), s.Delete(ctx, ses.Inc)} {
		if !errors.Is(err, errGone) {
			t.Errorf("call %d: %v", i, err)
		}
	}
}

func closed(t *testing.T, s journal.Store) {
	ses := Start(t, "local:local:c", 1)
	Must(t, s, ses.Notes(1))
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, head := s.Head(ctx, ses.SID)
	_, of := s.HeadOf(ctx, ses.Inc)
	_, list := s.Sessions(ctx, journal.Query{})
	_, erase := s.Erase(ctx, ses.Inc, 0, 0)
	_, blob := s.Blob(ctx, ses.Inc, messages.Digest{})
	_, snap := s.Snapshot(ctx, ses.Inc)
	_, get := s.Meta(ctx, "k")
	_, made := s.Create(ctx, messages.SessionKey{Tenant: "a", User: "b", ID: "c"}, Inc(2))
	var read error
	for _, read = range s.Read(ctx, ses.Inc, 0, 0) {
	}
	for i, err := range []error{
		head, of, list, erase, blob, snap, get, made, read, s.PutMeta(ctx, "k", nil), s.Delete(ctx, ses.Inc),
		s.DropSnapshot(ctx, ses.Inc), s.PutSnapshot(ctx, ses.Inc, journal.Snapshot{}), s.Reopen(), s.Commit([]journal.Batch{ses.Notes(1)})[0],
	} {
		if journal.ReasonOf(err) != journal.ReasonClosed {
			t.Errorf("call %d: %v", i, err)
		}
	}
}
