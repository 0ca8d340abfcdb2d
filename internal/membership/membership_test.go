package membership

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile/internal/lease"
	"github.com/seed14be6753/stile/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// table is a database in memory, with a clock that is some hours off.
type table struct {
	mu     sync.Mutex
	hosts  map[uuid.UUID]*row
	leases map[string]uuid.UUID
	ready  time.Time     // no host joins before
	away   bool          // no answer comes
	down   bool          // it refuses connections
	slow   time.Duration // what each answer takes, on its way back
	late   []func()      // releases whose host has given them up, and that are still on their way
	keeps  bool          // releases are so
	loses  bool          // answers to claims are lost
	claims int

	ears    []*ear
	deaf    bool // no host can listen
	listens int  // attempts to
}

type row struct {
	lease.Host
	until time.Time
}

var errAway = errors.New("the database does not answer")

func newTable() *table {
	return &table{hosts: map[uuid.UUID]*row{}, leases: map[string]uuid.UUID{}, ready: time.Unix(1, 0)}
}

func (d *table) now() time.Time { return time.Now().Add(7 * time.Hour) }

func (d *table) live(id uuid.UUID) bool {
	h := d.hosts[id]
	return h != nil && h.until.After(d.now())
}

// at does something in the database, and answers.
func (d *table) at(ctx context.Context, do func()) error {
	d.mu.Lock()
	away, down, slow := d.away, d.down, d.slow
	if !away && !down {
		do()
	}
	d.mu.Unlock()
	if down {
		return errAway
	}
	if away {
		<-ctx.Done()
		return errAway
	}
	if slow == 0 {
		return ctx.Err() // channels of timers that are over at once, side by side in a bubble, crash Go 1.26's race detector
	}
	select {
	case <-time.After(slow):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *table) set(away bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.away = away
}

func (d *table) setDown(down bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.down = down
}

func (d *table) Join(ctx context.Context, host lease.Host, length time.Duration) (wait time.Duration, err error) {
	err = d.at(ctx, func() {
		if d.ready.IsZero() {
			d.ready = d.now().Add(length)
		}
		if wait = max(0, d.ready.Sub(d.now())); wait > 0 {
			return
		}
		for _, h := range d.hosts {
			if h.Address == host.Address && h.until.After(d.now()) {
				h.until = d.now()
			}
		}
		d.hosts[host.ID] = &row{host, d.now().Add(length)}
	})
	return wait, err
}

// forget is what a crash of the database does.
func (d *table) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	clear(d.hosts)
	clear(d.leases)
	d.ready = time.Time{}
}

func (d *table) Renew(ctx context.Context, id uuid.UUID, length time.Duration, draining bool, load lease.Load) (ok bool, now time.Time, all []lease.Host, err error) {
	err = d.at(ctx, func() {
		if ok = d.live(id); ok {
			d.hosts[id].until = d.now().Add(length)
			d.hosts[id].Draining = d.hosts[id].Draining || draining
			d.hosts[id].Load = load
		}
		now, all = d.now(), d.list()
	})
	return ok, now, all, err
}

func (d *table) list() (all []lease.Host) {
	for _, h := range d.hosts {
		one := h.Host
		one.Left = h.until.Sub(d.now())
		all = append(all, one)
	}
	return all
}

func (d *table) Now(ctx context.Context) (now time.Time, err error) {
	err = d.at(ctx, func() { now = d.now() })
	return now, err
}

func (d *table) Hosts(ctx context.Context) (all []lease.Host, err error) {
	err = d.at(ctx, func() { all = d.list() })
	return all, err
}

func (d *table) Drain(ctx context.Context, id uuid.UUID) (there bool, err error) {
	err = d.at(ctx, func() {
		if there = d.live(id); there {
			d.hosts[id].Draining = true
			d.tell(lease.Notice{Host: id})
		}
	})
	return there, err
}

func (d *table) Resign(ctx context.Context, id uuid.UUID) error {
	return d.at(ctx, func() {
		if d.live(id) {
			d.hosts[id].until = d.now()
			d.tell(lease.Notice{Host: id})
		}
	})
}

