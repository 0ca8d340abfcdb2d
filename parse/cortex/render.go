package cortex

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// Limits of what goes back to the model (docs/spec/streaming.md §5.4, docs/spec/design.md §10).
const (
	MaxReplyEcho   = 32 << 10 // bytes of an earlier reply
	MaxResultBytes = 16 << 10 // bytes of a result's body
	maxAttrBytes   = 256      // of a reason or a name that the model wrote
)

// goOn is the answer to a reply that had nothing to answer.
const goOn = "No action ran and no final response was given. Go on, or end with a final <response>."

// Render gives the transcript, the input, and for each earlier turn of the run what
// the model wrote and, as one user message, what came of it (docs/spec/design.md §10). A
// finished run is its user's text with a line for each action, and its responses.
//
// Results are in document order, fire_and_forget left out, and the errors of the
// reply behind them. Nothing in them can end their element: "<" is written \u003c
// in JSON and &lt; in attributes.
func (x Dialect) Render(p messages.Projection) []messages.Message {
	most := x.Limits.or().ResultBytes
	out := make([]messages.Message, 0, len(p.History)+1+2*len(p.Replies))
	for _, it := range p.History {
		out = append(out, messages.Message{Role: it.Role, Text: it.Text + actionLines(it.Calls)})
	}
	text := p.Text
	if text == "" {
		text = p.Userdata
	}
	out = append(out, messages.Message{Role: messages.RoleUser, Text: text})
	for _, r := range p.Replies {
		text, met := results(r.Calls, r.Errors, most)
		out = append(out, messages.Message{Role: messages.RoleAssistant, Text: cutReply(r.Text)},
			messages.Message{Role: messages.RoleUser, Text: text, Holds: messages.HoldsResults, Limits: met})
		if r.Joined != "" {
			out = append(out, messages.Message{Role: messages.RoleUser, Text: r.Joined})
		}
	}
	if p.LastError != "" {
		last := &out[len(out)-1]
		last.Text += "\n\nThe previous turn did not go through: " + parse.OneLine(p.LastError)
	}
	return out
}

// actionLines tell of a finished run's actions, one a line.
func actionLines(calls []messages.Call) string {
	var b strings.Builder
	for _, c := range calls {
		fmt.Fprintf(&b, "\n[action %s %s: %s", attribute(c.ID), attribute(c.Name), c.State)
		if c.Reason != "" {
			b.WriteString(", " + attribute(c.Reason))
		}
		b.WriteByte(']')
	}
	if b.Len() == 0 {
		return ""
	}
	return "\n" + b.String()
}

func cutReply(s string) string {
	if len(s) <= MaxReplyEcho {
		return s
	}
	n := len(clip.Start(s, MaxReplyEcho))
	return s[:n] + "\n[truncated: " + strconv.Itoa(n) + " of " + strconv.Itoa(len(s)) + " bytes]"
}

// results writes what a reply came to, one element a line. met has an entry for each body
// that had more than most bytes.
func results(calls []messages.Call, errors []messages.ParseError, most int) (text string, met []string) {
	var b strings.Builder
	for i := range calls {
		if calls[i].Mode != messages.ModeFireAndForget {
			if writeResult(&b, &calls[i], most) {
				met = append(met, messages.LimitResult)
			}
		}
	}
	more := int64(0)
	for i, e := range errors {
		switch {
		case e.Reason == messages.MoreErrors:
			more += e.N
		case i >= messages.MaxParseErrors:
			more++
		default:
			writeError(&b, e)
		}
	}
	if more > 0 {
		fmt.Fprintf(&b, `<action_result status="error" reason="%s" n="%d"/>`+"\n", messages.MoreErrors, more)
	}
	if b.Len() == 0 {
		return goOn, met
	}
	return strings.TrimSuffix(b.String(), "\n"), met
}

func writeResult(b *strings.Builder, c *messages.Call, most int) (cut bool) {
	fmt.Fprintf(b, `<action_result id="%s" status="%s" ms="%d"`, attribute(c.ID), c.State, c.MS)
	reason := c.Reason
	if c.State == messages.ActionUnknown {
		reason = messages.UnknownText
	}
	if reason != "" {
		fmt.Fprintf(b, ` reason="%s"`, attribute(reason))
	}
	body, cut := resultBody(c.Value, most)
	if cut {
		b.WriteString(` truncated="true"`)
	}
	if body == "" {
		b.WriteString("/>\n")
		return cut
	}
	b.WriteString(">" + body + "</action_result>\n")
	return cut
}

// resultBody escapes "<", which JSON has in strings alone, and cuts behind a
// character or an escape of ours, so that it has most bytes.
func resultBody(value string, most int) (body string, cut bool) {
	value = strings.ToValidUTF8(value, "\ufffd")
	const escaped = `\u003c`
	if len(value)+strings.Count(value, "<")*(len(escaped)-1) <= most {
		return strings.ReplaceAll(value, "<", escaped), false
	}
	size := 0
	for i, r := range value {
		n := utf8.RuneLen(r)
		if r == '<' {
			n = len(escaped)
		}
		if size += n; size > most {
			return strings.ReplaceAll(value[:i], "<", escaped), true
		}
	}
	return value, false
}

func writeError(b *strings.Builder, e messages.ParseError) {
	reason := e.Reason
	if reason == "" {
		reason = string(e.Code)
	}
	fmt.Fprintf(b, `<action_result status="error" reason="%s"`, attribute(reason))
	for _, about := range [...]struct{ key, value string }{{"id", e.ID}, {"tag", e.Tag}, {"name", e.Name}, {"field", e.Field}} {
		if about.value != "" {
			fmt.Fprintf(b, ` %s="%s"`, about.key, attribute(about.value))
		}
	}
	b.WriteString("/>\n")
}

// attribute makes text fit between double quotes, on one line, without "<".
func attribute(s string) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	return attributeEscapes.Replace(clip.Short(s, maxAttrBytes))
}

// attributeEscapes: the protocol knows no entities; &lt; is what it writes itself.
var attributeEscapes = strings.NewReplacer("<", "&lt;", `"`, "'", "\r\n", " ", "\n", " ", "\r", " ")
