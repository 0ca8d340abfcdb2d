package turn

import (
	"cmp"
	"time"

	"github.com/seed14be6753/stile/internal/plan"
	"github.com/seed14be6753/stile/messages"
)

// Judge is the part of a dialect that the machine needs. Implementations are pure.
type Judge interface {
	Traits() messages.Traits
	Decide(messages.Facts) messages.Verdict
	Digest(messages.Facts) (out, scr []byte)
}

// Durability is when shown text must be on disk (docs/spec/design.md §2).
type Durability string

// The durabilities of a reply's text.
const (
	Strict     Durability = "strict"     // chunk records before their deltas
	Checkpoint Durability = "checkpoint" // deltas at once, chunk records lazily
	WholeUnit  Durability = "unit"       // no deltas, the unit's record alone
)

// Bounds that no configuration can raise, and defaults.
const (
	MaxReplyBytes      = 8 << 20                // docs/spec/design.md §7
	MaxUnits           = 4096                   // of a reply, docs/spec/design.md §8
	MaxBlocks          = 256                    // control blocks of a reply: each is some records
	MaxGenerationCalls = 64                     // actions of one generation, docs/spec/design.md §8
	CancelGrace        = 2 * time.Second        // docs/spec/design.md §9
	ProgramGrace       = 250 * time.Millisecond // a stopped program answers within its next poll
	LazyHold           = 250 * time.Millisecond // docs/spec/design.md §2
	LazyBytes          = 4 << 10                // docs/spec/design.md §2
	EndedHold          = 5 * time.Millisecond   // see Persist.Hold
	MaxSettlements     = 3                      // per run, restores included, docs/spec/design.md §7
	ApprovalWait       = 24 * time.Hour         // when Rules.ApprovalWait is not set, docs/spec/design.md §7
	QuestionMemory     = 16                     // closed questions a session remembers
	MaxPanics          = 3                      // of one action name in a run under on_panic: fail
	KeyMemory          = 64                     // idempotency keys a session remembers
	MaxStateBytes      = 4 << 10                // a dialect's memory, docs/spec/design.md §5
	NoProgressN        = 3                      // when Rules.NoProgressN is not set, docs/spec/aeiou.md §12
)

// Limits are the clocks and counts of a session (docs/spec/design.md §8). A zero clock does
// not run; a zero count is no limit.
type Limits struct {
	ProgramWall    time.Duration
	GenerationWall time.Duration
	TurnWall       time.Duration
	RunWall        time.Duration
	Actions        int64 // recorded actions per run
	Parallel       int   // actions of a reply that run at once; 0 means plan's default
	Tokens         int64 // model tokens per run, input and output
	CostMicroUSD   int64 // per run

	// Of one reply; 0 is the default of each.
	Reply      int64         // bytes; MaxReplyBytes, and no more
	Calls      int           // actions; MaxGenerationCalls
	GateBuffer int           // bytes behind a gate; plan.GateBufferBytes
	Drain      time.Duration // of async actions after a final response; plan.DrainTime

	RollbackWall time.Duration // of the compensations of a turn that is being stopped; RollbackWall
}

// ReplyBytes returns the greatest length of a reply in bytes.
func (l *Limits) ReplyBytes() int64 {
	if l.Reply > 0 {
		return min(l.Reply, MaxReplyBytes)
	}
	return MaxReplyBytes
}

func (l *Limits) calls() int { return cmp.Or(l.Calls, MaxGenerationCalls) }

func (l *Limits) gateBuffer() int { return cmp.Or(l.GateBuffer, plan.GateBufferBytes) }

func (l *Limits) drain() time.Duration { return cmp.Or(l.Drain, plan.DrainTime) }

func (l *Limits) rollbackWall() time.Duration { return cmp.Or(l.RollbackWall, RollbackWall) }

// Config is the identity of one session and the rules it runs under.
type Config struct {
	Key messages.SessionKey
	// SID is Key.SID() where the caller has it at hand; New fills it in when it is "".
	SID string
	Inc messages.Incarnation
	*Rules
}

// Rules are the settings of an agent. They are immutable and shared by all sessions of the
// agent, so an idle session does not pay for them.
type Rules struct {
	Dialect string
	// Rendering is the version of prompts, forgiveness, meters and decisions that the
	// turns run under (messages.Rendering); 0 is 1.
	Rendering   int64
	Judge       Judge
	Limits      Limits
	NoProgressN int   // ≥ 2; ≤ 0 means the default
	MaxTurns    int64 // per run, 0 none
	// Repairs is how often a run may go on after a turn that failed by a mistake of the
	// model, with a turn whose prompt names the mistake. It counts from rendering 2 on.
	Repairs int64
	// Output reads the final answer of a run and returns its value as JSON on one line, or
	// what is wrong with it. It is pure; nil accepts any answer. With it no text is shown
	// before its turn is decided.
	Output func(answer string) (value, fault string)
	// Forgets makes each run begin without the streams and the failed turns of earlier runs.
	// State keeps them, for a run that is withdrawn.
	Forgets bool
	// ExemptFinal keeps the progress guard from overriding DONE and ABORT.
	ExemptFinal bool
	Recovery    string
	OnPanic     string
	Durability  Durability
	// ApprovalWait is how long a call that needs confirmation waits for it; ≤ 0
	// means the default.
	ApprovalWait time.Duration
	// RetryDelay is plan.Policy.Delay of the actions.
	RetryDelay time.Duration
	Provider   string
	Model      string
	// Target reports whether an action of a reply names an existing target, and its class.
	// It is pure; nil finds none.
	Target func(t messages.ActionType, name string) (class messages.Class, found bool)
	// Missing returns a hint for the model about an action that Target does not find, such as
	// similar names. It is pure, and called from rendering 2 on; nil gives no hint.
	Missing func(t messages.ActionType, name string) string
	// Timeout returns the time limit that a target sets for one attempt, for dialects whose
	// calls set none; 0 leaves the dialect's. It is pure; nil is 0 for all.
	Timeout func(t messages.ActionType, name string) time.Duration
	// Spends returns what an action of a reply may use at most of the run's budget, 0 for no
	// bound; ok is false for one that uses nothing. It is pure; nil is false for all.
	Spends func(t messages.ActionType, name string) (most messages.Budget, ok bool)
	// Refuse returns the reason to refuse an action that Target finds, before the gate is
	// asked; "" does not refuse. It is pure; nil refuses nothing.
	Refuse func(t messages.ActionType, name string) (reason string)
	// Template returns the template that a tool is an alias of, "" for other targets. It is
	// pure; nil is "" for all.
	Template func(t messages.ActionType, name string) string

	// Rollback is when groups of actions are rolled back.
	Rollback Rollback

	// FeedsLast has feeds end the prompt, in place of stand in front of the conversation.
	FeedsLast bool
	// Feeds are the ids of the manifest's feeds that are fetched, in order. Environment
	// names the variables that parameters may write as ${NAME}.
	Feeds       []string
	Environment []string

	ManifestDigest messages.Digest
	LibraryDigest  messages.Digest
	ToolsDigest    messages.Digest
	LimitsDigest   messages.Digest
}

// templateOf returns the template that an action is made of where its target is an alias.
func (r *Rules) templateOf(t messages.ActionType, name string) string {
	if r.Template == nil {
		return ""
	}
	return r.Template(t, name)
}

func (r *Rules) noProgressN() int {
	if r.NoProgressN <= 0 {
		return NoProgressN
	}
	return r.NoProgressN
}
