// Package reply reads one reply of a model: it has the prompt assembled, asks the routes in turn
// as the policy says, decodes what comes, and posts bytes and events.
//
// Invariants:
//   - the bytes are posted exactly as they came and in their order, and their events with them;
//   - text goes to the session at once, and what it does not wait for rides with what it does, or
//     goes within holdBack;
//   - a byte beyond the budget of the process is not read, and none while the session holds the
//     stream back;
//   - a reply ends exactly once, whatever the model does.
//
// It decides nothing about the turn, and retries by internal/retry alone.
package reply

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/seed14be6753/stile/internal/calls"
	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/internal/history"
	"github.com/seed14be6753/stile/internal/prompt"
	"github.com/seed14be6753/stile/internal/retry"
	"github.com/seed14be6753/stile/internal/talk"
	"github.com/seed14be6753/stile/internal/telemetry"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// Env is what the replies of a host share.
type Env struct {
	Now func() time.Time
	// LimitReached counts what met a limit.
	LimitReached func(limit string, n int)
	// ModelCalled gets every call of a model when it has ended.
	ModelCalled func(telemetry.ModelCall)
	// ModelAsked gets the bytes of text that a request sends, and in which mode.
	ModelAsked func(mode string, bytes int64)
	Systems    *history.Systems
}

// Inbox takes what a reply says. Offer is Post for a caller that calls Inline then: an idle session
// takes the inputs on the goroutine of that call.
type Inbox interface {
	Post(in ...turn.Input)
	Offer(in ...turn.Input)
	Inline()
}

// Reply is the reading of one reply. Run is called once; Hold, Cancel and Hurry may be called by
// other goroutines meanwhile.
type Reply struct {
	Prompt history.Reader
	Talk   *talk.Talk // the session's conversation with the provider; nil for none

	env    *Env
	inbox  Inbox
	ctx    context.Context
	cancel context.CancelCauseFunc
	gate   gate

	mu    sync.Mutex // the timer flushes, too
	held  []turn.Input
	group group // of the texts among them, in strict durability
	due   *time.Timer

	decoder   parse.Decoder
	events    []messages.Event
	delivered int64
	system    string
	requests  int64 // model.request records of this turn that move the cursor
	counts    int64 // bytes of the reply that count, when its decoder has said so; else negative

	files   map[messages.Digest][]byte // of the prompt's parts
	asked   int64                      // bytes of the prompt
	weight  int64                      // of its parts, as bytes of text
	mode    string                     // of the latest request
	script  bool                       // the model reads a script, and costs nothing
	attempt bill                       // as far as the model has said
	spoke   time.Time                  // of its first text; zero before
	failed  bill                       // of the attempts before it
}

// Begin makes r the reading of a reply to a prompt. It ends with ctx at the latest.
func (r *Reply) Begin(ctx context.Context, env *Env, inbox Inbox, prompt history.Reader) {
	r.Prompt, r.env, r.inbox = prompt, env, inbox
	r.ctx, r.cancel = context.WithCancelCause(ctx)
}

// Hold stops the reader of the stream, or lets it go on.
func (r *Reply) Hold(shut bool) { r.gate.set(shut) }

// Cancel ends the reply.
func (r *Reply) Cancel(why error) { r.cancel(why) }

// bill is what attempts have cost.
type bill struct {
	usage    messages.Usage
	cost     int64
	unpriced bool
}

// plus is the bill of both.
func (b bill) plus(o bill) bill {
	u := &b.usage
	u.Input, u.Output = u.Input+o.usage.Input, u.Output+o.usage.Output
	u.CacheRead, u.CacheWrite = u.CacheRead+o.usage.CacheRead, u.CacheWrite+o.usage.CacheWrite
	u.Estimated = u.Estimated || o.usage.Estimated
	return bill{*u, b.cost + o.cost, b.unpriced || o.unpriced}
}

// A prompt waits for a journal whose server is away, about as long as a commit does: the turn does
// not end because the server restarts.
const (
	awayPause = 100 * time.Millisecond
	awayTries = 100
)

