package host

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile/internal/share"
)

// In a cluster a tenant's limits are those of all hosts together. Each host has parts of them
// (internal/share), within which it asks no other: the meter has them beside what it counts. One
// statement in a quarter of a lease, or in longestRound, tells the table what active tenants have used, and brings
// their parts; nothing is said of a tenant that does nothing. A request for which a part has no
// room has a round made at once, and waits while another host has room that it does not use.

// longestRound bounds the time between two rounds, where leases are long.
const longestRound = 500 * time.Millisecond

// sharePatience bounds how often a request looks for room: at most one time less than this, each
// half a round on the clock after the other. So it outlasts two of those rounds, in which other
// hosts give up what they do not use.
const sharePatience = 7

// portion is what this host has of one limit of a tenant. The lock of the meter is held for it.
type portion struct {
	day     string
	limit   int64
	before  int64 // of what is counted, what an earlier life of this host has said
	held    int64
	sent    int64     // what was used, as last said
	spent   int64     // of the part, for good, since the host last asked
	unsure  bool      // that may not have come to the table
	waiting int64     // requests that wait for room
	active  bool      // room was looked for since the last round on the clock
	asking  int64     // requests that wait for what other hosts say
	heard   time.Time // when they last said it
	last    share.Share
	full    time.Time // until then there is no more
}

// shared keeps the parts of the meter. A nil one is that of a host without a cluster.
type shared struct {
	meter  *meter
	host   share.Host
	limits func(tenant string) Limits
	every  time.Duration
	log    *zap.Logger
	kick   chan struct{} // capacity 1
	ended  chan struct{} // closed when no round is made any more

	// The lock of the meter is held for these.
	life   uuid.UUID       // to which the parts belong
	active map[string]bool // tenants that a round has to look at

	mu   sync.Mutex
	next *round

	// Of the goroutine that makes rounds.
	turn int64
	day  string
	at   time.Time // of the last round on the clock
}

// round is one statement, or a few.
type round struct {
	done chan struct{}
	err  error
}

func newShared(m *meter, host share.Host, limits func(string) Limits, log *zap.Logger) *shared {
	sh := &shared{
		meter: m, host: host, limits: limits, every: min(host.Lease()/4, longestRound), log: log,
		kick: make(chan struct{}, 1), ended: make(chan struct{}), active: map[string]bool{}, next: &round{done: make(chan struct{})},
	}
	m.shared = sh
	return sh
}

// touch has the next round look at a tenant. The lock is held.
func (m *meter) touch(tenant string, u *usage) {
	if m.shared == nil {
		return
	}
	m.shared.active[tenant] = true
	if u.beyond(share.Tokens, u.today.Tokens) || u.beyond(share.Cost, u.today.Cost) || u.beyond(share.Bytes, u.today.Bytes) {
		m.shared.ring() // the others hear it at once
	}
}

// beyond reports whether more was used of a day than this host's part, and that was not said yet.
func (u *usage) beyond(kind share.Kind, used int64) bool {
	p := u.parts[kind]
	return p != nil && p.limit > 0 && p.day == u.today.Day && used-p.before > max(p.held, p.sent)
}

// own reports whether the parts that the meter knows are this host's. The lock is held.
func (m *meter) own() bool {
	id, held := m.shared.host.Life()
	return held && id == m.shared.life
}

// over reports whether a tenant has used all that it may, or in a cluster this host's part of it.
// The lock is held.
func (m *meter) over(u *usage, kind share.Kind, limit, used int64) bool {
	if limit <= 0 || m.shared == nil {
		return limit > 0 && used >= limit
	}
	p := u.portion(kind)
	p.active = true
	return !m.own() || used-p.before >= min(p.held, limit)
}

