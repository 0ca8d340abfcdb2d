package keyring

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed14be6753/stile/crypto/token"
)

// The ring is what the token room asks for, without knowing it.
var (
	_ token.KeySource    = (*Set)(nil)
	_ token.KeySource    = (*Ring)(nil)
	_ token.SignerSource = (*Set)(nil)
	_ token.SignerSource = (*Ring)(nil)
)

var (
	testInc   = uuid.MustParse("0198c0de-0000-7000-8000-00000000002A")
	testScope = token.Scope{SID: "local:local:s", TurnIndex: 1, Nonce: "AAECAwQFBgcICQoLDA0ODw"}
)

const retention = 300 * time.Second

func kidOf(s signer) string {
	if s == nil {
		return "-"
	}
	return s.KID()
}

// mintWith makes a token with the ring's state at unix.
func mintWith(t testing.TB, keys token.SignerSource, unix int64) string {
	t.Helper()
	m := token.Minter{Signers: keys, Rand: &counter{}}
	ttl := int64(240)
	got, err := m.Mint("LOOP", []byte(`{"action":"abort"}`), &ttl, testScope, at(unix))
	must(t, got, err)
	return got.Line
}

func verdict(keys token.KeySource, line string, unix int64) string {
	return token.Verify([]byte(line), testScope, keys, nil, token.Policy{}, at(unix)).FailureReason()
}

// TestRotationTimeline follows one rotation at 1000 second by second, with the
// default max_ttl and grace: 300 s.
func TestRotationTimeline(t *testing.T) {
	a, b := eddsa(t, "a", Token, 0, 1), eddsa(t, "b", Token, 1000, 2)
	r := ringOf(t, a)
	atRotation, before := r.Set(), mintWith(t, r, 1000) // minted in the second of the rotation
	if err := r.Add(b, at(1000)); err != nil {
		t.Fatal(err)
	}
	inFlight := mintWith(t, atRotation, 1001) // a turn that kept the old set
	for _, c := range []struct {
		unix         int64
		erase        bool
		signer       string
		line, reason string
	}{
		{999, false, "a", before, ""},
		{1000, false, "b", before, ""},
		{1000, true, "b", before, ""},
		{1240, true, "b", before, ""},
		{1241, true, "b", before, "ERR_TOKEN_TTL/EXPIRED"},
		{1300, true, "b", before, "ERR_TOKEN_TTL/EXPIRED"}, // the key still verifies
		{1301, false, "b", before, "ERR_TOKEN_VERIFY/KEY_RETIRED"},
		{1001, false, "b", inFlight, "ERR_TOKEN_VERIFY/KEY_RETIRED"}, // issued after the retirement
		{1301, true, "b", before, "ERR_TOKEN_VERIFY/UNKNOWN_KID"},
		{1001, false, "b", inFlight, "ERR_TOKEN_VERIFY/UNKNOWN_KID"},
	} {
		if c.erase {
			kids := r.Erase(at(c.unix), retention)
			if want := c.unix >= 1301; (len(kids) == 1 && kids[0] == "a") != want || !want && kids != nil {
				t.Errorf("at %d: erased %v", c.unix, kids)
			}
		}
		if got := kidOf(r.TokenSigner(at(c.unix))); got != c.signer {
			t.Errorf("at %d: %s signs, want %s", c.unix, got, c.signer)
		}
		if got := verdict(r.TokenKeys(), c.line, c.unix); got != c.reason {
			t.Errorf("at %d: got %q, want %q", c.unix, got, c.reason)
		}
	}
	// The turn that kept its set went on until the erasure, and no longer.
	if got := verdict(atRotation, inFlight, 1001); got != "" {
		t.Errorf("in flight: %q", got)
	}
	if _, ok := atRotation.TokenKey("a"); !ok {
		t.Error("the old set has changed")
	}
	if a.CanSign() || atRotation.TokenSigner(at(1001)) != nil {
		t.Error("the private half is still there")
	}
	if _, err := (heldSigner{a}).Sign(nil); !errors.Is(err, ErrErased) {
		t.Error(err)
	}
}

