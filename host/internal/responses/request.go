// Package responses translates OpenAI's Responses API: requests to what an agent is asked, and
// what its run says to responses and their events.
//
// Invariants:
//   - a request is read whole or refused with the place of the mistake; what only tunes a model
//     is passed over and named;
//   - the events of a Reply, in their order, add up to its response;
//   - an id of a response or an item names one run of one incarnation, or nothing.
//
// It reads no journal, serves nothing, and knows no session by name: that is the host's.
package responses

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/seed14be6753/stile/messages"
)

// MaxItems bounds the items of one request.
const MaxItems = 4096

// Item is one message of a request's input: a text, or the id of an earlier answer.
type Item struct {
	messages.Said
	Ref *ID

	parts []Part // of the last one
}

// Request is what a request asks.
type Request struct {
	Model        string
	Instructions string
	// Text is the message, the last item of the input; Before are those in front of it.
	Text   string
	Parts  []Part // of the message
	Before []Item
	Stream bool
	// Store says that the response may be gone on with.
	Store bool
	// Previous is the response that the request goes on with; nil for none.
	Previous *ID
	// Conversation names a session; "" for none.
	Conversation string
	// Over are the members that are passed over, sorted.
	Over []string

	previous string // as the client wrote it
}

// ID names the answer of a run.
type ID struct {
	Inc messages.Incarnation
	Run int64
	// Told is a digest of the instructions that the model was given last; "" for none. Items
	// have none.
	Told string
}

// The prefixes of ids.
const (
	responsePrefix = "resp_"
	itemPrefix     = "msg_"
)

func (id *ID) response() string { return id.with(responsePrefix) }

func (id *ID) item() string { return (&ID{Inc: id.Inc, Run: id.Run}).with(itemPrefix) }

func (id *ID) with(prefix string) string {
	text := prefix + hex.EncodeToString(id.Inc[:]) + "_" + strconv.FormatInt(id.Run, 10)
	if id.Told != "" {
		text += "_" + id.Told
	}
	return text
}

// ParseID reads the id of a response; nil is an id that no response has.
func ParseID(text string) *ID { return parseID(responsePrefix, text) }

func parseID(prefix, text string) *ID {
	rest, ok := strings.CutPrefix(text, prefix)
	parts := strings.Split(rest, "_")
	if !ok || len(parts) < 2 || len(parts) > 3 {
		return nil
	}
	inc, err := hex.DecodeString(parts[0])
	run, rerr := strconv.ParseInt(parts[1], 10, 64)
	if err != nil || rerr != nil || len(inc) != len(uuid.UUID{}) || run < 1 {
		return nil
	}
	id := &ID{Inc: messages.Incarnation(inc), Run: run}
	if len(parts) == 3 {
		id.Told = parts[2]
	}
	if id.with(prefix) != text || len(id.Told) > toldBytes {
		return nil
	}
	return id
}

const toldBytes = 8

// Told is the digest of instructions in an ID.
func Told(instructions string) string {
	if instructions == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(instructions))
	return hex.EncodeToString(sum[:])[:toldBytes]
}

// served are the members of a request that have a meaning here.
var served = []string{"model", "input", "instructions", "stream", "store", "previous_response_id", "conversation", "tools", "tool_choice", "text", "background", "prompt"}

type body struct {
	Model        string          `json:"model"`
	Input        json.RawMessage `json:"input"`
	Instructions string          `json:"instructions"`
	Stream       bool            `json:"stream"`
	Store        *bool           `json:"store"`
	Previous     string          `json:"previous_response_id"`
	Conversation json.RawMessage `json:"conversation"`
	Tools        json.RawMessage `json:"tools"`
	ToolChoice   json.RawMessage `json:"tool_choice"`
	Text         struct {
		Format struct {
			Type string `json:"type"`
		} `json:"format"`
	} `json:"text"`
	Background bool            `json:"background"`
	Prompt     json.RawMessage `json:"prompt"`
}

func refused(field, detail string) error {
	return &messages.Error{Code: messages.ErrInvalid, Field: field, Detail: detail}
}

// given reports whether a member is there and says something.
func given(raw json.RawMessage) bool {
	switch string(bytes.TrimSpace(raw)) {
	case "", "null", "[]", "{}":
		return false
	}
	return true
}

