package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// Graph is a workflow: a plan of actions that runs inside one action
// (docs/spec/streaming.md §7.1).
type Graph struct {
	Name    string
	Summary string
	Inputs  Parameters
	Steps   []*messages.Action // mode async
	Output  string             // JSON with references; "" is an object of all results by id
	Timeout time.Duration
	// RetryDelay is the delay between attempts at a step, as in plan.Policy.
	RetryDelay time.Duration
	Targets    *Targets // of the steps
	// Gate decides about every step. A confirmation counts as a denial, because an action
	// that has begun cannot wait for a person; let the workflow itself be confirmed.
	Gate Gate
}

// Workflow returns the target of a graph. Its class is the worst of its steps'. The error is
// ERR_CONFIG with Field steps[i].name for a step that names an unknown target.
func Workflow(g Graph) (*Executor, error) {
	class, grace := messages.Pure, time.Duration(0)
	keeps, reaches := false, false // steps that change the session alone, and others that change something
	var spends *messages.Budget
	for i, s := range g.Steps {
		c, ok := g.Targets.Find(s.Type, s.Name)
		if !ok {
			return nil, invalid(fmt.Sprintf("steps[%d].name", i), fmt.Sprintf("there is no %s %s, or it is not imported", s.Type, strconv.Quote(s.Name)))
		}
		class = worse(class, c)
		if g.Targets.Within(s.Type, s.Name) {
			keeps = true
		} else if c != messages.Pure && c != messages.ReadOnly {
			reaches = true
		}
		if _, ok := g.Targets.Spends(s.Type, s.Name); ok {
			spends = &messages.Budget{} // no bound of its own
		}
		if t := g.Targets.Grace(s.Type, s.Name); t > 0 {
			grace = max(grace, t+stepGrace)
		}
	}
	return &Executor{
		Type: messages.TypeWorkflow, Name: g.Name, Summary: g.Summary, Params: g.Inputs, Class: class, Timeout: g.Timeout, Grace: grace, Spends: spends,
		Within: keeps && !reaches, Run: g.run,
	}, nil
}

// worse returns the class of a target that does both.
func worse(a, b messages.Class) messages.Class {
	for _, c := range []messages.Class{messages.Effectful, messages.Keyed, messages.Idempotent, messages.ReadOnly} {
		if a == c || b == c {
			return c
		}
	}
	return messages.Pure
}

// stepGrace is how long a step may take to end after its time is up. It is less than the
// grace of the action itself.
const stepGrace = 50 * time.Millisecond

// maxFailureBytes bounds the text of one step's failure.
const maxFailureBytes = 512

// ended is the end of a step, after its last attempt.
type ended struct {
	id    string
	out   plan.Outcome
	text  string // why, for people
	crash any    // a panic
	used  messages.Budget
}

func (g *Graph) run(ctx context.Context, c *tools.Call, args string) (string, error) {
	inputs, err := g.Inputs.Bind(args)
	if err != nil {
		return "", err
	}
	for _, p := range g.Inputs {
		if _, ok := inputs[p.Name]; !ok {
			inputs[p.Name] = jsontext.Value("null")
		}
	}
	p := plan.New(plan.Options{Environment: given(inputs)})
	if err := p.Begin(); err != nil {
		return "", err
	}
	var todo []plan.Effect
	steps := map[string]*messages.Action{}
	for _, s := range g.Steps {
		steps[s.ID] = s
		if todo, err = p.Declare(todo, s); err != nil {
			return "", err
		}
	}
	if todo, err = p.End(todo); err != nil {
		return "", err
	}
	done := make(chan ended, len(g.Steps))
	why := map[string]string{}
	budget := g.budget(c)
	stop := ctx.Done()
	running := 0
	for {
		for len(todo) > 0 {
			e := todo[0]
			todo = todo[1:]
			switch e.Kind {
			case plan.Dispatch: // its context is ctx's child, so a Stop needs nothing more
				if todo, err = p.Started(todo, e.Ref); err != nil {
					return "", err
				}
				running++
				grant, lacks := budget.reserve(steps[e.Ref.ID])
				go func() { done <- g.step(ctx, c, steps[e.Ref.ID], e.Parameters, grant, lacks) }()
			case plan.End:
				why[e.Ref.ID] = e.Reason
			}
		}
		if running == 0 {
			out, err := g.outcome(p, why)
			var lost *tools.Unsettled
			if err != nil && ctx.Err() != nil && !errors.As(err, &lost) {
				err = &tools.Ceased{Reason: err.Error()} // the outcome of every step is known
			}
			return out, err
		}
		select {
		case end := <-done:
			running--
			budget.settle(end.id, end.used)
			if end.crash != nil {
				panic(end.crash)
			}
			why[end.id] = end.text
			if todo, err = p.Ended(todo, plan.Ref{Generation: 1, ID: end.id}, end.out); err != nil {
				end.out, why[end.id] = plan.Outcome{State: plan.Failed, Reason: "result"}, err.Error()
				if todo, err = p.Ended(todo, plan.Ref{Generation: 1, ID: end.id}, end.out); err != nil {
					return "", err
				}
			}
		case <-stop:
			stop = nil
			todo = p.CancelAll(todo, plan.Stopped.String(), false)
		}
	}
}

