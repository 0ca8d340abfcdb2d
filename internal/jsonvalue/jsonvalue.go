// Package jsonvalue reads JSON values as texts in normal form: without white space, members
// in the order of RFC 8785 and each name once, numbers as they were written, strings with
// the shortest escapes. A value is a string and its parts are slices of it, so that a large
// value costs no more memory than its text.
//
// Its functions are pure. All but Normal and Kind take values that Normal gave, and parts of
// those; what they do with other texts is not defined, but that they end.
package jsonvalue

import (
	"iter"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/internal/jsonstring"
	"github.com/seed14be6753/stile/parse/scan"
)

// Normal returns the normal form of a JSON text (RFC 8259). ok is false for what is no JSON
// text of UTF-8, for one with a lone surrogate, and for one whose arrays and objects nest more than
// scan.MaxJSONDepth deep.
func Normal(text string) (value string, ok bool) {
	var j scan.JSON
	b := []byte(text)
	if !utf8.ValidString(text) || j.Write(b) < len(b) || !j.End() {
		return "", false
	}
	return string(j.Bytes()), true
}

// The kinds of values.
const (
	Null   = 'n'
	Bool   = 't'
	Number = '0'
	String = '"'
	Array  = '['
	Object = '{'
)

// Kind is the kind of a value.
func Kind(v string) byte {
	switch c := first(v); c {
	case '{', '[', '"', 'n', 't':
		return c
	case 'f':
		return Bool
	}
	return Number
}

func first(v string) byte {
	if v == "" {
		return Null
	}
	return v[0]
}

// Scalar reports whether a value is neither an array nor an object.
func Scalar(v string) bool { k := Kind(v); return k != Array && k != Object }

// Word names a kind for people.
func Word(v string) string {
	switch Kind(v) {
	case Null:
		return "null"
	case Bool:
		return "boolean"
	case String:
		return "string"
	case Array:
		return "array"
	case Object:
		return "object"
	}
	return "number"
}

// Quote returns the string value of a text of UTF-8.
func Quote(text string) string { return string(jsonstring.Append(nil, text)) }

// Meant is what a string value means.
func Meant(v string) string {
	if len(v) < 2 {
		return ""
	}
	v = v[1 : len(v)-1]
	if strings.IndexByte(v, '\\') < 0 {
		return v
	}
	return string(jsonstring.AppendMeant(nil, []byte(v)))
}

// Text is what a string means, and the canonical form (RFC 8785) of any other value.
func Text(v string) string {
	if Kind(v) == String {
		return Meant(v)
	}
	return Canonical(v)
}

// Canonical is the canonical form of a value (RFC 8785). Numbers beyond a double stay as
// they are written.
func Canonical(v string) string {
	c := jsontext.Value(v)
	if c.Canonicalize() != nil {
		return v
	}
	return string(c)
}

// Items yields the items of an array.
func Items(v string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := 1; i < len(v)-1; i++ { // over the comma
			end := skip(v, i)
			if !yield(v[i:end]) {
				return
			}
			i = end
		}
	}
}

// Members yields the members of an object: the name as a string value, and the value.
func Members(v string) iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		for i := 1; i < len(v)-1; i++ {
			colon := skip(v, i)
			end := skip(v, colon+1)
			if !yield(v[i:colon], v[colon+1:end]) {
				return
			}
			i = end
		}
	}
}

// Count is the number of items or members of an array or object.
func Count(v string) (n int) {
	if Kind(v) == Array {
		for range Items(v) {
			n++
		}
		return n
	}
	for range Members(v) {
		n++
	}
	return n
}

// Member returns the member of an object that has a name.
func Member(v, name string) (value string, ok bool) {
	for key, value := range Members(v) {
		if len(key)-2 == len(name) && key[1:len(key)-1] == name || strings.IndexByte(key, '\\') >= 0 && Meant(key) == name {
			return value, true
		}
	}
	return "", false
}

// Child steps into an object by a member's name or into an array by an index without
// leading zeros.
func Child(v, segment string) (part string, ok bool) {
	switch Kind(v) {
	case Object:
		return Member(v, segment)
	case Array:
		at, ok := index(segment)
		if !ok {
			return "", false
		}
		for item := range Items(v) {
			if at == 0 {
				return item, true
			}
			at--
		}
	}
	return "", false
}

// index reads an array's index: decimal, without sign and leading zeros.
func index(s string) (n int, ok bool) {
	if s == "" || len(s) > 9 || s[0] == '0' && len(s) > 1 {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int(s[i]-'0')
	}
	return n, true
}

// skip returns the end of the value that begins at v[i].
func skip(v string, i int) int {
	for depth := 0; i < len(v); {
		switch v[i] {
		case '"':
			i = stringEnd(v, i)
		case '[', '{':
			depth++
			i++
			continue
		case ']', '}':
			if depth == 0 {
				return i
			}
			depth--
			i++
		case ',', ':':
			i++
			continue
		default:
			i = scalarEnd(v, i)
		}
		if depth == 0 {
			return i
		}
	}
	return len(v)
}

// stringEnd returns the end of the string that begins at v[i].
func stringEnd(v string, i int) int {
	for i++; i < len(v); i++ {
		n := strings.IndexByte(v[i:], '"')
		if n < 0 {
			return len(v)
		}
		i += n
		slashes := 0
		for v[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i + 1
		}
	}
	return len(v)
}

// scalarEnd returns the end of the number or word that begins at v[i].
func scalarEnd(v string, i int) int {
	for i++; i < len(v); i++ {
		switch v[i] {
		case ',', ':', ']', '}', '"', '[', '{':
			return i
		}
	}
	return len(v)
}

// Equal reports whether two values are equal: strings by what they mean, numbers by their
// exact decimal value, arrays in order, objects by members; values of different kinds are
// not.
func Equal(a, b string) bool {
	for i, j := 0, 0; ; {
		if i == len(a) || j == len(b) {
			return i == len(a) && j == len(b)
		}
		if numeric(a[i]) && numeric(b[j]) {
			m, n := scalarEnd(a, i), scalarEnd(b, j)
			if a[i:m] != b[j:n] && Compare(a[i:m], b[j:n]) != 0 {
				return false
			}
			i, j = m, n
			continue
		}
		if a[i] != b[j] {
			return false
		}
		if a[i] == '"' {
			m, n := stringEnd(a, i), stringEnd(b, j)
			if a[i:m] != b[j:n] {
				return false
			}
			i, j = m, n
			continue
		}
		i, j = i+1, j+1
	}
}

func numeric(c byte) bool { return c >= '0' && c <= '9' || c == '-' }

// Key is a text that two values share exactly when Equal holds of them.
func Key(v string) string {
	if !strings.ContainsAny(v, "0123456789") {
		return v
	}
	var b strings.Builder
	for i := 0; i < len(v); {
		switch {
		case v[i] == '"':
			end := stringEnd(v, i)
			b.WriteString(v[i:end])
			i = end
		case numeric(v[i]):
			end := scalarEnd(v, i)
			b.WriteString(DecimalOf(v[i:end]).key())
			i = end
		default:
			b.WriteByte(v[i])
			i++
		}
	}
	return b.String()
}

// Before orders two string values as the names of members are (RFC 8785 §3.2.3).
func Before(a, b string) int {
	return jsonstring.Compare([]byte(a[1:len(a)-1]), []byte(b[1:len(b)-1]))
}
