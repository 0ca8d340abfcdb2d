package access

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/seed14be6753/stile/messages"
)

// Issuer says whose JWTs to believe, and what they mean.
type Issuer struct {
	// URL is the iss of the tokens. Without JWKS the issuer is asked where its keys are
	// (OpenID Connect Discovery), when the first token comes.
	URL      string
	Audience string // the aud that tokens for this host have
	JWKS     string // where the issuer's keys are
	// TenantClaim names the claim that says the tenant; Tenant is the one of all
	// tokens. One of both is set.
	TenantClaim, Tenant string
	// UserClaim says the user; "" is sub. ScopesClaim says the scopes, as a list or as
	// words; "" is scope. Others' scopes are passed over.
	UserClaim, ScopesClaim string
	// Clients are those of the issuer that tokens may have been made for, beside Audience:
	// the azp of a token that has one.
	Clients []string
	// Algorithms of signatures; none is RS256, ES256 and EdDSA. Those with shared
	// secrets are refused.
	Algorithms []string

	Now       func() time.Time  // nil is the clock
	Transport http.RoundTripper // nil is the default
}

// clockSkew is how far the issuer's clock may be ahead, as nbf is taken.
const clockSkew = 5 * time.Minute

// signing are the algorithms a JWT may have.
var signing = []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA}

type issuer struct {
	cfg      Issuer
	verifier *oidc.IDTokenVerifier
	keys     *keySet
}

// NewIssuer makes an authenticator of JWTs. It does not ask the issuer yet: a host must not
// stay down because the issuer is. Errors are ERR_CONFIG and name the member.
func NewIssuer(cfg Issuer) (Authenticator, error) {
	wrong := func(field, detail string) error {
		return &messages.Error{Code: messages.ErrConfig, Field: field, Detail: detail}
	}
	for _, u := range []struct{ field, url string }{{"issuer", cfg.URL}, {"jwks", cfg.JWKS}} {
		if u.url == "" && u.field == "jwks" {
			continue
		}
		if !trustworthy(u.url) {
			return nil, wrong(u.field, "want an https address; http is for loopback alone")
		}
	}
	switch {
	case cfg.Audience == "":
		return nil, wrong("audience", "is missing: a token for another service would be believed here")
	case (cfg.Tenant == "") == (cfg.TenantClaim == ""):
		return nil, wrong("tenant", "want either the tenant, or the claim that says it")
	case cfg.Tenant != "" && !kept(cfg.Tenant):
		return nil, wrong("tenant", wantPart)
	}
	if slices.Contains(cfg.Clients, "") {
		return nil, wrong("clients", "one is empty")
	}
	for _, a := range cfg.Algorithms {
		if !slices.Contains(signing, a) {
			return nil, wrong("algorithms", "want some of "+strings.Join(signing, ", "))
		}
	}
	if cfg.Algorithms == nil {
		cfg.Algorithms = []string{oidc.RS256, oidc.ES256, oidc.EdDSA}
	}
	cfg.UserClaim, cfg.ScopesClaim = cmp.Or(cfg.UserClaim, "sub"), cmp.Or(cfg.ScopesClaim, "scope")
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	i := &issuer{cfg: cfg, keys: newKeySet(cfg)}
	i.verifier = oidc.NewVerifier(cfg.URL, i.keys, &oidc.Config{ClientID: cfg.Audience, SupportedSigningAlgs: cfg.Algorithms, Now: cfg.Now})
	return i, nil
}

func trustworthy(addr string) bool {
	u, err := url.Parse(addr)
	if err != nil || u.Host == "" || u.User != nil {
		return false
	}
	ip, _ := netip.ParseAddr(u.Hostname())
	return u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || ip.IsLoopback())
}

// Authenticate implements Authenticator.
func (i *issuer) Authenticate(ctx context.Context, bearer string) (Identity, error) {
	if len(bearer) > MaxBearerBytes || strings.Count(bearer, ".") != 2 {
		return Identity{}, unknown()
	}
	tok, err := i.verifier.Verify(ctx, bearer)
	var expired *oidc.TokenExpiredError
	switch {
	case errors.As(err, &expired):
		return Identity{}, Denied(ReasonExpired, "the token has expired")
	case err != nil && ctx.Err() != nil:
		return Identity{}, ctx.Err()
	case err != nil && i.keys.silent():
		return Identity{}, &messages.Error{Code: messages.ErrDenied, Reason: ReasonUnavailable, Field: "Authorization", Detail: "the issuer's keys cannot be had", Cause: err}
	case err != nil:
		return Identity{}, unknown()
	}
	var claims map[string]json.RawMessage
	if err := tok.Claims(&claims); err != nil {
		return Identity{}, unknown()
	}
	if raw, there := claims["azp"]; there {
		if client, ok := text(raw); !ok || client != i.cfg.Audience && !slices.Contains(i.cfg.Clients, client) {
			return Identity{}, Denied(ReasonUnauthenticated, "the token was made for another client")
		}
	}
	if tok.IssuedAt.Sub(i.cfg.Now()) > clockSkew {
		return Identity{}, Denied(ReasonUnauthenticated, "the token was made in the future: a clock is wrong")
	}
	id := Identity{Tenant: i.cfg.Tenant, Expires: tok.Expiry, Scopes: scopesOf(claims[i.cfg.ScopesClaim])}
	if i.cfg.TenantClaim != "" {
		name, ok := text(claims[i.cfg.TenantClaim])
		if !ok {
			return Identity{}, Denied(ReasonUnauthenticated, "the token names no tenant")
		}
		id.Tenant = Part(name)
	}
	user, ok := text(claims[i.cfg.UserClaim])
	if !ok {
		return Identity{}, Denied(ReasonUnauthenticated, "the token names no user")
	}
	id.User = Part(user)
	id.Token = "jwt:" + id.User
	if jti, ok := text(claims["jti"]); ok {
		id.Token = "jwt:" + Part(jti)
	}
	return id, nil
}

func text(raw json.RawMessage) (s string, ok bool) {
	return s, json.Unmarshal(raw, &s) == nil && s != ""
}

// scopesOf reads a claim that is a list or words. Operator is not an issuer's to give.
func scopesOf(raw json.RawMessage) (out []Scope) {
	var names []string
	if words, ok := text(raw); ok {
		names = strings.Fields(words)
	} else if json.Unmarshal(raw, &names) != nil {
		return nil
	}
	for _, s := range Scopes() {
		if s == Operator {
			continue
		}
		if slices.Contains(names, string(s)) || slices.Contains(names, "stile:"+string(s)) {
			out = append(out, s)
		}
	}
	return out
}

// noRedirects makes a client that goes where it was sent and nowhere else.
func noRedirects(rt http.RoundTripper) *http.Client {
	if rt == nil {
		d := net.Dialer{Timeout: askTimeout}
		rt = &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: d.DialContext, ForceAttemptHTTP2: true, TLSHandshakeTimeout: askTimeout, DisableKeepAlives: true}
	}
	return &http.Client{Transport: rt, Timeout: askTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}
