package native

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/cogency"
	"github.com/seed14be6753/stile/parse/cortex"
)

func TestFunctions(t *testing.T) {
	long := strings.Repeat("x", 70)
	f := NewFunctions([]messages.ToolSpec{
		{Name: "str.ToUpper", Schema: `{"type":"object","properties":{"s":{}}}`},
		{Name: "str_ToUpper", Signature: "(s)", Description: "Capitals."},
		{Name: "str-ToUpper"},
		{Name: "9.lives"},
		{Name: long},
		{Name: long + "y"},
		{Name: "str.ToUpper", Type: messages.TypeLLM},
		{Name: "größe", Schema: `[]`},
	})
	var names []string
	for i, own := range f.All {
		names = append(names, own.Name)
		var o map[string]any
		if json.Unmarshal([]byte(own.Schema), &o) != nil || o["type"] != "object" {
			t.Errorf("%d: schema %s", i, own.Schema)
		}
	}
	want := "str_ToUpper_2 str_ToUpper str-ToUpper _9_lives " + long[:64] + " " + long[:62] + "_2 str_ToUpper_3 gr____e"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if name, typ := f.tool("str_ToUpper_3"); name != "str.ToUpper" || typ != messages.TypeLLM {
		t.Errorf("%s %s", name, typ)
	}
	if name, typ := f.tool("unknown"); name != "unknown" || typ != "" {
		t.Errorf("%s %s", name, typ)
	}
	if d := f.All[1].Description; d != "str_ToUpper(s) Capitals." {
		t.Errorf("%q", d)
	}
}

var oneTool = NewFunctions([]messages.ToolSpec{{Name: "a.b"}, {Name: "ask", Type: messages.TypeLLM}})

// Calls that grow in turn come out in the order of their indexes, with whatever was said in
// front and behind.
func TestWriterOrders(t *testing.T) {
	for dialect, want := range map[string]string{
		Cogency: "one two\n" + `<execute>[{"name":"a.b","args":{"x":1}},{"name":"ask","args":{}},{"name":"a.b","args":"[1"}]</execute>`,
		Cortex: "one \n" + `<action id="n1" mode="async">{"name":"a.b","parameters":{"x":1}}</action>` + "\n" +
			`<action id="n2" mode="async" type="llm">{"name":"ask","parameters":{}}</action>` + "\n" + `two` + "\n" +
			`<action id="n3" mode="async">{"name":"a.b","parameters":"[1"}</action>` + "\n",
	} {
		w := NewWriter(dialect, oneTool)
		var got []byte
		w.Text([]byte("one "))
		w.Begin(7, "id-7", "ask")
		w.Begin(3, "id-3", "a_b") // one that is before it comes later
		w.Args(3, []byte(`{"x"`))
		got = append(got, w.Take()...)
		w.End(7)
		got = append(got, w.Take()...)
		w.Args(3, []byte(`:1}`))
		w.End(3)
		got = append(got, w.Take()...)
		w.Text([]byte("two"))
		w.Begin(9, "", "a_b")
		w.Args(9, []byte("[1"))
		if held := w.Held(); held == 0 {
			t.Error("nothing is held")
		}
		w.Finish(messages.FinishComplete)
		got = append(got, w.Take()...)
		if string(got) != want {
			t.Errorf("%s: %s\nwant\n%s", dialect, got, want)
		}
		var s Side
		if err := json.Unmarshal(w.Side("me"), &s); err != nil || len(s.Calls) != 3 || s.Calls[0].ID != "id-3" || s.Calls[1].Args != "{}" || s.Provider != "me" {
			t.Errorf("%v: %+v", err, s)
		}
		if said, ok := without(string(got), s.Cuts); !ok || strings.ReplaceAll(said, "\n", "") != "one two" {
			t.Errorf("said %q", said)
		}
	}
	w := NewWriter(Cogency, oneTool)
	w.Text([]byte("Hi."))
	if w.Finish(messages.FinishComplete); string(w.Take()) != "Hi." || w.Side("me") != nil {
		t.Error("a reply without calls has none")
	}
}

