package hub

import "github.com/seed14be6753/stile/messages"

// begun has the first records of a session's run in flight, without gaps. A client that submits
// usually subscribes at once: these records are all it has missed, and the journal need not be
// read.
type begun []*messages.Record

// maxBegun bounds begun: a subscriber that has missed more records reads the journal.
const maxBegun = 12

// begin keeps a published record, or drops the kept ones.
func (sh *hubShard) begin(sid string, r *messages.Record) {
	kept := sh.begun[sid]
	switch r.Body.(type) {
	case *messages.Input:
	case *messages.RunEnd, *messages.TurnSuspended:
		delete(sh.begun, sid)
		return
	default:
		if kept == nil {
			return
		}
	}
	switch {
	case len(kept) == maxBegun:
		delete(sh.begun, sid)
		return
	case len(kept) > 0 && !kept.follows(r):
		kept = nil
	case kept == nil:
		kept = make(begun, 0, maxBegun)
	}
	sh.begun[sid] = append(kept, r)
}

func (b begun) follows(r *messages.Record) bool {
	last := b[len(b)-1]
	return r.Seq == last.Seq+1 && r.Inc == last.Inc
}

// behind returns the records after a position of an incarnation, and reports whether they and
// the shown text are all there is after it.
func (b begun) behind(inc messages.Incarnation, seq int64, shown []messages.Update) (all []messages.Update, whole bool) {
	if len(b) == 0 || b[0].Inc != inc || seq < b[0].Seq-1 || seq >= b[len(b)-1].Seq {
		return nil, false
	}
	var turn int64 // the first that begins after the position
	for _, r := range b[seq-b[0].Seq+1:] {
		if _, ok := r.Body.(*messages.TurnBegin); ok && turn == 0 {
			turn = r.Turn
		}
		all = append(all, messages.Update{Record: r})
	}
	for _, u := range shown {
		// Of a turn that began before it the reader may have the unit's record.
		if turn == 0 || u.Delta.Unit.Turn < turn {
			return nil, false
		}
	}
	return append(all, shown...), true
}

// Forget drops the kept records of a session that is loaded from its journal: they may not be
// all of its records.
func (h *Hub) Forget(sid string) {
	sh := h.shard(sid)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	delete(sh.begun, sid)
	for _, w := range sh.waits[sid] {
		w.hears = nil
	}
}
