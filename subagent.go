package stile

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/actors"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// Actions of type agent: each runs in a child session of its own, whose name follows
// from the action's idempotency key. The key is that of the child's submit, too, so
// that a repetition after a crash joins the run that is there.

// name is what imports and children are known by.
func (a *Agent) name() string {
	if a.Manifest != nil && a.Manifest.Name != "" {
		return a.Manifest.Name
	}
	return a.Name
}

// lineage refuses agents that call themselves, that nest too deep or are too many,
// before anything descends into them.
func (a *Agent) lineage() error {
	l := lineage{}
	return l.walk(a, a.effective(), nil)
}

type lineage struct{ agents int }

func (l *lineage) walk(a *Agent, m *manifest.Manifest, within []string) error {
	fault := func(format string, args ...any) error {
		return &messages.Error{Code: messages.ErrConfig, Reason: manifest.ReasonBadValue, Field: "import.agents", Detail: fmt.Sprintf(format, args...)}
	}
	name := cmp.Or(m.Name, a.Name)
	if name != "" && slices.Contains(within, name) {
		return fault("the agent %s calls itself: %s", name, strings.Join(append(within[slices.Index(within, name):], name), " > "))
	}
	if len(within) > manifest.MaxAgentDepth {
		return fault("agents nest at most %d deep: %s", manifest.MaxAgentDepth, strings.Join(append(within, name), " > "))
	}
	if l.agents++; l.agents > manifest.MaxAgents+1 {
		return fault("an agent has at most %d agents, all depths together", manifest.MaxAgents)
	}
	within = append(within[:len(within):len(within)], name)
	for _, imported := range m.Import.Agents {
		child, _ := a.child(m, imported)
		if child == nil {
			continue // said when it is looked for
		}
		if err := l.walk(child, child.effective(), within); err != nil {
			return err
		}
	}
	return nil
}

// child finds an agent that the manifest imports; nil when there is none. given tells
// that it is one of a's Agents.
func (a *Agent) child(m *manifest.Manifest, name string) (child *Agent, given bool) {
	for _, c := range a.Agents {
		if c != nil && c.name() == name {
			return c, true
		}
	}
	for i := range m.Define.Agents {
		if m.Define.Agents[i].Name == name {
			return &Agent{Manifest: &m.Define.Agents[i], Dir: a.Dir}, false
		}
	}
	return nil, false
}

// raise makes the agents ready that m imports, and puts their manifests into it as they
// are in effect: a replay finds there all that the parent knows of them. One that says
// nothing of its model has that of its parent.
func (rt *Runtime) raise(ctx context.Context, a *Agent, m *manifest.Manifest, routes []actors.Route, c *compiled) error {
	for _, name := range m.Import.Agents {
		child, given := a.child(m, name)
		if child == nil || a.replayed && !given {
			continue // what the journal has is in effect
		}
		own := *child
		own.Name = name
		own.Manifest = child.effective()
		if unsaid := manifest.Default(own.Manifest.Dialect).Model; own.Model == nil && reflect.DeepEqual(own.Manifest.Model, unsaid) {
			own.Manifest.Model, own.routes = m.Model, routes
		}
		if a.replayed {
			own = *own.offline()
		}
		cc, err := rt.compile(ctx, &own)
		if err != nil {
			return under("agent "+name, err)
		}
		if c.children == nil {
			c.children = map[string]*compiled{}
		}
		c.children[name] = cc
		i := slices.IndexFunc(m.Define.Agents, func(d manifest.Manifest) bool { return d.Name == name })
		if i < 0 {
			m.Define.Agents = append(slices.Clip(m.Define.Agents), *cc.man)
		} else {
			m.Define.Agents = slices.Clone(m.Define.Agents)
			m.Define.Agents[i] = *cc.man
		}
	}
	return nil
}

// maxAnswerBytes bounds the answer of a child: it becomes the result of an action.
const maxAnswerBytes = 1 << 20

// childGrace is how long a child session that is told to stop may take. Its turn has
// turn.CancelGrace for what cannot be left at once.
const childGrace = turn.CancelGrace + 500*time.Millisecond

// delegate makes the target of an agent. child is nil in a replay.
func (rt *Runtime) delegate(d *manifest.Manifest, child *compiled) *tools.Executor {
	return &tools.Executor{
		Type: messages.TypeAgent, Name: d.Name, Summary: d.Summary, Signature: "(message, ...)", Class: messages.Keyed, Grace: childGrace,
		Spends: &messages.Budget{Actions: d.Quotas.Actions, CostUSD: d.Quotas.CostMicroUSD, Tokens: d.Quotas.Tokens},
		Run: func(ctx context.Context, c *tools.Call, args string) (string, error) {
			return (&delegation{rt: rt, child: child, call: c}).run(ctx, args)
		},
	}
}

// delegation is one attempt at an action of type agent.
type delegation struct {
	rt    *Runtime
	child *compiled
	call  *tools.Call
}