func (d *table) Claim(ctx context.Context, id uuid.UUID, sid string, until time.Time) (owner lease.Host, err error) {
	var lost bool
	err = d.at(ctx, func() {
		d.claims++
		switch has, ok := d.leases[sid]; {
		case !d.live(id) || !d.now().Before(until):
		case ok && has != id && d.live(has):
			owner = d.hosts[has].Host
		default:
			d.leases[sid], owner = id, d.hosts[id].Host
			d.tell(lease.Notice{Host: id, SID: sid})
		}
		lost = d.loses
	})
	if lost && err == nil {
		err = errAway
	}
	return owner, err
}

func (d *table) Owners(ctx context.Context, sids ...string) (map[string]lease.Host, error) {
	owners := map[string]lease.Host{}
	err := d.at(ctx, func() {
		for _, sid := range sids {
			if id, ok := d.leases[sid]; ok && d.live(id) {
				owners[sid] = d.hosts[id].Host
			}
		}
	})
	return owners, err
}

func (d *table) GiveUp(ctx context.Context, id uuid.UUID, sids []string, until time.Time) error {
	release := func() {
		if !d.now().Before(until) {
			return
		}
		for _, sid := range sids {
			if d.leases[sid] == id {
				delete(d.leases, sid)
			}
		}
	}
	d.mu.Lock()
	keeps := d.keeps
	if keeps {
		d.late = append(d.late, release)
	}
	d.mu.Unlock()
	if keeps {
		return errAway
	}
	return d.at(ctx, release)
}

func (d *table) Left(ctx context.Context, id, _ uuid.UUID, limit int) (sids []string, err error) {
	err = d.at(ctx, func() {
		for sid, has := range d.leases {
			if has == id {
				sids = append(sids, sid)
			}
		}
		if slices.Sort(sids); len(sids) == 0 && !d.live(id) {
			delete(d.hosts, id)
		}
	})
	return sids[:min(limit, len(sids))], err
}

func (d *table) Close() {}

// ear is a connection that listens.
type ear struct {
	notices chan lease.Notice
	broken  chan struct{}
}

