package messages

import "time"

// EventKind is what a decoder found in a reply.
type EventKind uint8

// The decoder's events.
const (
	EventUnitBegin  EventKind = iota + 1 // a unit opens: Unit, UnitKind; Final as its opener has it
	EventUnitText                        // more of the open unit: Unit, Text
	EventUnitEnd                         // it closes: Unit, UnitKind, Final, Complete; a response that closes as a thought was one, and is taken back
	EventProgram                         // an ACTIONS program: Text is its source
	EventParseError                      // Fault
	EventLint                            // Fault, with a LINT_ code
	EventAction                          // an action is complete and may start: Action
	EventFeed                            // the model wrote a feed: ID, Text; for logs, never a feed's value
	EventStop                            // what follows in the reply counts for nothing: Final when the model is done, else it waits for results
	EventCut                             // the reply ends in front of Offset, whatever the model goes on to say: it waits for results
	EventBlock                           // a control block opens: Block
	EventBranch                          // another branch of an if begins: Block has its ID, Branch and Test
	EventBlockEnd                        // a control block closes: Block has its ID, Kind and OK
	EventRollback                        // the model asks for a rollback: Block has Group and Within
	EventTemplate                        // the model defined a template of actions: Block has Name and Params
)

// Event is one thing a decoder found. Text aliases the pushed bytes and is valid
// only during the call that hands it out; a receiver that keeps it copies it. It is small,
// because there is one for each piece of text: what only some events have is behind a
// pointer, outlives the call, and is not changed any more.
type Event struct {
	Kind     EventKind
	Final    bool
	Complete bool
	Unit     int // ordinal in the turn, 0-based
	UnitKind Kind
	Text     []byte
	Offset   int64       // byte offset in the reply
	Fault    *ParseError // of a parse error and a lint
	Action   *Action     // of an action
	Block    *Block      // of the events of control blocks; of a unit where it stands, nil at top level
	ID       string
}

// Block is a part of a reply's structure beyond units and actions (docs/spec/extensions.md): a
// control block, one of its branches, a rollback, a template, or the place of a unit.
type Block struct {
	Kind      string // if, foreach, parallel; thought for the place of a thought
	ID        string // of a block; "#bN" when the model gave none
	Within    string // id of the innermost block around; "" for none
	InThought bool
	DependsOn []string
	OutputKey string // "" for none
	OK        bool   // of a block's end: the block is whole; of the end of a response in a block: its attribute says whether it is final

	Test   string // of an if, and of a branch that has a condition
	Branch string // elif1, elif2, …, else

	List     string        // of a foreach: the reference to its list
	As       string        // its variable
	Max      int           // of a foreach: iterations; of a parallel: children at once
	Parallel int           // of a foreach: iterations at once
	Fail     string        // all or fast
	Timeout  time.Duration // of a parallel; 0 for none

	Group  string   // of a rollback
	Name   string   // of a template
	Params []string // of a template, in the order of RFC 8785

	Definition string // of a template: a JSON object in normal form

	N      int    // of a thought: its ordinal in the reply, from 1
	Parent int    // N of the thought around; 0 for none
	Depth  int    // from 1
	Label  string // "" for none
}

// ParseError is a complaint about a reply, placed by byte offset.
type ParseError struct {
	Code   Code
	Offset int64
	Line   int // 1-based, 0 unknown
	Col    int
	Detail string

	// Reason is the dialect's own word behind Code, such as bad_field, and the
	// rest says of what; both are what the model is told (docs/spec/streaming.md §5.4).
	Reason string
	ID     string // of an action or feed
	Tag    string
	Name   string // of an attribute
	Field  string // of an action's body
	Within string // what a misplaced element stands in: if, foreach, parallel, thought; "" for nothing
	At     int    // of a condition: the byte that cannot stand there, from 0
	N      int64  // of MoreErrors: how many it stands for

	Limit string // that was reached; "" for none. It is counted, and not recorded
}

