package native

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/messages"
)

// The dialects that calls can be written in.
const (
	Cogency = "cogency"
	Cortex  = "cortex"
)

// Speaks reports whether calls can be written in a dialect.
func Speaks(dialect string) bool { return dialect == Cogency || dialect == Cortex }

// Call is a call in the provider's own form.
type Call struct {
	ID     string `json:"id,omitzero"`  // the provider's
	Name   string `json:"name"`         // of the function
	Args   string `json:"args"`         // as the provider sent them, mostly a JSON object
	Sig    string `json:"sig,omitzero"` // signature of the thought behind it
	Action string `json:"action"`       // id of the action in the reply
}

// Side is what the bytes of a reply cannot hold.
type Side struct {
	Provider string `json:"provider"` // whose ids, signatures and items they are
	Calls    []Call `json:"calls"`
	// Cuts are the parts of the reply that calls were written to, as begin and end.
	Cuts [][2]int `json:"cuts"`
	// Items are further parts of the reply that the provider wants back, such as
	// thoughts with their signatures, in its own JSON.
	Items []jsontext.Value `json:"items,omitzero"`
}

// Writer makes one reply's bytes. It belongs to one goroutine.
//
// Texts pass at once. Calls are written in the order of their indexes: in cortex each as
// soon as it and those before it are whole, in cogency, where none starts before the last
// is there, as one batch at the end.
type Writer struct {
	dialect string
	tools   *Functions
	out     []byte
	at      int // bytes that were taken
	calls   []*pending
	written int // of calls, in cortex
	held    int // bytes of arguments that were not written
	items   []jsontext.Value
	cuts    [][2]int
	cut     bool // the reply was, behind its last call
}

// pending is a call that may still grow.
type pending struct {
	Call
	index int64
	args  []byte
	whole bool
	none  bool // the provider sent no arguments
}

// NewWriter makes a Writer for a dialect that Speaks.
func NewWriter(dialect string, tools *Functions) *Writer {
	return &Writer{dialect: dialect, tools: tools}
}

// Text adds text of the model.
func (w *Writer) Text(text []byte) { w.out = append(w.out, text...) }

// Begin opens the call of an index, or adds what was not said yet of one that is open.
func (w *Writer) Begin(index int64, id, name string) {
	c := w.call(index)
	if c.ID == "" {
		c.ID = id
	}
	if c.Name == "" {
		c.Name = name
	}
}

// Args adds to the arguments of a call.
func (w *Writer) Args(index int64, piece []byte) {
	c := w.call(index)
	c.args, w.held = append(c.args, piece...), w.held+len(piece)
}

// Sign adds the signature of the thought behind a call.
func (w *Writer) Sign(index int64, sig string) { w.call(index).Sig = sig }

// End reports whether a call is whole.
func (w *Writer) End(index int64) {
	w.call(index).whole = true
	w.flow(false)
}

// Item keeps a part of the reply that the provider wants back.
func (w *Writer) Item(item jsontext.Value) { w.items = append(w.items, item.Clone()) }

// Called reports whether there is a call.
func (w *Writer) Called() bool { return len(w.calls) > 0 }

// Held is how many bytes of arguments wait to be written.
func (w *Writer) Held() int { return w.held }

// call finds the call of an index. Its place is that of its index: indexes may have gaps,
// and may come in any order.
func (w *Writer) call(index int64) *pending {
	at, found := slices.BinarySearchFunc(w.calls, index, func(c *pending, index int64) int {
		switch {
		case c.index < index:
			return -1
		case c.index > index:
			return 1
		}
		return 0
	})
	if !found {
		at = max(at, w.written) // what is written stays where it is
		for _, c := range w.calls[w.written:at] {
			// A provider that does not say where a call ends begins the next one behind it.
			c.whole = c.whole || valid(c.args)
		}
		w.calls = slices.Insert(w.calls, at, &pending{index: index})
	}
	return w.calls[at]
}

// flow writes the calls that are due.
func (w *Writer) flow(all bool) {
	switch {
	case w.dialect == Cortex:
		for ; w.written < len(w.calls) && (all || w.calls[w.written].whole); w.written++ {
			w.action(w.written)
		}
	case all && w.written < len(w.calls):
		w.batch()
	}
}

