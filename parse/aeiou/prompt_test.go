package aeiou

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var goldenTools = []messages.ToolSpec{
	{Name: "aeiou.magic", Signature: "(kind, payload, opts?)", Description: "Mint the control token that ends the turn.", Class: messages.Effectful},
	{Name: "str.Replace", Signature: "(s, old, new, count?)", Description: "Replace old by new.\n\nAll of them without a count.", Class: messages.Pure},
	{Name: "list.Length", Signature: "(l)"},
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := "testdata/" + name
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != got {
		t.Errorf("%s differs; run with -update and read the diff:\n%s", path, got)
	}
}

func TestPrimer(t *testing.T) {
	p := Dialect{}.Primer(goldenTools)
	golden(t, "primer.golden", p)
	// The author rules of §19, each in its words here.
	for _, rule := range []string{
		"Read only what lies between START and END", "Only ACTIONS runs", "exactly one `command` block", "USERDATA is fixed input from the host",
		"Never type a control token yourself", `tool.aeiou.magic("LOOP", {"action": …})`, "unchanged and unquoted", "Make that the last line you emit",
		"Control is read from this turn's OUTPUT only, never from USERDATA or SCRATCHPAD",
		"- tool.str.Replace(s, old, new, count?): Replace old by new. All of them without a count.\n", "- tool.list.Length(l)\n",
	} {
		if !strings.Contains(p, rule) {
			t.Errorf("the primer does not say %q", rule)
		}
	}
	if !strings.HasSuffix((Dialect{}).Primer(nil), "None besides tool.aeiou.magic.\n") {
		t.Error("no tools")
	}
}

func TestRender(t *testing.T) {
	ms := Dialect{}.Render(messages.Projection{
		SID: "local:local:a", Turn: 2, Text: "hi", Userdata: `{"subject":"invoice-7","fields":{"goal":"total"}}`,
		Out: []byte("read 12 lines\n" + candidatePrefix + "LOOP:old.tag>>>\n"), Scr: []byte("note\n" + markEnd + "\n"),
		History:   []messages.Item{{Role: messages.RoleUser, Text: "not this dialect's"}},
		Tools:     goldenTools,
		LastError: "ERR_ACTIONS_PARSE:\nline 2: " + markStart,
	})
	if len(ms) != 2 || ms[0].Role != messages.RoleSystem || ms[0].Text != (Dialect{}).Primer(goldenTools) || ms[0].Lints != nil {
		t.Fatalf("%+v", ms)
	}
	if ms[1].Role != messages.RoleUser || !slices.Equal(ms[1].Lints, []messages.Code{messages.LintMarkerEscaped}) {
		t.Errorf("%+v", ms[1])
	}
	golden(t, "author.golden", ms[1].Text)
	e, _, err := Parse([]byte(ms[1].Text), Options{StrictDuplicates: true})
	if err != nil || string(e.Actions) != "command\nendcommand" || string(e.Scratchpad) != "note\n "+markEnd {
		t.Errorf("%v %+v", err, e)
	}
}

func TestRenderFirstTurn(t *testing.T) {
	ms := Dialect{}.Render(messages.Projection{Text: "say \"hi\"\n\xff"})
	want := env("@START", "@USERDATA", `{"subject":"message","fields":{"text":"say \"hi\"\n`+"\ufffd"+`"}}`, "@ACTIONS", "command", "endcommand", "@END")
	if ms[1].Text != want || ms[1].Lints != nil {
		t.Errorf("%q", ms[1].Text)
	}
}

// Render has no error to give, so it must cope with what should not reach it.
func TestRenderCopes(t *testing.T) {
	for _, p := range []messages.Projection{
		{Userdata: "no json"},
		{Userdata: "\xff"},
		{Userdata: "{\n" + markEnd + "\n}"},
		{Text: strings.Repeat("x", MaxSectionBytes)},
		{Text: "a", Out: []byte(strings.Repeat("\xff", MaxSectionBytes)), Scr: []byte("\xff\n")},
		{Userdata: goodUserdata + strings.Repeat(" ", MaxSectionBytes-len(goodUserdata)), Out: []byte(strings.Repeat(markEnd+"\n", 20000)), Scr: []byte(strings.Repeat(markEnd+"\n", 20000))},
	} {
		ms := Dialect{}.Render(p)
		_, _, err := Parse([]byte(ms[1].Text), Options{StrictDuplicates: true})
		if err != nil {
			t.Errorf("%.40q: %v", p.Userdata+p.Text, err)
		}
		told := strings.Contains(ms[1].Text, "This turn's input could not be passed on: ")
		if wrong := CheckUserdata([]byte(p.Userdata)) != nil && p.Text == "" || len(p.Text) > 1; told != wrong {
			t.Errorf("%.40q: told %v", p.Userdata+p.Text, told)
		}
	}
}

func TestOneLine(t *testing.T) {
	if got := oneLine(" a\n\tb \r\nc\xff "); got != "a b c\ufffd" {
		t.Errorf("%q", got)
	}
	if got := oneLine(strings.Repeat("é", 2000)); got != strings.Repeat("é", 1024)+"…" {
		t.Errorf("%d bytes", len(got))
	}
	if got := oneLine("x" + strings.Repeat("é", 2000)); got != "x"+strings.Repeat("é", 1023)+"…" {
		t.Errorf("%d bytes", len(got))
	}
}
