package access_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/messages"
)

// answers is an issuer that gives these bytes for its keys.
type answers []byte

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Request: r, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(a))}, nil
}

// fuzzedKey is the same in every run, so that seeds stay what they are.
func fuzzedKey(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

func rawKey(k ed25519.PrivateKey) string {
	return base64.RawURLEncoding.EncodeToString(k.Public().(ed25519.PublicKey))
}

// signedBytes is a JWT of claims that need be no JSON.
func signedBytes(k ed25519.PrivateKey, claims []byte) string {
	text := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"EdDSA","kid":"k"}`)) + "." + base64.RawURLEncoding.EncodeToString(claims)
	return text + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(k, []byte(text)))
}

func believing(f *testing.F, jwks []byte) access.Authenticator {
	a, err := access.NewIssuer(access.Issuer{URL: "https://id.example", JWKS: "https://id.example/keys", Audience: "stile", TenantClaim: "org", Now: func() time.Time { return start }, Transport: answers(jwks)})
	if err != nil {
		f.Fatal(err)
	}
	return a
}

// FuzzClaims: whatever an issuer signs, who is let in is named by the claims as any reader
// of JSON reads them, is a part of a SID, has no scope that is not said, and comes in time.
func FuzzClaims(f *testing.F) {
	for _, s := range []string{
		`{"iss":"https://id.example","aud":"stile","sub":"ann","org":"acme","scope":"read stile:submit openid","exp":1999999999,"jti":"j"}`, `{"iss":"https://id.example","aud":["x","stile"],"sub":"ann@example.com","org":"acme:ann","scope":["admin"],"exp":1999999999.5}`,
		`{"iss":"https://id.example","aud":"stile","sub":"a\u0000b","org":"h-x","scope":{"read":true},"exp":"x"}`, `{"iss":"https://id.example","aud":"stile","sub":"ann","sub":"eve","org":"acme","ORG":"evil","exp":1999999999}`, `{"iss":"https://id.example","aud":"stile","sub":"ann","org":"acme","exp":1e400}`,
		`{"iss":"https://id.example","aud":"stile","sub":"ann","org":"acme","exp":1999999999,"nbf":9999999999}`, `[]`, `null`, ``, `{"iss":"https://id.example","aud":"stile","sub":"\ud800","org":"\u202e","exp":1999999999,"scope":"READ"}`,
	} {
		f.Add([]byte(s))
	}
	key := fuzzedKey(1)
	a := believing(f, []byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","alg":"EdDSA","x":"`+rawKey(key)+`"}]}`))
	honest := []byte(`{"iss":"https://id.example","aud":"stile","sub":"ann","org":"acme","exp":1999999999}`)
	if _, err := a.Authenticate(f.Context(), signedBytes(key, honest)); err != nil {
		f.Fatal(err) // else nothing is judged below
	}
	f.Fuzz(func(t *testing.T, claims []byte) {
		id, err := a.Authenticate(context.Background(), signedBytes(key, claims))
		if err != nil {
			if messages.CodeOf(err) != messages.ErrDenied {
				t.Fatalf("%v", err)
			}
			return
		}
		var said map[string]any
		if err := json.Unmarshal(claims, &said); err != nil {
			t.Fatalf("%+v of what is no JSON", id)
		}
		sub, _ := said["sub"].(string)
		org, _ := said["org"].(string)
		if id.Tenant != access.Part(org) || id.User != access.Part(sub) || org == "" || sub == "" {
			t.Fatalf("%+v", id)
		}
		if err := (messages.SessionKey{Tenant: id.Tenant, User: id.User, ID: "x"}).Validate(); err != nil {
			t.Fatalf("%+v: %v", id, err)
		}
		if exp, ok := said["exp"].(float64); !ok || !id.Expires.After(start) || exp < float64(start.Unix()) {
			t.Fatalf("%+v with the end %v", id, said["exp"])
		}
		if nbf, ok := said["nbf"].(float64); ok && nbf > float64(start.Add(time.Hour).Unix()) {
			t.Fatalf("%+v before its time %v", id, nbf)
		}
		var words []string
		switch s := said["scope"].(type) {
		case string:
			words = strings.Fields(s)
		case []any:
			for _, w := range s {
				word, _ := w.(string)
				words = append(words, word)
			}
		}
		for i, s := range id.Scopes {
			if !slices.Contains(words, string(s)) && !slices.Contains(words, "stile:"+string(s)) || slices.Contains(id.Scopes[:i], s) {
				t.Fatalf("%q of %q", id.Scopes, words)
			}
		}
	})
}

// FuzzIssuerKeys: of whatever an issuer gives for its keys, one verifies a token only if it
// is the key that signed it, as any reader of JSON finds it there.
func FuzzIssuerKeys(f *testing.F) {
	mine, other := fuzzedKey(1), fuzzedKey(2)
	for _, s := range []string{
		`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","alg":"EdDSA","x":"` + rawKey(mine) + `"}]}`, `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","x":"` + rawKey(other) + `"},{"kty":"OKP","crv":"Ed25519","kid":"k","x":"` + rawKey(mine) + `"}]}`, `{"keys":[{"kty":"oct","kid":"k","k":"AAAA"}]}`,
		`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","x":"AQ"}]}`, `{"keys":[{"kty":"RSA","kid":"k","n":"AQ","e":"AQAB"},null]}`, `{"keys":{}}`, `[]`, ``, `{"keys":[` + strings.TrimSuffix(strings.Repeat(`{"kty":"x"},`, 300), ",") + `]}`, `{"keys":[{"kty":"EC","crv":"P-256","kid":"k","x":"AA","y":"AA"}]}`,
	} {
		f.Add([]byte(s))
	}
	token := signedBytes(mine, []byte(`{"iss":"https://id.example","aud":"stile","sub":"ann","org":"acme","exp":1999999999}`))
	x := mine.Public().(ed25519.PublicKey)
	if _, err := believing(f, []byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"k","x":"`+rawKey(mine)+`"}]}`)).Authenticate(f.Context(), token); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, jwks []byte) {
		id, err := believing(f, jwks).Authenticate(context.Background(), token)
		if err != nil {
			if messages.CodeOf(err) != messages.ErrDenied {
				t.Fatalf("%v", err)
			}
			return
		}
		var doc struct{ Keys []map[string]any }
		if err := json.Unmarshal(jwks, &doc); err != nil {
			t.Fatalf("%+v by what is no JSON: %v", id, err)
		}
		for _, k := range doc.Keys {
			if s, ok := k["x"].(string); ok {
				if b, _ := base64.RawURLEncoding.DecodeString(strings.TrimRight(s, "=")); bytes.Equal(b, x) {
					return
				}
			}
		}
		t.Fatalf("%+v without its key in %s", id, jwks)
	})
}
