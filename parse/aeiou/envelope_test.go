package aeiou

import (
	"errors"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

const goodUserdata = `{"subject":"s","fields":{}}`

// env writes an envelope text: "@NAME" lines become markers.
func env(lines ...string) string {
	var b strings.Builder
	for _, l := range lines {
		if name, ok := strings.CutPrefix(l, "@"); ok {
			l = markerPrefix + name + ">>>"
		}
		b.WriteString(l)
		b.WriteByte('\n')
	}
	return b.String()
}

func minimal(extra ...string) string {
	return env(append(append([]string{"@START", "@USERDATA", goodUserdata, "@ACTIONS", "command"}, extra...), "endcommand", "@END")...)
}

func wantError(t *testing.T, err error, code messages.Code, reason string, offset int64, line int) {
	t.Helper()
	var e *messages.Error
	if !errors.As(err, &e) {
		t.Fatalf("error %v is not typed", err)
	}
	if e.Code != code || e.Reason != reason || !e.HasOffset || offset >= 0 && (e.Offset != offset || e.Line != line) {
		t.Errorf("got %v (line %d), want %s/%s at %d, line %d", err, e.Line, code, reason, offset, line)
	}
}

func TestParseErrors(t *testing.T) {
	const m = messages.ErrEnvMarkersInvalid
	long := strings.Repeat("x", MaxLineBytes+1)
	huge := strings.Repeat("x", MaxSectionBytes+1)
	start := len(markStart) + 1
	ud := start + len(markUserdata) + 1
	for _, c := range []struct {
		name, in, reason string
		o                Options
		code             messages.Code
		offset           int64 // -1: not checked
		line             int
	}{
		{"empty", "", "", Options{}, m, 0, 1},
		{"two BOMs", bom + bom + minimal(), "", Options{}, m, 0, 1},
		{"indented START", " " + minimal(), "", Options{}, m, 0, 1},
		{"BOM behind blank", " " + bom + minimal(), "", Options{}, m, 0, 1},
		{"blank line first", "\n" + minimal(), "", Options{}, m, 0, 1},
		{"text between", env("@START", "", "text", "@USERDATA", "{}", "@END"), "", Options{}, m, int64(start + 1), 3},
		{"BOM line between", env("@START", bom, "@USERDATA", "{}", "@END"), "", Options{}, m, int64(start), 2},
		{"VT between", env("@START", "\v", "@USERDATA", "{}", "@END"), "", Options{}, m, int64(start), 2},
		{"unknown marker in ACTIONS", minimal("@NOTE_S"), "", Options{}, m, int64(ud + len(goodUserdata) + 1 + len(markActions) + 1 + 8), 6},
		{"unknown marker with BOM and blanks", minimal(bom + markerPrefix + "_>>> \t\r"), "", Options{}, m, -1, 0},
		{"unknown marker first", env("@START", "@X", "@END"), "", Options{}, m, int64(start), 2},
		{"START in a body", minimal("@START"), "", Options{}, m, -1, 0},
		{"END missing", env("@START", "@USERDATA", "{}", "@ACTIONS"), "", Options{}, m, -1, 0},
		{"two faults, first wins", env("@START", "@USERDATA", "@A", "@ACTIONS", "@B", "@END"), "", Options{}, m, int64(ud), 3},
		{"not UTF-8", minimal("\xff"), "NON_UTF8", Options{}, m, -1, 0},
		{"not UTF-8 on a BOM half", env("@START", "\xef\xbb<", "@END"), "NON_UTF8", Options{}, m, int64(start), 2},
		{"not UTF-8, END missing", env("@START") + "\xc0", "NON_UTF8", Options{}, m, int64(start), 2},
		{"not UTF-8, START missing", "\xc0" + env("@END"), "NON_UTF8", Options{}, m, 0, 1},
		{"UTF-8 before markers", env("@START", "@NOPE", "\xff", "@END"), "NON_UTF8", Options{}, m, -1, 0},
		{"markers before order", env("@START", "@ACTIONS", "@USERDATA", "@NOPE", "@END"), "", Options{}, m, -1, 0},
		{"order before missing", env("@START", "@ACTIONS", "@OUTPUT", "@END"), "", Options{}, messages.ErrEnvOrder, int64(start + len(markActions) + 1), 3},
		{"order again after a repair", env("@START", "@OUTPUT", "@USERDATA", "@ACTIONS", "@END"), "", Options{}, messages.ErrEnvOrder, int64(start + len(markOutput) + 1), 3},
		{"missing USERDATA", env("@START", "@ACTIONS", "@END"), "", Options{}, messages.ErrEnvSectionMissing, -1, 0},
		{"missing before strict dup", env("@START", "@USERDATA", "@USERDATA", "@END"), "", Options{StrictDuplicates: true}, messages.ErrEnvSectionMissing, -1, 0},
		{"strict dup before sizes", env("@START", "@USERDATA", huge, "@USERDATA", "@ACTIONS", "@END"), "", Options{StrictDuplicates: true}, messages.ErrEnvSectionDup, -1, 0},
		{"strict dup", env("@START", "@USERDATA", goodUserdata, "@OUTPUT", "@OUTPUT", "@ACTIONS", "@END"), "", Options{StrictDuplicates: true}, messages.ErrEnvSectionDup, -1, 0},
		{"ignored duplicate too big", env("@START", "@USERDATA", goodUserdata, "@ACTIONS", "x", "@ACTIONS", huge, "@END"), "", Options{}, messages.ErrEnvSize, -1, 0},
		{"long line in OUTPUT", env("@START", "@USERDATA", goodUserdata, "@OUTPUT", "a", long, "@ACTIONS", "@END"), "", Options{}, messages.ErrEnvSize, int64(ud + len(goodUserdata) + 1 + len(markOutput) + 1 + 2), 6},
		{"long line in an ignored OUTPUT", env("@START", "@USERDATA", goodUserdata, "@OUTPUT", "@OUTPUT", long, "@ACTIONS", "@END"), "", Options{}, messages.ErrEnvSize, -1, 0},
		{"sizes before USERDATA", env("@START", "@USERDATA", "nope", "@OUTPUT", long, "@ACTIONS", "@END"), "", Options{}, messages.ErrEnvSize, -1, 0},
		{"USERDATA offset", env("@START", "@USERDATA", "", ` {"subject":1,"fields":{}}`, "@ACTIONS", "@END"), "", Options{}, messages.ErrUserdataSchema, int64(ud + 13), 4},
		{"extract: no START", "prose\n" + env("@END"), "", Options{Extract: true}, m, 0, 1},
		{"extract: stray text", "prose\n" + env("@START", "x", "@USERDATA", "@ACTIONS", "@END"), "", Options{Extract: true}, m, int64(6 + start), 3},
		{"extract: not UTF-8 inside", "prose\n" + minimal("\xff"), "NON_UTF8", Options{Extract: true}, m, -1, 0},
		{"extract: order", "prose\n" + env("@START", "@ACTIONS", "@USERDATA", "@END"), "", Options{Extract: true}, messages.ErrEnvOrder, -1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, lints, err := Parse([]byte(c.in), c.o)
			wantError(t, err, c.code, c.reason, c.offset, c.line)
			if lints != nil || e.Actions != nil {
				t.Error("an envelope came with the error")
			}
		})
	}
}

