package stile

import (
	"context"
	"iter"
	"strconv"
	"strings"

	"github.com/seed14be6753/stile/internal/compiler"
	"github.com/seed14be6753/stile/internal/follow"
	"github.com/seed14be6753/stile/internal/simple"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
)

// Types of the runtime's vocabulary, for embedders that import this package alone.
type (
	// Update is one element of a subscriber's stream: a record, or a delta of growing text.
	Update = messages.Update
	// Position is where a stream of updates is resumed.
	Position = messages.Position
	// Record is one entry of a session's journal.
	Record = messages.Record
	// Head is the journal's summary of a session: name, length, last hash, whether a run is open.
	Head = journal.Head
	// Error is the one error type; its Code says what happened.
	Error = messages.Error
	// SimpleEvent is an element of the streams Run.Simple and Session.Simple.
	SimpleEvent = simple.Event
	// Decision ends a turn.
	Decision = messages.Decision
)

// The decisions.
const (
	Continue = messages.Continue
	Done     = messages.Done
	Abort    = messages.Abort
	Halt     = messages.Halt
)

// Session is a handle on a session. It holds no resource and needs no closing;
// the session itself sleeps when it has nothing to do.
type Session struct {
	rt    *Runtime
	agent *compiler.Agent
	key   messages.SessionKey
	sid   string
	inc   messages.Incarnation
}

// Open opens a session, and creates it when it does not exist: name is
// tenant:user:id, or a bare id of the local user. A run that a crash left open is
// settled before Open returns or soon after. Errors: ERR_INVALID (name),
// ERR_CONFIG (agent), ERR_JOURNAL.
func (rt *Runtime) Open(ctx context.Context, name string, agent *Agent) (*Session, error) {
	if err := rt.cfg.readOnly(); err != nil {
		return nil, err
	}
	key, err := messages.ParseSID(name)
	if err != nil {
		return nil, err
	}
	if err := refuseName(key); err != nil {
		return nil, err
	}
	c, err := rt.compile(ctx, agent)
	if err != nil {
		return nil, err
	}
	rep, err := rt.host.Open(ctx, key, c.Actor)
	if err != nil {
		return nil, err
	}
	return &Session{rt: rt, agent: c, key: key, sid: key.SID(), inc: rep.Inc}, nil
}

// refuseName refuses the host's profile sessions and the names . and ..: clients and proxies
// resolve these in a path, so that the request would reach another route.
func refuseName(key messages.SessionKey) error {
	if err := refuseProfile(key); err != nil {
		return err
	}
	for _, p := range []struct{ field, name string }{{"tenant", key.Tenant}, {"user", key.User}, {"id", key.ID}} {
		if p.name == "." || p.name == ".." {
			return &messages.Error{Code: messages.ErrInvalid, Field: p.field, Detail: "must not be . or .., which paths resolve as folders"}
		}
	}
	return nil
}

// Find returns a handle on an existing session, under the agent that the session last ran
// under. Find knows Config.Agents, the agents that were passed to Open, and the agents
// that these run in child sessions. Find does not wake the session; calls on the handle do.
// Errors: ERR_NOT_FOUND when the session does not exist; ERR_CONFLICT, ReasonAgentGone,
// when its agent is not registered in this runtime.
func (rt *Runtime) Find(ctx context.Context, name string) (*Session, error) {
	head, err := rt.Archive().Head(ctx, name)
	if journal.IsNotFound(err) || err == nil && head.Closed {
		return nil, noSession(name)
	}
	if err != nil {
		return nil, closedError(err)
	}
	if rt.cfg.ReadOnly {
		return rt.shown(ctx, &head)
	}
	c := rt.agents.Running(rt.host.Agent(head.SID))
	if c == nil {
		if c, err = rt.agents.Of(ctx, &head); err != nil {
			return nil, closedError(err)
		}
	}
	if c == nil {
		return nil, rt.agentGone(ctx, &head)
	}
	key, err := messages.ParseSID(head.SID)
	if err != nil {
		return nil, err
	}
	return &Session{rt: rt, agent: c, key: key, sid: head.SID, inc: head.Inc}, nil
}

// shown is a handle on a session of a journal that is only read, under the agent that it last ran
// under by name.
func (rt *Runtime) shown(ctx context.Context, head *Head) (*Session, error) {
	key, err := messages.ParseSID(head.SID)
	if err != nil {
		return nil, err
	}
	l, err := rt.Archive().Listing(ctx, *head)
	if err != nil {
		return nil, err
	}
	return &Session{rt: rt, agent: &compiler.Agent{Manifest: &manifest.Manifest{Name: l.Agent}}, key: key, sid: head.SID, inc: head.Inc}, nil
}

func noSession(name string) error {
	return &messages.Error{Code: messages.ErrNotFound, Reason: journal.ReasonNotFound, Field: "session", Detail: "no session " + name}
}

// SID is the session's id, tenant:user:id.
func (s *Session) SID() string { return s.sid }

