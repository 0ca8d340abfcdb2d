package stile

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"strconv"

	"github.com/seed14be6753/stile/internal/hub"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// follow yields what lies behind a position and then what comes, without a gap or a
// repetition, as far as keep wants it, up to the update that last accepts. It
// subscribes first, reads the journal, and has a joiner drop what it has given.
func (rt *Runtime) follow(ctx context.Context, sid string, inc messages.Incarnation, from Position,
	keep, last func(Update) bool,
) iter.Seq2[Update, error] {
	return func(yield func(Update, error) bool) {
		f := follower{hub: rt.host.Hub(), store: rt.store, ctx: ctx, sid: sid, inc: inc, yield: yield}
		f.waits, _ = ctx.Value(onWait{}).(func())
		f.give = func(u Update) (more bool) {
			if !keep(u) {
				return true
			}
			return yield(u, nil) && !last(u)
		}
		f.run(from)
	}
}

// follower is one ranging over follow. Its methods tell whether to go on.
type follower struct {
	hub    *hub.Hub
	store  journal.Store
	ctx    context.Context
	sid    string
	inc    messages.Incarnation
	yield  func(Update, error) bool
	give   func(Update) bool
	waits  func() // see OnWait; or nil
	joined joiner
}

// OnWait has those who range over updates under this context call f whenever all there
// is has been given, before they wait for more, on their goroutine. Who sends updates on
// gathers them until then: what came together goes together.
func OnWait(ctx context.Context, f func()) context.Context {
	return context.WithValue(ctx, onWait{}, f)
}

// onWait is the key of OnWait's function.
type onWait struct{}

