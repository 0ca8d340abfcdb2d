package neuroscript

import (
	"math"
	"strings"
	"unsafe"

	"github.com/seed14be6753/stile/internal/jsonstring"
)

// binary applies an operator to its operands (§§6.2, 6.3). The node's own gas is
// paid.
func (m *machine) binary(n *node, l, r Value) (Value, bool) {
	switch n.op {
	case opAdd:
		if l.k == KindString || r.k == KindString {
			return m.concat(n, l, r)
		}
		if l.k != KindNumber || r.k != KindNumber {
			return Value{}, m.wrongOperands(n, l, r)
		}
		return m.number(n, l.num()+r.num())
	case opSub, opMul, opDiv, opPow:
		if n.op == opMul {
			if l.k == KindString && r.k == KindNumber && r.num() >= 0 && isIntegral(r.num()) {
				return m.repeat(n, l.str(), r.num())
			}
			if r.k == KindString && l.k == KindNumber && l.num() >= 0 && isIntegral(l.num()) {
				return m.repeat(n, r.str(), l.num())
			}
		}
		x, y, ok := m.numerics(n, l, r)
		if !ok {
			return Value{}, false
		}
		switch n.op {
		case opSub:
			return m.number(n, x-y)
		case opMul:
			return m.number(n, x*y)
		case opPow:
			return m.number(n, math.Pow(x, y))
		}
		if y == 0 {
			return Value{}, m.raise(n, CodeDivZero, "division by zero")
		}
		return m.number(n, x/y)
	case opMod:
		x, y, ok := m.numerics(n, l, r)
		if !ok {
			return Value{}, false
		}
		if !isIntegral(x) || !isIntegral(y) {
			return Value{}, m.raise(n, CodeType, "% needs integral numbers")
		}
		if y == 0 {
			return Value{}, m.raise(n, CodeDivZero, "division by zero")
		}
		if math.Abs(x) <= maxExact && math.Abs(y) <= maxExact {
			return Number(float64(int64(x) % int64(y))), true
		}
		return m.number(n, math.Mod(x, y))
	case opEq, opNe:
		eq, ok := m.equal(n, l, r)
		return Bool(eq == (n.op == opEq)), ok
	case opLt, opGt, opLe, opGe:
		return m.order(n, l, r)
	case opBitAnd, opBitOr, opBitXor:
		x, ok := m.bits(n, l)
		if !ok {
			return Value{}, false
		}
		y, ok := m.bits(n, r)
		if !ok {
			return Value{}, false
		}
		switch n.op {
		case opBitAnd:
			x &= y
		case opBitOr:
			x |= y
		case opBitXor:
			x ^= y
		}
		return m.bitsResult(n, x)
	}
	panic("neuroscript: a node that is no operator")
}

func (m *machine) wrongOperands(n *node, l, r Value) bool {
	return m.raise(n, CodeType, opSigns[n.op]+" cannot take "+l.k.String()+" and "+r.k.String())
}

// number makes a number of a result, code 17 when it is not finite.
func (m *machine) number(n *node, f float64) (Value, bool) {
	if !isFinite(f) {
		return Value{}, m.raise(n, CodeEvaluation, "the result is no finite number")
	}
	return Number(f), true
}

// numberOf reads a numeric operand; paid is false after a breach. Reading a string
// is string work.
func (m *machine) numberOf(n *node, v Value) (f float64, ok, paid bool) {
	switch v.k {
	case KindNumber:
		return v.num(), true, true
	case KindString:
		if !m.pay(n, work(int64(v.n))) {
			return 0, false, false
		}
		f, ok = ParseNumber(v.str())
		return f, ok, true
	}
	return 0, false, true
}

// numeric reads a numeric operand, code 7 when it is none.
func (m *machine) numeric(n *node, v Value) (float64, bool) {
	f, ok, paid := m.numberOf(n, v)
	if paid && !ok {
		return 0, m.raise(n, CodeType, opSigns[n.op]+" needs a number, not "+describe(v))
	}
	return f, ok
}

// describe names a value in a message.
func describe(v Value) string {
	if v.k == KindString {
		if v.n > 40 {
			return "a string that is no number"
		}
		return "the string " + string(jsonstring.Append(nil, v.str()))
	}
	return v.k.String()
}

func (m *machine) numerics(n *node, l, r Value) (x, y float64, ok bool) {
	if x, ok = m.numeric(n, l); !ok {
		return 0, 0, false
	}
	y, ok = m.numeric(n, r)
	return x, y, ok
}

// bits reads an operand of a bitwise operator.
func (m *machine) bits(n *node, v Value) (int64, bool) {
	f, ok := m.numeric(n, v)
	if !ok {
		return 0, false
	}
	if !isIntegral(f) || math.Abs(f) > maxExact {
		return 0, m.raise(n, CodeType, opSigns[n.op]+" needs integral numbers within ±2^53")
	}
	return int64(f), true
}

func (m *machine) bitsResult(n *node, i int64) (Value, bool) {
	if i > maxExact || i < -maxExact {
		return Value{}, m.raise(n, CodeEvaluation, "the result is outside ±2^53")
	}
	return Number(float64(i)), true
}

// adopt returns a string value of bytes without other references.
func adopt(b []byte) Value {
	return Value{p: unsafe.Pointer(unsafe.SliceData(b)), n: uint64(len(b)), k: KindString}
}

// concat joins the top-level renderings of two values; its work is paid once, by
// the length of the result.
func (m *machine) concat(n *node, l, r Value) (Value, bool) {
	if !m.renderable(n, l) || !m.renderable(n, r) {
		return Value{}, false
	}
	most := m.affordable()
	total := textLen(l, most)
	if total <= most {
		total += textLen(r, most-total)
	}
	if !m.newString(n, total) {
		return Value{}, false
	}
	b := make([]byte, 0, total)
	return adopt(r.AppendText(l.AppendText(b))), true
}

// renderable raises code 17 for a value that nests too deeply; only values from
// outside can.
func (m *machine) renderable(n *node, v Value) bool {
	if v.depth() > MaxValueDepth {
		return m.raise(n, CodeEvaluation, "the value nests too deeply")
	}
	return true
}

// repeat makes count copies of s. The size is computed before anything is
// allocated; a product beyond every limit stands for itself.
func (m *machine) repeat(n *node, s string, count float64) (Value, bool) {
	const huge = 1 << 60
	total := int64(huge)
	if len(s) == 0 || count == 0 {
		total, count = 0, 0
	} else if count <= float64(huge/len(s)) {
		total = int64(count) * int64(len(s))
	}
	if !m.newString(n, total) {
		return Value{}, false
	}
	return String(strings.Repeat(s, int(count))), true
}

// rendered returns the text of a value: a string as it is, anything else rendered
// and paid as a new string.
func (m *machine) rendered(n *node, v Value) (string, bool) {
	if v.k == KindString {
		return v.str(), true
	}
	if !m.renderable(n, v) {
		return "", false
	}
	total := textLen(v, m.affordable())
	if !m.newString(n, total) {
		return "", false
	}
	return adopt(v.AppendText(make([]byte, 0, total))).str(), true
}
