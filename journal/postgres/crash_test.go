package postgres

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed14be6753/stile/internal/groupcommit"
	"github.com/seed14be6753/stile/internal/postgrestest"
	"github.com/seed14be6753/stile/internal/specimen"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// A connection that breaks around a COMMIT costs no session anything: whether it was
// done is found out, and it is done once.
func TestBrokenAroundCommit(t *testing.T) {
	srv, ok := postgrestest.Private(t)
	if !ok {
		return
	}
	for _, c := range []struct {
		name  string
		fault fault
	}{{"request", cutRequest}, {"answer", cutAnswer}, {"ghost", ghost}} {
		t.Run(c.name, func(t *testing.T) {
			p := newProxy(t, srv.Socket())
			s := open(t, Options{URL: srv.Through(p.address()), Schema: postgrestest.Schema(t, srv.URL())})
			a, b := specimen.Start(t, "local:local:a", 1), specimen.Start(t, "local:local:b", 2)
			for range 2 { // the second finds every statement prepared
				specimen.Must(t, s, a.Notes(2), b.Notes(1))
			}
			before := p.connections()
			p.arm(c.fault)
			specimen.Must(t, s, a.Notes(2), b.Notes(1))
			if p.connections() == before {
				t.Fatal("the connection was not cut")
			}
			specimen.Must(t, s, a.Notes(2), b.Notes(1))
			for ses, want := range map[*specimen.Session]int{a: 8, b: 4} {
				if _, recs, err := journal.Load(ctx, s, ses.Inc); err != nil || len(recs) != want {
					t.Errorf("%s: %d records, %v", ses.SID, len(recs), err)
				}
			}
		})
	}
}

// A commit that broke while the server went away and stayed away is refused with
// a doubt. It does not stick: the head shows what was committed, and work goes on.
func TestDoubtIsSaid(t *testing.T) {
	srv, ok := postgrestest.Private(t)
	if !ok {
		return
	}
	p := newProxy(t, srv.Socket())
	s := open(t, Options{URL: srv.Through(p.address()), Schema: "doubt", Outage: 300 * time.Millisecond})
	ses := specimen.Start(t, "local:local:a", 1)
	for range 2 {
		specimen.Must(t, s, ses.Notes(1))
	}
	p.arm(cutAnswer)
	p.listener.Close() // a client that comes back is refused
	batch := ses.Notes(1)
	err := s.Commit([]journal.Batch{batch})[0]
	wantReason(t, err, journal.ReasonUnavailable)
	wantReason(t, s.Commit([]journal.Batch{batch})[0], journal.ReasonUnavailable)
	direct := open(t, Options{URL: srv.URL(), Schema: "doubt"})
	head, err := direct.Head(ctx, ses.SID)
	if err != nil || head.Seq != 3 || head.Hash != batch.Records[0].Hash {
		t.Fatalf("%+v, %v", head, err)
	}
	if err := direct.Commit([]journal.Batch{batch})[0]; !journal.IsStale(err) {
		t.Fatalf("the same batch again: %v", err)
	}
}

// The server is killed with all its processes while sessions append, several times.
// After each restart everything acknowledged is there, and the store goes on by
// itself.
func TestServerKilled(t *testing.T) {
	srv, ok := postgrestest.Private(t)
	if !ok {
		return
	}
	s := open(t, Options{URL: srv.URL(), Schema: "killed", Outage: 2 * time.Second})
	const sessions = 8
	var acknowledged [sessions]atomic.Int64
	for round := range 2 {
		w := groupcommit.New(s, groupcommit.Options{})
		enough := make(chan struct{})
		var once sync.Once
		var wg, under sync.WaitGroup // under way: each has appended once, or failed
		under.Add(sessions)
		for i := range sessions {
			wg.Go(func() {
				begun := sync.OnceFunc(under.Done)
				defer begun()
				sid := fmt.Sprintf("local:local:%d", i)
				head, err := w.Activate(ctx, sid)
				if journal.IsNotFound(err) {
					head, err = journal.NewHead(sid, specimen.Inc(i+1)), nil
				}
				if err != nil {
					t.Errorf("session %d, round %d: %v", i, round, err)
					return
				}
				ses := specimen.Continue(t, head, nil)
				for n := 0; ; n++ {
					b := ses.Notes(2)
					last := b.Records[1].Seq
					done := make(chan error, 1)
					w.Append(b, func(err error) { done <- err })
					if err := <-done; err != nil {
						if journal.ReasonOf(err) != journal.ReasonUnavailable {
							t.Errorf("session %d, round %d: %v", i, round, err)
						}
						return
					}
					acknowledged[i].Store(last)
					begun()
					if n == 20 {
						once.Do(func() { close(enough) })
					}
				}
			})
		}
		under.Wait()
		select {
		case <-enough:
		case <-time.After(time.Minute):
			t.Error("no session gets anywhere")
		}
		srv.Kill()
		wg.Wait()
		w.Close()
		if err := srv.Restart(); err != nil {
			t.Fatal(err)
		}
		for i := range sessions {
			head, recs, err := journal.Load(ctx, s, specimen.Inc(i+1))
			if err != nil || head.Seq < acknowledged[i].Load() || int64(len(recs)) != head.Seq || head.Seq%2 != 0 {
				t.Errorf("session %d: %d acknowledged, head %d, %v", i, acknowledged[i].Load(), head.Seq, err)
			}
		}
	}
	if err := s.writable(); err != nil {
		t.Errorf("the outages stick: %v", err)
	}
}

