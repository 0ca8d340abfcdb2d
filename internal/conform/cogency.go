package conform

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse/cogency"
)

// cogencyEvent is an event as the vectors write it.
type cogencyEvent struct {
	Type    string         `json:"type"`
	Content *string        `json:"content"`
	Call    jsontext.Value `json:"call"`
	Partial bool           `json:"partial"`
	Origin  string         `json:"origin"`
	Code    string         `json:"code"`
	Results jsontext.Value `json:"results"`
	More    map[string]any `json:",unknown"` // such as timestamp and seq, which do not count
}

type cogencyCase struct {
	Input     *string          `json:"input"`
	Expect    []cogencyEvent   `json:"expect"`
	Accept    [][]cogencyEvent `json:"accept"`
	Units     *[]cogencyUnit   `json:"token_units"`
	Chunks    []string         `json:"chunks"`
	After     []cogencySeen    `json:"after_chunk"`
	Final     []cogencyEvent   `json:"final_events"`
	Persisted *[]string        `json:"persisted"`
}

type cogencyUnit struct {
	Type string `json:"type"`
	Raw  string `json:"raw"`
}

type cogencySeen struct {
	Think   string `json:"think"`
	Respond string `json:"respond"`
	Events  int    `json:"events"`
}

func cogencyCases(d *document) (all []testCase, err error) {
	for _, section := range []struct {
		name  string
		judge func(jsontext.Value) (verdict, error)
	}{
		{"parse", judgeCogencyParse}, {"progress", judgeCogencyProgress}, {"turn", judgeCogencyTurn}, {"assemble", judgeCogencyAssemble},
	} {
		var raws []jsontext.Value
		if v := d.members[section.name]; v != nil {
			if err := json.Unmarshal(v, &raws); err != nil {
				return nil, faultOf(err)
			}
		}
		all = append(all, each(raws, "id", section.name+" ", section.judge)...)
	}
	if len(all) == 0 {
		return nil, malformed("parse", "there are no cases")
	}
	return all, nil
}

// cogencyAnswer is the list of events a case came to, with what else is compared.
type cogencyAnswer struct {
	events []cogencyEvent
	units  []cogencyUnit // nil: not compared
	stored []string      // nil: not compared
}

// wants lists the events that a case expects and those it also accepts, each with
// what else is compared.
func (c cogencyCase) wants() (all []cogencyAnswer) {
	for _, events := range append([][]cogencyEvent{c.Expect}, c.Accept...) {
		want := cogencyAnswer{events: events}
		if c.Units != nil {
			want.units = append([]cogencyUnit{}, *c.Units...)
		}
		if c.Persisted != nil {
			want.stored = append([]string{}, *c.Persisted...)
		}
		all = append(all, want)
	}
	return all
}

func (g cogencyAnswer) matches(want cogencyAnswer) bool {
	return slices.EqualFunc(g.events, want.events, sameCogency) &&
		(want.units == nil || slices.Equal(g.units, want.units)) &&
		(want.stored == nil || slices.Equal(g.stored, want.stored))
}

// sameCogency compares what a case shows of an event: calls and results by value,
// errors by code, and content where it is there.
func sameCogency(got, want cogencyEvent) bool {
	if got.Type != want.Type || got.Partial != want.Partial || got.Origin != want.Origin || want.Code != "" && got.Code != want.Code {
		return false
	}
	if want.Call != nil && !sameExact(got.Call, want.Call) || want.Results != nil && !likeResults(got.Results, want.Results) {
		return false
	}
	return want.Content == nil || want.Type == "error" || got.Content != nil && *got.Content == *want.Content
}

// sameExact compares JSON values with their number literals.
func sameExact(a, b jsontext.Value) bool {
	a, b = normal(a), normal(b)
	return a != nil && string(a) == string(b)
}

// normal orders the members of a value and leaves its numbers as they are.
func normal(v jsontext.Value) jsontext.Value {
	v = slices.Clone(v)
	if v.Format(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false), jsontext.ReorderRawObjects(true),
		jsontext.EscapeForHTML(false), jsontext.PreserveRawStrings(false)) != nil {
		return nil
	}
	return v
}

