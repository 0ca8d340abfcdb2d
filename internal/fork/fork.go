// Package fork makes the beginning of a session that continues another one: the records of that
// one up to the decision of a turn, in a new chain. It decides which records a fork copies;
// the host seals and appends them.
package fork

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// Point is where and how a fork begins. The zero Point is the last decision.
type Point struct {
	// Turn is the turn after whose decision the fork continues; 0 is the last decided one.
	Turn int64
	// Stop ends a run that would go on there: HALT(ERR_CANCELLED).
	Stop bool
	// Again, if not nil, lets the fork begin before the run of Turn, or before the last run
	// for 0. It returns the input that begins the run in the fork, from the original one.
	Again func(s Start, was messages.Input) (messages.Input, error)
}

// Start is where a fork begins with an input.
type Start struct {
	SID     string               // of the fork
	From    messages.Incarnation // of the session that it continues
	Cut     int64                // position of the last record that it takes over
	Dialect string               // of the run's first turn
}

// Batch makes the records of session key, incarnation inc, which continues another session from
// a point, and returns the receipt policy of the original. The records keep their own times;
// session.opened names their origin. Inputs that were queued are cancelled in the fork, and
// lose their idempotency keys, so that a client may send them again. prove checks the first
// records of the original and returns its receipt policy (proof.Prefix), which is that of the
// fork too. Errors: ERR_NOT_FOUND (no such turn), ERR_JOURNAL (an erased body cannot be
// copied), those of prove, and those of at.Again.
func Batch(ctx context.Context, store journal.Store, prove func(recs []*messages.Record, cut int) (journal.Receipts, error), from journal.Head, at Point, key messages.SessionKey, inc messages.Incarnation, now time.Time) (batch journal.Batch, signed journal.Receipts, err error) {
	_, recs, err := journal.Load(ctx, store, from.Inc)
	if err != nil {
		return batch, "", err
	}
	var cut int
	var input *messages.Input
	if at.Again != nil {
		cut, input, err = again(recs, at, Start{SID: key.SID(), From: from.Inc})
	} else {
		cut, err = cutAt(recs, at.Turn)
	}
	if err != nil {
		return batch, "", err
	}
	if signed, err = prove(recs, cut); err != nil {
		return batch, "", err
	}
	batch = journal.Batch{SID: key.SID(), Inc: inc, Epoch: Epoch}
	named := recs[:cut]
	if input != nil {
		if len(input.Data) == 0 {
			named = append(slices.Clip(named), &messages.Record{Seq: int64(cut) + 1, Body: input})
		}
		for i := range input.Data {
			batch.Blobs = append(batch.Blobs, messages.Blob{Digest: input.Parts[i].Digest, Data: input.Data[i]})
		}
		input.Data = nil
	}
	old, err := blobsOf(ctx, store, from.Inc, named)
	batch.Blobs = append(batch.Blobs, old...)
	if err != nil {
		return batch, "", err
	}
	origin := &messages.ForkOrigin{SID: from.SID, Incarnation: from.Inc.String(), Seq: int64(cut), Hash: recs[cut-1].Hash}
	end, waiting, err := waitingAt(recs[:cut], at.Stop, now)
	if err != nil {
		return batch, "", err
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
			opened.Incarnation, opened.Origin, opened.Receipts = inc.String(), origin, string(signed)
			own.Body = &opened
		}
		if b, ok := r.Body.(*messages.Input); ok && b.Key != "" && left[r.Seq] {
			input := *b
			input.Key = ""
			own.Body = &input
		}
		batch.Records = append(batch.Records, own)
	}
	if end != nil {
		batch.Records = append(batch.Records, end)
		cut++
	}
	batch.Records = append(batch.Records, leftBehind(waiting, cut, now)...)
	if input != nil {
		batch.Records = append(batch.Records, &messages.Record{Seq: int64(len(batch.Records) + 1), Run: lastRun(batch.Records) + 1, TS: now, Body: input})
	}
	return batch, signed, nil
}

// lastRun returns the highest ordinal of a run in the records.
func lastRun(recs []*messages.Record) (run int64) {
	for _, r := range recs {
		run = max(run, r.Run)
	}
	return run
}

