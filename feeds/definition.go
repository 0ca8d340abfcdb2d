package feeds

import (
	"time"

	"github.com/seed14be6753/stile/messages"
)

// Bounds of definitions with their sources.
const (
	MaxFeeds         = 32                            // of a session, docs/spec/streaming.md §10
	MinModelInterval = 5 * time.Second               // of an interval set by the model, docs/spec/streaming.md §7.4
	MaxSeconds       = 366 * 24 * 60 * 60            // of interval and cache_ttl: a year
	MaxLimit         = 1 << 30                       // of max_tokens and max_size_bytes
	MaxParamsBytes   = 64 << 10                      // of a source's parameters as JSON
	MaxNameBytes     = 256                           // of a source's name
	MaxSpecBytes     = MaxParamsBytes + 4096         // of the parameters of an internal action
	MinAgentTTL      = 30 * time.Second              // of an on-demand feed of an agent, docs/spec/extensions.md §10
	MinAgentInterval = 60 * time.Second              // of a periodic one
	staleIntervals   = 3                             // cache_ttl of a periodic feed without one, docs/spec/streaming.md §7.2
	seedBound        = int64(1)<<53 - 1              // integers are exact in every JSON reader
	maxTimezoneBytes = 64                            // of an IANA name
	idPattern        = "[A-Za-z_][A-Za-z0-9_]{0,63}" // of a feed, docs/spec/streaming.md §7.1
)

// Reasons of refused definitions. Those in capitals are the words that the manifest
// uses for the same mistakes; the others are spelled by docs/spec/streaming.md §7.1 or follow
// its spelling.
const (
	ReasonMissing         = "MISSING"
	ReasonBadValue        = "BAD_VALUE"
	ReasonWrongType       = "WRONG_TYPE"
	ReasonUnknownKey      = "UNKNOWN_KEY"
	ReasonDuplicate       = "DUPLICATE"
	ReasonUnsupportedType = "UNSUPPORTED_FEED_TYPE"
	ReasonUnknownFeed     = "UNKNOWN_FEED"
	ReasonFeedCycle       = "FEED_CYCLE"
)

// A Trigger says when a feed is fetched.
type Trigger string

// The triggers (docs/spec/streaming.md §7.2).
const (
	OnDemand Trigger = "on_demand" // when a prompt is built
	Periodic Trigger = "periodic"  // at start, then every interval
)

// A Kind says where values come from.
type Kind string

// The source kinds (docs/spec/streaming.md §§7.1, 7.2).
const (
	Internal Kind = "internal"
	Ingest   Kind = "ingest"
	Tool     Kind = "tool"
	Relic    Kind = "relic"
	Workflow Kind = "workflow"
	LLM      Kind = "llm"
	Agent    Kind = "agent"  // of the same host, in a child session (docs/spec/extensions.md §10)
	Remote   Kind = "remote" // a feed of another host (docs/spec/extensions.md §10)
)

// importable reports whether sources of a kind are named and looked up in a registry.
func (k Kind) importable() bool {
	return k == Tool || k == Relic || k == Workflow || k == LLM || k == Agent
}

func (k Kind) known() bool { return k.importable() || k == Internal || k == Ingest || k == Remote }

// A Source is where a feed's values come from. It is comparable.
type Source struct {
	Kind   Kind
	Name   string // in the registry of Kind; "" for internal and ingest
	Action string // of internal: which one
	Params string // a JSON object; may hold references to other feeds

	// Of an agent: the feed, whether each fetch has a session of its own and counts to the run
	// that it is for, the most that one fetch uses (0: no bound), and whether the agent reads
	// feeds of other hosts.
	Feed            string
	Fresh, Counts   bool
	Tokens, CostUSD int64
	Forwards        bool
}

