package syntax

import (
	"strconv"
	"strings"
)

// Static limits (§13.5).
const (
	MaxSourceBytes     = 512 << 10
	MaxTokens          = 100_000
	MaxNesting         = 200 // brackets, arguments, prefix operators, right operands of ** and blocks together
	MaxLiteralElements = 10_000
	MaxSetTargets      = 64
	MaxIdentBytes      = 128
)

// Classes of bytes.
const (
	classLetter = 1 << iota // letters and _
	classDigit
	classHex
	classOctal
)

var classes = func() (c [256]uint8) {
	for b := 'a'; b <= 'z'; b++ {
		c[b] |= classLetter
		c[b-'a'+'A'] |= classLetter
	}
	for b := 'a'; b <= 'f'; b++ {
		c[b] |= classHex
		c[b-'a'+'A'] |= classHex
	}
	c['_'] |= classLetter
	for b := '0'; b <= '9'; b++ {
		c[b] |= classDigit | classHex
		if b < '8' {
			c[b] |= classOctal
		}
	}
	return c
}()

// scanner cuts the source into tokens, one at a time.
//
//	0 ≤ start ≤ pos ≤ len(src): src[start:pos] is the current token
//
// After the first error tok stays tokEOF, so that the parser unwinds by itself.
type scanner struct {
	src   string
	pos   int
	start int
	tok   token
	text  string  // of tokString and tokTemplate: the decoded content; of words: the word
	num   float64 // of tokNumber

	depth   int  // open brackets; line ends inside them are blanks
	atStart bool // only blanks since the line began
	tokens  int
	lines   []uint32
	err     *parseError
}

// parseError is the first error, before it is given its line.
type parseError struct {
	offset int
	reason string
	detail string
}

// fail records an error at a byte offset and stops the scanner. Only the first
// one counts.
func (s *scanner) fail(offset int, detail string) { s.failFor("", offset, detail) }

func (s *scanner) failFor(reason string, offset int, detail string) {
	if s.err == nil {
		s.err = &parseError{offset, reason, detail}
	}
	s.start = s.pos
	s.tok = tokEOF
}

// lineEnd returns the length of the line end at i: 0, 1, or 2 for CRLF.
func (s *scanner) lineEnd(i int) int {
	if i >= len(s.src) {
		return 0
	}
	switch s.src[i] {
	case '\n':
		return 1
	case '\r':
		if i+1 < len(s.src) && s.src[i+1] == '\n' {
			return 2
		}
		return 1
	}
	return 0
}

// newline notes that a line begins at i.
func (s *scanner) newline(i int) { s.lines = append(s.lines, uint32(i)) }

// next reads the next token.
func (s *scanner) next() {
	if s.err != nil {
		s.tok = tokEOF
		return
	}
	src := s.src
	i := s.pos
blanks:
	for ; i < len(src); i++ {
		switch c := src[i]; c {
		case ' ', '\t':
		case '\n', '\r':
			n := s.lineEnd(i)
			s.newline(i + n)
			if s.depth == 0 {
				s.start, s.pos = i, i+n
				s.atStart = true
				s.set(tokNL)
				return
			}
			i += n - 1
		case '\\':
			n := s.lineEnd(i + 1)
			if n == 0 {
				s.pos = i
				s.fail(i, `a backslash stands only directly before a line end, to join the lines`)
				return
			}
			s.newline(i + 1 + n)
			i += n
		case '#':
			i = s.comment(i) - 1
		case '-', '/':
			if i+1 >= len(src) || src[i+1] != c {
				break blanks
			}
			i = s.comment(i) - 1
		default:
			break blanks
		}
	}
	s.start = i
	if i >= len(src) {
		s.pos = i
		s.tok = tokEOF
		return
	}
	c := src[i]
	if classes[c]&classLetter != 0 {
		j := i + 1
		for j < len(src) && classes[src[j]]&(classLetter|classDigit) != 0 {
			j++
		}
		s.pos = j
		s.text = src[i:j]
		if j-i > MaxIdentBytes {
			s.failFor("LIMIT", i, "a name has at most "+strconv.Itoa(MaxIdentBytes)+" bytes")
			return
		}
		s.atStart = false
		s.set(keyword(s.text))
		return
	}
	if classes[c]&classDigit != 0 {
		s.atStart = false
		s.number(i)
		return
	}
	s.punctuation(c)
}

