package tests

import (
	"sync"
	"testing"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/postgrestest"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/journal/postgres"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// Two hosts share a PostgreSQL database, each with a store of its own: either may
// own a session, one at a time, and a superseded owner gets an error.
func TestHostsShareADatabase(t *testing.T) {
	u, ok := postgrestest.ForTest(t)
	if !ok {
		return
	}
	schema := postgrestest.Schema(t, u)
	keys, err := stile.GenerateKeys(stile.Config{})
	if err != nil {
		t.Fatal(err)
	}
	host := func() *stile.Runtime {
		store, err := postgres.Open(t.Context(), postgres.Options{URL: u, Schema: schema})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		return start(t, stile.Config{Store: store, Keys: keys})
	}
	a := agent(says(program(`emit userdata["fields"]["text"]`, sayDone)), func(m *manifest.Manifest) { m.Loop.NoProgressN = 1000 })
	first, second := host(), host()
	old := open(t, first, "taken", a)
	wantDone(t, ask(t, old, "one"))
	fresh := open(t, second, "taken", a)
	wantDone(t, ask(t, fresh, "two"))
	_, err = old.Submit(t.Context(), "three")
	if c := messages.CodeOf(err); c != messages.ErrFenced && c != messages.ErrJournal {
		t.Fatalf("the old owner answered %v", err)
	}
	wantDone(t, ask(t, old, "four")) // it has read the head again

	// Sessions of their own do not disturb each other.
	var wg sync.WaitGroup
	for i, rt := range []*stile.Runtime{first, second} {
		for j := range 4 {
			s := open(t, rt, string(rune('a'+i))+string(rune('a'+j)), a)
			wg.Go(func() {
				for range 5 {
					run, err := s.Submit(t.Context(), "x")
					if err != nil {
						t.Error(err)
						return
					}
					if d, err := run.Decision(t.Context()); err != nil || d.Decision != stile.Done {
						t.Errorf("%+v, %v", d, err)
					}
				}
			})
		}
	}
	wg.Wait()
	ar := second.Archive()
	n := 0
	for h, err := range ar.Sessions(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		n++
		if rep, err := ar.Verify(t.Context(), h.Inc, stile.VerifyOptions{Receipts: journal.ReceiptsDecision}); err != nil || !rep.OK() {
			t.Errorf("%s: %+v, %v", h.SID, rep, err)
		}
	}
	if n != 9 {
		t.Errorf("%d sessions", n)
	}
}