// A Definition is a feed in normal form. It is comparable: equal ones are the same.
type Definition struct {
	ID        string
	Trigger   Trigger
	Interval  time.Duration // of Periodic; otherwise 0
	TTL       time.Duration // how long a value may be served; see HasTTL
	HasTTL    bool          // cache_ttl was given
	Deadline  time.Duration // longest time that a prompt waits for it; 0 is the keeper's
	MaxTokens int64         // 0 is no limit
	MaxBytes  int64         // 0 is no limit
	Disabled  bool          // known, not fetched, not injected
	Pinned    bool          // the model cannot change or remove it
	Transform string        // the steps that change a value (internal/transform), a JSON array; "" for none
	Source    Source
}

// ServedFor is how old a value may be and still be served. For an on-demand feed it
// is the age from which a prompt fetches again; 0 fetches for each. For a periodic
// feed it bounds what is served while refreshes fail (docs/spec/streaming.md §7.2).
func (d *Definition) ServedFor() time.Duration {
	if d.Trigger == Periodic && !d.HasTTL {
		return staleIntervals * d.Interval
	}
	return d.TTL
}

// A Spec is a feed as a manifest or a model writes it (docs/spec/streaming.md §7.1), after
// expansion. Absent members are nil or "".
type Spec struct {
	ID           string     `json:"id"`
	Type         string     `json:"type,omitzero"`        // a trigger or a kind of source
	Interval     *int64     `json:"interval,omitzero"`    // seconds
	CacheTTL     *int64     `json:"cache_ttl,omitzero"`   // seconds
	DeadlineMS   int64      `json:"deadline_ms,omitzero"` // 0 for none; the operator's alone
	MaxTokens    *int64     `json:"max_tokens,omitzero"`
	MaxSizeBytes *int64     `json:"max_size_bytes,omitzero"`
	Enabled      *string    `json:"enabled,omitzero"`
	Pinned       bool       `json:"pinned,omitzero"`
	Transform    string     `json:"transform,omitzero"` // a JSON array of steps; "" for none
	Source       SourceSpec `json:"source,omitzero"`
}

// A SourceSpec is the source of a Spec.
type SourceSpec struct {
	Type   string `json:"type,omitzero"`
	Name   string `json:"name,omitzero"`
	Action string `json:"action,omitzero"`
	Params string `json:"params,omitzero"` // a JSON object; "" is {}

	// Of an agent, as of Source.
	Fresh    bool  `json:"fresh,omitzero"`
	Tokens   int64 `json:"tokens,omitzero"`
	CostUSD  int64 `json:"cost_usd,omitzero"` // in millionths of a dollar
	Forwards bool  `json:"forwards,omitzero"`
}

// Spec is the normal form as a Spec, of which it is the normal form.
func (d *Definition) Spec() Spec {
	enabled := "true"
	if d.Disabled {
		enabled = "false"
	}
	s := Spec{
		ID: d.ID, Type: string(d.Trigger), Enabled: &enabled, Pinned: d.Pinned, Transform: d.Transform,
		Source: SourceSpec{
			Type: string(d.Source.Kind), Name: d.Source.Name, Action: d.Source.Action, Params: d.Source.Params,
			Fresh: d.Source.Fresh, Tokens: d.Source.Tokens, CostUSD: d.Source.CostUSD, Forwards: d.Source.Forwards,
		},
	}
	number := func(n int64, given bool) *int64 {
		if !given {
			return nil
		}
		return &n
	}
	s.DeadlineMS = d.Deadline.Milliseconds()
	s.Interval = number(int64(d.Interval/time.Second), d.Trigger == Periodic)
	s.CacheTTL = number(int64(d.TTL/time.Second), d.HasTTL)
	s.MaxTokens = number(d.MaxTokens, d.MaxTokens > 0)
	s.MaxSizeBytes = number(d.MaxBytes, d.MaxBytes > 0)
	return s
}

func refuse(field, reason, format string, args ...any) *messages.Error {
	e := messages.Errorf(messages.ErrConfig, format, args...)
	e.Field, e.Reason = field, reason
	return e
}
