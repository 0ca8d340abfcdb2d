package prompt

import (
	"slices"

	"github.com/seed14be6753/stile/messages"
)

// Historian is a Dialect of the trait Transcript whose finished runs render one by one:
// Render of a projection is Past of each item of its History, in order, and then Render
// of the rest. It renders no system message.
type Historian interface {
	Dialect
	Past(*messages.Item) []messages.Message
	// Tell is what Render and Past make of one turn that is over, without what joined the
	// run behind it; nil when that depends on the turns around it. They take the reply's
	// Told for it.
	Tell(*messages.Reply) []messages.Message
}

// MaxLogBytes bounds the text that a Log keeps.
const MaxLogBytes = 1 << 20

// Log keeps at hand what the prompts of a session are made of, record by record as they
// are made, so that a turn need not read its journal again. What it gives is what Project
// and Assemble give for the same records; where it cannot know that, it gives nothing.
//
//	past    finished runs, as messages
//	open    the run in flight, as records told it
//	view    all of it as of the latest turn.begin
//
// It belongs to one goroutine at a time; views are immutable.
type Log struct {
	d       Historian
	keep    int   // messages of finished runs that are enough, 0 for all
	first   int64 // position it begins with
	next    int64 // position of the record it waits for
	whole   bool  // nothing was before it, or left out
	past    []told
	open    *run
	waiting map[int64]*messages.Input
	replies map[messages.Digest]string // of the open run
	bytes   int                        // of texts
	view    *View
	lost    bool // it cannot go on
}

// told is a finished run.
type told struct {
	ordinal  int64
	messages []messages.Message
	bytes    int
}

// View is what a turn's prompt is made of beside feeds and tools.
type View struct {
	d     Historian
	turn  int64
	whole bool
	past  []told
	now   messages.Projection // of the run in flight
}

// NewLog begins a log with the record at a position. window is how many messages the
// session's prompts have at most, 0 all.
func NewLog(d Historian, first int64, window int) *Log {
	l := &Log{d: d, first: first, next: first, whole: first == 1, waiting: map[int64]*messages.Input{}}
	if window > 0 {
		l.keep = window + 1
	}
	return l
}

// Next is the position of the record that Add waits for.
func (l *Log) Next() int64 { return l.next }

// Bytes is about what it holds.
func (l *Log) Bytes() int { return l.bytes + 128*len(l.past) + 512 }

// Add takes the next record, its body typed, and the blobs it came with. ok is false when
// the log is of no use any more.
func (l *Log) Add(rec *messages.Record, blobs []messages.Blob) (ok bool) {
	if l.lost || rec.Seq != l.next {
		l.lost = true
		return false
	}
	l.next++
	switch b := rec.Body.(type) {
	case nil, *messages.Undecoded:
		l.lost = true
	case *messages.Input:
		l.waiting[rec.Seq] = b
		l.bytes += given(b)
	case *messages.RunBegin:
		l.begin(rec.Run, append([]int64{b.Input}, b.Merged...))
	case *messages.RunEnd:
		if l.open != nil && l.open.ordinal == rec.Run {
			l.open.add(rec)
			l.end()
		} else {
			for _, seq := range b.Merged { // they ended before they began
				delete(l.waiting, seq)
			}
		}
	default:
		if !Reads(b.Kind()) {
			break
		}
		if l.open == nil || l.open.ordinal != rec.Run {
			// It may change a run that is over, which is not here in a form that can be
			// changed. Of runs that were never begun, or before this log, nothing is told.
			l.lost = slices.ContainsFunc(l.past, func(t told) bool { return t.ordinal == rec.Run })
			break
		}
		if m, said := b.(*messages.ModelReply); said && !m.Blob.IsZero() && !l.hear(m.Blob, blobs) {
			l.lost = true
			break
		}
		if begin, turns := b.(*messages.TurnBegin); turns {
			l.open.join(rec.Turn, begin, l.waiting)
			l.look(rec.Turn)
		}
		l.open.add(rec)
	}
	l.lost = l.lost || l.bytes > MaxLogBytes
	return !l.lost
}