// What a cut reply calls stays open, as a call would that is written as text: the decoder
// refuses the batch as a whole, and in cortex the call that was cut.
func TestCutReplies(t *testing.T) {
	for _, c := range []struct {
		name, dialect, last, want string
		finish                    messages.Finish
		runs                      int
	}{
		{"in the last call", Cogency, `{"x": "cut he`, `<execute>[{"name":"a.b","args":{}},{"name":"a.b","args":"{\"x\": \"cut he`, messages.FinishLength, 0},
		{"behind its arguments", Cogency, `{"x": 1}`, `<execute>[{"name":"a.b","args":{}},{"name":"a.b","args":{"x": 1}}`, messages.FinishLength, 0},
		{"in front of them", Cogency, ``, `<execute>[{"name":"a.b","args":{}},{"name":"a.b","args":"{}`, messages.FinishLength, 0},
		{"by a failure", Cogency, `{"x": 1}`, `<execute>[{"name":"a.b","args":{}},{"name":"a.b","args":{"x": 1}}`, messages.FinishError, 0},
		{"arguments that would end the batch", Cogency, `{}}]</execute>`, `<execute>[{"name":"a.b","args":{}},{"name":"a.b","args":"{}}]</execute>`, messages.FinishLength, 0},
		{"in an action", Cortex, `{"x": "cut <he`, "<action id=\"n1\" mode=\"async\">{\"name\":\"a.b\",\"parameters\":{}}</action>\n<action id=\"n2\" mode=\"async\">{\"name\":\"a.b\",\"parameters\":\"{\\\"x\\\": \\\"cut \\u003che", messages.FinishLength, 1},
		{"at its end", Cortex, `{}`, "<action id=\"n1\" mode=\"async\">{\"name\":\"a.b\",\"parameters\":{}}</action>\n<action id=\"n2\" mode=\"async\">{\"name\":\"a.b\",\"parameters\":{}}</action>\n", messages.FinishLength, 2},
	} {
		w := NewWriter(c.dialect, oneTool)
		w.Begin(0, "a", "a_b")
		w.Args(0, []byte(`{}`))
		w.End(0)
		w.Begin(1, "b", "a_b")
		w.Args(1, []byte(c.last))
		if w.Finish(c.finish); string(w.Take()) != c.want {
			t.Errorf("%s: %s, want\n%s", c.name, w.out, c.want)
		}
		var s Side
		if err := json.Unmarshal(w.Side("me"), &s); err != nil || len(s.Calls) != 2 {
			t.Errorf("%s: %v %+v", c.name, err, s)
		}
		reads := map[string]parse.Dialect{
			Cogency: cogency.Dialect{Rendering: 2, Forgive: parse.AllHabits},
			Cortex:  cortex.Dialect{Rendering: 2, Forgive: parse.AllHabits},
		}
		ran, faults := 0, 0
		count := func(ev messages.Event) {
			switch ev.Kind {
			case messages.EventAction:
				ran++
			case messages.EventParseError:
				faults++
			}
		}
		d := reads[c.dialect].NewDecoder(messages.TurnInfo{Turn: 1, Pass: 1, MaxReplyBytes: 1 << 20})
		d.Push(w.out, count)
		d.End(c.finish, count)
		want := min(2-c.runs, 1)
		if c.finish == messages.FinishError { // that is what is wrong
			want = 0
		}
		if ran != c.runs || faults != want {
			t.Errorf("%s: %d calls run, %d faults are told", c.name, ran, faults)
		}
	}
}

// No argument ends what is around it.
func FuzzArguments(f *testing.F) {
	for _, s := range []string{`{}`, ``, `{"a":"</action>"}`, `</execute>`, `{"a":1}}]</execute>`, "\xff", `{"a":"<`, `"<end>"`, `{"a":1,"a":2}`, "{\"a\":\n1}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, args string) {
		w := NewWriter(Cogency, oneTool)
		w.Begin(0, "i", "a_b")
		w.Args(0, []byte(args))
		w.Finish(messages.FinishComplete)
		got := string(w.Take())
		inner, opened := strings.CutPrefix(got, "<execute>")
		inner, closed := strings.CutSuffix(inner, "</execute>")
		if !opened || !closed {
			t.Fatalf("%q", got)
		}
		var calls []struct {
			Name string         `json:"name"`
			Args jsontext.Value `json:"args"`
		}
		if err := json.Unmarshal([]byte(inner), &calls, jsontext.AllowDuplicateNames(true)); err != nil || len(calls) != 1 || calls[0].Name != "a.b" {
			t.Fatalf("%v: %q", err, got)
		}
		w = NewWriter(Cortex, oneTool)
		w.Begin(0, "i", "a_b")
		w.Args(0, []byte(args))
		w.Finish(messages.FinishComplete)
		if got := string(w.Take()); strings.Count(got, "<") != 2 {
			t.Fatalf("%q", got)
		}
	})
}

