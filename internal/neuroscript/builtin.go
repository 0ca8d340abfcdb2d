package neuroscript

import (
	"math"
	"strings"
	"unicode/utf8"
)

// builtinID names a built-in function (§9).
type builtinID int32

const (
	fnLen builtinID = iota
	fnIsString
	fnIsNumber
	fnIsBool
	fnIsList
	fnIsMap
	fnIsNil
	fnIsTimedate
	fnIsInt
	fnIsFloat
	fnIsError
	fnIsNever // is_fuzzy, is_event, is_function, is_tool: values NS-A does not have
	fnChar
	fnOrd
	fnLn
	fnLog
	fnSin
	fnCos
	fnTan
	fnAsin
	fnAcos
	fnAtan
)

// builtinByName finds a built-in; names are case-insensitive.
func builtinByName(name string) (builtinID, bool) {
	if len(name) > len("is_timedate") {
		return 0, false
	}
	switch strings.ToLower(name) {
	case "len":
		return fnLen, true
	case "is_string":
		return fnIsString, true
	case "is_number":
		return fnIsNumber, true
	case "is_bool":
		return fnIsBool, true
	case "is_list":
		return fnIsList, true
	case "is_map":
		return fnIsMap, true
	case "is_nil":
		return fnIsNil, true
	case "is_timedate":
		return fnIsTimedate, true
	case "is_int":
		return fnIsInt, true
	case "is_float":
		return fnIsFloat, true
	case "is_error":
		return fnIsError, true
	case "is_fuzzy", "is_event", "is_function", "is_tool":
		return fnIsNever, true
	case "char":
		return fnChar, true
	case "ord":
		return fnOrd, true
	case "ln":
		return fnLn, true
	case "log":
		return fnLog, true
	case "sin":
		return fnSin, true
	case "cos":
		return fnCos, true
	case "tan":
		return fnTan, true
	case "asin":
		return fnAsin, true
	case "acos":
		return fnAcos, true
	case "atan":
		return fnAtan, true
	}
	return 0, false
}

// Gas of calls beside their node (§13.2).
const (
	gasBuiltin = 2
	gasLibrary = 10
	gasTool    = 50
)

// builtin calls a built-in function. All have one parameter.
func (m *machine) builtin(n *node) (Value, bool) {
	if n.a == nil || n.a.next != nil {
		base, ok := m.push(n.a)
		if !ok {
			return Value{}, false
		}
		count := len(m.stack) - base
		m.stack = m.stack[:base]
		return Value{}, m.raise(n, CodeArgument, n.val.str()+" takes one argument, not "+string(appendNumber(nil, float64(count))))
	}
	v, ok := m.container(n.a) // what a built-in function gives holds nothing of it
	if !ok || !m.pay(n, gasBuiltin) {
		return Value{}, false
	}
	v, ok = m.applyBuiltin(n, v)
	if ok {
		m.last = v
	}
	return v, ok
}

func (m *machine) applyBuiltin(n *node, v Value) (Value, bool) {
	switch id := builtinID(n.slot); id {
	case fnLen:
		return m.length(n, v)
	case fnIsString:
		return Bool(v.k == KindString), true
	case fnIsNumber:
		return Bool(v.k == KindNumber), true
	case fnIsBool:
		return Bool(v.k == KindBool), true
	case fnIsList:
		return Bool(v.k == KindList), true
	case fnIsMap:
		return Bool(v.k == KindMap), true
	case fnIsNil:
		return Bool(v.k == KindNil), true
	case fnIsTimedate:
		return Bool(v.k == KindTimeDate), true
	case fnIsInt:
		return Bool(v.k == KindNumber && isIntegral(v.num())), true
	case fnIsFloat:
		return Bool(v.k == KindNumber && !isIntegral(v.num())), true
	case fnIsError:
		return Bool(v.IsErrorLike()), true
	case fnIsNever:
		return Bool(false), true
	case fnChar:
		return m.char(n, v)
	case fnOrd:
		if v.k != KindString || v.n == 0 {
			return Value{}, m.raise(n, CodeType, "ord needs a string that is not empty, not "+describe(v))
		}
		r, _ := utf8.DecodeRuneInString(v.str())
		return Number(float64(r)), true
	default:
		f, ok, paid := m.numberOf(n, v)
		if !paid {
			return Value{}, false
		}
		if !ok {
			return Value{}, m.raise(n, CodeType, n.val.str()+" needs a number, not "+describe(v))
		}
		return m.number(n, mathFuncs[id](f))
	}
}

var mathFuncs = map[builtinID]func(float64) float64{
	fnLn: math.Log, fnLog: math.Log10, fnSin: math.Sin, fnCos: math.Cos, fnTan: math.Tan,
	fnAsin: math.Asin, fnAcos: math.Acos, fnAtan: math.Atan,
}

func (m *machine) length(n *node, v Value) (Value, bool) {
	count := 1
	switch v.k {
	case KindNil:
		count = 0
	case KindString:
		// Counting code points looks at every byte.
		if !m.scan(n, int64(v.n)) {
			return Value{}, false
		}
		count = utf8.RuneCountInString(v.str())
	case KindList:
		count = len(v.list().elems)
	case KindMap:
		count = len(v.dict().entries)
	}
	return Number(float64(count)), true
}

func (m *machine) char(n *node, v Value) (Value, bool) {
	f, ok, paid := m.numberOf(n, v)
	if !paid {
		return Value{}, false
	}
	if !ok || !isIntegral(f) || f < 0 || f > utf8.MaxRune || !utf8.ValidRune(rune(f)) {
		return Value{}, m.raise(n, CodeType, "char needs the number of a Unicode character, not "+describe(v))
	}
	size := int64(utf8.RuneLen(rune(f)))
	if !m.newString(n, size) {
		return Value{}, false
	}
	return String(string(rune(f))), true
}