// Incarnation distinguishes this session from earlier ones of the same name.
func (s *Session) Incarnation() messages.Incarnation { return s.inc }

// SubmitOption is an option of Submit.
type SubmitOption func(*messages.Input)

// The policies of a submit (docs/spec/design.md §9).
const (
	Reject    = messages.Reject    // ERR_BUSY while a run is in flight
	Enqueue   = messages.Enqueue   // a run of its own, after those that wait
	Interrupt = messages.Interrupt // the run in flight is cancelled, the new one goes first
	Rollback  = messages.Rollback  // as Interrupt, and later prompts leave out the cancelled run
	Merge     = messages.Merge     // joins the run in flight at its next turn
	Debounce  = messages.Debounce  // inputs within half a second become one run
	Answer    = messages.Answer    // a bare yes or no answers the waiting call; any other text follows loop.busy
)

// Policy sets what a submit does while a run is in flight; the default is the manifest's
// loop.busy.
func Policy(p messages.Policy) SubmitOption { return func(in *messages.Input) { in.Policy = p } }

// IdempotencyKey makes a repeated submit join the run that the first one started, under
// any policy. A session remembers the last 64 keys. A different input under the same key
// is refused with ERR_CONFLICT, ReasonKeyReused.
func IdempotencyKey(key string) SubmitOption { return func(in *messages.Input) { in.Key = key } }

// ReasonKeyReused means that the idempotency key of a submit belongs to another input, or that
// of a session to another agent.
const ReasonKeyReused = turn.ReasonKeyReused

// User sets the user who submits; the default is the session's user.
func User(name string) SubmitOption { return func(in *messages.Input) { in.User = name } }

// Zone sets the user's time zone, such as Europe/Oslo or UTC+2; the session keeps the last one.
func Zone(name string) SubmitOption { return func(in *messages.Input) { in.Zone = name } }

// TraceParent records the span of the caller, in the form of the header traceparent of W3C's Trace
// Context, so that the span of the run becomes a child of it (host/trace). A text of another form
// is ignored, as that specification asks.
func TraceParent(header string) SubmitOption {
	return func(in *messages.Input) { in.Trace = traceParent(header) }
}

// TraceState records what systems of the caller's trace say of it, in the form of the header tracestate of W3C's
// Trace Context; the span of the run passes it on. It counts with TraceParent alone. More than 512
// bytes, and what is no text of ASCII, are ignored.
func TraceState(header string) SubmitOption {
	return func(in *messages.Input) { in.TraceState = traceState(header) }
}

// maxTraceState bounds a tracestate: as much as each system has to pass on.
const maxTraceState = 512

func traceState(h string) string {
	h = strings.TrimSpace(h)
	if len(h) > maxTraceState || strings.IndexFunc(h, func(c rune) bool { return c < ' ' || c > '~' }) >= 0 {
		return ""
	}
	return h
}

// traceParent is a traceparent in the form of version 00; "" for a malformed one. Of a version
// to come what version 00 knows of it is kept.
func traceParent(h string) string {
	if len(h) < 55 || len(h) > 55 && (h[:2] == "00" || h[55] != '-') || h[2] != '-' || h[35] != '-' || h[52] != '-' {
		return ""
	}
	for _, part := range []string{h[:2], h[3:35], h[36:52], h[53:55]} {
		if strings.Trim(part, "0123456789abcdef") != "" {
			return ""
		}
	}
	if h[:2] == "ff" || strings.Trim(h[3:35], "0") == "" || strings.Trim(h[36:52], "0") == "" {
		return ""
	}
	return "00" + h[2:55]
}

// Submit starts a run, or queues one, by policy. It returns when the input is durable.
// Errors: ERR_BUSY, ERR_QUOTA (Config.Spending), ERR_USERDATA_SCHEMA or another code of the
// dialect for the text, ERR_CONFLICT for an idempotency key of another input, ERR_JOURNAL. A
// refused submit changes nothing in the session.
func (s *Session) Submit(ctx context.Context, text string, opts ...SubmitOption) (*Run, error) {
	if err := s.rt.cfg.readOnly(); err != nil {
		return nil, err
	}
	if err := refuseProfile(s.key); err != nil {
		return nil, err
	}
	in := messages.Input{Text: text, User: s.key.User, Policy: s.agent.Manifest.Loop.Busy}
	for _, o := range opts {
		o(&in)
	}
	if err := s.agent.CheckHistory(in.History); err != nil {
		return nil, err
	}
	byText := in.Policy == Answer
	if byText {
		in.Policy = s.agent.Manifest.Loop.Busy
	}
	if err := s.agent.CheckParts(&in); err != nil {
		return nil, err
	}
	if byText && len(in.Parts) == 0 {
		if run, err := s.answerByText(ctx, &in); run != nil || err != nil {
			return run, err
		}
	}
	in, err := s.agent.CheckInput(in)
	if err != nil {
		return nil, err
	}
	if err := s.rt.spend(ctx, s.sid, s.inc, &in); err != nil {
		return nil, closedError(err)
	}
	rep, err := s.rt.host.Submit(ctx, s.key, s.agent.Actor, in)
	if err != nil {
		return nil, err
	}
	if rep.Joined {
		if err := s.repeats(ctx, rep.Seq, &in); err != nil {
			return nil, err
		}
	}
	run := s.run(rep.Run)
	run.joined, run.at.Seq, run.at.Merged, run.at.End = rep.Joined, rep.Seq, rep.Merged, rep.End
	return run, nil
}

