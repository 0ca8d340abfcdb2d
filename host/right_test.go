package host_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/go-jose/go-jose/v4"

	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/host/access"
)

// bells are the alarms of a host whose time passes when a test says so.
type bells struct {
	mu  sync.Mutex
	now time.Duration
	set []*bell
}

type bell struct {
	of   *bells
	at   time.Duration
	ring func()
	on   bool
}

func (b *bells) make(d time.Duration, ring func()) host.Alarm {
	b.mu.Lock()
	defer b.mu.Unlock()
	one := &bell{b, b.now + d, ring, true}
	b.set = append(b.set, one)
	return one
}

func (b *bell) Stop() bool {
	b.of.mu.Lock()
	defer b.of.mu.Unlock()
	was := b.on
	b.on = false
	return was
}

func (b *bell) Reset(d time.Duration) bool {
	b.of.mu.Lock()
	defer b.of.mu.Unlock()
	was := b.on
	b.on, b.at = true, b.of.now+d
	return was
}

// pass lets time pass, and rings what is due.
func (b *bells) pass(d time.Duration) {
	b.mu.Lock()
	end := b.now + d
	for {
		var next *bell
		for _, one := range b.set {
			if one.on && one.at <= end && (next == nil || one.at < next.at) {
				next = one
			}
		}
		if next == nil {
			break
		}
		next.on, b.now = false, next.at
		b.mu.Unlock()
		next.ring()
		b.mu.Lock()
	}
	b.now = end
	b.mu.Unlock()
}

// issuer has a key for JWTs that can be replaced, and a clock.
type issuer struct {
	t    *testing.T
	url  string
	late atomic.Int64
	mu   sync.Mutex
	key  ed25519.PrivateKey
}

func newIssuer(t *testing.T) *issuer {
	i := &issuer{t: t}
	i.rotate()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		i.mu.Lock()
		defer i.mu.Unlock()
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: i.key.Public(), Use: "sig"}}})
	}))
	t.Cleanup(srv.Close)
	i.url = srv.URL
	return i
}

func (i *issuer) rotate() {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.key = key
}

func (i *issuer) now() time.Time { return time.Now().Add(time.Duration(i.late.Load())) }

func (i *issuer) token(scope string) string {
	i.t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: i.key}, nil)
	if err != nil {
		i.t.Fatal(err)
	}
	jws, err := s.Sign(fmt.Appendf(nil, `{"iss": %q, "aud": "stile", "sub": "ann", "scope": %q, "exp": %d, "iat": %d}`, i.url, scope, time.Now().Add(24*time.Hour).Unix(), time.Now().Unix()))
	if err != nil {
		i.t.Fatal(err)
	}
	text, err := jws.CompactSerialize()
	if err != nil {
		i.t.Fatal(err)
	}
	return text
}

// lasting is an answer that is under way.
type lasting struct {
	status int
	text   chan string // all that came, at the end
}

// rights is a host with one caller who has one right.
type rights struct {
	*door
	goOn   chan struct{}
	clock  *bells
	tokens *access.Tokens
	late   *atomic.Int64 // the clock of the tokens
	jwt    *issuer
	admin  string
	ann    string // the token
	id     string // of it
}

// began has the session s with a run under way, of which one piece was said.
func (c *rights) began() {
	c.t.Helper()
	c.call(201, nil, "POST", "/v1/sessions", `{"agent": "talker", "id": "s"}`, auth(c.admin, "X-Stile-User", "ann")...)
	c.call(202, nil, "POST", "/v1/sessions/s/runs", `{"input": "go"}`, auth(c.admin, "X-Stile-User", "ann")...)
	c.goOn <- struct{}{}
}

// follow reads an answer to its end in the background, and returns when some of it came;
// whole says that all comes at the end.
func (c *rights) follow(whole bool, method, path, body string, headers ...string) *lasting {
	c.t.Helper()
	out := &lasting{text: make(chan string, 1)}
	begun := make(chan struct{})
	go func() {
		var said strings.Builder
		defer func() { out.text <- said.String() }()
		if whole {
			close(begun)
		}
		req, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, strings.NewReader(body))
		if err != nil {
			c.t.Error(err)
			return
		}
		req.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			said.WriteString(err.Error())
			return
		}
		defer res.Body.Close()
		out.status = res.StatusCode
		if !whole {
			close(begun)
		}
		b, _ := io.ReadAll(res.Body) // however it ends
		said.Write(b)
	}()
	<-begun
	return out
}