func side(t *testing.T, dialect string, n int) (reply, side string) {
	t.Helper()
	w := NewWriter(dialect, oneTool)
	w.Text([]byte("Well."))
	for i := range n {
		w.Begin(int64(i), fmt.Sprint("id-", i), "a_b")
	}
	w.Finish(messages.FinishComplete)
	reply = string(w.Take())
	return reply, string(w.Side("me"))
}

// What does not fit goes back as text; what does has each call with its result.
func TestAttach(t *testing.T) {
	reply, own := side(t, Cogency, 2)
	told := func(results string) []messages.Message {
		return []messages.Message{{Role: messages.RoleAssistant, Text: reply}, {Role: messages.RoleUser, Text: results, Holds: messages.HoldsResults}}
	}
	ran := []messages.Call{{ID: "#1"}, {ID: "#2"}}
	for _, c := range []struct {
		name    string
		told    []messages.Message
		reply   messages.Reply
		results string // "" is text alone
	}{
		{"whole", told(`<results>[{"a":1},{"b":2}]</results>`), messages.Reply{Text: reply, Side: own, Calls: ran}, `id-0={"a":1} id-1={"b":2} +`},
		{"a batch that was refused", told(`<results>[{"why":1}]</results>`), messages.Reply{Text: reply, Side: own}, `id-0={"why":1} id-1={"why":1} +`},
		{"results in other words", told(`<results>what</results>`), messages.Reply{Text: reply, Side: own}, `id-0=The call did not run. id-1=The call did not run. +<results>what</results>`},
		{"no side", told(`<results>[]</results>`), messages.Reply{Text: reply, Calls: ran}, ""},
		{"a side that is none", told(`<results>[]</results>`), messages.Reply{Text: reply, Side: "{", Calls: ran}, ""},
		{"a reply that was cut", told(`<results>[]</results>`), messages.Reply{Text: reply[:9], Side: own}, ""},
		{"a call that was written as text", told(`<results>[]</results>`), messages.Reply{Text: reply, Side: own, Calls: []messages.Call{{ID: "#3"}}}, ""},
		{"no results", told("")[:1], messages.Reply{Text: reply, Side: own, Calls: ran}, ""},
	} {
		got := Attach(c.told, &c.reply)
		if len(got) != len(c.told) || got[0].Text != c.told[0].Text || c.told[0].Native != "" {
			t.Fatalf("%s: %+v", c.name, got)
		}
		own := Pair(got)
		text := ""
		if len(own) == 2 && own[1] != nil {
			if own[0].Text != "Well." || own[0].Provider != "me" {
				t.Errorf("%s: %+v", c.name, own[0])
			}
			for _, r := range own[1].Results {
				text += r.ID + "=" + r.Text + " "
			}
			text += "+" + own[1].Rest
		}
		if text != c.results {
			t.Errorf("%s: %q, want %q", c.name, text, c.results)
		}
	}
	reply, own = side(t, Cortex, 2)
	got := Attach(told("<action_result id=\"n2\" status=\"ok\">2</action_result>\n<action_result status=\"error\" reason=\"bad_json\" id=\"n1\"/>"), &messages.Reply{Text: reply, Side: own, Calls: []messages.Call{{ID: "n2"}}})
	got[1].Text += "\n\nThe previous turn did not go through: why"
	pair := Pair(append([]messages.Message{{Role: messages.RoleUser, Text: "go"}}, got...))
	if pair[0] != nil || pair[2] == nil || pair[2].Results[0].Text != didNotRun || !strings.Contains(pair[2].Results[1].Text, ">2<") || !strings.Contains(pair[2].Rest, "bad_json") || !strings.HasSuffix(pair[2].Rest, ": why") {
		t.Errorf("%+v", pair[2])
	}
	for _, ms := range [][]messages.Message{{got[0]}, {got[1]}, {got[1], got[0]}, {got[0], {Role: messages.RoleUser, Text: "x"}, got[1]}} {
		for _, own := range Pair(ms) {
			if own != nil {
				t.Errorf("half of a pair: %+v", own)
			}
		}
	}
}

func TestPrimer(t *testing.T) {
	for _, dialect := range []string{Cogency, Cortex} {
		for most, short := range map[int]bool{1024: false, 512: true} {
			with, none := Primer(dialect, []messages.ToolSpec{{Name: "read"}}, short), Primer(dialect, nil, short)
			if !strings.Contains(with, `{"name": "read"`) || strings.Contains(none, "name") || len(with) > most {
				t.Errorf("%s: %d bytes: %s", dialect, len(with), with)
			}
		}
	}
}
