package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/messages"
)

// The door for clients of OpenAI's chat completions. A model is an agent. A request
// that names a session by X-Stile-Session submits its last message there: the session
// remembers the others by itself. A request that names none is a
// session of its own, with the history it brings (docs/spec/design.md §13).

// maxChatMessages bounds the messages of one request.
const maxChatMessages = 4096

const (
	chatPattern   = "POST /v1/chat/completions"
	modelsPattern = "GET /v1/models"
	modelPattern  = "GET /v1/models/{model}"
	sessionHeader = "X-Stile-Session"
	runHeader     = "X-Stile-Run"
)

func (s *Server) chatRoutes(mux *http.ServeMux) {
	s.require(access.Submit, chatPattern)
	s.names[chatPattern] = "chat-completion"
	s.require(access.Read, modelsPattern, modelPattern)
	mux.HandleFunc(chatPattern, func(w http.ResponseWriter, r *http.Request) {
		if err := s.chat(w, r); err != nil {
			s.refuseChat(w, r, err)
		}
	})
	created := time.Now().Unix()
	view := func(name string) map[string]any {
		return map[string]any{"id": name, "object": "model", "created": created, "owned_by": "stile"}
	}
	mux.HandleFunc(modelsPattern, func(w http.ResponseWriter, r *http.Request) {
		all := []map[string]any{}
		for _, name := range s.offers(s.principal(r.Context()).tenant) {
			all = append(all, view(name))
		}
		writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": all})
	})
	mux.HandleFunc(modelPattern, func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("model")
		if s.offered(r.Context(), name) == nil {
			s.refuseChat(w, r, noAgent())
			return
		}
		writeJSON(w, http.StatusOK, view(name))
	})
}

func noAgent() *problem {
	p := refusalOf(messages.ErrNotFound, "model", "no agent of that name is offered: GET /v1/models lists them")
	p.openAI = "model_not_found"
	return p
}

// chatRequest is what the door looks at. What only tunes a model, such as temperature,
// is the agent's to say and passed over; what would change the answer's shape, and is
// not served, is refused.
type chatRequest struct {
	Model         string          `json:"model"`
	Messages      []chatMessage   `json:"messages"`
	Stream        bool            `json:"stream"`
	StreamOptions chatStream      `json:"stream_options"`
	User          string          `json:"user"`
	N             *int            `json:"n"`
	Tools         json.RawMessage `json:"tools"`
	ToolChoice    json.RawMessage `json:"tool_choice"`
	Functions     json.RawMessage `json:"functions"`
	Format        chatFormat      `json:"response_format"`
	Modalities    []string        `json:"modalities"`
	Logprobs      bool            `json:"logprobs"`

	body  []byte
	parts []part // of the last message
}

type chatStream struct {
	IncludeUsage bool `json:"include_usage"`
}

type chatFormat struct {
	Type string `json:"type"`
}

type chatMessage struct {
	Role      string          `json:"role"`
	Content   chatContent     `json:"content"`
	ToolCalls json.RawMessage `json:"tool_calls"`
}

// chatContent is a text, or a list of texts, pictures and files. In an earlier message a picture,
// sound or file has a note in its place.
type chatContent struct {
	text string
	sent []sentPart // pictures and files, and what else is no text
	odd  bool       // a part has an unknown type

	noted string // text with notes for sent; "" without any
}

// sentPart is a part of a content that is no text.
type sentPart struct {
	at    int // its place
	kind  string
	Image struct {
		URL string `json:"url"`
	} `json:"image_url"`
	File struct {
		ID   string `json:"file_id"`
		Name string `json:"filename"`
		Data string `json:"file_data"`
	} `json:"file"`
}

// parts are the pictures and files of the message at a field.
func (c *chatContent) parts(field string) (parts []part, err error) {
	for i := range c.sent {
		p := &c.sent[i]
		at := field + "[" + strconv.Itoa(p.at) + "]."
		var one part
		switch {
		case p.kind == "image_url":
			one, err = dataURI(p.Image.URL, "", at+"image_url.url")
		case p.kind != "file":
			err = unserved(at+"type", "text, pictures and files are taken")
		case p.File.ID != "":
			err = unserved(at+"file.file_id", "no files are stored here: send its bytes as file_data")
		default:
			one, err = dataURI(p.File.Data, p.File.Name, at+"file.file_data")
		}
		if err != nil {
			return nil, err
		}
		parts = append(parts, one)
	}
	return parts, nil
}

