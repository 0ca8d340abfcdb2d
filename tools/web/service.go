package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/internal/publicnet"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
	"github.com/seed14be6753/stile/tools/internal/address"
)

// Service is a relic that is a service over HTTP (docs/spec/streaming.md §7.1).
type Service struct {
	Name      string
	Summary   string
	Base      string   // URL before the paths
	Hosts     []string // other hosts to which a redirect may lead
	Private   bool     // the service may be on this machine or in a private network
	Header    string   // has the key as its value; "" is Authorization with a bearer token
	Key       func() (string, error)
	MaxBytes  int64 // of an answer; 0 is 1 MiB
	Timeout   time.Duration
	Endpoints []Endpoint
}

// Endpoint is one operation of a Service.
type Endpoint struct {
	Name    string
	Summary string
	Method  string // "" is GET
	Path    string // {name} is a parameter
	Stream  string // StreamEvents, StreamLines, StreamJSONLines, or "" for an answer that is taken whole
	Class   messages.Class
	Params  catalog.Parameters
}

const (
	maxRedirects   = 5
	maxAnswer      = 1 << 20
	connectTime    = 10 * time.Second
	maxHeaderBytes = 64 << 10
)

// Relic returns the target of a service. Its class is the worst of its endpoints'. The error is
// ERR_CONFIG for a Base that is not http or https, or has a user, query or fragment.
func Relic(s Service) (*catalog.Executor, error) {
	base, err := url.Parse(s.Base)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" || base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return nil, &messages.Error{Code: messages.ErrConfig, Field: "connection.base_url", Detail: "is no http or https address without user, query and fragment"}
	}
	if s.MaxBytes <= 0 {
		s.MaxBytes = maxAnswer
	}
	s.Endpoints = slices.Clone(s.Endpoints)
	var ops catalog.Operations
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if e.Method == "" {
			e.Method = http.MethodGet
		}
		if e.Class == "" {
			e.Class = classOfMethod(e.Method)
		}
		ops = append(ops, catalog.Operation{Name: e.Name, Summary: e.Summary, Class: e.Class, Params: e.Params})
	}
	summary, params, class := ops.Describe(s.Summary)
	client := s.client(base)
	return &catalog.Executor{
		Type: messages.TypeRelic, Name: s.Name, Summary: summary, Params: params, Class: class, Timeout: s.Timeout,
		Run: func(ctx context.Context, c *tools.Call, args string) (string, error) {
			at, given, err := ops.Pick(args)
			if err != nil {
				return "", err
			}
			return s.do(ctx, client, base, &s.Endpoints[at], c, given)
		},
	}, nil
}

func classOfMethod(method string) messages.Class {
	switch method {
	case http.MethodGet, http.MethodHead:
		return messages.ReadOnly
	case http.MethodPut, http.MethodDelete:
		return messages.Idempotent
	}
	return messages.Effectful
}

// client returns an HTTP client for the service alone: no proxy, no cookie, and every address
// is checked after it was resolved, also those of redirects.
func (s *Service) client(base *url.URL) *http.Client {
	dialer := &net.Dialer{Timeout: connectTime}
	if !s.Private {
		dialer.Control = func(_, address string, _ syscall.RawConn) error { return publicnet.Judge(address) }
	}
	return &http.Client{
		Transport: &http.Transport{
			DialContext: dialer.DialContext, TLSHandshakeTimeout: connectTime, MaxResponseHeaderBytes: maxHeaderBytes,
			// A connection is not reused: a session must not see what another left on it.
			DisableKeepAlives: true, DisableCompression: true,
		},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			switch first := via[0]; {
			case first.Method != http.MethodGet && first.Method != http.MethodHead:
				return http.ErrUseLastResponse // a redirect would change the method
			case len(via) > maxRedirects:
				return fmt.Errorf("more than %d redirects", maxRedirects)
			case req.URL.Scheme != base.Scheme && req.URL.Scheme != "https":
				return errors.New("a redirect to a connection without encryption")
			case req.URL.Host == base.Host:
				return nil
			case !slices.Contains(s.Hosts, req.URL.Hostname()):
				return errors.New("a redirect to a host that is not allowed")
			}
			req.Header.Del(s.header()) // the key is for the service alone
			return nil
		},
	}
}

func (s *Service) header() string {
	if s.Header == "" {
		return "Authorization"
	}
	return s.Header
}

var errPrivate = publicnet.ErrPrivate

