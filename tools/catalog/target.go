package catalog

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// Executor performs the actions of one target that is no tool: an llm, a workflow, a relic.
// It never changes and is safe for concurrent use.
type Executor struct {
	Type    messages.ActionType
	Name    string
	Summary string // one line for the model
	Params  Parameters
	Class   messages.Class
	Timeout time.Duration // of one attempt; 0 leaves it to the action
	// Grace is how long an attempt may take to end after its context has ended; 0 is the
	// default. The host does not wait longer for it.
	Grace time.Duration
	// Spends is the most that one attempt uses of the run's budget, 0 for no bound; nil for
	// a target that asks no model.
	Spends *messages.Budget
	// Within reports whether the target changes nothing but its session: Agent.Around does
	// not get its calls.
	Within bool
	// Signature replaces that of Params in the prompt.
	Signature string
	// Run makes one attempt: args is the JSON object of its arguments, the result is JSON.
	// Errors are as those of tools.Tool.Run: *tools.Unsettled for an unknown outcome,
	// *tools.Refused for a failure with a reason.
	Run func(ctx context.Context, c *tools.Call, args string) (result string, err error)

	refuse string // why it must not be done
}

// Targets are all targets of actions of replies, by type. It never changes after the last
// Add, and is safe for concurrent use from then on.
type Targets struct {
	set    *Set
	limits neuroscript.Limits
	others []*Executor
}

// NewTargets returns the targets for the tools of a set. limits bound the work of pure tools.
func NewTargets(set *Set, limits neuroscript.Limits) *Targets {
	return &Targets{set: set, limits: limits}
}

// Add adds a target. A second one of the same type and name is ERR_CONFIG.
func (t *Targets) Add(x *Executor) error {
	if x.Type == messages.TypeTool || t.executor(x.Type, x.Name) != nil {
		return invalid("name", "there is another "+string(x.Type)+" of the name "+strconv.Quote(x.Name))
	}
	t.others = append(t.others, x)
	return nil
}

func (t *Targets) executor(typ messages.ActionType, name string) *Executor {
	i := slices.IndexFunc(t.others, func(x *Executor) bool { return x.Type == typ && x.Name == name })
	if i < 0 {
		return nil
	}
	return t.others[i]
}

// Find reports whether a target exists, and returns its class. Case matters in names.
func (t *Targets) Find(typ messages.ActionType, name string) (messages.Class, bool) {
	if typ == messages.TypeTool || typ == "" {
		return t.set.Target(name)
	}
	x := t.executor(typ, name)
	if x == nil {
		return "", false
	}
	return x.Class, true
}

// Timeout returns the target's own bound of one attempt; 0 for none.
func (t *Targets) Timeout(typ messages.ActionType, name string) time.Duration {
	if x := t.executor(typ, name); x != nil {
		return x.Timeout
	}
	if tool, err := t.set.Lookup(name); err == nil && (typ == messages.TypeTool || typ == "") {
		return tool.Timeout
	}
	return 0
}

// Spends returns the most that an action uses of the run's budget; ok is false for an action
// that uses nothing.
func (t *Targets) Spends(typ messages.ActionType, name string) (most messages.Budget, ok bool) {
	if x := t.executor(typ, name); x != nil && x.Spends != nil {
		return *x.Spends, true
	}
	return messages.Budget{}, false
}

// Within reports whether an action changes nothing but its session.
func (t *Targets) Within(typ messages.ActionType, name string) bool {
	x := t.executor(typ, name)
	return x != nil && x.Within
}

// Grace returns Executor.Grace of a target.
func (t *Targets) Grace(typ messages.ActionType, name string) time.Duration {
	if x := t.executor(typ, name); x != nil {
		return x.Grace
	}
	return 0
}

// Do makes one attempt at an action. Errors are those of Invoke and Executor.Run; an unknown
// target is code 3.
func (t *Targets) Do(ctx context.Context, c *tools.Call, typ messages.ActionType, args string) (result string, err error) {
	if typ != messages.TypeTool && typ != "" {
		x := t.executor(typ, c.Name)
		if x == nil {
			return "", neuroscript.Errorf(neuroscript.CodeToolNotFound, "%s %s is not available", typ, c.Name)
		}
		return x.Run(ctx, c, args)
	}
	tool, err := t.set.Lookup(c.Name)
	if err != nil {
		return "", err
	}
	return do(ctx, tool, c, args, t.limits)
}

// Specs describes the targets that are not tools, by type and name.
func (t *Targets) Specs() []messages.ToolSpec {
	var all []messages.ToolSpec
	for _, x := range t.others {
		if x.refuse != "" {
			continue
		}
		all = append(all, messages.ToolSpec{
			Type: x.Type, Name: x.Name, Signature: cmp.Or(x.Signature, x.Params.Signature()), Description: x.Summary, Schema: x.Params.Schema(), Class: x.Class,
		})
	}
	slices.SortFunc(all, func(a, b messages.ToolSpec) int {
		return strings.Compare(string(a.Type)+" "+a.Name, string(b.Type)+" "+b.Name)
	})
	return all
}