func (c *chatContent) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '[' {
		var parts []struct {
			Type    string `json:"type"`
			Text    string `json:"text"`
			Refusal string `json:"refusal"`
			sentPart
		}
		if err := json.Unmarshal(b, &parts); err != nil {
			return err
		}
		var text, told strings.Builder // there can be as many parts as a body has room for
		texts := 0
		for i := range parts {
			p, piece := &parts[i], parts[i].Text+parts[i].Refusal
			switch p.Type {
			case "text", "refusal":
				if texts++; texts > 1 {
					text.WriteByte('\n')
				}
				text.WriteString(piece)
			case "image_url", "input_audio", "file":
				p.at, p.kind = i, p.Type
				c.sent = append(c.sent, p.sentPart)
				piece = "[not shown: " + strings.TrimPrefix(strings.TrimSuffix(p.Type, "_url"), "input_") + "]"
			default:
				c.odd = true
			}
			if i > 0 {
				told.WriteByte('\n')
			}
			told.WriteString(piece)
		}
		if len(c.sent) > 0 {
			c.noted = told.String()
		}
		c.text = text.String()
		return nil
	}
	return json.Unmarshal(b, &c.text) // null is no text
}

// told is the text of an earlier message, with a note for each part that is no text.
func (c *chatContent) told() string { return cmp.Or(c.noted, c.text) }

func unserved(field, detail string) error {
	return &messages.Error{Code: messages.ErrInvalid, Field: field, Detail: detail}
}

func given(raw json.RawMessage) bool {
	v := strings.TrimSpace(string(raw))
	return v != "" && v != "null" && v != "[]"
}

func readChat(r *http.Request) (*chatRequest, error) {
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	q := chatRequest{body: body}
	if err := json.Unmarshal(body, &q); err != nil {
		e := &messages.Error{Code: messages.ErrInvalid, Field: "body", Detail: "the body is no request for a chat completion"}
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			e.Detail, e.Offset, e.HasOffset = "the body is no JSON: at byte "+strconv.FormatInt(syntax.Offset, 10), syntax.Offset, true
		}
		if typed := (*json.UnmarshalTypeError)(nil); errors.As(err, &typed) {
			e.Field, e.Detail = cmp.Or(typed.Field, "body"), "a "+typed.Value+" does not fit there"
		}
		return nil, e
	}
	switch n := len(q.Messages); {
	case q.Model == "":
		return nil, unserved("model", "name an agent: GET /v1/models lists them")
	case given(q.Tools) && strings.TrimSpace(string(q.ToolChoice)) != `"none"`:
		return nil, unserved("tools", `an agent has its own tools: those of the client are refused, unless tool_choice is "none"`)
	case given(q.Functions):
		return nil, unserved("functions", "an agent has its own tools: those of the client are refused")
	case q.N != nil && *q.N != 1:
		return nil, unserved("n", "there is one choice")
	case q.Format.Type != "" && q.Format.Type != "text":
		return nil, unserved("response_format", "an agent answers with text")
	case slices.ContainsFunc(q.Modalities, func(m string) bool { return m != "text" }):
		return nil, unserved("modalities", "an agent answers with text")
	case q.Logprobs:
		return nil, unserved("logprobs", "an agent tells no probabilities")
	case n == 0:
		return nil, unserved("messages", "there is none")
	case n > maxChatMessages:
		return nil, unserved("messages", "there are more than "+strconv.Itoa(maxChatMessages))
	}
	for i := range q.Messages {
		m, at := &q.Messages[i], "messages["+strconv.Itoa(i)+"]"
		switch {
		case m.Content.odd:
			return nil, unserved(at+".content", "text, pictures and files are taken")
		case m.Role == "tool" || m.Role == "function" || given(m.ToolCalls):
			return nil, unserved(at+".role", "an agent has its own tools: those of the client are refused")
		case m.Role != "user" && m.Role != "assistant" && m.Role != "system" && m.Role != "developer":
			return nil, unserved(at+".role", "want user, assistant, system or developer")
		}
	}
	switch last := len(q.Messages) - 1; {
	case q.Messages[last].Role != "user":
		return nil, unserved("messages["+strconv.Itoa(last)+"].role", "the last message is the user's")
	case q.Messages[last].Content.text == "":
		return nil, unserved("messages["+strconv.Itoa(last)+"].content", "the text is empty")
	}
	last := len(q.Messages) - 1
	q.parts, err = q.Messages[last].Content.parts("messages[" + strconv.Itoa(last) + "].content")
	return &q, err
}

