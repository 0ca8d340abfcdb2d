package wiretest

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Answer is what the server does with one request.
type Answer struct {
	Status int // 0 is 200
	Header map[string]string
	// Pieces are written and flushed one by one.
	Pieces []string
	// Step, if set, is received from before each piece.
	Step <-chan struct{}
	// Hang keeps the connection open after the last piece until the client ends it.
	Hang bool
	// Drop breaks the connection after the last piece, without an end.
	Drop bool
	// Silent hangs before the head of the answer.
	Silent bool
}

// Seen is a request as it arrived.
type Seen struct {
	Path   string
	Query  string
	Header http.Header
	Body   []byte
	// Gone is closed when the client has ended the request, or it was answered whole.
	Gone chan struct{}
	// Left tells, after Gone, that the client ended it first.
	Left bool
}

// Server is a provider on the loopback address.
type Server struct {
	URL string
	// Arrived gets every request.
	Arrived chan *Seen

	srv    *httptest.Server
	answer func(*Seen) Answer

	mu   sync.Mutex
	seen []*Seen
}

// NewServer starts a server that lives as long as the test. answer is called for each
// request, from many goroutines.
func NewServer(t testing.TB, answer func(*Seen) Answer) *Server {
	s := &Server{answer: answer, Arrived: make(chan *Seen, 4096)}
	s.srv = httptest.NewServer(s)
	s.URL = s.srv.URL
	t.Cleanup(func() {
		s.srv.CloseClientConnections()
		s.srv.Close()
	})
	return s
}

// Always answers every request alike.
func Always(a Answer) func(*Seen) Answer { return func(*Seen) Answer { return a } }

// Seen are the requests so far.
func (s *Server) Seen() []*Seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*Seen(nil), s.seen...)
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	seen := &Seen{Path: req.URL.Path, Query: req.URL.RawQuery, Header: req.Header.Clone(), Body: body, Gone: make(chan struct{})}
	defer close(seen.Gone)
	s.mu.Lock()
	s.seen = append(s.seen, seen)
	s.mu.Unlock()
	a := s.answer(seen)
	s.Arrived <- seen
	leave := func() { <-req.Context().Done(); seen.Left = true }
	if a.Silent {
		leave()
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	if a.Status != 0 && a.Status/100 != 2 {
		h.Set("Content-Type", "application/json")
	}
	for k, v := range a.Header {
		h.Set(k, v)
	}
	w.WriteHeader(max(a.Status, 200))
	out := http.NewResponseController(w)
	_ = out.Flush()
	for _, p := range a.Pieces {
		if a.Step != nil {
			select {
			case <-a.Step:
			case <-req.Context().Done():
				seen.Left = true
				return
			}
		}
		if _, err := io.WriteString(w, p); err != nil {
			seen.Left = true
			return
		}
		_ = out.Flush()
	}
	switch {
	case a.Hang:
		leave()
	case a.Drop:
		panic(http.ErrAbortHandler) // closes the connection inside the body
	}
}

// canned is a transport without a network: it answers every request with the same
// bytes, in exactly these pieces.
type canned struct {
	pieces []string
	err    error // after them; nil is the end
}

// RoundTrip implements http.RoundTripper.
func (c *canned) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		_, _ = io.Copy(io.Discard, req.Body)
		_ = req.Body.Close()
	}
	pieces := append([]string(nil), c.pieces...)
	return &http.Response{
		StatusCode: 200, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {"text/event-stream; charset=utf-8"}},
		Body:   io.NopCloser(&piecewise{rest: pieces, err: c.err}), ContentLength: -1,
	}, nil
}

// piecewise reads one piece a call.
type piecewise struct {
	rest []string
	err  error
}

func (p *piecewise) Read(b []byte) (int, error) {
	for len(p.rest) > 0 && p.rest[0] == "" {
		p.rest = p.rest[1:]
	}
	if len(p.rest) == 0 {
		if p.err != nil {
			return 0, p.err
		}
		return 0, io.EOF
	}
	n := copy(b, p.rest[0])
	p.rest[0] = p.rest[0][n:]
	return n, nil
}

func cutAt(s string, i int) []string { return []string{s[:i], s[i:]} }

func bytewise(s string) []string {
	out := make([]string, len(s))
	for i := range out {
		out[i] = s[i : i+1]
	}
	return out
}

// lineEnds rewrites LF in a stream.
func lineEnds(s, end string) string { return strings.ReplaceAll(s, "\n", end) }

func jsonString(s string) string {
	var b bytes.Buffer
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
