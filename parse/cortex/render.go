package cortex

import (
	"fmt"
	"regexp"
	"slices"
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

// The texts after the results, from the second rendering on.
const (
	silence   = "Your reply had no action and no response: the user has seen nothing of it. Call a tool in an <action> block, or answer the user in a <response> block."
	goFurther = "Your reply had no final response. Go on, or end with a final <response>."
	lastTurn  = "This is the last turn for this message: answer the user in a final <response> with what you have. Actions still run, but you will not see their results."
	cutOff    = "Your reply was cut off at its length limit and is incomplete. Go on with a shorter one: a <response> that is closed, or one <action>."
	callForm  = "A call is an action block and nothing else:\n" + `<action type="tool" id="a">{"name": "…", "parameters": {…}}</action>`
)

// Render returns the transcript, the input, and for each earlier turn of the run the model's reply
// and, as one user message, its results (docs/spec/design.md §10). A finished run is its user's
// text with a line for each action, and its responses.
//
// Results are in document order, without those of fire_and_forget, and the errors of the reply
// follow them. Nothing in them can end their element: "<" is written \u003c in JSON and &lt; in
// attributes.
func (x Dialect) Render(p messages.Projection) []messages.Message {
	out := make([]messages.Message, 0, len(p.History)+1+2*len(p.Replies))
	for i := range p.History {
		out = append(out, x.Past(&p.History[i])...)
	}
	text := p.Text
	if text == "" {
		text = p.Userdata
	}
	out = append(out, messages.Message{Role: messages.RoleUser, Text: text, Parts: p.Parts})
	for i := range p.Replies {
		r := &p.Replies[i]
		told := r.Told
		if told == nil {
			told = x.Tell(r)
		}
		out = append(out, told...)
		if r.Joined != "" {
			out = append(out, messages.Message{Role: messages.RoleUser, Text: r.Joined})
		}
	}
	if p.LastError != "" {
		last := &out[len(out)-1]
		last.Text += "\n\nThe previous turn did not go through: " + parse.OneLine(p.LastError)
	}
	if p.Last && x.Rendering >= 2 {
		out = append(out, messages.Message{Role: messages.RoleSystem, Text: lastTurn})
	}
	return out
}

// actionLines lists the actions of a finished run, one a line.
func actionLines(calls []messages.Call) string {
	var b strings.Builder
	for _, c := range calls {
		fmt.Fprintf(&b, "\n[action %s %s: %s", attribute(c.ID), attribute(c.Name), c.State)
		if c.Reason != "" {
			b.WriteString(", " + attribute(c.Reason))
		}
		b.WriteString(undone[c.RolledBack])
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
// that had more than most bytes. From the second rendering on errors say what was wrong.
func results(calls []messages.Call, errors []messages.ParseError, most int, second bool) (text string, met []string) {
	var b strings.Builder
	for i := range calls {
		if calls[i].Control != "" {
			if writeBlock(&b, &calls[i], most) {
				met = append(met, messages.LimitResult)
			}
			continue
		}
		if calls[i].Mode != messages.ModeFireAndForget && calls[i].Reason != messages.BranchNotTaken {
			call := calls[i]
			if second {
				call = plain(call)
			}
			if writeResult(&b, &call, most) {
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
			writeError(&b, e, second)
		}
	}
	if more > 0 {
		fmt.Fprintf(&b, `<action_result status="error" reason="%s" n="%d"/>`+"\n", messages.MoreErrors, more)
	}
	return strings.TrimSuffix(b.String(), "\n"), met
}

// remarks are what the model is told of its reply beside results and errors.
func (x Dialect) remarks(r *messages.Reply, results string) (all []string) {
	if x.Rendering < 2 {
		if results == "" {
			return []string{goOn}
		}
		return nil
	}
	foreign := func(e messages.ParseError) bool { return formless[e.Reason] }
	if slices.ContainsFunc(r.Errors, foreign) {
		all = append(all, callForm)
	}
	switch {
	case r.Finish == messages.FinishLength:
		all = append(all, cutOff)
	case results != "":
	case len(r.Calls) > 0 || strings.Contains(r.Text, "<"+names[tagResponse]):
		all = append(all, goFurther)
	default:
		all = append(all, silence)
	}
	return all
}

// formless are the reasons of those who need to see what a call looks like.
var formless = map[string]bool{
	ForeignCall: true, TagCase: true, MissingName: true, MissingBody: true, InvalidBody: true, UnknownType: true, BadTag: true,
}

// plain is a call without the codes of Go in what it failed for, and without a result that
// says the same once more.
func plain(c messages.Call) messages.Call {
	if c.State != messages.ActionFailed || !strings.Contains(c.Value, string(messages.ErrConfig)+"/") {
		return c
	}
	c.Reason, c.Value = codeWords.ReplaceAllString(c.Reason, ""), ""
	return c
}

// codeWords are the reasons of errors, such as BAD_VALUE.
var codeWords = regexp.MustCompile(`\b[A-Z]+(?:_[A-Z]+)+: `)

// undone is what a finished run says of an action that was rolled back.
var undone = map[messages.ActionState]string{
	messages.ActionOK: ", rolled back", messages.ActionFailed: ", rollback failed", messages.ActionUnknown: ", rollback unknown",
}

// writeBlock writes what became of a control block: the branch of an if that was taken, the
// children of a group or a loop by their ends, and why it did not end well. Of a loop it has the
// list of results too, and what failed.
func writeBlock(b *strings.Builder, c *messages.Call, most int) (cut bool) {
	if c.Reason == messages.BranchNotTaken {
		return false
	}
	fmt.Fprintf(b, `<block_result id="%s" kind="%s"`, attribute(c.ID), c.Control)
	switch {
	case c.Branch != "":
		fmt.Fprintf(b, ` branch="%s"`, attribute(c.Branch))
	case c.Control != names[tagIf] && (c.OK > 0 || c.Failed > 0 || c.State == messages.ActionOK):
		fmt.Fprintf(b, ` ok="%d" failed="%d"`, c.OK, c.Failed)
	}
	if c.State != messages.ActionOK && c.State != "" {
		fmt.Fprintf(b, ` status="%s"`, c.State)
		if c.Reason != "" {
			fmt.Fprintf(b, ` reason="%s"`, attribute(c.Reason))
		}
	}
	if c.RolledBack != "" {
		fmt.Fprintf(b, ` rolled_back="%s"`, c.RolledBack)
	}
	if c.Failures != "" {
		fmt.Fprintf(b, ` failures="%s"`, attribute(c.Failures))
	}
	if c.Value == "" {
		b.WriteString("/>\n")
		return false
	}
	body, cut := resultBody(c.Value, most)
	if cut {
		b.WriteString(` truncated="true"`)
	}
	b.WriteString(">" + body + "</block_result>\n")
	return cut
}

func writeResult(b *strings.Builder, c *messages.Call, most int) (cut bool) {
	fmt.Fprintf(b, `<action_result id="%s" status="%s"`, attribute(c.ID), c.State)
	if c.Earlier {
		b.WriteString(` earlier="true"`)
	} else {
		fmt.Fprintf(b, ` ms="%d"`, c.MS)
	}
	reason := c.Reason
	if reason == "" && c.RolledBackWhy != "" {
		reason = "rollback: " + c.RolledBackWhy
	}
	if c.State == messages.ActionUnknown {
		reason = messages.UnknownText
	}
	if reason != "" {
		fmt.Fprintf(b, ` reason="%s"`, attribute(reason))
	}
	if c.RolledBack != "" {
		fmt.Fprintf(b, ` rolled_back="%s"`, c.RolledBack)
	}
	if c.Unstreamed {
		b.WriteString(` streamed="false"`)
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

func writeError(b *strings.Builder, e messages.ParseError, second bool) {
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
	if text := strings.TrimPrefix(e.Detail, reason+": "); second && text != "" {
		b.WriteString(">" + strings.ReplaceAll(parse.OneLine(strings.ToValidUTF8(text, "\ufffd")), "<", "&lt;") + "</action_result>\n")
		return
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
