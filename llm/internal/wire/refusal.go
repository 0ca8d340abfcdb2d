package wire

import (
	"bytes"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	json "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/llm"
)

// maxErrorBytes bounds how much of the body of an error is read.
const maxErrorBytes = 64 << 10

// lenient is how the JSON of providers is read: unknown and repeated names, and bytes that are
// not UTF-8, are accepted.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// Decode reads the members of v out of an event's data.
func Decode(data []byte, v any) error { return json.Unmarshal(data, v, lenient) }

// refusal is an error as providers write it.
type refusal struct {
	status  int    // from the body, 0 none
	code    string // the provider's code
	message string // is searched and never kept
	param   string // the part of the request
	wait    time.Duration
}

// wireError is the union of the members that providers give their errors:
//
//	{"error": {"type", "code", "param", "message"}}             OpenAI, Anthropic
//	{"error": {"code": 429, "status", "message", "details"}}     Gemini, also in a list
//	{"error": "text"}, {"object": "error", "type", "code", …}    compatible servers
type wireError struct {
	Error   jsontext.Value `json:"error"`
	Object  jsontext.Value `json:"object"`
	Type    jsontext.Value `json:"type"`
	Code    jsontext.Value `json:"code"`
	Status  jsontext.Value `json:"status"`
	Message jsontext.Value `json:"message"`
	Param   jsontext.Value `json:"param"`
	Details jsontext.Value `json:"details"`
}

// parseRefusal looks for an error in JSON, and reports whether there is one.
func parseRefusal(data []byte) (refusal, bool) {
	data = bytes.TrimSpace(data)
	if len(data) > 0 && data[0] == '[' {
		var list []jsontext.Value
		if Decode(data, &list) != nil || len(list) == 0 {
			return refusal{}, false
		}
		data = list[0]
	}
	var e wireError
	if Decode(data, &e) != nil {
		return refusal{}, false
	}
	switch e.Error.Kind() {
	case '{':
		var inner wireError
		if Decode(e.Error, &inner) != nil {
			return refusal{}, false
		}
		return inner.read(), true
	case '"':
		e.Message = e.Error
		return e.read(), true
	}
	if word(e.Object) == "error" || word(e.Type) == "error" {
		return e.read(), true
	}
	return refusal{}, false
}

func (e *wireError) read() refusal {
	r := refusal{message: word(e.Message), param: word(e.Param)}
	if e.Code.Kind() == '0' {
		if n, err := strconv.Atoi(string(e.Code)); err == nil && n >= 100 && n < 600 {
			r.status = n
		}
	}
	for _, v := range []jsontext.Value{e.Code, e.Status, e.Type} {
		if s := word(v); s != "" && s != "error" {
			r.code = s
			break
		}
	}
	var details []struct {
		Reason     jsontext.Value `json:"reason"`
		RetryDelay jsontext.Value `json:"retryDelay"`
	}
	if e.Details.Kind() == '[' && Decode(e.Details, &details) == nil {
		for _, d := range details {
			if s := word(d.Reason); s != "" {
				r.code = s
			}
			if wait, err := time.ParseDuration(word(d.RetryDelay)); err == nil && wait > 0 {
				r.wait = wait
			}
		}
	}
	return r
}

// noSuchPath are the messages of servers that answer a request for an unknown path like one for
// an unknown model, or with status 200.
var noSuchPath = []string{"unexpected endpoint", "invalid url", "file not found"}

// elsewhere reports whether the server does not know the request's path.
func (r *refusal) elsewhere() bool {
	low := strings.ToLower(r.message)
	return slices.ContainsFunc(noSuchPath, func(s string) bool { return strings.HasPrefix(low, s) })
}

// unknownModel reports whether the server does not know the model.
func (r *refusal) unknownModel(status int) bool {
	return r.code == "model_not_found" || status == http.StatusNotFound && (r.param == "model" || strings.Contains(strings.ToLower(r.message), "model"))
}

// word returns the content of a JSON string, or "" for any other value.
func word(v jsontext.Value) string {
	if v.Kind() != '"' {
		return ""
	}
	var t text
	if !t.add(v) {
		return ""
	}
	return string(t.out)
}