func (d *delegation) run(ctx context.Context, args string) (string, error) {
	in, err := d.input(args)
	if err != nil {
		return "", err
	}
	if ctx.Err() != nil && d.call.Attempt == 1 {
		return "", &tools.Ceased{Reason: "it never began"}
	}
	run, err := d.submit(ctx, in)
	if err != nil {
		if d.rt.host.Stopping() { // which is no answer; whoever takes up the parent asks again
			<-ctx.Done()
		}
		return "", err
	}
	d.call.Child(messages.ChildLink{SID: run.session.sid, Incarnation: run.session.inc.String(), Run: run.ordinal})
	o, err := d.wait(ctx, run)
	if err != nil && d.rt.host.Stopping() {
		<-ctx.Done()
	}
	if ctx.Err() != nil && err != nil {
		if d.leaves(ctx) {
			return "", err
		}
		return d.stop(ctx, run)
	}
	if err != nil {
		return "", &tools.Unsettled{Reason: "the session " + run.session.sid + " cannot be followed: " + err.Error()}
	}
	return d.result(ctx, run, o, false)
}

// leaves tells that nobody wants the child to stop: this process lets go of its parent.
func (d *delegation) leaves(ctx context.Context) bool {
	return context.Cause(ctx) == error(tools.ErrLetGo) || d.rt.host.Stopping()
}

// messageParam is the parameter that is the child's input when it stands alone.
const messageParam = "message"

// input is what the child is asked: the message, or all parameters as they are.
func (d *delegation) input(args string) (messages.Input, error) {
	var given map[string]jsontext.Value
	if err := json.Unmarshal([]byte(args), &given); err != nil || given == nil {
		return messages.Input{}, neuroscript.Errorf(neuroscript.CodeArgument, "the arguments must be an object")
	}
	if len(given) == 0 {
		return messages.Input{}, neuroscript.Errorf(neuroscript.CodeArgument, "argument %s: missing", messageParam)
	}
	in := messages.Input{Text: args, Policy: messages.Enqueue}
	if v := given[messageParam]; len(given) == 1 && v.Kind() == '"' {
		text, err := jsontext.AppendUnquote(nil, v)
		if err != nil {
			return in, neuroscript.Errorf(neuroscript.CodeArgument, "argument %s: %s", messageParam, err)
		}
		in.Text = string(text)
	}
	if d.child.checker == nil {
		return in, nil
	}
	in, err := d.child.checker(in)
	if err != nil {
		return in, neuroscript.Errorf(neuroscript.CodeArgument, "%s", err)
	}
	return in, nil
}

// parent reads who asks, from the first record of its journal.
func (d *delegation) parent(ctx context.Context) (key messages.SessionKey, link messages.ParentLink, err error) {
	if key, err = messages.ParseSID(d.call.SID); err != nil {
		return key, link, err
	}
	head, err := d.rt.store.Head(ctx, d.call.SID)
	if err != nil {
		return key, link, err
	}
	opened, err := openedBy(ctx, d.rt.store, head.Inc)
	if err != nil {
		return key, link, err
	}
	link = messages.ParentLink{SID: d.call.SID, Incarnation: head.Inc.String(), Turn: d.call.Turn, Action: d.call.ID, Depth: 1}
	if opened.Parent != nil {
		link.Depth += opened.Parent.Depth
	}
	if link.Depth > manifest.MaxAgentDepth {
		return key, link, &tools.Refused{Reason: string(messages.ErrDenied), Text: fmt.Sprintf("agents nest at most %d deep, and %s is %d deep already", manifest.MaxAgentDepth, d.call.SID, link.Depth-1)}
	}
	return key, link, nil
}

// openedBy reads the first record of a session.
func openedBy(ctx context.Context, store journal.Store, inc messages.Incarnation) (*messages.SessionOpened, error) {
	for r, err := range store.Read(ctx, inc, 1, 1) {
		if err == nil {
			r, err = typed(r)
		}
		if err != nil {
			return nil, err
		}
		if b, ok := r.Body.(*messages.SessionOpened); ok {
			return b, nil
		}
	}
	return nil, journal.Fail(journal.ReasonNotFound, nil, "the session has no first record")
}

// tries is how often a session is asked again that broke or lost its journal.
const tries = 3

