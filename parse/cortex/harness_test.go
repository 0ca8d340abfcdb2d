package cortex

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/internal/parsetest"
)

// replay is what a decoder made of a reply.
type replay struct {
	canonical []map[string]any // docs/spec/streaming.md §3.2
	exact     string           // every event with its place, texts of a unit joined
	told      []string         // the details of errors
}

// decode pushes the pieces and checks what must hold for all replies: units open and
// close in order, texts are whole characters at the place they claim, nothing keeps
// or changes what was pushed.
func decode(t testing.TB, x Dialect, f messages.Finish, pieces ...[]byte) replay {
	t.Helper()
	return decodeIn(t, x, messages.TurnInfo{}, f, pieces...)
}

// decodeIn is decode in a turn.
func decodeIn(t testing.TB, x Dialect, info messages.TurnInfo, f messages.Finish, pieces ...[]byte) replay {
	t.Helper()
	var r replay
	var exact strings.Builder
	reply := bytes.Join(pieces, nil)
	unit, open := 0, false
	var text []byte
	var blocks blockStack
	emit := func(e messages.Event) {
		if e.Offset < 0 || e.Offset > int64(len(reply)) {
			t.Fatalf("offset %d of %d: %+v", e.Offset, len(reply), e)
		}
		if n := len(r.canonical); n > 0 && r.canonical[n-1]["ev"] == "cut" {
			t.Fatalf("behind the cut of %q: %+v", reply, e)
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
		blocks.check(t, reply, &e)
		switch e.Kind {
		case messages.EventUnitBegin:
			open, text = true, text[:0]
			fmt.Fprintf(&exact, "%s@%d %v ", e.UnitKind, e.Offset, e.Final)
		case messages.EventUnitText:
			if len(e.Text) == 0 || !utf8.Valid(e.Text) {
				t.Fatalf("text %q in %q", e.Text, reply)
			}
			if !bytes.Contains(e.Text, []byte("\ufffd")) && !bytes.HasPrefix(reply[e.Offset:], e.Text) {
				t.Fatalf("text %q is not at %d of %q", e.Text, e.Offset, reply)
			}
			text = append(text, e.Text...)
		case messages.EventUnitEnd:
			open = false
			unit++
			fmt.Fprintf(&exact, "%q @%d %v %v %s\n", text, e.Offset, e.Final, e.Complete, blockText(e.Block))
			ev := map[string]any{"ev": string(e.UnitKind), "text": string(text)}
			if e.UnitKind == messages.ResponseUnit {
				ev["final"], ev["complete"] = e.Final, e.Complete
			} else if len(text) == 0 {
				t.Fatalf("an empty segment in %q", reply)
			}
			r.canonical = append(r.canonical, ev)
		case messages.EventFeed:
			fmt.Fprintf(&exact, "feed@%d %q %q\n", e.Offset, e.ID, e.Text)
			r.canonical = append(r.canonical, map[string]any{"ev": "feed", "id": e.ID, "text": string(e.Text)})
		case messages.EventAction:
			fmt.Fprintf(&exact, "action@%d %+v\n", e.Offset, *e.Action)
			r.canonical = append(r.canonical, canonicalAction(t, e.Action))
		case messages.EventCut:
			fmt.Fprintf(&exact, "cut@%d\n", e.Offset)
			r.canonical = append(r.canonical, map[string]any{"ev": "cut", "at": e.Offset})
		case messages.EventParseError:
			if e.Fault.Code != messages.ErrDialect || meanings[e.Fault.Reason] == "" || e.Fault.Offset != e.Offset || e.Fault.Detail == "" {
				t.Fatalf("%+v", e.Fault)
			}
			fmt.Fprintf(&exact, "error %+v\n", e.Fault)
			r.told = append(r.told, e.Fault.Detail)
			ev := map[string]any{"ev": "error", "code": e.Fault.Reason}
			for key, v := range map[string]string{"id": e.Fault.ID, "tag": e.Fault.Tag, "name": e.Fault.Name, "field": e.Fault.Field} {
				if v != "" {
					ev[key] = v
				}
			}
			r.canonical = append(r.canonical, ev)
		case messages.EventLint:
			fmt.Fprintf(&exact, "lint@%d %s\n", e.Offset, e.Fault.Code)
			r.canonical = append(r.canonical, map[string]any{"ev": "lint", "code": string(e.Fault.Code)})
		case messages.EventBlock, messages.EventBranch, messages.EventBlockEnd, messages.EventRollback, messages.EventTemplate:
			fmt.Fprintf(&exact, "%d@%d %s\n", e.Kind, e.Offset, blockText(e.Block))
			r.canonical = append(r.canonical, map[string]any{"ev": "block", "kind": e.Kind, "block": blockText(e.Block)})
		case messages.EventStop:
			fmt.Fprintf(&exact, "stop@%d %v\n", e.Offset, e.Final)
			r.canonical = append(r.canonical, map[string]any{"ev": "stop", "final": e.Final})
		default:
			t.Fatalf("event %+v", e)
		}
	}
	d := x.NewDecoder(info)
	for _, p := range pieces {
		q := append([]byte(nil), p...)
		d.Push(q, emit)
		if !bytes.Equal(p, q) {
			t.Fatalf("%q was changed to %q", p, q)
		}
		for i := range q {
			q[i] = '<' // what was pushed is the caller's again
		}
	}
	d.End(f, emit)
	if open {
		t.Fatalf("unit %d stays open in %q", unit, reply)
	}
	if n := len(r.canonical); len(blocks) > 0 && (n == 0 || r.canonical[n-1]["ev"] != "cut") {
		t.Fatalf("%d blocks stay open in %q", len(blocks), reply)
	}
	r.exact = exact.String()
	return r
}

func canonicalAction(t testing.TB, a *messages.Action) map[string]any {
	t.Helper()
	var args map[string]any
	dec := json.NewDecoder(strings.NewReader(a.Args))
	dec.UseNumber() // literals are kept
	if err := dec.Decode(&args); err != nil || args == nil {
		t.Fatalf("arguments %q: %v", a.Args, err)
	}
	if a.Timeout <= 0 || a.Timeout > MaxTimeout || a.Retry < 0 || a.Retry > MaxRetry || a.ID == "" || strings.TrimSpace(a.Name) == "" {
		t.Fatalf("%+v", a)
	}
	ev := map[string]any{
		"ev": "action", "type": string(a.Type), "mode": a.Mode, "id": a.ID, "name": a.Name, "parameters": args,
		"output_key": nil, "depends_on": append([]string{}, a.DependsOn...), "timeout": a.Timeout.Seconds(),
		"retry": a.Retry, "on_error": a.OnError, "in_thought": a.InThought,
	}
	if a.OutputKey != "" {
		ev["output_key"] = a.OutputKey
	}
	return ev
}

// text of canonical events: one JSON object a line, members sorted.
func lines(t testing.TB, events []map[string]any) string {
	t.Helper()
	var b strings.Builder
	for _, e := range events {
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(line)
		b.WriteByte('\n')
	}
	return b.String()
}

// everyCut checks that cuts do not matter: in two at every byte, byte by byte, and
// in sevens. It gives the events.
func everyCut(t testing.TB, x Dialect, reply string) replay {
	t.Helper()
	whole := decode(t, x, messages.FinishComplete, []byte(reply))
	check := func(how string, pieces ...[]byte) {
		t.Helper()
		if got := decode(t, x, messages.FinishComplete, pieces...); got.exact != whole.exact {
			t.Fatalf("%q %s:\n%swhole:\n%s", reply, how, got.exact, whole.exact)
		}
	}
	for i := range len(reply) {
		check(fmt.Sprintf("cut at %d", i), []byte(reply[:i]), []byte(reply[i:]))
	}
	for _, n := range []int{1, 2, 7} {
		check(fmt.Sprintf("in pieces of %d", n), parsetest.Pieces([]byte(reply), n)...)
	}
	return whole
}
