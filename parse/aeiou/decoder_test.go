package aeiou

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/seed14be6753/stile/messages"
)

// decode pushes the pieces and writes down the events.
func decode(t testing.TB, limit int64, f messages.Finish, pieces ...[]byte) []string {
	t.Helper()
	d := Dialect{}.NewDecoder(messages.TurnInfo{MaxReplyBytes: limit})
	for _, p := range pieces {
		q := append([]byte(nil), p...)
		d.Push(q, func(e messages.Event) { t.Fatalf("an event before the end: %+v", e) })
		clear(q) // what was pushed is the caller's again
		if n := len(d.(*decoder).buf); n > d.(*decoder).hold() {
			t.Fatalf("%d bytes are held back, more than %d", n, d.(*decoder).hold())
		}
	}
	var out []string
	d.End(f, func(e messages.Event) {
		switch e.Kind {
		case messages.EventProgram:
			out = append(out, fmt.Sprintf("program %d %q", e.Offset, e.Text))
		case messages.EventLint, messages.EventParseError:
			if e.Offset != e.Fault.Offset {
				t.Fatalf("two offsets: %+v", e)
			}
			out = append(out, fmt.Sprintf("%s %d line %d: %s", e.Fault.Code, e.Offset, e.Fault.Line, e.Fault.Detail))
		default:
			t.Fatalf("event %+v", e)
		}
	})
	return out
}

// expected is what a decoder with this limit must say of a complete reply: what
// the parser of whole envelopes says, or the rule of §2 for replies without START.
func expected(reply []byte, limit int) []string {
	place := func(code messages.Code, off int64, detail string) string {
		return fmt.Sprintf("%s %d line %d: %s", code, off, 1+bytes.Count(reply[:off], []byte{'\n'}), detail)
	}
	started := false
	for m, ok := nextMark(reply, 0); ok; m, ok = nextMark(reply, m.next) {
		started = started || m.kind == start
	}
	const none = "there is no program; ACTIONS needs one command block"
	if !started {
		src := bytes.Trim(reply, " \t\n\v\f\r")
		at := int64(len(reply) - len(bytes.TrimLeft(reply, " \t\n\v\f\r")))
		switch {
		case len(reply) > limit:
			return []string{place(messages.ErrEnvSize, 0, fmt.Sprintf("the reply is larger than %d bytes", limit))}
		case !utf8.Valid(reply):
			return []string{place(messages.ErrEnvMarkersInvalid, int64(firstInvalid(reply)), "NON_UTF8: the bytes are not UTF-8")}
		case len(src) == 0:
			return []string{place(messages.ErrActionsParse, at, none)}
		case len(src) > MaxSectionBytes:
			return []string{place(messages.ErrEnvSize, at, fmt.Sprintf("ACTIONS: the body has %d bytes; the limit is %d", len(src), MaxSectionBytes))}
		}
		return []string{fmt.Sprintf("program %d %q", at, src)}
	}
	l, f := read(reply, Options{Extract: true}, limits{whole: limit, input: int64(len(reply))})
	if f.code != "" {
		detail := f.detail
		if f.reason != "" {
			detail = f.reason + ": " + detail
		}
		if f.field != "" {
			detail = f.field + ": " + detail
		}
		return []string{place(f.code, int64(f.offset), detail)}
	}
	var out []string
	for _, l := range l.lints {
		out = append(out, place(l.Code, int64(l.Offset), l.Section))
	}
	at := l.at[actions].lo
	if src := l.body(reply, actions); len(src) > 0 {
		return append(out, fmt.Sprintf("program %d %q", at, src))
	}
	return append(out, place(messages.ErrActionsParse, int64(at), none))
}

func sameEvents(t testing.TB, what string, got, want []string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Fatalf("%s:\n got %.300q\nwant %.300q", what, got, want)
	}
}

