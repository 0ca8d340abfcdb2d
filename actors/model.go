package actors

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/seed14be6753/stile/actors/internal/mailbox"
	"github.com/seed14be6753/stile/internal/prompt"
	"github.com/seed14be6753/stile/internal/retry"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// modelRun reads one reply: it assembles the prompt, asks the routes in turn,
// decodes what comes and posts it.
type modelRun struct {
	pid    *actor.PID
	cancel context.CancelCauseFunc
	gate   *gate
}

// hold leaves the stream unread, or reads it on.
func (m *modelRun) hold(shut bool) { m.gate.set(shut) }

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

func (s *session) openModel(c actor.Context, e *turn.OpenModel) *modelRun {
	ctx, cancel := context.WithCancelCause(s.air.ctx)
	view := s.view(e.Turn)
	r := &reply{host: s.host, agent: s.ref.agent, box: s.box, sid: s.ref.sid, inc: s.inc, open: e, durable: s.durable(), ctx: ctx, view: view, catch: s.catchUp(view), taken: s.host.intake.reply()}
	context.AfterFunc(s.air.ctx, r.taken.giveBack) // what the reply took is free when its turn is over
	run := &modelRun{cancel: cancel, gate: &r.gate}
	run.pid = s.spawnChild(c, func(last func()) { defer cancel(nil); r.last = last; r.run(); r.ended() }, nil)
	return run
}

// reply is the work of a model actor.
type reply struct {
	host  *Host
	agent *Agent
	box   *inbox
	sid   string
	inc   messages.Incarnation
	open  *turn.OpenModel
	// durable is a record that the session has written: what is read of its journal is held
	// against that.
	durable journal.Anchor
	ctx     context.Context
	view    *prompt.View // of the history; nil: it is to be read
	catch   *catchUp     // the session waits for what is read; nil: it does not

	last  func()
	gate  gate
	taken *taken

	mu    sync.Mutex // the timer flushes, too
	held  []turn.Input
	group group // of the texts among them, in strict durability
	due   *time.Timer
	loan  mailbox.Loan // of the reader's goroutine

	decoder   parse.Decoder
	events    []messages.Event
	delivered int64
	system    string
	requests  int64 // model.request records of this turn that move the cursor

	asked   int64 // bytes of the prompt
	script  bool  // the model reads a script, and costs nothing
	attempt bill  // as far as the model has said
	failed  bill  // of the attempts before it
}

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

func (r *reply) run() {
	gathered := gathers.Get().(*[]messages.Event)
	r.events = *gathered
	defer func() {
		if cap(r.events) <= keptEvents {
			*gathered = r.events[:0]
			gathers.Put(gathered)
		}
	}()
	msgs, err := r.assemble()
	if err != nil {
		r.fail(err, cmp.Or(messages.CodeOf(err), messages.ErrJournal)) // a prompt is made of the journal
		return
	}
	r.decoder = r.agent.Dialect.NewDecoder(messages.TurnInfo{
		Turn: r.open.Turn, Pass: r.open.Pass, State: r.open.State, MaxReplyBytes: r.agent.Rules.Limits.ReplyBytes(),
	})
	req := messages.ModelRequest{
		Mode: "replay", Prompt: r.agent.digester().Digest(msgs, r.view), Messages: int64(len(msgs)),
	}
	if r.agent.Rules.Rendering >= 2 {
		req.System, r.system = r.agent.digester().System(msgs)
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
		from, to := r.agent.Routes[i], r.agent.Routes[i+1]
		r.post(&turn.ModelSwitched{Ident: r.open.Ident, Fallback: messages.ModelFallback{
			From: from.Provider + "/" + from.Model, To: to.Provider + "/" + to.Model, Reason: reasonOf(err),
		}})
	}
}

// countCut counts the results of the turn before of which the model sees a part now.
// Later prompts of the run show them in the same way.
func (r *reply) countCut(msgs []messages.Message) {
	if r.open.Pass < 2 {
		return // results that are in the prompt are those of runs before
	}
	for i := range slices.Backward(msgs) {
		if msgs[i].Holds == messages.HoldsResults {
			for _, l := range msgs[i].Limits {
				r.host.cfg.Observer.LimitReached(l, 1)
			}
			return
		}
	}
}

