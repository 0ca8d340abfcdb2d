package plain

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/seed14be6753/stile/messages"
)

// run decodes the pieces and joins neighbouring texts; it checks that events come
// in order and offsets add up.
func run(t testing.TB, f messages.Finish, pieces ...[]byte) (text string, events string) {
	t.Helper()
	d := Dialect{}.NewDecoder(messages.TurnInfo{})
	var b, ev strings.Builder
	emit := func(e messages.Event) {
		if e.Unit != 0 || e.UnitKind != messages.ResponseUnit {
			t.Fatalf("event of another unit: %+v", e)
		}
		switch e.Kind {
		case messages.EventUnitBegin:
			ev.WriteString("(")
		case messages.EventUnitText:
			if len(e.Text) == 0 || !utf8.Valid(e.Text) {
				t.Fatalf("text %q", e.Text)
			}
			b.Write(e.Text)
		case messages.EventUnitEnd:
			ev.WriteString(")")
			if e.Final {
				ev.WriteString("F")
			}
			if e.Complete {
				ev.WriteString("C")
			}
			n := 0
			for _, p := range pieces {
				n += len(p)
			}
			if e.Offset != int64(n) {
				t.Fatalf("the unit ends at %d of %d bytes", e.Offset, n)
			}
		default:
			t.Fatalf("event %+v", e)
		}
	}
	for _, p := range pieces {
		q := append([]byte(nil), p...)
		d.Push(q, emit)
		for i := range q {
			q[i] = '?' // what was pushed is the caller's again
		}
	}
	d.End(f, emit)
	return b.String(), ev.String()
}

func TestFinishes(t *testing.T) {
	for _, c := range []struct {
		f           messages.Finish
		reply, want string
	}{
		{messages.FinishComplete, "hi", "()FC"},
		{messages.FinishStop, "hi", "()FC"},
		{messages.FinishLength, "hi", "()"},
		{messages.FinishError, "hi", "()"},
		{messages.FinishCancelled, "hi", "()"},
		{messages.FinishComplete, "", "()FC"},
		{messages.FinishLength, "", "()"},
		{messages.FinishError, "", ""},
		{messages.FinishCancelled, "", ""},
	} {
		if text, ev := run(t, c.f, []byte(c.reply)); text != c.reply || ev != c.want {
			t.Errorf("%s of %q: %q %s, want %s", c.f, c.reply, text, ev, c.want)
		}
	}
}

var samples = []string{
	"", "plain", "zażółć 東京 🚆", "\xff", "a\xe2\x82", "\xe2\x82\xac", "\xf0\x9f\x98", "\xf0\x9fa", "\xc3(", "\xed\xa0\x80", "\xf4\x90\x80\x80",
	"\xe2\xe2\x82\xac", "\xf0\x9f\xe2\x82\xac\xf0", "\xef\xbb\xbfbom", "a\x00b", "\ufffd", "\xc0\x80x",
}

// want is the rule in its simplest form: one U+FFFD for each byte of no character.
func want(s string) string { return string([]rune(s)) }

func TestEveryCut(t *testing.T) {
	for _, s := range samples {
		for i := 0; i <= len(s); i++ {
			for j := i; j <= len(s); j++ {
				text, ev := run(t, messages.FinishComplete, []byte(s[:i]), []byte(s[i:j]), []byte(s[j:]))
				if text != want(s) || ev != "()FC" {
					t.Fatalf("%q cut at %d and %d: %q %s", s, i, j, text, ev)
				}
			}
		}
	}
}

func TestRandomCuts(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		var b []byte
		for range r.IntN(30) {
			b = append(b, samples[r.IntN(len(samples))]...)
		}
		var pieces [][]byte
		for rest := b; len(rest) > 0; {
			n := 1 + r.IntN(min(7, len(rest)))
			pieces = append(pieces, rest[:n])
			rest = rest[n:]
		}
		if text, _ := run(t, messages.FinishComplete, pieces...); text != want(string(b)) {
			t.Fatalf("%q: %q", b, text)
		}
	}
}

