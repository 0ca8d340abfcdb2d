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
// A model does not retry: the runtime judges the Failure and tries again, with the next key or
// the next model. A model keeps no history, no deadline of a turn, and no state of a session.
package llm

import (
	"context"
	"iter"

	"github.com/seed14be6753/stile/messages"
)

// Request is one request to a model. It must not be changed after Stream was called.
type Request struct {
	Session string // SID of the session that asks
	Turn    int64  // turn_index
	// Ordinal is the number of model.request records of this session before this one: 0
	// for the first. Every attempt, also a retry or a fallback, writes a record of its own
	// and counts. It is the position in the script of a scripted model, which has no other
	// state.
	Ordinal  int64
	Provider string // key of the model in the configuration
	Model    string // the provider's name for it; may be empty
	Messages []messages.Message
	// Files are the bytes of the parts that Messages have. Only a model with a method
	// TakesPart(mediaType string) bool gets parts, of the types for which that is true; any
	// other is sent a note in the text.
	Files map[messages.Digest][]byte
	// Options are the options of this request, in the form of Settings.Options. They take
	// precedence over those of the model; "" is none. The runtime passes those of the
	// manifest.
	Options string
	// Tools are offered as the provider's functions, and the model's calls of them are
	// written into the text as Dialect writes calls. Only models with a method
	// CallsTools() bool that returns true get any.
	Tools   []messages.ToolSpec
	Dialect string // of the reply; "" if no dialect reads it
	// Schema is the JSON schema that the text of the reply's final answer must fit, "" for
	// any text. The runtime checks the answer; a provider may enforce the schema.
	Schema string
	// Grows reports whether the next request of the session will begin with the messages of
	// this one, so that a provider should cache them.
	Grows bool
	// Passing is how many of the last Messages hold for this request alone: the next one does
	// not begin with them. They are a user's message, with what the system says in front of
	// it, and another message of a user stands before them.
	Passing int
	// MaxReplyBytes bounds the text of the reply; 0 is no bound. See Bound.
	MaxReplyBytes int64
}

// Chunk is a piece of a reply as it arrived. Pieces may be cut anywhere, also
// inside a UTF-8 sequence.
type Chunk struct {
	// Text belongs to the receiver, which must not change it; the model does not use it
	// again. It may be empty.
	Text []byte
	// Usage and CostMicroUSD are totals of the reply so far. A model that learns them at
	// the end sets them on the last chunk alone; of several the last that is not zero
	// counts. A model that can set them earlier should, with estimates if necessary,
	// because they are all that is known about a cancelled reply.
	Usage        messages.Usage
	CostMicroUSD int64
	Unpriced     bool // the cost of Usage is unknown
	// Side has the parts of calls in the provider's own form that the text cannot hold. It
	// is opaque, and comes with the last chunk.
	Side []byte
	// Finish is set on the last chunk and only there.
	Finish messages.Finish
}

// Model answers requests. Implementations are safe for concurrent use.
type Model interface {
	// Stream sends the request and yields the reply piece by piece. The request begins with
	// the range and ends with it; the sequence can be ranged over once. When ctx ends, the
	// stream ends soon after with FinishCancelled; pieces may still come until then.
	Stream(ctx context.Context, req Request) iter.Seq2[Chunk, error]
}

// ReasonStreamTooLarge is the reason of ERR_QUOTA for a reply over its bound
// (docs/spec/streaming.md §10, docs/spec/design.md §12).
const ReasonStreamTooLarge = "STREAM_TOO_LARGE"

// Bound yields the chunks of seq, and ends with ERR_QUOTA/STREAM_TOO_LARGE when their text
// exceeds limit bytes; the bytes up to limit are still yielded. limit ≤ 0 is no bound.
// Models should wrap the result of Stream in it.
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
