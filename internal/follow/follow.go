// Package follow reads sessions for their subscribers: updates as one stream without gaps or
// repetitions, the ends of runs, and selections of records. The first two join the journal
// with the hub's updates. The joiner is pure; a Source reads, subscribes and waits, and
// changes nothing.
package follow

import (
	"context"
	"errors"
	"iter"
	"strconv"

	"github.com/seed14be6753/stile/internal/hub"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// Source has the journal and the hub that updates come from.
type Source struct {
	Hub   *hub.Hub
	Store journal.Store
}

// ErrClosed returns the error for a runtime that has closed.
func ErrClosed() error { return messages.Errorf(messages.ErrCancelled, "the runtime has closed") }

// Closed returns ErrClosed for the errors with which hub and journal report the end of a
// runtime, and other errors unchanged.
func Closed(err error) error {
	if errors.Is(err, hub.ErrStopped) || journal.ReasonOf(err) == journal.ReasonClosed {
		return ErrClosed()
	}
	return err
}

// Updates yields the updates after a position, past and new ones, for which keep returns true,
// up to the update for which last does. It subscribes, then reads the journal, and a joiner
// drops repetitions.
func (s Source) Updates(ctx context.Context, sid string, inc messages.Incarnation, from messages.Position,
	keep, last func(messages.Update) bool,
) iter.Seq2[messages.Update, error] {
	return func(yield func(messages.Update, error) bool) {
		f := follower{hub: s.Hub, store: s.Store, ctx: ctx, sid: sid, inc: inc, yield: yield}
		f.waits, _ = ctx.Value(onWait{}).(func())
		f.progress = ctx.Value(withProgress{}) != nil
		f.give = func(u messages.Update) (more bool) {
			if !keep(u) {
				return true
			}
			return yield(u, nil) && !last(u)
		}
		f.run(from)
	}
}

// follower is the state of one iteration of Updates. Its methods report whether to go on.
type follower struct {
	hub    *hub.Hub
	store  journal.Store
	ctx    context.Context
	sid    string
	inc    messages.Incarnation
	yield  func(messages.Update, error) bool
	give   func(messages.Update) bool
	waits  func() // see OnWait; or nil
	joined joiner

	progress bool // see WithProgress
}

// OnWait returns a context under which Updates calls f, on the goroutine that ranges over it,
// before it blocks for more updates. A writer can collect updates until then.
func OnWait(ctx context.Context, f func()) context.Context {
	return context.WithValue(ctx, onWait{}, f)
}

// WithProgress returns a context under which Updates also yields the progress of running actions.
func WithProgress(ctx context.Context) context.Context {
	return context.WithValue(ctx, withProgress{}, true)
}

// withProgress is the key of WithProgress.
type withProgress struct{}

// onWait is the key of OnWait's function.
type onWait struct{}

func (f *follower) run(from messages.Position) {
	// The hub's text may be of units whose record the reader has: a record is in the journal
	// a moment before the hub gets it. Text that is shown after this line is newer than the
	// reader's position.
	grown := f.hub.Grown(f.sid)
	sub, whole := f.subscribe(from)
	defer sub.Close()
	switch {
	case whole:
		f.joined.begin(from)
	case !f.begin(from, grown) || !f.catchUp():
		return
	}
	f.live(sub)
}

// subscribe subscribes, and reports whether the subscription has all updates after the
// position.
func (f *follower) subscribe(from messages.Position) (_ *hub.Subscription, whole bool) {
	if from.Unit != (messages.UnitID{}) || from.Results != "" {
		return f.hub.Subscribe(f.sid), false
	}
	return f.hub.SubscribeBehind(f.sid, f.inc, from.Seq)
}

func (f *follower) fail(err error) bool {
	f.yield(messages.Update{}, Closed(err))
	return false
}

// begin starts at the position.
func (f *follower) begin(from messages.Position, grown []messages.Update) bool {
	f.joined.begin(from)
	if from == (messages.Position{}) {
		return true
	}
	head, err := f.store.HeadOf(f.ctx, f.inc)
	switch {
	case err != nil:
		return f.fail(err)
	case from.Seq > head.Seq:
		return f.fail(&messages.Error{
			Code: messages.ErrConflict, Field: "position",
			Detail: "record " + strconv.FormatInt(from.Seq, 10) + " is not in the session, which has " + strconv.FormatInt(head.Seq, 10),
		})
	case from.Unit.N > maxUnits:
		return f.fail(&messages.Error{Code: messages.ErrInvalid, Field: "position", Detail: "no turn has more than " + strconv.Itoa(maxUnits) + " units"})
	case from.Unit.N == 0 && len(grown) == 0 && from.Results == "":
		return true
	}
	return f.recall(from.Seq)
}

// recall finds out what the reader has of the turn at its position: the units with records,
// and whether the turn has ended. It reads the turn's records backwards.
func (f *follower) recall(to int64) bool {
	if to == 0 {
		return true // the reader has no record
	}
	settled := map[string]bool{} // actions whose latest record about their result was met
	for r, err := range journal.Backward(f.ctx, f.store, f.inc, 1, to, 0) {
		if err == nil {
			r, err = journal.Typed(r)
		}
		if err != nil {
			return f.fail(err)
		}
		switch b := r.Body.(type) {
		case *messages.UnitText:
			f.joined.known(b)
		case *messages.ActionStarted, *messages.ActionChunk, *messages.ActionEnded:
			f.joined.recallResult(r, settled)
		case *messages.TurnDecided:
			f.joined.forget(r.Turn)
			return true
		case *messages.TurnBegin:
			f.joined.forget(r.Turn - 1)
			return true
		}
	}
	return true
}

// catchUp yields the records of the journal that were not given yet.
func (f *follower) catchUp() bool {
	for r, err := range journal.ReadTyped(f.ctx, f.store, f.inc, f.joined.seq+1, 0) {
		if err != nil {
			return f.fail(err)
		}
		if !f.joined.record(r, f.give) {
			return false
		}
	}
	return true
}

func (f *follower) live(sub *hub.Subscription) {
	for {
		if f.waits != nil {
			f.waits()
		}
		batch, missed, err := sub.Next(f.ctx)
		if err != nil {
			f.fail(err)
			return
		}
		for _, u := range batch {
			if !f.update(u) {
				return
			}
		}
		if missed && !(f.catchUp() && f.regrow()) {
			return
		}
	}
}

func (f *follower) update(u messages.Update) bool {
	switch {
	case u.Delta == nil:
	case u.Delta.Kind != messages.KindProgress:
		return f.joined.delta(u.Delta, f.give)
	case !f.progress || u.Delta.Unit.Turn <= f.joined.decided:
		return true
	default:
		own := *u.Delta
		own.Seq = f.joined.seq
		return f.give(messages.Update{Delta: &own, At: f.joined.at()})
	}
	if u.Record.Inc != f.inc {
		return true
	}
	// A record that does not follow what was given: the ones between are in the journal.
	if u.Record.Seq > f.joined.seq+1 && !f.catchUp() {
		return false
	}
	return f.joined.record(u.Record, f.give)
}

// regrow yields the text that was shown before this reader came.
func (f *follower) regrow() bool {
	for _, u := range f.hub.Grown(f.sid) {
		if !f.joined.delta(u.Delta, f.give) {
			return false
		}
	}
	return true
}

// maxUnits bounds what a made-up position can ask for.
const maxUnits = 1 << 16
