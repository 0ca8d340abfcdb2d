package kitsu

import (
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxForeign bounds the text that may be a call in another form: models write them short.
const maxForeign = 8 << 10

// foreign finds a call in another form than a token: JSON of a function call, an element,
// brackets, a call as of a program, or "Action:" and "Action Input:" on lines. Either the
// reply is nothing else, or one of the sure forms ends it. nil is none: what may be an
// answer is one.
func foreign(text string) *complaint {
	if len(text) > maxForeign {
		return nil
	}
	text = unfenced(strings.TrimSpace(text))
	if text == "" {
		return nil
	}
	for _, read := range []func(string) (string, bool){jsonCall, elementCall, bracketCall, programCall} {
		if name, ok := read(text); ok {
			return &complaint{action: name, reason: OtherForm, whole: true, stands: true}
		}
	}
	if name, ok := linesCall(text); ok {
		return &complaint{action: name, reason: OtherForm, whole: true, stands: true}
	}
	// The last block of a text, where only calls of our own actions count.
	i := max(strings.LastIndex(text, "\n{"), strings.LastIndex(text, "\n```"), strings.LastIndex(text, "\n<tool_call>"), strings.LastIndex(text, "\n["))
	if strings.HasSuffix(text, "```") { // the last one ends the block
		if j := strings.LastIndex(text[:len(text)-3], "```"); j >= 0 {
			i = j
		}
	}
	if i <= 0 {
		return nil
	}
	last := unfenced(strings.TrimSpace(text[i:]))
	for _, read := range []func(string) (string, bool){jsonCall, elementCall, bracketCall} {
		if name, ok := read(last); ok && known(name) {
			return &complaint{action: name, reason: OtherForm, stands: true}
		}
	}
	return nil
}

// unfenced is a text without the code fence around the whole of it.
func unfenced(text string) string {
	first, rest, more := strings.Cut(text, "\n")
	if !more || !fence(strings.TrimSpace(first)) {
		return text
	}
	switch strings.ToLower(strings.Trim(first, "`~ \t\r")) {
	case "", "json", "text", "plaintext", "tool_call", "tool_code", "tool", "action":
	default:
		return text // a program that was asked for
	}
	body, ok := strings.CutSuffix(strings.TrimSpace(rest), "```")
	if !ok || strings.Contains(body, "\n```") {
		return text
	}
	return strings.TrimSpace(body)
}

func known(name string) bool {
	for _, f := range forms {
		if name == string(f.kind) {
			return true
		}
	}
	return false
}

// jsonCall reads {"name": …, "arguments": …} and its many relatives, alone, in an array, or
// within "tool_calls" or "function".
func jsonCall(text string) (name string, ok bool) {
	v := jsontext.Value(text)
	if !v.IsValid(jsontext.AllowDuplicateNames(true)) {
		return "", false
	}
	return callIn(v, 0)
}

func callIn(v jsontext.Value, depth int) (name string, ok bool) {
	if depth > 3 {
		return "", false
	}
	switch v.Kind() {
	case '[':
		var all []jsontext.Value
		if json.Unmarshal(v, &all, jsontext.AllowDuplicateNames(true)) != nil || len(all) == 0 {
			return "", false
		}
		return callIn(all[0], depth+1)
	case '{':
	default:
		return "", false
	}
	var members map[string]jsontext.Value
	if json.Unmarshal(v, &members, jsontext.AllowDuplicateNames(true)) != nil {
		return "", false
	}
	for _, key := range [...]string{"tool_calls", "function_call", "function", "tool_call"} {
		if inner, nested := members[key]; nested && inner.Kind() != '"' {
			return callIn(inner, depth+1)
		}
	}
	for _, key := range [...]string{"name", "tool", "tool_name", "function", "action"} {
		if members[key].Kind() != '"' || json.Unmarshal(members[key], &name) != nil {
			continue
		}
		name = strings.ToLower(strings.TrimPrefix(name, "action:"))
		for _, args := range [...]string{"arguments", "args", "parameters", "params", "input", "action_input", "tool_input", "kwargs"} {
			if _, has := members[args]; has {
				return name, true
			}
		}
		if _, query := members["query"]; known(name) && (query || len(members) == 1) {
			return name, true
		}
	}
	return "", false
}

var (
	elements = regexp.MustCompile(`(?is)^<\|?(tool_calls?|function_calls?|tools?|function|invoke|execute|python_tag|tool_use|search|get_time|continue|action)\b[^<>]*>`)
	brackets = regexp.MustCompile("(?is)^(?:[\\[({<*_`]+\\s*tool_calls\\]|(?:[\\[({<*_`]+\\s*action\\s*:\\s*|[\\[({<*_`]+\\s*action\\s+|action:)(search|get_time|continue)\\b[^\\n]*$)")
	programs = regexp.MustCompile("(?is)^`?(?:[a-z_]+\\.)?(search|web_search|get_time|get_current_time|continue)\\(([^()]*)\\)[;`]*$")
	within   = regexp.MustCompile(`(?i)\b(search|get_time|continue)\b`)
	action   = regexp.MustCompile(`(?im)^\W*action\W*:\W*([a-z_]+)\W*$`)
	input    = regexp.MustCompile(`(?im)^\W*action input\W*:`)
)

// elementCall reads elements such as <tool_call>…</tool_call> or <search query="x"/>: the
// text is one tag, or one element; of those that are made for calls the tag is enough.
func elementCall(text string) (name string, ok bool) {
	m := elements.FindStringSubmatch(text)
	if m == nil {
		return "", false
	}
	word := strings.ToLower(m[1])
	switch lone := len(m[0]) == len(text); {
	case strings.HasPrefix(word, "tool_") || strings.HasPrefix(word, "function_") || word == "python_tag":
	case lone && (known(word) || within.MatchString(m[0])):
	case !lone && strings.HasSuffix(strings.ToLower(text), "</"+word+">"):
	default:
		return "", false
	}
	if known(word) {
		return word, true
	}
	return strings.ToLower(within.FindString(text)), true
}

// bracketCall reads tokens in other brackets or none: [action:search query="x"],
// < action:search>, action search "x".
func bracketCall(text string) (name string, ok bool) {
	m := brackets.FindStringSubmatch(text)
	if m == nil {
		return "", false
	}
	if name = strings.ToLower(m[1]); name == "" {
		name = strings.ToLower(within.FindString(text))
	}
	return name, true
}

// programCall reads search("x") and get_time().
func programCall(text string) (name string, ok bool) {
	m := programs.FindStringSubmatch(text)
	if m == nil {
		return "", false
	}
	switch name = strings.ToLower(m[1]); name {
	case "web_search":
		name = string(Search)
	case "get_current_time":
		name = string(GetTime)
	}
	return name, true
}

// linesCall reads "Action: search" with "Action Input: x" behind it.
func linesCall(text string) (name string, ok bool) {
	m := action.FindStringSubmatchIndex(text)
	if m == nil || !input.MatchString(text[m[1]:]) {
		return "", false
	}
	return strings.ToLower(text[m[2]:m[3]]), true
}
