package turn

import (
	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/messages"
)

// Input is something that happened. An input that answers an effect has the Ident of the turn
// that it belongs to.
type Input interface{ input() string }

// Open creates the session: the first input of a new journal.
type Open struct {
	Handle uint64
	Name   string               // of the manifest
	Parent *messages.ParentLink // of a child session
	// Receipts is what the session signs: a word that Signed knows.
	Receipts string
}

// Submit asks for a run. Text or Userdata is set. The Answer has the same Handle.
type Submit struct {
	Handle uint64
	Input  messages.Input
}

// Cancel asks to stop a run: the one in flight (Run 0), or the named one, which may wait.
type Cancel struct {
	Handle uint64
	By     string
	Run    int64
}

// Ident names a turn in one life: the nonce changes when the turn is restored.
type Ident struct {
	Turn  int64
	Nonce string
}

// ModelOpened reports the request that went to the model.
type ModelOpened struct {
	Ident
	Request messages.ModelRequest
	System  []byte // the blob that Request names, if the journal may not have it
}

// ModelTalk reports what became of the model session that the next request uses.
type ModelTalk struct {
	Ident
	Session messages.ModelSession
}

// ModelSwitched reports that another model is tried.
type ModelSwitched struct {
	Ident
	Fallback messages.ModelFallback
}

// Decoded brings reply bytes and the events that the decoder made of them. The machine keeps
// both: texts must not alias the decoder's buffers.
//
// Usage, cost and Unpriced cover the whole reply so far; a zero Usage is ignored. They count
// when the reply is cut short.
type Decoded struct {
	Ident
	Bytes        []byte
	Events       []messages.Event
	Usage        messages.Usage
	CostMicroUSD int64
	Unpriced     bool
}

// ReplyEnd ends the reply. Events are those of the decoder's end.
type ReplyEnd struct {
	Ident
	Events       []messages.Event
	Finish       messages.Finish
	Usage        messages.Usage
	CostMicroUSD int64
	Unpriced     bool
	Side         []byte // of the reply: what its bytes cannot hold (messages.ModelReply)
	Err          string // for FinishError, without secrets
	// Code is the code of the failure, such as ERR_JOURNAL when the prompt could not be read;
	// "" is ERR_MODEL.
	Code messages.Code
}

// Emission is one emit or whisper of a program.
type Emission struct {
	Whisper   bool
	Target    string
	Text      string // without its final LF
	Candidate bool   // holds a control token line
}

// Emitted brings emissions of a program that goes on.
type Emitted struct {
	Ident
	Emissions []Emission
}

// ProgramCall asks for an action on behalf of the running program, which waits
// for AnswerCall. Emissions are those made before it. ID is unique in the turn.
type ProgramCall struct {
	Ident
	Emissions []Emission
	ID        string // "#k"
	Name      string
	Args      string // canonical JSON array
	Class     messages.Class
}

// Judged is the gate's answer to AskGate.
type Judged struct {
	Ident
	ID     string
	Answer messages.GateAnswer
	By     string
	Reason string
	Record bool // a rule decided, not the default: the answer is recorded
	// Basis is what the call rests on besides its arguments, as a canonical JSON object; "" is
	// not recorded.
	Basis string
}

// ActionEnded ends an attempt of an action. Audits are access decisions taken on the way. A
// panic comes as ChildDown instead.
//
// Attempt is that of StartAction: a late answer of an earlier attempt is dropped. 0 is the
// attempt that runs.
type ActionEnded struct {
	Ident
	ID        string
	Attempt   int64
	State     messages.ActionState
	Failure   plan.Failure // how it failed; 0 derives it from State and Reason
	Last      bool         // no attempt follows, whatever the policy allows: set by a replay
	Reason    string
	Result    string
	ErrorCode int64
	MS        int64
	Used      messages.Budget // of the run's budget, by the attempt
	// Children are the runs that the attempt brought about in child sessions.
	Children []messages.ChildLink
	// Feed is the change that an internal action made to the session's feeds.
	Feed   *messages.FeedChange
	Audits []messages.Audit
}

// RelicCall asks for one operation on a key-value relic by an action that has begun; the
// answer is AnswerRelic.
type RelicCall struct {
	Ident
	ID     string // of the action
	Key    string // idempotency key: the action's, or that of a step in it
	Relic  string
	Args   string // JSON object: the operation and its parameters
	Limits messages.RelicLimits
	Handle uint64
}

