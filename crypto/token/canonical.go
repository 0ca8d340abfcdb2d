package token

import (
	"bytes"
	"strconv"

	"github.com/gowebpki/jcs"

	"github.com/seed14be6753/stile/messages"
)

// Limits of canonical form.
const (
	// MaxDepth is the deepest nesting of a token's payload, the outer object
	// counting 1 (docs/spec/aeiou.md §8).
	MaxDepth = 64
	// MaxValueDepth is the deepest nesting that Canonicalize takes. RFC 8785 names
	// no limit; the transform recurses, so there has to be one.
	MaxValueDepth = 1000
)

// Details of ERR_TOKEN_PARSE, in the order they are tried (docs/spec/aeiou.md §10).
const (
	Oversize      = "OVERSIZE"       // over MaxLineBytes
	BadShape      = "BAD_SHAPE"      // not the grammar of docs/spec/aeiou.md §7.1, its alphabet included
	BadBase64     = "BAD_BASE64"     // impossible length, or trailing bits that are not zero
	BadJSON       = "BAD_JSON"       // not a strict JSON object: syntax, UTF-8, surrogates, depth, repeated names
	BadField      = "BAD_FIELD"      // a member is missing, of another type or outside its rule, or a number is not allowed
	BadVersion    = "BAD_VERSION"    // v is not 3
	KindMismatch  = "KIND_MISMATCH"  // kind differs from the one on the wire
	UnknownKind   = "UNKNOWN_KIND"   // kind is not LOOP
	UnknownAction = "UNKNOWN_ACTION" // action is not continue, done or abort
)

// canonicalObject returns the canonical form of a token's payload object (docs/spec/aeiou.md §8):
// RFC 8785 over strict input. It refuses, with ERR_TOKEN_PARSE and the byte offset, as BAD_JSON
// what is not one UTF-8 JSON object nested at most maxDepth deep without repeated names and lone
// surrogates, and as BAD_FIELD a number that is not an integer within ±(2^53−1), -0 included.
//
// A number whose text breaks JSON's own grammar, such as 01 or +1, is BAD_JSON. An input in
// canonical form is returned as it is, not copied: same reports that.
func canonicalObject(payload []byte, maxDepth int) (out []byte, same bool, err error) {
	s, err := checkObject(payload, maxDepth)
	if err != nil {
		return nil, false, err
	}
	if s.badNumber >= 0 {
		return nil, false, badText(BadField, s.badNumber, "a number is not an integer within ±(2^53−1)")
	}
	if s.canonical {
		return payload, true, nil
	}
	out, err = transform(payload)
	return out, false, err
}

// checkObject applies the rules of docs/spec/aeiou.md §8 that rank as BAD_JSON.
func checkObject(payload []byte, maxDepth int) (shape, error) {
	s, f := scan(payload, maxDepth)
	if f != nil {
		return s, badText(BadJSON, f.offset, f.what)
	}
	if i := skipBlanks(payload, 0); payload[i] != '{' {
		return s, badText(BadJSON, i, "the value is not an object")
	}
	if s.unordered {
		if i := repeatedName(payload); i >= 0 {
			return s, badText(BadJSON, i, "a member name is repeated")
		}
	}
	return s, nil
}

// Canonicalize returns the RFC 8785 form of any JSON value: fractions, exponents
// and integers of every size become the shortest text of their IEEE 754 double.
// It refuses, with ERR_TOKEN_PARSE/BAD_JSON and the byte offset, everything that
// is not strict I-JSON: wrong syntax, bytes that are not UTF-8, lone surrogates,
// repeated names, numbers beyond a double, more than one value, nesting beyond
// [MaxValueDepth]. Tokens allow less; see [Canonical].
//
// The result never aliases the input. Safe from any goroutine.
func Canonicalize(b []byte) ([]byte, error) {
	s, f := scan(b, MaxValueDepth)
	if f != nil {
		return nil, badText(BadJSON, f.offset, f.what)
	}
	if s.hugeNumber >= 0 {
		return nil, badText(BadJSON, s.hugeNumber, "a number is beyond the range of a double")
	}
	if s.canonical {
		return bytes.Clone(b), nil
	}
	if s.unordered {
		if i := repeatedName(b); i >= 0 {
			return nil, badText(BadJSON, i, "a member name is repeated")
		}
	}
	return transform(b)
}

// transform is the general RFC 8785 transform. By itself it takes more than we
// do, so it only ever sees text that scan and repeatedName have passed; an error
// from it would mean that the two disagree. Its texts can quote the payload and
// are not passed on.
func transform(b []byte) ([]byte, error) {
	out, err := jcs.Transform(b)
	if err != nil {
		return nil, &messages.Error{Code: messages.ErrTokenParse, Reason: BadJSON, Detail: "the canonical transform refuses the text"}
	}
	return out, nil
}

// badText makes the error for a place in a payload. It quotes nothing: payloads
// stay out of logs (docs/spec/aeiou.md §9).
func badText(reason string, offset int, what string) error {
	return &messages.Error{
		Code: messages.ErrTokenParse, Reason: reason, Detail: what,
		Offset: int64(offset), HasOffset: true,
	}
}

// appendInt appends v as a canonical JSON number. |v| must be at most
// maxSafeInteger.
func appendInt(dst []byte, v int64) []byte { return strconv.AppendInt(dst, v, 10) }
