package profile

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/messages"
)

// Bounds (docs/spec/cogency.md §10).
const (
	Cadence         = 5    // user messages after which is learned, by default
	LongRunes       = 2000 // of the JSON of a profile that is to be compacted
	MaxRunes        = 4000 // of the JSON of one that is accepted
	MaxMessageRunes = 2000 // of a message that is fed; the rest is cut
	MaxFailures     = 3    // attempts at the same messages; then they are passed over

	maxReplyBytes = 64 << 10 // of a reply that is looked at
)

// Data is the profile of a user.
type Data struct {
	Who       string `json:"who,omitzero"`
	Style     string `json:"style,omitzero"`
	Focus     string `json:"focus,omitzero"`
	Interests string `json:"interests,omitzero"`
	Misc      string `json:"misc,omitzero"`
}

// IsZero reports whether the profile is empty.
func (d Data) IsZero() bool { return d == Data{} }

// JSON returns the profile as it is stored and shown, without blanks.
func (d Data) JSON() string {
	b, err := json.Marshal(d, jsontext.AllowInvalidUTF8(true))
	if err != nil { // strings alone
		return "{}"
	}
	return string(b)
}

// Runes returns the length of the profile: the char_count of a version.
func (d Data) Runes() int {
	if d.IsZero() {
		return 0
	}
	return utf8.RuneCountInString(d.JSON())
}

// Meta is the cursor: the last message that was fed. Positions count within one session,
// so messages of several are ordered by time, then by session and position, and the
// cursor names all three (docs/decisions/017).
type Meta struct {
	LastLearnedSeq    int64  `json:"last_learned_seq"`
	LastLearnedAt     string `json:"last_learned_at,omitzero"` // RFC 3339, of the message
	LastLearnedIn     string `json:"last_learned_in,omitzero"` // incarnation of its session
	MessagesProcessed int64  `json:"messages_processed"`
}

// State is the profile after a run, with its version and cursor.
type State struct {
	Version  int64 `json:"version"` // 0 is no profile yet
	Data     Data  `json:"data"`
	Meta     Meta  `json:"_meta"`
	Failures int64 `json:"failures,omitzero"` // in a row, at the same messages
}

// Due reports whether to learn, given the number of messages after the cursor. After a failure the
// next attempt needs further messages.
func (s *State) Due(unseen, cadence int) bool {
	return unseen >= cadence*int(s.Failures+1) || s.Failures == 0 && s.Data.Runes() > LongRunes
}

// Request is the input of a run: the state before it, and the messages to learn from.
type Request struct {
	Before   State    `json:"before"`
	Messages []string `json:"messages"` // oldest first
	Upto     Meta     `json:"upto"`     // the cursor after them
}

// Compact reports whether the profile is too long and must be compacted.
func (r *Request) Compact() bool { return r.Before.Data.Runes() > LongRunes }

// Encode returns the request as the USERDATA of an input.
func (r *Request) Encode() string {
	b, err := json.Marshal(r, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return "{}"
	}
	return string(b)
}

// Decode reads a request from the USERDATA of an input. The error is ERR_DIALECT.
func Decode(userdata string) (Request, error) {
	var r Request
	if err := json.Unmarshal([]byte(userdata), &r, json.RejectUnknownMembers(true)); err != nil {
		return Request{}, &messages.Error{Code: messages.ErrDialect, Field: "userdata", Detail: "no request for a profile", Cause: err}
	}
	return r, nil
}

// After returns the state after the run of the request, given how the run ended and the text of its
// reply. A run that a crash or a cancel ended does not change the state.
func (r *Request) After(d messages.Decision, reason messages.Code, reply string) State {
	s := r.Before
	if d == messages.Done {
		if got, err := Parse(reply, r.Compact()); err == nil {
			if !got.IsZero() && got != s.Data {
				s.Data = got
				s.Version++
			}
			s.Meta, s.Failures = r.Upto, 0
			return s
		}
	}
	if reason == messages.ErrCrash || reason == messages.ErrCancelled {
		return s
	}
	if s.Failures++; s.Failures >= MaxFailures {
		s.Meta, s.Failures = r.Upto, 0
	}
	return s
}

// Parse reads a reply: an object of the five fields, all strings, with or without a code fence. {}
// means no change. The reply to a request to compact must be short enough, and must not be {}.
// Errors are ERR_DIALECT.
func Parse(reply string, compact bool) (Data, error) {
	refuse := func(cause error, format string, args ...any) (Data, error) {
		return Data{}, &messages.Error{Code: messages.ErrDialect, Detail: "the profile: " + fmt.Sprintf(format, args...), Cause: cause}
	}
	if len(reply) > maxReplyBytes {
		return refuse(nil, "a reply of %d bytes; the limit is %d", len(reply), maxReplyBytes)
	}
	var fields map[string]jsontext.Value
	if err := json.Unmarshal([]byte(unfence(reply)), &fields); err != nil || fields == nil {
		return refuse(err, "the reply is no JSON object")
	}
	var d Data
	to := map[string]*string{"who": &d.Who, "style": &d.Style, "focus": &d.Focus, "interests": &d.Interests, "misc": &d.Misc}
	for name, v := range fields {
		field, ok := to[name]
		if !ok {
			return refuse(nil, "%.40q is none of who, style, focus, interests, misc", name)
		}
		text, err := jsontext.AppendUnquote(nil, v)
		if v.Kind() != '"' || err != nil {
			return refuse(err, "%s is no string", name)
		}
		*field = strings.TrimSpace(string(text))
	}
	limit := MaxRunes
	if compact {
		limit = LongRunes
		if d.IsZero() {
			return refuse(nil, "it is too long, and the reply does not shorten it")
		}
	}
	if n := d.Runes(); n > limit {
		return refuse(nil, "%d characters; the limit is %d", n, limit)
	}
	return d, nil
}

// unfence takes a code fence, with or without the name of a language, from around a text.
func unfence(s string) string {
	s = strings.TrimSpace(s)
	const fence = "```"
	if len(s) < 2*len(fence) || !strings.HasPrefix(s, fence) || !strings.HasSuffix(s, fence) {
		return s
	}
	head, body, ok := strings.Cut(s[len(fence):len(s)-len(fence)], "\n")
	if !ok || strings.ContainsFunc(strings.TrimSpace(head), func(r rune) bool { return !unicode.IsLetter(r) }) {
		return s
	}
	return strings.TrimSpace(body)
}

// Cut returns a message, cut to MaxMessageRunes.
func Cut(text string) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	n := 0
	for i := range text {
		if n == MaxMessageRunes {
			return text[:i] + " […]"
		}
		n++
	}
	return text
}

// appendData appends a value as the model gets it: no character in it looks like a
// marker of a dialect.
func appendData(dst []byte, v any) []byte {
	b, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true), jsontext.EscapeForHTML(true), jsontext.EscapeForJS(true))
	if err != nil { // strings alone
		return dst
	}
	return append(dst, bytes.TrimSpace(b)...)
}