// repeats refuses a submit that has the idempotency key of the input at seq, and differs from
// that input. The session keeps keys without inputs, so the input is read from the journal.
func (s *Session) repeats(ctx context.Context, seq int64, in *messages.Input) error {
	for r, err := range journal.ReadTyped(ctx, s.rt.store, s.inc, seq, seq) {
		if err != nil {
			return closedError(err)
		}
		if b, ok := r.Body.(*messages.Input); ok && !turn.Repeats(b, in) {
			return &messages.Error{Code: messages.ErrConflict, Reason: ReasonKeyReused, Field: "key", Detail: "the idempotency key belongs to another input, of run " + strconv.FormatInt(r.Run, 10)}
		}
	}
	return nil
}

// Cancel stops the run in flight, whose turn ends HALT(ERR_CANCELLED). by is recorded as the
// principal who cancelled. Without a run in flight Cancel does nothing.
func (s *Session) Cancel(ctx context.Context, by string) error {
	_, err := s.rt.host.Cancel(ctx, s.key, s.agent.Actor, 0, by)
	return err
}

// Run returns the handle on the run with that ordinal. It does not check that the run exists.
func (s *Session) Run(ordinal int64) *Run { return s.run(ordinal) }

func (s *Session) run(ordinal int64) *Run {
	return &Run{session: s, at: follow.Run{Source: s.rt.follow(), SID: s.sid, Inc: s.inc, Ordinal: ordinal, Session: s}}
}

// Wake makes the session continue an open run that another process left, or take up a
// waiting input. With neither, Wake does nothing and returns nil.
func (s *Session) Wake(ctx context.Context) error {
	_, err := s.rt.host.Open(ctx, s.key, s.agent.Actor)
	return err
}

// Flush writes the buffered records of the session, and returns when they are on disk.
func (s *Session) Flush(ctx context.Context) error {
	return s.rt.host.Flush(ctx, s.key, s.agent.Actor)
}

// Records reads the session's journal from the first record on. Bodies are typed;
// erased ones are *messages.Undecoded. It ends at the first error.
func (s *Session) Records(ctx context.Context) iter.Seq2[*Record, error] {
	return journal.ReadTyped(ctx, s.rt.store, s.inc, 0, 0)
}

// RecordsAfter is Records from the first record after a position.
func (s *Session) RecordsAfter(ctx context.Context, after int64) iter.Seq2[*Record, error] {
	return journal.ReadTyped(ctx, s.rt.store, s.inc, after+1, 0)
}

// Blob returns the bytes that a record names by digest: a reply, an OUTPUT, a SCRATCHPAD.
// Bytes that the journal does not have, or that were erased, are ERR_NOT_FOUND.
func (s *Session) Blob(ctx context.Context, d messages.Digest) ([]byte, error) {
	b, err := s.rt.store.Blob(ctx, s.inc, d)
	return b, missing(err)
}

// Events follows the session: it yields every record after the position after, then new
// records until ctx ends or the runtime closes. Between records it yields deltas of growing
// text. A slow or late subscriber misses no text: it gets the same text in fewer, longer
// deltas. The deltas of a unit, with retractions applied, add up to the text of its record.
func (s *Session) Events(ctx context.Context, after int64) iter.Seq2[Update, error] {
	return s.Resume(ctx, Position{Seq: after})
}

// Resume is Events from any position, also one inside a growing text: the stream continues
// at exactly that byte. Text that was yielded before a crash and is not in the journal is
// taken back first (Delta.Retract). A position after the session's last record is
// ERR_CONFLICT.
func (s *Session) Resume(ctx context.Context, from Position) iter.Seq2[Update, error] {
	return s.rt.follow().Updates(ctx, s.sid, s.inc, from, func(Update) bool { return true }, func(Update) bool { return false })
}

// Simple follows the session in the words of docs/spec/cogency.md §3, until it is closed; see
// Run.Simple.
func (s *Session) Simple(ctx context.Context, after string, tokens bool) iter.Seq2[SimpleEvent, error] {
	return s.simple(s.Resume, tokens).Events(ctx, after)
}

func (s *Session) simple(resume func(context.Context, Position) iter.Seq2[Update, error], tokens bool) simple.Stream {
	return simple.Stream{Store: s.rt.store, Inc: s.inc, Resume: resume, Tokens: tokens}
}