// set makes t the current token and counts it.
func (s *scanner) set(t token) {
	s.tok = t
	if s.tokens++; s.tokens > MaxTokens {
		s.failFor("LIMIT", s.start, "the program has more than "+strconv.Itoa(MaxTokens)+" tokens")
	}
}

// comment returns the offset of the line end, or of the end of the source, that
// ends the comment at i.
func (s *scanner) comment(i int) int {
	if n := strings.IndexAny(s.src[i:], "\r\n"); n >= 0 {
		return i + n
	}
	return len(s.src)
}

func (s *scanner) number(i int) {
	src := s.src
	j := i
	digits := func() bool {
		from := j
		for j < len(src) && classes[src[j]]&classDigit != 0 {
			j++
		}
		return j > from
	}
	digits()
	whole := true
	if j+1 < len(src) && src[j] == '.' && classes[src[j+1]]&classDigit != 0 {
		j++
		digits()
		whole = false
	}
	if j < len(src) && src[j]|0x20 == 'e' {
		mark := j
		j++
		if j < len(src) && (src[j] == '+' || src[j] == '-') {
			j++
		}
		if digits() {
			whole = false
		} else {
			j = mark
		}
	}
	s.pos = j
	text := src[i:j]
	if whole && len(text) <= 15 {
		n := int64(0)
		for k := 0; k < len(text); k++ {
			n = n*10 + int64(text[k]-'0')
		}
		s.num = float64(n)
	} else {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			s.fail(i, "this number is too large for binary64")
			return
		}
		s.num = f
	}
	if j < len(src) && classes[src[j]]&classLetter != 0 {
		s.pos = j
		s.fail(j, "a number is decimal, and a name cannot begin with a digit: no hexadecimal, no _ between digits")
		return
	}
	s.set(tokNumber)
}

// punctuation reads a token that begins with neither a letter nor a digit.
func (s *scanner) punctuation(c byte) {
	src, i := s.src, s.start
	second := byte(0)
	if i+1 < len(src) {
		second = src[i+1]
	}
	atStart := s.atStart
	s.atStart = false
	one := func(t token) { s.pos = i + 1; s.set(t) }
	two := func(t token) { s.pos = i + 2; s.set(t) }
	switch c {
	case '(':
		s.depth++
		one(tokLParen)
	case ')':
		s.depth--
		one(tokRParen)
	case '[':
		s.depth++
		one(tokLBracket)
	case ']':
		s.depth--
		one(tokRBracket)
	case '{':
		s.depth++
		one(tokLBrace)
	case '}':
		s.depth--
		one(tokRBrace)
	case ',':
		one(tokComma)
	case '.':
		one(tokDot)
	case '~':
		one(tokTilde)
	case '+':
		one(tokPlus)
	case '-':
		one(tokMinus)
	case '/':
		one(tokSlash)
	case '%':
		one(tokPercent)
	case '^':
		one(tokCaret)
	case '*':
		if second == '*' {
			two(tokStarStar)
		} else {
			one(tokStar)
		}
	case '=':
		if second == '=' {
			two(tokEq)
		} else {
			one(tokAssign)
		}
	case '!':
		if second == '=' {
			two(tokNe)
		} else {
			s.fail(i, "there is no ! operator: write `not x`")
		}
	case '<':
		if second == '=' {
			two(tokLe)
		} else {
			one(tokLt)
		}
	case '>':
		if second == '=' {
			two(tokGe)
		} else {
			one(tokGt)
		}
	case '&':
		if second == '&' {
			s.fail(i, "there is no && operator: write `and`")
		} else {
			one(tokAmp)
		}
	case '|':
		if second == '|' {
			s.fail(i, "there is no || operator: write `or`")
		} else {
			one(tokPipe)
		}
	case ':':
		if second == ':' && atStart && s.depth == 0 {
			s.pos = s.comment(i)
			s.text = src[i+2 : s.pos]
			s.set(tokMeta)
		} else {
			one(tokColon)
		}
	case '"':
		s.doubleQuoted()
	case '\'':
		if strings.HasPrefix(src[i:], "'''") {
			s.raw("'''", tokString)
		} else {
			s.singleQuoted()
		}
	case '`':
		if strings.HasPrefix(src[i:], "```") {
			s.raw("```", tokTemplate)
		} else {
			s.fail(i, "a raw string stands between three backticks")
		}
	default:
		s.fail(i, strangeHint(src[i:]))
	}
}
