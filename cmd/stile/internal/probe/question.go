package probe

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/seed14be6753/stile/messages"
)

// Question is one thing that is asked, with what its tools answer.
type Question struct {
	Name  string // a word or two for the report
	Texts []string
	// Results are the canned results, JSON by the name of the tool; Failure is what every
	// other call fails with.
	Results map[string]string
	Failure string
	// Calls are the names of tools of which one must be called; none when it is empty.
	Calls []string
	// Words must stand in the last answer. They are made up for this question, so that an
	// answer without them did not come from the results.
	Words []string
}

// Questions are the handful that suits an agent. specs are what it may call, but for pure
// tools; word gives a word that no model can guess, another one each time.
func Questions(dialect string, specs []messages.ToolSpec, word func() string) []Question {
	all := []Question{
		{Name: "greeting", Texts: []string{"Say hello to me in one short sentence."}},
		{Name: "markup", Texts: []string{"Show me a JSON object with the members name and args, in a code block, as an example. Do not call anything."}, Words: []string{"args"}},
	}
	usable := callable(specs)
	if dialect == "plain" || len(usable) == 0 {
		return all
	}
	if dialect == "kitsu" {
		return append(all, companion(usable, word)...)
	}
	first := usable[0]
	one, again := word(), word()
	all = append(all, Question{
		Name: "one call", Texts: []string{"Call " + shown(first) + " and tell me the code word in its result, letter by letter as it stands there."},
		Results: map[string]string{first.Name: result(one)}, Calls: []string{first.Name}, Words: []string{one},
	}, Question{
		Name: "second message", Texts: []string{
			"Call " + shown(first) + " and tell me the code word in its result, letter by letter as it stands there.",
			"Which code word was it? Answer without calling anything.",
		},
		Results: map[string]string{first.Name: result(again)}, Calls: []string{first.Name}, Words: []string{again},
	})
	if len(usable) > 1 {
		second := usable[1]
		a, b := word(), word()
		all = append(all, Question{
			Name: "two calls", Texts: []string{"Call " + shown(first) + " and " + shown(second) + ". Tell me the code words in both results."},
			Results: map[string]string{first.Name: result(a), second.Name: result(b)}, Calls: []string{first.Name, second.Name}, Words: []string{a, b},
		})
	}
	cause := word()
	return append(all, Question{
		Name: "failing call", Texts: []string{"Call " + shown(first) + ". If it fails, tell me the error word that it fails with, and do not call it again."},
		Failure: "not possible, error word " + cause, Words: []string{cause},
	})
}

// companion are the questions for action tokens.
func companion(usable []messages.ToolSpec, word func() string) (all []Question) {
	for _, t := range usable {
		switch t.Name {
		case "search":
			w := word()
			found := `[{"title":"Kestrels","snippet":"The code word is ` + w + `.","url":"https://example.org/1"}]`
			all = append(all, Question{
				Name: "search", Texts: []string{"Search for kestrels and tell me the code word in what you find, letter by letter."},
				Results: map[string]string{t.Name: found}, Calls: []string{t.Name}, Words: []string{w},
			})
		case "get_time":
			all = append(all, Question{
				Name: "time", Texts: []string{"Ask for the time and tell it to me, in hours and minutes of the 24-hour clock."},
				Results: map[string]string{t.Name: `"2031-03-14T15:09:26Z"`}, Calls: []string{t.Name}, Words: []string{"15:09"},
			})
		}
	}
	return all
}

// callable are the tools that a question can name an example of: their parameters that
// must be given are scalars. Those with the fewest come first, and otherwise their order
// stays.
func callable(specs []messages.ToolSpec) []messages.ToolSpec {
	var out []messages.ToolSpec
	count := map[string]int{}
	for _, t := range specs {
		args, ok := example(t.Schema)
		if t.Type != "" && t.Type != messages.TypeTool || !ok {
			continue
		}
		count[t.Name] = len(args)
		out = append(out, t)
	}
	slices.SortStableFunc(out, func(a, b messages.ToolSpec) int { return count[a.Name] - count[b.Name] })
	return out
}

// result is what a call gives that holds a word.
func result(word string) string { return `"The code word is ` + word + `."` }

// shown is a call in words: the tool, and an example of its arguments.
func shown(t messages.ToolSpec) string {
	args, _ := example(t.Schema)
	if len(args) == 0 {
		return "the tool " + t.Name
	}
	return "the tool " + t.Name + " with " + strings.Join(args, " and ")
}

// example returns "name = value" for the parameters that must be given, in their order; ok is
// false when one is no scalar.
func example(schema string) (args []string, ok bool) {
	if schema == "" {
		return nil, true
	}
	var s struct {
		Properties map[string]struct {
			Type string `json:"type"`
			Enum []any  `json:"enum"`
		} `json:"properties"`
		Required []string `json:"required"`
	}
	if json.Unmarshal([]byte(schema), &s) != nil {
		return nil, false
	}
	for _, name := range s.Required {
		p := s.Properties[name]
		value := ""
		switch {
		case len(p.Enum) > 0:
			value = fmt.Sprintf("%v", p.Enum[0])
		case p.Type == "string":
			value = `"kestrel"`
		case p.Type == "integer", p.Type == "number":
			value = "3"
		case p.Type == "boolean":
			value = "true"
		default:
			return nil, false
		}
		args = append(args, name+" = "+value)
	}
	return args, true
}