// messages makes the prompt.
func (r *Reply) messages() (msgs []messages.Message, err error) {
	for range awayTries {
		if msgs, err = r.Prompt.Messages(r.ctx); journal.ReasonOf(err) != journal.ReasonUnavailable {
			break
		}
		select {
		case <-time.After(awayPause):
		case <-r.ctx.Done():
			return nil, err
		}
	}
	return msgs, err
}

// Run reads the reply to its end. The end is posted by Hurry, or by a timer.
func (r *Reply) Run() {
	defer r.cancel(nil)
	gathered := gathers.Get().(*[]messages.Event)
	r.events = *gathered
	defer func() {
		if cap(r.events) <= keptEvents {
			*gathered = r.events[:0]
			gathers.Put(gathered)
		}
	}()
	msgs, err := r.messages()
	if err != nil {
		r.fail(err, cmp.Or(messages.CodeOf(err), messages.ErrJournal)) // a prompt is made of the journal
		return
	}
	if r.files, err = r.Prompt.Files(r.ctx, msgs); err != nil {
		r.fail(err, messages.ErrJournal)
		return
	}
	r.decoder = r.Prompt.Agent.Dialect.NewDecoder(messages.TurnInfo{
		Turn: r.Prompt.Open.Turn, Pass: r.Prompt.Open.Pass, State: r.Prompt.Open.State, Templates: r.Prompt.Open.Templates, MaxReplyBytes: r.Prompt.Agent.Rules.Limits.ReplyBytes(),
	})
	req := messages.ModelRequest{
		Mode: messages.ModelReplay, Prompt: r.Prompt.Agent.Digests().Digest(msgs, r.Prompt.View), Messages: int64(len(msgs)),
	}
	if r.Prompt.Agent.Rules.Rendering >= 2 {
		req.System, r.system = r.Prompt.Agent.Digests().System(msgs)
	}
	for i := range msgs {
		req.Lints = append(req.Lints, msgs[i].Lints...)
	}
	r.countCut(msgs)
	for i := 0; ; i++ {
		again, err := r.ask(i, msgs, &req)
		if err == nil || !again {
			if err != nil {
				r.fail(err, "")
			}
			return
		}
		from, to := r.Prompt.Agent.Routes[i], r.Prompt.Agent.Routes[i+1]
		r.post(&turn.ModelSwitched{Ident: r.Prompt.Open.Ident, Fallback: messages.ModelFallback{
			From: from.Provider + "/" + from.Model, To: to.Provider + "/" + to.Model, Reason: reasonOf(err),
		}})
	}
}

// countCut counts the results of the turn before of which the model sees a part now.
// Later prompts of the run show them in the same way.
func (r *Reply) countCut(msgs []messages.Message) {
	if r.Prompt.Open.Pass < 2 {
		return // results that are in the prompt are those of runs before
	}
	for i := range slices.Backward(msgs) {
		if msgs[i].Holds == messages.HoldsResults {
			for _, l := range msgs[i].Limits {
				r.env.LimitReached(l, 1)
			}
			return
		}
	}
}

