package stile

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// Fork makes a new session that continues name from the decision of turn atTurn on
// (0: from its last decision). The records up to there are taken over under the new
// session's chain, with their own times; session.opened names where they came from. A run
// that goes on at that turn goes on in the fork when it is opened; inputs that were
// waiting are left behind, cancelled and without their idempotency keys, so that a
// client may send them again there. Errors: ERR_CONFIG (no such turn, the new name exists),
// ERR_JOURNAL (an erased body cannot be taken over).
func (rt *Runtime) Fork(ctx context.Context, name string, atTurn int64, newName string) (*journal.Head, error) {
	key, err := messages.ParseSID(newName)
	if err != nil {
		return nil, err
	}
	if err := refuseProfile(key); err != nil {
		return nil, err
	}
	if there, err := rt.store.Head(ctx, key.SID()); !journal.IsNotFound(err) && !there.Closed {
		if err == nil {
			err = &messages.Error{Code: messages.ErrConfig, Field: "as", Detail: "the session " + key.SID() + " exists already"}
		}
		return nil, err
	}
	from, err := rt.Archive().Head(ctx, name)
	if err != nil {
		return nil, err
	}
	_, recs, err := journal.Load(ctx, rt.store, from.Inc)
	if err != nil {
		return nil, err
	}
	cut, err := cutAt(recs, atTurn)
	if err != nil {
		return nil, err
	}
	inc, err := rt.newIncarnation()
	if err != nil {
		return nil, err
	}
	batch := journal.Batch{SID: key.SID(), Inc: inc, Epoch: forkEpoch}
	if batch.Blobs, err = rt.blobsOf(ctx, from.Inc, recs[:cut]); err != nil {
		return nil, err
	}
	origin := &messages.ForkOrigin{SID: from.SID, Incarnation: from.Inc.String(), Seq: int64(cut), Hash: recs[cut-1].Hash}
	waiting, err := waitingAt(recs[:cut])
	if err != nil {
		return nil, err
	}
	left := map[int64]bool{} // records of inputs that the fork does not take up
	for i := range waiting {
		left[waiting[i].Seq] = true
		for _, seq := range furtherInputs(&waiting[i]) {
			left[seq] = true
		}
	}
	for _, r := range recs[:cut] {
		own := &messages.Record{Seq: r.Seq, Run: r.Run, Turn: r.Turn, TS: r.TS, Body: r.Body}
		if b, ok := r.Body.(*messages.SessionOpened); ok {
			opened := *b
			opened.Incarnation, opened.Origin = inc.String(), origin
			own.Body = &opened
		}
		if b, ok := r.Body.(*messages.Input); ok && b.Key != "" && left[r.Seq] {
			input := *b
			input.Key = ""
			own.Body = &input
		}
		batch.Records = append(batch.Records, own)
	}
	batch.Records = append(batch.Records, leftBehind(waiting, cut, rt.cfg.Now())...)
	sealer := journal.NewSealer(journal.SealerConfig{
		Head: journal.NewHead(key.SID(), inc), Epoch: forkEpoch, Rand: rt.cfg.Rand, Signer: ringKeys{rt.keys}, Receipts: receiptsOf(recs),
	})
	if err := sealer.Seal(batch.Records, rt.cfg.Now()); err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	rt.writer.Append(batch, func(err error) { done <- err })
	select {
	case err = <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return nil, closedError(err)
	}
	head, err := rt.store.HeadOf(ctx, inc)
	return &head, err
}

// forkEpoch is the activation under which a fork is written; no session runs in it.
const forkEpoch = 1

// waitingAt are the runs whose input was accepted and that had not begun.
func waitingAt(recs []*messages.Record) ([]turn.Waiting, error) {
	var state turn.State
	for _, r := range recs {
		if err := state.Apply(r); err != nil {
			return nil, err
		}
	}
	waiting := state.Queue
	if state.Window != nil {
		waiting = append(waiting, state.Window.Waiting)
	}
	return waiting, nil
}

// furtherInputs are those of a run but for the first.
func furtherInputs(w *turn.Waiting) (seqs []int64) {
	for _, p := range slices.Concat(w.More, w.Merged) {
		seqs = append(seqs, p.Seq)
	}
	return seqs
}

// leftBehind cancels the runs that were waiting at the cut.
func leftBehind(waiting []turn.Waiting, cut int, now time.Time) (ends []*messages.Record) {
	for i := range waiting {
		ends = append(ends, &messages.Record{Seq: int64(cut + len(ends) + 1), Run: waiting[i].Run, TS: now, Body: &messages.RunEnd{
			Decision: messages.Halt, Reason: messages.ErrCancelled, Detail: "cancelled by the fork before it began", Merged: furtherInputs(&waiting[i]),
		}})
	}
	return ends
}

// receiptsOf signs the copy as the original was signed: what was taken over keeps
// a receipt only if it had one.
func receiptsOf(recs []*messages.Record) journal.Receipts {
	for _, r := range recs {
		if r.Sig == nil {
			continue
		}
		if _, ok := r.Body.(*messages.TurnDecided); ok {
			return journal.ReceiptsDecision
		}
		return journal.ReceiptsRun
	}
	return journal.ReceiptsOff
}

// cutAt gives how many records belong to the fork: through the decision of the
// turn, and the end of its run when that follows at once.
func cutAt(recs []*messages.Record, turn int64) (int, error) {
	at := -1
	for i, r := range recs {
		if _, ok := r.Body.(*messages.TurnDecided); ok && (turn == 0 || r.Turn == turn) {
			at = i
		}
	}
	if at < 0 {
		return 0, &messages.Error{Code: messages.ErrConfig, Field: "at", Detail: "the session has no decided turn of that number"}
	}
	if at+1 < len(recs) {
		if _, ok := recs[at+1].Body.(*messages.RunEnd); ok && recs[at+1].Run == recs[at].Run {
			at++
		}
	}
	return at + 1, nil
}

// blobsOf reads what the records name.
func (rt *Runtime) blobsOf(ctx context.Context, inc messages.Incarnation, recs []*messages.Record) ([]messages.Blob, error) {
	var blobs []messages.Blob
	seen := map[messages.Digest]bool{}
	for _, r := range recs {
		for _, d := range journal.Blobs(r.Body) {
			if seen[d] {
				continue
			}
			seen[d] = true
			data, err := rt.store.Blob(ctx, inc, d)
			if err != nil {
				return nil, errors.Join(messages.Errorf(messages.ErrJournal, "record %d names bytes that cannot be read", r.Seq), err)
			}
			blobs = append(blobs, messages.Blob{Digest: d, Data: data})
		}
	}
	return blobs, nil
}
