package host

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/messages"
)

// principal is who asks, and for which user of the tenant. Sessions are looked up under
// both, so that a name of another user's session means nothing here.
type principal struct {
	tenant, user string
	identity     access.Identity
	scope        access.Scope // what the route asks for
	bearer       string       // to ask again whether it is still good; "" on a local host
}

func (p principal) sid(id string) string { return p.tenant + ":" + p.user + ":" + id }

type principalKey struct{}

// principal is the caller of the request that ctx belongs to. Every request that gets
// behind the guard has one; a context of another origin gives no user, whose
// sessions cannot exist.
func (s *Server) principal(ctx context.Context) principal {
	p, _ := ctx.Value(principalKey{}).(principal)
	return p
}

// knownAs is the caller of a request that went through enter; of a public one there is
// none.
func knownAs(r *http.Request) (principal, bool) {
	if r == nil {
		return principal{}, false
	}
	p, ok := r.Context().Value(principalKey{}).(principal)
	return p, ok
}

// public are the routes that need no token: they tell nothing of anybody.
const public access.Scope = "public"

// userHeader names the user that a request is about, for who may act for all of a tenant.
const userHeader = "X-Stile-User"

// needs says what scope a route asks for. A route that has none in the table asks for the
// most.
func (s *Server) needs(pattern string) access.Scope {
	if scope, ok := s.scopes[pattern]; ok {
		return scope
	}
	return access.Admin
}

// require says what the routes of a pattern of the mux ask for.
func (s *Server) require(scope access.Scope, patterns ...string) {
	for _, p := range patterns {
		s.scopes[p] = scope
	}
}

// enter finds out who asks, and whether they may. With an error the request is nil unless
// it is known who asked.
func (s *Server) enter(r *http.Request, pattern string) (*http.Request, error) {
	scope := s.needs(pattern)
	if forPeer(r, pattern) {
		scope = access.Feeds
	}
	if scope == public {
		return r, nil
	}
	p := principal{identity: s.local, scope: scope}
	if s.cfg.Access != nil {
		p.bearer = bearer(r)
		if p.bearer == "" {
			return nil, access.Denied(access.ReasonUnauthenticated, "a token is missing: Authorization: Bearer …")
		}
		var err error
		if p.identity, err = s.cfg.Access.Authenticate(r.Context(), p.bearer); err != nil {
			return nil, err
		}
	}
	p.tenant, p.user = p.identity.Tenant, p.identity.User
	var err error
	if as := r.Header.Get(userHeader); as != "" && as != p.user {
		if p.identity.May(access.Users) {
			p.user = access.Part(as)
		} else {
			err = access.Denied(access.ReasonScope, "the token lacks the scope users, and names no other user than its own")
		}
	}
	if !p.identity.May(scope) {
		err = access.Denied(access.ReasonScope, "the token lacks the scope "+string(scope))
	}
	return r.WithContext(context.WithValue(r.Context(), principalKey{}, p)), err
}

// socketToken begins the member of Sec-WebSocket-Protocol that carries a token: a page
// can give a WebSocket no other header.
const socketToken = "stile.bearer."

// bearer is the token that a request carries; "" when there is none.
func bearer(r *http.Request) string {
	if kind, token, _ := strings.Cut(r.Header.Get("Authorization"), " "); strings.EqualFold(kind, "Bearer") {
		return strings.TrimSpace(token)
	}
	if strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		for offered := range strings.SplitSeq(strings.Join(r.Header.Values("Sec-WebSocket-Protocol"), ","), ",") {
			if token, ok := strings.CutPrefix(strings.TrimSpace(offered), socketToken); ok {
				return token
			}
		}
	}
	return ""
}

