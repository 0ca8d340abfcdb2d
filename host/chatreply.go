package host

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// chatReply makes a chat completion of a run's updates. Its content is what the user
// gets to see: responses and emissions of all turns, a blank line between responses and
// a line end around emissions.
//
// OpenAI's protocol cannot take text back. So text of a dialect that may replace its
// first answer (kitsu) is held until the turn is decided; and when a crash of the host
// cut a text that was sent already, the answer ends with an error, while the run goes on.
type chatReply struct {
	id, model, session string
	created, run       int64
	hold               bool

	shown   map[string]int // bytes sent of units
	kind    messages.Kind  // of the last text
	held    []heldText
	usage   messages.Usage
	finish  messages.Finish
	outcome *messages.RunEnd
	ended   bool
}

type heldText struct{ unit, text string }

// take gives the text that an update brings, or the problem that ends the answer.
func (c *chatReply) take(u stile.Update) (string, error) {
	if d := u.Delta; d != nil {
		return c.delta(d)
	}
	switch b := u.Record.Body.(type) {
	case *messages.UnitText:
		if b.UnitKind != messages.ResponseUnit {
			return "", nil
		}
		if c.hold {
			c.held = append(c.held, heldText{b.Unit, b.Text})
			return "", nil
		}
		return c.rest(b.Unit, b.Text), nil
	case *messages.Emit:
		if b.Candidate || b.Held {
			return "", nil
		}
		return c.begin(messages.KindEmit) + b.Text, nil
	case *messages.Retract:
		return "", c.retract(b.Unit, int(b.Off))
	case *messages.TurnDecided:
		return c.decided(b), nil
	case *messages.ModelReply:
		c.usage.Input += b.Usage.Input
		c.usage.Output += b.Usage.Output
		c.usage.CacheRead += b.Usage.CacheRead
		c.finish = b.Finish
	case *messages.TurnSuspended:
		p := refusal(http.StatusConflict, messages.ErrApproval, "", "a call waits for approval; the run goes on when somebody has answered")
		p.halt = true
		return "", p
	case *messages.RunEnd:
		c.outcome, c.ended = b, true
		if b.Decision == messages.Halt {
			p := problemOf(&messages.Error{Code: b.Reason, Detail: b.Detail})
			p.halt = true
			return "", p
		}
	}
	return "", nil
}

func (c *chatReply) delta(d *messages.Delta) (string, error) {
	switch {
	case d.Kind != messages.ResponseUnit || c.hold:
		return "", nil
	case d.Retract:
		return "", c.retract(d.Unit.String(), int(d.Off))
	}
	unit := d.Unit.String()
	before := ""
	if c.shown[unit] == 0 {
		before = c.begin(messages.KindResponse)
	}
	c.shown[unit] = int(d.Off)
	return before + d.Text, nil
}

// rest is what was not sent of a unit.
func (c *chatReply) rest(unit, text string) string {
	sent := c.shown[unit]
	if sent >= len(text) {
		return ""
	}
	c.shown[unit] = len(text)
	if sent > 0 {
		return text[sent:]
	}
	return c.begin(messages.KindResponse) + text
}

// begin is what separates a text from the one before.
func (c *chatReply) begin(kind messages.Kind) string {
	before := c.kind
	c.kind = kind
	switch {
	case before == "":
		return ""
	case before == messages.KindResponse && kind == messages.KindResponse:
		return "\n\n"
	}
	return "\n"
}

func (c *chatReply) retract(unit string, off int) error {
	if c.shown[unit] > off {
		p := refusal(http.StatusInternalServerError, messages.ErrCrash, "", "text that was sent has been taken back; the run goes on, and its session has the text that counts")
		p.halt = true
		return p
	}
	for i := range c.held {
		if h := &c.held[i]; h.unit == unit && off < len(h.text) {
			h.text = h.text[:off]
		}
	}
	return nil
}

// decided lets go of held text that nothing will replace any more.
func (c *chatReply) decided(b *messages.TurnDecided) (text string) {
	if b.Decision == messages.Continue && len(b.Retract) > 0 {
		return "" // the next turn takes it back, or ends without a text of its own
	}
	for _, h := range c.held {
		if h.text != "" {
			text += c.rest(h.unit, h.text)
		}
	}
	c.held = nil
	return text
}

