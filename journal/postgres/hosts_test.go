package postgres

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed14be6753/stile/internal/lease"
	"github.com/seed14be6753/stile/internal/postgrestest"
)

// Hosts on one database: who has a session has it until it gives it up, or its lease is over by
// the database's clock, and of several that want it one gets it.
func TestLeases(t *testing.T) {
	u, ok := postgrestest.URL(t)
	if !ok {
		return
	}
	ctx := t.Context()
	s := open(t, Options{URL: u, Schema: postgrestest.Schema(t, u)})
	table, err := s.Hosts()
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	join := func(address string) uuid.UUID {
		t.Helper()
		id := uuid.New()
		if wait, err := table.Join(ctx, lease.Host{ID: id, Address: address, Version: "v"}, time.Minute); err != nil || wait != 0 {
			t.Fatal(wait, err)
		}
		return id
	}
	claim := func(id uuid.UUID, sid string) uuid.UUID {
		t.Helper()
		owner, err := table.Claim(ctx, id, sid, time.Now().Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		return owner.ID
	}
	a, b := join("a:1"), join("b:1")
	for _, id := range []uuid.UUID{a, a, b} {
		if claim(id, "s") != a {
			t.Error("a session has another owner than the host that claimed it")
		}
	}
	if owners, err := table.Owners(ctx, "s", "other"); err != nil || len(owners) != 1 || owners["s"].ID != a || owners["s"].Address != "a:1" || !(owners["s"].Left > 0) {
		t.Errorf("%+v, %v", owners, err)
	}
	if err := table.GiveUp(ctx, b, []string{"s"}, time.Now().Add(time.Hour)); err != nil || claim(b, "s") != a {
		t.Errorf("another host gave the session up: %v", err)
	}
	if err := table.GiveUp(ctx, a, []string{"s"}, time.Now().Add(time.Hour)); err != nil || claim(b, "s") != b {
		t.Errorf("a session that was given up: %v", err)
	}

	// The lease of a host ends with all that it has, and is not renewed.
	ok, now, hosts, err := table.Renew(ctx, b, time.Minute, true, lease.Load{Runs: 3, MaxRuns: 4, Sessions: 5})
	if err != nil || !ok || len(hosts) != 2 || time.Since(now).Abs() > time.Hour {
		t.Fatalf("%v, %v, %+v, %v", ok, now, hosts, err)
	}
	if i := slices.IndexFunc(hosts, func(h lease.Host) bool { return h.ID == b }); i < 0 || !hosts[i].Draining {
		t.Errorf("%+v", hosts)
	}
	listed, err := table.Hosts(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range [][]lease.Host{hosts, listed} { // one has said what it has to do
		for i := range list {
			want := lease.Load{}
			if list[i].ID == b {
				want = lease.Load{Runs: 3, MaxRuns: 4, Sessions: 5}
			}
			if list[i].Load != want {
				t.Errorf("%+v", list[i])
			}
		}
	}
	if err := table.Resign(ctx, b); err != nil {
		t.Fatal(err)
	}
	if ok, _, _, err := table.Renew(ctx, b, time.Minute, false, lease.Load{}); ok || err != nil {
		t.Errorf("a lease that was over is renewed: %v", err)
	}
	if got := claim(b, "fresh"); got != (uuid.UUID{}) {
		t.Errorf("a host without a lease has claimed a session")
	}
	if owners, err := table.Owners(ctx, "s"); len(owners) != 0 || err != nil {
		t.Errorf("%+v, %v", owners, err)
	}
	if left, err := table.Left(ctx, b, a, 10); err != nil || !slices.Equal(left, []string{"s"}) {
		t.Errorf("a dead host has left %v, %v", left, err)
	}
	others := []uuid.UUID{a, join("c:1"), join("d:1"), join("e:1")}
	got := make([]uuid.UUID, len(others))
	var work sync.WaitGroup
	for i, id := range others {
		work.Go(func() {
			owner, err := table.Claim(ctx, id, "s", time.Now().Add(time.Hour))
			if err != nil {
				t.Error(err)
			}
			got[i] = owner.ID
		})
	}
	work.Wait()
	for _, id := range got {
		if id != got[0] || id == b {
			t.Errorf("the session of a dead host is %v's", got)
			break
		}
	}
	if left, err := table.Left(ctx, b, a, 10); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
	if hosts, err := table.Hosts(ctx); err != nil || slices.ContainsFunc(hosts, func(h lease.Host) bool { return h.ID == b }) {
		t.Errorf("a dead host that has nothing is remembered: %+v, %v", hosts, err)
	}

	// A host that starts where one was ends its lease.
	again := join("a:1")
	if claim(again, "mine") != again || claim(a, "another") != (uuid.UUID{}) {
		t.Error("the host before has a lease")
	}
	// A claim that gets there too late makes nothing the host's.
	for _, sid := range []string{"late", "s"} {
		owner, err := table.Claim(ctx, again, sid, now.Add(-time.Minute))
		if sid == "late" && err == nil || owner.ID == again {
			t.Errorf("a claim of %s that comes late: %+v, %v", sid, owner, err)
		}
	}
	if owners, err := table.Owners(ctx, "late"); len(owners) != 0 || err != nil {
		t.Errorf("%+v, %v", owners, err)
	}
	if there, err := table.Drain(ctx, a); there || err != nil {
		t.Errorf("a dead host drains: %v", err)
	}
	if there, err := table.Drain(ctx, again); !there || err != nil {
		t.Errorf("%v, %v", there, err)
	}
}

// A host that has nothing to do makes one statement each time it renews its lease, whatever it
// learns by it.
func TestIdleStatements(t *testing.T) {
	srv, ok := postgrestest.Private(t)
	if !ok {
		return
	}
	p := newProxy(t, srv.Socket())
	s := open(t, Options{URL: srv.Through(p.address()), Schema: "idle"})
	table, err := s.Hosts()
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	id, other := uuid.New(), uuid.New()
	for _, id := range []uuid.UUID{id, other} {
		if _, err := table.Join(t.Context(), lease.Host{ID: id, Address: id.String(), Version: "v"}, time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	const renewals = 50
	before := p.statements()
	for i := range renewals {
		if i == renewals/2 {
			if there, err := table.Drain(t.Context(), id); !there || err != nil {
				t.Fatal(there, err)
			}
		}
		ok, now, hosts, err := table.Renew(t.Context(), id, time.Hour, false, lease.Load{})
		if err != nil || !ok || now.IsZero() || len(hosts) != 2 {
			t.Fatalf("%v, %v, %+v, %v", ok, now, hosts, err)
		}
		for _, h := range hosts {
			if renewed := h.Left > 50*time.Minute; renewed != (h.ID == id) || h.Draining != (h.ID == id && i >= renewals/2) {
				t.Fatalf("renewal %d of %v: %+v", i, id, h)
			}
		}
	}
	if n := p.statements() - before; n != renewals+1 { // and the one that drains it
		t.Errorf("%d statements for %d renewals", n, renewals)
	}
}

// A server that crashes has forgotten who had which session. Nobody enters before the last lease
// from before has ended.
func TestLeasesOfACrash(t *testing.T) {
	server, ok := postgrestest.Private(t)
	if !ok {
		return
	}
	ctx := t.Context()
	s := open(t, Options{URL: server.URL(), Schema: "journal"})
	table, err := s.Hosts()
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	again := func(do func() error) {
		t.Helper()
		var err error
		for range 100 { // connections from before the crash are told once that they are gone
			if err = do(); err == nil {
				return
			}
		}
		t.Fatal(err)
	}
	join := func(length time.Duration) (id uuid.UUID, wait time.Duration) {
		t.Helper()
		id = uuid.New()
		again(func() (err error) {
			wait, err = table.Join(ctx, lease.Host{ID: id, Address: id.String(), Version: "v"}, length)
			return err
		})
		return id, wait
	}
	a, wait := join(time.Minute)
	if wait != 0 {
		t.Fatalf("in a new schema a host waits for %v", wait)
	}
	server.Quit()
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	if _, wait := join(time.Minute); wait != 0 {
		t.Errorf("behind a restart in order a host waits for %v", wait)
	}
	server.Kill()
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	again(func() error {
		ok, _, _, err := table.Renew(ctx, a, time.Minute, false, lease.Load{})
		if ok {
			t.Error("a lease from before the crash is renewed")
		}
		return err
	})
	for i := range 2 {
		id, wait := join(time.Second / 2)
		if wait == 0 && i > 0 { // on a busy machine the time that the first one began may be over
			over, err := postgrestest.Query(server.URL(), "SELECT clock_timestamp() >= max(ready) FROM journal.lease_memory")
			if err != nil || over != "true" {
				t.Fatalf("a host enters before the last lease has ended: %s, %v", over, err)
			}
			break
		}
		if wait <= 0 || wait > time.Second/2 {
			t.Fatalf("behind a crash a host waits for %v", wait)
		}
		again(func() error {
			owner, err := table.Claim(ctx, id, "s", time.Now().Add(time.Hour))
			if owner.ID != (uuid.UUID{}) {
				t.Errorf("claimed for %+v", owner)
			}
			return err
		})
	}
	if err := postgrestest.Exec(server.URL(), "SELECT pg_sleep_until((SELECT max(ready) FROM journal.lease_memory) + interval '1 ms')"); err != nil {
		t.Fatal(err)
	}
	if _, wait := join(time.Minute); wait != 0 {
		t.Errorf("when all leases have ended, a host waits for %v", wait)
	}
}

// Hosts of one schema hear what they do, and nothing of another schema.
func TestListen(t *testing.T) {
	a, b, ok := pair(t, Options{})
	if !ok {
		return
	}
	other := open(t, Options{URL: a.opts.URL, Schema: postgrestest.Schema(t, a.opts.URL)})
	var tables []lease.Table
	for _, s := range []*Store{a, b, other} {
		table, err := s.Hosts()
		if err != nil {
			t.Fatal(err)
		}
		defer table.Close()
		tables = append(tables, table)
	}
	heard := make(chan lease.Notice, 64)
	ended := make(chan error, 1)
	go func() { ended <- tables[0].Listen(t.Context(), func(n lease.Notice) { heard <- n }) }()
	if n := <-heard; n != (lease.Notice{}) {
		t.Errorf("first it hears %+v", n)
	}
	id, far := joined(t, tables[1], "b:1"), joined(t, tables[2], "far:1")
	for _, c := range []struct {
		table lease.Table
		id    uuid.UUID
	}{{tables[2], far}, {tables[1], id}} {
		if owner, err := c.table.Claim(t.Context(), c.id, "t:u:s", time.Now().Add(time.Hour)); err != nil || owner.ID != c.id {
			t.Fatal(owner, err)
		}
		if there, err := c.table.Drain(t.Context(), c.id); err != nil || !there {
			t.Fatal(there, err)
		}
		if err := c.table.Resign(t.Context(), c.id); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []lease.Notice{{Host: id}, {Host: id, SID: "t:u:s"}, {Host: id}, {Host: id}} {
		if n := <-heard; n != want {
			t.Errorf("it hears %+v, want %+v", n, want)
		}
	}
	behind(t, b, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%"+tables[0].(*hosts).channel+"%'")
	if err := <-ended; err == nil {
		t.Error("a connection that broke is listened on")
	}
}

func joined(t *testing.T, table lease.Table, address string) uuid.UUID {
	t.Helper()
	id := uuid.New()
	for {
		wait, err := table.Join(t.Context(), lease.Host{ID: id, Address: address, Version: "v"}, time.Minute) // longer than the test
		if err != nil {
			t.Fatal(err)
		}
		if wait == 0 {
			return id
		}
		time.Sleep(wait)
	}
}
