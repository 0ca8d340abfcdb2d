package cogency

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/scan"
)

// wanted gives a vector's events as the harness writes them.
func wanted(t testing.TB, want []vectorEvent) string {
	t.Helper()
	var b strings.Builder
	for _, w := range want {
		e := Event{Type: w.Type, Content: w.Content, Partial: w.Partial, Origin: w.Origin, Code: w.Code}
		if w.Type == Fault {
			e.Content = w.Code + ": " + meanings[w.Code]
		}
		if w.Type == Call {
			var v struct {
				Name string
				Args json.RawMessage
			}
			if err := json.Unmarshal(w.Call, &v); err != nil {
				t.Fatal(err)
			}
			var args scan.JSON
			if n := args.Write(v.Args); n < len(v.Args) || !args.End() {
				t.Fatal(string(v.Args))
			}
			e.Content = CallText(v.Name, string(args.Bytes()))
		}
		fmt.Fprintf(&b, "%+v\n", e)
	}
	return b.String()
}

// Every vector, whole and at every cut.
func TestVectors(t *testing.T) {
	for _, v := range vectors(t).Parse {
		t.Run(v.ID, func(t *testing.T) {
			got := everyCut(t, Dialect{}, messages.FinishComplete, v.Input)
			if want := wanted(t, v.Expect); got.events != want {
				t.Errorf("%s: %q\ngot\n%swant\n%s", v.Title, v.Input, got.events, want)
			}
			var raw []string
			for _, u := range v.Units {
				raw = append(raw, u.Raw)
			}
			if !reflect.DeepEqual(got.raw, raw) {
				t.Errorf("raw %q, want %q", got.raw, raw)
			}
		})
	}
}

// What is shown after each chunk: no more is held back, nothing is guessed.
func TestProgress(t *testing.T) {
	for _, v := range vectors(t).Progress {
		var think, respond string
		events := 0
		a := Accumulator{Deltas: true, Yield: func(e Event) {
			switch {
			case e.Delta && e.Type == Think:
				think += e.Content
			case e.Delta:
				respond += e.Content
			default:
				events++
			}
		}}
		d := Dialect{}.NewDecoder(messages.TurnInfo{})
		for i, c := range v.Chunks {
			d.Push([]byte(c), a.Take)
			if w := v.After[i]; think != w.Think || respond != w.Respond || events != w.Events {
				t.Errorf("%s after %d: %q %q %d, want %+v", v.ID, i+1, think, respond, events, w)
			}
		}
	}
}

// short writes what a reply came to in a line.
func short(all []Event) string {
	var out []string
	for _, e := range all {
		s := string(e.Type)
		if e.Code != "" {
			s = e.Code
		} else if e.Content != "" {
			s += " " + e.Content
		}
		if e.Partial {
			s += " partial"
		}
		out = append(out, s)
	}
	return strings.Join(out, "|")
}