// ask tries one route until its policy says otherwise. again asks for the next.
// What does not depend on the route is in asked.
func (r *Reply) ask(i int, msgs []messages.Message, asked *messages.ModelRequest) (again bool, err error) {
	route := r.Prompt.Agent.Routes[i]
	rotations := 0
	for n := 1; ; {
		req := llm.Request{
			Session: r.Prompt.SID, Turn: r.Prompt.Open.Turn, Ordinal: r.Prompt.Open.Ordinal + r.requests,
			Provider: route.Provider, Model: route.Model, Options: route.Options, Messages: msgs, MaxReplyBytes: r.Prompt.Agent.Rules.Limits.ReplyBytes() + pastBound,
			Schema: r.Prompt.Agent.Schema,
			Grows:  r.Prompt.Agent.Dialect.Traits().AppendOnly, Dialect: r.Prompt.Agent.Dialect.Name(),
		}
		if r.Prompt.Agent.Rules.FeedsLast {
			req.Passing = prompt.Passing(msgs)
		}
		if len(r.files) > 0 {
			req.Messages, req.Files = sentTo(route, msgs), r.files
		}
		if r.Prompt.Agent.Native {
			req.Tools = r.Prompt.Agent.Specs
		}
		// A script's rule answers as often as it matches and moves no cursor.
		script, ok := route.Port.(interface{ Ordered(llm.Request) bool })
		matched := ok && !script.Ordered(req)
		r.asked, r.script = bytesOf(msgs), ok
		r.weight = weightOf(msgs)
		if !matched {
			r.requests++
		}
		opened := &turn.ModelOpened{Ident: r.Prompt.Open.Ident, Request: *asked}
		opened.Request.Provider, opened.Request.Model, opened.Request.Options, opened.Request.Matched = route.Provider, route.Model, route.Options, matched
		if !asked.System.IsZero() && !r.env.Systems.Has(r.Prompt.Inc, asked.System) {
			opened.System = []byte(r.system)
		}
		asked.Lints = nil // once per turn
		begin := r.env.Now()
		finish, err := r.read(r.stream(route, req, opened))
		r.called(route, begin, finish, err)
		if err == nil {
			return false, nil
		}
		step := r.Prompt.Agent.Retry.Next(retry.Attempt{N: n, Rotations: rotations, Delivered: r.delivered, Models: len(r.Prompt.Agent.Routes) - i - 1}, llm.FailureOf(err))
		switch step.Do {
		case retry.Retry, retry.Rotate:
			if !r.pause(step.Wait) {
				return false, err
			}
			if step.Do == retry.Rotate {
				rotations++
			} else {
				n++
			}
		case retry.Fallback:
			return true, err
		default:
			return false, err
		}
	}
}

// called reports a call that has ended. Calls of actions are watched from outside (calls.Watch); here
// that would cost each turn some allocations.
func (r *Reply) called(route compiled.Route, begin time.Time, finish messages.Finish, err error) {
	c := telemetry.ModelCall{
		Provider: route.Provider, Model: route.Model, Outcome: calls.Outcome(r.ctx, finish, err), Took: r.env.Now().Sub(begin),
		Mode: r.mode, Input: r.attempt.usage.Input, Cached: r.attempt.usage.CacheRead,
	}
	if !r.spoke.IsZero() {
		c.First = max(r.spoke.Sub(begin), 1)
	}
	r.env.ModelCalled(c)
}

// pastBound is how much more than a reply may have the port lets through: the machine's
// meter must see that byte and halt with ERR_QUOTA, before the port's own bound ends the
// stream as a failure of the model.
const pastBound = 1

// holdBack bounds how long an input that the session does not wait for is held back.
const holdBack = 20 * time.Millisecond

// post hands an input over. One that the session does not wait for – what was asked, bytes
// that made no event – is held back until something follows that is wanted, or the reply
// ends: waking a session for each would cost a short reply more than itself.
func (r *Reply) post(in turn.Input) {
	wanted := true
	switch in := in.(type) {
	case *turn.ModelOpened, *turn.ModelTalk:
		wanted = false
	case *turn.Decoded:
		wanted = len(in.Events) > 0
	}
	if r.queue(in, wanted) {
		r.inbox.Inline()
	}
}

// queue is post; inline reports whether the session may take the input on this goroutine.
func (r *Reply) queue(in turn.Input, wanted bool) (inline bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.strict() {
		r.held = r.group.join(r.held, in)
	} else {
		r.held = append(r.held, in)
	}
	switch {
	case !wanted:
		r.flushSoon()
	case shows(in):
		if r.strict() {
			now := r.env.Now()
			if r.group.waits(now, bytesHeld(r.held)) {
				r.flushSoon()
				return false
			}
			r.group.posted = now
		}
		r.settled()
		r.inbox.Offer(r.held...)
		r.held = nil
		return true
	case r.strict() && closes(in) && r.group.waits(r.env.Now(), bytesHeld(r.held)):
		// The end of the reply mostly follows at once, and is decided in the same commit.
		r.flushSoon()
	default:
		r.flush()
	}
	return false
}

