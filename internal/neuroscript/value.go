package neuroscript

import (
	"math"
	"slices"
	"sort"
	"strings"
	"time"
	"unsafe"
)

// MaxValueDepth is the deepest nesting of a value: a scalar has depth 0, a list,
// map or error 1 more than its deepest member (docs/spec/neuroscript.md §§10, 13.5).
const MaxValueDepth = 64

// Kind is the type of a Value.
type Kind uint8

// The kinds of docs/spec/neuroscript.md §4.
const (
	KindNil Kind = iota
	KindBool
	KindNumber
	KindString
	KindList
	KindMap
	KindError
	KindTimeDate
)

var kindNames = [...]string{"nil", "boolean", "number", "string", "list", "map", "error", "timedate"}

// String returns the name that typeof gives.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// Value is one value of the language, 24 bytes; the zero Value is nil. A Value
// never changes and may be shared between goroutines.
//
// Numbers and booleans live in n. A string is the pointer p and the length n, so
// that making one allocates its bytes and nothing else. The other kinds point to
// their node.
type Value struct {
	p unsafe.Pointer
	n uint64
	k Kind
}

// Entry is one member of a map.
type Entry struct {
	Key   string
	Value Value
}

type listNode struct {
	elems []Value
	size  int64 // charged size with all members, §13.3
	depth int32
	room  *room  // behind elems, shared with lists that begin alike (own.go); nil for none
	owner *owner // holds it alone and may change it (own.go); nil: it never changes
}

// mapNode keeps its entries ascending by key: that is the order of rendering and
// iteration, and a binary search finds a key.
type mapNode struct {
	entries []Entry
	own     int64 // charged size without the values
	size    int64
	depth   int32
	owner   *owner // as in listNode
}

type errorNode struct {
	code    int
	line    int
	message string
	details Value
	size    int64
	depth   int32
}

// Charged sizes in bytes (docs/spec/neuroscript.md §13.3).
const (
	StringBase = 16
	ListBase   = 24
	ListSlot   = 16
	MapBase    = 48
	MapSlot    = 32
	ErrorBase  = 64
)

// Bool makes a boolean.
func Bool(b bool) Value {
	if b {
		return Value{n: 1, k: KindBool}
	}
	return Value{k: KindBool}
}

// Number makes a number; −0 becomes 0. A value that is not finite is a fault of
// the caller: as the result of a tool it raises code 17.
func Number(f float64) Value {
	return Value{n: math.Float64bits(f + 0), k: KindNumber}
}

// String makes a string. s must be UTF-8: a tool result that is not raises
// code 21.
func String(s string) Value {
	return Value{p: unsafe.Pointer(unsafe.StringData(s)), n: uint64(len(s)), k: KindString}
}

// List makes a list and takes the slice over: the caller must not write to it
// any more.
func List(elems []Value) Value {
	n := &listNode{elems: elems, size: ListBase + ListSlot*int64(len(elems))}
	deepest := int32(0)
	for i := range elems {
		n.size = addSize(n.size, elems[i].Size())
		deepest = max(deepest, elems[i].depth())
	}
	n.depth = deepest + 1
	return Value{p: unsafe.Pointer(n), k: KindList}
}

// Map makes a map from m, which stays the caller's.
func Map(m map[string]Value) Value {
	entries := make([]Entry, 0, len(m))
	for k, v := range m {
		entries = append(entries, Entry{k, v})
	}
	sort.Slice(entries, func(i, j int) bool { return entries[i].Key < entries[j].Key })
	return mapOf(entries)
}

// MapOf makes a map of entries in any order and takes the slice over. Of entries
// with the same key the last wins.
func MapOf(entries []Entry) Value {
	sorted := true
	for i := 1; i < len(entries); i++ {
		if entries[i-1].Key >= entries[i].Key {
			sorted = false
			break
		}
	}
	if !sorted {
		slices.SortStableFunc(entries, func(a, b Entry) int { return strings.Compare(a.Key, b.Key) })
		w := 0
		for i := range entries {
			if i+1 < len(entries) && entries[i].Key == entries[i+1].Key {
				continue
			}
			entries[w] = entries[i]
			w++
		}
		clear(entries[w:])
		entries = entries[:w]
	}
	return mapOf(entries)
}

// mapOf takes over entries that ascend strictly.
func mapOf(entries []Entry) Value {
	n := &mapNode{entries: entries, own: MapBase}
	deepest := int32(0)
	for i := range entries {
		n.own += MapSlot + int64(len(entries[i].Key))
		n.size = addSize(n.size, entries[i].Value.Size())
		deepest = max(deepest, entries[i].Value.depth())
	}
	n.size = addSize(n.size, n.own)
	n.depth = deepest + 1
	return Value{p: unsafe.Pointer(n), k: KindMap}
}

// NewErrorValue makes an error value; nil details mean none (§8.2).
func NewErrorValue(code int, message string, details Value) Value {
	return newError(code, message, details, 0)
}

func newError(code int, message string, details Value, line int) Value {
	n := &errorNode{code: code, message: message, details: details, line: line}
	n.size = addSize(ErrorBase+int64(len(message)), details.Size())
	n.depth = details.depth() + 1
	return Value{p: unsafe.Pointer(n), k: KindError}
}

// TimeDate makes a timedate. Only tools make them.
func TimeDate(t time.Time) Value {
	t = t.UTC().Round(0)
	return Value{p: unsafe.Pointer(&t), k: KindTimeDate}
}

