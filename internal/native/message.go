package native

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/messages"
)

// Message is a message in the provider's own form: messages.Message.Native.
type Message struct {
	// Of the model.
	Provider string           `json:"provider,omitzero"` // whose ids, signatures and items they are
	Text     string           `json:"said,omitzero"`     // its text, without calls
	Calls    []Call           `json:"calls,omitzero"`
	Items    []jsontext.Value `json:"items,omitzero"`
	// Of the host.
	Results []Result `json:"results,omitzero"` // one for each call of the message before
	// Shown is how much of the message's text the results are; what was put behind it
	// goes as text.
	Shown int `json:"shown,omitzero"`
	// Rest is what of that text is no result.
	Rest string `json:"rest,omitzero"`
}

// Result is the outcome of a call.
type Result struct {
	ID   string `json:"id,omitzero"`
	Name string `json:"name"`
	Text string `json:"text"`
}

// Attach puts the provider's form beside what a dialect tells of a turn: what the model
// wrote, and what came of it. told is not changed. Where the two do not fit it is what it
// was.
func Attach(told []messages.Message, r *messages.Reply) []messages.Message {
	var s Side
	if r.Side == "" || len(told) != 2 || json.Unmarshal([]byte(r.Side), &s) != nil || len(s.Calls) == 0 {
		return told
	}
	text, ok := without(r.Text, s.Cuts)
	if !ok || told[0].Role != messages.RoleAssistant || told[1].Role != messages.RoleUser {
		return told
	}
	results := Message{Shown: len(told[1].Text)}
	if results.Results, results.Rest, ok = outcomes(told[1].Text, s.Calls, r.Calls); !ok {
		return told
	}
	out := slices.Clone(told)
	out[0].Native = encode(&Message{Provider: s.Provider, Text: text, Calls: s.Calls, Items: s.Items})
	out[1].Native = encode(&results)
	return out
}

func encode(m *Message) string {
	b, err := json.Marshal(m, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return "" // it was JSON before: not met
	}
	return string(b)
}

// without is a reply without the parts that calls were written to.
func without(reply string, cuts [][2]int) (string, bool) {
	var b strings.Builder
	at := 0
	for _, c := range cuts {
		if c[0] < at || c[1] < c[0] || c[1] > len(reply) {
			return "", false
		}
		b.WriteString(reply[at:c[0]])
		at = c[1]
	}
	b.WriteString(reply[at:])
	return b.String(), true
}

// How dialects frame results.
const (
	openResults = "<results>"
	shutResults = "</results>"
	openResult  = "<action_result "
)

// didNotRun is the result of a call that the host refused, where the dialect has told of
// that apart from it.
const didNotRun = "The call did not run."

// outcomes splits the dialect's text about the calls of a turn into one result for each; rest is
// the other text. ok is false if a call of the turn was written as text.
func outcomes(text string, calls []Call, recorded []messages.Call) (all []Result, rest string, ok bool) {
	for i := range recorded {
		if !slices.ContainsFunc(calls, func(c Call) bool { return c.Action == recorded[i].ID }) {
			return nil, "", false
		}
	}
	for _, c := range calls {
		all = append(all, Result{ID: c.ID, Name: c.Name, Text: didNotRun})
	}
	if inner, ok := strings.CutPrefix(text, openResults); ok {
		var list []jsontext.Value
		if json.Unmarshal([]byte(strings.TrimSuffix(inner, shutResults)), &list) != nil || len(list) == 0 {
			return all, text, true
		}
		for i := range all {
			all[i].Text = string(list[min(i, len(list)-1)]) // of a batch that was refused whole there is one
		}
		return all, "", true
	}
	var others []string
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		i := slices.IndexFunc(calls, func(c Call) bool { return strings.HasPrefix(line, openResult+`id="`+c.Action+`"`) })
		if i >= 0 && all[i].Text == didNotRun {
			all[i].Text = line
		} else if line != "" {
			others = append(others, line)
		}
	}
	return all, strings.Join(others, "\n"), true
}

// Pair reads the provider's form of a prompt: for each message its own, or nil where it
// goes as text. Calls and their results go together or not at all.
func Pair(ms []messages.Message) []*Message {
	out := make([]*Message, len(ms))
	for i := 0; i+1 < len(ms); i++ {
		if ms[i].Native == "" || ms[i+1].Native == "" || ms[i].Role != messages.RoleAssistant || ms[i+1].Role != messages.RoleUser {
			continue
		}
		var calling, came Message
		if json.Unmarshal([]byte(ms[i].Native), &calling) != nil || json.Unmarshal([]byte(ms[i+1].Native), &came) != nil ||
			len(calling.Calls) == 0 || len(calling.Calls) != len(came.Results) || came.Shown > len(ms[i+1].Text) {
			continue
		}
		if more := strings.TrimSpace(ms[i+1].Text[came.Shown:]); more != "" {
			came.Rest = strings.TrimSpace(came.Rest + "\n\n" + more)
		}
		out[i], out[i+1] = &calling, &came
	}
	return out
}

// Object is a call's arguments as a JSON object; those that are none are an empty one,
// because providers take nothing else back.
func (c *Call) Object() jsontext.Value {
	v := jsontext.Value(strings.TrimSpace(c.Args))
	if v.Kind() != '{' || !v.IsValid() {
		return jsontext.Value("{}")
	}
	return v
}
