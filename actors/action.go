package actors

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile/feeds"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/internal/turn/driver"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

// actionRun is a running action as its session sees it.
type actionRun struct {
	pid    *actor.PID
	cancel context.CancelCauseFunc
}

func (s *session) startAction(c actor.Context, e *turn.StartAction) {
	if e.Detached {
		s.startDetached(c, e)
		return
	}
	ctx, cancel := context.WithCancelCause(s.air.ctx)
	if s.air.actions == nil {
		s.air.actions = map[string]*actionRun{}
	}
	a := &action{host: s.host, agent: s.ref.agent, box: s.box, sid: s.ref.sid, start: e, ctx: ctx, inc: s.inc, epoch: s.sealer.Epoch()}
	if e.Type == messages.TypeInternal {
		a.variables = s.machine.State().Variables // a value: changes give another
		a.feeds = s.attending()
		a.set = a.feeds.set
	}
	run := &actionRun{cancel: cancel}
	run.pid = s.spawnChild(c, func(last func()) { defer cancel(nil); a.run(last) }, a.claim)
	s.air.actions[e.ID] = run
}

// detachedID names an action that outlives its turn.
type detachedID struct {
	turn.Ident
	id string
}

// startDetached begins an action that ends with the session at the latest.
func (s *session) startDetached(c actor.Context, e *turn.StartAction) {
	ctx, cancel := context.WithCancelCause(s.host.ctx)
	a := &action{host: s.host, agent: s.ref.agent, box: s.box, sid: s.ref.sid, start: e, ctx: ctx, inc: s.inc, epoch: s.sealer.Epoch()}
	run := &actionRun{cancel: cancel}
	run.pid = s.spawnChild(c, func(last func()) { defer cancel(nil); a.run(last) }, a.claim)
	if s.detached == nil {
		s.detached = map[detachedID]*actionRun{}
	}
	s.detached[detachedID{e.Ident, e.ID}] = run
}

// endDetached stops the actors of detached actions: all of them, or those that the
// machine has the end of.
func (s *session) endDetached(all bool) {
	for id, run := range s.detached {
		if all || !s.machine.Runs(id.Ident, id.id) {
			run.cancel(tools.ErrLetGo)
			s.host.system.Root.Stop(run.pid)
			delete(s.detached, id)
		}
	}
}

// action is the work of an action actor: one attempt of one tool call.
type action struct {
	host  *Host
	agent *Agent
	box   *inbox
	sid   string
	start *turn.StartAction
	ctx   context.Context
	inc   messages.Incarnation
	epoch int64
	// variables are the session's, for an internal action.
	variables map[string]string
	feeds     *attendance // of the session, for an internal action
	set       feeds.Set   // as it was when the action began

	mu     sync.Mutex // audits come from the tool's goroutines
	audits []messages.Audit
	used   messages.Budget
	runs   []messages.ChildLink
	change *messages.FeedChange
	closed bool
	began  time.Time
	grace  *time.Timer // runs once the tool's time is up
}

var errTimeUp = messages.Errorf(messages.ErrTimeout, "the action's time is up")

// overrunGrace is how long a tool whose time is up may take to say so.
const overrunGrace = 100 * time.Millisecond

// run does the attempt on the goroutine it is called on: whoever wakes another for the
// tool has paid for that wake-up with more than all its own bookkeeping. So it is the
// end that is somebody else's where the tool does not come back: see late.
func (a *action) run(last func()) {
	a.began = a.host.cfg.Now()
	end := a.attempt()
	if a.claim() {
		a.conclude(end)
		last()
		a.box.post(end)
	}
}

// attempt runs the target within its time.
func (a *action) attempt() *turn.ActionEnded {
	work, timeout, end := a.work()
	if end != nil {
		return end
	}
	ctx := a.ctx
	if deadline := driver.Deadline(a.start, a.host.cfg.Now(), timeout); !deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, deadline, errTimeUp)
		defer cancel()
	}
	heeds := context.AfterFunc(ctx, func() { a.late(ctx) })
	defer heeds() // in front of cancel, which is no end of the action's time
	end = work(ctx)
	return driver.Concluded(a.start, over(ctx), end)
}

