package standard

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed14be6753/stile/internal/neuroscript"
	"github.com/seed14be6753/stile/tools"
)

// stringTools is the group str. Positions count code points.
func stringTools() []tools.Tool {
	s, p, sub := req("s", "string"), req("prefix", "string"), req("sub", "string")
	return []tools.Tool{
		declare("str.Length", "Number of code points in s.", strLength, s),
		declare("str.ToUpper", "s with every letter in upper case.", strToUpper, s),
		declare("str.ToLower", "s with every letter in lower case.", strToLower, s),
		declare("str.TrimSpace", "s without white space at both ends.", strTrimSpace, s),
		declare("str.TrimPrefix", "s without the prefix, if it has it.", trim(strings.TrimPrefix), s, p),
		declare("str.TrimSuffix", "s without the suffix, if it has it.", trim(strings.TrimSuffix), s, req("suffix", "string")),
		declare("str.HasPrefix", "Whether s begins with the prefix.", has(strings.HasPrefix), s, p),
		declare("str.HasSuffix", "Whether s ends with the suffix.", has(strings.HasSuffix), s, req("suffix", "string")),
		declare("str.Contains", "Whether sub occurs in s.", has(strings.Contains), s, sub),
		declare("str.Split", "The pieces of s between separators; an empty separator gives the code points.", strSplit, s, req("sep", "string")),
		declare("str.SplitWords", "The words of s, split at white space.", strSplitWords, s),
		declare("str.Join", "The strings of a list with a separator between them.", strJoin, req("list", "list<string>"), req("sep", "string")),
		declare("str.Replace", "s with old replaced by new, everywhere or count times.", strReplace,
			s, req("old", "string"), req("new", "string"), opt("count", "int")),
		declare("str.Substring", "length code points of s from start on, counted from 0.", strSubstring, s, req("start", "int"), req("length", "int")),
		declare("str.LineCount", "Number of lines in s; a final line end opens no line.", strLineCount, s),
		declare("str.ToNumber", "The number that s spells.", strToNumber, s),
		declare("str.ToJsonString", "v as JSON text, indented if pretty.", strToJSON, req("v", "any"), opt("pretty", "bool")),
		declare("str.ParseJsonString", "The value of a JSON text.", strParseJSON, s),
	}
}

func strLength(_ budget, a []neuroscript.Value) (neuroscript.Value, error) {
	return neuroscript.Number(float64(utf8.RuneCountInString(str(a[0])))), nil
}

func strToUpper(m budget, a []neuroscript.Value) (neuroscript.Value, error) {
	return mapCase(m, str(a[0]), unicode.ToUpper, strings.ToUpper)
}

func strToLower(m budget, a []neuroscript.Value) (neuroscript.Value, error) {
	return mapCase(m, str(a[0]), unicode.ToLower, strings.ToLower)
}

// mapCase maps letter by letter. A letter can need more or fewer bytes in the
// other case, so the length is found out first.
func mapCase(m budget, s string, one func(rune) rune, all func(string) string) (neuroscript.Value, error) {
	n := int64(0)
	for _, r := range s {
		if r < utf8.RuneSelf {
			n++
			continue
		}
		n += int64(utf8.RuneLen(one(r)))
	}
	return text(m, n, func() string { return all(s) })
}

func strTrimSpace(m budget, a []neuroscript.Value) (neuroscript.Value, error) {
	return part(m, strings.TrimSpace(str(a[0])))
}

func trim(f func(s, what string) string) function {
	return func(m budget, a []neuroscript.Value) (neuroscript.Value, error) {
		return part(m, f(str(a[0]), str(a[1])))
	}
}

func has(f func(s, what string) bool) function {
	return func(_ budget, a []neuroscript.Value) (neuroscript.Value, error) {
		return neuroscript.Bool(f(str(a[0]), str(a[1]))), nil
	}
}

