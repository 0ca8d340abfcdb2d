package follow

import (
	"cmp"
	"maps"
	"slices"

	"github.com/seed14be6753/stile/messages"
)

// joiner makes one stream of updates that come twice, late or never: records in order, and
// deltas each of which continues its unit (docs/spec/design.md §2). It is pure. Its methods
// pass updates to a function, stop when that returns false, and return false then.
type joiner struct {
	seq     int64 // of the last record given
	decided int64 // the newest turn that has ended for the reader
	// shown is the text that was given of units without a record, recorded the units of
	// turns in flight with one.
	shown    map[messages.UnitID]shownUnit
	recorded map[messages.UnitID]bool
	// resumed is the unit at which the reader resumed: it has all text that was shown of the
	// turn's earlier units.
	resumed messages.UnitID
	// results is what was given of results that grow; nil while none does.
	results map[resultID]*shownResult
	floor   int64 // the position at which the reader began
}

type shownUnit struct {
	kind messages.Kind
	off  int64
}

func (j *joiner) begin(from messages.Position) {
	*j = joiner{seq: from.Seq, shown: map[messages.UnitID]shownUnit{}, recorded: map[messages.UnitID]bool{}, resumed: from.Unit}
	if from.Unit.Turn > 0 {
		j.shown[from.Unit] = shownUnit{off: from.Off}
	}
	j.resumeResults(from)
}

// whole reports whether the reader has all of a unit, and not its record.
func (j *joiner) whole(id messages.UnitID) bool {
	return id.Turn == j.resumed.Turn && id.N < j.resumed.N && !j.recorded[id]
}

// known records that the reader of the position has this unit's record.
func (j *joiner) known(b *messages.UnitText) {
	if id, err := messages.ParseUnitID(b.Unit); err == nil {
		delete(j.shown, id)
		j.recorded[id] = true
	}
}

func (j *joiner) record(r *messages.Record, give func(messages.Update) bool) bool {
	if r.Seq <= j.seq {
		return true
	}
	switch b := r.Body.(type) {
	case *messages.UnitText:
		if !j.complete(r, b, give) {
			return false
		}
		j.known(b)
	case *messages.TurnDecided:
		if !j.withdraw(r, give) {
			return false
		}
	case *messages.ActionStarted, *messages.ActionChunk, *messages.ActionEnded:
		if !j.resultRecord(r, give) {
			return false
		}
	case *messages.Retract:
		if !j.cut(r, b, give) {
			return false
		}
	}
	j.seq = r.Seq
	return give(messages.Update{Record: r, At: j.at()})
}

// at returns the position after the last update: the last record, and the newest growing text,
// before which all texts are complete.
func (j *joiner) at() messages.Position {
	p := messages.Position{Seq: j.seq, Results: j.resultsAt()}
	for id, u := range j.shown {
		if u.off > 0 && inOrder(p.Unit, id) < 0 {
			p.Unit, p.Off = id, u.off
		}
	}
	return p
}

func inOrder(a, b messages.UnitID) int {
	return cmp.Or(cmp.Compare(a.Turn, b.Turn), cmp.Compare(a.N, b.N))
}

// complete yields the rest of a unit's text from its record.
func (j *joiner) complete(r *messages.Record, b *messages.UnitText, give func(messages.Update) bool) bool {
	id, err := messages.ParseUnitID(b.Unit)
	if err != nil {
		return true
	}
	off, size := j.shown[id].off, int64(len(b.Text))
	d := messages.Delta{TS: r.TS, Seq: j.seq, Run: r.Run, Unit: id, Kind: b.UnitKind, Off: size, Thought: b.Place()}
	switch {
	case j.whole(id) && !b.Complete || off > size:
		d.Retract = true
	case off == 0 || off == size:
		return true // nothing was shown, and the record says it all; or all of it was
	default:
		d.Text = b.Text[off:]
	}
	return j.change(&d, give)
}

// cut takes back the growing text of a unit behind its first bytes.
func (j *joiner) cut(r *messages.Record, b *messages.Retract, give func(messages.Update) bool) bool {
	id, err := messages.ParseUnitID(b.Unit)
	u := j.shown[id]
	if err != nil || u.off <= b.Off {
		return true
	}
	if b.Thought {
		u.kind = messages.ThoughtUnit
	}
	return j.change(&messages.Delta{TS: r.TS, Seq: j.seq, Run: r.Run, Unit: id, Kind: u.kind, Off: b.Off, Retract: true}, give)
}

// withdraw retracts the text of units that the decided turn left without a record.
func (j *joiner) withdraw(r *messages.Record, give func(messages.Update) bool) bool {
	defer j.forget(r.Turn)
	var gone []messages.UnitID
	for id, u := range j.shown {
		if id.Turn <= r.Turn && u.off > 0 {
			gone = append(gone, id)
		}
	}
	if j.resumed.Turn == r.Turn {
		for n := range j.resumed.N {
			if id := (messages.UnitID{Turn: r.Turn, N: n}); j.whole(id) {
				gone = append(gone, id)
			}
		}
	}
	slices.SortFunc(gone, inOrder)
	for _, id := range gone {
		if !j.change(&messages.Delta{TS: r.TS, Seq: j.seq, Run: r.Run, Unit: id, Kind: j.shown[id].kind, Retract: true}, give) {
			return false
		}
	}
	return true
}

// forget drops the state of a turn that has ended.
func (j *joiner) forget(turn int64) {
	j.decided = max(j.decided, turn)
	maps.DeleteFunc(j.shown, func(id messages.UnitID, _ shownUnit) bool { return id.Turn <= turn })
	j.forgetResults(turn)
	maps.DeleteFunc(j.recorded, func(id messages.UnitID, _ bool) bool { return id.Turn <= turn })
	if j.resumed.Turn <= turn {
		j.resumed = messages.UnitID{}
	}
}

func (j *joiner) delta(d *messages.Delta, give func(messages.Update) bool) bool {
	if d.Kind == messages.ResultText {
		return j.resultDelta(d, give)
	}
	if d.Unit.Turn <= j.decided || j.recorded[d.Unit] || j.whole(d.Unit) {
		return true
	}
	off := j.shown[d.Unit].off
	from := d.Off - int64(len(d.Text))
	if d.Off <= off || from > off {
		return true // given before; or pieces between are missing, which come by Grown or with the record
	}
	own := *d
	own.Seq, own.Text = j.seq, d.Text[off-from:]
	return j.change(&own, give)
}

func (j *joiner) change(d *messages.Delta, give func(messages.Update) bool) bool {
	j.shown[d.Unit] = shownUnit{kind: d.Kind, off: d.Off}
	at := j.at()
	if inOrder(d.Unit, at.Unit) >= 0 {
		at.Unit, at.Off = d.Unit, d.Off
	}
	return give(messages.Update{Delta: d, At: at})
}
