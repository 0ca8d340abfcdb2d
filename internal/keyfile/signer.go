package keyfile

import (
	"context"
	"time"

	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/crypto/token"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// Signer gives the shells and the journal their views of a key ring.
type Signer struct {
	Ring *keyring.Ring
	// Fresh, if there is one, is called before anything is signed.
	Fresh func()
}

func (s Signer) ring() *keyring.Ring {
	if s.Fresh != nil {
		s.Fresh()
	}
	return s.Ring
}

// TokenSigner implements actors.Keys.
func (s Signer) TokenSigner(now time.Time) token.Signer { return s.ring().TokenSigner(now) }

// TokenFallback implements actors.Keys.
func (s Signer) TokenFallback(now time.Time) token.Signer { return s.ring().TokenFallback(now) }

// TokenKeys implements actors.Keys.
func (s Signer) TokenKeys(time.Time) token.KeySource { return s.Ring.TokenKeys() }

// Receipt implements journal.Signer.
func (s Signer) Receipt(inc string, seq int64, hash [32]byte, ts time.Time) (*messages.Receipt, error) {
	id, err := journal.ParseIncarnation(inc)
	if err != nil {
		return nil, err
	}
	kid, sig, err := s.ring().SignReceipt(id, seq, hash, ts)
	if err != nil {
		return nil, err
	}
	return &messages.Receipt{KID: kid, Sig: sig}, nil
}

// Verifier gives the journal its view of public receipt keys.
type Verifier struct{ Set *keyring.Set }

// VerifyReceipt implements journal.ReceiptKeys.
func (v Verifier) VerifyReceipt(kid, inc string, seq int64, hash [32]byte, sig []byte, ts time.Time) error {
	id, err := journal.ParseIncarnation(inc)
	if err != nil {
		return err
	}
	return v.Set.VerifyReceipt(id, seq, hash, ts, kid, sig)
}

// Published reads the public receipt keys that lie beside the records of a journal; an
// empty set when there are none.
func Published(ctx context.Context, store journal.Store) (*keyring.Set, error) {
	doc, err := store.Meta(ctx, journal.MetaReceiptKeys)
	if journal.IsNotFound(err) {
		return keyring.NewSet()
	}
	if err != nil {
		return nil, err
	}
	return keyring.ParseJWKS(doc)
}
