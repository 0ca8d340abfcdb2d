package host

import (
	"cmp"
	"math"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/seed14be6753/stile/internal/budget"
	"github.com/seed14be6753/stile/internal/share"
	"github.com/seed14be6753/stile/messages"
)

// Limits bound one tenant. Zero is no limit.
type Limits struct {
	RequestsPerSecond float64 `yaml:"requests_per_second"`
	Burst             int     `yaml:"burst"`    // requests at once; 0 is a second's worth
	Runs              int     `yaml:"runs"`     // in flight or waiting
	Sessions          int     `yaml:"sessions"` // that exist
	Streams           int     `yaml:"streams"`  // open at once
	// Of a day (UTC), counted as records come: a run that has begun goes on over it.
	TokensPerDay int64 `yaml:"tokens_per_day"`         // of models
	CostPerDay   int64 `yaml:"cost_micro_usd_per_day"` // of models with a price
	BytesPerDay  int64 `yaml:"bytes_per_day"`          // that the journal grows by
	// JournalBytes is what the journal may keep of all sessions of the tenant. At the limit no
	// run and no session begins until sessions are deleted; a run that has begun goes on.
	JournalBytes int64 `yaml:"journal_bytes"`
}

// meter counts what tenants use: the door tells it of requests, submits and streams, the
// runtime of records. Its methods are safe for concurrent use.
type meter struct {
	now    func() time.Time
	file   string
	shared *shared // nil without a cluster
	users  bool    // what each uses of a day is counted, in a cluster

	mu      sync.Mutex
	tenants map[string]*usage // and, in a cluster, users whose spending is bound
	most    int               // of them, at which those that do nothing are forgotten
	runs    int               // of all tenants
	streams int               // of all tenants
	// pending are the sessions with a submit on its way: their runs may end before the
	// submit has said which they are.
	pending map[string]*underway
}

// usage is what one tenant uses.
type usage struct {
	requests *rate.Limiter
	limits   Limits
	runs     map[runID]time.Time // in flight, and since when
	waiting  int                 // submits on their way
	streams  int
	sessions int   // -1: not counted yet
	begins   int64 // sessions that take a place now, in a cluster
	chats    int   // ephemeral sessions; -1: not counted yet
	counted  time.Time
	kept     int64 // bytes of the journal; -1: not measured yet
	grown    int64 // of them since they were measured
	measured time.Time
	today    spent
	parts    map[share.Kind]*portion // of its limits, in a cluster
	bucket   share.Bucket            // of its requests, in a cluster
	asked    int64                   // requests since the last round on the clock
}

// spent is what a tenant used on a day.
type spent struct {
	Day    string `json:"day"` // UTC, as 2026-11-21
	Tokens int64  `json:"tokens"`
	Cost   int64  `json:"cost_micro_usd"`
	Bytes  int64  `json:"bytes"`
}

type runID struct {
	sid string
	run int64
}

type underway struct {
	submits int
	ended   map[int64]bool
}

// newMeter makes one that keeps what is used of a day in a file, if it has a name.
func newMeter(now func() time.Time, file string) (*meter, error) {
	m := &meter{now: now, tenants: map[string]*usage{}, pending: map[string]*underway{}, file: file}
	return m, m.load()
}

// of returns a tenant's usage. The lock is held.
func (m *meter) of(tenant string) *usage {
	u := m.tenants[tenant]
	if u == nil {
		if len(m.tenants) >= max(m.most, maxIdleTenants) {
			m.sweep()
			m.most = 2 * len(m.tenants) // what is used of the day stays, and is not looked at for each that comes
		}
		u = &usage{runs: map[runID]time.Time{}, sessions: -1, chats: -1, kept: -1}
		m.tenants[tenant] = u
	}
	if day := m.now().UTC().Format(time.DateOnly); u.today.Day != day {
		u.today = spent{Day: day}
		if m.shared != nil { // hosts say what they write by the day
			u.kept = -1
		}
	}
	return u
}

// maxIdleTenants is how many are remembered before those that do nothing are forgotten.
const maxIdleTenants = 10000

func (m *meter) sweep() {
	day := m.now().UTC().Format(time.DateOnly)
	for name, u := range m.tenants {
		if m.shared != nil && m.shared.active[name] {
			continue
		}
		unused := u.today.Day != day || u.today.Tokens == 0 && u.today.Cost == 0 && u.today.Bytes == 0
		rested := u.requests == nil || u.requests.TokensAt(m.now()) >= float64(u.requests.Burst())
		if len(u.runs) == 0 && u.waiting == 0 && u.begins == 0 && u.streams == 0 && rested && unused {
			delete(m.tenants, name)
		}
	}
}