// portion gives a tenant's part of a kind. The lock is held.
func (u *usage) portion(kind share.Kind) *portion {
	day := ""
	if kind == share.Tokens || kind == share.Cost || kind == share.Bytes {
		day = u.today.Day
	}
	p := u.parts[kind]
	if p == nil || p.day != day {
		if u.parts == nil {
			u.parts = map[share.Kind]*portion{}
		}
		p = &portion{day: day}
		u.parts[kind] = p
	}
	return p
}

// reborn begins another life of this host: it has no parts, and has said nothing. The runs that it
// had are other hosts'. The lock is held.
func (m *meter) reborn(id uuid.UUID) {
	m.shared.life = id
	for tenant, u := range m.tenants {
		for _, p := range u.parts {
			if p.day != "" {
				p.before += p.sent
			}
			p.held, p.sent, p.spent, p.last, p.full, p.heard = 0, 0, 0, share.Share{}, time.Time{}, time.Time{}
		}
		u.bucket, u.kept = share.Bucket{}, -1
		m.runs -= len(u.runs)
		clear(u.runs)
		m.shared.active[tenant] = true
	}
}

// asks says what tenants have used and want. Those are left out that have nothing new; on the
// clock, a tenant of which there is nothing to say is not looked at again. Otherwise the round
// is for those that wait. What is given up is not this host's from here on.
func (s *shared) asks(onTime bool) (id uuid.UUID, asks []share.Ask) {
	id, held := s.host.Life()
	if !held {
		return id, nil
	}
	hosts := s.host.Hosts()
	m := s.meter
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if id != s.life {
		m.reborn(id)
	}
	elapsed := now.Sub(s.at)
	if onTime {
		s.at = now
	}
	for tenant := range s.active {
		u, l, before := m.of(tenant), s.limits(tenant), len(asks)
		waits := slices.ContainsFunc(slices.Collect(maps.Values(u.parts)), func(p *portion) bool { return p.waiting > 0 })
		add := func(kind share.Kind, limit, used int64) {
			p := u.portion(kind)
			used -= p.before
			news := used != p.sent || p.spent > 0 || p.unsure
			first := waits && limit > 0 && p.limit <= 0 && kind != share.Sessions // it will be asked for next
			urgent := p.waiting > 0 || p.asking > 0 || first || limit > 0 && used > p.held && news
			active := p.active || news || first || p.waiting > 0
			if onTime {
				p.active = false
			}
			if !onTime && !urgent || !news && !first && p.waiting == 0 && p.asking == 0 && (limit <= 0 || p.held <= used) {
				return
			}
			p.limit = limit
			want := share.Want(limit, used, p.waiting, active, p.last, hosts)
			p.held = min(p.held, want)
			p.sent, p.spent = used, 0
			asks = append(asks, share.Ask{Name: share.Name{Tenant: tenant, Kind: kind, Day: p.day}, Limit: limit, Used: used, Held: p.held, Want: want})
		}
		add(share.Runs, int64(l.Runs), int64(len(u.runs)+u.waiting))
		add(share.Streams, int64(l.Streams), int64(u.streams))
		add(share.Sessions, int64(l.Sessions), u.begins)
		add(share.Tokens, l.TokensPerDay, u.today.Tokens)
		add(share.Cost, l.CostPerDay, u.today.Cost)
		add(share.Bytes, l.BytesPerDay, u.today.Bytes)
		if l.RequestsPerSecond > 0 {
			asks = append(asks, u.rate(tenant, l, onTime, now, elapsed)...)
		}
		if onTime && len(asks) == before {
			delete(s.active, tenant)
		}
	}
	return id, asks
}

