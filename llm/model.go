// Package llm is the port to models: a model is one method that streams one
// reply (docs/spec/design.md §10).
//
// Invariants:
//   - a stream ends in exactly one way: with a chunk whose Finish is set, or with
//     an error. Nothing follows either;
//   - an error is a *messages.Error with ERR_MODEL and a *Failure as its cause,
//     or ERR_QUOTA when the reply outgrew Request.MaxReplyBytes;
//   - cancelling is no error: a cancelled stream ends with FinishCancelled;
//   - breaking out of the range ends the request and releases what it held.
//
// It does not retry by itself: the runtime judges a Failure and tries again, with the
// next key or the next model. It keeps no history, no clock of a turn, and no state of
// a session.
package llm

import (
	"context"
	"iter"

	"github.com/seed14be6753/stile/messages"
)

// Request is one question to a model. It is not changed after it was handed over.
type Request struct {
	Session string // SID of the session that asks
	Turn    int64  // turn_index
	// Ordinal counts the model.request records of this session that came before
	// this one: 0 for its first. Every attempt, also a retry or a fallback,
	// writes a record of its own and counts. It is the cursor of a scripted model
	// and all the state such a model has.
	Ordinal  int64
	Provider string // key of the model in the configuration
	Model    string // the provider's name for it; may be empty
	Messages []messages.Message
	// Options are how this request is to be answered, in the form of Settings.Options;
	// what it names goes before what the model was made with. "" says nothing. The
	// runtime passes those of the manifest.
	Options string
	// Tools are sent as the provider's functions, and what the model calls of them is
	// written into the text as Dialect writes calls. Only models that say so by a method
	// CallsTools() bool are sent any: to all others the text is everything.
	Tools   []messages.ToolSpec
	Dialect string // how the reply is read; "" where no dialect reads it
	// Schema is the JSON schema that the text of the reply's final answer must fit, "" for
	// any text. The runtime checks it; a provider that can may hold the model to it.
	Schema string
	// Grows reports whether the next request of the session will begin with the messages of
	// this one, so that a provider may be asked to keep what it read.
	Grows bool
	// MaxReplyBytes bounds the text of the reply; 0 is no bound. See Bound.
	MaxReplyBytes int64
}

// Chunk is a piece of a reply as it arrived. Pieces may be cut anywhere, also
// inside a UTF-8 sequence.
type Chunk struct {
	// Text is handed over: the model never touches it again, and the receiver
	// only reads it. It may be empty.
	Text []byte
	// Usage and CostMicroUSD are totals of the whole reply so far. Models that
	// learn them at the end set them on the last chunk alone; of several the last
	// one that is not zero counts.
	// A model that can tell them sooner does, with an estimate where it must: they are
	// all that is known of a reply that is cancelled.
	Usage        messages.Usage
	CostMicroUSD int64
	Unpriced     bool // nobody knows what Usage costs
	// Side is what the text cannot hold of calls that the model made in the provider's
	// own form. It is opaque, and comes with the last chunk.
	Side []byte
	// Finish is set on the last chunk and only there.
	Finish messages.Finish
}

// Model answers requests. Implementations are safe for concurrent use.
type Model interface {
	// Stream asks and yields the reply piece by piece; the request begins with the
	// range and ends with it. The sequence can be ranged over once. When ctx ends,
	// the stream ends soon after with FinishCancelled: pieces that were on their
	// way may still come, so a receiver that cancelled must cope with late text.
	Stream(ctx context.Context, req Request) iter.Seq2[Chunk, error]
}

// ReasonStreamTooLarge is the reason of the ERR_QUOTA of a reply that outgrew its
// bound (docs/spec/streaming.md §10, docs/spec/design.md §12).
const ReasonStreamTooLarge = "STREAM_TOO_LARGE"

// Bound passes seq on and ends it with ERR_QUOTA/STREAM_TOO_LARGE where its text
// would go over limit bytes; the bytes up to it are still yielded. limit ≤ 0
// is no bound. Models wrap what they return in it.
func Bound(seq iter.Seq2[Chunk, error], limit int64) iter.Seq2[Chunk, error] {
	if limit <= 0 {
		return seq
	}
	return func(yield func(Chunk, error) bool) {
		left := limit
		for c, err := range seq {
			if err != nil {
				yield(Chunk{}, err)
				return
			}
			if int64(len(c.Text)) > left {
				if left > 0 && !yield(Chunk{Text: c.Text[:left]}, nil) {
					return
				}
				e := messages.Errorf(messages.ErrQuota, "the reply is over its limit of %d bytes", limit)
				e.Reason, e.Offset, e.HasOffset = ReasonStreamTooLarge, limit, true
				yield(Chunk{}, e)
				return
			}
			left -= int64(len(c.Text))
			if !yield(c, nil) {
				return
			}
		}
	}
}
