package wire

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/seed14be6753/stile/internal/native"
	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/messages"
)

// Vendor has the differences between providers. Implementations are safe for concurrent use.
type Vendor interface {
	// Send makes the request with the SDK and sends it with client. It returns when the
	// head of the answer has come; the SDK's result is ignored, because the Transport kept
	// the answer. An error before the request was sent describes what is wrong with the
	// request; it must not hold a secret.
	Send(ctx context.Context, client *http.Client, ask *Ask) error
	// Events returns a reader of one reply's events.
	Events() Events
}

// Ask is a request for a vendor to send.
type Ask struct {
	*llm.Request
	Options *Options
	Whole   bool   // the reply in one piece, not as a stream
	Source  string // the provider and model that the model's own ids and signatures belong to
}

// Events reads the events of one reply, in order, or a reply in one piece.
type Events interface {
	// Event adds an event to r. An error means that the event is malformed.
	Event(ev Event, r *Reply) error
	// Whole adds a whole reply, as JSON, to r, and how it finished.
	Whole(body []byte, r *Reply) error
}

// Config configures a Model. It must not be changed afterwards.
type Config struct {
	Vendor Vendor
	Keys   *llm.Keys // nil is none
	// Header is the header with the key, after Scheme.
	Header, Scheme string

	Prices        map[string]llm.Price // by model
	Price         llm.Price            // of models that Prices does not name
	Tuning        *Tuning              // options; nil supports none
	Whole         bool                 // replies in one piece
	FirstByte     time.Duration        // 0 is DefaultFirstByte, or DefaultWhole
	MaxEventBytes int                  // 0 is DefaultMaxEventBytes
	Base          http.RoundTripper    // nil is NewBase()
}

// NewBase returns a new transport, which shares its connections with no other.
func NewBase() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConnsPerHost = 16
	return t
}

// Model is a provider's models. It implements llm.Model.
type Model struct {
	cfg    Config
	client *http.Client
}

// New makes a Model.
func New(cfg Config) *Model {
	if cfg.Keys == nil {
		cfg.Keys = llm.NewKeys()
	}
	if cfg.FirstByte <= 0 {
		cfg.FirstByte = DefaultFirstByte
		if cfg.Whole {
			cfg.FirstByte = DefaultWhole
		}
	}
	if cfg.Base == nil {
		cfg.Base = NewBase()
	}
	return &Model{cfg: cfg, client: newClient(cfg.Base)}
}

