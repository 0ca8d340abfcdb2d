package scan

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Refusal returns why Write did not take a byte, and what to write instead. It is valid until the
// next Write.
func (j *JSON) Refusal(c byte) string {
	switch {
	case j.closed:
		return "a string is not closed: a double quote is missing"
	case j.deep:
		return "arrays and objects are nested more than " + strconv.Itoa(j.depth()) + " deep"
	}
	switch j.state {
	case jsonString:
		switch c {
		case '\n', '\r':
			return `a line end inside a string: write \n`
		case '\t':
			return `a tab inside a string: write \t`
		}
		return `a control character inside a string: write it as \u00` + strconv.FormatInt(int64(c)+0x100, 16)[1:]
	case jsonEscape:
		return `no such escape: a backslash in a string is written \\`
	case jsonHex:
		return `\u must be followed by four hexadecimal digits`
	case jsonLiteral:
		return "no such word: JSON has true, false and null, in lower case"
	case jsonMinus, jsonDot, jsonExp, jsonExpSign:
		return "a number breaks off"
	}
	if text := strays[c]; text != "" {
		return text
	}
	letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c == '$'
	switch j.state {
	case jsonValue, jsonFirstValue:
		switch {
		case c == 'T' || c == 'F' || c == 'N' || c == 'I' || c == 'u':
			return "a word that JSON does not have, such as True, None or undefined: write true, false or null"
		case letter:
			return "a text without quotes: write it in double quotes"
		case c == ']' || c == '}':
			return j.behindComma("a value is missing in front of the bracket")
		case c == '+' || c == '.':
			return "a number begins with a digit or a minus"
		}
		return "a value must stand here"
	case jsonFirstKey, jsonKey:
		switch {
		case letter || c >= '0' && c <= '9':
			return "a key without quotes: write it in double quotes"
		case c == '}':
			return j.behindComma("a key is missing in front of the bracket")
		}
		return "a key in double quotes must stand here"
	case jsonColon:
		return "a colon must follow the key"
	case jsonDone:
		switch c {
		case '{', '[':
			return "a second value follows the first: one block holds one JSON text"
		case '}', ']':
			return "a closing bracket too much"
		}
		return "text follows the end of the JSON: leave it out"
	}
	switch {
	case c == '}' || c == ']':
		return "the bracket closes one of another kind"
	case c == '+':
		return "JSON has no operators: write one string"
	}
	return "a comma is missing"
}

// behindComma is the mistake of a closing bracket after a comma.
func (j *JSON) behindComma(otherwise string) string {
	if n := len(j.buf); n > 0 && j.buf[n-1] == ',' {
		return "a comma behind the last one: leave it out"
	}
	return otherwise
}

// strays are bytes without a meaning outside strings, and what was likely meant.
var strays = func() (t [256]string) {
	t['\''] = "a single quote: JSON has double quotes alone"
	t['/'], t['#'] = "a comment: JSON has none, leave it out", "a comment: JSON has none, leave it out"
	t['`'] = "a backtick or code fence: leave it out"
	t['<'] = "markup outside of a string: leave it out"
	for c := utf8.RuneSelf; c < len(t); c++ {
		t[c] = "a character outside of a string: write straight double quotes around text"
	}
	return t
}()

// Unfinished returns what is missing at the end of a text that End found incomplete.
func (j *JSON) Unfinished() string {
	switch {
	case j.InString():
		return "it ends inside a string: a double quote is missing"
	case len(j.stack) > 0:
		var brackets strings.Builder
		for i := len(j.stack) - 1; i >= 0; i-- {
			if j.stack[i].object {
				brackets.WriteByte('}')
			} else {
				brackets.WriteByte(']')
			}
		}
		return "it ends too early: " + brackets.String() + " is missing"
	case j.lone:
		return `half of a surrogate pair is no character: write both, as in \ud83d\ude80`
	case !j.started:
		return "it is empty"
	}
	return "it breaks off"
}

// shownBytes is the length of Tail.
const shownBytes = 24

// Tail returns the end of the text so far, in normal form, for an error about the next byte.
func (j *JSON) Tail() string {
	tail := j.buf
	if len(tail) > shownBytes {
		tail = tail[len(tail)-shownBytes:]
		for len(tail) > 0 && !utf8.RuneStart(tail[0]) {
			tail = tail[1:]
		}
	}
	return string(tail)
}
