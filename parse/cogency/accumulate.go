package cogency

import (
	"strings"
	"unicode"

	"github.com/seed14be6753/stile/messages"
)

// Type is a word of the event vocabulary (docs/spec/cogency.md §3).
type Type string

// The vocabulary, as far as parsing, storing and rebuilding need it. The log may
// hold others, which no context has.
const (
	User      Type = "user"
	Think     Type = "think"
	Respond   Type = "respond"
	Call      Type = "call"
	Execute   Type = "execute"
	Results   Type = "result"
	Fault     Type = "error"
	Cancelled Type = "cancelled"
	End       Type = "end"
)

// FromModel is the origin of results that the model wrote: never an outcome.
const FromModel = "model"

// Stored reports whether events of the type are conversation. The others are control.
func (t Type) Stored() bool {
	switch t {
	case User, Think, Respond, Call, Results, Fault, Cancelled:
		return true
	case Execute, End:
	}
	return false
}

// Event is an event of the vocabulary.
type Event struct {
	Type    Type
	Content string // clean: no marker stands in it as structure
	Unit    int    // of a delta: it changes where a unit begins
	Delta   bool   // a piece of a unit's raw text, which is not stored as it is
	Partial bool
	Origin  string // FromModel or ""
	Code    string // of a Fault

	Executed, Succeeded, Failed int // of Results: the payload counts
}

// Accumulator turns the events of a decoder into the vocabulary's, in the order of the wire. It
// stores each event before it yields it, and what it stores does not depend on Deltas
// (docs/spec/cogency.md §4). Store may be nil. When Store fails, the consumer gets Fault
// "storage" and nothing after it. An Accumulator reads one reply and belongs to one goroutine.
type Accumulator struct {
	// Deltas yields texts while they grow, raw, instead of each unit at its end.
	Deltas bool
	// ResultBytes is for AppendResults.
	ResultBytes int
	Store       func(Event) error
	// Journal takes each delta before it is yielded; nil for none.
	Journal func(Event) error
	Yield   func(Event)

	text    strings.Builder
	invalid string // why the batch is invalid
	state   Waits
	broken  bool
}

// Waits is what follows a reply.
type Waits uint8

// What may follow.
const (
	WaitsForReply   Waits = iota // the reply has not ended, or had no batch
	WaitsForResults              // Answer is due
	WaitsForNothing              // the model ended its work
)

// State returns what the reply so far waits for.
func (a *Accumulator) State() Waits { return a.state }

// Take accumulates an event of the decoder.
func (a *Accumulator) Take(ev messages.Event) {
	if a.broken {
		return
	}
	switch ev.Kind {
	case messages.EventUnitBegin:
		a.text.Reset()
	case messages.EventUnitText:
		a.text.Write(ev.Text)
		if a.Deltas && ev.UnitKind != messages.TextUnit {
			d := Event{Type: typeOf(ev.UnitKind), Content: string(ev.Text), Unit: ev.Unit, Delta: true}
			if a.accepted(a.Journal, d) {
				a.Yield(d)
			}
		}
	case messages.EventUnitEnd:
		e := Event{Type: typeOf(ev.UnitKind), Content: strings.TrimFunc(a.text.String(), unicode.IsSpace), Partial: !ev.Complete}
		if ev.UnitKind == messages.TextUnit {
			e.Origin = FromModel
		}
		if a.accepted(a.Store, e) && (!a.Deltas || ev.UnitKind == messages.TextUnit) {
			a.Yield(e)
		}
	case messages.EventAction:
		a.emit(Event{Type: Call, Content: CallText(ev.Action.Name, ev.Action.Args)})
	case messages.EventParseError:
		a.invalid = ev.Fault.Detail
		a.emit(Event{Type: Fault, Code: ev.Fault.Reason, Content: ev.Fault.Detail})
	case messages.EventStop:
		switch {
		case ev.Final:
			a.state = WaitsForNothing
			a.emit(Event{Type: End})
		case a.invalid != "":
			a.state = WaitsForResults
		default:
			a.state = WaitsForResults
			a.emit(Event{Type: Execute})
		}
	}
}

// Answer takes the results of the batch, in the order of its calls. An invalid batch has one
// failure whatever the results are.
func (a *Accumulator) Answer(results []Result) {
	if a.broken || a.state != WaitsForResults {
		return
	}
	a.state = WaitsForReply
	e := Event{Type: Results, Executed: len(results)}
	for i := range results {
		if results[i].Success {
			e.Succeeded++
		}
	}
	if a.invalid != "" {
		results = []Result{Failure("", a.invalid)}
		e.Executed, e.Succeeded = 0, 0
	}
	e.Failed = e.Executed - e.Succeeded
	e.Content = string(AppendResults(nil, results, a.ResultBytes))
	a.emit(e)
}

// emit stores an event if its type is stored, and yields it.
func (a *Accumulator) emit(e Event) {
	if !e.Type.Stored() || a.accepted(a.Store, e) {
		a.Yield(e)
	}
}

func (a *Accumulator) accepted(by func(Event) error, e Event) bool {
	if a.broken {
		return false
	}
	if by == nil {
		return true
	}
	if err := by(e); err != nil {
		a.broken = true
		a.Yield(Event{Type: Fault, Code: "storage", Content: "the event could not be stored"})
		return false
	}
	return true
}

func typeOf(k messages.Kind) Type {
	switch k {
	case messages.ThoughtUnit:
		return Think
	case messages.TextUnit:
		return Results
	}
	return Respond
}

// CallText is the content of a Call: its name and arguments, a JSON object.
func CallText(name, args string) string {
	var short [64]byte
	return `{"name":` + string(appendString(short[:0], name)) + `,"args":` + args + `}`
}
