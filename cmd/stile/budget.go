package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/seed14be6753/stile/messages"
)

// budgetHelp says how parseBudget reads a budget.
const budgetHelp = "tokens=20000, usd=0.50, or both with a comma between them"

// parseBudget reads a budget of a flag; field is the flag's name.
func parseBudget(field, s string) (b messages.Budget, err error) {
	bad := func() (messages.Budget, error) {
		return messages.Budget{}, flagError(field, strconv.Quote(s)+" is no budget: want "+budgetHelp)
	}
	for part := range strings.SplitSeq(s, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		to := &b.Tokens
		switch name {
		case "tokens":
		case "usd":
			to = &b.CostUSD
			whole, rest, _ := strings.Cut(value, ".")
			if len(rest) > 6 {
				return bad()
			}
			value = whole + rest + strings.Repeat("0", 6-len(rest))
		default:
			return bad()
		}
		n, err := strconv.ParseUint(value, 10, 53)
		if err != nil || n == 0 || *to != 0 {
			return bad()
		}
		*to = int64(n)
	}
	return b, nil
}

// over reports whether what was used is at a bound of a budget; 0 is no bound.
func over(budget, used messages.Budget) bool {
	return budget.Tokens > 0 && used.Tokens >= budget.Tokens || budget.CostUSD > 0 && used.CostUSD >= budget.CostUSD
}

// budgetText is a budget or what was used of one, for people.
func budgetText(b messages.Budget) string {
	return fmt.Sprintf("%d tokens, $%d.%06d", b.Tokens, b.CostUSD/1e6, b.CostUSD%1e6)
}
