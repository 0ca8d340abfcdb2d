package parse

import (
	"errors"
	"io"
	"iter"

	"github.com/seed14be6753/stile/messages"
)

// chunkBytes is the size of the buffer of Chunks.
const chunkBytes = 32 << 10

// Events reads a reply with a fresh decoder: it is the iterator form of Push for every chunk and
// End. When the chunks end, the reply is complete. When they fail, it ends with FinishError: the
// events of that come first, and then the error. Breaking out of the loop stops reading. The
// Text of an event is valid until the next event. The iterator can be used once.
func Events(d Decoder, chunks iter.Seq2[[]byte, error]) iter.Seq2[messages.Event, error] {
	return func(yield func(messages.Event, error) bool) {
		more := true
		emit := func(ev messages.Event) { more = more && yield(ev, nil) }
		for p, err := range chunks {
			if err != nil {
				d.End(messages.FinishError, emit)
				if more {
					yield(messages.Event{}, err)
				}
				return
			}
			if d.Push(p, emit); !more {
				return
			}
		}
		d.End(messages.FinishComplete, emit)
	}
}

// Chunks reads r to its end into one buffer: a chunk is valid until the next one.
func Chunks(r io.Reader) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		buf := make([]byte, chunkBytes)
		for idle := 0; ; {
			n, err := r.Read(buf)
			if n > 0 && !yield(buf[:n], nil) {
				return
			}
			switch {
			case errors.Is(err, io.EOF):
				return
			case err == nil && n == 0:
				if idle++; idle == 100 {
					err = io.ErrNoProgress
				}
			default:
				idle = 0
			}
			if err != nil {
				yield(nil, err)
				return
			}
		}
	}
}