func (d *table) Listen(ctx context.Context, hear func(lease.Notice)) error {
	e := &ear{make(chan lease.Notice, 64), make(chan struct{})}
	d.mu.Lock()
	d.listens++
	deaf := d.deaf
	if !deaf {
		d.ears = append(d.ears, e)
	}
	d.mu.Unlock()
	if deaf {
		return errAway
	}
	hear(lease.Notice{})
	for {
		select {
		case n := <-e.notices:
			hear(n)
		case <-e.broken:
			return errAway
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tell tells those who listen; d.mu is held.
func (d *table) tell(n lease.Notice) {
	for _, e := range d.ears {
		select {
		case e.notices <- n:
		default:
		}
	}
}

// cut breaks the connections that listen, and lets none be made while it says deaf.
func (d *table) cut(deaf bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.ears {
		close(e.broken)
	}
	d.ears, d.deaf = nil, deaf
}

// node is a host on a table, and what it was told.
type node struct {
	*Member
	lost    chan time.Time
	taken   chan string
	heard   chan string
	renewed atomic.Int64
	look    func(sid string) lease.Found // what Take finds, if it can claim what is to run; it may take its time
	open    []string
}

func (d *table) join(t *testing.T, address string) *node {
	t.Helper()
	return d.joinWith(t, address, zap.NewNop())
}

func (d *table) joinWith(t *testing.T, address string, log *zap.Logger) *node {
	t.Helper()
	n := &node{lost: make(chan time.Time, 8), taken: make(chan string, 1024), heard: make(chan string, 4096), look: func(string) lease.Found { return lease.Runs }}
	var err error
	n.Member, err = Join(t.Context(), Config{
		Table: d, Address: address, Lease: lease.Default, Log: log, PerSecond: 50,
		Open: func(context.Context) ([]string, error) { return n.open, nil },
		Count: func(e Event) {
			if e == Renewed {
				n.renewed.Add(1)
			}
		},
		Claimed: func(_ context.Context, sid string) { n.heard <- sid },
		Lost:    func() { n.lost <- time.Now() }, Gone: func() {}, Idle: func() {},
		Take: func(ctx context.Context, sid string) lease.Look {
			found := n.look(sid)
			if found == lease.Runs {
				err := n.Claim(ctx, sid)
				if _, elsewhere := lease.Owner(err); elsewhere {
					return lease.Look{Found: lease.HeldElsewhere, Head: messages.Digest{1}}
				}
				if err != nil {
					return lease.Look{}
				}
			}
			n.taken <- sid
			return lease.Look{Found: found}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	n.Start()
	return n
}

func leave(t *testing.T, all ...*node) {
	t.Helper()
	for _, n := range all {
		if err := n.Resign(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

func TestClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTable()
		a, b := d.join(t, "a"), d.join(t, "b")
		ctx := t.Context()
		if err := a.Claim(ctx, "s"); err != nil {
			t.Fatal(err)
		}
		err := b.Claim(ctx, "s")
		if owner, ok := lease.Owner(err); !ok || owner.ID != a.ID() {
			t.Errorf("%v", err)
		}
		time.Sleep(time.Hour) // the lease is renewed all the time
		if owner, held, err := b.Owner(ctx, "s"); err != nil || !held || owner.ID != a.ID() {
			t.Errorf("%+v, %v, %v", owner, held, err)
		}
		if d := time.Until(b.Now()); d != 7*time.Hour {
			t.Errorf("the clock of the database is %v ahead", d)
		}
		// Given up and claimed again: the one that came last counts.
		a.GiveUp("s")
		if err := a.Claim(ctx, "s"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if owner, held, _ := b.Owner(ctx, "s"); !held || owner.ID != a.ID() || a.Sessions() != 1 {
			t.Error("a session that was claimed again is given up")
		}
		a.GiveUp("s")
		synctest.Wait()
		if a.Sessions() != 0 {
			t.Errorf("%d sessions are held", a.Sessions())
		}
		if err := b.Claim(ctx, "s"); err != nil {
			t.Errorf("a session that was given up: %v", err)
		}
		leave(t, a, b)
	})
}

// A host that cannot renew its lease has stopped before the database says that it is over, however
// long answers take; and comes back as another one.
func TestLostLease(t *testing.T) {
	for _, slow := range []time.Duration{0, 300 * time.Millisecond, 700 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			d := newTable()
			d.slow = slow
			a := d.join(t, "a")
			if err := a.Claim(t.Context(), "s"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			id := a.ID()
			d.set(true)
			at := <-a.lost
			d.mu.Lock()
			left := d.hosts[id].until.Sub(d.now())
			d.mu.Unlock()
			if left <= 0 || left > lease.Default/2 {
				t.Errorf("with answers after %v it stops %v before the end", slow, left)
			}
			if a.Held() || time.Since(at) != 0 {
				t.Error("it believes in its lease")
			}
			if err := a.Claim(t.Context(), "t"); err == nil {
				t.Error("a host without a lease claims a session")
			}
			d.set(false)
			time.Sleep(2 * lease.Default)
			if !a.Held() || a.ID() == id || len(a.lost) != 0 {
				t.Errorf("held %v, as %v", a.Held(), a.ID())
			}
			// What it had is a dead host's now, and it is the first to find that.
			if sid := <-a.taken; sid != "s" {
				t.Errorf("takes %s", sid)
			}
			leave(t, a)
		})
	}
}

// A database that crashes forgets who had what. No host has a session before every other one has
// stopped; then what is open is taken up, each once.
func TestForgetfulDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTable()
		a, b := d.join(t, "a"), d.join(t, "b")
		for _, sid := range []string{"s", "t", "u"} {
			if err := a.Claim(t.Context(), sid); err != nil {
				t.Fatal(err)
			}
			a.open, b.open = append(a.open, sid), append(b.open, sid)
		}
		a.open, b.open = append(a.open, "dead"), append(b.open, "dead") // of a host that did not come back
		time.Sleep(lease.Default/4 - 1)                                 // just before a renewal: the hosts believe in their leases for as long as can be
		d.forget()
		fresh, before := make(chan struct{}), []uuid.UUID{a.ID(), b.ID()}
		go func() { // a host that starts at that moment
			defer close(fresh)
			c := d.join(t, "c")
			if a.ID() == before[0] && a.Held() || b.ID() == before[1] && b.Held() {
				t.Error("a host starts, and others still believe in their leases")
			}
			leave(t, c)
		}()
		if err := b.Claim(t.Context(), "s"); err == nil {
			t.Error("a session is claimed whose owner is not known")
		}
		if err := a.Claim(t.Context(), "s"); err != nil {
			t.Errorf("what a host has it has until it knows better: %v", err)
		}
		<-a.lost
		time.Sleep(lease.Default / 2)
		if a.Held() || b.Held() {
			t.Error("a host has a lease before those from before have ended")
		}
		<-fresh
		time.Sleep(3 * lease.Default)
		by := map[string]*node{}
		for _, n := range []*node{a, b} {
			for len(n.taken) > 0 { // a host may look at one twice: it is open, and it was its own
				sid := <-n.taken
				if other := by[sid]; other != nil && other != n {
					t.Errorf("%s is taken up by two hosts", sid)
				}
				by[sid] = n
			}
		}
		if !a.Held() || !b.Held() || len(by) != 4 {
			t.Errorf("%d sessions are taken up", len(by))
		}
		leave(t, a, b)
	})
}

// The sessions of a dead host are taken up by the others, each once, at a pace.
func TestTakeOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTable()
		a, b, c := d.join(t, "a"), d.join(t, "b"), d.join(t, "c")
		const n = 150
		for i := range n {
			if err := a.Claim(t.Context(), string(rune('0'+i))); err != nil {
				t.Fatal(err)
			}
		}
		a.stop() // it dies: it does not even leave
		a.work.Wait()
		got, began := map[string]int{}, time.Now()
		for range n {
			select {
			case sid := <-b.taken:
				got[sid]++
			case sid := <-c.taken:
				got[sid]++
			}
		}
		for sid, times := range got {
			if times != 1 {
				t.Errorf("%s is taken up %d times", sid, times)
			}
		}
		if took := time.Since(began); took < lease.Default || took > 10*time.Second {
			t.Errorf("took %v", took)
		}
		time.Sleep(time.Minute)
		if len(b.taken)+len(c.taken) != 0 || b.Sessions()+c.Sessions() != n || len(b.Hosts()) != 2 {
			t.Errorf("%d and %d sessions at %d hosts", b.Sessions(), c.Sessions(), len(b.Hosts()))
		}
		leave(t, b, c)
	})
}