func TestReplies(t *testing.T) {
	const call = `[{"name":"t","args":{}}]`
	const called = `call {"name":"t","args":{}}|execute`
	for _, c := range []struct{ name, reply, want string }{
		{"a lead byte frees what looked like a marker", "<execute\u00e9", "respond <execute\u00e9"},
		{"a marker behind half of one", "<th<think>a</think>", "respond <th|think a"},
		{"upper case is text", "<THINK>a", "respond <THINK>a"},
		{"exotic blanks are blank", "\u2003\u00a0<end>", "end"},
		{"closers are text", "</execute></results>", "respond </execute></results>"},
		{"results inside execute strings", `<execute>[{"name":"t","args":{"a":"<end>"}}]</execute>`, `call {"name":"t","args":{"a":"<end>"}}|execute`},
		{"more keys are not copied", `<execute>[{"id":1,"name":"t","args":{},"depends_on":["x"]}]</execute>`, called},
		{"the last of a key", `<execute>[{"name":"x","args":[],"args":{},"name":"t"}]</execute>`, called},
		{"the last of a key is no name", `<execute>[{"name":"t","args":{},"name":5}]</execute>`, "execute_shape"},
		{"the last of a key is no object", `<execute>[{"args":{},"name":"t","args":[{}]}]</execute>`, "execute_shape"},
		{"an empty element", `<execute>[{"name":"t","args":{}},{}]</execute>`, "execute_shape"},
		{"keys of other objects", `<execute>[{"x":{"name":"y","args":{"b":1,"a":[{"d":2,"c":3}]}},"name":"t","args":{}}, {"args":{"name":"z"},"name":"u"}]</execute>`, `call {"name":"t","args":{}}|call {"name":"u","args":{"name":"z"}}|execute`},
		{"a key in escapes", `<execute>[{"\u006eame":"\u0074","args":{}}]</execute>`, called},
		{"number literals", `<execute>[{"name":"t","args":{"b":1.0,"a":1e400}}]</execute>`, `call {"name":"t","args":{"a":1e400,"b":1.0}}|execute`},
		{"NaN", `<execute>[{"name":"t","args":{"a":NaN}}]</execute>`, "execute_json"},
		{"a lone surrogate", `<execute>[{"name":"t","args":{"a":"\ud800"}}]</execute>`, "execute_json"},
		{"two arrays", `<execute>[][]</execute>`, "execute_json"},
		{"an object", `<execute>{}</execute>`, "execute_shape"},
		{"no args", `<execute>[{"name":"t"}]</execute>`, "execute_shape"},
		{"no object", `<execute>[[1,{"a":"]"}],2]</execute>`, "execute_shape"},
		{"one bad element", `<execute>[{"name":"t","args":{}},7]</execute>`, "execute_shape"},
		{"too many", `<execute>[` + strings.Repeat(`{"name":"t","args":{}},`, 64) + `{"name":"t","args":{}}]</execute>`, "execute_too_many"},
		{"too many of bad shape", `<execute>[` + strings.Repeat(`1,`, 64) + `1]</execute>`, "execute_shape"},
		{"a blank name is one", `<execute>[{"name":" ","args":{}}]</execute>`, `call {"name":" ","args":{}}|execute`},
		{"a control character at once", "<execute>[\"\t", "execute_json"},
		{"a control character behind a broken escape", "<execute>[\"\\qx\t", "execute_json"},
		{"a control character behind a broken code", "<execute>[\"\\u00x\t", "execute_json"},
		{"a closer behind a broken escape", `<execute>["\q</execute>"]</execute>`, "execute_json"},
		{"a control character outside", "<execute>\x01</execute>", "execute_json"},
		{"control characters between tokens", "<execute>[\r\n\t]</execute>", "execute"},
		{"no closer", "<execute>" + call, called},
		{"no closer and blanks", "<execute>" + call + " \n\u00a0", called},
		{"half a closer and blanks", "<execute>" + call + "\n</ \n", called},
		{"half a closer twice", "<execute>" + call + "</</", "execute_unterminated"},
		{"garbage without closer", "<execute>" + call + "x", "execute_unterminated"},
		{"a bad shape without closer", "<execute>{}", "execute_shape"},
		{"ended in a string", `<execute>["a`, "execute_unterminated"},
		{"ended in a string with a closer", `<execute>["a</execute>b`, "execute_json"},
		{"ended in a string behind an escaped slash", `<execute>["a<\/execute>b`, "execute_unterminated"},
		{"pseudo JSON with an open quote hides the closer", `<execute>[{'a": 1}]</execute>`, "execute_json"},
		{"results unclosed", `a<results> [1 `, "respond a|result [1 partial"},
		{"results ended in a string", `<results>["</results>x`, `result ["</results>x partial`},
		{"results broken behind a closer", "<results>[\"</results>x\ny<think>z</think>", "result [\"|respond x\ny|think z"},
		{"results broken before a closer", "<results>[\"\n\"</results>x", "result [\"\n\"|respond x"},
		{"results broken with a batch behind", "<results>\"</results><execute>[]</execute>\n", `result "|execute`},
		{"results broken twice, the same way", "<results>\\\"</results>a<results>\\\"</results>b\nc", "result \\\"|respond a|result \\\"|respond b\nc"},
		{"a closer in a string of results", "<results>\"a</results><results>\" [ ] </results>b\" \"\n", "result \"a</results><results>\" [ ]|respond b\" \""},
		{"results broken, the next ones are in the other phase", "<results>\"x</results> <results>\" \"</results>\" \"\n", "result \"x|result \" \"|respond \" \""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := everyCut(t, Dialect{}, messages.FinishStop, c.reply)
			if s := short(got.all); s != c.want {
				t.Errorf("%q\ngot  %q\nwant %q", c.reply, s, c.want)
			}
		})
	}
}

