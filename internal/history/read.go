package history

import (
	"context"
	"iter"
	"slices"

	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/internal/intake"
	"github.com/seed14be6753/stile/internal/prompt"
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// Reader makes the messages of one turn.
type Reader struct {
	Store journal.Store
	Agent *compiled.Agent
	SID   string
	Inc   messages.Incarnation
	Open  *turn.OpenModel
	// Durable is a record that the session has written: what is read of its journal is held
	// against that.
	Durable journal.Anchor
	View    *prompt.View  // of the kept history; nil: it is to be read
	Share   *intake.Share // of the process's memory
	// CatchUp is that of the session if it waits for what is read, and Caught takes what was;
	// both are nil otherwise.
	CatchUp *CatchUp
	Caught  func(*CaughtUp)

	ctx context.Context // of Messages
}

// Messages returns the messages of the turn: from the carried streams where the
// dialect's history is those, else from the journal.
func (r *Reader) Messages(ctx context.Context) ([]messages.Message, error) {
	r.ctx = ctx
	if err := r.Agent.Instructed(r.Open.Feeds); err != nil {
		return nil, err
	}
	var msgs []messages.Message
	var err error
	switch {
	case r.Agent.Dialect.Traits().Carry:
		msgs, err = r.carried()
	case r.View != nil:
		msgs, err = r.remembered()
	case r.Agent.Window.Bounded():
		msgs, err = r.recent()
	default:
		msgs, err = r.transcript()
	}
	if err != nil || r.Agent.Shape == nil {
		return msgs, err
	}
	return r.Agent.Shape(compiled.History{SID: r.SID, Run: r.Open.Run, Turn: r.Open.Turn, Messages: slices.Clone(msgs)}), nil
}

// carried is the prompt of dialects whose history is the streams of the turn before.
func (r *Reader) carried() ([]messages.Message, error) {
	e := r.Open
	p := messages.Projection{
		SID: r.SID, Turn: e.Turn, Pass: e.Pass, Last: e.Last, Text: e.Text, Userdata: e.Userdata,
		Out: e.Out, Scr: e.Scr, Tools: r.Agent.Specs, Primer: r.Agent.Primer, LastError: e.LastError, Note: e.Note, Feeds: e.Feeds,
	}
	var err error
	if p.Failed, err = e.Tell(r.blob); err != nil {
		return nil, err
	}
	if !e.HaveCarry {
		if p.Out, err = r.blob(e.OutDigest); err != nil {
			return nil, err
		}
		if p.Scr, err = r.blob(e.ScrDigest); err != nil {
			return nil, err
		}
	}
	return prompt.Assemble(r.Agent.Dialect, prompt.Carried(p, r.Agent.Rules.Rendering)), nil
}

func (r *Reader) blob(d messages.Digest) ([]byte, error) {
	if d.IsZero() {
		return nil, nil
	}
	b, err := r.Store.Blob(r.ctx, r.Inc, d)
	if err == nil && !r.Share.Take(r.ctx, int64(len(b)/2)) {
		return nil, context.Cause(r.ctx)
	}
	return b, err
}

// remembered is the prompt from what the session has at hand, and from its journal where
// that does not reach far enough.
func (r *Reader) remembered() ([]messages.Message, error) {
	msgs, settled := parse.Window(r.viewed(), r.Agent.Window.Messages)
	switch {
	case settled || r.View.Whole():
		return msgs, nil
	case r.Agent.Window.Bounded():
		return r.recent()
	}
	return r.transcript()
}

// viewed is the prompt from the view.
func (r *Reader) viewed() []messages.Message {
	return r.View.Assemble(prompt.Spec{SID: r.SID, Pass: r.Open.Pass, Last: r.Open.Last, Rendering: r.Agent.Rules.Rendering, Tools: r.Agent.Specs, Primer: r.Agent.Primer, Feeds: r.Open.Feeds, FeedsLast: r.Agent.Rules.FeedsLast})
}

// transcript is the prompt of the whole journal up to this turn's begin. The records
// are durable: OpenModel waited for turn.begin. The session goes on with what was read.
func (r *Reader) transcript() ([]messages.Message, error) {
	if r.CatchUp != nil {
		log := r.relog()
		if r.ctx.Err() == nil {
			r.Caught(&CaughtUp{of: r.CatchUp, log: log})
		}
		if r.View != nil {
			return r.viewed(), nil
		}
	}
	var failed error
	records := func(yield func(*messages.Record) bool) {
		for rec, err := range r.records() {
			if err != nil {
				failed = err
				return
			}
			if !yield(rec) {
				return
			}
		}
	}
	p := prompt.Project(records, r.spec(&failed))
	if failed != nil {
		return nil, failed
	}
	return prompt.Assemble(r.Agent.Dialect, p), nil
}

// records are those of the session, typed where a prompt is made of them.
func (r *Reader) records() iter.Seq2[*messages.Record, error] {
	return func(yield func(*messages.Record, error) bool) {
		for rec, err := range journal.ReadHeld(r.ctx, r.Store, r.Inc, 0, r.Durable) {
			if err == nil && prompt.Reads(rec.Body.Kind()) {
				if !r.Share.Take(r.ctx, int64(len(rec.Raw)/2)) { // a prompt costs less than a reply
					err = context.Cause(r.ctx)
				} else {
					rec, err = journal.Typed(rec)
				}
			}
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
}

// relog makes the session's history of its journal, and the view of this turn; nil where
// there can be none, as where something was erased.
func (r *Reader) relog() *prompt.Log {
	log := prompt.NewLog(r.Agent.Dialect.(prompt.Historian), 1, prompt.Window{}, r.Agent.Rules.Rendering)
	for rec, err := range r.records() {
		if err != nil {
			return nil
		}
		var blobs []messages.Blob
		if reply, ok := rec.Body.(*messages.ModelReply); ok {
			for _, d := range []messages.Digest{reply.Blob, reply.Side} {
				b, err := r.blob(d)
				if err != nil {
					return nil
				}
				blobs = append(blobs, messages.Blob{Digest: d, Data: b})
			}
		}
		if !log.Add(rec, blobs) {
			return nil
		}
	}
	if r.View = log.View(r.Open.Turn); r.View == nil {
		return nil
	}
	return log
}

// A prompt with a window begins to look at so many records for each of its messages: a
// message of a conversation with calls has seven to ten.
const (
	tailPerMessage = 12
	leastTail      = 32
	mostTail       = 1024
)

// recent is the window of that prompt. It reads backwards, looks at twice as many records
// each time, and reads no farther than the window and its question reach.
func (r *Reader) recent() ([]messages.Message, error) {
	var failed error
	spec := r.spec(&failed)
	var tail []*messages.Record // newest first
	window := func(whole bool) (msgs []messages.Message, settled bool, err error) {
		p, passed, ok := prompt.ProjectTail(oldestFirst(tail), spec)
		if failed != nil || !ok && !whole {
			return nil, false, failed
		}
		msgs, settled = parse.Window(prompt.Assemble(r.Agent.Dialect, p), r.Agent.Window.Messages)
		return msgs, settled || passed, nil
	}
	step := min(max(tailPerMessage*r.Agent.Window.Messages, leastTail), mostTail)
	next := step
	for rec, err := range journal.BackwardHeld(r.ctx, r.Store, r.Inc, int64(step), r.Durable) {
		if err == nil && prompt.Reads(rec.Body.Kind()) {
			rec, err = journal.Typed(rec)
		}
		if err != nil {
			return nil, err
		}
		if tail = append(tail, rec); len(tail) < next {
			continue
		}
		if msgs, settled, err := window(false); settled || err != nil {
			return msgs, err
		}
		step *= 2
		next += step
	}
	msgs, _, err := window(true)
	return msgs, err
}

func oldestFirst(tail []*messages.Record) iter.Seq[*messages.Record] {
	return func(yield func(*messages.Record) bool) {
		for _, rec := range slices.Backward(tail) {
			if !yield(rec) {
				return
			}
		}
	}
}

// spec says what the prompt is of. failed gets what went wrong in reading replies, each
// of which is read once.
func (r *Reader) spec(failed *error) prompt.Spec {
	replies := map[messages.Digest][]byte{}
	s := prompt.Spec{
		SID: r.SID, Run: r.Open.Run, Turn: r.Open.Turn, Pass: r.Open.Pass, Last: r.Open.Last, Rendering: r.Agent.Rules.Rendering,
		Tools: r.Agent.Specs, Primer: r.Agent.Primer, Feeds: r.Open.Feeds, FeedsLast: r.Agent.Rules.FeedsLast,
		Transcript: r.Agent.Dialect.Traits().Transcript, Window: r.Agent.Window,
		Reply: func(d messages.Digest) []byte {
			b, ok := replies[d]
			if !ok {
				var err error
				if b, err = r.blob(d); err != nil && *failed == nil {
					*failed = err
				}
				replies[d] = b
			}
			return b
		},
	}
	return s.For(r.Agent.Dialect)
}
