package feeds

import (
	"github.com/seed14be6753/stile/internal/prompt"
	"github.com/seed14be6753/stile/messages"
)

// Why a feed has no value (docs/spec/streaming.md §7.2).
const (
	ErrorTimeout = "timeout" // not fetched within the deadline of the prompt
	ErrorFailed  = "failed"  // the fetch failed, a feed it needs did, or it is disabled after crashes
)

// An Element is a feed as one prompt shows it.
type Element struct {
	ID        string
	Stale     bool   // an older value, because the last refresh failed or is late
	Truncated bool   // cut to the limits of the feed
	Error     string // ErrorTimeout or ErrorFailed: there is no value
	Late      bool   // the fetch was not waited for
	Body      string // text, not yet escaped; "" with Error
	// Value is what $id stands for while this prompt is answered, as JSON: the value
	// as injected. "" with Error.
	Value string
	// Cause says for logs why Error or Stale is set. It is nothing for a model.
	Cause error
	// Origin is where a value of another host comes from.
	Origin string
	// Reason says the same in words that a record may hold. Where an older value is shown
	// because the refresh before failed, it is that one's.
	Reason string
}

// Feed is the element as a turn keeps it.
func (e *Element) Feed() messages.Feed {
	return messages.Feed{ID: e.ID, Stale: e.Stale, Truncated: e.Truncated, Error: e.Error, Origin: e.Origin, Reason: e.Reason, Value: e.Value}
}

// Append appends the element to a prompt (docs/spec/streaming.md §7.3). However it is written,
// the body cannot close it.
func (e *Element) Append(dst []byte) []byte {
	f := e.Feed()
	return prompt.AppendFeed(dst, &f, e.Body)
}
