package responses

import (
	"time"

	"github.com/seed14be6753/stile/messages"
)

// Reply makes a response, whole or in events, of what a run says. Its methods are not safe for
// concurrent use.
type Reply struct {
	Request *Request
	// ID names the run; of a response that is not stored it is nil, and Name is all that is
	// known of it.
	ID      *ID
	Name    string
	Session string
	Run     int64
	Created time.Time
	text    []byte
	seq     int64
	opened  bool
	closed  int // events of End that were sent, in front of the last one
}

// Event is one event of a stream: its type, and what it says.
type Event struct {
	Type string
	Data any
}

// Outcome is how a run ended.
type Outcome struct {
	Run      int64 // that took up the message
	Decision string
	Usage    messages.Usage
	// Cut reports that the model's reply reached its bound.
	Cut   bool
	Ended time.Time
}

// Response is OpenAI's object of that name, and of ours stile.
type Response struct {
	ID              string        `json:"id"`
	Object          string        `json:"object"`
	Created         int64         `json:"created_at"`
	Completed       *int64        `json:"completed_at"`
	Status          string        `json:"status"`
	Background      bool          `json:"background"`
	Error           *failure      `json:"error"`
	Incomplete      *incomplete   `json:"incomplete_details"`
	Instructions    *string       `json:"instructions"`
	MaxOutputTokens *int64        `json:"max_output_tokens"`
	Model           string        `json:"model"`
	Output          []message     `json:"output"`
	Parallel        bool          `json:"parallel_tool_calls"`
	Previous        *string       `json:"previous_response_id"`
	Conversation    *conversation `json:"conversation"`
	Store           bool          `json:"store"`
	Temperature     *float64      `json:"temperature"`
	Text            textConfig    `json:"text"`
	ToolChoice      string        `json:"tool_choice"`
	Tools           []struct{}    `json:"tools"`
	TopP            *float64      `json:"top_p"`
	Truncation      string        `json:"truncation"`
	Usage           *usage        `json:"usage"`
	Metadata        struct{}      `json:"metadata"`
	Stile           Stile         `json:"stile"`
}

// Stile names the run behind a response.
type Stile struct {
	Session  string `json:"session"`
	Run      int64  `json:"run"`
	Decision string `json:"decision,omitempty"`
}

type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Type    string `json:"type"`
}

type incomplete struct {
	Reason string `json:"reason"`
}

type conversation struct {
	ID string `json:"id"`
}

type textConfig struct {
	Format textFormat `json:"format"`
}

type textFormat struct {
	Type string `json:"type"`
}

type message struct {
	ID      string `json:"id"`
	Type    string `json:"type"`
	Status  string `json:"status"`
	Role    string `json:"role"`
	Content []part `json:"content"`
}

type part struct {
	Type        string     `json:"type"`
	Text        string     `json:"text"`
	Annotations []struct{} `json:"annotations"`
	Logprobs    []struct{} `json:"logprobs"`
}

type usage struct {
	Input         int64         `json:"input_tokens"`
	InputDetails  inputDetails  `json:"input_tokens_details"`
	Output        int64         `json:"output_tokens"`
	OutputDetails outputDetails `json:"output_tokens_details"`
	Total         int64         `json:"total_tokens"`
}

type inputDetails struct {
	Cached     int64 `json:"cached_tokens"`
	CacheWrite int64 `json:"cache_write_tokens"`
}

type outputDetails struct {
	Reasoning int64 `json:"reasoning_tokens"`
}

// The states of a response and of its message.
const (
	inProgress = "in_progress"
	completed  = "completed"
	cutShort   = "incomplete"
	failed     = "failed"
)

func (r *Reply) response(status string) Response {
	q := r.Request
	v := Response{
		ID: r.Name, Object: "response", Created: r.Created.Unix(), Status: status, Model: q.Model, Output: []message{}, Store: q.Store,
		Text: textConfig{textFormat{"text"}}, ToolChoice: "none", Tools: []struct{}{}, Truncation: "disabled", Stile: Stile{Session: r.Session, Run: r.Run},
	}
	if r.ID != nil {
		v.ID = r.ID.response()
	}
	if q.Instructions != "" {
		v.Instructions = &q.Instructions
	}
	if q.previous != "" {
		v.Previous = &q.previous
	}
	if q.Conversation != "" {
		v.Conversation = &conversation{q.Conversation}
	}
	return v
}

func (r *Reply) item() string {
	if r.ID != nil {
		return r.ID.item()
	}
	return itemPrefix + r.Name[len(responsePrefix):]
}