// How a reply ended decides what becomes of what is open.
func TestFinish(t *testing.T) {
	for _, c := range []struct {
		finish      messages.Finish
		reply, want string
	}{
		{messages.FinishLength, "text", "respond text partial"},
		{messages.FinishError, "text <th", "respond text <th partial"},
		{messages.FinishCancelled, "<think>a", "think a partial"},
		{messages.FinishLength, "<execute>[]", "execute_unterminated"},
		{messages.FinishLength, `<execute>["a`, "execute_unterminated"},
		{messages.FinishLength, `<execute>["a</execute>b`, "execute_json"},
		{messages.FinishLength, `<execute>[x"a</execute>b`, "execute_json"},
		{messages.FinishLength, `<execute>["a</execut`, "execute_unterminated"},
		{messages.FinishLength, `<execute>["a\u003c/execute>b`, "execute_unterminated"},
		{messages.FinishLength, `<execute>["a</execute>b"`, "execute_unterminated"},
		{messages.FinishError, `<execute>["a</execute>b`, ""},
		{messages.FinishError, "<execute>[]", ""},
		{messages.FinishCancelled, "<execute>[]", ""},
		{messages.FinishCancelled, "<execute>[]</execute>", "execute"},
	} {
		got := everyCut(t, Dialect{}, c.finish, c.reply)
		if s := short(got.all); s != c.want {
			t.Errorf("%s %q: got %q, want %q", c.finish, c.reply, s, c.want)
		}
	}
}

// The bounds, to the byte.
func TestBounds(t *testing.T) {
	x := Dialect{Limits: Limits{ExecuteBytes: 20, Calls: 1, JSONDepth: 2}}
	for _, c := range []struct{ body, want string }{
		{"[" + strings.Repeat(" ", 18) + "]", "execute"},
		{"[" + strings.Repeat(" ", 19) + "]", ExecuteTooLarge},
		{strings.Repeat("x", 21), ExecuteTooLarge},
		{strings.Repeat("x", 20), ExecuteJSON},
		{`[{},1]`, ExecuteShape},
	} {
		if got := everyCut(t, x, messages.FinishStop, openExecute+c.body+shutExecute); short(got.all) != c.want {
			t.Errorf("%s: %s, want %s", c.body, short(got.all), c.want)
		}
	}
	for reply, want := range map[string]string{
		openExecute + "[" + strings.Repeat(" ", 18) + "]</execut":  "execute",
		openExecute + "[" + strings.Repeat(" ", 19) + "]</execut":  ExecuteTooLarge,
		openExecute + "[" + strings.Repeat(" ", 19) + "]":          ExecuteTooLarge,
		openExecute + "[" + strings.Repeat(" ", 19) + "x</execut":  ExecuteUnterminated,
		openExecute + "[]" + strings.Repeat(" ", 27):               "execute",
		openExecute + "[]" + strings.Repeat(" ", 28):               ExecuteTooLarge,
		openExecute + "[" + strings.Repeat(" ", 18) + "]\u00a0":    "execute",
		openExecute + strings.Repeat("x", 31):                      ExecuteTooLarge,
		openExecute + `["` + strings.Repeat("x", 27):               ExecuteUnterminated,
		openExecute + `["` + strings.Repeat("x", 28):               ExecuteTooLarge,
		openExecute + `["` + strings.Repeat("x", 14) + shutExecute: ExecuteJSON, // in the string, across the bound
		openExecute + `["` + strings.Repeat("x", 18) + "\n":        ExecuteJSON,
	} {
		if got := everyCut(t, x, messages.FinishStop, reply); short(got.all) != want {
			t.Errorf("%s: %s, want %s", reply, short(got.all), want)
		}
	}
	x.Limits.ExecuteBytes = 100
	for body, want := range map[string]string{
		`[{"name":"a","args":{"b":[]}}]`:                  `call {"name":"a","args":{"b":[]}}|execute`,
		`[{"name":"a","args":{"b":[[]]}}]`:                ExecuteJSON,
		`[{"name":"a","args":{}},{"name":"a","args":{}}]`: ExecuteTooMany,
	} {
		if got := everyCut(t, x, messages.FinishStop, openExecute+body+shutExecute); short(got.all) != want {
			t.Errorf("%s: %s, want %s", body, short(got.all), want)
		}
	}
	d := x.NewDecoder(messages.TurnInfo{MaxReplyBytes: 5})
	var got []string
	emit := func(e messages.Event) {
		switch e.Kind {
		case messages.EventUnitText:
			got = append(got, string(e.Text))
		case messages.EventUnitEnd:
			got = append(got, fmt.Sprint(e.Complete))
		case messages.EventParseError:
			got = append(got, string(e.Fault.Code)+"/"+e.Fault.Reason)
		}
	}
	d.Push([]byte("abcdefgh"), emit)
	d.Push([]byte("i"), emit)
	d.End(messages.FinishStop, emit)
	if s := strings.Join(got, " "); s != "abcde false ERR_QUOTA/stream_too_large" {
		t.Error(s)
	}
}

