package turn

import (
	"time"

	"github.com/seed14be6753/stile/messages"
)

// Effect is something that the shell must do. Effects of one Step are done in order. One
// with a position After may be done only when the journal has acknowledged the record of that
// position; the Outbox enforces it.
type Effect interface{ after() int64 }

// Persist appends a record. Seq, Run, Turn, TS and Body are filled in; sealing adds the rest.
//
// Hold is how long the record may wait for a later one to share its commit: zero goes at
// once (eager); LazyHold is the hold of lazy records (docs/spec/design.md §2). The end of an
// effectful action has EndedHold: it is short, because a crash meanwhile turns a known result
// into an unknown one, and not zero, because the next effect often starts at once and needs a
// commit anyway.
type Persist struct {
	Record *messages.Record
	Blobs  []messages.Blob
	Hold   time.Duration

	shown Publish // of the record, for the Outbox; one allocation with it
}

// Publish shows an update to subscribers. The Outbox makes the updates of records, the
// machine those of deltas.
type Publish struct {
	After  int64
	Update messages.Update
}

// Answer answers an input with a Handle, such as Submit, Open or Cancel. Err is set on
// refusal. Its promise is durable: a cancel that was answered survives a crash, and so does
// the cause of a refusal.
type Answer struct {
	After  int64
	Handle uint64
	Run    int64 // ordinal
	Seq    int64 // of the input record
	Joined bool  // an idempotency key named an earlier run
	// Merged says that the input joins Run at its next turn. If Run ends without one, its
	// run.end names the run that takes over the input.
	Merged bool
	Result string // of a ScopeCall
	Err    error
}

// OpenModel asks the model for a reply. Out and Scr are the previous turn's streams when the
// machine still has them (HaveCarry); else the digests name their blobs.
type OpenModel struct {
	After int64
	Ident
	Run       int64
	Pass      int
	Ordinal   int64 // model.request records of the session before this one
	Text      string
	Userdata  string
	HaveCarry bool
	Out, Scr  []byte
	OutDigest messages.Digest
	ScrDigest messages.Digest
	State     []byte
	LastError string
	Failed    []Failed                   // turns after the last that completed; shared, must not be changed
	Note      string                     // what withdrawn runs have done
	Last      bool                       // no turn of the run may follow
	Templates []*messages.ActionTemplate // that the run has defined; shared, must not be changed
	Feeds     []messages.Feed            // of the prompt, in order
}

// CancelModel ends the stream; later inputs from it are dropped. The Outbox withdraws an
// OpenModel that still waits for the journal.
type CancelModel struct{ Ident }

// HoldModel stops reading the stream (Hold), because too much of the reply waits behind an
// action, or goes on reading it (docs/spec/streaming.md §4).
type HoldModel struct {
	Ident
	Hold bool
}

// Hurry sends lazy records to the journal now, because a text waits for one of them.
type Hurry struct{}

// Reached reports for metrics that the turn has met a limit, N times. A turn that is restored
// may report a limit twice.
type Reached struct {
	Limit string
	N     int
}

// RunProgram executes an ACTIONS program in a fresh interpreter.
//
// For a restored turn it has what is recorded of the program already (docs/spec/design.md §7):
// the program repeats it, the machine compares, answers the calls from Results, and shows and
// records nothing twice. A shell need not do anything about it. After is then the position of
// turn.restored: a program that kills its host must not run again without being counted.
type RunProgram struct {
	After int64
	Ident
	Source    []byte
	Userdata  string
	Emissions int        // recorded ones
	Results   []Recorded // recorded calls, in the order of their ordinals
}

// Recorded is a call of a program with its record. State is empty while the action has no
// end.
type Recorded struct {
	ID         string
	Name       string
	ArgsDigest messages.Digest
	State      messages.ActionState
	Result     string
	ErrorCode  int64
	Reason     string
}

