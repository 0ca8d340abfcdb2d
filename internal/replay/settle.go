package replay

import (
	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
)

// settle feeds what an activation does with what it found open. r is the first
// record it wrote.
func (p *player) settle(r *messages.Record) error {
	in, at := &turn.Settle{}, r.TS
	open := p.machine.State().Open
	if open != nil {
		for _, old := range p.src.Records[:p.at] {
			if old.Run == open.Run {
				in.Run = append(in.Run, old)
			}
		}
	}
	if open == nil || open.Turn == nil || !p.readBack(open.Turn) {
		return p.step(at, in)
	}
	t := open.Turn
	if t.Suspended && r.Turn != t.Index {
		// It was taken up without a record, before whatever r tells of happened.
		at = p.src.Records[p.at-1].TS
	}
	var reply *messages.ModelReply
	var bytes []byte
	for _, old := range p.src.Records[:p.at] {
		if old.Seq < t.Seq {
			continue
		}
		in.Turn = append(in.Turn, old)
		if old.Turn != t.Index {
			continue
		}
		switch b := old.Body.(type) {
		case *messages.ModelChunk:
			if b.Off == int64(len(bytes)) {
				bytes = append(bytes, b.Bytes...)
			}
		case *messages.ModelReply:
			reply = b
		case *messages.FeedInjected:
			fd, err := p.feed(b)
			if err != nil {
				return err
			}
			if in.Feeds == nil {
				in.Feeds = map[messages.Digest]string{}
			}
			in.Feeds[b.Digest] = fd.Value
		}
	}
	if reply != nil {
		var err error
		if bytes, err = p.blob(reply.Blob); err != nil {
			return err
		}
	}
	d := p.agent.Dialect.NewDecoder(messages.TurnInfo{
		Turn: t.Index, Pass: int(open.Turns), State: open.State, Templates: open.Templates, MaxReplyBytes: p.agent.Rules.Limits.ReplyBytes(),
	})
	keep := func(ev messages.Event) { in.Events = append(in.Events, own(ev)) }
	if len(bytes) > 0 {
		d.Push(bytes, keep)
	}
	if reply != nil {
		d.End(reply.Finish, keep)
	}
	return p.step(at, in)
}

// readBack reports whether the activation read the open turn from the journal: its
// records show it. Settlements of a turn without a reply need not, and those of
// earlier releases did not.
func (p *player) readBack(t *turn.OpenTurn) bool {
	if t.Suspended {
		return true
	}
	for _, r := range p.src.Records[p.at:] {
		if r.Epoch != p.epoch {
			break
		}
		if r.Turn != t.Index {
			continue
		}
		switch r.Body.(type) {
		case *messages.ModelReply, *messages.TurnRestored:
			return true
		case *messages.TurnDecided:
			return false
		}
	}
	return false
}
