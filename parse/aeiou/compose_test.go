package aeiou

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// The example of docs/spec/aeiou.md §3.4.
func TestComposeExample(t *testing.T) {
	e := Envelope{
		Userdata: []byte(`{"subject":"invoice-7","fields":{"goal":"total the lines"}}`),
		Output:   []byte("read 12 lines"),
		Actions:  []byte("command\n  emit 1\nendcommand"),
	}
	got, lints, err := Compose(e)
	want := env("@START", "@USERDATA", string(e.Userdata), "@OUTPUT", "read 12 lines", "@ACTIONS", "command", "  emit 1", "endcommand", "@END")
	if err != nil || lints != nil || string(got) != want {
		t.Errorf("%v %v\n%s", err, lints, got)
	}
	if cap(got) != len(got) {
		t.Errorf("the buffer was sized %d for %d", cap(got), len(got))
	}
}

func TestComposeRefuses(t *testing.T) {
	good := Envelope{Userdata: []byte(goodUserdata), Actions: []byte("x")}
	for _, c := range []struct {
		name   string
		change func(*Envelope)
		code   messages.Code
		reason string
		offset int64
		line   int
	}{
		{"END in ACTIONS", func(e *Envelope) { e.Actions = []byte("a\n" + markEnd) }, messages.ErrEnvMarkersInvalid, "", 2, 2},
		{"unknown in ACTIONS", func(e *Envelope) { e.Actions = []byte(bom + markerPrefix + "A_>>>\t\n") }, messages.ErrEnvMarkersInvalid, "", 0, 1},
		{"USERDATA in USERDATA", func(e *Envelope) { e.Userdata = []byte("{\n" + markUserdata + "\r\n}") }, messages.ErrEnvMarkersInvalid, "", 2, 2},
		{"big USERDATA", func(e *Envelope) { e.Userdata = bytes.Repeat([]byte{'x'}, MaxSectionBytes+1) }, messages.ErrEnvSize, "", MaxSectionBytes, 1},
		{"big ACTIONS", func(e *Envelope) { e.Actions = bytes.Repeat([]byte{'x'}, MaxSectionBytes+1) }, messages.ErrEnvSize, "", MaxSectionBytes, 1},
		{"both at the limit", func(e *Envelope) {
			e.Userdata, e.Actions = bytes.Repeat([]byte{'x'}, MaxSectionBytes), bytes.Repeat([]byte{'x'}, MaxSectionBytes)
		}, messages.ErrEnvSize, "", 0, 1},
		{"OUTPUT not UTF-8", func(e *Envelope) { e.Output = []byte("a\xff") }, messages.ErrEnvMarkersInvalid, "NON_UTF8", 1, 1},
		{"ACTIONS not UTF-8", func(e *Envelope) { e.Actions = []byte("\xff") }, messages.ErrEnvMarkersInvalid, "NON_UTF8", 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := good
			c.change(&e)
			b, _, err := Compose(e)
			if b != nil {
				t.Error("bytes came with the error")
			}
			wantError(t, err, c.code, c.reason, c.offset, c.line)
		})
	}
}

// A program tries to end its section and write its own (§20 row 5).
func TestCarriedStreamsCannotForge(t *testing.T) {
	forged := env("note", "@ACTIONS", "command", "endcommand", "@END", "@START", bom+markActions+" \t", markOutput+"\r", "@EVIL_", " "+markEnd, markEnd+"x")
	want := strings.Join([]string{
		"note", " " + markActions, "command", "endcommand", " " + markEnd, " " + markStart,
		" " + bom + markActions, " " + markOutput, " " + markerPrefix + "EVIL_>>>", " " + markEnd, markEnd + "x",
	}, "\n")
	for _, k := range []kind{scratchpad, output} {
		e := Envelope{Userdata: []byte(goodUserdata), Actions: []byte("mine")}
		if k == output {
			e.Output = Carry([]byte(forged))
		} else {
			e.Scratchpad = Carry([]byte(forged))
		}
		b, lints, err := Compose(e)
		if err != nil || !slices.Equal(lints, []messages.Code{messages.LintMarkerEscaped}) {
			t.Fatal(err, lints)
		}
		got, _, err := Parse(b, Options{StrictDuplicates: true})
		if err != nil || string(got.Actions) != "mine" {
			t.Fatalf("%v %q", err, got.Actions)
		}
		if body := got.bodies()[k]; string(body) != want {
			t.Errorf("%v:\n%q\nwant\n%q", k, body, want)
		}
	}
}

