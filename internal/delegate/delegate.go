// Package delegate runs actions of type agent, each in a child session of its own. The child's
// name is derived from the action's idempotency key, which is also the key of the child's
// submit: an attempt after a crash joins the run that exists. The end of the action ends the
// child's run.
package delegate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/actors"
	"github.com/seed14be6753/stile/internal/answer"
	"github.com/seed14be6753/stile/internal/compiler"
	"github.com/seed14be6753/stile/internal/follow"
	"github.com/seed14be6753/stile/internal/lease"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/internal/turn/driver"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// Runner runs the child sessions of a host. Host is set before the host starts.
type Runner struct {
	Host  *actors.Host
	Store journal.Store
	// Spend looks whether the user of a session may spend more, and bounds the input by what is
	// left. Feeds ask it: no submit has asked for them.
	Spend func(ctx context.Context, sid string, inc messages.Incarnation, in *messages.Input) error
	// SubmitAt has the host that runs a child session of a feed take an input, and returns the run. A
	// second one with the same key joins that run. nil is no cluster.
	SubmitAt func(ctx context.Context, owner lease.Host, sid string, link messages.ParentLink, in messages.Input) (messages.ChildLink, error)
}

// Delegate implements compiler.Sessions: one attempt at an action of type agent.
func (r *Runner) Delegate(ctx context.Context, child *compiler.Agent, call *tools.Call, args string) (string, error) {
	d := &delegation{Runner: r, child: child, call: call}
	if call.Host.Feed != nil {
		defer d.forgotten()
	}
	return d.run(ctx, args)
}

// maxAnswerBytes bounds the answer of a child: it becomes the result of an action.
const maxAnswerBytes = 1 << 20

// delegation is one attempt at an action of type agent.
type delegation struct {
	*Runner
	child *compiler.Agent
	call  *tools.Call
	key   messages.SessionKey // of the child session
	plan  driver.Delegation
	until time.Time // how long the end of a run is waited for that is cancelled at another host

	// hide ends what show began, and returns when it has ended; nil where the result does not
	// grow. shown is the text that was shown until then.
	hide  func()
	shown strings.Builder
}

func (d *delegation) run(ctx context.Context, args string) (string, error) {
	in, err := d.input(args)
	if err != nil {
		return "", err
	}
	if d.plan.Begin(d.call.Attempt, ctx.Err() != nil) == driver.Cease {
		return "", &tools.Ceased{Reason: "it never began"}
	}
	run, err := d.submit(ctx, in)
	feed := d.call.Host.Feed != nil // the feed is not tried again, and needs no record of the child
	if err != nil {
		if d.Host.Stopping() && !feed { // no answer: the next owner of the parent tries again
			<-ctx.Done()
		}
		return "", err
	}
	if !feed {
		d.call.Host.Child(messages.ChildLink{SID: run.SID, Incarnation: run.Inc.String(), Run: run.Ordinal})
	}
	follows, over := context.WithCancelCause(ctx)
	defer over(nil)
	d.show(follows, run, over)
	a, err := d.wait(follows, run)
	if err != nil && ctx.Err() == nil && errors.Is(context.Cause(follows), errTakenBack) {
		return "", errTakenBack
	}
	if err != nil && d.Host.Stopping() {
		if feed {
			return "", err
		}
		<-ctx.Done()
	}
	if ctx.Err() != nil && err != nil {
		if d.leaves(ctx) {
			return "", err
		}
		return d.stop(ctx, run)
	}
	if err != nil {
		return "", &tools.Unsettled{Reason: "the session " + run.SID + " cannot be followed: " + err.Error()}
	}
	return d.result(ctx, a, nil)
}

// leaves reports whether the child goes on without this process, because the process gives up
// its parent.
func (d *delegation) leaves(ctx context.Context) bool {
	return errors.Is(context.Cause(ctx), tools.ErrLetGo) || d.Host.Stopping()
}