// A server that restarts within the patience of a commit is not noticed at all.
func TestServerRestarts(t *testing.T) {
	srv, ok := postgrestest.Private(t)
	if !ok {
		return
	}
	s := open(t, Options{URL: srv.URL(), Schema: "restarts", Outage: time.Minute})
	ses := specimen.Start(t, "local:local:a", 1)
	specimen.Must(t, s, ses.Notes(1))
	srv.Quit()
	done := make(chan error, 1)
	batch := ses.Notes(1)
	go func() { done <- s.Commit([]journal.Batch{batch})[0] }()
	if err := srv.Restart(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, recs, err := journal.Load(ctx, s, ses.Inc); err != nil || len(recs) != 2 {
		t.Fatal(len(recs), err)
	}
}

// Close does not wait for a server that is away.
func TestCloseDuringOutage(t *testing.T) {
	srv, ok := postgrestest.Private(t)
	if !ok {
		return
	}
	s := open(t, Options{URL: srv.URL(), Schema: "closing", Outage: time.Hour})
	ses := specimen.Start(t, "local:local:a", 1)
	specimen.Must(t, s, ses.Notes(1))
	srv.Quit()
	done := make(chan error, 1)
	batch := ses.Notes(1)
	go func() { done <- s.Commit([]journal.Batch{batch})[0] }()
	s.Close()
	if err := <-done; err == nil {
		t.Fatal("a commit without a server")
	}
}

// A server without all that was acknowledged takes the place of the one before. The next commit
// says it, once; and the journal goes on from what is there.
func TestLostCommits(t *testing.T) {
	server, ok := postgrestest.Private(t)
	if !ok {
		return
	}
	s := open(t, Options{URL: server.URL(), Schema: "journal"})
	one, two := specimen.Start(t, "local:local:a", 1), specimen.Start(t, "local:local:b", 2)
	specimen.Must(t, s, one.Notes(1), two.Notes(1))
	restart := func(back bool) {
		t.Helper()
		if server.Quit(); back {
			if err := server.GoBack(); err != nil {
				t.Fatal(err)
			}
		} else if err := server.Save(); err != nil {
			t.Fatal(err)
		}
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	restart(false)
	specimen.Must(t, s, two.Notes(1)) // no word of a restart that lost nothing
	restart(true)
	next := one.Notes(1)
	if err := s.Commit([]journal.Batch{next})[0]; journal.ReasonOf(err) != journal.ReasonLost || !strings.Contains(err.Error(), two.Inc.String()) {
		t.Fatalf("%v", err)
	}
	specimen.Must(t, s, next)
	if err := s.Commit([]journal.Batch{two.Notes(1)})[0]; !journal.IsStale(err) {
		t.Errorf("a session that lost records: %v", err)
	}
	// The same number of records, and the last is another one.
	head, err := s.Head(t.Context(), "local:local:b")
	if err != nil {
		t.Fatal(err)
	}
	server.Quit()
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	s.told.note(mark{head.Inc, head.Seq, messages.Digest{1}})
	if err := s.Commit([]journal.Batch{one.Notes(1)})[0]; journal.ReasonOf(err) != journal.ReasonLost {
		t.Errorf("%v", err)
	}
	var all told
	for i := range byte(3 * maxMarks) {
		all.note(mark{inc: messages.Incarnation{i % (2 * maxMarks)}, seq: int64(i)})
	}
	if m := all.marks; len(m) != maxMarks || m[maxMarks-1].seq != 3*maxMarks-1 || cap(m) > 4*maxMarks {
		t.Errorf("%d marks of %d, the last %+v", len(m), cap(m), m[len(m)-1])
	}
}