func (c *chatReply) reason() string {
	if c.finish == messages.FinishLength {
		return "length"
	}
	return "stop"
}

type chatUsage struct {
	Prompt     int64             `json:"prompt_tokens"`
	Completion int64             `json:"completion_tokens"`
	Total      int64             `json:"total_tokens"`
	Details    chatPromptDetails `json:"prompt_tokens_details"`
}

type chatPromptDetails struct {
	Cached int64 `json:"cached_tokens"`
}

func (c *chatReply) used() *chatUsage {
	return &chatUsage{c.usage.Input, c.usage.Output, c.usage.Input + c.usage.Output, chatPromptDetails{c.usage.CacheRead}}
}

// chatRun names, beside OpenAI's members, the run behind an answer.
type chatRun struct {
	Session  string `json:"session"`
	Run      int64  `json:"run"`
	Decision string `json:"decision,omitempty"`
}

func (c *chatReply) of() chatRun {
	r := chatRun{Session: c.session, Run: c.run}
	if c.outcome != nil {
		r.Decision = string(c.outcome.Decision)
	}
	return r
}

type chatCompletion struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []chatChoice `json:"choices"`
	Usage   *chatUsage   `json:"usage,omitempty"`
	Stile   chatRun      `json:"stile"`
}

type chatChoice struct {
	Index    int       `json:"index"`
	Message  *chatText `json:"message,omitempty"`
	Delta    *chatText `json:"delta,omitempty"`
	Logprobs *struct{} `json:"logprobs"`
	Finish   *string   `json:"finish_reason"`
}

type chatText struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
	Refusal *string `json:"refusal,omitempty"`
}

func (c *chatReply) completion(text string) chatCompletion {
	reason := c.reason()
	return chatCompletion{
		ID: c.id, Object: "chat.completion", Created: c.created, Model: c.model, Usage: c.used(), Stile: c.of(),
		Choices: []chatChoice{{Message: &chatText{Role: "assistant", Content: &text}, Finish: &reason}},
	}
}

func (c *chatReply) chunk(choices ...chatChoice) *chatCompletion {
	if choices == nil {
		choices = []chatChoice{}
	}
	return &chatCompletion{ID: c.id, Object: "chat.completion.chunk", Created: c.created, Model: c.model, Choices: choices, Stile: c.of()}
}

// streamChat sends chunks as the text grows. A HALT ends the stream with an error
// object, never with a normal stop.
func (s *Server) streamChat(w http.ResponseWriter, r *http.Request, run *stile.Run, c *chatReply, usage bool) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.leaving, cancel)()
	out := newEventWriter(w, cancel)
	defer out.stop()
	send := func(v any) {
		if b, err := json.Marshal(v); err == nil { // numbers and strings: it does not fail
			out.event("", "", b)
		}
	}
	fail := func(err error) {
		p := problemOf(err)
		if s.leaving.Err() != nil && lost(ctx) == nil && !p.halt {
			p = leavingChat()
		}
		send(chatErrorOf(p))
	}
	out.start(": open\n\n")
	empty := ""
	send(c.chunk(chatChoice{Delta: &chatText{Role: "assistant", Content: &empty}}))
	for u, err := range run.Events(ctx) {
		no := lost(ctx)
		if no != nil {
			err = no
		}
		var piece string
		if err == nil {
			piece, err = c.take(u)
		}
		if piece != "" {
			send(c.chunk(chatChoice{Delta: &chatText{Content: &piece}}))
		}
		switch {
		case err != nil:
			if no != nil || r.Context().Err() == nil {
				fail(err)
			}
			return
		case c.ended:
			reason := c.reason()
			send(c.chunk(chatChoice{Delta: &chatText{}, Finish: &reason}))
			if usage {
				last := c.chunk()
				last.Usage = c.used()
				send(last)
			}
			out.event("", "", []byte("[DONE]"))
			return
		}
		if out.failed() {
			return
		}
	}
}
