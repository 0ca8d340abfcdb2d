package keyring

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// Ring is the host's keys: an immutable [Set] that rotation replaces. Reading is
// one atomic load; a reader that needs several answers to agree takes [Ring.Set]
// once and asks that. It is safe from any goroutine.
type Ring struct {
	set     atomic.Pointer[Set]
	writing sync.Mutex // held by the caller that replaces the set
}

// New returns a ring of keys. It may be empty.
func New(keys ...*Key) (*Ring, error) {
	s, err := NewSet(keys...)
	if err != nil {
		return nil, err
	}
	r := &Ring{}
	r.set.Store(s)
	return r, nil
}

// Set returns the present state.
func (r *Ring) Set() *Set { return r.set.Load() }

// TokenKeys returns the present state as the token verifier's source of keys.
func (r *Ring) TokenKeys() *Set { return r.set.Load() }

// TokenKey finds the key a token names, see [Set.TokenKey].
func (r *Ring) TokenKey(kid string) (key tokenKey, ok bool) { return r.Set().TokenKey(kid) }

// TokenSigner returns the signer for tokens in force at now, or nil.
func (r *Ring) TokenSigner(now time.Time) signer { return r.Set().TokenSigner(now) }

// TokenFallback returns the abort-only signer in force at now, or nil.
func (r *Ring) TokenFallback(now time.Time) signer { return r.Set().TokenFallback(now) }

// ReceiptSigner returns the signer for receipts in force at now, or nil.
func (r *Ring) ReceiptSigner(now time.Time) signer { return r.Set().ReceiptSigner(now) }

// SignReceipt signs a record's position and hash, see [Set.SignReceipt].
func (r *Ring) SignReceipt(inc uuid.UUID, seq int64, hash [32]byte, ts time.Time) (kid string, sig []byte, err error) {
	return r.Set().SignReceipt(inc, seq, hash, ts)
}

// VerifyReceipt checks a receipt, see [Set.VerifyReceipt].
func (r *Ring) VerifyReceipt(inc uuid.UUID, seq int64, hash [32]byte, ts time.Time, kid string, sig []byte) error {
	return r.Set().VerifyReceipt(inc, seq, hash, ts, kid, sig)
}

// Add puts a key into the ring. A key that can sign and is not retired takes over
// its role – tokens, fallback for tokens, or receipts – and retires the others of
// that role: now, or when it begins, if that is later. A key that cannot sign
// retires nothing.
//
// A token key's private half stays until [Ring.Erase], so that a turn in flight
// keeps working. A receipt key's private half is erased as soon as it is retired,
// and its public half stays. The caller writes the key file afterwards: what was
// erased here is in the old file still.
func (r *Ring) Add(k *Key, now time.Time) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	old := r.Set()
	keys := old.Keys()
	var gone []*material
	if _, retired := k.RetiredAt(); !retired && k.CanSign() {
		from := max(now.Unix(), k.NotBefore())
		for i, o := range keys {
			if o.Purpose() != k.Purpose() || o.AbortOnly() != k.AbortOnly() {
				continue
			}
			at := max(from, o.NotBefore())
			if already, is := o.RetiredAt(); !is || already > at {
				keys[i] = o.retired(at)
			}
			if spent(keys[i], now.Unix()) {
				gone = append(gone, keys[i].private)
				keys[i] = keys[i].without()
			}
		}
	}
	s, err := NewSet(append(keys, k)...)
	if err != nil {
		return err
	}
	r.replace(s, gone)
	return nil
}

