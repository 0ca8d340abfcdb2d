package keyring

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/messages"
)

func at(unix int64) time.Time { return time.Unix(unix, 0) }

func must[T any](t testing.TB, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// material32 gives 32 bytes that are easy to find in a text.
func material32(n byte) []byte {
	b := make([]byte, 32)
	for i := range b {
		b[i] = 0xa0 ^ n ^ byte(i*5)
	}
	return b
}

func eddsa(t testing.TB, kid string, purpose Purpose, notBefore int64, n byte) *Key {
	t.Helper()
	k, err := NewEdDSA(Attributes{KID: kid, Purpose: purpose, NotBefore: notBefore}, material32(n))
	return must(t, k, err)
}

func ringOf(t testing.TB, keys ...*Key) *Ring {
	t.Helper()
	r, err := New(keys...)
	return must(t, r, err)
}

// reason gives CODE/REASON@field of an error.
func reason(err error) string {
	var e *messages.Error
	if !errors.As(err, &e) {
		return fmt.Sprint(err)
	}
	s := string(e.Code) + "/" + e.Reason
	if e.Field != "" {
		s += "@" + e.Field
	}
	return s
}

func TestRecordRules(t *testing.T) {
	unix := func(n int64) *int64 { return &n }
	long := strings.Repeat("k", 65)
	for _, c := range []struct {
		name string
		make func() (*Key, error)
		want string
	}{
		{"every kind of character", func() (*Key, error) {
			return NewEdDSA(Attributes{KID: "aZ09._:-", Purpose: Token}, material32(0))
		}, "<nil>"},
		{"64 bytes of id", func() (*Key, error) {
			return NewEdDSA(Attributes{KID: long[:64], Purpose: Token}, material32(0))
		}, "<nil>"},
		{"65 bytes of id", func() (*Key, error) { return NewEdDSA(Attributes{KID: long, Purpose: Token}, material32(0)) }, "ERR_CONFIG/KEY@keys.?.kid"},
		{"no id", func() (*Key, error) { return NewEdDSA(Attributes{Purpose: Token}, material32(0)) }, "ERR_CONFIG/KEY@keys.?.kid"},
		{"a blank in the id", func() (*Key, error) { return NewEdDSA(Attributes{KID: "a b", Purpose: Token}, material32(0)) }, "ERR_CONFIG/KEY@keys.?.kid"},
		{"no purpose", func() (*Key, error) { return NewEdDSA(Attributes{KID: "k"}, material32(0)) }, "ERR_CONFIG/KEY@keys.k.purpose"},
		{"short seed", func() (*Key, error) { return NewEdDSA(Attributes{KID: "k", Purpose: Token}, material32(0)[:31]) }, "ERR_CONFIG/KEY@keys.k.seed"},
		{"short secret", func() (*Key, error) { return NewHS256(Attributes{KID: "k", Purpose: Token}, material32(0)[:31]) }, "ERR_CONFIG/KEY@keys.k.secret"},
		{"long secret", func() (*Key, error) { return NewHS256(Attributes{KID: "k", Purpose: Token}, make([]byte, 129)) }, "ERR_CONFIG/KEY@keys.k.secret"},
		{"short public", func() (*Key, error) { return NewPublic(Attributes{KID: "k", Purpose: Token}, make([]byte, 31)) }, "ERR_CONFIG/KEY@keys.k.public"},
		{"HS256 for receipts", func() (*Key, error) { return NewHS256(Attributes{KID: "k", Purpose: Receipt}, material32(0)) }, "ERR_CONFIG/KEY@keys.k.alg"},
		{"abort-only receipts", func() (*Key, error) {
			return NewEdDSA(Attributes{KID: "k", Purpose: Receipt, AbortOnly: true}, material32(0))
		}, "ERR_CONFIG/KEY@keys.k.abort_only"},
		{"negative time", func() (*Key, error) {
			return NewEdDSA(Attributes{KID: "k", Purpose: Token, NotBefore: -1}, material32(0))
		}, "ERR_CONFIG/KEY@keys.k.not_before"},
		{"retired before it began", func() (*Key, error) {
			return NewEdDSA(Attributes{KID: "k", Purpose: Token, NotBefore: 5, RetiredAt: unix(4)}, material32(0))
		}, "ERR_CONFIG/KEY@keys.k.retired_at"},
		{"retired at the end of time", func() (*Key, error) {
			return NewEdDSA(Attributes{KID: "k", Purpose: Token, RetiredAt: unix(1 << 53)}, material32(0))
		}, "ERR_CONFIG/KEY@keys.k.retired_at"},
		{"unknown algorithm", func() (*Key, error) { return Generate("k", Token, "RS256", &counter{}, at(0)) }, "ERR_CONFIG/KEY@keys.k.alg"},
		{"no randomness", func() (*Key, error) { return Generate("k", Token, EdDSA, strings.NewReader("x"), at(0)) }, "ERR_CONFIG/RANDOM"},
		{"no signer", func() (*Key, error) { return NewExternal(Attributes{KID: "k", Purpose: Token}, material32(0), nil) }, "ERR_CONFIG/KEY@keys.k.signer"},
	} {
		k, err := c.make()
		if got := reason(err); got != c.want || (k == nil) != (err != nil) {
			t.Errorf("%s: got %v, %s, want %s", c.name, k, got, c.want)
		}
	}
	k := eddsa(t, "k", Token, 0, 0)
	if _, err := New(k, eddsa(t, "k", Receipt, 0, 1)); reason(err) != "ERR_CONFIG/KEY@keys.k.kid" {
		t.Error(err)
	}
	if _, err := NewSet(make([]*Key, MaxKeys+1)...); reason(err) != "ERR_CONFIG/KEY@keys" {
		t.Error(err)
	}
}

// counter is a random source that is not.
type counter struct{ n byte }

func (c *counter) Read(p []byte) (int, error) {
	for i := range p {
		c.n++
		p[i] = c.n
	}
	return len(p), nil
}

func TestGenerate(t *testing.T) {
	now := time.Date(2026, 1, 2, 23, 59, 59, 999, time.UTC)
	for _, c := range []struct {
		make func() (*Key, error)
		kid  string
	}{
		{func() (*Key, error) { return Generate("", Token, EdDSA, &counter{}, now) }, "tok-20260102-212223"},
		{func() (*Key, error) { return Generate("", Receipt, EdDSA, &counter{}, now) }, "rcp-20260102-212223"},
		{func() (*Key, error) { return Generate("", Token, HS256, &counter{}, now) }, "tok-20260102-212223"},
		{func() (*Key, error) { return GenerateFallback("", EdDSA, &counter{}, now) }, "fbk-20260102-212223"},
		{func() (*Key, error) { return Generate("mine", Token, EdDSA, &counter{}, now) }, "mine"},
	} {
		k, err := c.make()
		must(t, k, err)
		if k.KID() != c.kid || k.NotBefore() != now.Unix() || !k.CanSign() || k.AbortOnly() != strings.HasPrefix(c.kid, "fbk") {
			t.Errorf("got %v", k)
		}
		message := []byte("message")
		tag, err := k.signer().Sign(message)
		must(t, tag, err)
		if !k.VerifyTag(message, tag) || k.VerifyTag(message[1:], tag) || k.VerifyTag(message, tag[1:]) || k.VerifyTag(message, append(tag, 0)) {
			t.Errorf("%v does not verify its own tag alone", k)
		}
	}
}

// TestNothingShowsMaterial prints everything that holds a private half in every
// way that people and loggers print, also from inside a foreign struct, and looks
// for the material in every spelling.
func TestNothingShowsMaterial(t *testing.T) {
	seed, secret := material32(1), material32(2)
	ed, err := NewEdDSA(Attributes{KID: "ed", Purpose: Token}, seed)
	must(t, ed, err)
	hs, err := NewHS256(Attributes{KID: "hs", Purpose: Token}, secret)
	must(t, hs, err)
	rcp, err := NewEdDSA(Attributes{KID: "rcp", Purpose: Receipt}, seed)
	must(t, rcp, err)
	ring := ringOf(t, ed, hs, rcp)
	type inside struct {
		key   *Key
		Value any
		keys  []*Key
		byKey map[string]*Key
		s     signer
	}
	var texts []string
	for _, v := range []any{
		ed, hs, ring, ring.Set(), ed.private, hs.private, ed.signer(), hs.signer(), ring.TokenSigner(at(0)), ring.ReceiptSigner(at(0)),
		inside{ed, hs, []*Key{ed, hs}, map[string]*Key{"x": hs}, hs.signer()},
		&inside{key: hs, s: ed.signer()},
		[]*Key{ed, hs},
		map[string]any{"ring": ring},
		struct{ k heldSigner }{heldSigner{hs}},
		struct{ m *material }{hs.private},
		fmt.Errorf("wrapped: %v", hs),
	} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
			texts = append(texts, fmt.Sprintf(verb, v))
		}
		b, err := json.Marshal(v)
		texts = append(texts, string(b), fmt.Sprint(err))
		var log bytes.Buffer
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "v", v)
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "v", v)
		texts = append(texts, log.String())
	}
	jwks, err := ring.JWKS()
	texts = append(texts, string(must(t, jwks, err)))
	for _, m := range [][]byte{seed, secret} {
		spellings := []string{
			string(m[:8]), hex.EncodeToString(m[:8]), strings.ToUpper(hex.EncodeToString(m[:8])),
			base64.RawStdEncoding.EncodeToString(m[:9]), base64.RawURLEncoding.EncodeToString(m[:9]), strings.Trim(fmt.Sprint(m[:6]), "[]"),
			strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%#v", m[:6]), "[]byte{"), "}"),
		}
		for _, text := range texts {
			for _, s := range spellings {
				if strings.Contains(text, s) {
					t.Errorf("%.300q holds %q", text, s)
				}
			}
		}
	}
	if len(texts) < 100 {
		t.Errorf("%d texts", len(texts))
	}
	if got := fmt.Sprint(ring); got != "keys[ed hs rcp]" {
		t.Error(got)
	}
	if got := ed.String(); got != `key{"kid":"ed","alg":"EdDSA","purpose":"token","not_before":0,"can_sign":true}` {
		t.Error(got)
	}
}

// downSigner stands for a key store that does not answer.
type downSigner string

func (s downSigner) KID() string                 { return string(s) }
func (s downSigner) Sign([]byte) ([]byte, error) { return nil, io.ErrClosedPipe }

func TestExternal(t *testing.T) {
	k, err := NewExternal(Attributes{KID: "hsm", Purpose: Receipt}, eddsa(t, "x", Token, 0, 7).Public(), downSigner("hsm"))
	must(t, k, err)
	r := ringOf(t, k)
	if _, _, err := r.SignReceipt(testInc, 1, [32]byte{}, at(5)); reason(err) != "ERR_JOURNAL/RECEIPT_UNSIGNED" || !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
	file, err := Marshal(r, nil, nil)
	must(t, file, err)
	back, err := Parse(file, nil)
	must(t, back, err)
	if back.ReceiptSigner(at(5)) != nil || !back.Set().Keys()[0].Public().Equal(k.Public()) {
		t.Error("the file gave the key more than its public half")
	}
	if _, err := NewExternal(Attributes{KID: "other", Purpose: Token}, k.Public(), downSigner("hsm")); reason(err) != "ERR_CONFIG/KEY@keys.other.signer" {
		t.Error(err)
	}
}