// closes reports whether an input ends a text or the reply and starts nothing.
func closes(in turn.Input) bool {
	d, ok := in.(*turn.Decoded)
	return ok && !slices.ContainsFunc(d.Events, func(ev messages.Event) bool {
		return ev.Kind < messages.EventUnitBegin || ev.Kind > messages.EventUnitEnd && ev.Kind != messages.EventStop
	})
}

// strict reports whether text is shown only once its bytes are durable: then what comes together
// is one record.
func (r *Reply) strict() bool { return r.Prompt.Agent.Rules.Durability == turn.Strict }

// shows reports whether an input is text to be shown and nothing else. An idle session takes
// it on the goroutine that reads the reply: a token is no work, and to wake another
// goroutine for each costs more than to handle it. What may start an action is handed
// over: the reader goes on reading while it starts.
func shows(in turn.Input) bool {
	d, ok := in.(*turn.Decoded)
	return ok && !slices.ContainsFunc(d.Events, func(ev messages.Event) bool {
		return ev.Kind != messages.EventUnitBegin && ev.Kind != messages.EventUnitText
	})
}

// flushSoon posts what is held in a moment, if nothing else does. r.mu is held.
func (r *Reply) flushSoon() {
	if r.due == nil {
		r.due = time.AfterFunc(holdBack, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.flush()
		})
	}
}

// flush posts what is held. r.mu is held.
func (r *Reply) flush() {
	r.settled()
	if len(r.held) > 0 {
		if r.strict() && bytesHeld(r.held) > 0 {
			r.group.posted = r.env.Now()
		}
		r.inbox.Post(r.held...)
		r.held = nil
	}
}

// end takes the last input of the reply; Hurry posts it. Between the two the
// model's code runs once more, to let go of its connection: should that take long,
// the timer does not wait for it.
func (r *Reply) end(in *turn.ReplyEnd) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = append(r.held, in)
	r.flushSoon()
}

// Hurry posts the end of the reply. Nothing of the model may run on this goroutine from here
// on: the session's next messages wait for it.
func (r *Reply) Hurry() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flush()
}

// settled stops the timer: what is held is posted now. r.mu is held.
func (r *Reply) settled() {
	if r.due != nil {
		r.due.Stop()
		r.due = nil
	}
}

func (r *Reply) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.ctx.Done():
		return false
	}
}

// maxPiece bounds the bytes of one turn.Decoded: a session looks at its clocks between
// two, and a model may say megabytes at once.
const maxPiece = 32 << 10

// read decodes one stream to its end. An error is the attempt's.
func (r *Reply) read(stream iter.Seq2[llm.Chunk, error]) (messages.Finish, error) {
	r.failed, r.attempt, r.spoke = r.failed.plus(r.attempt), bill{}, time.Time{}
	text := int64(0) // bytes of this attempt
	for chunk, err := range stream {
		if err != nil {
			return "", err
		}
		if text == 0 && len(chunk.Text) > 0 {
			r.spoke = r.env.Now()
		}
		if chunk.Usage != (messages.Usage{}) {
			r.attempt.usage, r.attempt.unpriced = chunk.Usage, chunk.Unpriced
		}
		if chunk.CostMicroUSD != 0 {
			r.attempt.cost = chunk.CostMicroUSD
		}
		text += int64(len(chunk.Text))
		if chunk.Finish != "" && r.attempt.usage == (messages.Usage{}) && !r.script && r.Prompt.Agent.Rules.Rendering >= 2 {
			r.attempt.usage = estimate(r.asked+r.weight, text)
		}
		on := r.failed.plus(r.attempt)
		for rest := chunk.Text; len(rest) > 0 || len(chunk.Text) == 0 && chunk.Finish == "" && chunk.Usage != (messages.Usage{}); {
			piece := rest[:min(len(rest), maxPiece)]
			if rest = rest[len(piece):]; len(piece) > 0 {
				if !r.Prompt.Share.Take(r.ctx, int64(len(piece))) {
					return "", context.Cause(r.ctx)
				}
				r.delivered += int64(len(piece))
				r.decoder.Push(piece, r.collect)
			}
			r.post(&turn.Decoded{
				Ident: r.Prompt.Open.Ident, Bytes: piece, Events: r.take(),
				Usage: on.usage, CostMicroUSD: on.cost, Unpriced: on.unpriced,
			})
			r.gate.pass(r.ctx)
			if len(rest) == 0 {
				break
			}
		}
		if chunk.Finish != "" {
			r.decoder.End(chunk.Finish, r.collect)
			r.end(&turn.ReplyEnd{Ident: r.Prompt.Open.Ident, Events: r.take(), Finish: chunk.Finish, Side: chunk.Side, Usage: on.usage, CostMicroUSD: on.cost, Unpriced: on.unpriced})
			return chunk.Finish, nil
		}
	}
	return "", llm.Fail(llm.Failure{Code: "protocol"}, "the stream ended without a finish")
}