// kinds classifies the codes of providers. Statuses are used first; codes are for errors inside
// a stream, and for statuses that are ambiguous.
var kinds = map[string]llm.Kind{
	"authentication_error": llm.KindAuth, "permission_error": llm.KindAuth, "invalid_api_key": llm.KindAuth,
	"API_KEY_INVALID": llm.KindAuth, "API_KEY_EXPIRED": llm.KindAuth, "UNAUTHENTICATED": llm.KindAuth, "PERMISSION_DENIED": llm.KindAuth,

	"rate_limit_error": llm.KindRateLimit, "rate_limit_exceeded": llm.KindRateLimit, "insufficient_quota": llm.KindRateLimit,
	"billing_error": llm.KindRateLimit, "RESOURCE_EXHAUSTED": llm.KindRateLimit, "RATE_LIMIT_EXCEEDED": llm.KindRateLimit,

	"overloaded_error": llm.KindOverloaded, "server_is_overloaded": llm.KindOverloaded, "slow_down": llm.KindOverloaded, "UNAVAILABLE": llm.KindOverloaded,

	"api_error": llm.KindServer, "server_error": llm.KindServer, "timeout_error": llm.KindServer, "INTERNAL": llm.KindServer, "DEADLINE_EXCEEDED": llm.KindServer,

	"context_length_exceeded": llm.KindContext, "string_above_max_length": llm.KindContext, "request_too_large": llm.KindContext,
	"exceed_context_size_error": llm.KindContext,

	"invalid_request_error": llm.KindRequest, "invalid_prompt": llm.KindRequest, "not_found_error": llm.KindRequest, "model_not_found": llm.KindRequest,
	"INVALID_ARGUMENT": llm.KindRequest, "FAILED_PRECONDITION": llm.KindRequest, "NOT_FOUND": llm.KindRequest,

	"content_filter": llm.KindFiltered, "content_policy_violation": llm.KindFiltered,
}

// spentWords are codes of a quota that is used up: waiting does not help.
var spentWords = map[string]bool{"insufficient_quota": true, "billing_error": true}

// tooLong are parts of the messages of providers that have no code for a prompt that is too
// long. They classify a refused request, and do not decide about rotation or retries.
var tooLong = []string{"prompt is too long", "input token count", "maximum context length", "context length", "context window", "context size"}

// failure classifies an error. status is that of the answer, or 0 for an error inside a
// stream.
func (r *refusal) failure(status int, wait time.Duration) llm.Failure {
	f := llm.Failure{Status: status, Code: harmless(r.code), RetryAfter: max(wait, r.wait)}
	if status == 0 || status/100 == 2 {
		f.Status = r.status
	}
	kind, known := kinds[r.code]
	switch s := f.Status; {
	case known && (kind == llm.KindContext || kind == llm.KindAuth || kind == llm.KindFiltered || s == 0 || s == http.StatusBadRequest):
		f.Kind = kind
	case s == http.StatusUnauthorized, s == http.StatusForbidden:
		f.Kind = llm.KindAuth
	case s == http.StatusTooManyRequests, s == http.StatusPaymentRequired:
		f.Kind = llm.KindRateLimit
	case s == http.StatusServiceUnavailable, s == llm.StatusOverloaded:
		f.Kind = llm.KindOverloaded
	case s == http.StatusRequestEntityTooLarge:
		f.Kind = llm.KindContext
	case s >= 500, s == http.StatusRequestTimeout, s == http.StatusTooEarly:
		f.Kind = llm.KindServer
	case s == 0 && r.elsewhere():
		f.Kind = llm.KindRequest
	case s == 0:
		f.Kind = llm.KindServer // an unknown code
	default:
		f.Kind = llm.KindRequest
	}
	if f.Kind == llm.KindRequest || f.Kind == llm.KindServer && f.Status == 0 {
		low := strings.ToLower(r.message)
		for _, s := range tooLong {
			if strings.Contains(low, s) {
				f.Kind = llm.KindContext
			}
		}
	}
	switch f.Kind {
	case llm.KindRateLimit, llm.KindOverloaded, llm.KindServer:
		f.Retryable = !spentWords[r.code] && (f.Status == 0 || llm.RetryableStatus(f.Status) || f.Status == http.StatusBadRequest)
	}
	return f
}

// harmless returns a provider's code if it is one: up to 64 letters, digits, '_', '-' or '.'.
// Any other text could be a message, or a key that is sent back.
func harmless(s string) string {
	if len(s) == 0 || len(s) > 64 {
		return ""
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-', c == '.':
		default:
			return ""
		}
	}
	return s
}

// retryAfter returns how long an answer asks to wait: retry-after-ms, or Retry-After in seconds
// or as a date. An invalid value is 0.
func retryAfter(h http.Header, now time.Time) time.Duration {
	const most = 24 * time.Hour
	unit := func(s string, d time.Duration) (time.Duration, bool) {
		n, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
		if err != nil || !(n >= 0) {
			return 0, false
		}
		if n >= float64(most/d) {
			return most, true
		}
		return time.Duration(n * float64(d)), true
	}
	if d, ok := unit(h.Get("Retry-After-Ms"), time.Millisecond); ok {
		return d
	}
	v := h.Get("Retry-After")
	if d, ok := unit(v, time.Second); ok {
		return d
	}
	if at, err := http.ParseTime(v); err == nil && at.After(now) {
		return min(at.Sub(now), most)
	}
	return 0
}
