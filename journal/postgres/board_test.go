package postgres

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed14be6753/stile/internal/board"
	"github.com/seed14be6753/stile/internal/board/boardtest"
	"github.com/seed14be6753/stile/internal/lease"
	"github.com/seed14be6753/stile/internal/postgrestest"
)

func TestBoard(t *testing.T) {
	u, ok := postgrestest.URL(t)
	if !ok {
		return
	}
	s := open(t, Options{URL: u, Schema: postgrestest.Schema(t, u)})
	p, err := s.Board()
	if err != nil {
		t.Fatal(err)
	}
	boardtest.Run(t, p)
}

// The clock of a board is the database's from the first answer on, to readers and to watchers, where there
// is no note, too.
func TestBoardNow(t *testing.T) {
	u, ok := postgrestest.URL(t)
	if !ok {
		return
	}
	s := open(t, Options{URL: u, Schema: postgrestest.Schema(t, u)})
	p, err := s.Board()
	if err != nil {
		t.Fatal(err)
	}
	n := p.(*notes)
	clock := func() lease.Clock {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.clock
	}
	none := clock()
	if _, _, _, err := p.Read(t.Context(), board.Keys, 0); err != nil {
		t.Fatal(err)
	}
	first := clock()
	if d := time.Until(p.Now()).Abs(); first == none || d > time.Minute {
		t.Errorf("behind a look the clock is %+v, and away from this machine's, which is the database's, by %s", first, d)
	}
	told := make(chan lease.Clock, 100)
	defer p.Watch(board.Keys, func(context.Context, time.Time, int64, bool) { told <- clock() })()
	if got := <-told; got == first {
		t.Error("a watch does not read the clock")
	}
}

// A host is told of what another one changes, also when its connection broke meanwhile; and is
// not told any more when it does not want to be.
func TestBoardWatch(t *testing.T) {
	u, ok := postgrestest.URL(t)
	if !ok {
		return
	}
	schema := postgrestest.Schema(t, u)
	a, b := open(t, Options{URL: u, Schema: schema}), open(t, Options{URL: postgrestest.With(t, u, "application_name", schema), Schema: schema})
	from, err := a.Board()
	if err != nil {
		t.Fatal(err)
	}
	to, err := b.Board()
	if err != nil {
		t.Fatal(err)
	}
	type told struct {
		version int64
		lost    bool
	}
	all := make(chan told, 100)
	var others atomic.Int64
	stop := to.Watch(board.Keys, func(_ context.Context, _ time.Time, version int64, lost bool) { all <- told{version, lost} })
	none := to.Watch(board.Tokens, func(_ context.Context, _ time.Time, version int64, _ bool) { others.Add(version) })
	until := func(what string, is func(told) bool) {
		t.Helper()
		for deadline := time.After(time.Minute); ; {
			select {
			case got := <-all:
				if is(got) {
					return
				}
			case <-deadline:
				t.Fatalf("it is not told: %s", what)
			}
		}
	}
	change := func() {
		t.Helper()
		err := from.Change(t.Context(), board.Keys, func([]board.Note) ([]board.Note, []string, error) {
			return []board.Note{{ID: "k", Body: []byte("b"), Seal: []byte("s")}}, nil, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	until("the beginning", func(got told) bool { return got == told{0, false} })
	change()
	until("a change", func(got told) bool { return got == told{1, false} })
	if err := postgrestest.Exec(u, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '"+schema+"'"); err != nil {
		t.Fatal(err)
	}
	until("a gap", func(got told) bool { return got.lost })
	change()
	until("a change behind it", func(got told) bool { return got == told{2, false} })
	stop()
	for len(all) > 0 {
		<-all
	}
	change()
	none()
	if len(all) != 0 || others.Load() != 0 {
		t.Errorf("%d calls after the end, and versions of another kind: %d", len(all), others.Load())
	}
}
