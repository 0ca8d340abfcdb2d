package cogency

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/messages"
)

// What the model is told of calls that nobody answered (cogency.md §7).
const (
	noResult  = "interrupted: no result recorded"
	cancelled = "cancelled"
)

// MaxEvents is how many events a context without a window is made of at most.
const MaxEvents = 10_000

// Assemble rebuilds a context, without its system message, from stored events in
// their order (cogency.md §7). window is how many messages it may have, 0 all of them; below 0 is
// ERR_CONFIG, and more than MaxEvents events without a window are ERR_QUOTA with the
// reason context_overflow. skipped counts the calls that could not be read.
//
// Calls and results come in pairs, whatever the log holds, and a windowed context
// begins with its question.
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
	if window > 0 {
		a.messages = cut(a.messages, window)
	}
	for _, m := range a.messages {
		ms = append(ms, m.Message)
	}
	return ms, a.skipped, nil
}

// message is one of a context. A user may write what looks like results.
type message struct {
	messages.Message
	results bool
}

func (m *message) question() bool { return m.Role == messages.RoleUser && !m.results }

// assembly is a context that grows.
type assembly struct {
	messages []message
	parts    []string // of the assistant's message
	pending  []called // calls without a result
	skipped  int
}

type called struct{ name, text string }

func (a *assembly) add(e *Event) {
	switch e.Type {
	case User:
		a.dangle(noResult)
		a.flush()
		a.messages = append(a.messages, message{Message: messages.Message{Role: messages.RoleUser, Text: e.Content}})
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

// answer pairs the pending calls with their results.
func (a *assembly) answer(results string) {
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
	a.messages = append(a.messages, message{
		Message: messages.Message{Role: messages.RoleUser, Text: openResults + results + shutResults}, results: true,
	})
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
		a.messages = append(a.messages, message{Message: messages.Message{Role: messages.RoleAssistant, Text: strings.Join(a.parts, "\n\n")}})
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
	return called{v.Name, callText(v.Name, string(v.Args))}, true
}

// cut is the window of cogency.md §7.1: at most n messages, never results without
// their question.
func cut(ms []message, n int) []message {
	if len(ms) <= n {
		return ms
	}
	at := len(ms) - n
	if ms[at].question() {
		return ms[at:]
	}
	for at++; at < len(ms) && ms[at].results; at++ {
	}
	if at < len(ms) && ms[at].question() {
		return ms[at:]
	}
	for q := at - 1; q >= 0; q-- {
		if ms[q].question() {
			return append(append(make([]message, 0, n), ms[q]), ms[at:]...)
		}
	}
	return ms[at:]
}
