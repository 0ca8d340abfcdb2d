// Package simple tells a session in the words of docs/spec/cogency.md §3: think, respond,
// call, execute, result, user, end, error, cancelled, interrupt, metric. A Teller makes these
// events of updates and is pure; Events reads the journal, to take up a stream where a reader
// left it, and changes nothing.
//
// Invariants:
//   - each event has an id, and who comes back with it gets what follows: no event twice, none
//     left out;
//   - the events depend on the session's updates alone, not on where a stream began or was cut.
//     Only growing text may come in other pieces.
//
// Events have what is shown: no candidates of control tokens, no text that waits for a decision,
// no hidden call.
package simple

import (
	"strconv"
	"strings"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// Event is one event of docs/spec/cogency.md §3. What it has beside type, content and
// timestamp stands where it says something.
type Event struct {
	Type    string `json:"type"`
	Content string `json:"content"`
	// Timestamp is seconds since the epoch, to the microsecond. The order is that of the
	// stream, never that of clocks.
	Timestamp float64 `json:"timestamp"`
	// Unit is that of a think or respond: all pieces of a text have the same, and the text
	// behind it another.
	Unit    int64 `json:"unit,omitzero"`
	Partial bool  `json:"partial,omitzero"` // the text was cut
	// Thought is the numbered thought of a think, or around a call; nil elsewhere.
	Thought *Thought `json:"thought,omitzero"`
	// Block is the id of the control block that a call stands in; "" for none.
	Block string `json:"block,omitzero"`
	// Compensates is the id of the action that a call undoes; "" for none.
	Compensates string `json:"compensates,omitzero"`
	// Action is that of a chunk: all pieces of its growing result have the same.
	Action string `json:"action,omitzero"`
	// Keep takes text back: of the unit or result the first Keep bytes stay. Content is empty
	// then.
	Keep    *int64   `json:"keep,omitzero"`
	Code    string   `json:"code,omitzero"`    // of an error
	Payload *Payload `json:"payload,omitzero"` // of a result
	Step    *Use     `json:"step,omitzero"`    // of a metric: of this generation
	Total   *Use     `json:"total,omitzero"`   // of a metric: of the run so far
	// ID is where a stream goes on behind the event.
	ID string `json:"-"`
}

// Thought is a numbered thought of a reply: its ordinal and, of a think, the ordinal of the
// thought around, the depth from 1, and the label.
type Thought struct {
	N      int    `json:"n"`
	Parent int    `json:"parent,omitzero"`
	Depth  int    `json:"depth,omitzero"`
	Label  string `json:"label,omitzero"`
}

// thoughtAt is the place of a text; nil for none.
func thoughtAt(at *messages.Block) *Thought {
	if at == nil {
		return nil
	}
	return &Thought{N: at.N, Parent: at.Parent, Depth: at.Depth, Label: at.Label}
}

// Payload counts the calls of a result.
type Payload struct {
	Executed int `json:"tools_executed"`
	Success  int `json:"success_count"`
	Failure  int `json:"failure_count"`
}

// Use is what generations used: tokens, and seconds.
type Use struct {
	Input    int64   `json:"input"`
	Output   int64   `json:"output"`
	Duration float64 `json:"duration"`
}

func use(input, output int64, took time.Duration) *Use {
	return &Use{Input: input, Output: output, Duration: float64(took.Microseconds()) / 1e6}
}

// seconds is a time as events have it.
func seconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// place is what an id says: behind a position, and behind the first n events of the record
// that follows it and makes more than n.
type place struct {
	at messages.Position
	n  int
}

// id writes "position", or "position-n".
func (p place) id() string {
	if p.n == 0 {
		return p.at.String()
	}
	return p.at.String() + "-" + strconv.Itoa(p.n)
}

// mostOfOne bounds n: no record makes more events than that.
const mostOfOne = 3

// parseID reads an id; "" is the beginning. Anything else is ERR_INVALID.
func parseID(id string) (p place, err error) {
	if id == "" {
		return p, nil
	}
	at, n, more := id, "", false
	if i := strings.LastIndexByte(id, '-'); i > strings.LastIndexByte(id, ':') { // ids of actions may have one
		at, n, more = id[:i], id[i+1:], true
	}
	if more {
		if p.n, err = strconv.Atoi(n); err != nil || p.n < 1 || p.n >= mostOfOne || n != strconv.Itoa(p.n) {
			return p, &messages.Error{Code: messages.ErrInvalid, Field: "position", Detail: "want the id of an event, such as 12, 12-1 or 12.3.0.55"}
		}
	}
	p.at, err = messages.ParsePosition(at)
	return p, err
}
