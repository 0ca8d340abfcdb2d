package access_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/messages"
)

// provider is an issuer of JWTs with a real server for its keys.
type provider struct {
	t     *testing.T
	url   string
	c     *clock
	mu    sync.Mutex
	keys  []jose.JSONWebKey
	asked int
	down  bool
}

func newProvider(t *testing.T) *provider {
	p := &provider{t: t, c: &clock{at: start}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		json.NewEncoder(w).Encode(map[string]string{"issuer": p.url, "jwks_uri": p.url + "/keys"})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.asked++
		if p.down {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: p.keys})
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	p.url = srv.URL
	return p
}

// key makes one and publishes its public half; the others stay unless alone.
func (p *provider) key(kid string, alone bool) crypto.Signer {
	pub, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if alone {
		p.keys = nil
	}
	p.keys = append(p.keys, jose.JSONWebKey{Key: pub, KeyID: kid, Algorithm: "EdDSA", Use: "sig"})
	return priv
}

func (p *provider) fail(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
}

func (p *provider) questions() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

func (p *provider) claims(change ...any) map[string]any {
	m := map[string]any{
		"iss": p.url, "aud": "stile", "sub": "ann@example.com", "org": "acme", "scope": "openid read stile:submit",
		"exp": start.Add(time.Hour).Unix(), "iat": start.Unix(), "jti": "j1",
	}
	for i := 0; i < len(change); i += 2 {
		if m[change[i].(string)] = change[i+1]; change[i+1] == nil {
			delete(m, change[i].(string))
		}
	}
	return m
}