// estimate is the usage of a reply whose model says nothing of it, so that its run has a
// bound all the same: the usual guess of how many tokens a text has
// (docs/spec/cogency.md §13).
func estimate(prompt, reply int64) messages.Usage {
	return messages.Usage{Input: (prompt + 3) / 4, Output: (reply + 3) / 4, Estimated: true}
}

// bytesOf is how much text a prompt has.
func bytesOf(msgs []messages.Message) (n int64) {
	for i := range msgs {
		n += int64(len(msgs[i].Text))
	}
	return n
}

// gathers keeps room for the events of a push while they are found: their
// number is not known before, and a slice that grows to them is twice what they need.
var gathers = sync.Pool{New: func() any { return new([]messages.Event) }}

// keptEvents is the largest room kept.
const keptEvents = 64

// collect copies an event: its text aliases the decoder's buffers.
func (r *Reply) collect(ev messages.Event) {
	if ev.Fault != nil && ev.Fault.Limit != "" {
		r.env.LimitReached(ev.Fault.Limit, 1)
	}
	if ev.Kind == messages.EventStop || ev.Kind == messages.EventCut {
		r.counts = ev.Offset
	}
	ev.Text = slices.Clone(ev.Text)
	r.events = append(r.events, ev)
}

func (r *Reply) take() []messages.Event {
	if len(r.events) == 0 {
		return nil
	}
	evs := slices.Clone(r.events)
	clear(r.events)
	r.events = r.events[:0]
	return evs
}

// fail ends the reply with an error, or as cancelled when that is why. code is whose it
// is, "" the model's.
func (r *Reply) fail(err error, code messages.Code) {
	on := r.failed.plus(r.attempt)
	end := &turn.ReplyEnd{Ident: r.Prompt.Open.Ident, Finish: messages.FinishError, Err: err.Error(), Code: code, Usage: on.usage, CostMicroUSD: on.cost, Unpriced: on.unpriced}
	if r.ctx.Err() != nil {
		end.Finish, end.Err, end.Code = messages.FinishCancelled, "", ""
	}
	if r.decoder != nil {
		r.decoder.End(end.Finish, r.collect)
		end.Events = r.take()
	}
	r.end(end)
}

func reasonOf(err error) string {
	var e *messages.Error
	if errors.As(err, &e) && e.Reason != "" {
		return e.Reason
	}
	return string(messages.CodeOf(err))
}

// gate stops the reader of a stream while it is shut. Its zero value is open.
type gate struct {
	mu   sync.Mutex
	open chan struct{} // not nil while it is shut
}

func (g *gate) set(shut bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case shut && g.open == nil:
		g.open = make(chan struct{})
	case !shut && g.open != nil:
		close(g.open)
		g.open = nil
	}
}

// pass waits while the gate is shut, or until ctx ends.
func (g *gate) pass(ctx context.Context) {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	if open == nil {
		return
	}
	select {
	case <-open:
	case <-ctx.Done():
	}
}
