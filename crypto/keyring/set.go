package keyring

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// MaxKeys bounds a set. Receipt keys stay for as long as their journals do, so a
// set only grows there: one rotation a day fills it in eleven years.
const MaxKeys = 4096

// tokenKey is a key as the token verifier sees it. The interface is unnamed so
// that it is the same type as the one the token room asks for.
type tokenKey = interface {
	AbortOnly() bool
	RetiredAt() (unix int64, ok bool)
	VerifyTag(message, tag []byte) bool
}

// Set is one immutable state of a ring, or the public keys of another party's. It
// is safe from any goroutine.
type Set struct {
	keys  []*Key // in the order of their addition
	byKID map[string]*Key
}

// NewSet returns the set of keys. Their ids must differ.
func NewSet(keys ...*Key) (*Set, error) {
	if len(keys) > MaxKeys {
		return nil, &messages.Error{Code: messages.ErrConfig, Reason: "KEY", Field: "keys", Detail: fmt.Sprintf("more than %d", MaxKeys)}
	}
	s := &Set{keys: append([]*Key(nil), keys...), byKID: make(map[string]*Key, len(keys))}
	for _, k := range keys {
		if s.byKID[k.KID()] != nil {
			return nil, badKey(k.KID(), "kid", "is used twice")
		}
		s.byKID[k.KID()] = k
	}
	return s, nil
}

// Keys lists the records in the order of their addition. The slice is a copy.
func (s *Set) Keys() []*Key { return append([]*Key(nil), s.keys...) }

// Key finds a record of any purpose.
func (s *Set) Key(kid string) (k *Key, ok bool) {
	k, ok = s.byKID[kid]
	return k, ok
}

// TokenKey finds the key a token names. Receipt keys are not found here.
func (s *Set) TokenKey(kid string) (key tokenKey, ok bool) {
	if k := s.byKID[kid]; k != nil && k.attrs.Purpose == Token {
		return k, true
	}
	return nil, false
}

// TokenSigner returns the signer for tokens in force at now, or nil.
func (s *Set) TokenSigner(now time.Time) signer { return s.inForce(Token, false, now) }

// TokenFallback returns the abort-only signer in force at now, or nil.
func (s *Set) TokenFallback(now time.Time) signer { return s.inForce(Token, true, now) }

// ReceiptSigner returns the signer for receipts in force at now, or nil.
func (s *Set) ReceiptSigner(now time.Time) signer { return s.inForce(Receipt, false, now) }

// inForce picks among the keys that may sign now the one that began last, of
// several that one which was added last.
func (s *Set) inForce(purpose Purpose, abortOnly bool, now time.Time) signer {
	at := now.Unix()
	var best *Key
	for _, k := range s.keys {
		if k.attrs.Purpose == purpose && k.attrs.AbortOnly == abortOnly && k.signs(at) &&
			(best == nil || k.attrs.NotBefore >= best.attrs.NotBefore) {
			best = k
		}
	}
	if best == nil {
		return nil
	}
	return best.signer()
}

// MarshalJSON shows the records, never their material.
func (s *Set) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Keys []*Key `json:"keys"`
	}{s.keys})
}

// String shows the ids.
func (s *Set) String() string {
	kids := make([]string, len(s.keys))
	for i, k := range s.keys {
		kids[i] = k.KID()
	}
	return "keys[" + strings.Join(kids, " ") + "]"
}

// Format writes String for every verb.
func (s *Set) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }
