package mcp

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
)

// site is a streamable HTTP server whose answers a test can spoil.
type site struct {
	*httptest.Server
	handler atomic.Pointer[http.Handler]
	spoil   atomic.Pointer[func(http.ResponseWriter, *http.Request, string) bool] // before the handler; true: it has answered
	calls   atomic.Int64                                                          // of tools
	end     func()                                                                // ends the sessions
	heard   chan struct{}                                                         // closed when a client has begun to listen
	once    sync.Once
}

func newSite(t *testing.T) *site {
	s := &site{heard: make(chan struct{})}
	s.restart()
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := new(strings.Builder)
		if r.Method == http.MethodPost {
			b := make([]byte, r.ContentLength)
			n, _ := r.Body.Read(b)
			body.Write(b[:n])
			r.Body = http.MaxBytesReader(w, readCloser{strings.NewReader(body.String())}, 1<<20)
		}
		if strings.Contains(body.String(), `"tools/call"`) {
			s.calls.Add(1)
			if spoil := s.spoil.Load(); spoil != nil && (*spoil)(w, r, body.String()) {
				return
			}
		}
		h := *s.handler.Load()
		if r.Method == http.MethodGet {
			s.once.Do(func() { close(s.heard) })
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		s.end()
	})
	return s
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }

// restart forgets all sessions. Those of before are ended with the site: a client that
// learned of their end while it makes a call could not tell what became of the call.
func (s *site) restart() {
	before, server := s.end, testServer()
	s.end = func() {
		if before != nil {
			before()
		}
		for session := range server.Sessions() {
			_ = session.Close()
		}
	}
	h := http.Handler(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	s.handler.Store(&h)
}

func (s *site) spoiled(do func(w http.ResponseWriter, r *http.Request, body string) bool) {
	if do == nil {
		s.spoil.Store(nil)
		return
	}
	s.spoil.Store(&do)
}

func (s *site) config() Config { return Config{Name: "site", URL: s.URL} }

// The same results over HTTP, with the key where it belongs.
func TestHTTP(t *testing.T) {
	web := newSite(t)
	var seen atomic.Value
	web.spoiled(func(_ http.ResponseWriter, r *http.Request, _ string) bool {
		seen.Store(r.Header.Get("X-Key") + "|" + r.Header.Get("Authorization"))
		return false
	})
	secret := func(string) (string, bool) { return " k-123456 \n", true }
	for _, c := range []struct{ header, want string }{{"", "|Bearer k-123456"}, {"X-Key", "k-123456|"}} {
		cfg := web.config()
		cfg.Secrets, cfg.Header = []string{"KEY"}, c.header
		s := server(t, pool(t, Options{Secret: secret}), cfg)
		if got := call(t, s, "echo", `{"text":"hello k-123456"}`); got != `"hello [redacted]"` {
			t.Errorf("got %s", got)
		}
		if got := seen.Load(); got != c.want {
			t.Errorf("the server saw %q, want %q", got, c.want)
		}
	}
}

// Whether an effect may have happened, by what became of the request.
func TestHTTPLost(t *testing.T) {
	web := newSite(t)
	hangUp := func(w http.ResponseWriter, _ *http.Request, _ string) bool {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			conn.Close()
		}
		return true
	}
	status := func(code int, body string) func(http.ResponseWriter, *http.Request, string) bool {
		return func(w http.ResponseWriter, _ *http.Request, _ string) bool {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(code)
			fmt.Fprint(w, body)
			return true
		}
	}
	redirect := func(w http.ResponseWriter, r *http.Request, _ string) bool {
		http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusTemporaryRedirect)
		return true
	}
	garbage := func(w http.ResponseWriter, _ *http.Request, _ string) bool {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, "{]")
		return true
	}
	endless := func(w http.ResponseWriter, _ *http.Request, _ string) bool {
		w.Header().Set("Content-Type", "application/json")
		chunk := strings.Repeat(" ", 1<<20)
		for range 2 * maxMessageBytes >> 20 {
			if _, err := fmt.Fprint(w, chunk); err != nil {
				break
			}
		}
		return true
	}
	for _, c := range []struct {
		name  string
		spoil func(http.ResponseWriter, *http.Request, string) bool
		calls int64 // that the server gets of a harmless one
	}{
		{"hang up", hangUp, 2},
		{"500", status(500, "<html>oops</html>"), 2},
		{"503", status(503, ""), 2},
		{"redirect", redirect, 2},
		{"garbage", garbage, 2},
		{"endless", endless, 2},
	} {
		s := server(t, pool(t, Options{}), web.config())
		call(t, s, "echo", `{"text":""}`)
		web.spoiled(c.spoil)
		web.calls.Store(0)
		_, err := s.Call(ctx, "echo", messages.Effectful, `{"text":"once"}`)
		wantUnknown(t, err, "the MCP server site gave no answer")
		if strings.Contains(err.Error(), "127.0.0.1") {
			t.Errorf("%s: an address in %v", c.name, err)
		}
		if n := web.calls.Load(); n != 1 {
			t.Errorf("%s: an effect was asked for %d times", c.name, n)
		}
		web.calls.Store(0)
		_, err = s.Call(ctx, "echo", messages.Idempotent, `{"text":"twice"}`)
		wantScript(t, err, neuroscript.CodeToolFailed)
		if n := web.calls.Load(); n != c.calls {
			t.Errorf("%s: a harmless call was made %d times", c.name, n)
		}
		web.spoiled(nil)
		if got := call(t, s, "echo", `{"text":"again"}`); got != `"again"` {
			t.Errorf("%s: afterwards %s", c.name, got)
		}
	}
}

// A server that forgot the session did nothing: the call is made in a new one.
func TestHTTPForgotten(t *testing.T) {
	web := newSite(t)
	s := server(t, pool(t, Options{}), web.config())
	call(t, s, "echo", `{"text":""}`)
	<-web.heard // in the session of before: told elsewhere that it is gone, the client would give up the call as well
	web.restart()
	if got := call(t, s, "echo", `{"text":"new"}`); got != `"new"` {
		t.Errorf("got %s", got)
	}
}

// A server that is not there has not begun.
func TestHTTPAbsent(t *testing.T) {
	web := newSite(t)
	p := pool(t, Options{})
	s := server(t, p, web.config())
	call(t, s, "echo", `{"text":""}`)
	web.CloseClientConnections()
	web.Close()
	_, err := s.Call(ctx, "echo", messages.ReadOnly, `{"text":""}`) // finds out
	wantScript(t, err, neuroscript.CodeToolFailed)
	_, err = s.Call(ctx, "echo", messages.Effectful, `{"text":""}`)
	wantScript(t, err, neuroscript.CodeToolFailed)
	if _, _, err = s.Tools(ctx); !Unreachable(err) {
		t.Errorf("got %v", err)
	}
}
