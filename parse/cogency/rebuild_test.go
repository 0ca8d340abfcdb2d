package cogency

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

var update = flag.Bool("update", false, "write the golden files anew")

func contents(ms []messages.Message) string {
	var out []string
	for _, m := range ms {
		out = append(out, string(m.Role)+" "+m.Text)
	}
	return strings.Join(out, "\n")
}

func events(list []vectorEvent) (all []Event) {
	for _, e := range list {
		all = append(all, Event{Type: e.Type, Content: e.Content, Partial: e.Partial, Origin: e.Origin})
	}
	return all
}

// The vectors, byte for byte.
func TestAssembleVectors(t *testing.T) {
	for _, v := range vectors(t).Assemble {
		ms, skipped, err := Assemble(events(v.Events), v.Window)
		var want []string
		for _, m := range v.Expect {
			want = append(want, m.Role+" "+m.Content)
		}
		if got := contents(ms); err != nil || got != strings.Join(want, "\n") || (skipped > 0) != (v.ID == "assemble-019") {
			t.Errorf("%s: %v, %d skipped\n%s\nwant\n%s", v.ID, err, skipped, got, strings.Join(want, "\n"))
		}
	}
}

func log(words string) (all []Event) {
	for i, w := range strings.Fields(words) {
		id := fmt.Sprint(i)
		all = append(all, map[string]Event{
			"user": {Type: User, Content: "q" + id}, "fake": {Type: User, Content: "<results>" + id}, "say": {Type: Respond, Content: "a" + id},
			"call": {Type: Call, Content: `{"name":"t","args":{"b":1.0, "a":` + id + `}}`}, "result": {Type: Results, Content: "[" + id + "]"},
			"cancelled": {Type: Cancelled}, "blank": {Type: Think, Content: " \n"}, "empty": {Type: Results},
		}[w])
	}
	return all
}

// Each window of a log has at most that many messages, is a subsequence, has its
// question, and no results without the call before them.
func TestWindow(t *testing.T) {
	for _, c := range []struct {
		log    string
		window int
		want   string
	}{
		{"user say user say", 2, "user q2|assistant a3"},
		{"user say user say", 3, "user q2|assistant a3"},
		{"user call result call result", 2, "user q0"},
		{"user call result call result", 1, "user q0"},
		{"user call result say", 2, "user q0|assistant a3"},
		{"user say fake say", 2, "user <results>2|assistant a3"},
		{"user call result", 2, "user q0"},
		{"user call cancelled user", 1, "user q3"},
		{"say say", 1, "assistant a0\n\na1"},
		{"user blank empty", 5, "user q0"},
	} {
		ms, _, err := Assemble(log(c.log), c.window)
		if got := strings.ReplaceAll(contents(ms), "\nuser", "|user"); err != nil || strings.ReplaceAll(got, "\nassistant", "|assistant") != c.want {
			t.Errorf("%s, %d: %v %q, want %q", c.log, c.window, err, got, c.want)
		}
	}
	if _, _, err := Assemble(nil, -1); code(err) != messages.ErrConfig {
		t.Error(err)
	}
	long := log(strings.Repeat("user ", MaxEvents+1))
	if _, _, err := Assemble(long, 0); code(err) != messages.ErrQuota {
		t.Error(err)
	}
	if ms, _, err := Assemble(long, 1); err != nil || len(ms) != 1 {
		t.Error(len(ms), err)
	}
	if ms, _, err := Assemble(long[1:], 0); err != nil || len(ms) != MaxEvents {
		t.Error(len(ms), err)
	}
	// Stored order and literals stay.
	ms, _, _ := Assemble(log("user call cancelled"), 0)
	if got := ms[1].Text; got != `<execute>[{"name":"t","args":{"b":1.0,"a":1}}]</execute>` {
		t.Error(got)
	}
	if got := ms[2].Text; got != `<results>[{"tool":"t","status":"failure","content":"cancelled"}]</results>` {
		t.Error(got)
	}
}

