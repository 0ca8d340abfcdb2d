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
	// PureCall describes its call to a pure tool, which charges its work to it: ChargeGas,
	// ChargeBytes, CheckValue.
	PureCall = neuroscript.Call
	// ScriptError is an error with a Code, by which a program can distinguish errors. Your
	// own codes begin at 2000.
	ScriptError = neuroscript.ScriptError
)

// String returns a string value. s should be UTF-8.
func String(s string) Value { return neuroscript.String(s) }

// Int returns a number value. Programs use 64-bit floats, which are exact up to 2^53.
func Int(n int64) Value { return neuroscript.Number(float64(n)) }

// Number returns a number value. f must be finite.
func Number(f float64) Value { return neuroscript.Number(f) }

// Bool returns a boolean value.
func Bool(b bool) Value { return neuroscript.Bool(b) }

// List returns a list value. The caller must not use elems afterwards.
func List(elems []Value) Value { return neuroscript.List(elems) }

// Map returns a map value with a copy of m.
func Map(m map[string]Value) Value { return neuroscript.Map(m) }

// TimeDate returns an instant.
func TimeDate(at time.Time) Value { return neuroscript.TimeDate(at) }

// FromJSON returns the value of a JSON text. The error is a *ScriptError.
func FromJSON(text []byte) (Value, error) { return neuroscript.FromJSON(text) }

// Errorf returns a *ScriptError with a code and a formatted message.
func Errorf(code int, format string, args ...any) error {
	return neuroscript.Errorf(code, format, args...)
}