// CloseIdleConnections closes the connections that no request uses.
func (m *Model) CloseIdleConnections() {
	if c, ok := m.cfg.Base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Reply is a reply so far.
type Reply struct {
	text     text
	usage    messages.Usage
	hasIn    bool // usage.Input is from the provider
	hasOut   bool // usage.Output is from the provider
	running  bool // usage.Output is from the provider once the reply has finished
	finish   messages.Finish
	over     bool // nothing more is read
	withheld string
	failed   *llm.Failure
	called   bool // failed for a call of a tool
	billed   bool // failed, and its usage may follow
	stray    bool // it called a function that was not offered

	calls *native.Writer // nil if no functions are offered
	args  map[int64]*text

	prompt    int64 // bytes of it
	delivered int64 // bytes of text
	told      messages.Usage
	ahead     messages.Usage // of what led to the request
}

// Text appends the content of a JSON string literal; null is no text. From a list of parts it
// appends those of type text: some servers put thoughts beside them.
func (r *Reply) Text(lit []byte) error {
	switch {
	case len(lit) == 0 || string(lit) == "null":
		return nil
	case lit[0] == '[':
		return r.parts(lit)
	}
	if !r.text.add(lit) {
		return errNoString
	}
	return nil
}

// errNoString means that the text of an event is no string.
var errNoString = errors.New("text that is no string")

func (r *Reply) parts(list []byte) error {
	var parts []struct {
		Type string `json:"type"`
		Text Raw    `json:"text"`
	}
	if err := Decode(list, &parts); err != nil {
		return err
	}
	for _, p := range parts {
		if p.Type == "text" && !r.text.add(p.Text) {
			return errNoString
		}
	}
	return nil
}

// Input sets the prompt's tokens: all, and those of them that were read from the provider's
// cache or written to it. Without the first the others are ignored.
func (r *Reply) Input(all, cacheRead, cacheWrite Count) {
	if all.Known {
		r.usage.Input, r.usage.CacheRead, r.usage.CacheWrite, r.hasIn = all.N, cacheRead.N, cacheWrite.N, true
	}
}

// Output sets the tokens of the whole reply.
func (r *Reply) Output(n Count) {
	if n.Known {
		r.usage.Output, r.hasOut = n.N, true
	}
}

// Running sets the tokens of the reply so far, which are the total once it has finished.
func (r *Reply) Running(n Count) {
	if n.Known {
		r.usage.Output, r.running = n.N, true
	}
}

// Finish sets how the reply ended. Usage may still follow, until Over.
func (r *Reply) Finish(f messages.Finish) {
	if r.finish = f; r.stray && f == messages.FinishComplete {
		r.stray = false
		r.Called("tool_call")
	}
}

// Over ends the reading of a reply.
func (r *Reply) Over() { r.over = true }

// Withhold records that the provider ended the reply because of its content; code is the
// provider's.
func (r *Reply) Withhold(code string) { r.withheld = code }

// Billed records that the usage of a failed reply may follow.
func (r *Reply) Billed() { r.billed = true }

// Called ends a reply that ended for the host to call a tool, with the provider's code for
// that. If no functions were offered, the text until then is the reply, and a reply without
// text has failed. Otherwise it is an ordinary end.
func (r *Reply) Called(code string) {
	if r.delivered > 0 || len(r.text.out) > 0 || r.calls != nil && r.calls.Called() {
		r.finish, r.stray = messages.FinishComplete, false
		return
	}
	r.finish = ""
	r.Fail(code)
	r.called = true
}

// Fail records that the provider failed, with its code.
func (r *Reply) Fail(code string) {
	f := (&refusal{code: code}).failure(0, 0)
	r.failed = &f
}

// estimate returns the usage of a reply, with estimates for the numbers that the provider did
// not send.
func (r *Reply) estimate() messages.Usage {
	u := r.usage
	if !r.hasIn {
		u.Input, u.Estimated = estimate(r.prompt), true
	}
	if !r.hasOut && (!r.running || r.finish == "") {
		// The provider's count at the beginning is a part of the total.
		u.Output, u.Estimated = max(u.Output, estimate(r.delivered)), true
	}
	u.Input, u.Output = u.Input+r.ahead.Input, u.Output+r.ahead.Output
	u.CacheRead, u.CacheWrite = u.CacheRead+r.ahead.CacheRead, u.CacheWrite+r.ahead.CacheWrite
	return u
}

// estimate estimates the tokens of a text (docs/spec/cogency.md §13).
func estimate(textBytes int64) int64 { return (textBytes + 3) / 4 }

// Stream implements llm.Model: one request, with one key.
func (m *Model) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	return llm.Bound(func(yield func(llm.Chunk, error) bool) { m.stream(ctx, &req, yield) }, req.MaxReplyBytes)
}

func (m *Model) stream(ctx context.Context, req *llm.Request, yield func(llm.Chunk, error) bool) {
	if ctx.Err() != nil {
		yield(llm.Chunk{Finish: messages.FinishCancelled}, nil)
		return
	}
	keys := m.cfg.Keys.For(req.Model)
	key, err := keys.Take()
	if err != nil {
		yield(llm.Chunk{}, err)
		return
	}
	x := &exchange{keys: keys, key: key, header: m.cfg.Header, scheme: m.cfg.Scheme, whole: m.cfg.Whole}
	asked, end := begin(ctx, x, m.cfg.FirstByte)
	defer end()
	r := &Reply{}
	r.writes(req)
	for i := range req.Messages {
		r.prompt += int64(len(req.Messages[i].Text))
	}
	var sendErr error
	if x.options, sendErr = m.cfg.Tuning.of(req); sendErr == nil {
		sendErr = m.cfg.Vendor.Send(asked, m.client, &Ask{Request: req, Options: x.options, Whole: m.cfg.Whole, Source: m.source(req)})
	}
	switch {
	case x.streaming:
		if !m.read(x, r, req, yield) {
			return
		}
	case x.body != nil:
		m.readWhole(x, r)
		if r.failed != nil && !m.hand(r, req, yield) { // text and usage until then
			return
		}
	}
	switch {
	case ctx.Err() != nil:
		c := llm.Chunk{Finish: messages.FinishCancelled}
		if x.sent { // the provider may have read it, and may charge for it
			m.price(&c, r.estimate(), req.Model)
		}
		yield(c, nil)
	case x.body != nil && r.failed == nil:
		c := llm.Chunk{Finish: r.finish}
		c.Text, c.Side = r.rest(m.source(req))
		m.price(&c, r.estimate(), req.Model)
		yield(c, nil)
	default:
		yield(llm.Chunk{}, m.fail(asked, x, r, sendErr))
	}
}

