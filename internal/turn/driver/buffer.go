package driver

import (
	"time"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
)

// ManyRecords go to the journal although more inputs are at hand: what a model says at once
// may make a hundred thousand.
const ManyRecords = 1024

const (
	// recordBytes estimates a record's size beside its blobs: sealing knows the size exactly,
	// but only when the record already goes.
	recordBytes = 256
	// lazyRecords is how many small lazy records may gather before the bytes count.
	lazyRecords = 16
)

// buffer holds records on their way to the journal: eager ones go at once and take the lazy
// ones before them along; lazy ones alone wait until due (docs/spec/design.md §2).
type buffer struct {
	records []*messages.Record
	sealed  int // of records
	blobs   []messages.Blob
	bytes   int
	eager   bool
	begins  bool      // a lazy record says that a call begins: followers wait for it
	due     time.Time // of the oldest lazy record; zero when there is none
}

// add takes a record in.
func (b *buffer) add(p *turn.Persist, now time.Time) {
	if b.records == nil {
		b.records = make([]*messages.Record, 0, 8)
	}
	b.records = append(b.records, p.Record)
	b.blobs = append(b.blobs, p.Blobs...)
	b.bytes += recordBytes
	if !instructs(p.Record.Body) {
		for i := range p.Blobs {
			b.bytes += len(p.Blobs[i].Data)
		}
	}
	if p.Hold <= 0 {
		b.eager = true
		return
	}
	switch p.Record.Body.(type) {
	case *messages.ActionDeclared, *messages.ActionStarted:
		b.begins = true
	}
	if at := now.Add(p.Hold); b.due.IsZero() || at.Before(b.due) {
		b.due = at
	}
	// A lazy batch over its limit goes at once, whatever it is made of.
	if b.bytes >= turn.LazyBytes+recordBytes*lazyRecords {
		b.eager = true
	}
}

// instructs reports a record whose blobs need not hurry: a system message comes once in a
// session, instructions once in a run.
func instructs(b messages.Body) bool {
	switch b := b.(type) {
	case *messages.ModelRequest:
		return true
	case *messages.FeedInjected:
		return b.ID == messages.InstructionsFeed
	}
	return false
}

// Batch is what one append hands to the journal: Records continue the record of number Base.
type Batch struct {
	Base    int64
	Records []*messages.Record
	Blobs   []messages.Blob
}

// Held is the number of records that were not sent yet.
func (d *Driver) Held() int {
	if d.work == nil {
		return 0
	}
	return len(d.work.records)
}

// Awaited reports whether a record is held that followers of the session wait for: a call
// that begins is shown when its record is durable.
func (d *Driver) Awaited() bool { return d.work != nil && d.work.begins }

// Unsealed are the records that are held and were not sealed yet; Sealed says that they are.
func (d *Driver) Unsealed() []*messages.Record {
	if d.work == nil {
		return nil
	}
	return d.work.records[d.work.sealed:]
}

// Sealed says that everything held is sealed.
func (d *Driver) Sealed() {
	if d.work != nil {
		d.work.sealed = len(d.work.records)
	}
}

// Batch takes everything that is held, which the caller has sealed and now appends. The
// journal's answer comes as Acked, or the driver is stopped. ok is false when nothing is held.
func (d *Driver) Batch() (b Batch, ok bool) {
	if d.stopped || d.Held() == 0 {
		return Batch{}, false
	}
	w := d.work
	b = Batch{Base: w.records[0].Seq - 1, Records: w.records, Blobs: w.blobs}
	w.buffer = buffer{}
	w.inFlight++
	return b, true
}

// Pending reports whether records are held, or sent without an answer.
func (d *Driver) Pending() bool {
	return d.work != nil && (len(d.work.records) > 0 || d.work.inFlight > 0)
}

// AwaitFlush has Flushed give handle when nothing is pending any more.
func (d *Driver) AwaitFlush(handle uint64) {
	w := d.working()
	w.flushes = append(w.flushes, handle)
}

// Flushed takes the handles of AwaitFlush: nil while something is pending.
func (d *Driver) Flushed() []uint64 {
	if d.work == nil || d.Pending() {
		return nil
	}
	all := d.work.flushes
	d.work.flushes = nil
	return all
}

// Overdue reports whether lazy records have waited long enough.
func (d *Driver) Overdue(now time.Time) bool {
	return !d.stopped && d.work != nil && !d.work.buffer.due.IsZero() && !d.work.buffer.due.After(now)
}
