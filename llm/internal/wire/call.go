package wire

import (
	"github.com/go-json-experiment/json"

	"github.com/seed14be6753/stile/internal/native"
	"github.com/seed14be6753/stile/llm"
)

// writes prepares a reply for the calls that a request allows.
func (r *Reply) writes(req *llm.Request) {
	if len(req.Tools) > 0 && native.Speaks(req.Dialect) {
		r.calls = native.NewWriter(req.Dialect, native.NewFunctions(req.Tools))
		r.args = map[int64]*text{}
	}
}

// Call begins a call of a function, with the provider's id and the name, as far as they are
// known. A call is ignored if the request offered no functions.
func (r *Reply) Call(index int64, id, name string) {
	if r.calls == nil {
		r.stray = true
		return
	}
	r.say()
	r.calls.Begin(index, id, name)
}

// CallArgs adds a JSON string literal whose content is a piece of a call's arguments.
func (r *Reply) CallArgs(index int64, lit Raw) error {
	if r.calls == nil || len(lit) == 0 || string(lit) == "null" {
		return nil
	}
	t := r.args[index]
	if t == nil {
		t = &text{}
		r.args[index] = t
	}
	if !t.add(lit) {
		return errNoString
	}
	r.calls.Args(index, t.take())
	return nil
}

// CallObject sets a call's arguments.
func (r *Reply) CallObject(index int64, object Raw) {
	if r.calls != nil && len(object) > 0 && string(object) != "null" {
		r.calls.Args(index, object)
	}
}

// CallSign sets the signature of the thought before a call.
func (r *Reply) CallSign(index int64, signature string) {
	if r.calls != nil && signature != "" {
		r.calls.Sign(index, signature)
	}
}

// CallEnd ends a call.
func (r *Reply) CallEnd(index int64) {
	if r.calls != nil {
		r.say()
		r.calls.End(index)
	}
}

// Keep keeps a part of the reply to be sent back with its calls: a thought with its signature.
func (r *Reply) Keep(item Raw) {
	if r.calls != nil {
		r.calls.Item(item)
	}
}

// say passes the text so far to the writer of calls, because calls follow the text before
// them.
func (r *Reply) say() { r.calls.Text(r.text.take()) }

// take returns the text that has come since the last take.
func (r *Reply) take() []byte {
	if r.calls == nil {
		return r.text.take()
	}
	r.say()
	return r.calls.Take()
}

// rest returns the rest of the text at the end of a reply, and the parts of calls that text
// cannot hold.
func (r *Reply) rest(provider string) (out, side []byte) {
	r.text.flush()
	if r.calls == nil {
		return r.text.take(), nil
	}
	r.say()
	r.calls.Finish(r.finish)
	return r.calls.Take(), r.calls.Side(provider)
}

// source names the provider and model that a reply's ids and signatures belong to.
func (m *Model) source(req *llm.Request) string {
	if t := m.cfg.Tuning; t != nil {
		return t.named.Vendor + "/" + req.Model
	}
	return req.Provider + "/" + req.Model
}

// CallsTools reports whether tools of a request are sent as functions.
func (m *Model) CallsTools() bool { return true }

// PartsTaker is an optional interface of a Vendor.
type PartsTaker interface{ TakesPart(mediaType string) bool }

// TakesPart reports whether the vendor is sent parts of a type.
func (m *Model) TakesPart(mediaType string) bool {
	t, ok := m.cfg.Vendor.(PartsTaker)
	return ok && t.TakesPart(mediaType)
}

// Picture reports whether a media type is one of the pictures that most vendors take.
func Picture(mediaType string) bool {
	switch mediaType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return true
	}
	return false
}

// Object parses a JSON object for an SDK.
func Object(text string) (map[string]any, error) {
	var o map[string]any
	err := json.Unmarshal([]byte(text), &o)
	return o, err
}