var replies = []string{
	"", " \n\t", "command\nendcommand", "\n\n command\nendcommand \r\n\n", "```\ncommand\nendcommand\n```", bom + "command\nendcommand",
	minimal(), bom + minimal(), "Sure, here:\n```\n" + minimal() + "```\nDone.", strings.TrimSuffix(minimal(), "\n"),
	strings.ReplaceAll(minimal(), ">>>\n", ">>> \t\r\n"), "prose\r\n" + bom + minimal() + markStart,
	env("@END", "@ACTIONS") + minimal(), " " + minimal() + minimal(), "x" + minimal(),
	"prose\n" + env("@START", "@USERDATA", "@USERDATA", "@OUTPUT", "@ACTIONS", "x", "y", "@ACTIONS", "z", "@END"),
	"prose\n" + markStart, markStart + "  ", env("@START", "@USERDATA"), "a\n\n" + env("@START", "@ACTIONS", "x", "@USERDATA", "@END"),
	env("@START", "@USERDATA", "@ACTIONS", "@END"), env("@START", "@USERDATA", "@ACTIONS", "x", "@NO", "@END"),
	"a\xff", "é\n" + env("@START", "@USERDATA", "@ACTIONS", "\xff", "@END"), "\xff\n" + minimal(), minimal() + "\xff",
	env("@START", "@USERDATA", "@ACTIONS", "x", "@START", "@END"), markEnd + "\n" + markStart + "x\n" + minimal("", "\r", "żółć"),
	"\xef" + minimal(), "\xef\xbb" + minimal(), "prose\n\n\n" + markerPrefix + "\n\n" + bom + env("@START", "@USERDATA", "@ACTIONS", "x", "@NO", "@END"),
	bom + bom + markStart + "\n" + minimal(), "\xef\n\xbb\xbf" + minimal(),
}

func TestDecoderEveryCut(t *testing.T) {
	for _, r := range replies {
		want := expected([]byte(r), MaxEnvelopeBytes)
		for i := 0; i <= len(r); i++ {
			sameEvents(t, fmt.Sprintf("%q cut at %d", r, i), decode(t, 0, messages.FinishComplete, []byte(r[:i]), []byte(r[i:])), want)
		}
		one := make([][]byte, len(r))
		for i := range one {
			one[i] = []byte(r[i : i+1])
		}
		sameEvents(t, fmt.Sprintf("%q byte by byte", r), decode(t, 0, messages.FinishStop, one...), want)
	}
}

func pieces(r *rand.Rand, b []byte, most int) (out [][]byte) {
	for len(b) > 0 {
		n := 1 + r.IntN(min(most, len(b)))
		out = append(out, b[:n])
		b = b[n:]
	}
	return out
}

func TestDecoderRandomCuts(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 5000 {
		var b []byte
		for range 1 + r.IntN(4) {
			if r.IntN(2) == 0 {
				b = append(b, randomBody(r, true)...)
			} else {
				b = append(b, replies[r.IntN(len(replies))]...)
			}
		}
		sameEvents(t, fmt.Sprintf("%q", b), decode(t, 0, messages.FinishComplete, pieces(r, b, 40)...), expected(b, MaxEnvelopeBytes))
		// With a limit this small everything overflows somewhere; the cuts must
		// not matter all the same, whatever the finish.
		for _, f := range []messages.Finish{messages.FinishComplete, messages.FinishLength} {
			limit := int64(1 + r.IntN(len(b)+2))
			whole := decode(t, limit, f, b)
			if f == messages.FinishComplete {
				sameEvents(t, fmt.Sprintf("%q limit %d", b, limit), whole, expected(b, int(limit)))
			}
			sameEvents(t, fmt.Sprintf("%q limit %d %s", b, limit, f), decode(t, limit, f, pieces(r, b, 9)...), whole)
			one := make([][]byte, len(b))
			for i := range one {
				one[i] = b[i : i+1]
			}
			sameEvents(t, fmt.Sprintf("%q limit %d %s bytewise", b, limit, f), decode(t, limit, f, one...), whole)
		}
	}
}

