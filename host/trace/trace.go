// Package trace tells OpenTelemetry what sessions do: a trace for each run, in it its
// turns, in those the model's calls, the control blocks, the rollbacks and the actions. What
// stands in a block is below it, and what undoes something below its rollback. A Meter measures
// the calls of models.
//
// One idea: spans are made of records. A record says what happened and when, so nothing
// of the runtime knows of tracing, it costs nothing where it is off, and a span is never
// of something that is not on disk.
//
// What holds:
//   - Attributes are those of the conventions for generative AI, and ours (stile.*). None
//     holds text of a prompt, a reply, an argument, a result or an error: names, ids,
//     codes and counts alone.
//   - A session lasts for years, and so is no span: gen_ai.conversation.id names it in
//     each of its traces.
//   - A run whose caller named its span (stile.TraceParent) is a child of that span, in the
//     caller's trace; another run is a trace of its own.
//   - What is open is bounded; runs beyond the bound are not traced.
//
// What it does not do: export. The tracer provider is the caller's.
package trace

import (
	"cmp"
	"context"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	oteltrace "go.opentelemetry.io/otel/trace"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// Bounds.
const (
	maxRuns    = 16384 // that are traced at once
	maxActions = 1024  // open ones of a run
	maxBlocks  = 1024  // likewise
	maxGroups  = 16    // that a turn rolls back at once
	maxMembers = 1024  // of all groups of a run
)

// Names of the conventions for generative AI, which are not stable yet, and of ours.
const (
	keyOperation    = "gen_ai.operation.name"
	keyConversation = "gen_ai.conversation.id"
	keyAgent        = "gen_ai.agent.name"
	keyProvider     = "gen_ai.provider.name"
	keyModel        = "gen_ai.request.model"
	keyFinish       = "gen_ai.response.finish_reasons"
	keyInput        = "gen_ai.usage.input_tokens"
	keyOutput       = "gen_ai.usage.output_tokens"
	keyCacheRead    = "gen_ai.usage.cache_read.input_tokens"
	keyTool         = "gen_ai.tool.name"
	keyToolCall     = "gen_ai.tool.call.id"
	keyToolType     = "gen_ai.tool.type"
	keyError        = "error.type"
	keySession      = "stile.session"
	keyRun          = "stile.run"
	keyTurn         = "stile.turn"
	keyDialect      = "stile.dialect"
	keyDecision     = "stile.decision"
	keyAttempts     = "stile.attempts"
	keyState        = "stile.state"
	keyCost         = "stile.cost_micro_usd"
	keyBlockKind    = "stile.block.kind"
	keyBlock        = "stile.block.id"
	keyBranch       = "stile.block.branch"
	keyItems        = "stile.block.items"
	keyOK           = "stile.block.ok"
	keyFailed       = "stile.block.failed"
	keyIteration    = "stile.iteration"
	keyCompensates  = "stile.compensates"
	keyCause        = "stile.cause"
	keyGroup        = "stile.group"
	keyStreamed     = "stile.streamed_bytes"
	keyMode         = "stile.model.mode"
	keyTalk         = "stile.model.session"
	keySent         = "stile.model.sent_messages"
	keySentBytes    = "stile.model.sent_bytes"
	keyReason       = "stile.reason"
)

// Tracer makes spans of records. Its methods are safe for concurrent use.
type Tracer struct {
	tracer oteltrace.Tracer

	mu      sync.Mutex
	runs    map[runID]*run
	parents map[runID]oteltrace.SpanContext // of runs that wait, whose callers named a span
}

type runID struct {
	inc messages.Incarnation
	run int64
}

// run is one whose span is open.
type run struct {
	ctx     context.Context // with the run's span
	span    oteltrace.Span
	turn    context.Context // with that of the turn in flight
	turning oteltrace.Span
	model   oteltrace.Span
	actions map[string]*action
	blocks  map[string]*block // open ones of the turn in flight, by their ids

	members   map[member]string    // groups of actions
	rollbacks map[string]*rollback // of the turn in flight, by their groups
}

// member is an action of a group.
type member struct {
	turn int64
	id   string
}

// rollback is one whose span is open. Nothing says when it is over but the end of its turn, so
// its span ends with the last compensation.
type rollback struct {
	ctx   context.Context // with the rollback's span
	span  oteltrace.Span
	last  time.Time
	state messages.ActionState
}

type block struct {
	kind string
	ctx  context.Context // with the block's span
	span oteltrace.Span
}

type action struct {
	span     oteltrace.Span
	name     string
	undoes   string // the group, of a compensation
	attempts int64
}

// plainID reports whether an id is a short name.
func plainID(id string) bool {
	return len(id) <= 32 && !strings.ContainsFunc(id, func(r rune) bool {
		return r != '#' && r != '.' && r != '-' && r != '_' && r != '/' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
}

// New makes a tracer. Its ObserveAgent is meant for Runtime.ObserveAgents.
func New(provider oteltrace.TracerProvider) *Tracer {
	return &Tracer{tracer: provider.Tracer(scope, oteltrace.WithInstrumentationVersion(version(debug.ReadBuildInfo()))), runs: map[runID]*run{}, parents: map[runID]oteltrace.SpanContext{}}
}

// scope is the module, and the name of what makes the spans.
const scope = "github.com/seed14be6753/stile"

// version is that of the module in a build; "" where it is not known.
func version(b *debug.BuildInfo, ok bool) string {
	if !ok {
		return ""
	}
	for _, m := range append(b.Deps, &b.Main) {
		if m.Path == scope {
			return m.Version
		}
	}
	return ""
}

// Observe is ObserveAgent where the name of the agent is not known.
func (t *Tracer) Observe(r *stile.Record) { t.ObserveAgent("", r) }

// ObserveAgent takes the next record of a session of an agent.
func (t *Tracer) ObserveAgent(agent string, r *stile.Record) {
	if r.Run == 0 {
		return
	}
	switch b := r.Body.(type) {
	case *messages.Input, *messages.RunBegin, *messages.TurnBegin, *messages.TurnRestored, *messages.TurnDecided, *messages.ModelRequest, *messages.ModelReply, *messages.ModelSession,
		*messages.ActionDeclared, *messages.ActionStarted, *messages.ActionEnded, *messages.BlockBegin, *messages.BlockDecided, *messages.BlockEnded,
		*messages.RollbackBegin, *messages.RunEnd:
		t.mu.Lock()
		defer t.mu.Unlock()
		t.observe(agent, r, b)
	}
}

func (t *Tracer) observe(agent string, rec *stile.Record, body messages.Body) {
	id := runID{rec.Inc, rec.Run}
	r := t.runs[id]
	if r == nil {
		switch b := body.(type) {
		case *messages.Input:
			t.parent(id, b.Trace, b.TraceState)
			return
		case *messages.RunEnd: // of one that ended while it waited
			delete(t.parents, id)
			return
		case *messages.RunBegin, *messages.TurnBegin, *messages.TurnRestored: // of one that another process began, too
			if r = t.begin(agent, id, rec); r == nil {
				return
			}
		default:
			return
		}
	}
	at := oteltrace.WithTimestamp(rec.TS)
	switch b := body.(type) {
	case *messages.TurnBegin:
		r.span.SetAttributes(attribute.String(keyDialect, b.Dialect))
		t.turn(r, rec)
	case *messages.TurnRestored:
		if r.turning == nil {
			t.turn(r, rec)
		}
		r.turning.AddEvent("restored", at, oteltrace.WithAttributes(attribute.String("stile.cause", b.Cause)))
	case *messages.TurnDecided:
		r.endTurn(rec.TS, string(b.Decision), string(b.Reason))
	case *messages.ModelRequest:
		end(&r.model, rec.TS)
		_, r.model = t.tracer.Start(r.inTurn(), named("chat", b.Model), at, oteltrace.WithSpanKind(oteltrace.SpanKindClient), oteltrace.WithAttributes(
			attribute.String(keyOperation, "chat"), attribute.String(keyProvider, providerName(b.Provider)),
			attribute.String(keyConversation, rec.Inc.String()),
		))
		if b.Model != "" {
			r.model.SetAttributes(attribute.String(keyModel, b.Model))
		}
		if b.Mode != "" {
			r.model.SetAttributes(attribute.String(keyMode, b.Mode))
		}
		if b.Mode == messages.ModelResume {
			r.model.SetAttributes(attribute.Int64(keyTalk, b.Session), attribute.Int64(keySent, b.Sent), attribute.Int64(keySentBytes, b.SentBytes))
		}
	case *messages.ModelSession:
		if r.turning == nil {
			return
		}
		attrs := []attribute.KeyValue{attribute.Int64(keyTalk, b.Session)}
		if b.Reason != "" {
			attrs = append(attrs, attribute.String(keyReason, b.Reason))
		}
		r.turning.AddEvent("model session "+b.What, at, oteltrace.WithAttributes(attrs...))
	case *messages.ModelReply:
		if r.model == nil {
			return
		}
		r.model.SetAttributes(
			attribute.StringSlice(keyFinish, []string{finishReason(b.Finish)}), attribute.Int64(keyInput, b.Usage.Input), attribute.Int64(keyOutput, b.Usage.Output),
			attribute.Int64(keyCacheRead, b.Usage.CacheRead),
		)
		if b.CostUSD > 0 || !b.Unpriced {
			r.model.SetAttributes(attribute.Int64(keyCost, b.CostUSD))
		}
		if b.Error != "" || b.Finish == messages.FinishError {
			fail(r.model, string(messages.ErrModel))
		}
		end(&r.model, rec.TS)
	case *messages.ActionDeclared:
		if len(r.actions) >= maxActions {
			return
		}
		if b.Group != "" && len(r.members) < maxMembers {
			r.members[member{rec.Turn, b.ID}] = b.Group
		}
		_, span := t.tracer.Start(r.around(rec.Turn, b), "execute_tool", at, oteltrace.WithAttributes(
			attribute.String(keyOperation, "execute_tool"), attribute.String(keyToolType, toolType(b.Type)),
		))
		iteration(span, b.Of)
		if b.Compensates != "" && plainID(b.Compensates) {
			span.SetAttributes(attribute.String(keyCompensates, b.Compensates))
		}
		r.actions[b.ID] = &action{span: span, name: b.Name, undoes: r.groupOf(rec.Turn, b)}
	case *messages.ActionStarted:
		if a := r.actions[b.ID]; a != nil {
			a.attempts = b.Attempt
			// Name and id are the model's words. A tool of that name there is only when it
			// has begun; an id that may be text is left out.
			a.span.SetName("execute_tool " + a.name)
			a.span.SetAttributes(attribute.String(keyTool, a.name))
			if plainID(b.ID) {
				a.span.SetAttributes(attribute.String(keyToolCall, b.ID))
			}
			a.span.AddEvent("started", at)
		}
	case *messages.ActionEnded:
		if a := r.actions[b.ID]; a != nil {
			if b.Streamed > 0 {
				a.span.SetAttributes(attribute.Int64(keyStreamed, b.Streamed))
			}
			a.end(rec.TS, string(b.State))
			delete(r.actions, b.ID)
			if o := r.rollbacks[a.undoes]; o != nil {
				o.undone(rec.TS, b.State)
			}
		}
	case *messages.BlockBegin:
		t.block(r, rec, b)
	case *messages.BlockDecided:
		switch o := r.blocks[b.ID]; {
		case o == nil:
		case o.kind == "if":
			o.span.SetAttributes(attribute.String(keyBranch, b.Branch))
		case o.kind == "foreach":
			o.span.SetAttributes(attribute.Int64(keyItems, b.Count))
		}
	case *messages.BlockEnded:
		if o := r.blocks[b.ID]; o != nil {
			o.span.SetAttributes(attribute.Int64(keyOK, b.OK), attribute.Int64(keyFailed, b.Failed))
			o.end(rec.TS, string(b.State))
			delete(r.blocks, b.ID)
		}
	case *messages.RollbackBegin:
		t.rollback(r, rec, b)
	case *messages.RunEnd:
		r.endTurn(rec.TS, "", "")
		for _, a := range r.actions {
			a.end(rec.TS, "detached") // it outlives its run
		}
		r.span.SetAttributes(attribute.String(keyDecision, string(b.Decision)))
		if b.Decision == messages.Halt {
			fail(r.span, string(b.Reason))
		}
		end(&r.span, rec.TS)
		delete(t.runs, id)
	}
}

// parent keeps the span of the caller until the run begins. Of several callers it is the first's.
func (t *Tracer) parent(id runID, traceparent, tracestate string) {
	if traceparent == "" || len(t.parents) >= maxRuns {
		return
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": traceparent, "tracestate": tracestate})
	if _, known := t.parents[id]; known {
		return
	}
	if at := oteltrace.SpanContextFromContext(ctx); at.IsValid() {
		t.parents[id] = at
	}
}

// begin opens the span of a run; nil when there are too many.
func (t *Tracer) begin(agent string, id runID, rec *stile.Record) *run {
	if len(t.runs) >= maxRuns {
		return nil
	}
	r := &run{actions: map[string]*action{}, blocks: map[string]*block{}, members: map[member]string{}, rollbacks: map[string]*rollback{}}
	parent := oteltrace.ContextWithRemoteSpanContext(context.Background(), t.parents[id]) // of none: a trace of its own
	delete(t.parents, id)
	r.ctx, r.span = t.tracer.Start(parent, named("invoke_agent", agent), oteltrace.WithTimestamp(rec.TS), oteltrace.WithAttributes(
		attribute.String(keyOperation, "invoke_agent"), attribute.String(keyConversation, rec.Inc.String()),
		attribute.String(keySession, rec.SID), attribute.Int64(keyRun, rec.Run),
	))
	if agent != "" {
		r.span.SetAttributes(attribute.String(keyAgent, agent))
	}
	t.runs[id] = r
	return r
}

// named is the name of a span of an operation, and of what it is of.
func named(operation, of string) string {
	if of == "" {
		return operation
	}
	return operation + " " + of
}

// providerName is a provider by the name that the conventions give it.
func providerName(name string) string {
	if name == "gemini" {
		return "gcp.gemini"
	}
	return name
}

// toolType is what an action is by the conventions: an agent, a workflow and an llm work outside of the
// host's functions.
func toolType(t messages.ActionType) string {
	switch t {
	case messages.TypeAgent, messages.TypeWorkflow, messages.TypeLLM:
		return "extension"
	case messages.TypeRelic:
		return "datastore"
	case messages.TypeTool, messages.TypeInternal:
	}
	return "function"
}

// finishReason is the end of a reply by the conventions.
func finishReason(f messages.Finish) string {
	if f == messages.FinishComplete {
		return string(messages.FinishStop)
	}
	return string(f)
}

func (t *Tracer) turn(r *run, rec *stile.Record) {
	r.endTurn(rec.TS, "", "")
	r.turn, r.turning = t.tracer.Start(r.ctx, "turn", oteltrace.WithTimestamp(rec.TS), oteltrace.WithAttributes(attribute.Int64(keyTurn, rec.Turn)))
}

func (r *run) inTurn() context.Context {
	if r.turning != nil {
		return r.turn
	}
	return r.ctx
}

// inBlock is the context of what stands in a block: of the turn, for none.
func (r *run) inBlock(id string) context.Context {
	if o := r.blocks[id]; o != nil {
		return o.ctx
	}
	return r.inTurn()
}

// block opens the span of a control block, unless there are too many.
func (t *Tracer) block(r *run, rec *stile.Record, b *messages.BlockBegin) {
	if len(r.blocks) >= maxBlocks {
		return
	}
	o := &block{kind: b.BlockKind}
	o.ctx, o.span = t.tracer.Start(r.inBlock(b.Block), "block "+b.BlockKind, oteltrace.WithTimestamp(rec.TS), oteltrace.WithAttributes(attribute.String(keyBlockKind, b.BlockKind)))
	iteration(o.span, b.Of)
	if plainID(b.ID) {
		o.span.SetAttributes(attribute.String(keyBlock, b.ID))
	}
	r.blocks[b.ID] = o
}

// rollback opens the span of a rollback.
func (t *Tracer) rollback(r *run, rec *stile.Record, b *messages.RollbackBegin) {
	if len(r.rollbacks) >= maxGroups || r.rollbacks[b.Group] != nil {
		return
	}
	cause, _, _ := strings.Cut(b.Cause, ":") // an id is the model's word
	o := &rollback{last: rec.TS, state: messages.ActionOK}
	o.ctx, o.span = t.tracer.Start(r.inTurn(), "rollback", oteltrace.WithTimestamp(rec.TS), oteltrace.WithAttributes(attribute.String(keyCause, cause)))
	if plainID(b.Group) {
		o.span.SetAttributes(attribute.String(keyGroup, b.Group))
	}
	r.rollbacks[b.Group] = o
}

// groupOf is the group that a compensation undoes a member of; "" for another action, and for a
// member that another process declared.
func (r *run) groupOf(turn int64, b *messages.ActionDeclared) string {
	if b.Compensates == "" {
		return ""
	}
	return r.members[member{cmp.Or(b.CompensatesTurn, turn), b.Compensates}]
}

// around is the context that an action stands in: its rollback, its block or the turn.
func (r *run) around(turn int64, b *messages.ActionDeclared) context.Context {
	if o := r.rollbacks[r.groupOf(turn, b)]; o != nil {
		return o.ctx
	}
	return r.inBlock(b.Block)
}

// undone takes the end of a compensation. What is unknown is worse than what failed.
func (o *rollback) undone(at time.Time, state messages.ActionState) {
	o.last = at
	if state == messages.ActionUnknown || state != messages.ActionOK && o.state == messages.ActionOK {
		o.state = state
	}
}

func (o *rollback) end() {
	o.span.SetAttributes(attribute.String(keyState, string(o.state)))
	if o.state != messages.ActionOK {
		fail(o.span, string(o.state))
	}
	end(&o.span, o.last)
}

// iteration says which iteration of the innermost loop around a span is of: of is as l[3].
func iteration(span oteltrace.Span, of string) {
	if _, n, ok := strings.Cut(strings.TrimSuffix(of, "]"), "["); ok {
		if i, err := strconv.Atoi(n[strings.LastIndexByte(n, '[')+1:]); err == nil {
			span.SetAttributes(attribute.Int(keyIteration, i))
		}
	}
}

// endTurn ends the spans of the turn in flight.
func (r *run) endTurn(at time.Time, decision, code string) {
	end(&r.model, at)
	for id, o := range r.blocks { // what a crash has left
		o.end(at, "")
		delete(r.blocks, id)
	}
	for id, o := range r.rollbacks {
		o.end()
		delete(r.rollbacks, id)
	}
	if r.turning == nil {
		return
	}
	if decision != "" {
		r.turning.SetAttributes(attribute.String(keyDecision, decision))
	}
	if code != "" {
		fail(r.turning, code)
	}
	end(&r.turning, at)
}

func (a *action) end(at time.Time, state string) {
	a.span.SetAttributes(attribute.String(keyState, state), attribute.Int64(keyAttempts, a.attempts))
	if state == string(messages.ActionFailed) || state == string(messages.ActionUnknown) {
		fail(a.span, state)
	}
	end(&a.span, at)
}

func (o *block) end(at time.Time, state string) {
	o.span.SetAttributes(attribute.String(keyState, state))
	if state == string(messages.ActionFailed) || state == string(messages.ActionUnknown) {
		fail(o.span, state)
	}
	end(&o.span, at)
}

func end(span *oteltrace.Span, at time.Time) {
	if *span != nil {
		(*span).End(oteltrace.WithTimestamp(at))
		*span = nil
	}
}

// fail says that something went wrong by a code; what was said of it is text.
func fail(span oteltrace.Span, code string) {
	span.SetAttributes(attribute.String(keyError, code))
	span.SetStatus(codes.Error, "")
}
