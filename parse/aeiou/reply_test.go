package aeiou

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// forgiving is the dialect as an agent has it when its manifest says nothing.
var forgiving = Dialect{Rendering: 2, Forgive: parse.AllHabits}

// read2 pushes the pieces into a decoder of version 2 and writes down the events: lints by
// code, the program as it is, an error with its code and detail.
func read2(t testing.TB, d Dialect, f messages.Finish, pieces ...[]byte) string {
	t.Helper()
	dec := d.NewDecoder(messages.TurnInfo{})
	for _, p := range pieces {
		q := append([]byte(nil), p...)
		dec.Push(q, func(e messages.Event) { t.Fatalf("an event before the end: %+v", e) })
		clear(q)
	}
	var out []string
	dec.End(f, func(e messages.Event) {
		switch e.Kind {
		case messages.EventProgram:
			out = append(out, string(e.Text))
		case messages.EventLint:
			out = append(out, string(e.Fault.Code))
		case messages.EventParseError:
			out = append(out, fmt.Sprintf("%s %d:%d %s", e.Fault.Code, e.Fault.Line, e.Fault.Col, e.Fault.Detail))
		default:
			t.Fatalf("event %+v", e)
		}
	})
	return strings.Join(out, "|")
}

const (
	prog    = "command\n  emit \"x\"\nendcommand"
	quoting = "command\n  emit '''Like this:\n\ncommand\n  emit 1\nendcommand\n" + markEnd + "\n" + markStart + "\n</think>\n```\n'''\nendcommand"
)

