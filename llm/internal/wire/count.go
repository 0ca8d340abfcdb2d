package wire

import "strconv"

// maxCount bounds a provider's numbers, so that records can hold them.
const maxCount = 1 << 50

// Count is a number of tokens in an event. An invalid number counts as absent, so that a reply
// does not fail for its usage.
type Count struct {
	N     int64 // 0 to maxCount
	Known bool
}

// UnmarshalJSON implements json.Unmarshaler. It never fails.
func (c *Count) UnmarshalJSON(b []byte) error {
	*c = Count{}
	if f, err := strconv.ParseFloat(string(b), 64); err == nil { // JSON writes no NaN
		*c = Count{N: int64(min(max(f, 0), maxCount)), Known: true}
	}
	return nil
}

// Plus returns the sum, which is present if one of them is.
func (c Count) Plus(d Count) Count {
	return Count{N: min(c.N+d.N, maxCount), Known: c.Known || d.Known}
}

// Bill is the usage in an event: a T, or the zero value if the JSON is no T.
type Bill[T any] struct{ Of T }

// UnmarshalJSON implements json.Unmarshaler. It never fails.
func (u *Bill[T]) UnmarshalJSON(b []byte) error {
	var of T
	if Decode(b, &of) == nil {
		u.Of = of
	}
	return nil
}