// read reads the stream to its end. It returns false when the receiver stopped.
func (m *Model) read(x *exchange, r *Reply, req *llm.Request, yield func(llm.Chunk, error) bool) bool {
	in, events := NewReader(x.body, m.cfg.MaxEventBytes), m.cfg.Vendor.Events()
	defer func() {
		if r.over && r.finish == "" {
			r.finish = messages.FinishComplete
		}
	}()
	for !r.over {
		ev, err := in.Next()
		if err != nil {
			r.ended(err)
			return true
		}
		data := bytes.TrimSpace(ev.Data)
		if string(data) == "[DONE]" {
			r.over = true
			break
		}
		if ev.Loose && !json.Valid(data) {
			r.ended(io.EOF)
			return true
		}
		if ev.Name == "error" || bytes.Contains(data, []byte(`"error"`)) {
			if refused, ok := parseRefusal(data); ok {
				f := refused.failure(0, 0)
				r.failed = &f
				return true
			}
		}
		ev.Data = data
		if len(data) > 0 {
			if err := events.Event(ev, r); err != nil {
				r.failed = &llm.Failure{Kind: llm.KindGarbage, Code: "garbage"}
				return true
			}
		}
		if r.withheld != "" {
			r.failed = &llm.Failure{Kind: llm.KindFiltered, Code: harmless(r.withheld)}
		}
		if r.calls != nil && req.MaxReplyBytes > 0 && int64(r.calls.Held()) > req.MaxReplyBytes {
			r.calls.Finish(messages.FinishComplete) // and the reply is over its bound
		}
		if !m.hand(r, req, yield) {
			return false
		}
		switch {
		case r.failed != nil && r.billed:
			return m.settle(in, events, r, req, yield)
		case r.failed != nil:
			return true
		}
	}
	return true
}

// readWhole reads a reply in one piece.
func (m *Model) readWhole(x *exchange, r *Reply) {
	body, err := io.ReadAll(io.LimitReader(x.body, int64(m.maxEvent())+1))
	switch {
	case len(body) > m.maxEvent():
		r.failed = &llm.Failure{Kind: llm.KindOversized, Code: "oversized_event"}
		return
	case err != nil:
		r.ended(err)
		return
	}
	if refused, ok := parseRefusal(body); ok {
		f := refused.failure(0, 0)
		r.failed = &f
		return
	}
	if m.cfg.Vendor.Events().Whole(body, r) != nil || r.finish == "" && r.withheld == "" && r.failed == nil {
		r.failed = &llm.Failure{Kind: llm.KindGarbage, Code: "garbage"}
	}
	if r.withheld != "" {
		r.failed = &llm.Failure{Kind: llm.KindFiltered, Code: harmless(r.withheld)}
	}
}

// settle reads on for the usage of a failed reply, and drops everything else.
func (m *Model) settle(in *Reader, events Events, r *Reply, req *llm.Request, yield func(llm.Chunk, error) bool) bool {
	failed := r.failed
	for !r.over {
		ev, err := in.Next()
		ev.Data = bytes.TrimSpace(ev.Data)
		if err != nil || string(ev.Data) == "[DONE]" || len(ev.Data) > 0 && events.Event(ev, r) != nil {
			break
		}
		r.text.take()
	}
	r.failed, r.finish, r.calls = failed, "", nil
	r.text = text{}
	return m.hand(r, req, yield)
}

// hand yields the text and usage of an event. It returns false when the receiver stopped.
func (m *Model) hand(r *Reply, req *llm.Request, yield func(llm.Chunk, error) bool) bool {
	out := r.take()
	r.delivered += int64(len(out))
	u := r.estimate()
	if len(out) == 0 && (u == r.told || r.finish != "" || !r.hasIn) {
		return true
	}
	r.told = u
	c := llm.Chunk{Text: out}
	m.price(&c, u, req.Model)
	return yield(c, nil)
}

// ended handles the end of the stream. A reply that has finished is whole: only its usage
// could follow.
func (r *Reply) ended(err error) {
	switch {
	case errors.Is(err, errOversized):
		r.failed = &llm.Failure{Kind: llm.KindOversized, Code: "oversized_event"}
	case r.finish == "":
		r.failed = &llm.Failure{Kind: llm.KindTruncated, Code: "truncated", Retryable: true}
	}
}

func (m *Model) price(c *llm.Chunk, u messages.Usage, model string) {
	c.Usage = u
	price, ok := m.cfg.Prices[model]
	if !ok {
		price = m.cfg.Price
	}
	if price.IsZero() {
		c.Unpriced = true
		return
	}
	c.CostMicroUSD = price.Cost(u)
}

