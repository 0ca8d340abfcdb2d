package turn

import (
	"slices"

	json "github.com/go-json-experiment/json"

	"github.com/seed14be6753/stile/messages"
)

// StateFormat numbers the encoding of State in snapshots.
const StateFormat = 5

// State is the durable state of a session: the fold of its records. A snapshot is its
// encoding.
type State struct {
	Seq       int64           `json:"seq"`
	Turn      int64           `json:"turn"`     // turn_index of the last turn begun
	Runs      int64           `json:"runs"`     // ordinal of the last run accepted
	Requests  int64           `json:"requests"` // model.request records
	Closed    bool            `json:"closed,omitzero"`
	Signed    Signed          `json:"signed,omitzero"`
	OutDigest messages.Digest `json:"out,omitzero"` // OUTPUT as carried: of the last turn, from rendering 2 on of the last that completed
	ScrDigest messages.Digest `json:"scr,omitzero"`
	// Failed are the turns after the last one that completed, oldest first.
	Failed []Failed `json:"failed,omitzero"`
	// Queue holds accepted inputs whose run has not begun.
	Queue []Waiting `json:"queue,omitzero"`
	Keys  []KeyUse  `json:"keys,omitzero"`
	Open  *OpenRun  `json:"open,omitzero"`
	// Questions are the latest closed questions.
	Questions []ClosedQuestion `json:"questions,omitzero"`
	// Detached are the fire_and_forget actions of decided turns that have no end.
	Detached []Detached `json:"detached,omitzero"`
	// Variables are the session's own, set by internal actions.
	Variables Variables `json:"variables,omitzero"`
	// Window gathers inputs into one run that waits after the queue.
	Window *Window `json:"window,omitzero"`
	// Keep is the dialect's memory across runs.
	Keep []byte `json:"keep,omitzero"`
	// Zone is the user's time zone, from the last input that has one.
	Zone string `json:"zone,omitzero"`
	// Note lists the effects of withdrawn runs, until a run after them ends.
	Note string `json:"note,omitzero"`
	// Relics are the key-value relics by name: JSON by key.
	Relics map[string]map[string]string `json:"relics,omitzero"`
	// Scoped is the position of the last change of a relic of a user or tenant, in their session.
	Scoped int64 `json:"scoped,omitzero"`
	// RelicUntil is when values of Relics end, in Unix milliseconds. Values without a time
	// limit are not in it.
	RelicUntil map[string]map[string]int64 `json:"relic_until,omitzero"`
	// About is the last description; nil before the first.
	About *messages.SessionDescribed `json:"about,omitzero"`
	// Feeds are the changes that the model made to the feeds.
	Feeds SessionFeeds `json:"feeds,omitzero"`
}

// Signed is which records of a session have receipts, as its opening says. It is one byte,
// because every session that is awake has one.
type Signed uint8

// The values of Signed. Openings of early versions have SignedUnsaid.
const (
	SignedUnsaid Signed = iota
	SignedDecisions
	SignedRuns
	SignedEnds // the first and the last record alone
)

var signedWords = [...]string{SignedUnsaid: "", SignedDecisions: "decision", SignedRuns: "run", SignedEnds: "off"}

// String returns the word that openings have for s.
func (s Signed) String() string {
	if int(s) < len(signedWords) {
		return signedWords[s]
	}
	return ""
}

// signedBy reads the word of an opening; an unknown one is SignedUnsaid.
func signedBy(word string) Signed {
	for s, w := range signedWords {
		if w == word {
			return Signed(s)
		}
	}
	return SignedUnsaid
}

// Question is the question about a call that needs confirmation.
type Question struct {
	ID      string              `json:"id"`             // 128 random bits in base64url
	Asked   int64               `json:"asked"`          // unix nanoseconds
	Expires int64               `json:"expires"`        // unix nanoseconds
	Args    string              `json:"args,omitzero"`  // that it shows, if they differ from the declared ones
	Basis   string              `json:"basis,omitzero"` // what the call rests on besides them
	Answer  messages.GateAnswer `json:"answer,omitzero"`
	Reason  string              `json:"reason,omitzero"`
}