// step makes the attempts at one step, which share grant. lacks names a meter of which
// nothing is left for it.
func (g *Graph) step(ctx context.Context, c *tools.Call, s *messages.Action, args string, grant *messages.Budget, lacks string) (end ended) {
	end = ended{id: s.ID}
	class, _ := g.Targets.Find(s.Type, s.Name)
	digest := sha256.Sum256([]byte(args))
	verdict := g.Gate.Decide(tools.Request{SID: c.SID, Tool: s.Name, Class: class, ArgsDigest: digest})
	allowed := verdict.Answer == messages.GateApprove
	if c.Audit != nil {
		c.Audit(messages.Audit{Who: "workflow " + g.Name, What: "step " + s.ID + ": " + string(s.Type) + " " + s.Name, Allowed: allowed, Text: verdict.Reason})
	}
	if !allowed {
		end.out = plan.Outcome{State: plan.Failed, Reason: plan.Denied.String()}
		if end.text = verdict.Reason; verdict.Answer == messages.GateConfirm {
			end.text = "a step cannot wait for a confirmation"
		}
		return end
	}
	if lacks != "" {
		end.out = plan.Outcome{State: plan.Failed, Reason: reasonQuota}
		end.text = lacks + ": nothing is left of the workflow's that is not reserved"
		return end
	}
	var spent spending
	defer func() { end.used = spent.sum() }()
	own := *c
	own.Sink = nil // what the steps say is not the result of the workflow
	own.Spend = func(used messages.Budget) {
		spent.add(used)
		if c.Spend != nil {
			c.Spend(used)
		}
	}
	own.ID, own.Name, own.Args = c.ID+"/"+s.ID, s.Name, nil
	own.Key = stepKey(c.Key, s.ID, digest)
	policy := plan.PolicyOf(s, g.RetryDelay)
	if t := g.Targets.Timeout(s.Type, s.Name); t > 0 {
		policy.Timeout = min(policy.Timeout, t)
	}
	until, _ := ctx.Deadline()
	for n := 1; ; n++ {
		own.Attempt, own.Retries, own.Budget = int64(n), int64(n-1), messages.Budget{}
		if grant != nil {
			left, none := grant.Left(spent.sum())
			if none && n > 1 {
				end.out = plan.Outcome{State: plan.Failed, Reason: reasonQuota}
				return end
			}
			own.Budget = left
		}
		value, failure, err := g.attempt(ctx, &own, s.Type, args, policy.Timeout, &end)
		if end.crash != nil {
			return end
		}
		if failure == 0 {
			end.out, end.text = plan.Outcome{State: plan.OK, Value: value}, ""
			return end
		}
		end.text = clip.Short(err.Error(), maxFailureBytes)
		reason := ""
		var refused *tools.Refused
		if errors.As(err, &refused) {
			reason, end.text = refused.Reason, clip.Short(refused.Text, maxFailureBytes)
		}
		next := policy.After(plan.Attempt{N: n, Failure: failure, Reason: reason, Class: class, Key: own.Key, Now: time.Now(), Until: until})
		if !next.Retry {
			end.out = plan.Outcome{State: next.State, Reason: next.Reason}
			return end
		}
		wait := time.NewTimer(time.Until(next.At))
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			end.out = plan.Outcome{State: plan.Cancelled, Reason: plan.Stopped.String()}
			return end
		}
	}
}

