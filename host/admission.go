package host

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/budget"
	"github.com/seed14be6753/stile/internal/share"
	"github.com/seed14be6753/stile/messages"
)

// DefaultMaxRuns bounds the runs of all tenants that are in flight or wait.
const DefaultMaxRuns = 4096

func (s *Server) limitsOf(tenant string) Limits {
	o := s.offer.Load()
	if l, ok := o.TenantLimits[tenant]; ok {
		return l
	}
	return o.Limits
}

// Reasons of refusals for load. They are ERR_BUSY, but for what is used up by the day,
// which is ERR_QUOTA; all with status 429, or 503 when the host itself is full.
const (
	reasonRate     = "RATE"
	reasonSessions = "SESSIONS"
	reasonStreams  = "STREAMS"
)

func tooMuch(status int, code messages.Code, reason, detail string, after time.Duration) *problem {
	p := refusal(status, code, "", detail)
	if code == messages.ErrBusy { // what it means of a session is not meant here
		p.Title = "There is no room for it now."
	}
	p.Reason, p.Retryable, p.retryAfter = reason, true, after
	return p
}

// pace refuses a request of a tenant that asks too often. One that another host has forwarded was
// counted there.
func (s *Server) pace(ctx context.Context, p principal) error {
	if forwarded(ctx) {
		return nil
	}
	l := s.limitsOf(p.tenant)
	wait := s.meter.request(p.tenant, l)
	err := s.shares.more(ctx, p.tenant, share.Requests, func() bool {
		wait = s.meter.request(p.tenant, l)
		return wait == 0
	}, wait > 0)
	if err != nil {
		return err
	}
	if wait > 0 {
		return tooMuch(http.StatusTooManyRequests, messages.ErrBusy, reasonRate, "the tenant asks more often than it may", wait)
	}
	return nil
}

// submit submits for the caller, if its tenant and the host have room for a run.
// Every door submits through it.
func (s *Server) submit(ctx context.Context, ses *stile.Session, input string, opts ...stile.SubmitOption) (*stile.Run, error) {
	sid := ses.SID()
	left, err := s.afford(ctx, sid)
	if err != nil {
		return nil, err
	}
	done, err := s.admit(ctx, sid)
	if err != nil {
		return nil, err
	}
	opts = append(opts, within(left))
	if of := parentOf(ctx); of.parent != "" {
		opts = append(opts, stile.TraceParent(of.parent), stile.TraceState(of.state))
	}
	run, err := ses.Submit(ctx, input, opts...)
	if err != nil {
		done(0)
		return nil, s.spent(err)
	}
	done(run.Ordinal())
	_, id, _ := strings.Cut(strings.TrimPrefix(sid, tenantOf(sid)+":"), ":")
	trailOf(ctx).about(id, run.Ordinal())
	return run, nil
}

// admit takes room for a run of a session, if its tenant and the host have it. done gives the
// run that came of it, 0 for none.
func (s *Server) admit(ctx context.Context, sid string) (done func(run int64), err error) {
	if err := s.taking(); err != nil {
		return nil, err
	}
	tenant := tenantOf(sid)
	if err := s.disc(ctx, tenant); err != nil {
		return nil, err
	}
	limits := s.limitsOf(tenant)
	done, over := s.meter.submit(sid, limits, s.maxRuns)
	if over == overRuns || over == overHost {
		if s.reconcile(ctx, tenant) {
			done, over = s.meter.submit(sid, limits, s.maxRuns)
		}
	}
	over, err = s.shares.room(ctx, tenant, over, func() string {
		done, over = s.meter.submit(sid, limits, s.maxRuns)
		return over
	})
	if err != nil {
		return nil, err
	}
	if over != "" {
		return nil, s.full(over)
	}
	return done, nil
}

// spent is the refusal of a submit whose user or session has used what it may.
func (s *Server) spent(err error) error {
	e := (*messages.Error)(nil)
	if !errors.As(err, &e) || e.Code != messages.ErrQuota {
		return err
	}
	switch e.Reason {
	case stile.OverUserTokens, stile.OverUserCost:
		now := s.meter.now()
		return tooMuch(http.StatusTooManyRequests, messages.ErrQuota, e.Reason, e.Detail, budget.Resets(now).Sub(now))
	case stile.OverSessionTokens, stile.OverSessionCost:
		p := tooMuch(http.StatusTooManyRequests, messages.ErrQuota, e.Reason, e.Detail, 0)
		p.Retryable = false // the session has none left, whenever it is asked
		return p
	}
	return err
}

func (s *Server) full(over string) *problem {
	switch over {
	case overRuns:
		return tooMuch(http.StatusTooManyRequests, messages.ErrBusy, over, "the tenant has as many runs in flight as it may", time.Second)
	case overHost:
		return tooMuch(http.StatusServiceUnavailable, messages.ErrBusy, over, "the host has as many runs in flight as it can take", time.Second)
	}
	now := s.meter.now().UTC()
	return tooMuch(http.StatusTooManyRequests, messages.ErrQuota, over, "the tenant has used what it may in a day", now.Truncate(24*time.Hour).Add(24*time.Hour).Sub(now))
}

