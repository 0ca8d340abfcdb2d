package keyfile

import (
	"context"
	"sync"
	"time"

	"github.com/seed14be6753/stile/crypto/keyring"
	"github.com/seed14be6753/stile/crypto/token"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// Signer implements the interfaces of actors, journal and proof for a key ring.
type Signer struct {
	Ring *keyring.Ring
	// Fresh, if not nil, is called before each signature.
	Fresh func()
	// Tokens, if not nil, is what control tokens are verified with, in place of Ring.
	Tokens token.KeySource
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
func (s Signer) TokenKeys(time.Time) token.KeySource {
	if s.Tokens != nil {
		return s.Tokens
	}
	return s.Ring.TokenKeys()
}

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

// SignStatement implements proof.Signer.
func (s Signer) SignStatement(kind string, digest [32]byte, at time.Time) (kid string, sig []byte, err error) {
	return s.ring().SignStatement(kind, digest, at)
}

// Verifier implements journal.ReceiptKeys and proof.Keys for public receipt keys.
type Verifier struct{ Set *keyring.Set }

// VerifyReceipt implements journal.ReceiptKeys.
func (v Verifier) VerifyReceipt(kid, inc string, seq int64, hash [32]byte, sig []byte, ts time.Time) error {
	id, err := journal.ParseIncarnation(inc)
	if err != nil {
		return err
	}
	return v.Set.VerifyReceipt(id, seq, hash, ts, kid, sig)
}

// VerifyStatement implements proof.Keys.
func (v Verifier) VerifyStatement(kind string, digest [32]byte, at time.Time, kid string, sig []byte) error {
	return v.Set.VerifyStatement(kind, digest, at, kid, sig)
}

// Believed verifies with the keys that a host trusts: those of its own ring and, if hosts share a
// journal, those that the others published in it. It is safe for concurrent use.
type Believed struct {
	Ring *keyring.Ring
	// Shared is the journal of several hosts. nil trusts the ring alone, because a program
	// that can write a host's own journal can also write the keys in it.
	Shared journal.Store
	// Keeper, if it shares keys with other hosts, has theirs, in place of Shared.
	Keeper *Keeper

	mu     sync.Mutex
	doc    []byte       // as it was read last
	others *keyring.Set // of doc
}

// VerifyReceipt implements journal.ReceiptKeys.
func (b *Believed) VerifyReceipt(kid, inc string, seq int64, hash [32]byte, sig []byte, ts time.Time) error {
	return b.verify(kid, func(set *keyring.Set) error {
		return Verifier{set}.VerifyReceipt(kid, inc, seq, hash, sig, ts)
	})
}

// VerifyStatement implements proof.Keys.
func (b *Believed) VerifyStatement(kind string, digest [32]byte, at time.Time, kid string, sig []byte) error {
	return b.verify(kid, func(set *keyring.Set) error { return set.VerifyStatement(kind, digest, at, kid, sig) })
}

// verify checks with the ring's key of that id, or else with that of another host.
func (b *Believed) verify(kid string, check func(*keyring.Set) error) error {
	own := b.Ring.Set()
	_, known := own.Key(kid)
	switch {
	case b.Keeper != nil && b.Keeper.peers != nil:
		return b.verifyAny(kid, own, known, check)
	case known || b.Shared == nil:
		return check(own)
	}
	others, err := b.published(kid)
	if err != nil {
		return err
	}
	return check(others)
}

// verifyAny checks with the key of any host. A key file that was copied has keys that another
// host goes on using when this one has retired them.
func (b *Believed) verifyAny(kid string, own *keyring.Set, known bool, check func(*keyring.Set) error) error {
	if known {
		if err := check(own); err == nil {
			return nil
		}
	}
	k, ok, err := b.Keeper.peers.find(kid)
	if err != nil {
		return err
	}
	if !ok {
		return check(own)
	}
	set, err := keyring.NewSet(k)
	if err != nil {
		return err
	}
	return check(set)
}

// published are the keys of the other hosts, read again when they lack kid.
func (b *Believed) published(kid string) (*keyring.Set, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.others != nil {
		if _, known := b.others.Key(kid); known {
			return b.others, nil
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), publishedWait)
	defer cancel()
	doc, err := b.Shared.Meta(ctx, journal.MetaReceiptKeys)
	switch {
	case journal.IsNotFound(err):
		return b.Ring.Set(), nil
	case err != nil:
		return nil, err
	case b.others == nil || string(doc) != string(b.doc):
		set, err := keyring.ParseJWKS(doc)
		if err != nil {
			return nil, err
		}
		if b.others != nil {
			for _, k := range set.Keys() {
				if before, is := b.others.Key(k.KID()); is && !alike(before, k) {
					return nil, &messages.Error{Code: messages.ErrJournal, Field: k.KID(), Detail: "the journal has another public key under this id than before"}
				}
			}
		}
		b.doc, b.others = doc, set
	}
	return b.others, nil
}

// publishedWait bounds the reading of a value of the journal.
const publishedWait = 10 * time.Second

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
