package host_test

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/messages"
)

// tokens is a file of them, with a clock of its own.
type tokens struct {
	*access.Tokens
	t    *testing.T
	late time.Duration
}

func newTokens(t *testing.T) *tokens {
	k := &tokens{t: t}
	var err error
	k.Tokens, err = access.Open(filepath.Join(t.TempDir(), "tokens.json"), func() time.Time { return time.Now().Add(k.late) })
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// make gives a token and its id.
func (k *tokens) make(tenant, user string, scopes ...string) (secret, id string) {
	k.t.Helper()
	secret, tok, err := k.Create(access.Wish{Tenant: tenant, User: user, Scopes: scopes})
	if err != nil {
		k.t.Fatal(err)
	}
	return secret, tok.ID
}

// auth are the headers that show a token.
func auth(secret string, more ...string) []string {
	return append([]string{"Authorization", "Bearer " + secret}, more...)
}

// request is one that a described operation takes, for the session of that id.
type request struct {
	method, path, body string
	scopes             []string // that it asks for; none: public
	ofSession          bool     // it names a session
	ofTenant           bool     // it names what all admins of a tenant may see
	openAI             bool     // its errors are those of OpenAI's API
}

// requests makes one of every described operation, for a session and a token.
func requests(t *testing.T, d *door, id, token string) (all []request) {
	t.Helper()
	bodies := map[string]string{
		"create-session":  `{"agent": "talker"}`,
		"submit":          `{"input": "hello"}`,
		"create-token":    `{"scopes": ["read"]}`,
		"answer-approval": `{"allow": true, "digest": "` + strings.Repeat("0", 64) + `"}`,
	}
	for path, ops := range description(t, d).Paths {
		for method, op := range ops {
			r := request{method: strings.ToUpper(method), path: path, ofSession: strings.Contains(path, "{id}"), ofTenant: strings.Contains(path, "{token}"), openAI: op.ofOpenAI()}
			r.path = strings.NewReplacer("{id}", id, "{run}", "1", "{approval}", "abc", "{token}", token, "{user}", "ann").Replace(path)
			if op.RequestBody != nil {
				if r.body = bodies[op.OperationID]; r.body == "" {
					r.body = "{}"
				}
			}
			if op.Security == nil {
				t.Errorf("%s %s says nothing of who may", method, path)
			}
			for _, s := range op.Security {
				r.scopes = append(r.scopes, s["bearer"]...)
			}
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b request) int { return strings.Compare(a.path+a.method, b.path+b.method) })
	return all
}

// denied asks what is refused for its token, and returns the reason; errors of OpenAI's API have none,
// and are taken to have the one that is wanted.
func (d *door) denied(status int, r request, reason string, headers ...string) string {
	d.t.Helper()
	if !r.openAI {
		return d.refused(status, messages.ErrDenied, r.method, r.path, r.body, headers...).Reason
	}
	var v struct{ Error struct{ Code, Type string } }
	d.call(status, &v, r.method, r.path, r.body, headers...)
	if want := map[int]string{401: "authentication_error", 403: "permission_error"}[status]; v.Error.Code != string(messages.ErrDenied) || v.Error.Type != want {
		d.t.Errorf("%s %s: %+v", r.method, r.path, v)
	}
	return reason
}

// answerOf is the status and the text of an answer, ids taken out of it; of a stream the
// head is enough.
func answerOf(d *door, r request, id string, headers ...string) (int, string) {
	d.t.Helper()
	res := d.ask(r.method, r.path, r.body, headers...)
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		res.Body.Close()
		return res.StatusCode, "a stream"
	}
	b, err := io.ReadAll(res.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return res.StatusCode, strings.ReplaceAll(string(b), ":"+id, ":ID")
}

// Without a token that is good and has the right, no route does anything.
func TestEveryRouteAsksWho(t *testing.T) {
	k := newTokens(t)
	gone, _ := k.make("acme", "ann", "admin", "users", "metrics")
	revoked, id := k.make("acme", "ann", "admin")
	if _, _, err := k.Revoke(access.Revocation{ID: id}); err != nil {
		t.Fatal(err)
	}
	expired, tok, err := k.Create(access.Wish{Tenant: "acme", User: "ann", Scopes: []string{"admin"}, Expires: time.Now().Add(time.Hour)})
	if err != nil || tok.Expires.IsZero() {
		t.Fatal(err)
	}
	k.late = 2 * time.Hour
	all, _ := k.make("acme", "ann", "read", "submit", "approve", "admin")
	d := serve(t, host.Config{Access: k, WrongTokens: 1 << 20}, agentOf("talker", speaks([]string{"hello"}, always())))
	d.call(http.StatusCreated, nil, "POST", "/v1/sessions", `{"agent": "talker", "id": "s"}`, auth(all)...)
	d.call(http.StatusAccepted, nil, "POST", "/v1/sessions/s/runs", `{"input": "hello"}`, auth(all)...)
	for _, r := range requests(t, d, "s", "abc") {
		if len(r.scopes) == 0 {
			status, open := map[string]int{
				"/v1/keys": 200, "/healthz": 200, "/readyz": 200,
				"/.well-known/oauth-protected-resource": 404, "/.well-known/oauth-protected-resource/mcp": 404, // there is no issuer
			}[r.path]
			if !open {
				t.Errorf("%s %s is open to all", r.method, r.path)
			}
			d.call(status, nil, r.method, r.path, "")
			continue
		}
		for name, c := range map[string]struct {
			headers []string
			reason  string
		}{
			"none":       {nil, access.ReasonUnauthenticated},
			"basic":      {[]string{"Authorization", "Basic " + all}, access.ReasonUnauthenticated},
			"empty":      {[]string{"Authorization", "Bearer "}, access.ReasonUnauthenticated},
			"unknown":    {auth(gone + "x"), access.ReasonUnauthenticated},
			"in a query": {[]string{"X-Token", all}, access.ReasonUnauthenticated},
			"expired":    {auth(expired), access.ReasonExpired},
			"revoked":    {auth(revoked), access.ReasonRevoked},
		} {
			if reason := d.denied(http.StatusUnauthorized, r, c.reason, c.headers...); reason != c.reason {
				t.Errorf("%s %s, %s: %s", r.method, r.path, name, reason)
			}
			if res := d.ask(r.method, r.path, r.body, c.headers...); !strings.HasPrefix(res.Header.Get("WWW-Authenticate"), "Bearer ") {
				t.Errorf("%s %s, %s: %v", r.method, r.path, name, res.Header)
			}
		}
		for _, scope := range access.Scopes() {
			secret, _ := k.make("acme", "ann", string(scope))
			implied := scope == access.Admin && slices.Contains([]string{"read", "submit", "approve"}, r.scopes[0])
			if string(scope) != r.scopes[0] && !implied {
				if reason := d.denied(http.StatusForbidden, r, access.ReasonScope, auth(secret)...); reason != access.ReasonScope {
					t.Errorf("%s %s, %s: %s", r.method, r.path, scope, reason)
				}
				continue
			}
			if status, text := answerOf(d, r, "s", auth(secret)...); status == http.StatusUnauthorized || strings.Contains(text, `"reason":"`+access.ReasonScope) {
				t.Errorf("%s %s, %s: %d %s", r.method, r.path, scope, status, text)
			}
			if r.method == http.MethodDelete && r.ofSession { // it is there for the next ones
				d.call(http.StatusCreated, nil, "POST", "/v1/sessions", `{"agent": "talker", "id": "s"}`, auth(all)...)
				d.call(http.StatusAccepted, nil, "POST", "/v1/sessions/s/runs", `{"input": "hello"}`, auth(all)...)
			}
		}
	}
}

// To another tenant, and to another user, a session that is there answers every route
// as one that is not; and so does a token to another tenant.
func TestSessionsAreOfTheirTenant(t *testing.T) {
	k := newTokens(t)
	d := serve(t, host.Config{Access: k}, agentOf("talker", speaks([]string{"hello"}, always())))
	owner, token := k.make("the-owner", "ann", "admin")
	d.call(http.StatusCreated, nil, "POST", "/v1/sessions", `{"agent": "talker", "id": "secret"}`, auth(owner)...)
	events(t, d.ask("POST", "/v1/sessions/secret/runs?stream=event", `{"input": "hello"}`, auth(owner)...).Body, 100)
	for name, foreign := range map[string]struct{ tenant, user string }{"another tenant": {"globex", "ann"}, "another user": {"the-owner", "bob"}} {
		secret, _ := k.make(foreign.tenant, foreign.user, "admin")
		there, absent := requests(t, d, "secret", token), requests(t, d, "nobody", "0123456789ab")
		for i, r := range there {
			if !r.ofSession && (!r.ofTenant || foreign.tenant == "the-owner") {
				continue
			}
			status, text := answerOf(d, r, "secret", auth(secret)...)
			want, same := answerOf(d, absent[i], "nobody", auth(secret)...)
			text, same = strings.ReplaceAll(text, token, "TOKEN"), strings.ReplaceAll(same, "0123456789ab", "TOKEN")
			if status != http.StatusNotFound || status != want || text != same {
				t.Errorf("%s: %s %s: %d %s; of one that is not there: %d %s", name, r.method, r.path, status, text, want, same)
			}
		}
		var list struct{ Sessions []any }
		if d.call(200, &list, "GET", "/v1/sessions", "", auth(secret)...); len(list.Sessions) != 0 {
			t.Errorf("%s lists %v", name, list)
		}
		// The id is free for them, and leads to their own.
		d.call(http.StatusCreated, nil, "POST", "/v1/sessions", `{"agent": "talker", "id": "secret"}`, auth(secret)...)
		var ses struct{ Run int64 }
		if d.call(200, &ses, "GET", "/v1/sessions/secret", "", auth(secret)...); ses.Run != 0 {
			t.Errorf("%s: %+v", name, ses)
		}
	}
	var ses struct{ Run int64 }
	if d.call(200, &ses, "GET", "/v1/sessions/secret", "", auth(owner)...); ses.Run != 1 {
		t.Errorf("%+v", ses)
	}
}

// Who may act for all users of a tenant names one; nobody else may.
func TestActingForUsers(t *testing.T) {
	k := newTokens(t)
	d := serve(t, host.Config{Access: k}, agentOf("talker", speaks([]string{"hello"}, always())))
	backend, _ := k.make("acme", "backend", "read", "submit", "users")
	plain, _ := k.make("acme", "bob", "read", "submit")
	d.call(http.StatusCreated, nil, "POST", "/v1/sessions", `{"agent": "talker", "id": "s"}`, auth(backend, "X-Stile-User", "ann@example.com")...)
	d.call(200, nil, "GET", "/v1/sessions/s", "", auth(backend, "X-Stile-User", "ann@example.com")...)
	d.refused(404, messages.ErrNotFound, "GET", "/v1/sessions/s", "", auth(backend)...)
	d.refused(404, messages.ErrNotFound, "GET", "/v1/sessions/s", "", auth(backend, "X-Stile-User", "ann")...)
	if p := d.refused(403, messages.ErrDenied, "GET", "/v1/sessions/s", "", auth(plain, "X-Stile-User", "ann@example.com")...); p.Reason != access.ReasonScope {
		t.Errorf("%+v", p)
	}
	d.call(200, nil, "GET", "/v1/sessions", "", auth(plain, "X-Stile-User", "bob")...)
	if _, err := d.rt.Archive().Head(t.Context(), "acme:"+access.Part("ann@example.com")+":s"); err != nil {
		t.Error(err)
	}
}

// A host that asks who calls may listen wider, and answers to any address it has.
func TestListenWider(t *testing.T) {
	k := newTokens(t)
	secret, _ := k.make("acme", "ann", "read")
	d := serve(t, host.Config{Access: k}, agentOf("talker", speaks(nil, always())))
	d.call(200, nil, "GET", "/v1/agents", "", auth(secret, "Host", "192.0.2.1:80")...)
	d.refused(421, messages.ErrDenied, "GET", "/v1/agents", "", auth(secret, "Host", "evil.example")...)
	l, err := host.Config{Access: k}.Listen(t.Context(), "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if l, err = (&net.ListenConfig{}).Listen(t.Context(), "tcp", "0.0.0.0:0"); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	rt, err := stile.New(t.Context(), stile.Config{InMemory: true})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close(t.Context())
	srv, err := host.New(host.Config{Runtime: rt})
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Serve(t.Context(), l, time.Second); messages.CodeOf(err) != messages.ErrConfig {
		t.Errorf("a listener for everybody, without tokens: %v", err)
	}
}

// Pages of the origins that were named may ask; a browser is told so beforehand.
func TestPreflight(t *testing.T) {
	k := newTokens(t)
	secret, _ := k.make("acme", "ann", "read")
	d := serve(t, host.Config{Access: k, Origins: []string{"https://app.example"}}, agentOf("talker", speaks(nil, always())))
	res := d.ask("OPTIONS", "/v1/sessions", "", "Origin", "https://app.example", "Access-Control-Request-Method", "POST")
	if h := res.Header; res.StatusCode != 204 || h.Get("Access-Control-Allow-Origin") != "https://app.example" || !strings.Contains(h.Get("Access-Control-Allow-Headers"), "Authorization") || h.Get("Vary") != "Origin" {
		t.Errorf("%s %v", res.Status, h)
	}
	if res := d.ask("GET", "/v1/agents", "", auth(secret, "Origin", "https://app.example")...); res.StatusCode != 200 || res.Header.Get("Access-Control-Allow-Origin") != "https://app.example" {
		t.Errorf("%s %v", res.Status, res.Header)
	}
	// A client of others has headers of its own, and reads those of the answer.
	for wish, allowed := range map[string]bool{"x-stainless-os, mcp-session-id": true, "x-evil\"; x": false, strings.Repeat("x", 5000): false} {
		res = d.ask("OPTIONS", "/v1/chat/completions", "", "Origin", "https://app.example", "Access-Control-Request-Method", "PATCH", "Access-Control-Request-Headers", wish)
		if got := res.Header.Get("Access-Control-Allow-Headers"); strings.HasSuffix(got, ", "+wish) != allowed || !strings.Contains(res.Header.Get("Access-Control-Allow-Methods"), "PATCH") {
			t.Errorf("%.40s: %.200s", wish, got)
		}
	}
	for _, name := range []string{"X-Stile-Session", "X-Stile-Run", "X-Stile-Passed-Over", "Mcp-Session-Id", "Retry-After"} {
		if got := res.Header.Get("Access-Control-Expose-Headers"); !strings.Contains(got, name) {
			t.Errorf("%s is not in %s", name, got)
		}
	}
	res = d.ask("OPTIONS", "/v1/sessions", "", "Origin", "https://evil.example", "Access-Control-Request-Method", "POST")
	if res.StatusCode != 403 || res.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%s %v", res.Status, res.Header)
	}
}

// Without a file of tokens nobody is known. One that is there and cannot be read is the
// host's failure, not the caller's.
func TestTokensGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	toks, err := access.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := serve(t, host.Config{Access: toks}, agentOf("talker", speaks(nil, always())))
	unknown := func() {
		t.Helper()
		if p := d.refused(401, messages.ErrDenied, "GET", "/v1/agents", "", auth("stile_a_b")...); p.Retryable || p.Reason != access.ReasonUnauthenticated {
			t.Errorf("%+v", p)
		}
	}
	unknown()
	secret, _, err := toks.Create(access.Wish{Tenant: "t", User: "u", Scopes: []string{"read"}})
	if err != nil {
		t.Fatal(err)
	}
	d.call(200, nil, "GET", "/v1/agents", "", auth(secret)...)
	kept, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{secret, "stile_a_b"} {
		if p := d.refused(503, messages.ErrDenied, "GET", "/v1/agents", "", auth(token)...); !p.Retryable || p.Reason != access.ReasonUnavailable {
			t.Errorf("%+v", p)
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/openapi.json"} {
		d.call(200, nil, "GET", path, "")
	}
	d.refused(401, messages.ErrDenied, "GET", "/metrics", "")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	unknown()
	d.refused(401, messages.ErrDenied, "GET", "/v1/agents", "", auth(secret)...)
	if err := os.WriteFile(path, kept, 0o600); err != nil {
		t.Fatal(err)
	}
	d.call(200, nil, "GET", "/v1/agents", "", auth(secret)...)
}

// A word that allows a call needs the right to allow it, whichever way it comes.
func TestAnswerBySubmit(t *testing.T) {
	k := newTokens(t)
	d := serve(t, host.Config{Access: k}, agentOf("talker", speaks([]string{"hello"}, always())))
	submits, _ := k.make("acme", "ann", "submit")
	both, _ := k.make("acme", "ann", "submit", "approve")
	d.call(http.StatusCreated, nil, "POST", "/v1/sessions", `{"agent": "talker", "id": "s"}`, auth(both)...)
	const word = `{"input": "yes", "policy": "answer"}`
	if p := d.refused(http.StatusForbidden, messages.ErrDenied, "POST", "/v1/sessions/s/runs", word, auth(submits)...); p.Reason != access.ReasonScope {
		t.Errorf("%+v", p)
	}
	d.call(http.StatusAccepted, nil, "POST", "/v1/sessions/s/runs", word, auth(both)...)
	d.call(http.StatusAccepted, nil, "POST", "/v1/sessions/s/runs", `{"input": "yes"}`, auth(submits)...)
}
