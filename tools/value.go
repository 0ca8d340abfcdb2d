package tools

import (
	"time"

	"github.com/seed14be6753/stile/internal/neuroscript"
)

type (
	// Value is a value of programs: nil, a boolean, number, string, list, map, timedate or
	// error. Its zero value is nil; AsBool, AsNumber, AsInt, AsString, AsList, AsMap and
	// MapGet read it.
	Value = neuroscript.Value
	// Param declares one parameter: Name, Type (string, int, float, bool, list, map, any,
	// error, timedate, or list<T> of one of these) and Optional; optional ones come last.
	Param = neuroscript.Param
	// PureCall is what a pure tool knows of its call, and pays its work with: ChargeGas,
	// ChargeBytes, CheckValue.
	PureCall = neuroscript.Call
	// ScriptError is an error with a Code that a program can tell from others. Codes of
	// your own begin at 2000.
	ScriptError = neuroscript.ScriptError
)

// String makes a string, of UTF-8.
func String(s string) Value { return neuroscript.String(s) }

// Int makes a number. Programs count with 64 bit floats: exactly up to 2^53.
func Int(n int64) Value { return neuroscript.Number(float64(n)) }

// Number makes a number, which must be finite.
func Number(f float64) Value { return neuroscript.Number(f) }

// Bool makes a boolean.
func Bool(b bool) Value { return neuroscript.Bool(b) }

// List makes a list and takes the slice over.
func List(elems []Value) Value { return neuroscript.List(elems) }

// Map makes a map; m stays the caller's.
func Map(m map[string]Value) Value { return neuroscript.Map(m) }

// TimeDate makes an instant.
func TimeDate(at time.Time) Value { return neuroscript.TimeDate(at) }

// FromJSON makes the value of a JSON text.
func FromJSON(text []byte) (Value, error) { return neuroscript.FromJSON(text) }

// Errorf makes a ScriptError.
func Errorf(code int, format string, args ...any) error {
	return neuroscript.Errorf(code, format, args...)
}