func TestCarryTruncation(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	line := x(99) + "\n"
	stream := func(n int) []byte { return []byte(strings.Repeat(line, n/100) + x(n%100)) }
	unknown := markerPrefix + strings.Repeat("A", MaxLineBytes-len(markerPrefix)-3) + ">>>" // exactly 8192
	cut, esc := messages.LintCarryTruncated, messages.LintMarkerEscaped
	for _, c := range []struct {
		name     string
		out, scr []byte
		ud       int
		wantOut  int // bytes kept
		wantScr  int
		lints    []messages.Code
	}{
		{"fits", stream(1000), stream(1000), 0, 1000, 1000, nil},
		{"OUTPUT at the limit", stream(MaxSectionBytes), nil, 0, MaxSectionBytes, 0, nil},
		{"OUTPUT over", stream(MaxSectionBytes + 1), nil, 0, MaxSectionBytes + 1 - 100, 0, []messages.Code{cut}},
		{"SCRATCHPAD over", nil, stream(MaxSectionBytes + 1), 0, 0, MaxSectionBytes + 1 - 100, []messages.Code{cut}},
		{"one SCRATCHPAD line over", nil, []byte("a\n" + x(MaxSectionBytes+1)), 0, 0, 0, []messages.Code{cut}},
		{"escaping overflows the section", append([]byte(markEnd+"\n"), stream(MaxSectionBytes-len(markEnd)-1)...), nil, 0, MaxSectionBytes - len(markEnd) - 1, 0, []messages.Code{esc, cut}},
		{"escaping overflows the line", []byte("a\n" + unknown + "\nb\nc"), nil, 0, 3, 0, []messages.Code{esc, cut}},
		{"blanks make room for the space", []byte("a\n" + unknown[1:len(unknown)-9] + "\n" + markEnd + strings.Repeat(" ", MaxLineBytes-len(markEnd)) + "\nb"), nil, 0, 2 + len(unknown) - 10 + 1 + len(markEnd) + 1 + 2, 0, []messages.Code{esc}},
		{"the whole: OUTPUT goes first", stream(300_000), stream(300_000), 500_000, -1, 300_000, []messages.Code{cut}},
		{"the whole: then SCRATCHPAD", stream(MaxSectionBytes), stream(MaxSectionBytes), MaxSectionBytes, 0, -1, []messages.Code{cut, cut}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := Envelope{Userdata: []byte(goodUserdata), Output: c.out, Scratchpad: c.scr, Actions: []byte(emptyProgram)}
			e.Userdata = append(e.Userdata, bytes.Repeat([]byte{' '}, max(0, c.ud-len(goodUserdata)))...)
			b, lints, err := Compose(e)
			if err != nil || !slices.Equal(lints, c.lints) {
				t.Fatal(err, lints)
			}
			got, _, err := Parse(b, Options{StrictDuplicates: true})
			if err != nil {
				t.Fatal(err)
			}
			if c.wantOut >= 0 && len(got.Output) != c.wantOut || c.wantScr >= 0 && len(got.Scratchpad) != c.wantScr {
				t.Errorf("kept %d of OUTPUT and %d of SCRATCHPAD", len(got.Output), len(got.Scratchpad))
			}
			if whole := len(b) - 1; c.wantOut < 0 || c.wantScr < 0 {
				if whole > MaxEnvelopeBytes || whole <= MaxEnvelopeBytes-100 {
					t.Errorf("the whole has %d bytes: cut too little or too much", whole)
				}
			}
			for _, s := range []struct{ body, stream []byte }{{got.Output, c.out}, {got.Scratchpad, c.scr}} {
				if !slices.Contains(lints, esc) && (!bytes.HasSuffix(s.stream, s.body) || len(s.body) > 0 && len(s.body) < len(s.stream) && s.stream[len(s.stream)-len(s.body)-1] != '\n') {
					t.Error("what is kept must be the tail, from the start of a line")
				}
			}
		})
	}
}

func TestTail(t *testing.T) {
	for _, c := range []struct {
		in    string
		limit int
		want  string
	}{
		{"ab\ncd", 5, "ab\ncd"},
		{"ab\ncd", 4, "cd"},
		{"ab\ncd", 2, "cd"},
		{"ab\ncd", 1, ""},
		{"ab\ncd", 0, ""},
		{"", 0, ""},
		{"ab\n", 2, ""},
		{"ab\n\n\n", 2, "\n\n"},
		{"ab\n\n\n", 3, "\n\n"},
		{"a\n", 0, ""},
	} {
		if got := string(tail([]byte(c.in), c.limit)); got != c.want {
			t.Errorf("tail(%q, %d) = %q, want %q", c.in, c.limit, got, c.want)
		}
	}
}

