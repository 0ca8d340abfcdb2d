package tools

import (
	"context"

	"github.com/seed14be6753/stile/messages"
)

// Request is a call as the gate sees it.
type Request struct {
	SID        string
	Tool       string // as registered
	Class      messages.Class
	Args       []Value
	ArgsDigest messages.Digest // of the canonical JSON of the arguments
	JSON       string          // the arguments: an array of a program's call, else an object
	// State and Keep are the dialect's memory within the run and across runs.
	State, Keep []byte
}

// CustomPolicy is a judgement with a name, such as the meta-controller of docs/spec/kitsu.md §4.
type CustomPolicy struct {
	Name  string // of who answered, in records; none of deny, tool, hook, own and default
	Judge func(Request) (answer messages.GateAnswer, reason string, ok bool)
}

// SearchRequest is a search of an action token.
type SearchRequest struct {
	SID   string
	Query string // cleaned, at most 256 code points
	Max   int    // results wanted
}

// SearchResult is one result.
type SearchResult struct {
	Snippet string `json:"snippet"`
	Title   string `json:"title"`
	URL     string `json:"url"`
}

// Searcher finds what a search token asks for: an index, what earlier sessions hold, or
// anything else. It is called from many goroutines, must honour ctx, and has 2 s.
type Searcher interface {
	Search(ctx context.Context, q SearchRequest) ([]SearchResult, error)
}
