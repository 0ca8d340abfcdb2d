package kitsu

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
	"github.com/seed14be6753/stile/parse/scan"
)

// Kind is the kind of action that a token asks for.
type Kind string

// The kinds.
const (
	Search   Kind = "search"
	GetTime  Kind = "get_time"
	Continue Kind = "continue"
)

// Limits of values, in code points before cleaning (docs/spec/kitsu.md §3).
const (
	MaxQueryRunes  = 256
	MaxReasonRunes = 128
)

// Reasons of ERR_DIALECT (docs/spec/kitsu.md §3).
const (
	MultipleActions     = "multiple_actions"
	Malformed           = "malformed"
	UnsupportedAction   = "unsupported_action"
	MissingQuery        = "missing_query"
	UnexpectedAttribute = "unexpected_attribute"
	QueryTooLong        = "query_too_long"
	ReasonTooLong       = "reason_too_long"
	EmptyQuery          = "empty_query"
	EmptyReason         = "empty_reason"

	// Of version 2, and no errors where the reply says something besides:
	NotAlone = "not_alone"
	OneOnly  = "one_only"
)

var meanings = map[string]string{
	MultipleActions:     "more than one action token; none was run",
	Malformed:           "the action token is malformed",
	UnsupportedAction:   "there is no such action",
	MissingQuery:        "a search needs a query",
	UnexpectedAttribute: "the action does not take this attribute",
	QueryTooLong:        "the query is longer than 256 characters",
	ReasonTooLong:       "the reason is longer than 128 characters",
	EmptyQuery:          "the query is empty",
	EmptyReason:         "the reason is empty",
	NotAlone:            "the action token is not alone on its line",
	OneOnly:             "one search or get_time was done for this message already",
}

// Action is a valid token.
type Action struct {
	Kind Kind
	// Value is the cleaned query or reason. A reason may be absent (HasValue is false); if
	// given, it is never empty.
	Value    string
	HasValue bool
	Raw      string // the token as written
}

// Payload returns the token's arguments as canonical JSON.
func (a *Action) Payload() string {
	switch {
	case a.Kind == GetTime:
		return "{}"
	case a.Kind == Continue && !a.HasValue:
		return `{"reason":null}`
	}
	b := []byte(`{"query":`)
	if a.Kind == Continue {
		b = []byte(`{"reason":`)
	}
	b, _ = jsontext.AppendQuote(b, a.Value) // it is valid UTF-8, nothing else can fail
	return string(append(b, '}'))
}

// ActionOf returns the action of a call with this name and these arguments, for Decide. An
// unknown kind is kept, and Decide denies it. Arguments that Payload cannot have written are
// ERR_DIALECT.
func ActionOf(name, args string) (*Action, error) {
	a := &Action{Kind: Kind(name)}
	var p struct {
		Query  *string `json:"query"`
		Reason *string `json:"reason"`
	}
	err := json.Unmarshal([]byte(args), &p, json.RejectUnknownMembers(true))
	var value, other *string
	switch a.Kind {
	case Search:
		value, other = p.Query, p.Reason
	case Continue:
		value, other = p.Reason, p.Query
	case GetTime:
		other = p.Query
		if other == nil {
			other = p.Reason
		}
	default:
		return a, nil
	}
	if err != nil || other != nil || a.Kind == Search && value == nil {
		return nil, &messages.Error{Code: messages.ErrDialect, Reason: Malformed, Field: "args", Detail: "not the arguments of " + name, Cause: err}
	}
	if value != nil {
		a.Value, a.HasValue = *value, true
	}
	return a, nil
}

// Parse reads a whole reply. It returns nil without an error if there is no token. An error is a
// *messages.Error, ERR_DIALECT with one of the reasons above, the byte offset in text and the
// line. Invalid UTF-8 counts as U+FFFD. Only the text of a model may be parsed
// (docs/spec/kitsu.md §3).
func Parse(text string) (*Action, error) {
	f := finder{limit: 3*len(text) + len(tokenPrefix)} // nothing is longer
	mend([]byte(text), f.push)
	f.end()
	a, reason := f.action()
	if reason == "" {
		return a, nil
	}
	return nil, &messages.Error{
		Code: messages.ErrDialect, Reason: reason, Detail: meanings[reason], Offset: f.at, HasOffset: true, Line: f.line,
	}
}