// rate asks for a tenant's part of its requests.
func (u *usage) rate(tenant string, l Limits, onTime bool, now time.Time, elapsed time.Duration) []share.Ask {
	r, b := u.portion(share.Requests), u.portion(share.Burst)
	if !onTime && r.waiting == 0 {
		return nil
	}
	limit := max(1, int64(l.RequestsPerSecond*share.Unit))
	burst := int64(cmp.Or(l.Burst, int(max(1, math.Ceil(l.RequestsPerSecond))))) * share.Unit
	asked, active := r.sent, u.asked > 0 || r.waiting > 0
	if onTime {
		asked = 0
		if elapsed > 0 {
			asked = int64(float64(u.asked*share.Unit) / elapsed.Seconds())
		}
		u.asked = 0
	}
	if !active && r.held == 0 && b.held == 0 && r.sent == 0 && !r.unsure && !b.unsure {
		return nil
	}
	want, most := int64(0), int64(0)
	switch {
	case active:
		want = share.WantRate(limit, asked, r.last)
		most = int64(float64(burst) * float64(want) / float64(limit))
		if burst >= share.Unit*int64(r.last.Others+1) {
			most = max(most, share.Unit)
		}
	case !u.bucket.Full(now): // what was taken comes again before it is given up
		want, most = r.held, b.held
	}
	b.held = u.bucket.Give(now, want, most)
	r.held = min(r.held, want)
	r.limit, b.limit, r.sent = limit, burst, min(asked, r.held)
	return []share.Ask{
		{Name: share.Name{Tenant: tenant, Kind: share.Requests}, Limit: limit, Used: r.sent, Held: r.held, Want: want},
		{Name: share.Name{Tenant: tenant, Kind: share.Burst}, Limit: burst, Held: b.held, Want: max(b.held, most)},
	}
}

// take notes what this host has got. again reports whether what it did not get is free: another
// host asked at the same time.
func (s *shared) take(id uuid.UUID, asks []share.Ask, got []share.Share, err error) (again bool) {
	m := s.meter
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if id != s.life {
		return false
	}
	told := make(map[share.Name]*share.Share, len(got))
	for i := range got {
		told[got[i].Name] = &got[i]
	}
	for i := range asks {
		a := &asks[i]
		u := m.of(a.Tenant)
		p := u.portion(a.Kind)
		if p.day != a.Day {
			continue // the day is over
		}
		g := told[a.Name]
		if p.unsure = g == nil || err != nil; p.unsure {
			continue
		}
		if more := g.Used - p.last.Used; a.Kind == share.Bytes && more > 0 && u.kept >= 0 { // other hosts write to the tenant's sessions
			u.kept += more
			u.grown += more
		}
		p.held, p.last, p.heard = max(0, g.Held-p.spent), *g, now
		switch a.Kind {
		case share.Requests:
			u.bucket.Get(now, g.Held, 0)
		case share.Burst:
			u.bucket.Get(now, 0, g.Held)
		}
		again = again || p.waiting > 0 && (p.spent > 0 || g.Held < a.Want && share.Free(a.Limit, g.Elsewhere) > g.Held)
	}
	return again
}

// ring has a round made.
func (s *shared) ring() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// attempts is how often a round asks that meets other hosts that ask.
const attempts = 8

// make makes a round.
func (s *shared) make(ctx context.Context, onTime bool) {
	s.mu.Lock()
	r := s.next
	s.next = &round{done: make(chan struct{})}
	s.mu.Unlock()
	defer close(r.done)
	ctx, cancel := context.WithTimeout(ctx, 4*s.every)
	defer cancel()
	for range attempts {
		id, asks := s.asks(onTime)
		if len(asks) == 0 {
			break
		}
		s.turn++
		var got []share.Share
		got, r.err = s.host.Share(ctx, id, s.turn, asks)
		if !s.take(id, asks, got, r.err) {
			break
		}
		onTime = false
	}
	if r.err != nil && ctx.Err() == nil {
		s.log.Warn("the limits of tenants cannot be shared", zap.Error(r.err))
	}
	if day := s.meter.now().UTC().Format(time.DateOnly); onTime && day != s.day {
		if err := s.host.Forget(ctx, s.meter.now().UTC().AddDate(0, 0, -1).Format(time.DateOnly)); err == nil {
			s.day = day
		}
	}
}