// TestErasureOverwrites looks at the very bytes.
func TestErasureOverwrites(t *testing.T) {
	hs, err := NewHS256(Attributes{KID: "hs", Purpose: Token}, material32(3))
	must(t, hs, err)
	bytes := hs.private.open().bytes
	r := ringOf(t, hs)
	if err := r.Add(eddsa(t, "b", Token, 10, 2), at(10)); err != nil {
		t.Fatal(err)
	}
	old := r.Set()
	if kids := r.Erase(at(311), retention); fmt.Sprint(kids) != "[hs]" {
		t.Error(kids)
	}
	for _, c := range bytes {
		if c != 0 {
			t.Fatal("the secret was not overwritten")
		}
	}
	key, _ := old.TokenKey("hs")
	if key.VerifyTag(nil, make([]byte, 32)) {
		t.Error("an erased secret verifies")
	}
}

// TestSignerChoice says who signs, role by role.
func TestSignerChoice(t *testing.T) {
	unix := func(n int64) *int64 { return &n }
	fallback := func(kid string, from int64, n byte) *Key {
		k, err := NewEdDSA(Attributes{KID: kid, Purpose: Token, AbortOnly: true, NotBefore: from}, material32(n))
		return must(t, k, err)
	}
	retired, err := NewEdDSA(Attributes{KID: "gone", Purpose: Token, NotBefore: 50, RetiredAt: unix(60)}, material32(9))
	must(t, retired, err)
	public, err := NewPublic(Attributes{KID: "public", Purpose: Token, NotBefore: 90}, eddsa(t, "x", Token, 0, 8).Public())
	must(t, public, err)
	r := ringOf(t, eddsa(t, "old", Token, 10, 1), eddsa(t, "new", Token, 20, 2), retired, public, fallback("fbk", 15, 3), eddsa(t, "rcp", Receipt, 30, 4))
	for _, c := range []struct {
		unix                       int64
		primary, fallback, receipt string
	}{
		{9, "-", "-", "-"},
		{10, "old", "-", "-"},
		{15, "old", "fbk", "-"},
		{20, "new", "fbk", "-"},
		{30, "new", "fbk", "rcp"},
		{50, "gone", "fbk", "rcp"},
		{59, "gone", "fbk", "rcp"},
		{60, "new", "fbk", "rcp"},
		{95, "new", "fbk", "rcp"},
	} {
		now := at(c.unix).Add(999 * time.Millisecond)
		if p, f, rc := kidOf(r.TokenSigner(now)), kidOf(r.TokenFallback(now)), kidOf(r.ReceiptSigner(now)); p != c.primary || f != c.fallback || rc != c.receipt {
			t.Errorf("at %d: %s %s %s", c.unix, p, f, rc)
		}
	}
	// Each role rotates alone.
	if err := r.Add(fallback("fbk2", 100, 5), at(100)); err != nil {
		t.Fatal(err)
	}
	for kid, want := range map[string]bool{"old": false, "new": false, "fbk": true, "rcp": false} {
		k, _ := r.Set().Key(kid)
		if _, is := k.RetiredAt(); is != want {
			t.Errorf("%s retired: %v", kid, is)
		}
	}
	// A key that cannot sign retires nothing; a repeated id changes nothing.
	before := r.Set()
	if err := r.Add(eddsa(t, "new", Token, 200, 6), at(200)); reason(err) != "ERR_CONFIG/KEY@keys.new.kid" || r.Set() != before {
		t.Error(err)
	}
	public2, err := NewPublic(Attributes{KID: "public2", Purpose: Token}, public.Public())
	must(t, public2, err)
	if err := r.Add(public2, at(200)); err != nil || kidOf(r.TokenSigner(at(200))) != "new" {
		t.Error(err)
	}
}

