package standard

import (
	"math"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// budget is the part of *neuroscript.Call that the tools of the default set use.
type budget interface {
	// CheckValue returns a breach if a result of this charged size
	// (docs/spec/neuroscript.md §13.3) would exceed a limit. It charges nothing: the
	// interpreter charges the result when it gets it.
	CheckValue(bytes int64) error
	// ChargeGas pays for work beyond the flat price of a call.
	ChargeGas(n int64) error
	// Equal is the language's ==, and pays for it.
	Equal(a, b neuroscript.Value) (bool, error)
	// ParseJSON reads a JSON text, and pays for it.
	ParseJSON(text string) (neuroscript.Value, error)
}

// function is the work of a tool of the default set.
type function func(m budget, a []neuroscript.Value) (neuroscript.Value, error)

// declare returns a tool of the default set.
func declare(name, description string, do function, params ...neuroscript.Param) tools.Tool {
	return tools.Tool{
		Name: name, Description: description, Params: params, Class: messages.Pure,
		Pure: func(c *neuroscript.Call, args []neuroscript.Value) (neuroscript.Value, error) {
			return do(c, args)
		},
	}
}

func req(name, typ string) neuroscript.Param { return neuroscript.Param{Name: name, Type: typ} }

func opt(name, typ string) neuroscript.Param {
	return neuroscript.Param{Name: name, Type: typ, Optional: true}
}

// sum adds sizes and stays at the largest integer.
func sum(sizes ...int64) int64 {
	total := int64(0)
	for _, n := range sizes {
		if total += n; total < 0 {
			return math.MaxInt64
		}
	}
	return total
}

// product multiplies two counts that are not negative, and stays at the largest
// integer.
func product(a, b int64) int64 {
	if b != 0 && a > math.MaxInt64/b {
		return math.MaxInt64
	}
	return a * b
}

// text returns a string result of n bytes, which build makes after the check.
func text(m budget, n int64, build func() string) (neuroscript.Value, error) {
	if err := m.CheckValue(sum(neuroscript.StringBase, n)); err != nil {
		return neuroscript.Value{}, err
	}
	return neuroscript.String(build()), nil
}

// part returns a string result that is a piece of an argument.
func part(m budget, s string) (neuroscript.Value, error) {
	if err := m.CheckValue(neuroscript.StringBase + int64(len(s))); err != nil {
		return neuroscript.Value{}, err
	}
	return neuroscript.String(s), nil
}

// reserveList reserves a list of values that exist already.
func reserveList(m budget, runs ...[]neuroscript.Value) error {
	size := int64(neuroscript.ListBase)
	for _, elems := range runs {
		for i := range elems {
			size = sum(size, neuroscript.ListSlot, elems[i].Size())
		}
	}
	return m.CheckValue(size)
}

// The arguments below have been coerced by the interpreter, so their kinds are
// certain.

func str(v neuroscript.Value) string {
	s, _ := v.AsString()
	return s
}

func elems(v neuroscript.Value) []neuroscript.Value {
	l, _ := v.AsList()
	return l
}

func entries(v neuroscript.Value) []neuroscript.Entry {
	e, _ := v.AsMap()
	return e
}

func number(v neuroscript.Value) float64 {
	f, _ := v.AsNumber()
	return f
}

// position returns an integral argument, clamped to the range of positions.
func position(v neuroscript.Value) int64 {
	const most = 1 << 53
	f := number(v)
	switch {
	case f > most:
		return most
	case f < -most:
		return -most
	}
	return int64(f)
}

// clamp brings i into [0, n].
func clamp(i, n int64) int64 { return max(0, min(i, n)) }