// TurnInfo is what a decoder knows of its turn.
type TurnInfo struct {
	Turn  int64
	Pass  int
	State []byte // the dialect's memory within the run
	// MaxReplyBytes bounds what a decoder may hold back.
	MaxReplyBytes int64
	// Templates are those that earlier turns of the run defined, each name once. They are
	// shared and not changed.
	Templates []*ActionTemplate
}

// Traits are a dialect's fixed properties (docs/spec/design.md §5).
type Traits struct {
	InStreamActions bool   // acts before the reply ends
	Verbatim        bool   // "$" means nothing in its arguments and texts: there are no variables
	AppendOnly      bool   // the prompt can grow by appending alone (resume mode)
	Transcript      bool   // finished runs go back as they went, replies and results, not as a summary
	Untimed         bool   // its calls set no time-out: what they name may have one, longer than the dialect's too
	Carry           bool   // history goes back as OUTPUT and SCRATCHPAD of the last turn, not as a transcript
	Unseen          bool   // a final response beside actions whose results it does not show is not final
	GuardFinal      bool   // guards judge DONE and ABORT too
	MaxTurns        int64  // turns a run may take; 0 none
	Parallel        int    // actions of a reply that run at once, where the manifest is silent; 0: as many as elsewhere
	Busy            Policy // default submit policy
}

// Unit is a finished text of the reply.
type Unit struct {
	ID       UnitID
	Kind     Kind
	Text     string
	Final    bool
	Complete bool
}

// Call is a finished action as guards and dialects see it.
type Call struct {
	ID     string
	Name   string
	Args   string // canonical JSON
	Class  Class
	State  ActionState
	Reason string
	Value  string // canonical JSON
	Mode   string // "" in dialects without modes
	MS     int64  // how long it took
	// RolledBack is how the action was undone: ok, failed or unknown; "" if it was not.
	// RolledBackWhy is why that failed. Earlier says that the action is of an earlier turn,
	// which has told its result.
	RolledBack    ActionState
	RolledBackWhy string
	Earlier       bool

	// Of the protocol's extensions (docs/spec/extensions.md).
	Control    string // kind of a control block, for an entry that is one: if, foreach, parallel; "" for an action
	Block      string // id of the innermost control block around; "" for none
	Branch     string // of an if: the one that was taken
	OK, Failed int64  // of a foreach and a parallel: iterations or children by their ends
	Failures   string // of a foreach: the first of its instances that failed, and why
	Of         string // the iteration of a loop that it is an instance of; "" for none
	// Unstreamed says that its result was to be shown as it grows, and came whole.
	Unstreamed bool
}

// TokenCheck is the verification of one candidate line.
type TokenCheck struct {
	Line    int    // 0-based physical line of OUTPUT
	Action  string // continue, done or abort, when valid
	KID     string
	JTI     string
	Failure Code   // "" when valid
	Reason  string // detail such as EXPIRED
}

// Facts is all a dialect may judge a turn by.
type Facts struct {
	Turn        int64
	Pass        int
	Finish      Finish
	Breach      Code
	Units       []Unit
	Final       bool
	Awaits      bool // the decoder stopped the reply because its results are due
	Calls       []Call
	Blocks      int          // control blocks of the reply that were read whole
	Errors      []ParseError // where actions begin while the reply streams the first MaxParseErrors
	Out, Scr    []byte       // every emitted line closed by LF
	Tokens      []TokenCheck
	MagicFailed bool
	State       []byte
	Keep        []byte // the dialect's memory across runs
}

// Verdict is what a dialect makes of the facts.
type Verdict struct {
	Decision Decision
	Code     Code // for HALT
	Detail   string
	Token    int // index into Facts.Tokens of the chosen one, -1 for none
	Lints    []Code
	// Retract are texts of a CONTINUE that the next turn's first text replaces: they
	// are taken back then, and stand if there is none.
	Retract []UnitID
	State   []byte
	// Keep, where it is not nil, is the dialect's memory across runs from now on; empty
	// forgets.
	Keep []byte
}

