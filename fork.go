package stile

import (
	"context"

	"github.com/seed14be6753/stile/internal/compiler"
	"github.com/seed14be6753/stile/internal/fork"
	"github.com/seed14be6753/stile/internal/load"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// Fork makes the new session newName from the records of name up to the decision of turn
// atTurn (0: up to its last decision). The records are copied into the new session's chain
// with their original times; session.opened names their origin. A run that was open at that
// decision continues when the fork is opened. Queued inputs are cancelled in the fork and
// lose their idempotency keys, so that a client may send them again. Errors: ERR_NOT_FOUND
// (no such turn), ERR_CONFLICT (newName exists), ERR_INVALID (newName is malformed),
// ERR_JOURNAL (a body was erased, or the receipts of the session do not prove its records).
func (rt *Runtime) Fork(ctx context.Context, name string, atTurn int64, newName string) (*Head, error) {
	return rt.fork(ctx, name, fork.Point{Turn: atTurn}, newName)
}

// ForkStopped is Fork, and ends an open run HALT(ERR_CANCELLED) in the fork, which then waits
// for an input.
func (rt *Runtime) ForkStopped(ctx context.Context, name string, atTurn int64, newName string) (*Head, error) {
	return rt.fork(ctx, name, fork.Point{Turn: atTurn, Stop: true}, newName)
}

// ForkInput makes the new session newName from the records of name before the run of turn
// atTurn (0: before the last run), with text as its next input: "edit and try again from
// here". User, time zone, budget and history are those of the input that began the run; opts
// change them. An empty text repeats the old input. The input is durable with the fork; its
// run begins when the fork is opened. Errors are those of Fork, ERR_NOT_FOUND when no such
// turn began, the dialect's errors for the text, and ERR_QUOTA (Config.Spending): the new
// session has used what the records that it takes over say.
func (rt *Runtime) ForkInput(ctx context.Context, name string, atTurn int64, newName, text string, opts ...SubmitOption) (*Head, error) {
	return rt.fork(ctx, name, fork.Point{Turn: atTurn, Again: func(s fork.Start, in messages.Input) (messages.Input, error) {
		if text != "" {
			in.Text, in.Userdata = text, ""
		}
		for _, o := range opts {
			o(&in)
		}
		if len(in.Data) > 0 {
			if err := compiler.SniffParts(&in); err != nil {
				return in, err
			}
		}
		in, err := compiler.CheckInput(rt.cfg.Dialects, s.Dialect, in)
		if err != nil {
			return in, err
		}
		return in, closedError(rt.spendForked(ctx, s, &in))
	}}, newName)
}

func (rt *Runtime) fork(ctx context.Context, name string, at fork.Point, newName string) (*Head, error) {
	if err := rt.cfg.readOnly(); err != nil {
		return nil, err
	}
	key, err := messages.ParseSID(newName)
	if err != nil {
		return nil, err
	}
	if err := refuseName(key); err != nil {
		return nil, err
	}
	if there, err := rt.store.Head(ctx, key.SID()); !journal.IsNotFound(err) && !there.Closed {
		if err == nil {
			err = &messages.Error{Code: messages.ErrConflict, Field: "as", Detail: "session " + key.SID() + " exists already"}
		}
		return nil, err
	}
	from, err := rt.Archive().Head(ctx, name)
	if err != nil {
		return nil, err
	}
	inc, err := load.NewIncarnation(rt.cfg.Rand, rt.cfg.Now())
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
