package neuroscript

import (
	"math"
	"unsafe"
)

// eval evaluates an expression. ok is false after a breach (m.breach is set) or a
// script error (m.err is set). A node pays on entry, its leaf operands with it:
// nothing can happen between the two.
func (m *machine) eval(n *node) (v Value, ok bool) {
	m.gas += int64(n.cost)
	if m.gas >= m.gasStop && !m.tick(n) {
		return Value{}, false
	}
	switch n.op {
	case opConst:
		return n.val, true
	case opVar:
		v = m.slots[n.slot]
		if v.k >= KindList {
			m.share(n)
		}
		return v, true
	case opLast:
		return m.last, true

	case opAdd, opSub, opMul, opDiv, opMod, opPow, opLt, opGt, opLe, opGe, opEq, opNe, opBitAnd, opBitOr, opBitXor:
		var l, r Value
		a, b := n.a, n.b
		switch a.op {
		case opConst:
			l = a.val
		case opVar:
			l = m.slots[a.slot]
		default:
			if l, ok = m.eval(a); !ok {
				return Value{}, false
			}
		}
		switch {
		case n.cost == 3 && b.op == opConst:
			r = b.val
		case n.cost == 3:
			r = m.slots[b.slot]
		default:
			if r, ok = m.eval(b); !ok {
				return Value{}, false
			}
		}
		if l.k == KindNumber && r.k == KindNumber {
			x, y := l.num(), r.num()
			switch n.op {
			case opAdd:
				if s := x + y; isFinite(s) {
					return Value{n: math.Float64bits(s), k: KindNumber}, true
				}
			case opSub:
				if s := x - y; isFinite(s) {
					return Value{n: math.Float64bits(s), k: KindNumber}, true
				}
			case opMul:
				if s := x * y; isFinite(s) {
					return Number(s), true
				}
			case opLt:
				return Bool(x < y), true
			case opGt:
				return Bool(x > y), true
			case opLe:
				return Bool(x <= y), true
			case opGe:
				return Bool(x >= y), true
			case opEq:
				return Bool(x == y), true
			case opNe:
				return Bool(x != y), true
			}
		}
		return m.binary(n, l, r)

	case opOr, opAnd:
		if v, ok = m.eval(n.a); !ok {
			return Value{}, false
		}
		if v.Truthy() != (n.op == opAnd) {
			return Bool(n.op == opOr), true
		}
		if v, ok = m.eval(n.b); !ok {
			return Value{}, false
		}
		return Bool(v.Truthy()), true

	case opChain:
		return m.chain(n)

	case opNot:
		v, ok = m.eval(n.a)
		return Bool(!v.Truthy()), ok
	case opSome:
		v, ok = m.eval(n.a)
		return Bool(v.Truthy()), ok
	case opTypeof:
		v, ok = m.eval(n.a)
		return String(v.k.String()), ok
	case opNeg:
		if v, ok = m.eval(n.a); !ok {
			return Value{}, false
		}
		f, ok := m.numeric(n, v)
		return Number(-f), ok
	case opInvert:
		if v, ok = m.eval(n.a); !ok {
			return Value{}, false
		}
		i, ok := m.bits(n, v)
		if !ok {
			return Value{}, false
		}
		return m.bitsResult(n, ^i)

	case opIndex:
		if n.cost == 1 {
			v, ok = m.container(n.a)
		} else {
			v, ok = m.operand(n.a, true)
		}
		if !ok {
			return Value{}, false
		}
		key, ok := m.operand(n.b, n.cost > 2)
		if !ok {
			return Value{}, false
		}
		return m.member(n, v, key)
	case opField:
		if v, ok = m.container(n.a); !ok {
			return Value{}, false
		}
		return m.member(n, v, n.val)
	case opPath:
		return m.path(n)

	case opList:
		return m.listLiteral(n)
	case opMap:
		return m.mapLiteral(n)
	case opTemplate:
		return m.template(n)
	case opEval:
		if v, ok = m.eval(n.a); !ok {
			return Value{}, false
		}
		return m.interpolate(n, v)

	case opBuiltin:
		return m.builtin(n)
	case opCall:
		return m.callFunc(n)
	case opTool:
		return m.callTool(n)
	}
	panic("neuroscript: a node that is no expression")
}

// container evaluates what is only looked into: a variable goes on holding it alone.
func (m *machine) container(n *node) (Value, bool) {
	if n.op != opVar {
		return m.eval(n)
	}
	m.gas += int64(n.cost)
	if m.gas >= m.gasStop && !m.tick(n) {
		return Value{}, false
	}
	return m.slots[n.slot], true
}

