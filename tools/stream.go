package tools

import (
	"context"

	"github.com/go-json-experiment/json"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
)

// ErrEnded is the error of a piece that comes after the end of its action.
var ErrEnded error = &messages.Error{Code: messages.ErrCancelled, Reason: "ENDED", Detail: "the action has ended: its result takes no more text"}

// Emit shows the next piece of a result that is a text. The tool still returns the whole text:
// a result other than the pieces joined fails the action. Where the result is not shown as it
// grows, Emit does nothing.
//
// Emit waits while 64 pieces are on their way. Its error is the cause of ctx, ErrEnded, or that
// of a result over its limit; the tool should return it. It is safe for concurrent use, and the
// pieces of one goroutine keep their order.
func (c *Call) Emit(ctx context.Context, text string) error {
	if c.Sink == nil || text == "" {
		return nil
	}
	return c.Sink(ctx, text)
}

// EmitJSON is Emit for a result that is a list: v is the next item, and its text one line. An
// error of code 21 says that v has no JSON form.
func (c *Call) EmitJSON(ctx context.Context, v any) error {
	if c.Sink == nil {
		return nil
	}
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return Errorf(neuroscript.CodeToolFailed, "%s", err)
	}
	item, err := neuroscript.FromJSON(b) // as the result's own way to JSON
	if err != nil {
		return Errorf(neuroscript.CodeToolFailed, "%s", err)
	}
	if b, err = neuroscript.AppendJSON(b[:0:0], item); err != nil {
		return Errorf(neuroscript.CodeToolFailed, "%s", err)
	}
	return c.Sink(ctx, string(append(b, '\n')))
}
