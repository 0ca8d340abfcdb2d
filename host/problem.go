package host

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// problem is the body of every error (RFC 9457), with the product's code and the place
// of the mistake.
type problem struct {
	Type      string `json:"type" doc:"urn:stile: and the code" example:"urn:stile:ERR_BUSY"`
	Title     string `json:"title" doc:"what the code means"`
	Status    int    `json:"status"`
	Detail    string `json:"detail,omitempty" doc:"what happened here"`
	Code      string `json:"code" example:"ERR_BUSY"`
	Reason    string `json:"reason,omitempty" doc:"a narrower name than the code"`
	Retryable bool   `json:"retryable" doc:"the same request may succeed later"`
	Field     string `json:"field,omitempty" doc:"where: a parameter, or a path in the body"`
	Line      int    `json:"line,omitempty"`
	Column    int    `json:"column,omitempty" doc:"in bytes, from 1"`
	Offset    *int64 `json:"offset,omitempty" doc:"in bytes, from 0"`

	retryAfter time.Duration
	halt       bool   // of a run that had begun: for the door of chat completions
	once       bool   // a run has begun, and the client must not repeat the request: for the same
	openAI     string // the code for clients of OpenAI, where theirs is one that they look at
	challenge  string // WWW-Authenticate
	elsewhere  string // the session that another host runs
}

// keyHeader has the key under which a submit may be sent again.
const keyHeader = "Idempotency-Key"

// Error implements error.
func (p *problem) Error() string { return p.Code + ": " + p.Detail }

// GetStatus implements huma.StatusError.
func (p *problem) GetStatus() int { return p.Status }

// ContentType implements huma.ContentTypeFilter.
func (p *problem) ContentType(string) string { return "application/problem+json" }

// GetHeaders implements huma.HeadersError.
func (p *problem) GetHeaders() http.Header {
	h := http.Header{}
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int((p.retryAfter+time.Second-1)/time.Second)))
	}
	if p.challenge != "" {
		h.Set("WWW-Authenticate", p.challenge)
	}
	return h
}

// problem makes the document of an error. What is no error of ours is a defect: the
// client hears that, and nothing of what it says.
func problemOf(err error) *problem {
	var own *problem
	if errors.As(err, &own) {
		return own
	}
	var e *messages.Error
	if !errors.As(err, &e) {
		return make500()
	}
	code := e.Code
	if stile.IsNotFound(err) { // of the journal it is ERR_JOURNAL
		code = messages.ErrNotFound
	}
	info, ok := code.Info()
	if !ok {
		return make500()
	}
	p := &problem{
		Type: "urn:stile:" + string(code), Title: info.Meaning, Status: info.HTTP, Code: string(code), Reason: e.Reason,
		Detail: e.Detail, Retryable: info.Retryable, Field: e.Field, Line: e.Line, Column: e.Col,
	}
	p.elsewhere, _ = stile.IsElsewhere(err)
	if e.HasOffset {
		p.Offset = &e.Offset
	}
	if e.Reason == stile.ReasonKeyReused { // clients of chat completions repeat what is answered with 409
		p.Status, p.Field = http.StatusUnprocessableEntity, keyHeader
	}
	if stile.IsUnproved(err) { // of one session, and for good
		p.Status, p.Retryable = http.StatusConflict, false
	}
	if e.Code == messages.ErrDenied {
		unauthorized(p, e)
	}
	if p.Retryable && p.retryAfter == 0 && (e.Code == messages.ErrBusy || p.Status == http.StatusServiceUnavailable) {
		p.retryAfter = time.Second
	}
	return p
}

func make500() *problem {
	return &problem{
		Type: "urn:stile:" + string(messages.ErrCrash), Title: "The host failed at this request.", Status: http.StatusInternalServerError,
		Code: string(messages.ErrCrash), Detail: "the log of the host says more",
	}
}

// refusalOf is a problem that the door itself has. Its status is that of the code.
func refusalOf(code messages.Code, field, detail string) *problem {
	return problemOf(&messages.Error{Code: code, Field: field, Detail: detail})
}

// refusal is refusalOf where HTTP has a narrower status than the code.
func refusal(status int, code messages.Code, field, detail string) *problem {
	p := refusalOf(code, field, detail)
	p.Status = status
	return p
}

// maxComplaints bounds what is said of a request: a body has room for many thousand
// mistakes.
const maxComplaints = 20

// translate makes the framework's complaints about a request documents like all
// others: it names the first place, and says the first of them.
func translate(_ huma.Context, _ string, v any) (any, error) {
	m, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	if m.Status >= http.StatusInternalServerError {
		return make500(), nil
	}
	p := refusal(m.Status, messages.ErrInvalid, "", m.Detail)
	for i, d := range m.Errors {
		if i == maxComplaints {
			p.Detail += "; and " + strconv.Itoa(len(m.Errors)-i) + " more"
			break
		}
		if i == 0 {
			p.Field = d.Location
		}
		p.Detail += "; " + d.Location + ": " + d.Message
	}
	return p, nil
}
