package token

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/messages"
)

// The conformance vectors, which tests/ owns.
const vectors = "../../tests/testdata/vectors"

func readVectors(t testing.TB, name string, into any) {
	t.Helper()
	if err := json.Unmarshal(readVector(t, name), into); err != nil {
		t.Fatal(err)
	}
}

func readVector(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(vectors, name))
	return must(t, b, err)
}

type tokenResult struct {
	Valid  bool          `json:"valid"`
	Action string        `json:"action"`
	JTI    string        `json:"jti"`
	Error  messages.Code `json:"error"`
}

type tokenVectors struct {
	Keys  []struct{ KID, Alg, Seed, Public, Secret string }
	Cases []struct {
		Name, Strength, Line string
		Context              struct {
			SessionID string   `json:"session_id"`
			TurnIndex int64    `json:"turn_index"`
			TurnNonce string   `json:"turn_nonce"`
			Now       int64    `json:"now"`
			KIDs      []string `json:"kids"`
			SeenJTI   []string `json:"seen_jti"`
		}
		Expect tokenResult
		Accept []tokenResult
	}
}

// vectorSet gives the keys of the file that the case's host has.
func (v *tokenVectors) vectorSet(t testing.TB, kids []string) *keyring.Set {
	t.Helper()
	raw := func(s string) []byte { b, err := base64.RawURLEncoding.DecodeString(s); return must(t, b, err) }
	var keys []*keyring.Key
	for _, kid := range kids {
		for _, k := range v.Keys {
			if k.KID != kid {
				continue
			}
			a := keyring.Attributes{KID: kid, Purpose: keyring.Token}
			if k.Alg == "HS256" {
				key, err := keyring.NewHS256(a, raw(k.Secret))
				keys = append(keys, must(t, key, err))
				continue
			}
			key, err := keyring.NewEdDSA(a, raw(k.Seed))
			keys = append(keys, must(t, key, err))
			if !bytes.Equal(key.Public(), raw(k.Public)) {
				t.Fatalf("public key of %s differs", kid)
			}
		}
	}
	s, err := keyring.NewSet(keys...)
	return must(t, s, err)
}