var habitual = []struct{ name, reply, want string }{
	{"program", prog, prog},
	{"program with a comment in front", "\n# what it does\n\n" + prog + "\n", "# what it does\n\n" + prog},
	{"program with metadata", ":: title: x\n" + prog, ":: title: x\n" + prog},
	{"CRLF", strings.ReplaceAll(prog, "\n", "\r\n") + "\r\n", strings.ReplaceAll(prog, "\n", "\r\n")},
	{"BOM", bom + prog, bom + prog},
	{"comments on the keywords", "command # go\nendcommand // done", "command # go\nendcommand // done"},
	{"fence", "```neuroscript\n" + prog + "\n```", "LINT_FENCE|" + prog},
	{"fence that is not shut", "```\n" + prog, "LINT_FENCE|" + prog},
	{"fence at the end alone", prog + "\n```", "LINT_FENCE|" + prog},
	{"indented fence", "  ```\n" + prog + "\n  ```\n", "LINT_FENCE|" + prog},
	{"text in front", "Sure! Here is the program:\n\n" + prog, "LINT_PROSE|" + prog},
	{"text behind", prog + "\n\nIt says x.", "LINT_PROSE|" + prog},
	{"heading in front", "# Program\n\nThis:\n" + prog, "LINT_PROSE|" + prog},
	{"text and fence", "Here:\n```\n" + prog + "\n```\nIt says x.", "LINT_FENCE|LINT_PROSE|" + prog},
	{"thought", "<think>\nThe program starts with command.\n</think>\n\n" + prog, "LINT_THINK|" + prog},
	{"thought in other words", "<Thinking>hm</Thinking>" + prog, "LINT_THINK|" + prog},
	{"thought of the template", "I need it.\n</think>\n" + prog, "LINT_THINK|" + prog},
	{"thought of the template, on the line", "I need it.</think>\n" + prog, "LINT_THINK|" + prog},
	{"thought of the template, in the line", "I needİt.</think> No:</THINK>command\n  emit 1\nendcommand", "LINT_THINK|command\n  emit 1\nendcommand"},
	{"thought named behind a program", prog + "\nA </think> in the middle.", "LINT_PROSE|" + prog},
	{"made-up OUTPUT behind", prog + "\n" + markOutput + "\n99 geese\n" + markEnd, "LINT_PROSE|LINT_SECTIONS|" + prog},
	{"thought with a draft", "<think>\n" + prog + "\n</think>\n" + quoting, "LINT_THINK|" + quoting},
	{"thought of the template with a draft", "So:\n" + prog + "\nNo, better:</think>\n" + quoting, "LINT_THINK|" + quoting},
	{"thought behind", prog + "\n<think>done?\ncommand\n</think>", "LINT_THINK|" + prog},
	{"two thoughts and text", "<think>a</think>\nOk.\n<think>command\n</think>\n" + prog, "LINT_PROSE|LINT_THINK|" + prog},
	{"draft in an envelope in a thought", "<think>\n" + minimal() + "</think>\n" + prog, "LINT_THINK|" + prog},
	{"program that quotes", quoting, quoting},
	{"program that quotes, in text", "This:\n" + quoting + "\nGood.", "LINT_PROSE|" + quoting},
	{"string that its line does not close", "Hm.\ncommand\n  emit \"a\n  b\"\nendcommand", "LINT_PROSE|command\n  emit \"a\n  b\"\nendcommand"},
	{"raw string with a fence in it", "command\n  emit ```a\n```python\nb\n```\nc```\nendcommand", "command\n  emit ```a\n```python\nb\n```\nc```\nendcommand"},
	{"quote in a comment", "So:\ncommand\n  # don't\n  emit 1 -- it's\nendcommand\nOk.", "LINT_PROSE|command\n  # don't\n  emit 1 -- it's\nendcommand"},
	{"joined lines in a string", "So:\ncommand\n  emit \"a\\\nendcommand\"\nendcommand", "LINT_PROSE|command\n  emit \"a\\\nendcommand\"\nendcommand"},

	{"envelope", env("@START", "@USERDATA", "{}", "@OUTPUT", "o", "@ACTIONS", prog, "@END"), prog},
	{"envelope in a fence", "Here:\n```\n" + env("@START", "@USERDATA", "@ACTIONS", prog, "@END") + "```", prog},
	{"envelope with a fence in it", env("@START", "@USERDATA", "@ACTIONS", "```", prog, "```", "@END"), "LINT_FENCE|" + prog},
	{"envelope with text in it", env("@START", "@USERDATA", "@ACTIONS", "Ok:", prog, "@END"), "LINT_PROSE|" + prog},
	{"envelope without USERDATA", env("@START", "@ACTIONS", prog, "@END"), "LINT_SECTIONS|" + prog},
	{"envelope without END", env("@START", "@USERDATA", "@ACTIONS", prog), "LINT_CLOSING|" + prog},
	{"envelope without either", env("@START", "@ACTIONS", prog) + "```\n", "LINT_FENCE|LINT_CLOSING|LINT_SECTIONS|" + prog},
	{"envelope from ACTIONS on", env("@ACTIONS", prog, "@END") + "more", "LINT_SECTIONS|" + prog},
	{"envelope from USERDATA on", env("@USERDATA", "{}", "@ACTIONS", prog), "LINT_SECTIONS|" + prog},
	{"program and END", prog + "\n" + markEnd + "\n" + minimal(), "LINT_SECTIONS|" + prog},
	{"envelope whose program quotes END", env("@START", "@USERDATA", "@ACTIONS", quoting, "@END"), quoting},
	{"envelope with a section twice", env("@START", "@USERDATA", "@ACTIONS", prog, "@ACTIONS", "z", "@END"), "LINT_DUP_SECTION_IGNORED|" + prog},
	{"envelope and another", env("@START", "@USERDATA", "@ACTIONS", prog, "@END") + minimal(), prog},

	{"two programs", prog + "\n" + prog, "ERR_ACTIONS_PARSE 4:1 the reply holds a program from line 1 on and more of one in line 4, and nothing was run; write exactly one program"},
	{"two programs in text", "First:\n```\n" + prog + "\n```\nOr:\n```\n" + prog + "\n```", "ERR_ACTIONS_PARSE 9:1 the reply holds a program from line 3 on and more of one in line 9, and nothing was run; write exactly one program"},
	{"the word alone behind a program", prog + "\ncommand\n", "ERR_ACTIONS_PARSE 4:1 the reply holds a program from line 1 on and more of one in line 4, and nothing was run; write exactly one program"},
	{"an end behind a program", prog + "\nendcommand\n", "ERR_ACTIONS_PARSE 4:1 the reply holds a program from line 1 on and more of one in line 4, and nothing was run; write exactly one program"},
	{"program and envelope", prog + "\n" + minimal(), "ERR_ACTIONS_PARSE 4:1 the reply holds a program from line 1 on and more of one in line 4, and nothing was run; write exactly one program"},
	{"two programs in an envelope", env("@START", "@USERDATA", "@ACTIONS", prog, prog, "@END"), "ERR_ACTIONS_PARSE 7:1 the reply holds a program from line 4 on and more of one in line 7, and nothing was run; write exactly one program"},
	{"function in front", "func f() means\nendfunc\n" + prog, "ERR_ACTIONS_PARSE 1:1 " + refusedStray},
	{"statement behind", prog + "\n\nemit tool.aeiou.magic(\"LOOP\", {\"action\": \"done\"})", "ERR_ACTIONS_PARSE 5:1 " + refusedStray},
	{"statements in front", "Ok.\nset x = 1\n" + prog, "ERR_ACTIONS_PARSE 2:1 " + refusedStray},
	{"text that is no statement", "set up as you asked:\ncall me (Ada) back\nemit it\n" + prog, "LINT_PROSE|" + prog},
	{"statement of a thought", "<think>\nset x = 1\n</think>\n" + prog, "LINT_THINK|" + prog},
	{"draft in a thought and nothing else", "<think>\n" + prog + "\n</think>\n", "ERR_ACTIONS_PARSE 1:1 " + refusedThought},
	{"draft in a thought that nothing shuts", "<think>\n" + prog + "\n", "ERR_ACTIONS_PARSE 1:1 " + refusedThought},
	{"empty", "", "ERR_ACTIONS_PARSE 1:1 " + refusedEmpty},
	{"blank", " \n\t\n", "ERR_ACTIONS_PARSE 1:1 " + refusedEmpty},
	{"an empty fence", "```\n```", "ERR_ACTIONS_PARSE 1:1 " + refusedEmpty},
	{"answer", "There are 14 swifts.", "ERR_ACTIONS_PARSE 1:1 " + refusedAnswer},
	{"answer behind a thought", "<think>hm</think>There are 14 swifts.", "ERR_ACTIONS_PARSE 1:1 " + refusedAnswer},
	{"statements", "emit \"hi\"\nemit tool.aeiou.magic(\"LOOP\", {\"action\": \"done\"})", "ERR_ACTIONS_PARSE 1:1 " + refusedBare},
	{"call as JSON", `{"name": "file.read", "arguments": {"path": "x"}}`, "ERR_ACTIONS_PARSE 1:1 a call written as JSON is not run; write it in a program: `command`, `set r = tool.file.read(…)`, `emit r`, `emit tool.aeiou.magic(…)`, `endcommand`"},
	{"calls as JSON", "```json\n[{\"tool\": \"tool.a\", \"args\": {}}]\n```", "ERR_ACTIONS_PARSE 1:1 a call written as JSON is not run; write it in a program: `command`, `set r = tool.a(…)`, `emit r`, `emit tool.aeiou.magic(…)`, `endcommand`"},
	{"tool_calls", `{"tool_calls": [{"function": {"name": "a.b", "arguments": "{}"}}]}`, "ERR_ACTIONS_PARSE 1:1 a call written as JSON is not run; write it in a program: `command`, `set r = tool.a.b(…)`, `emit r`, `emit tool.aeiou.magic(…)`, `endcommand`"},
	{"control as JSON", `{"action": "done"}`, "ERR_ACTIONS_PARSE 1:1 " + refusedControl},
	{"JSON", `{"answer": 1}`, "ERR_ACTIONS_PARSE 1:1 " + refusedJSON},
	{"call as tags", "<tool_call>\n{\"name\": \"a\"}\n</tool_call>", "ERR_ACTIONS_PARSE 1:1 " + refusedTags},
	{"no text for the refusal from a name", `{"name": "a\nb"}`, "ERR_ACTIONS_PARSE 1:1 " + refusedJSON},
	{"envelope without ACTIONS", env("@START", "@USERDATA", "@END"), "ERR_ENV_SECTION_MISSING 3:1 ACTIONS: the section is missing; the program alone is enough, from `command` to `endcommand`, without an envelope"},
	{"envelope with empty ACTIONS", env("@START", "@USERDATA", "@ACTIONS", "@END"), "ERR_ACTIONS_PARSE 4:1 " + refusedEmpty},

	// The interpreter says what is wrong with these, and where.
	{"keyword in other case", "Ok.\nCommand\n  emit 1\nendcommand\n```", "LINT_FENCE|LINT_PROSE|Command\n  emit 1\nendcommand"},
	{"no end", "```\ncommand\n  emit 1\n```\n", "LINT_FENCE|command\n  emit 1"},
	{"another end", "command\n  emit 1\nend command\n" + markEnd, "command\n  emit 1\nend command"},
}

