package token

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/seed14be6753/stile/crypto/keyring"
)

// Shared by the tests: a host's keys and a builder of tokens that can be wrong in
// every way. The builder knows nothing of the minter: it writes members as text.

const testUnix = 1_700_000_000

var testScope = Scope{SID: "acme:ann:s-1", TurnIndex: 7, Nonce: "AAECAwQFBgcICQoLDA0ODw"}

func at(unix int64) time.Time { return time.Unix(unix, 0) }

// seed gives 32 bytes that depend on n.
func seed(n byte) []byte {
	b := make([]byte, 32)
	for i := range b {
		b[i] = byte(i) ^ n
	}
	return b
}

func must[T any](t testing.TB, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// hostKeys is the keys the tests' host knows, by id: ed, hs and abort in force, old
// and old-abort retired 100 s before testUnix.
func hostKeys(t testing.TB) map[string]*keyring.Key {
	t.Helper()
	retired := func(unix int64) *int64 { return &unix }
	keys := map[string]*keyring.Key{}
	add := func(k *keyring.Key, err error) { keys[k.KID()] = must(t, k, err) }
	add(keyring.NewEdDSA(keyring.Attributes{KID: "ed", Purpose: keyring.Token}, seed(0)))
	add(keyring.NewHS256(keyring.Attributes{KID: "hs", Purpose: keyring.Token}, seed(1)))
	add(keyring.NewEdDSA(keyring.Attributes{KID: "abort", Purpose: keyring.Token, AbortOnly: true}, seed(2)))
	add(keyring.NewEdDSA(keyring.Attributes{KID: "old", Purpose: keyring.Token, RetiredAt: retired(testUnix - 100)}, seed(3)))
	add(keyring.NewEdDSA(keyring.Attributes{KID: "old-abort", Purpose: keyring.Token, AbortOnly: true, RetiredAt: retired(testUnix - 100)}, seed(4)))
	add(keyring.NewEdDSA(keyring.Attributes{KID: "receipt", Purpose: keyring.Receipt}, seed(5)))
	return keys
}

func hostSet(t testing.TB) *keyring.Set {
	t.Helper()
	byKID := hostKeys(t)
	kids := make([]string, 0, len(byKID))
	for kid := range byKID {
		kids = append(kids, kid)
	}
	sort.Strings(kids)
	var keys []*keyring.Key
	for _, kid := range kids {
		keys = append(keys, byKID[kid])
	}
	s, err := keyring.NewSet(keys...)
	return must(t, s, err)
}

// build is a token in the making and the circumstances it is judged in.
type build struct {
	members map[string]string // name → JSON text
	kind    string            // on the wire
	key     string            // whose material signs, whatever kid says
	text    func(string) string
	line    func(string) string
	tag     func([]byte) []byte

	scope  Scope
	now    int64
	seen   []string
	policy Policy
}

func newBuild() *build {
	return &build{
		members: map[string]string{
			"v": "3", "kind": `"LOOP"`, "jti": `"j-1"`, "session_id": `"` + testScope.SID + `"`,
			"turn_index": "7", "turn_nonce": `"` + testScope.Nonce + `"`, "issued_at": fmt.Sprint(testUnix),
			"ttl": "120", "kid": `"ed"`, "payload": `{"action":"done"}`,
		},
		kind: "LOOP", key: "ed", scope: testScope, now: testUnix,
	}
}

// payloadText gives the canonical payload, as far as the members are canonical.
func (b *build) payloadText() string {
	names := make([]string, 0, len(b.members))
	for n := range b.members {
		names = append(names, n)
	}
	sort.Strings(names)
	var s strings.Builder
	for i, n := range names {
		if i > 0 {
			s.WriteByte(',')
		}
		s.WriteString(`"` + n + `":` + b.members[n])
	}
	text := "{" + s.String() + "}"
	if b.text != nil {
		text = b.text(text)
	}
	return text
}

// make gives the line.
func (b *build) make(t testing.TB) []byte {
	t.Helper()
	set, err := keyring.NewSet(hostKeys(t)[b.key])
	if err != nil {
		t.Fatal(err)
	}
	payload := []byte(b.payloadText())
	signer := set.TokenSigner(at(0))
	if signer == nil {
		signer = set.TokenFallback(at(0))
	}
	tag := must2(signer.Sign(payload))(t)
	if b.tag != nil {
		tag = b.tag(tag)
	}
	line := "<<<NSMAG:V3:" + b.kind + ":" + base64.RawURLEncoding.EncodeToString(payload) + "." +
		base64.RawURLEncoding.EncodeToString(tag) + ">>>"
	if b.line != nil {
		line = b.line(line)
	}
	return []byte(line)
}

// must2 makes must usable on a call of two results.
func must2[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T { t.Helper(); return must(t, v, err) }
}

// verdict judges the build.
func (b *build) verdict(t testing.TB) Check {
	t.Helper()
	var replay ReplaySet
	for _, jti := range b.seen {
		replay.Claim(jti, at(b.now))
	}
	return Verify(b.make(t), b.scope, hostSet(t), &replay, b.policy, at(b.now))
}

// counter is a random source that is not: 16 bytes per draw, counting.
type counter struct{ n uint64 }

func (c *counter) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 0
	}
	c.n++
	if len(p) >= 8 {
		binary.BigEndian.PutUint64(p[len(p)-8:], c.n)
	}
	return len(p), nil
}
