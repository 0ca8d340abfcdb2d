package seam

import (
	"fmt"
	"math"
	"strings"

	"github.com/seed14be6753/stile/internal/neuroscript"
)

// TypeOf returns the parameter type (docs/spec/neuroscript.md §11) of a JSON schema type.
func TypeOf(t string) string {
	switch t {
	case "string":
		return "string"
	case "integer":
		return "int"
	case "number":
		return "float"
	case "boolean":
		return "bool"
	case "object":
		return "map"
	case "array":
		return "list"
	}
	return "any"
}

// MaxNameBytes bounds a tool's name: the limit of an identifier
// (docs/spec/neuroscript.md §13.5).
const MaxNameBytes = 128

// TurnGroup is the group of the tools of a turn.
const TurnGroup = "aeiou"

// IsWord reports whether s is an identifier.
func IsWord(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if !(c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || i > 0 && c >= '0' && c <= '9') {
			return false
		}
	}
	return s != ""
}

// Coerce converts v to a parameter type by the rules of docs/spec/neuroscript.md §11, and
// reports whether that is possible.
func Coerce(typ string, v neuroscript.Value) (neuroscript.Value, bool) {
	if inner, ok := strings.CutPrefix(typ, "list<"); ok {
		l, ok := v.AsList()
		if !ok {
			return v, false
		}
		out := make([]neuroscript.Value, len(l))
		for i := range l {
			if out[i], ok = Coerce(strings.TrimSuffix(inner, ">"), l[i]); !ok {
				return v, false
			}
		}
		return neuroscript.List(out), true
	}
	switch typ {
	case "string":
		_, ok := v.AsString()
		return v, ok
	case "int", "float":
		f, ok := v.AsNumber()
		if s, text := v.AsString(); text {
			f, ok = neuroscript.ParseNumber(s)
		}
		if !ok || typ == "int" && f != math.Trunc(f) {
			return v, false
		}
		return neuroscript.Number(f), true
	case "bool":
		return coerceBool(v)
	case "list":
		return v, v.Kind() == neuroscript.KindList
	case "map":
		return v, v.Kind() == neuroscript.KindMap
	}
	return v, true
}

func coerceBool(v neuroscript.Value) (neuroscript.Value, bool) {
	if f, ok := v.AsNumber(); ok {
		return neuroscript.Bool(f != 0), true
	}
	if s, ok := v.AsString(); ok {
		switch {
		case s == "1" || strings.EqualFold(s, "true"):
			return neuroscript.Bool(true), true
		case s == "0" || strings.EqualFold(s, "false"):
			return neuroscript.Bool(false), true
		}
		return v, false
	}
	_, ok := v.AsBool()
	return v, ok
}

// Mistakes are the mistakes in the arguments of a call, reported in one error
// (docs/spec/cogency.md §5).
type Mistakes []string

const maxMistakes = 16

// Add adds a mistake.
func (m *Mistakes) Add(format string, args ...any) { *m = append(*m, fmt.Sprintf(format, args...)) }

// Err returns one error with all mistakes, or nil.
func (m Mistakes) Err() error {
	if len(m) == 0 {
		return nil
	}
	if more := len(m) - maxMistakes; more > 0 {
		m = append(m[:maxMistakes:maxMistakes], fmt.Sprintf("and %d more", more))
	}
	return neuroscript.Errorf(neuroscript.CodeArgument, "%s", strings.Join(m, "; "))
}