func sign(t *testing.T, alg jose.SignatureAlgorithm, key any, kid string, claims any) string {
	t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", kid))
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	jws, err := s.Sign(b)
	if err != nil {
		t.Fatal(err)
	}
	out, err := jws.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (p *provider) trust(change func(*access.Issuer)) access.Authenticator {
	p.t.Helper()
	cfg := access.Issuer{URL: p.url, Audience: "stile", TenantClaim: "org", Now: p.c.now}
	if change != nil {
		change(&cfg)
	}
	a, err := access.NewIssuer(cfg)
	if err != nil {
		p.t.Fatal(err)
	}
	return a
}

// A JWT is believed for its issuer, audience, time, algorithm and signature together.
func TestJWT(t *testing.T) {
	p := newProvider(t)
	key := p.key("k1", true)
	a := p.trust(nil)
	id, err := a.Authenticate(t.Context(), sign(t, jose.EdDSA, key, "k1", p.claims()))
	if err != nil || id.Tenant != "acme" || id.User != access.Part("ann@example.com") || id.Token != "jwt:j1" ||
		!slices.Equal(id.Scopes, []access.Scope{access.Read, access.Submit}) || !id.Expires.Equal(start.Add(time.Hour)) {
		t.Errorf("%+v, %v", id, err)
	}
	id, err = a.Authenticate(t.Context(), sign(t, jose.EdDSA, key, "k1", p.claims("aud", []string{"other", "stile"}, "scope", []string{"admin", "root", "operator", "stile:operator"}, "jti", nil)))
	if err != nil || !slices.Equal(id.Scopes, []access.Scope{access.Admin}) || id.Token != "jwt:"+id.User {
		t.Errorf("%+v, %v", id, err)
	}
	elliptics, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, stranger, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	good := sign(t, jose.EdDSA, key, "k1", p.claims())
	head, body, _ := strings.Cut(good, ".")
	body, sig, _ := strings.Cut(body, ".")
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`))
	for name, c := range map[string]struct{ token, reason string }{
		"issuer":           {sign(t, jose.EdDSA, key, "k1", p.claims("iss", "https://other.example")), access.ReasonUnauthenticated},
		"audience":         {sign(t, jose.EdDSA, key, "k1", p.claims("aud", "other")), access.ReasonUnauthenticated},
		"no audience":      {sign(t, jose.EdDSA, key, "k1", p.claims("aud", nil)), access.ReasonUnauthenticated},
		"expired":          {sign(t, jose.EdDSA, key, "k1", p.claims("exp", start.Add(-time.Second).Unix())), access.ReasonExpired},
		"no expiry":        {sign(t, jose.EdDSA, key, "k1", p.claims("exp", nil)), access.ReasonExpired},
		"to come":          {sign(t, jose.EdDSA, key, "k1", p.claims("nbf", start.Add(time.Hour).Unix())), access.ReasonUnauthenticated},
		"another's key":    {sign(t, jose.EdDSA, stranger, "k1", p.claims()), access.ReasonUnauthenticated},
		"unknown key":      {sign(t, jose.EdDSA, stranger, "k9", p.claims()), access.ReasonUnauthenticated},
		"other algorithm":  {sign(t, jose.ES256, elliptics, "k1", p.claims()), access.ReasonUnauthenticated},
		"shared secret":    {sign(t, jose.HS256, []byte(strings.Repeat("k", 32)), "k1", p.claims()), access.ReasonUnauthenticated},
		"no algorithm":     {none + "." + body + ".", access.ReasonUnauthenticated},
		"no signature":     {head + "." + body + ".", access.ReasonUnauthenticated},
		"changed":          {head + "." + base64.RawURLEncoding.EncodeToString([]byte(`{}`)) + "." + sig, access.ReasonUnauthenticated},
		"no tenant":        {sign(t, jose.EdDSA, key, "k1", p.claims("org", nil)), access.ReasonUnauthenticated},
		"tenant no text":   {sign(t, jose.EdDSA, key, "k1", p.claims("org", 7)), access.ReasonUnauthenticated},
		"no user":          {sign(t, jose.EdDSA, key, "k1", p.claims("sub", "")), access.ReasonUnauthenticated},
		"no claims at all": {sign(t, jose.EdDSA, key, "k1", []int{1}), access.ReasonUnauthenticated},
		"a token of ours":  {"stile_abc_def", access.ReasonUnauthenticated},
		"rubbish":          {"a.b.c", access.ReasonUnauthenticated},
		"long":             {strings.Repeat("x.", 50000), access.ReasonUnauthenticated},
	} {
		t.Run(name, func(t *testing.T) { refused(t, a, c.token, c.reason) })
	}
	own := sign(t, jose.EdDSA, key, "k1", p.claims("org", nil))
	fixed := p.trust(func(i *access.Issuer) {
		i.TenantClaim, i.Tenant, i.UserClaim, i.JWKS = "", "solo", "jti", p.url+"/keys"
	})
	if id, err := fixed.Authenticate(t.Context(), own); err != nil || id.Tenant != "solo" || id.User != "j1" {
		t.Errorf("%+v, %v", id, err)
	}
}

// New keys are found when a token names one, withdrawn ones go, and whatever tokens
// name, the issuer is asked seldom.
func TestKeysRotate(t *testing.T) {
	p := newProvider(t)
	p.c.pass(0)
	k1 := p.key("k1", true)
	a := p.trust(nil)
	good := func(key crypto.Signer, kid string) {
		t.Helper()
		if _, err := a.Authenticate(t.Context(), sign(t, jose.EdDSA, key, kid, p.claims("exp", p.c.now().Add(time.Hour).Unix()))); err != nil {
			t.Error(err)
		}
	}
	for range 50 {
		good(k1, "k1")
	}
	if n := p.questions(); n != 1 {
		t.Errorf("asked %d times for one key", n)
	}
	_, stranger, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			refused(t, a, sign(t, jose.EdDSA, stranger, "k"+strings.Repeat("x", i), p.claims()), access.ReasonUnauthenticated)
		})
	}
	wg.Wait()
	if n := p.questions(); n != 1 {
		t.Errorf("forged tokens had the issuer asked %d times", n)
	}
	p.c.pass(6 * time.Second)
	k2 := p.key("k2", true)
	good(k2, "k2")
	refused(t, a, sign(t, jose.EdDSA, k1, "k1", p.claims()), access.ReasonUnauthenticated)
	// An issuer that is down changes nothing for a while.
	p.fail(true)
	p.c.pass(11 * time.Minute)
	good(k2, "k2")
	p.c.pass(23 * time.Hour)
	good(k2, "k2")
	p.c.pass(2 * time.Hour)
	refused(t, a, sign(t, jose.EdDSA, k2, "k2", p.claims("exp", p.c.now().Add(time.Hour).Unix())), access.ReasonUnavailable)
	p.fail(false)
	p.c.pass(6 * time.Second)
	good(k2, "k2")
}

// An issuer that cannot be reached at the start is no reason to stay down.
func TestIssuerDown(t *testing.T) {
	p := newProvider(t)
	key := p.key("k1", true)
	p.fail(true)
	a := p.trust(nil)
	token := sign(t, jose.EdDSA, key, "k1", p.claims())
	refused(t, a, token, access.ReasonUnavailable)
	p.fail(false)
	refused(t, a, token, access.ReasonUnavailable) // it was asked a moment ago
	p.c.pass(6 * time.Second)
	if _, err := a.Authenticate(t.Context(), token); err != nil {
		t.Error(err)
	}
}

// A token is judged by its kind, its client, its time and the length of the key as well.
func TestJWTKinds(t *testing.T) {
	p := newProvider(t)
	key := p.key("k1", true)
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	long, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p.keys = append(p.keys, jose.JSONWebKey{Key: &short.PublicKey, KeyID: "short", Use: "sig"}, jose.JSONWebKey{Key: &long.PublicKey, KeyID: "long", Use: "sig"})
	a := p.trust(func(i *access.Issuer) { i.Clients = []string{"shop"} })
	of := func(typ any, claims map[string]any) string {
		t.Helper()
		opts := (&jose.SignerOptions{}).WithHeader("kid", "k1")
		if typ != nil {
			opts = opts.WithHeader("typ", typ)
		}
		s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: key}, opts)
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(claims)
		if err != nil {
			t.Fatal(err)
		}
		jws, err := s.Sign(b)
		if err != nil {
			t.Fatal(err)
		}
		out, err := jws.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for name, token := range map[string]string{
		"no kind":          of(nil, p.claims()),
		"JWT":              of("JWT", p.claims()),
		"at+jwt":           of("at+JWT", p.claims()),
		"application":      of("application/at+jwt", p.claims()),
		"client":           of(nil, p.claims("azp", "shop")),
		"itself":           of(nil, p.claims("azp", "stile")),
		"a clock ahead":    of(nil, p.claims("iat", start.Add(4*time.Minute).Unix())),
		"no time of birth": of(nil, p.claims("iat", nil)),
		"2048 bits":        sign(t, jose.RS256, long, "long", p.claims()),
	} {
		if _, err := a.Authenticate(t.Context(), token); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, token := range map[string]string{
		"logout+jwt":     of("logout+jwt", p.claims()),
		"dpop+jwt":       of("dpop+jwt", p.claims()),
		"empty":          of("", p.claims()),
		"a number":       of(7, p.claims()),
		"another client": of(nil, p.claims("azp", "elsewhere")),
		"empty client":   of(nil, p.claims("azp", "")),
		"client no text": of(nil, p.claims("azp", []string{"shop"})),
		"in the future":  of(nil, p.claims("iat", start.Add(6*time.Minute).Unix())),
		"1024 bits":      sign(t, jose.RS256, short, "short", p.claims()),
	} {
		t.Run(name, func(t *testing.T) { refused(t, a, token, access.ReasonUnauthenticated) })
	}
}

func TestIssuerSettings(t *testing.T) {
	good := access.Issuer{URL: "https://id.example", Audience: "stile", Tenant: "acme"}
	if _, err := access.NewIssuer(good); err != nil {
		t.Fatal(err)
	}
	hashed := good
	hashed.Tenant = access.Part("somebody's tenant")
	if a, err := access.NewIssuer(hashed); err != nil || a == nil {
		t.Errorf("a tenant as tokens have it: %v, %v", a, err)
	}
	for field, change := range map[string]func(*access.Issuer){
		"issuer":     func(i *access.Issuer) { i.URL = "http://id.example" },
		"issuer2":    func(i *access.Issuer) { i.URL = "id.example" },
		"jwks":       func(i *access.Issuer) { i.JWKS = "http://id.example/keys" },
		"audience":   func(i *access.Issuer) { i.Audience = "" },
		"tenant":     func(i *access.Issuer) { i.Tenant = "" },
		"tenant2":    func(i *access.Issuer) { i.TenantClaim = "org" },
		"tenant3":    func(i *access.Issuer) { i.Tenant = "a:b" },
		"clients":    func(i *access.Issuer) { i.Clients = []string{"shop", ""} },
		"algorithms": func(i *access.Issuer) { i.Algorithms = []string{"HS256"} },
	} {
		cfg := good
		change(&cfg)
		_, err := access.NewIssuer(cfg)
		var e *messages.Error
		if !errors.As(err, &e) || e.Code != messages.ErrConfig || e.Field != strings.TrimRight(field, "23") {
			t.Errorf("%s: %v", field, err)
		}
	}
}