// attempt makes one attempt within its time. A target that ignores its context is abandoned,
// and its result is dropped. failure 0 is success.
func (g *Graph) attempt(ctx context.Context, c *tools.Call, typ messages.ActionType, args string, timeout time.Duration, end *ended) (value string, failure plan.Failure, err error) {
	own, cancel := context.WithTimeoutCause(ctx, timeout, messages.Errorf(messages.ErrTimeout, "the step's time is up"))
	defer cancel()
	type answer struct {
		value string
		err   error
		crash any
	}
	got := make(chan answer, 1)
	go func() {
		a := answer{crash: "the goroutine of a step ended"}
		defer func() {
			if r := recover(); r != nil {
				a.crash = fmt.Sprintf("%v\n%s", r, debug.Stack())
			}
			got <- a
		}()
		a.value, a.err = g.Targets.Do(own, c, typ, args)
		a.crash = nil
	}()
	take := func(a answer) (string, plan.Failure, error) {
		end.crash = a.crash
		var lost *tools.Unsettled
		var ceased *tools.Ceased
		switch {
		case a.err == nil:
			return a.value, 0, nil
		case errors.As(a.err, &ceased) && ctx.Err() != nil:
			return "", plan.Stopped, a.err
		case errors.As(a.err, &lost):
			return "", plan.Lost, a.err
		case own.Err() != nil:
			return "", g.cut(ctx, typ, c.Name), context.Cause(own)
		}
		return "", plan.Erred, a.err
	}
	select {
	case a := <-got:
		return take(a)
	case <-own.Done():
	}
	grace := time.NewTimer(max(stepGrace, g.Targets.Grace(typ, c.Name)))
	defer grace.Stop()
	select {
	case a := <-got:
		return take(a)
	case <-grace.C:
		return "", g.cut(ctx, typ, c.Name), context.Cause(own)
	}
}

// cut returns the failure of an attempt whose context ended, by its own time or with the
// workflow. A target that changes nothing has failed; of any other the outcome is unknown.
func (g *Graph) cut(ctx context.Context, typ messages.ActionType, name string) plan.Failure {
	if ctx.Err() == nil {
		return plan.TimedOut
	}
	if class, _ := g.Targets.Find(typ, name); class.Durable() {
		return plan.Lost
	}
	return plan.Stopped
}

// stepKey returns the idempotency key of a step: the same for every attempt at the action.
func stepKey(key, id string, args [sha256.Size]byte) string {
	h := sha256.New()
	fmt.Fprintf(h, "%d:%s%d:%s%x", len(key), key, len(id), id, args)
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// outcome returns the result of a completed plan.
func (g *Graph) outcome(p *plan.Plan, why map[string]string) (string, error) {
	var failed, lost []string
	values := map[string]jsontext.Value{}
	for _, v := range p.Generation() {
		text := fmt.Sprintf("step %s %s: %s", v.ID, v.State, v.Reason)
		if more := why[v.ID]; more != "" && more != v.Reason {
			text += ": " + more
		}
		switch {
		case v.State == plan.OK:
			values[v.ID] = jsontext.Value(v.Value)
		case v.State == plan.Unknown:
			lost = append(lost, text)
		case v.State == plan.Failed && v.OnError == messages.OnErrorSkip:
			values[v.ID] = jsontext.Value("null")
		default:
			failed = append(failed, text)
		}
	}
	if len(lost) > 0 {
		return "", &tools.Unsettled{Reason: strings.Join(append(lost, failed...), "; ")}
	}
	if len(failed) > 0 {
		return "", neuroscript.Errorf(neuroscript.CodeToolFailed, "%s", strings.Join(failed, "; "))
	}
	if g.Output == "" {
		b, err := json.Marshal(values, json.Deterministic(true))
		return string(b), err
	}
	out, err := p.Resolve(g.Output)
	if err != nil {
		return "", neuroscript.Errorf(neuroscript.CodeToolFailed, "output: %s", err)
	}
	return out, nil
}
