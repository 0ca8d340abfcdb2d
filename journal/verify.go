package journal

import (
	"crypto/sha256"
	"iter"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// ReceiptKeys checks receipts. It fails when the key is unknown, is no receipt
// key, did not sign at ts, or when the signature is wrong.
type ReceiptKeys interface {
	VerifyReceipt(kid, inc string, seq int64, hash [32]byte, sig []byte, ts time.Time) error
}

// The problems Verify names.
const (
	WhatBody     = "body"     // salt or body do not give the body digest
	WhatHash     = "hash"     // the header does not give the hash
	WhatPrev     = "prev"     // it does not continue the record before
	WhatGap      = "gap"      // records are missing before this one
	WhatOrder    = "order"    // a position that was there before
	WhatIdentity = "identity" // another session's record
	WhatEpoch    = "epoch"    // a lower epoch than the record before
	WhatTail     = "tail"     // the history ends before, or not at, the expected head
	WhatReceipt  = "receipt"  // a receipt that does not verify
	WhatRead     = "read"     // the store could not give the record
)

// Problem is one thing that is wrong, at one record.
type Problem struct {
	Seq    int64
	What   string // WhatBody and so on
	Detail string
}

// MaxProblems bounds what a report lists; Report.Found counts all.
const MaxProblems = 1000

// Report is the outcome of Verify.
type Report struct {
	SID     string
	Inc     messages.Incarnation
	Records int64  // seen
	Through Anchor // the chain holds from the start to here
	Last    Anchor // of the last record seen: an exported head
	// Erased are the ranges of positions, both ends included, whose bodies are gone. They
	// are no problem.
	Erased [][2]int64
	// Receipts by outcome. Missing ones (no signer at the time) are no problem
	// either, but say so; Unchecked means that no keys were given.
	Valid, Missing, Bad, Unchecked int64
	FirstMissing                   int64 // seq, 0 for none

	Problems []Problem // the first MaxProblems
	Found    int64     // all of them
}

// OK tells that nothing was changed, cut, or falsely signed.
func (rep *Report) OK() bool { return rep.Found == 0 }

// VerifyOptions say against what to verify.
type VerifyOptions struct {
	SID string // expected; "" takes the first record's
	Inc messages.Incarnation
	// Keys check the receipts; nil leaves them unchecked.
	Keys ReceiptKeys
	// Receipts is the policy the session was written under, for Missing.
	Receipts Receipts
	// From is where the records begin: zero for the first record.
	From Anchor
	// Head is the head that was exported; zero does not check the tail.
	Head Anchor
}

// Verify checks a history after the fact: chain, salted bodies, positions,
// epochs, receipts. It goes on after a problem, judging the rest from the hash
// that is written down, so that every changed record is named and not all that
// follow it. It decodes no body: a history of a newer format verifies too.
//
// What it proves: nobody changed, removed, added or moved a record without the
// receipt keys, after the fact. It does not prove that what was recorded is true,
// and only an exported head shows a cut tail (docs/spec/design.md §7).
func Verify(records iter.Seq2[*messages.Record, error], opts VerifyOptions) Report {
	rep := Report{SID: opts.SID, Inc: opts.Inc, Through: opts.From, Last: opts.From}
	add := func(seq int64, what string, detail string) {
		rep.Found++
		if len(rep.Problems) < MaxProblems {
			rep.Problems = append(rep.Problems, Problem{Seq: seq, What: what, Detail: detail})
		}
	}
	c := chain{sid: opts.SID, inc: opts.Inc, at: opts.From}
	holds := true
	for r, err := range records {
		if err != nil {
			add(c.at.Seq+1, WhatRead, err.Error())
			holds = false
			break
		}
		if rep.Records == 0 {
			if c.sid == "" {
				c.sid = r.SID
			}
			if c.inc == (messages.Incarnation{}) {
				c.inc = r.Inc
			}
			rep.SID, rep.Inc = c.sid, c.inc
			if opts.From == (Anchor{}) {
				c.at.Hash = Genesis(c.sid, c.inc)
			}
		}
		rep.Records++
		before := rep.Found
		c.all(r, add)
		holds = holds && rep.Found == before
		if holds {
			rep.Through = c.at
		}
		rep.Last = c.at
		if r.Raw == nil {
			rep.erased(r.Seq)
		}
		rep.receipt(r, &opts, add)
	}
	if opts.Head != (Anchor{}) && c.at != opts.Head {
		detail := "the last record is " + itoa(c.at.Seq) + ", the head was " + itoa(opts.Head.Seq)
		if c.at.Seq == opts.Head.Seq {
			detail = "the last record's hash is not the head's"
		}
		add(max(c.at.Seq, opts.Head.Seq), WhatTail, detail)
	}
	return rep
}

func (rep *Report) erased(seq int64) {
	if n := len(rep.Erased); n > 0 && rep.Erased[n-1][1]+1 == seq {
		rep.Erased[n-1][1] = seq
		return
	}
	rep.Erased = append(rep.Erased, [2]int64{seq, seq})
}

func (rep *Report) receipt(r *messages.Record, opts *VerifyOptions, add func(int64, string, string)) {
	switch {
	case r.Sig == nil:
		if opts.Receipts.signs(r.Body.Kind()) {
			rep.Missing++
			if rep.FirstMissing == 0 {
				rep.FirstMissing = r.Seq
			}
		}
	case opts.Keys == nil:
		rep.Unchecked++
	default:
		err := opts.Keys.VerifyReceipt(r.Sig.KID, string(appendInc(nil, r.Inc)), r.Seq, r.Hash, r.Sig.Sig, r.TS)
		if err != nil {
			rep.Bad++
			add(r.Seq, WhatReceipt, err.Error())
			return
		}
		rep.Valid++
	}
}

// chain follows a history record by record.
type chain struct {
	sid     string
	inc     messages.Incarnation
	at      Anchor
	epoch   int64
	scratch []byte
}

// next takes r and gives the first thing wrong with it, or "".
func (c *chain) next(r *messages.Record) (what string, detail string) {
	c.all(r, func(_ int64, w string, d string) {
		if what == "" {
			what, detail = w, d
		}
	})
	return what, detail
}

// all takes r and reports everything wrong with it. Afterwards the chain stands at
// r, as r says.
func (c *chain) all(r *messages.Record, add func(int64, string, string)) {
	if r.SID != c.sid || r.Inc != c.inc {
		add(r.Seq, WhatIdentity, "the record belongs to "+r.SID+" "+r.Inc.String())
	}
	want := c.at.Seq + 1
	switch {
	case r.Seq > want:
		add(r.Seq, WhatGap, "records "+itoa(want)+" to "+itoa(r.Seq-1)+" are missing")
	case r.Seq < want:
		add(r.Seq, WhatOrder, "after record "+itoa(c.at.Seq))
	}
	if r.Prev != c.at.Hash {
		add(r.Seq, WhatPrev, "prev is not the hash of the record before")
	}
	if r.Epoch < c.epoch {
		add(r.Seq, WhatEpoch, "epoch "+itoa(r.Epoch)+" after "+itoa(c.epoch))
	}
	if r.Raw != nil {
		var d messages.Digest
		d, c.scratch = bodyDigest(c.scratch, &r.Salt, r.Raw)
		if d != r.BodyDigest {
			add(r.Seq, WhatBody, "salt and body do not give the body digest")
		}
	}
	c.scratch = appendHeader(c.scratch[:0], r, r.Body.Kind())
	if messages.Digest(sha256.Sum256(c.scratch)) != r.Hash {
		add(r.Seq, WhatHash, "the header does not give the hash")
	}
	c.epoch = r.Epoch
	c.at = Anchor{Seq: r.Seq, Hash: r.Hash}
}
