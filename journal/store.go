package journal

import (
	"context"
	"iter"
	"time"

	"github.com/seed14be6753/stile/messages"
)

// MaxSeq bounds the position of a record. Stores may pack a position into 32 bits.
const MaxSeq = 1<<32 - 1

// MaxPage bounds what one Sessions call returns.
const MaxPage = 1000

// MetaReceiptKeys is the meta key of the public receipt keys, a JWKS document,
// so that a history can be verified from the file alone.
const MetaReceiptKeys = "receipt-keys"

// Batch is what one activation appends in one step: all of it or nothing.
//
// The first batch of a session (ExpectSeq 0) creates it, provided no other
// incarnation of the SID is live: a separate commit for creation is not needed.
type Batch struct {
	SID       string
	Inc       messages.Incarnation
	ExpectSeq int64 // position of the head this batch continues; 0 for none
	Epoch     int64 // of the activation: head.Epoch + 1 when it was loaded
	// Records, at least one, are sealed and continue each other. Handed over.
	Records []*messages.Record
	// Blobs are stored once per incarnation and digest. Handed over.
	Blobs []messages.Blob
	// Snapshot replaces the session's snapshot in the same commit; may be nil.
	Snapshot *Snapshot
}

// Size estimates, in bytes, what the batch costs in memory and on disk.
func (b *Batch) Size() int64 {
	n := int64(64)
	for _, r := range b.Records {
		n += int64(len(r.Raw)) + 256
	}
	for i := range b.Blobs {
		n += int64(len(b.Blobs[i].Data)) + 64
	}
	if b.Snapshot != nil {
		n += int64(len(b.Snapshot.State))
	}
	return n
}

// Head is the end of a session's chain, with the summary that a boot scan needs.
type Head struct {
	SID   string
	Inc   messages.Incarnation
	Seq   int64           // of the last record, 0 before the first
	Hash  messages.Digest // of the last record; Genesis before the first
	Epoch int64           // highest accepted; an activation uses Epoch + 1
	Run   int64           // ordinal of the last run begun
	Turn  int64           // index of the last turn begun
	// Open reports whether the last run has begun and not ended: it is in flight, or
	// waits to be settled after a crash.
	Open bool
	// Wake is when the first question of a suspended turn expires, in Unix
	// nanoseconds; 0 while no turn is suspended. Until then only an answer or a cancel
	// can move the session.
	Wake int64
	// Queued counts accepted inputs that no run has taken up yet.
	Queued int64
	// Closed reports whether session.closed was written. The SID may be used again.
	Closed bool
	// Live reports whether this incarnation is the one its SID means.
	Live bool
}

// Pending reports whether a boot scan has work here: a run is open, or inputs wait, and no
// turn is suspended.
func (h *Head) Pending() bool { return (h.Open || h.Queued > 0) && h.Wake == 0 }

// Suspended reports whether the run in flight waits for an approval.
func (h *Head) Suspended() bool { return h.Wake != 0 }

// NewHead returns the head of a session without records.
func NewHead(sid string, inc messages.Incarnation) Head {
	return Head{SID: sid, Inc: inc, Hash: Genesis(sid, inc), Live: true}
}

// Advance returns the head after b. Every store keeps its summary with Advance, and Load
// recomputes it.
func (h Head) Advance(b *Batch) Head {
	for _, r := range b.Records {
		h.advance(r)
	}
	return h
}

func (h *Head) advance(r *messages.Record) {
	h.Seq, h.Hash, h.Epoch = r.Seq, r.Hash, r.Epoch
	taken := int64(0) // inputs that came with another one
	switch b := r.Body.(type) {
	case *messages.TurnSuspended:
		h.Wake = wakeOf(b)
	case *messages.RunBegin:
		taken = int64(len(b.Merged))
	case *messages.TurnBegin:
		taken = int64(len(b.Merged))
	case *messages.RunEnd:
		taken = int64(len(b.Merged))
	}
	h.Queued = max(0, h.Queued-taken)
	switch r.Body.Kind() {
	case messages.KindInput:
		h.Queued++
	case messages.KindRunBegin:
		h.Open, h.Run = true, r.Run
		if h.Queued > 0 {
			h.Queued--
		}
	case messages.KindRunEnd:
		if r.Run == h.Run {
			h.Open = false
		} else if h.Queued > 0 { // cancelled before it began
			h.Queued--
		}
	case messages.KindTurnBegin:
		h.Turn = r.Turn
	case messages.KindTurnRestored, messages.KindTurnDecided:
		h.Wake = 0
	case messages.KindSessionClosed:
		h.Closed, h.Open, h.Queued, h.Wake = true, false, 0, 0
	}
}

// wakeOf returns when a suspended turn must wake, in Unix nanoseconds; an invalid time
// counts as past.
func wakeOf(b *messages.TurnSuspended) int64 {
	if at, err := time.Parse(time.RFC3339Nano, b.Until); err == nil && at.After(firstTime) && at.Before(endTime) {
		return max(1, at.UnixNano())
	}
	return 1
}

