package host

import (
	"cmp"
	"context"
	"iter"
	"strings"
	"time"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// The formats of a stream's events: the session's records and deltas, or the words of
// docs/spec/cogency.md §3.
const (
	formatRecords = "records"
	formatSimple  = "simple"
)

// told is one event of a stream: an update or, in the simple format, what it means to users.
type told struct {
	update stile.Update
	simple *stile.SimpleEvent
}

// last reports whether nothing follows.
func (e told) last() bool {
	return e.update.Record != nil && e.update.Record.Body.Kind() == messages.KindSessionClosed
}

// telling gives what a stream tells.
type telling func(context.Context) iter.Seq2[told, error]

// teller is a session, or a run of it.
type teller interface {
	Resume(context.Context, stile.Position) iter.Seq2[stile.Update, error]
	Simple(ctx context.Context, after string, tokens bool) iter.Seq2[stile.SimpleEvent, error]
}

// start is where a stream begins: behind the event with the id, which at is the position of.
type start struct {
	at stile.Position
	id string
}

// beginning reads what a client says of where it was.
func beginning(after, last, format string) (start, error) {
	field, id := "Last-Event-ID", last
	if id == "" {
		field, id = "after", after
	}
	if id == "" {
		return start{}, nil
	}
	text := id
	if i := strings.LastIndexByte(id, '-'); format == formatSimple && i > strings.LastIndexByte(id, ':') && (id[i+1:] == "1" || id[i+1:] == "2") {
		text = id[:i] // one of several events of a record
	}
	at, err := messages.ParsePosition(text)
	if err != nil {
		return start{}, &messages.Error{Code: messages.ErrInvalid, Field: field, Detail: "want the id of an update: seq, or seq.turn.unit.offset, and ~turn:action:offset for each result that grows"}
	}
	return start{at, id}, nil
}

// told returns what of follows in a format, with growing text when stream is token.
func (p start) told(of teller, format, stream string) telling {
	tokens := stream == "token"
	return func(ctx context.Context) iter.Seq2[told, error] {
		return func(yield func(told, error) bool) {
			if format == formatSimple {
				for e, err := range of.Simple(ctx, p.id, tokens) {
					if !yield(told{simple: &e}, err) {
						return
					}
				}
				return
			}
			if tokens {
				ctx = stile.WithProgress(ctx)
			}
			for u, err := range of.Resume(ctx, p.at) {
				if err == nil && u.Delta != nil && !tokens {
					continue
				}
				if !yield(told{update: u}, err) {
					return
				}
			}
		}
	}
}

// simpleProblem is why a stream in the simple format ends early, at a time.
func simpleProblem(p *problem, now time.Time) *stile.SimpleEvent {
	return &stile.SimpleEvent{Type: "error", Content: cmp.Or(p.Detail, p.Title), Code: p.Code, Timestamp: float64(now.UnixMicro()) / 1e6}
}