// TestScheduledRotation: a key that begins later is published at once and takes
// over when it begins, without a second in which nobody signs.
func TestScheduledRotation(t *testing.T) {
	r := ringOf(t, eddsa(t, "a", Token, 0, 1), eddsa(t, "ra", Receipt, 0, 2))
	for _, k := range []*Key{eddsa(t, "b", Token, 500, 3), eddsa(t, "rb", Receipt, 500, 4)} {
		if err := r.Add(k, at(100)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		unix           int64
		token, receipt string
	}{{100, "a", "ra"}, {499, "a", "ra"}, {500, "b", "rb"}} {
		if tok, rc := kidOf(r.TokenSigner(at(c.unix))), kidOf(r.ReceiptSigner(at(c.unix))); tok != c.token || rc != c.receipt {
			t.Errorf("at %d: %s, %s", c.unix, tok, rc)
		}
	}
	if kids := r.Erase(at(499), retention); kids != nil {
		t.Error(kids)
	}
	if kids := r.Erase(at(500), retention); fmt.Sprint(kids) != "[ra]" {
		t.Error(kids)
	}
	// Sooner than scheduled: the earlier retirement counts.
	if err := r.Add(eddsa(t, "c", Token, 600, 5), at(550)); err != nil {
		t.Fatal(err)
	}
	for kid, want := range map[string]int64{"a": 500, "b": 600} {
		k, _ := r.Set().Key(kid)
		if got, _ := k.RetiredAt(); got != want {
			t.Errorf("%s retires at %d", kid, got)
		}
	}
	// The clock stepped back: no interval ends before it began.
	if err := r.Add(eddsa(t, "d", Token, 20, 6), at(20)); err != nil {
		t.Fatal(err)
	}
	k, _ := r.Set().Key("c")
	if got, _ := k.RetiredAt(); got != 600 {
		t.Errorf("c retires at %d", got)
	}
	if file, err := Marshal(r, nil, nil); err != nil {
		t.Error(err)
	} else if _, err := Parse(file, nil); err != nil {
		t.Error(err)
	}
}

func TestReceipts(t *testing.T) {
	hash := [32]byte{0xAB, 31: 0xCD}
	want := "stile-receipt/1\n0198c0de-0000-7000-8000-00000000002a\n9007199254740991\nab" + strings.Repeat("00", 30) + "cd"
	if got := string(ReceiptMessage(testInc, 9007199254740991, hash)); got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
	r := ringOf(t, eddsa(t, "r1", Receipt, 100, 1), eddsa(t, "tok", Token, 0, 3))
	if _, _, err := r.SignReceipt(testInc, 1, hash, at(99)); reason(err) != "ERR_JOURNAL/RECEIPT_UNSIGNED" {
		t.Error(err)
	}
	kid, sig, err := r.SignReceipt(testInc, 1, hash, at(200))
	must(t, sig, err)
	if err := r.Add(eddsa(t, "r2", Receipt, 300, 2), at(300)); err != nil {
		t.Fatal(err)
	}
	if k, _ := r.Set().Key("r1"); k.CanSign() || k.Public() == nil {
		t.Error("rotation erases the private half, and that alone")
	}
	kid2, sig2, err := r.SignReceipt(testInc, 2, hash, at(300))
	must(t, sig2, err)
	if kid != "r1" || kid2 != "r2" {
		t.Errorf("signed by %s, %s", kid, kid2)
	}
	r.Erase(at(1<<40), 0) // receipts stay verifiable for ever
	jwks, err := r.JWKS()
	must(t, jwks, err)
	public, err := ParseJWKS(jwks)
	must(t, public, err)
	other := testInc
	other[0]++
	for _, c := range []struct {
		name string
		inc  uuid.UUID
		seq  int64
		hash [32]byte
		ts   time.Time
		kid  string
		sig  []byte
		want string
	}{
		{"good", testInc, 1, hash, at(200), kid, sig, "<nil>"},
		{"first second", testInc, 1, hash, at(100), kid, sig, "<nil>"},
		{"last second", testInc, 1, hash, at(300).Add(999 * time.Millisecond), kid, sig, "<nil>"},
		{"too early", testInc, 1, hash, at(99), kid, sig, "ERR_JOURNAL/RECEIPT_TIME"},
		{"too late", testInc, 1, hash, at(301), kid, sig, "ERR_JOURNAL/RECEIPT_TIME"},
		{"second key", testInc, 2, hash, at(1 << 50), kid2, sig2, "<nil>"},
		{"other incarnation", other, 1, hash, at(200), kid, sig, "ERR_JOURNAL/RECEIPT_TAG"},
		{"other seq", testInc, 2, hash, at(200), kid, sig, "ERR_JOURNAL/RECEIPT_TAG"},
		{"other hash", testInc, 1, [32]byte{}, at(200), kid, sig, "ERR_JOURNAL/RECEIPT_TAG"},
		{"short signature", testInc, 1, hash, at(200), kid, sig[:63], "ERR_JOURNAL/RECEIPT_TAG"},
		{"other key", testInc, 1, hash, at(300), kid2, sig, "ERR_JOURNAL/RECEIPT_TAG"},
		{"unknown key", testInc, 1, hash, at(200), "r9", sig, "ERR_JOURNAL/RECEIPT_KEY"},
		{"a token key", testInc, 1, hash, at(200), "tok", sig, "ERR_JOURNAL/RECEIPT_KEY"},
		{"unsigned", testInc, 1, hash, at(200), "", nil, "ERR_JOURNAL/RECEIPT_KEY"},
	} {
		for name, set := range map[string]*Set{"ring": r.Set(), "jwks": public} {
			got := reason(set.VerifyReceipt(c.inc, c.seq, c.hash, c.ts, c.kid, c.sig))
			if want := c.want; got != want {
				t.Errorf("%s, %s: got %s, want %s", c.name, name, got, want)
			}
		}
	}
	if err := r.VerifyReceipt(testInc, 1, hash, at(200), kid, sig); err != nil {
		t.Error(err)
	}
}

// TestRotationUnderLoad rotates and erases while others mint, verify and sign
// receipts. Nobody who reads the ring afresh meets a failure.
func TestRotationUnderLoad(t *testing.T) {
	const rounds = 60
	r := ringOf(t, eddsa(t, "t0", Token, 0, 1), eddsa(t, "r0", Receipt, 0, 2))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			m := token.Minter{Signers: r, Rand: &counter{}}
			for {
				select {
				case <-stop:
					return
				default:
				}
				set := r.Set()
				m.Signers = set
				got, err := m.Mint("LOOP", []byte(`{"action":"done"}`), nil, testScope, at(5000))
				if err != nil && set == r.Set() {
					t.Errorf("mint: %v", err)
					return
				}
				if err == nil {
					if v := token.Verify([]byte(got.Line), testScope, set, nil, token.Policy{}, at(5000)); !v.Valid() {
						t.Errorf("verify: %s", v.FailureReason())
						return
					}
				}
				if _, _, err := set.SignReceipt(testInc, 1, [32]byte{}, at(5000)); err != nil && set == r.Set() {
					t.Errorf("receipt: %v", err)
					return
				}
			}
		})
	}
	for i := 1; i <= rounds; i++ {
		for _, k := range []*Key{eddsa(t, fmt.Sprintf("t%d", i), Token, int64(i), byte(i)), eddsa(t, fmt.Sprintf("r%d", i), Receipt, int64(i), byte(i))} {
			if err := r.Add(k, at(int64(i))); err != nil {
				t.Error(err)
			}
		}
		r.Erase(at(int64(i)+2), time.Second)
	}
	close(stop)
	wg.Wait()
	if n := len(r.Set().Keys()); n != rounds+1+1 {
		t.Errorf("%d keys are left", n)
	}
}