// Judge is the fence (docs/spec/design.md §7). It returns nil if and only if b continues h:
// ERR_FENCED when h has a higher epoch than b, STALE_HEAD when position or hash differ, and
// INVALID, before both, for a batch that is malformed in itself.
//
// The hash is compared although the design asks for position and epoch alone: two
// activations that read the same head bear the same epoch, and the loser's second
// batch could meet the right position by chance.
func Judge(h *Head, b *Batch) error {
	if err := b.check(); err != nil {
		return err
	}
	if h.Epoch > b.Epoch {
		return &messages.Error{
			Code:   messages.ErrFenced,
			Detail: "session " + h.SID + ": epoch " + itoa(b.Epoch) + " was superseded by " + itoa(h.Epoch),
		}
	}
	if h.Seq != b.ExpectSeq {
		return Fail(ReasonStaleHead, nil, "session %s: the head is at %d, not %d", h.SID, h.Seq, b.ExpectSeq)
	}
	if b.Records[0].Prev != h.Hash {
		return Fail(ReasonStaleHead, nil, "session %s: record %d does not continue the head", h.SID, h.Seq+1)
	}
	return nil
}

// check returns INVALID for a batch that no head could accept.
func (b *Batch) check() error {
	if b.SID == "" || b.Inc == (messages.Incarnation{}) {
		return Fail(ReasonInvalid, nil, "a batch without a session")
	}
	if b.ExpectSeq < 0 || b.Epoch <= 0 {
		return Fail(ReasonInvalid, nil, "session %s: expected head %d, epoch %d", b.SID, b.ExpectSeq, b.Epoch)
	}
	if len(b.Records) == 0 {
		return Fail(ReasonInvalid, nil, "session %s: a batch without records", b.SID)
	}
	seq := b.ExpectSeq
	for i, r := range b.Records {
		seq++
		switch {
		case r == nil || r.Body == nil || len(r.Raw) == 0 || r.Hash.IsZero():
			return Fail(ReasonInvalid, nil, "session %s: record %d is not sealed", b.SID, seq)
		case r.Seq != seq || seq > MaxSeq:
			return Fail(ReasonInvalid, nil, "session %s: record %d where %d belongs", b.SID, r.Seq, seq)
		case r.SID != b.SID || r.Inc != b.Inc || r.Epoch != b.Epoch:
			return Fail(ReasonInvalid, nil, "session %s: record %d belongs to another session or activation", b.SID, seq)
		case i > 0 && r.Prev != b.Records[i-1].Hash:
			return Fail(ReasonInvalid, nil, "session %s: record %d does not continue the one before", b.SID, seq)
		}
	}
	if s := b.Snapshot; s != nil && (s.Seq <= 0 || s.Seq > seq) {
		return Fail(ReasonInvalid, nil, "session %s: a snapshot of %d in a batch that ends at %d", b.SID, s.Seq, seq)
	}
	return nil
}

// Snapshot is a droppable shortcut: the state after record Seq, whose hash is
// Hash. State is opaque to the journal.
type Snapshot struct {
	Seq    int64
	Hash   messages.Digest
	Format int64 // of State, the owner's business
	State  []byte
}

// Query selects sessions in the order of SID, then incarnation.
type Query struct {
	// Prefix of the SID: "tenant:" or "tenant:user:" select by owner.
	Prefix string
	// AfterSID and AfterInc are the last session of the page before; empty starts.
	AfterSID string
	AfterInc messages.Incarnation
	// Limit is at most MaxPage; 0 is MaxPage.
	Limit int
	// Pending selects what a boot scan has to settle: open runs, waiting inputs.
	Pending bool
	// Retired includes incarnations that are no longer live.
	Retired bool

	// The fields below are for Listings alone. Empty ones select everything.

	// Inc selects one incarnation.
	Inc messages.Incarnation
	// Agent is the name that Listing.Agent must be.
	Agent string
	// Tags are those that a session must have, all of them; "key" also finds "key=value".
	// At most messages.MaxTags.
	Tags []string
	// Title is a part of the title, in letters of either case.
	Title string
	// Decision is how the last run must have ended: messages.Done, Abort or Halt.
	Decision messages.Decision
	// Suspended selects sessions with a turn that waits for an approval.
	Suspended bool
	// CreatedAfter and UpdatedAfter select sessions that were created, or changed, later.
	CreatedAfter, UpdatedAfter time.Time
	// AfterUpdated is Listing.Updated of the last session of the page before, beside
	// AfterInc; zero starts.
	AfterUpdated time.Time
}

// Page returns the limit in effect: Limit, or MaxPage when that is 0 or too large.
func (q *Query) Page() int {
	if q.Limit <= 0 || q.Limit > MaxPage {
		return MaxPage
	}
	return q.Limit
}

