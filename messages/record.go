package messages

import (
	"strconv"
	"strings"
	"time"
)

// Kind is the type of a record (docs/spec/design.md §6).
type Kind string

// The record kinds of this release.
const (
	KindSessionOpened  Kind = "session.opened"
	KindSessionClosed  Kind = "session.closed"
	KindDescribed      Kind = "session.described"
	KindInput          Kind = "input"
	KindRunBegin       Kind = "run.begin"
	KindRunEnd         Kind = "run.end"
	KindRunWithdrawn   Kind = "run.withdrawn"
	KindTurnBegin      Kind = "turn.begin"
	KindModelRequest   Kind = "model.request"
	KindModelChunk     Kind = "model.chunk"
	KindModelReply     Kind = "model.reply"
	KindModelFallback  Kind = "model.fallback"
	KindModelSession   Kind = "model.session"
	KindThought        Kind = "thought"
	KindResponse       Kind = "response"
	KindText           Kind = "text"
	KindEmit           Kind = "emit"
	KindWhisper        Kind = "whisper"
	KindActionDeclared Kind = "action.declared"
	KindActionApproval Kind = "action.approval"
	KindActionStarted  Kind = "action.started"
	KindActionChunk    Kind = "action.chunk"
	KindActionEnded    Kind = "action.ended"
	KindActionTemplate Kind = "action.template"
	KindBlockBegin     Kind = "block.begin"
	KindBlockDecided   Kind = "block.decided"
	KindBlockEnded     Kind = "block.ended"
	KindRelicChanged   Kind = "relic.changed"
	KindFeedInjected   Kind = "feed.injected"
	KindParseError     Kind = "parse.error"
	KindLint           Kind = "lint"
	KindTurnDecided    Kind = "turn.decided"
	KindTurnSuspended  Kind = "turn.suspended"
	KindTurnRestored   Kind = "turn.restored"
	KindControl        Kind = "control"
	KindAudit          Kind = "audit"
	KindNote           Kind = "note"
	KindRetract        Kind = "retract"
	KindRollbackBegin  Kind = "rollback.begin"
)

// Record is one entry of a session's journal. The machine fills Seq, Run, Turn,
// TS and Body; sealing fills the rest. A sealed record is immutable and shared by
// store and subscribers.
type Record struct {
	SID   string
	Inc   Incarnation
	Seq   int64 // position, 1-based, without gaps
	Epoch int64 // activation that wrote it
	Run   int64 // ordinal of the run, 0 for none
	Turn  int64 // turn_index, 0 for none
	TS    time.Time
	Body  Body

	Raw  []byte   // canonical JSON of Body; nil once erased
	Salt [16]byte // of the body digest; zero once erased
	// BodyDigest is SHA-256(Salt ‖ Raw). It stays when the body is erased.
	BodyDigest Digest
	Prev       Digest
	Hash       Digest
	Sig        *Receipt // beside the record, outside the hash; nil when unsigned
}

// Receipt signs a record's hash (docs/spec/design.md §7).
type Receipt struct {
	KID string `json:"kid"`
	Sig []byte `json:"sig"` // Ed25519, 64 bytes
}

// Blob is bytes kept beside the records under their SHA-256, per incarnation.
type Blob struct {
	Digest Digest
	Data   []byte
}

// Body is the typed content of a record. Implementations are pointers to the
// structs below; their JSON names are the names on disk. Integers stay within
// ±(2^53−1); text that came from models and tools is carried as strings.
type Body interface{ Kind() Kind }

// SessionOpened is the first record of every session.
type SessionOpened struct {
	Dialect     string      `json:"dialect"`
	Incarnation string      `json:"incarnation"`
	Manifest    Digest      `json:"manifest"`
	Name        string      `json:"name,omitzero"`   // of the manifest
	Origin      *ForkOrigin `json:"origin,omitzero"` // set on a fork
	Parent      *ParentLink `json:"parent,omitzero"` // set on a child session
	// Receipts is what is signed of the session beside its first and last record:
	// decision, run or off. Sessions of before have none.
	Receipts string `json:"receipts,omitzero"`
}

