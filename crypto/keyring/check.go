package keyring

import (
	"crypto/ed25519"
	"crypto/sha512"
	"crypto/subtle"
	"sync"

	"github.com/oasisprotocol/curve25519-voi/curve"
	"github.com/oasisprotocol/curve25519-voi/curve/scalar"
)

// checker checks the signatures of one Ed25519 key. It accepts what crypto/ed25519
// accepts, and nothing else: a reader who checks a journal with that must come to the
// same result.
//
// A check is the equation R = s·B − k·A of RFC 8032 without its cofactor. A library
// that meets a key for the first time computes it as one product with two factors.
// A host checks with the same few keys for its whole life, so the multiples of −A
// are laid out once, like those of B, and both products are sums of table entries.
type checker struct {
	public [ed25519.PublicKeySize]byte
	small  bool                                // a point of small order, whose signatures anyone can make
	minusA func() *curve.EdwardsBasepointTable // 40 KiB, made by the first check
}

// newChecker returns nil for bytes that are no point: such a key verifies nothing.
func newChecker(public ed25519.PublicKey) *checker {
	var y curve.CompressedEdwardsY
	if _, err := y.SetBytes(public); err != nil {
		return nil
	}
	a := new(curve.EdwardsPoint)
	if _, err := a.SetCompressedY(&y); err != nil {
		return nil
	}
	return &checker{public: [ed25519.PublicKeySize]byte(public), small: a.IsSmallOrder(), minusA: sync.OnceValue(func() *curve.EdwardsBasepointTable {
		return curve.NewEdwardsBasepointTable(new(curve.EdwardsPoint).Neg(a))
	})}
}

// good reports whether sig is the key's signature of message.
func (c *checker) good(message, sig []byte) bool {
	// A scalar that is not reduced would be a second signature of the same message.
	if len(sig) != ed25519.SignatureSize || !scalar.ScMinimalVartime(sig[32:]) {
		return false
	}
	var digest [sha512.Size]byte
	h := sha512.New()
	h.Write(sig[:32])
	h.Write(c.public[:])
	h.Write(message)

	var s, k scalar.Scalar
	if _, err := s.SetBytesModOrder(sig[32:]); err != nil {
		return false
	}
	if _, err := k.SetBytesModOrderWide(h.Sum(digest[:0])); err != nil {
		return false
	}
	var sB, kA curve.EdwardsPoint
	sB.MulBasepoint(curve.ED25519_BASEPOINT_TABLE, &s)
	kA.MulBasepoint(c.minusA(), &k)
	var r curve.CompressedEdwardsY
	r.SetEdwardsPoint(sB.Add(&sB, &kA))
	return subtle.ConstantTimeCompare(r[:], sig[:32]) == 1
}