func (f *follower) run(from Position) {
	// Text that the hub keeps may be of units whose record the reader has: a record is in
	// the journal a moment before the hub hears of it. Text that comes up after this line
	// is newer than the reader's position.
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

// subscribe tells as well whether the subscription has all that is behind the position.
func (f *follower) subscribe(from Position) (_ *hub.Subscription, whole bool) {
	if from.Unit != (messages.UnitID{}) {
		return f.hub.Subscribe(f.sid), false
	}
	return f.hub.SubscribeBehind(f.sid, f.inc, from.Seq)
}

func (f *follower) fail(err error) bool {
	f.yield(Update{}, closedError(err))
	return false
}

// begin takes up the position.
func (f *follower) begin(from Position, grown []Update) bool {
	f.joined.begin(from)
	if from == (Position{}) {
		return true
	}
	head, err := f.store.HeadOf(f.ctx, f.inc)
	switch {
	case err != nil:
		return f.fail(err)
	case from.Seq > head.Seq:
		return f.fail(&messages.Error{
			Code: messages.ErrConfig, Field: "position",
			Detail: "record " + strconv.FormatInt(from.Seq, 10) + " is not in the session, which has " + strconv.FormatInt(head.Seq, 10),
		})
	case from.Unit.N > maxUnits:
		return f.fail(&messages.Error{Code: messages.ErrConfig, Field: "position", Detail: "no turn has more than " + strconv.Itoa(maxUnits) + " units"})
	case from.Unit.N == 0 && len(grown) == 0:
		return true
	}
	return f.recall(from.Seq)
}

// recall finds out what the reader knows of the turn at its position: the units that
// have their record, and whether it is over. It reads the turn's records backwards.
func (f *follower) recall(to int64) bool {
	for size := int64(64); to > 0; size *= 4 {
		at, found := max(1, to-size+1), false
		for r, err := range readSpan(f.ctx, f.store, f.inc, at, to) {
			if err != nil {
				return f.fail(err)
			}
			switch b := r.Body.(type) {
			case *messages.UnitText:
				f.joined.known(b)
			case *messages.TurnBegin:
				found = true
			case *messages.TurnDecided:
				f.joined.forget(r.Turn)
				found = true
			}
		}
		if to = at - 1; found {
			break
		}
	}
	return true
}

// catchUp gives what the journal has behind what was given.
func (f *follower) catchUp() bool {
	for r, err := range readRecords(f.ctx, f.store, f.inc, f.joined.seq+1) {
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

func (f *follower) update(u Update) bool {
	if u.Delta != nil {
		return f.joined.delta(u.Delta, f.give)
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

// regrow gives the text that was shown while nobody fetched it.
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

// joiner makes one stream of what comes twice, late or never: records in order, and
// deltas of which each continues its unit (docs/spec/design.md §2). It is pure. Its methods
// give updates to a function, stop when that returns false, and tell so.
type joiner struct {
	seq     int64 // of the last record given
	decided int64 // the newest turn that is over for the reader
	// shown is what was given of units without a record, recorded the units of the
	// turns in flight that have one.
	shown    map[messages.UnitID]shownUnit
	recorded map[messages.UnitID]bool
	// resumed is the unit at which the reader came back: of the turn's units in front
	// of it the reader has all that was ever shown, however much that is.
	resumed messages.UnitID
}

type shownUnit struct {
	kind messages.UnitKind
	off  int64
}

func (j *joiner) begin(from Position) {
	*j = joiner{seq: from.Seq, shown: map[messages.UnitID]shownUnit{}, recorded: map[messages.UnitID]bool{}, resumed: from.Unit}
	if from.Unit.Turn > 0 {
		j.shown[from.Unit] = shownUnit{off: from.Off}
	}
}

// whole tells that the reader has all of a unit, and not its record.
func (j *joiner) whole(id messages.UnitID) bool {
	return id.Turn == j.resumed.Turn && id.N < j.resumed.N && !j.recorded[id]
}

// known says that the reader of the position has this unit's record.
func (j *joiner) known(b *messages.UnitText) {
	if id, err := messages.ParseUnitID(b.Unit); err == nil {
		delete(j.shown, id)
		j.recorded[id] = true
	}
}

func (j *joiner) record(r *Record, give func(Update) bool) bool {
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
	}
	j.seq = r.Seq
	return give(Update{Record: r, At: j.at()})
}

// at is the place behind what was given: the last record, and the newest text that
// grows, in front of which all is whole.
func (j *joiner) at() Position {
	p := Position{Seq: j.seq}
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

// complete makes the shown text of a unit that of its record.
func (j *joiner) complete(r *Record, b *messages.UnitText, give func(Update) bool) bool {
	id, err := messages.ParseUnitID(b.Unit)
	if err != nil {
		return true
	}
	off, size := j.shown[id].off, int64(len(b.Text))
	d := messages.Delta{Seq: j.seq, Run: r.Run, Unit: id, Kind: b.UnitKind, Off: size}
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

// withdraw takes back what was shown of units that the decided turn left without a
// record.
func (j *joiner) withdraw(r *Record, give func(Update) bool) bool {
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
		if !j.change(&messages.Delta{Seq: j.seq, Run: r.Run, Unit: id, Kind: j.shown[id].kind, Retract: true}, give) {
			return false
		}
	}
	return true
}

// forget lets go of what was kept of a turn that is over.
func (j *joiner) forget(turn int64) {
	j.decided = max(j.decided, turn)
	maps.DeleteFunc(j.shown, func(id messages.UnitID, _ shownUnit) bool { return id.Turn <= turn })
	maps.DeleteFunc(j.recorded, func(id messages.UnitID, _ bool) bool { return id.Turn <= turn })
	if j.resumed.Turn <= turn {
		j.resumed = messages.UnitID{}
	}
}

func (j *joiner) delta(d *messages.Delta, give func(Update) bool) bool {
	if d.Unit.Turn <= j.decided || j.recorded[d.Unit] || j.whole(d.Unit) {
		return true
	}
	off := j.shown[d.Unit].off
	from := d.Off - int64(len(d.Text))
	if d.Off <= off || from > off {
		return true // known; or pieces between are missing, which come by Grown or with the record
	}
	own := *d
	own.Seq, own.Text = j.seq, d.Text[off-from:]
	return j.change(&own, give)
}

func (j *joiner) change(d *messages.Delta, give func(Update) bool) bool {
	j.shown[d.Unit] = shownUnit{kind: d.Kind, off: d.Off}
	at := j.at()
	if inOrder(d.Unit, at.Unit) >= 0 {
		at.Unit, at.Off = d.Unit, d.Off
	}
	return give(Update{Delta: d, At: at})
}