// submit begins the child's run, or joins it. It is not cut short by ctx: what was
// submitted must be known to be stopped.
func (d *delegation) submit(ctx context.Context, in messages.Input) (*Run, error) {
	ctx = context.WithoutCancel(ctx)
	parent, link, err := d.parent(ctx)
	if err != nil {
		return nil, err
	}
	key, ok := parent.Child(d.call.Name, d.call.Key, d.call.Retries)
	if !ok {
		return nil, &tools.Refused{Reason: string(messages.ErrConfig), Text: "tenant and user of " + d.call.SID + " leave no room for the name of a child session"}
	}
	switch head, err := d.rt.store.Head(ctx, key.SID()); {
	case journal.IsNotFound(err) || err == nil && head.Closed:
	case err != nil:
		return nil, err
	default:
		opened, err := openedBy(ctx, d.rt.store, head.Inc)
		if err != nil {
			return nil, err
		}
		if opened.Parent == nil || *opened.Parent != link {
			return nil, &tools.Refused{Reason: string(messages.ErrDenied), Text: "the session " + key.SID() + " is not this action's"}
		}
	}
	in.Key, in.User = d.call.Key, key.User
	if b := d.call.Budget; b != (messages.Budget{}) {
		in.Budget = &b
	}
	s := &Session{rt: d.rt, agent: d.child, key: key, sid: key.SID()}
	for n := 1; ; n++ {
		rep, err := d.rt.host.SubmitChild(ctx, key, d.child.agent, link, in)
		if err == nil {
			s.inc = rep.Inc
			return &Run{session: s, ordinal: rep.Run, seq: rep.Seq, joined: rep.Joined, end: rep.End}, nil
		}
		if n == tries || d.rt.host.Stopping() {
			return nil, &tools.Unsettled{Reason: "the session " + s.sid + " does not take its input: " + err.Error()}
		}
	}
}

// wait waits for the end of the child's run.
func (d *delegation) wait(ctx context.Context, run *Run) (o Outcome, err error) {
	for range tries {
		if o, err = run.Decision(ctx); err == nil || ctx.Err() != nil || d.rt.host.Stopping() {
			break
		}
	}
	return o, err
}

// stop cancels the child's run and waits until everything in it has ended.
func (d *delegation) stop(ctx context.Context, run *Run) (string, error) {
	ctx = context.WithoutCancel(ctx)
	err := run.Cancel(ctx, "action "+d.call.ID+" of "+d.call.SID)
	if err != nil && messages.CodeOf(err) != messages.ErrDenied { // else it has ended
		return "", &tools.Unsettled{Reason: "the session " + run.session.sid + " cannot be stopped: " + err.Error()}
	}
	o, err := d.wait(ctx, run)
	if err != nil {
		return "", &tools.Unsettled{Reason: "nobody knows whether the session " + run.session.sid + " stopped: " + err.Error()}
	}
	return d.result(ctx, run, o, true)
}

// result is what the run gave its parent: its last response, or why there is none.
func (d *delegation) result(ctx context.Context, run *Run, o Outcome, stopped bool) (string, error) {
	sum, err := summarise(context.WithoutCancel(ctx), run)
	if err != nil {
		return "", &tools.Unsettled{Reason: "the session " + run.session.sid + " cannot be read: " + err.Error()}
	}
	if d.call.Spend != nil {
		d.call.Spend(sum.used)
	}
	if o.Decision == Done {
		if len(sum.text) > maxAnswerBytes {
			return "", &tools.Refused{Reason: string(messages.ErrQuota), Text: fmt.Sprintf("the answer has %d bytes; the limit is %d", len(sum.text), maxAnswerBytes)}
		}
		out, err := jsontext.AppendQuote(nil, sum.text)
		return string(out), err
	}
	end := &tools.Refused{Reason: "aborted", Text: "the agent " + d.call.Name + " ended " + string(o.Decision)}
	if o.Reason != "" {
		end.Reason = string(o.Reason)
	}
	if o.Detail != "" {
		end.Text += ": " + o.Detail
	}
	switch {
	case sum.unknown > 0:
		return "", &tools.Unsettled{Reason: fmt.Sprintf("%s; the outcome of %d of its actions is unknown", end, sum.unknown)}
	case stopped:
		return "", &tools.Ceased{Reason: end.Error()}
	}
	return "", end
}

// summary is what a run comes to for whoever asked.
type summary struct {
	text    string
	used    messages.Budget
	unknown int
}

func summarise(ctx context.Context, run *Run) (summary, error) {
	var sum summary
	var final, said, emitted []string
	for r, err := range readRecords(ctx, run.session.rt.store, run.session.inc, run.seq) {
		if err != nil {
			return sum, err
		}
		if r.Run != run.ordinal {
			continue
		}
		switch b := r.Body.(type) {
		case *messages.TurnBegin:
			final, said, emitted = nil, nil, nil
		case *messages.UnitText:
			if b.UnitKind == messages.ResponseUnit {
				said = append(said, b.Text)
				if b.Final && b.Complete {
					final = append(final, b.Text)
				}
			}
		case *messages.Emit:
			if !b.Candidate {
				emitted = append(emitted, b.Text)
			}
		case *messages.ModelReply:
			sum.used = sum.used.Plus(messages.Budget{Tokens: b.Usage.Input + b.Usage.Output, CostUSD: b.CostUSD})
		case *messages.ActionDeclared:
			sum.used.Actions++
		case *messages.ActionEnded:
			sum.used = sum.used.Plus(messages.Budget{Actions: b.Actions, CostUSD: b.CostUSD, Tokens: b.Tokens})
			if b.State == messages.ActionUnknown {
				sum.unknown++
			}
		}
	}
	switch {
	case final != nil:
		sum.text = strings.Join(final, "\n")
	case said != nil:
		sum.text = strings.Join(said, "\n")
	default:
		sum.text = strings.Join(emitted, "\n")
	}
	return sum, nil
}