func (r *Reply) part() part {
	return part{Type: "output_text", Text: string(r.text), Annotations: []struct{}{}, Logprobs: []struct{}{}}
}

func (r *Reply) message(status string, parts ...part) message {
	if parts == nil {
		parts = []part{}
	}
	return message{ID: r.item(), Type: "message", Status: status, Role: "assistant", Content: parts}
}

// Whole adds a text, and gives the response of a run that has ended.
func (r *Reply) Whole(text string, o Outcome) Response {
	r.text = append(r.text, text...)
	return r.ended(&o)
}

func (r *Reply) ended(o *Outcome) Response {
	status := completed
	if o.Cut {
		status = cutShort
	}
	v := r.response(status)
	if o.Cut {
		v.Incomplete = &incomplete{"max_output_tokens"}
	} else {
		at := o.Ended.Unix()
		v.Completed = &at
	}
	v.Output = append(v.Output, r.message(status, r.part()))
	u := &o.Usage
	v.Usage = &usage{Input: u.Input, InputDetails: inputDetails{u.CacheRead, u.CacheWrite}, Output: u.Output, Total: u.Input + u.Output}
	v.Stile.Run, v.Stile.Decision = o.Run, o.Decision
	return v
}

type stateEvent struct {
	Type     string   `json:"type"`
	Seq      int64    `json:"sequence_number"`
	Response Response `json:"response"`
}

type itemEvent struct {
	Type  string  `json:"type"`
	Seq   int64   `json:"sequence_number"`
	Index int     `json:"output_index"`
	Item  message `json:"item"`
}

type partEvent struct {
	Type    string `json:"type"`
	Seq     int64  `json:"sequence_number"`
	Item    string `json:"item_id"`
	Index   int    `json:"output_index"`
	Content int    `json:"content_index"`
	Part    *part  `json:"part,omitempty"`
	// Of text: what has come, or all of it.
	Delta    *string     `json:"delta,omitempty"`
	Text     *string     `json:"text,omitempty"`
	Logprobs *[]struct{} `json:"logprobs,omitempty"`
}

func (r *Reply) next() int64 {
	r.seq++
	return r.seq - 1
}

func (r *Reply) state(kind string, v Response) Event {
	return Event{kind, stateEvent{kind, r.next(), v}}
}

func (r *Reply) ofItem(kind string, m message) Event {
	return Event{kind, itemEvent{Type: kind, Seq: r.next(), Item: m}}
}

func (r *Reply) ofPart(kind string, p *part) Event {
	return Event{kind, partEvent{Type: kind, Seq: r.next(), Item: r.item(), Part: p}}
}

func (r *Reply) ofText(kind string, delta, text *string) Event {
	return Event{kind, partEvent{Type: kind, Seq: r.next(), Item: r.item(), Delta: delta, Text: text, Logprobs: &[]struct{}{}}}
}

// Begin returns the first events of a stream.
func (r *Reply) Begin() []Event {
	return append([]Event{r.state("response.created", r.response(inProgress))}, r.InProgress())
}

// InProgress returns the second event of a stream.
func (r *Reply) InProgress() Event { return r.state("response.in_progress", r.response(inProgress)) }

// open returns the events in front of the text.
func (r *Reply) open() []Event {
	if r.opened {
		return nil
	}
	r.opened = true
	empty := r.part()
	empty.Text = ""
	return []Event{r.ofItem("response.output_item.added", r.message(inProgress)), r.ofPart("response.content_part.added", &empty)}
}

// Grow returns the events of a piece of text.
func (r *Reply) Grow(piece string) []Event {
	events := r.open()
	r.text = append(r.text, piece...)
	return append(events, r.ofText("response.output_text.delta", &piece, nil))
}

// End returns the last events of a run that is not halted.
func (r *Reply) End(o Outcome) []Event {
	events := r.open()
	v := r.ended(&o)
	text, whole := string(r.text), r.part()
	events = append(events, r.ofText("response.output_text.done", nil, &text), r.ofPart("response.content_part.done", &whole), r.ofItem("response.output_item.done", v.Output[0]))
	kind := "response.completed"
	if o.Cut {
		kind = "response.incomplete"
	}
	return append(events, r.state(kind, v))
}

// Fail returns the last events of a stream that ends with an error. Its text so far is the
// response's output. A client that has read of a failure and of no output asks again (the AI
// SDK), so that there is output, if an empty one.
func (r *Reply) Fail(code, kind, detail string) []Event {
	events := r.open()
	v := r.response(failed)
	v.Error = &failure{Code: code, Message: detail, Type: kind}
	v.Output = append(v.Output, r.message(cutShort, r.part()))
	return append(events, r.state("response.failed", v))
}