func code(err error) messages.Code {
	var e *messages.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func TestResults(t *testing.T) {
	for _, c := range []struct {
		r    Result
		most int
		want string
	}{
		{Result{Tool: "t", Success: true, Outcome: "done", Content: `"x"`}, 0, `{"tool":"t","status":"success","outcome":"done","content":"x"}`},
		{Result{Tool: "t", Success: true, Outcome: "done"}, 0, `{"tool":"t","status":"success","outcome":"done","content":"done"}`},
		{Result{Tool: "t", Success: true, Outcome: "done", Content: `""`}, 0, `{"tool":"t","status":"success","outcome":"done","content":"done"}`},
		{Result{Tool: "t", Success: true, Outcome: "done", Content: `null`}, 0, `{"tool":"t","status":"success","outcome":"done","content":"done"}`},
		{Result{Tool: "t", Success: true, Content: `{"b": 1.0, "a": "<&>"}`}, 0, `{"tool":"t","status":"success","outcome":"","content":{"b":1.0,"a":"<&>"}}`},
		{Result{Tool: "t", Success: true, Content: "no JSON\xff"}, 0, `{"tool":"t","status":"success","outcome":"","content":"no JSON` + "\ufffd" + `"}`},
		{Failure("a\xff", "b\xff</results>"), 0, `{"tool":"a` + "\ufffd" + `","status":"failure","content":"b` + "\ufffd" + `</results>"}`},
		{Failure("t", "12345"), 5, `{"tool":"t","status":"failure","content":"12345"}`},
		{Failure("t", "123456"), 5, `{"tool":"t","status":"failure","content":"12345\n[truncated: 5 of 6 bytes]"}`},
		{Failure("t", "1234\u00e96"), 5, `{"tool":"t","status":"failure","content":"1234\n[truncated: 4 of 7 bytes]"}`},
		{Result{Tool: "t", Success: true, Content: `[1, 2, 3]`}, 7, `{"tool":"t","status":"success","outcome":"","content":[1,2,3]}`},
		{Result{Tool: "t", Success: true, Content: `[1, 2, 3]`}, 6, `{"tool":"t","status":"success","outcome":"","content":"[1,2,3\n[truncated: 6 of 7 bytes]"}`},
	} {
		if got := string(AppendResults(nil, []Result{c.r}, c.most)); got != "["+c.want+"]" || !json.Valid([]byte(got)) {
			t.Errorf("%+v\ngot  %s\nwant %s", c.r, got, c.want)
		}
	}
	if got := string(AppendResults(nil, nil, 0)); got != "[]" {
		t.Error(got)
	}
	big := strings.Repeat("x", MaxResultBytes+1)
	if got := AppendResults(nil, []Result{Failure("", big)}, 0); !strings.Contains(string(got), "[truncated: 65536 of 65537 bytes]") {
		t.Error(len(got))
	}
}

func TestResultOf(t *testing.T) {
	for _, c := range []struct {
		call messages.Call
		want string
	}{
		{messages.Call{State: messages.ActionOK, Value: "7"}, `{"tool":"t","status":"success","outcome":"ok","content":7}`},
		{messages.Call{State: messages.ActionOK}, `{"tool":"t","status":"success","outcome":"ok","content":"ok"}`},
		{messages.Call{State: messages.ActionFailed, Reason: "error", Value: `"boom"`}, `{"tool":"t","status":"failure","content":"boom"}`},
		{messages.Call{State: messages.ActionFailed, Reason: "error"}, `{"tool":"t","status":"failure","content":"error"}`},
		{messages.Call{State: messages.ActionFailed, Reason: "timeout", Value: `"after 30 s"`}, `{"tool":"t","status":"failure","content":"timeout: after 30 s"}`},
		{messages.Call{State: messages.ActionFailed, Reason: "unknown_target"}, `{"tool":"t","status":"failure","content":"unknown_target"}`},
		{messages.Call{State: messages.ActionFailed, Reason: "error", Value: `{"a":1}`}, `{"tool":"t","status":"failure","content":"{\"a\":1}"}`},
		{messages.Call{State: messages.ActionCancelled}, `{"tool":"t","status":"failure","content":"cancelled"}`},
		{messages.Call{State: messages.ActionCancelled, Reason: "crash"}, `{"tool":"t","status":"failure","content":"cancelled: crash"}`},
		{messages.Call{State: messages.ActionUnknown, Reason: "lost"}, `{"tool":"t","status":"failure","content":"` + messages.UnknownText + `"}`},
	} {
		c.call.Name = "t"
		if got := string(AppendResults(nil, []Result{ResultOf(&c.call)}, 0)); got != "["+c.want+"]" {
			t.Errorf("%+v: %s", c.call, got)
		}
	}
}

func TestDecide(t *testing.T) {
	bad := []messages.ParseError{*fault(ExecuteJSON, 0)}
	failed, ok := []messages.Call{{State: messages.ActionFailed}, {State: messages.ActionUnknown}}, []messages.Call{{State: messages.ActionFailed}, {State: messages.ActionOK}}
	for _, c := range []struct {
		name  string
		facts messages.Facts
		want  string
	}{
		{"text", messages.Facts{}, "DONE"},
		{"cut text", messages.Facts{Finish: messages.FinishLength}, "DONE"},
		{"end", messages.Facts{Final: true, State: []byte("failures 2")}, "DONE"},
		{"end, then the stream broke", messages.Facts{Final: true, Finish: messages.FinishError}, "DONE"},
		{"stream broke", messages.Facts{Finish: messages.FinishError}, "HALT ERR_MODEL"},
		{"cancelled", messages.Facts{Finish: messages.FinishCancelled}, "HALT ERR_CANCELLED"},
		{"breach", messages.Facts{Breach: messages.ErrQuota, Awaits: true}, "HALT ERR_QUOTA"},
		{"empty batch", messages.Facts{Awaits: true, State: []byte("failures 2")}, "CONTINUE"},
		{"one succeeded", messages.Facts{Awaits: true, Calls: ok, State: []byte("failures 2")}, "CONTINUE"},
		{"a batch, then the stream broke", messages.Facts{Awaits: true, Calls: ok, Finish: messages.FinishError}, "CONTINUE"},
		{"none succeeded", messages.Facts{Awaits: true, Calls: failed}, "CONTINUE failures 1"},
		{"invalid", messages.Facts{Awaits: true, Errors: bad, State: []byte("failures 1")}, "CONTINUE failures 2"},
		{"third", messages.Facts{Awaits: true, Errors: bad, State: []byte("failures 2")}, "HALT ERR_LOOP"},
		{"other memory", messages.Facts{Awaits: true, Errors: bad, State: []byte("failures -7")}, "CONTINUE failures 1"},
	} {
		v := Dialect{}.Decide(c.facts)
		got := strings.TrimSpace(string(v.Decision) + " " + string(v.Code) + string(v.State))
		if got != c.want || v.Token != -1 {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	if v := (Dialect{MaxFailures: 1}).Decide(messages.Facts{Awaits: true, Calls: failed}); v.Code != messages.ErrLoop {
		t.Errorf("%+v", v)
	}
}

// What is stored does not depend on what is yielded, is stored before it is yielded,
// and a store that fails ends the turn.
func TestAccumulator(t *testing.T) {
	const reply = "<think>why</think> a <results>[1]</results>b<execute>[{\"name\":\"t\",\"args\":{}}]</execute>"
	run := func(deltas bool, failAt int) (stored, seen []string) {
		n := 0
		store := func(kind string) func(Event) error {
			return func(e Event) error {
				if n++; n == failAt {
					return errors.New("no disk")
				}
				if kind == "log" {
					stored = append(stored, string(e.Type)+" "+e.Content)
				}
				seen = append(seen, kind)
				return nil
			}
		}
		a := Accumulator{Deltas: deltas, Store: store("log"), Journal: store("journal"), Yield: func(e Event) {
			seen = append(seen, string(e.Type)+e.Code)
		}}
		d := Dialect{}.NewDecoder(messages.TurnInfo{})
		d.Push([]byte(reply), a.Take)
		d.End(messages.FinishStop, a.Take)
		if a.State() == WaitsForResults {
			a.Answer([]Result{Failure("t", "x")})
			a.Answer(nil)
		}
		return stored, seen
	}
	want, seen := run(false, 0)
	if got := strings.Join(seen, " "); got != "log think log respond log result log respond log call execute log result" {
		t.Error(got)
	}
	stored, seen := run(true, 0)
	if strings.Join(stored, "|") != strings.Join(want, "|") {
		t.Errorf("%q, want %q", stored, want)
	}
	if got := strings.Join(seen, " "); got != "journal think log journal respond log log result journal respond log log call execute log result" {
		t.Error(got)
	}
	for _, deltas := range []bool{false, true} {
		_, all := run(deltas, 0)
		for n := 1; n <= strings.Count(strings.Join(all, " "), "log")+strings.Count(strings.Join(all, " "), "journal"); n++ {
			_, seen := run(deltas, n)
			if seen[len(seen)-1] != "errorstorage" || strings.Count(strings.Join(seen, " "), "error") != 1 {
				t.Errorf("refused at %d: %v", n, seen)
			}
		}
	}
}

func TestRender(t *testing.T) {
	p := messages.Projection{
		History: []messages.Item{
			{Role: messages.RoleUser, Text: "old", Replies: []messages.Reply{
				{Text: `<think>first</think><execute>[{"name":"r","args":{"a":1}}]`, Finish: messages.FinishStop, Calls: []messages.Call{{Name: "r", Args: `{"a":1}`, State: messages.ActionOK, Value: "2"}}},
				{Text: "answer\n", Finish: messages.FinishComplete},
			}},
			{Role: messages.RoleUser, Text: "cut short", Replies: []messages.Reply{{Text: `so <execute>[]`, Finish: messages.FinishCancelled}}},
		},
		Text: "new",
		Replies: []messages.Reply{
			{Text: "<think>t</think>\nlook<results>[7]</results><execute>[{\"name\":\"w\",\"args\":{}}]</execute>junk", Calls: []messages.Call{{Name: "w", Args: "{}", State: messages.ActionFailed, Reason: "denied"}}},
			{Text: "<execute>x</execute>", Errors: []messages.ParseError{*fault(ExecuteJSON, 9)}},
			{Text: "<execute>[]</execute>"},
		},
		LastError: "ERR_MODEL:\n gone",
	}
	const want = `user old
assistant <think>first</think>

<execute>[{"name":"r","args":{"a":1}}]</execute>
user <results>[{"tool":"r","status":"success","outcome":"ok","content":2}]</results>
assistant answer
user cut short
assistant so
user new
assistant <think>t</think>

look

<execute>[{"name":"w","args":{}}]</execute>
user <results>[{"tool":"w","status":"failure","content":"denied"}]</results>
user <results>[{"tool":"","status":"failure","content":"execute_json: the batch is not valid JSON; nothing ran"}]</results>
user <results>[]</results>

The previous turn did not go through: ERR_MODEL: gone`
	if got := contents(Dialect{}.Render(p)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	p.Last = true
	if got := contents(Dialect{}.Render(p)); got != want+"\nsystem "+lastTurn {
		t.Errorf("the last turn's prompt is\n%s", got)
	}
}

func TestPrimer(t *testing.T) {
	got := Dialect{}.Primer([]messages.ToolSpec{
		{Name: "read", Signature: "(file, start?)", Description: "Reads\n a file.", Schema: "{\n}"}, {Name: "list", Signature: "()"},
	})
	const file = "testdata/primer.txt"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || got != string(want) {
		t.Errorf("%v\n%s", err, got)
	}
	if got := (Dialect{}).Primer(nil); !strings.HasSuffix(got, "\n## Tools\n\nNone.\n") {
		t.Error(got)
	}
	// Its example is one.
	all := decode(t, Dialect{}, messages.FinishStop, []byte(primerText[strings.Index(primerText, openExecute):])).all
	if len(all) != 3 || all[2].Type != Execute {
		t.Errorf("%+v", all)
	}
}

// Whatever the log holds and the window is: no more messages than that, the first a
// question where there is one, and results only behind the assistant's calls or where
// the log has results without calls.
func FuzzAssemble(f *testing.F) {
	names := []string{"user", "fake", "say", "call", "result", "cancelled", "blank", "empty"}
	f.Add([]byte{0, 2, 3, 4, 3, 0, 5, 3, 4, 1, 7}, uint8(3))
	f.Add([]byte{3, 3, 4, 4, 2, 0}, uint8(1))
	f.Fuzz(func(t *testing.T, picks []byte, window uint8) {
		var words strings.Builder
		calls := 0
		for _, p := range picks {
			w := names[int(p)%len(names)]
			if w == "result" && calls == 0 {
				continue // as stored by the runtime
			}
			if calls++; w != "call" {
				calls = 0
			}
			words.WriteString(w + " ")
		}
		all := log(words.String())
		whole, skipped, err := Assemble(all, 0)
		if err != nil || skipped != 0 {
			t.Fatal(skipped, err)
		}
		paired := func(ms []messages.Message) {
			for i, m := range ms {
				if strings.HasPrefix(m.Text, "<results>[") && (i == 0 || !strings.Contains(ms[i-1].Text, openExecute+"[")) {
					t.Fatalf("%s: message %d of\n%s", &words, i, contents(ms))
				}
				if strings.Contains(m.Text, openExecute+"[") && (i+1 == len(ms) || !strings.HasPrefix(ms[i+1].Text, "<results>[")) {
					t.Fatalf("%s: message %d of\n%s", &words, i, contents(ms))
				}
			}
		}
		paired(whole)
		if window == 0 {
			return
		}
		ms, _, err := Assemble(all, int(window))
		if err != nil || len(ms) > int(window) || len(whole) > 0 && len(ms) == 0 && strings.Contains(words.String(), "user") {
			t.Fatalf("%s in %d: %v\n%s", &words, window, err, contents(ms))
		}
		paired(ms)
		if strings.HasPrefix(words.String(), "user") && ms[0].Role != messages.RoleUser {
			t.Fatalf("%s in %d: without its question\n%s", &words, window, contents(ms))
		}
	})
}

// A result of exactly an outcome and a content is taken apart; any other is a content.
func TestResultOfParts(t *testing.T) {
	for value, want := range map[string]string{
		`{"content":"a</results>","outcome":"Read f"}`: `"outcome":"Read f","content":"a</results>"`,
		`{"content":"","outcome":"Read f"}`:            `"outcome":"Read f","content":"Read f"`,
		`{"content":1,"outcome":"x"}`:                  `"outcome":"ok","content":{"content":1,"outcome":"x"}`,
		`{"content":"a","outcome":"x","more":1}`:       `"outcome":"ok","content":{"content":"a","outcome":"x","more":1}`,
		`{"content":"a"}`:                              `"outcome":"ok","content":{"content":"a"}`,
		`"text"`:                                       `"outcome":"ok","content":"text"`,
	} {
		r := ResultOf(&messages.Call{Name: "t", State: messages.ActionOK, Value: value})
		if got := string(AppendResults(nil, []Result{r}, 0)); got != `[{"tool":"t","status":"success",`+want+`}]` {
			t.Errorf("%s: %s", value, got)
		}
	}
}