// chatSession finds or begins the session that a request is for.
func (s *Server) chatSession(ctx context.Context, r *http.Request, q *chatRequest, c *call) (ses *stile.Session, opts []stile.SubmitOption, err error) {
	agent := s.offered(ctx, q.Model)
	if agent == nil {
		return nil, nil, noAgent()
	}
	if opts, err = attached(q.parts); err != nil {
		return nil, nil, err
	}
	key := r.Header.Get(keyHeader)
	if key != "" {
		opts = append(opts, stile.IdempotencyKey(key))
	}
	switch c.session = r.Header.Get(sessionHeader); {
	case c.session != "":
		if err := checkID(c.session); err != nil {
			return nil, nil, &messages.Error{Code: messages.ErrInvalid, Field: sessionHeader, Detail: "an id is made of letters, digits, dots, underscores and hyphens"}
		}
	case q.User != "" && s.cfg.ChatUserSession:
		c.session = access.Part(q.User)
	default:
		c.session, c.ephemeral = ephemeralID(key), true
		var held []stile.Said
		for _, m := range q.Messages[:len(q.Messages)-1] {
			// Instructions of a client are no more than a user's word: the agent has its own.
			role := messages.RoleUser
			if m.Role == "assistant" {
				role = messages.RoleAssistant
			}
			if text := m.Content.told(); text != "" {
				held = append(held, stile.Said{Role: role, Text: text})
			}
		}
		if len(held) > 0 {
			opts = append(opts, stile.Conversation(held...))
		}
	}
	name := s.principal(ctx).sid(c.session)
	ses, err = s.rt.Find(ctx, name)
	switch {
	case !stile.IsNotFound(err):
	case c.ephemeral:
		ses, err = s.beginEphemeral(ctx, name, agent)
	case isEphemeral(c.session):
		err = expired()
	default:
		ses, err = s.begin(ctx, name, agent)
	}
	if err == nil {
		err = runsAgent(ses, q.Model, c.ephemeral)
	}
	return ses, opts, err
}

// runsAgent refuses a request whose session runs another agent. One without a session of its own
// has found that of its key.
func runsAgent(ses *stile.Session, agent string, keyed bool) error {
	switch {
	case ses.AgentName() == agent:
		return nil
	case keyed:
		return &messages.Error{Code: messages.ErrConflict, Reason: stile.ReasonKeyReused, Detail: "the idempotency key belongs to a request for another agent"}
	}
	return refusalOf(messages.ErrConflict, "model", "the session runs another agent")
}

// begin begins a session of the caller, if its tenant has room for one.
func (s *Server) begin(ctx context.Context, name string, agent *stile.Agent) (*stile.Session, error) {
	tenant := s.principal(ctx).tenant
	begun, err := s.room(ctx, tenant)
	if err != nil {
		return nil, err
	}
	ses, err := s.rt.Open(ctx, name, agent)
	begun(err == nil)
	return ses, err
}

// submitNow submits to a session. One that waits for an approval takes no input that would wait
// behind the call: the client of a protocol that knows no approvals would wait as well, and ask
// again.
func (s *Server) submitNow(ctx context.Context, ses *stile.Session, busy messages.Policy, text string, opts ...stile.SubmitOption) (*stile.Run, error) {
	h, err := ses.Head(ctx)
	if err != nil {
		return nil, err
	}
	if !h.Suspended() || busy == messages.Interrupt || busy == messages.Rollback {
		return s.submit(ctx, ses, text, opts...)
	}
	run, err := s.submit(ctx, ses, text, append(opts, stile.Policy(stile.Reject))...) // a repeated key joins all the same
	if messages.CodeOf(err) == messages.ErrBusy {
		err = waitsForApproval("an earlier call of the session waits for approval; the message was not submitted")
	}
	return run, err
}

// waitsForApproval is the end of an answer whose run, or session, waits for a person.
func waitsForApproval(detail string) *problem {
	p := refusalOf(messages.ErrApproval, "", detail)
	p.halt = true
	return p
}