// fail returns the ERR_MODEL of a failed exchange, and reports the failure to the keys.
func (m *Model) fail(ctx context.Context, x *exchange, r *Reply, sendErr error) error {
	var f llm.Failure
	detail := ""
	switch {
	case r.failed != nil:
		f = *r.failed
	case x.foreign:
		f = llm.Failure{Kind: llm.KindGarbage, Status: x.status, Code: "garbage"}
		detail = "the answer is no stream of events; is base_url right? A server that cannot stream is asked with model.stream: false"
		if x.whole {
			detail = "the answer is no JSON; is base_url right?"
		}
	case x.status != 0:
		f = x.refused.failure(x.status, x.wait)
	case x.sent:
		f = llm.Failure{Kind: llm.KindNetwork, Code: "transport", Retryable: true}
		detail = network(ctx, sendErr)
	default: // the request could not be made
		f = llm.Failure{Kind: llm.KindRequest, Code: "bad_request"}
		if sendErr != nil {
			detail = sendErr.Error()
		}
	}
	if v := x.key.Value(); v != "" && strings.Contains(f.Code, v) {
		f.Code = ""
	}
	x.keys.Report(x.key, &f)
	if detail == "" {
		detail = m.words(&f, x, r)
	}
	if v := x.key.Value(); v != "" {
		detail = strings.ReplaceAll(detail, v, "…")
	}
	return llm.Fail(f, detail)
}

// words returns what went wrong, and who must act. It has nothing of the provider's answer but
// the name of a part of the request.
func (m *Model) words(f *llm.Failure, x *exchange, r *Reply) string {
	switch f.Kind {
	case llm.KindAuth:
		if x.key.Name == "" {
			return "the provider wants a key, and there is none"
		}
		return "the provider refuses the key in " + x.key.Name
	case llm.KindRateLimit:
		if f.RetryAfter > 0 {
			return "too many requests or a quota used up; wait " + f.RetryAfter.Round(time.Millisecond).String()
		}
		return "too many requests, or a quota is used up"
	case llm.KindOverloaded:
		return "the provider is overloaded"
	case llm.KindServer:
		if r.called {
			return "the model called a tool in the provider's own form, but the request offered none"
		}
		return "the provider failed"
	case llm.KindContext:
		return "the prompt is too long for the model"
	case llm.KindRequest:
		if name := m.cfg.Tuning.refused(x.options, &x.refused); name != "" && !x.refused.unknownModel(f.Status) {
			return "the provider refuses model.options." + name + " for this model: change it or leave it out"
		}
		return requestWords(f, x)
	case llm.KindFiltered:
		return "the provider withholds the reply"
	case llm.KindTruncated:
		return "the answer broke off"
	case llm.KindOversized:
		return fmt.Sprintf("one event of the answer is over %d bytes", m.maxEvent())
	case llm.KindGarbage:
		return "the answer makes no sense"
	case llm.KindNetwork: // the cause has the description
	}
	return ""
}

// requestWords returns a hint for a refused request, mostly about the model's name or the
// address.
func requestWords(f *llm.Failure, x *exchange) string {
	switch p := harmless(x.refused.param); {
	case f.Status/100 == 3:
		return "the provider redirects, and nothing follows: the key would go along; is base_url right?"
	case x.refused.elsewhere() || f.Status == http.StatusNotFound && !x.explained:
		return "there is nothing at this address; base_url of openai ends in the version, such as /v1, that of the others has none"
	case x.refused.unknownModel(f.Status):
		return "the provider has no model of this name, or not for this key"
	case p != "":
		return "the provider refuses the request, for its " + p
	}
	return "the provider refuses the request; the model's name and the address are the usual reasons"
}

func (m *Model) maxEvent() int {
	if m.cfg.MaxEventBytes > 0 {
		return m.cfg.MaxEventBytes
	}
	return DefaultMaxEventBytes
}

// network describes why no answer came, without addresses.
func network(ctx context.Context, err error) string {
	var dns *net.DNSError
	var op *net.OpError
	var cert *tls.CertificateVerificationError
	switch {
	case errors.Is(context.Cause(ctx), errFirstByte):
		return "the answer did not begin in time"
	case errors.As(err, &dns):
		return "the provider's name cannot be resolved"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens at the provider's address; is the server running?"
	case errors.As(err, &op) && op.Op == "dial":
		return "the provider cannot be reached"
	case errors.Is(err, http.ErrSchemeMismatch):
		return "the server does not speak TLS; is base_url http, not https?"
	case errors.As(err, &cert):
		return "the provider's certificate is not trusted"
	}
	return "the connection broke before an answer came"
}
