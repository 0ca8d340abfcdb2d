package plain

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/internal/parsetest"
)

var second = Dialect{Rendering: 2, Forgive: parse.AllHabits}

// told writes what a decoder makes of a reply, texts of a unit joined, and checks that units
// come in order and that each text is whole characters.
func told(t testing.TB, x Dialect, f messages.Finish, pieces ...[]byte) string {
	t.Helper()
	var b strings.Builder
	d := x.NewDecoder(messages.TurnInfo{})
	unit, open, size, kind := 0, false, 0, messages.Kind("")
	for _, p := range pieces {
		size += len(p)
	}
	emit := func(e messages.Event) {
		if e.Offset < 0 || e.Offset > int64(size) {
			t.Fatalf("%q: %+v", pieces, e)
		}
		switch e.Kind {
		case messages.EventLint:
			b.WriteString(e.Fault.Detail + "@" + fmt.Sprint(e.Offset) + " ")
			return
		case messages.EventUnitBegin:
			if open || e.Unit < unit {
				t.Fatalf("%q: %+v", pieces, e)
			}
			unit, open, kind = e.Unit, true, e.UnitKind
			fmt.Fprintf(&b, "%s@%d ", e.UnitKind, e.Offset)
		case messages.EventUnitText:
			if !open || e.Unit != unit || len(e.Text) == 0 || !utf8.Valid(e.Text) {
				t.Fatalf("%q: %+v", pieces, e)
			}
			b.Write(e.Text)
		case messages.EventUnitEnd:
			open = false
			b.WriteByte(' ')
			if e.UnitKind != kind {
				b.WriteString("=" + string(e.UnitKind) + " ")
			}
			if e.Final {
				b.WriteByte('F')
			}
			if e.Complete {
				b.WriteByte('C')
			}
			fmt.Fprintf(&b, "@%d|", e.Offset)
		}
	}
	for _, p := range pieces {
		q := append([]byte(nil), p...)
		d.Push(q, emit)
		for i := range q {
			q[i] = '?'
		}
	}
	d.End(f, emit)
	if open {
		t.Fatalf("%q: a unit stays open", pieces)
	}
	return b.String()
}

// A thought before the answer is not part of it; a reply without an answer has none.
func TestFront(t *testing.T) {
	for _, c := range []struct{ reply, want string }{
		{"hi", "response@0 hi FC@2|"},
		{" \n hi ", "response@0  \n hi  FC@6|"},
		{"", ""},
		{" \n", ""},
		{"<think>\nHm <b>.\n</think>\n\nYes.", "think@0 thought@8 Hm <b>.\n C@16|response@26 Yes. FC@30|"},
		{"\n<Thinking>a</thinking>b", "think@1 thought@11 a C@12|response@23 b FC@24|"},
		{"<think>\n\n</think>b", "think@0 response@17 b FC@18|"},
		{"<think>a", "think@0 thought@7 a @8|"},
		{"<think>a</thin", "think@0 thought@7 a</thin @14|"},
		{"<think>a</think> \n", "think@0 thought@7 a C@8|"},
		{"<think>a</think><think>b</think>", "think@0 thought@7 a C@8|think@16 thought@23 b C@24|"},
		{"<think>a</think>\n\n<Thought>b</thought> c", "think@0 thought@7 a C@8|think@18 thought@27 b C@28|response@39 c FC@40|"},
		{"<think></think>\n<think>b</think>c", "think@0 think@16 thought@23 b C@24|response@32 c FC@33|"},
		{"<think>a</think>\n<think>b", "think@0 thought@7 a C@8|think@17 thought@24 b @25|"},
		{"<think>a</think>\n<thin", "think@0 thought@7 a C@8|response@17 <thin FC@22|"},
		{"<think>a</think>\n<thi\xff", "think@0 thought@7 a C@8|response@17 <thi\ufffd FC@22|"},
		{"<think>a</think>\n<thinner>", "think@0 thought@7 a C@8|response@17 <thinner> FC@26|"},
		{"<think>a</think>\n</think>b", "think@0 thought@7 a C@8|response@17 </think>b FC@26|"},
		{"<think>a</think>b <think>c</think>", "think@0 thought@7 a C@8|response@16 b <think>c</think> FC@34|"},
		{"</think>\n<think>a</think>b", "think@0 think@9 thought@16 a C@17|response@25 b FC@26|"},
		{"a <think>b</think>", "response@0 a <think>b</think> FC@18|"},
		{"<thin", "response@0 <thin FC@5|"},
		{" <thinker>", "response@0  <thinker> FC@10|"},
		{"<b>x</b>", "response@0 <b>x</b> FC@8|"},
		{"<\xffx", "response@0 <\ufffdx FC@3|"},
		{"<th\u016fx", "response@0 <th\u016fx FC@6|"},
		{"<think>a<\xff<</think>\xffb", "think@0 thought@7 a<\ufffd< C@11|response@19 \ufffdb FC@21|"},
		{"Hm.\n</think>\n\nYes.", "response@0 Hm.\n =thought C@4|think@4 response@14 Yes. FC@18|"},
		{"Hm.</Think>Yes.", "response@0 Hm. =thought C@3|think@3 response@11 Yes. FC@15|"},
		{"Hm.\n  </thinking>\r\nYes.", "response@0 Hm.\n   =thought C@6|think@6 response@19 Yes. FC@23|"},
		{"H\xffm\xff</think>Yes.", "response@0 H\ufffdm\ufffd =thought C@4|think@4 response@12 Yes. FC@16|"},
		{"Hm.\n</think>", "response@0 Hm.\n =thought C@4|think@4 "},
		{"Hm.\n</think> \n", "response@0 Hm.\n</think> \n FC@14|"},
		{"\n</think>\n\nYes.", "think@1 response@11 Yes. FC@15|"},
		{"</think>", "think@0 "},
		{"Hm.\n</think>\na\n</think>\nb", "response@0 Hm.\n =thought C@4|think@4 response@13 a\n</think>\nb FC@25|"},
		{"Hm.</think></think>", "response@0 Hm. =thought C@3|think@3 response@11 </think> FC@19|"},
		{"Hm.</think>\n<think>a</think>b", "response@0 Hm. =thought C@3|think@3 think@12 thought@19 a C@20|response@28 b FC@29|"},
		{"Hm.</think", "response@0 Hm.</think FC@10|"},
		{"Hm.</<</think>Yes.", "response@0 Hm.</< =thought C@6|think@6 response@14 Yes. FC@18|"},
		{"The tag </think> and `</think>` and '</think>'.", "response@0 The tag </think> and `</think>` and '</think>'. FC@47|"},
		{"The tag\n</think> ends it.", "response@0 The tag\n</think> ends it. FC@25|"},
		{"So:\n```\na\n</think>\n```\n", "response@0 So:\n```\na\n</think>\n```\n FC@23|"},
		{"So:\n```\na\n```\n</think>\nb", "response@0 So:\n```\na\n```\n =thought C@14|think@14 response@23 b FC@24|"},
		{"a <think>b</think>c", "response@0 a <think>b</think>c FC@19|"},
		{"a</b></think>c", "response@0 a</b> =thought C@5|think@5 response@13 c FC@14|"},
	} {
		if got := told(t, second, messages.FinishStop, []byte(c.reply)); got != c.want {
			t.Errorf("%q\ngot  %q\nwant %q", c.reply, got, c.want)
		}
		for i := range len(c.reply) {
			if got := told(t, second, messages.FinishStop, []byte(c.reply[:i]), []byte(c.reply[i:])); got != c.want {
				t.Errorf("%q cut at %d: %q", c.reply, i, got)
			}
		}
		if got := told(t, second, messages.FinishStop, parsetest.Pieces([]byte(c.reply), 1)...); got != c.want {
			t.Errorf("%q byte by byte: %q", c.reply, got)
		}
	}
	for x, want := range map[Dialect]string{
		{Rendering: 2}: "response@0 <think>a</think>b FC@17|",
		{Rendering: 2, Forgive: parse.HabitSilence}: "response@0 <think>a</think>b FC@17|",
		{Forgive: parse.AllHabits}:                  "response@0 <think>a</think>b FC@17|",
	} {
		if got := told(t, x, messages.FinishStop, []byte("<think>a</think>b")); got != want {
			t.Errorf("%+v: %q", x, got)
		}
	}
	for _, x := range []Dialect{{}, {Rendering: 2}, {Rendering: 2, Forgive: parse.HabitThink}} {
		if got := told(t, x, messages.FinishStop); got != "response@0  FC@0|" {
			t.Errorf("%+v: %q", x, got)
		}
	}
}