// A host that drains takes nothing over; one that leaves says so, and no host waits for the end of
// its lease.
func TestDrainAndLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTable()
		a, b, c := d.join(t, "a"), d.join(t, "b"), d.join(t, "c")
		if there, err := d.Drain(t.Context(), b.ID()); !there || err != nil {
			t.Fatal(err)
		}
		c.Drain()
		time.Sleep(lease.Default)
		if !b.Draining() || !c.Draining() {
			t.Error("a host does not know that it drains")
		}
		if err := b.Claim(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		leave(t, b)
		if sid := <-a.taken; sid != "s" || time.Since(began) > lease.Default/2 {
			t.Errorf("takes %s after %v", sid, time.Since(began))
		}
		leave(t, a)
		time.Sleep(time.Minute)
		if len(c.taken) != 0 {
			t.Error("a host that drains takes a session over")
		}
		leave(t, c)
	})
}

// What a host does the others hear at once; and with their renewals, while they cannot listen.
func TestListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTable()
		a, b := d.join(t, "a"), d.join(t, "b")
		synctest.Wait()
		for _, n := range []*node{a, b} {
			if sid := <-n.heard; sid != "" || len(n.heard) != 0 {
				t.Errorf("when it begins to listen %s hears %q", n.cfg.Address, sid)
			}
		}
		time.Sleep(time.Hour)
		began := time.Now()
		if err := b.Claim(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		if sid := <-a.heard; sid != "s" || time.Since(began) != 0 || len(b.heard) != 0 {
			t.Errorf("another host hears of %q after %v, and it itself of %d", sid, time.Since(began), len(b.heard))
		}
		soon := lease.Default / lease.MostRenewals
		b.Drain()
		time.Sleep(2 * soon)
		for _, h := range a.Hosts() {
			if h.Draining != (h.ID == b.ID()) {
				t.Errorf("%v later the others have %+v", 2*soon, h)
			}
		}
		if there, err := d.Drain(t.Context(), a.ID()); !there || err != nil {
			t.Fatal(there, err)
		}
		time.Sleep(soon)
		if !a.Draining() {
			t.Errorf("a host does not know %v later that it was drained", soon)
		}
		// A host whose lease another one has ended, as one does that starts at its address.
		if _, err := d.Join(t.Context(), lease.Host{ID: uuid.New(), Address: "other"}, time.Hour); err != nil {
			t.Fatal(err)
		}
		if err := d.Resign(t.Context(), a.ID()); err != nil {
			t.Fatal(err)
		}
		began = time.Now()
		if at := <-a.lost; at.Sub(began) > soon {
			t.Errorf("a host that was revoked stops %v later", at.Sub(began))
		}
		time.Sleep(time.Minute)

		// Without the connection the renewals tell it; attempts to listen become rare.
		d.cut(true)
		before := d.attempts()
		time.Sleep(time.Hour)
		if n := d.attempts() - before; n < 2*int(time.Hour/lastSilence) || n > 2*int(time.Hour/lastSilence)+2*20 {
			t.Errorf("%d attempts of two hosts to listen, in an hour", n)
		}
		c := d.join(t, "c")
		time.Sleep(lease.Default / 2)
		if len(a.Hosts()) != len(b.Hosts()) || len(a.Hosts()) < 3 {
			t.Errorf("%+v, %+v", a.Hosts(), b.Hosts())
		}
		for len(a.heard) > 0 {
			<-a.heard
		}
		d.cut(false)
		began = time.Now()
		if sid := <-a.heard; sid != "" || time.Since(began) > lastSilence {
			t.Errorf("when it listens again it hears %q after %v", sid, time.Since(began))
		}
		leave(t, a, b, c)
	})
}

