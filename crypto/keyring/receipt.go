package keyring

import (
	"encoding/hex"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/seed14be6753/stile/messages"
)

// Details of ERR_JOURNAL about receipts.
const (
	ReceiptUnsigned = "RECEIPT_UNSIGNED" // no key can sign at that time, or the signer failed
	ReceiptKey      = "RECEIPT_KEY"      // the receipt names no known receipt key
	ReceiptTime     = "RECEIPT_TIME"     // the signature is right, the record's ts outside the key's interval
	ReceiptTag      = "RECEIPT_TAG"      // the signature is wrong
)

// ReceiptMessage returns the bytes that a receipt signs (docs/spec/design.md §7):
//
//	stile-receipt/1 LF inc LF seq LF hash
//
// inc is the incarnation as 36 characters of lower-case UUID text, seq the
// record's number in decimal, hash the record's hash in 64 lower-case hexadecimal
// digits. Nothing follows it.
func ReceiptMessage(inc uuid.UUID, seq int64, hash [32]byte) []byte {
	b := make([]byte, 0, 16+36+1+20+1+64)
	b = append(b, "stile-receipt/1\n"...)
	b = append(b, inc.String()...)
	b = append(b, '\n')
	b = strconv.AppendInt(b, seq, 10)
	b = append(b, '\n')
	return hex.AppendEncode(b, hash[:])
}

// SignReceipt signs a record with the receipt key that is in force at the
// record's own ts, so that its verification finds ts within the key's interval.
// Without a key, or when the signer fails, the error is ERR_JOURNAL with
// [ReceiptUnsigned]: the journal commits the record unsigned and counts it.
func (s *Set) SignReceipt(inc uuid.UUID, seq int64, hash [32]byte, ts time.Time) (kid string, sig []byte, err error) {
	signer := s.ReceiptSigner(ts)
	if signer == nil {
		return "", nil, &messages.Error{Code: messages.ErrJournal, Reason: ReceiptUnsigned, Detail: "no receipt key is in force"}
	}
	sig, err = signer.Sign(ReceiptMessage(inc, seq, hash))
	if err != nil {
		return "", nil, &messages.Error{Code: messages.ErrJournal, Reason: ReceiptUnsigned, Detail: "the receipt signer failed", Cause: err}
	}
	return signer.KID(), sig, nil
}

// VerifyReceipt checks a receipt: kid names a receipt key, ts, in whole seconds,
// lies in [not_before, retired_at] of it, and sig is its signature. The error is
// ERR_JOURNAL with the first detail of these that fails. A retired key verifies
// for ever; what it signs after its retirement does not.
func (s *Set) VerifyReceipt(inc uuid.UUID, seq int64, hash [32]byte, ts time.Time, kid string, sig []byte) error {
	return s.verify(kid, ReceiptMessage(inc, seq, hash), sig, ts)
}

// verify checks what a receipt key has signed.
func (s *Set) verify(kid string, message, sig []byte, ts time.Time) error {
	k := s.byKID[kid]
	if k == nil || k.Purpose() != Receipt {
		return &messages.Error{Code: messages.ErrJournal, Reason: ReceiptKey, Detail: "the receipt names no known receipt key"}
	}
	if !k.VerifyTag(message, sig) {
		return &messages.Error{Code: messages.ErrJournal, Reason: ReceiptTag, Detail: "the signature of key " + kid + " is wrong"}
	}
	retired, is := k.RetiredAt()
	if at := ts.Unix(); at < k.NotBefore() || is && at > retired {
		return &messages.Error{Code: messages.ErrJournal, Reason: ReceiptTime, Detail: "the signature is good, and the record's time is outside the interval of key " + kid}
	}
	return nil
}