func TestFrontAtRandom(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	words := []string{"<think>", "</think>", "<Thinking>", "</thinking>", "<", "</", "th", "\n", " ", "a", "\xff", "\xe2\x82", "\u00e9", ">"}
	for range 5000 {
		var reply []byte
		for range r.IntN(10) {
			reply = append(reply, words[r.IntN(len(words))]...)
		}
		finish := []messages.Finish{messages.FinishStop, messages.FinishLength, messages.FinishError}[r.IntN(3)]
		whole := told(t, second, finish, reply)
		for range 3 {
			if got := told(t, second, finish, parsetest.Cut(r.IntN, reply)...); got != whole {
				t.Fatalf("%q: %q, whole %q", reply, got, whole)
			}
		}
	}
}

// A reply that says nothing is asked for again, once, and the model is told so.
func TestSilence(t *testing.T) {
	quiet := messages.Facts{Pass: 1, Finish: messages.FinishStop, Units: []messages.Unit{{Kind: messages.ThoughtUnit, Text: "hm"}}}
	if v := second.Decide(quiet); v.Decision != messages.Continue || len(v.Lints) != 1 || v.Lints[0] != messages.LintSilence {
		t.Errorf("%+v", v)
	}
	again := quiet
	again.Pass = 2
	if v := second.Decide(again); v.Decision != messages.Halt || v.Code != messages.ErrNoProgress || v.Detail == "" {
		t.Errorf("%+v", v)
	}
	answered := again
	answered.Units = append(answered.Units, messages.Unit{Kind: messages.ResponseUnit, Text: "yes"})
	for _, c := range []struct {
		x Dialect
		f messages.Facts
	}{{second, answered}, {Dialect{}, quiet}, {Dialect{Rendering: 2}, quiet}, {Dialect{Forgive: parse.AllHabits}, quiet}} {
		if v := c.x.Decide(c.f); v.Decision != messages.Done {
			t.Errorf("%+v: %+v", c.x, v)
		}
	}
	p := messages.Projection{Text: "Hello?"}
	if got := second.Render(p); len(got) != 1 {
		t.Errorf("%+v", got)
	}
	p.Replies = []messages.Reply{{Text: "<think>hm</think>"}}
	got := second.Render(p)
	if len(got) != 2 || got[1].Role != messages.RoleSystem || !strings.Contains(got[1].Text, "said nothing to the user") {
		t.Errorf("%+v", got)
	}
	if got := (Dialect{}).Render(p); len(got) != 1 {
		t.Errorf("rendering 1: %+v", got)
	}
}