func TestParseAccepts(t *testing.T) {
	for _, c := range []struct {
		name, in string
		o        Options
		actions  string
		lints    int
	}{
		{"BOM on START", bom + minimal(), Options{}, "command\nendcommand", 0},
		{"blanks on every marker", strings.ReplaceAll(minimal(), ">>>\n", ">>> \t\r\n"), Options{}, "command\nendcommand", 0},
		{"BOM on every marker", bom + strings.ReplaceAll(minimal(), "\n<<<", "\n"+bom+"<<<"), Options{}, "command\nendcommand", 0},
		{"blank lines behind START", env("@START", "", " \t\r", "@USERDATA", goodUserdata, "@ACTIONS", "x", "@END"), Options{}, "x", 0},
		{
			"look-alikes are content", minimal("<<<NSENV:V4:END>>>", " "+markEnd, markEnd+".", "<<<NSENV:V3:>>>", "<<<NSENV:V3:a>>>", "<<<NSENV:V3:A1>>>", "<<<NSENV:V3:END>>", bom+bom+markEnd, "x"+bom+markEnd, markEnd+"\v", markEnd+"\u00a0"),
			Options{},
			"", 0,
		},
		{"a BOM before LF before a marker stays", env("@START", "@USERDATA", goodUserdata, "@ACTIONS", "x", bom, "@END"), Options{}, "x\n" + bom, 0},
		{"END without LF", strings.TrimSuffix(minimal(), "\n"), Options{}, "command\nendcommand", 0},
		{"END with blanks at the end", strings.TrimSuffix(minimal(), "\n") + " \r", Options{}, "command\nendcommand", 0},
		{"nothing after END is looked at", minimal() + "\xff\n" + env("@START", "@NOPE"), Options{}, "command\nendcommand", 0},
		{
			"one lint per repetition", env("@START", "@USERDATA", goodUserdata, "@USERDATA", "@USERDATA", "@ACTIONS", "x", "@ACTIONS", "y", "@OUTPUT", "@OUTPUT", "@END"),
			Options{},
			"", -1,
		}, // OUTPUT comes first after ACTIONS: order
		{"late repetitions", env("@START", "@USERDATA", goodUserdata, "@USERDATA", "@OUTPUT", "@ACTIONS", "x", "@ACTIONS", "y", "@OUTPUT", "@USERDATA", "@END"), Options{}, "x", 4},
		{"extract", "Sure!\n```\n" + minimal() + "```\n", Options{Extract: true}, "command\nendcommand", 0},
		{"extract: bytes before START are not read", "\xff\n" + minimal(), Options{Extract: true}, "command\nendcommand", 0},
		{"extract: markers before START are not read", env("@END", "@NOPE", "@ACTIONS") + minimal(), Options{Extract: true}, "command\nendcommand", 0},
		{"extract: no schema", env("@START", "@USERDATA", "…", "@ACTIONS", "x", "@END"), Options{Extract: true}, "x", 0},
		{"extract: the first of two envelopes", minimal() + env("@START", "@USERDATA", "@ACTIONS", "z", "@END"), Options{Extract: true}, "command\nendcommand", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, lints, err := Parse([]byte(c.in), c.o)
			if c.lints < 0 {
				wantError(t, err, messages.ErrEnvOrder, "", -1, 0)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.actions != "" && string(e.Actions) != c.actions || len(lints) != c.lints {
				t.Errorf("actions %q, lints %v", e.Actions, lints)
			}
			for _, l := range lints {
				if l.Code != messages.LintDupSectionIgnored || l.Line != 1+strings.Count(c.in[:l.Offset], "\n") ||
					!strings.HasPrefix(c.in[l.Offset:], markerPrefix+l.Section) {
					t.Errorf("lint %+v", l)
				}
			}
		})
	}
}

