package conform

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/kitsu"
)

type kitsuCase struct {
	Input *string `json:"input"`
	kitsuExpect
	Accept []kitsuExpect `json:"accept"`
}

// kitsuExpect is what a case expects, or an entry of what it also accepts.
type kitsuExpect struct {
	Action  jsontext.Value `json:"action"` // null: there is no token
	Error   string         `json:"error"`
	Visible *string        `json:"visible"`
}

type kitsuAction struct {
	Kind    string         `json:"kind"`
	Payload jsontext.Value `json:"payload"`
	Raw     string         `json:"raw"`
}

func kitsuCases(d *document) ([]testCase, error) {
	if len(d.listed) == 0 {
		return nil, malformed("cases", "there are none")
	}
	return each(d.listed, "id", "", judgeKitsu), nil
}

func judgeKitsu(raw jsontext.Value) (verdict, error) {
	var c kitsuCase
	if err := decode(raw, &c); err != nil {
		return verdict{}, err
	}
	if c.Input == nil {
		return verdict{}, malformed("input", "missing")
	}
	var wants []kitsuWant
	for _, e := range append([]kitsuExpect{c.kitsuExpect}, c.Accept...) {
		want, err := e.want()
		if err != nil {
			return verdict{}, err
		}
		wants = append(wants, want)
	}
	got, cut := kitsuCut(*c.Input)
	if cut != "" {
		return verdict{got: text(cut), expected: []fmt.Stringer{wants[0]}}, nil
	}
	return compare(got, got.equal, wants), nil
}

func (e kitsuExpect) want() (kitsuWant, error) {
	switch {
	case e.Visible == nil:
		return kitsuWant{}, malformed("visible", "missing")
	case (e.Action == nil) == (e.Error == ""):
		return kitsuWant{}, malformed("action", "a case has an action, which may be null, or an error")
	}
	want := kitsuWant{err: e.Error, visible: *e.Visible}
	if e.Action == nil || e.Action.Kind() == 'n' {
		return want, nil
	}
	var a kitsuAction
	if err := json.Unmarshal(e.Action, &a); err != nil {
		return want, faultOf(err)
	}
	if a.Payload == nil {
		return want, malformed("action.payload", "missing")
	}
	if err := a.Payload.Canonicalize(); err != nil {
		return want, faultOf(err)
	}
	want.action = &kitsuResult{kind: a.Kind, payload: string(a.Payload), raw: a.Raw}
	return want, nil
}

// kitsuWant is a whole answer: what is shown, and the action or the error.
type kitsuWant struct {
	action  *kitsuResult
	err     string
	visible string
}

type kitsuResult struct{ kind, payload, raw string }

func (g kitsuWant) equal(w kitsuWant) bool {
	if (g.action == nil) != (w.action == nil) || g.action != nil && *g.action != *w.action {
		return false
	}
	return g.err == w.err && g.visible == w.visible
}

func (g kitsuWant) String() string {
	s := "no action"
	if g.action != nil {
		s = fmt.Sprintf("%s %s, raw %q", g.action.kind, g.action.payload, g.action.raw)
	}
	if g.err != "" {
		s = "error " + g.err
	}
	return s + ", visible " + quoted([]byte(g.visible))
}

// kitsuCut answers an input by Parse and Visible, which look at it whole, and
// holds the decoder to that answer cut in two and byte by byte; what differs is
// told.
func kitsuCut(input string) (got kitsuWant, differs string) {
	a, err := kitsu.Parse(input)
	var fault *messages.Error
	if errors.As(err, &fault) {
		got.err = fault.Reason
	}
	if a != nil {
		got.action = &kitsuResult{kind: string(a.Kind), payload: a.Payload(), raw: a.Raw}
	}
	got.visible = kitsu.Visible(input)
	if again := kitsu.Visible(got.visible); again != got.visible {
		return got, "stripped twice: " + quoted([]byte(again))
	}
	for _, i := range cuts(len(input)) {
		if s := kitsuDecode(input[:i], input[i:]); !s.sameAs(got) {
			return got, fmt.Sprintf("cut at byte %d: %s", i, s)
		}
	}
	pieces := make([]string, 0, len(input))
	for i := range len(input) {
		pieces = append(pieces, input[i:i+1])
	}
	if s := kitsuDecode(pieces...); !s.sameAs(got) {
		return got, "byte by byte: " + s.String()
	}
	return got, ""
}

// sameAs compares without the raw token, which an event does not carry.
func (g kitsuWant) sameAs(whole kitsuWant) bool {
	if whole.action != nil {
		bare := *whole.action
		bare.raw = ""
		whole.action = &bare
	}
	return g.equal(whole)
}

// kitsuDecode is what the decoder makes of a reply in pieces.
func kitsuDecode(pieces ...string) (got kitsuWant) {
	d := kitsu.Dialect{}.NewDecoder(messages.TurnInfo{Turn: 1, Pass: 1})
	var shown []byte
	emit := func(e messages.Event) {
		switch e.Kind {
		case messages.EventUnitText:
			shown = append(shown, e.Text...)
		case messages.EventAction:
			got.action = &kitsuResult{kind: e.Action.Name, payload: e.Action.Args}
		case messages.EventParseError:
			got.err = e.Fault.Reason
		}
	}
	for _, p := range pieces {
		d.Push([]byte(p), emit)
	}
	d.End(messages.FinishComplete, emit)
	got.visible = string(shown)
	return got
}