// chat answers a request; an error is one from before the answer began.
func (s *Server) chat(w http.ResponseWriter, r *http.Request) error {
	q, err := readChat(r)
	if err != nil {
		return err
	}
	place, err := s.place(r.Context())
	if err != nil {
		return err
	}
	defer place()
	asked, err := s.asked(r, r.Header.Get(sessionHeader), q.body, func(ctx context.Context, c *call) error {
		ses, opts, err := s.chatSession(ctx, r, q, c)
		if err != nil {
			return err
		}
		c.run, err = s.submitNow(ctx, ses, s.busyOf(q.Model), q.Messages[len(q.Messages)-1].Content.text, opts...)
		c.name = "chatcmpl-" + ses.Incarnation().String()
		return err
	})
	if err != nil {
		return err
	}
	run, answering, ended := asked.run, false, false
	defer func() { s.unasked(r, asked, answering, ended) }()
	h := w.Header()
	h.Set(sessionHeader, asked.session)
	h.Set(runHeader, strconv.FormatInt(run.Ordinal(), 10))
	c := newReply(run)
	c.id, c.model, c.session = asked.name+"-"+strconv.FormatInt(run.Ordinal(), 10), q.Model, asked.session
	c.created = asked.created.Unix()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.leaving, cancel)()
	if q.Stream {
		answering, err = s.streamChat(ctx, cancel, w, r, run, c, q.StreamOptions.IncludeUsage)
		ended = c.Ended != nil
		if err != nil && !hungUp(r, err) {
			err = begun(err)
		}
		return err
	}
	err = s.wholeReply(ctx, w, r, run, c, func(text string) any { return c.completion(text) })
	ended = c.Ended != nil
	return err
}

// begun is the problem of a request whose run has begun. Clients repeat what is answered with
// 408, 409, 422, 424, 429 or 5xx, one or the other of them, and would begin a second run.
func begun(err error) *problem {
	p := *problemOf(err)
	p.once = true
	return &p
}

func leavingChat() *problem {
	return refusal(http.StatusServiceUnavailable, messages.ErrBusy, "", "the host stops; the run goes on when it is back")
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // who is gone gets nothing
}

// chatError is an error in OpenAI's shape.
type chatError struct {
	Error chatErrorBody `json:"error"`
}

type chatErrorBody struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
}

// typeHalt is the type of the error that a HALT is.
const typeHalt = "stile_halt"

func chatErrorOf(p *problem) chatError {
	e := chatErrorBody{Message: cmp.Or(p.Detail, p.Title), Code: cmp.Or(p.openAI, p.Code), Type: "invalid_request_error"}
	switch {
	case p.halt:
		e.Type = typeHalt
		if !strings.Contains(e.Message, p.Code) {
			e.Message = p.Code + ": " + e.Message
		}
	case p.Status == http.StatusUnauthorized:
		e.Type = "authentication_error"
	case p.Status == http.StatusForbidden:
		e.Type = "permission_error"
	case p.Status == http.StatusTooManyRequests:
		e.Type = "rate_limit_error"
	case p.Status >= http.StatusInternalServerError:
		e.Type = "server_error"
	}
	if p.Field != "" {
		e.Param = &p.Field
	}
	return chatError{e}
}

// hungUp reports whether err is no more than that the client has gone.
func hungUp(r *http.Request, err error) bool {
	return r.Context().Err() != nil && lost(r.Context()) == nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded))
}

func (s *Server) refuseChat(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(orLost(r.Context(), err))
	if hungUp(r, err) {
		trailOf(r.Context()).refusing(refusal(statusHungUp, messages.ErrCancelled, "", "the client ended the request"))
		w.WriteHeader(statusHungUp)
		return
	}
	s.refused(r.Context(), p)
	if p.Status >= http.StatusInternalServerError && !p.halt {
		s.log.Error("a request failed", zap.String("path", r.URL.Path), zap.Error(err))
	}
	h, status := w.Header(), p.Status
	for k, v := range p.GetHeaders() {
		h[k] = v
	}
	switch {
	case p.halt, p.once && status >= http.StatusRequestTimeout:
		status = http.StatusBadRequest
		h.Del("Retry-After")
		fallthrough
	case p.once, !p.Retryable && status < http.StatusInternalServerError:
		h.Set("X-Should-Retry", "false")
	}
	writeJSON(w, status, chatErrorOf(p))
}