// strSplit returns [""] for an empty s and a separator, and [] for an empty s
// without one: the empty text has one piece and no code point.
func strSplit(m budget, a []neuroscript.Value) (neuroscript.Value, error) {
	s, sep := str(a[0]), str(a[1])
	var n, content int64
	if sep == "" {
		n, content = int64(utf8.RuneCountInString(s)), int64(len(s))
	} else {
		cuts := int64(strings.Count(s, sep))
		n, content = cuts+1, int64(len(s))-cuts*int64(len(sep)) // the cuts do not overlap, so their bytes are in s
	}
	if err := m.CheckValue(sum(neuroscript.ListBase, product(n, neuroscript.ListSlot+neuroscript.StringBase), content)); err != nil {
		return neuroscript.Value{}, err
	}
	pieces := make([]neuroscript.Value, 0, n)
	for len(pieces) < int(n) {
		end := len(s)
		next := end
		switch {
		case sep == "":
			_, end = utf8.DecodeRuneInString(s)
			next = end
		case len(pieces) < int(n)-1:
			end = strings.Index(s, sep)
			next = end + len(sep)
		}
		pieces = append(pieces, neuroscript.String(s[:end]))
		s = s[next:]
	}
	return neuroscript.List(pieces), nil
}

func strSplitWords(m budget, a []neuroscript.Value) (neuroscript.Value, error) {
	var n int
	size := int64(neuroscript.ListBase)
	for w := range strings.FieldsSeq(str(a[0])) {
		n++
		size += neuroscript.ListSlot + neuroscript.StringBase + int64(len(w))
	}
	if err := m.CheckValue(size); err != nil {
		return neuroscript.Value{}, err
	}
	words := make([]neuroscript.Value, 0, n)
	for w := range strings.FieldsSeq(str(a[0])) {
		words = append(words, neuroscript.String(w))
	}
	return neuroscript.List(words), nil
}

func strJoin(m budget, a []neuroscript.Value) (neuroscript.Value, error) {
	list, sep := elems(a[0]), str(a[1])
	n := int64(0)
	if len(list) > 1 {
		n = product(int64(len(list)-1), int64(len(sep)))
	}
	for i := range list {
		n = sum(n, int64(len(str(list[i]))))
	}
	return text(m, n, func() string {
		b := make([]byte, 0, n)
		for i := range list {
			if i > 0 {
				b = append(b, sep...)
			}
			b = append(b, str(list[i])...)
		}
		return string(b)
	})
}

// strReplace replaces from the left; a negative count means everywhere. An empty
// old is found before every code point and at the end.
func strReplace(m budget, a []neuroscript.Value) (neuroscript.Value, error) {
	s, old, fresh := str(a[0]), str(a[1]), str(a[2])
	hits := int64(strings.Count(s, old))
	if !a[3].IsNil() {
		if most := position(a[3]); most >= 0 {
			hits = min(hits, most)
		}
	}
	if hits == 0 {
		return part(m, s)
	}
	kept := int64(len(s)) - hits*int64(len(old)) // hits do not overlap, so their bytes are in s
	n := sum(kept, product(hits, int64(len(fresh))))
	return text(m, n, func() string { return strings.Replace(s, old, fresh, int(hits)) })
}

// strSubstring brings start into the text first and then takes length code
// points from there, as far as there are any.
func strSubstring(m budget, a []neuroscript.Value) (neuroscript.Value, error) {
	s := str(a[0])
	s = s[runeOffset(s, position(a[1])):]
	return part(m, s[:runeOffset(s, position(a[2]))])
}

// runeOffset returns the byte offset of the n-th code point, or the nearest end.
func runeOffset(s string, n int64) int {
	if n <= 0 {
		return 0
	}
	if n >= int64(len(s)) {
		return len(s)
	}
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}

func strLineCount(_ budget, a []neuroscript.Value) (neuroscript.Value, error) {
	s := str(a[0])
	n := strings.Count(s, "\n")
	if s != "" && !strings.HasSuffix(s, "\n") {
		n++
	}
	return neuroscript.Number(float64(n)), nil
}

func strToNumber(_ budget, a []neuroscript.Value) (neuroscript.Value, error) {
	f, ok := neuroscript.ParseNumber(str(a[0]))
	if !ok {
		return neuroscript.Value{}, neuroscript.Errorf(neuroscript.CodeInvalid, "the text spells no number")
	}
	return neuroscript.Number(f), nil
}
