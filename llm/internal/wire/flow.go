package wire

import "strings"

// head is what of an event says to which response it belongs.
type head struct {
	Type     string `json:"type"`
	Stream   string `json:"stream_id"`
	Reply    string `json:"response_id"`
	Response struct {
		ID     string `json:"id"`
		Status string `json:"status"`
	} `json:"response"`
}

// id returns the response that the event names, "" for none.
func (h *head) id() string {
	if h.Response.ID != "" {
		return h.Response.ID
	}
	return h.Reply
}

// opens reports whether the event begins a response.
func (h *head) opens() bool {
	return h.Type == "response.created" || h.Type == "response.queued" || h.Type == "response.in_progress"
}

// ends reports whether the event ends a response.
func (h *head) ends() bool {
	switch h.Type {
	case "response.completed", "response.incomplete", "response.failed", "response.cancelled", "response.done", "error":
		return true
	}
	return false
}

// completed reports whether the event ends a response that is whole.
func (h *head) completed() bool {
	return h.Type == "response.completed" || h.Type == "response.done" && h.Response.Status == "completed"
}

// says reports whether the event has content of the reply, or may have.
func (h *head) says() bool {
	return strings.HasSuffix(h.Type, ".delta") && !strings.Contains(h.Type, "reasoning")
}

// flow says which response of a connection is under way. It is pure.
type flow struct {
	phase phase
	id    string // of the response, once known
	last  string // of the one before
	lane  string // of the request; "" is the one that has no name
}

type phase uint8

const (
	quiet    phase = iota // nothing was asked
	waiting               // a request was sent
	speaking              // its response has begun
)

// verdict is what becomes of an event.
type verdict uint8

const (
	stray  verdict = iota // it belongs to no request, or to one that is over
	passes                // it is the response's
	closes                // it is the response's last
	breaks                // the connection cannot be trusted any more
)

// ask notes that a request is sent, on a lane of the connection.
func (f *flow) ask(lane string) { f.phase, f.id, f.lane = waiting, "", lane }

// take judges an event. Events of a response come between its first and its last, and those
// between name it or nothing.
func (f *flow) take(h *head) verdict {
	id := h.id()
	switch {
	case h.Type == "":
		return breaks
	case h.Stream != "" && h.Stream != f.lane, f.phase == quiet, id != "" && id == f.last:
		return stray
	case f.phase == waiting && h.opens() && id != "":
		f.phase, f.id = speaking, id
		return passes
	case f.phase == waiting && (!h.ends() || h.Type == "response.completed" || h.Type == "response.done"):
		return stray // what completes has begun
	case f.phase == speaking && h.opens() && id != f.id:
		return breaks // two at once: what follows may be of either
	case f.phase == speaking && id != "" && id != f.id:
		return stray
	case !h.ends():
		return passes
	}
	if f.phase = quiet; f.id != "" {
		f.last = f.id
	}
	return closes
}
