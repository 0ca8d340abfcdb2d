package kitsu

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// seen is all that a reply came to.
type seen struct {
	visible string
	events  []messages.EventKind // of units, text left out
	action  string               // name and arguments
	fault   messages.ParseError
	final   bool
}

// read decodes a reply in pieces, each of which is spoiled after its push.
func read(t testing.TB, info messages.TurnInfo, f messages.Finish, pieces ...string) seen {
	t.Helper()
	d := Dialect{}.NewDecoder(info)
	var s seen
	var shown strings.Builder
	open := false
	last := int64(0)
	emit := func(e messages.Event) {
		switch e.Kind {
		case messages.EventUnitText:
			if !open || len(e.Text) == 0 {
				t.Fatalf("a text of %d bytes, unit open %v", len(e.Text), open)
			}
			if e.Offset < last {
				t.Fatalf("offset %d after %d", e.Offset, last)
			}
			last = e.Offset
			shown.Write(e.Text)
			return
		case messages.EventUnitBegin:
			open = true
		case messages.EventUnitEnd:
			open = false
			s.final = e.Final
		case messages.EventAction:
			s.action = e.Action.Name + " " + e.Action.Args
		case messages.EventParseError:
			s.fault = *e.Fault
		}
		s.events = append(s.events, e.Kind)
	}
	for _, p := range pieces {
		b := []byte(p)
		d.Push(b, emit)
		for i := range b {
			b[i] = '#'
		}
		if n := len(d.(*decoder).strip.held); n > MaxHeldBytes {
			t.Fatalf("holds %d bytes", n)
		}
	}
	d.End(f, emit)
	if open {
		t.Fatal("the unit is left open")
	}
	s.visible = shown.String()
	return s
}

func cutAt(rng *rand.Rand, s string) (pieces []string) {
	for s != "" {
		n := 1 + rng.IntN(min(len(s), 1+rng.IntN(40)))
		pieces = append(pieces, s[:n])
		s = s[n:]
	}
	return pieces
}

func single(s string) (pieces []string) {
	for i := range len(s) {
		pieces = append(pieces, s[i:i+1])
	}
	return pieces
}

// slowVisible is docs/spec/kitsu.md §7 read line by line, for lines that nothing holds back
// too much of.
func slowVisible(text string) string {
	var out strings.Builder
	for _, line := range strings.SplitAfter(mended(text), "\n") {
		body, end := splitLine(line)
		trimmed := strings.Trim(body, " \t")
		if strings.HasPrefix(trimmed, "[INTERNAL") {
			continue
		}
		if strings.HasPrefix(trimmed, "<action:") {
			outside, n := tokenEnd(trimmed)
			if !outside || n == len(trimmed)-1 {
				continue
			}
		}
		var kept strings.Builder
		replaced := false
		for body != "" {
			at := strings.Index(body, "<action:")
			if at < 0 {
				break
			}
			_, n := tokenEnd(body[at:])
			if n < 0 {
				break
			}
			kept.WriteString(body[:at] + " ")
			body = body[at+n+1:]
			replaced = true
		}
		kept.WriteString(body)
		again := strings.Trim(kept.String(), " \t")
		if replaced && (strings.HasPrefix(again, "[INTERNAL") || strings.HasPrefix(again, "<action:")) {
			continue
		}
		out.WriteString(kept.String() + end)
	}
	return out.String()
}

func mended(s string) string {
	var out strings.Builder
	for _, r := range s {
		out.WriteRune(r)
	}
	return out.String()
}

func splitLine(line string) (body, end string) {
	if b, ok := strings.CutSuffix(line, "\r\n"); ok {
		return b, "\r\n"
	}
	if b, ok := strings.CutSuffix(line, "\n"); ok {
		return b, "\n"
	}
	return line, ""
}

// tokenEnd gives the place of the token end of what begins with <action:, and
// whether it is outside quotes.
func tokenEnd(s string) (outside bool, at int) {
	quoted := false
	for i := range len(s) {
		switch s[i] {
		case '"':
			quoted = !quoted
		case '>':
			if !quoted {
				return true, i
			}
		}
	}
	return false, strings.IndexByte(s, '>')
}

func slowCandidates(text string) (all []string) {
	for _, line := range strings.SplitAfter(mended(text), "\n") {
		body, _ := splitLine(line)
		trimmed := strings.Trim(body, " \t")
		if !strings.HasPrefix(trimmed, "<action:") {
			continue
		}
		if _, n := tokenEnd(trimmed); n >= 0 && n == len(trimmed)-1 {
			all = append(all, trimmed)
		}
	}
	return all
}

// parsed is Parse with the error as what it is.
func parsed(text string) (*Action, *messages.Error) {
	a, err := Parse(text)
	var fault *messages.Error
	errors.As(err, &fault)
	return a, fault
}

// check holds one text to everything that must be true of any.
func check(t testing.TB, text string, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	whole := read(t, messages.TurnInfo{}, messages.FinishComplete, text)
	for _, pieces := range [][]string{single(text), cutAt(rng, text), cutAt(rng, text)} {
		got := read(t, messages.TurnInfo{}, messages.FinishComplete, pieces...)
		if got.visible != whole.visible || got.action != whole.action || got.fault != whole.fault {
			t.Fatalf("%q in %d pieces:\n%+v, want\n%+v", text, len(pieces), got, whole)
		}
	}
	if again := Visible(text); again != whole.visible {
		t.Fatalf("%q: Visible gives %q, the stream %q", text, again, whole.visible)
	}
	if twice := Visible(whole.visible); twice != whole.visible {
		t.Fatalf("%q: %q, stripped twice %q", text, whole.visible, twice)
	}
	for line := range strings.Lines(whole.visible) {
		if begin := strings.TrimLeft(line, " \t"); strings.HasPrefix(begin, internalPrefix) || strings.HasPrefix(begin, tokenPrefix) {
			t.Fatalf("%q shows %q", text, line)
		}
	}
	all := slowCandidates(text)
	if left := slowCandidates(whole.visible); len(left) > 0 {
		t.Fatalf("%q shows the candidate %q", text, left)
	}
	a, err := parsed(text)
	switch {
	case len(all) == 0 && (a != nil || err != nil),
		len(all) > 1 && (err == nil || err.Reason != MultipleActions),
		len(all) == 1 && a == nil && (err == nil || err.Reason == MultipleActions),
		a != nil && a.Raw != all[0]:
		t.Fatalf("%q with the candidates %q: %+v, %v", text, all, a, err)
	}
	if a != nil && whole.action != string(a.Kind)+" "+a.Payload() || a == nil && whole.action != "" {
		t.Fatalf("%q: %q, parsed %+v", text, whole.action, a)
	}
	if err != nil && (whole.fault.Reason != err.Reason || whole.fault.Offset != err.Offset || whole.fault.Line != err.Line) {
		t.Fatalf("%q: %+v, parsed %v", text, whole.fault, err)
	}
	for line := range bytes.Lines([]byte(text)) {
		if len(line)*3 > MaxHeldBytes {
			return
		}
	}
	if slow := slowVisible(text); slow != whole.visible {
		t.Fatalf("%q: %q, read slowly %q", text, whole.visible, slow)
	}
}