// ClosedQuestion is a question that cannot be answered any more. Answer is empty if its action
// was cancelled.
type ClosedQuestion struct {
	ID     string              `json:"id"`
	Answer messages.GateAnswer `json:"answer,omitzero"`
}

// Waiting is an accepted input.
type Waiting struct {
	Run      int64  `json:"run"`
	Seq      int64  `json:"seq"`
	Text     string `json:"text,omitzero"`
	Userdata string `json:"userdata,omitzero"`
	// Policy is interrupt or rollback for a run that supersedes others, else "".
	Policy messages.Policy `json:"policy,omitzero"`
	More   []Part          `json:"more,omitzero"`   // further inputs of the run
	Merged []Part          `json:"merged,omitzero"` // inputs that join the run at its next turn
	// Budget bounds the run in addition to the agent's limits.
	Budget *messages.Budget `json:"budget,omitzero"`
}

// KeyUse remembers which run an idempotency key started.
type KeyUse struct {
	Key string `json:"key"`
	Run int64  `json:"run"`
	Seq int64  `json:"seq"`
}

// OpenRun is a run that has begun and not ended.
type OpenRun struct {
	Waiting
	Began       int64            `json:"began"`         // unix nanoseconds of run.begin
	Away        int64            `json:"away,omitzero"` // nanoseconds suspended, in which clocks stand still
	Turns       int64            `json:"turns"`
	Lost        int64            `json:"lost,omitzero"` // of Turns, those that a restart ended
	Actions     int64            `json:"actions,omitzero"`
	Tokens      int64            `json:"tokens,omitzero"`
	Cost        int64            `json:"cost,omitzero"`
	Settlements int64            `json:"settlements,omitzero"`
	Repairs     int64            `json:"repairs,omitzero"` // turns that failed and were followed by another
	Asked       int64            `json:"asked,omitzero"`   // turns whose answer was asked for again
	Fell        bool             `json:"fell,omitzero"`    // a turn lost its conversation in the middle of a reply
	State       []byte           `json:"state,omitzero"`   // the dialect's memory
	LastError   string           `json:"last_error,omitzero"`
	Progress    Progress         `json:"progress"`
	Loop        Loop             `json:"loop"`
	Panics      map[string]int64 `json:"panics,omitzero"`
	// Instructions is the blob of the run's instructions; zero for none.
	Instructions messages.Digest `json:"instructions,omitzero"`
	// Templates are those of actions that the model has defined in turns that are over, each
	// name once. The slice is shared and not changed.
	Templates []*messages.ActionTemplate `json:"templates,omitzero"`
	// Retract are units that the run's next text replaces.
	Retract []string   `json:"retract,omitzero"`
	Cancel  *Cancelled `json:"cancel,omitzero"`
	Ending  *Ending    `json:"ending,omitzero"`
	Turn    *OpenTurn  `json:"turn,omitzero"`
	// Completed says that some turn of the run left its streams (State.carry).
	Completed bool `json:"completed,omitzero"`
	// OutBefore and ScrBefore are OutDigest and ScrDigest when the run began. They come back
	// when the run is withdrawn.
	OutBefore messages.Digest `json:"out_before,omitzero"`
	ScrBefore messages.Digest `json:"scr_before,omitzero"`
	// FailedBefore is State.Failed when the run began. It is shared and not changed.
	FailedBefore []Failed `json:"failed_before,omitzero"`
	// Done are the first NoteEffects effects of the run, for the note should it be withdrawn;
	// MoreDone counts the others.
	Done     []Deed `json:"done,omitzero"`
	MoreDone int64  `json:"more_done,omitzero"`
	// Groups are the groups of the run's actions.
	Groups []Group `json:"groups,omitzero"`
}

