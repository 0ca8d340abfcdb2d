package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/seed14be6753/stile/llm"
)

// DefaultFirstByte bounds the wait for an answer to begin (docs/spec/cogency.md §12, api_timeout).
const DefaultFirstByte = 30 * time.Second

// DefaultWhole is DefaultFirstByte for a reply in one piece, which begins when it is complete.
const DefaultWhole = 10 * time.Minute

// errFirstByte ends a request whose answer did not begin in time.
var errFirstByte = errors.New("the answer did not begin in time")

// exchange is one request and its answer. The Transport finds it in the request's
// context.
type exchange struct {
	keys    *llm.Keys // of the model
	key     llm.Key
	header  string // for the key
	scheme  string // before the key, such as "Bearer "
	timer   *time.Timer
	whole   bool     // the reply is asked for in one piece
	options *Options // of the request

	// Of the answer. Written by the Transport, read when Send has returned.
	status    int
	streaming bool
	body      io.ReadCloser // of a stream, or of a reply in one piece
	wait      time.Duration
	refused   refusal
	explained bool // refused was parsed
	foreign   bool // a good status, with an answer that is no reply
	sent      bool
}

type exchangeKey struct{}

// transport sends requests for SDKs.
type transport struct{ base http.RoundTripper }

// newClient returns the HTTP client for an SDK. It follows no redirect, which would get the
// key.
func newClient(base http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     transport{base},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// RoundTrip implements http.RoundTripper. The SDK gets the status and an empty body.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	x, ok := req.Context().Value(exchangeKey{}).(*exchange)
	if !ok || x.sent {
		return nil, errors.New("wire: one request per exchange")
	}
	x.sent = true
	req = req.Clone(req.Context())
	for _, h := range []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key"} {
		req.Header.Del(h) // a key that an SDK found by itself
	}
	if v := x.key.Value(); v != "" {
		req.Header.Set(x.header, x.scheme+v)
	}
	if req.Header.Set("Accept", "text/event-stream"); x.whole {
		req.Header.Set("Accept", "application/json")
	}
	if x.options != nil && len(x.options.Extra) > 0 {
		if err := AddMembers(req, x.options.Extra); err != nil {
			return nil, err
		}
	}
	res, err := t.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	x.status = res.StatusCode
	x.wait = retryAfter(res.Header, time.Now())
	body := res.Body
	media, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch good := res.StatusCode/100 == 2; {
	case good && strings.EqualFold(media, "text/event-stream"):
		x.timer.Stop()
		x.streaming, x.body = true, body
	case good && x.whole && strings.EqualFold(media, "application/json"):
		x.timer.Stop()
		x.body = body
	default:
		b, _ := io.ReadAll(io.LimitReader(body, maxErrorBytes)) // a partial body is enough
		_ = body.Close()                                        // nothing more is wanted of it
		x.refused, x.explained = parseRefusal(b)
		x.foreign = res.StatusCode/100 == 2 && !x.explained
	}
	answer := *res
	answer.Header = res.Header.Clone()
	answer.Header.Set("Content-Type", "text/event-stream")
	answer.Header.Del("Content-Length")
	answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(nil)), 0
	return &answer, nil
}

// begin returns a context with a new exchange. The caller must call end.
func begin(ctx context.Context, x *exchange, firstByte time.Duration) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	x.timer = time.AfterFunc(firstByte, func() { cancel(errFirstByte) })
	return context.WithValue(ctx, exchangeKey{}, x), func() {
		x.timer.Stop()
		cancel(nil)
		if x.body != nil {
			_ = x.body.Close() // the receiver stopped: the rest is not read
		}
	}
}
