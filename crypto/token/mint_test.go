package token

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gowebpki/jcs"

	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/messages"
)

// brokenSigner is a signer whose key store is down: an ordinary implementation,
// such as a remote one that has lost its connection.
type brokenSigner struct {
	kid string
	err error
	tag []byte
	n   *int
}

func (s brokenSigner) KID() string { return s.kid }

func (s brokenSigner) Sign([]byte) ([]byte, error) {
	*s.n++
	return s.tag, s.err
}

// signers counts how often each signer is asked for.
type signers struct {
	primary, fallback Signer
	asked             int // for the fallback
}

func (s *signers) TokenSigner(time.Time) Signer { return s.primary }

func (s *signers) TokenFallback(time.Time) Signer {
	s.asked++
	return s.fallback
}

var errDown = errors.New("the key store does not answer")

func signerOf(t testing.TB, k *keyring.Key) Signer {
	t.Helper()
	s, err := keyring.NewSet(k)
	must(t, s, err)
	if k.AbortOnly() {
		return s.TokenFallback(at(0))
	}
	return s.TokenSigner(at(0))
}

func payloadOf(t testing.TB, line string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(strings.Split(strings.TrimPrefix(line, "<<<NSMAG:V3:LOOP:"), ".")[0])
	return must(t, b, err)
}

func TestMint(t *testing.T) {
	keys := hostKeys(t)
	ring, err := keyring.New(keys["ed"], keys["abort"])
	must(t, ring, err)
	m := Minter{Signers: ring, Rand: &counter{}}
	seconds := func(n int64) *int64 { return &n }
	for _, c := range []struct {
		payload string
		ttl     *int64
		inner   string // what the token must hold
	}{
		{`{"action":"continue"}`, nil, `"payload":{"action":"continue"},"session_id":"acme:ann:s-1","ttl":120,"turn_index":7,`},
		{` { "telemetry": {"b":1, "a":[true,null]}, "action" : "done" } `, seconds(1), `"payload":{"action":"done","telemetry":{"a":[true,null],"b":1}},"session_id":"acme:ann:s-1","ttl":1,`},
		{`{"action":"abort","request":{"<":"\u0041\/"},"more":-9007199254740991}`, seconds(240), `"payload":{"action":"abort","more":-9007199254740991,"request":{"<":"A/"}},"session_id":"acme:ann:s-1","ttl":240,`},
		{`{"a\u0063tion":"d\u006fne"}`, nil, `"payload":{"action":"done"}`},
		{`{"action":"done","x":` + strings.Repeat("[", 31) + strings.Repeat("]", 31) + `}`, nil, `"x":[[`},
	} {
		got, err := m.Mint("LOOP", []byte(c.payload), c.ttl, testScope, at(testUnix))
		must(t, got, err)
		text := payloadOf(t, got.Line)
		canonical, err := jcs.Transform(text)
		must(t, canonical, err)
		if !bytes.Equal(text, canonical) || !bytes.Contains(text, []byte(c.inner)) {
			t.Errorf("%s: payload %s", c.payload, text)
		}
		if got.KID != "ed" || got.Fallback || got.PrimaryErr != nil || len(got.JTI) != 36 || got.JTI[14] != '4' {
			t.Errorf("%s: %+v", c.payload, got)
		}
		check := Verify([]byte(got.Line), testScope, ring, nil, Policy{}, at(testUnix))
		if !check.Valid() || check.JTI != got.JTI || check.KID != got.KID {
			t.Errorf("%s: %+v", c.payload, check)
		}
	}
}

// TestMintScopeIsEscaped: a session id outside the rule still gives canonical text.
func TestMintScopeIsEscaped(t *testing.T) {
	ring, err := keyring.New(hostKeys(t)["ed"])
	must(t, ring, err)
	m := Minter{Signers: ring, Rand: &counter{}}
	scope := Scope{SID: "a\"\\\n\x01é😀<", TurnIndex: maxSafeInteger, Nonce: "n\x7f\""}
	got, err := m.Mint("LOOP", []byte(`{"action":"done"}`), nil, scope, at(testUnix))
	must(t, got, err)
	if check := Verify([]byte(got.Line), scope, ring, nil, Policy{}, at(testUnix)); !check.Valid() {
		t.Errorf("%+v", check)
	}
}