// Cancelled is an accepted cancel of the run: a crash before the decision must not bring the
// run back.
type Cancelled struct {
	Seq int64  `json:"seq"` // of the control record, or of the input that superseded the run
	By  string `json:"by,omitzero"`
	// Superseded is the run whose input cancelled this one, 0 for a cancel. Withdrawn is the
	// run that takes its place, 0 if this one stays in the history.
	Superseded int64 `json:"superseded,omitzero"`
	Withdrawn  int64 `json:"withdrawn,omitzero"`
}

// Ending is the decision of the run's last turn when no other turn follows it. The run's end
// shares its batch, so Ending is only found in a log that was cut between the two, as by a
// fork or an anchor.
type Ending struct {
	Decision messages.Decision `json:"decision"`
	Reason   messages.Code     `json:"reason,omitzero"`
	Detail   string            `json:"detail,omitzero"`
}

// OpenTurn is a turn that has begun and is not decided.
type OpenTurn struct {
	Index   int64  `json:"index"`
	Seq     int64  `json:"seq"` // of turn.begin
	Nonce   string `json:"nonce"`
	Began   int64  `json:"began"`         // unix nanoseconds of turn.begin
	Last    int64  `json:"last"`          // unix nanoseconds of its latest record, or of turn.suspended
	Away    int64  `json:"away,omitzero"` // nanoseconds in which no process ran it
	Replied bool   `json:"replied,omitzero"`
	// Restores counts how often the turn was restored.
	Restores int64 `json:"restores,omitzero"`
	// Suspended says that the turn waits for an answer until Until, in unix nanoseconds.
	Suspended bool  `json:"suspended,omitzero"`
	Until     int64 `json:"until,omitzero"`
	// Unwinds counts how often the turn went on for its rollbacks alone, to end after them.
	Unwinds int64 `json:"unwinds,omitzero"`
	// Breach is why the turn was being stopped when the process died.
	Breach  *Breach       `json:"breach,omitzero"`
	Actions []OpenAction  `json:"actions,omitzero"`
	Calls   []ActionShape `json:"calls,omitzero"` // ended ones, for the loop guard
	// Blocks are the control blocks that have no terminal record yet, by id.
	Blocks []string `json:"blocks,omitzero"`
	// BlockKinds are their kinds, by id. Snapshots of earlier versions have none.
	BlockKinds map[string]string `json:"block_kinds,omitzero"`
	// Rendering is the turn's version (messages.Rendering), 0 for the first. Did is what later
	// turns learn of this one if it fails, from rendering 2 on.
	Rendering int64  `json:"rendering,omitzero"`
	Did       Failed `json:"did,omitzero"`
	// Was has the earlier values of the variables that the turn changed, nil for one that did
	// not exist.
	Was map[string]*string `json:"was,omitzero"`
	// Templates are those that the turn has defined, in order.
	Templates []*messages.ActionTemplate `json:"templates,omitzero"`
}

// Breach is why a turn ends before its time.
type Breach struct {
	Code   messages.Code `json:"code"`
	Detail string        `json:"detail,omitzero"`
}

// OpenAction is an action that has no terminal record yet.
type OpenAction struct {
	ID      string         `json:"id"`
	Name    string         `json:"name"`
	Args    string         `json:"args"`
	Class   messages.Class `json:"class"`
	Started bool           `json:"started,omitzero"`
	// Type is empty for a tool. Detached says that the mode is fire_and_forget.
	Type     messages.ActionType `json:"type,omitzero"`
	Detached bool                `json:"detached,omitzero"`
	// Attempt is the number in the latest action.started.
	Attempt int64 `json:"attempt,omitzero"`
	// Retries counts the attempts that failed.
	Retries int64 `json:"retries,omitzero"`
	// Reserved is the share of the run's budget that the open action holds; Used is what its
	// failed attempts have used of it.
	Reserved *messages.Budget `json:"reserved,omitzero"`
	Used     *messages.Budget `json:"used,omitzero"`
	// Children are the runs of child sessions that its attempts caused.
	Children []messages.ChildLink `json:"children,omitzero"`
	Question *Question            `json:"question,omitzero"`
	// Kept are the changes that the action made to key-value relics.
	Kept []Kept `json:"kept,omitzero"`
	// Compensates is the action that this one undoes, of the turn CompensatesTurn.
	Compensates     string `json:"compensates,omitzero"`
	CompensatesTurn int64  `json:"compensates_turn,omitzero"`
}