// operand evaluates a; a leaf that was paid with its operator is only read.
func (m *machine) operand(a *node, paid bool) (Value, bool) {
	if !paid {
		return m.eval(a)
	}
	if a.op == opConst {
		return a.val, true
	}
	return m.slots[a.slot], true
}

// chain evaluates operators of one level from left to right. All of them are
// entered before the first operand, as nested operators would be.
func (m *machine) chain(n *node) (Value, bool) {
	if !m.pay(n, int64(n.n-1)) {
		return Value{}, false
	}
	acc, ok := m.eval(n.a)
	for link := n.b; link != nil && ok; link = link.next {
		if link.op == opAnd || link.op == opOr {
			if truth := acc.Truthy(); truth != (link.op == opAnd) {
				acc = Bool(truth)
				continue
			}
			var r Value
			r, ok = m.eval(link.a)
			acc = Bool(r.Truthy())
			continue
		}
		var r Value
		if r, ok = m.eval(link.a); ok {
			acc, ok = m.binary(link, acc, r)
		}
	}
	return acc, ok
}

// push evaluates a list of expressions onto the stack and gives its place there.
func (m *machine) push(first *node) (base int, ok bool) {
	base = len(m.stack)
	for n := first; n != nil; n = n.next {
		v, ok := m.eval(n)
		if !ok {
			m.stack = m.stack[:base]
			return base, false
		}
		m.stack = append(m.stack, v)
	}
	return base, true
}

// listLiteral builds a list: elements in source order, then 1 per element.
func (m *machine) listLiteral(n *node) (Value, bool) {
	base, ok := m.push(n.a)
	if !ok {
		return Value{}, false
	}
	v, ok := m.newList(n, m.stack[base:])
	m.stack = m.stack[:base]
	return v, ok
}

// newList copies elements into a list and pays for it.
func (m *machine) newList(n *node, elems []Value) (Value, bool) {
	count := int64(len(elems))
	own := ListBase + ListSlot*count
	size := own
	deepest := int32(0)
	for i := range elems {
		size = addSize(size, elems[i].Size())
		deepest = max(deepest, elems[i].depth())
	}
	if !m.charge(n, count, own, size) {
		return Value{}, false
	}
	if deepest >= MaxValueDepth {
		return Value{}, m.tooDeep(n)
	}
	node := &listNode{elems: append(make([]Value, 0, count), elems...), size: size, depth: deepest + 1}
	return Value{p: unsafe.Pointer(node), k: KindList}, true
}

func (m *machine) tooDeep(n *node) bool {
	return m.raise(n, CodeEvaluation, "the value nests more than 64 deep")
}

// mapLiteral builds a map: keys and values in source order, then 1 per pair, keys
// that occur twice included.
func (m *machine) mapLiteral(n *node) (Value, bool) {
	base := len(m.stack)
	v, ok := m.pushPairs(n)
	if ok {
		v, ok = m.newMap(n, m.stack[base:])
	}
	m.stack = m.stack[:base]
	return v, ok
}

// pushPairs evaluates keys, as texts, and values onto the stack.
func (m *machine) pushPairs(n *node) (Value, bool) {
	for e := n.a; e != nil; e = e.next.next {
		key, ok := m.eval(e)
		if !ok {
			return Value{}, false
		}
		text, ok := m.keyText(e, key)
		if !ok {
			return Value{}, false
		}
		m.stack = append(m.stack, String(text))
		v, ok := m.eval(e.next)
		if !ok {
			return Value{}, false
		}
		m.stack = append(m.stack, v)
	}
	return Value{}, true
}

// newMap makes a map of keys and values and pays for it.
func (m *machine) newMap(n *node, pairs []Value) (Value, bool) {
	own, size := int64(MapBase), int64(0)
	deepest := int32(0)
	for i := 0; i < len(pairs); i += 2 {
		own += MapSlot + int64(pairs[i].n)
		size = addSize(size, pairs[i+1].Size())
		deepest = max(deepest, pairs[i+1].depth())
	}
	if !m.charge(n, int64(n.n), own, addSize(own, size)) {
		return Value{}, false
	}
	if deepest >= MaxValueDepth {
		return Value{}, m.tooDeep(n)
	}
	entries := make([]Entry, 0, n.n)
	for i := 0; i < len(pairs); i += 2 {
		entries = append(entries, Entry{pairs[i].str(), pairs[i+1]})
	}
	return MapOf(entries), true
}
