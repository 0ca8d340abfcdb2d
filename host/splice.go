package host

import (
	"bytes"
	"encoding/json"

	"github.com/seed14be6753/stile/host/internal/forward"
	"github.com/seed14be6753/stile/host/internal/responses"
	said "github.com/seed14be6753/stile/internal/answer"
)

// When the host goes away that answers a client of OpenAI, its request is made again under its
// idempotency key: the run's next owner says all of the answer, from the beginning. A splice passes on
// what the client was not sent yet, in the same words. Those protocols cannot take text back: where the
// run's text is not the one that was sent, the stream ends with the error that says so.

// splice is the stream of an answer over the hosts that write it.
type splice struct {
	body  []byte // of the request
	text  forward.Text
	later bool // a host writes that is not the first one
	over  bool // the last event was sent
	alone bool // no other client knows of the session

	// Of a chat completion.
	first    chatCompletion // what was sent first, without its choices
	opened   bool           // that was sent
	finished bool           // so was the reason why it ended
	counted  bool           // and the usage

	reply *responses.Reply // of a response; nil of a chat completion
}

// isAnswer reports whether a route answers clients of OpenAI with what a run says.
func isAnswer(pattern string) bool { return pattern == chatPattern || pattern == responsesPattern }

func newSplice(pattern string, body []byte) *splice {
	s := &splice{body: body}
	if pattern == responsesPattern {
		s.reply = &responses.Reply{}
	}
	return s
}

// again says that another host writes from now on.
func (s *splice) again() {
	s.later = true
	s.text.Again()
}

// edit returns what the client is sent of events that a host has written.
func (s *splice) edit(whole []byte) []byte {
	var out []byte
	for event := range bytes.SplitAfterSeq(whole, []byte("\n\n")) {
		if len(event) == 0 || s.over {
			continue
		}
		_, data, some := bytes.Cut(event, []byte("data: "))
		data = bytes.TrimSpace(data)
		switch {
		case !some && !s.later, !some && event[0] == ':' && !bytes.HasPrefix(event, []byte(": open")):
			out = append(out, event...) // a heartbeat
		case !some:
		case s.reply != nil:
			out = append(out, s.response(event, data)...)
		default:
			out = append(out, s.chat(event, data)...)
		}
	}
	return out
}

// chat returns what the client is sent of an event of a chat completion.
func (s *splice) chat(event, data []byte) []byte {
	var c chatCompletion
	if json.Unmarshal(data, &c) != nil || c.Object == "" { // [DONE], or an error
		s.over = true
		return event
	}
	var delta chatText
	if len(c.Choices) > 0 && c.Choices[0].Delta != nil {
		delta = *c.Choices[0].Delta
	}
	var sent *bool
	switch {
	case delta.Role != "":
		sent = &s.opened
		if !s.opened {
			s.first = c
		}
	case delta.Content != nil && !s.later:
		s.text.Add(*delta.Content)
		return event
	case delta.Content != nil:
		rest, same := s.text.Behind(*delta.Content)
		switch {
		case !same:
			return s.takenBack()
		case rest == "":
			return nil
		}
		c.Choices[0].Delta.Content = &rest
	case !s.text.Whole():
		return s.takenBack()
	case len(c.Choices) > 0:
		sent = &s.finished
	default:
		sent = &s.counted
	}
	if sent != nil && *sent {
		return nil
	}
	if sent != nil {
		*sent = true
	}
	if !s.later {
		return event
	}
	c.ID, c.Created = s.first.ID, s.first.Created
	return frameOf("", c)
}

// response returns what the client is sent of an event of a response.
func (s *splice) response(event, data []byte) []byte {
	h, ok := responses.Hear(data)
	if !ok {
		return event
	}
	step := h.Step()
	s.over = step == responses.Ended || step == responses.Failed
	if !s.later {
		if step == responses.Growing {
			s.text.Add(h.Delta)
		}
		s.reply.Take(&h)
		return event
	}
	switch step {
	case responses.Opening:
		switch {
		case h.Seq != s.reply.Seq():
			return nil
		case h.Seq > 0 && h.Response != nil: // it says when the response was begun
			e := s.replies().InProgress()
			return frameOf(e.Type, e.Data)
		}
		s.reply.Take(&h)
		return event
	case responses.Growing:
		rest, same := s.text.Behind(h.Delta)
		switch {
		case !same:
			return s.takenBack()
		case rest == "":
			return nil
		}
		return framesOf(s.replies().Grow(rest))
	case responses.Ended:
		if !s.text.Whole() {
			return s.takenBack()
		}
		return framesOf(s.replies().Close(&h))
	case responses.Failed:
		return framesOf(s.replies().FailAs(&h))
	case responses.Closing: // Close repeats the text
	}
	return nil
}

// takenBack ends the stream: the run's text is not the one that was sent.
func (s *splice) takenBack() []byte {
	e := said.TakenBack()
	if s.alone { // the run ends with the client
		e.Detail = "text that was sent has been taken back, since the host that wrote it has gone; ask again"
	}
	p := problemOf(e)
	p.halt = true
	return s.fail(p)
}

// fail ends the stream with an error.
func (s *splice) fail(p *problem) []byte { return s.end(chatErrorOf(p)) }

// refused ends the stream with the answer of a host that does not go on with it.
func (s *splice) refused(body []byte) []byte {
	var e chatError
	if json.Unmarshal(body, &e) != nil || e.Error.Code == "" {
		return s.fail(make500())
	}
	return s.end(e)
}

func (s *splice) end(e chatError) []byte {
	s.over = true
	switch {
	case s.reply == nil:
		return frameOf("", e)
	case s.reply.Seq() == 0: // the client knows of no response
		return nil
	}
	return framesOf(s.replies().Fail(e.Error.Code, e.Error.Type, e.Error.Message))
}

// replies is the response as it goes on here.
func (s *splice) replies() *responses.Reply {
	if s.reply.Request == nil {
		if s.reply.Request, _ = responses.Parse(s.body); s.reply.Request == nil { // another host has read it
			s.reply.Request = &responses.Request{}
		}
	}
	return s.reply
}

func frameOf(name string, v any) []byte {
	b, err := json.Marshal(v)
	if err != nil { // numbers and strings: it does not fail
		return nil
	}
	var out bytes.Buffer
	appendEvent(&out, name, "", b)
	return out.Bytes()
}

func framesOf(events []responses.Event) (out []byte) {
	for _, e := range events {
		out = append(out, frameOf(e.Type, e.Data)...)
	}
	return out
}