// Due reports that the time of a Schedule has come.
type Due struct {
	Ident
	ID      string
	Attempt int64
}

// ProgramEnd ends the program; Code is "" if it completed.
type ProgramEnd struct {
	Ident
	Emissions   []Emission
	Code        messages.Code
	Reason      string // meter
	Detail      string
	Out, Scr    []byte // whole streams, LF after each line
	Minted      []byte // minted token lines, LF after each
	MagicFailed bool
	Gas         int64
}

// Verified answers Verify.
type Verified struct {
	Ident
	Checks []messages.TokenCheck
}

// Timer reports that a clock rang; one of an older generation is dropped.
type Timer struct {
	Clock Clock
	Gen   uint64
}

// ChildDown reports that a child crashed without an answer. Detail must not hold a stack.
type ChildDown struct {
	Ident
	Child Child
	ID    string // of the action
	// Attempt is as in ActionEnded.
	Attempt int64
	Detail  string
}

// Settle ends or resumes what a dead process left open. It is the first input of a machine
// whose state is Unsettled.
//
// Turn holds the decoded records of the open turn, from turn.begin (State.Open.Turn.Seq) to
// the head; records of other turns among them are skipped. Events is what a fresh decoder
// makes of the reply bytes in Turn: of the blob of model.reply with its Finish, or of the
// model.chunk records without an end. Without Turn nothing can be restored, and the turn is
// settled as one without a reply.
//
// Run holds all records of the open run, because an action may name the results of an earlier
// turn of its run, also of one that this restart ends. Only dialects that act while the reply
// streams need it.
//
// Feeds are the values that the feed.injected records of Turn name.
type Settle struct {
	Turn   []*messages.Record
	Events []messages.Event
	Run    []*messages.Record
	Feeds  map[messages.Digest]string
}

// Approve answers the question of a call that needs confirmation. Digest is the digest of
// what the person was shown, Basis what the call rests on by now; a Basis of "" is not
// compared.
type Approve struct {
	Handle   uint64
	Approval string // the question's id
	Answer   messages.GateAnswer
	By       string
	Reason   string
	Digest   messages.Digest
	Basis    string
}

// Expire reports that questions may have expired.
type Expire struct{}

func (*Open) input() string          { return "Open" }
func (*Submit) input() string        { return "Submit" }
func (*Cancel) input() string        { return "Cancel" }
func (*ModelOpened) input() string   { return "ModelOpened" }
func (*ModelTalk) input() string     { return "ModelTalk" }
func (*ModelSwitched) input() string { return "ModelSwitched" }
func (*Decoded) input() string       { return "Decoded" }
func (*ReplyEnd) input() string      { return "ReplyEnd" }
func (*Emitted) input() string       { return "Emitted" }
func (*ProgramCall) input() string   { return "ProgramCall" }
func (*Judged) input() string        { return "Judged" }
func (*ActionEnded) input() string   { return "ActionEnded" }
func (*RelicCall) input() string     { return "RelicCall" }
func (*Due) input() string           { return "Due" }
func (*ProgramEnd) input() string    { return "ProgramEnd" }
func (*Verified) input() string      { return "Verified" }
func (*Timer) input() string         { return "Timer" }
func (*ChildDown) input() string     { return "ChildDown" }
func (*Settle) input() string        { return "Settle" }
func (*Approve) input() string       { return "Approve" }
func (*Expire) input() string        { return "Expire" }

// Clock names a timer of the machine.
type Clock uint8

// The clocks.
const (
	ClockProgram Clock = iota
	ClockGeneration
	ClockTurn
	ClockRun
	ClockGrace
	ClockBlock    // for the groups of a reply that have a time-out
	ClockDrain    // for actions that still run when the final response is complete
	ClockRollback // for the compensations of a turn that is being stopped
	// ClockDebounce closes a window of inputs. It belongs to the session; the clocks before it
	// belong to the turn or run and stop with it.
	ClockDebounce
	NumClocks
)

// String is the clock's name in records and settings.
func (c Clock) String() string {
	return [...]string{"program_wall", "generation_wall", "turn_wall", "run_wall", "cancel_grace", "block", "drain", "rollback_wall", "debounce", "?"}[min(c, NumClocks)]
}

// Child names a kind of child actor.
type Child string

// The children of a session.
const (
	ChildModel       Child = "model"
	ChildInterpreter Child = "interpreter"
	ChildAction      Child = "action"
	ChildGate        Child = "gate" // the host's judgement of a call
)
