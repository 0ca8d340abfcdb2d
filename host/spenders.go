package host

import (
	"context"
	"strings"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/share"
	"github.com/seed14be6753/stile/messages"
)

// What a user may spend in a day (stile.Spending) is divided among the hosts of a cluster as a
// tenant's day is. To the meter and the table a user is a tenant by the name of tenant:user:,
// which no tenant has. The runtime bounds a user as well, by what it has read of the journal and what its
// own host has used since; a run gets the least that is left.

// spenderOf is the name of the user of a session.
func spenderOf(sid string) string {
	tenant, rest, _ := strings.Cut(sid, ":")
	user, _, _ := strings.Cut(rest, ":")
	return tenant + ":" + user + ":"
}

// limitsAt are the limits of a tenant, or of a user.
func (s *Server) limitsAt(name string) Limits {
	if !strings.HasSuffix(name, ":") {
		return s.limitsOf(name)
	}
	l := s.rt.Spending()
	return Limits{TokensPerDay: l.UserTokensPerDay, CostPerDay: l.UserCostPerDay}
}

// observeUser counts what a user has spent. The lock is held.
func (m *meter) observeUser(sid string, cost messages.Budget) {
	name := spenderOf(sid)
	u := m.of(name)
	u.today.Tokens += cost.Tokens
	u.today.Cost += cost.CostUSD
	m.touch(name, u)
}

// afford returns what the user of a session may spend today, 0 for no bound; or refuses, if that is
// nothing, with or without other hosts.
func (s *Server) afford(ctx context.Context, sid string) (left messages.Budget, err error) {
	if !s.meter.users {
		return left, nil
	}
	name := spenderOf(sid)
	left, over, err := s.shares.afford(ctx, name, s.limitsAt(name))
	if err != nil || over == "" {
		return left, err
	}
	reason := stile.OverUserTokens
	if over == overCost {
		reason = stile.OverUserCost
	}
	return left, s.spent(&messages.Error{Code: messages.ErrQuota, Reason: reason, Detail: "the user has used what they may in a day"})
}

func (s *shared) afford(ctx context.Context, name string, l Limits) (left messages.Budget, over string, err error) {
	look := func() string {
		left, over = s.meter.left(name, l)
		return over
	}
	over, err = s.room(ctx, name, look(), look)
	return left, over, err
}

// left is what may be spent of a day at all hosts, as far as this one knows. over names the meter of
// which this host has none.
func (m *meter) left(name string, l Limits) (left messages.Budget, over string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u := m.of(name)
	defer m.touch(name, u)
	for _, of := range []struct {
		kind        share.Kind
		limit, used int64
		left        *int64
		over        string
	}{
		{share.Tokens, l.TokensPerDay, u.today.Tokens, &left.Tokens, overTokens},
		{share.Cost, l.CostPerDay, u.today.Cost, &left.CostUSD, overCost},
	} {
		if of.limit <= 0 {
			continue
		}
		short := m.over(u, of.kind, of.limit, of.used)
		p := u.portion(of.kind)
		if *of.left = of.limit - (of.used - p.before) - p.last.Used; short || *of.left <= 0 {
			return left, of.over
		}
	}
	return left, ""
}

// within bounds what a run may use, beside what its input says.
func within(left messages.Budget) stile.SubmitOption {
	return func(in *messages.Input) {
		if left == (messages.Budget{}) {
			return
		}
		b := left
		if in.Budget != nil {
			b = *in.Budget
			b.Tokens, b.CostUSD = least(b.Tokens, left.Tokens), least(b.CostUSD, left.CostUSD)
		}
		in.Budget = &b
	}
}

// least is the less of two bounds, of which 0 is none.
func least(a, b int64) int64 {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
