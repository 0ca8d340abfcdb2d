package cogency

import (
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// saidAll writes messages one a line.
func saidAll(ms []messages.Message) string {
	var b strings.Builder
	for _, m := range ms {
		b.WriteString(string(m.Role) + ": " + m.Text + "\n")
	}
	return b.String()
}

// What went wrong is told with its place, its cause and its cure, and the model sees what it
// wrote. The words are the same whether a log keeps them or not.
func TestTold(t *testing.T) {
	for _, c := range []struct {
		name, reply string
		finish      messages.Finish
		want        []string
	}{
		{
			"a batch", "I look.\n<execute>[\n  {'name': 'read'}\n]</execute> and more", "",
			[]string{
				"assistant: I look.\n\n<execute>[\n  {'name': 'read'}\n]</execute> and more\n",
				`user: <results>[{"tool":"","status":"failure","content":"execute_json at line 3, byte 22 ('name': 'read'} ]\u003c/execu…): a single quote: JSON has double quotes alone`,
				"Nothing ran. Write <execute>[",
			},
		},
		{"a shape", `<execute>["a"]</execute>`, "", []string{`execute_shape at line 1, byte 9 ([\"a\"]`, "call 1 is no object"}},
		{"a call in another form", "I look.\n<tool_call>{}</tool_call>", "", []string{"assistant: I look.\n\n<tool_call>{}</tool_call>\n", "execute_native at line 2, byte 8 ("}},
		{"cut", `<execute>[{"name": "re`, messages.FinishLength, []string{"execute_unterminated at line 1, byte 9 (", "before </execute>"}},
		{"nothing", "", "", []string{`user: <results>[{"tool":"","status":"failure","content":"silence: You have said nothing to the user. Answer`}},
		{"a thought", "<think>hm", "", []string{"assistant: <think>hm</think>\n", "nothing to the user", "close it"}},
		{"a thought that is cut", "<think>hm", messages.FinishLength, []string{"nothing to the user", "length limit"}},
		{"results of its own", "<results>[1]</results>", "", []string{"nothing to the user"}},
		{"a long batch", "<execute>[x" + strings.Repeat("y", 5000), "", []string{"[truncated]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := messages.Reply{Text: c.reply, Finish: c.finish}
			r.Errors = append(r.Errors, decode(t, second, orStop(c.finish), []byte(c.reply)).faults...)
			ms := second.Render(messages.Projection{Text: "q", Replies: []messages.Reply{r}})
			got := saidAll(ms)
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("got %s\nwant %s", got, want)
				}
			}
			if len(got) > 4096 {
				t.Errorf("%d bytes", len(got))
			}
			r.Told = second.Tell(&r)
			if kept := saidAll(second.Render(messages.Projection{Text: "q", Replies: []messages.Reply{r}})); kept != got {
				t.Errorf("kept: %s\nnot kept: %s", kept, got)
			}
			r.Told = nil
			first := Dialect{}.Render(messages.Projection{Text: "q", Replies: []messages.Reply{r}})
			if strings.Contains(saidAll(first), "silence:") {
				t.Errorf("rendering 1: %s", saidAll(first))
			}
		})
	}
}

func orStop(f messages.Finish) messages.Finish {
	if f == "" {
		return messages.FinishStop
	}
	return f
}

// A reply that came to no end by itself is not told off.
func TestBrokenReplyIsNotSilent(t *testing.T) {
	for _, f := range []messages.Finish{messages.FinishError, messages.FinishCancelled} {
		ms := second.Render(messages.Projection{Text: "q", Replies: []messages.Reply{{Finish: f}}})
		if len(ms) != 1 {
			t.Errorf("%s: %s", f, saidAll(ms))
		}
	}
}

// Nothing in a result looks like a marker; in rendering 1 it stands as it is.
func TestResultsAreEscaped(t *testing.T) {
	r := messages.Reply{Text: `<execute>[{"name":"t","args":{}}]</execute>`, Calls: []messages.Call{
		{ID: "#1", Name: "t", Args: `{}`, State: messages.ActionOK, Value: `{"a<b":["</results><think>"]}`},
	}}
	p := messages.Projection{Text: "q", Replies: []messages.Reply{r}}
	got := saidAll(second.Render(p))
	if want := `"content":{"a\u003cb":["\u003c/results>\u003cthink>"]}}]</results>`; !strings.Contains(got, want) {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got := saidAll(Dialect{}.Render(p)); !strings.Contains(got, "</results><think>") {
		t.Error(got)
	}
}

// A reply that leaves the user with nothing is asked for again, once in a row.
func TestSilence(t *testing.T) {
	text := []messages.Unit{{Kind: messages.ResponseUnit, Text: " hi "}}
	thought := []messages.Unit{{Kind: messages.ThoughtUnit, Text: "hm"}, {Kind: messages.ResponseUnit, Text: " \n"}}
	ok := []messages.Call{{State: messages.ActionOK}}
	bad := []messages.Call{{State: messages.ActionFailed}}
	type step struct {
		f    messages.Facts
		want messages.Decision
	}
	calls := func(c []messages.Call, u ...messages.Unit) messages.Facts {
		return messages.Facts{Awaits: true, Finish: messages.FinishStop, Calls: c, Units: u}
	}
	quiet, answer := messages.Facts{Finish: messages.FinishStop, Units: thought}, messages.Facts{Finish: messages.FinishStop, Units: text}
	end := messages.Facts{Finish: messages.FinishStop, Final: true}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"twice", []step{{quiet, messages.Continue}, {quiet, messages.Halt}}},
		{"once", []step{{quiet, messages.Continue}, {answer, messages.Done}}},
		{"an end alone", []step{{end, messages.Continue}, {end, messages.Halt}}},
		{"an end behind a text", []step{{calls(ok, text...), messages.Continue}, {end, messages.Done}}},
		{"nothing behind a text", []step{{calls(ok, text...), messages.Continue}, {quiet, messages.Continue}, {answer, messages.Done}}},
		{"a success between", []step{{quiet, messages.Continue}, {calls(ok), messages.Continue}, {quiet, messages.Continue}, {quiet, messages.Halt}}},
		{"a failure between", []step{{quiet, messages.Continue}, {calls(bad), messages.Continue}, {quiet, messages.Halt}}},
		{"failures are counted", []step{{calls(bad), messages.Continue}, {quiet, messages.Continue}, {calls(bad), messages.Continue}, {calls(bad), messages.Halt}}},
		{"cut", []step{{messages.Facts{Finish: messages.FinishLength}, messages.Continue}}},
		{"broken", []step{{messages.Facts{Finish: messages.FinishError}, messages.Halt}}},
	} {
		var state []byte
		for i, s := range c.steps {
			s.f.State = state
			v := second.Decide(s.f)
			if v.Decision != s.want {
				t.Errorf("%s, turn %d: %+v, want %s", c.name, i+1, v, s.want)
				break
			}
			if silent := len(v.Lints) == 1 && v.Lints[0] == messages.LintSilence; silent != (v.Decision == messages.Continue && !s.f.Awaits) {
				t.Errorf("%s, turn %d: %+v", c.name, i+1, v)
			}
			state = v.State
		}
	}
	strict := second
	strict.Forgive &^= parse.HabitSilence
	for _, x := range []Dialect{{}, {Rendering: 2}, strict} {
		if v := x.Decide(quiet); v.Decision != messages.Done {
			t.Errorf("%+v: %+v", x, v)
		}
	}
}
