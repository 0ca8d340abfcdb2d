package cortex

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// lenient is the dialect as an agent has it when its manifest says nothing.
var lenient = Dialect{Rendering: 2, Forgive: parse.AllHabits}

// brief writes events in a word or two each.
func brief(r replay) string {
	var all []string
	for _, e := range r.canonical {
		switch e["ev"] {
		case "action":
			args := fmt.Sprint(e["parameters"])
			all = append(all, fmt.Sprintf("%s(%s)", e["name"], strings.TrimSuffix(strings.TrimPrefix(args, "map["), "]")))
		case "error":
			all = append(all, "!"+e["code"].(string))
		case "lint":
			all = append(all, strings.ToLower(strings.TrimPrefix(e["code"].(string), "LINT_")))
		case "response":
			text := fmt.Sprintf("%q", strings.TrimSpace(e["text"].(string)))
			if e["final"] == false {
				text += "…"
			}
			all = append(all, text)
		case "stop":
			all = append(all, "stop")
		default:
			all = append(all, fmt.Sprintf("%s:%q", e["ev"], strings.TrimSpace(e["text"].(string))))
		}
	}
	return strings.Join(all, " ")
}

func act(body string) string { return `<action id="a">` + body + `</action>` }

// What has one meaning only is read as that, with a lint, however the reply is cut.
func TestForgivenBodies(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{`{"name":"f"}`, "f()"},
		{"\n```json\n{\"name\":\"f\"}\n```\n", "fence f()"},
		{"```\n{\"name\":\"f\"}```", "fence f()"},
		{"~~~~ json\n{\"name\":\"f\"}\n~~~~\n", "fence f()"},
		{"```json {\"name\":\"f\"} ```", "fence f()"},
		{"```json\n{\"name\":\"f\"}\n", "fence f()"},
		{"`{\"name\":\"f\"}`", "fence f()"},
		{"```json\n{\"name\":\"f\",\"parameters\":{\"s\":\"```\\n~~~\\n</action>\"}}\n```", "fence f(s:```\n~~~\n</action>)"},
		{`{"name":"f","parameters":{"a":[1,2,],"b":{"c":",}",},},}`, "commas f(a:[1 2] b:map[c:,}])"},
		{"{\"name\":\"f\",\"parameters\":{\"s\":\"one\n\ttwo\r\n\"}}", "controls f(s:one\n\ttwo\r\n)"},
		{"{\"name\":\"f\",\"parameters\":{\"s\":\"<html>\n<b>\n</p>\n</actions>\",}}", "commas controls f(s:<html>\n<b>\n</p>\n</actions>)"},
		{`{"name":"f","arguments":{"a":1}}`, "aliases f(a:1)"},
		{`{"tool":"f","args":{"a":1}}`, "aliases f(a:1)"},
		{`{"function":"f","input":{"a":1}}`, "aliases f(a:1)"},
		{`{"tool":"g","name":"f","parameters":{"a":1}}`, "f(a:1)"},
		{`{"name":"f","parameters":{"a":1},"arguments":{"a":1}}`, "f(a:1)"},
		{`{"name":"f","parameters":{"a":1},"input":"more"}`, "f(a:1)"},
		{`{"name":"f","parameters":"{\"a\":[1,\"x\"]}"}`, "strings f(a:[1 x])"},
		{`{"name":"f","arguments":"{}"}`, "aliases strings f()"},
		{`{"name":"f","timeout":"20","retry":"2"}`, "strings f()"},
		{`{"name":"f","confidence":0.9,"reason":"why"}`, "f()"},
	} {
		got := everyCut(t, lenient, act(c.body))
		if s := brief(got); s != c.want {
			t.Errorf("%q: %s, want %s", c.body, s, c.want)
		}
		if s := brief(everyCut(t, Dialect{Rendering: 2}, act(c.body))); strings.Contains(c.want, " f(") && !strings.HasPrefix(s, "!") && s != "f()" {
			t.Errorf("%q runs as %s where nothing is forgiven", c.body, s)
		}
	}
}

