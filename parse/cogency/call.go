package cogency

import (
	"strconv"
	"strings"

	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/scan"
)

// The names that other interfaces have for the members of a call, and members beside them.
var (
	nameWords = []string{"name", "tool", "function", "tool_name", "function_name", "action"}
	argsWords = []string{"args", "arguments", "parameters", "params", "input", "tool_input", "action_input"}
	restWords = []string{"id", "call_id", "tool_call_id", "index", "type", "thought", "thoughts", "reason", "reasoning", "explanation", "mode", "depends_on"}
	// callLists are members that hold calls.
	callLists = []string{"tool_calls", "function_call", "calls", "tool_uses"}
)

// member is a member of an object, with its value in normal form.
type member struct{ key, value string }

// membersOf takes an object in normal form apart.
func membersOf(object string) []member {
	j := scan.JSON{MaxDepth: scan.MaxJSONDepth + batchDepth, Keep: 1}
	if j.Write([]byte(object)) < len(object) || !j.End() {
		return nil
	}
	text, pairs := string(j.Bytes()), j.Members()
	all := make([]member, len(pairs))
	for i, p := range pairs {
		all[i] = member{stringOf(text[p.Key:p.KeyEnd]), text[p.Value:p.ValueEnd]}
	}
	return all
}

// elementsOf takes an array in normal form apart.
func elementsOf(array string) (all []string) {
	depth, from, inside := 0, 1, false
	for i := 0; i < len(array); i++ {
		switch c := array[i]; {
		case inside && c == '\\':
			i++
		case c == '"':
			inside = !inside
		case inside:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth == 0 && i > from {
				all = append(all, array[from:i])
			}
		case c == ',' && depth == 1:
			all = append(all, array[from:i])
			from = i + 1
		}
	}
	return all
}

// leniently reads a batch that breaks docs/spec/cogency.md §1, as far as its habits are forgiven.
// problem is what is wrong with the first call that is ambiguous or not forgiven.
func (d *decoder) leniently(text string) (calls []call, used parse.Habits, problem string) {
	elements := []string{text}
	switch {
	case text[0] == '[':
		elements = elementsOf(text)
	case text[0] != '{':
		return nil, 0, "the batch is no array of calls"
	case listed(text):
		return nil, 0, "the array of calls stands inside an object: write the array alone"
	case !d.forgive.Has(parse.HabitSingle):
		return nil, 0, "the batch is an object: write an array of calls, also around one: [{…}]"
	default:
		used = parse.HabitSingle
	}
	for i, e := range elements {
		c, of, wrong := readElement(e)
		if missing := of &^ d.forgive; wrong == "" && missing != 0 {
			wrong = strict(missing)
		}
		if wrong != "" {
			return nil, 0, "call " + strconv.Itoa(i+1) + " " + wrong
		}
		used |= of
		calls = append(calls, c)
	}
	return calls, used, ""
}

// strict returns the mistake of a habit that is not forgiven.
func strict(habit parse.Habits) string {
	if habit.Has(parse.HabitStrings) {
		return `has a string as "args": write an object`
	}
	return `needs the members "name" and "args"`
}

// listed reports whether an object has a list of calls.
func listed(object string) bool {
	for _, m := range membersOf(object) {
		if has(callLists, m.key) {
			return true
		}
	}
	return false
}

// readElement reads one call whatever the names of its members are. of are the habits that it
// shows; wrong is why it is ambiguous, "" if it is not.
func readElement(text string) (c call, of parse.Habits, wrong string) {
	if text[0] != '{' {
		return c, 0, `is no object: write {"name": …, "args": {…}}`
	}
	all := membersOf(text)
	for i := range all { // OpenAI's: {"type": "function", "function": {"name": …, "arguments": "…"}}
		if m := &all[i]; m.key == "function" && m.value[0] == '{' {
			if c, of, wrong = readElement(m.value); wrong == "" {
				of |= parse.HabitAliases
			}
			return c, of, wrong
		}
	}
	name, alias, twice := pick(all, nameWords, func(v string) bool { return stringOf(v) != "" })
	switch {
	case twice:
		return c, 0, `has two members that may be its name: write "name" alone`
	case name == "":
		return c, 0, `has no "name", the name of a tool as a string; it has ` + keys(all)
	}
	if c.name = stringOf(name); alias {
		of |= parse.HabitAliases
	}
	args, alias, twice := pick(all, argsWords, func(string) bool { return true })
	switch {
	case twice:
		return c, 0, `has two members that may be its arguments: write "args" alone`
	case args == "" || args == "null":
		for _, m := range all {
			if !has(nameWords, m.key) && !has(argsWords, m.key) && !has(restWords, m.key) {
				return c, 0, `has no "args": write its arguments into an object, "args": {` + quoted(m.key) + `: …}`
			}
		}
		c.args, alias = "{}", true
	case args[0] == '{':
		c.args = args
	case args[0] == '"':
		if c.args = objectIn(stringOf(args)); c.args == "" {
			return c, 0, `has a string as "args": write an object`
		}
		of |= parse.HabitStrings
	default:
		return c, 0, `has "args" that are no object: write {"parameter": value}`
	}
	if alias {
		of |= parse.HabitAliases
	}
	return c, of, ""
}

// pick returns the value of the member with one of the names in words: of the first name if it
// is there, else of the only other one. The last of repeated members counts.
func pick(all []member, words []string, fits func(value string) bool) (value string, alias, twice bool) {
	found := ""
	for _, m := range all {
		if !has(words, m.key) || !fits(m.value) {
			continue
		}
		switch {
		case m.key == words[0] || found == "" || found == m.key:
			if found != words[0] || m.key == words[0] {
				found, value = m.key, m.value
			}
		case found != words[0]:
			twice = true
		}
	}
	if found == words[0] {
		return value, false, false
	}
	return value, found != "", twice
}

// objectIn returns the JSON object that a string holds; "" if it holds none. An empty string
// means no arguments.
func objectIn(text string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return "{}"
	}
	j := scan.JSON{}
	if j.Write([]byte(text)) < len(text) || !j.End() || j.Bytes()[0] != '{' {
		return ""
	}
	return string(j.Bytes())
}

func has(words []string, word string) bool {
	for _, w := range words {
		if w == word {
			return true
		}
	}
	return false
}

// maxShownKeys is how many members of a call are named in an error.
const maxShownKeys = 6

// keys lists the names of members for an error.
func keys(all []member) string {
	if len(all) == 0 {
		return "no members"
	}
	var b strings.Builder
	for i, m := range all {
		if i == maxShownKeys {
			b.WriteString(", …")
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(quoted(m.key))
	}
	return b.String()
}

// quoted returns a name that the model wrote, as an error shows it.
func quoted(name string) string {
	const most = 40
	r := []rune(parse.OneLine(name))
	if len(r) > most {
		r = append(r[:most], '…')
	}
	return strconv.Quote(string(r))
}
