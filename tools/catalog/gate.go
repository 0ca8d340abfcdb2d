package catalog

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/internal/seam"
)

// Gate answers for each single call of an action, after the policy let its tool
// exist. It is pure: the same request gets the same verdict, as far as its Hook
// does the same. The zero Gate approves (docs/spec/design.md §11). It must not be changed
// while in use and is safe for concurrent use.
type Gate struct {
	Default messages.GateAnswer // empty: approve
	// ByTool answers for the tools an entry names, as in Policy. A name beats a
	// group, a longer group a shorter one.
	ByTool map[string]messages.GateAnswer
	// Own answers for single tools where neither an entry nor the hook does, before
	// Default: what a tool brings along, such as the denial of shell.
	Own map[string]messages.GateAnswer
	// Deny lists what is denied whatever else says otherwise.
	Deny []string
	// Hook is the host's own judgement; with ok false it leaves the answer to
	// ByTool and Default. It cannot lift a denial of Deny or ByTool, nor a
	// confirmation that ByTool asks for.
	Hook func(tools.Request) (answer messages.GateAnswer, reason string, ok bool)
	// Policies are asked as Hook is, and before it. Of what they and Hook answer the
	// strictest counts, of equals the first.
	Policies []tools.CustomPolicy
}

// Foreign reports whether the gate asks code that is not its own.
func (g *Gate) Foreign() bool { return g.Hook != nil || len(g.Policies) > 0 }

// Verdict is the gate's answer.
type Verdict struct {
	Answer messages.GateAnswer // approve, deny, or confirm: a person is asked
	By     string              // deny, tool, hook, own or default: which part of the gate spoke
	Reason string              // for the model and the journal; may be empty on approval
	Rule   bool                // a configured rule spoke, not the hook
}

// Who spoke, in Verdict.By.
const (
	ByDeny    = "deny"
	ByTool    = "tool"
	ByHook    = "hook"
	ByOwn     = "own"
	ByDefault = "default"
)

// Decide answers a request. An answer that is none of approve, deny and confirm is
// a denial: what the gate does not understand does not happen.
func (g *Gate) Decide(q tools.Request) Verdict {
	for _, pattern := range g.Deny {
		if matches(pattern, q.Tool) {
			return rule(messages.GateDeny, ByDeny)
		}
	}
	answer, ruled := g.byTool(q.Tool)
	if ruled && strictness(answer) >= strictness(messages.GateDeny) {
		return rule(answer, ByTool)
	}
	if v, ok := g.custom(q); ok {
		// A call that a person may allow is still one that a policy can deny.
		if ruled && answer != messages.GateApprove && strictness(answer) >= strictness(v.Answer) {
			return rule(answer, ByTool)
		}
		return v
	}
	if ruled {
		return rule(answer, ByTool)
	}
	for name, a := range g.Own {
		if strings.EqualFold(name, q.Tool) {
			v := rule(a, ByOwn)
			if a == messages.GateDeny {
				v.Reason = "denied: " + name + " needs an answer of its own, approval.tools." + name
			}
			return v
		}
	}
	if g.Default == "" {
		return rule(messages.GateApprove, ByDefault)
	}
	return rule(g.Default, ByDefault)
}

// custom asks the host's own judgements.
func (g *Gate) custom(q tools.Request) (strictest Verdict, ok bool) {
	ask := func(by string, judge func(tools.Request) (messages.GateAnswer, string, bool)) {
		a, reason, answered := judge(q)
		if !answered || ok && strictness(a) <= strictness(strictest.Answer) {
			return
		}
		strictest, ok = rule(a, by), true
		strictest.Rule = false
		if reason != "" {
			strictest.Reason = reason
		}
	}
	for i := range g.Policies {
		ask(g.Policies[i].Name, g.Policies[i].Judge)
	}
	if g.Hook != nil {
		ask(ByHook, g.Hook)
	}
	return strictest, ok
}

func rule(answer messages.GateAnswer, by string) Verdict {
	switch answer {
	case messages.GateApprove:
		return Verdict{Answer: messages.GateApprove, By: by, Rule: true}
	case messages.GateDeny:
		return Verdict{Answer: messages.GateDeny, By: by, Rule: true, Reason: "denied by policy"}
	case messages.GateConfirm:
		return Verdict{Answer: messages.GateConfirm, By: by, Rule: true, Reason: "needs confirmation"}
	case messages.GateExpired: // the end of a question, which no rule and no policy says
	}
	return Verdict{Answer: messages.GateDeny, By: by, Rule: true, Reason: "denied: the gate knows no answer " + strconv.Quote(string(answer))}
}

// byTool finds the most telling entry. Entries that differ in case alone are the
// same entry; if they disagree, the strictest counts.
func (g *Gate) byTool(name string) (answer messages.GateAnswer, ok bool) {
	best := -1
	for pattern, a := range g.ByTool {
		if !matches(pattern, name) {
			continue
		}
		weight := len(pattern)
		if !strings.HasSuffix(pattern, ".*") {
			weight += seam.MaxNameBytes // a name beats every group
		}
		if weight > best || weight == best && strictness(a) > strictness(answer) {
			best, answer = weight, a
		}
	}
	return answer, best >= 0
}

// strictness orders answers: what is not understood is the strictest.
func strictness(a messages.GateAnswer) int {
	switch a {
	case messages.GateApprove:
		return 0
	case messages.GateConfirm:
		return 1
	}
	return 2
}

// Validate reports the first answer that is not one, as ERR_CONFIG with the
// entry as Field.
func (g *Gate) Validate() error {
	if !known(g.Default) && g.Default != "" {
		return invalid("approval.default", "there is no answer "+strconv.Quote(string(g.Default)))
	}
	for _, pattern := range slices.Sorted(maps.Keys(g.ByTool)) {
		if a := g.ByTool[pattern]; !known(a) {
			return invalid("approval.tools."+pattern, "there is no answer "+strconv.Quote(string(a)))
		}
	}
	return nil
}

func known(a messages.GateAnswer) bool {
	return a == messages.GateApprove || a == messages.GateDeny || a == messages.GateConfirm
}
