package cogency

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/internal/parsetest"
)

// second is the dialect of rendering 2 as a manifest without settings has it.
var second = Dialect{Rendering: 2, Forgive: parse.AllHabits}

const (
	oneCall = `{"name": "read", "args": {"file": "a"}}`
	oneDone = `call {"name":"read","args":{"file":"a"}}|execute`
)

// forgiven are replies that have one meaning, in another form than the dialect's.
var forgiven = []struct{ name, reply, want, lints string }{
	{"the dialect's own form", "<execute>[" + oneCall + "]</execute>", oneDone, ""},
	{"a fence in the batch", "<execute>\n```json\n[" + oneCall + "]\n```\n</execute>", oneDone, "fence"},
	{"a fence without a word", "<execute>```\n[" + oneCall + "]```</execute>", oneDone, "fence"},
	{"a fence with a word of JSON's letters", "<execute>```text\n[" + oneCall + "]\n```</execute>", oneDone, "fence"},
	{"a fence and the array in one line", "<execute>```json [" + oneCall + "]```</execute>", oneDone, "fence"},
	{"backticks around the array", "<execute>`[" + oneCall + "]`</execute>", oneDone, "fence"},
	{"a fence that is not closed", "<execute>```json\n[" + oneCall + "]</execute>", oneDone, "fence"},
	{"a fence around it all", "```xml\n<execute>[" + oneCall + "]</execute>\n```", oneDone, "fence"},
	{"a fence behind a sentence", "Let me look.\n\n```\n<execute>[" + oneCall + "]</execute>\n```", "respond Let me look.|" + oneDone, "fence"},
	{"a fence within a fence", "```xml\n<execute>\n```json\n[" + oneCall + "]\n```\n</execute>\n```", oneDone, "fence"},
	{"a comma behind the last call", "<execute>[" + oneCall + ",]</execute>", oneDone, "commas"},
	{"commas behind members", `<execute>[{"name": "read", "args": {"file": "a",},},]</execute>`, oneDone, "commas"},
	{"a comma in a string stays", `<execute>[{"name": "w", "args": {"c": "[1,];{b:1,}"}},]</execute>`, `call {"name":"w","args":{"c":"[1,];{b:1,}"}}|execute`, "commas"},
	{"a line end in a string", "<execute>[{\"name\": \"w\", \"args\": {\"c\": \"a\n\tb\"}}]</execute>", `call {"name":"w","args":{"c":"a\n\tb"}}|execute`, "controls"},
	{"a marker in a string with a line end", "<execute>[{\"name\": \"w\", \"args\": {\"c\": \"a\n<end>\"}}]</execute>", `call {"name":"w","args":{"c":"a\n<end>"}}|execute`, "controls"},
	{"arguments", `<execute>[{"name": "read", "arguments": {"file": "a"}}]</execute>`, oneDone, "aliases"},
	{"parameters and id", `<execute>[{"id": "c1", "type": "function", "name": "read", "parameters": {"file": "a"}}]</execute>`, oneDone, "aliases"},
	{"tool and input", `<execute>[{"tool": "read", "input": {"file": "a"}}]</execute>`, oneDone, "aliases"},
	{"action and action_input", `<execute>[{"action": "read", "action_input": {"file": "a"}}]</execute>`, oneDone, "aliases"},
	{"args goes before arguments", `<execute>[{"arguments": 5, "name": "read", "tool": "x", "args": {"file": "a"}}]</execute>`, oneDone, ""},
	{"a function in a call", `<execute>[{"type": "function", "function": {"name": "read", "arguments": "{\"file\": \"a\"}"}}]</execute>`, oneDone, "aliases strings"},
	{"arguments in a string", `<execute>[{"name": "read", "args": "{\"file\": \"a\"}"}]</execute>`, oneDone, "strings"},
	{"no arguments in a string", `<execute>[{"name": "list", "arguments": ""}]</execute>`, `call {"name":"list","args":{}}|execute`, "aliases strings"},
	{"no arguments", `<execute>[{"name": "list"}]</execute>`, `call {"name":"list","args":{}}|execute`, "aliases"},
	{"null arguments", `<execute>[{"name": "list", "args": null}]</execute>`, `call {"name":"list","args":{}}|execute`, "aliases"},
	{"one call", "<execute>" + oneCall + "</execute>", oneDone, "single"},
	{"one call with repeated and unsorted members", `<execute>{"name":"x","args":{"b":1,"a":2,"b":3},"name":"t"}</execute>`, `call {"name":"t","args":{"a":2,"b":3}}|execute`, "single"},
	{"no closer", "<execute>[" + oneCall + "]", oneDone, "closing"},
	{"no closer, a fence", "<execute>\n```json\n[" + oneCall + "]\n```", oneDone, "fence closing"},
	{"all at once", "<execute>```json\n{\"tool\": \"read\", \"arguments\": {\"file\": \"a\",},}\n```</execute>", oneDone, "fence commas aliases single"},
	{"another tag for a thought", "<thinking>\nHm <b>.\n</thinking>\nYes.", "think Hm <b>.|respond Yes.", "think"},
	{"a thought with a capital", "<Think>Hm.</Think>Yes.", "think Hm.|respond Yes.", "think"},
	{"another closer", "<think>Hm.</thinking>Yes.", "think Hm.|respond Yes.", "think"},
	{"reasoning", "<reasoning>Hm.</reasoning>\n<execute>[" + oneCall + "]</execute>", "think Hm.|" + oneDone, "think"},
	{"another tag, not closed", "<thinking>Hm.", "think Hm. partial", "think"},
	{"a thought that the template opened", "The user asks.\n</think>\n\nYes.", "think The user asks.|respond Yes.", "think"},
	{"a thought that the template opened, in one line", "The user asks.</think>Yes.", "think The user asks.|respond Yes.", "think"},
	{"a thought that the template opened, and a batch", "Look at \"a\".\n</think>\n<execute>[" + oneCall + "]</execute>", "think Look at \"a\".|" + oneDone, "think"},
	{"an empty thought that the template opened", "\n</think>\n\nYes.", "respond Yes.", "think"},
	{"nothing behind a thought that the template opened", "The user asks.\n</think>", "think The user asks.", "think"},
	{"the closer in a code fence", "So:\n```\na\n</think>\n```", "respond So:\n```\na\n</think>\n```", ""},
	{"the closer in code", "The `</think>` and </think> tags.", "respond The `</think>` and </think> tags.", ""},
	{"a batch in inline code, and nothing else in the line", "Now:\n`<execute>[" + oneCall + "]</execute>`", "respond Now:\n`|" + oneDone, ""},
	{"a batch behind a backtick", "So `<execute>[" + oneCall + "]</execute> it is.", "respond So `|" + oneDone, ""},
	{"a marker's name", "The `<execute>` and `<end>` markers, `<think>` too.", "respond The `<execute>` and `<end>` markers, `<think>` too.", ""},
}