func tenantOf(sid string) string {
	tenant, _, _ := strings.Cut(sid, ":")
	return tenant
}

// observe counts what a durable record tells.
func (m *meter) observe(r *messages.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	tenant := tenantOf(r.SID)
	u := m.of(tenant)
	defer m.touch(tenant, u)
	u.today.Bytes += int64(len(r.Raw))
	if u.kept >= 0 {
		u.kept += int64(len(r.Raw))
		u.grown += int64(len(r.Raw))
	}
	cost := budget.Of(r)
	u.today.Tokens += cost.Tokens
	u.today.Cost += cost.CostUSD
	if m.users && cost != (messages.Budget{}) {
		m.observeUser(r.SID, cost)
	}
	switch r.Body.(type) {
	case *messages.RunEnd:
		m.drop(u, runID{r.SID, r.Run})
		if p := m.pending[r.SID]; p != nil {
			p.ended[r.Run] = true
		}
	case *messages.TurnBegin: // of a run that this host has taken over
		if _, known := u.runs[runID{r.SID, r.Run}]; m.shared != nil && !known && m.pending[r.SID] == nil {
			u.runs[runID{r.SID, r.Run}] = m.now()
			m.runs++
		}
	}
}

func (m *meter) drop(u *usage, id runID) {
	if _, ok := u.runs[id]; ok {
		delete(u.runs, id)
		m.runs--
	}
}

// used returns what a tenant uses, and used today.
func (m *meter) used(tenant string) (runs, streams int, today spent) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.of(tenant)
	return len(u.runs) + u.waiting, u.streams, u.today
}

// request takes one of a tenant's requests, or tells when there is one.
func (m *meter) request(tenant string, l Limits) (wait time.Duration) {
	if l.RequestsPerSecond <= 0 {
		return 0
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.of(tenant)
	if m.shared != nil {
		m.touch(tenant, u)
		u.asked++
		if !m.own() {
			return time.Second
		}
		return u.bucket.Take(m.now())
	}
	if u.requests == nil || u.limits != l {
		u.limits = l
		u.requests = rate.NewLimiter(rate.Limit(l.RequestsPerSecond), cmp.Or(l.Burst, int(max(1, math.Ceil(l.RequestsPerSecond)))))
	}
	now := m.now()
	if u.requests.AllowN(now, 1) {
		return 0
	}
	missing := 1 - u.requests.TokensAt(now)
	return max(time.Millisecond, time.Duration(missing/l.RequestsPerSecond*float64(time.Second)))
}

// fairness is how many runs a tenant may have for each that is free: one tenant alone
// gets four fifths of the host, and what is left is there for the next one at once.
const fairness = 4

// submit takes a place for a run. over names the meter that has none left; done is
// called once with the run that came of it, or 0.
func (m *meter) submit(sid string, l Limits, all int) (done func(run int64), over string) {
	tenant := tenantOf(sid)
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.of(tenant)
	own := len(u.runs) + u.waiting
	defer m.touch(tenant, u)
	switch {
	case m.over(u, share.Tokens, l.TokensPerDay, u.today.Tokens):
		return nil, overTokens
	case m.over(u, share.Cost, l.CostPerDay, u.today.Cost):
		return nil, overCost
	case m.over(u, share.Bytes, l.BytesPerDay, u.today.Bytes):
		return nil, overBytes
	case m.over(u, share.Runs, int64(l.Runs), int64(own)):
		return nil, overRuns
	case m.runs >= all || own >= fairness*(all-m.runs):
		return nil, overHost
	}
	u.waiting++
	m.runs++
	p := m.pending[sid]
	if p == nil {
		p = &underway{ended: map[int64]bool{}}
		m.pending[sid] = p
	}
	p.submits++
	return func(run int64) {
		m.mu.Lock()
		defer m.mu.Unlock()
		defer m.touch(tenant, u)
		u.waiting--
		m.runs--
		id := runID{sid, run}
		if _, known := u.runs[id]; run > 0 && !known && !p.ended[run] {
			u.runs[id] = m.now()
			m.runs++
		}
		if p.submits--; p.submits == 0 {
			delete(m.pending, sid)
		}
	}, ""
}

// The meters that a submit may find at their end.
const (
	overTokens = "TOKENS"
	overCost   = "COST"
	overBytes  = "BYTES"
	overKept   = "JOURNAL_BYTES"
	overRuns   = "RUNS"
	overHost   = "HOST"
)

// stale are runs of a tenant that have been in flight for some time, the oldest first:
// another host may have ended them.
func (m *meter) stale(tenant string) (old []runID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	for id, since := range m.of(tenant).runs {
		if now.Sub(since) > staleRun && len(old) < maxStale {
			old = append(old, id)
		}
	}
	return old
}

const (
	staleRun = time.Minute
	maxStale = 16
)

// ended forgets a run of which the end was found elsewhere.
func (m *meter) ended(id runID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.of(tenantOf(id.sid))
	m.drop(u, id)
	m.touch(tenantOf(id.sid), u)
}

// forget drops what is open of a session that was deleted.
func (m *meter) forget(sid string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.of(tenantOf(sid))
	m.touch(tenantOf(sid), u)
	for id := range u.runs {
		if id.sid == sid {
			m.drop(u, id)
		}
	}
	u.measured = time.Time{} // what was erased counts no more
	switch {
	case isEphemeral(idOf(sid)):
		u.chats = max(u.chats-1, -1)
	case u.sessions > 0:
		u.sessions--
	}
}

// ephemeral counts a session that was begun without a name. It reports whether to look which
// are too many: the tenant has more than most, or was not counted yet.
func (m *meter) ephemeral(tenant string, most int) (look bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.of(tenant)
	if u.chats >= 0 {
		u.chats++
	}
	return u.chats < 0 || u.chats > most
}

// counted says how many ephemeral sessions a tenant has.
func (m *meter) counted(tenant string, chats int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of(tenant).chats = chats
}

// stream takes one of a tenant's streams; the function gives it back. Of all, 0 for no
// matter how many, a tenant has at most fairness for each that is free.
func (m *meter) stream(tenant string, l Limits, all int) (func(), bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.of(tenant)
	free := all - m.streams
	defer m.touch(tenant, u)
	if m.over(u, share.Streams, int64(l.Streams), int64(u.streams)) || free > 0 && u.streams >= fairness*free {
		return nil, false
	}
	u.streams++
	m.streams++
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		defer m.touch(tenant, u)
		u.streams--
		m.streams--
	}, true
}

