package keyring

import (
	"crypto/ed25519"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/messages"
)

// JWKSSyntax is the detail of ERR_CONFIG about key sets.
const JWKSSyntax = "JWKS"

// jwk is a public key of ours as RFC 7517 and RFC 8037 write it. Members that
// begin with stile_ are private names of this project: what the key signs and the
// interval in which its signatures are believed.
type jwk struct {
	Kty       string         `json:"kty"`
	Crv       string         `json:"crv"`
	X         string         `json:"x"`
	D         jsontext.Value `json:"d,omitzero"` // private: never written, never accepted
	KID       string         `json:"kid"`
	Alg       string         `json:"alg,omitzero"`
	Use       string         `json:"use,omitzero"`
	Purpose   Purpose        `json:"stile_purpose"`
	AbortOnly bool           `json:"stile_abort_only,omitzero"`
	NotBefore *int64         `json:"stile_not_before"`
	RetiredAt *int64         `json:"stile_retired_at,omitzero"`
}

// JWKS returns the public keys of a set as a JSON Web Key Set. HS256 keys are
// secrets and never part of it.
func (s *Set) JWKS() ([]byte, error) {
	out := struct {
		Keys []jwk `json:"keys"`
	}{Keys: []jwk{}}
	for _, k := range s.keys {
		if k.alg != EdDSA {
			continue
		}
		a := k.attrs.clone()
		out.Keys = append(out.Keys, jwk{
			Kty: "OKP", Crv: "Ed25519", X: encode(k.public), KID: a.KID, Alg: string(EdDSA), Use: "sig",
			Purpose: a.Purpose, AbortOnly: a.AbortOnly, NotBefore: &a.NotBefore, RetiredAt: a.RetiredAt,
		})
	}
	return json.Marshal(out)
}

// JWKS returns the ring's public keys, see [Set.JWKS].
func (r *Ring) JWKS() ([]byte, error) { return r.Set().JWKS() }

// ParseJWKS reads the public keys of a host for verification offline. As RFC 7517
// §5 asks, keys of other types and keys without stile_purpose are passed over, and
// so are unknown members; a key of ours that is wrong in any way, or carries a
// private half, is refused. Errors are ERR_CONFIG with [JWKSSyntax] or KEY and name
// the place.
func ParseJWKS(b []byte) (*Set, error) {
	if len(b) > MaxFileBytes {
		return nil, fileError(JWKSSyntax, fmt.Sprintf("larger than %d bytes", MaxFileBytes))
	}
	var in struct {
		Keys []jsontext.Value `json:"keys"`
	}
	if err := json.Unmarshal(b, &in); err != nil {
		return nil, placed(JWKSSyntax, err)
	}
	if in.Keys == nil {
		return nil, &messages.Error{Code: messages.ErrConfig, Reason: JWKSSyntax, Field: "keys", Detail: "is missing"}
	}
	var keys []*Key
	for i, text := range in.Keys {
		at := func(what string) error {
			return &messages.Error{Code: messages.ErrConfig, Reason: JWKSSyntax, Field: fmt.Sprintf("keys.%d", i), Detail: what}
		}
		var kind struct {
			Kty     jsontext.Value `json:"kty"`
			Crv     jsontext.Value `json:"crv"`
			Purpose jsontext.Value `json:"stile_purpose"`
		}
		if err := json.Unmarshal(text, &kind); err != nil {
			return nil, at("is not an object")
		}
		if string(kind.Kty) != `"OKP"` || string(kind.Crv) != `"Ed25519"` || kind.Purpose == nil {
			continue
		}
		var w jwk
		if err := json.Unmarshal(text, &w); err != nil {
			return nil, at("a member has the wrong type")
		}
		k, err := w.key()
		if err != nil {
			return nil, err
		}
		if len(keys) == MaxKeys {
			return nil, at(fmt.Sprintf("more than %d keys", MaxKeys))
		}
		keys = append(keys, k)
	}
	return NewSet(keys...)
}

// key makes the public key of a JWK.
func (w *jwk) key() (*Key, error) {
	public, ok := decode(w.X)
	switch {
	case w.D != nil:
		return nil, badKey(w.KID, "d", "a private key stands among public ones")
	case w.Use != "" && w.Use != "sig":
		return nil, badKey(w.KID, "use", `must be "sig"`)
	case w.Alg != "" && w.Alg != string(EdDSA) && w.Alg != "Ed25519": // RFC 9864 names it so
		return nil, badKey(w.KID, "alg", "must be EdDSA")
	case !ok || len(public) != ed25519.PublicKeySize:
		return nil, badKey(w.KID, "x", fmt.Sprintf("must be %d bytes of unpadded base64url", ed25519.PublicKeySize))
	case w.NotBefore == nil:
		return nil, badKey(w.KID, "stile_not_before", "is missing")
	}
	return NewPublic(Attributes{
		KID: w.KID, Purpose: w.Purpose, AbortOnly: w.AbortOnly, NotBefore: *w.NotBefore, RetiredAt: w.RetiredAt,
	}, public)
}