// again finds where the run of a turn began, 0 for the last one that did, and makes the
// input that takes the place of the one that began it.
func again(recs []*messages.Record, at Point, start Start) (cut int, input *messages.Input, err error) {
	run, found := int64(0), false
	for _, r := range recs {
		if _, begins := r.Body.(*messages.TurnBegin); begins && (at.Turn == 0 || r.Turn == at.Turn) {
			run, found = r.Run, true
		}
	}
	if !found {
		return 0, nil, noTurn("the session has no turn of that number")
	}
	began := slices.IndexFunc(recs, func(r *messages.Record) bool {
		_, begins := r.Body.(*messages.RunBegin)
		return begins && r.Run == run
	})
	first := slices.IndexFunc(recs, func(r *messages.Record) bool {
		_, begins := r.Body.(*messages.TurnBegin)
		return begins && r.Run == run
	})
	if began < 1 || first < 0 {
		return 0, nil, messages.Errorf(messages.ErrJournal, "run %d has no beginning", run)
	}
	begin, _ := recs[began].Body.(*messages.RunBegin)
	var was *messages.Input
	if begin.Input >= 1 && begin.Input <= int64(began) {
		was, _ = recs[begin.Input-1].Body.(*messages.Input)
	}
	if was == nil {
		return 0, nil, messages.Errorf(messages.ErrJournal, "the input of run %d was erased", run)
	}
	turn, _ := recs[first].Body.(*messages.TurnBegin)
	old := *was
	for _, seq := range begin.Merged { // the run took them as one
		if seq < 1 || seq > int64(began) {
			continue
		}
		if more, ok := recs[seq-1].Body.(*messages.Input); ok && more.Text != "" {
			old.Text += "\n" + more.Text
		}
	}
	for cut = began; cut > 1; cut-- { // what waited right in front of the run belongs to it
		if _, waits := recs[cut-1].Body.(*messages.Input); !waits {
			break
		}
	}
	start.Cut, start.Dialect = int64(cut), turn.Dialect
	changed, err := at.Again(start, old)
	if err != nil {
		return 0, nil, err
	}
	changed.Key, changed.Policy = "", messages.Enqueue
	return cut, &changed, nil
}

func noTurn(detail string) error {
	return &messages.Error{Code: messages.ErrNotFound, Field: "at", Detail: detail}
}

// Made returns the last record of a fork from before anything ran in it: the copied records, and
// the ends of cancelled runs. It returns 0 for other sessions.
func Made(recs []*messages.Record) (seq int64) {
	if len(recs) == 0 {
		return 0
	}
	if b, ok := recs[0].Body.(*messages.SessionOpened); !ok || b.Origin == nil {
		return 0
	}
	for _, r := range recs {
		if r.Epoch != Epoch {
			break
		}
		seq = r.Seq
	}
	return seq
}

// Epoch is the epoch of the records that a fork begins with; no session runs in it.
const Epoch = 1

// waitingAt returns the runs whose input was accepted and that had not begun. With stop, end is
// the record that ends the open run; nil if there is none.
func waitingAt(recs []*messages.Record, stop bool, now time.Time) (end *messages.Record, _ []turn.Waiting, _ error) {
	var state turn.State
	for _, r := range recs {
		if err := state.Apply(r); err != nil {
			return nil, nil, err
		}
	}
	if open := state.Open; stop && open != nil {
		body := &messages.RunEnd{Decision: messages.Halt, Reason: messages.ErrCancelled, Detail: "ended by the fork", Turns: open.Turns}
		if len(open.Merged) > 0 {
			body.Next = state.Runs + 1
		}
		end = &messages.Record{Seq: state.Seq + 1, Run: open.Run, TS: now, Body: body}
		if err := state.Apply(end); err != nil {
			return nil, nil, err
		}
	}
	waiting := state.Queue
	if state.Window != nil {
		waiting = append(waiting, state.Window.Waiting)
	}
	return end, waiting, nil
}

// furtherInputs returns a run's inputs after the first.
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

// cutAt returns how many records belong to the fork: through the decision of the turn, and the
// end of its run if that follows at once.
func cutAt(recs []*messages.Record, turn int64) (int, error) {
	at := -1
	for i, r := range recs {
		if _, ok := r.Body.(*messages.TurnDecided); ok && (turn == 0 || r.Turn == turn) {
			at = i
		}
	}
	if at < 0 {
		return 0, noTurn("the session has no decided turn of that number")
	}
	if at+1 < len(recs) {
		if _, ok := recs[at+1].Body.(*messages.RunEnd); ok && recs[at+1].Run == recs[at].Run {
			at++
		}
	}
	return at + 1, nil
}

// blobsOf reads what the records name.
func blobsOf(ctx context.Context, store journal.Store, inc messages.Incarnation, recs []*messages.Record) ([]messages.Blob, error) {
	var blobs []messages.Blob
	seen := map[messages.Digest]bool{}
	for _, r := range recs {
		for _, d := range journal.Blobs(r.Body) {
			if seen[d] {
				continue
			}
			seen[d] = true
			data, err := store.Blob(ctx, inc, d)
			if err != nil {
				return nil, errors.Join(messages.Errorf(messages.ErrJournal, "record %d names bytes that cannot be read", r.Seq), err)
			}
			blobs = append(blobs, messages.Blob{Digest: d, Data: data})
		}
	}
	return blobs, nil
}