// mend hands out a text with U+FFFD for each byte that belongs to no character.
func mend(text []byte, to func(p []byte, at int64)) {
	var u scan.UTF8
	var at int64
	for {
		p, n, rest := u.Next(text)
		if n == 0 {
			break
		}
		to(p, at)
		at += int64(n)
		text = rest
	}
	for {
		p, n := u.End()
		if n == 0 {
			return
		}
		to(p, at)
		at += int64(n)
	}
}

// action judges what was found: the token, or the reason there is none; neither if
// there was no candidate.
func (f *finder) action() (*Action, string) {
	switch {
	case f.count == 0:
		return nil, ""
	case f.count > 1:
		return nil, MultipleActions
	case f.over, f.cut, f.cased:
		return nil, Malformed
	}
	a, reason := parseToken(f.first)
	if f.loose && a != nil && a.HasValue {
		if a.Value = unseen(a.Value); a.Value == "" {
			return nil, map[Kind]string{Search: EmptyQuery, Continue: EmptyReason}[a.Kind]
		}
	}
	return a, reason
}

// unseen returns a value of version 2 without characters that have no width: with them a query
// would find nothing, for no visible reason.
func unseen(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if parse.Invisible(r) {
			return -1
		}
		return r
	}, s))
}

// parseToken checks a candidate, in the order of docs/spec/kitsu.md §3.
func parseToken(t []byte) (*Action, string) {
	rest := t[len(tokenPrefix) : len(t)-1]
	i := 0
	for i < len(rest) && kindByte(rest[i]) {
		i++
	}
	kind := Kind(rest[:i])
	switch kind {
	case "":
		return nil, Malformed
	case Search, GetTime, Continue:
	default:
		return nil, UnsupportedAction
	}
	n := 0
	var value []byte // of the attribute the kind is named for
	var has bool
	want := map[Kind]string{Search: "query", Continue: "reason"}[kind]
	for rest = rest[i:]; len(rest) > 0; n++ {
		var name, v []byte
		var ok bool
		if name, v, rest, ok = attribute(rest); !ok {
			return nil, Malformed
		}
		if want != "" && string(name) == want && !has {
			value, has = v, true
		}
	}
	tooLong, empty, limit := QueryTooLong, EmptyQuery, MaxQueryRunes
	if kind == Continue {
		tooLong, empty, limit = ReasonTooLong, EmptyReason, MaxReasonRunes
	}
	a := &Action{Kind: kind, HasValue: has, Raw: string(t)}
	switch {
	case kind == Search && !has:
		return nil, MissingQuery
	case n > 1 || n == 1 && !has:
		return nil, UnexpectedAttribute
	case !has:
		return a, ""
	case utf8.RuneCount(value) > limit:
		return nil, tooLong
	}
	if a.Value = clean(string(value)); a.Value == "" {
		return nil, empty
	}
	return a, ""
}

// attribute reads 1*WSP name="value".
func attribute(s []byte) (name, value, rest []byte, ok bool) {
	i := 0
	for i < len(s) && (s[i] == ' ' || s[i] == '\t') {
		i++
	}
	if i == 0 {
		return nil, nil, nil, false
	}
	s = s[i:]
	for i = 0; i < len(s) && nameByte(s[i], i == 0); {
		i++
	}
	name, s = s[:i], s[i:]
	if len(name) == 0 || len(s) < 2 || s[0] != '=' || s[1] != '"' {
		return nil, nil, nil, false
	}
	s = s[2:]
	end := bytes.IndexByte(s, '"')
	if end < 0 {
		return nil, nil, nil, false
	}
	return name, s[:end], s[end+1:], true
}

func nameByte(c byte, first bool) bool {
	return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' || !first && c >= '0' && c <= '9'
}

func kindByte(c byte) bool { return nameByte(c, false) || c == '-' }

// clean removes what no reader sees and trims white space; "#", ":" and "\" stay
// (docs/spec/kitsu.md §3).
func clean(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsControl(r), r == 0x2028, r == 0x2029, r == 0x061c, r == 0x200e, r == 0x200f,
			r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
			return -1
		}
		return r
	}, s)
	return strings.TrimSpace(s)
}
