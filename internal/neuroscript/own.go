package neuroscript

import "unsafe"

// From version 2 of the meters on, a write changes a container in place when the
// variable it goes through is the only one that holds the container (§13.2). A
// container that a write made names its owner, and the variable has the same owner in
// machine.owners until the container is read as a whole: then another holder is possible,
// the variable's owner is given up, and the next write makes new containers along its
// path.
//
//	node.owner == owners[slot] != nil  ⇒  nothing but slots[slot] leads to the node
//
// Looking into a container (an element, its length, a comparison) does not give it away;
// taking a container out of it does. What may be changed in place follows from the
// program alone, so that the charge is the same on every machine.

// movesPerGas is how many entries of a map one unit of gas moves aside. They are moved
// as one block of memory.
const movesPerGas = 128

// minRoom is the least room of a container that grows in place.
const minRoom = 8

// roomFor is the room that a container of count members gets when it grows.
func roomFor(count int64) int64 { return max(minRoom, count+count/2) }

// owner is who may change a container in place. It is told apart by its address, so that
// a value that a tool carries from one run into another is never taken for the run's own.
type owner struct{ _ byte }

// share notes that more than the variable n holds its container.
func (m *machine) share(n *node) {
	if m.owners != nil && n.op == opVar {
		m.owners[n.slot] = nil
	}
}

// ownerOf is who may change containers of a slot; nil under the meters of version 1.
func (m *machine) ownerOf(slot int32) *owner {
	if !m.second {
		return nil
	}
	if m.owners == nil {
		m.owners = make([]*owner, len(m.slots))
	}
	if m.owners[slot] == nil {
		m.owners[slot] = new(owner)
	}
	return m.owners[slot]
}

// heldBy reports whether an owner's write may change the container.
func (l *level) heldBy(o *owner) bool {
	switch {
	case o == nil:
		return false
	case l.old.k == KindList:
		return l.old.list().owner == o
	case l.old.k == KindMap:
		return l.old.dict().owner == o
	}
	return false
}

// inPlace is what the write costs a container that it changes: gas, and bytes of new
// room. One that has no room left gets half as much again, and is moved there.
func (l *level) inPlace() (gas, bytes int64) {
	count := l.newLen()
	if !l.isMap {
		have, room := int64(len(l.old.list().elems)), int64(cap(l.old.list().elems))
		gas = 1 + max(0, int64(l.index)-have)
		if count > room {
			l.room = roomFor(count)
			return gas + (l.room+15)/16, ListBase + ListSlot*l.room
		}
		return gas, 0
	}
	if l.found {
		return 1, 0
	}
	entries := l.old.dict().entries
	gas, bytes = 1+int64(len(entries)-l.index)/movesPerGas, int64(len(l.key))
	if count > int64(cap(entries)) {
		l.room = roomFor(count)
		return gas + (l.room+15)/16, bytes + MapBase + MapSlot*l.room
	}
	return gas, bytes
}

// change does the write to a container in place and gives it.
func (l *level) change(v Value) Value {
	if !l.isMap {
		node := l.old.list()
		if l.room > 0 {
			node.elems = append(make([]Value, 0, l.room), node.elems...)
		}
		if count := int(l.newLen()); count > len(node.elems) {
			node.elems = node.elems[:count]
		}
		node.elems[l.index] = v
		node.size, node.depth = l.size, l.depth
		return Value{p: unsafe.Pointer(node), k: KindList}
	}
	node := l.old.dict()
	if l.found {
		node.entries[l.index].Value = v
	} else {
		if l.room > 0 {
			node.entries = append(make([]Entry, 0, l.room), node.entries...)
		}
		node.entries = node.entries[:len(node.entries)+1]
		copy(node.entries[l.index+1:], node.entries[l.index:])
		node.entries[l.index] = Entry{l.key, v}
		node.own += MapSlot + int64(len(l.key))
	}
	node.size, node.depth = l.size, l.depth
	return Value{p: unsafe.Pointer(node), k: KindMap}
}

// room is what lies behind the members of a list that a program makes by appending: the
// first list of used members may put one more there, and none that is shorter sees it. It
// is of one run: a value that a tool keeps is appended to elsewhere.
type room struct {
	m    *machine
	used int
}

// appended returns a list with one more member. The old list stays what it was; both have
// the same members in the same place as long as it is the longest of those that begin so.
func (m *machine) appended(n *node, list, v Value) (Value, bool) {
	old := list.list()
	have := len(old.elems)
	grown := listNode{
		size: addSize(addSize(old.size, ListSlot), v.Size()), depth: max(old.depth, v.depth()+1), room: old.room,
	}
	fits := old.room != nil && old.room.m == m && old.room.used == have && cap(old.elems) > have
	gas, bytes, wide := int64(1), int64(ListBase), int64(0)
	if !fits {
		wide = roomFor(int64(have) + 1)
		gas, bytes = gas+(wide+15)/16, bytes+ListSlot*wide
	}
	if !m.charge(n, gas, bytes, grown.size) {
		return Value{}, false
	}
	if grown.depth > MaxValueDepth {
		return Value{}, m.tooDeep(n)
	}
	if fits {
		grown.elems = old.elems[:have+1]
	} else {
		grown.elems = append(make([]Value, 0, wide), old.elems...)[:have+1]
		grown.room = &room{m: m}
	}
	grown.elems[have] = v
	grown.room.used = have + 1
	m.last = Value{p: unsafe.Pointer(&grown), k: KindList}
	return m.last, true
}