// Each is read the same however it comes in pieces, each habit is a lint, and no habit is
// forgiven that is switched off.
func TestForgiven(t *testing.T) {
	for _, c := range forgiven {
		t.Run(c.name, func(t *testing.T) {
			got := everyCut(t, second, messages.FinishStop, c.reply)
			if s := short(got.all); s != c.want {
				t.Errorf("%q\ngot  %q\nwant %q", c.reply, s, c.want)
			}
			if s := strings.Join(got.lints, " "); s != c.lints {
				t.Errorf("%q: lints %q, want %q", c.reply, s, c.lints)
			}
			for _, name := range got.lints {
				habit := parse.HabitsOf(name)
				x := second
				x.Forgive &^= habit
				less := everyCut(t, x, messages.FinishStop, c.reply)
				for _, l := range less.lints {
					if l == name {
						t.Errorf("%q: %s is forgiven though it is off: %q", c.reply, name, short(less.all))
					}
				}
			}
		})
	}
}

// refused are replies that may mean something, or nothing: none of their calls runs, nothing
// of them is shown, and the model is told what is wrong.
var refused = []struct{ name, reply, want, told string }{
	{"single quotes", `<execute>[{'name': 'read'}]</execute>`, "execute_json", "single quote"},
	{"a comment", "<execute>[\n// all\n" + oneCall + "]</execute>", "execute_json", "comment"},
	{"a Python word", `<execute>[{"name": "read", "args": {"a": None}}]</execute>`, "execute_json", "None"},
	{"a key without quotes", `<execute>[{name: "read"}]</execute>`, "execute_json", "without quotes"},
	{"a bracket too few", `<execute>[{"name": "read", "args": {"file": "a"}]</execute>`, "execute_json", "bracket"},
	{"a bracket too many", `<execute>[{"name": "read", "args": {"file": "a"}}}]</execute>`, "execute_json", "bracket"},
	{"the last bracket is missing", `<execute>[{"name": "read", "args": {}}</execute>`, "execute_json", "] is missing"},
	{"nothing", `<execute></execute>`, "execute_json", "empty"},
	{"two commas", `<execute>[` + oneCall + `,,]</execute>`, "execute_json", "value"},
	{"objects one under the other", "<execute>\n" + oneCall + "\n" + oneCall + "\n</execute>", "execute_json", "array"},
	{"arrays one under the other", "<execute>[" + oneCall + "]\n[" + oneCall + "]</execute>", "execute_json", "array"},
	{"words behind the array", "<execute>[" + oneCall + "] ok</execute>", "execute_json", "text follows"},
	{"a quote is missing", "<execute>[{\"name\": \"w\", \"args\": {\"c\": \"a\nb}}]</execute>\nI wait.", "execute_json", "not closed"},
	{"a word", "<execute>read a</execute>", "execute_json", "quotes"},
	{"cut off", `<execute>[{"name": "read", "args": {"file": "a`, "execute_unterminated", "</execute>"},
	{"an object of calls", `<execute>{"calls": [` + oneCall + `]}</execute>`, "execute_shape", "array alone"},
	{"a string", `<execute>"read"</execute>`, "execute_shape", "array"},
	{"names alone", `<execute>["read"]</execute>`, "execute_shape", "call 1 is no object"},
	{"no name", `<execute>[` + oneCall + `, {"args": {}}]</execute>`, "execute_shape", `call 2 has no "name"`},
	{"two names", `<execute>[{"tool": "a", "function": "b", "args": {}}]</execute>`, "execute_shape", "two members"},
	{"two arguments", `<execute>[{"name": "a", "parameters": {}, "input": {"b": 1}}]</execute>`, "execute_shape", "two members"},
	{"arguments beside the name", `<execute>[{"name": "read", "file": "a"}]</execute>`, "execute_shape", `"args": {"file"`},
	{"a list of arguments", `<execute>[{"name": "read", "args": ["a"]}]</execute>`, "execute_shape", "no object"},
	{"a text as arguments", `<execute>[{"name": "read", "args": "a"}]</execute>`, "execute_shape", "string"},
	{"a marker with capitals", `<Execute>[` + oneCall + `]</Execute>`, "execute_marker", "lower case"},
	{"a marker in capitals behind text", `Well: <EXECUTE>` + "\n" + `[` + oneCall + `]</EXECUTE>`, "respond Well:|execute_marker", "<execute>"},
	{"a marker with attributes", `<execute lang="json">[` + oneCall + `]</execute>`, "execute_marker", "attributes"},
	{"a marker with a blank", `<execute >[` + oneCall + `]</execute>`, "execute_marker", "blanks"},
	{"a marker with a blank in front", "< execute>\n```json\n[" + oneCall + `]</execute>`, "execute_marker", "blanks"},
	{"a marker with a capital in a fence", "```xml\n<Execute>[" + oneCall + "]</Execute>\n```", "execute_marker", "lower case"},
	{"OpenAI's JSON", `{"name": "read", "arguments": {"file": "a"}}`, "execute_native", "<execute>["},
	{"OpenAI's JSON with a string", `{"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{\"file\": \"a\"}"}}`, "execute_native", "<execute>["},
	{"OpenAI's list", `{"tool_calls": [{"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}]}`, "execute_native", ""},
	{"the array alone", "[\n  " + oneCall + "\n]", "execute_native", ""},
	{"the array in a fence", "```json\n[" + oneCall + "]\n```", "execute_native", ""},
	{"the array in a fence behind text", "I look.\n```json\n[" + oneCall + "]\n```\n", "respond I look.|execute_native", ""},
	{"JSON behind text", "I look.\n\n" + oneCall, "respond I look.|execute_native", ""},
	{"JSON behind a thought", "<think>Hm.</think>\n" + oneCall, "think Hm.|execute_native", ""},
	{"JSON in front of a made-up answer", `{"name": "read", "arguments": {"file": "a"}}` + "\nIt says b.", "execute_native", ""},
	{"JSON with a comma", `{"name": "read", "arguments": {"file": "a",},}`, "execute_native", ""},
	{"JSON that is cut", `{"name": "read", "arguments": {"file": "a`, "execute_native", ""},
	{"tool_call", "<tool_call>\n{\"name\": \"read\", \"arguments\": {\"file\": \"a\"}}\n</tool_call>", "execute_native", ""},
	{"tool_call behind text", "I look.\n<tool_call>{\"name\": \"read\"}</tool_call>", "respond I look.|execute_native", ""},
	{"tool_call in a fence", "```xml\n<tool_call>{\"name\": \"read\"}</tool_call>\n```", "execute_native", ""},
	{"tool_call in a fence behind text", "I look.\n```xml\n<tool_call>{\"name\": \"read\"}</tool_call>\n```\n", "respond I look.|execute_native", ""},
	{"a marker with a capital in a fence behind text", "I look.\n```\n<Execute>[" + oneCall + "]</Execute>\n```", "respond I look.|execute_marker", "lower case"},
	{"Gemini's behind text", "I look.\n```tool_code\nread()\n```", "respond I look.|execute_native", ""},
	{"tool_call of GLM", "<tool_call>read\n<arg_key>file</arg_key>\n<arg_value>a</arg_value>\n</tool_call>", "execute_native", ""},
	{"tool_call of GLM behind text", "I look.\n<tool_call>read\n<arg_key>file</arg_key>", "respond I look.|execute_native", ""},
	{"tool_call of GLM without arguments", "<tool_call>time.now\n</tool_call>", "execute_native", ""},
	{"tool_call of lines", "<tool_call>\nread\n<arg_key>file</arg_key>\n</tool_call>", "execute_native", ""},
	{"function=", "<function=read>{\"file\": \"a\"}</function>", "execute_native", ""},
	{"function_calls", "<function_calls>\n<invoke name=\"read\">\n<parameter name=\"file\">a</parameter>\n</invoke>\n</function_calls>", "execute_native", ""},
	{"invoke", "<invoke name=\"read\"><parameter name=\"file\">a</parameter></invoke>", "execute_native", ""},
	{"python_tag", `<|python_tag|>{"name": "read", "parameters": {"file": "a"}}`, "execute_native", ""},
	{"tool_calls of DeepSeek", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function", "execute_native", ""},
	{"TOOL_CALLS", `[TOOL_CALLS] [{"name": "read", "arguments": {"file": "a"}}]`, "execute_native", ""},
	{"TOOL_CALLS, newer", `[TOOL_CALLS]read{"file": "a"}`, "execute_native", ""},
	{"Python of Llama", `[read(file="a")]`, "execute_native", ""},
	{"Python of Gemini", "```tool_code\nprint(read(file=\"a\"))\n```", "execute_native", ""},
	{"ReAct", "I need the file.\nAction: read\nAction Input: {\"file\": \"a\"}\nObservation: b", "respond I need the file.|execute_native", ""},
	{"functions.", `functions.read({"file": "a"})`, "execute_native", ""},
}

func TestRefused(t *testing.T) {
	for _, c := range refused {
		t.Run(c.name, func(t *testing.T) {
			got := everyCut(t, second, messages.FinishStop, c.reply)
			if s := short(got.all); s != c.want {
				t.Errorf("%q\ngot  %q\nwant %q", c.reply, s, c.want)
			}
			if len(got.faults) != 1 || !strings.Contains(got.faults[0].Detail, c.told) || !strings.Contains(got.faults[0].Detail, form) {
				t.Errorf("%q: %+v, want %q", c.reply, got.faults, c.told)
			}
			everyCut(t, second, messages.FinishLength, c.reply)
			everyCut(t, Dialect{Rendering: 2}, messages.FinishStop, c.reply)
		})
	}
}

// data are answers that look like something: each is shown byte for byte.
var data = []string{
	"Use `<b>` and <strong>this</strong>:\n\n| a | b |\n| 1 < 2 | `Map<String, int>` |\n\n<executor> and </execute> are text.",
	"Here is a `package.json`:\n\n```json\n{\"name\": \"demo\", \"version\": \"1.0.0\"}\n```\n\nPut it there.",
	`{"name": "demo", "version": "1.0.0"}`,
	`[1, 2, 3]`,
	"[\n[true, null],\n{\"a\": []}]\n",
	`{"a": `,
	"{x}\n{y}",
	"[link](https://example.org) and [x]",
	"[read the manual]",
	"[x(1)] is one",
	"[read(file=1)",
	"In OpenAI's API a call looks like this:\n\n```json\n{\"name\": \"get_weather\", \"arguments\": \"{\\\"city\\\": \\\"Brno\\\"}\"}\n```\n\nThe `arguments` are JSON.",
	"A call looks like this:\n{\"name\": \"get_weather\", \"arguments\": {}}\nand nothing else.",
	"A definition:\n{\"name\": \"get_weather\", \"description\": \"w\", \"parameters\": {}}",
	`{"name": "get_weather", "description": "w", "parameters": {}}`,
	"Qwen writes:\n```\n<tool_call>\n{\"name\": \"x\"}\n</tool_call>\n```\nand so on.",
	"Qwen writes `<tool_call>{}</tool_call>`.",
	"<tool_call> is what Qwen writes.",
	"<tool_call>name is what GLM writes.",
	"<tool_call>name\n<argument",
	"<tool_call>name\n<arg_",
	"<tool_call>name",
	"<tool_call>",
	"The <invoke name=\"x\"> of Claude does nothing here, nor does <function=x>.",
	"<table><tr><td>1</td></tr></table>",
	"<thinkpad> and <Thinking> aloud", // not at the beginning of a line
	"a <thinking> b",
	"<tools>x</tools> <think-tank> <think",
	"<execute",
	"<Execute> is no marker.",
	"A <execute lang=\"x\"> is none.",
	"Action: read a book.\nThen sleep.",
	"Action: x",
	"Actions speak louder.\nAction",
	"functions. are nice\nfunctional\nfunctions.x is a list",
	"for all f\nA [x] {y} <z> `q`",
	"```go\nfunc main() {}\n```",
	"```\n[\n]\n```",
	"````\n```\n{\n```\n````",
	"``\n`a`\n```",
	"```json",
	"<|im_end|> <| <|x y|> <｜",
	"a\r\n{\"a\":1}\r\n[b]\r\n",
	"Kůň <úpěl> {ďábelské} [ódy] 🐎\n{\"ů\": \"🐎\"}\n[🐎",
	"I call tools with `<execute>[" + oneCall + "]</execute>` and wait.",
	"A thought ends with </think> or\n</think> so.",
	"I call tools with &lt;execute&gt;[" + oneCall + "]&lt;/execute&gt; and wait.",
}

func TestDataIsShown(t *testing.T) {
	for _, reply := range data {
		got := everyCut(t, second, messages.FinishStop, reply)
		if len(got.raw) != 1 || got.raw[0] != reply || len(got.lints) > 0 || len(got.all) != 1 || got.all[0].Type != Respond {
			t.Errorf("%q\ngot %q", reply, got.events)
		}
	}
}

// looks are what replies of rendering 2 are made of by chance.
var looks = []string{
	"```", "```json\n", "``", "`", "\n", "\n\n", " ", "text", "{", "}", "[", "]", "\"name\"", ":", "\"read\"", ",", "\"args\"", "\"arguments\"", "{}",
	oneCall, "[" + oneCall + "]", "<Execute>", "<execute >", "<tool_call>", "</tool_call>", "<function=x>", "<|python_tag|>", "[TOOL_CALLS]", "[x(", ")]",
	"Action: x\n", "Action Input:", "functions.x", "(", "<thinking>", "</thinking>", "<Think>", "<｜tool", "é", "\xff", "\xe2\x80", "<t", "<", "'", "//", "None",
}

// Replies of any kind give the same events at every cut, and nothing of a call is ever shown
// twice or lost: what is shown is in the reply.
func TestSecondAtRandom(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	all := append(append([]string(nil), words...), looks...)
	for i := range 20000 {
		var reply []byte
		if i%4 == 0 {
			reply = append(reply, "<execute>"...)
		}
		for range r.IntN(16) {
			reply = append(reply, all[r.IntN(len(all))]...)
		}
		checkSecond(t, r, reply)
	}
}

func checkSecond(t testing.TB, r *rand.Rand, reply []byte) {
	t.Helper()
	x := second
	switch r.IntN(4) {
	case 0:
		x.Forgive = 0
	case 1:
		x.Forgive = parse.Habits(r.Uint32()) & parse.AllHabits
	}
	finish := messages.FinishStop
	if r.IntN(4) == 0 {
		finish = messages.FinishLength
	}
	whole := decode(t, x, finish, reply)
	for range 3 {
		pieces := parsetest.Cut(r.IntN, reply)
		if got := decode(t, x, finish, pieces...); got.exact != whole.exact {
			t.Fatalf("%q\ngot\n%swhole\n%s", pieces, got.exact, whole.exact)
		}
	}
}

// Text that looks like the beginning of something, again and again, costs no more than its
// length.
func TestSuspicionIsLinear(t *testing.T) {
	for _, each := range []string{
		"Action: x\n", "Action:\n", "functions.\n", "<", "< ", "<e", "<Execute>]", "<tool_call>x\n", "<arg_key>", "<arg_", "`<execute>", "a `<execute>", "```\n", "```json\n", "``",
		"{", "[", "[\n", "{\"name\":", "{\"name\":{}}\n", "{\"name\":\"x\",\"args\":{}} x\n", "[x(\n", "<th", "</think", "</think>\n", "<|", "<|x", "a\n", "\n", " ", "text ",
	} {
		for _, head := range []string{"", "text\n", "```\n", "text\n```\n"} {
			reply := []byte(head + strings.Repeat(each, 1<<18/len(each)))
			d := second.NewDecoder(messages.TurnInfo{}).(*decoder)
			d.Push(reply, func(messages.Event) {})
			d.End(messages.FinishStop, func(messages.Event) {})
			if d.steps > 80*int64(len(reply)) {
				t.Errorf("%q and %q: %d steps for %d bytes", head, each, d.steps, len(reply))
			}
		}
	}
}

func FuzzSecond(f *testing.F) {
	for i, c := range forgiven {
		f.Add([]byte(c.reply), uint64(i))
	}
	for i, c := range refused {
		f.Add([]byte(c.reply), uint64(i))
	}
	for i, reply := range data {
		f.Add([]byte(reply), uint64(i))
	}
	f.Fuzz(func(t *testing.T, reply []byte, seed uint64) {
		checkSecond(t, rand.New(rand.NewPCG(seed, 1)), reply)
	})
}
