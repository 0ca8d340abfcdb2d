package parse

import "strings"

// OneLine returns a text from outside as one line of a prompt: runs of white space, with line
// ends, become one space, and invalid UTF-8 becomes U+FFFD.
func OneLine(s string) string {
	return strings.Join(strings.Fields(strings.ToValidUTF8(s, "\ufffd")), " ")
}
