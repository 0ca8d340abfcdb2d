package prompt

import (
	"slices"

	"github.com/seed14be6753/stile/internal/native"
	"github.com/seed14be6753/stile/messages"
)

// Historian is a Dialect whose finished runs render one by one: Render of a projection is
// Past of each item of its History, in order, and then Render of the rest. It renders no
// system message.
type Historian interface {
	Dialect
	// Traits reports whether finished runs go back as they went (messages.Traits.Transcript).
	Traits() messages.Traits
	Past(*messages.Item) []messages.Message
	// Tell is what Render and Past make of one turn that is over, without what joined the
	// run behind it; nil when that depends on the turns around it. They take the reply's
	// Told for it.
	Tell(*messages.Reply) []messages.Message
}

// MaxLogBytes bounds the text that a Log keeps.
const MaxLogBytes = 4 << 20

// Log keeps at hand what the prompts of a session are made of, record by record as they
// are made, so that a turn need not read its journal again. What it gives is what Project
// and Assemble give for the same records; where it cannot know that, it gives nothing.
//
//	past    finished runs, as messages one behind the other; runs says whose they are
//	open    the run in flight, as records told it
//	view    all of it as of the latest turn.begin
//
// It belongs to one goroutine at a time; views are immutable.
type Log struct {
	d         Historian
	rendering int64
	window    Window
	first     int64 // position it begins with
	next      int64 // position of the record it waits for
	whole     bool  // nothing was before it, or left out
	past      texts // views have it: nothing in it changes but its end
	runs      []told
	pages     pages
	open      *run
	waiting   map[int64]*messages.Input
	replies   map[messages.Digest]string // of the open run
	bytes     int                        // of texts
	view      *View
	lost      bool // it cannot go on
}

// told is a finished run.
type told struct {
	ordinal   int64
	withdrawn bool
	messages  int   // of past
	text      int64 // bytes of theirs
	bytes     int   // what is kept of it
	// open is the run where actions of it have not ended, with what it was given; nil
	// when nothing of it can change any more.
	open    *run
	replies map[messages.Digest]string
}

// weigh counts what is kept of the run whose messages are said.
func (t *told) weigh(added *texts) {
	t.messages, t.text, t.bytes = len(added.messages), textBytes(added.messages), added.bytes()
	for _, text := range t.replies {
		t.bytes += len(text)
	}
}

// NewLog begins a log with the record at a position. window bounds the session's prompts,
// and rendering is their version.
func NewLog(d Historian, first int64, window Window, rendering int64) *Log {
	return &Log{d: d, rendering: rendering, window: window, first: first, next: first, whole: first == 1, waiting: map[int64]*messages.Input{}}
}

// Next is the position of the record that Add waits for.
func (l *Log) Next() int64 { return l.next }

// Bytes is about what it holds.
func (l *Log) Bytes() int { return l.bytes + perMessage*len(l.past.messages) + 128*len(l.runs) + 512 }

// perMessage is about what a message costs beside its text: itself, its sum and its part of
// a page.
const perMessage = 192