// likeResults compares results; "*" stands for any string that is not empty.
func likeResults(got, want jsontext.Value) bool {
	var g, w []map[string]jsontext.Value
	if json.Unmarshal(got, &g) != nil || json.Unmarshal(want, &w) != nil {
		return false
	}
	return slices.EqualFunc(g, w, func(g, w map[string]jsontext.Value) bool {
		if len(g) != len(w) {
			return false
		}
		for name, v := range w {
			switch {
			case string(v) == `"*"`:
				if g[name].Kind() != '"' || string(g[name]) == `""` {
					return false
				}
			case !sameExact(g[name], v):
				return false
			}
		}
		return true
	})
}

func (g cogencyAnswer) String() string {
	var all []string
	for _, e := range g.events {
		s := e.Type
		if e.Code != "" {
			s += " " + e.Code
		}
		switch {
		case e.Call != nil:
			s += " " + string(e.Call)
		case e.Results != nil:
			s += " " + string(e.Results)
		case e.Content != nil && e.Type != "error":
			s += " " + strconv.Quote(*e.Content)
		}
		if e.Partial {
			s += " partial"
		}
		if e.Origin != "" {
			s += " of the " + e.Origin
		}
		all = append(all, s)
	}
	if len(all) == 0 {
		all = append(all, "no event")
	}
	s := strings.Join(all, " · ")
	if g.units != nil {
		s += fmt.Sprintf("; raw %q", g.units)
	}
	if g.stored != nil {
		s += fmt.Sprintf("; stored %v", g.stored)
	}
	return s
}

// asCogency writes an event as the vectors do.
func asCogency(e cogency.Event) cogencyEvent {
	c := cogencyEvent{Type: string(e.Type), Partial: e.Partial, Origin: e.Origin, Code: e.Code}
	switch {
	case e.Type == cogency.Call:
		c.Call = jsontext.Value(e.Content)
	case e.Type == cogency.Results && e.Origin == "":
		c.Results = jsontext.Value(e.Content)
	case e.Type == cogency.Execute || e.Type == cogency.End:
	default:
		c.Content = &e.Content
	}
	return c
}

// cogencySizes are the chunks of the vectors, in characters; 0 is the whole input.
var cogencySizes = []int{0, 1, 2, 3, 4, 7, 13, 64}

func runeChunks(s string, size int) (all []string) {
	for s != "" {
		n := len(s)
		if size > 0 {
			n = 0
			for range size {
				_, k := utf8.DecodeRuneInString(s[n:])
				n += k
			}
		}
		all = append(all, s[:n])
		s = s[n:]
	}
	return all
}

// cogencyDecode reads a reply in pieces that ends cleanly, in event mode, and the raw
// texts in token mode.
func cogencyDecode(pieces []string) (got cogencyAnswer, a *cogency.Accumulator) {
	a = &cogency.Accumulator{Yield: func(e cogency.Event) { got.events = append(got.events, asCogency(e)) }}
	a.Store = func(e cogency.Event) error {
		got.stored = append(got.stored, string(e.Type))
		return nil
	}
	got.units = []cogencyUnit{}
	var raws [][]byte // of the units
	last := -1
	tokens := &cogency.Accumulator{Deltas: true, Yield: func(e cogency.Event) {
		if !e.Delta {
			return
		}
		if e.Unit != last {
			got.units, last = append(got.units, cogencyUnit{Type: string(e.Type)}), e.Unit
			raws = append(raws, nil)
		}
		raws[len(raws)-1] = append(raws[len(raws)-1], e.Content...)
	}}
	both := func(ev messages.Event) { a.Take(ev); tokens.Take(ev) }
	d := cogency.Dialect{}.NewDecoder(messages.TurnInfo{})
	for _, p := range pieces {
		d.Push([]byte(p), both)
	}
	d.End(messages.FinishComplete, both)
	for i, raw := range raws {
		got.units[i].Raw = string(raw)
	}
	return got, a
}