func (d *table) attempts() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.listens
}

// However much happens, a host does not renew its lease all the time.
func TestNoticesAreGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTable()
		a := d.join(t, "a")
		time.Sleep(time.Minute)
		before := a.renewed.Load()
		for range 1000 {
			d.mu.Lock()
			d.tell(lease.Notice{Host: uuid.New()})
			d.mu.Unlock()
			time.Sleep(lease.Default / 1000)
		}
		if n := a.renewed.Load() - before; n < lease.MostRenewals/2 || n > lease.MostRenewals+1 {
			t.Errorf("%d renewals in the length of a lease", n)
		}
		leave(t, a)
	})
}

// What a host leaves that dies is taken up at the end of its lease, whenever the others renew theirs;
// and hosts that live renew no more often for that.
func TestTakenAtTheEnd(t *testing.T) {
	for _, after := range []time.Duration{1, 130 * time.Millisecond, 260 * time.Millisecond, 499 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			d := newTable()
			a := d.join(t, "a")
			time.Sleep(after)
			b := d.join(t, "b")
			if err := a.Claim(t.Context(), "s"); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second) // notices of who has come cause renewals
			before := b.renewed.Load()
			time.Sleep(time.Minute)
			if n := b.renewed.Load() - before; n < 119 || n > 121 {
				t.Errorf("%d renewals in a minute", n)
			}
			a.stop()
			a.work.Wait()
			d.mu.Lock()
			left := d.hosts[a.ID()].until.Sub(d.now())
			d.mu.Unlock()
			died := time.Now()
			if sid := <-b.taken; sid != "s" {
				t.Errorf("takes %s", sid)
			}
			if late := time.Since(died) - left; late < 0 || late > 2*time.Millisecond {
				t.Errorf("taken %v behind the end of the lease", late)
			}
			leave(t, b)
		})
	}
}