// socket is follow over a WebSocket.
func (c *rights) socket(path string) *lasting {
	c.t.Helper()
	conn, _, err := dial(c.t.Context(), c.url+path, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + c.ann}}})
	if err != nil {
		c.t.Fatal(err)
	}
	conn.SetReadLimit(1 << 20)
	out := &lasting{text: make(chan string, 1), status: 101}
	go func() {
		var said strings.Builder
		for {
			_, b, err := conn.Read(c.t.Context())
			if err != nil {
				fmt.Fprintf(&said, "closed %d", websocket.CloseStatus(err))
				out.text <- said.String()
				_ = conn.CloseNow()
				return
			}
			said.Write(b)
		}
	}()
	return out
}

const rpcAccept = "application/json, text/event-stream"

// protocol begins a session of the Model Context Protocol.
func (c *rights) protocol() string {
	c.t.Helper()
	res := c.ask("POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, auth(c.ann, "Accept", rpcAccept)...)
	if _, err := io.ReadAll(res.Body); err != nil || res.StatusCode != 200 {
		c.t.Fatal(res.Status, err)
	}
	id := res.Header.Get("Mcp-Session-Id")
	c.ask("POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, auth(c.ann, "Accept", rpcAccept, "Mcp-Session-Id", id)...)
	return id
}

// instant are the routes whose answer waits for nothing that takes its time.
var instant = []string{
	"DELETE /mcp", "DELETE /v1/sessions/{id}", "DELETE /v1/tokens/{token}", "DELETE /v1/users/{user}", "GET /metrics", "GET /v1/agents", "GET /v1/models", "GET /v1/models/{model}",
	"GET /v1/approvals", "GET /v1/sessions/{id}/records",
	"GET /v1/sessions", "GET /v1/sessions/{id}", "GET /v1/sessions/{id}/approvals", "GET /v1/sessions/{id}/decisions", "GET /v1/sessions/{id}/turns/{turn}/prompt", "GET /v1/sessions/{id}/feeds", "GET /v1/sessions/{id}/runs", "PATCH /v1/sessions/{id}",
	"GET /v1/tokens", "GET /v1/usage", "GET /v1/health", "GET /v1/audit", "GET /v1/search", "POST /v1/keys/rotate", "POST /v1/reload", "POST /v1/sessions", "POST /v1/sessions/{id}/approvals/{approval}", "POST /v1/sessions/{id}/fork",
	"POST /v1/sessions/{id}/runs/{run}/cancel", "POST /v1/tokens", "POST /v1/tokens/{token}/rotate",
	"GET /v1/webhooks", "GET /v1/webhooks/dead", "POST /v1/webhooks/dead/{letter}/retry", "DELETE /v1/webhooks/dead/{letter}",
}

// way is one in which an answer of a route lasts.
type way struct {
	name string
	open func(*rights) *lasting
	mute bool // the answer cannot say why it ends
}

// lastingRoutes are the routes whose answers last, with all ways in which they do.
func lastingRoutes() map[string][]way {
	submit := func(query string) func(*rights) *lasting {
		return func(c *rights) *lasting {
			c.call(201, nil, "POST", "/v1/sessions", `{"agent": "talker", "id": "s"}`, auth(c.admin, "X-Stile-User", "ann")...)
			out := c.follow(strings.Contains(query, "wait"), "POST", "/v1/sessions/s/runs?"+query, `{"input": "go"}`, auth(c.ann)...)
			c.goOn <- struct{}{}
			return out
		}
	}
	get := func(path string) func(*rights) *lasting {
		return func(c *rights) *lasting {
			c.began()
			return c.follow(false, "GET", path, "", auth(c.ann)...)
		}
	}
	socket := func(path string) func(*rights) *lasting {
		return func(c *rights) *lasting {
			c.began()
			return c.socket(path)
		}
	}
	openAI := func(path, stream, ask string) func(*rights) *lasting {
		return func(c *rights) *lasting {
			spoken := make(chan struct{})
			go func() { // a stream begins with its first text
				c.goOn <- struct{}{}
				close(spoken)
			}()
			out := c.follow(stream == "false", "POST", path, `{"model": "talker", "stream": `+stream+`, `+ask+`}`, auth(c.ann)...)
			<-spoken
			return out
		}
	}
	chat := func(stream string) func(*rights) *lasting {
		return openAI("/v1/chat/completions", stream, `"messages": [{"role": "user", "content": "go"}]`)
	}
	response := func(stream string) func(*rights) *lasting {
		return openAI("/v1/responses", stream, `"input": "go"`)
	}
	call := func(meta string) func(*rights) *lasting {
		return func(c *rights) *lasting {
			out := c.follow(true, "POST", "/mcp", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"talker","arguments":{"message":"go","session":"s"}`+meta+`}}`, auth(c.ann, "Accept", rpcAccept, "Mcp-Session-Id", c.protocol())...)
			c.goOn <- struct{}{}
			return out
		}
	}
	const progress = `,"_meta":{"progressToken":"p"}`
	return map[string][]way{
		"POST /v1/sessions/{id}/runs": {{name: "token", open: submit("stream=token")}, {name: "event", open: submit("stream=event")}, {name: "simple", open: submit("stream=token&format=simple")}, {name: "wait", open: submit("wait=10m")}},
		"GET /v1/sessions/{id}/runs/{run}": {{name: "wait", open: func(c *rights) *lasting {
			c.began()
			return c.follow(true, "GET", "/v1/sessions/s/runs/1?wait=10m", "", auth(c.ann)...)
		}}},
		"GET /v1/sessions/{id}/events":            {{name: "sse", open: get("/v1/sessions/s/events")}, {name: "simple", open: get("/v1/sessions/s/events?format=simple")}, {name: "socket", open: socket("/v1/sessions/s/events")}},
		"GET /v1/sessions/{id}/runs/{run}/events": {{name: "sse", open: get("/v1/sessions/s/runs/1/events")}, {name: "socket", open: socket("/v1/sessions/s/runs/1/events?stream=event")}},
		"POST /v1/chat/completions":               {{name: "stream", open: chat("true")}, {name: "whole", open: chat("false")}},
		"POST /v1/responses":                      {{name: "stream", open: response("true")}, {name: "whole", open: response("false")}},
		"POST /mcp":                               {{name: "call", open: call(""), mute: true}, {name: "progress", open: call(progress), mute: true}},
		"GET /mcp": {{name: "stream", mute: true, open: func(c *rights) *lasting {
			return c.follow(false, "GET", "/mcp", "", auth(c.ann, "Accept", rpcAccept, "Mcp-Session-Id", c.protocol())...)
		}}},
		"GET /v1/sessions/{id}/export":         nil, // TestExportEndsWithItsRight
		"GET /v1/sessions/{id}/parts/{digest}": nil, // its bytes are there when it begins
	}
}

// serveRights makes a host whose one caller, ann, has a token with the scope of a route
// alone; it is a JWT where jwt says so.
func serveRights(t *testing.T, pattern string, jwt bool) *rights {
	c := &rights{goOn: make(chan struct{}), clock: &bells{}, late: &atomic.Int64{}}
	t.Cleanup(host.Ring(c.clock.make))
	var err error
	c.tokens, err = access.Open(filepath.Join(t.TempDir(), "tokens.json"), func() time.Time { return time.Now().Add(time.Duration(c.late.Load())) })
	if err != nil {
		t.Fatal(err)
	}
	c.jwt = newIssuer(t)
	byJWT, err := access.NewIssuer(access.Issuer{URL: c.jwt.url, JWKS: c.jwt.url, Audience: "stile", Tenant: "acme", Now: c.jwt.now})
	if err != nil {
		t.Fatal(err)
	}
	// No signature of a record has the word -two-, which base64 cannot spell.
	c.door = serve(t, host.Config{Access: access.First(c.tokens, byJWT)}, agentOf("talker", speaks([]string{"one ", "-two-"}, c.goOn)))
	t.Cleanup(func() { close(c.goOn) }) // no turn is in flight when the host stops
	admin, _, err := c.tokens.Create(access.Wish{Tenant: "acme", User: "root", Scopes: []string{"admin", "users"}})
	if err != nil {
		t.Fatal(err)
	}
	c.admin = admin
	scope := c.srv.Scope(pattern)
	if jwt {
		c.ann = c.jwt.token(scope)
		return c
	}
	secret, tok, err := c.tokens.Create(access.Wish{Tenant: "acme", User: "ann", Scopes: []string{scope}, Expires: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	c.ann, c.id = secret, tok.ID
	return c
}

// losses are the ways to lose a right, with what the answer says then.
var losses = []struct {
	name string
	jwt  bool
	lose func(*rights)
	says []string // one of them
}{
	{"revoked", false, func(c *rights) {
		if _, _, err := c.tokens.Revoke(access.Revocation{ID: c.id}); err != nil {
			c.t.Fatal(err)
		}
	}, []string{"revoked", "closed 1008"}},
	{"expired", false, func(c *rights) { c.late.Store(int64(2 * time.Hour)) }, []string{"expired", "closed 1008"}},
	{"key rotated away", true, func(c *rights) {
		c.jwt.rotate()
		c.jwt.late.Store(int64(11 * time.Minute)) // the host asks for the keys again
		for {                                     // until the host has the new keys
			res := c.ask("GET", "/v1/agents", "", auth(c.ann)...)
			res.Body.Close() // its connection serves the next
			if res.StatusCode == http.StatusUnauthorized {
				return
			}
			if c.t.Context().Err() != nil {
				c.t.Fatal("the key is still believed")
			}
			time.Sleep(10 * time.Millisecond)
			c.jwt.late.Add(int64(time.Second)) // a question that failed is asked again
		}
	}, []string{"not known here", "closed 1008"}},
	// What a user's streams are of ends with the user, by a word of the journal.
	{"user erased", false, func(c *rights) {
		c.call(200, nil, "DELETE", "/v1/users/ann", "", auth(c.admin)...)
	}, []string{"erased", "closed 100", "ERR_CANCELLED", "cancelled"}},
}

// Each answer that lasts ends within 15 seconds of the loss of its caller's right, however
// the right was lost, and none before: the scope of the route alone keeps it. A route that
// is in neither table is a mistake.
func TestAnswersEndWithTheirRight(t *testing.T) {
	rows := lastingRoutes()
	probe := serveRights(t, "GET /v1/agents", false)
	for _, pattern := range probe.srv.Patterns() {
		if _, ok := rows[pattern]; ok == slices.Contains(instant, pattern) {
			t.Errorf("%s has no row in lastingRoutes, nor one in instant, or both", pattern)
		}
	}
	for pattern, ways := range rows {
		for _, w := range ways {
			t.Run(pattern+" "+w.name, func(t *testing.T) {
				t.Run("kept", func(t *testing.T) {
					c := serveRights(t, pattern, false)
					out := w.open(c)
					c.clock.pass(10 * time.Minute)
					if pattern == "GET /mcp" || strings.HasSuffix(pattern, "{id}/events") { // it goes on for ever
						select {
						case text := <-out.text:
							t.Fatalf("ended: %s", text)
						default:
						}
					} else {
						c.goOn <- struct{}{}
						if text := <-out.text; !strings.Contains(text, "-two-") {
							t.Fatalf("%d %s", out.status, text)
						}
						return
					}
					c.call(200, nil, "DELETE", "/v1/users/ann", "", auth(c.admin)...)
					c.clock.pass(15 * time.Second)
					<-out.text
				})
				for _, loss := range losses {
					t.Run(loss.name, func(t *testing.T) {
						c := serveRights(t, pattern, loss.jwt)
						out := w.open(c)
						c.clock.pass(25 * time.Second) // between two looks
						loss.lose(c)
						c.clock.pass(15 * time.Second)
						text := <-out.text
						if strings.Contains(text, "-two-") || !w.mute && !slices.ContainsFunc(loss.says, func(word string) bool { return strings.Contains(text, word) }) {
							t.Errorf("%d %s", out.status, text)
						}
						if loss.name == "revoked" && pattern == "POST /mcp" { // what nobody gets to see is not made
							seen := events(t, c.ask("GET", "/v1/sessions/s/runs/1/events", "", auth(c.admin, "X-Stile-User", "ann")...).Body, 100)
							if last := seen[len(seen)-1].data["body"].(map[string]any); last["reason"] != "ERR_CANCELLED" {
								t.Errorf("the run ended %v", last)
							}
						}
						if !w.mute && out.status != 200 && out.status != 101 && out.status != 401 && out.status != 404 && (loss.name != "user erased" || out.status != 409 && out.status != 400) {
							t.Errorf("%d %s", out.status, text)
						}
					})
				}
			})
		}
	}
}

// An export that is read slowly is cut when its reader loses the right.
func TestExportEndsWithItsRight(t *testing.T) {
	c := serveRights(t, "GET /v1/sessions/{id}/export", false)
	c.call(201, nil, "POST", "/v1/sessions", `{"agent": "talker", "id": "s"}`, auth(c.admin, "X-Stile-User", "ann")...)
	for range 24 { // more than the sockets between take
		c.call(202, nil, "POST", "/v1/sessions/s/runs", `{"input": "`+strings.Repeat("x", 500<<10)+`", "policy": "interrupt"}`, auth(c.admin, "X-Stile-User", "ann")...)
	}
	res := c.ask("GET", "/v1/sessions/s/export", "", auth(c.ann)...)
	if _, err := res.Body.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.tokens.Revoke(access.Revocation{ID: c.id}); err != nil {
		t.Fatal(err)
	}
	c.clock.pass(15 * time.Second)
	if b, err := io.ReadAll(res.Body); err == nil {
		t.Errorf("all %d bytes came", len(b))
	}
}

// silent is a source of tokens that can be told to give no answer.
type silent struct {
	access.Authenticator
	no atomic.Bool
}

func (s *silent) Authenticate(ctx context.Context, bearer string) (access.Identity, error) {
	if s.no.Load() {
		return access.Identity{}, access.Denied(access.ReasonUnavailable, "the host cannot read its tokens")
	}
	return s.Authenticator.Authenticate(ctx, bearer)
}

// A source of tokens that is silent for a moment ends nothing; one that stays silent ends
// answers within the same 15 seconds, because a token may have been revoked meanwhile.
func TestSilentTokens(t *testing.T) {
	keys := newTokens(t)
	ann, _ := keys.make("acme", "ann", "submit")
	source := &silent{Authenticator: keys.Tokens}
	clock := &bells{}
	defer host.Ring(clock.make)()
	goOn := make(chan struct{})
	c := &rights{door: serve(t, host.Config{Access: source}, agentOf("talker", speaks([]string{"one ", "two"}, goOn))), ann: ann}
	c.call(201, nil, "POST", "/v1/sessions", `{"agent": "talker", "id": "s"}`, auth(ann)...)
	first := c.follow(false, "POST", "/v1/sessions/s/runs?stream=token", `{"input": "go"}`, auth(ann)...)
	goOn <- struct{}{}
	clock.pass(5 * time.Second)
	for range 3 {
		source.no.Store(true)
		clock.pass(6 * time.Second) // one look gets no answer
		source.no.Store(false)
		clock.pass(14 * time.Second)
	}
	goOn <- struct{}{}
	if text := <-first.text; !strings.Contains(text, "event: run.end") {
		t.Errorf("ended early: %s", text)
	}
	second := c.follow(false, "POST", "/v1/sessions/s/runs?stream=token", `{"input": "go"}`, auth(ann)...)
	goOn <- struct{}{}
	source.no.Store(true)
	clock.pass(15 * time.Second)
	// error is the name of an EventSource's own event.
	if text := <-second.text; !strings.Contains(text, access.ReasonUnavailable) || !strings.Contains(text, "event: problem\ndata: ") || strings.Contains(text, "event: error") {
		t.Errorf("%s", text)
	}
}