// ActionShape is what the loop guard keeps of an ended action.
type ActionShape struct {
	Call   messages.Digest `json:"call"` // of name, args and result
	Counts bool            `json:"counts,omitzero"`
}

// EncodeState returns the bytes of a snapshot of s. The same state gives the same bytes.
func EncodeState(s *State) ([]byte, error) { return json.Marshal(s, json.Deterministic(true)) }

// DecodeState reads a snapshot. Unknown members and impossible values are ERR_JOURNAL: the
// caller can drop a snapshot and fold the log.
func DecodeState(b []byte) (State, error) {
	var s State
	if err := json.Unmarshal(b, &s, json.RejectUnknownMembers(true)); err != nil {
		return State{}, &messages.Error{Code: messages.ErrJournal, Detail: "snapshot", Cause: err}
	}
	if field := s.impossible(); field != "" {
		return State{}, &messages.Error{Code: messages.ErrJournal, Field: field, Detail: "snapshot: no fold of records gives this value"}
	}
	return s, nil
}

// impossible returns the name of a field that no fold could give; "" if there is none.
func (s *State) impossible() string {
	switch {
	case s.Seq < 0:
		return "seq"
	case s.Turn < 0:
		return "turn"
	case s.Runs < 0:
		return "runs"
	case s.Requests < 0:
		return "requests"
	case int(s.Signed) >= len(signedWords):
		return "signed"
	case len(s.Keys) > KeyMemory:
		return "keys"
	case len(s.Questions) > QuestionMemory:
		return "questions"
	case len(s.Variables) > MaxVariables:
		return "variables"
	case len(s.Feeds.Edits) > MaxFeedEdits || s.Feeds.Cleared > s.Feeds.Changed || s.Feeds.Changed > s.Seq:
		return "feeds"
	}
	for i := range s.Queue {
		if s.strange(&s.Queue[i]) {
			return "queue"
		}
	}
	if s.Window != nil && (s.strange(&s.Window.Waiting) || s.Window.Opened > s.Window.Until) {
		return "window"
	}
	run := s.Open
	if run == nil {
		return ""
	}
	switch {
	case run.Run < 1 || run.Run > s.Runs || s.waiting(run.Run) >= 0:
		return "open.run"
	case run.Turns < 0 || run.Turns > s.Turn || run.Lost < 0 || run.Lost > run.Turns:
		return "open.turns"
	case run.Actions < 0 || run.Tokens < 0 || run.Cost < 0 || run.Settlements < 0 || run.Progress.N < 0 || run.Away < 0:
		return "open"
	case run.Budget != nil && (run.Budget.Actions < 0 || run.Budget.CostUSD < 0 || run.Budget.Tokens < 0):
		return "open.budget"
	case run.Turn != nil && (run.Turn.Index < 1 || run.Turn.Index != s.Turn):
		return "open.turn.index"
	case run.Turn != nil && (run.Turn.Seq < 1 || run.Turn.Seq > s.Seq):
		return "open.turn.seq"
	case len(run.Groups) > MaxGroups || slices.ContainsFunc(run.Groups, func(g Group) bool { return len(g.Members) > MaxMembers }):
		return "open.groups"
	case run.Turn != nil && (run.Turn.Away < 0 || run.Turn.Restores < 0):
		return "open.turn"
	}
	return ""
}
