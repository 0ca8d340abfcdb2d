// Package load reads a session from its journal when it wakes.
//
// Invariants:
//   - a session is read behind everything that the writer has queued, so what it goes on from is
//     the head that its own appends continue;
//   - a snapshot is believed only with a good signature, for the state it says it is, and as far
//     as the chain leads to it from the head; without it the same state is read from the records;
//   - what a session goes on with is proved by receipts, unless the operator waived that.
//
// It decides nothing of what is done with an open turn (internal/turn/driver), and runs no
// session: actors do.
package load

import (
	"context"
	"io"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/internal/groupcommit"
	"github.com/seed14be6753/stile/internal/proof"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/internal/turn/driver"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/supervisor"
)

// Config is what a Loader reads with.
type Config struct {
	Store  journal.Store
	Writer *groupcommit.Writer
	Proofs Proofs
	Rand   io.Reader
	Now    func() time.Time
	Log    *zap.Logger
}

// Proofs says what the history of a session must prove before a host goes on with it.
type Proofs struct {
	// Keys check receipts and snapshots; nil checks nothing.
	Keys proof.Keys
	// Signer signs snapshots; nil leaves them unsigned.
	Signer proof.Signer
	// Strict asks sessions for receipts also where their opening promises none.
	Strict bool
	// GoOn goes on with sessions that prove nothing, and logs that.
	GoOn bool
}

// Loader loads the sessions of a host. It is safe for concurrent use.
type Loader struct {
	Config

	reopening sync.Mutex // held by reopen
	reopened  time.Time  // the latest attempt
}

// New makes a loader.
func New(cfg Config) *Loader { return &Loader{Config: cfg} }

// Session is what the journal has of a session.
type Session struct {
	Head  journal.Head
	State turn.State
	// Settle deals with what was open; nil when nothing was.
	Settle *turn.Settle
	// Orphan is who cancels the runs Orphans, which nothing waits for; "" where there are none.
	Orphan  string
	Orphans []int64
}

// Session reads the live incarnation of key, and what of it is open: its records, and what the
// agent's decoder makes of its reply again.
func (l *Loader) Session(ctx context.Context, key messages.SessionKey, agent *compiled.Agent) (s Session, err error) {
	if s.Head, s.State, err = l.head(ctx, key); err != nil {
		return s, err
	}
	left := driver.Recover(&s.State, agent.Dialect.Traits().InStreamActions)
	if !left.Settle {
		return s, nil
	}
	if s.Settle, err = l.readBack(ctx, agent, &s.Head, &s.State, left); err == nil {
		s.Orphan, s.Orphans = l.orphaned(ctx, &s.Head, &s.State)
	}
	return s, err
}

// head reads the live incarnation of key behind everything the writer has queued,
// from its snapshot if that can be trusted. A session that does not exist or was
// closed gets the head of a new incarnation.
func (l *Loader) head(ctx context.Context, key messages.SessionKey) (journal.Head, turn.State, error) {
	sid := key.SID()
	if err := l.reopen(ctx); err != nil {
		return journal.Head{}, turn.State{}, err
	}
	head, err := l.Writer.Activate(ctx, sid)
	if journal.IsNotFound(err) || err == nil && head.Closed {
		inc, err := NewIncarnation(l.Rand, l.Now())
		if err != nil {
			return journal.Head{}, turn.State{}, err
		}
		return journal.NewHead(sid, inc), turn.State{}, nil
	}
	if err != nil {
		return journal.Head{}, turn.State{}, err
	}
	read, err := read(ctx, l.Store, l.Proofs.Keys, head.Inc)
	if err == nil {
		err = l.proved(read)
	}
	if err != nil {
		return journal.Head{}, turn.State{}, err
	}
	return read.head, read.state, nil
}

// checkedBack is how many of the last records of a session are held against its head when
// it is woken from a snapshot. What prompts read farther back is checked as it is read.
const checkedBack = 256

// reading is what was read of a session.
type reading struct {
	head  journal.Head
	state turn.State
	recs  []*messages.Record // all, or those behind the snapshot
}

// read folds what a store has of a session, from its snapshot if keys, or in the absence of
// keys its form, say that it can be trusted.
func read(ctx context.Context, store journal.Store, keys proof.Keys, inc messages.Incarnation) (r reading, err error) {
	if snap, err := store.Snapshot(ctx, inc); err == nil && snap.Format == turn.StateFormat {
		if r, err := behind(ctx, store, keys, inc, snap); err == nil {
			return r, nil
		}
	}
	if r.head, r.recs, err = journal.Load(ctx, store, inc); err != nil {
		return reading{}, err
	}
	return r, fold(&r.state, r.recs)
}

// behind reads a session from its snapshot on.
func behind(ctx context.Context, store journal.Store, keys proof.Keys, inc messages.Incarnation, snap journal.Snapshot) (r reading, err error) {
	b, err := proof.OpenSnapshot(keys, inc, snap)
	if err != nil {
		return r, err
	}
	if r.state, err = turn.DecodeState(b); err != nil {
		return r, err
	}
	if r.state.Seq != snap.Seq {
		return r, journal.Fail(journal.ReasonCorrupt, nil, "the snapshot is of record %d, its state of %d", snap.Seq, r.state.Seq)
	}
	if r.head, r.recs, err = journal.LoadBehind(ctx, store, inc, journal.Anchor{Seq: snap.Seq, Hash: snap.Hash}, checkedBack); err != nil {
		return r, err
	}
	return r, fold(&r.state, r.recs)
}

