// Package proof judges what a host is about to build on, before it does: the history of a
// session that it goes on with or forks, and the snapshot that it would take for one. The
// file that they come from may have been written by another hand; the keys were not.
//
// Invariants:
//   - the chain of the records holds already (journal.Load): one valid receipt proves every
//     record up to it, so that one signature is checked for a session;
//   - what receipts a session must have is what its opening says, and the opening is signed;
//   - a snapshot is a shortcut to what the records say, and is believed by its signature
//     alone.
//
// It does not find what needs a witness elsewhere: a tail that was cut off, and a record
// behind the last receipt that none promises to sign.
package proof

import (
	"time"

	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// Keys check what was signed. Implementations are safe for concurrent use.
type Keys interface {
	journal.ReceiptKeys
	// VerifyStatement checks a signature over a digest, of what kind names.
	VerifyStatement(kind string, digest [32]byte, at time.Time, kid string, sig []byte) error
}

// Signer signs statements. Implementations are safe for concurrent use.
type Signer interface {
	SignStatement(kind string, digest [32]byte, at time.Time) (kid string, sig []byte, err error)
}

// History checks that receipts prove the records of a session, whose chain holds, as far as
// the session promises receipts. recs begin with its first record, or behind a point that is
// proved. stated is what its opening promises, "" for one of a version before openings did.
// Such a session goes on as it did, unless strict asks it for receipts as well.
//
// The error is ERR_JOURNAL with the reason UNPROVED and names session and record.
func History(recs []*messages.Record, stated journal.Receipts, keys journal.ReceiptKeys, strict bool) error {
	last := len(recs) - 1
	for last >= 0 && recs[last].Sig == nil {
		last--
	}
	if last >= 0 {
		if err := receipt(recs[last], forked(recs), keys); err != nil {
			return err
		}
	}
	whole := len(recs) > 0 && recs[0].Seq == 1
	policy := stated
	switch {
	case stated != "":
	case last >= 0:
		policy = SignedAs(recs)
	case strict && whole:
		return unproved(recs[0], "the session's opening does not say what is signed, and nothing is")
	default:
		return nil
	}
	for _, r := range recs[last+1:] {
		if k := r.Body.Kind(); policy.Signs(k) && (stated != "" || k != messages.KindSessionOpened) {
			return unproved(r, "its receipt is missing")
		}
	}
	return nil
}

// Prefix is History of the first cut records of a session: a receipt behind them proves them
// as well, so that an honest beginning can be taken over from a history that was spoilt
// later. It gives how the session was signed.
func Prefix(recs []*messages.Record, cut int, keys journal.ReceiptKeys, strict bool) (journal.Receipts, error) {
	stated := Stated(recs)
	signed := stated
	if signed == "" {
		signed = SignedAs(recs)
	}
	for _, r := range recs[cut-1:] {
		if r.Sig != nil && receipt(r, forked(recs), keys) == nil {
			return signed, nil
		}
	}
	return signed, History(recs[:cut], stated, keys, strict)
}

// Stated is what the opening of a session promises, "" for one that promises nothing.
func Stated(recs []*messages.Record) journal.Receipts {
	if len(recs) > 0 {
		if b, ok := recs[0].Body.(*messages.SessionOpened); ok {
			return journal.Receipts(b.Receipts)
		}
	}
	return ""
}

// SignedAs is the policy by which records look signed.
func SignedAs(recs []*messages.Record) journal.Receipts {
	for _, r := range recs {
		if r.Sig == nil {
			continue
		}
		switch r.Body.(type) {
		case *messages.TurnDecided:
			return journal.ReceiptsDecision
		case *messages.RunEnd:
			return journal.ReceiptsRun
		}
	}
	return journal.ReceiptsOff
}

// forked reports whether recs begin with the opening of a fork.
func forked(recs []*messages.Record) bool {
	b, ok := recs[0].Body.(*messages.SessionOpened)
	return ok && b.Origin != nil
}

func receipt(r *messages.Record, fork bool, keys journal.ReceiptKeys) error {
	err := keys.VerifyReceipt(r.Sig.KID, r.Inc.String(), r.Seq, r.Hash, r.Sig.Sig, journal.SignedAt(r, fork))
	if err != nil {
		return unproved(r, err.Error())
	}
	return nil
}

func unproved(r *messages.Record, why string) error {
	return journal.Fail(journal.ReasonUnproved, nil, "session %s: record %d (%s): %s; stile verify says more, docs/upgrade.md what can be done", r.SID, r.Seq, r.Body.Kind(), why)
}

// IsUnproved reports whether err means that receipts do not prove a session's history.
func IsUnproved(err error) bool { return journal.ReasonOf(err) == journal.ReasonUnproved }
