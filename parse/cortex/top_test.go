package cortex

import (
	"testing"

	"github.com/seed14be6753/stile/messages"
)

const run1 = "<action id=\"a\">{\"name\":\"f\"}</action>"

// What a reply without blocks is, and what stands around blocks, however it is cut.
func TestTextAroundBlocks(t *testing.T) {
	for _, c := range []struct{ reply, want string }{
		// A bare answer.
		{"Hello!", `bare "Hello!"`},
		{"", ""},
		{" \n", ""},
		{"Use <br>, a < b and Map<String>.", `bare "Use <br>, a < b and Map<String>."`},
		{"<b>bold</b>", `bare "<b>bold</b>"`},
		{"```go\nfmt.Println(1)\n```", "bare \"```go\\nfmt.Println(1)\\n```\""},
		{"<thought>hm</thought>\nHello!", `thought:"hm" bare "Hello!"`},
		{"Let me see.\n<thought>hm</thought>\n", `text:"Let me see." thought:"hm"`},
		{"Hello!</response>", `bare "Hello!"`},
		{"Sure!\n" + run1 + "\nSo.", `text:"Sure!" f() text:"So."`},
		{"{\"city\": \"Brno\", \"name\": \"x\"}", `bare "{\"city\": \"Brno\", \"name\": \"x\"}"`},
		// Reasoning.
		{"<think>\nmaybe <response>\n</think>\n\nHello!", `think thought:"maybe <response>" bare "Hello!"`},
		{"<thinking>\n" + run1 + "\n<response>draft</response>\n</thinking>\n<response>Hi</response>", `think thought:"` + `<action id=\"a\">{\"name\":\"f\"}</action>\n<response>draft</response>" "Hi"`},
		{"It greets.\n</think>\n\nHello!", `thought:"It greets." think bare "Hello!"`},
		{"It greets.</think>\n<response>Hi</response>", `thought:"It greets." think "Hi"`},
		{"It ends with </think> or `</think>`.", "bare \"It ends with </think> or `</think>`.\""},
		{"R1 writes <think> first.", `bare "R1 writes <think> first."`},
		{"<think>\nno end", `think thought:"no end" !unclosed_thought`},
		{"<think>\nno end\n<response>\nBerlin.\n</response>", `think thought:"no end\n<response>\nBerlin.\n</response>" "Berlin."`},
		{"<think>\nno end\n<response final=false>\nBerlin.\n</response>" + run1, `think thought:"no end\n<response final=false>\nBerlin.\n</response><action id=\"a\">{\"name\":\"f\"}</action>" "Berlin."… !unclosed_thought`},
		{"<Thought>hm</Thought>\nHello!", `think thought:"hm" bare "Hello!"`},
		// Code fences.
		{"```xml\n<response>\nHi\n</response>\n```", `fence "Hi"`},
		{"```xml\n" + run1 + "\n```", "fence f()"},
		{"\n~~~~\n" + run1 + "\n~~~~\n\n", "fence f()"},
		{"```xml\n" + run1 + "\n```\n```xml\n<action id=\"b\">{\"name\":\"g\"}</action>\n```", "fence f() fence g()"},
		{"```\n<response>\n```js\nrun()\n```\nok\n</response>\n```", "fence \"```js\\nrun()\\n```\\nok\""},
		{"```\n<response>\nHi\n```", `fence "Hi" closing`},
		{"Here:\n```xml\n<response>\nHi\n</response>\n```", `fence "Hi"`},
		{"Write this:\n```xml\n" + run1 + "\n```\nto call.", `text:"Write this:\n` + "```xml\\n<action id=\\\"a\\\">{\\\"name\\\":\\\"f\\\"}</action>\\n```" + `\nto call." !fenced_block`},
		{"<response>Hi</response>\n```xml\n" + run1 + "\n```", `"Hi" fence f()`},
		// Calls of other houses.
		{`{"name": "f", "arguments": {"a": 1}}`, `text:"{\"name\": \"f\", \"arguments\": {\"a\": 1}}" !foreign_call`},
		{"```json\n[{\"name\": \"f\", \"parameters\": {}}]\n```", "text:\"```json\\n[{\\\"name\\\": \\\"f\\\", \\\"parameters\\\": {}}]\\n```\" !foreign_call"},
		{`{'name': 'f', 'arguments': {}}`, `text:"{'name': 'f', 'arguments': {}}" !foreign_call`},
		{`{"name": "f", "arguments": {"a`, `text:"{\"name\": \"f\", \"arguments\": {\"a" !foreign_call`},
		{"<tool_call>\n{}\n</tool_call>", `text:"<tool_call>\n{}\n</tool_call>" !foreign_call`},
		{"I look.\n<function=f>{}</function>", `text:"I look.\n<function=f>{}</function>" !foreign_call`},
		{"[TOOL_CALLS] [{}]", `text:"[TOOL_CALLS] [{}]" !foreign_call`},
		{"<|python_tag|>f.call()", `text:"<|python_tag|>f.call()" !foreign_call`},
		{"[f.g(a=1)]", `text:"[f.g(a=1)]" !foreign_call`},
		{"Thought: hm\nAction: f\nAction Input: {}", `text:"Thought: hm\nAction: f\nAction Input: {}" !foreign_call`},
		{"A call looks so:\n```json\n{\"name\": \"f\", \"arguments\": {}}\n```\nin JSON.", "bare \"A call looks so:\\n```json\\n{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": {}}\\n```\\nin JSON.\""},
		{"<response>I look.</response>\n<tool_call>{}</tool_call>", `"I look." !foreign_call text:"<tool_call>{}</tool_call>"`},
		// Tags in another case.
		{"<Response>\nHi\n</Response>", `case "Hi"`},
		{"Sure!\n<RESPONSE final=\"false\">\nHi\n</response>\nBye", `text:"Sure!" case "Hi"…`},
		{"<Action>{\"name\":\"f\"}</Action>", `text:"<Action>{\"name\":\"f\"}</Action>" !tag_case`},
		// A mark in inline code.
		{"Say `<action>{\"name\":\"f\"}</action>` or `<response>`.", "bare \"Say `<action>{\\\"name\\\":\\\"f\\\"}</action>` or `<response>`.\""},
		{"It's a `tick: <action>{\"name\":\"f\"}</action>", `text:"It's a ` + "`tick:\" f()"},
		// A closer that is missing.
		{"<response>\nHi", `"Hi" closing`},
		{"<action id=\"a\">{\"name\":\"f\"}\n", "closing f()"},
		{"<action id=\"a\">{\"name\":\"f\"", "!unclosed_action"},
	} {
		if got := brief(everyCut(t, lenient, c.reply)); got != c.want {
			t.Errorf("%q:\n%s, want\n%s", c.reply, got, c.want)
		}
	}
}