// ParentLink says for which action of which session a child session runs.
type ParentLink struct {
	Action      string `json:"action"` // id; a step of a workflow is action/step
	Depth       int64  `json:"depth"`  // 1 for a child of a session that has no parent
	Incarnation string `json:"incarnation"`
	SID         string `json:"sid"`
	Turn        int64  `json:"turn"`
}

// ChildLink names a run that an action brought about in a child session.
type ChildLink struct {
	Incarnation string `json:"incarnation"`
	Run         int64  `json:"run"`
	SID         string `json:"sid"`
}

// ForkOrigin says what a forked session continues.
type ForkOrigin struct {
	Hash        Digest `json:"hash"` // of the last record taken over
	Incarnation string `json:"incarnation"`
	Seq         int64  `json:"seq"`
	SID         string `json:"sid"`
}

// SessionClosed ends a session.
type SessionClosed struct {
	Reason string `json:"reason"`
}

// SessionDescribed gives a session its title and tags, in place of those it had.
type SessionDescribed struct {
	By    string   `json:"by,omitzero"`    // who asked for it
	Tags  []string `json:"tags,omitzero"`  // sorted, each once
	Title string   `json:"title,omitzero"` // one line
}

// Input is an accepted submit. Exactly one of Text and Userdata is used.
type Input struct {
	Budget *Budget `json:"budget,omitzero"` // of the run, beside the agent's quotas
	// History is a conversation that the caller kept: the model sees it in front of
	// the input.
	History []Said `json:"history,omitzero"`
	Key     string `json:"key,omitzero"` // idempotency key
	Parts   []Part `json:"parts,omitzero"`
	Policy  Policy `json:"policy"`
	Text    string `json:"text,omitzero"`
	// Trace is the caller's span, as the header traceparent of W3C's Trace Context writes it.
	Trace string `json:"trace,omitzero"`
	// TraceState is what systems of the caller's trace say of it, as the header tracestate has it.
	TraceState string `json:"trace_state,omitzero"`

	User     string `json:"user"`
	Userdata string `json:"userdata,omitzero"` // JSON object, verbatim
	// Zone is the user's time zone, such as Europe/Oslo or UTC+2; the session keeps the
	// last one that was said.
	Zone string `json:"zone,omitzero"`
	// Data are the bytes of Parts on their way to the journal, which keeps them as blobs. A
	// record has none.
	Data [][]byte `json:"-"`
}

// Part is a picture or a file that came with an input. Its bytes are the blob with its digest.
type Part struct {
	Digest Digest `json:"digest"`
	Name   string `json:"name,omitzero"`
	Size   int64  `json:"size"`
	Type   string `json:"type"` // media type, such as image/png
}

// IsPicture reports whether the part is one.
func (p *Part) IsPicture() bool { return strings.HasPrefix(p.Type, "image/") }

// String says what it is in place of its bytes.
func (p Part) String() string {
	what := "file"
	if p.IsPicture() {
		what = "picture"
	}
	if p.Name != "" {
		what += " " + strconv.QuoteToGraphic(p.Name)
	}
	return what + ", " + p.Type + ", " + strconv.FormatInt((p.Size+1023)/1024, 10) + " KB, sha256:" + p.Digest.String()
}

// Said is one entry of a conversation that was not held here. Role is user or assistant.
type Said struct {
	Role Role   `json:"role"`
	Text string `json:"text"`
}

// Budget bounds what a run or an action uses, or counts it. As a bound 0 is none.
type Budget struct {
	Actions int64 `json:"actions,omitzero"`
	CostUSD int64 `json:"cost_micro_usd,omitzero"`
	Tokens  int64 `json:"tokens,omitzero"` // of models, input and output
}

// Plus adds what was used.
func (b Budget) Plus(o Budget) Budget {
	return Budget{Actions: b.Actions + o.Actions, CostUSD: b.CostUSD + o.CostUSD, Tokens: b.Tokens + o.Tokens}
}

// Minus takes away what was used.
func (b Budget) Minus(o Budget) Budget {
	return Budget{Actions: b.Actions - o.Actions, CostUSD: b.CostUSD - o.CostUSD, Tokens: b.Tokens - o.Tokens}
}

