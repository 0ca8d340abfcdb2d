package token

import (
	"crypto/ed25519"
	"fmt"
	"strings"
	"testing"

	"github.com/seed14be6753/stile/crypto/keyring"
)

// benchToken gives a token of about 300 bytes of payload, which is that of a
// program with a short request, and what verifies it.
func benchToken(b *testing.B) (line []byte, ring *keyring.Ring, m Minter, program []byte) {
	key, err := keyring.NewEdDSA(keyring.Attributes{KID: "tok-20260102-9f3a2c", Purpose: keyring.Token}, seed(0))
	ring, err = keyring.New(must(b, key, err))
	must(b, ring, err)
	m = Minter{Signers: ring, Rand: &counter{}}
	program = []byte(`{"action":"continue","request":{"note":"` + strings.Repeat("n", 40) + `"}}`)
	got, err := m.Mint("LOOP", program, nil, testScope, at(testUnix))
	must(b, got, err)
	return []byte(got.Line), ring, m, program
}

// BenchmarkVerify_Ed25519_300B compares a whole verification, replay set included,
// with the signature check alone over the same payload.
func BenchmarkVerify_Ed25519_300B(b *testing.B) {
	line, ring, _, _ := benchToken(b)
	payload, tag, _, _, reason := parse(line)
	if reason != "" {
		b.Fatal(reason)
	}
	public := ring.Set().Keys()[0].Public()
	b.Run("floor=ed25519.Verify", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if !ed25519.Verify(public, payload, tag) {
				b.Fatal("floor")
			}
		}
	})
	b.Run("stile", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if c := Verify(line, testScope, ring, new(ReplaySet), Policy{}, at(testUnix)); !c.Valid() {
				b.Fatal(c.FailureReason())
			}
		}
	})
	b.Run("all-but-signature", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, _, _, canonical, reason := parse(line); reason != "" || !canonical {
				b.Fatal(reason)
			}
		}
	})
}

// BenchmarkMint_Ed25519_300B compares minting with the signature alone.
func BenchmarkMint_Ed25519_300B(b *testing.B) {
	line, _, m, program := benchToken(b)
	payload, _, _, _, _ := parse(line)
	private := ed25519.NewKeyFromSeed(seed(0))
	b.Run("floor=ed25519.Sign", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			ed25519.Sign(private, payload)
		}
	})
	b.Run("stile", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := m.Mint("LOOP", program, nil, testScope, at(testUnix)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkReplayClaim measures one claim in a set that is full, and in the few
// entries a session usually has.
func BenchmarkReplayClaim(b *testing.B) {
	names := make([]string, 1<<14)
	for i := range names {
		names[i] = fmt.Sprintf("%036d", i)
	}
	for _, entries := range []int{8, 4096} {
		b.Run(fmt.Sprintf("entries=%d", entries), func(b *testing.B) {
			b.ReportAllocs()
			set, i := NewReplaySet(entries, 0), 0
			for b.Loop() {
				set.Claim(names[i%len(names)], at(testUnix))
				i++
			}
		})
	}
}

// BenchmarkCanonical_300B measures text that is canonical already and text that has
// to be transformed.
func BenchmarkCanonical_300B(b *testing.B) {
	line, _, _, _ := benchToken(b)
	payload, _, _, _, _ := parse(line)
	for name, text := range map[string][]byte{"already": payload, "transformed": append([]byte(" "), payload...)} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := canonicalOf(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