// Limits at the limit and one byte over it (§3.2).
func TestLimits(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	lines := func(n int) string { // n bytes in lines short enough for OUTPUT
		return strings.Repeat(x(99)+"\n", n/100) + x(n%100)
	}
	with := func(section string, n int) string {
		return env("@START", "@USERDATA", goodUserdata, "@"+section, lines(n), "@ACTIONS", "x", "@END")
	}
	for _, c := range []struct {
		name string
		at   func(over int) string
	}{
		{"USERDATA", func(o int) string {
			return env("@START", "@USERDATA", goodUserdata+strings.Repeat(" ", MaxSectionBytes-len(goodUserdata)+o), "@ACTIONS", "x", "@END")
		}},
		{"SCRATCHPAD", func(o int) string { return with("SCRATCHPAD", MaxSectionBytes+o) }},
		{"OUTPUT", func(o int) string { return with("OUTPUT", MaxSectionBytes+o) }},
		{"ACTIONS", func(o int) string {
			return env("@START", "@USERDATA", goodUserdata, "@ACTIONS", x(MaxSectionBytes+o), "@END")
		}},
		{"ignored SCRATCHPAD", func(o int) string {
			return env("@START", "@USERDATA", goodUserdata, "@SCRATCHPAD", "@SCRATCHPAD", lines(MaxSectionBytes+o), "@ACTIONS", "x", "@END")
		}},
		{"OUTPUT line", func(o int) string {
			return env("@START", "@USERDATA", goodUserdata, "@OUTPUT", x(MaxLineBytes), x(MaxLineBytes+o), x(MaxLineBytes), "@ACTIONS", "x", "@END")
		}},
		{"whole", func(o int) string { // a BOM, blanks behind END and what follows do not count
			head := env("@START", "@USERDATA", goodUserdata, "@OUTPUT", lines(MaxSectionBytes), "@ACTIONS")
			n := MaxEnvelopeBytes - len(head) - 1 - len(markEnd)
			return bom + head + x(n+o) + "\n" + markEnd + " \t \r\nmore"
		}},
	} {
		for _, o := range []Options{{}, {Extract: true}, {StrictDuplicates: c.name != "ignored SCRATCHPAD"}} {
			if _, _, err := Parse([]byte(c.at(0)), o); err != nil {
				t.Errorf("%s at its limit, %+v: %v", c.name, o, err)
			}
			if _, _, err := Parse([]byte(c.at(1)), o); messages.CodeOf(err) != messages.ErrEnvSize {
				t.Errorf("%s over its limit, %+v: %v", c.name, o, err)
			}
		}
	}
	// Where a marker is missing, all the input counts, and size comes first.
	for _, open := range []string{"", markStart + "\n"} {
		fits, over := open+x(MaxEnvelopeBytes-len(open)), open+x(MaxEnvelopeBytes-len(open)+1)
		if _, _, err := Parse([]byte(fits), Options{}); messages.CodeOf(err) != messages.ErrEnvMarkersInvalid {
			t.Errorf("%q… at the limit: %v", open, err)
		}
		if _, _, err := Parse([]byte(over), Options{}); messages.CodeOf(err) != messages.ErrEnvSize {
			t.Errorf("%q… over the limit: %v", open, err)
		}
		if _, _, err := Parse([]byte(over+"\xff"), Options{}); messages.CodeOf(err) != messages.ErrEnvSize {
			t.Errorf("size before UTF-8: %v", err)
		}
	}
}

func TestParseAliases(t *testing.T) {
	in := []byte(minimal())
	e, _, err := Parse(in, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if &e.Userdata[0] != &in[len(markStart)+1+len(markUserdata)+1] || cap(e.Userdata) != len(e.Userdata) {
		t.Error("a body must alias the input and end where it ends")
	}
}

func TestOverlongLine(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct {
		in   string
		want int
	}{
		{"", -1},
		{x(MaxLineBytes), -1},
		{x(MaxLineBytes) + "\n", -1},
		{x(MaxLineBytes + 1), 0},
		{"\n" + x(MaxLineBytes), -1},
		{"\n" + x(MaxLineBytes+1), 1},
		{x(MaxLineBytes) + "\n" + x(MaxLineBytes) + "\n", -1},
		{"a\n" + x(MaxLineBytes) + "\nb\n" + x(MaxLineBytes+1) + "\n", 2 + MaxLineBytes + 1 + 2},
	} {
		if got := overlongLine([]byte(c.in)); got != c.want {
			t.Errorf("%d bytes: %d, want %d", len(c.in), got, c.want)
		}
	}
}
