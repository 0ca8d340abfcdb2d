package neuroscript

import (
	"strings"
)

// order compares for < > <= >=.
func (m *machine) order(n *node, l, r Value) (Value, bool) {
	c := 0
	switch {
	case l.k == KindString && r.k == KindString:
		if !m.pay(n, work(int64(min(l.n, r.n)))) {
			return Value{}, false
		}
		c = strings.Compare(l.str(), r.str())
	case l.k == KindTimeDate && r.k == KindTimeDate:
		c = l.time().Compare(r.time())
	default:
		x, ok, paid := m.numberOf(n, l)
		y := 0.0
		if ok {
			y, ok, paid = m.numberOf(n, r)
		}
		if !paid {
			return Value{}, false
		}
		if !ok {
			return Value{}, m.wrongOperands(n, l, r)
		}
		switch {
		case x < y:
			c = -1
		case x > y:
			c = 1
		}
	}
	switch n.op {
	case opLt:
		return Bool(c < 0), true
	case opGt:
		return Bool(c > 0), true
	case opLe:
		return Bool(c <= 0), true
	}
	return Bool(c >= 0), true
}

// equal is == (§6.3): a number and a numeric string are compared by value, at the
// top only.
func (m *machine) equal(n *node, l, r Value) (eq, ok bool) {
	if l.k == r.k {
		return m.same(n, l, r)
	}
	if l.k == KindNumber && r.k == KindString {
		l, r = r, l
	}
	if l.k == KindString && r.k == KindNumber {
		f, numeric, paid := m.numberOf(n, l)
		return numeric && f == r.num(), paid
	}
	return false, true
}

// same compares strictly. It recurses with the depth of the values.
func (m *machine) same(n *node, l, r Value) (eq, ok bool) {
	if l.k != r.k {
		return false, true
	}
	switch l.k {
	case KindNil:
		return true, true
	case KindBool:
		return l.n == r.n, true
	case KindNumber:
		return l.num() == r.num(), true
	case KindString:
		return m.sameText(n, l.str(), r.str())
	case KindTimeDate:
		return l.time().Equal(r.time()), true
	case KindError:
		a, b := l.fault(), r.fault()
		if a.code != b.code {
			return false, true
		}
		if eq, ok = m.sameText(n, a.message, b.message); !eq || !ok {
			return false, ok
		}
		return m.same(n, a.details, b.details)
	case KindList:
		a, b := l.list().elems, r.list().elems
		if len(a) != len(b) {
			return false, true
		}
		for i := range a {
			if !m.pay(n, 1) {
				return false, false
			}
			if eq, ok = m.same(n, a[i], b[i]); !eq || !ok {
				return false, ok
			}
		}
		return true, true
	case KindMap:
		a, b := l.dict().entries, r.dict().entries
		if len(a) != len(b) {
			return false, true
		}
		for i := range a {
			if !m.pay(n, 1) || !m.scan(n, int64(len(a[i].Key))) {
				return false, false
			}
			if a[i].Key != b[i].Key {
				return false, true
			}
			if eq, ok = m.same(n, a[i].Value, b[i].Value); !eq || !ok {
				return false, ok
			}
		}
		return true, true
	}
	return false, true
}

func (m *machine) sameText(n *node, a, b string) (eq, ok bool) {
	if !m.pay(n, work(int64(min(len(a), len(b))))) {
		return false, false
	}
	return a == b, true
}