// messageParam is the parameter that is the child's input if it is the only one.
const messageParam = "message"

// input returns the child's input: the message, or the JSON of all parameters.
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
	if d.child.CheckInput == nil {
		return in, nil
	}
	in, err := d.child.CheckInput(in)
	if err != nil {
		return in, neuroscript.Errorf(neuroscript.CodeArgument, "%s", err)
	}
	return in, nil
}

// name names the child session, from the first record of the parent's journal.
func (d *delegation) name(ctx context.Context) (key messages.SessionKey, link messages.ParentLink, err error) {
	if key, err = messages.ParseSID(d.call.SID); err != nil {
		return key, link, err
	}
	inc := d.call.Inc
	if d.call.Host.Feed == nil {
		head, err := d.Store.Head(ctx, d.call.SID)
		if err != nil {
			return key, link, err
		}
		inc = head.Inc
	} else if err := d.begun(ctx); err != nil {
		return key, link, err
	}
	opened, err := journal.Opened(ctx, d.Store, inc)
	if err != nil {
		return key, link, err
	}
	parent := driver.Parent{Key: key, SID: d.call.SID, Inc: inc.String(), Link: opened.Parent}
	var refusal driver.Refusal
	if d.call.Host.Feed != nil {
		key, link, refusal, err = d.feedSession(ctx, &parent)
		if err != nil {
			return key, link, err
		}
	} else {
		key, link, refusal = parent.Child(d.call.Turn, d.call.ID, d.call.Name, d.call.Key, d.call.Retries)
	}
	switch refusal {
	case driver.TooDeep:
		return key, link, &tools.Refused{Reason: string(messages.ErrDenied), Text: fmt.Sprintf("agents nest at most %d deep, and %s is %d deep already", driver.MaxAgentDepth, d.call.SID, link.Depth-1)}
	case driver.Nameless:
		return key, link, &tools.Refused{Reason: string(messages.ErrConfig), Text: "tenant and user of " + d.call.SID + " leave no room for the name of a child session"}
	}
	return key, link, nil
}

// The manifest's bound is the driver's.
var _ = [1]struct{}{}[manifest.MaxAgentDepth-driver.MaxAgentDepth]

// submit begins the child's run, or joins it. The end of ctx does not interrupt it, because a
// submitted run must be known to be stopped.
func (d *delegation) submit(called context.Context, in messages.Input) (*follow.Run, error) {
	ctx := context.WithoutCancel(called)
	key, link, err := d.name(ctx)
	if err != nil {
		return nil, err
	}
	if ours, err := d.ours(ctx, key, &link); err != nil {
		return nil, err
	} else if !ours {
		return nil, &tools.Refused{Reason: string(messages.ErrDenied), Text: "the session " + key.SID() + " is not this action's"}
	}
	in.Key, in.User = d.call.Key, key.User
	if b := d.call.Budget; b != (messages.Budget{}) {
		in.Budget = &b
	}
	if d.call.Host.Feed != nil {
		if err := d.Spend(ctx, d.call.SID, d.call.Inc, &in); err != nil {
			return nil, err
		}
	}
	d.key = key
	for until := time.Now().Add(submitPatience); ; {
		rep, err := d.Host.SubmitChild(ctx, key, d.child.Actor, link, in)
		if err == nil {
			d.plan.Accepted()
			return &follow.Run{
				Source: follow.Source{Hub: d.Host.Hub(), Store: d.Store}, SID: key.SID(), Inc: rep.Inc,
				Ordinal: rep.Run, Seq: rep.Seq, End: rep.End, Session: d,
			}, nil
		}
		owner, elsewhere := lease.Owner(err)
		if elsewhere && d.call.Host.Feed != nil && d.SubmitAt != nil && !d.Host.Stopping() {
			var run *follow.Run
			if run, err = d.submitAt(ctx, until, owner, link, in); err == nil {
				d.plan.Accepted()
				return run, nil
			}
			if goesElsewhere(err) && time.Now().Before(until) && pause(called, elsewherePause) {
				continue
			}
		}
		if elsewhere && d.call.Host.Feed == nil && !d.Host.Stopping() {
			if run := d.begunElsewhere(ctx); run != nil {
				d.plan.Accepted()
				return run, nil
			}
			if pause(called, elsewherePause) {
				continue
			}
			return nil, &tools.Unsettled{Reason: "the session " + key.SID() + " may run at another host: " + err.Error()}
		}
		if d.Host.Stopping() || d.plan.Broke() == driver.Lose {
			return nil, &tools.Unsettled{Reason: "the session " + key.SID() + " does not take its input: " + err.Error()}
		}
	}
}