// late gives a tool whose time is up a moment to say so. One that does not is left
// behind as an orphan: the action ends without it, and what it says later is dropped.
func (a *action) late(ctx context.Context) {
	patience := overrunGrace
	if a.start.Type != "" {
		patience = max(patience, a.agent.Targets.Grace(a.start.Type, a.start.Name))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	a.grace = time.AfterFunc(patience, func() {
		if !a.claim() {
			return
		}
		a.host.cfg.Observer.Orphan()
		a.host.log.Warn("a tool overran its time and was left behind", zap.String("SID", a.sid), zap.String("tool", a.start.Name))
		end := driver.Lost(a.start, over(ctx))
		a.conclude(end)
		a.box.post(end)
	})
}

// claim makes the caller the one that ends the action: false when it has ended.
func (a *action) claim() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false
	}
	a.closed = true
	if a.grace != nil {
		a.grace.Stop()
	}
	return true
}

// conclude fills in what the action's end says of it, once it is claimed.
func (a *action) conclude(end *turn.ActionEnded) {
	a.mu.Lock()
	defer a.mu.Unlock()
	end.Ident, end.ID, end.Attempt = a.start.Ident, a.start.ID, a.start.Attempt
	end.MS = max(0, a.host.cfg.Now().Sub(a.began).Milliseconds())
	end.Audits, end.Feed, end.Used, end.Children = a.audits, a.change, a.used, a.runs
}

// work finds what the action is to do. end says that there is nothing.
func (a *action) work() (do func(context.Context) *turn.ActionEnded, timeout time.Duration, end *turn.ActionEnded) {
	if b := a.start.Basis; b != "" && b != a.agent.basis(a.sid, a.start.Type, a.start.Name) {
		return nil, 0, failed("changed", neuroscript.CodeDenied, "the tool, or the folder it works in, is another than the one that was approved: nothing was done")
	}
	call := &tools.Call{
		SID: a.sid, Turn: a.start.Turn, ID: a.start.ID, Name: a.start.Name, Key: a.start.Key, Inc: a.inc, Epoch: a.epoch,
		Attempt: a.start.Attempt, Retries: a.start.Retries, Budget: a.start.Budget, Audit: a.audit, Spend: a.spend,
		Host: catalog.Host{Memory: a.start.State, Zone: a.start.Zone, Variables: a.variables, Session: reader{a.host}, Child: a.child, Keep: a.keep, Basis: a.start.Basis},
	}
	if a.feeds != nil {
		call.Host.Feeds = a.doFeeds
	}
	if a.start.Type != "" {
		targets, typ := a.agent.Targets, a.start.Type
		if _, ok := targets.Find(typ, call.Name); !ok {
			return nil, 0, failed("unavailable", neuroscript.CodeToolNotFound, string(typ)+" "+call.Name+" is not available")
		}
		do = func(ctx context.Context) *turn.ActionEnded {
			return concludeJSON(targets.Do(ctx, call, typ, a.start.Args))
		}
		if !targets.Within(typ, call.Name) {
			do = a.around(do)
		}
		return do, targets.Timeout(typ, call.Name), nil
	}
	t, err := a.agent.Tools.Lookup(call.Name)
	if err != nil || t == nil || t.Run == nil {
		return nil, 0, failed("unavailable", neuroscript.CodeToolNotFound, "tool."+call.Name+" is not available")
	}
	args, err := neuroscript.FromJSON([]byte(a.start.Args))
	if err != nil {
		return nil, 0, failed("arguments", neuroscript.CodeArgument, err.Error())
	}
	list, positional := args.AsList()
	return a.around(func(ctx context.Context) *turn.ActionEnded {
		if positional { // of a program, which has coerced them
			call.Args = list
			return conclude(t.Run(ctx, call))
		}
		return conclude(catalog.Invoke(ctx, t, call, args, a.agent.Limits))
	}), t.Timeout, nil
}

// around is the work with the agent's Around around it. What Around gives in place of the
// work's own end is final: no attempt follows.
func (a *action) around(do func(context.Context) *turn.ActionEnded) func(context.Context) *turn.ActionEnded {
	if a.agent.Around == nil {
		return do
	}
	return func(ctx context.Context) *turn.ActionEnded {
		call := &messages.ActionDeclared{
			Args: a.start.Args, ArgsDigest: sha256.Sum256([]byte(a.start.Args)), Class: a.start.Class, ID: a.start.ID,
			Name: a.start.Name, Type: cmp.Or(a.start.Type, messages.TypeTool),
		}
		var own *turn.ActionEnded // what the work said last
		var told *messages.ActionEnded
		end := a.agent.Around(ctx, call, func(ctx context.Context) *messages.ActionEnded {
			own = do(ctx)
			told = &messages.ActionEnded{ID: a.start.ID, State: own.State, Reason: own.Reason, Result: own.Result, ErrorCode: own.ErrorCode}
			return told
		})
		switch {
		case end == nil:
			return failed("result", neuroscript.CodeToolFailed, "Agent.Around gave no end of the call")
		case end == told:
			own.Reason, own.Result, own.ErrorCode = end.Reason, end.Result, end.ErrorCode
			if own.State == end.State {
				return own
			}
		}
		switch end.State {
		case messages.ActionOK, messages.ActionFailed, messages.ActionUnknown, messages.ActionCancelled:
		case messages.ActionSkipped:
			return failed("result", neuroscript.CodeToolFailed, "Agent.Around gave the state skipped, which is of actions that never began")
		default:
			return failed("result", neuroscript.CodeToolFailed, "Agent.Around gave an unknown state")
		}
		if end.Result != "" && !jsontext.Value(end.Result).IsValid() {
			return failed("result", neuroscript.CodeToolFailed, "Agent.Around gave a result that is not JSON")
		}
		return &turn.ActionEnded{State: end.State, Last: true, Reason: end.Reason, Result: end.Result, ErrorCode: end.ErrorCode}
	}
}

