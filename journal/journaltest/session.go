package journaltest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

func create(t *testing.T, s journal.Store) {
	key := messages.SessionKey{Tenant: "acme", User: "ann", ID: "x"}
	head, err := s.Create(ctx, key, specimen.Inc(1))
	if err != nil || head != journal.NewHead(key.SID(), specimen.Inc(1)) {
		t.Fatalf("%+v, %v", head, err)
	}
	again, err := s.Create(ctx, key, specimen.Inc(2))
	if err != nil || again != head {
		t.Fatalf("%+v, %v", again, err)
	}
	specimen.Must(t, s, specimen.Continue(t, head, nil).Notes(1))
	again, err = s.Create(ctx, key, specimen.Inc(3))
	if err != nil || again.Inc != specimen.Inc(1) || again.Seq != 1 {
		t.Fatalf("%+v, %v", again, err)
	}
	if _, err := s.Create(ctx, messages.SessionKey{Tenant: "acme", User: "bob", ID: "x"}, specimen.Inc(1)); journal.ReasonOf(err) != journal.ReasonInvalid {
		t.Fatalf("an incarnation used twice: %v", err)
	}
	if _, err := s.Create(ctx, messages.SessionKey{Tenant: "acme", User: "bob", ID: "x"}, messages.Incarnation{}); journal.ReasonOf(err) != journal.ReasonInvalid {
		t.Fatalf("no incarnation: %v", err)
	}
	if _, err := s.Create(ctx, messages.SessionKey{Tenant: "a:b", User: "bob", ID: "x"}, specimen.Inc(4)); messages.CodeOf(err) != messages.ErrInvalid {
		t.Fatalf("a bad key: %v", err)
	}
}

// firstBatchRace: two owners find no session and both begin one.
func firstBatchRace(t *testing.T, s journal.Store) {
	a, b := specimen.Start(t, "local:local:race", 1), specimen.Start(t, "local:local:race", 2)
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
	// A batch that continues a history that does not exist is stale as well.
	h := journal.NewHead("local:local:gone", specimen.Inc(3))
	h.Seq = 4
	if err := s.Commit([]journal.Batch{specimen.Continue(t, h, nil).Notes(1)})[0]; !journal.IsStale(err) {
		t.Fatal(err)
	}
}

func closedFreesTheName(t *testing.T, s journal.Store) {
	key := messages.SessionKey{Tenant: "local", User: "local", ID: "again"}
	first := specimen.Start(t, key.SID(), 1)
	specimen.Must(t, s, first.Batch(&messages.Note{Text: "x"}, &messages.SessionClosed{Reason: "done"}))
	head, err := s.Head(ctx, key.SID())
	if err != nil || !head.Closed || !head.Live {
		t.Fatalf("%+v, %v", head, err)
	}
	specimen.Must(t, s, specimen.Start(t, key.SID(), 2).Batch(&messages.SessionClosed{}))
	if head, err = s.Create(ctx, key, specimen.Inc(3)); err != nil || head.Inc != specimen.Inc(3) || head.Seq != 0 {
		t.Fatalf("%+v, %v", head, err)
	}
	for i, live := range []bool{false, false, true} {
		if h, err := s.HeadOf(ctx, specimen.Inc(i+1)); err != nil || h.Live != live {
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
	first, early := specimen.Start(t, sid, 1), specimen.Start(t, sid, 2)
	second, third := specimen.Start(t, sid, 3), specimen.Start(t, sid, 4)
	specimen.Must(t, s, first.Notes(1))
	errs := s.Commit([]journal.Batch{
		early.Notes(1), specimen.Start(t, "local:local:b", 5).Notes(1), first.Batch(&messages.SessionClosed{}),
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
		if h, recs, err := journal.Load(ctx, s, specimen.Inc(inc)); err != nil || len(recs) != n || h.Live != (inc == 4) {
			t.Errorf("incarnation %d: %+v, %d records, %v", inc, h, len(recs), err)
		}
	}
}

func summary(t *testing.T, s journal.Store) {
	ses := specimen.Start(t, "local:local:sum", 1)
	step := func(want journal.Head, bodies ...messages.Body) {
		t.Helper()
		b := ses.Batch(bodies...)
		specimen.Must(t, s, b)
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
	at := specimen.Epoch.Add(time.Hour)
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
	sessions := map[string]*specimen.Session{}
	for i, sid := range []string{"t:u:c", "t:u:a", "t:u:d", "t:u:b"} {
		ses := specimen.Start(t, sid, i+1)
		sessions[sid] = ses
		until := specimen.Epoch.Add(time.Duration(len(sid)+int(sid[4])) * time.Hour)
		specimen.Must(t, s, ses.Batch(&messages.Input{}, &messages.RunBegin{}, &messages.TurnBegin{}, &messages.TurnSuspended{Until: until.Format(time.RFC3339Nano)}))
	}
	specimen.Must(t, s, specimen.Start(t, "t:u:awake", 9).Batch(&messages.Input{}, &messages.RunBegin{}, &messages.TurnBegin{}))
	list(0, "t:u:a", "t:u:b", "t:u:c", "t:u:d")
	list(2, "t:u:a", "t:u:b")
	after = specimen.Epoch.Add(time.Duration(5+'b') * time.Hour).UnixNano()
	list(0, "t:u:c", "t:u:d")
	after--
	list(1, "t:u:b")
	after = 0
	pending, err := s.Sessions(ctx, journal.Query{Pending: true})
	if err != nil || len(pending) != 1 || pending[0].SID != "t:u:awake" {
		t.Fatalf("pending %v %v", pending, err)
	}
	specimen.Must(t, s, sessions["t:u:b"].Batch(&messages.TurnRestored{}))
	specimen.Must(t, s, sessions["t:u:a"].Batch(&messages.TurnDecided{}, &messages.RunEnd{}))
	list(0, "t:u:c", "t:u:d")
	specimen.Must(t, s, sessions["t:u:c"].Batch(&messages.TurnRestored{}, &messages.TurnSuspended{Until: specimen.Epoch.Add(9999 * time.Hour).Format(time.RFC3339Nano)}))
	list(0, "t:u:d", "t:u:c")
	for i := range 3 { // a page does not end between equals
		specimen.Must(t, s, specimen.Start(t, fmt.Sprint("t:u:same", i), 20+i).Batch(&messages.TurnSuspended{Until: "now"}))
	}
	list(1, "t:u:same0", "t:u:same1", "t:u:same2")
	after = 1
	list(0, "t:u:d", "t:u:c")
	if err := s.Delete(ctx, sessions["t:u:d"].Inc); err != nil {
		t.Fatal(err)
	}
	list(0, "t:u:c")
	specimen.Must(t, s, sessions["t:u:c"].Batch(&messages.SessionClosed{}))
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
				ses := specimen.Start(t, sid, n)
				if id == 0 {
					specimen.Must(t, s, ses.Batch(&messages.Input{}))
					want["pending"] = append(want["pending"], sid)
				} else {
					specimen.Must(t, s, ses.Notes(1))
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
	specimen.Must(t, s, specimen.Start(t, "zeta:ann:0", 1000).Batch(&messages.SessionClosed{}))
	specimen.Must(t, s, specimen.Start(t, "zeta:ann:0", 1001).Notes(1))
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
		{"none", journal.Query{Prefix: "stranger:"}},
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