// Snapshot leaves a state beside the log, signed where there is a signer. head is that of the state.
func (l *Loader) Snapshot(ctx context.Context, inc messages.Incarnation, head journal.Anchor, state []byte) error {
	snap, err := proof.SealSnapshot(l.Proofs.Signer, inc, head, turn.StateFormat, state, l.Now())
	if err != nil {
		return err
	}
	return l.Store.PutSnapshot(ctx, inc, snap)
}

// proved reports whether receipts prove what was read: nil, or ERR_JOURNAL with the reason
// UNPROVED, unless the host goes on all the same.
func (l *Loader) proved(r reading) error {
	p := &l.Proofs
	if p.Keys == nil {
		return nil
	}
	err := proof.History(r.recs, journal.Receipts(r.state.Signed.String()), p.Keys, p.Strict)
	if err != nil && p.GoOn {
		l.Log.Warn("a session is gone on with that proves nothing", zap.String("SID", r.head.SID), zap.Error(err))
		return nil
	}
	return err
}

// State folds what a store has of a session. It takes no snapshot on trust, wakes no session,
// and asks for no receipts.
func State(ctx context.Context, store journal.Store, inc messages.Incarnation) (journal.Head, turn.State, error) {
	head, recs, err := journal.Load(ctx, store, inc)
	if err != nil {
		return journal.Head{}, turn.State{}, err
	}
	var state turn.State
	return head, state, fold(&state, recs)
}

func fold(state *turn.State, recs []*messages.Record) error {
	for _, r := range recs {
		if err := state.Apply(r); err != nil {
			return err
		}
	}
	return nil
}

// readBack reads what the journal has of a turn that is open: its records, and what
// the decoder makes of its reply again. A reply that cannot be read back, or whose
// decoder panics, leaves a turn that cannot be restored; the session can.
func (l *Loader) readBack(ctx context.Context, agent *compiled.Agent, head *journal.Head, state *turn.State, left driver.Recovery) (*turn.Settle, error) {
	in := &turn.Settle{}
	if left.Run > 0 {
		var err error
		if in.Run, err = runRecords(ctx, l.Store, head, state.Open); err != nil {
			return nil, err
		}
	}
	if left.Turn == 0 {
		return in, nil
	}
	recs, err := turnRecords(ctx, l.Store, head.Inc, left.Turn)
	if err != nil {
		return nil, err
	}
	reply, blob, finish := driver.Reply(recs, state.Open.Turn.Index)
	if !blob.IsZero() {
		if reply, err = l.Store.Blob(ctx, head.Inc, blob); err != nil {
			if ctx.Err() != nil || !gone(err) {
				return nil, err
			}
			l.Log.Error("the reply of an open turn cannot be read back", zap.String("SID", head.SID), zap.Error(err))
			return in, nil
		}
	}
	in.Turn = recs
	if in.Feeds, err = feedsOf(ctx, l.Store, head.Inc, recs); err != nil {
		if ctx.Err() != nil || !gone(err) {
			return nil, err
		}
		l.Log.Error("a feed of an open turn cannot be read back", zap.String("SID", head.SID), zap.Error(err))
	}
	supervisor.Guard(func() {
		in.Events = driver.Events(agent.Dialect.NewDecoder(messages.TurnInfo{
			Turn: state.Open.Turn.Index, Pass: int(state.Open.Turns), State: state.Open.State, Templates: state.Open.Templates, MaxReplyBytes: agent.Rules.Limits.ReplyBytes(),
		}), reply, finish)
	}, func(crash *supervisor.Crash) {
		l.Log.Error("the decoder panicked on the reply of an open turn", zap.String("SID", head.SID), zap.ByteString("stack", crash.Stack))
		in = &turn.Settle{Run: in.Run}
	})
	return in, nil
}

// runRecords reads an open run from its input to the head. It may begin before the snapshot.
func runRecords(ctx context.Context, store journal.Store, head *journal.Head, run *turn.OpenRun) ([]*messages.Record, error) {
	var recs []*messages.Record
	for r, err := range journal.ReadHeld(ctx, store, head.Inc, run.Seq, journal.Anchor{Seq: head.Seq, Hash: head.Hash}) {
		if err != nil {
			return nil, err
		}
		if r.Run != run.Run {
			continue
		}
		if r, err = journal.Typed(r); err != nil {
			return nil, err
		}
		recs = append(recs, r)
	}
	return recs, nil
}

// feedsOf reads the values of feeds that records name.
func feedsOf(ctx context.Context, store journal.Store, inc messages.Incarnation, recs []*messages.Record) (map[messages.Digest]string, error) {
	var values map[messages.Digest]string
	for _, digest := range driver.FeedValues(recs) {
		data, err := store.Blob(ctx, inc, digest)
		if err != nil {
			return values, err
		}
		if values == nil {
			values = map[messages.Digest]string{}
		}
		values[digest] = string(data)
	}
	return values, nil
}

// gone means that bytes are not there any more, or not those that were written.
func gone(err error) bool {
	switch journal.ReasonOf(err) {
	case journal.ReasonNotFound, journal.ReasonErased, journal.ReasonCorrupt:
		return true
	}
	return false
}

// turnRecords reads an open turn from its first record to the head. A snapshot may
// stand between: the chain is followed from the turn's first record on, whose hash
// the head's vouches for.
func turnRecords(ctx context.Context, store journal.Store, inc messages.Incarnation, first int64) ([]*messages.Record, error) {
	from := journal.Anchor{Seq: first - 1}
	for r, err := range store.Read(ctx, inc, first, first) {
		if err != nil {
			return nil, err
		}
		from.Hash = r.Prev
	}
	_, recs, err := journal.LoadAfter(ctx, store, inc, from)
	return recs, err
}
