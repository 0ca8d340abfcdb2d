package kitsu

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/parse"
)

// Reasons of complaints that are no errors of a token.
const (
	NothingSaid = "nothing_said"
	OtherForm   = "other_form"
)

// maxToldBytes bounds what of a token or a reason is repeated to the model.
const maxToldBytes = 200

// complaint is why a reply is not what the user is to get.
type complaint struct {
	action  string // as the model named it, "" for none
	reason  string // the word for it
	cause   string
	refused bool // by the host, or its executor failed
	soft    bool // it is none where the user has read something before
	ends    bool // it is none where the user has read something, now too
	cut     bool // the reply ended at its length
	whole   bool // the text of the reply is nothing else
	stands  bool // the text is the answer if there is no pass left
}

// forms are the tokens, as a model is to write them.
var forms = []struct {
	kind Kind
	form string
}{
	{Search, `<action:search query="words to look for">`},
	{GetTime, `<action:get_time>`},
	{Continue, `<action:continue reason="why">`},
}

// answerNow is the line that asks for an answer when there is no other pass.
const answerNow = internalPrefix + "] No more requests: answer the user now in plain text, with what you know and without a token."

// appendComplaint appends the host's lines for a complaint, without the last line end: what
// came of the token, and what to do. has are the actions that are left to the model.
func appendComplaint(dst []byte, c *complaint, has func(Kind) bool) []byte {
	dst = append(dst, resultPrefix+`{"action":`...)
	if c.action == "" {
		dst = append(dst, "null"...)
	} else {
		dst = appendForeign(dst, c.action)
	}
	dst = append(dst, `,"error":`...)
	dst, _ = jsontext.AppendQuote(dst, c.reason)
	if cause := c.why(); cause != "" {
		dst = append(dst, `,"reason":`...)
		dst = appendForeign(dst, cause)
	}
	return append(dst, "}\n"+internalPrefix+"] "+c.cure(has)...)
}

// appendForeign appends text from elsewhere as a JSON string in which no marker is left.
func appendForeign(dst []byte, text string) []byte {
	b, _ := jsontext.AppendQuote(nil, clip.Short(parse.OneLine(text), maxToldBytes))
	return append(dst, parse.DefuseJSON(string(b))...)
}

func (c *complaint) why() string {
	switch {
	case c.reason == NothingSaid && c.cut:
		return "your reply was cut at its length limit before it said anything"
	case c.reason == NothingSaid:
		return "your reply had no text for the user"
	case c.reason == OtherForm:
		return "this form of a call is unknown here; nothing was run, and the user does not get it"
	}
	return c.cause
}

// cure is what the model is to do about it.
func (c *complaint) cure(has func(Kind) bool) string {
	const answer = "Answer the user in plain text"
	if c.refused || c.reason == OneOnly || c.reason == NothingSaid {
		return answer + ", with what you know."
	}
	var allowed []string
	for _, f := range forms {
		if has(f.kind) && (c.action == string(f.kind) || !has(Kind(c.action))) {
			allowed = append(allowed, f.form)
		}
	}
	if len(allowed) == 0 {
		return answer + ", with what you know."
	}
	one := "Write one token alone on a line, exactly so: "
	if len(allowed) > 1 {
		one = "Write one token alone on a line, exactly as one of these: "
	}
	return one + strings.Join(allowed, " ") + " – or answer the user in plain text."
}

// kind is what the first candidate asks for, as the model wrote it.
func (f *finder) kind() string {
	if len(f.first) <= len(tokenPrefix) {
		return ""
	}
	rest := bytes.TrimLeft(f.first[len(tokenPrefix):], " \t")
	n := 0
	for n < len(rest) && n < maxToldBytes && kindByte(rest[n]) {
		n++
	}
	return string(bytes.ToLower(rest[:n]))
}

// cause says what is wrong with the first candidate, and where.
func (f *finder) cause(reason string) string {
	return "line " + strconv.Itoa(f.line) + ", byte " + strconv.FormatInt(f.at, 10) + ": " + f.wrong(reason)
}

func (f *finder) wrong(reason string) string {
	t := f.first
	switch reason {
	case MultipleActions:
		return strconv.Itoa(f.count) + " tokens in one reply, at most one may be; none was run"
	case UnsupportedAction:
		return "there is no action " + strconv.Quote(clip.Short(f.kind(), 64))
	case QueryTooLong, ReasonTooLong:
		_, value, _ := bytes.Cut(t, []byte{'"'})
		value, _, _ = bytes.Cut(value, []byte{'"'})
		return meanings[reason] + ": it has " + strconv.Itoa(utf8.RuneCount(value))
	case Malformed:
	default:
		return meanings[reason]
	}
	rest := t[min(len(t), len(tokenPrefix)):]
	switch {
	case f.cut:
		return "the token is not closed: it must end in > on its line"
	case f.over:
		return "the token is too long"
	case f.cased:
		return "tokens are written in lower case"
	case bytes.HasSuffix(t, []byte("/>")):
		return "a token ends in > alone, without /"
	case bytes.Contains(rest, []byte(`\"`)):
		return `a value has no escapes: the first double quote ends it`
	case bytes.Contains(rest, []byte("“")) || bytes.Contains(rest, []byte("”")):
		return "values stand in straight double quotes"
	case bytes.ContainsAny(rest, "'") && !bytes.Contains(rest, []byte{'"'}):
		return "values stand in double quotes, not in single quotes"
	case bytes.IndexByte(rest, '=') >= 0 && bytes.IndexByte(rest, '"') < 0:
		return "values stand in double quotes"
	case len(rest) > 1 && (rest[0] == ' ' || rest[0] == '\t'):
		return "no blank may follow the colon"
	case len(rest) > 1 && (rest[len(rest)-2] == ' ' || rest[len(rest)-2] == '\t'):
		return "no blank may stand in front of the >"
	}
	return "the action token is malformed"
}

// appendResult appends the result line of an action of version 2: as AppendResult, and
// nothing in the result reads like a line or a marker.
func appendResult(dst []byte, c *messages.Call) []byte {
	line := string(AppendResult(nil, Kind(c.Name), c.Value)[len(resultPrefix):])
	if why := reasonOf(c); why != "" {
		quoted, _ := jsontext.AppendQuote(nil, why)
		line = strings.Replace(line, `,"result":`, `,"reason":`+string(quoted)+`,"result":`, 1)
	}
	dst = append(dst, resultPrefix...)
	return append(dst, lineEnds.Replace(parse.DefuseJSON(line))...)
}

// reasonOf is why the model goes on, in its own words.
func reasonOf(c *messages.Call) string {
	if c.Name != string(Continue) {
		return ""
	}
	a, err := ActionOf(c.Name, c.Args)
	if err != nil {
		return ""
	}
	return a.Value
}

// lineEnds escapes what canonical JSON leaves as it is and readers take for line ends.
var lineEnds = strings.NewReplacer("\u0085", `\u0085`, "\u2028", `\u2028`, "\u2029", `\u2029`)
