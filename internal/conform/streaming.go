package conform

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/crypto/token"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/cortex"
)

type streamingCase struct {
	Input  *string            `json:"input"`
	Events *[]streamedEvent   `json:"events"`
	Accept *[][]streamedEvent `json:"accept"`
}

// streamedEvent is a canonical event of docs/spec/streaming.md §3.2: its members.
type streamedEvent map[string]jsontext.Value

// streamed is a list of them.
type streamed []streamedEvent

func streamingCases(d *document) ([]testCase, error) {
	return each(d.listed, "id", "", judgeStreaming), nil
}

// judgeStreaming decodes a reply whole, byte by byte and in pieces of seven: one
// that gives other events when it is cut otherwise has failed with those.
func judgeStreaming(raw jsontext.Value) (verdict, error) {
	var c streamingCase
	if err := decode(raw, &c); err != nil {
		return verdict{}, err
	}
	if c.Input == nil {
		return verdict{}, malformed("input", "missing")
	}
	if c.Events == nil {
		return verdict{}, malformed("events", "missing")
	}
	wants := []streamed{*c.Events}
	if c.Accept != nil {
		for _, events := range *c.Accept {
			wants = append(wants, events)
		}
	}
	for _, want := range wants {
		if err := want.check(); err != nil {
			return verdict{}, err
		}
	}
	var v verdict
	for _, size := range []int{max(len(*c.Input), 1), 1, 7} {
		got, err := decodeStream([]byte(*c.Input), size)
		if err != nil {
			return verdict{}, err
		}
		if v = compare(got, got.matches, wants); !v.pass {
			break
		}
	}
	return v, nil
}

// check wants of an event that it is a known one.
func (s streamed) check() error {
	for i, e := range s {
		var kind string
		if err := json.Unmarshal(e["ev"], &kind); err != nil || !slices.Contains([]string{"thought", "text", "response", "action", "feed", "error"}, kind) {
			return malformed(fmt.Sprintf("events.%d.ev", i), "%s is no kind of event", quoted(e["ev"]))
		}
	}
	return nil
}

// matches compares the members that are wanted; others are not looked at.
func (s streamed) matches(want streamed) bool {
	return slices.EqualFunc(s, want, func(got, want streamedEvent) bool {
		for name, value := range want {
			if !sameValue(got[name], value) {
				return false
			}
		}
		return true
	})
}

// sameValue compares JSON values: numbers by what they mean, objects without order.
func sameValue(a, b jsontext.Value) bool {
	if a == nil || b == nil {
		return false
	}
	x, errX := token.Canonicalize(a)
	y, errY := token.Canonicalize(b)
	if errX != nil || errY != nil { // numbers beyond a double
		return string(a) == string(b)
	}
	return string(x) == string(y)
}

func (s streamed) String() string {
	if len(s) == 0 {
		return "no event"
	}
	all := make([]string, len(s))
	for i, e := range s {
		all[i] = e.String()
	}
	return strings.Join(all, " · ")
}

// String puts the kind first and then the other members in order.
func (e streamedEvent) String() string {
	var kind string
	if json.Unmarshal(e["ev"], &kind) != nil {
		kind = quoted(e["ev"])
	}
	names := make([]string, 0, len(e))
	for name := range e {
		if name != "ev" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		kind += " " + name + "=" + string(e[name])
	}
	return kind
}

// decodeStream returns the canonical events of a reply pushed in pieces.
func decodeStream(reply []byte, size int) (s streamed, err error) {
	var text []byte
	add := func(kind string, members ...any) {
		e := streamedEvent{}
		for i := 0; i < len(members); i += 2 {
			e.set(members[i].(string), members[i+1], &err)
		}
		e.set("ev", kind, &err)
		s = append(s, e)
	}
	emit := func(ev messages.Event) {
		switch ev.Kind {
		case messages.EventUnitBegin:
			text = text[:0]
		case messages.EventUnitText:
			text = append(text, ev.Text...)
		case messages.EventUnitEnd:
			if ev.UnitKind == messages.ResponseUnit {
				add("response", "text", string(text), "final", ev.Final, "complete", ev.Complete)
			} else {
				add(string(ev.UnitKind), "text", string(text))
			}
		case messages.EventFeed:
			add("feed", "id", ev.ID, "text", string(ev.Text))
		case messages.EventAction:
			a := ev.Action
			var key any
			if a.OutputKey != "" {
				key = a.OutputKey
			}
			add("action", "type", a.Type, "mode", a.Mode, "id", a.ID, "name", a.Name, "parameters", jsontext.Value(a.Args), "output_key", key,
				"depends_on", append([]string{}, a.DependsOn...), "timeout", a.Timeout.Seconds(), "retry", a.Retry, "on_error", a.OnError,
				"show", a.Show, "in_thought", a.InThought)
		case messages.EventParseError:
			f := ev.Fault
			add("error", "code", f.Reason)
			for name, v := range map[string]string{"id": f.ID, "tag": f.Tag, "name": f.Name, "field": f.Field} {
				if v != "" {
					s[len(s)-1].set(name, v, &err)
				}
			}
		}
	}
	d := cortex.Dialect{}.NewDecoder(messages.TurnInfo{})
	for i := 0; i < len(reply); i += size {
		d.Push(reply[i:min(i+size, len(reply))], emit)
	}
	d.End(messages.FinishComplete, emit)
	return s, err
}

// set encodes a member; the first error stays.
func (e streamedEvent) set(name string, v any, first *error) {
	b, err := json.Marshal(v)
	if err != nil && *first == nil {
		*first = faultOf(err)
	}
	e[name] = b
}