// Parse reads the body of a request. Errors are ERR_INVALID with the member, and ERR_NOT_FOUND
// for an id that no response has.
func Parse(data []byte) (*Request, error) {
	var b body
	if err := decode(data, &b); err != nil {
		return nil, err
	}
	var all map[string]json.RawMessage
	if err := decode(data, &all); err != nil {
		return nil, err
	}
	q := &Request{Model: b.Model, Instructions: b.Instructions, Stream: b.Stream, Store: b.Store == nil || *b.Store, previous: b.Previous, Over: over(all)}
	if given(b.Tools) {
		if choice := string(bytes.TrimSpace(b.ToolChoice)); choice != `"none"` {
			return nil, refused("tools", `an agent has its own tools: those of the client are refused, unless tool_choice is "none"`)
		}
		q.Over = append(q.Over, "tools")
		slices.Sort(q.Over)
	}
	switch {
	case b.Background:
		return nil, refused("background", "a response is not made in the background")
	case given(b.Prompt):
		return nil, refused("prompt", "there are no templates of prompts: the agent has its instructions")
	case b.Text.Format.Type != "" && b.Text.Format.Type != "text":
		return nil, refused("text.format", "an agent answers with text")
	case b.Previous != "" && given(b.Conversation):
		return nil, refused("previous_response_id", "give a conversation or the response before, not both")
	}
	if b.Previous != "" {
		if q.Previous = ParseID(b.Previous); q.Previous == nil {
			return nil, NoResponse(b.Previous)
		}
	}
	if given(b.Conversation) {
		if err := q.conversation(b.Conversation); err != nil {
			return nil, err
		}
	}
	return q, q.input(b.Input)
}

// NoResponse is the refusal of an id that there is no response of, or none any more.
func NoResponse(id string) error {
	return &messages.Error{Code: messages.ErrNotFound, Field: "previous_response_id", Detail: "there is no response " + strings.ToValidUTF8(id[:min(len(id), 100)], "?") + ": it has expired, was not stored, or never was"}
}

// PreviousText is the id of the response before as the client wrote it.
func (q *Request) PreviousText() string { return q.previous }

func decode(data []byte, into any) error {
	err := json.Unmarshal(data, into)
	if err == nil {
		return nil
	}
	e := &messages.Error{Code: messages.ErrInvalid, Field: "body", Detail: "the body is no request for a response"}
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		e.Detail, e.Offset, e.HasOffset = "the body is no JSON: at byte "+strconv.FormatInt(syntax.Offset, 10), syntax.Offset, true
	}
	if typed := (*json.UnmarshalTypeError)(nil); errors.As(err, &typed) {
		if typed.Field != "" {
			e.Field = typed.Field
		}
		e.Detail = "a " + typed.Value + " does not fit there"
	}
	return e
}

// maxOver bounds the names of members that are passed over.
const maxOver = 32

