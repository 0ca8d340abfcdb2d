package prompt

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/messages"
)

const (
	feedElement = "context_feed"
	feedCloser  = "</" + feedElement
	feedEscaped = "&lt;/" + feedElement
)

// FeedBody is a value as a prompt shows it: strings verbatim, others in canonical form
// (docs/spec/streaming.md §7.3). What is no JSON is shown as it is.
func FeedBody(value string) string {
	v := jsontext.Value(value)
	if v.Kind() == '"' {
		if text, err := jsontext.AppendUnquote(nil, v); err == nil {
			return string(text)
		}
		return value
	}
	if v.Canonicalize() != nil {
		return value
	}
	return string(v)
}

// AppendFeed appends the element of a feed to a prompt (docs/spec/streaming.md §7.3). However it
// is written, the body cannot close it.
func AppendFeed(dst []byte, f *messages.Feed, body string) []byte {
	dst = append(dst, "<"+feedElement+` id="`...)
	dst = append(dst, f.ID...) // letters, digits and _
	if f.Stale {
		dst = append(dst, `" stale="true`...)
	}
	if f.Truncated {
		dst = append(dst, `" truncated="true`...)
	}
	if f.Error != "" {
		dst = append(dst, `" error="`...)
		dst = append(dst, f.Error...)
	}
	dst = append(dst, "\">\n"...)
	for rest := body; ; {
		i := strings.Index(rest, feedCloser)
		if i < 0 {
			dst = append(dst, rest...)
			break
		}
		dst = append(dst, rest[:i]...)
		dst = append(dst, feedEscaped...)
		rest = rest[i+len(feedCloser):]
	}
	return append(dst, "\n"+feedCloser+">\n"...)
}

// feeds is the message with the feeds, if there is any.
func feeds(fs []messages.Feed, rendering int64) (messages.Message, bool) {
	if len(fs) == 0 {
		return messages.Message{}, false
	}
	n := 0
	for i := range fs {
		n += len(fs[i].Value) + len(fs[i].ID) + 96
	}
	text := make([]byte, 0, n)
	for i := range fs {
		body := ""
		if fs[i].Error == "" {
			body = feedBody(fs[i].Value, rendering)
		}
		text = AppendFeed(text, &fs[i], body)
	}
	return messages.Message{Role: messages.RoleUser, Text: string(text), Holds: messages.HoldsFeeds}, true
}
