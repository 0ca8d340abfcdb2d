package cogency

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// The results that the model reads for calls without an answer (docs/spec/cogency.md §7).
const (
	noResult  = "interrupted: no result recorded"
	cancelled = "cancelled"
)

// MaxEvents is the greatest number of events of a context without a window.
const MaxEvents = 10_000

// Assemble rebuilds a context, without its system message, from stored events in their order
// (docs/spec/cogency.md §7). window is how many messages the context may have; 0 is no limit,
// a negative window is ERR_CONFIG. More than MaxEvents events without a window are ERR_QUOTA
// with the reason context_overflow. skipped counts the calls that could not be read.
//
// Calls and results come in pairs, whatever the log holds, and a windowed context begins with
// its question.
func Assemble(events []Event, window int) (ms []messages.Message, skipped int, err error) {
	switch {
	case window < 0:
		return nil, 0, &messages.Error{Code: messages.ErrConfig, Field: "history_window", Detail: strconv.Itoa(window) + " is below 1"}
	case window == 0 && len(events) > MaxEvents:
		return nil, 0, &messages.Error{
			Code: messages.ErrQuota, Reason: "context_overflow",
			Detail: strconv.Itoa(len(events)) + " events; a context without a window has at most " + strconv.Itoa(MaxEvents),
		}
	}
	var a assembly
	for i := range events {
		a.add(&events[i])
	}
	a.dangle(noResult)
	a.flush()
	ms, _ = parse.Window(a.messages, window)
	return ms, a.skipped, nil
}

// assembly is a context that grows.
type assembly struct {
	messages []messages.Message
	parts    []string // of the assistant's message
	pending  []called // calls without a result
	skipped  int
	reader   *decoder // of replies, one after another
	second   bool     // the rendering is 2 or later
}

// assembly begins a context.
func (x Dialect) assembly() assembly { return assembly{second: x.second()} }

type called struct{ name, text string }

// settled reports whether no message is unfinished.
func (a *assembly) settled() bool { return len(a.parts) == 0 && len(a.pending) == 0 }

func (a *assembly) add(e *Event) {
	switch e.Type {
	case User:
		a.dangle(noResult)
		a.flush()
		a.messages = append(a.messages, messages.Message{Role: messages.RoleUser, Text: e.Content})
	case Think, Respond:
		a.dangle(noResult)
		switch {
		case strings.TrimSpace(e.Content) == "":
		case e.Type == Think:
			a.parts = append(a.parts, openThink+e.Content+shutThink)
		default:
			a.parts = append(a.parts, e.Content)
		}
	case Call:
		if c, ok := readCall(e.Content); ok {
			a.pending = append(a.pending, c)
		} else {
			a.skipped++
		}
	case Results:
		if e.Origin == FromModel || e.Content == "" {
			return
		}
		a.answer(e.Content)
	case Cancelled:
		a.dangle(cancelled)
	}
}

// answer pairs the pending calls with their results, an array. In rendering 2 nothing in it
// looks like a marker.
func (a *assembly) answer(results string) {
	if a.second {
		results = escaped(results)
	}
	a.pair(results)
}

// escaped writes "<" of a JSON text, which stands in strings alone, as its escape.
func escaped(text string) string { return strings.ReplaceAll(text, "<", `\u003c`) }

// pair is answer with the array as the message will have it.
func (a *assembly) pair(results string) {
	if len(a.pending) > 0 {
		var b strings.Builder
		b.WriteString(openExecute + "[")
		for i, c := range a.pending {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(c.text)
		}
		b.WriteString("]" + shutExecute)
		a.parts = append(a.parts, b.String())
		a.pending = a.pending[:0]
	}
	a.flush()
	a.messages = append(a.messages, messages.Message{Role: messages.RoleUser, Text: openResults + results + shutResults, Holds: messages.HoldsResults})
}

// dangle answers pending calls with failures.
func (a *assembly) dangle(why string) {
	if len(a.pending) == 0 {
		return
	}
	failed := make([]Result, len(a.pending))
	for i, c := range a.pending {
		failed[i] = Failure(c.name, why)
	}
	a.answer(string(AppendResults(nil, failed, 0)))
}

func (a *assembly) flush() {
	if len(a.parts) > 0 {
		a.messages = append(a.messages, messages.Message{Role: messages.RoleAssistant, Text: strings.Join(a.parts, "\n\n")})
		a.parts = a.parts[:0]
	}
}

// readCall reads a stored call. Its arguments stay as they are, without white space.
func readCall(content string) (c called, ok bool) {
	var v struct {
		Name string         `json:"name"`
		Args jsontext.Value `json:"args"`
	}
	if json.Unmarshal([]byte(content), &v) != nil || v.Name == "" || v.Args.Kind() != '{' || v.Args.Compact() != nil {
		return c, false
	}
	return called{v.Name, CallText(v.Name, string(v.Args))}, true
}