func TestMintArguments(t *testing.T) {
	seconds := func(n int64) *int64 { return &n }
	for _, c := range []struct {
		name, kind, payload string
		ttl                 *int64
		argument            string
	}{
		{"kind", "STEP", `{"action":"done"}`, nil, "kind"},
		{"kind in small letters", "loop", `{"action":"done"}`, nil, "kind"},
		{"not a map", "LOOP", `["done"]`, nil, "payload"},
		{"nothing", "LOOP", ``, nil, "payload"},
		{"null", "LOOP", `null`, nil, "payload"},
		{"no action", "LOOP", `{}`, nil, "payload.action"},
		{"unknown action", "LOOP", `{"action":"halt"}`, nil, "payload.action"},
		{"action not a string", "LOOP", `{"action":true}`, nil, "payload.action"},
		{"action done without quotes", "LOOP", `{"action":{"done":1}}`, nil, "payload.action"},
		{"old name", "LOOP", `{"control":"done"}`, nil, "payload.action"},
		{"request not a map", "LOOP", `{"action":"done","request":"x"}`, nil, "payload.request"},
		{"telemetry not a map", "LOOP", `{"action":"done","telemetry":[1]}`, nil, "payload.telemetry"},
		{"fraction", "LOOP", `{"action":"done","x":1.5}`, nil, "payload"},
		{"too large an integer", "LOOP", `{"action":"done","x":9007199254740992}`, nil, "payload"},
		{"too small an integer", "LOOP", `{"action":"done","x":-9007199254740992}`, nil, "payload"},
		{"33 deep", "LOOP", `{"action":"done","x":` + strings.Repeat("[", 32) + strings.Repeat("]", 32) + `}`, nil, "payload"},
		{"a name twice", "LOOP", `{"action":"done","action":"abort"}`, nil, "payload"},
		{"not UTF-8", "LOOP", "{\"action\":\"done\",\"x\":\"\xff\"}", nil, "payload"},
		{"ttl 0", "LOOP", `{"action":"done"}`, seconds(0), "opts.ttl"},
		{"ttl −1", "LOOP", `{"action":"done"}`, seconds(-1), "opts.ttl"},
		{"ttl 241", "LOOP", `{"action":"done"}`, seconds(241), "opts.ttl"},
		{"too long", "LOOP", `{"action":"done","x":"` + strings.Repeat("x", 500) + `"}`, nil, "payload"},
		{"far too long", "LOOP", `{"action":"done","x":"` + strings.Repeat("x", 1<<20) + `"}`, nil, "payload"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, primary := range []Signer{signerOf(t, hostKeys(t)["ed"]), nil} {
				s := &signers{primary: primary, fallback: signerOf(t, hostKeys(t)["abort"])}
				m := Minter{Signers: s, Rand: &counter{}}
				got, err := m.Mint(c.kind, []byte(c.payload), c.ttl, testScope, at(testUnix))
				var fault *ArgumentError
				if !errors.As(err, &fault) || fault.Argument != c.argument || got != (Minted{}) || messages.CodeOf(err) != "" {
					t.Errorf("got %+v, %v", got, err)
				}
				if s.asked != 0 {
					t.Error("the fallback signer was asked for")
				}
			}
		})
	}
	var fault *ArgumentError
	m := Minter{Signers: &signers{}, Rand: &counter{}}
	if _, err := m.Mint("LOOP", []byte(`{"action":1.5}`), nil, testScope, at(0)); err == nil || err.Error() != "magic: payload at byte 10: a number is not an integer within ±(2^53−1)" {
		t.Errorf("got %v", err)
	}
	if _, err := m.Mint("LOOP", []byte(`{"control":"done"}`), nil, testScope, at(0)); !errors.As(err, &fault) || !strings.Contains(fault.Error(), `not "control"`) {
		t.Errorf("got %v", err)
	}
}

// TestMintLength walks a payload over the limit: up to 1,024 bytes a token is made
// and verifies, beyond them it is an argument fault and nothing is signed.
func TestMintLength(t *testing.T) {
	for _, kid := range []string{"ed", "hs"} {
		ring, err := keyring.New(hostKeys(t)[kid])
		must(t, ring, err)
		m := Minter{Signers: ring, Rand: &counter{}}
		longest := 0
		for n := 380; n < 520; n++ {
			got, err := m.Mint("LOOP", []byte(`{"action":"done","x":"`+strings.Repeat("x", n)+`"}`), nil, testScope, at(testUnix))
			var fault *ArgumentError
			switch {
			case err == nil && longest >= 0:
				longest = len(got.Line)
				if check := Verify([]byte(got.Line), testScope, ring, nil, Policy{}, at(testUnix)); !check.Valid() {
					t.Fatalf("%d bytes: %+v", len(got.Line), check)
				}
			case errors.As(err, &fault) && longest > 0:
				if want := map[string]int{"ed": 1023, "hs": 1024}[kid]; longest != want {
					t.Fatalf("%s: the longest token has %d bytes, want %d", kid, longest, want)
				}
			default:
				t.Fatalf("%d: %v", n, err)
			}
		}
		if _, err := m.Mint("LOOP", []byte(`{"action":"done","x":"`+strings.Repeat("x", 520)+`"}`), nil, testScope, at(testUnix)); err == nil {
			t.Error("no end was met")
		}
	}
	// A signer that does not say how long its tags are signs first.
	n := 0
	s := &signers{primary: brokenSigner{kid: "mute", tag: make([]byte, 64), n: &n}, fallback: signerOf(t, hostKeys(t)["abort"])}
	m := Minter{Signers: s, Rand: &counter{}}
	var fault *ArgumentError
	_, err := m.Mint("LOOP", []byte(`{"action":"done","x":"`+strings.Repeat("x", 478)+`"}`), nil, testScope, at(testUnix))
	if !errors.As(err, &fault) || n != 1 || s.asked != 0 {
		t.Errorf("got %v after %d signatures, fallback asked for %d times", err, n, s.asked)
	}
}