// Left is what is left of a bound when something was used; none reports whether one of its
// meters is used up.
func (b Budget) Left(used Budget) (left Budget, none bool) {
	left = b
	for _, of := range []struct {
		of   *int64
		used int64
	}{{&left.Actions, used.Actions}, {&left.CostUSD, used.CostUSD}, {&left.Tokens, used.Tokens}} {
		if *of.of > 0 {
			*of.of -= of.used
			none = none || *of.of <= 0
		}
	}
	return left, none
}

// RunBegin opens a run.
type RunBegin struct {
	Input  int64   `json:"input"`           // seq of the input record it answers
	Merged []int64 `json:"merged,omitzero"` // and of those that came with it (debounce, merge)
}

// RunEnd closes a run with the decision of its last turn.
type RunEnd struct {
	Decision Decision `json:"decision"`
	Detail   string   `json:"detail,omitzero"`
	// Merged are the inputs, but for the first, of a run that ended before it began.
	Merged []int64 `json:"merged,omitzero"`
	// Next is the run that takes up what was to join this one and met no turn of it.
	Next int64 `json:"next,omitzero"`
	// Output is the answer as JSON on one line, of a run that ended DONE under a schema.
	Output string `json:"output,omitzero"`
	Reason Code   `json:"reason,omitzero"`
	Turns  int64  `json:"turns"`
}

// RunWithdrawn takes a run back, in front of its run.end: a projection leaves it out
// (docs/spec/design.md §9). What its actions did is told by a note before it.
type RunWithdrawn struct {
	By int64 `json:"by"` // ordinal of the run that takes its place
}

// Rendering is the newest version of prompts, of what decoders forgive, and of meters. A
// new turn gets it and says so; the turns of a journal are replayed under their own.
const Rendering = 2

// TurnBegin opens a turn and fixes what it runs under.
type TurnBegin struct {
	Dialect  string `json:"dialect"`
	Library  Digest `json:"library"`  // of the host function libraries
	Limits   Digest `json:"limits"`   // of quotas and loop settings
	Manifest Digest `json:"manifest"` // as parsed
	// Merged are the inputs that join the run with this turn.
	Merged []int64 `json:"merged,omitzero"`
	Nonce  string  `json:"nonce"`
	Pass   int64   `json:"pass"` // 1-based turn within the run
	// Rendering is the version of what the model sees and of how it is read; 0 is 1,
	// the version before there was a number (docs/spec/design.md §6).
	Rendering int64  `json:"rendering,omitzero"`
	Tools     Digest `json:"tools"`
}

// ModelRequest says what was asked of which model.
type ModelRequest struct {
	Lints []Code `json:"lints,omitzero"` // of rendering the prompt
	// Matched reports whether a scripted model answered by a rule on the input: such a
	// request does not move the script's cursor (docs/spec/design.md §10).
	Matched  bool   `json:"matched,omitzero"`
	Messages int64  `json:"messages"`
	Mode     string `json:"mode"`
	Model    string `json:"model"`
	// Options are what the model was told of how to answer: a JSON object with the keys
	// of model.options in a manifest.
	Options  string `json:"options,omitzero"`
	Prompt   Digest `json:"prompt"`
	Provider string `json:"provider"`
	// Sent is how many of Messages went out, and SentBytes the bytes of their texts; Session
	// is the number of the model session that has the others. All are zero in mode replay.
	Sent      int64 `json:"sent,omitzero"`
	SentBytes int64 `json:"sent_bytes,omitzero"`
	Session   int64 `json:"session,omitzero"`
	// System is the blob of the system message, byte for byte as it was sent; zero where
	// there was none, and before rendering 2.
	System Digest `json:"system,omitzero"`
}

// ModelChunk keeps reply bytes that were shown before the reply ended.
type ModelChunk struct {
	Bytes []byte `json:"bytes"` // base64 on disk
	Off   int64  `json:"off"`
}

// ModelReply ends a reply; its exact bytes are the blob.
type ModelReply struct {
	Blob    Digest `json:"blob"`
	CostUSD int64  `json:"cost_micro_usd,omitzero"`
	Error   string `json:"error,omitzero"`
	Finish  Finish `json:"finish"`
	Length  int64  `json:"length"`
	// Side is the blob with what the bytes cannot hold: the provider's ids of calls, and
	// its signatures.
	Side Digest `json:"side,omitzero"`
	// Unpriced reports whether what the reply cost is unknown: there is no price for its model.
	Unpriced bool  `json:"unpriced,omitzero"`
	Usage    Usage `json:"usage"`
}