// The time between two looks at a child that another host runs, and at one that is to stop there: its
// parent waits for it no longer than compiler.childGrace.
const (
	elsewherePause = 250 * time.Millisecond
	stoppingPause  = 50 * time.Millisecond
	stopPatience   = 5 * time.Second
	// submitPatience is how long the fetch of a feed looks for the host that runs its session: longer than
	// a lease that is not renewed.
	submitPatience = 15 * time.Second
)

// pause waits before the next look, and reports whether there is one: the caller's time is not up.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// begunElsewhere is the run of the action in a child that another host runs, as an earlier attempt has
// left it; nil where the journal has none yet.
func (d *delegation) begunElsewhere(ctx context.Context) *follow.Run {
	head, err := d.Store.Head(ctx, d.key.SID())
	if err != nil || head.Closed {
		return nil
	}
	run := &follow.Run{Source: follow.Source{Hub: d.Host.Hub(), Store: d.Store}, SID: d.key.SID(), Inc: head.Inc, Ordinal: driver.ChildRun, Session: d}
	if _, err := run.Look(ctx); err != nil {
		return nil
	}
	return run
}

// ours reports whether a session does not exist, or is the child that link says.
func (d *delegation) ours(ctx context.Context, key messages.SessionKey, link *messages.ParentLink) (bool, error) {
	head, err := d.Store.Head(ctx, key.SID())
	if journal.IsNotFound(err) || err == nil && head.Closed {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	opened, err := journal.Opened(ctx, d.Store, head.Inc)
	if err != nil {
		return false, err
	}
	return opened.Parent != nil && *opened.Parent == *link, nil
}

// Wake implements follow.Run's Session.
func (d *delegation) Wake(ctx context.Context) error {
	_, err := d.Host.Open(ctx, d.key, d.child.Actor)
	return err
}

// wait waits for the end of the child's run.
func (d *delegation) wait(ctx context.Context, run *follow.Run) (*answer.Account, error) {
	for {
		a, err := run.Wait(ctx)
		if err == nil {
			return a, nil
		}
		// A child that another host runs ends there: the journal says so, or that host gives it up.
		_, elsewhere := lease.Owner(err)
		if elsewhere && d.looks(ctx) {
			continue
		}
		if ctx.Err() != nil || d.Host.Stopping() || d.plan.Unheard() == driver.Lose {
			return nil, err
		}
	}
}

// looks waits before the next look at a child that another host runs, and reports whether there is one.
func (d *delegation) looks(ctx context.Context) bool {
	if d.Host.Stopping() || d.plan.Stopping() && time.Now().After(d.until) {
		return false
	}
	if d.plan.Stopping() {
		return pause(ctx, stoppingPause)
	}
	return pause(ctx, elsewherePause)
}

// errTakenBack ends an attempt whose child has taken back text that was shown of it. The run in
// the child goes on: the next attempt joins it, and readers of this one know that its text does
// not count any more.
var errTakenBack = &tools.Refused{Reason: turn.ReasonTakenBack, Text: "the child session has taken back text that was shown; its run goes on"}

// show shows what the child says, while it says it, as the result that grows. Text that the
// child takes back ends the attempt.
func (d *delegation) show(ctx context.Context, run *follow.Run, over context.CancelCauseFunc) {
	if d.call.Sink == nil {
		return
	}
	if driver.ShowsWhole(d.call.Attempt, d.call.Retries) {
		d.hide = func() {}
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	d.hide = func() { cancel(); <-ended }
	go func() {
		defer close(ended)
		defer cancel()
		for piece, err := range run.Text(ctx, false, func(*answer.Account) error { return nil }) {
			if e, is := errors.AsType[*messages.Error](err); is && e.Reason == answer.ReasonTakenBack {
				over(errTakenBack)
				return
			}
			if err != nil || d.emit(ctx, piece) != nil {
				return // the rest is shown at the end
			}
		}
	}()
}

// emit shows a piece whole: the end of ctx, in the midst of a piece, would leave it open how
// much of it was shown. It does not wait for longer than the attempt lasts.
func (d *delegation) emit(ctx context.Context, piece string) error {
	d.shown.WriteString(piece)
	return d.call.Emit(context.WithoutCancel(ctx), piece)
}

// showRest shows what was not shown of the answer.
func (d *delegation) showRest(ctx context.Context, text string) error {
	if d.hide == nil {
		return nil
	}
	d.hide()
	rest, ok := strings.CutPrefix(text, d.shown.String())
	switch {
	case ok:
		return d.emit(ctx, rest)
	case d.plan.Stopping():
		return nil // the end of the action says so
	}
	return errTakenBack
}

// stop cancels the child's run and waits until everything in it has ended.
func (d *delegation) stop(ctx context.Context, run *follow.Run) (string, error) {
	cause := context.Cause(ctx)
	ctx = context.WithoutCancel(ctx)
	d.plan.Over()
	link := messages.ChildLink{SID: run.SID, Incarnation: run.Inc.String(), Run: run.Ordinal}
	if err := d.Host.Waker().CancelChild(ctx, d.key, d.child.Actor, link, d.caller()); err != nil {
		return "", &tools.Unsettled{Reason: "the session " + run.SID + " cannot be stopped: " + err.Error()}
	}
	d.until = time.Now().Add(stopPatience)
	a, err := d.wait(ctx, run)
	if err != nil {
		return "", &tools.Unsettled{Reason: "the session " + run.SID + " may still run: " + err.Error()}
	}
	return d.result(ctx, a, cause)
}

// result returns the run's answer for its parent, or why it does not count. stopped is why the
// run was stopped, if it was: the detail of the run itself names the stopping session, which
// is not for the model.
func (d *delegation) result(ctx context.Context, a *answer.Account, stopped error) (string, error) {
	if d.call.Spend != nil {
		d.call.Spend(a.Used)
	}
	o := a.Ended.Body.(*messages.RunEnd)
	outcome := d.plan.Ended(o.Decision, a.Unknown)
	if outcome == driver.Answered {
		text := a.Text()
		if len(text) > maxAnswerBytes {
			return "", &tools.Refused{Reason: string(messages.ErrQuota), Text: fmt.Sprintf("the answer has %d bytes; the limit is %d", len(text), maxAnswerBytes)}
		}
		if err := d.showRest(ctx, text); err != nil {
			return "", err
		}
		out, err := jsontext.AppendQuote(nil, text)
		return string(out), err
	}
	end := &tools.Refused{Reason: "aborted", Text: "the agent " + d.call.Name + " ended " + string(o.Decision)}
	if o.Reason != "" {
		end.Reason = string(o.Reason)
	}
	var why *messages.Error
	switch {
	case stopped == nil && o.Detail != "":
		end.Text += ": " + o.Detail
	case errors.As(stopped, &why) && why.Detail != "":
		end.Text += ": " + why.Detail
	}
	switch outcome {
	case driver.Unknown:
		return "", &tools.Unsettled{Reason: fmt.Sprintf("%s; the outcome of %d of its actions is unknown", end, a.Unknown)}
	case driver.Ceased:
		return "", &tools.Ceased{Reason: end.Error()}
	}
	return "", end
}
