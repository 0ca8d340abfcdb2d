package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/internal/publicnet"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
	"github.com/seed14be6753/stile/tools/catalog"
)

func TestPublic(t *testing.T) {
	for _, ip := range []string{
		"127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "0.1.2.3", "224.0.0.1", "255.255.255.255", "240.0.0.1",
		"192.0.2.1", "198.18.0.1", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12::1", "ff02::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:db8::1", "fec0::1",
		"::127.0.0.1", "::10.0.0.1", "::8.8.8.8", "::ffff:0:127.0.0.1", "64:ff9b::8.8.8.8", "64:ff9b:1::1", "100::1", "100:0:0:1::1", "1fff::1", "4000::1", "5f00::1", "3fff::1", "3fff:fff::1",
		"2001::1", "2001:1::1", "2001:1ff::1", "2002:808:808::", "2620:4f:8000::1", "192.0.0.8", "192.0.0.170", "192.31.196.1", "192.52.193.1", "192.88.99.1", "192.175.48.1", "198.51.100.1", "203.0.113.1",
	} {
		if publicnet.Judge("["+ip+"]:80") == nil {
			t.Errorf("%s is taken for public", ip)
		}
	}
	for _, at := range []string{"8.8.8.8:80", "[2606:4700::1111]:443", "[::ffff:8.8.8.8]:1", "172.32.0.1:80", "100.128.0.1:80", "[2001:200::1]:80", "[2400:cb00::1]:80", "[2a00:1450::1]:80", "[3ffe::1]:80", "192.31.197.1:80"} {
		if err := publicnet.Judge(at); err != nil {
			t.Errorf("%s: %v", at, err)
		}
	}
	if publicnet.Judge("localhost:80") == nil || publicnet.Judge("") == nil {
		t.Error("what is no address is taken for public")
	}
}

const secret = "k3y/with+signs"