// Usage counts tokens.
type Usage struct {
	CacheRead  int64 `json:"cache_read,omitzero"`  // of Input: read from the provider's cache
	CacheWrite int64 `json:"cache_write,omitzero"` // of Input: written to it
	Estimated  bool  `json:"estimated,omitzero"`   // counted by the host, as bytes/4, where the provider did not say
	Input      int64 `json:"input"`
	Output     int64 `json:"output"`
}

// ModelFallback says that another model was tried.
type ModelFallback struct {
	From   string `json:"from"`
	Reason string `json:"reason"`
	To     string `json:"to"`
}

// Ways in which the history gets to a model: ModelRequest.Mode.
const (
	ModelReplay = "replay" // all of it, with every request
	ModelResume = "resume" // what the model session has not yet
)

// What became of a model session: ModelSession.What.
const (
	SessionConnected = "opened"   // a connection was made; the request sends everything
	SessionSeeded    = "seeded"   // the connection stays, and the request sends everything
	SessionDiverged  = "diverged" // the request goes on from an earlier point
	SessionExpired   = "expired"  // the connection was given up before a limit of the provider
	SessionGone      = "closed"   // the connection had ended
	SessionFallback  = "fallback" // the run goes on in mode replay
)

// ModelSession says what became of a conversation that the provider keeps.
type ModelSession struct {
	Reason  string `json:"reason,omitzero"`
	Session int64  `json:"session"` // number within the activation, from 1
	What    string `json:"what"`
}

// UnitText is a finished text of a reply: kinds response, thought and text.
type UnitText struct {
	UnitKind Kind   `json:"-"`
	Complete bool   `json:"complete"`
	Depth    int64  `json:"depth,omitzero"` // of a numbered thought, from 1
	Final    bool   `json:"final,omitzero"`
	Label    string `json:"label,omitzero"`  // of a numbered thought
	N        int64  `json:"n,omitzero"`      // ordinal of the thought in the reply, where thoughts are numbered
	Parent   int64  `json:"parent,omitzero"` // N of the thought around
	Text     string `json:"text"`
	Unit     string `json:"unit"` // UnitID
}

// Place is where a unit stands among numbered thoughts; nil elsewhere.
func (u *UnitText) Place() *Block {
	if u.N == 0 {
		return nil
	}
	return &Block{Kind: string(KindThought), N: int(u.N), Parent: int(u.Parent), Depth: int(u.Depth), Label: u.Label}
}

// Emit is one emission of a program, without its final LF. Candidate marks a
// text that holds a control token line: operators see it, users do not.
type Emit struct {
	Candidate bool   `json:"candidate,omitzero"`
	Held      bool   `json:"held,omitzero"` // not for the user: what counts follows as a unit.text
	Text      string `json:"text"`
}

// Whisper is one private note of a program.
type Whisper struct {
	Target string `json:"target"`
	Text   string `json:"text"`
}

// ActionDeclared announces a call. What has a default and has it is left out.
type ActionDeclared struct {
	Args       string `json:"args"` // canonical JSON, references as they were written
	ArgsDigest Digest `json:"args_digest"`
	Block      string `json:"block,omitzero"` // id of the innermost control block around
	Class      Class  `json:"class"`
	// Compensates is the action that this one undoes, and CompensatesTurn its turn if that is
	// not the turn of the record. Args are then as they are sent.
	Compensates     string   `json:"compensates,omitzero"`
	CompensatesTurn int64    `json:"compensates_turn,omitzero"`
	DependsOn       []string `json:"depends_on,omitzero"`
	// Group is the group whose members are undone together, and Rollback how this one is: a
	// JSON object with name, parameters, timeout and type.
	Group     string     `json:"group,omitzero"`
	ID        string     `json:"id"` // "#k" in aeiou
	InThought bool       `json:"in_thought,omitzero"`
	Mode      string     `json:"mode"`
	Name      string     `json:"name"`
	Of        string     `json:"of,omitzero"` // the iteration of a loop that it is an instance of, such as "l[3]"
	OnError   string     `json:"on_error,omitzero"`
	OutputKey string     `json:"output_key,omitzero"`
	Rollback  string     `json:"rollback,omitzero"`
	Show      string     `json:"show,omitzero"`
	Stream    bool       `json:"stream,omitzero"`   // its result is shown as it grows
	Template  string     `json:"template,omitzero"` // the template that it was made of
	Thought   int64      `json:"thought,omitzero"`  // ordinal of the innermost thought around, where thoughts are numbered
	Type      ActionType `json:"type"`
}