func TestFallback(t *testing.T) {
	abort := hostKeys(t)["abort"]
	n := 0
	for _, c := range []struct {
		name              string
		primary, fallback Signer
		ok                bool
	}{
		{"primary missing", nil, signerOf(t, abort), true},
		{"primary failing", brokenSigner{kid: "ed", err: errDown, n: &n}, signerOf(t, abort), true},
		{"primary gives no tag", brokenSigner{kid: "ed", n: &n}, signerOf(t, abort), true},
		{"primary gives half a tag", brokenSigner{kid: "ed", tag: make([]byte, 31), n: &n}, signerOf(t, abort), true},
		{"primary with no id", brokenSigner{kid: "", tag: make([]byte, 64), n: &n}, signerOf(t, abort), true},
		{"both missing", nil, nil, false},
		{"both failing", brokenSigner{kid: "ed", err: errDown, n: &n}, brokenSigner{kid: "abort", err: errDown, n: &n}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := Minter{Signers: &signers{primary: c.primary, fallback: c.fallback}, Rand: &counter{}}
			got, err := m.Mint("LOOP", []byte(`{"action":"continue","request":{"x":1}}`), nil, testScope, at(testUnix))
			if !c.ok {
				var fault *ArgumentError
				if messages.CodeOf(err) != messages.ErrMagicToolInternal || errors.As(err, &fault) || got != (Minted{}) {
					t.Errorf("got %+v, %v", got, err)
				}
				return
			}
			must(t, got, err)
			if !got.Fallback || got.KID != "abort" || got.PrimaryErr == nil {
				t.Errorf("got %+v", got)
			}
			text := payloadOf(t, got.Line)
			if !bytes.Contains(text, []byte(`"payload":{"action":"abort","request":{"reason":"fallback_signer_activated"}}`)) {
				t.Errorf("payload %s", text)
			}
			check := Verify([]byte(got.Line), testScope, hostSet(t), new(ReplaySet), Policy{}, at(testUnix))
			if (check != Check{Action: "abort", KID: "abort", JTI: got.JTI}) {
				t.Errorf("verdict %+v", check)
			}
		})
	}
}

// TestMintInternal: what is the host's fault is never the program's, even where a
// limit of the token's length is what broke.
func TestMintInternal(t *testing.T) {
	both := &signers{primary: signerOf(t, hostKeys(t)["ed"]), fallback: signerOf(t, hostKeys(t)["abort"])}
	ok := []byte(`{"action":"done"}`)
	for _, c := range []struct {
		name   string
		minter Minter
		scope  Scope
	}{
		{"no randomness", Minter{Signers: both, Rand: strings.NewReader("short")}, testScope},
		{"no turn", Minter{Signers: both, Rand: &counter{}}, Scope{SID: "s", Nonce: "n"}},
		{"turn too large", Minter{Signers: both, Rand: &counter{}}, Scope{SID: "s", Nonce: "n", TurnIndex: 1 << 53}},
		{"session id not UTF-8", Minter{Signers: both, Rand: &counter{}}, Scope{SID: "\xff", Nonce: "n", TurnIndex: 1}},
		{
			"the fallback token itself is too long",
			Minter{Signers: &signers{fallback: both.fallback}, Rand: &counter{}},
			Scope{SID: strings.Repeat("s", 490), Nonce: "n", TurnIndex: 1},
		},
	} {
		got, err := c.minter.Mint("LOOP", ok, nil, c.scope, at(testUnix))
		var fault *ArgumentError
		if messages.CodeOf(err) != messages.ErrMagicToolInternal || errors.As(err, &fault) || got != (Minted{}) {
			t.Errorf("%s: got %+v, %v", c.name, got, err)
		}
	}
	// The default ttl bows to a smaller maximum.
	m := Minter{Signers: both, Rand: &counter{}, MaxTTL: 30 * time.Second}
	got, err := m.Mint("LOOP", ok, nil, testScope, at(testUnix))
	must(t, got, err)
	if text := payloadOf(t, got.Line); !bytes.Contains(text, []byte(`"ttl":30,`)) {
		t.Errorf("payload %s", text)
	}
}