// Add takes the next record, its body typed where a prompt is made of it (Reads), and the
// blobs it came with. ok is false when the log is of no use any more.
func (l *Log) Add(rec *messages.Record, blobs []messages.Blob) (ok bool) {
	if l.lost || rec.Seq != l.next {
		l.lost = true
		return false
	}
	l.next++
	switch b := rec.Body.(type) {
	case nil:
		l.lost = true
	case *messages.Undecoded:
		l.lost = Reads(b.Of)
	case *messages.Input:
		l.waiting[rec.Seq] = heard(b, l.rendering)
		l.bytes += given(l.waiting[rec.Seq])
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
			// Of runs that were never begun, or before this log, nothing is told.
			if i := slices.IndexFunc(l.runs, func(t told) bool { return t.ordinal == rec.Run }); i >= 0 {
				l.lost = !l.amend(i, rec)
			}
			break
		}
		if m, ok := b.(*messages.ModelReply); ok && !(l.hear(m.Blob, blobs) && l.hear(m.Side, blobs)) {
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

// hear keeps the text of a reply, or what is beside it.
func (l *Log) hear(d messages.Digest, blobs []messages.Blob) bool {
	if d.IsZero() {
		return true
	}
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
		l.past, l.runs, l.whole, l.bytes = texts{}, nil, false, 0
		return
	}
	l.open = &run{ordinal: ordinal, inputs: take(l.waiting, inputs)}
}

// end turns the open run into messages, and lets go of runs that no window reaches.
func (l *Log) end() {
	r := l.open
	var added texts // nothing of a finished run that no prompt has
	t := told{ordinal: r.ordinal, withdrawn: r.withdrawn}
	unseen := l.window.None && !r.withdrawn
	if !unseen {
		added = l.tell(r, l.replies)
	}
	if r.acts() && !unseen {
		if t.open = r; l.d.Traits().Transcript {
			t.replies = l.replies
		}
	}
	t.weigh(&added)
	l.open, l.view, l.replies = nil, nil, nil
	l.runs, l.past = append(l.runs, t), l.past.with(added)
	l.bytes, l.waiting = 0, forget(l.waiting)
	for _, in := range l.waiting {
		l.bytes += given(in)
	}
	count := 0
	first, settled := l.since()
	for i := len(l.runs) - 1; i >= 0; i-- {
		// One more run than a prompt holds shows that earlier runs do not count.
		if l.window.Messages > 0 && count > l.window.Messages || settled && i < first-1 {
			// What is left out goes when the rest moves to grow.
			clear(l.runs[:i+1])
			l.runs, l.whole = l.runs[i+1:], false
			l.past = l.past.from(len(l.past.messages) - count)
			break
		}
		count += l.runs[i].messages
		l.bytes += l.runs[i].bytes
	}
}

// since is the first run that a prompt has (Window.since).
func (l *Log) since() (first int, settled bool) {
	return l.window.since(len(l.runs), func(i int) past { return past{l.runs[i].text, l.runs[i].withdrawn} })
}

// before counts the messages of the runs in front of one.
func (l *Log) before(i int) (n int) {
	for k := range i {
		n += l.runs[k].messages
	}
	return n
}

// tell is what a finished run is in a prompt, as project has it.
func (l *Log) tell(r *run, replies map[messages.Digest]string) texts {
	var items []messages.Item
	switch {
	case r.withdrawn && r.note != "":
		items = []messages.Item{{Role: messages.RoleUser, Text: r.note, Run: r.ordinal, Turn: r.turn}}
	case r.withdrawn:
	default:
		items = r.items(r.before(nil), &Spec{
			Rendering: l.rendering, Transcript: l.d.Traits().Transcript, Reply: func(d messages.Digest) []byte { return []byte(replies[d]) },
			Tell: l.d.Tell,
		})
	}
	var ms []messages.Message
	for i := range items {
		ms = append(ms, l.d.Past(&items[i])...)
	}
	return sumsOf(ms)
}

// amend adds a record to a run that has ended: a detached action has begun or ended. Views
// keep their messages.
func (l *Log) amend(i int, rec *messages.Record) bool {
	t := &l.runs[i]
	switch rec.Body.(type) {
	case *messages.ActionStarted, *messages.ActionEnded:
	default:
		return false
	}
	switch {
	case l.window.None && !t.withdrawn:
		return true
	case t.open == nil:
		return false
	}
	from := l.before(i)
	to := from + t.messages
	l.bytes -= t.bytes
	t.open.add(rec)
	added := l.tell(t.open, t.replies)
	if !t.open.acts() {
		t.open, t.replies = nil, nil
	}
	t.weigh(&added)
	l.bytes += t.bytes
	l.past = texts{}.with(l.past.cut(0, from)).with(added).with(l.past.cut(to, len(l.past.messages)))
	return true
}

// given is the size of what came with an input.
func given(in *messages.Input) int {
	n := len(in.Text) + len(in.Userdata)
	for i := range in.History {
		n += len(in.History[i].Text)
	}
	return n
}

// forget drops a map that has grown.
func forget(m map[int64]*messages.Input) map[int64]*messages.Input {
	if len(m) == 0 {
		return map[int64]*messages.Input{}
	}
	return m
}

// look keeps what there is at the begin of a turn.
func (l *Log) look(turn int64) {
	r := l.open
	v := &View{d: l.d, turn: turn, pages: &l.pages}
	first, settled := l.since()
	v.past, v.whole = l.past.cut(l.before(first), len(l.past.messages)), l.whole || settled
	v.now.History = r.before(nil)
	v.now.Text, v.now.Userdata = r.given()
	v.now.Parts = r.parts()
	v.now.LastError, v.now.Refused, v.now.Broken = r.lastError, r.refused, r.broken
	text := &v.now.Text
	if v.now.Text == "" && v.now.Userdata != "" {
		text = &v.now.Userdata
	}
	v.now.Replies = r.replies(func(d messages.Digest) string { return l.replies[d] }, text, false)
	for i := range v.now.Replies {
		reply := &v.now.Replies[i]
		of := r.at(reply.Turn)
		if reply.Told == nil { // read once, however many turns the run goes on for
			of.told = sumsOf(native.Attach(l.d.Tell(reply), reply))
			reply.Told = of.told.messages
			l.bytes += of.told.bytes()
		}
		of.shown = true
		v.told = append(v.told, of.told)
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