func TestDecoderLimits(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	x := func(n int) string { return strings.Repeat("x", n) }
	lines := func(n int) string { return strings.Repeat(x(99)+"\n", n/100) + x(n%100) }
	blanks := strings.Repeat(" ", MaxEnvelopeBytes+10)
	head := env("@START", "@USERDATA", "@OUTPUT", lines(MaxSectionBytes), "@ACTIONS")
	fill := MaxEnvelopeBytes - len(head) - 1 - len(markEnd)
	for name, reply := range map[string]string{
		"bare at the section limit":             " " + x(MaxSectionBytes) + "\n",
		"bare over the section limit":           " " + x(MaxSectionBytes+1),
		"bare at the limit":                     x(5) + strings.Repeat("\n", MaxEnvelopeBytes-5),
		"bare over the limit":                   x(5) + strings.Repeat("\n", MaxEnvelopeBytes-4),
		"long prose, then an envelope":          lines(MaxEnvelopeBytes+500) + "\n" + bom + minimal(),
		"long prose, then START":                lines(MaxEnvelopeBytes+500) + "\n" + markStart,
		"one long line, then an envelope":       x(2*MaxEnvelopeBytes) + "\n" + minimal(),
		"START and blanks that are no START":    markStart + blanks + "x\n" + minimal(),
		"START and too many blanks":             markStart + blanks + "\n" + env("@USERDATA", "@ACTIONS", "x", "@END"),
		"envelope at the limit":                 "a\n" + bom + head + x(fill) + "\n" + markEnd + "\n",
		"envelope over the limit":               "a\n" + bom + head + x(fill+1) + "\n" + markEnd + "\n",
		"envelope far over the limit":           head + lines(MaxEnvelopeBytes) + "\n" + markEnd + "\n",
		"END at the limit, blanks, LF":          bom + head + x(fill) + "\n" + markEnd + blanks + "\nmore",
		"END at the limit, blanks, end":         bom + head + x(fill) + "\n" + markEnd + blanks,
		"END at the limit, blanks, text":        head + x(fill) + "\n" + markEnd + blanks + ".\n" + markEnd,
		"END over the limit by one, blanks":     head + x(fill+1) + "\n" + markEnd + blanks,
		"END missing, prose makes it too large": lines(MaxEnvelopeBytes) + "\n" + env("@START", "@USERDATA"),
		"END missing":                           env("@START", "@USERDATA") + lines(1000),
		"long text after END":                   minimal() + x(3*MaxEnvelopeBytes),
	} {
		t.Run(name, func(t *testing.T) {
			want := expected([]byte(reply), MaxEnvelopeBytes)
			sameEvents(t, "whole", decode(t, 0, messages.FinishComplete, []byte(reply)), want)
			sameEvents(t, "in pieces", decode(t, 0, messages.FinishComplete, pieces(r, []byte(reply), 9000)...), want)
			if len(reply) < 2*MaxEnvelopeBytes {
				sameEvents(t, "in small pieces", decode(t, 0, messages.FinishComplete, pieces(r, []byte(reply), 500)...), want)
			}
		})
	}
}

func TestDecoderFinishes(t *testing.T) {
	whole, open := minimal(), strings.TrimSuffix(minimal(), "\n")
	const cut = "the reply was cut at the model's length limit; nothing was run"
	for _, c := range []struct {
		name, reply string
		f           messages.Finish
		want        string // prefix of the only event, "" for none
	}{
		{"length inside a program", "command\nemit 1\nendcommand", messages.FinishLength, fmt.Sprintf("ERR_ACTIONS_PARSE 25 line 3: %s", cut)},
		{"length of nothing", "", messages.FinishLength, fmt.Sprintf("ERR_ACTIONS_PARSE 0 line 1: %s", cut)},
		{"length before END", env("@START", "@USERDATA", "@ACTIONS", "x"), messages.FinishLength, "ERR_ACTIONS_PARSE"},
		{"length on END, which could go on", open, messages.FinishLength, "ERR_ACTIONS_PARSE"},
		{"length behind END", whole + "and", messages.FinishLength, "program"},
		{"length and too large", strings.Repeat("x", MaxEnvelopeBytes+1), messages.FinishLength, "ERR_ENV_SIZE"},
		{"length inside a line of too large an envelope", env("@START", "@USERDATA") + strings.Repeat("x", MaxEnvelopeBytes), messages.FinishLength, "ERR_ENV_SIZE 0"},
		{"length behind too long a START line", markStart + strings.Repeat(" ", MaxEnvelopeBytes) + "\n", messages.FinishLength, "ERR_ENV_SIZE 0"},
		{"error", whole, messages.FinishError, ""},
		{"cancelled", whole, messages.FinishCancelled, ""},
		{"no finish at all", whole, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := decode(t, 0, c.f, []byte(c.reply))
			if c.want == "" && len(got) == 0 {
				return
			}
			if len(got) != 1 || c.want == "" || !strings.HasPrefix(got[0], c.want) {
				t.Errorf("%q", got)
			}
		})
	}
}

func TestDecoderLowerLimit(t *testing.T) {
	in := minimal()
	size := int64(len(in) - 1)
	if got := decode(t, size, messages.FinishComplete, []byte(in)); !strings.HasPrefix(got[0], "program") {
		t.Errorf("at the limit: %q", got)
	}
	if got := decode(t, size-1, messages.FinishComplete, []byte(in)); !strings.HasPrefix(got[0], "ERR_ENV_SIZE 0") {
		t.Errorf("over the limit: %q", got)
	}
	if got := decode(t, 1<<40, messages.FinishComplete, bytes.Repeat([]byte{' '}, MaxEnvelopeBytes+1)); !strings.HasPrefix(got[0], "ERR_ENV_SIZE") {
		t.Errorf("a higher limit than the protocol's: %q", got)
	}
}