// ActionTemplate is a template of actions that the model defined. It holds to the end of the
// run, or until another record of the run has its name.
type ActionTemplate struct {
	Definition string `json:"definition"` // a JSON object
	Name       string `json:"name"`
}

// ActionApproval is the gate's answer, or that of the person it asked. A call that
// needs confirmation has two: state confirm opens the question, and approve, deny
// or expired closes it; both bear the question's id in Approval.
type ActionApproval struct {
	Approval string     `json:"approval,omitzero"` // 128 random bits in base64url
	Args     string     `json:"args,omitzero"`     // of state confirm, when references in the declared ones were replaced
	Basis    string     `json:"basis,omitzero"`    // of state confirm: what else is judged, a canonical JSON object
	By       string     `json:"by"`
	Digest   Digest     `json:"digest"`           // of the args it judged; where the question has a basis, of [basis,args]
	Expires  string     `json:"expires,omitzero"` // RFC 3339, UTC; of state confirm
	ID       string     `json:"id"`               // of the action
	Reason   string     `json:"reason,omitzero"`
	State    GateAnswer `json:"state"`
}

// ActionStarted precedes the effect. Args is there when references in the declared
// ones were replaced, Failure from the second attempt on: why the one before failed.
// Child is the session that an action of type agent runs in; it may not exist yet.
// Reserved is what all attempts together may use, Used what those that failed did, and
// Children are the runs of child sessions that they brought about.
type ActionStarted struct {
	Args     string      `json:"args,omitzero"`
	Attempt  int64       `json:"attempt"`
	Child    string      `json:"child,omitzero"` // SID
	Children []ChildLink `json:"children,omitzero"`
	Failure  string      `json:"failure,omitzero"`
	ID       string      `json:"id"`
	Key      string      `json:"key"`
	Reserved *Budget     `json:"reserved,omitzero"`
	Used     *Budget     `json:"used,omitzero"`
}

// ActionChunk keeps what an attempt has shown of its result. Off is the place of the first
// byte in the result, which each attempt begins at 0; Seq numbers the chunks of the action
// from 1. The end has the whole result (docs/spec/extensions.md §5).
type ActionChunk struct {
	Bytes []byte `json:"bytes"`
	ID    string `json:"id"`
	Off   int64  `json:"off"`
	Seq   int64  `json:"seq"`
}

// ActionEnded is the one terminal record of an action.
type ActionEnded struct {
	Actions   int64       `json:"actions,omitzero"`        // of child sessions
	Children  []ChildLink `json:"children,omitzero"`       // runs of child sessions, all attempts together
	CostUSD   int64       `json:"cost_micro_usd,omitzero"` // of models it asked, all attempts together
	ErrorCode int64       `json:"error_code,omitzero"`     // the tool's number, failed only
	Feed      *FeedChange `json:"feed,omitzero"`           // what an internal action made of the session's feeds
	ID        string      `json:"id"`
	MS        int64       `json:"ms"`
	Reason    string      `json:"reason,omitzero"`
	Result    string      `json:"result,omitzero"` // canonical JSON
	State     ActionState `json:"state"`
	Streamed  int64       `json:"streamed,omitzero"` // bytes of the result that chunks have, of the last attempt
	Tokens    int64       `json:"tokens,omitzero"`   // of models it asked, input and output
}