// Erase does what the clock has made due and gives the ids of the keys it
// touched. Token keys beyond retired_at + retention seconds are forgotten, private
// and public half, so that their tokens become UNKNOWN_KID; receipt keys beyond
// their retirement lose the private half. retention is token.max_ttl + key.grace.
// It is cheap when nothing is due. The caller writes the key file when something
// was.
func (r *Ring) Erase(now time.Time, retention time.Duration) []string {
	r.writing.Lock()
	defer r.writing.Unlock()
	at := now.Unix()
	keep := int64((max(retention, 0) + time.Second - 1) / time.Second)
	var (
		kids []string
		keys []*Key
		gone []*material
	)
	for _, k := range r.Set().keys {
		retired, is := k.RetiredAt()
		switch {
		case k.Purpose() == Token && is && at > retired+keep:
			kids, gone = append(kids, k.KID()), append(gone, k.private)
		case spent(k, at):
			kids, gone = append(kids, k.KID()), append(gone, k.private)
			keys = append(keys, k.without())
		default:
			keys = append(keys, k)
		}
	}
	if len(kids) == 0 {
		return nil
	}
	s := &Set{keys: keys, byKID: make(map[string]*Key, len(keys))}
	for _, k := range keys {
		s.byKID[k.KID()] = k
	}
	r.replace(s, gone)
	return kids
}

// Extend moves the retirement of a receipt key to until: what it signed up to then is
// believed. It is for journals that a host went on signing with a key that had retired. The
// private half, which is gone, stays gone. ERR_CONFIG names what keeps it from that.
func (r *Ring) Extend(kid string, until time.Time) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	keys := r.Set().Keys()
	for i, k := range keys {
		if k.KID() != kid {
			continue
		}
		switch at, retired := k.RetiredAt(); {
		case k.Purpose() != Receipt:
			return badKey(kid, "purpose", "is not receipt")
		case !retired || k.CanSign():
			return badKey(kid, "retired_at", "the key has not retired")
		case until.Unix() < at:
			return badKey(kid, "retired_at", "is later already")
		}
		keys[i] = k.retired(until.Unix())
		s, err := NewSet(keys...)
		if err == nil {
			r.replace(s, nil)
		}
		return err
	}
	return badKey(kid, "kid", "names no key of the ring")
}

// Follow makes r what next is: a later state of the same keys, as the key file has it
// after another process rotated them. Turns in flight keep their keys. A private half that
// next lacks is erased in r, and so are next's own copies: next must not be used again.
//
// A next that lacks a receipt key of r, or has another key under its id, is ERR_CONFIG and
// changes nothing: it is an older state, or not these keys.
func (r *Ring) Follow(next *Ring) error {
	r.writing.Lock()
	defer r.writing.Unlock()
	old, then := r.Set(), next.Set()
	for _, k := range old.keys {
		n := then.byKID[k.KID()]
		switch {
		case n == nil && k.Purpose() == Receipt:
			return badKey(k.KID(), "kid", "is missing: an older key file, or that of another host")
		case n != nil && (n.Purpose() != k.Purpose() || n.alg != k.alg || !k.public.Equal(n.public)):
			return badKey(k.KID(), "kid", "names another key than before")
		}
	}
	var gone []*material
	keys := then.Keys()
	for i, n := range keys {
		k := old.byKID[n.KID()]
		if k == nil || k.private == nil || n.private == nil || !k.CanSign() {
			continue
		}
		own := *n
		own.private = k.private
		keys[i], gone = &own, append(gone, n.private)
	}
	for _, k := range old.keys {
		if n := then.byKID[k.KID()]; n == nil || n.private == nil {
			gone = append(gone, k.private)
		}
	}
	s, err := NewSet(keys...)
	if err != nil {
		return err
	}
	r.replace(s, gone)
	return nil
}

// spent tells of a receipt key that has retired and still has a private half.
func spent(k *Key, at int64) bool {
	retired, is := k.RetiredAt()
	return k.Purpose() == Receipt && is && retired <= at && (k.private != nil || k.outside != nil)
}

// replace swaps the set, then erases what is in it no more: a caller that reads the
// new set never meets an erased key.
func (r *Ring) replace(s *Set, gone []*material) {
	r.set.Store(s)
	for _, m := range gone {
		if m != nil {
			m.erase()
		}
	}
}

// MarshalJSON shows the records, never their material.
func (r *Ring) MarshalJSON() ([]byte, error) { return r.Set().MarshalJSON() }

// String shows the ids.
func (r *Ring) String() string { return r.Set().String() }

// Format writes String for every verb.
func (r *Ring) Format(f fmt.State, _ rune) { fmt.Fprint(f, r.String()) }
