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

// DefaultFirstByte is how long an answer may take to begin (docs/spec/cogency.md §12, api_timeout).
const DefaultFirstByte = 30 * time.Second

// DefaultWhole is DefaultFirstByte of a reply in one piece, which begins when it ends.
const DefaultWhole = 10 * time.Minute

// errFirstByte ends a request whose answer did not begin in time.
var errFirstByte = errors.New("the answer did not begin in time")

// exchange is one request and its answer. The Transport finds it in the request's
// context.
type exchange struct {
	keys    *llm.Keys // for its model
	key     llm.Key
	header  string // that carries the key
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
	explained bool // refused says something
	foreign   bool // a good status, and nothing that was asked for
	sent      bool
}

type exchangeKey struct{}

// transport sends requests for SDKs.
type transport struct{ base http.RoundTripper }

// newClient makes the HTTP client that an SDK sends with. It follows no redirect: the
// key would go along.
func newClient(base http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     transport{base},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// RoundTrip implements http.RoundTripper. What the SDK gets back is the status and an
// empty body.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	x, ok := req.Context().Value(exchangeKey{}).(*exchange)
	if !ok || x.sent {
		return nil, errors.New("wire: one request per exchange")
	}
	x.sent = true
	req = req.Clone(req.Context())
	for _, h := range []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key"} {
		req.Header.Del(h) // what an SDK found by itself
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
		b, _ := io.ReadAll(io.LimitReader(body, maxErrorBytes)) // as much of it as came
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

// begin puts a new exchange into a context. end must be called.
func begin(ctx context.Context, x *exchange, firstByte time.Duration) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	x.timer = time.AfterFunc(firstByte, func() { cancel(errFirstByte) })
	return context.WithValue(ctx, exchangeKey{}, x), func() {
		x.timer.Stop()
		cancel(nil)
		if x.body != nil {
			_ = x.body.Close() // a stream that was left: nothing more is wanted of it
		}
	}
}
