package messages

import "time"

// Decision ends a turn. HALT is the host's alone and carries a Code.
type Decision string

// The four decisions.
const (
	Continue Decision = "CONTINUE"
	Done     Decision = "DONE"
	Abort    Decision = "ABORT"
	Halt     Decision = "HALT"
)

// Finish says how a model reply ended.
type Finish string

// The ways a reply ends. Stop is a stop sequence or tool stop asked for by us.
const (
	FinishComplete  Finish = "complete"
	FinishStop      Finish = "stop"
	FinishLength    Finish = "length"
	FinishCancelled Finish = "cancelled"
	FinishError     Finish = "error"
)

// Class says what repeating an action would do (docs/spec/design.md §7).
type Class string

// The effect classes, mildest first. An undeclared tool is Effectful.
const (
	Pure       Class = "pure"
	ReadOnly   Class = "read_only"
	Idempotent Class = "idempotent"
	Keyed      Class = "keyed"
	Effectful  Class = "effectful"
)

// Durable reports whether action.started must be on disk before the effect begins.
func (c Class) Durable() bool { return c == Keyed || c == Effectful || c == "" }

// ActionState is how an action ended.
type ActionState string

// The terminal states of an action.
const (
	ActionOK        ActionState = "ok"
	ActionFailed    ActionState = "failed"
	ActionSkipped   ActionState = "skipped"
	ActionCancelled ActionState = "cancelled"
	ActionUnknown   ActionState = "unknown"
)

// UnknownText is what the model is told of an action in state unknown.
const UnknownText = "Outcome unknown: the host lost contact after this action began; it may have happened. Check before repeating."

// Policy says what a submit meets when a run is in flight (docs/spec/design.md §9).
type Policy string

// The policies.
const (
	Reject    Policy = "reject"    // ERR_BUSY now
	Enqueue   Policy = "enqueue"   // a run of its own, behind those that wait
	Interrupt Policy = "interrupt" // cancels the run in flight and goes first
	Rollback  Policy = "rollback"  // as interrupt, and the run is withdrawn
	Merge     Policy = "merge"     // joins the run in flight at its next turn
	Debounce  Policy = "debounce"  // joins what comes shortly after it
	Answer    Policy = "answer"    // of a submit alone: a bare yes or no answers the call that waits
)

// Supersedes reports whether a submit under p ends the run in flight.
func (p Policy) Supersedes() bool { return p == Interrupt || p == Rollback }

// Bounds of the inputs that wait in a session (docs/spec/design.md §9).
const (
	QueueLimit    = 16                     // runs
	MergeLimit    = 16                     // inputs that join a run at its next turn
	WindowLimit   = 64                     // inputs that one window of debounce takes
	DebounceQuiet = 500 * time.Millisecond // without another submit closes a window
	DebounceMost  = 5 * time.Second        // that a window is open at most
)

// What follows a turn that a crash ended.
const (
	RecoverResume = "resume"
	RecoverHalt   = "halt"
)

// What a panicking tool does to its turn.
const (
	PanicHalt = "halt"
	PanicFail = "fail"
)

// GateAnswer is what the gate says of a call.
type GateAnswer string

// The answers of the gate. Confirm asks a person, who may answer approve or deny;
// expired is the answer of the clock when no person did.
const (
	GateApprove GateAnswer = "approve"
	GateDeny    GateAnswer = "deny"
	GateConfirm GateAnswer = "confirm"
	GateExpired GateAnswer = "expired"
)

// Role of a message to the model.
type Role string

// The roles.
const (
	RoleSystem    Role = "system"
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)

// The sorts of a growing text are the kinds of its records.
const (
	ResponseUnit = KindResponse
	ThoughtUnit  = KindThought
	TextUnit     = KindText
	// ResultText is that of a result, which grows without being a unit: an untyped constant, because no record has it.
	ResultText = "result"
)