// What is kept of a batch is bounded while it comes, and a scanner that has grown beyond
// its bound is not used again.
func TestBatchMemory(t *testing.T) {
	for _, c := range []struct {
		head, each string
		kept       bool
	}{
		{`[{"name":"t","args":{"a":"`, `one \"two\"`, true},
		{`[`, `{"":0},`, false},
		{`x`, `"a"`, true}, // no JSON
	} {
		d := Dialect{}.NewDecoder(messages.TurnInfo{}).(*decoder)
		emit := func(e messages.Event) { t.Fatalf("%s: %+v", c.each, e) }
		d.Push([]byte(openExecute+c.head), emit)
		for n := len(c.head); n+len(c.each) <= d.limits.ExecuteBytes; n += len(c.each) {
			d.Push([]byte(c.each), emit)
		}
		kept := d.json.MemoryBytes()
		if kept <= maxKeptBytes != c.kept {
			t.Errorf("%s: %d bytes of memory, to be kept %v", c.each, kept, c.kept)
		}
		if kept > 10<<20 || cap(d.body) > 2<<20 {
			t.Errorf("%s: %d and %d bytes of memory", c.each, kept, cap(d.body))
		}
		d.End(messages.FinishCancelled, emit)
		if d.json != nil || d.body != nil {
			t.Errorf("%s: memory is held behind the end", c.each)
		}
		for range 8 {
			if n := scanners.Get().(*scan.JSON).MemoryBytes(); n > maxKeptBytes {
				t.Errorf("%s: a scanner of %d bytes is used again", c.each, n)
			}
		}
	}
}

// Blocks that have to be read again cost no more than their length. Read quadratically
// the worst of these would take 40 GB of steps.
func TestResultsAreLinear(t *testing.T) {
	for _, c := range []struct{ head, each, tail string }{
		{"", `<results>\"</results>`, "\n"},
		{`<results>"`, `</results><results>\"`, `" "` + "\n"},
		{"", `<results>"</results>"`, "\n"},
		{"", `<results>`, "\n"},
		{`<results>"`, `</results> <results>" \"`, "\n"},
	} {
		n := 200_000
		reply := []byte(c.head + strings.Repeat(c.each, n) + c.tail)
		d := Dialect{}.NewDecoder(messages.TurnInfo{}).(*decoder)
		d.Push(reply, func(messages.Event) {})
		d.End(messages.FinishStop, func(messages.Event) {})
		if d.steps > 8*int64(len(reply)) {
			t.Errorf("%q: %d steps for %d bytes", c.each, d.steps, len(reply))
		}
	}
}

// A unit's text goes out as it came, without a copy of its own.
func TestTextIsNotCopied(t *testing.T) {
	d := Dialect{}.NewDecoder(messages.TurnInfo{})
	p := bytes.Repeat([]byte("a < b "), 1000)
	allocs := testing.AllocsPerRun(100, func() { d.Push(p, func(messages.Event) {}) })
	if allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
}