func judgeCogencyParse(raw jsontext.Value) (verdict, error) {
	var c cogencyCase
	if err := decode(raw, &c); err != nil {
		return verdict{}, err
	}
	switch {
	case c.Input == nil:
		return verdict{}, malformed("input", "missing")
	case c.Expect == nil:
		return verdict{}, malformed("expect", "missing")
	}
	wants := c.wants()
	var v verdict
	for _, size := range cogencySizes {
		got, _ := cogencyDecode(runeChunks(*c.Input, size))
		got.stored = nil
		if v = compare(got, got.matches, wants); !v.pass {
			return v, nil
		}
	}
	for _, i := range cuts(len(*c.Input)) {
		got, _ := cogencyDecode([]string{(*c.Input)[:i], (*c.Input)[i:]})
		got.stored = nil
		if v = compare(got, got.matches, wants); !v.pass {
			v.got = text(fmt.Sprintf("cut at byte %d: %s", i, got))
			return v, nil
		}
	}
	return v, nil
}

// cogencyProgress is what was seen after each chunk.
type cogencyProgress []cogencySeen

func (p cogencyProgress) String() string { return fmt.Sprintf("%+v", []cogencySeen(p)) }

func judgeCogencyProgress(raw jsontext.Value) (verdict, error) {
	var c cogencyCase
	if err := decode(raw, &c); err != nil {
		return verdict{}, err
	}
	if c.Chunks == nil || len(c.After) != len(c.Chunks) {
		return verdict{}, malformed("after_chunk", "there are %d for %d chunks", len(c.After), len(c.Chunks))
	}
	var seen cogencySeen
	a := cogency.Accumulator{Deltas: true, Yield: func(e cogency.Event) {
		switch {
		case e.Delta && e.Type == cogency.Think:
			seen.Think += e.Content
		case e.Delta:
			seen.Respond += e.Content
		case e.Type == cogency.Call || e.Type == cogency.Execute || e.Type == cogency.Fault || e.Type == cogency.End:
			seen.Events++
		}
	}}
	var got cogencyProgress
	d := cogency.Dialect{}.NewDecoder(messages.TurnInfo{})
	for _, p := range c.Chunks {
		d.Push([]byte(p), a.Take)
		got = append(got, seen)
	}
	want := cogencyProgress(c.After)
	if v := compare(got, func(w cogencyProgress) bool { return slices.Equal(got, w) }, []cogencyProgress{want}); !v.pass || c.Final == nil {
		return v, nil
	}
	whole, _ := cogencyDecode(c.Chunks)
	whole.units, whole.stored = nil, nil
	return compare(whole, whole.matches, []cogencyAnswer{{events: c.Final}}), nil
}

// cogencyTools are the tools of the section turn.
var cogencyTools = map[string]func(args map[string]jsontext.Value) cogency.Result{
	"ok": func(map[string]jsontext.Value) cogency.Result {
		return cogency.Result{Success: true, Outcome: "done", Content: cogency.Text("payload")}
	},
	"quiet": func(map[string]jsontext.Value) cogency.Result { return cogency.Result{Success: true, Outcome: "done"} },
	"fail":  func(map[string]jsontext.Value) cogency.Result { return cogency.Failure("", "boom") },
	"raise": func(map[string]jsontext.Value) cogency.Result { return cogency.Failure("", "raised") },
	"echo": func(args map[string]jsontext.Value) cogency.Result {
		return cogency.Result{Success: true, Outcome: "echoed", Content: string(args["text"])}
	},
}

func judgeCogencyTurn(raw jsontext.Value) (verdict, error) {
	var c cogencyCase
	if err := decode(raw, &c); err != nil {
		return verdict{}, err
	}
	switch {
	case c.Input == nil:
		return verdict{}, malformed("input", "missing")
	case c.Expect == nil:
		return verdict{}, malformed("expect", "missing")
	}
	wants := c.wants()
	var v verdict
	for _, size := range cogencySizes {
		got := cogencyTurn(runeChunks(*c.Input, size))
		if v = compare(got, got.matches, wants); !v.pass {
			break
		}
	}
	return v, nil
}

