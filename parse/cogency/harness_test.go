package cogency

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/internal/parsetest"
)

const vectorFile = "../../tests/testdata/vectors/cogency.json"

type vectorEvent struct {
	Type    Type            `json:"type"`
	Content string          `json:"content"`
	Call    json.RawMessage `json:"call"`
	Partial bool            `json:"partial"`
	Origin  string          `json:"origin"`
	Code    string          `json:"code"`
}

type parseVector struct {
	ID, Title, Input string
	Expect           []vectorEvent
	Units            []struct{ Type, Raw string } `json:"token_units"`
}

type assembleVector struct {
	ID     string
	Events []vectorEvent
	Window int `json:"history_window"`
	Expect []struct{ Role, Content string }
}

type vectorSet struct {
	Parse    []parseVector
	Progress []struct {
		ID     string
		Chunks []string
		After  []struct {
			Think, Respond string
			Events         int
		} `json:"after_chunk"`
	}
	Assemble []assembleVector
}

func vectors(t testing.TB) (v vectorSet) {
	t.Helper()
	b, err := os.ReadFile(vectorFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Parse) < 48 || len(v.Progress) < 4 || len(v.Assemble) < 20 {
		t.Fatalf("%d, %d, %d cases", len(v.Parse), len(v.Progress), len(v.Assemble))
	}
	return v
}

// replay is what a decoder made of a reply.
type replay struct {
	all    []Event // of the vocabulary
	events string  // the same, one a line
	raw    []string
	exact  string // the decoder's events, texts of a unit joined
	lints  []string
	faults []messages.ParseError
}

// decode pushes the pieces and checks what must hold for all replies: units open and
// close in order, texts are whole characters at the place they claim, nothing follows
// a stop, nothing keeps or changes what was pushed.
func decode(t testing.TB, x Dialect, f messages.Finish, pieces ...[]byte) (r replay) {
	t.Helper()
	var exact, events strings.Builder
	reply := bytes.Join(pieces, nil)
	mended := !utf8.Valid(reply)
	unit, open, stopped, over := 0, false, false, false
	var text []byte
	a := Accumulator{Yield: func(e Event) {
		r.all = append(r.all, e)
		fmt.Fprintf(&events, "%+v\n", e)
	}}
	emit := func(e messages.Event) {
		if e.Offset < 0 || e.Offset > int64(len(reply)) {
			t.Fatalf("offset %d of %d: %+v", e.Offset, len(reply), e)
		}
		if over || stopped && e.Kind != messages.EventParseError {
			t.Fatalf("behind the end of %q: %+v", reply, e)
		}
		switch e.Kind {
		case messages.EventUnitBegin, messages.EventUnitText, messages.EventUnitEnd:
			if e.Unit != unit || open == (e.Kind == messages.EventUnitBegin) {
				t.Fatalf("unit %d, open %v, in %q: %+v", unit, open, reply, e)
			}
		default:
			if open {
				t.Fatalf("inside unit %d: %+v", unit, e)
			}
		}
		switch e.Kind {
		case messages.EventUnitBegin:
			open, text = true, text[:0]
			fmt.Fprintf(&exact, "%s@%d ", e.UnitKind, e.Offset)
		case messages.EventUnitText:
			if len(e.Text) == 0 || !utf8.Valid(e.Text) {
				t.Fatalf("text %q in %q", e.Text, reply)
			}
			if !mended && !bytes.HasPrefix(reply[e.Offset:], e.Text) {
				t.Fatalf("text %q is not at %d of %q", e.Text, e.Offset, reply)
			}
			text = append(text, e.Text...)
		case messages.EventUnitEnd:
			open = false
			unit++
			if strings.TrimSpace(string(text)) == "" {
				t.Fatalf("a blank unit in %q", reply)
			}
			if e.UnitKind != messages.TextUnit {
				r.raw = append(r.raw, string(text))
			}
			fmt.Fprintf(&exact, "%q @%d %v\n", text, e.Offset, e.Complete)
		case messages.EventAction:
			if e.Action.Name == "" || !strings.HasPrefix(e.Action.Args, "{") || !json.Valid([]byte(e.Action.Args)) {
				t.Fatalf("%+v", e.Action)
			}
			fmt.Fprintf(&exact, "action@%d %+v\n", e.Offset, *e.Action)
		case messages.EventParseError:
			if meanings[e.Fault.Reason] == "" || e.Fault.Offset != e.Offset || e.Fault.Detail == "" {
				t.Fatalf("%+v", e.Fault)
			}
			over = e.Fault.Reason == TooLarge
			r.faults = append(r.faults, *e.Fault)
			fmt.Fprintf(&exact, "error %+v\n", e.Fault)
		case messages.EventLint:
			if _, ok := e.Fault.Code.Info(); !ok {
				t.Fatalf("lint %+v", e.Fault)
			}
			r.lints = append(r.lints, e.Fault.Detail)
			fmt.Fprintf(&exact, "lint %+v\n", e.Fault)
		case messages.EventStop:
			stopped = true
			fmt.Fprintf(&exact, "stop@%d %v\n", e.Offset, e.Final)
		default:
			t.Fatalf("event %+v", e)
		}
		a.Take(e)
	}
	d := x.NewDecoder(messages.TurnInfo{}).(*decoder)
	for _, p := range pieces {
		q := append([]byte(nil), p...)
		d.Push(q, emit)
		if !bytes.Equal(p, q) {
			t.Fatalf("%q was changed to %q", p, q)
		}
		for i := range q {
			q[i] = '<' // what was pushed is the caller's again
		}
		if d.state == inText || d.state == inThink {
			if n := len(d.held) + d.utf8.Held(); n > 8 && !d.second {
				t.Fatalf("%d bytes are held back", n)
			}
			if d.open && len(d.blank) > 0 {
				t.Fatal("blanks of a unit that has begun wait")
			}
		}
	}
	d.End(f, emit)
	if open {
		t.Fatalf("unit %d stays open in %q", unit, reply)
	}
	r.exact, r.events = exact.String(), events.String()
	return r
}

// everyCut checks that cuts do not matter: in two at every byte, byte by byte, and in
// the sizes of the vectors.
func everyCut(t testing.TB, x Dialect, f messages.Finish, reply string) replay {
	t.Helper()
	whole := decode(t, x, f, []byte(reply))
	check := func(how string, pieces ...[]byte) {
		t.Helper()
		if got := decode(t, x, f, pieces...); got.exact != whole.exact {
			t.Fatalf("%q %s:\n%swhole:\n%s", reply, how, got.exact, whole.exact)
		}
	}
	for i := range len(reply) {
		check(fmt.Sprintf("cut at %d", i), []byte(reply[:i]), []byte(reply[i:]))
	}
	for _, n := range []int{1, 2, 3, 4, 7, 13, 64} {
		check(fmt.Sprintf("in pieces of %d", n), parsetest.Pieces([]byte(reply), n)...)
	}
	return whole
}
