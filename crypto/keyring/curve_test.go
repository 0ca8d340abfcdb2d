package keyring

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/oasisprotocol/curve25519-voi/curve"

	"github.com/seed14be6753/stile/messages"
)

// oddPoints are encodings on which implementations differ: the points of small order,
// also in forms that are not reduced, forms of nothing, and bytes that are no point.
var oddPoints = []string{
	"0100000000000000000000000000000000000000000000000000000000000000", // the neutral element
	"0100000000000000000000000000000000000000000000000000000000000080", // with a sign it cannot have
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", // order 2
	"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
	"0000000000000000000000000000000000000000000000000000000000000000", // order 4
	"0000000000000000000000000000000000000000000000000000000000000080",
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05", // order 8
	"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
	"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", // p, which is 0
	"edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f", // p + 1, which is 1
	"eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
	"ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
	"0200000000000000000000000000000000000000000000000000000000000000", // no point
	"5866666666666666666666666666666666666666666666666666666666666666", // the base point
}

// order is L, the order of the base point, least byte first.
const order = "edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010"

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// plus adds two numbers of 32 bytes, least byte first.
func plus(a, b []byte) []byte {
	sum, carry := make([]byte, len(a)), 0
	for i := range a {
		carry += int(a[i]) + int(b[i])
		sum[i], carry = byte(carry), carry>>8
	}
	return sum
}

func agrees(t testing.TB, public, message, tag []byte) {
	t.Helper()
	k := &Key{alg: EdDSA, public: public, checker: newChecker(public)} // NewPublic refuses some of them
	want := len(tag) == ed25519.SignatureSize && ed25519.Verify(public, message, tag)
	if got := k.VerifyTag(message, tag); got != want {
		t.Errorf("key %x, message %x, tag %x: %v, the standard library says %v", public, message, tag, got, want)
	}
}

// What verifies here verifies with crypto/ed25519, and the other way round: also for
// tags that no honest signer makes.
func TestVerifiesLikeTheStandardLibrary(t *testing.T) {
	var zero, one, l [32]byte
	one[0] = 1
	copy(l[:], unhex(t, order))
	message := []byte("stile")
	private := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	honest := ed25519.Sign(private, message)
	publics, points := [][]byte{private.Public().(ed25519.PublicKey)}, [][]byte{honest[:32]}
	for _, p := range oddPoints {
		publics, points = append(publics, unhex(t, p)), append(points, unhex(t, p))
	}
	scalars := [][]byte{zero[:], one[:], l[:], plus(l[:], one[:]), honest[32:], plus(honest[32:], l[:]), bytes.Repeat([]byte{255}, 32)}
	for _, public := range publics {
		for _, r := range points {
			for _, s := range scalars {
				agrees(t, public, message, slices.Concat(r, s))
				// A key of small order makes some of these good for one message in eight.
				for i := range byte(8) {
					agrees(t, public, []byte{i}, slices.Concat(r, s))
				}
			}
		}
	}
	for _, tag := range [][]byte{nil, honest[:63], append(slices.Clone(honest), 0)} {
		agrees(t, publics[0], message, tag)
	}
	for i := range len(honest) * 8 {
		bad := slices.Clone(honest)
		bad[i/8] ^= 1 << (i % 8)
		agrees(t, publics[0], message, bad)
	}
}

// The points of small order are no public keys, in whatever form and by whatever door.
// Under the first of them R = 1, S = 0 is a signature of any message.
func TestPointsOfSmallOrderAreRefused(t *testing.T) {
	forged := slices.Concat(unhex(t, oddPoints[0]), make([]byte, 32))
	if k := (&Key{alg: EdDSA, checker: newChecker(unhex(t, oddPoints[0]))}); !k.VerifyTag([]byte("any message"), forged) {
		t.Fatal("the attack does not work, so this test shows nothing")
	}
	points := map[string]bool{}
	for _, p := range oddPoints[:len(oddPoints)-3] { // the last ones are no points, and an honest one
		public := unhex(t, p)
		var point curve.EdwardsPoint
		var y curve.CompressedEdwardsY
		if _, err := y.SetBytes(public); err != nil {
			t.Fatal(err)
		}
		if _, err := point.SetCompressedY(&y); err == nil {
			y.SetEdwardsPoint(&point)
			points[string(y[:])] = true
		} else {
			t.Logf("%s is no point here", p)
		}
		for _, purpose := range []Purpose{Token, Receipt} {
			if _, err := NewPublic(Attributes{KID: "k", Purpose: purpose}, public); messages.CodeOf(err) != messages.ErrConfig || !strings.Contains(err.Error(), "keys.k.public") {
				t.Errorf("%s: NewPublic gives %v", p, err)
			}
		}
		doc := fmt.Sprintf(`{"keys":[{"kty":"OKP","crv":"Ed25519","x":%q,"kid":"k","stile_purpose":"receipt","stile_not_before":0}]}`, encode(public))
		if _, err := ParseJWKS([]byte(doc)); messages.CodeOf(err) != messages.ErrConfig {
			t.Errorf("%s: ParseJWKS gives %v", p, err)
		}
	}
	if len(points) != 8 {
		t.Errorf("%d different points, want the 8 of small order", len(points))
	}
	base := unhex(t, oddPoints[len(oddPoints)-1])
	if _, err := NewPublic(Attributes{KID: "k", Purpose: Receipt}, base); err != nil {
		t.Errorf("the base point: %v", err)
	}
}

func TestSignsLikeTheStandardLibrary(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	fill := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		return b
	}
	for range 200 {
		secret, message := fill(ed25519.SeedSize), fill(rnd.IntN(600))
		k, err := NewEdDSA(Attributes{KID: "k", Purpose: Token}, secret)
		if err != nil {
			t.Fatal(err)
		}
		r, err := New(k)
		if err != nil {
			t.Fatal(err)
		}
		tag, err := r.TokenSigner(at(10)).Sign(message)
		if err != nil || !bytes.Equal(tag, ed25519.Sign(ed25519.NewKeyFromSeed(secret), message)) {
			t.Fatalf("seed %x, message %x: %x, %v", secret, message, tag, err)
		}
		agrees(t, k.Public(), message, tag)
		tag[rnd.IntN(len(tag))] ^= 1 << rnd.IntN(8)
		agrees(t, k.Public(), message, tag)
	}
}

func FuzzVerifyTag(f *testing.F) {
	for _, p := range oddPoints {
		b := unhex(f, p)
		f.Add(b, []byte("m"), slices.Concat(b, make([]byte, 32)))
	}
	f.Fuzz(func(t *testing.T, public, message, tag []byte) {
		if len(public) == ed25519.PublicKeySize {
			agrees(t, public, message, tag)
		}
	})
}