// relic is a service at a server, with endpoints of every kind.
func relic(t *testing.T, server *httptest.Server, change func(*Service)) *catalog.Executor {
	t.Helper()
	s := Service{
		Name: "issues", Base: server.URL + "/v1", Private: true, MaxBytes: 1000, Key: func() (string, error) { return secret, nil },
		Endpoints: []Endpoint{
			{Name: "get", Path: "/issues/{id}", Params: catalog.Parameters{{Name: "id", Required: true}, {Name: "q"}}},
			{Name: "add", Method: "POST", Path: "/issues", Class: messages.Keyed, Params: catalog.Parameters{{Name: "title", Type: "string", Required: true}}},
			{Name: "raw", Path: "/raw/{id}", Params: catalog.Parameters{{Name: "id", Required: true}}},
		},
	}
	if change != nil {
		change(&s)
	}
	x, err := Relic(s)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestHTTPRelic(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "other %q %q", r.Header.Get("Authorization"), r.Header.Get("X-Key"))
	}))
	defer other.Close()
	elsewhere, _ := url.Parse(other.URL)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch id := strings.TrimPrefix(r.URL.EscapedPath(), "/v1/raw/"); id {
		case "big":
			fmt.Fprint(w, strings.Repeat("x", 1001))
		case "full":
			fmt.Fprint(w, strings.Repeat("x", 1000))
		case "leak":
			w.WriteHeader(http.StatusTeapot)
			fmt.Fprintf(w, "your\nkey %s %s", r.Header.Get("Authorization"), url.QueryEscape(secret))
		case "bytes":
			fmt.Fprint(w, "\xff\xfe")
		case "loop":
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		case "away", "allowed":
			host := strings.Replace(other.URL, "127.0.0.1", map[string]string{"away": "127.0.0.1", "allowed": "localhost"}[id], 1)
			http.Redirect(w, r, host, http.StatusFound)
		case "back":
			http.Redirect(w, r, "/v1/issues/7", http.StatusFound)
		case "file":
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
		case "empty":
		default:
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			fmt.Fprintf(w, `{"n":9007199254740993,"was":%q}`, r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("Authorization")+" "+r.Header.Get("Idempotency-Key")+" "+string(body))
		}
	}))
	defer server.Close()
	x := relic(t, server, func(s *Service) { s.Hosts = []string{"localhost"} })
	if x.Class != messages.Keyed || x.Params.Signature() != "(operation, id?, q?, title?)" {
		t.Errorf("%s %s", x.Class, x.Params.Signature())
	}
	for _, c := range []struct{ args, want string }{
		{`{"operation":"get","id":7}`, `{"body":{"n":9007199254740993,"was":"GET /v1/issues/7 Bearer [redacted]  "},"status":200}`},
		{`{"operation":"get","id":"../a b/{q}?x#y","q":"&=\u0000"}`, `"was":"GET /v1/issues/..%2Fa%20b%2F%7Bq%7D%3Fx%23y?q=%26%3D%00 Bearer`},
		{`{"operation":"add","title":"${x} \"y\""}`, `POST /v1/issues Bearer [redacted] the-key {\"title\":\"${x} \\\"y\\\"\"}`},
		{`{"operation":"raw","id":"empty"}`, `{"body":null,"status":200}`},
		{`{"operation":"raw","id":"full"}`, `xxx`},
		{`{"operation":"raw","id":"back"}`, `GET /v1/issues/7 Bearer`},
		{`{"operation":"raw","id":"allowed"}`, `other \"\" \"\"`},
		{`{"operation":"raw","id":"big"}`, "over its limit of 1000 bytes"},
		{`{"operation":"raw","id":"leak"}`, "status 418: your key Bearer [redacted] [redacted]"},
		{`{"operation":"raw","id":"bytes"}`, "is no text"},
		{`{"operation":"raw","id":"loop"}`, "more than 5 redirects"},
		{`{"operation":"raw","id":"away"}`, "a redirect to a host that is not allowed"},
		{`{"operation":"raw","id":"file"}`, "without encryption"},
		{`{"operation":"get","id":".."}`, "argument id: cannot stand in a path"},
		{`{"operation":"get","id":""}`, "argument id: cannot stand in a path"},
		{`{"operation":"get"}`, "argument id: missing"},
		{`{"operation":"drop"}`, `argument operation: want one of "get", "add", "raw"`},
		{`{}`, "argument operation: want string"},
		{`{"operation":"raw","id":"x","title":"y"}`, "argument title: there is no such parameter; it takes (id)"},
	} {
		got, err := x.Run(t.Context(), &tools.Call{Key: "the-key"}, c.args)
		if err != nil {
			_, got = catalog.Failure(err)
		}
		if !strings.Contains(got, c.want) || strings.Contains(got, secret) {
			t.Errorf("%s: %s\nwant %s", c.args, got, c.want)
		}
	}
	if elsewhere.Host == "" {
		t.Error("no other host")
	}

	// Its own header goes to no other host either.
	x = relic(t, server, func(s *Service) { s.Hosts, s.Header = []string{"localhost"}, "X-Key" })
	if got, err := x.Run(t.Context(), &tools.Call{}, `{"operation":"raw","id":"allowed"}`); err != nil || !strings.Contains(got, `other \"\" \"\"`) {
		t.Errorf("%s %v", got, err)
	}

	// Nothing private is reached without leave, by number or by name.
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]"} {
		x = relic(t, server, func(s *Service) {
			s.Private = false
			s.Base = strings.Replace(server.URL, "127.0.0.1", host, 1)
		})
		if got, err := x.Run(t.Context(), &tools.Call{}, `{"operation":"get","id":1}`); err == nil || !strings.Contains(err.Error(), "private network") || strings.Contains(err.Error(), "127.0.0.1") {
			t.Errorf("%s: %s %v", host, got, err)
		}
	}
	x = relic(t, server, func(s *Service) { s.Key = func() (string, error) { return "", errors.New(secret) } })
	if _, err := x.Run(t.Context(), &tools.Call{}, `{"operation":"get","id":1}`); err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("without a key: %v", err)
	}
	for _, base := range []string{"ftp://x", "http://u:p@x", "http://x?q", "http://x#f", "x", "http://"} {
		if _, err := Relic(Service{Base: base}); messages.CodeOf(err) != messages.ErrConfig || strings.Contains(err.Error(), base) {
			t.Errorf("%s: %v", base, err)
		}
	}
}

// What was sent and not answered is unknown when it may have done something.
func TestHTTPRelicUnanswered(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			conn.Close()
		}
	}))
	x := relic(t, server, nil)
	var lost *tools.Unsettled
	if _, err := x.Run(t.Context(), &tools.Call{}, `{"operation":"add","title":"x"}`); !errors.As(err, &lost) {
		t.Errorf("a keyed request: %v", err)
	}
	if _, err := x.Run(t.Context(), &tools.Call{}, `{"operation":"get","id":"x"}`); err == nil || errors.As(err, &lost) {
		t.Errorf("a request that reads: %v", err)
	}
	server.Close()
	if _, err := x.Run(t.Context(), &tools.Call{}, `{"operation":"add","title":"x"}`); err == nil || errors.As(err, &lost) {
		t.Errorf("what was never sent: %v", err)
	}
	hangs := make(chan struct{})
	server = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hangs }))
	defer server.Close()
	defer close(hangs)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := relic(t, server, nil).Run(ctx, &tools.Call{}, `{"operation":"get","id":"x"}`); !errors.Is(ctx.Err(), context.DeadlineExceeded) || err == nil {
		t.Errorf("its time was up: %v", err)
	}
}
