package neuroscript

import "unsafe"

// maxPadding is how many elements one write may pad a list with (§5).
const maxPadding = 100_000

// level is one container on the path of a write.
type level struct {
	old   Value // the container, or nil when it is created
	isMap bool
	found bool   // the member exists
	index int    // its place
	key   string // of a map's member
	child Value  // its value before the write
	size  int64  // of the new container, with members
	depth int32  // of the new container
	held  bool   // the container is changed in place (own.go)
	room  int64  // members it gets room for; 0 when it has enough
}

// newLen is the number of members after the write.
func (l *level) newLen() int64 {
	if l.isMap {
		n := 0
		if l.old.k == KindMap {
			n = len(l.old.dict().entries)
		}
		if !l.found {
			n++
		}
		return int64(n)
	}
	n := 0
	if l.old.k == KindList {
		n = len(l.old.list().elems)
	}
	return int64(max(n, l.index+1))
}

// assign writes v to a target: a variable or an element of it (§5).
func (m *machine) assign(t *node, v Value) bool {
	if t.a == nil {
		m.slots[t.slot] = v
		return true
	}
	base := len(m.stack)
	for s := t.a; s != nil; s = s.next {
		key := s.val
		if s.op == opStepIndex {
			var ok bool
			if key, ok = m.eval(s.a); !ok {
				m.stack = m.stack[:base]
				return false
			}
		}
		m.stack = append(m.stack, key)
	}
	o := m.ownerOf(t.slot)
	ok := m.descend(t, m.stack[base:]) && m.payWrite(t, v, o)
	if ok {
		m.slots[t.slot] = m.rebuild(v, o)
	}
	m.stack = m.stack[:base]
	clear(m.levels)
	return ok
}

// descend finds the containers along a path, from the variable inwards, and notes
// what is missing.
func (m *machine) descend(t *node, keys []Value) bool {
	m.levels = m.levels[:0]
	cur := m.slots[t.slot]
	padding := 0.0
	step := t.a
	for i := 0; i < len(keys); i, step = i+1, step.next {
		if i >= MaxValueDepth {
			return m.tooDeep(step)
		}
		key := keys[i]
		l := level{old: cur}
		switch cur.k {
		case KindMap:
			l.isMap = true
		case KindList:
		case KindNil:
			// A missing container is a list for an integral number, else a map.
			l.isMap = key.k != KindNumber || !isIntegral(key.num())
		default:
			return m.raise(step, CodeType, "an element of "+cur.k.String()+" cannot be set")
		}
		if l.isMap {
			var ok bool
			if l.key, ok = m.keyText(step, key); !ok {
				return false
			}
			if cur.k == KindMap {
				entries := cur.dict().entries
				if l.index, l.found = findKey(entries, l.key); l.found {
					l.child = entries[l.index].Value
				}
			}
		} else {
			index, ok := m.listIndex(step, key)
			if !ok {
				return false
			}
			have := 0
			if cur.k == KindList {
				have = len(cur.list().elems)
			}
			if padding += max(0, index-float64(have)); padding > maxPadding {
				return m.raise(step, CodeBounds, "a write pads a list with at most 100000 elements")
			}
			l.index = int(index)
			if l.index < have {
				l.found = true
				l.child = cur.list().elems[l.index]
			}
		}
		cur = l.child
		m.levels = append(m.levels, l)
	}
	return true
}

// payWrite pays for the containers along the path, and computes their sizes and depths
// from the inside out. Those that their variable alone holds are paid for what changes in
// them, others for new ones; under version 1 all are paid for new ones.
func (m *machine) payWrite(t *node, v Value, o *owner) bool {
	gas, bytes := int64(0), int64(0)
	inner := v.Size()
	// Only a value that nests less deeply than the one it replaces has depthWith look at
	// the others.
	looks := v.depth() < m.levels[len(m.levels)-1].child.depth()
	for i := len(m.levels) - 1; i >= 0; i-- {
		l := &m.levels[i]
		count := l.newLen()
		l.held = l.heldBy(o)
		var own, old, pads int64
		if l.isMap {
			own, old = MapBase, MapBase
			if l.old.k == KindMap {
				own, old = l.old.dict().own, l.old.dict().size
			}
			if !l.found {
				own += MapSlot + int64(len(l.key))
				old += MapSlot + int64(len(l.key))
			}
		} else {
			have := int64(0)
			old = ListBase
			if l.old.k == KindList {
				have, old = int64(len(l.old.list().elems)), l.old.list().size
			}
			pads = max(0, int64(l.index)-have)
			own = ListBase + ListSlot*count
			old += ListSlot * (count - have)
		}
		switch {
		case l.held:
			more, room := l.inPlace()
			gas, bytes = gas+more, bytes+room
			if looks {
				gas += (count + 15) / 16
			}
		default:
			gas, bytes = gas+1+(count+15)/16+pads, bytes+own
		}
		l.size = addSize(old-l.child.Size(), inner)
		inner = l.size
	}
	if !m.charge(t, gas, bytes, inner) {
		return false
	}
	depth := v.depth()
	for i := len(m.levels) - 1; i >= 0; i-- {
		l := &m.levels[i]
		l.depth = l.depthWith(depth)
		depth = l.depth
	}
	if depth > MaxValueDepth {
		return m.tooDeep(t)
	}
	return true
}

// depthWith returns the container's depth when its member has a new depth. Only
// when the deepest member is replaced by a shallower one are the others looked
// at: their number is paid for.
func (l *level) depthWith(inner int32) int32 {
	old := l.old.depth()
	switch {
	case inner+1 >= old:
		return inner + 1
	case l.child.depth()+1 < old:
		return old
	}
	if l.old.k == KindMap {
		for i, e := range l.old.dict().entries {
			if i != l.index || !l.found {
				inner = max(inner, e.Value.depth())
			}
		}
	} else {
		for i, e := range l.old.list().elems {
			if i != l.index {
				inner = max(inner, e.depth())
			}
		}
	}
	return inner + 1
}

// rebuild makes the new containers from the inside out, and changes those that may be.
func (m *machine) rebuild(v Value, o *owner) Value {
	for i := len(m.levels) - 1; i >= 0; i-- {
		l := &m.levels[i]
		if l.held {
			v = l.change(v)
			continue
		}
		count := int(l.newLen())
		if !l.isMap {
			elems := make([]Value, count)
			if l.old.k == KindList {
				copy(elems, l.old.list().elems)
			}
			elems[l.index] = v
			v = Value{p: unsafe.Pointer(&listNode{elems: elems, size: l.size, depth: l.depth, owner: o}), k: KindList}
			continue
		}
		entries := make([]Entry, count)
		own := int64(MapBase)
		if l.old.k == KindMap {
			old := l.old.dict()
			own = old.own
			copy(entries, old.entries[:l.index])
			if l.found {
				copy(entries[l.index:], old.entries[l.index:])
			} else {
				copy(entries[l.index+1:], old.entries[l.index:])
			}
		}
		if l.found {
			entries[l.index].Value = v
		} else {
			entries[l.index] = Entry{l.key, v}
			own += MapSlot + int64(len(l.key))
		}
		v = Value{p: unsafe.Pointer(&mapNode{entries: entries, own: own, size: l.size, depth: l.depth, owner: o}), k: KindMap}
	}
	return v
}
