package responses

import (
	"encoding/json"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// Heard is an event of a stream that another host has written.
type Heard struct {
	Type     string    `json:"type"`
	Seq      int64     `json:"sequence_number"`
	Delta    string    `json:"delta"`    // of text
	Response *Response `json:"response"` // of events that say how the response stands
}

// Hear reads the data of an event. ok is false when the event is not one of a response, or ends one
// without saying how the response stands.
func Hear(data []byte) (h Heard, ok bool) {
	err := json.Unmarshal(data, &h)
	return h, err == nil && h.Type != "" && (h.Step() != Ended || h.Response != nil)
}

// Step is what an event is to a stream that another host goes on with.
type Step int

// The steps of a stream, in their order.
const (
	Opening Step = iota // one of the events in front of the text: always the same
	Growing             // a piece of the text
	Closing             // one that repeats the text, in front of the last one
	Ended
	Failed
)

// Step returns the step that the event is.
func (h *Heard) Step() Step {
	switch h.Type {
	case "response.output_text.delta":
		return Growing
	case "response.output_text.done", "response.content_part.done", "response.output_item.done":
		return Closing
	case "response.completed", "response.incomplete":
		return Ended
	case "response.failed":
		return Failed
	}
	return Opening
}

// Seq is the number of the next event.
func (r *Reply) Seq() int64 { return r.seq }

// Take puts the Reply behind an event that the client was sent: of a request, by another host.
func (r *Reply) Take(h *Heard) {
	if v := h.Response; v != nil && r.Created.IsZero() {
		r.ID, r.Name, r.Created, r.Session, r.Run = ParseID(v.ID), v.ID, time.Unix(v.Created, 0), v.Stile.Session, v.Stile.Run
	}
	r.seq = h.Seq + 1
	switch h.Step() {
	case Growing:
		r.text = append(r.text, h.Delta...)
	case Closing:
		r.closed++
	case Opening:
		r.opened = h.Type == "response.content_part.added"
	}
}

// Close returns the last events of a run that is not halted, from the one that ended it elsewhere: those
// that the client was not sent yet.
func (r *Reply) Close(h *Heard) []Event {
	v, was := h.Response, r.closed
	o := Outcome{Run: v.Stile.Run, Decision: v.Stile.Decision, Cut: v.Status == cutShort}
	if u := v.Usage; u != nil {
		o.Usage = messages.Usage{Input: u.Input, Output: u.Output, CacheRead: u.InputDetails.Cached, CacheWrite: u.InputDetails.CacheWrite}
	}
	if v.Completed != nil {
		o.Ended = time.Unix(*v.Completed, 0)
	}
	r.seq -= int64(was)
	return r.End(o)[was:]
}

// FailAs returns the last events of a stream that ends with the error of an event from elsewhere.
func (r *Reply) FailAs(h *Heard) []Event {
	e := failure{}
	if h.Response != nil && h.Response.Error != nil {
		e = *h.Response.Error
	}
	return r.Fail(e.Code, e.Type, e.Message)
}
