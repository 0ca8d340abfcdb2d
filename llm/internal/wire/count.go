package wire

import "strconv"

// maxCount keeps a provider's number within what records hold.
const maxCount = 1 << 50

// Count is a number of tokens in an event. One that makes no sense is not said: a reply
// is not given up for its bill.
type Count struct {
	N    int64 // 0 to maxCount
	Said bool
}

// UnmarshalJSON implements json.Unmarshaler. It fails for nothing.
func (c *Count) UnmarshalJSON(b []byte) error {
	*c = Count{}
	if f, err := strconv.ParseFloat(string(b), 64); err == nil { // JSON writes no NaN
		*c = Count{N: int64(min(max(f, 0), maxCount)), Said: true}
	}
	return nil
}

// Plus is the sum, said when one of them is.
func (c Count) Plus(d Count) Count {
	return Count{N: min(c.N+d.N, maxCount), Said: c.Said || d.Said}
}

// Bill is what an event says about usage: a T, or nothing where it is none.
type Bill[T any] struct{ Of T }

// UnmarshalJSON implements json.Unmarshaler. It fails for nothing.
func (u *Bill[T]) UnmarshalJSON(b []byte) error {
	var of T
	if Decode(b, &of) == nil {
		u.Of = of
	}
	return nil
}
