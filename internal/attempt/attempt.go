// Package attempt makes one attempt of an action: it finds the target, calls it within its time,
// and gathers what the attempt did and came to.
//
// Invariants:
//   - an attempt ends exactly once: by its target, by its time, by a cancel, or by the crash that
//     its caller claims it for;
//   - what a target says after the end is dropped, and a target that overruns its time is counted;
//   - nothing is done for a call that rests on another tool or folder than the one approved.
//
// What follows an attempt is the plan's decision, and when one begins the session's. Foreign code
// runs here: the caller carries its panics.
package attempt

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/internal/load"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/internal/turn/driver"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

// Env is what the attempts of a host share.
type Env struct {
	Now     func() time.Time
	Log     *zap.Logger
	Outputs load.Outputs
	// Orphan counts a tool that overran its time and was left behind.
	Orphan func()
	// Held reports whether the host may begin an effect: it has its lease.
	Held func() bool
	// Followed reports whether a client follows a session, and Tell shows progress to it.
	Followed func(sid string) bool
	Tell     func(sid string, d *messages.Delta)
}

// Session is what an attempt asks of its session, and how it ends.
type Session interface {
	// Ended takes the end of the attempt, once.
	Ended(end *turn.ActionEnded)
	// Piece takes a piece of a result that grows; the session calls Sink.Taken when it has it.
	Piece(s *Sink, in *turn.ActionChunk)
	// Keep asks for one operation on a key-value relic.
	Keep(ctx context.Context, start *turn.StartAction, k catalog.KeepCall) (string, error)
	// Feeds does an internal action on feeds. The change counts when the end is recorded.
	Feeds(ctx context.Context, name, args string) (result string, change *messages.FeedChange, err error)
}

// Work is what an attempt is of.
type Work struct {
	Start   *turn.StartAction
	Agent   *compiled.Agent
	SID     string
	Inc     messages.Incarnation
	Epoch   int64
	Ordinal int64 // of its run
	// Variables are the session's, for an internal action.
	Variables map[string]string
	// OnFeeds reports that the action may change the session's feeds.
	OnFeeds bool
}

