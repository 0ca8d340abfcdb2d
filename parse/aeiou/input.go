package aeiou

import (
	"strings"
	"unicode/utf8"

	json "github.com/go-json-experiment/json"

	"github.com/seed14be6753/stile/internal/jsonstring"
	"github.com/seed14be6753/stile/messages"
)

// CheckInput returns a submit as USERDATA (docs/spec/design.md §10), so that Text is empty
// and Userdata set in what it returns. A text that is a JSON object with subject
// and fields is taken as it is; any other text m becomes
// {"subject":"message","fields":{"text":m}}.
//
// Refusals are *messages.Error with the byte offset in what was submitted:
// ERR_ENV_SIZE when the USERDATA would exceed 524,288 bytes,
// ERR_ENV_MARKERS_INVALID for a line that would be a marker, ERR_USERDATA_SCHEMA
// otherwise (reason NON_UTF8 for bytes that are no UTF-8). Field is "userdata" or
// "text". A refused input is returned unchanged.
func (Dialect) CheckInput(in messages.Input) (messages.Input, error) {
	if in.Text != "" && in.Userdata != "" {
		return in, &messages.Error{Code: messages.ErrUserdataSchema, Field: "text", Detail: "give a text or userdata, not both"}
	}
	field, given := "text", in.Text
	if in.Userdata != "" {
		field, given = "userdata", in.Userdata
	}
	body := []byte(given)
	refuse := func(f fault) (messages.Input, error) {
		e := f.err(body)
		if f.field != "" && f.field != userdata.String() {
			e.Detail = f.field + " " + e.Detail
		}
		e.Field = field
		return in, e
	}
	if len(body) > MaxSectionBytes {
		return refuse(sizeOfUserdata(len(body)))
	}
	if !utf8.Valid(body) {
		return refuse(notUTF8(body))
	}
	if field == "text" && !looksLikeUserdata(body) {
		wrapped := TextUserdata(given)
		if len(wrapped) > MaxSectionBytes {
			return refuse(sizeOfUserdata(len(wrapped)))
		}
		in.Text, in.Userdata = "", wrapped
		return in, nil
	}
	if m, ok := nextMark(body, 0); ok {
		return refuse(fault{code: messages.ErrEnvMarkersInvalid, offset: m.line, detail: "the line would be read as a marker"})
	}
	if f := checkUserdata(body); f.detail != "" {
		return refuse(f)
	}
	in.Text, in.Userdata = "", given
	return in, nil
}

// JoinInputs makes one USERDATA of several that CheckInput gave: a message whose text
// is theirs, joined by LF (docs/spec/design.md §9). One that is more than a message's text goes in
// as the JSON it is. ERR_ENV_SIZE when it would exceed 524,288 bytes.
func (Dialect) JoinInputs(parts []messages.Input) (messages.Input, error) {
	texts := make([]string, len(parts))
	for i := range parts {
		texts[i] = parts[i].Text
		if u := parts[i].Userdata; u != "" {
			texts[i] = MessageText(u)
		}
	}
	in := messages.Input{Userdata: TextUserdata(strings.Join(texts, "\n"))}
	if n := len(in.Userdata); n > MaxSectionBytes {
		return messages.Input{}, sizeOfUserdata(n).err(nil)
	}
	return in, nil
}

// MessageText is the text of a message that TextUserdata made; anything else stays as
// it is.
func MessageText(userdata string) string {
	var m struct {
		Fields struct {
			Text string `json:"text"`
		} `json:"fields"`
	}
	if json.Unmarshal([]byte(userdata), &m) != nil || TextUserdata(m.Fields.Text) != userdata {
		return userdata
	}
	return m.Fields.Text
}

// TextUserdata is the USERDATA of a submitted text: valid by construction for
// valid UTF-8, on one line.
func TextUserdata(text string) string {
	const head, foot = `{"subject":"message","fields":{"text":`, `}}`
	b := make([]byte, 0, len(head)+len(text)+len(text)/16+2+len(foot))
	b = append(b, head...)
	b = jsonstring.Append(b, text)
	return string(append(b, foot...))
}