func TestHabits(t *testing.T) {
	for _, c := range habitual {
		if got := read2(t, forgiving, messages.FinishStop, []byte(c.reply)); got != c.want {
			t.Errorf("%s: %q\n got %q\nwant %q", c.name, c.reply, got, c.want)
		}
	}
}

// TestHabitsEveryCut: what a reply says does not depend on how it arrives.
func TestHabitsEveryCut(t *testing.T) {
	for _, c := range habitual {
		for i := range c.reply {
			if got := read2(t, forgiving, messages.FinishComplete, []byte(c.reply[:i]), []byte(c.reply[i:])); got != c.want {
				t.Fatalf("%s cut at %d: %q", c.name, i, got)
			}
		}
	}
}

// TestHabitsCutOff: of a reply that the length limit cuts nothing is run, wherever the cut
// is, but behind a whole envelope; and a reply that ends too early by itself never runs
// more than it would whole.
func TestHabitsCutOff(t *testing.T) {
	for _, c := range habitual {
		for i := range len(c.reply) + 1 {
			got := read2(t, forgiving, messages.FinishLength, []byte(c.reply[:i]))
			closed := strings.Contains(c.reply[:i], markEnd+"\n")
			if !strings.Contains(got, refusedCut) && !closed {
				t.Fatalf("%s cut off at %d: %q", c.name, i, got)
			}
		}
	}
}