// BlockBegin announces a control block whose closer was read, or one in a block that was
// decided (docs/spec/extensions.md §0). What has a default and has it is left out.
type BlockBegin struct {
	As         string   `json:"as,omitzero"`
	Block      string   `json:"block,omitzero"` // id of the block around
	BlockKind  string   `json:"kind"`           // if, foreach or parallel
	DependsOn  []string `json:"depends_on,omitzero"`
	Each       []string `json:"each,omitzero"`        // of a foreach: ids of what stands in it
	EachBlocks []string `json:"each_blocks,omitzero"` // those of them that are blocks
	EachKeys   []string `json:"each_keys,omitzero"`   // their output keys, in the same order; "" for none
	Fail       string   `json:"fail,omitzero"`
	ID         string   `json:"id"`
	InThought  bool     `json:"in_thought,omitzero"`
	List       string   `json:"in,omitzero"` // of a foreach
	Max        int64    `json:"max,omitzero"`
	Of         string   `json:"of,omitzero"` // as in action.declared
	OutputKey  string   `json:"output_key,omitzero"`
	Parallel   int64    `json:"parallel,omitzero"`
	Test       string   `json:"test,omitzero"`       // of an if: of its first branch
	TimeoutMS  int64    `json:"timeout_ms,omitzero"` // of a parallel
}

// BlockDecided fixes what a control block does: a restart takes the same path.
type BlockDecided struct {
	Branch      string `json:"branch,omitzero"` // of an if: then, elif1, …, else, none
	Count       int64  `json:"count,omitzero"`  // of a foreach: its items
	ID          string `json:"id"`
	ItemsDigest Digest `json:"items_digest,omitzero"` // of a foreach
	ValueDigest Digest `json:"value_digest,omitzero"` // of the values that an if was decided by
}

// BranchNotTaken is the reason of what stands in a branch that was not taken: it is no failure,
// and the model is not told of it.
const BranchNotTaken = "branch_not_taken"

// BlockEnded is the one terminal record of a control block.
type BlockEnded struct {
	BlockKind string      `json:"kind,omitzero"`   // as in block.begin; earlier versions did not say it
	Failed    int64       `json:"failed,omitzero"` // of a foreach and a parallel: iterations or children that failed
	ID        string      `json:"id"`
	OK        int64       `json:"ok,omitzero"` // and those that did not
	Reason    string      `json:"reason,omitzero"`
	State     ActionState `json:"state"`
}

// ParseFault is a decoder's complaint: kind parse.error. Reason is the dialect's own
// word for it, and Field, ID, Name and Tag say of what. With MoreErrors it stands for N
// others that have no record.
type ParseFault struct {
	Code   Code   `json:"code"`
	Detail string `json:"detail,omitzero"`
	Field  string `json:"field,omitzero"`
	ID     string `json:"id,omitzero"`
	N      int64  `json:"n,omitzero"`
	Name   string `json:"name,omitzero"`
	Offset int64  `json:"offset"`
	Reason string `json:"reason,omitzero"`
	Tag    string `json:"tag,omitzero"`
}

// MoreErrors is the reason of the one complaint that stands for all behind the first
// MaxParseErrors of a reply (docs/spec/streaming.md §5.4).
const (
	MoreErrors     = "more_errors"
	MaxParseErrors = 16
)

// FaultOf is the record of a complaint.
func FaultOf(e *ParseError) *ParseFault {
	return &ParseFault{Code: e.Code, Detail: e.Detail, Field: e.Field, ID: e.ID, N: e.N, Name: e.Name, Offset: e.Offset, Reason: e.Reason, Tag: e.Tag}
}

// Complaint is the complaint as its decoder made it, without line and column.
func (f *ParseFault) Complaint() ParseError {
	return ParseError{Code: f.Code, Detail: f.Detail, Field: f.Field, ID: f.ID, N: f.N, Name: f.Name, Offset: f.Offset, Reason: f.Reason, Tag: f.Tag}
}

// Lint is a remark that changes nothing.
type Lint struct {
	Code   Code   `json:"code"`
	Detail string `json:"detail,omitzero"`
	Offset int64  `json:"offset"`
}