// ask tries one route until its policy says otherwise. again asks for the next.
// What does not depend on the route is in asked.
func (r *reply) ask(i int, msgs []messages.Message, asked *messages.ModelRequest) (again bool, err error) {
	route := r.agent.Routes[i]
	rotations := 0
	for n := 1; ; {
		req := llm.Request{
			Session: r.sid, Turn: r.open.Turn, Ordinal: r.open.Ordinal + r.requests,
			Provider: route.Provider, Model: route.Model, Options: route.Options, Messages: msgs, MaxReplyBytes: r.agent.Rules.Limits.ReplyBytes() + pastBound,
			Schema: r.agent.Schema,
			Grows:  r.agent.Dialect.Traits().AppendOnly, Dialect: r.agent.Dialect.Name(),
		}
		if r.agent.Native {
			req.Tools = r.agent.Specs
		}
		// A script's rule answers as often as it matches and moves no cursor.
		script, ok := route.Port.(interface{ Ordered(llm.Request) bool })
		matched := ok && !script.Ordered(req)
		r.asked, r.script = bytesOf(msgs), ok
		if !matched {
			r.requests++
		}
		opened := &turn.ModelOpened{Ident: r.open.Ident, Request: *asked}
		opened.Request.Provider, opened.Request.Model, opened.Request.Options, opened.Request.Matched = route.Provider, route.Model, route.Options, matched
		if !asked.System.IsZero() && !r.host.knowsSystem(r.inc, asked.System) {
			opened.System = []byte(r.system)
		}
		r.post(opened)
		asked.Lints = nil // once per turn
		err := r.read(route.Port.Stream(r.ctx, req))
		if err == nil {
			return false, nil
		}
		step := r.agent.Retry.Next(retry.Attempt{N: n, Rotations: rotations, Delivered: r.delivered, Models: len(r.agent.Routes) - i - 1}, llm.FailureOf(err))
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

// pastBound is how much more than a reply may have the port lets through: the machine's
// meter must see that byte and halt with ERR_QUOTA, before the port's own bound ends the
// stream as a failure of the model.
const pastBound = 1

// holdBack bounds how long an input that nobody waits for is held back.
const holdBack = 20 * time.Millisecond

// post hands an input over. One that nobody waits for – what was asked, bytes that
// made no event – is held back until something follows that is wanted, or the reply
// ends: waking a session for each would cost a short reply more than itself.
func (r *reply) post(in turn.Input) {
	wanted := true
	switch in := in.(type) {
	case *turn.ModelOpened:
		wanted = false
	case *turn.Decoded:
		wanted = len(in.Events) > 0
	}
	if !r.hand(in, wanted) {
		return
	}
	if r.loan.Work() {
		r.host.pool.Kick() // what the session put off until this goroutine is done
	}
}

// strict reports whether text must be durable before it is shown: it is grouped then.
func (r *reply) strict() bool { return r.agent.Rules.Durability == turn.Strict }

// hand is post; lent tells that the session may take the input on this goroutine.
func (r *reply) hand(in turn.Input, wanted bool) (lent bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	strict := r.strict()
	if strict {
		r.held = r.group.join(r.held, in)
	} else {
		r.held = append(r.held, in)
	}
	switch {
	case !wanted:
		r.flushSoon()
	case shows(in):
		if strict {
			now := r.host.cfg.Now()
			if r.group.waits(now, bytesHeld(r.held)) {
				r.flushSoon()
				return false
			}
			r.group.posted = now
		}
		r.settled()
		r.box.lend(&r.loan, r.held...)
		r.held = nil
		return true
	case strict && closes(in) && r.group.waits(r.host.cfg.Now(), bytesHeld(r.held)):
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

// shows tells that an input is text to be shown and nothing else. An idle session takes
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
func (r *reply) flushSoon() {
	if r.due == nil {
		r.due = time.AfterFunc(holdBack, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.flush()
		})
	}
}

// flush posts what is held. r.mu is held.
func (r *reply) flush() {
	r.settled()
	if len(r.held) > 0 {
		if r.strict() && bytesHeld(r.held) > 0 {
			r.group.posted = r.host.cfg.Now()
		}
		r.box.post(r.held...)
		r.held = nil
	}
}

// end takes the last input of the reply; ended posts it. Between the two the
// model's code runs once more, to let go of its connection: should that take long,
// the timer does not wait for it.
func (r *reply) end(in *turn.ReplyEnd) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = append(r.held, in)
	r.flushSoon()
}

// ended hands over to the session. Nothing of the model may run on this goroutine
// from here on: the session's next messages are waiting for it.
func (r *reply) ended() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.held) > 0 {
		r.last()
		r.flush()
	}
}

