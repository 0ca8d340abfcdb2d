package prompt

import (
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/messages"
)

// How a prompt shows the profile of its user (docs/spec/cogency.md §10).
const (
	profileHeading = "USER PROFILE:"
	profileRunes   = 2000
)

// markers are the characters that begin or end markup of a dialect, and all line ends of
// Unicode. In JSON they are in strings alone, where each may be escaped.
var markers = strings.NewReplacer("<", `\u003c`, ">", `\u003e`, "&", `\u0026`, "`", `\u0060`, "[", `\u005b`, "]", `\u005d`,
	"\u0085", `\u0085`, "\u2028", `\u2028`, "\u2029", `\u2029`)

// profile takes the profile from among the feeds of a turn: its heading and one line of
// JSON, cut to its length. What is no object of strings is left out: the line must not be
// able to say anything but that.
func profile(fs []messages.Feed) (shown string, rest []messages.Feed) {
	at := -1
	for i := range fs {
		if fs[i].ID == messages.ProfileFeed {
			at = i
			break
		}
	}
	if at < 0 {
		return "", fs
	}
	rest = append(fs[:at:at], fs[at+1:]...)
	v := jsontext.Value(fs[at].Value)
	if fs[at].Error != "" || !flat(v) || v.Compact() != nil {
		return "", rest
	}
	text := markers.Replace(string(v))
	if text == "{}" {
		return "", rest
	}
	return profileHeading + "\n" + firstRunes(text, profileRunes), rest
}

// flat reports whether a value is an object of strings.
func flat(v jsontext.Value) bool {
	dec := jsontext.NewDecoder(strings.NewReader(string(v)))
	if t, err := dec.ReadToken(); err != nil || t.Kind() != '{' {
		return false
	}
	for {
		t, err := dec.ReadToken()
		switch {
		case err != nil:
			return false
		case t.Kind() == '}':
			_, err = dec.ReadToken()
			return err != nil // nothing follows
		case t.Kind() != '"':
			return false
		}
	}
}

func firstRunes(s string, n int) string {
	if len(s) <= n || utf8.RuneCountInString(s) <= n {
		return s
	}
	for i := range s {
		if n == 0 {
			return s[:i]
		}
		n--
	}
	return s
}
