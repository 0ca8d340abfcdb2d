package postgres

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed14be6753/stile/internal/lease"
	"github.com/seed14be6753/stile/internal/postgrestest"
	"github.com/seed14be6753/stile/internal/share"
)

// sharers are hosts with leases on a database of their own.
func sharers(t *testing.T, n int) (*hosts, []uuid.UUID) {
	t.Helper()
	u, ok := postgrestest.URL(t)
	if !ok {
		return nil, nil
	}
	s := open(t, Options{URL: u, Schema: postgrestest.Schema(t, u)})
	table, err := s.Hosts()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(table.Close)
	var ids []uuid.UUID
	for i := range n {
		ids = append(ids, uuid.New())
		if _, err := table.Join(t.Context(), lease.Host{ID: ids[i], Address: string(rune('a'+i)) + ":1", Version: "v"}, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	return table.(*hosts), ids
}

// The parts of hosts are never more than the limit; what a host gives up another one gets, as what
// a dead one had; what was used on a day stays, and is counted once however often it is said.
func TestShares(t *testing.T) {
	table, ids := sharers(t, 3)
	if table == nil {
		return
	}
	ctx := t.Context()
	a, b, c := ids[0], ids[1], ids[2]
	turn := int64(0)
	ask := func(host uuid.UUID, day string, limit, used, held, want int64) share.Share {
		t.Helper()
		kind := share.Runs
		if day != "" {
			kind = share.Tokens
		}
		turn++
		got, err := table.Share(ctx, host, turn, []share.Ask{{Name: share.Name{Tenant: "acme", Kind: kind, Day: day}, Limit: limit, Used: used, Held: held, Want: want}})
		if err != nil || len(got) != 1 {
			t.Fatalf("%+v, %v", got, err)
		}
		return got[0]
	}
	if got := ask(a, "", 10, 0, 0, 4); got.Held != 0 || got.Others != 0 {
		t.Errorf("before the limit has a version a host has %+v", got)
	}
	for _, step := range []struct {
		name             string
		host             uuid.UUID
		used, held, want int64
		has, elsewhere   int64
	}{
		{"what is free", a, 0, 0, 4, 4, 0},
		{"beside another", b, 0, 0, 4, 4, 4},
		{"what is left", c, 0, 0, 4, 2, 8},
		{"nothing is free", a, 4, 4, 9, 4, 6},
		{"given up", b, 1, 1, 1, 1, 6},
		{"what was given up", a, 4, 4, 9, 7, 3},
		{"more is used than the part", c, 5, 2, 5, 5, 8},
		{"a part is not cut", a, 4, 7, 7, 7, 6},
		{"what a host has kept is less than the table knows", a, 4, 5, 6, 5, 6},
	} {
		if got := ask(step.host, "", 10, step.used, step.held, step.want); got.Held != step.has || got.Elsewhere != step.elsewhere {
			t.Errorf("%s: %+v", step.name, got)
		}
	}
	if got := ask(b, "", 10, 1, 1, 1); !got.Short || got.Used != 9 || got.Others != 2 {
		t.Errorf("of the others is said %+v", got)
	}
	const day, next = "2026-11-27", "2026-11-28"
	ask(a, day, 100, 0, 0, 0) // the limit gets a version
	for range 2 {
		if got := ask(a, day, 100, 30, 30, 60); got.Held != 60 {
			t.Errorf("%+v", got)
		}
	}
	if got := ask(b, day, 100, 0, 0, 100); got.Held != 40 || got.Used != 30 {
		t.Errorf("%+v", got)
	}
	if used, err := table.Used(ctx, c, "acme", day); err != nil || used[share.Tokens] != 30 || used[share.Runs] != 5 {
		t.Errorf("in all %v, %v", used, err)
	}
	// A late word of a host changes nothing, and a host without a lease has no part.
	late, err := table.Share(ctx, a, 1, []share.Ask{{Name: share.Name{Tenant: "acme", Kind: share.Tokens, Day: day}, Limit: 100, Want: 100}})
	if err != nil || len(late) != 0 {
		t.Errorf("a late word: %+v, %v", late, err)
	}
	if err := table.Resign(ctx, a); err != nil {
		t.Fatal(err)
	}
	if got, err := table.Share(ctx, a, 1000, []share.Ask{{Name: share.Name{Tenant: "acme", Kind: share.Runs}, Limit: 10, Held: 5, Want: 5}}); err != nil || len(got) != 0 {
		t.Errorf("a host without a lease has %+v, %v", got, err)
	}
	if got := ask(b, "", 10, 1, 1, 9); got.Held != 5 || got.Others != 1 {
		t.Errorf("beside a dead host %+v", got)
	}
	if got := ask(b, day, 100, 0, 40, 100); got.Held != 70 || got.Used != 30 {
		t.Errorf("what a dead host used is %+v", got)
	}
	if got := ask(b, next, 100, 0, 0, 0); got.Used != 0 {
		t.Errorf("on the next day %+v", got)
	}
	if err := table.Forget(ctx, next); err != nil {
		t.Fatal(err)
	}
	if used, err := table.Used(ctx, c, "acme", day); err != nil || used[share.Tokens] != 0 {
		t.Errorf("a day that is forgotten has %v, %v", used, err)
	}
}

// Hosts that ask at the same time, for many limits in any order, never have more than the limit
// together, and none waits for ever.
func TestSharesAtOnce(t *testing.T) {
	table, ids := sharers(t, 4)
	if table == nil {
		return
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	const limit, tenants = 20, 48
	var mu sync.Mutex
	has := map[uuid.UUID][tenants]int64{} // what each host may use
	check := func() {
		for of := range tenants {
			sum := int64(0)
			for _, mine := range has {
				sum += mine[of]
			}
			if sum > limit {
				t.Errorf("the hosts have %d of %d", sum, limit)
			}
		}
	}
	var work sync.WaitGroup
	for i, id := range ids {
		rnd := rand.New(rand.NewPCG(seed, uint64(i)))
		work.Go(func() {
			for turn := range int64(12) {
				var asks []share.Ask
				mu.Lock()
				mine := has[id]
				for _, of := range rnd.Perm(tenants) {
					want := rnd.Int64N(limit + 5)
					mine[of] = min(mine[of], want) // given up before it is said
					asks = append(asks, share.Ask{Name: share.Name{Tenant: strconv.Itoa(of), Kind: share.Runs}, Limit: limit, Held: mine[of], Want: want})
				}
				has[id] = mine
				mu.Unlock()
				got, err := table.Share(t.Context(), id, turn+1, asks)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, s := range got {
					of, _ := strconv.Atoi(s.Tenant)
					mine[of] = s.Held
				}
				has[id] = mine
				check()
				mu.Unlock()
			}
		})
	}
	work.Wait()
	some := int64(0)
	for _, mine := range has {
		for of := range tenants {
			some += mine[of]
		}
	}
	if some == 0 {
		t.Error("no host has a part of anything")
	}
}

// Sessions that exist are used by others, but for those without a name, of other tenants, and
// deleted ones.
func TestPlacesForSessions(t *testing.T) {
	table, ids := sharers(t, 2)
	if table == nil {
		return
	}
	ctx := t.Context()
	unnamed := "chat-" + uuid.NewString()
	for _, head := range []struct {
		sid          string
		live, closed bool
	}{
		{"acme:ann:a", true, false},
		{"acme:bob:b", true, false},
		{"acme:bob:c", true, false},
		{"acme:ann:" + unnamed, true, false},
		{"acme:ann:closed", true, true},
		{"acme:ann:gone", false, false},
		{"acmes:ann:a", true, false},
		{"acm:ann:a", true, false},
	} {
		if _, err := table.pool.Exec(ctx, `INSERT INTO heads (inc, sid, live, seq, hash, epoch, run, turn, open, queued, closed, wake)
			VALUES ($1, $2, $3, 1, '', 1, 0, 0, false, 0, $4, 0)`, uuid.New(), head.sid, head.live, head.closed); err != nil {
			t.Fatal(err)
		}
	}
	turn := int64(0)
	ask := func(host uuid.UUID, tenant string, limit, used, held, want int64) share.Share {
		t.Helper()
		turn++
		got, err := table.Share(ctx, host, turn, []share.Ask{{Name: share.Name{Tenant: tenant, Kind: share.Sessions}, Limit: limit, Used: used, Held: held, Want: want}})
		if err != nil || len(got) != 1 {
			t.Fatalf("%+v, %v", got, err)
		}
		return got[0]
	}
	ask(ids[0], "acme", 5, 0, 0, 0) // the limit gets a version
	if got := ask(ids[0], "acme", 5, 0, 0, 1); got.Held != 1 || got.Used != 3 || got.Idle() {
		t.Errorf("three exist: %+v", got)
	}
	if got := ask(ids[1], "acme", 5, 0, 0, 5); got.Held != 1 || got.Elsewhere != 4 || !got.Idle() {
		t.Errorf("beside another host: %+v", got)
	}
	if got := ask(ids[0], "acme", 2, 0, 1, 1); got.Elsewhere != 3 {
		t.Errorf("more exist than may: %+v", got)
	}
	if got := ask(ids[0], "acmes", 5, 0, 0, 0); got.Used != 1 {
		t.Errorf("another tenant: %+v", got)
	}
	if got := ask(ids[0], "none", 0, 0, 0, 0); got.Used != 0 {
		t.Errorf("without a limit: %+v", got)
	}
}
