package neuroscript

// shortScan is the length up to which finding a key, or counting the code points
// of a string, is part of the node that does it. Longer ones are string work: else
// a program could have megabytes looked at for one unit of gas. §13.2's list of
// string work names neither.
const shortScan = 64

func (m *machine) scan(n *node, length int64) bool {
	return length <= shortScan || m.pay(n, work(length))
}

// keyText returns the text of a map key (§6.4).
func (m *machine) keyText(n *node, key Value) (string, bool) {
	text, ok := m.rendered(n, key)
	if ok && key.k == KindString {
		ok = m.scan(n, int64(len(text)))
	}
	return text, ok
}

// access reads one element (§6.4).
func (m *machine) access(n *node, base, key Value) (Value, bool) {
	switch base.k {
	case KindMap:
		text, ok := m.keyText(n, key)
		if !ok {
			return Value{}, false
		}
		entries := base.dict().entries
		if i, found := findKey(entries, text); found {
			return entries[i].Value, true
		}
		return Value{}, true
	case KindList:
		i, ok := m.listIndex(n, key)
		if !ok {
			return Value{}, false
		}
		elems := base.list().elems
		if i >= float64(len(elems)) {
			return Value{}, m.raise(n, CodeBounds, "index "+string(appendNumber(nil, i))+" is outside a list of "+string(appendNumber(nil, float64(len(elems)))))
		}
		return elems[int(i)], true
	case KindError:
		text, ok := m.keyText(n, key)
		if !ok {
			return Value{}, false
		}
		return base.fault().member(text), true
	}
	return Value{}, m.raise(n, CodeType, base.k.String()+" has no elements: only maps, lists and errors do")
}

// listIndex reads an index: integral, else 7; negative 8.
func (m *machine) listIndex(n *node, key Value) (float64, bool) {
	f, ok, paid := m.numberOf(n, key)
	if !paid {
		return 0, false
	}
	if !ok || !isIntegral(f) {
		return 0, m.raise(n, CodeType, "the index of a list is an integral number, not "+describe(key))
	}
	if f < 0 {
		return 0, m.raise(n, CodeBounds, "the index of a list is not negative")
	}
	return f, true
}

// path reads a chain of elements. Each step is a node; all are entered first.
func (m *machine) path(n *node) (Value, bool) {
	if !m.pay(n, int64(n.n-1)) {
		return Value{}, false
	}
	v, ok := m.container(n.a)
	for s := n.b; s != nil && ok; s = s.next {
		key := s.val
		if s.op == opStepIndex {
			if key, ok = m.eval(s.a); !ok {
				return Value{}, false
			}
		}
		v, ok = m.access(s, v, key)
	}
	if v.k >= KindList {
		m.share(n.a)
	}
	return v, ok
}

// member is access to what the operand n.a gave. A container that is taken out of one is
// held twice.
func (m *machine) member(n *node, base, key Value) (Value, bool) {
	v, ok := m.access(n, base, key)
	if v.k >= KindList {
		m.share(n.a)
	}
	return v, ok
}
