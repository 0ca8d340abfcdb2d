package expr

import (
	"strings"

	"github.com/seed14be6753/stile/internal/jsonvalue"
)

// A token is a piece of an expression.
type token struct {
	kind tokenKind
	at   int    // of its first byte
	text string // of an operator or a word; of a literal the value it stands for
	ref  Ref
	bad  string // what is wrong with it; "" when it is whole
}

type tokenKind uint8

const (
	tokenEnd tokenKind = iota
	tokenOperator
	tokenWord
	tokenNumber
	tokenString
	tokenRef
	tokenBad
)

// Ref is a name, and the path from its value to a part of that; Path is nil for the whole.
type Ref struct {
	Name string
	Path []string
}

// String is the reference as it may be written.
func (r Ref) String() string {
	if len(r.Path) == 0 {
		return "$" + r.Name
	}
	return "${" + r.Name + "." + strings.Join(r.Path, ".") + "}"
}

// ParseRef reads a text that is one reference, with white space around it or none.
func ParseRef(text string) (r Ref, ok bool) {
	text = strings.Trim(text, space)
	if !strings.HasPrefix(text, "$") {
		return Ref{}, false
	}
	s := scanner{text: text}
	t := s.next()
	return t.ref, t.kind == tokenRef && s.at == len(text)
}

const space = " \t\r\n"

// scanner cuts an expression into tokens.
type scanner struct {
	text string
	at   int
}

// entities are the spellings of bytes that markup has a meaning for.
var entities = [...]struct {
	spelling string
	meant    byte
}{{"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}}

// char returns the byte at s.text[i], by whichever spelling, and how long it is; 0 is the end.
func (s *scanner) char(i int) (c byte, size int) {
	if i >= len(s.text) {
		return 0, 0
	}
	if s.text[i] == '&' {
		for _, e := range entities {
			if strings.HasPrefix(s.text[i:], e.spelling) {
				return e.meant, len(e.spelling)
			}
		}
	}
	return s.text[i], 1
}

// next returns the next token. What begins none is a bad one, which the scanner stays at.
func (s *scanner) next() token {
	for s.at < len(s.text) && strings.IndexByte(space, s.text[s.at]) >= 0 {
		s.at++
	}
	t := token{at: s.at}
	if s.at == len(s.text) {
		return t
	}
	switch c := s.text[s.at]; {
	case c == '$':
		s.reference(&t)
	case c == '"' || c == '\'':
		s.quoted(&t)
	case c == '-' || digit(c):
		s.number(&t)
	case letter(c):
		end := s.at
		for end < len(s.text) && nameByte(s.text[end]) {
			end++
		}
		t.kind, t.text = tokenWord, s.text[s.at:end]
		s.at = end
	default:
		s.operator(&t)
	}
	return t
}

func (t *token) fail(why string) { t.kind, t.bad = tokenBad, why }

// operator takes the longest operator or bracket.
func (s *scanner) operator(t *token) {
	c, size := s.char(s.at)
	d, more := s.char(s.at + size)
	switch {
	case d == '=' && (c == '=' || c == '!' || c == '<' || c == '>'), d == c && (c == '&' || c == '|'):
		t.kind, t.text = tokenOperator, string([]byte{c, d})
		s.at += size + more
	case strings.IndexByte("()[]{},:<>!", c) >= 0:
		t.kind, t.text = tokenOperator, string([]byte{c})
		s.at += size
	case c == '=':
		t.fail("= is no operator: write ==")
	case c == '&' || c == '|':
		t.fail("write && and || twice")
	default:
		t.fail("nothing begins with this byte")
	}
}

// reference takes $name with a path, or ${name.path}.
func (s *scanner) reference(t *token) {
	i := s.at + 1
	braced := i < len(s.text) && s.text[i] == '{'
	if braced {
		i++
	}
	from := i
	for i < len(s.text) && nameByte(s.text[i]) && (i > from || letter(s.text[i])) {
		i++
	}
	if i == from {
		t.fail("a name must follow the $")
		return
	}
	t.ref.Name = s.text[from:i]
	if braced {
		if i = s.bracedPath(&t.ref, i); i < 0 {
			t.fail("${ is not closed by } behind a name and a path")
			return
		}
	} else {
		for i+1 < len(s.text) && s.text[i] == '.' && nameByte(s.text[i+1]) {
			from = i + 1
			for i = from; i < len(s.text) && nameByte(s.text[i]); i++ {
			}
			t.ref.Path = append(t.ref.Path, s.text[from:i])
		}
	}
	t.kind, s.at = tokenRef, i
}

// bracedPath takes the path in braces from i on, and gives the place behind the closing one;
// −1 when there is none.
func (s *scanner) bracedPath(r *Ref, i int) int {
	for {
		switch c, size := s.char(i); {
		case size == 0 || c != '.' && c != '}':
			return -1
		case c == '}':
			return i + 1
		}
		var segment []byte
		for i++; ; {
			c, size := s.char(i)
			if size == 0 || c < ' ' || c == 0x7f || strings.IndexByte(`.{}$"`, c) >= 0 {
				break
			}
			segment = append(segment, c)
			i += size
		}
		if len(segment) == 0 {
			return -1
		}
		r.Path = append(r.Path, string(segment))
	}
}

// number takes a number of JSON, which must end where it ends.
func (s *scanner) number(t *token) {
	i := s.at
	if s.text[i] == '-' {
		i++
	}
	ok := i < len(s.text) && digit(s.text[i])
	switch {
	case !ok:
	case s.text[i] == '0':
		i++
	default:
		i = s.digits(i)
	}
	if ok && i < len(s.text) && s.text[i] == '.' {
		end := s.digits(i + 1)
		ok, i = end > i+1, end
	}
	if ok && i < len(s.text) && s.text[i]|0x20 == 'e' {
		from := i + 1
		if from < len(s.text) && (s.text[from] == '+' || s.text[from] == '-') {
			from++
		}
		end := s.digits(from)
		ok, i = end > from, end
	}
	if !ok || i < len(s.text) && (nameByte(s.text[i]) || s.text[i] == '.') {
		t.fail("this is no number of JSON")
		return
	}
	t.kind, t.text, s.at = tokenNumber, s.text[s.at:i], i
}

func (s *scanner) digits(i int) int {
	for i < len(s.text) && digit(s.text[i]) {
		i++
	}
	return i
}

// quoted takes a string in either quotes: between single ones a double quote needs no
// escape, and \' means the single one in both.
func (s *scanner) quoted(t *token) {
	quote := s.text[s.at]
	literal := []byte{'"'}
	for i := s.at + 1; i < len(s.text); i++ {
		switch c := s.text[i]; {
		case c == quote:
			value, ok := jsonvalue.Normal(string(append(literal, '"')))
			if !ok {
				t.fail("the string has an escape or a character that JSON does not allow")
				return
			}
			t.kind, t.text, s.at = tokenString, value, i+1
			return
		case c == '"':
			literal = append(literal, '\\', '"')
		case c == '\\' && i+1 < len(s.text):
			i++
			if s.text[i] != '\'' {
				literal = append(literal, '\\')
			}
			literal = append(literal, s.text[i])
		default:
			literal = append(literal, c)
		}
	}
	t.fail("the string is not closed")
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

func letter(c byte) bool { return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' }

func nameByte(c byte) bool { return letter(c) || digit(c) }