// ToolSpec describes a callable tool to a model.
type ToolSpec struct {
	Type        ActionType // "" is tool
	Name        string     // as a call spells it, such as "str.ToUpper"
	Signature   string     // "(s, old, new, count?)"
	Description string
	Schema      string // JSON schema of the arguments object; may be empty
	Class       Class
}

// Projection is the history a dialect renders for the model.
type Projection struct {
	SID      string
	Turn     int64
	Pass     int
	Text     string // this turn's input as text
	Userdata string // this turn's input as a JSON object
	Parts    []Part // of this turn's input
	Out, Scr []byte // the previous turn's streams
	History  []Item
	// Replies are the earlier turns of this run, oldest first, for dialects whose
	// model sees again what it wrote.
	Replies []Reply
	Tools   []ToolSpec
	// Primer is the dialect's primer for Tools where the caller keeps it; empty
	// lets the dialect write it again.
	Primer string
	// Feeds are those of the turn, in order. Assembly puts them in front of what a
	// dialect renders.
	Feeds     []Feed
	LastError string // why the previous turn of the run did not go through, if it did not
	// Refused is what is wrong with the answer of the turn before, which does not fit the
	// agent's schema. Assembly tells the model.
	Refused string
	// Broken is what the model is told of the turn before, whose reply broke off although the
	// run goes on. Assembly tells the model.
	Broken string
	// Failed are the turns behind the last one that completed, oldest first, for dialects
	// whose history is no transcript (Traits.Carry): each says Why. The latest may be of the
	// run before.
	Failed []Reply
	// Note is what a run that was taken back has done, for dialects whose history is
	// no transcript; in a transcript it stands in its place.
	Note string
	// Last says that the run may take no turn after this one, for dialects that tell the
	// model so.
	Last bool
	// Rendering is the version that the prompt is written in (Rendering); 0 is 1. From 2 on
	// what users said has none of the words of markers in it.
	Rendering int64
	// FeedsLast reports whether Feeds stand behind the conversation, in place of in front of
	// it. Assembly puts them there.
	FeedsLast bool
}

// Item is one entry of the transcript.
type Item struct {
	Role Role
	Text string
	Run  int64
	Turn int64
	// Calls are the actions of the run, on its user's item, for dialects that tell
	// of them.
	Calls []Call
	// Replies are the turns of the run, on its user's item, for dialects whose model
	// sees again what it wrote in finished runs (Traits.Transcript).
	Replies []Reply
	Parts   []Part // on its user's item
}

// Reply is a turn that is over, as its model sees it again.
type Reply struct {
	Turn   int64
	Text   string       // as the model wrote it
	Side   string       // what the text cannot hold (ModelReply.Side); mostly ""
	Finish Finish       // how it ended; "" is stop
	Calls  []Call       // in document order
	Errors []ParseError // what the decoder complained of
	// Joined is what the user said meanwhile, for after the results; mostly "".
	Joined string
	// Told is what its dialect made of all but Joined before; nil when that is not known.
	// It is not changed.
	Told []Message
	// Why is what kept a turn of Projection.Failed from completing: a code and a detail.
	// Shown is what its program emitted, as far as the user saw it; MoreCalls counts those
	// that Calls leaves out. Before says that the turn was of an earlier run.
	Why       string
	Shown     string
	MoreCalls int64
	Before    bool
}

// Message is one message to the model.
type Message struct {
	Role Role
	Text string
	// Holds marks what a window must know (docs/spec/cogency.md §7.1). It is not sent.
	Holds string
	// Lints are what rendering had to change.
	Lints []Code
	// Limits are those that rendering met: one for each result that it shows in part.
	Limits []string
	// Native is the message in the form of providers that are sent tools as functions,
	// with the ids of calls; "" where it has none of its own. A model that was sent no
	// tools takes Text.
	Native string
	// Parts are the pictures and files that came with the text of a user. A model that takes
	// none is sent a note for each in the text.
	Parts []Part
}

// What a message of the user's side may hold.
const (
	HoldsResults = "results" // outcomes of calls; it asks nothing
	HoldsFeeds   = "feeds"   // the feeds of a turn, in front of the conversation or at its end: no window cuts it off
)