// StopProgram stops the program; it answers with ProgramEnd.
//
// The Outbox sets Withdrawn when the RunProgram still waited for the journal: the program
// never ran, and the shell itself answers ProgramEnd with the Code.
type StopProgram struct {
	Ident
	Code      messages.Code
	Withdrawn bool
}

// AskGate asks the gate about a call; the answer is Judged.
type AskGate struct {
	Ident
	ID         string
	Type       messages.ActionType
	Name       string
	Args       string // JSON: an array of a program's call, an object of a reply's action
	ArgsDigest messages.Digest
	Class      messages.Class
	State      []byte // the dialect's memory in the run
	Keep       []byte // and across runs
}

// StartAction begins an attempt of an action. A detached action outlives its turn and its
// run, and ends with the session; its answer names the turn that it began in.
type StartAction struct {
	After int64
	Ident
	ID       string
	Type     messages.ActionType
	Name     string
	Detached bool
	Args     string
	Class    messages.Class
	Key      string
	Attempt  int64
	// Retries counts the attempts that failed before. An attempt that a crash cut off does
	// not count, so it is repeated under the same number.
	Retries int64
	// Budget is what the attempt may use; 0 is no bound.
	Budget   messages.Budget
	Deadline time.Time
	State    []byte // the dialect's memory in the run
	Zone     string // the user's, "" unknown
	Stream   bool   // its result is shown as it grows: ActionChunk
	// Basis is what a person approved besides Args, such as the tool's description; "" if no
	// person was asked. A call whose basis has changed since must not begin.
	Basis string
}

// CancelAction asks a running action to stop; it still answers ActionEnded.
//
// The Outbox sets Withdrawn when the StartAction still waited for the journal: nothing
// began, and the shell itself answers ActionEnded in state cancelled.
type CancelAction struct {
	Ident
	ID        string
	Withdrawn bool
}

// EndChildren stops the runs of child sessions that an action left when a crash ended its
// turn: the children of Turn and ID, and of SID if that is known.
type EndChildren struct {
	After int64
	Turn  int64
	ID    string
	SID   string
}

// Schedule asks for Due at a time: a failed attempt is followed by another. The end of the
// turn withdraws it.
type Schedule struct {
	Ident
	ID      string
	Attempt int64
	At      time.Time
}

// AnswerCall gives the program the end of the call that it waits for.
type AnswerCall struct {
	Ident
	ID        string
	State     messages.ActionState
	Result    string
	ErrorCode int64
	Reason    string
}

// AnswerRelic answers a RelicCall. The record of the change is already ordered before the
// records that rest on it. Err is a *messages.Error with the reason that the action fails for.
type AnswerRelic struct {
	Handle uint64
	Result string
	Err    error
}

// Verify asks for the verification of the token candidates in Out, in order.
type Verify struct {
	Ident
	Out []byte
}

// SetTimer arms a clock; it replaces an earlier setting.
type SetTimer struct {
	Clock Clock
	Gen   uint64
	At    time.Time
}

// StopTimer disarms a clock.
type StopTimer struct{ Clock Clock }

func (*Persist) after() int64       { return 0 }
func (e *Publish) after() int64     { return e.After }
func (e *Answer) after() int64      { return e.After }
func (e *OpenModel) after() int64   { return e.After }
func (*CancelModel) after() int64   { return 0 }
func (e *RunProgram) after() int64  { return e.After }
func (*HoldModel) after() int64     { return 0 }
func (Hurry) after() int64          { return 0 }
func (Reached) after() int64        { return 0 }
func (*Schedule) after() int64      { return 0 }
func (*StopProgram) after() int64   { return 0 }
func (*AskGate) after() int64       { return 0 }
func (e *StartAction) after() int64 { return e.After }
func (*CancelAction) after() int64  { return 0 }
func (*AnswerCall) after() int64    { return 0 }
func (e *EndChildren) after() int64 { return e.After }
func (*AnswerRelic) after() int64   { return 0 }
func (*Verify) after() int64        { return 0 }
func (*SetTimer) after() int64      { return 0 }
func (*StopTimer) after() int64     { return 0 }
