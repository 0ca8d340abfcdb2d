package conform

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/crypto/token"
	"github.com/seed14be6753/stile/messages"
)

// vectorKey is one key of a file's table. Its parts are unpadded base64url.
type vectorKey struct {
	KID    string `json:"kid"`
	Alg    string `json:"alg"`
	Seed   string `json:"seed"`
	Public string `json:"public"`
	Secret string `json:"secret"`
}

// record makes the host's record of the key.
func (k vectorKey) record() (*keyring.Key, error) {
	part := map[string][]byte{}
	for name, s := range map[string]string{"seed": k.Seed, "public": k.Public, "secret": k.Secret} {
		b, err := base64.RawURLEncoding.Strict().DecodeString(s)
		if err != nil {
			return nil, malformed("keys."+k.KID+"."+name, "not unpadded base64url")
		}
		part[name] = b
	}
	a := keyring.Attributes{KID: k.KID, Purpose: keyring.Token}
	switch k.Alg {
	case "HS256":
		return keyring.NewHS256(a, part["secret"])
	case "Ed25519", "EdDSA":
		if k.Seed == "" {
			return keyring.NewPublic(a, part["public"])
		}
		key, err := keyring.NewEdDSA(a, part["seed"])
		if err == nil && k.Public != "" && !bytes.Equal(key.Public(), part["public"]) {
			return nil, malformed("keys."+k.KID+".public", "not the public half of seed")
		}
		return key, err
	}
	return nil, malformed("keys."+k.KID+".alg", "unknown algorithm %q", k.Alg)
}

// vectorKeys is the table of a file: the keys of all holders.
type vectorKeys map[string]*keyring.Key

func keysOf(d *document) (vectorKeys, error) {
	var listed []vectorKey
	if raw := d.members["keys"]; raw != nil {
		if err := json.Unmarshal(raw, &listed); err != nil {
			fault := faultOf(err)
			fault.Field = strings.TrimSuffix("keys."+fault.Field, ".")
			return nil, fault
		}
	}
	keys := vectorKeys{}
	for _, k := range listed {
		key, err := k.record()
		if err != nil {
			return nil, err
		}
		if keys[k.KID] != nil {
			return nil, malformed("keys."+k.KID, "listed twice")
		}
		keys[k.KID] = key
	}
	return keys, nil
}

// vectorContext is the host's side of a case.
type vectorContext struct {
	SessionID string   `json:"session_id"`
	TurnIndex int64    `json:"turn_index"`
	TurnNonce string   `json:"turn_nonce"`
	Now       *int64   `json:"now"` // Unix seconds
	KIDs      []string `json:"kids"`
	SeenJTI   []string `json:"seen_jti"`
}

// verifier returns the check of one line after another, as a turn makes them: one
// key set, one replay set and one reading of the clock for all of them.
func (x *vectorContext) verifier(keys vectorKeys) (func(line []byte) token.Check, error) {
	if x == nil || x.Now == nil {
		return nil, malformed("context.now", "missing")
	}
	held := make([]*keyring.Key, len(x.KIDs))
	for i, kid := range x.KIDs {
		if held[i] = keys[kid]; held[i] == nil {
			return nil, malformed("context.kids", "key %q is not listed in keys", kid)
		}
	}
	set, err := keyring.NewSet(held...)
	if err != nil {
		return nil, err
	}
	now := time.Unix(*x.Now, 0)
	replay := new(token.ReplaySet)
	for _, jti := range x.SeenJTI {
		replay.Claim(jti, now)
	}
	scope := token.Scope{SID: x.SessionID, TurnIndex: x.TurnIndex, Nonce: x.TurnNonce}
	return func(line []byte) token.Check {
		return token.Verify(line, scope, set, replay, token.Policy{}, now)
	}, nil
}

type tokenCase struct {
	Line    *string        `json:"line"`
	Context *vectorContext `json:"context"`
	Expect  *tokenWant     `json:"expect"`
	Accept  []tokenWant    `json:"accept"`
}

type tokenWant struct {
	Valid  *bool  `json:"valid"`
	Action string `json:"action"`
	JTI    string `json:"jti"`
	Error  string `json:"error"`
}

func tokenCases(d *document) ([]testCase, error) {
	keys, err := keysOf(d)
	if err != nil {
		return nil, err
	}
	return each(d.listed, "name", "", func(raw jsontext.Value) (verdict, error) { return judgeToken(raw, keys) }), nil
}

func judgeToken(raw jsontext.Value, keys vectorKeys) (verdict, error) {
	var c tokenCase
	if err := decode(raw, &c); err != nil {
		return verdict{}, err
	}
	if c.Line == nil {
		return verdict{}, malformed("line", "missing")
	}
	if c.Expect == nil {
		return verdict{}, malformed("expect", "missing")
	}
	wants := append([]tokenWant{*c.Expect}, c.Accept...)
	for _, w := range wants {
		if w.Valid == nil || !*w.Valid && w.Error == "" {
			return verdict{}, malformed("expect", "a result is valid, or not valid with an error")
		}
	}
	verify, err := c.Context.verifier(keys)
	if err != nil {
		return verdict{}, err
	}
	got := tokenGot(verify([]byte(*c.Line)))
	return compare(got, got.matches, wants), nil
}

type tokenGot token.Check

func (g tokenGot) matches(w tokenWant) bool {
	if g.Failure == "" {
		return *w.Valid && w.Action == g.Action && w.JTI == g.JTI
	}
	return !*w.Valid && (w.Error == anyError || messages.Code(w.Error) == g.Failure)
}

func (w tokenWant) String() string {
	if *w.Valid {
		return fmt.Sprintf("valid, action %s, jti %q", w.Action, w.JTI)
	}
	return "error " + w.Error
}

func (g tokenGot) String() string {
	if g.Failure == "" {
		return fmt.Sprintf("valid, action %s, jti %q", g.Action, g.JTI)
	}
	return "error " + token.Check(g).FailureReason()
}
