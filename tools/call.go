package tools

import (
	"context"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools/internal/seam"
)

// Call describes one attempt at an action to its tool.
type Call struct {
	SID     string
	Turn    int64
	ID      string               // of the action, unique in its turn
	Name    string               // of the tool
	Key     string               // idempotency key, the same for every attempt and host (docs/spec/design.md §7)
	Inc     messages.Incarnation // of the session
	Epoch   int64                // fencing token: refuse a call with an older one
	Attempt int64                // 1-based
	// Retries counts the failed attempts before this one. An attempt that a crash cut off
	// is repeated under the same number.
	Retries int64
	// Args has one value per parameter; the value of an absent optional one is nil.
	Args []Value
	// Budget is the part of the run's budget that the attempt may use; 0 is no bound.
	Budget messages.Budget
	// Audit records an access decision; nil where none are recorded. It may be called
	// until the tool returns.
	Audit func(messages.Audit)
	// Spend adds model tokens and money to what the run has used; nil where the run has no
	// budget. It may be called until the tool returns.
	Spend func(used messages.Budget)
	// Sink takes the next piece of the result's text; nil where the result is not shown as it
	// grows. Emit and EmitJSON call it.
	Sink func(ctx context.Context, text string) error
	// Host is for the host's own tools. It is not covered by the compatibility promise.
	Host seam.Host
}

// Progress shows those who follow the session how far the call is: done of total, which is 0
// when it is not known, and a line of text, cut to 200 bytes. The journal and the model do not
// get it. Ten a second are shown of a call at most, and always one with done = total. It never
// blocks, and may be called by several goroutines, until the tool returns.
func (c *Call) Progress(done, total int64, text string) {
	if c.Host.Progress != nil {
		c.Host.Progress(done, total, text)
	}
}

// Arg returns argument i, or nil if the call has fewer.
func (c *Call) Arg(i int) Value {
	if i < len(c.Args) {
		return c.Args[i]
	}
	return Value{}
}

// RequireText returns argument i, which must be a string. It is for calls whose arguments
// were not coerced, such as those of a test; the error, of code 4, has name in it.
func (c *Call) RequireText(i int, name string) (string, error) {
	v := c.Arg(i)
	s, ok := v.AsString()
	if !ok {
		return "", Errorf(neuroscript.CodeArgument, "argument %s: want a string, not a %s", name, v.Kind())
	}
	return s, nil
}

// Text returns argument i of a parameter of type string; "" for an absent one.
func (c *Call) Text(i int) string {
	s, _ := c.Args[i].AsString()
	return s
}

// Int returns argument i of a parameter of type int; 0 for an absent one.
func (c *Call) Int(i int) int64 {
	n, _ := c.Args[i].AsInt()
	return n
}

// Bool returns argument i of a parameter of type bool; false for an absent one.
func (c *Call) Bool(i int) bool {
	b, _ := c.Args[i].AsBool()
	return b
}
