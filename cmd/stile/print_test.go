package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// Growing text, cut anywhere, ends as the record's text does.
func TestGrowingTextAtEveryCut(t *testing.T) {
	text := "Ahoy – 船 🚢\nand \x1b[31mred"
	unit := messages.UnitID{Turn: 1}
	record := stile.Update{Record: &messages.Record{Seq: 5, Body: &messages.UnitText{UnitKind: messages.ResponseUnit, Complete: true, Text: text, Unit: unit.String()}}}
	show := func(updates ...stile.Update) string {
		var b bytes.Buffer
		p := &printer{w: &b, growing: true}
		for _, u := range updates {
			if err := p.update(u); err != nil {
				t.Fatal(err)
			}
		}
		return b.String()
	}
	delta := func(from, to int) stile.Update {
		return stile.Update{Delta: &messages.Delta{Seq: 4, Unit: unit, Kind: messages.ResponseUnit, Off: int64(to), Text: text[from:to]}}
	}
	want := show(record)
	if want != "says     Ahoy – 船 🚢\n         and \\u{1b}[31mred\n" {
		t.Fatalf("%q", want)
	}
	for i := 0; i <= len(text); i++ {
		for j := i; j <= len(text); j++ {
			whole := []stile.Update{delta(0, i), delta(i, j), delta(j, len(text)), record}
			for name, updates := range map[string][]stile.Update{
				"whole": whole, "first lost": whole[1:], "middle lost": {whole[0], whole[2], record}, "end lost": {whole[0], whole[1], record}, "repeated": {whole[0], whole[1], whole[1], whole[2], record},
			} {
				if got := show(updates...); got != want {
					t.Fatalf("%s, cut at %d and %d: %q", name, i, j, got)
				}
			}
		}
	}
	// A record between two deltas gets a line of its own.
	note := stile.Update{Record: &messages.Record{Body: &messages.Note{Text: "aside"}}}
	if got := show(delta(0, 4), note, record); got != "says     Ahoy\nnote     aside\n"+want {
		t.Errorf("%q", got)
	}
	// Off a terminal only the record counts.
	var b bytes.Buffer
	p := &printer{w: &b}
	for _, u := range []stile.Update{delta(0, 4), record} {
		if err := p.update(u); err != nil {
			t.Fatal(err)
		}
	}
	if b.String() != want {
		t.Errorf("%q", b.String())
	}
}

