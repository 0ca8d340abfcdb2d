package standard

import (
	"math"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/tools"
)

// mathTools is the group math. A result that is not finite is code 17.
func mathTools() []tools.Tool {
	a, b, x := req("a", "float"), req("b", "float"), req("x", "float")
	return []tools.Tool{
		declare("math.Add", "a + b.", two(func(a, b float64) float64 { return a + b }), a, b),
		declare("math.Subtract", "a - b.", two(func(a, b float64) float64 { return a - b }), a, b),
		declare("math.Multiply", "a * b.", two(func(a, b float64) float64 { return a * b }), a, b),
		declare("math.Divide", "a / b.", divides(func(a, b float64) float64 { return a / b }), a, b),
		declare("math.Modulo", "The remainder of a / b, with the sign of a; both are integers.", divides(math.Mod), req("a", "int"), req("b", "int")),
		declare("math.floor", "The largest integer that is not above x.", one(math.Floor), x),
		declare("math.ceil", "The smallest integer that is not below x.", one(math.Ceil), x),
		declare("math.round", "The nearest integer; halves go away from zero.", one(math.Round), x),
		declare("math.abs", "x without its sign.", one(math.Abs), x),
		declare("math.min", "The smaller one.", two(math.Min), a, b),
		declare("math.max", "The larger one.", two(math.Max), a, b),
	}
}

func one(f func(float64) float64) function {
	return func(_ budget, a []neuroscript.Value) (neuroscript.Value, error) {
		return finite(f(number(a[0])))
	}
}

func two(f func(a, b float64) float64) function {
	return func(_ budget, a []neuroscript.Value) (neuroscript.Value, error) {
		return finite(f(number(a[0]), number(a[1])))
	}
}

func divides(f func(a, b float64) float64) function {
	return func(_ budget, a []neuroscript.Value) (neuroscript.Value, error) {
		if number(a[1]) == 0 {
			return neuroscript.Value{}, neuroscript.Errorf(neuroscript.CodeDivZero, "division by zero")
		}
		return finite(f(number(a[0]), number(a[1])))
	}
}

func finite(f float64) (neuroscript.Value, error) {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return neuroscript.Value{}, neuroscript.Errorf(neuroscript.CodeEvaluation, "the result is not a finite number")
	}
	return neuroscript.Number(f), nil
}
