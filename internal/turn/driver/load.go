package driver

import (
	"bytes"

	"github.com/seed14be6753/stile/internal/turn"
	"github.com/seed14be6753/stile/messages"
)

// Recovery says what is read of a session's journal before its machine settles what a dead
// process left open.
type Recovery struct {
	Settle bool // something was left: the machine is stepped with a turn.Settle
	// Run and Turn are where reading begins, 0 where nothing is to be read. The run's records
	// reach up to the head, and so do the turn's.
	Run, Turn int64
}

// Recover looks at the state of a session that was loaded. streams reports whether its
// dialect acts while a reply streams: then the plan of the whole run is made again.
func Recover(state *turn.State, streams bool) (r Recovery) {
	r.Settle = state.Open != nil || len(state.Queue) > 0 || state.Window != nil
	if state.Open == nil {
		return r
	}
	if streams {
		r.Run = state.Open.Seq
	}
	if state.Open.Turn != nil {
		r.Turn = state.Open.Turn.Seq
	}
	return r
}

// Reply is what records have of the reply of a turn: with a finish, the blob that holds all
// of it, zero for one without bytes; without a finish, what its chunks have.
func Reply(recs []*messages.Record, turnIndex int64) (chunks []byte, blob messages.Digest, finish messages.Finish) {
	for _, r := range recs {
		if r.Turn != turnIndex {
			continue
		}
		switch b := r.Body.(type) {
		case *messages.ModelChunk:
			if b.Off == int64(len(chunks)) {
				chunks = append(chunks, b.Bytes...)
			}
		case *messages.ModelReply:
			return nil, b.Blob, b.Finish
		}
	}
	return chunks, messages.Digest{}, ""
}

// Decoder reads a reply: a dialect's.
type Decoder interface {
	Push(p []byte, emit func(messages.Event))
	End(finish messages.Finish, emit func(messages.Event))
}

// Events are what a fresh decoder makes of a reply, and of its end if it has one. They do not
// alias the decoder's buffers.
func Events(d Decoder, reply []byte, finish messages.Finish) (all []messages.Event) {
	keep := func(ev messages.Event) {
		ev.Text = bytes.Clone(ev.Text)
		all = append(all, ev)
	}
	if len(reply) > 0 {
		d.Push(reply, keep)
	}
	if finish != "" {
		d.End(finish, keep)
	}
	return all
}

// FeedValues are the blobs of the values of feeds that records name, in their order.
func FeedValues(recs []*messages.Record) (all []messages.Digest) {
	for _, r := range recs {
		if b, ok := r.Body.(*messages.FeedInjected); ok && b.Error == "" {
			all = append(all, b.Digest)
		}
	}
	return all
}
