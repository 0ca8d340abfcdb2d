package llm

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// Reasons of ERR_MODEL without an HTTP status. With a status the reason is STATUS_ and the
// number.
const (
	ReasonTransport = "TRANSPORT" // no answer, or it broke off
	ReasonExhausted = "EXHAUSTED" // a script has no reply left
	ReasonProtocol  = "PROTOCOL"  // the provider's answer makes no sense
)

// Kind classifies failures by what can be done about them.
type Kind string

// The kinds. "" is a failure that was not classified.
const (
	KindAuth       Kind = "auth"             // the key is missing, wrong or may not do this: the operator acts
	KindRateLimit  Kind = "rate_limit"       // too much in too short a time, or a quota is used up
	KindOverloaded Kind = "overloaded"       // the provider is out of capacity
	KindServer     Kind = "server"           // the provider broke
	KindContext    Kind = "context_too_long" // the prompt does not fit the model
	KindRequest    Kind = "bad_request"      // the provider refuses the request as it is
	KindFiltered   Kind = "filtered"         // the provider withholds the reply
	KindNetwork    Kind = "network"          // no answer came
	KindTruncated  Kind = "truncated"        // the answer broke off before its end
	KindOversized  Kind = "oversized_event"  // one event of the answer is over its bound
	KindGarbage    Kind = "garbage"          // the answer is no stream of the provider's events
)

// StatusOverloaded is a status of some providers that are out of capacity. It is not
// registered.
const StatusOverloaded = 529

// Failure describes a model's failure. It is the cause of every ERR_MODEL of this port, and
// holds no secret: no key, no address, no body of the answer.
type Failure struct {
	Kind       Kind
	Status     int           // HTTP status; 0 without an answer, or for a failure after a good status
	Code       string        // the provider's own code, such as rate_limit_exceeded
	RetryAfter time.Duration // how long to wait before the next request; 0 if unknown
	Retryable  bool          // the same request may succeed later
	// NextKey reports whether the failure is one of the key, and the model will use another
	// one for the next request, after RetryAfter. Keys is how many it has in all.
	NextKey bool
	Keys    int
}

// Error returns status and code.
func (f *Failure) Error() string {
	switch {
	case f.Status != 0 && f.Code != "":
		return fmt.Sprintf("status %d, %s", f.Status, f.Code)
	case f.Status != 0:
		return "status " + strconv.Itoa(f.Status)
	case f.Code != "":
		return f.Code
	}
	return "no answer"
}

// Reason returns the reason of ERR_MODEL for f: STATUS_429, or without a status the code in
// capitals, or TRANSPORT.
func (f *Failure) Reason() string {
	if f.Status != 0 {
		return "STATUS_" + strconv.Itoa(f.Status)
	}
	if f.Code != "" {
		return strings.Map(func(r rune) rune {
			switch {
			case r >= 'a' && r <= 'z':
				return r - 'a' + 'A'
			case r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_':
				return r
			}
			return '_'
		}, f.Code)
	}
	return ReasonTransport
}

// Fail returns the ERR_MODEL of f. detail is for people and may be empty; it must not hold a
// secret.
func Fail(f Failure, detail string) *messages.Error {
	return &messages.Error{Code: messages.ErrModel, Reason: f.Reason(), Detail: detail, Cause: &f}
}

// FailureOf returns the failure that err wraps. An error without one gives a failure that is
// not retryable, so that a defect of an adapter cannot cause endless retries.
func FailureOf(err error) Failure {
	var f *Failure
	if errors.As(err, &f) {
		return *f
	}
	return Failure{Code: string(messages.CodeOf(err))}
}

// RetryableStatus reports whether a request that got this HTTP status may succeed when it is
// repeated unchanged.
func RetryableStatus(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests,
		http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout, StatusOverloaded:
		return true
	}
	return false
}
