package kitsu

import "time"

// Defaults of the meta-controller (docs/spec/kitsu.md §§4, 5).
const (
	MaxContinues    = 2 // for one user message
	MaxResults      = 5 // of a search
	MaxMood         = 0.85
	ConfirmTime     = 120 * time.Second // a pending decision lives
	ExecutorTime    = 2 * time.Second
	ReasonNoAction  = "no action"
	ReasonNoSearch  = "permission denied: search"
	ReasonNoIndex   = "no search here"
	ReasonTopic     = "topic differs, confirmation required"
	ReasonNoMore    = "continuation limit reached"
	ReasonNoGoOn    = "permission denied: continue"
	ReasonMood      = "emotion intensity too high for continuation"
	ReasonUnhandled = "unsupported action: " // and the kind
)

// Permissions are the permissions of a user's agent. The zero value allows all present kinds; a
// kind that is added later needs a permission of its own, denied by default.
type Permissions struct {
	DenySearch   bool // allow_search: false
	DenyContinue bool // allow_continue: false
	NoIndex      bool // there is no index to search
}

// Continuation counts the approved continues of one user message.
type Continuation struct {
	Count int
	Max   int // 0 is MaxContinues, below 0 none
}

// Limit returns the number that Max stands for.
func (c Continuation) Limit() int {
	if c.Max == 0 {
		return MaxContinues
	}
	return max(c.Max, 0)
}

// Next is the executor of continue: it only counts (docs/spec/kitsu.md §5).
func (c Continuation) Next() (allowed bool, count int) {
	if c.Count < c.Limit() {
		return true, c.Count + 1
	}
	return false, c.Count
}

// Request is the input of the meta-controller. Action is nil if the reply had no token.
type Request struct {
	Action       *Action
	Permissions  Permissions
	LastTopic    string // of the search before, "" for none
	Continuation Continuation
	Mood         float64 // intensity in 0…1; a host hook that fails counts as 0
}

// Decision is the answer of the meta-controller: Approved, RequiresConfirmation, or denied if
// neither is set. Reason is "" if approved. Results is how many results an approved search gives.
type Decision struct {
	Approved             bool
	RequiresConfirmation bool
	Reason               string
	Results              int
}

// Decide is the meta-controller (docs/spec/kitsu.md §4): the first rule that matches decides. It
// allocates only for an unknown kind.
func Decide(r Request) Decision {
	if r.Action == nil {
		return Decision{Reason: ReasonNoAction}
	}
	switch r.Action.Kind {
	case Search:
		switch {
		case r.Permissions.NoIndex:
			return Decision{Reason: ReasonNoIndex}
		case r.Permissions.DenySearch:
			return Decision{Reason: ReasonNoSearch}
		case r.LastTopic != "" && differs(r.LastTopic, r.Action.Value):
			return Decision{RequiresConfirmation: true, Reason: ReasonTopic, Results: MaxResults}
		}
		return Decision{Approved: true, Results: MaxResults}
	case GetTime:
		return Decision{Approved: true}
	case Continue:
		allowed, _ := r.Continuation.Next()
		switch {
		case r.Permissions.DenyContinue:
			return Decision{Reason: ReasonNoGoOn}
		case !allowed:
			return Decision{Reason: ReasonNoMore}
		case r.Mood > MaxMood:
			return Decision{Reason: ReasonMood}
		}
		return Decision{Approved: true}
	}
	return Decision{Reason: ReasonUnhandled + string(r.Action.Kind)}
}