// Take returns the bytes since the last time.
func (w *Writer) Take() []byte {
	w.flow(false)
	if w.at == len(w.out) {
		return nil
	}
	out := slices.Clone(w.out[w.at:])
	w.at = len(w.out)
	return out
}

// Finish ends the reply. One that came to its end has every call whole. Of one that was cut,
// by its length or a failure, what is not written yet stays open as text would: a batch
// without its closer, and a call without the end of its arguments. So nothing of it runs,
// and the decoder says why.
func (w *Writer) Finish(finish messages.Finish) {
	w.cut = finish != messages.FinishComplete && finish != messages.FinishStop
	w.flow(true)
}

// Side is what the bytes cannot hold, as JSON; nil when there is no call.
func (w *Writer) Side(provider string) []byte {
	if len(w.calls) == 0 {
		return nil
	}
	s := Side{Provider: provider, Cuts: w.cuts, Items: w.items}
	for _, c := range w.calls {
		s.Calls = append(s.Calls, c.Call)
	}
	b, err := json.Marshal(&s, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil // an item that is no JSON: the turn goes back as text
	}
	return b
}

// settle gives a call its id and what is to be told of its arguments.
func (c *pending) settle(action string) {
	c.Action = action
	c.Args = string(c.args)
	if c.none = strings.TrimSpace(c.Args) == ""; c.none {
		c.Args = "{}"
	}
	c.args = nil
}

// arguments returns those of a call as JSON. Invalid JSON becomes a string, so that no byte of it
// can end the text around it, and the decoder reports the mistake. The string of a call that was
// cut is left open.
func (c *pending) arguments(cut bool) (text string, open bool) {
	if valid([]byte(c.Args)) && !(cut && c.none) {
		return strings.TrimSpace(c.Args), false
	}
	text = quoted(c.Args)
	if cut {
		return strings.TrimSuffix(text, `"`), true
	}
	return text, false
}

// cutShort reports whether a call is the one in which the reply was cut.
func (w *Writer) cutShort(i int) bool { return w.cut && i == len(w.calls)-1 && !w.calls[i].whole }

// valid tells JSON. A name that is there twice is the decoder's to settle.
func valid(args []byte) bool { return jsontext.Value(args).IsValid(jsontext.AllowDuplicateNames(true)) }

func quoted(s string) string {
	b, _ := jsontext.AppendQuote(nil, strings.ToValidUTF8(s, "\ufffd")) // fails on invalid UTF-8 alone
	return string(b)
}

// batch writes all calls of a reply in cogency.
func (w *Writer) batch() {
	begin := w.line()
	w.out = append(w.out, "<execute>["...)
	for i, c := range w.calls {
		c.settle("#" + strconv.Itoa(i+1))
		if i > 0 {
			w.out = append(w.out, ',')
		}
		name, _ := w.tools.tool(c.Name)
		args, open := c.arguments(w.cutShort(i))
		w.out = append(w.out, `{"name":`+quoted(name)+`,"args":`+args...)
		if !open {
			w.out = append(w.out, '}')
		}
	}
	if !w.cut {
		w.out = append(w.out, "]</execute>"...)
	}
	w.written, w.held = len(w.calls), 0
	w.cuts = append(w.cuts, [2]int{begin, len(w.out)})
}

// action writes a call in cortex. "<" in JSON is in strings alone, where its escape means
// the same and ends no element.
func (w *Writer) action(i int) {
	begin := w.line()
	c := w.calls[i]
	w.held -= len(c.args)
	c.settle("n" + strconv.Itoa(i+1))
	name, typ := w.tools.tool(c.Name)
	w.out = append(w.out, `<action id="`+c.Action+`" mode="async"`...)
	if typ != "" && typ != messages.TypeTool {
		w.out = append(w.out, ` type="`+string(typ)+`"`...)
	}
	args, open := c.arguments(w.cutShort(i))
	w.out = append(w.out, ">"+strings.ReplaceAll(`{"name":`+quoted(name)+`,"parameters":`+args, "<", `\u003c`)...)
	if !open {
		w.out = append(w.out, "}</action>\n"...)
	}
	w.cuts = append(w.cuts, [2]int{begin, len(w.out)})
}

// line begins a new one, and gives where the call begins.
func (w *Writer) line() int {
	begin := len(w.out)
	if begin > 0 && w.out[begin-1] != '\n' {
		w.out = append(w.out, '\n')
	}
	return begin
}