// TestTokenVectors asks for the specification's own answer in every case, open
// ones included, without using what a case would also accept.
func TestTokenVectors(t *testing.T) {
	var v tokenVectors
	readVectors(t, "tokens.json", &v)
	if len(v.Cases) < 130 {
		t.Fatalf("%d cases", len(v.Cases))
	}
	for _, c := range v.Cases {
		t.Run(c.Name, func(t *testing.T) {
			var replay ReplaySet
			now := at(c.Context.Now)
			for _, jti := range c.Context.SeenJTI {
				replay.Claim(jti, now)
			}
			scope := Scope{c.Context.SessionID, c.Context.TurnIndex, c.Context.TurnNonce}
			got := Verify([]byte(c.Line), scope, v.vectorSet(t, c.Context.KIDs), &replay, Policy{}, now)
			result := tokenResult{Error: got.Failure}
			if got.Valid() {
				result = tokenResult{Valid: true, Action: got.Action, JTI: got.JTI}
			}
			if result != c.Expect {
				t.Errorf("got %+v (%s), want %+v", result, got.FailureReason(), c.Expect)
			}
			if !got.Valid() && (got.Reason == "" || got.KID != "" && got.Failure == messages.ErrTokenParse) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestSpecVector is the example of docs/spec/aeiou.md §9, made and verified byte for byte.
func TestSpecVector(t *testing.T) {
	const (
		want = `{"issued_at":1700000000,"jti":"00000000-0000-4000-8000-000000000001","kid":"ed25519-demo-1","kind":"LOOP","payload":{"action":"done"},"session_id":"sid-demo","ttl":120,"turn_index":1,"turn_nonce":"AAECAwQFBgcICQoLDA0ODw","v":3}`
		tag  = "gqVVP1S8h_tPQLAaCF2kkVp1jFF1b4_iNbNgMIAZGAJU6Sef4uuWHYKBeoGPsI3pGN5iDRnmROysuGSa34IBBw"
		mac  = "19JvojF9oBPtRBotod8GHi9NFziMCh5XTjs6enUUYR4"
		pub  = "A6EHv_POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg"
	)
	ed, err := keyring.NewEdDSA(keyring.Attributes{KID: "ed25519-demo-1", Purpose: keyring.Token}, seed(0))
	must(t, ed, err)
	hs, err := keyring.NewHS256(keyring.Attributes{KID: "hs256-demo-1", Purpose: keyring.Token}, seed(0))
	must(t, hs, err)
	if got := base64.RawURLEncoding.EncodeToString(ed.Public()); got != pub {
		t.Fatalf("public key %s", got)
	}
	scope := Scope{SID: "sid-demo", TurnIndex: 1, Nonce: "AAECAwQFBgcICQoLDA0ODw"}
	for _, c := range []struct {
		key     *keyring.Key
		payload string
		tag     string
		length  int
	}{
		{ed, want, tag, 410},
		{hs, string(bytes.Replace([]byte(want), []byte("ed25519-demo-1"), []byte("hs256-demo-1"), 1)), mac, 364},
	} {
		ring, err := keyring.New(c.key)
		must(t, ring, err)
		m := Minter{Signers: ring, Rand: bytes.NewReader(append(make([]byte, 15), 1))}
		got, err := m.Mint("LOOP", []byte(`{"action":"done"}`), nil, scope, at(1_700_000_000))
		must(t, got, err)
		line := "<<<NSMAG:V3:LOOP:" + base64.RawURLEncoding.EncodeToString([]byte(c.payload)) + "." + c.tag + ">>>"
		if got.Line != line {
			t.Errorf("got\n%s\nwant\n%s", got.Line, line)
		}
		if len(got.Line) != c.length || got.JTI != "00000000-0000-4000-8000-000000000001" || got.KID != c.key.KID() || got.Fallback {
			t.Errorf("got %d bytes, %+v", len(got.Line), got)
		}
		check := Verify([]byte(got.Line), scope, ring, new(ReplaySet), Policy{}, at(1_700_000_120))
		if (check != Check{Action: "done", KID: got.KID, JTI: got.JTI}) {
			t.Errorf("verdict %+v", check)
		}
	}
}

func TestJCSNumbers(t *testing.T) {
	var cases []struct {
		IEEE  string `json:"ieee"`
		JSON  string `json:"json"`
		Error any    `json:"error"`
	}
	readVectors(t, "jcs/numbers.json", &cases)
	if len(cases) < 238 {
		t.Fatalf("%d cases", len(cases))
	}
	for _, c := range cases {
		bits, err := strconv.ParseUint(c.IEEE, 16, 64)
		must(t, bits, err)
		f := math.Float64frombits(bits)
		// Three spellings of the same double: shortest, long, and the vector's own.
		for _, text := range []string{strconv.FormatFloat(f, 'e', -1, 64), strconv.FormatFloat(f, 'f', -1, 64), strconv.FormatFloat(f, 'e', 40, 64), c.JSON} {
			if text == "" {
				continue
			}
			got, err := Canonicalize([]byte(text))
			switch {
			case c.Error != nil && err == nil:
				t.Errorf("%s: %q gives %q, want an error", c.IEEE, text, got)
			case c.Error == nil && (err != nil || string(got) != c.JSON):
				t.Errorf("%s: %q gives %q, %v, want %q", c.IEEE, text, got, err, c.JSON)
			}
		}
	}
}

func TestJCSDocuments(t *testing.T) {
	var documents []struct {
		Name          string
		Input, Output []byte
	}
	readVectors(t, "jcs/documents.json", &documents)
	for _, c := range documents {
		got, err := Canonicalize(c.Input)
		if err != nil || !bytes.Equal(got, c.Output) {
			t.Errorf("%s: got %q, %v, want %q", c.Name, got, err, c.Output)
		}
	}
	var invalid []struct {
		Name  string
		Input []byte
	}
	readVectors(t, "jcs/invalid.json", &invalid)
	for _, c := range invalid {
		if got, err := Canonicalize(c.Input); err == nil {
			t.Errorf("%s: %q gives %q, want an error", c.Name, c.Input, got)
		}
	}
	for _, name := range []string{"arrays", "french", "structures", "unicode", "values", "weird"} {
		got, err := Canonicalize(readVector(t, "jcs/input/"+name+".json"))
		must(t, got, err)
		if want := readVector(t, "jcs/output/"+name+".json"); !bytes.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
		text := bytes.Join(bytes.Fields(readVector(t, "jcs/outhex/"+name+".txt")), nil)
		want, err := hex.DecodeString(string(text))
		must(t, want, err)
		if !bytes.Equal(got, want) {
			t.Errorf("%s: got %x, want %x", name, got, want)
		}
	}
}
