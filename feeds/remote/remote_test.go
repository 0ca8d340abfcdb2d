package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/feeds"
	"github.com/seed14be6753/stile/messages"
)

const session = "acme:ann:main"

func source(at string) feeds.Source {
	return feeds.Source{Kind: feeds.Remote, Params: feeds.PeerParams(at, session, "now", "PEER_TOKEN", false)}
}

func client(t *testing.T, allow ...string) *Client {
	t.Helper()
	c, err := New(Config{Allow: allow, Secret: func(name string) string {
		if name == "PEER_TOKEN" {
			return "secret-token"
		}
		return ""
	}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// saying is a peer that answers with a body.
func saying(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }
}

func answered(failure, value string) string {
	return fmt.Sprintf(`{"feeds":[{"id":"other","value":"0"},{"id":"now","trigger":"on_demand","stale":false,"value":%q,"failure":%q}],"session":%q,"agent":"clock","incarnation":"i","seq":7,"later":{}}`, value, failure, session)
}

// Whatever a peer does: a value, or a failure of one of five reasons, whose text has no secret.
func TestFetch(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for _, c := range []struct {
		name string
		peer http.HandlerFunc
		want string // the value, or the beginning of the failure
	}{
		{"value", saying(answered("", `{"a":1}`)), `{"a":1}`},
		{"no token", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) }, "unauthenticated: "},
		{"no right", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) }, "unauthenticated: "},
		{"no session", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, "not_found: "},
		{"broken", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, "timeout: the peer cannot answer now: 500"},
		{"unasked 304", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(304) }, "not_found: the peer redirects"},
		{"redirects", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }, "not_found: the peer redirects, and no redirect is followed"},
		{"no such feed", saying(`{"feeds":[],"session":"acme:ann:main"}`), "not_found: the session has no such feed"},
		{"another session", saying(strings.ReplaceAll(answered("", "1"), session, "acme:bob:main")), "not_found: the token's session is another one"},
		{"no JSON", saying("<html>"), "not_found: the answer is no list of feeds"},
		{"no value", saying(answered("", "{")), "not_found: the value is no JSON"},
		{"forwarded", saying(answered("forwarded", "")), "forwarded: "},
		{"failed there", saying(answered("failed", "")), "timeout: the peer has no value now"},
		{"too large there", saying(answered("too_large", "")), "too_large: "},
		{"says it is too large", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(MaxBytes+1))
			w.WriteHeader(200)
		}, fmt.Sprintf("too_large: %d bytes", MaxBytes+1)},
		{"never ends", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := fmt.Fprint(w, long); err != nil {
					return
				}
			}
		}, "too_large: more than"},
		{"says less than it has", func(w http.ResponseWriter, _ *http.Request) {
			raw(w, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n%s", answered("", "1")))
		}, "not_found: the answer is no list"},
		{"says more than it has", func(w http.ResponseWriter, _ *http.Request) {
			raw(w, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n%s", answered("", "1")))
		}, "timeout: the answer ends before its end"},
		{"dies", func(w http.ResponseWriter, _ *http.Request) { raw(w, "") }, "timeout: the peer does not answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			elsewhere := false
			peer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/v1/sessions/main/feeds" {
					elsewhere = true
				}
				if r.Header.Get(HopHeader) != "1" || r.Header.Get("Authorization") != "Bearer secret-token" || r.Header.Get("X-Stile-User") != "ann" || r.URL.RawQuery != "values=now%2C" {
					t.Errorf("asked %s with %v", r.URL, r.Header)
				}
				c.peer(w, r)
			}))
			defer peer.Close()
			v, same, err := client(t, peer.URL).Fetch(t.Context(), source(peer.URL), "")
			got := v.JSON
			if err != nil {
				got = feeds.Why(err)
				var e *messages.Error
				if !errors.As(err, &e) || e.Reason == "" || !strings.HasPrefix(e.Detail, e.Reason+": ") || v != (feeds.Value{}) {
					t.Errorf("%+v", err)
				}
			} else if v.Origin != session+"@i, 7" {
				t.Errorf("from %q", v.Origin)
			}
			if same || !strings.HasPrefix(got, c.want) || strings.Contains(fmt.Sprint(err), "secret-token") || elsewhere {
				t.Errorf("got %s, want %s; went elsewhere: %v", got, c.want, elsewhere)
			}
		})
	}
}