// A reply that was cut is not complete: nothing of it is final, and nothing open runs.
func TestCutReplies(t *testing.T) {
	for reply, want := range map[string]string{
		"The causes are":                    `"The causes are"…`,
		"<response>The causes are":          `"The causes are"… !unclosed_response`,
		"<action id=\"a\">{\"name\":\"f\"}": "!unclosed_action",
		"<Response>The causes are":          `case "The causes are"…`,
		"```\n<response>\nThe causes":       `fence "The causes"… !unclosed_response`,
	} {
		if got := brief(decode(t, lenient, messages.FinishLength, []byte(reply))); got != want {
			t.Errorf("%q: %s, want %s", reply, got, want)
		}
	}
}

// Who is told, and says the same again, means it as the answer, unless nothing else is in it.
func TestSaidAgain(t *testing.T) {
	for reply, want := range map[string]string{
		"So:\n```xml\n" + run1 + "\n```":                          "bare \"So:\\n```xml\\n<action id=\\\"a\\\">{\\\"name\\\":\\\"f\\\"}</action>\\n```\"",
		"So:\n```json\n{\"name\": \"f\", \"arguments\": {}}\n```": "bare \"So:\\n```json\\n{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": {}}\\n```\"",
		`{"name": "f", "arguments": {}}`:                          `text:"{\"name\": \"f\", \"arguments\": {}}" !foreign_call`,
		"```xml\n" + run1 + "\n```":                               "fence f()",
	} {
		r := decodeIn(t, lenient, messages.TurnInfo{State: []byte(idle)}, messages.FinishComplete, []byte(reply))
		if got := brief(r); got != want {
			t.Errorf("%q: %s, want %s", reply, got, want)
		}
	}
}
