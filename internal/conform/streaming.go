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

	// Of docs/spec/extensions.md: what is on, and the manifest's action_templates.
	Extensions []string                  `json:"extensions"`
	Templates  map[string]jsontext.Value `json:"templates"`
}

// streamedEvent is a canonical event of docs/spec/streaming.md §3.2: its members.
type streamedEvent map[string]jsontext.Value

// streamed is a list of them.
type streamed []streamedEvent

func streamingCases(d *document) ([]testCase, error) {
	return each(d.listed, "id", "", judgeStreaming), nil
}

// judgeStreaming decodes a reply whole, byte by byte and in pieces of seven, with extensions
// also of two and three: one that gives other events when it is cut otherwise has failed
// with those.
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
	x, err := c.dialect()
	if err != nil {
		return verdict{}, err
	}
	var v verdict
	sizes := []int{max(len(*c.Input), 1), 1, 7}
	if c.Extensions != nil {
		sizes = append(sizes, 2, 3)
	}
	for _, size := range sizes {
		got, err := decodeStream(x, []byte(*c.Input), size)
		if err != nil {
			return verdict{}, err
		}
		if v = compare(got, got.matches, wants); !v.pass {
			break
		}
	}
	return v, nil
}

// dialect is the one with the case's extensions and templates.
func (c *streamingCase) dialect() (cortex.Dialect, error) {
	x := cortex.Dialect{Extensions: cortex.ExtensionsOf(c.Extensions)}
	for name, definition := range c.Templates {
		t, wrong := cortex.LoadTemplate(string(definition), x.Extensions)
		if wrong != nil {
			return x, malformed("templates."+name, "%s", wrong)
		}
		if x.Templates == nil {
			x.Templates = make(map[string]*cortex.Template)
		}
		x.Templates[name] = t
	}
	return x, nil
}

// check wants of an event that it is a known one.
func (s streamed) check() error {
	for i, e := range s {
		var kind string
		if err := json.Unmarshal(e["ev"], &kind); err != nil || !slices.Contains(eventKinds, kind) {
			return malformed(fmt.Sprintf("events.%d.ev", i), "%s is no kind of event", quoted(e["ev"]))
		}
	}
	return nil
}

// eventKinds are those of docs/spec/streaming.md §3.2, and of its extensions.
var eventKinds = []string{"thought", "text", "response", "action", "feed", "error", "block", "branch", "block_end", "rollback", "template"}

// structural are the members of extensions: where an event that is wanted has none of them,
// the event that came must have none, or null or false.
var structural = []string{"block", "thought", "template", "group", "rollback", "stream"}