// Lines of one byte let the cut land exactly on the limit of the whole.
func TestCarryFillsTheEnvelope(t *testing.T) {
	e := Envelope{Userdata: []byte(goodUserdata), Actions: bytes.Repeat([]byte{'#'}, MaxSectionBytes)}
	for _, n := range []int{MaxSectionBytes - 200, MaxSectionBytes} {
		e.Output = bytes.Repeat([]byte{'\n'}, n)
		b, lints, err := Compose(e)
		if err != nil {
			t.Fatal(err)
		}
		if whole := len(b) - 1; whole > MaxEnvelopeBytes || slices.Equal(lints, []messages.Code{messages.LintCarryTruncated}) != (whole == MaxEnvelopeBytes) {
			t.Errorf("%d bytes of OUTPUT make %d, lints %v", n, whole, lints)
		}
		got, _, err := Parse(b, Options{})
		if err != nil {
			t.Fatal(err)
		}
		// One byte over what was kept must cut, what was kept must not.
		for _, more := range []int{0, 1} {
			e.Output = bytes.Repeat([]byte{'\n'}, len(got.Output)+more)
			_, lints, _ := Compose(e)
			if cut := len(lints) > 0; n == MaxSectionBytes && cut != (more == 1) {
				t.Errorf("%d bytes: lints %v", len(e.Output), lints)
			}
		}
	}
}

func TestCarry(t *testing.T) {
	for in, want := range map[string]string{"": "", "\n": "", "a\n": "a", "a\n\n": "a\n", "a": "a"} {
		if got := string(Carry([]byte(in))); got != want {
			t.Errorf("Carry(%q) = %q", in, got)
		}
	}
}

// randomBody mixes what makes bodies hard; marker lines only when asked.
func randomBody(r *rand.Rand, markers bool) []byte {
	parts := []string{"", "text", "\n", "\n\n", "\r\n", "\r", " ", "\t", bom, "żółć", "\x00", "<<<", strings.TrimSuffix(markEnd, ">"), markEnd + ".", " " + markEnd, "<<<NSENV:V4:END>>>", candidatePrefix}
	hard := []string{"\n" + markEnd + "\n", "\n" + bom + markActions + " \r\n", markStart, "\n" + markerPrefix + "X_Y>>>\t\n", ">>>"}
	var b []byte
	for range r.IntN(12) {
		if markers && r.IntN(3) == 0 {
			b = append(b, hard[r.IntN(len(hard))]...)
		} else {
			b = append(b, parts[r.IntN(len(parts))]...)
		}
	}
	return b
}

func TestComposeThenParse(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 20000 {
		e := Envelope{Userdata: randomBody(r, false), Scratchpad: randomBody(r, false), Output: randomBody(r, false), Actions: randomBody(r, false)}
		free := true
		for _, b := range e.bodies() {
			if _, ok := nextMark(b, 0); ok {
				free = false
			}
		}
		if !free {
			continue
		}
		roundTrip(t, e)
	}
}

// roundTrip checks the law of §3 rule 3.
func roundTrip(t testing.TB, e Envelope) {
	t.Helper()
	b, lints, err := Compose(e)
	if err != nil || lints != nil {
		t.Fatalf("%q: %v %v", e, err, lints)
	}
	got, plints, err := Parse(b, Options{StrictDuplicates: true, Extract: true})
	if err != nil || plints != nil {
		t.Fatalf("%q: %v", b, err)
	}
	want := e.bodies()
	for k, body := range got.bodies() {
		if !bytes.Equal(body, want[k]) {
			t.Fatalf("%v: %q, want %q", kind(k), body, want[k])
		}
	}
	if len(e.Output) == 0 && got.Output != nil {
		t.Fatal("an empty optional body counts as absent")
	}
}

// reference classifies a line the slow way, straight from §3 rules 2 and 4.
func referenceMarker(line []byte) bool {
	line = bytes.TrimPrefix(line, []byte(bom))
	line = bytes.TrimRight(line, " \t\r")
	name, ok := bytes.CutPrefix(line, []byte(markerPrefix))
	name, ok2 := bytes.CutSuffix(name, []byte(">>>"))
	return ok && ok2 && len(name) > 0 && len(bytes.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_")) == 0
}

func TestNextMarkAgainstLines(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 20000 {
		checkMarks(t, randomBody(r, true))
	}
}

func checkMarks(t testing.TB, b []byte) {
	t.Helper()
	var want, got []int
	at := 0
	for line := range bytes.SplitSeq(b, []byte{'\n'}) {
		if referenceMarker(line) {
			want = append(want, at)
		}
		at += len(line) + 1
	}
	for m, ok := nextMark(b, 0); ok; m, ok = nextMark(b, m.next) {
		got = append(got, m.line)
		if m.line > m.text || m.text >= m.close || m.close > m.blank || m.blank > m.next || m.next > len(b) {
			t.Fatalf("%q: %+v", b, m)
		}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%q: marks at %v, want %v", b, got, want)
	}
}
