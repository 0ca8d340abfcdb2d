package turn

import (
	"time"

	"github.com/seed14be6753/stile/messages"
)

// Effect is something the shell must do. Effects of one Step are done in order.
// One with a position After may be done only when the journal has acknowledged
// the record of that number; the Outbox sees to it.
type Effect interface{ after() int64 }

// Persist appends a record. Seq, Run, Turn, TS and Body are filled; sealing adds
// the rest.
//
// Hold says how long the record may wait for a later one to share its commit:
// zero goes at once (eager); LazyHold is the lazy records of docs/spec/design.md §2. The
// end of an effectful action has EndedHold: waiting costs nothing when the next
// effect starts at once, and a crash within it turns a known result into an
// unknown one.
type Persist struct {
	Record *messages.Record
	Blobs  []messages.Blob
	Hold   time.Duration

	shown Publish // of the record, for the Outbox: they come and go together
}

// Publish shows an update to subscribers. The Outbox makes those of records; the
// machine makes deltas.
type Publish struct {
	After  int64
	Update messages.Update
}

// Answer answers a Submit, Open or Cancel. Err is set on refusal. What it
// promises is durable: a cancel that was answered survives a crash, and so does
// what a refusal was refused for.
type Answer struct {
	After  int64
	Handle uint64
	Run    int64 // ordinal
	Seq    int64 // of the input record
	Joined bool  // an idempotency key named an earlier run
	// Merged tells that the input joins Run at its next turn. When Run ends without
	// one, its run.end names the run that takes it up.
	Merged bool
	Err    error
}

// OpenModel asks for a reply. Out and Scr are the previous turn's streams when
// the machine still has them; else the digests name their blobs.
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
	Failed    []Failed        // turns behind the last that completed; not changed
	Note      string          // what withdrawn runs have done
	Last      bool            // the run may take no turn after this one
	Feeds     []messages.Feed // of the prompt, in order
}

// CancelModel ends the stream; nothing it says later counts. An OpenModel that
// still waits for the journal is withdrawn by the Outbox.
type CancelModel struct{ Ident }

// HoldModel leaves the stream unread, or reads it on: too much of the reply waits
// behind an action (docs/spec/streaming.md §4).
type HoldModel struct {
	Ident
	Hold bool
}

// Hurry sends the records that wait for company to the journal now: a text waits for
// one of them.
type Hurry struct{}

// Reached tells those who count that the turn has met a limit, N times. A turn that is
// restored may tell it once more.
type Reached struct {
	Limit string
	N     int
}

// RunProgram executes an ACTIONS program in a fresh interpreter.
//
// Of a restored turn it says what the journal has of the program already
// (docs/spec/design.md §7): the program says and calls all of it again, the machine compares, answers
// the calls from Results, and shows and records nothing twice. A shell needs to do
// nothing about it. After is then the position of turn.restored: a program that
// kills its host must not be run again without being counted.
type RunProgram struct {
	After int64
	Ident
	Source    []byte
	Userdata  string
	Emissions int        // recorded ones
	Results   []Recorded // recorded calls, in the order of their ordinals
}

// Recorded is a call of a program that the journal knows. State is empty while the
// action has no end.
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
// The Outbox sets Withdrawn when the program's RunProgram was still waiting for the
// journal, as it does with CancelAction: the shell itself answers ProgramEnd with
// the Code.
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

// StartAction begins the effect. A detached one outlives its turn and its run, and
// ends with the session; its answer bears the turn it began in.
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
	// Retries counts the attempts that failed before: what a crash cut off is repeated
	// under the same number.
	Retries int64
	// Budget is what the attempt may use; 0 is no bound.
	Budget   messages.Budget
	Deadline time.Time
	State    []byte // the dialect's memory in the run
	Zone     string // the user's, "" unknown
	// Basis is what a person has approved beside Args; "" where none was asked. A call that
	// rests on another by now must not begin.
	Basis string
}

// CancelAction asks a running action to stop; it still answers ActionEnded.
//
// The Outbox sets Withdrawn when the action's StartAction was still waiting for
// the journal: it will not come any more, so nothing began, and the shell itself
// answers ActionEnded in state cancelled.
type CancelAction struct {
	Ident
	ID        string
	Withdrawn bool
}

// EndChildren stops what an action of a turn that a crash ended left running in child
// sessions: those of the turn and the action, and SID if that is known.
type EndChildren struct {
	After int64
	Turn  int64
	ID    string
	SID   string
}

// Schedule asks for Due at a time: a failed attempt is followed by another. Whatever
// ends the turn withdraws it.
type Schedule struct {
	Ident
	ID      string
	Attempt int64
	At      time.Time
}

// AnswerCall lets the program go on.
type AnswerCall struct {
	Ident
	ID        string
	State     messages.ActionState
	Result    string
	ErrorCode int64
	Reason    string
}

// AnswerRelic answers a RelicCall. What it did is on its way to the journal, in front of
// whatever rests on it. Err is a *messages.Error with the reason the action fails for.
type AnswerRelic struct {
	Handle uint64
	Result string
	Err    error
}

// Verify asks for the verification of the candidate lines of Out, in order.
type Verify struct {
	Ident
	Out []byte
}

// SetTimer arms a clock, replacing what it was set to.
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
