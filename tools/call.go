package tools

import (
	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools/internal/seam"
)

// Call is what an action's tool knows of its call.
type Call struct {
	SID     string
	Turn    int64
	ID      string               // of the action, unique in its turn
	Name    string               // of the tool
	Key     string               // idempotency key, the same for every attempt and owner (docs/spec/design.md §7)
	Inc     messages.Incarnation // of the session
	Epoch   int64                // fencing token: a store refuses a call of an older one
	Attempt int64                // 1-based
	// Retries counts the attempts that failed before this one. What a crash cut off is
	// repeated under the same number.
	Retries int64
	// Args has one value per parameter, nil for an absent optional one.
	Args []Value
	// Budget is what the attempt may use of the run's; 0 is no bound.
	Budget messages.Budget
	// Audit records an access decision; nil where nothing keeps them. It may be
	// called until the tool returns.
	Audit func(messages.Audit)
	// Spend counts model tokens and money to the budget of the run; nil where nothing
	// keeps one. It may be called until the tool returns.
	Spend func(used messages.Budget)
	// Host is what the host's own tools know; it is no part of the promise.
	Host seam.Host
}

// Arg is argument i, nil for one that is not there.
func (c *Call) Arg(i int) Value {
	if i < len(c.Args) {
		return c.Args[i]
	}
	return Value{}
}

// RequireText is argument i, a string, of a call that nothing has coerced, such as one of a
// test. The error calls the argument by its name.
func (c *Call) RequireText(i int, name string) (string, error) {
	v := c.Arg(i)
	s, ok := v.AsString()
	if !ok {
		return "", Errorf(neuroscript.CodeArgument, "argument %s: want a string, not a %s", name, v.Kind())
	}
	return s, nil
}

// Text is argument i of a parameter of type string; empty for an absent one.
func (c *Call) Text(i int) string {
	s, _ := c.Args[i].AsString()
	return s
}

// Int is argument i of a parameter of type int; 0 for an absent one.
func (c *Call) Int(i int) int64 {
	n, _ := c.Args[i].AsInt()
	return n
}

// Bool is argument i of a parameter of type bool; false for an absent one.
func (c *Call) Bool(i int) bool {
	b, _ := c.Args[i].AsBool()
	return b
}
