package messages

import "time"

// ActionType says whose registry an action's name is looked up in.
type ActionType string

// The action types (docs/spec/streaming.md §3.1).
const (
	TypeTool     ActionType = "tool"
	TypeAgent    ActionType = "agent"
	TypeRelic    ActionType = "relic"
	TypeWorkflow ActionType = "workflow"
	TypeLLM      ActionType = "llm"
	TypeInternal ActionType = "internal"
)

// Actions of TypeInternal that are about a session's variables (docs/spec/streaming.md §7.4).
const (
	InternalSetVariable    = "set_variable"
	InternalDeleteVariable = "delete_variable"
	InternalClearContext   = "clear_context" // and about what feeds have fetched
)

// Actions of TypeInternal that are about a session's feeds (docs/spec/streaming.md §7.4).
const (
	InternalAddFeed    = "add_context_feed"
	InternalRemoveFeed = "remove_context_feed"
	InternalUpdateFeed = "update_context_feed"
	InternalListFeeds  = "list_context_feeds"
	InternalGetFeed    = "get_context_feed"
)

// Who shares the values of a key-value relic beside the calls of one session.
const (
	ScopeUser   = "user"   // the sessions of its user
	ScopeTenant = "tenant" // the sessions of its tenant
)

// RelicLimits bound a key-value relic. 0 is the default.
type RelicLimits struct {
	Keys       int64
	ValueBytes int64 // of one value as JSON
	Bytes      int64 // of keys and values together
}

// The modes of actions: what waits for one (docs/spec/streaming.md §4).
const (
	ModeSync          = "sync"            // what follows it in the reply waits
	ModeAsync         = "async"           // the end of the turn waits
	ModeFireAndForget = "fire_and_forget" // nothing waits, nothing can read it
)

// What follows the last failed attempt of an action (docs/spec/streaming.md §5.3).
const (
	OnErrorFail  = "fail"
	OnErrorSkip  = "skip"  // failed, but tolerated: dependents run
	OnErrorRetry = "retry" // as fail, with three further attempts unless said otherwise
	// OnErrorRollback is as fail, and the action's group is undone.
	OnErrorRollback = "rollback"
)

// The audiences of an action, in streams and the console.
const (
	ShowUser     = "user"
	ShowOperator = "operator"
	ShowNone     = "none"
)

// Action is an action that a decoder read from a reply, checked and with every
// default applied (docs/spec/streaming.md §3). It is handed over: no holder changes it.
type Action struct {
	ID        string // unique in the reply; "#N" when the model gave none
	Type      ActionType
	Mode      string // ModeSync, ModeAsync or ModeFireAndForget
	Name      string // in the registry of Type
	Args      string // JSON object in normal form (docs/spec/design.md §10)
	OutputKey string // "" for none
	DependsOn []string
	Timeout   time.Duration // of one attempt; above 0
	Retry     int           // further attempts after the first
	// RetryDelay is the pause before the second attempt; 0 takes the agent's, below 0 is none.
	RetryDelay time.Duration
	Backoff    int    // each pause is so many times the one before; at most 1 for no growth
	OnError    string // OnErrorFail, OnErrorSkip or OnErrorRetry
	Show       string // ShowUser, ShowOperator or ShowNone
	InThought  bool
	Literal    bool // "$" means nothing in Args

	// Of the protocol's extensions (docs/spec/extensions.md).
	Block    string // id of the innermost control block around; "" for none
	Thought  int    // ordinal of the innermost thought around, where thoughts are numbered; 0 for none
	Template string // the template it was made of; "" for none
	Stream   bool   // its result is shown as it grows
	Group    string // of actions that are undone together; "" for none
	Rollback string // the compensation: a JSON object with type, name, parameters and timeout in seconds; "" for none
}