// over says how an attempt's time ended, if it has.
func over(ctx context.Context) driver.Over {
	switch {
	case ctx.Err() == nil:
		return driver.InTime
	case messages.CodeOf(context.Cause(ctx)) == messages.ErrCancelled:
		return driver.Cancelled
	}
	return driver.TimeUp
}

func conclude(v neuroscript.Value, err error) *turn.ActionEnded {
	if err != nil {
		return concludeJSON("", err)
	}
	raw, err := neuroscript.AppendJSON(nil, v)
	if err != nil {
		return failed("result", neuroscript.CodeToolFailed, err.Error())
	}
	return &turn.ActionEnded{State: messages.ActionOK, Result: string(raw)}
}

func concludeJSON(result string, err error) *turn.ActionEnded {
	if err == nil {
		return &turn.ActionEnded{State: messages.ActionOK, Result: result}
	}
	var lost *tools.Unsettled
	var refused *tools.Refused
	var ceased *tools.Ceased
	switch {
	case errors.As(err, &ceased):
		end := failed("cancelled", neuroscript.CodeToolFailed, ceased.Reason)
		end.Failure = plan.Stopped
		return end
	case errors.As(err, &lost):
		end := failed("lost", neuroscript.CodeToolFailed, messages.UnknownText+" "+lost.Reason)
		end.State = messages.ActionUnknown
		return end
	case errors.As(err, &refused):
		code, text := catalog.Failure(err)
		return failed(refused.Reason, code, text)
	}
	code, text := catalog.Failure(err)
	return failed("error", code, text)
}

func failed(reason string, code int, text string) *turn.ActionEnded {
	raw, err := neuroscript.AppendJSON(nil, neuroscript.String(text))
	if err != nil {
		raw = nil
	}
	return &turn.ActionEnded{State: messages.ActionFailed, Reason: reason, ErrorCode: int64(code), Result: string(raw)}
}

// spend counts what a target used of the run's budget. What it says too late is lost.
func (a *action) spend(used messages.Budget) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed {
		a.used = a.used.Plus(messages.Budget{Actions: max(used.Actions, 0), CostUSD: max(used.CostUSD, 0), Tokens: max(used.Tokens, 0)})
	}
}

// child notes a run of a child session. What comes too late is lost; the child's own
// journal names its parent.
func (a *action) child(run messages.ChildLink) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed {
		a.runs = append(a.runs, run)
	}
}

func (a *action) audit(entry messages.Audit) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed {
		a.audits = append(a.audits, entry)
	}
}

// reader serves tools that read other sessions. The tool has checked the grant.
type reader struct{ host *Host }

// Output gives the OUTPUT of a session's last decided turn.
func (r reader) Output(ctx context.Context, of messages.SessionKey) (string, bool, error) {
	head, err := r.host.cfg.Store.Head(ctx, of.SID())
	if journal.IsNotFound(err) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	var last *messages.TurnDecided
	for rec, err := range journal.Backward(ctx, r.host.cfg.Store, head.Inc, 0, head.Seq, 0) {
		if err == nil && rec.Body.Kind() == messages.KindTurnDecided {
			rec, err = journal.Typed(rec)
		}
		if err != nil {
			return "", false, err
		}
		if b, ok := rec.Body.(*messages.TurnDecided); ok {
			last = b
			break
		}
	}
	if last == nil || last.Output.IsZero() {
		return "", true, nil
	}
	b, err := r.host.cfg.Store.Blob(ctx, head.Inc, last.Output)
	if err != nil && !errors.Is(err, context.Canceled) {
		return "", false, err
	}
	return string(b), true, nil
}
