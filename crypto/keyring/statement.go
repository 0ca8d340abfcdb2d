package keyring

import (
	"encoding/hex"
	"strconv"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// StatementMessage returns the bytes that a statement signs:
//
//	stile-KIND/1 LF at LF digest
//
// kind is of lower-case letters and not "receipt"; at is in Unix seconds; digest is the
// SHA-256 of what is stated, in 64 lower-case hexadecimal digits. Nothing follows it.
func StatementMessage(kind string, digest [32]byte, at time.Time) []byte {
	b := append([]byte("stile-"), kind...)
	b = append(b, "/1\n"...)
	b = append(strconv.AppendInt(b, at.Unix(), 10), '\n')
	return hex.AppendEncode(b, digest[:])
}

// SignStatement signs a digest with the receipt key that is in force at the time at. The
// error is ERR_JOURNAL with [ReceiptUnsigned], as of [Set.SignReceipt].
func (s *Set) SignStatement(kind string, digest [32]byte, at time.Time) (kid string, sig []byte, err error) {
	signer := s.ReceiptSigner(at)
	if signer == nil {
		return "", nil, &messages.Error{Code: messages.ErrJournal, Reason: ReceiptUnsigned, Detail: "no receipt key is in force"}
	}
	sig, err = signer.Sign(StatementMessage(kind, digest, at))
	if err != nil {
		return "", nil, &messages.Error{Code: messages.ErrJournal, Reason: ReceiptUnsigned, Detail: "the receipt signer failed", Cause: err}
	}
	return signer.KID(), sig, nil
}

// VerifyStatement checks a statement: kid names a receipt key, sig is its signature, and at,
// in whole seconds, lies in the key's interval. The error is ERR_JOURNAL with the details of
// [Set.VerifyReceipt].
func (s *Set) VerifyStatement(kind string, digest [32]byte, at time.Time, kid string, sig []byte) error {
	return s.verify(kid, StatementMessage(kind, digest, at), sig, at)
}

// SignStatement signs a digest, see [Set.SignStatement].
func (r *Ring) SignStatement(kind string, digest [32]byte, at time.Time) (kid string, sig []byte, err error) {
	return r.Set().SignStatement(kind, digest, at)
}

// VerifyStatement checks a statement, see [Set.VerifyStatement].
func (r *Ring) VerifyStatement(kind string, digest [32]byte, at time.Time, kid string, sig []byte) error {
	return r.Set().VerifyStatement(kind, digest, at, kid, sig)
}