// TestHabitsStrict: a habit that is switched off is not forgiven, and then the reply is
// read as version 1 read it.
func TestHabitsStrict(t *testing.T) {
	for _, c := range habitual {
		habits := parse.Habits(0)
		for h := parse.Habits(1); h <= parse.AllHabits; h <<= 1 {
			if h.Lint() != "" && strings.Contains(c.want, string(h.Lint())) {
				habits |= h
			}
		}
		if habits == 0 {
			continue
		}
		for h := parse.Habits(1); h <= habits; h <<= 1 {
			if !habits.Has(h) {
				continue
			}
			d := forgiving
			d.Forgive &^= h
			want := read2(t, Dialect{}, messages.FinishStop, []byte(c.reply))
			if got := read2(t, d, messages.FinishStop, []byte(c.reply)); got != want {
				t.Errorf("%s without %s: %q, want %q", c.name, h, got, want)
			}
		}
	}
}

func TestHabitsLimits(t *testing.T) {
	x := strings.Repeat("x", 99) + "\n"
	for name, c := range map[string]struct{ reply, want string }{
		"long text":                     {strings.Repeat(x, 5000) + prog, "LINT_PROSE|" + prog},
		"too long text":                 {strings.Repeat(x, 22000) + prog, fmt.Sprintf("ERR_ENV_SIZE 1:1 the reply is larger than %d bytes; write a shorter program", 2*MaxEnvelopeBytes)},
		"a program over its limit":      {"command\n" + strings.Repeat("# "+x, 6000) + "endcommand", fmt.Sprintf("ERR_ENV_SIZE 1:1 the program has 612018 bytes; the limit is %d", MaxSectionBytes)},
		"many lines, an END at the end": {strings.Repeat("\n", 1_000_000) + prog + "\n" + markEnd, "LINT_SECTIONS|" + prog},
		"not UTF-8":                     {"é\n\xff" + prog, "ERR_ENV_MARKERS_INVALID 2:1 NON_UTF8: the bytes are not UTF-8"},
	} {
		if got := read2(t, forgiving, messages.FinishStop, []byte(c.reply)); got != c.want {
			t.Errorf("%s: %.200q, want %.200q", name, got, c.want)
		}
	}
}

// TestHabitsRandom mixes what replies are made of: a reply is read alike however it
// arrives, and what runs stands in it, from a line command to a line endcommand.
func TestHabitsRandom(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 5000 {
		checkReply(t, r, []byte(randomReply(r)))
	}
}

func randomReply(r *rand.Rand) string {
	parts := []string{
		prog, quoting, "command\n", "endcommand\n", "  emit 'a'\n", "<think>\n", "</think>\n", "```\n", "Text.\n", markStart + "\n", markUserdata + "\n{}\n",
		markActions + "\n", markEnd + "\n", "'''", "\"", "# it's\n", "\n", "{\"action\": \"done\"}\n", bom, "\xff",
	}
	var b strings.Builder
	for range 1 + r.IntN(8) {
		b.WriteString(parts[r.IntN(len(parts))])
	}
	return b.String()
}

func checkReply(t *testing.T, r *rand.Rand, b []byte) {
	t.Helper()
	whole := read2(t, forgiving, messages.FinishComplete, b)
	if got := read2(t, forgiving, messages.FinishComplete, pieces(r, b, 9)...); got != whole {
		t.Fatalf("%q: %q in pieces, %q whole", b, got, whole)
	}
	read2(t, Dialect{Rendering: 2, Forgive: parse.Habits(r.Uint32()) & parse.AllHabits}, messages.FinishLength, b)
	at := strings.Index(whole, "command\n")
	if strings.Contains(whole, "ERR_") || at < 0 {
		return
	}
	if !strings.Contains(string(b), whole[at:]) {
		t.Fatalf("%q: runs %q, which is not in it", b, whole[at:])
	}
	for _, tag := range thoughts {
		if i := strings.Index(string(b), "<"+tag+">"); i == 0 && !strings.Contains(string(b), "</") {
			t.Fatalf("%q: runs %q, which is a thought", b, whole)
		}
	}
}

func FuzzReply(f *testing.F) {
	for i, c := range habitual {
		f.Add([]byte(c.reply), uint64(i))
	}
	f.Fuzz(func(t *testing.T, b []byte, seed uint64) { checkReply(t, rand.New(rand.NewPCG(seed, 1)), b) })
}

// TestCureOfToken: a turn without a valid token is told how one ends, from version 2 on.
func TestCureOfToken(t *testing.T) {
	for _, c := range []struct {
		f    messages.Facts
		want string
	}{
		{messages.Facts{Out: []byte("a\n")}, "emit what tool.aeiou.magic returns: the last line"},
		{messages.Facts{Out: []byte("Done: " + candidatePrefix + "LOOP:x.y>>>\n")}, "it stands inside other text; emit it alone: the last line"},
		{messages.Facts{Tokens: []messages.TokenCheck{{Failure: messages.ErrTokenParse, Reason: "BAD_SHAPE"}}}, "a token is never typed or copied: the last line"},
	} {
		old, v := Dialect{}.Decide(c.f), Dialect{Rendering: 2}.Decide(c.f)
		if v.Decision != messages.Halt || v.Code != old.Code || !strings.HasPrefix(v.Detail, old.Detail+": "+c.want) {
			t.Errorf("%+v", v)
		}
	}
	if v := (Dialect{Rendering: 2}).Decide(messages.Facts{Tokens: []messages.TokenCheck{{Action: "done"}}}); v.Decision != messages.Done || v.Detail != "" {
		t.Errorf("%+v", v)
	}
}