func TestPrinterShowsRecords(t *testing.T) {
	for want, body := range map[string]messages.Body{
		"erased   record 0, emit\n":                                 &messages.Undecoded{Of: messages.KindEmit},
		"closed   enough\n":                                         &messages.SessionClosed{Reason: "enough"},
		"model    the reply ended: length\n":                        &messages.ModelReply{Finish: messages.FinishLength},
		"model    a failed, asking b: busy\n":                       &messages.ModelFallback{From: "a", To: "b", Reason: "busy"},
		"thought  hm\n         (cut off)\n":                         &messages.UnitText{UnitKind: messages.ThoughtUnit, Text: "hm"},
		"thought  › [2 risk] hm\n":                                  &messages.UnitText{UnitKind: messages.ThoughtUnit, Text: "hm", Complete: true, N: 2, Parent: 1, Depth: 2, Label: "risk"},
		"thought  [1] hm\n":                                         &messages.UnitText{UnitKind: messages.ThoughtUnit, Text: "hm", Complete: true, N: 1, Depth: 1},
		"template f {\"name\":\"read\"}\n":                          &messages.ActionTemplate{Name: "f", Definition: `{"name":"read"}`},
		"call     b read {} by template f\n":                        &messages.ActionDeclared{ID: "b", Name: "read", Args: "{}", Template: "f"},
		"call     a read {} in thought 2\n":                         &messages.ActionDeclared{ID: "a", Name: "read", Args: "{}", Thought: 2},
		"text     between\n":                                        &messages.UnitText{UnitKind: messages.TextUnit, Text: "between", Complete: true},
		"emit     two\n         lines\n":                            &messages.Emit{Text: "two\nlines"},
		"emit     one\n":                                            &messages.Emit{Text: "one\n"},
		"gate     #1: deny by rule: not today\n":                    &messages.ActionApproval{ID: "#1", State: messages.GateDeny, By: "rule", Reason: "not today"},
		"         #1 failed: too far (code 8)\n":                    &messages.ActionEnded{ID: "#1", State: messages.ActionFailed, Reason: "too far", ErrorCode: 8},
		"         #1 failed: error (code 21): \"exit code 1\"\n":    &messages.ActionEnded{ID: "#1", State: messages.ActionFailed, Reason: "error", ErrorCode: 21, Result: `"exit code 1"`},
		"fault    ERR_DIALECT at byte 7: odd\n":                     &messages.ParseFault{Code: messages.ErrDialect, Offset: 7, Detail: "odd"},
		"lint     LINT_MULTI_TOKENS at byte 0\n":                    &messages.Lint{Code: messages.LintMultiTokens},
		"audit    denied: session.output x: no grant\n":             &messages.Audit{What: "session.output x", Text: "no grant"},
		"ABORT    (3 ms, gas 7, LINT_POST_TOKEN_TEXT)\n":            &messages.TurnDecided{Decision: messages.Abort, LatencyMS: 3, GasUsed: 7, Lints: []messages.Code{messages.LintPostTokenText}},
		"HALT     ERR_CRASH: x (ERR_TOKEN_PARSE/OVERSIZE) (0 ms)\n": &messages.TurnDecided{Decision: messages.Halt, Reason: messages.ErrCrash, Detail: "x", Verification: "ERR_TOKEN_PARSE/OVERSIZE"},
		"control  timer turn_wall by clock\n":                       &messages.Control{What: messages.ControlTimer, Name: "turn_wall", By: "clock"},
	} {
		var b bytes.Buffer
		p := &printer{w: &b}
		if err := p.update(stile.Update{Record: &messages.Record{Body: body}}); err != nil || b.String() != want {
			t.Errorf("got %q, want %q, %v", b.String(), want, err)
		}
	}
}

// A numbered thought that grows looks like its record, on a terminal as elsewhere.
func TestNumberedThoughts(t *testing.T) {
	unit := messages.UnitID{Turn: 1}
	record := stile.Update{Record: &messages.Record{Seq: 5, Body: &messages.UnitText{
		UnitKind: messages.ThoughtUnit, Complete: true, Text: "old news", Unit: unit.String(), N: 2, Parent: 1, Depth: 2, Label: "risk",
	}}}
	at := record.Record.Body.(*messages.UnitText).Place()
	for off := range len("old news") {
		delta := stile.Update{Delta: &messages.Delta{Unit: unit, Kind: messages.ThoughtUnit, Off: int64(off), Text: "old news"[:off], Thought: at}}
		var b bytes.Buffer
		p := &printer{w: &b, growing: true}
		for _, u := range []stile.Update{delta, record} {
			if err := p.update(u); err != nil {
				t.Fatal(err)
			}
		}
		const want = "thought  › [2 risk] old news\n"
		if b.String() != want {
			t.Errorf("printed %q", b.String())
		}
		s := newStage(t, 60, 12)
		for _, u := range []stile.Update{delta, record} {
			if err := s.live.update(u); err != nil {
				t.Fatal(err)
			}
		}
		s.want("whole", want)
	}
}