// settled stops the timer: what is held is posted now. r.mu is held.
func (r *reply) settled() {
	if r.due != nil {
		r.due.Stop()
		r.due = nil
	}
}

func (r *reply) pause(d time.Duration) bool {
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
func (r *reply) read(stream iter.Seq2[llm.Chunk, error]) error {
	r.failed, r.attempt = r.failed.plus(r.attempt), bill{}
	text := int64(0) // bytes of this attempt
	for chunk, err := range stream {
		if err != nil {
			return err
		}
		if chunk.Usage != (messages.Usage{}) {
			r.attempt.usage, r.attempt.unpriced = chunk.Usage, chunk.Unpriced
		}
		if chunk.CostMicroUSD != 0 {
			r.attempt.cost = chunk.CostMicroUSD
		}
		text += int64(len(chunk.Text))
		if chunk.Finish != "" && r.attempt.usage == (messages.Usage{}) && !r.script && r.agent.Rules.Rendering >= 2 {
			r.attempt.usage = estimate(r.asked, text)
		}
		on := r.failed.plus(r.attempt)
		for said := chunk.Text; len(said) > 0 || len(chunk.Text) == 0 && chunk.Finish == "" && chunk.Usage != (messages.Usage{}); {
			piece := said[:min(len(said), maxPiece)]
			if said = said[len(piece):]; len(piece) > 0 {
				if !r.taken.take(r.ctx, int64(len(piece))) {
					return context.Cause(r.ctx)
				}
				r.delivered += int64(len(piece))
				r.decoder.Push(piece, r.collect)
			}
			r.post(&turn.Decoded{
				Ident: r.open.Ident, Bytes: piece, Events: r.take(),
				Usage: on.usage, CostMicroUSD: on.cost, Unpriced: on.unpriced,
			})
			r.gate.pass(r.ctx)
			if len(said) == 0 {
				break
			}
		}
		if chunk.Finish != "" {
			r.decoder.End(chunk.Finish, r.collect)
			r.end(&turn.ReplyEnd{Ident: r.open.Ident, Events: r.take(), Finish: chunk.Finish, Side: chunk.Side, Usage: on.usage, CostMicroUSD: on.cost, Unpriced: on.unpriced})
			return nil
		}
	}
	return llm.Fail(llm.Failure{Code: "protocol"}, "the stream ended without a finish")
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

// gathers keeps room for the events of a push while they are found: nobody knows how
// many there will be, and a slice that grows to them is twice what they need.
var gathers = sync.Pool{New: func() any { return new([]messages.Event) }}

// keptEvents is the largest room kept.
const keptEvents = 64

// collect copies an event: its text aliases the decoder's buffers.
func (r *reply) collect(ev messages.Event) {
	if ev.Fault != nil && ev.Fault.Limit != "" {
		r.host.cfg.Observer.LimitReached(ev.Fault.Limit, 1)
	}
	ev.Text = slices.Clone(ev.Text)
	r.events = append(r.events, ev)
}

func (r *reply) take() []messages.Event {
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
func (r *reply) fail(err error, code messages.Code) {
	on := r.failed.plus(r.attempt)
	end := &turn.ReplyEnd{Ident: r.open.Ident, Finish: messages.FinishError, Err: err.Error(), Code: code, Usage: on.usage, CostMicroUSD: on.cost, Unpriced: on.unpriced}
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

// assemble builds the messages of the turn: from the carried streams where the
// dialect's history is those, else from the journal.
func (r *reply) assemble() ([]messages.Message, error) {
	if err := r.agent.instructed(r.open.Feeds); err != nil {
		return nil, err
	}
	var msgs []messages.Message
	var err error
	switch {
	case r.agent.Dialect.Traits().Carry:
		msgs, err = r.carried()
	case r.view != nil:
		msgs, err = r.remembered()
	case r.agent.Window.Bounded():
		msgs, err = r.recent()
	default:
		msgs, err = r.transcript()
	}
	if err != nil || r.agent.Shape == nil {
		return msgs, err
	}
	return r.agent.Shape(History{SID: r.sid, Run: r.open.Run, Turn: r.open.Turn, Messages: slices.Clone(msgs)}), nil
}

// carried is the prompt of dialects whose history is the streams of the turn before.
func (r *reply) carried() ([]messages.Message, error) {
	e := r.open
	p := messages.Projection{
		SID: r.sid, Turn: e.Turn, Pass: e.Pass, Last: e.Last, Text: e.Text, Userdata: e.Userdata,
		Out: e.Out, Scr: e.Scr, Tools: r.agent.Specs, Primer: r.agent.Primer, LastError: e.LastError, Note: e.Note, Feeds: e.Feeds,
	}
	var err error
	if p.Failed, err = e.Tell(r.blob); err != nil {
		return nil, err
	}
	if !e.HaveCarry {
		if p.Out, err = r.blob(e.OutDigest); err != nil {
			return nil, err
		}
		if p.Scr, err = r.blob(e.ScrDigest); err != nil {
			return nil, err
		}
	}
	return prompt.Assemble(r.agent.Dialect, prompt.Carried(p, r.agent.Rules.Rendering)), nil
}

func (r *reply) blob(d messages.Digest) ([]byte, error) {
	if d.IsZero() {
		return nil, nil
	}
	b, err := r.host.cfg.Store.Blob(r.ctx, r.inc, d)
	if err == nil && !r.taken.take(r.ctx, int64(len(b)/2)) {
		return nil, context.Cause(r.ctx)
	}
	return b, err
}

// remembered is the prompt from what the session has at hand, and from its journal where
// that does not reach far enough.
func (r *reply) remembered() ([]messages.Message, error) {
	msgs, settled := parse.Window(r.viewed(), r.agent.Window.Messages)
	switch {
	case settled || r.view.Whole():
		return msgs, nil
	case r.agent.Window.Bounded():
		return r.recent()
	}
	return r.transcript()
}

// viewed is the prompt from the view.
func (r *reply) viewed() []messages.Message {
	return r.view.Assemble(prompt.Spec{SID: r.sid, Pass: r.open.Pass, Last: r.open.Last, Rendering: r.agent.Rules.Rendering, Tools: r.agent.Specs, Primer: r.agent.Primer, Feeds: r.open.Feeds})
}

// transcript is the prompt of the whole journal up to this turn's begin. The records
// are durable: OpenModel waited for turn.begin. The session goes on with what was read.
func (r *reply) transcript() ([]messages.Message, error) {
	if r.catch != nil {
		log := r.relog()
		if r.ctx.Err() == nil {
			r.box.system.Root.Send(r.box.pid, &caughtUp{of: r.catch, log: log})
		}
		if r.view != nil {
			return r.viewed(), nil
		}
	}
	var failed error
	records := func(yield func(*messages.Record) bool) {
		for rec, err := range r.records() {
			if err != nil {
				failed = err
				return
			}
			if !yield(rec) {
				return
			}
		}
	}
	p := prompt.Project(records, r.spec(&failed))
	if failed != nil {
		return nil, failed
	}
	return prompt.Assemble(r.agent.Dialect, p), nil
}

// records are those of the session, typed where a prompt is made of them.
func (r *reply) records() iter.Seq2[*messages.Record, error] {
	return func(yield func(*messages.Record, error) bool) {
		for rec, err := range journal.ReadHeld(r.ctx, r.host.cfg.Store, r.inc, 0, r.durable) {
			if err == nil && prompt.Reads(rec.Body.Kind()) {
				if !r.taken.take(r.ctx, int64(len(rec.Raw)/2)) { // a prompt costs less than a reply
					err = context.Cause(r.ctx)
				} else {
					rec, err = journal.Typed(rec)
				}
			}
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
}

// relog makes the session's history of its journal, and the view of this turn; nil where
// there can be none, as where something was erased.
func (r *reply) relog() *prompt.Log {
	log := prompt.NewLog(r.agent.Dialect.(prompt.Historian), 1, prompt.Window{}, r.agent.Rules.Rendering)
	for rec, err := range r.records() {
		if err != nil {
			return nil
		}
		var blobs []messages.Blob
		if said, ok := rec.Body.(*messages.ModelReply); ok {
			for _, d := range []messages.Digest{said.Blob, said.Side} {
				b, err := r.blob(d)
				if err != nil {
					return nil
				}
				blobs = append(blobs, messages.Blob{Digest: d, Data: b})
			}
		}
		if !log.Add(rec, blobs) {
			return nil
		}
	}
	if r.view = log.View(r.open.Turn); r.view == nil {
		return nil
	}
	return log
}

// A prompt with a window begins to look at so many records for each of its messages: a
// message of a conversation with calls has seven to ten.
const (
	tailPerMessage = 12
	leastTail      = 32
	mostTail       = 1024
)

// recent is the window of that prompt. It reads backwards, looks at twice as many records
// each time, and reads no farther than the window and its question reach.
func (r *reply) recent() ([]messages.Message, error) {
	var failed error
	spec := r.spec(&failed)
	var tail []*messages.Record // newest first
	window := func(whole bool) (msgs []messages.Message, settled bool, err error) {
		p, passed, ok := prompt.ProjectTail(oldestFirst(tail), spec)
		if failed != nil || !ok && !whole {
			return nil, false, failed
		}
		msgs, settled = parse.Window(prompt.Assemble(r.agent.Dialect, p), r.agent.Window.Messages)
		return msgs, settled || passed, nil
	}
	step := min(max(tailPerMessage*r.agent.Window.Messages, leastTail), mostTail)
	next := step
	for rec, err := range journal.BackwardHeld(r.ctx, r.host.cfg.Store, r.inc, int64(step), r.durable) {
		if err == nil && prompt.Reads(rec.Body.Kind()) {
			rec, err = journal.Typed(rec)
		}
		if err != nil {
			return nil, err
		}
		if tail = append(tail, rec); len(tail) < next {
			continue
		}
		if msgs, settled, err := window(false); settled || err != nil {
			return msgs, err
		}
		step *= 2
		next += step
	}
	msgs, _, err := window(true)
	return msgs, err
}

func oldestFirst(tail []*messages.Record) iter.Seq[*messages.Record] {
	return func(yield func(*messages.Record) bool) {
		for _, rec := range slices.Backward(tail) {
			if !yield(rec) {
				return
			}
		}
	}
}

// spec says what the prompt is of. failed gets what went wrong in reading replies, each
// of which is read once.
func (r *reply) spec(failed *error) prompt.Spec {
	replies := map[messages.Digest][]byte{}
	s := prompt.Spec{
		SID: r.sid, Run: r.open.Run, Turn: r.open.Turn, Pass: r.open.Pass, Last: r.open.Last, Rendering: r.agent.Rules.Rendering,
		Tools: r.agent.Specs, Primer: r.agent.Primer, Feeds: r.open.Feeds,
		Transcript: r.agent.Dialect.Traits().Transcript, Window: r.agent.Window,
		Reply: func(d messages.Digest) []byte {
			b, ok := replies[d]
			if !ok {
				var err error
				if b, err = r.blob(d); err != nil && *failed == nil {
					*failed = err
				}
				replies[d] = b
			}
			return b
		},
	}
	return s.For(r.agent.Dialect)
}
