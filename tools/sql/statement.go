package sql

import (
	"slices"
	"strconv"
	"strings"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/messages"
)

// MaxStatementBytes bounds a statement of a manifest.
const MaxStatementBytes = 64 << 10

// statement is a parsed statement: its text with numbered parameters, and their names in that
// order.
type statement struct {
	text    string
	names   []string
	returns bool // it returns rows
}

// The words with which a statement may begin. Others can leave the database or change its
// schema: ATTACH, COPY, PRAGMA, VACUUM INTO, CREATE and so on.
var (
	reading = []string{"SELECT", "WITH", "VALUES"}
	writing = []string{"INSERT", "UPDATE", "DELETE", "REPLACE", "MERGE", "WITH"}
)

// parse parses a statement: :name is a parameter, except in strings, quoted names and
// comments. mark begins a numbered parameter: $ or ?. Mistakes are ERR_CONFIG with their byte
// offset.
func parse(text, mark string, begins []string) (*statement, error) {
	if len(text) > MaxStatementBytes {
		return nil, mistake(0, "the statement has %d bytes; the limit is %d", len(text), MaxStatementBytes)
	}
	s := &statement{}
	var out strings.Builder
	first, ended := "", -1
	for i := 0; i < len(text); {
		n, kind := token(text[i:])
		part := text[i : i+n]
		switch {
		case kind == unclosed:
			return nil, mistake(i, "what begins here has no end")
		case kind == blank:
		case ended >= 0:
			return nil, mistake(i, "there is a second statement")
		case part == ";":
			ended = i
			part = ""
		case kind == parameter:
			name := part[1:]
			at := slices.Index(s.names, name)
			if at < 0 {
				s.names = append(s.names, name)
				at = len(s.names) - 1
			}
			part = mark + strconv.Itoa(at+1)
			// A space keeps it a token of its own.
			if i > 0 && joins(text[i-1]) {
				part = " " + part
			}
			if i+n < len(text) && joins(text[i+n]) {
				part += " "
			}
		case part == "?" || kind == numbered:
			return nil, mistake(i, "%s stands for nothing; a parameter is :name", part)
		case kind == word && first == "":
			if first = strings.ToUpper(part); !slices.Contains(begins, first) {
				return nil, mistake(i, "it begins with %s, which is not one of %s", clip.Quoted(part), strings.Join(begins, ", "))
			}
		case kind == word && strings.EqualFold(part, "RETURNING"):
			s.returns = true
		}
		out.WriteString(part)
		i += n
	}
	if first == "" {
		return nil, mistake(0, "there is no statement")
	}
	s.text = out.String()
	return s, nil
}

func mistake(at int, format string, args ...any) error {
	e := messages.Errorf(messages.ErrConfig, format, args...)
	e.Detail += ", at byte " + strconv.Itoa(at)
	return e
}

type tokenKind uint8

const (
	other tokenKind = iota
	blank           // white space and comments
	word
	quoted
	parameter // :name
	numbered  // $1, ?1
	unclosed
)

// token returns the length and the kind of the first token of a text that is not empty.
func token(s string) (n int, kind tokenKind) {
	switch c := s[0]; {
	case space(c):
		for n < len(s) && space(s[n]) {
			n++
		}
		return n, blank
	case strings.HasPrefix(s, "--"):
		if n = strings.IndexByte(s, '\n'); n < 0 {
			n = len(s)
		}
		return n, blank
	case strings.HasPrefix(s, "/*"):
		return comment(s)
	case c == '\'' || c == '"' || c == '`':
		return quote(s, c, false)
	case (c == 'e' || c == 'E') && len(s) > 1 && s[1] == '\'':
		n, kind = quote(s[1:], '\'', true)
		return n + 1, kind
	case letter(c):
		for n < len(s) && (letter(s[n]) || digit(s[n]) || s[n] == '$') {
			n++
		}
		return n, word
	case digit(c): // 1e5 is no word that ends a number
		for n < len(s) && (letter(s[n]) || digit(s[n]) || s[n] == '.') {
			n++
		}
		return n, other
	case strings.HasPrefix(s, "::"), strings.HasPrefix(s, ":="):
		return 2, other
	case c == ':' && len(s) > 1 && letter(s[1]):
		for n = 1; n < len(s) && (letter(s[n]) && s[n] < 0x80 || digit(s[n])); {
			n++
		}
		return n, parameter
	case (c == '$' || c == '?') && len(s) > 1 && digit(s[1]):
		for n = 1; n < len(s) && digit(s[n]); {
			n++
		}
		return n, numbered
	case c == '$':
		return dollars(s)
	}
	return 1, other
}

// comment measures a comment, with nested ones.
func comment(s string) (n int, kind tokenKind) {
	depth := 0
	for n < len(s) {
		switch {
		case strings.HasPrefix(s[n:], "/*"):
			depth++
			n += 2
		case strings.HasPrefix(s[n:], "*/"):
			depth--
			if n += 2; depth == 0 {
				return n, blank
			}
		default:
			n++
		}
	}
	return len(s), unclosed
}

// quote measures a text in quotes, in which a doubled quote is one character.
func quote(s string, q byte, escapes bool) (n int, kind tokenKind) {
	for n = 1; n < len(s); n++ {
		switch {
		case escapes && s[n] == '\\':
			n++
		case s[n] == q && n+1 < len(s) && s[n+1] == q:
			n++
		case s[n] == q:
			return n + 1, quoted
		}
	}
	return len(s), unclosed
}

// dollars measures $tag$ text $tag$, or a single dollar sign.
func dollars(s string) (n int, kind tokenKind) {
	n = 1
	for n < len(s) && (letter(s[n]) || digit(s[n])) {
		n++
	}
	if n == len(s) || s[n] != '$' {
		return 1, other
	}
	tag := s[:n+1]
	end := strings.Index(s[len(tag):], tag)
	if end < 0 {
		return len(s), unclosed
	}
	return len(tag) + end + len(tag), quoted
}

// joins reports whether a byte and a numbered parameter beside it could be one token.
func joins(c byte) bool { return letter(c) || digit(c) || c == '$' || c == '?' || c == ':' || c == '.' }

func space(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }
func digit(c byte) bool { return c >= '0' && c <= '9' }
func letter(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}