// TestBothSignersDown builds the ring of a host whose key store is gone, from
// parts anyone has: a mint fails typed.
func TestBothSignersDown(t *testing.T) {
	public := eddsa(t, "x", Token, 0, 1).Public()
	primary, err := NewExternal(Attributes{KID: "p", Purpose: Token}, public, downSigner("p"))
	must(t, primary, err)
	fallback, err := NewExternal(Attributes{KID: "f", Purpose: Token, AbortOnly: true}, public, downSigner("f"))
	must(t, fallback, err)
	m := token.Minter{Signers: ringOf(t, primary, fallback), Rand: &counter{}}
	if got, err := m.Mint("LOOP", []byte(`{"action":"done"}`), nil, testScope, at(1)); reason(err) != "ERR_MAGIC_TOOL_INTERNAL/" {
		t.Errorf("got %+v, %v", got, err)
	}
	warm, err := GenerateFallback("", EdDSA, &counter{}, at(0))
	must(t, warm, err)
	m.Signers = ringOf(t, primary, warm)
	got, err := m.Mint("LOOP", []byte(`{"action":"done"}`), nil, testScope, at(1))
	if err != nil || !got.Fallback || !strings.HasPrefix(got.KID, "fbk-") {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestEncodeIsStrict(t *testing.T) {
	for s, want := range map[string]bool{"": true, "AA": true, "AB": false, "A": false, "AA==": false, "A\nA": false, "A A": false, "+/": false, "-_8": true} {
		if _, ok := decode(s); ok != want {
			t.Errorf("%q: %v", s, ok)
		}
	}
	if encode([]byte{0xfb, 0xff}) != base64.RawURLEncoding.EncodeToString([]byte{0xfb, 0xff}) {
		t.Error("encode")
	}
}
