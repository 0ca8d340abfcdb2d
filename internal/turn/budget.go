package turn

import (
	"strconv"

	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/messages"
)

// Tokens and money that an action may use are reserved before it begins and settled when
// it ends (docs/spec/design.md §8): actions that run side by side can never use more than the
// run has left. The reservation stands in action.started, so that a restart and a replay
// know it.
//
//	spent + reserved by open actions ≤ limit, for tokens and money, when an action is
//	granted its share
//
// Replies of the run come one at a time and count when they end. The number of actions is
// not reserved: a child session may use all that are left, and its actions count when it
// has ended.

// limits returns the limits of the open run: the agent's, tightened by a budget that came
// with the input. 0 is no limit.
func (m *Machine) limits() messages.Budget {
	l := messages.Budget{Actions: m.cfg.Limits.Actions, CostUSD: m.cfg.Limits.CostMicroUSD, Tokens: m.cfg.Limits.Tokens}
	if run := m.state.Open; run != nil && run.Budget != nil {
		l = messages.Budget{
			Actions: tighter(l.Actions, run.Budget.Actions), CostUSD: tighter(l.CostUSD, run.Budget.CostUSD), Tokens: tighter(l.Tokens, run.Budget.Tokens),
		}
	}
	return l
}

// tighter returns the smaller of two bounds; 0 is no bound.
func tighter(a, b int64) int64 {
	if a <= 0 || b > 0 && b < a {
		return b
	}
	return a
}

// overBudget ends the turn, and returns true, if the run has used more than it may.
func (m *Machine) overBudget() bool {
	run, l := m.state.Open, m.limits()
	switch {
	case l.Tokens > 0 && run.Tokens > l.Tokens:
		m.overrun("tokens", l.Tokens, "a run")
	case l.CostUSD > 0 && run.Cost > l.CostUSD:
		m.overrun("cost_usd", l.CostUSD, "micro-USD a run")
	default:
		return false
	}
	return true
}

// reserve grants an action that may spend a share of what the run has left. It does so
// once: all attempts of the action use that share. lacks names a meter of which nothing is
// left.
func (m *Machine) reserve(c *call) (lacks string) {
	if c.budget.reserved != nil || m.cfg.Spends == nil || c.node.ref.Generation == 0 {
		return ""
	}
	bound, spends := m.cfg.Spends(c.typ, c.Name)
	if !spends {
		return ""
	}
	l, run := m.limits(), m.state.Open
	var held messages.Budget
	holders, waiting := 0, 0
	for i := range run.Turn.Actions {
		a := &run.Turn.Actions[i]
		switch o := m.flight.any(a.ID); {
		case a.ID == c.ID:
		case a.Reserved != nil:
			held.CostUSD, held.Tokens = held.CostUSD+a.Reserved.CostUSD, held.Tokens+a.Reserved.Tokens
			holders++
		case o != nil && o.typ != "":
			if _, also := m.cfg.Spends(o.typ, o.Name); also {
				waiting++
			}
		}
	}
	for i := range m.state.Detached {
		if d := &m.state.Detached[i]; d.Run == run.Run && d.Reserved != nil {
			held.CostUSD, held.Tokens = held.CostUSD+d.Reserved.CostUSD, held.Tokens+d.Reserved.Tokens
			holders++
		}
	}
	// A sync action closes the gate, so nothing new begins beside it: it shares with the
	// actions that wait already. Beside an async one every free slot may be taken.
	shares := 1 + waiting
	if c.mode != messages.ModeSync {
		shares = max(1, m.parallel()-holders)
	}
	var grant messages.Budget
	for _, of := range []struct {
		meter                    string
		limit, spent, held, most int64
		shares                   int
		to                       *int64
	}{
		{"tokens", l.Tokens, run.Tokens, held.Tokens, bound.Tokens, shares, &grant.Tokens},
		{"cost_usd", l.CostUSD, run.Cost, held.CostUSD, bound.CostUSD, shares, &grant.CostUSD},
		{"actions", l.Actions, run.Actions, 0, bound.Actions, 1, &grant.Actions},
	} {
		if of.limit <= 0 {
			*of.to = of.most
			continue
		}
		share := (of.limit - of.spent - of.held) / int64(of.shares)
		if share <= 0 && (of.meter != "actions" || c.typ == messages.TypeAgent) {
			return of.meter
		}
		*of.to = tighter(share, of.most)
	}
	c.budget.reserved = &grant
	return ""
}

// parallel returns how many actions of a reply may run at once.
func (m *Machine) parallel() int {
	if m.cfg.Limits.Parallel > 0 {
		return m.cfg.Limits.Parallel
	}
	return plan.DefaultParallel
}

// left returns what is left of an action's share for its next attempt. none reports whether
// a meter of the share is used up.
func (c *call) left() (grant messages.Budget, none bool) {
	if c.budget.reserved == nil {
		return messages.Budget{}, false
	}
	return c.budget.reserved.Left(c.budget.used)
}

// lacking ends an action because a meter of the run is used up.
func (m *Machine) lacking(c *call, meter string) {
	l := m.limits()
	limit := map[string]int64{"tokens": l.Tokens, "cost_usd": l.CostUSD, "actions": l.Actions}[meter]
	m.endCall(c, &ActionEnded{
		State: messages.ActionFailed, Reason: reasonQuota, ErrorCode: CodeToolFailed,
		Result: quote(meter + ": nothing is left of the run's " + strconv.FormatInt(limit, 10) + " that is not reserved"),
	})
}