// reconcile looks whether runs that seem to be in flight have ended: with a shared
// journal another host may have taken them over.
func (s *Server) reconcile(ctx context.Context, tenant string) (found bool) {
	for _, id := range s.meter.stale(tenant) {
		ses, err := s.rt.Find(ctx, id.sid)
		ended := stile.IsNotFound(err)
		if err == nil {
			_, ended, err = ses.Run(id.run).Outcome(ctx)
			ended = ended && err == nil
		}
		if ended {
			s.meter.ended(id)
			found = true
		}
	}
	return found
}

// disc refuses a tenant of whose sessions the journal keeps as much as it may.
func (s *Server) disc(ctx context.Context, tenant string) error {
	limit := s.limitsOf(tenant).JournalBytes
	kept, err := s.keeps(ctx, tenant)
	if err != nil || limit == 0 || kept < limit {
		return err
	}
	p := tooMuch(http.StatusTooManyRequests, messages.ErrQuota, overKept, "the journal keeps "+strconv.FormatInt(kept, 10)+" bytes of the tenant's sessions, and journal_bytes is "+strconv.FormatInt(limit, 10)+": delete sessions", 0)
	p.Retryable = false // waiting frees nothing
	return p
}

// keeps returns what the journal keeps of a tenant's sessions, about; 0 where that has no limit.
func (s *Server) keeps(ctx context.Context, tenant string) (int64, error) {
	limit := s.limitsOf(tenant).JournalBytes
	if limit == 0 {
		return 0, nil
	}
	if err := s.shares.hear(ctx, tenant); err != nil {
		return 0, err
	}
	return s.meter.journal(tenant, limit, func() (int64, error) { return s.rt.Archive().Bytes(ctx, tenant+":") })
}

// room takes room for a session of the caller. begun is called once, and says whether one came of it.
func (s *Server) room(ctx context.Context, tenant string) (begun func(bool), err error) {
	if err := s.taking(); err != nil {
		return nil, err
	}
	if err := s.disc(ctx, tenant); err != nil {
		return nil, err
	}
	limits, ok := s.limitsOf(tenant), false
	if s.shares != nil && limits.Sessions > 0 {
		begun, ok, err = s.shares.begin(ctx, tenant, limits)
	} else {
		ok, err = s.meter.session(tenant, limits, s.exist(ctx, tenant))
		begun = func(came bool) {
			if !came {
				s.meter.unsession(tenant)
			}
		}
	}
	if err == nil && !ok {
		err = tooMuch(http.StatusTooManyRequests, messages.ErrBusy, reasonSessions, "the tenant has as many sessions as it may", recount)
	}
	return begun, err
}

// exist counts the sessions of a tenant that have a name.
func (s *Server) exist(ctx context.Context, tenant string) func(atMost int) (int, error) {
	return func(atMost int) (n int, err error) {
		for h, err := range s.rt.Archive().Sessions(ctx, tenant+":") {
			if err != nil {
				return 0, err
			}
			if h.Live && !h.Closed && !isEphemeral(idOf(h.SID)) {
				n++
			}
			if n >= atMost {
				break
			}
		}
		return n, nil
	}
}

// place takes one of the places for streams, of the host and of the caller's tenant; the
// function gives it back, once.
func (s *Server) place(ctx context.Context) (func(), error) {
	tenant := s.principal(ctx).tenant
	all := 0 // without tokens there is no other tenant to leave some to
	if s.cfg.Access != nil {
		all = cap(s.streams)
	}
	limits := s.limitsOf(tenant)
	back, ok := s.meter.stream(tenant, limits, all)
	err := s.shares.more(ctx, tenant, share.Streams, func() bool {
		back, ok = s.meter.stream(tenant, limits, all)
		return ok
	}, !ok && limits.Streams > 0)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, tooMuch(http.StatusTooManyRequests, messages.ErrBusy, reasonStreams, "the tenant has as many streams open as it may", 5*time.Second)
	}
	select {
	case s.streams <- struct{}{}:
		closed := s.rt.Metrics().StreamOpened()
		return func() { closed(); <-s.streams; back() }, nil
	default:
		back()
		return nil, tooMuch(http.StatusServiceUnavailable, messages.ErrBusy, overHost, "too many streams are open", 5*time.Second)
	}
}

// check refuses limits that are none.
func (l Limits) check(field string) error {
	bad := math.IsNaN(l.RequestsPerSecond) || math.IsInf(l.RequestsPerSecond, 0) || l.RequestsPerSecond < 0 || l.Burst < 0 || l.Runs < 0 || l.Sessions < 0 || l.Streams < 0 ||
		l.TokensPerDay < 0 || l.CostPerDay < 0 || l.BytesPerDay < 0 || l.JournalBytes < 0
	if bad {
		return &messages.Error{Code: messages.ErrConfig, Field: field, Detail: "a limit is not negative; 0 is none"}
	}
	return nil
}