// Kind tells the type.
func (v Value) Kind() Kind { return v.k }

// IsNil reports whether v is nil.
func (v Value) IsNil() bool { return v.k == KindNil }

func (v Value) num() float64      { return math.Float64frombits(v.n) }
func (v Value) str() string       { return unsafe.String((*byte)(v.p), int(v.n)) }
func (v Value) list() *listNode   { return (*listNode)(v.p) }
func (v Value) dict() *mapNode    { return (*mapNode)(v.p) }
func (v Value) fault() *errorNode { return (*errorNode)(v.p) }
func (v Value) time() time.Time   { return *(*time.Time)(v.p) }

// Truthy is the truth of §4.
func (v Value) Truthy() bool {
	switch v.k {
	case KindBool, KindString:
		return v.n != 0
	case KindNumber:
		return v.num() != 0
	case KindList:
		return len(v.list().elems) > 0
	case KindMap:
		return len(v.dict().entries) > 0
	case KindTimeDate:
		return !v.time().IsZero()
	case KindNil, KindError:
	}
	return false
}

// AsBool returns a boolean's content.
func (v Value) AsBool() (b, ok bool) { return v.k == KindBool && v.n != 0, v.k == KindBool }

// AsNumber returns a number's content. Numeric strings are not numbers here: see
// ParseNumber.
func (v Value) AsNumber() (float64, bool) {
	if v.k != KindNumber {
		return 0, false
	}
	return v.num(), true
}

// AsInt returns a number that is integral and within ±2^53.
func (v Value) AsInt() (int64, bool) {
	if v.k != KindNumber {
		return 0, false
	}
	f := v.num()
	if f != math.Trunc(f) || math.Abs(f) > maxExact {
		return 0, false
	}
	return int64(f), true
}

// AsString returns a string's content.
func (v Value) AsString() (string, bool) {
	if v.k != KindString {
		return "", false
	}
	return v.str(), true
}

// AsList returns the elements, to be read only.
func (v Value) AsList() ([]Value, bool) {
	if v.k != KindList {
		return nil, false
	}
	e := v.list().elems
	return e[:len(e):len(e)], true
}

// AsMap returns the entries ascending by key, to be read only.
func (v Value) AsMap() ([]Entry, bool) {
	if v.k != KindMap {
		return nil, false
	}
	e := v.dict().entries
	return e[:len(e):len(e)], true
}

// AsTime returns the instant of a timedate, in UTC.
func (v Value) AsTime() (time.Time, bool) {
	if v.k != KindTimeDate {
		return time.Time{}, false
	}
	return v.time(), true
}

// AsError returns the members of an error value.
func (v Value) AsError() (code int, message string, details Value, ok bool) {
	if v.k != KindError {
		return 0, "", Value{}, false
	}
	e := v.fault()
	return e.code, e.message, e.details, true
}

// MapKeys returns a map's keys, ascending by bytes; nil for other kinds.
func (v Value) MapKeys() []string {
	if v.k != KindMap {
		return nil
	}
	entries := v.dict().entries
	keys := make([]string, len(entries))
	for i := range entries {
		keys[i] = entries[i].Key
	}
	return keys
}

// MapGet reads one member of a map; ok is false when it is missing or v is no map.
func (v Value) MapGet(key string) (Value, bool) {
	if v.k != KindMap {
		return Value{}, false
	}
	entries := v.dict().entries
	if i, ok := findKey(entries, key); ok {
		return entries[i].Value, true
	}
	return Value{}, false
}

// findKey returns the place of key in entries, or the place where it belongs.
func findKey(entries []Entry, key string) (int, bool) {
	lo, hi := 0, len(entries)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if entries[mid].Key < key {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo, lo < len(entries) && entries[lo].Key == key
}

// IsErrorLike reports whether v is an error value, or a map with both code and
// message (§9 is_error).
func (v Value) IsErrorLike() bool {
	if v.k == KindError {
		return true
	}
	if v.k != KindMap {
		return false
	}
	_, code := v.MapGet("code")
	_, message := v.MapGet("message")
	return code && message
}

// Size is the charged size in bytes with all members (§13.3): a scalar 0, a
// string 16 + len, and so on. It costs nothing to ask.
func (v Value) Size() int64 {
	switch v.k {
	case KindString:
		return StringBase + int64(v.n)
	case KindList:
		return v.list().size
	case KindMap:
		return v.dict().size
	case KindError:
		return v.fault().size
	}
	return 0
}

// addSize adds two sizes and stays at the largest integer: lists that share
// their members can be larger, counted as trees, than any number.
func addSize(a, b int64) int64 {
	if s := a + b; s >= a {
		return s
	}
	return math.MaxInt64
}

// Depth is the nesting of v, as MaxValueDepth counts it. It costs nothing to ask.
func (v Value) Depth() int { return int(v.depth()) }

func (v Value) depth() int32 {
	switch v.k {
	case KindList:
		return v.list().depth
	case KindMap:
		return v.dict().depth
	case KindError:
		return v.fault().depth
	}
	return 0
}

func (e *errorNode) member(key string) Value {
	switch key {
	case "code":
		return Number(float64(e.code))
	case "message":
		return String(e.message)
	case "details":
		return e.details
	case "line":
		if e.line > 0 {
			return Number(float64(e.line))
		}
	}
	return Value{}
}
