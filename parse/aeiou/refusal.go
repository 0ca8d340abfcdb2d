package aeiou

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/seed14be6753/stile/messages"
)

// Why a reply is refused: what it is, and what to write instead. The model reads it in the
// next author message, behind which Render says what a program looks like.
const (
	refusedEmpty   = "there is no program; write a program: `command`, statements, `endcommand`"
	refusedThought = "the reply holds a thought and no program; write the program behind it: `command`, statements, `endcommand`"
	refusedAnswer  = "the reply holds no program, so the user has not seen it; to answer, `emit` the text in a program: `command`, `emit '''your text'''`, `emit tool.aeiou.magic(\"LOOP\", {\"action\": \"done\"})`, `endcommand`"
	refusedBare    = "the statements stand in no program; put a line `command` in front of them and a line `endcommand` behind them"
	refusedStray   = "a statement stands outside of the program, and nothing was run; write all statements between `command` and `endcommand`"
	refusedControl = "JSON ends no turn; a program does: `command`, `emit tool.aeiou.magic(\"LOOP\", {\"action\": \"done\"})`, `endcommand`"
	refusedJSON    = "JSON runs nothing here; write a program: `command`, statements, `endcommand`"
	refusedTags    = "tags call nothing here; write a program: `command`, statements, `endcommand`, with calls such as `set r = tool.group.name(\"…\")`"
	refusedCut     = "the reply was cut at the model's length limit, and nothing of it was run; write a shorter program, or do the work in several turns with \"continue\""
)

// refusedTwo names the two places of a reply where a program may begin.
func refusedTwo(b []byte, first, second int) string {
	one, _ := place(b, first)
	two, _ := place(b, second)
	return fmt.Sprintf("the reply holds a program from line %d on and more of one in line %d, and nothing was run; write exactly one program", one, two)
}

// refusal says what a reply, or its ACTIONS, is that holds no program.
func (s *search) refusal(text []byte) string {
	if s.thought && !s.text {
		return refusedThought
	}
	text = bytes.Trim(bytes.TrimPrefix(text, []byte(bom)), white)
	if s.thought {
		text = withoutThoughts(text)
	}
	if fence, rest, ok := bytes.Cut(text, []byte{'\n'}); ok && bytes.HasPrefix(fence, []byte("```")) {
		text = bytes.Trim(bytes.TrimSuffix(bytes.TrimRight(rest, white), []byte("```")), white)
	}
	switch {
	case len(text) == 0:
		return refusedEmpty
	case text[0] == '{' || text[0] == '[':
		return refusedValue(text)
	case text[0] == '<':
		return refusedTags
	}
	for line := range bytes.Lines(text) {
		word, _, _ := bytes.Cut(trimLine(line), []byte(" "))
		switch string(word) {
		case "emit", "set", "call", "whisper":
			return refusedBare
		}
	}
	return refusedAnswer
}

// withoutThoughts is a text behind its first thought.
func withoutThoughts(text []byte) []byte {
	for _, tag := range thoughts {
		if end := endOfThought(text, 0, tag); end >= 0 {
			return bytes.Trim(text[end:], white)
		}
	}
	return text
}

// refusedValue says what JSON is that stands where a program belongs: a call, or what a
// token is asked for with.
func refusedValue(text []byte) string {
	var call struct {
		Name      string          `json:"name"`
		Tool      string          `json:"tool"`
		Action    json.RawMessage `json:"action"`
		Function  json.RawMessage `json:"function"`
		ToolCalls []struct {
			Function json.RawMessage `json:"function"`
		} `json:"tool_calls"`
	}
	if text[0] == '[' {
		var all []json.RawMessage
		if json.Unmarshal(text, &all) != nil || len(all) == 0 {
			return refusedJSON
		}
		text = all[0]
	}
	if json.Unmarshal(text, &call) != nil {
		return refusedJSON
	}
	if len(call.ToolCalls) > 0 {
		call.Function = call.ToolCalls[0].Function
	}
	name := call.Name + call.Tool
	if name == "" && len(call.Function) > 0 {
		var f struct {
			Name string `json:"name"`
		}
		if json.Unmarshal(call.Function, &name) != nil && json.Unmarshal(call.Function, &f) == nil {
			name = f.Name
		}
	}
	var action string
	switch {
	case isToolName(name):
		return "a call written as JSON is not run; write it in a program: `command`, `set r = tool." + strings.TrimPrefix(name, "tool.") + "(…)`, `emit r`, `emit tool.aeiou.magic(…)`, `endcommand`"
	case json.Unmarshal(call.Action, &action) == nil:
		return refusedControl
	}
	return refusedJSON
}

// isToolName reports whether a name is one that a program could call.
func isToolName(name string) bool {
	if name == "" || len(name) > 64 {
		return false
	}
	for _, c := range []byte(name) {
		if c != '.' && c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// cureOfToken says how a turn ends that ended without a valid token.
func cureOfToken(code messages.Code, out []byte) string {
	const right = "the last line of a program is `emit tool.aeiou.magic(\"LOOP\", {\"action\": \"done\"})`, or with \"continue\" or \"abort\""
	switch {
	case code != messages.ErrTokenMissing:
		return "a token is never typed or copied: " + right
	case bytes.Contains(out, []byte(candidatePrefix)):
		return "it stands inside other text; emit it alone: " + right
	}
	return "emit what tool.aeiou.magic returns: " + right
}

// curedEnvelope adds to the fault of an envelope what to write instead.
func curedEnvelope(f fault) string {
	switch f.code {
	case messages.ErrEnvSize:
		return f.detail
	default:
		return f.detail + "; the program alone is enough, from `command` to `endcommand`, without an envelope"
	}
}
