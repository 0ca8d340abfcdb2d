package actors

import (
	"context"
	"iter"
	"slices"

	"github.com/seed14be6753/stile/internal/compiled"
	"github.com/seed14be6753/stile/internal/prompt"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// assemble builds the messages of the turn: from the carried streams where the
// dialect's history is those, else from the journal.
func (r *reply) assemble() ([]messages.Message, error) {
	if err := r.agent.Instructed(r.open.Feeds); err != nil {
		return nil, err
	}
	var msgs []messages.Message
	var err error
	switch {
	case r.agent.Dialect.Traits().Carry:
		msgs, err = r.carried()
	case r.view != nil:
		msgs, err = r.remembered()
	case r.agent.Window.Bounded():
		msgs, err = r.recent()
	default:
		msgs, err = r.transcript()
	}
	if err != nil || r.agent.Shape == nil {
		return msgs, err
	}
	return r.agent.Shape(compiled.History{SID: r.sid, Run: r.open.Run, Turn: r.open.Turn, Messages: slices.Clone(msgs)}), nil
}

// carried is the prompt of dialects whose history is the streams of the turn before.
func (r *reply) carried() ([]messages.Message, error) {
	e := r.open
	p := messages.Projection{
		SID: r.sid, Turn: e.Turn, Pass: e.Pass, Last: e.Last, Text: e.Text, Userdata: e.Userdata,
		Out: e.Out, Scr: e.Scr, Tools: r.agent.Specs, Primer: r.agent.Primer, LastError: e.LastError, Note: e.Note, Feeds: e.Feeds,
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
	return prompt.Assemble(r.agent.Dialect, prompt.Carried(p, r.agent.Rules.Rendering)), nil
}

func (r *reply) blob(d messages.Digest) ([]byte, error) {
	if d.IsZero() {
		return nil, nil
	}
	b, err := r.host.cfg.Store.Blob(r.ctx, r.inc, d)
	if err == nil && !r.taken.Take(r.ctx, int64(len(b)/2)) {
		return nil, context.Cause(r.ctx)
	}
	return b, err
}

// remembered is the prompt from what the session has at hand, and from its journal where
// that does not reach far enough.
func (r *reply) remembered() ([]messages.Message, error) {
	msgs, settled := parse.Window(r.viewed(), r.agent.Window.Messages)
	switch {
	case settled || r.view.Whole():
		return msgs, nil
	case r.agent.Window.Bounded():
		return r.recent()
	}
	return r.transcript()
}

// viewed is the prompt from the view.
func (r *reply) viewed() []messages.Message {
	return r.view.Assemble(prompt.Spec{SID: r.sid, Pass: r.open.Pass, Last: r.open.Last, Rendering: r.agent.Rules.Rendering, Tools: r.agent.Specs, Primer: r.agent.Primer, Feeds: r.open.Feeds})
}

// transcript is the prompt of the whole journal up to this turn's begin. The records
// are durable: OpenModel waited for turn.begin. The session goes on with what was read.
func (r *reply) transcript() ([]messages.Message, error) {
	if r.catch != nil {
		log := r.relog()
		if r.ctx.Err() == nil {
			r.box.system.Root.Send(r.box.pid, &caughtUp{of: r.catch, log: log})
		}
		if r.view != nil {
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
	return prompt.Assemble(r.agent.Dialect, p), nil
}

// records are those of the session, typed where a prompt is made of them.
func (r *reply) records() iter.Seq2[*messages.Record, error] {
	return func(yield func(*messages.Record, error) bool) {
		for rec, err := range journal.ReadHeld(r.ctx, r.host.cfg.Store, r.inc, 0, r.durable) {
			if err == nil && prompt.Reads(rec.Body.Kind()) {
				if !r.taken.Take(r.ctx, int64(len(rec.Raw)/2)) { // a prompt costs less than a reply
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
func (r *reply) relog() *prompt.Log {
	log := prompt.NewLog(r.agent.Dialect.(prompt.Historian), 1, prompt.Window{}, r.agent.Rules.Rendering)
	for rec, err := range r.records() {
		if err != nil {
			return nil
		}
		var blobs []messages.Blob
		if said, ok := rec.Body.(*messages.ModelReply); ok {
			for _, d := range []messages.Digest{said.Blob, said.Side} {
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
	if r.view = log.View(r.open.Turn); r.view == nil {
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
func (r *reply) recent() ([]messages.Message, error) {
	var failed error
	spec := r.spec(&failed)
	var tail []*messages.Record // newest first
	window := func(whole bool) (msgs []messages.Message, settled bool, err error) {
		p, passed, ok := prompt.ProjectTail(oldestFirst(tail), spec)
		if failed != nil || !ok && !whole {
			return nil, false, failed
		}
		msgs, settled = parse.Window(prompt.Assemble(r.agent.Dialect, p), r.agent.Window.Messages)
		return msgs, settled || passed, nil
	}
	step := min(max(tailPerMessage*r.agent.Window.Messages, leastTail), mostTail)
	next := step
	for rec, err := range journal.BackwardHeld(r.ctx, r.host.cfg.Store, r.inc, int64(step), r.durable) {
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
func (r *reply) spec(failed *error) prompt.Spec {
	replies := map[messages.Digest][]byte{}
	s := prompt.Spec{
		SID: r.sid, Run: r.open.Run, Turn: r.open.Turn, Pass: r.open.Pass, Last: r.open.Last, Rendering: r.agent.Rules.Rendering,
		Tools: r.agent.Specs, Primer: r.agent.Primer, Feeds: r.open.Feeds,
		Transcript: r.agent.Dialect.Traits().Transcript, Window: r.agent.Window,
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
	return s.For(r.agent.Dialect)
}
