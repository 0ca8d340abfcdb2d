package journal

import (
	"crypto/sha256"
	"iter"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/seed14be6753/stile/messages"
)

// ReceiptKeys verifies receipts. VerifyReceipt returns an error when the key is unknown, is
// not a receipt key or was not valid at ts, or when the signature is wrong.
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
	WhatReceipt  = "receipt"  // a receipt that does not verify, or is missing where it must be
	WhatErased   = "erased"   // bodies are gone, and no signed session.closed follows
	WhatSince    = "since"    // the history does not go through a head of an earlier time
	WhatRead     = "read"     // the store could not give the record
)

// Problem is one fault that Verify found, at one record.
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
	// Receipts by outcome. Unchecked means that no keys were given.
	Valid, Missing, Bad, Unchecked int64
	FirstMissing                   int64 // seq, 0 for none
	// Stated is what the session's opening says is signed: "" when it says nothing, as
	// before that was written down, or was erased.
	Stated Receipts
	// Proved is the last record with a valid receipt. As far as the chain holds, it proves
	// all before it; nothing proves what follows but a head kept elsewhere.
	Proved int64

	Problems []Problem // the first MaxProblems
	Found    int64     // all of them
}

// OK reports whether Verify found no problem.
func (rep *Report) OK() bool { return rep.Found == 0 }

// VerifyOptions configure Verify. The zero value checks the chain alone.
type VerifyOptions struct {
	SID string // expected; "" takes the first record's
	Inc messages.Incarnation
	// Keys check the receipts; nil leaves them unchecked.
	Keys ReceiptKeys
	// Trusted reports whether Keys come from another source than the history. If so, a
	// missing receipt is a problem, and so are erased bodies without a signed
	// session.closed after them.
	Trusted bool
	// Receipts is the policy of a session whose opening states none. Setting it asserts
	// that the session is one, so that no receipt of it counts as missing. "" is
	// ReceiptsDecision without that assertion.
	Receipts Receipts
	// From is the anchor before the first record given; zero for a whole history.
	From Anchor
	// Head is the expected end, such as an exported head; zero does not check the end.
	Head Anchor
	// Since is a head of an earlier time, through which the chain must pass; zero skips
	// the check.
	Since Anchor
}

// Verify checks a history after the fact: chain, salted bodies, positions, epochs,
// receipts. After a problem it goes on from the hash that the record states, so that it
// names every changed record and not all that follow the first. It decodes no body: a
// history of a newer format verifies too.
//
// With keys from another source (Trusted) it proves that no record up to the last receipt
// was changed, removed, added or moved later without the private keys. The opening states
// which receipts the session must have, and is signed itself. Verify does not prove that a
// record is true, and only a head kept elsewhere shows a cut tail (docs/spec/design.md §7).
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
	due := expectation{opts: &opts, policy: opts.Receipts}
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
		if r.Seq == opts.Since.Seq && r.Hash != opts.Since.Hash {
			add(r.Seq, WhatSince, "the record's hash is another than it was: records up to here were rewritten")
		}
		due.opening(&rep, r)
		rep.receipt(r, &due, add)
	}
	for _, seq := range due.taken {
		add(seq, WhatReceipt, due.missing(&rep))
	}
	due.erasures(&rep, add)
	if c.at.Seq < opts.Since.Seq {
		add(opts.Since.Seq, WhatSince, "the last record is "+itoa(c.at.Seq)+", there were "+itoa(opts.Since.Seq)+": the end was cut off")
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

func (rep *Report) receipt(r *messages.Record, due *expectation, add func(int64, string, string)) {
	switch {
	case r.Sig == nil:
		if !due.on(r.Body.Kind()) {
			return
		}
		rep.Missing++
		if rep.FirstMissing == 0 {
			rep.FirstMissing = r.Seq
		}
		switch why := due.missing(rep); {
		case why == "":
		case due.fork && r.Epoch == forkEpoch:
			due.taken = append(due.taken, r.Seq)
		default:
			add(r.Seq, WhatReceipt, why)
		}
	case due.opts.Keys == nil:
		rep.Unchecked++
	default:
		err := due.opts.Keys.VerifyReceipt(r.Sig.KID, string(appendInc(nil, r.Inc)), r.Seq, r.Hash, r.Sig.Sig, SignedAt(r, due.fork))
		if err != nil {
			rep.Bad++
			add(r.Seq, WhatReceipt, err.Error())
			return
		}
		rep.Valid++
		rep.Proved = r.Seq
		due.taken = nil
		if r.Body.Kind() == messages.KindSessionClosed {
			due.closed = r.Seq
		}
	}
}

// expectation is which receipts a history must have: by its opening, which is signed, and
// not by what the file happens to hold.
type expectation struct {
	opts   *VerifyOptions
	policy Receipts
	stated bool  // policy is what the opening says
	signed bool  // the opening bears a receipt, so the session is one that says what is signed
	erased bool  // the opening's body is gone, and with it what it says
	closed int64 // a session.closed whose receipt is valid
	// A fork made by an earlier version signed copied records at their own times, and had no
	// key for those that are older than its keys: they have no receipt, and the next receipt
	// proves them.
	fork  bool
	taken []int64 // without a receipt so far
}

// opening sets the expectation from the first record of a session.
func (e *expectation) opening(rep *Report, r *messages.Record) {
	if r.Seq != 1 || r.Body.Kind() != messages.KindSessionOpened {
		return
	}
	e.signed, e.erased = r.Sig != nil, r.Raw == nil
	var says struct {
		Receipts Receipts       `json:"receipts"`
		Origin   map[string]any `json:"origin"`
	}
	if r.Raw == nil || json.Unmarshal(r.Raw, &says) != nil {
		return
	}
	e.fork = says.Origin != nil
	if says.Receipts != "" {
		rep.Stated, e.policy, e.stated = says.Receipts, says.Receipts, true
	}
}

// on reports whether a record of that kind must bear a receipt.
func (e *expectation) on(k messages.Kind) bool {
	if e.erased && e.signed { // what it said is gone; the erasure asks for a signed session.closed
		return false
	}
	if e.stated {
		return e.policy.Signs(k)
	}
	return e.policy.signsWork(k)
}

// missing returns why a missing receipt is a problem, or "" when it is not.
func (e *expectation) missing(rep *Report) string {
	switch {
	case !e.opts.Trusted:
		return ""
	case rep.Stated != "" || e.signed:
		return "the receipt is missing that the session's opening promises"
	case e.opts.Receipts == "":
		return "no receipt, and no signed opening that says there is none: the receipts were taken away, or the session is of a version before openings said so, and the caller has to say what it had signed"
	}
	return ""
}

// erasures adds a problem for erased bodies that no signed session.closed covers.
func (e *expectation) erasures(rep *Report, add func(int64, string, string)) {
	if !e.opts.Trusted || rep.Stated == "" && !e.signed && e.opts.Receipts != "" {
		return
	}
	for _, gone := range rep.Erased {
		if gone[0] > e.closed {
			add(gone[0], WhatErased, "records "+itoa(gone[0])+" to "+itoa(gone[1])+" are erased, and no signed session.closed follows")
		}
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

// next checks r and returns the first problem with it, or "".
func (c *chain) next(r *messages.Record) (what string, detail string) {
	c.all(r, func(_ int64, w string, d string) {
		if what == "" {
			what, detail = w, d
		}
	})
	return what, detail
}

// all checks r and adds every problem with it. Afterwards the chain continues from the hash
// that r states.
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