// What is ambiguous or broken does not run, and the model is told where, what and the cure.
func TestToldBodies(t *testing.T) {
	for _, c := range []struct{ body, code, told string }{
		{`{'name': 'f'}`, InvalidJSON, "byte 2, line 1, behind {: a single quote"},
		{"{\n  \"name\": \"f\", // the notes\n}", InvalidJSON, `byte 18, line 2, behind {"name":"f",: a comment`},
		{`{"name": "f", "parameters": {"x": None}}`, InvalidJSON, "true, false or null"},
		{`{"name": "f", "parameters": {"path": "not`, UnclosedAction, "a double quote is missing"},
		{`{"name": "f", "parameters": {"a": [1, 2`, InvalidJSON, "]}} is missing"},
		{"{\"name\": \"f\", \"parameters\": {\"path\": \"notes.txt}}\n", InvalidJSON, "a string is not closed"},
		{`{"name": "f"} reads it`, InvalidJSON, "text follows the end"},
		{`{"name": "f"}{"name": "g"}`, InvalidJSON, "a second value"},
		{"```json\n{\"name\": \"f\"}\n```\nreads it", InvalidJSON, "text follows the code fence"},
		{"json\n{\"name\": \"f\"}", InvalidJSON, "a text without quotes"},
		{`<![CDATA[{"name": "f"}]]>`, InvalidJSON, "markup"},
		{`[{"name": "f"}]`, InvalidBody, `{"name": "…", "parameters": {…}}`},
		{``, MissingBody, `{"name": "…", "parameters": {…}}`},
		{`{"parameters": {}}`, MissingName, `no "name"`},
		{`{"name":"f","parameters":{"a":1},"arguments":{"a":2}}`, BadField, "twice"},
		{`{"name":"f","parameters":{},"args":{"a":2}}`, BadField, "twice"},
		{`{"name":"f","parameters":[1]}`, BadField, "an object"},
		{`{"name":"f","parameters":"notes.txt"}`, BadField, "an object"},
		{`{"name":"f","timeout":"30s"}`, BadField, "number of seconds"},
		{`{"name":"f","timeout":" 30"}`, BadField, "number of seconds"},
		{`{"name":"f","retry":"many"}`, BadField, "integer"},
		{`{"name":"f","output_key":"$x"}`, BadField, "without $"},
		{`{"name":"f","s":"` + strings.Repeat("x", 300) + `"}`, BodyTooLarge, "more than 200 bytes"},
		{`{"name":"f","s":` + strings.Repeat("[", 9) + strings.Repeat("]", 9) + `}`, BodyTooDeep, "more than 8 deep"},
	} {
		x := lenient
		x.Limits.BodyBytes, x.Limits.JSONDepth = 200, 8
		got := everyCut(t, x, act(c.body))
		if len(got.told) != 1 || got.canonical[0]["code"] != c.code || !strings.HasPrefix(got.told[0], c.code+": ") || !strings.Contains(got.told[0], c.told) {
			t.Errorf("%q: %s: %q, want %s: %s", c.body, brief(got), got.told, c.code, c.told)
		}
	}
	for tag, want := range map[string]string{
		`<action name="file.read" id="a">{"path": "x"}</action>`:               `{"name": "file.read", "parameters": {…}}`,
		`<action id="a" type="file.read">{"name": "x"}</action>`:               "one of tool, agent",
		`<action id="a" mode="parallel">{"name": "x"}</action>`:                "one of sync, async",
		`<action id="a b">{"name": "x"}</action>`:                              "letters, digits",
		`<action id=a>{"name":"x"}</action><action id=a>{"name":"x"}</action>`: "give each its own",
	} {
		if got := everyCut(t, lenient, tag); len(got.told) != 1 || !strings.Contains(got.told[0], want) {
			t.Errorf("%s: %q, want %s", tag, got.told, want)
		}
	}
}

// "refs": false leaves the arguments as they are written, from the second rendering on.
func TestRefs(t *testing.T) {
	for body, want := range map[string]bool{
		`{"name":"f","refs":false}`: true, `{"name":"f","refs":true}`: false, `{"name":"f","refs":null}`: false, `{"name":"f"}`: false,
	} {
		for _, x := range []Dialect{lenient, {}} {
			var got []bool
			d := x.NewDecoder(messages.TurnInfo{})
			d.Push([]byte(act(body)), func(e messages.Event) {
				if e.Action != nil {
					got = append(got, e.Action.Literal)
				}
			})
			if len(got) != 1 || got[0] != (want && x.Rendering == 2) {
				t.Errorf("%s under %d: %v", body, x.Rendering, got)
			}
		}
	}
	for _, body := range []string{`{"name":"f","refs":"no"}`, `{"name":"f","refs":0,"timeout":0}`, `{"name":"f","refs":[false]}`} {
		if got := everyCut(t, lenient, act(body)); len(got.told) != 1 || !strings.Contains(got.told[0], "bad_field") || !strings.Contains(got.told[0], "refs") {
			t.Errorf("%s: %q", body, got.told)
		}
	}
}