// Attempt is one attempt of an action. Run is called once; Cancel and Claim may be called by other
// goroutines meanwhile.
type Attempt struct {
	Work

	env     *Env
	session Session
	ctx     context.Context
	cancel  context.CancelCauseFunc
	sink    *Sink // nil unless its result is shown as it grows

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

// Begin makes a an attempt, which is cancelled when ctx ends.
func (a *Attempt) Begin(ctx context.Context, env *Env, session Session, work Work) {
	a.Work, a.env, a.session = work, env, session
	a.ctx, a.cancel = context.WithCancelCause(ctx)
	if a.Start.Stream {
		a.sink = newSink(a)
	}
}

// Cancel ends the attempt: a target that does not heed its context is left behind.
func (a *Attempt) Cancel(why error) { a.cancel(why) }

var errTimeUp = messages.Errorf(messages.ErrTimeout, "the action's time is up")

// OverrunGrace is how long a tool whose time is up may take to say so.
const OverrunGrace = 100 * time.Millisecond

// Run makes the attempt on the goroutine that calls it: to wake another for the tool costs more
// than all the bookkeeping of an attempt. If the tool overruns, the timer in late ends the
// attempt.
func (a *Attempt) Run(last func()) {
	defer a.cancel(nil)
	a.began = a.env.Now()
	end := a.within()
	if a.Claim() {
		a.conclude(end)
		last()
		a.session.Ended(end)
	}
}

// within runs the target within its time.
func (a *Attempt) within() *turn.ActionEnded {
	work, timeout, end := a.work()
	if end != nil {
		return end
	}
	ctx := a.ctx
	now := a.env.Now()
	if deadline := driver.Deadline(a.Start, now, timeout); !deadline.IsZero() {
		var cancel context.CancelFunc
		// In a cluster the deadline is by the clock of the database, and contexts go by this host's.
		ctx, cancel = context.WithTimeoutCause(ctx, deadline.Sub(now), errTimeUp)
		defer cancel()
	}
	heeds := context.AfterFunc(ctx, func() { a.late(ctx) })
	defer heeds() // in front of cancel, which is no end of the action's time
	// A host that stood still since the session said so may have lost it: nothing is begun then.
	if !a.env.Held() {
		return driver.Lost(a.Start, driver.Cancelled)
	}
	end = work(ctx)
	return driver.Concluded(a.Start, over(ctx), end)
}

// late gives a tool whose time is up a moment to return. A tool that does not is left behind as
// an orphan: the attempt ends without it, and its answer is dropped.
func (a *Attempt) late(ctx context.Context) {
	leeway := OverrunGrace
	if a.Start.Type != "" {
		leeway = max(leeway, a.Agent.Targets.Grace(a.Start.Type, a.Start.Name))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	a.grace = time.AfterFunc(leeway, func() {
		if !a.Claim() {
			return
		}
		a.env.Orphan()
		a.env.Log.Warn("a tool overran its time and was left behind", zap.String("SID", a.SID), zap.String("tool", a.Start.Name))
		end := driver.Lost(a.Start, over(ctx))
		a.conclude(end)
		a.session.Ended(end)
	})
}

// Claim makes the caller the one that ends the attempt: false when it has ended.
func (a *Attempt) Claim() bool {
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
func (a *Attempt) conclude(end *turn.ActionEnded) {
	a.mu.Lock()
	defer a.mu.Unlock()
	end.Ident, end.ID, end.Attempt = a.Start.Ident, a.Start.ID, a.Start.Attempt
	end.MS = max(0, a.env.Now().Sub(a.began).Milliseconds())
	end.Audits, end.Feed, end.Used, end.Children = a.audits, a.change, a.used, a.runs
}

// work finds what the action is to do. end says that there is nothing.
func (a *Attempt) work() (do func(context.Context) *turn.ActionEnded, timeout time.Duration, end *turn.ActionEnded) {
	if b := a.Start.Basis; b != "" && b != a.Agent.Basis(a.SID, a.Start.Type, a.Start.Name) {
		return nil, 0, failed("changed", neuroscript.CodeDenied, "the tool, or the folder it works in, is another than the one that was approved: nothing was done")
	}
	call := &tools.Call{
		SID: a.SID, Turn: a.Start.Turn, ID: a.Start.ID, Name: a.Start.Name, Key: a.Start.Key, Inc: a.Inc, Epoch: a.Epoch,
		Attempt: a.Start.Attempt, Retries: a.Start.Retries, Budget: a.Start.Budget, Audit: a.audit, Spend: a.spend,
		Host: catalog.Host{Memory: a.Start.State, Zone: a.Start.Zone, Variables: a.Variables, Session: a.env.Outputs, Child: a.child, Keep: a.keep, Progress: a.progress, Basis: a.Start.Basis},
	}
	if a.sink != nil {
		call.Sink = a.sink.emit
	}
	if a.OnFeeds {
		call.Host.Feeds = a.feeds
	}
	if a.Start.Type != "" {
		targets, typ := a.Agent.Targets, a.Start.Type
		if _, ok := targets.Find(typ, call.Name); !ok {
			return nil, 0, failed("unavailable", neuroscript.CodeToolNotFound, string(typ)+" "+call.Name+" is not available")
		}
		do = func(ctx context.Context) *turn.ActionEnded {
			return endOfJSON(targets.Do(ctx, call, typ, a.Start.Args))
		}
		if !targets.Within(typ, call.Name) {
			do = a.around(do)
		}
		return do, targets.Timeout(typ, call.Name), nil
	}
	t, err := a.Agent.Tools.Lookup(call.Name)
	if err != nil || t == nil || t.Run == nil {
		return nil, 0, failed("unavailable", neuroscript.CodeToolNotFound, "tool."+call.Name+" is not available")
	}
	args, err := neuroscript.FromJSON([]byte(a.Start.Args))
	if err != nil {
		return nil, 0, failed("arguments", neuroscript.CodeArgument, err.Error())
	}
	list, positional := args.AsList()
	return a.around(func(ctx context.Context) *turn.ActionEnded {
		if positional { // of a program, which has coerced them
			call.Args = list
			return endOf(t.Run(ctx, call))
		}
		return endOf(catalog.Invoke(ctx, t, call, args, a.Agent.Limits))
	}), t.Timeout, nil
}

// around is the work with the agent's Around around it. What Around gives in place of the
// work's own end is final: no attempt follows.
func (a *Attempt) around(do func(context.Context) *turn.ActionEnded) func(context.Context) *turn.ActionEnded {
	if a.Agent.Around == nil {
		return do
	}
	return func(ctx context.Context) *turn.ActionEnded {
		call := &messages.ActionDeclared{
			Args: a.Start.Args, ArgsDigest: sha256.Sum256([]byte(a.Start.Args)), Class: a.Start.Class, ID: a.Start.ID,
			Name: a.Start.Name, Type: cmp.Or(a.Start.Type, messages.TypeTool),
		}
		var own *turn.ActionEnded // what the work said last
		var told *messages.ActionEnded
		end := a.Agent.Around(ctx, call, func(ctx context.Context) *messages.ActionEnded {
			own = do(ctx)
			told = &messages.ActionEnded{ID: a.Start.ID, State: own.State, Reason: own.Reason, Result: own.Result, ErrorCode: own.ErrorCode}
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
func (a *Attempt) spend(used messages.Budget) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed {
		a.used = a.used.Plus(messages.Budget{Actions: max(used.Actions, 0), CostUSD: max(used.CostUSD, 0), Tokens: max(used.Tokens, 0)})
	}
}

// child notes a run of a child session. What comes too late is lost; the child's own
// journal names its parent.
func (a *Attempt) child(run messages.ChildLink) {
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
func (a *Attempt) progress(done, total int64, text string) {
	now := a.env.Now()
	a.mu.Lock()
	defer a.mu.Unlock() // in order, and none behind the end
	if a.closed || now.Sub(a.told) < progressEvery && (done != total || total == 0) || !a.env.Followed(a.SID) {
		return
	}
	a.told = now
	a.env.Tell(a.SID, &messages.Delta{
		TS: now.UTC(), Run: a.Ordinal, Unit: messages.UnitID{Turn: a.Start.Turn}, Kind: messages.KindProgress,
		Off: max(done, 0), Total: max(total, 0), Text: clip.OneLine(text, progressBytes), Action: a.Start.ID,
	})
}

func (a *Attempt) audit(entry messages.Audit) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.closed {
		a.audits = append(a.audits, entry)
	}
}

func (a *Attempt) keep(ctx context.Context, k catalog.KeepCall) (string, error) {
	return a.session.Keep(ctx, a.Start, k)
}

func (a *Attempt) feeds(ctx context.Context, name, args string) (string, error) {
	result, change, err := a.session.Feeds(ctx, name, args)
	if err != nil {
		return "", err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if change != nil && !a.closed {
		a.change = change
	}
	return result, nil
}
