package plan

import (
	"slices"
	"strings"
)

// MaxReferenceBytes bounds a reference, from $ to its last byte. Names have at most 64 bytes;
// the rest is for paths. A longer one is text, in a stream as in a whole string, so that a
// stream never holds back more than this.
const MaxReferenceBytes = 512

// A refKind is what begins at a $.
type refKind uint8

const (
	refText   refKind = iota // the $ is itself
	refDollar                // $$
	refName                  // $name or ${name.path}
	refMore                  // undecided: more bytes may follow
)

// A reference is $name or ${name.path}.
type reference struct {
	kind refKind
	n    int    // bytes it takes, with its sigils
	name string // [A-Za-z_][A-Za-z0-9_]*
	path string // "field.0.x", or ""
	// braced distinguishes ${name} from $name.
	braced bool
}

// Whole returns the name of a text that is exactly one reference; ok is false for other texts.
func Whole(text string) (name string, ok bool) {
	if !strings.HasPrefix(text, "$") {
		return "", false
	}
	r := refAt(text, true)
	return r.name, r.kind == refName && r.n == len(text)
}

// Names lists the names that the references in a text mean, in order, each once.
func Names(text string) []string {
	var all []string
	for {
		i := strings.IndexByte(text, '$')
		if i < 0 {
			return all
		}
		r := refAt(text[i:], true)
		if r.kind == refName && !slices.Contains(all, r.name) {
			all = append(all, r.name)
		}
		text = text[i+r.n:]
	}
}

// full returns the reference as reasons and placeholders write it.
func (r reference) full() string {
	if r.path == "" {
		return r.name
	}
	return r.name + "." + r.path
}

// refAt reads the reference at s[0] == '$'. Without whole, s may be the beginning of a longer
// text.
func refAt[T string | []byte](s T, whole bool) reference {
	undecided := func(i int) reference {
		if i >= MaxReferenceBytes || whole {
			return reference{kind: refText, n: 1}
		}
		return reference{kind: refMore}
	}
	if len(s) == 1 {
		return undecided(1)
	}
	if s[1] == '$' {
		return reference{kind: refDollar, n: 2}
	}
	if s[1] != '{' {
		if !nameByte(s[1], true) {
			return reference{kind: refText, n: 1}
		}
		i := 2
		for i < len(s) && i <= MaxReferenceBytes && nameByte(s[i], false) {
			i++
		}
		switch {
		case i > MaxReferenceBytes:
			return reference{kind: refText, n: 1}
		case i == len(s) && !whole:
			return reference{kind: refMore}
		}
		return reference{kind: refName, n: i, name: string(s[1:i])}
	}
	dot, start := 0, 2 // of the first '.', and of the segment that is open
	for i := 2; i < len(s); i++ {
		switch c := s[i]; {
		case i >= MaxReferenceBytes:
			return reference{kind: refText, n: 1}
		case c == '.' || c == '}':
			if i == start {
				return reference{kind: refText, n: 1} // an empty segment
			}
			start = i + 1
			if c == '.' {
				if dot == 0 {
					dot = i
				}
				continue
			}
			if dot == 0 {
				return reference{kind: refName, n: i + 1, name: string(s[2:i]), braced: true}
			}
			return reference{kind: refName, n: i + 1, name: string(s[2:dot]), path: string(s[dot+1 : i]), braced: true}
		case dot == 0 && !nameByte(c, i == 2):
			return reference{kind: refText, n: 1} // ${NAME:-x} of a shell, ${} and the like
		case dot > 0 && (c < ' ' || c == '{' || c == '$' || c == '"' || c == 0x7f):
			return reference{kind: refText, n: 1}
		}
	}
	return undecided(len(s))
}

func nameByte(c byte, first bool) bool {
	return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' || !first && c >= '0' && c <= '9'
}

// MaxPathBytes bounds how many bytes of values the paths of the references in one text may
// search: a short path into a long value costs the length of the value.
const MaxPathBytes = 256 << 20

// step follows a path into a JSON text: object members by name, array elements by index. It
// subtracts the bytes that it looks at from budget; ok is false for a path that leads nowhere
// or costs more. Of a value that is not valid JSON it may return any part or none.
func step(value, path string, budget *int) (string, bool) {
	for path != "" {
		var seg string
		seg, path, _ = strings.Cut(path, ".")
		if *budget <= 0 {
			return "", false
		}
		part, seen, ok := child(value, seg)
		*budget -= seen
		if !ok {
			return "", false
		}
		value = part
	}
	return value, true
}
