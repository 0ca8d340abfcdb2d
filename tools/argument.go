package tools

import "github.com/seed14be6753/stile/internal/neuroscript"

// Arg is argument i, nil for one that is not there.
func (c *Call) Arg(i int) neuroscript.Value {
	if i < len(c.Args) {
		return c.Args[i]
	}
	return neuroscript.Value{}
}

// RequireText is argument i, a string, where no Parameters have judged it: calls that come
// from a program were coerced, others were not. The error calls the argument by its name.
func (c *Call) RequireText(i int, name string) (string, error) {
	v := c.Arg(i)
	s, ok := v.AsString()
	if !ok {
		return "", neuroscript.Errorf(neuroscript.CodeArgument, "argument %s: want a string, not a %s", name, v.Kind())
	}
	return s, nil
}

// Text is argument i, a string, as Parameters have judged it.
func (c *Call) Text(i int) string {
	s, _ := c.Args[i].AsString()
	return s
}

// Int is argument i, an integer, as Parameters have judged it.
func (c *Call) Int(i int) int64 {
	n, _ := c.Args[i].AsInt()
	return n
}

// Bool is argument i, a boolean, as Parameters have judged it.
func (c *Call) Bool(i int) bool {
	b, _ := c.Args[i].AsBool()
	return b
}
