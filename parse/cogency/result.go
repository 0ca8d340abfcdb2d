package cogency

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/messages"
)

// MaxResultBytes bounds the content of one result, without the note that it was cut.
const MaxResultBytes = 64 << 10

// Result is the outcome of one call.
type Result struct {
	Tool    string
	Success bool
	Outcome string // of a success: a few words
	// Content is JSON, or "" for none. Of a failure it is the message, a JSON string.
	Content string
}

// Text returns a text as content.
func Text(s string) string { return string(appendString(nil, s)) }

// Failure returns the result of a failed call.
func Failure(tool, message string) Result { return Result{Tool: tool, Content: Text(message)} }

// AppendResults appends the JSON array of docs/spec/cogency.md §6 to dst. Each result has a
// content: the tool's, or its outcome if that is empty. A content longer than most bytes
// (MaxResultBytes when most is not above 0) is cut at a character and becomes a text with a
// note. Nothing is escaped for HTML; invalid UTF-8 becomes U+FFFD.
func AppendResults(dst []byte, results []Result, most int) []byte {
	dst, _ = appendResults(dst, results, most)
	return dst
}

// appendResults is AppendResults; cut counts the results that were cut.
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

// resultFrame is about the length of a result without its texts.
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
		v = appendString(nil, r.Content) // not JSON: shown as text
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

// parts splits the result of a tool that gives an outcome and a content (docs/spec/cogency.md
// §15): an object of exactly these two texts. Any other result is a content with a standard
// outcome.
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

// ownWords is the reason of a call whose tool returned an error text: that is the whole message
// (docs/spec/cogency.md §6).
const ownWords = "error"

// ResultOf returns the result of a finished call of the runtime.
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