// over names the members that say something and have no meaning here.
func over(all map[string]json.RawMessage) (names []string) {
	for name, raw := range all {
		if given(raw) && !slices.Contains(served, name) && isName(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names[:min(len(names), maxOver)]
}

// isName reports whether a name can stand in a header.
func isName(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

func (q *Request) conversation(raw json.RawMessage) error {
	if json.Unmarshal(raw, &q.Conversation) == nil {
		return nil
	}
	var c struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(raw, &c); err != nil || c.ID == "" {
		return refused("conversation", "want the id of a session, or an object with it")
	}
	q.Conversation = c.ID
	return nil
}

// item is a member of the input as it comes.
type item struct {
	Type    string          `json:"type"`
	Role    string          `json:"role"`
	ID      string          `json:"id"`
	Content json.RawMessage `json:"content"`
}

func (q *Request) input(raw json.RawMessage) error {
	var text string
	if !given(raw) {
		return refused("input", "there is none")
	}
	if json.Unmarshal(raw, &text) == nil {
		q.Text = text
		if text == "" {
			return refused("input", "the text is empty")
		}
		return nil
	}
	var items []item
	if err := json.Unmarshal(raw, &items); err != nil {
		return refused("input", "want a text, or a list of items")
	}
	if len(items) > MaxItems {
		return refused("input", "there are more than "+strconv.Itoa(MaxItems)+" items")
	}
	var all []Item
	for i := range items {
		last := i == len(items)-1
		one, err := items[i].read("input["+strconv.Itoa(i)+"]", last)
		if err != nil {
			return err
		}
		if one != nil {
			all = append(all, *one)
		}
	}
	if len(all) == 0 {
		return refused("input", "there is no message")
	}
	last := &all[len(all)-1]
	if last.Ref != nil || last.Role != messages.RoleUser || items[len(items)-1].Role != "user" {
		return refused("input["+strconv.Itoa(len(items)-1)+"]", "the last item is the user's message")
	}
	if q.Text, q.Parts = last.Text, last.parts; len(all) > 1 {
		q.Before = all[:len(all)-1]
	}
	return nil
}

// read returns what an item says; nil is one that says nothing to an agent.
func (it *item) read(at string, last bool) (*Item, error) {
	switch it.Type {
	case "", "message":
	case "item_reference":
		ref := parseID(itemPrefix, it.ID)
		if ref == nil || ref.Told != "" {
			return nil, &messages.Error{Code: messages.ErrNotFound, Field: at + ".id", Detail: "there is no such item: it has expired, was not stored, or never was"}
		}
		return &Item{Ref: ref}, nil
	case "reasoning":
		return nil, nil
	default:
		return nil, refused(at+".type", "messages are taken; an agent has its own tools, and those of the client are refused")
	}
	role := messages.RoleUser
	switch it.Role {
	case "assistant":
		role = messages.RoleAssistant
	case "user", "system", "developer": // instructions of a client are no more than a user's word
	default:
		return nil, refused(at+".role", "want user, assistant, system or developer")
	}
	text, parts, err := content(it.Content, at+".content", last)
	if err != nil {
		return nil, err
	}
	if text == "" {
		if last {
			return nil, refused(at+".content", "the text is empty")
		}
		return nil, nil
	}
	return &Item{Said: messages.Said{Role: role, Text: text}, parts: parts}, nil
}

// leftOut stands in an earlier message for what is no text.
const leftOut = "[not shown: "

// Part is a picture or a file of the last message.
type Part struct {
	At   string // the field of its address
	Name string
	URI  string // its address
}

// content reads a message. In an earlier one a picture, file or sound is left out.
func content(raw json.RawMessage, at string, last bool) (string, []Part, error) {
	var text string
	if !given(raw) {
		return "", nil, nil
	}
	if json.Unmarshal(raw, &text) == nil {
		return text, nil, nil
	}
	var parts []contentPart
	if err := json.Unmarshal(raw, &parts); err != nil {
		return "", nil, refused(at, "want a text, or a list of parts")
	}
	var all strings.Builder
	var sent []Part
	texts := 0
	for i, p := range parts {
		here := at + "[" + strconv.Itoa(i) + "]"
		piece := p.Text + p.Refusal
		switch p.Type {
		case "input_text", "output_text", "text", "refusal":
		case "input_image", "input_file", "input_audio":
			if last {
				one, err := p.sent(here)
				if err != nil {
					return "", nil, err
				}
				sent = append(sent, one)
				continue
			}
			piece = leftOut + strings.TrimPrefix(p.Type, "input_") + "]"
		default:
			return "", nil, refused(here+".type", "text, pictures and files are taken")
		}
		if texts++; texts > 1 {
			all.WriteByte('\n')
		}
		all.WriteString(piece)
	}
	return all.String(), sent, nil
}

type contentPart struct {
	Type    string `json:"type"`
	Text    string `json:"text"`
	Refusal string `json:"refusal"`
	Image   string `json:"image_url"`
	Name    string `json:"filename"`
	Data    string `json:"file_data"`
}

// sent is a part of the last message that is no text.
func (p *contentPart) sent(at string) (Part, error) {
	switch {
	case p.Type == "input_audio":
		return Part{}, refused(at+".type", "text, pictures and files are taken")
	case p.Type == "input_image" && p.Image != "":
		return Part{At: at + ".image_url", URI: p.Image}, nil
	case p.Type == "input_file" && p.Data != "":
		return Part{At: at + ".file_data", Name: p.Name, URI: p.Data}, nil
	}
	return Part{}, refused(at, "no files are stored here: send the bytes of a picture as image_url, of a file as file_data")
}
