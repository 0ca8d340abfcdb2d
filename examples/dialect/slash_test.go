package slash_test

import (
	"fmt"
	"strings"
	"testing"

	slash "example.org/slash"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// read gives what a decoder finds in a reply that comes in pieces.
func read(finish messages.Finish, pieces ...string) string {
	var b strings.Builder
	emit := func(ev messages.Event) {
		switch ev.Kind {
		case messages.EventUnitBegin:
			b.WriteString("[")
		case messages.EventUnitText:
			b.Write(ev.Text)
		case messages.EventUnitEnd:
			fmt.Fprintf(&b, "]%v ", ev.Complete)
		case messages.EventAction:
			fmt.Fprintf(&b, "%s %s %s ", ev.Action.ID, ev.Action.Name, ev.Action.Args)
		case messages.EventParseError:
			fmt.Fprintf(&b, "%s at %d ", ev.Fault.Detail, ev.Offset)
		}
	}
	d := slash.Dialect{}.NewDecoder(messages.TurnInfo{})
	for _, p := range pieces {
		d.Push([]byte(p), emit)
	}
	d.End(finish, emit)
	return b.String()
}

func TestDecoder(t *testing.T) {
	for _, c := range []struct{ reply, want string }{
		{"", "[]true "},
		{"hello", "[hello]true "},
		{"a\n/x {\"b\":1}\nc / d\n", "[a\n]true #1 x {\"b\":1} [c / d\n]true "},
		{"/x {}\n/y {\"a\": 1.0}", "#1 x {} #2 y {\"a\":1} "},
		{"/x\n", "the arguments of /x are not one JSON object at 0 "},
		{"a\n/ {}\nb", "[a\n]true a call names no tool at 2 [b]true "},
		{"/x [1]", "the arguments of /x are not one JSON object at 0 "},
		{"\xff\n/x {}", "[\ufffd\n]true #1 x {} "},
		{"/x {\"a\":\"" + strings.Repeat("y", slash.MaxCallBytes) + "\"}\nb", "a call is longer than 65536 bytes at 0 [b]true "},
	} {
		if got := read(messages.FinishComplete, c.reply); got != c.want {
			t.Errorf("%.40q gives %.80q, want %.80q", c.reply, got, c.want)
		}
		if len(c.reply) > 100 {
			continue
		}
		for i := range c.reply {
			if got := read(messages.FinishComplete, c.reply[:i], c.reply[i:]); got != c.want {
				t.Errorf("%q cut at %d gives %q", c.reply, i, got)
			}
		}
		if got := read(messages.FinishComplete, strings.Split(c.reply, "")...); got != c.want {
			t.Errorf("%q byte by byte gives %q", c.reply, got)
		}
	}
	if got := read(messages.FinishCancelled, "a\n/x {}"); got != "[a\n]true " {
		t.Errorf("cancelled: %q", got)
	}
}

func FuzzDecoder(f *testing.F) {
	f.Add("a\n/x {}\n", 3)
	f.Add("/", 0)
	f.Fuzz(func(t *testing.T, reply string, cut int) {
		cut = max(0, min(cut, len(reply)))
		whole := read(messages.FinishComplete, reply)
		if parts := read(messages.FinishComplete, reply[:cut], reply[cut:]); parts != whole {
			t.Errorf("%q, and cut at %d %q", whole, cut, parts)
		}
	})
}

// A manifest may name it, where the host has it.
func TestSession(t *testing.T) {
	ctx := t.Context()
	if _, err := stile.LoadAgent("agent.yaml"); messages.CodeOf(err) != messages.ErrConfig {
		t.Errorf("a host that does not know the dialect: %v", err)
	}
	rt, err := stile.New(ctx, stile.Config{InMemory: true, Dialects: []parse.Dialect{slash.Dialect{}}})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close(ctx)
	agent, err := stile.LoadAgent("agent.yaml", slash.Dialect{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := rt.Open(ctx, "shop", agent)
	if err != nil {
		t.Fatal(err)
	}
	run, err := s.Submit(ctx, "What hats are there?")
	if err != nil {
		t.Fatal(err)
	}
	o, err := run.Decision(ctx)
	if err != nil || o.Decision != stile.Done || o.Turns != 2 {
		t.Fatalf("%+v, %v", o, err)
	}
	said := ""
	for r, err := range s.Records(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if b, ok := r.Body.(*messages.UnitText); ok {
			said += b.Text + "|"
		}
	}
	if said != "One moment.\n|We have A RED HAT.|" {
		t.Errorf("said %q", said)
	}
	if _, err := rt.Replay(ctx, "shop", agent); err != nil {
		t.Error(err)
	}
}
