package keyring

import (
	"bytes"
	"testing"

	"github.com/seed14be6753/stile/messages"
)

// FuzzKeyFile: whatever the file, a typed error or a ring that writes itself and
// comes back the same.
func FuzzKeyFile(f *testing.F) {
	open := must2(cheaply(fullRing(f), nil, nil))(f)
	f.Add(open, "")
	f.Add(must2(cheaply(fullRing(f), []byte("p"), &counter{}))(f), "p")
	f.Add(sealText(f, "{}", []byte("p")), "p")
	f.Add([]byte(`{"format":"stile-keys/1","keys":[],"sum":""}`), "")
	f.Fuzz(func(t *testing.T, b []byte, pass string) {
		// A high cost is allowed and tested elsewhere; here it would only be slow.
		if d, err := decodeDocument(b); err == nil && d.Sealed != nil && d.Sealed.LogN > 10 && d.Sealed.LogN <= maxLogN {
			return
		}
		var passphrase []byte
		if pass != "" {
			passphrase = []byte(pass)
		}
		r, err := Parse(b, passphrase)
		if err != nil {
			if r != nil || messages.CodeOf(err) != messages.ErrConfig {
				t.Fatalf("%v, %v", r, err)
			}
			return
		}
		out, err := cheaply(r, passphrase, &counter{})
		if err != nil {
			t.Fatal(err)
		}
		back, err := Parse(out, passphrase)
		if err != nil || !same(t, r, back) {
			t.Fatalf("%s comes back as %v, %v", r, back, err)
		}
	})
}

// FuzzJWKS: a typed error, or public keys alone that export to the same.
func FuzzJWKS(f *testing.F) {
	f.Add(must2(fullRing(f).JWKS())(f))
	f.Add([]byte(`{"keys":[{"kty":"RSA"},{"kty":"OKP","crv":"Ed25519","d":"AA","stile_purpose":"token"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ParseJWKS(b)
		if err != nil {
			if s != nil || messages.CodeOf(err) != messages.ErrConfig {
				t.Fatalf("%v, %v", s, err)
			}
			return
		}
		for _, k := range s.Keys() {
			if k.CanSign() || k.Alg() != EdDSA {
				t.Fatalf("%v", k)
			}
		}
		out := must2(s.JWKS())(t)
		back := must2(ParseJWKS(out))(t)
		if again := must2(back.JWKS())(t); !bytes.Equal(out, again) {
			t.Fatalf("%s comes back as %s", out, again)
		}
	})
}
