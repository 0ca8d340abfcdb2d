package turn

import (
	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/messages"
)

// Input is something that happened. Inputs that answer an effect carry the turn
// and nonce of the turn they belong to.
type Input interface{ input() string }

// Open creates the session: the first input of a new journal.
type Open struct {
	Handle uint64
	Name   string               // of the manifest
	Parent *messages.ParentLink // of a child session
	// Receipts is what the session says is signed of it.
	Receipts string
}

// Submit asks for a run. Text or Userdata is set. Handle comes back in Answer.
type Submit struct {
	Handle uint64
	Input  messages.Input
}

// Cancel asks to stop the run in flight (Run 0) or a named one, also a waiting one.
type Cancel struct {
	Handle uint64
	By     string
	Run    int64
}

// Ident says which turn an answer belongs to.
type Ident struct {
	Turn  int64
	Nonce string
}

// ModelOpened says what was asked of the model.
type ModelOpened struct {
	Ident
	Request messages.ModelRequest
	System  []byte // the blob that Request names, where the journal may not have it
}

// ModelSwitched says that another model is tried.
type ModelSwitched struct {
	Ident
	Fallback messages.ModelFallback
}

// Decoded brings reply bytes and what the decoder made of them. The machine
// keeps both: texts must not alias the decoder's buffers.
//
// Usage, cost and Unpriced are those of the whole reply so far; a Usage of zero says
// nothing. They count when the reply is cut short.
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
	// Code is whose failure it was, ERR_JOURNAL when the prompt could not be read; "" is
	// the model's.
	Code messages.Code
}

// Emission is one emit or whisper of a program.
type Emission struct {
	Whisper   bool
	Target    string
	Text      string // without its final LF
	Candidate bool   // holds a control token line
}

// Emitted brings emissions while the program goes on.
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
	Record bool // a rule was applied, not just the default
	// Basis is what the call rests on beside its arguments, a canonical JSON object; "" is
	// not recorded.
	Basis string
}

// ActionEnded ends an action. Audits are access decisions taken on the way. A
// panic is not an end: it comes as ChildDown of the action.
//
// Attempt is that of StartAction: what an earlier attempt says again counts for none of
// those after it. 0 is whichever runs.
type ActionEnded struct {
	Ident
	ID        string
	Attempt   int64
	State     messages.ActionState
	Failure   plan.Failure // how it failed where State and Reason do not say
	Last      bool         // no attempt follows, whatever the policy says: a replay knows
	Reason    string
	Result    string
	ErrorCode int64
	MS        int64
	Used      messages.Budget // of the run's budget, by the attempt
	// Children are the runs that the attempt brought about in child sessions.
	Children []messages.ChildLink
	// Feed is what an internal action made of the session's feeds.
	Feed   *messages.FeedChange
	Audits []messages.Audit
}

// RelicCall does one operation on a key-value relic for an action that has begun; the
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

// Due says that the time of a Schedule has come.
type Due struct {
	Ident
	ID      string
	Attempt int64
}

// ProgramEnd ends the program. Code "" is completion.
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

// Timer says that a clock ran out; a stale generation is dropped.
type Timer struct {
	Clock Clock
	Gen   uint64
}

// ChildDown says that a child ended without an answer. Detail holds no stack.
type ChildDown struct {
	Ident
	Child Child
	ID    string // of the action
	// Attempt is as in ActionEnded.
	Attempt int64
	Detail  string
}

// Settle puts an end to what a dead process left open, or takes a suspended turn
// up again; the first input after a restore that found an open run or a waiting
// input.
//
// Turn holds the journal's records of the open turn, decoded, from turn.begin
// (State.Open.Turn.Seq) to the head; records of other turns among them are skipped.
// Events is what a fresh decoder makes of the reply bytes in them: of the blob of
// model.reply with its Finish, or of the model.chunk records pushed without an end.
// Without Turn nothing can be restored, and the turn is settled as one without a
// reply.
//
// Run holds all records of the open run: an action may name what an earlier turn of
// its run did, also one that this restart ends. Only dialects that act while the reply
// streams need it.
//
// Feeds are the values that feed.injected records among Turn name.
type Settle struct {
	Turn   []*messages.Record
	Events []messages.Event
	Run    []*messages.Record
	Feeds  map[messages.Digest]string
}

// Approve answers the question of a call that needs confirmation. Digest is that of what
// the answer was given for, Basis what the call rests on by now; "" is not compared.
type Approve struct {
	Handle   uint64
	Approval string // the question's id
	Answer   messages.GateAnswer
	By       string
	Reason   string
	Digest   messages.Digest
	Basis    string
}

// Expire says that questions may have expired.
type Expire struct{}

func (*Open) input() string          { return "Open" }
func (*Submit) input() string        { return "Submit" }
func (*Cancel) input() string        { return "Cancel" }
func (*ModelOpened) input() string   { return "ModelOpened" }
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
	ClockDrain // of actions that still run when the final response is complete
	// ClockDebounce closes a window of inputs. It belongs to the session: those before
	// it are the turn's and stop with it.
	ClockDebounce
	NumClocks
)

// String is the clock's name in records and settings.
func (c Clock) String() string {
	return [...]string{"program_wall", "generation_wall", "turn_wall", "run_wall", "cancel_grace", "drain", "debounce", "?"}[min(c, NumClocks)]
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