// cogencyTurn decodes a reply and runs its batch.
func cogencyTurn(pieces []string) cogencyAnswer {
	var stored []string
	var events []cogencyEvent
	var results []cogency.Result
	a := cogency.Accumulator{
		Store: func(e cogency.Event) error {
			stored = append(stored, string(e.Type))
			return nil
		},
		Yield: func(e cogency.Event) {
			events = append(events, asCogency(e))
			if e.Type == cogency.Call {
				results = append(results, runCogency(e.Content))
			}
		},
	}
	d := cogency.Dialect{}.NewDecoder(messages.TurnInfo{})
	for _, p := range pieces {
		d.Push([]byte(p), a.Take)
	}
	d.End(messages.FinishComplete, a.Take)
	a.Answer(results)
	return cogencyAnswer{events: events, stored: append([]string{}, stored...)}
}

func runCogency(content string) cogency.Result {
	var c struct {
		Name string                    `json:"name"`
		Args map[string]jsontext.Value `json:"args"`
	}
	if err := json.Unmarshal([]byte(content), &c); err != nil {
		return cogency.Failure("", err.Error())
	}
	tool := cogencyTools[c.Name]
	if tool == nil {
		return cogency.Failure(c.Name, "there is no such tool")
	}
	r := tool(c.Args)
	r.Tool = c.Name
	return r
}

type cogencyAssembly struct {
	Events *[]cogencyEvent  `json:"events"`
	Window *int             `json:"history_window"`
	Expect *cogencyContext  `json:"expect"`
	Accept []cogencyContext `json:"accept"`
}

type cogencyMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type cogencyContext []cogencyMessage

func (c cogencyContext) String() string {
	var all []string
	for _, m := range c {
		all = append(all, m.Role+" "+strconv.Quote(m.Content))
	}
	return strings.Join(all, " · ")
}

// judgeCogencyAssemble compares messages byte for byte, but for the JSON between
// markers, which is compared by value.
func judgeCogencyAssemble(raw jsontext.Value) (verdict, error) {
	var c cogencyAssembly
	if err := decode(raw, &c); err != nil {
		return verdict{}, err
	}
	switch {
	case c.Events == nil:
		return verdict{}, malformed("events", "missing")
	case c.Expect == nil:
		return verdict{}, malformed("expect", "missing")
	}
	var events []cogency.Event
	for _, e := range *c.Events {
		ev := cogency.Event{Type: cogency.Type(e.Type), Partial: e.Partial, Origin: e.Origin, Code: e.Code}
		if e.Content != nil {
			ev.Content = *e.Content
		}
		events = append(events, ev)
	}
	window := 0
	if c.Window != nil {
		if window = *c.Window; window == 0 {
			window = -1 // given, and not above 0
		}
	}
	ms, _, err := cogency.Assemble(events, window)
	if err != nil {
		return verdict{got: text(err.Error()), expected: []fmt.Stringer{*c.Expect}}, nil
	}
	var got cogencyContext
	for _, m := range ms {
		got = append(got, cogencyMessage{string(m.Role), m.Text})
	}
	same := func(want cogencyContext) bool {
		return slices.EqualFunc(got, want, func(g, w cogencyMessage) bool {
			return g.Role == w.Role && (g.Content == w.Content || byValue(g.Content) == byValue(w.Content))
		})
	}
	return compare(got, same, append([]cogencyContext{*c.Expect}, c.Accept...)), nil
}

// byValue brings the arrays between markers into one form. A closer inside of a
// string is found where the array before it is none.
func byValue(s string) string {
	for _, marker := range []string{"execute>", "results>"} {
		at := strings.Index(s, "<"+marker)
		if at < 0 {
			continue
		}
		at += 1 + len(marker)
		for from := at; ; {
			n := strings.Index(s[from:], "</"+marker)
			if n < 0 {
				break
			}
			if v := normal(jsontext.Value(s[at : from+n])); v != nil {
				return s[:at] + string(v) + byValue(s[from+n:])
			}
			from += n + 1
		}
	}
	return s
}
