package catalog

import (
	"crypto/sha256"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/internal/seam"
)

// Gate decides about each call of an action that the policy allows. The same request gets
// the same verdict, if the Hook's answers are the same too. The zero Gate approves
// (docs/spec/design.md §11). It must not be changed while in use and is safe for concurrent
// use.
type Gate struct {
	Default messages.GateAnswer // empty: approve
	// ByTool has answers by tool or group, named as in Policy. A tool takes precedence
	// over a group, a longer group over a shorter one.
	ByTool map[string]messages.GateAnswer
	// Own has the default answers of single tools, such as the denial of shell. They count
	// before Default, where neither ByTool nor the hook answers.
	Own map[string]messages.GateAnswer
	// Deny lists tools and groups that are denied; no other answer lifts that.
	Deny []string
	// Hook is the host's own rule; with ok false it leaves the answer to ByTool and
	// Default. It cannot lift a denial of Deny or ByTool, nor a confirmation that ByTool
	// asks for.
	Hook func(tools.Request) (answer messages.GateAnswer, reason string, ok bool)
	// Policies are further rules, asked before Hook. The strictest answer of Policies and
	// Hook counts; of equally strict ones, the first.
	Policies []tools.CustomPolicy
	// Aliases are tools that stand for a call of another one, by name. Such a call is judged
	// under both names, and the stricter answer counts.
	Aliases map[string]Aliased
}

// Aliased is what an alias stands for.
type Aliased struct {
	Tool string
	// Args are the arguments of the call that it makes, from its own: JSON objects. ok is false
	// for arguments that do not fit, with which no call is made.
	Args func(args string) (made string, ok bool)
}

// Foreign reports whether the gate calls code of the embedder: a hook or policies.
func (g *Gate) Foreign() bool { return g.Hook != nil || len(g.Policies) > 0 }

// Verdict is the gate's decision about a call.
type Verdict struct {
	Answer messages.GateAnswer // approve, deny, or confirm: a person is asked
	By     string              // which part of the gate answered: deny, tool, hook, own, default or a policy's name
	Reason string              // for the model and the journal; may be empty on approval
	Rule   bool                // the answer is that of a configured rule, not of the hook
}

// Parts of the gate, in Verdict.By.
const (
	ByDeny    = "deny"
	ByTool    = "tool"
	ByHook    = "hook"
	ByOwn     = "own"
	ByDefault = "default"
)

// Decide returns the verdict on a request. An answer other than approve, deny and confirm
// counts as a denial.
func (g *Gate) Decide(q tools.Request) Verdict {
	v := g.decide(q)
	if of, ok := g.Aliases[q.Tool]; ok {
		if made := g.decide(of.request(q)); strictness(made.Answer) > strictness(v.Answer) {
			return made
		}
	}
	return v
}

// request is the call that an alias makes.
func (a Aliased) request(q tools.Request) tools.Request {
	q.Tool = a.Tool
	args := strings.TrimSpace(q.JSON)
	if strings.HasPrefix(args, "[") { // of a program: one map of names, as NewForeign makes it
		args = strings.TrimSuffix(strings.TrimPrefix(args, "["), "]")
	}
	made, ok := a.Args(args)
	if !ok {
		return q
	}
	q.JSON, q.ArgsDigest, q.Args = made, sha256.Sum256([]byte(made)), nil
	return q
}

func (g *Gate) decide(q tools.Request) Verdict {
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
		// A policy can still deny a call that a person may allow.
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

// custom asks the policies and the hook.
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

// byTool finds the most specific entry. Entries that differ in case alone are the same
// entry; if they disagree, the strictest counts.
func (g *Gate) byTool(name string) (answer messages.GateAnswer, ok bool) {
	best := -1
	for pattern, a := range g.ByTool {
		if !matches(pattern, name) {
			continue
		}
		weight := len(pattern)
		if !strings.HasSuffix(pattern, ".*") {
			weight += seam.MaxNameBytes // a name takes precedence over every group
		}
		if weight > best || weight == best && strictness(a) > strictness(answer) {
			best, answer = weight, a
		}
	}
	return answer, best >= 0
}

// strictness orders answers; an unknown answer is the strictest.
func strictness(a messages.GateAnswer) int {
	switch a {
	case messages.GateApprove:
		return 0
	case messages.GateConfirm:
		return 1
	}
	return 2
}

// Validate returns ERR_CONFIG for the first invalid answer, with the entry as Field.
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
