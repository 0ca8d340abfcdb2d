package catalog

import (
	"sync"

	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// workflowBudget is the budget of a workflow, and the parts of it that steps have reserved.
// Steps reserve before they begin, as actions of a run do. It belongs to one goroutine.
type workflowBudget struct {
	bound   messages.Budget // of the workflow; 0 is none
	left    messages.Budget
	targets *Targets
	waiting int // steps that will reserve
	held    map[string]messages.Budget
}

func (g *Graph) budget(c *tools.Call) *workflowBudget {
	p := &workflowBudget{bound: c.Budget, left: c.Budget, targets: g.Targets, held: map[string]messages.Budget{}}
	for _, s := range g.Steps {
		if _, ok := g.Targets.Spends(s.Type, s.Name); ok {
			p.waiting++
		}
	}
	return p
}

// reserve reserves a step's share of the rest of the budget, which it divides by the steps
// that may still begin beside it. The grant is nil for a step that spends nothing; lacks
// names a meter that is used up.
func (p *workflowBudget) reserve(s *messages.Action) (grant *messages.Budget, lacks string) {
	most, ok := p.targets.Spends(s.Type, s.Name)
	if !ok {
		return nil, ""
	}
	shares := int64(max(1, min(p.waiting, plan.DefaultParallel-len(p.held))))
	p.waiting--
	grant = &messages.Budget{}
	for _, of := range []struct {
		meter                     string
		bound, left, most, shares int64
		to                        *int64
	}{
		{"tokens", p.bound.Tokens, p.left.Tokens, most.Tokens, shares, &grant.Tokens},
		{"cost_usd", p.bound.CostUSD, p.left.CostUSD, most.CostUSD, shares, &grant.CostUSD},
		{"actions", p.bound.Actions, p.left.Actions, most.Actions, 1, &grant.Actions},
	} {
		switch share := of.left / of.shares; {
		case of.bound == 0:
			*of.to = of.most
		case share <= 0:
			return nil, of.meter
		case of.most > 0:
			*of.to = min(share, of.most)
		default:
			*of.to = share
		}
	}
	p.held[s.ID] = *grant
	p.left = p.left.Minus(messages.Budget{CostUSD: grant.CostUSD, Tokens: grant.Tokens})
	return grant, ""
}

// settle returns the unused part of the grant of a step that has ended.
func (p *workflowBudget) settle(id string, used messages.Budget) {
	grant := p.held[id]
	delete(p.held, id)
	p.left = p.left.Plus(messages.Budget{CostUSD: grant.CostUSD, Tokens: grant.Tokens}).Minus(used)
}

// spending sums up what a step has used. It is safe for concurrent use.
type spending struct {
	mu    sync.Mutex
	total messages.Budget
}

func (s *spending) add(used messages.Budget) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total = s.total.Plus(used)
}

func (s *spending) sum() messages.Budget {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}