// request returns the request for a call of an endpoint.
func (s *Service) request(ctx context.Context, base *url.URL, e *Endpoint, given map[string]jsontext.Value) (*http.Request, error) {
	path := e.Path
	for name, v := range given {
		if hole := "{" + name + "}"; strings.Contains(path, hole) {
			part := plain(v)
			if part == "" || part == "." || part == ".." {
				return nil, neuroscript.Errorf(neuroscript.CodeArgument, "argument %s: cannot stand in a path", name)
			}
			path = strings.ReplaceAll(path, hole, url.PathEscape(part)) // escaped braces cannot name another parameter
			delete(given, name)
		}
	}
	to, err := url.Parse(strings.TrimSuffix(base.String(), "/") + path)
	if err != nil || to.Host != base.Host {
		return nil, neuroscript.Errorf(neuroscript.CodeArgument, "the arguments make no address")
	}
	var body io.Reader
	if e.Method == http.MethodPost || e.Method == http.MethodPut || e.Method == http.MethodPatch {
		b, err := json.Marshal(given, json.Deterministic(true))
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(b)
	} else {
		q := url.Values{}
		for name, v := range given {
			q.Set(name, plain(v))
		}
		to.RawQuery = q.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, e.Method, to.String(), body)
	if err != nil {
		return nil, neuroscript.Errorf(neuroscript.CodeArgument, "the arguments make no request")
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", accepted(e.Stream))
	req.Header.Set("User-Agent", "stile")
	return req, nil
}

// plain returns a value as a part of an address: the text of a string, or canonical JSON.
func plain(v jsontext.Value) string {
	if v.Kind() == '"' {
		s, err := jsontext.AppendUnquote(nil, v)
		if err == nil {
			return string(s)
		}
	}
	own := v.Clone()
	if own.Canonicalize() != nil {
		return string(v)
	}
	return string(own)
}

func (s *Service) do(ctx context.Context, client *http.Client, base *url.URL, e *Endpoint, c *tools.Call, given map[string]jsontext.Value) (string, error) {
	var sent atomic.Bool // set by the transport
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	req, err := s.request(ctx, base, e, given)
	if err != nil {
		return "", err
	}
	key := ""
	if s.Key != nil {
		if key, err = s.Key(); err != nil {
			return "", neuroscript.Errorf(neuroscript.CodeToolFailed, "the relic's key is not there")
		}
		if s.Header == "" {
			req.Header.Set("Authorization", "Bearer "+key)
		} else {
			req.Header.Set(s.Header, key)
		}
	}
	if e.Class.Durable() && c.Key != "" {
		req.Header.Set("Idempotency-Key", c.Key)
	}
	fail := func(err error) error {
		text := redact(e.Method+" "+e.Name+": "+address.Hidden(err), key)
		if sent.Load() && e.Class.Durable() {
			return &tools.Unsettled{Reason: text}
		}
		return neuroscript.Errorf(neuroscript.CodeToolFailed, "%s", text)
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", fail(err)
	}
	defer resp.Body.Close()
	tooLong := func() error {
		return fail(fmt.Errorf("status %d, and the answer is over its limit of %d bytes", resp.StatusCode, s.MaxBytes))
	}
	if e.Stream != "" && resp.StatusCode >= 200 && resp.StatusCode < 300 {
		g := growing{form: e.Stream, key: key, call: c}
		result, broken, err := g.read(ctx, resp, s.MaxBytes)
		switch {
		case errors.Is(broken, errTooLong):
			return "", tooLong()
		case broken != nil:
			return "", fail(broken)
		}
		return result, err
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, s.MaxBytes+1))
	switch {
	case err != nil:
		return "", fail(err)
	case int64(len(data)) > s.MaxBytes && resp.StatusCode < 300: // it was done, and what it says cannot be kept
		return "", tooLong()
	}
	text := redact(string(data), key)
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return "", neuroscript.Errorf(neuroscript.CodeToolFailed, "%s %s: status %d: %s", e.Method, e.Name, resp.StatusCode, clip.Excerpt(text))
	}
	return answerOf(resp, text)
}

// answerOf returns {status, body}: JSON as it is, other text as a string.
func answerOf(resp *http.Response, text string) (string, error) {
	body := jsontext.Value("null")
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	asJSON := jsontext.Value(text)
	switch {
	case text == "":
	case (kind == "application/json" || strings.HasSuffix(kind, "+json")) && asJSON.IsValid():
		body = asJSON
	case !utf8.ValidString(text):
		return "", neuroscript.Errorf(neuroscript.CodeToolFailed, "status %d, and the answer is no text", resp.StatusCode)
	default:
		var err error
		if body, err = jsontext.AppendQuote(nil, text); err != nil {
			return "", err
		}
	}
	b, err := json.Marshal(map[string]any{"status": resp.StatusCode, "body": body}, json.Deterministic(true))
	return string(b), err
}

// redact removes a key from a text, also in the spelling of JSON and of addresses.
func redact(s, key string) string {
	if key == "" {
		return s
	}
	for _, k := range []string{key, url.QueryEscape(key), url.PathEscape(key)} {
		s = strings.ReplaceAll(s, k, "[redacted]")
	}
	return s
}