// recount is how often a tenant at its limit of sessions is counted anew.
const recount = 10 * time.Second

// session takes room for a session. count tells how many there are, if the meter does not know
// or the tenant seems to be at its limit.
func (m *meter) session(tenant string, l Limits, count func(atMost int) (int, error)) (ok bool, err error) {
	if l.Sessions <= 0 {
		return true, nil
	}
	m.mu.Lock()
	u := m.of(tenant)
	now := m.now()
	look := u.sessions < 0 || u.sessions >= l.Sessions && now.Sub(u.counted) >= recount
	if look {
		u.counted = now
	}
	m.mu.Unlock()
	n := 0
	if look {
		if n, err = count(l.Sessions); err != nil {
			return false, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if look {
		u.sessions = n
	}
	if u.sessions >= l.Sessions {
		return false, nil
	}
	u.sessions++
	return true, nil
}

// remeasure is the share of its limit that a tenant's sessions grow by before they are measured
// anew: another host may write them too, and blobs are not observed.
const remeasure = 8

// journal returns what the journal keeps of a tenant's sessions. measure is called if the meter
// does not know, or the tenant seems to be at its limit.
func (m *meter) journal(tenant string, limit int64, measure func() (int64, error)) (kept int64, err error) {
	m.mu.Lock()
	u := m.of(tenant)
	now := m.now()
	look := u.kept < 0 || u.grown >= max(limit/remeasure, 1) || u.kept >= limit && now.Sub(u.measured) >= recount
	if look {
		u.measured, u.grown = now, 0
	}
	m.mu.Unlock()
	if look {
		if kept, err = measure(); err != nil {
			kept = -1
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if look {
		u.kept = kept // what has come meanwhile is counted the next time
	}
	return u.kept, err
}

// unsession gives back the room of a session that did not come to be.
func (m *meter) unsession(tenant string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if u := m.of(tenant); u.sessions > 0 {
		u.sessions--
	}
}