// TurnDecided is the commit point of a turn. With the header's ts and sid it
// holds the fields of the decision log (docs/spec/aeiou.md §17).
type TurnDecided struct {
	Decision     Decision `json:"decision"`
	Detail       string   `json:"detail,omitzero"`
	Digest       Digest   `json:"digest"`                 // progress guard's
	FailureLines []int64  `json:"failure_lines,omitzero"` // 0-based lines of OUTPUT the failures stand on
	Failures     []string `json:"failures,omitzero"`
	GasUsed      int64    `json:"gas_used,omitzero"`
	JTI          string   `json:"jti,omitzero"`
	Keep         []byte   `json:"keep,omitzero"` // the dialect's memory across runs, where it changed; base64 on disk
	KID          string   `json:"kid,omitzero"`
	LatencyMS    int64    `json:"latency_ms"`
	Lints        []Code   `json:"lints,omitzero"`
	Minted       Digest   `json:"minted,omitzero"` // blob: minted token lines, LF after each
	Output       Digest   `json:"output,omitzero"` // blob of OUTPUT; absent when empty
	OutputBytes  int64    `json:"output_bytes"`
	Reason       Code     `json:"reason,omitzero"`
	Repair       bool     `json:"repair,omitzero"`  // the run goes on in a turn that is told why this one failed
	Resumed      bool     `json:"resumed,omitzero"` // the turn ended because the process had died
	Retract      []string `json:"retract,omitzero"` // units that the next turn's first text replaces
	Scratch      Digest   `json:"scratch,omitzero"` // blob of SCRATCHPAD; absent when empty
	ScratchBytes int64    `json:"scratch_bytes"`
	State        []byte   `json:"state,omitzero"` // the dialect's memory; base64 on disk
	TurnIndex    int64    `json:"turn_index"`
	Verification string   `json:"verification_failure_reason,omitzero"`
}

// TurnSuspended says that the turn goes on when a person has answered: its reply
// is complete and its open actions wait for approval. Clocks stand still.
type TurnSuspended struct {
	Until   string   `json:"until"`            // RFC 3339, UTC: the first question expires
	Waiting []string `json:"waiting,omitzero"` // ids of actions
}

// The causes of a TurnRestored.
const (
	RestoreCrash    = "crash"    // the process had died
	RestoreApproval = "approval" // a question was answered, or expired
	RestoreRollback = "rollback" // the process had died; compensations run, then the turn ends
)

// TurnRestored says that a turn goes on from what the journal holds of it, under
// the same turn_index and a new nonce (docs/spec/design.md §7).
type TurnRestored struct {
	Cause    string `json:"cause"`
	Count    int64  `json:"count"`    // of this turn, from 1
	Manifest Digest `json:"manifest"` // what it goes on under
	Nonce    string `json:"nonce"`
}

// What else made the machine step.
const (
	ControlTimer      = "timer"
	ControlCancel     = "cancel"
	ControlCrash      = "crash"
	ControlModelError = "model_error"
	ControlBreach     = "breach"
)

// Control records a cause that no other record carries.
type Control struct {
	By     string `json:"by,omitzero"`
	Code   Code   `json:"code,omitzero"`
	Detail string `json:"detail,omitzero"`
	Name   string `json:"name,omitzero"` // clock, child or meter
	What   string `json:"what"`
}

// Audit records an access decision.
type Audit struct {
	Allowed bool   `json:"allowed"`
	Text    string `json:"text,omitzero"`
	What    string `json:"what"`
	Who     string `json:"who"`
}

// RelicChanged is one change of a key-value relic: what the relic holds is the fold of
// these records.
type RelicChanged struct {
	Args string `json:"args"` // JSON object: the operation and its parameters
	// By is the session whose action it was, in the session of a user's or a tenant's relics;
	// such a record has no ID.
	By     string `json:"by,omitzero"`
	ID     string `json:"id"`  // of the action
	Key    string `json:"key"` // idempotency key: the action's, or that of a step in it
	Relic  string `json:"relic"`
	Result string `json:"result"`
}

// Note is a text for operators. One of a withdrawn run says what its actions did, and
// the model is told.
type Note struct {
	Text string `json:"text"`
}

// Kind implements Body.
func (*SessionOpened) Kind() Kind { return KindSessionOpened }

// Kind implements Body.
func (*SessionClosed) Kind() Kind { return KindSessionClosed }

// Kind implements Body.
func (*SessionDescribed) Kind() Kind { return KindDescribed }

// Kind implements Body.
func (*Input) Kind() Kind { return KindInput }