// Store keeps sessions. Commit and Reopen are called from one goroutine at a
// time (the Writer); everything else is safe from any goroutine at any time.
// Failures are *messages.Error with ERR_JOURNAL and a reason, or ERR_FENCED.
type Store interface {
	// Commit decides batches in order, makes the accepted ones durable in one
	// transaction, and then returns; the errors are parallel to the batches. A
	// refused batch (Judge) touches no other. Records, once accepted, belong to
	// the store and its readers and never change.
	Commit(batches []Batch) []error

	// Create makes inc the live incarnation of key, durably, or returns the head
	// of the one that is live already. It is for doors that name a session before
	// it has a record; Commit creates on its own.
	Create(ctx context.Context, key messages.SessionKey, inc messages.Incarnation) (Head, error)
	// Head is the head of the live incarnation of sid; NOT_FOUND without one. A
	// closed one stays live until the SID is used again.
	Head(ctx context.Context, sid string) (Head, error)
	// HeadOf is the head of one incarnation, live or not.
	HeadOf(ctx context.Context, inc messages.Incarnation) (Head, error)
	// Sessions returns one page of a query.
	Sessions(ctx context.Context, q Query) ([]Head, error)
	// Wakes lists live sessions whose turn is suspended and whose Head.Wake > after, in
	// the order in which their questions expire. limit is as in Query. A page never ends
	// between two sessions with the same Wake, and may be longer than limit for that.
	Wakes(ctx context.Context, after int64, limit int) ([]Head, error)

	// Read iterates over the records from..to, both included, in order; from <= 0 is the
	// first and to <= 0 the last record. It ends at the first error. A body may be
	// *messages.Undecoded: see Decode. An erased body is Undecoded with Raw nil. Read
	// holds no lock between two records.
	Read(ctx context.Context, inc messages.Incarnation, from, to int64) iter.Seq2[*messages.Record, error]
	// Blob returns the bytes with a digest, checked against it. Do not change them.
	Blob(ctx context.Context, inc messages.Incarnation, d messages.Digest) ([]byte, error)

	// Recall searches the messages of a user and the replies to them. The best hits come
	// first: those with the most words, then with the most runes of these words, then the
	// newest. A query without an owner or words, or with too many, is INVALID. A text that
	// was erased, deleted or never shown to the user is not found. A store without an index
	// of its own returns what Scan returns.
	Recall(ctx context.Context, q RecallQuery) ([]Recollection, error)
	// Heard lists inputs of a user, the oldest first, without those that were erased or
	// have no text. A store without an index returns what ScanHeard returns.
	Heard(ctx context.Context, q HeardQuery) ([]Heard, error)

	// PutSnapshot replaces the session's snapshot, if the record that it names exists.
	PutSnapshot(ctx context.Context, inc messages.Incarnation, s Snapshot) error
	// Snapshot returns the session's snapshot. The error is NOT_FOUND when it has none,
	// CORRUPT when the snapshot cannot be trusted: drop it then and load all records.
	Snapshot(ctx context.Context, inc messages.Incarnation) (Snapshot, error)
	// DropSnapshot deletes the session's snapshot; it is no error when there is none.
	DropSnapshot(ctx context.Context, inc messages.Incarnation) error

	// Erase permanently removes salt and body of the records from..to, the blobs that
	// only they name, and the snapshot. The chain still verifies. It returns how many
	// bodies it removed.
	Erase(ctx context.Context, inc messages.Incarnation, from, to int64) (int64, error)
	// Delete removes an incarnation with all its records; its SID is free again.
	Delete(ctx context.Context, inc messages.Incarnation) error

	// Meta and PutMeta keep small values beside the sessions.
	Meta(ctx context.Context, key string) ([]byte, error)
	PutMeta(ctx context.Context, key string, value []byte) error

	// Immediate reports whether Commit works in memory alone, so that the Writer may call
	// it without a goroutine of its own.
	Immediate() bool
	// Reopen opens the file or connection again after an I/O failure, and Commit works
	// again. The heads then show which of the batches in flight were committed.
	Reopen() error
	Close() error
}

// Blobs returns the digests of the blobs that a body names.
func Blobs(b messages.Body) []messages.Digest {
	var all []messages.Digest
	switch b := b.(type) {
	case *messages.Input:
		for i := range b.Parts {
			all = append(all, b.Parts[i].Digest)
		}
	case *messages.ModelRequest:
		all = []messages.Digest{b.System}
	case *messages.ModelReply:
		all = []messages.Digest{b.Blob, b.Side}
	case *messages.FeedInjected:
		all = []messages.Digest{b.Digest}
	case *messages.TurnDecided:
		all = []messages.Digest{b.Minted, b.Output, b.Scratch}
	}
	named := all[:0]
	for _, d := range all {
		if !d.IsZero() {
			named = append(named, d)
		}
	}
	return named
}
