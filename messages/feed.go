package messages

// Feed is a context feed as one turn has it (docs/spec/streaming.md §7.3), or a variable of the
// environment that an action of the turn named: what $id, or ${NAME}, stands for until
// the turn is decided.
type Feed struct {
	ID        string // of a feed; EnvironmentFeed and a name, of a variable
	Stale     bool   // an older value, because the last refresh failed or is late
	Truncated bool   // cut to the limits of the feed
	Error     string // there is no value: timeout or failed
	Origin    string // of a value of another host, as of FeedInjected
	Reason    string // why there is no fresh value, in words and for people alone; may be empty
	Value     string // JSON, as injected; "" with Error
	// CostUSD, in millionths of a dollar, and Tokens are what agents used for the feed that no
	// turn has counted.
	CostUSD, Tokens int64
}

// EnvironmentFeed begins the ID of a variable of the environment. No feed's id holds
// a dot.
const EnvironmentFeed = "env."

// ProfileFeed is the ID under which the profile of the user stands among the feeds of a
// turn. Prompts show it with what the system says, not as a feed.
const ProfileFeed = "builtin.profile"

// InstructionsFeed is the ID under which instructions that had to be made stand among the
// feeds of a turn: their text as a JSON string. Prompts show it in front of all else.
const InstructionsFeed = "builtin.instructions"

// FeedChange is what an internal action made of a session's feeds (docs/spec/streaming.md §7.4).
// It stands in the action's end: both are there, or neither is.
type FeedChange struct {
	Added bool `json:"added,omitzero"` // the feed is the model's, not the manifest's
	// Also are the changes of other feeds that came with this one: of those that refer to it.
	// They have no Also of their own.
	Also     []FeedChange `json:"also,omitzero"`
	Cleared  bool         `json:"cleared,omitzero"`  // no value fetched before is used again, of any feed
	Disabled bool         `json:"disabled,omitzero"` // it is not fetched
	Fresh    bool         `json:"fresh,omitzero"`    // values fetched before are not its own
	Gone     bool         `json:"gone,omitzero"`     // it was removed
	ID       string       `json:"id,omitzero"`
	Spec     string       `json:"spec,omitzero"` // JSON: the feed as a manifest has it, params as text
}

// FeedInjected says what a turn has of a feed. The value is the blob; there is none
// with Error. Reason says in words why there is none, or why it is stale; a prompt does
// not show it.
type FeedInjected struct {
	// CostUSD is what agents used for the feed, in millionths of a dollar; it counts to the run,
	// as Tokens do.
	CostUSD int64  `json:"cost_usd,omitzero"`
	Digest  Digest `json:"digest"`
	Error   string `json:"error,omitzero"`
	ID      string `json:"id"`
	// Origin is where another host got the value: session@incarnation, position. "" for a value
	// that this host fetched from its source.
	Origin    string `json:"origin,omitzero"`
	Reason    string `json:"reason,omitzero"`
	Stale     bool   `json:"stale,omitzero"`
	Tokens    int64  `json:"tokens,omitzero"`
	Truncated bool   `json:"truncated,omitzero"`
}

// Kind implements Body.
func (*FeedInjected) Kind() Kind { return KindFeedInjected }

// Feed is the feed with its value, which is read from the blob.
func (f *FeedInjected) Feed(value string) Feed {
	return Feed{ID: f.ID, Stale: f.Stale, Truncated: f.Truncated, Error: f.Error, Origin: f.Origin, Reason: f.Reason, Value: value, CostUSD: f.CostUSD, Tokens: f.Tokens}
}
