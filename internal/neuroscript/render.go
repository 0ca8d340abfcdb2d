package neuroscript

import (
	"time"

	"github.com/seed14be6753/stile/internal/jsonstring"
)

// AppendText appends the top-level rendering of v (§10). Members deeper than
// MaxValueDepth are left out; Render reports them instead.
func (v Value) AppendText(dst []byte) []byte {
	switch v.k {
	case KindNil:
		return dst
	case KindString:
		return append(dst, v.str()...)
	case KindTimeDate:
		return appendTime(dst, v.time())
	}
	return appendNested(dst, v, 0)
}

func appendTime(dst []byte, t time.Time) []byte { return t.AppendFormat(dst, time.RFC3339Nano) }

// appendNested renders v as it stands inside a list or map. Its recursion is
// bounded by depth.
func appendNested(dst []byte, v Value, depth int) []byte {
	if depth > MaxValueDepth {
		return dst
	}
	switch v.k {
	case KindNil:
		return append(dst, "nil"...)
	case KindBool:
		if v.n != 0 {
			return append(dst, "true"...)
		}
		return append(dst, "false"...)
	case KindNumber:
		return appendNumber(dst, v.num())
	case KindString:
		return jsonstring.Append(dst, v.str())
	case KindTimeDate:
		dst = append(dst, '"')
		dst = appendTime(dst, v.time())
		return append(dst, '"')
	case KindError:
		dst = append(dst, "error: "...)
		return append(dst, v.fault().message...)
	case KindList:
		dst = append(dst, '[')
		for i, e := range v.list().elems {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = appendNested(dst, e, depth+1)
		}
		return append(dst, ']')
	case KindMap:
		dst = append(dst, '{')
		entries := v.dict().entries
		for i := range entries {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = jsonstring.Append(dst, entries[i].Key)
			dst = append(dst, ": "...)
			dst = appendNested(dst, entries[i].Value, depth+1)
		}
		return append(dst, '}')
	}
	return dst
}

// textLen returns the length of the top-level rendering, or some number above most
// as soon as it is above most: so the work stays within what can be paid for.
func textLen(v Value, most int64) int64 {
	switch v.k {
	case KindNil:
		return 0
	case KindString:
		return int64(v.n)
	case KindTimeDate:
		return int64(len(appendTime(nil, v.time())))
	}
	return nestedLen(v, most, 0)
}

func nestedLen(v Value, most int64, depth int) int64 {
	switch v.k {
	case KindNil:
		return 3
	case KindBool:
		if v.n != 0 {
			return 4
		}
		return 5
	case KindNumber:
		var buf [maxNumberBytes]byte
		return int64(len(appendNumber(buf[:0], v.num())))
	case KindString:
		if int64(v.n) > most {
			return int64(v.n)
		}
		return jsonstring.Len(v.str())
	case KindTimeDate:
		return int64(len(appendTime(nil, v.time()))) + 2
	case KindError:
		return int64(len("error: ") + len(v.fault().message))
	case KindList:
		elems := v.list().elems
		n := int64(2)
		if len(elems) > 1 {
			n += 2 * int64(len(elems)-1)
		}
		if depth >= MaxValueDepth {
			return n
		}
		for i := range elems {
			if n > most {
				return n
			}
			n += nestedLen(elems[i], most-n, depth+1)
		}
		return n
	case KindMap:
		entries := v.dict().entries
		n := int64(2)
		if len(entries) > 1 {
			n += 2 * int64(len(entries)-1)
		}
		if depth >= MaxValueDepth {
			return n
		}
		for i := range entries {
			if n > most || int64(len(entries[i].Key)) > most {
				return max(n, int64(len(entries[i].Key)))
			}
			n += jsonstring.Len(entries[i].Key) + 2
			n += nestedLen(entries[i].Value, most-n, depth+1)
		}
		return n
	}
	return 0
}
