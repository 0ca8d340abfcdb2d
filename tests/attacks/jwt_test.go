package attacks

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed14be6753/stile/host/access"
)

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// issuer is a real one on loopback, with a key of each kind that hosts believe unless
// something else is said.
type issuer struct {
	url   string
	ed    ed25519.PrivateKey
	ec    *ecdsa.PrivateKey
	asked atomic.Int64
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	p := &issuer{}
	var err error
	if _, p.ed, err = ed25519.GenerateKey(rand.Reader); err != nil {
		t.Fatal(err)
	}
	if p.ec, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	point, err := p.ec.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(out http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(out).Encode(map[string]string{"issuer": p.url, "jwks_uri": p.url + "/keys"})
	})
	mux.HandleFunc("GET /keys", func(out http.ResponseWriter, _ *http.Request) {
		p.asked.Add(1)
		_ = json.NewEncoder(out).Encode(map[string]any{"keys": []any{
			map[string]string{"kty": "OKP", "crv": "Ed25519", "kid": "ed", "alg": "EdDSA", "use": "sig", "x": b64(p.ed.Public().(ed25519.PublicKey))},
			map[string]string{"kty": "EC", "crv": "P-256", "kid": "ec", "alg": "ES256", "use": "sig", "x": b64(point[1:33]), "y": b64(point[33:])},
		}})
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	p.url = srv.URL
	return p
}

func (p *issuer) trust(t *testing.T) access.Authenticator {
	t.Helper()
	a, err := access.NewIssuer(access.Issuer{URL: p.url, Audience: "stile", TenantClaim: "org"})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// claims are those of ann, as an honest issuer has them; change is name, value, and nil takes
// one away.
func (p *issuer) claims(change ...any) string {
	now := time.Now().Unix()
	m := map[string]any{"iss": p.url, "aud": "stile", "sub": "ann", "org": "acme", "scope": "read", "exp": now + 3600, "iat": now, "jti": "j"}
	for i := 0; i+1 < len(change); i += 2 {
		if m[change[i].(string)] = change[i+1]; change[i+1] == nil {
			delete(m, change[i].(string))
		}
	}
	return pretty(m)
}

// signed is a JWT by a key: Ed25519, or HMAC with a secret, or a signature as it is given.
func signed(header, claims string, key any) string {
	text := b64([]byte(header)) + "." + b64([]byte(claims))
	switch k := key.(type) {
	case ed25519.PrivateKey:
		return text + "." + b64(ed25519.Sign(k, []byte(text)))
	case *ecdsa.PrivateKey:
		sum := sha256.Sum256([]byte(text))
		r, s, err := ecdsa.Sign(rand.Reader, k, sum[:])
		if err != nil {
			panic(err) // of this machine's randomness
		}
		sig := make([]byte, 64)
		r.FillBytes(sig[:32])
		s.FillBytes(sig[32:])
		return text + "." + b64(sig)
	case []byte:
		m := hmac.New(sha256.New, k)
		m.Write([]byte(text))
		return text + "." + b64(m.Sum(nil))
	case string:
		return text + "." + k
	}
	panic("no such key")
}

// jwtRows forge tokens of ann's, against the host that believes the issuer.
func jwtRows(w *world) (rows []row) {
	p := w.issuer
	good := signed(`{"alg":"EdDSA","kid":"ed"}`, p.claims(), p.ed)
	if a, err := w.ask("", "GET", "/v1/sessions/secret", "", "Authorization", "Bearer "+good); err != nil || a.status != 200 {
		w.t.Fatalf("an honest JWT: %s, %v", a, err)
	}
	head, rest, _ := strings.Cut(good, ".")
	body, sig, _ := strings.Cut(rest, ".")
	_, stranger, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		w.t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(p.ec.Public())
	if err != nil {
		w.t.Fatal(err)
	}
	public := []byte(p.ed.Public().(ed25519.PublicKey))
	armour := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	mine := `{"kty":"OKP","crv":"Ed25519","x":"` + b64(stranger.Public().(ed25519.PublicKey)) + `"}`
	eddsa := func(members string) string { return `{"alg":"EdDSA","kid":"ed"` + members + `}` }
	now := time.Now().Unix()
	forged := map[string]string{
		"a stranger's key": signed(eddsa(""), p.claims(), stranger), "its key in the head": signed(eddsa(`,"jwk":`+mine), p.claims(), stranger), "its key alone in the head": signed(`{"alg":"EdDSA","jwk":`+mine+`}`, p.claims(), stranger),
		"its keys by address": signed(eddsa(`,"jku":"https://evil.example/keys"`), p.claims(), stranger), "its certificate by address": signed(eddsa(`,"x5u":"https://evil.example/c"`), p.claims(), stranger), "its certificate": signed(eddsa(`,"x5c":["MIIB"]`), p.claims(), stranger),
		"a kid that is a path": signed(`{"alg":"EdDSA","kid":"../../../dev/null"}`, p.claims(), stranger), "a kid that is SQL": signed(`{"alg":"EdDSA","kid":"x' UNION SELECT 'k"}`, p.claims(), stranger), "an empty kid": signed(`{"alg":"EdDSA","kid":""}`, p.claims(), stranger), "no kid": signed(`{"alg":"EdDSA"}`, p.claims(), stranger),
		"a kid that is null": signed(`{"alg":"EdDSA","kid":null}`, p.claims(), stranger), "a kid that is a number": signed(`{"alg":"EdDSA","kid":7}`, p.claims(), stranger), "a kid that is a list": signed(`{"alg":"EdDSA","kid":["ed"]}`, p.claims(), p.ed), "the other's kid": signed(`{"alg":"EdDSA","kid":"ec"}`, p.claims(), p.ed),
		"a secret: the PEM": signed(`{"alg":"HS256","kid":"ec"}`, p.claims(), armour), "a secret: the DER": signed(`{"alg":"HS256","kid":"ec"}`, p.claims(), der), "a secret: the bytes": signed(`{"alg":"HS256","kid":"ed"}`, p.claims(), public), "a secret: the text": signed(`{"alg":"HS256","kid":"ed"}`, p.claims(), []byte(b64(public))), "an empty secret": signed(`{"alg":"HS256","kid":"ed"}`, p.claims(), []byte{}),
		"ECDSA of zeros": signed(`{"alg":"ES256","kid":"ec"}`, p.claims(), b64(make([]byte, 64))), "ECDSA of nothing": signed(`{"alg":"ES256","kid":"ec"}`, p.claims(), ""), "ECDSA as DER": signed(`{"alg":"ES256","kid":"ec"}`, p.claims(), b64([]byte{0x30, 0x06, 0x02, 0x01, 0x00, 0x02, 0x01, 0x00})), "Ed25519 of zeros": signed(eddsa(""), p.claims(), b64(make([]byte, 64))),
		"another algorithm of the key": signed(`{"alg":"ES384","kid":"ec"}`, p.claims(), p.ec), "RSA by name": signed(`{"alg":"RS256","kid":"ec"}`, p.claims(), p.ec), "an algorithm in small letters": signed(`{"alg":"eddsa","kid":"ed"}`, p.claims(), p.ed), "an algorithm with a blank": signed(`{"alg":"EdDSA ","kid":"ed"}`, p.claims(), p.ed), "no algorithm": signed(`{"kid":"ed"}`, p.claims(), p.ed), "two algorithms": signed(`{"alg":"EdDSA","alg":"none","kid":"ed"}`, p.claims(), ""),
		"a critical extension": signed(eddsa(`,"crit":["exp"]`), p.claims(), p.ed), "a body as it is": signed(eddsa(`,"b64":false,"crit":["b64"]`), p.claims(), p.ed), "packed": signed(eddsa(`,"zip":"DEF"`), p.claims(), stranger), "a head that is a list": signed(`["EdDSA"]`, p.claims(), p.ed), "a head of rubbish": signed(`{`, p.claims(), p.ed),
		"expired": signed(eddsa(""), p.claims("exp", now-120), p.ed), "for ever": signed(eddsa(""), p.claims("exp", nil), p.ed), "an end that is text": signed(eddsa(""), p.claims("exp", "never"), p.ed), "an end of 0": signed(eddsa(""), p.claims("exp", 0), p.ed), "an end below zero": signed(eddsa(""), p.claims("exp", -1), p.ed), "an end that is null and none": signed(eddsa(""), strings.Replace(p.claims("exp", 1), `"exp":1`, `"exp":null`, 1), p.ed),
		"made in time to come": signed(eddsa(""), p.claims("iat", now+7200), p.ed), "of another type": signed(eddsa(`,"typ":"logout+jwt"`), p.claims(), p.ed), "of a type of its own": signed(eddsa(`,"typ":"x"`), p.claims(), p.ed), "for another client": signed(eddsa(""), p.claims("azp", "other"), p.ed), "for two services, by another client": signed(eddsa(""), p.claims("aud", []string{"stile", "other"}, "azp", "other"), p.ed),
		"not yet": signed(eddsa(""), p.claims("nbf", now+3600), p.ed), "another issuer": signed(eddsa(""), p.claims("iss", "https://evil.example"), p.ed), "the issuer with a slash": signed(eddsa(""), p.claims("iss", p.url+"/"), p.ed), "the issuer in capitals": signed(eddsa(""), p.claims("iss", strings.ToUpper(p.url)), p.ed), "no issuer": signed(eddsa(""), p.claims("iss", nil), p.ed), "two issuers": signed(eddsa(""), p.claims("iss", []string{p.url}), p.ed),
		"another audience": signed(eddsa(""), p.claims("aud", "other"), p.ed), "no audience": signed(eddsa(""), p.claims("aud", nil), p.ed), "an audience in capitals": signed(eddsa(""), p.claims("aud", "STILE"), p.ed), "an audience with more": signed(eddsa(""), p.claims("aud", "stile.evil.example"), p.ed), "no audience in a list": signed(eddsa(""), p.claims("aud", []string{}), p.ed), "an audience that is a map": signed(eddsa(""), p.claims("aud", map[string]bool{"stile": true}), p.ed),
		"no user": signed(eddsa(""), p.claims("sub", nil), p.ed), "an empty user": signed(eddsa(""), p.claims("sub", ""), p.ed), "a user that is a list": signed(eddsa(""), p.claims("sub", []string{"ann"}), p.ed), "no tenant": signed(eddsa(""), p.claims("org", nil), p.ed), "an empty tenant": signed(eddsa(""), p.claims("org", ""), p.ed), "a tenant that is a number": signed(eddsa(""), p.claims("org", 7), p.ed), "a tenant that is a list": signed(eddsa(""), p.claims("org", []string{"acme"}), p.ed),
		"claims that are a list": signed(eddsa(""), `[]`, p.ed), "claims that are null": signed(eddsa(""), `null`, p.ed), "no claims": signed(eddsa(""), ``, p.ed), "claims of rubbish": signed(eddsa(""), `{"iss":`, p.ed),
		"other claims under its signature": head + "." + b64([]byte(p.claims("scope", "admin"))) + "." + sig, "another head over its signature": b64([]byte(`{"alg":"EdDSA","kid":"ed","x":1}`)) + "." + body + "." + sig, "no signature": head + "." + body + ".", "two parts": head + "." + body, "four parts": good + ".x", "a part of the signature": good[:len(good)-4], "a signature with more": good + "AAAA",
		"JSON": `{"payload":"` + body + `","protected":"` + head + `","signature":"` + sig + `"}`, "encrypted": head + "..." + body + "." + sig, "padded": head + "=." + body + "." + sig, "the other alphabet": strings.NewReplacer("-", "+", "_", "/").Replace(good) + "+",
	}
	for _, none := range []string{"none", "None", "NONE", "nOnE", ""} {
		forged["the algorithm "+none+" without a signature"] = signed(`{"alg":"`+none+`","kid":"ed"}`, p.claims(), "")
		forged["the algorithm "+none+" with one"] = signed(`{"alg":"`+none+`","kid":"ed"}`, p.claims(), sig)
	}
	for what, token := range forged {
		rows = append(rows, row{class: "JWT", by: byIssuer, tries: what, holds: "401, and nothing of ann's", attack: func() error {
			a, err := w.ask("", "GET", "/v1/sessions/secret", "", "Authorization", "Bearer "+token)
			if err != nil || a.status != http.StatusUnauthorized {
				return errf("%s, %v", a, err)
			}
			return w.leaks(a.body)
		}})
	}
	// What an honest issuer says of others leads to none of ann's sessions.
	for what, claims := range map[string]string{
		"a tenant with a colon": p.claims("org", "acme:ann", "sub", "x"), "a tenant with a blank": p.claims("org", "acme "), "a tenant in capitals": p.claims("org", "ACME"), "a tenant with NUL": p.claims("org", "acme\x00"), "a tenant with a path": p.claims("org", "evil/../acme"), "a tenant in full width": p.claims("org", "ａｃｍｅ"), "a tenant like a hash": p.claims("org", access.Part("acme ")),
		"a user with a colon": p.claims("sub", "ann:secret"), "a user in capitals": p.claims("sub", "ANN"), "a user with a blank": p.claims("sub", " ann"), "a user with a point": p.claims("sub", "ann."), "a user like a hash": p.claims("sub", access.Part("ann@example.com")), "a user with a hyphen that is soft": p.claims("sub", "an\u00adn"), "a user that is long": p.claims("sub", "ann"+strings.Repeat(" ", 3000)),
		"no scope": p.claims("scope", nil), "a scope of others": p.claims("scope", "openid profile"), "a scope in capitals": p.claims("scope", "READ"), "scopes in one word": p.claims("scope", "read,submit"), "a scope that is a map": p.claims("scope", map[string]bool{"read": true}), "a scope with a prefix": p.claims("scope", "other:read"),
	} {
		rows = append(rows, row{class: "JWT", by: byToken, tries: "honest, of " + what, holds: "nothing of ann's", attack: w.refused("", "GET", "/v1/sessions/secret", "", "Authorization", "Bearer "+signed(eddsa(""), claims, p.ed))})
	}
	return append(rows, row{class: "JWT", by: byIssuer, tries: "100 unknown keys", holds: "the issuer is asked seldom", attack: func() error {
		for i := range 100 {
			if _, err := w.ask("", "GET", "/v1/agents", "", "Authorization", "Bearer "+signed(`{"alg":"EdDSA","kid":"k`+strings.Repeat("x", i)+`"}`, p.claims(), stranger)); err != nil {
				return err
			}
		}
		if n := p.asked.Load(); n > 12 {
			return errf("asked %d times", n)
		}
		return nil
	}})
}
