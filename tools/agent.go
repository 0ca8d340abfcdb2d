package tools

import (
	"context"

	"github.com/seed14be6753/stile/messages"
)

// Request describes a call to the gate and to custom policies.
type Request struct {
	SID        string
	Tool       string // as registered
	Class      messages.Class
	Args       []Value
	ArgsDigest messages.Digest // of the canonical JSON of the arguments
	JSON       string          // the arguments: an array of a program's call, else an object
	// State and Keep are the dialect's memory: State of this run, Keep of the session.
	State, Keep []byte
}

// CustomPolicy is a named rule of the gate, such as the meta-controller of
// docs/spec/kitsu.md §4.
type CustomPolicy struct {
	Name  string // in records; not deny, tool, hook, own or default
	Judge func(Request) (answer messages.GateAnswer, reason string, ok bool)
}

// SearchRequest is one search, as a model asks for it.
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

// Searcher answers searches, from an index, earlier sessions or any other source. Search
// must be safe for concurrent use and honour ctx, which ends after 2 s for action tokens.
type Searcher interface {
	Search(ctx context.Context, q SearchRequest) ([]SearchResult, error)
}