// run makes rounds until the function that comes back is called, which says what is left to say.
func (s *shared) run() (stop func()) {
	if s == nil {
		return func() {}
	}
	s.at = s.meter.now()
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(s.every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.make(ctx, true)
			case <-s.kick:
				s.make(ctx, false)
			case <-ctx.Done():
				s.make(context.Background(), true)
				close(s.ended)
				return
			}
		}
	}()
	return func() {
		cancel()
		<-stopped
	}
}

// more looks for room of a kind while there is none: it has rounds made, and tries, until try
// reports that there is, or no other host has any that it does not use. Without short there is
// room, and nothing to do.
func (s *shared) more(ctx context.Context, tenant string, kind share.Kind, try func() bool, short bool) error {
	if s == nil || !short {
		return nil
	}
	m := s.meter
	waiting := func(n int64) {
		m.mu.Lock()
		defer m.mu.Unlock()
		u := m.of(tenant)
		u.portion(kind).waiting += n
		m.shared.active[tenant] = true
	}
	for i := range sharePatience {
		if !s.mayCome(tenant, kind, i) {
			return nil
		}
		if i > 0 {
			select {
			case <-time.After(s.every / 2):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		waiting(1)
		err := s.wait(ctx)
		waiting(-1)
		_, held := s.host.Life()
		switch {
		case !held && kind != share.Requests, !held && i == sharePatience-1: // another host may take it
			return errNoLease()
		case err != nil:
			return err
		case try():
			return nil
		}
	}
	return nil
}

// kindOf are the meters of submits of which hosts have parts.
var kindOf = map[string]share.Kind{overTokens: share.Tokens, overCost: share.Cost, overBytes: share.Bytes, overRuns: share.Runs}

// room looks for what a submit lacks, which is the meter that has none left. It returns the one
// that has none still, "" when the submit was let in.
func (s *shared) room(ctx context.Context, tenant, over string, submit func() string) (string, error) {
	for range kindOf { // each may have none, one after the other
		short := over
		if kindOf[short] == "" {
			break
		}
		err := s.more(ctx, tenant, kindOf[short], func() bool {
			over = submit()
			return over != short
		}, true)
		if err != nil || over == short {
			return over, err
		}
	}
	return over, nil
}

// mayCome reports whether another round may bring room.
func (s *shared) mayCome(tenant string, kind share.Kind, round int) bool {
	m := s.meter
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.of(tenant).portion(kind)
	switch {
	case !m.own(): // the host has just got its lease, or has none, and will be told
		return true
	case now.Before(p.full), kind == share.Requests && p.held > 0:
		return false
	case round > 0 && kind != share.Requests && !p.last.Idle() && !p.last.Room(p.limit), round == sharePatience-1:
		p.full = now.Add(s.every)
		return false
	}
	return true
}

// wait has a round made, and waits for it.
func (s *shared) wait(ctx context.Context) error {
	s.mu.Lock()
	r := s.next
	s.mu.Unlock()
	s.ring()
	select {
	case <-r.done:
		return r.err
	case <-s.ended:
		return errLeaving
	case <-ctx.Done():
		return ctx.Err()
	}
}

// elsewhere adds what a tenant uses at other hosts.
func (s *shared) elsewhere(ctx context.Context, tenant string, runs, streams *int, today *spent) error {
	if s == nil {
		return nil
	}
	id, _ := s.host.Life()
	used, err := s.host.Used(ctx, id, tenant, today.Day)
	if err != nil {
		return err
	}
	s.meter.mu.Lock()
	defer s.meter.mu.Unlock()
	u := s.meter.of(tenant)
	*runs += int(used[share.Runs])
	*streams += int(used[share.Streams])
	today.Tokens += used[share.Tokens] - u.portion(share.Tokens).before
	today.Cost += used[share.Cost] - u.portion(share.Cost).before
	today.Bytes += used[share.Bytes] - u.portion(share.Bytes).before
	return nil
}