// Kind implements Body.
func (*RunBegin) Kind() Kind { return KindRunBegin }

// Kind implements Body.
func (*RunEnd) Kind() Kind { return KindRunEnd }

// Kind implements Body.
func (*RunWithdrawn) Kind() Kind { return KindRunWithdrawn }

// Kind implements Body.
func (*TurnBegin) Kind() Kind { return KindTurnBegin }

// Kind implements Body.
func (*ModelRequest) Kind() Kind { return KindModelRequest }

// Kind implements Body.
func (*ModelChunk) Kind() Kind { return KindModelChunk }

// Kind implements Body.
func (*ModelReply) Kind() Kind { return KindModelReply }

// Kind implements Body.
func (*ModelFallback) Kind() Kind { return KindModelFallback }

// Kind implements Body.
func (*ModelSession) Kind() Kind { return KindModelSession }

// Kind implements Body; it is the unit's own kind.
func (u *UnitText) Kind() Kind { return u.UnitKind }

// Kind implements Body.
func (*Emit) Kind() Kind { return KindEmit }

// Kind implements Body.
func (*Whisper) Kind() Kind { return KindWhisper }

// Kind implements Body.
func (*ActionDeclared) Kind() Kind { return KindActionDeclared }

// Kind implements Body.
func (*ActionApproval) Kind() Kind { return KindActionApproval }

// Kind implements Body.
func (*ActionStarted) Kind() Kind { return KindActionStarted }

// Kind implements Body.
func (*ActionChunk) Kind() Kind { return KindActionChunk }

// Kind implements Body.
func (*ActionEnded) Kind() Kind { return KindActionEnded }

// Kind implements Body.
func (*ActionTemplate) Kind() Kind { return KindActionTemplate }

// Kind implements Body.
func (*BlockBegin) Kind() Kind { return KindBlockBegin }

// Kind implements Body.
func (*BlockDecided) Kind() Kind { return KindBlockDecided }

// Kind implements Body.
func (*BlockEnded) Kind() Kind { return KindBlockEnded }

// Kind implements Body.
func (*RelicChanged) Kind() Kind { return KindRelicChanged }

// Kind implements Body.
func (*ParseFault) Kind() Kind { return KindParseError }

// Kind implements Body.
func (*Lint) Kind() Kind { return KindLint }

// Kind implements Body.
func (*TurnDecided) Kind() Kind { return KindTurnDecided }

// Kind implements Body.
func (*TurnSuspended) Kind() Kind { return KindTurnSuspended }

// Kind implements Body.
func (*TurnRestored) Kind() Kind { return KindTurnRestored }

// Kind implements Body.
func (*Control) Kind() Kind { return KindControl }

// Kind implements Body.
func (*Audit) Kind() Kind { return KindAudit }

// Retract takes text back that was recorded or shown: of the unit the first Off bytes stay.
// Thought says that all of it was a thought, shown as a response because only its end said so;
// the record of the unit follows, with that kind. Else other text takes its place.
type Retract struct {
	Off     int64  `json:"off"`
	Thought bool   `json:"thought,omitzero"`
	Unit    string `json:"unit"` // UnitID
}

// Kind implements Body.
func (*Retract) Kind() Kind { return KindRetract }

// Kind implements Body.
func (*Note) Kind() Kind { return KindNote }

// The causes of a RollbackBegin. A colon and the id of the member follow CauseError.
const (
	CauseError  = "error"
	CauseAsked  = "asked" // by the model, with the tag rollback
	CauseHalt   = "halt"
	CauseCancel = "cancel"
)

// RollbackBegin closes a group of actions: its members that ended ok are undone from now on,
// by actions that say what they compensate (docs/spec/extensions.md §4).
type RollbackBegin struct {
	Cause string `json:"cause"`
	Group string `json:"group"`
}

// Kind implements Body.
func (*RollbackBegin) Kind() Kind { return KindRollbackBegin }

// Undecoded stands in for a body that was read from a store and not decoded yet:
// its bytes are the record's Raw, or were erased when Raw is nil. It never
// reaches a journal.
type Undecoded struct{ Of Kind }

// Kind implements Body; it is the kind of the body it stands for.
func (u *Undecoded) Kind() Kind { return u.Of }
