package aeiou

import (
	"fmt"
	"strings"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/messages"
)

// maxFailedReply bounds what the author sees again of a reply that failed.
const maxFailedReply = 4 << 10

// failures tells the author of the turns behind the last one that completed
// (docs/spec/aeiou.md §13.1): why the latest failed and what it had written, and of each
// what it did and what the user has seen, since none of their streams is carried. Where a
// crash was the latest, also why those before it failed. "" for none.
func failures(failed []messages.Reply) string {
	if len(failed) == 0 {
		return ""
	}
	var b strings.Builder
	last := &failed[len(failed)-1]
	if last.Before {
		b.WriteString("\nThe turn for the message before this one failed: " + oneLine(last.Why) + "\n")
	} else {
		b.WriteString("\nThe previous turn did not go through: " + oneLine(last.Why) + "\n")
		if last.Text != "" {
			b.WriteString("It was given this reply:\n" + indented(clip.Bytes(last.Text, maxFailedReply, "")))
		}
	}
	crashed := strings.HasPrefix(last.Why, string(messages.ErrCrash)) // then the mistake to mend is an earlier one
	for i := range failed {
		if r := &failed[i]; crashed && r != last && !r.Before {
			fmt.Fprintf(&b, "Turn %d had failed: %s\n", r.Turn, oneLine(r.Why))
		}
		did(&b, &failed[i])
	}
	if !last.Before {
		b.WriteString("The input above still waits for its answer: write the whole program again, without the mistake.\n")
	}
	return b.String()
}

// did writes what a failed turn has done.
func did(b *strings.Builder, r *messages.Reply) {
	if len(r.Calls) > 0 {
		fmt.Fprintf(b, "Turn %d had called:\n", r.Turn)
	}
	for i := range r.Calls {
		c := &r.Calls[i]
		fmt.Fprintf(b, "- tool.%s %s: %s", oneLine(c.Name), oneLine(c.Args), c.State)
		if c.Reason != "" {
			b.WriteString(" (" + oneLine(c.Reason) + ")")
		}
		if c.Value != "" {
			b.WriteString(", " + oneLine(c.Value))
		}
		if changes(c) {
			b.WriteString(" [already done, do not repeat]")
		}
		b.WriteByte('\n')
	}
	if r.MoreCalls > 0 {
		fmt.Fprintf(b, "- and %d more\n", r.MoreCalls)
	}
	if r.Shown != "" {
		fmt.Fprintf(b, "The user has already seen, from turn %d:\n%s", r.Turn, indented(r.Shown))
	}
}

// changes reports whether a call has changed something, or may have.
func changes(c *messages.Call) bool {
	return c.Class != messages.Pure && c.Class != messages.ReadOnly &&
		(c.State == messages.ActionOK || c.State == messages.ActionUnknown)
}

// indented is text from elsewhere, each of its lines behind four spaces.
func indented(s string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.ToValidUTF8(s, "\ufffd")) {
		b.WriteString("    " + strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\r", " ") + "\n")
	}
	return b.String()
}
