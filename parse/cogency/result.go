package cogency

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/messages"
)

// MaxResultBytes is what one result's content may have, before the note that says
// that it was cut.
const MaxResultBytes = 64 << 10

// Result is the outcome of one call.
type Result struct {
	Tool    string
	Success bool
	Outcome string // of a success: a few words
	// Content is JSON, or "" for none. A failure's is its message, a JSON string.
	Content string
}

// Text makes content of text.
func Text(s string) string { return string(appendString(nil, s)) }

// Failure is a failed call.
func Failure(tool, message string) Result { return Result{Tool: tool, Content: Text(message)} }

// AppendResults appends the JSON array of docs/spec/cogency.md §6 to dst. Content is always
// there: the tool's, or its outcome where that is empty. What is longer than most
// bytes (MaxResultBytes when most is not above 0) is cut at a character and becomes a
// text with a note. Nothing is escaped for HTML; bytes that are no UTF-8 become
// U+FFFD.
func AppendResults(dst []byte, results []Result, most int) []byte {
	dst, _ = appendResults(dst, results, most)
	return dst
}

// appendResults is AppendResults, and counts the results of which a part is shown.
func appendResults(dst []byte, results []Result, most int) (_ []byte, cut int) {
	if most <= 0 {
		most = MaxResultBytes
	}
	dst = append(dst, '[')
	for i := range results {
		if i > 0 {
			dst = append(dst, ',')
		}
		part := false
		if dst, part = appendResult(dst, &results[i], most); part {
			cut++
		}
	}
	return append(dst, ']'), cut
}

// resultFrame is about what a result has beside its texts.
const resultFrame = 56

func appendResult(dst []byte, r *Result, most int) (_ []byte, cut bool) {
	dst = append(dst, `{"tool":`...)
	dst = appendString(dst, r.Tool)
	if r.Success {
		dst = append(dst, `,"status":"success","outcome":`...)
		dst = appendString(dst, r.Outcome)
	} else {
		dst = append(dst, `,"status":"failure"`...)
	}
	dst = append(dst, `,"content":`...)
	dst, cut = appendContent(dst, r, most)
	return append(dst, '}'), cut
}

func appendContent(dst []byte, r *Result, most int) (_ []byte, cut bool) {
	v := jsontext.Value(r.Content)
	if len(v) > 0 && v.Compact() != nil {
		v = appendString(nil, r.Content) // no JSON: told as it is
	}
	if len(v) == 0 || string(v) == "null" || string(v) == `""` {
		return appendString(dst, r.Outcome), false
	}
	if len(v) <= most {
		return append(dst, v...), false
	}
	text := string(v)
	if v[0] == '"' {
		if json.Unmarshal(v, &text) != nil {
			text = strings.ToValidUTF8(string(v), "\ufffd")
		}
		if len(text) <= most {
			return append(dst, v...), false
		}
	}
	kept := clip.Start(text, most)
	return appendString(dst, kept+"\n[truncated: "+strconv.Itoa(len(kept))+" of "+strconv.Itoa(len(text))+" bytes]"), true
}

func appendString(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, strings.ToValidUTF8(s, "\ufffd")) // fails on invalid UTF-8 alone
	return dst
}

// parts takes the result of a tool that gives an outcome and a content (docs/spec/cogency.md §15)
// apart: an object of these two texts and nothing else. Any other result is a content,
// and all that can be said of its outcome is that there is one.
func parts(value string) (outcome, content string) {
	var both struct {
		Content *string `json:"content"`
		Outcome *string `json:"outcome"`
	}
	if strings.HasPrefix(value, "{") && json.Unmarshal([]byte(value), &both, json.RejectUnknownMembers(true)) == nil && both.Content != nil && both.Outcome != nil {
		return *both.Outcome, Text(*both.Content)
	}
	return "ok", value
}

// ownWords is the reason of a call whose tool says itself what went wrong: that is the
// whole message (docs/spec/cogency.md §6).
const ownWords = "error"

// ResultOf tells of a finished call of the runtime.
func ResultOf(c *messages.Call) Result {
	switch c.State {
	case messages.ActionOK:
		outcome, content := parts(c.Value)
		return Result{Tool: c.Name, Success: true, Outcome: outcome, Content: content}
	case messages.ActionUnknown:
		return Failure(c.Name, messages.UnknownText)
	}
	message := c.Reason
	var text string
	if json.Unmarshal([]byte(c.Value), &text) != nil {
		text = c.Value
	}
	switch {
	case message == "":
		message = string(c.State)
	case c.State == messages.ActionCancelled || c.State == messages.ActionSkipped:
		message = string(c.State) + ": " + message
	}
	switch {
	case text == "" || text == "null":
	case c.State == messages.ActionFailed && c.Reason == ownWords:
		message = text
	default:
		message += ": " + text
	}
	return Failure(c.Name, message)
}