// Valid text must pass through as the very bytes that were pushed.
func TestTextAliases(t *testing.T) {
	p := []byte("no copy of żółć")
	d := Dialect{}.NewDecoder(messages.TurnInfo{})
	n := 0
	d.Push(p, func(e messages.Event) {
		if e.Kind == messages.EventUnitText {
			if n++; &e.Text[0] != &p[0] || len(e.Text) != len(p) {
				t.Error("the text was copied or split")
			}
		}
	})
	if n != 1 {
		t.Errorf("%d texts", n)
	}
}

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		f    messages.Facts
		d    messages.Decision
		code messages.Code
	}{
		{messages.Facts{Finish: messages.FinishComplete}, messages.Done, ""},
		{messages.Facts{Finish: messages.FinishStop}, messages.Done, ""},
		{messages.Facts{Finish: messages.FinishLength}, messages.Done, ""},
		{messages.Facts{Finish: messages.FinishError}, messages.Halt, messages.ErrModel},
		{messages.Facts{Finish: messages.FinishCancelled}, messages.Halt, messages.ErrCancelled},
		{messages.Facts{Finish: messages.FinishError, Breach: messages.ErrTimeout}, messages.Halt, messages.ErrTimeout},
		{messages.Facts{Finish: messages.FinishComplete, Errors: []messages.ParseError{{Code: messages.ErrDialect}}}, messages.Halt, messages.ErrDialect},
	} {
		if v := (Dialect{}).Decide(c.f); v.Decision != c.d || v.Code != c.code || v.Token != -1 {
			t.Errorf("Decide(%+v) = %+v", c.f, v)
		}
	}
}

func TestRender(t *testing.T) {
	ms := Dialect{}.Render(messages.Projection{Text: "now", History: []messages.Item{{Role: messages.RoleUser, Text: "a"}, {Role: messages.RoleAssistant, Text: "b"}}})
	if len(ms) != 3 || ms[0].Text != "a" || ms[1].Role != messages.RoleAssistant || ms[2].Role != messages.RoleUser || ms[2].Text != "now" {
		t.Errorf("Render = %+v", ms)
	}
	if ms := (Dialect{}).Render(messages.Projection{Userdata: "{}"}); len(ms) != 1 || ms[0].Text != "{}" {
		t.Errorf("Render of userdata = %+v", ms)
	}
	if (Dialect{}).Primer(nil) != "" || (Dialect{}).Name() != "plain" {
		t.Error("name or primer")
	}
	if tr := (Dialect{}).Traits(); tr.MaxTurns != 1 || tr.Busy != messages.Enqueue || tr.GuardFinal || tr.Carry || tr.InStreamActions {
		t.Errorf("Traits = %+v", tr)
	}
	out, scr := Dialect{}.Digest(messages.Facts{Units: []messages.Unit{{Kind: messages.ResponseUnit, Text: "x"}}})
	if string(out) != "x" || len(scr) != 0 {
		t.Errorf("Digest = %q %q", out, scr)
	}
}

func FuzzPlain(f *testing.F) {
	for _, s := range samples {
		f.Add([]byte(s), uint8(1), uint8(2))
	}
	f.Fuzz(func(t *testing.T, b []byte, i, j uint8) {
		x := min(int(i), len(b))
		y := min(x+int(j), len(b))
		if text, _ := run(t, messages.FinishComplete, b[:x], b[x:y], b[y:]); text != want(string(b)) {
			t.Fatalf("cut %d %d: %q", x, y, text)
		}
		one := make([][]byte, len(b))
		for i := range b {
			one[i] = b[i : i+1]
		}
		if text, _ := run(t, messages.FinishComplete, one...); text != want(string(b)) {
			t.Fatalf("byte by byte: %q", text)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	reply := []byte(strings.Repeat("Plain words and a few żółć letters, as models write them.\n", 70))
	emit := func(messages.Event) {}
	for _, c := range []struct {
		name string
		step int
	}{{"4KiBWhole", len(reply)}, {"4KiBIn16ByteChunks", 16}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(reply)))
			for b.Loop() {
				d := Dialect{}.NewDecoder(messages.TurnInfo{})
				for i := 0; i < len(reply); i += c.step {
					d.Push(reply[i:min(i+c.step, len(reply))], emit)
				}
				d.End(messages.FinishComplete, emit)
			}
		})
	}
}