// raw answers with bytes and closes the connection.
func raw(w http.ResponseWriter, text string) {
	c, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		panic(err)
	}
	_, _ = fmt.Fprint(c, text) // the client may have gone
	_ = c.Close()
}

// What has not changed is not sent again, and its tag is of no other value.
func TestTag(t *testing.T) {
	var asked []string
	peer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Get("If-None-Match"))
		if r.Header.Get("If-None-Match") == `"t"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("ETag", `"t"`)
		fmt.Fprint(w, answered("", "1"))
	}))
	defer peer.Close()
	c := client(t, peer.URL)
	v, same, err := c.Fetch(t.Context(), source(peer.URL), "")
	if err != nil || same || v.Tag != `"t"` {
		t.Fatalf("%+v, %v, %v", v, same, err)
	}
	if _, same, err = c.Fetch(t.Context(), source(peer.URL), v.Tag); err != nil || !same {
		t.Errorf("%v, %v", same, err)
	}
	if strings.Join(asked, "|") != `|"t"` {
		t.Errorf("asked with %q", asked)
	}
}

// Nothing is asked that is not listed, and no request leaves without a token.
func TestRefusesToAsk(t *testing.T) {
	asked := false
	peer := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	defer peer.Close()
	unset := source(peer.URL)
	unset.Params = strings.ReplaceAll(unset.Params, "PEER_TOKEN", "UNSET")
	for name, c := range map[string]struct {
		client *Client
		src    feeds.Source
		want   string
	}{
		"not listed":        {client(t, "https://other:1"), source(peer.URL), "not_found: the host is not in feeds.remotes"},
		"no token":          {client(t, peer.URL), unset, "unauthenticated: UNSET is not set"},
		"network not given": {unlisted(t, peer.URL), source(peer.URL), "not_found: the host is in a private network that feeds.remotes does not list"},
	} {
		_, _, err := c.client.Fetch(t.Context(), c.src, "")
		if err == nil || !strings.HasPrefix(feeds.Why(err), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if asked {
		t.Error("the peer was asked")
	}
}

// unlisted is a client whose list has the origin by a name that is no address.
func unlisted(t *testing.T, origin string) *Client {
	c := client(t, origin)
	c.networks = nil
	return c
}

func TestJudge(t *testing.T) {
	c := client(t, "https://peer.example", "10.1.0.0/16", "192.168.1.7", "https://[fd00::7]:8471", "http://localhost:8471")
	for address, want := range map[string]bool{
		"93.184.216.34:443": true, "10.1.2.3:443": true, "10.2.2.3:443": false, "192.168.1.7:80": true, "192.168.1.8:80": false,
		"[fd00::7]:8471": true, "[fd00::8]:8471": false, "127.0.0.1:8471": true, "169.254.169.254:80": false, "[::ffff:10.1.2.3]:443": true, "nonsense": false,
	} {
		if err := c.judge(address, false); (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
	if c.judge("93.184.216.34:80", true) == nil || c.judge("10.1.2.3:80", true) == nil || c.judge("127.0.0.1:80", true) != nil {
		t.Error("plain HTTP goes elsewhere than to this machine")
	}
}

func TestNewRefuses(t *testing.T) {
	for _, cfg := range []Config{{Allow: []string{"https://ok", "peer:8471"}}, {Allow: []string{"https://a/b"}}, {Allow: []string{"https://u@a"}}, {Allow: []string{"ftp://a"}}, {CA: []byte("none")}} {
		if _, err := New(cfg); messages.CodeOf(err) != messages.ErrConfig {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

// The end of the caller's time ends a request to a peer that stalls.
func TestStalls(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	origin := "http://" + l.Addr().String()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		if c, err := l.Accept(); err == nil {
			defer c.Close()
			cancel() // the peer has the request and says nothing
			<-ctx.Done()
		}
	}()
	if _, _, err := client(t, origin).Fetch(ctx, source(origin), ""); err == nil || feeds.Why(err) != "timeout: no answer within 2s" {
		t.Errorf("%v", err)
	}
}