// matches compares the members that are wanted, and structural ones; others are not looked at.
func (s streamed) matches(want streamed) bool {
	return slices.EqualFunc(s, want, func(got, want streamedEvent) bool {
		for name, value := range want {
			if !sameValue(got[name], value) {
				return false
			}
		}
		return !slices.ContainsFunc(structural, func(name string) bool {
			_, wanted := want[name]
			v := string(got[name])
			return !wanted && v != "" && v != "null" && v != "false"
		})
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
func decodeStream(x cortex.Dialect, reply []byte, size int) (s streamed, err error) {
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
			s[len(s)-1].stand(ev.Block, &err)
		case messages.EventFeed:
			add("feed", "id", ev.ID, "text", string(ev.Text))
		case messages.EventAction:
			a := ev.Action
			add("action", "type", a.Type, "mode", a.Mode, "id", a.ID, "name", a.Name, "parameters", jsontext.Value(a.Args), "output_key", orNull(a.OutputKey),
				"depends_on", append([]string{}, a.DependsOn...), "timeout", a.Timeout.Seconds(), "retry", a.Retry, "on_error", a.OnError,
				"show", a.Show, "in_thought", a.InThought)
			s[len(s)-1].extend(a, &err)
		case messages.EventBlock:
			b := ev.Block
			add("block", "kind", b.Kind, "id", b.ID, "depends_on", append([]string{}, b.DependsOn...), "output_key", orNull(b.OutputKey),
				"in_thought", b.InThought, "block", orNull(b.Within))
			s[len(s)-1].block(b, &err)
		case messages.EventBranch:
			add("branch", "id", ev.Block.ID, "branch", ev.Block.Branch)
			if ev.Block.Branch != "else" {
				s[len(s)-1].set("test", ev.Block.Test, &err)
			}
		case messages.EventBlockEnd:
			add("block_end", "id", ev.Block.ID, "kind", ev.Block.Kind, "ok", ev.Block.OK)
		case messages.EventRollback:
			add("rollback", "group", ev.Block.Group, "block", orNull(ev.Block.Within))
		case messages.EventTemplate:
			add("template", "name", ev.Block.Name, "params", append([]string{}, ev.Block.Params...))
		case messages.EventParseError:
			f := ev.Fault
			add("error", "code", f.Reason)
			for name, v := range map[string]string{"id": f.ID, "tag": f.Tag, "name": f.Name, "field": f.Field} {
				if v != "" {
					s[len(s)-1].set(name, v, &err)
				}
			}
			switch {
			case f.Reason == cortex.Misplaced:
				s[len(s)-1].set("within", f.Within, &err)
			case f.Reason == cortex.BadCondition:
				s[len(s)-1].set("at", f.At, &err)
			case f.ID == "" && slices.Contains(ofTemplates, f.Reason):
				s[len(s)-1].set("name", f.Name, &err)
			}
		}
	}
	d := x.NewDecoder(messages.TurnInfo{})
	for i := 0; i < len(reply); i += size {
		d.Push(reply[i:min(i+size, len(reply))], emit)
	}
	d.End(messages.FinishComplete, emit)
	return s, err
}

// ofTemplates are the reasons of errors that have the name of a template, where they have no
// action's id.
var ofTemplates = []string{
	cortex.MissingBody, cortex.InvalidJSON, cortex.InvalidBody, cortex.BadTemplate, cortex.TemplateExists, cortex.TemplateLimit,
}

// orNull is a text, or null for none.
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// stand has the members of where a unit stands.
func (e streamedEvent) stand(b *messages.Block, err *error) {
	switch {
	case b == nil:
	case b.Kind == "thought":
		for name, v := range map[string]any{"n": b.N, "parent": b.Parent, "depth": b.Depth, "label": orNull(b.Label)} {
			e.set(name, v, err)
		}
	default:
		e.set("block", orNull(b.Within), err)
	}
}

// extend has the members of an action that extensions have.
func (e streamedEvent) extend(a *messages.Action, err *error) {
	for name, v := range map[string]any{"block": orNull(a.Block), "template": orNull(a.Template), "group": orNull(a.Group), "stream": a.Stream} {
		e.set(name, v, err)
	}
	if a.Thought > 0 {
		e.set("thought", a.Thought, err)
	}
	if a.Rollback != "" {
		e["rollback"] = jsontext.Value(a.Rollback)
	}
}

// block has the members of a kind of block.
func (e streamedEvent) block(b *messages.Block, err *error) {
	switch b.Kind {
	case "if":
		e.set("test", b.Test, err)
	case "foreach":
		for name, v := range map[string]any{"list": b.List, "as": b.As, "max": b.Max, "parallel": b.Parallel, "fail": b.Fail} {
			e.set(name, v, err)
		}
	case "parallel":
		var timeout any
		if b.Timeout > 0 {
			timeout = b.Timeout.Seconds()
		}
		for name, v := range map[string]any{"max": b.Max, "fail": b.Fail, "timeout": timeout} {
			e.set(name, v, err)
		}
	}
}

// set encodes a member; the first error stays.
func (e streamedEvent) set(name string, v any, first *error) {
	b, err := json.Marshal(v)
	if err != nil && *first == nil {
		*first = faultOf(err)
	}
	e[name] = b
}
