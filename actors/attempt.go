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

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/internal/load"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/internal/turn/driver"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

// attempt is one attempt of an action: the work of its actor.
type attempt struct {
	*family
	start  *turn.StartAction
	ctx    context.Context
	cancel context.CancelCauseFunc
	actor  *actor.PID
	of     int64 // the ordinal of its run
	// variables are the session's, for an internal action.
	variables map[string]string
	feeds     *feedSource // of the session when the action began, for an internal action
	sink      *sink       // nil unless its result is shown as it grows

	mu     sync.Mutex // audits come from the tool's goroutines
	audits []messages.Audit
	used   messages.Budget
	runs   []messages.ChildLink
	change *messages.FeedChange
	closed bool
	told   time.Time // when progress was shown last
	began  time.Time
	grace  *time.Timer // runs once the tool's time is up
}

var errTimeUp = messages.Errorf(messages.ErrTimeout, "the action's time is up")

// overrunGrace is how long a tool whose time is up may take to say so.
const overrunGrace = 100 * time.Millisecond

// run makes the attempt on the goroutine that calls it: to wake another for the tool costs more
// than all the bookkeeping of an attempt. If the tool overruns, the timer in late ends the
// attempt.
func (a *attempt) run(last func()) {
	defer a.cancel(nil)
	a.began = a.host.cfg.Now()
	end := a.within()
	if a.claim() {
		a.conclude(end)
		last()
		a.tell(a.actor, end)
	}
}

// within runs the target within its time.
func (a *attempt) within() *turn.ActionEnded {
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

// late gives a tool whose time is up a moment to return. A tool that does not is left behind as
// an orphan: the attempt ends without it, and its answer is dropped.
func (a *attempt) late(ctx context.Context) {
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
		a.tell(a.actor, end)
	})
}

// claim makes the caller the one that ends the attempt: false when it has ended.
func (a *attempt) claim() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false
	}
	a.closed = true
	if a.grace != nil {
		a.grace.Stop()
	}
	if a.sink != nil {
		a.sink.close()
	}
	return true
}

// conclude fills in what is known of the attempt besides its end, once the end is claimed.
func (a *attempt) conclude(end *turn.ActionEnded) {
	a.mu.Lock()
	defer a.mu.Unlock()
	end.Ident, end.ID, end.Attempt = a.start.Ident, a.start.ID, a.start.Attempt
	end.MS = max(0, a.host.cfg.Now().Sub(a.began).Milliseconds())
	end.Audits, end.Feed, end.Used, end.Children = a.audits, a.change, a.used, a.runs
}

// work finds what the action is to do. end says that there is nothing.
func (a *attempt) work() (do func(context.Context) *turn.ActionEnded, timeout time.Duration, end *turn.ActionEnded) {
	if b := a.start.Basis; b != "" && b != a.agent.Basis(a.sid, a.start.Type, a.start.Name) {
		return nil, 0, failed("changed", neuroscript.CodeDenied, "the tool, or the folder it works in, is another than the one that was approved: nothing was done")
	}
	call := &tools.Call{
		SID: a.sid, Turn: a.start.Turn, ID: a.start.ID, Name: a.start.Name, Key: a.start.Key, Inc: a.inc, Epoch: a.epoch,
		Attempt: a.start.Attempt, Retries: a.start.Retries, Budget: a.start.Budget, Audit: a.audit, Spend: a.spend,
		Host: catalog.Host{Memory: a.start.State, Zone: a.start.Zone, Variables: a.variables, Session: load.Outputs{Store: a.host.cfg.Store}, Child: a.child, Keep: a.keep, Progress: a.progress, Basis: a.start.Basis},
	}
	if a.sink != nil {
		call.Sink = a.sink.emit
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
			return endOfJSON(targets.Do(ctx, call, typ, a.start.Args))
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
			return endOf(t.Run(ctx, call))
		}
		return endOf(catalog.Invoke(ctx, t, call, args, a.agent.Limits))
	}), t.Timeout, nil
}

// around is the work with the agent's Around around it. What Around gives in place of the
// work's own end is final: no attempt follows.
func (a *attempt) around(do func(context.Context) *turn.ActionEnded) func(context.Context) *turn.ActionEnded {
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

func endOf(v neuroscript.Value, err error) *turn.ActionEnded {
	if err != nil {
		return endOfJSON("", err)
	}
	raw, err := neuroscript.AppendJSON(nil, v)
	if err != nil {
		return failed("result", neuroscript.CodeToolFailed, err.Error())
	}
	return &turn.ActionEnded{State: messages.ActionOK, Result: string(raw)}
}

func endOfJSON(result string, err error) *turn.ActionEnded {
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
func (a *attempt) spend(used messages.Budget) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed {
		a.used = a.used.Plus(messages.Budget{Actions: max(used.Actions, 0), CostUSD: max(used.CostUSD, 0), Tokens: max(used.Tokens, 0)})
	}
}

// child notes a run of a child session. What comes too late is lost; the child's own
// journal names its parent.
func (a *attempt) child(run messages.ChildLink) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed {
		a.runs = append(a.runs, run)
	}
}

// Progress is shown this often at most, and its text is cut to this many bytes.
const (
	progressEvery = 100 * time.Millisecond
	progressBytes = 200
)

// progress shows those who follow the session how far the action is.
func (a *attempt) progress(done, total int64, text string) {
	now := a.host.cfg.Now()
	a.mu.Lock()
	defer a.mu.Unlock() // in order, and none behind the end
	if a.closed || now.Sub(a.told) < progressEvery && (done != total || total == 0) || !a.host.hub.Followed(a.sid) {
		return
	}
	a.told = now
	a.host.hub.Tell(a.sid, &messages.Delta{
		TS: now.UTC(), Run: a.of, Unit: messages.UnitID{Turn: a.start.Turn}, Kind: messages.KindProgress,
		Off: max(done, 0), Total: max(total, 0), Text: clip.OneLine(text, progressBytes), Action: a.start.ID,
	})
}

func (a *attempt) audit(entry messages.Audit) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed {
		a.audits = append(a.audits, entry)
	}
}