// unauthorized makes a refusal of a caller what HTTP has for it.
func unauthorized(p *problem, e *messages.Error) {
	switch e.Reason {
	case access.ReasonUnauthenticated:
		p.Status, p.challenge = http.StatusUnauthorized, `Bearer realm="stile"`
	case access.ReasonExpired, access.ReasonRevoked:
		p.Status, p.challenge = http.StatusUnauthorized, `Bearer realm="stile", error="invalid_token", error_description="`+e.Detail+`"`
	case access.ReasonScope:
		p.challenge = `Bearer realm="stile", error="insufficient_scope"`
	case access.ReasonUnavailable:
		p.Status, p.Retryable, p.retryAfter = http.StatusServiceUnavailable, true, 5*time.Second
	}
}

// refuse answers a request that does not get behind the guard.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	err = orLost(r.Context(), err)
	if errors.Is(err, context.Canceled) { // the client is gone
		w.WriteHeader(statusHungUp)
		return
	}
	if isOpenAI(r) {
		s.refuseChat(w, r, err)
		return
	}
	p := problemOf(err)
	s.refused(r.Context(), p)
	if p.Status >= http.StatusInternalServerError {
		s.log.Error("callers cannot be told apart", zap.String("path", r.URL.Path), zap.Error(err))
	}
	write(w, p)
}

// secure says in the description what an operation asks for.
func (s *Server) secure(op *huma.Operation) {
	scope := access.Submit
	switch {
	case op.Metadata[scopeKey] != nil:
		scope = op.Metadata[scopeKey].(access.Scope)
	case op.Method == http.MethodGet:
		scope = access.Read
	}
	s.require(scope, op.Method+" "+op.Path)
	if scope == public {
		op.Security = []map[string][]string{{}}
		return
	}
	op.Security = []map[string][]string{{"bearer": {string(scope)}}}
	if s.cfg.Access == nil {
		op.Security = append(op.Security, map[string][]string{})
	}
	op.Parameters = append(op.Parameters, &huma.Param{
		Name: userHeader, In: "header", Description: "the user of the tenant that the request is about, for tokens with the scope users; the token's own when it is left out",
		Schema: &huma.Schema{Type: huma.TypeString},
	})
}

const scopeKey = "scope"

// asks sets the scope of an operation that is not what its method says.
func asks(scope access.Scope, op huma.Operation) huma.Operation {
	op.Metadata = map[string]any{scopeKey: scope}
	return op
}

// schemes describes how callers say who they are.
func schemes(cfg *huma.Config) {
	names := make([]string, 0, 8)
	for _, sc := range access.Scopes() {
		names = append(names, string(sc))
	}
	cfg.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"bearer": {
		Type: "http", Scheme: "bearer", BearerFormat: access.Prefix + "… or a JWT of the configured issuer",
		Description: "What each operation names is the scope its token needs: " + strings.Join(names, ", ") + "; admin has read, submit and approve in it.",
	}}
}

// isHeaderList reports whether a text is a list of names of headers, and no long one.
func isHeaderList(s string) bool {
	return s != "" && len(s) <= 4096 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_, ") == ""
}

// preflight answers a browser's question whether a page of another origin may ask, and
// says so in answers to it.
func (s *Server) preflight(w http.ResponseWriter, r *http.Request) (answered bool) {
	origin := r.Header.Get("Origin")
	if origin == "" || !s.offer.Load().origins[strings.ToLower(origin)] {
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Expose-Headers", "Retry-After, WWW-Authenticate, X-Request-Id, X-Should-Retry, "+sessionHeader+", "+runHeader+", "+overHeader+", Mcp-Session-Id, Mcp-Protocol-Version")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "DELETE, GET, PATCH, POST")
	allowed := "Authorization, Content-Type, " + keyHeader + ", Last-Event-ID, " + userHeader + ", " + sessionHeader
	if wish := r.Header.Get("Access-Control-Request-Headers"); isHeaderList(wish) {
		// The page is trusted with the caller's token, and the clients of others have headers of
		// their own, which change from version to version.
		allowed += ", " + wish
	}
	h.Set("Access-Control-Allow-Headers", allowed)
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}