// hear keeps the text of a reply.
func (l *Log) hear(d messages.Digest, blobs []messages.Blob) bool {
	if _, known := l.replies[d]; known {
		return true
	}
	for i := range blobs {
		if blobs[i].Digest == d {
			if l.replies == nil {
				l.replies = map[messages.Digest]string{}
			}
			l.replies[d] = string(blobs[i].Data)
			l.bytes += len(blobs[i].Data)
			return true
		}
	}
	return false
}

func (l *Log) begin(ordinal int64, inputs []int64) {
	l.open, l.view, l.replies = nil, nil, nil
	if slices.Min(inputs) < l.first { // what it was given is not here: nothing before it counts
		l.past, l.whole, l.bytes = nil, false, 0
		return
	}
	l.open = &run{ordinal: ordinal, inputs: take(l.waiting, inputs)}
}

// end turns the open run into messages, and lets go of runs that no window reaches.
func (l *Log) end() {
	r := l.open
	l.open, l.view = nil, nil
	// As project has it.
	var items []messages.Item
	switch {
	case r.withdrawn && r.note != "":
		items = []messages.Item{{Role: messages.RoleUser, Text: r.note, Run: r.ordinal, Turn: r.turn}}
	case r.withdrawn:
	default:
		items = r.items(r.before(nil), &Spec{Transcript: true, Reply: l.reply})
	}
	t := told{ordinal: r.ordinal}
	for i := range items {
		t.messages = append(t.messages, l.d.Past(&items[i])...)
	}
	for i := range t.messages {
		t.bytes += len(t.messages[i].Text)
	}
	l.replies = nil
	l.past = append(l.past, t)
	l.bytes, l.waiting = 0, forget(l.waiting)
	for _, in := range l.waiting {
		l.bytes += given(in)
	}
	count := 0
	for i := len(l.past) - 1; i >= 0; i-- {
		if l.keep > 0 && count >= l.keep {
			l.past, l.whole = slices.Clone(l.past[i+1:]), false
			break
		}
		count += len(l.past[i].messages)
		l.bytes += l.past[i].bytes
	}
}

// given is the size of what came with an input.
func given(in *messages.Input) int {
	n := len(in.Text) + len(in.Userdata)
	for i := range in.History {
		n += len(in.History[i].Text)
	}
	return n
}

// forget gives back a map that has grown.
func forget(m map[int64]*messages.Input) map[int64]*messages.Input {
	if len(m) == 0 {
		return map[int64]*messages.Input{}
	}
	return m
}

func (l *Log) reply(d messages.Digest) []byte { return []byte(l.replies[d]) }

// look keeps what there is at the begin of a turn.
func (l *Log) look(turn int64) {
	r := l.open
	v := &View{d: l.d, turn: turn, whole: l.whole, past: l.past[:len(l.past):len(l.past)]}
	v.now.History = r.before(nil)
	v.now.Text, v.now.Userdata = r.given()
	v.now.LastError = r.lastError
	text := &v.now.Text
	if v.now.Text == "" && v.now.Userdata != "" {
		text = &v.now.Userdata
	}
	v.now.Replies = r.replies(l.reply, text, false)
	for i := range v.now.Replies {
		reply := &v.now.Replies[i]
		if reply.Told == nil { // read once, however many turns the run goes on for
			reply.Told = l.d.Tell(reply)
			r.at(reply.Turn).told = reply.Told
			for k := range reply.Told {
				l.bytes += len(reply.Told[k].Text)
			}
		}
		reply.Calls = slices.Clone(reply.Calls)
		reply.Errors = slices.Clone(reply.Errors)
	}
	l.view = v
}

// View is what there is at the begin of a turn; nil when that was not the latest one, or
// is not known.
func (l *Log) View(turn int64) *View {
	if l == nil || l.lost || l.view == nil || l.view.turn != turn {
		return nil
	}
	return l.view
}

// Whole tells that nothing was left out in front.
func (v *View) Whole() bool { return v.whole }

// Assemble is Assemble of what the records project to. Of spec Pass, Last, SID, Tools,
// Primer and Feeds are looked at.
func (v *View) Assemble(spec Spec) []messages.Message {
	p := v.now
	p.SID, p.Turn, p.Pass, p.Last, p.Tools, p.Primer, p.Feeds = spec.SID, v.turn, spec.Pass, spec.Last, spec.Tools, spec.Primer, spec.Feeds
	return assemble(v.d, p, v.past, v.d.Render(p))
}