// On a narrow terminal lines break at words, under the text.
func TestPrinterWraps(t *testing.T) {
	var b bytes.Buffer
	p := &printer{w: &b, columns: 40}
	text := "the step in a fence that lets people over one at a time\n  indented    as it was\n" + strings.Repeat("x", 50) + " y"
	if err := p.update(stile.Update{Record: &messages.Record{Body: &messages.Emit{Text: text}}}); err != nil {
		t.Fatal(err)
	}
	want := "emit     the step in a fence that lets\n         people over one at a time\n           indented    as it was\n         " + strings.Repeat("x", 50) + "\n         y\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	if got := wrapped("a b", 3); got != "a b" {
		t.Errorf("%q", got)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestPrinterGivesTheWritersError(t *testing.T) {
	p := &printer{w: full{}}
	if err := p.update(stile.Update{Record: &messages.Record{Body: &messages.Note{Text: "x"}}}); err == nil {
		t.Error("no error")
	}
}

func TestHarmless(t *testing.T) {
	for in, want := range map[string]string{
		"plain\n\ttext – 船 👩‍🚀": "plain\n\ttext – 船 👩‍🚀",
		"\x1b]0;title\x07":      `\u{1b}]0;title\u{7}`,
		"a\rb\x00\x7f":          `a\u{d}b\u{0}\u{7f}`,
		"\u009b31m\u202eabc":    `\u{9b}31m\u{202e}abc`,
		"a\xffb":                "a\ufffdb",
	} {
		if got := harmless(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestOneLine(t *testing.T) {
	for _, c := range []struct {
		in    string
		limit int
		want  string
	}{
		{"a\n  b\tc", 10, "a b c"}, {"abcdef", 6, "abcdef"}, {"abcdefg", 6, "abcde…"}, {"船船船", 2, "船…"}, {"", 3, ""},
	} {
		if got := oneLine(c.in, c.limit); got != c.want {
			t.Errorf("%q: %q", c.in, got)
		}
	}
	long := oneLine(strings.Repeat("船", 1<<20), 50)
	if utf8.RuneCountInString(long) != 50 || !utf8.ValidString(long) {
		t.Errorf("%d characters", utf8.RuneCountInString(long))
	}
}

func FuzzHarmless(f *testing.F) {
	for _, s := range []string{"", "a\x1b[0m", "\xff\xfe", "\u202e", "line\n\ttab", "👩‍🚀"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := harmless(s)
		if !utf8.ValidString(got) {
			t.Errorf("%q gives invalid UTF-8", s)
		}
		for _, r := range got {
			if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
				t.Errorf("%q keeps %U", s, r)
			}
		}
		if harmless(got) != got {
			t.Errorf("%q is not settled", s)
		}
		if line := oneLine(s, 20); strings.ContainsAny(line, "\n\t") || utf8.RuneCountInString(line) > 20 {
			t.Errorf("one line: %q", line)
		}
	})
}

// The line of a feed without a fresh value says why.
func TestFeedLine(t *testing.T) {
	for want, b := range map[string]*messages.FeedInjected{
		"feed     repo: failed: \"nope.txt\" cannot be opened: no such file\n": {ID: "repo", Error: "failed", Reason: `"nope.txt" cannot be opened: no such file`},
		"feed     repo, stale: not fetched in time\n":                          {ID: "repo", Stale: true, Reason: "not fetched in time"},
		"feed     repo\n": {ID: "repo"},
	} {
		var out bytes.Buffer
		if err := (&printer{w: &out}).update(stile.Update{Record: &messages.Record{Body: b}}); err != nil || out.String() != want {
			t.Errorf("%q, %v; want %q", out.String(), err, want)
		}
	}
}

// The end of a run says why it was halted, unless its last turn has said so.
func TestRunEndSaysWhy(t *testing.T) {
	end := &messages.RunEnd{Decision: messages.Halt, Reason: messages.ErrCancelled, Detail: "ERR_CANCELLED: ended by the fork", Turns: 1}
	for name, c := range map[string]struct {
		turn messages.Body
		want string
	}{
		"no turn":                {nil, "run      1 ended HALT after 1 turn: ERR_CANCELLED: ended by the fork\n"},
		"a turn that went on":    {&messages.TurnDecided{Decision: messages.Continue}, "run      1 ended HALT after 1 turn: ERR_CANCELLED: ended by the fork\n"},
		"a turn that was halted": {&messages.TurnDecided{Decision: messages.Halt, Reason: messages.ErrCancelled}, "run      1 ended HALT after 1 turn\n"},
	} {
		var b strings.Builder
		p := &printer{w: &b}
		if c.turn != nil {
			p.record(&stile.Record{Run: 1, Turn: 1, Body: c.turn})
		}
		p.record(&stile.Record{Run: 1, Body: end})
		if got := b.String(); !strings.HasSuffix(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
