package parse

import "strings"

// OneLine makes text from elsewhere harmless where a prompt has a line for it: white
// space runs, line ends among them, become one space, and bytes that are no UTF-8 become
// U+FFFD.
func OneLine(s string) string {
	return strings.Join(strings.Fields(strings.ToValidUTF8(s, "\ufffd")), " ")
}
