package stile

import (
	"context"

	"github.com/seed14be6753/stile/actors"
	"github.com/seed14be6753/stile/internal/compiler"
	"github.com/seed14be6753/stile/internal/fork"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// Fork makes a new session that continues name from the decision of turn atTurn on
// (0: from its last decision). The records up to there are taken over under the new
// session's chain, with their own times; session.opened names where they came from. A run
// that goes on at that turn goes on in the fork when it is opened; inputs that were
// waiting are left behind, cancelled and without their idempotency keys, so that a
// client may send them again there. Errors: ERR_NOT_FOUND (no such turn),
// ERR_CONFLICT (the new name exists), ERR_INVALID (the new name), ERR_JOURNAL (an erased body cannot be taken over,
// or the receipts of the session do not prove its records).
func (rt *Runtime) Fork(ctx context.Context, name string, atTurn int64, newName string) (*Head, error) {
	return rt.fork(ctx, name, fork.Point{Turn: atTurn}, newName)
}

// ForkStopped is Fork of a session that has ended at that turn: a run that would go on ends
// HALT(ERR_CANCELLED) in the fork, which then waits for an input.
func (rt *Runtime) ForkStopped(ctx context.Context, name string, atTurn int64, newName string) (*Head, error) {
	return rt.fork(ctx, name, fork.Point{Turn: atTurn, Stop: true}, newName)
}

// ForkInput makes a new session that has of name what was before the run of turn atTurn (0:
// the last run that began), and text as its next input, in place of the one that began the
// run: "edit and try again from here". User, time zone, budget and given history stay those of
// the old input, and opts change them. An empty text says the old input again. The input is on
// disk with the fork; its run begins when the fork is opened. Errors are those of Fork,
// ERR_NOT_FOUND when no such turn began, and what the dialect says of the text.
func (rt *Runtime) ForkInput(ctx context.Context, name string, atTurn int64, newName, text string, opts ...SubmitOption) (*Head, error) {
	return rt.fork(ctx, name, fork.Point{Turn: atTurn, Again: func(dialect string, in messages.Input) (messages.Input, error) {
		if text != "" {
			in.Text, in.Userdata = text, ""
		}
		for _, o := range opts {
			o(&in)
		}
		return compiler.CheckInput(rt.cfg.Dialects, dialect, in)
	}}, newName)
}

func (rt *Runtime) fork(ctx context.Context, name string, at fork.Point, newName string) (*Head, error) {
	key, err := messages.ParseSID(newName)
	if err != nil {
		return nil, err
	}
	if err := refuseName(key); err != nil {
		return nil, err
	}
	if there, err := rt.store.Head(ctx, key.SID()); !journal.IsNotFound(err) && !there.Closed {
		if err == nil {
			err = &messages.Error{Code: messages.ErrConflict, Field: "as", Detail: "the session " + key.SID() + " exists already"}
		}
		return nil, err
	}
	from, err := rt.Archive().Head(ctx, name)
	if err != nil {
		return nil, err
	}
	inc, err := actors.NewIncarnation(rt.cfg.Rand, rt.cfg.Now())
	if err != nil {
		return nil, err
	}
	batch, signed, err := fork.Batch(ctx, rt.store, rt.proves, from, at, key, inc, rt.cfg.Now())
	if err != nil {
		return nil, err
	}
	began := journal.NewHead(key.SID(), inc)
	if err := rt.sealAs(&began, &batch, signed, true); err != nil {
		return nil, err
	}
	if err := rt.writer.AppendWait(ctx, batch); err != nil {
		return nil, closedError(err)
	}
	head, err := rt.store.HeadOf(ctx, inc)
	return &head, err
}

// seal seals records that continue a head outside of an activation of the session.
func (rt *Runtime) seal(head *Head, b *journal.Batch, signed journal.Receipts) error {
	return rt.sealAs(head, b, signed, false)
}

// sealAs is seal, also of the records of a fork.
func (rt *Runtime) sealAs(head *Head, b *journal.Batch, signed journal.Receipts, fork bool) error {
	return journal.NewSealer(journal.SealerConfig{
		Head: *head, Epoch: b.Epoch, Rand: rt.cfg.Rand, Signer: rt.signer(), Receipts: signed, Fork: fork,
	}).Seal(b.Records, rt.cfg.Now())
}
