package cogency

import (
	"bytes"
	"strconv"

	"github.com/seed14be6753/stile/messages"
)

// Reasons of ERR_DIALECT: the error codes of docs/spec/cogency.md §2.2, and after them those of
// §2.4.
const (
	ExecuteJSON         = "execute_json"
	ExecuteShape        = "execute_shape"
	ExecuteTooMany      = "execute_too_many"
	ExecuteTooLarge     = "execute_too_large"
	ExecuteUnterminated = "execute_unterminated"
	ExecuteMarker       = "execute_marker"
	ExecuteNative       = "execute_native"

	TooLarge = "stream_too_large" // of ERR_QUOTA
)

// meanings has the text of each reason, in words that help a model to correct itself.
var meanings = map[string]string{
	ExecuteJSON:         "the batch is not valid JSON; nothing ran",
	ExecuteShape:        `the batch is not an array of {"name": non-empty string, "args": object}; nothing ran`,
	ExecuteTooMany:      "the batch has too many calls; nothing ran",
	ExecuteTooLarge:     "the batch is too large; nothing ran",
	ExecuteUnterminated: "the reply ended before </execute>; nothing ran",
	ExecuteMarker:       "this is not the marker <execute>: write it in lower case, without attributes or blanks, and </execute> behind the array; nothing ran",
	ExecuteNative:       "a tool call in the form of another interface; nothing ran",
	TooLarge:            "the reply is longer than it may be; the rest was not read",
}

// fault returns a parse error at offset at.
func fault(reason string, at int64) *messages.ParseError {
	return &messages.ParseError{
		Code: messages.ErrDialect, Reason: reason, Offset: at, Detail: reason + ": " + meanings[reason],
	}
}

// form shows how a call is written; it ends the error of a batch that did not run.
const form = `Write <execute>[{"name": "tool", "args": {"parameter": "value"}}]</execute>, a JSON array.`

// faulty is fault in rendering 2; why is what is wrong and what to write instead.
func faulty(reason, why string, at int64) *messages.ParseError {
	return &messages.ParseError{
		Code: messages.ErrDialect, Reason: reason, Offset: at, Detail: reason + ": " + why + ". Nothing ran. " + form,
	}
}

// explained returns the error of the batch in rendering 2.
func (d *decoder) explained(reason string, at int64) *messages.ParseError {
	switch reason {
	case ExecuteJSON, ExecuteUnterminated:
		if len(d.body) > 0 && !d.closes() {
			if d.json.End() && (d.body[0] == '{' || d.body[0] == '[') {
				return faulty(reason, "something follows the JSON, which is complete: write all calls into one array, [{…}, {…}]", d.slipAt)
			}
			return faulty(reason, d.json.Refusal(d.body[0]), d.slipAt)
		}
		if reason == ExecuteUnterminated {
			return faulty(reason, "the reply ended before </execute>, so it is incomplete: write the whole batch, and </execute> behind it", d.bodyOff)
		}
		return faulty(reason, "the batch is no complete JSON, "+d.json.Unfinished(), d.off(at))
	case ExecuteShape:
		return faulty(reason, d.problem, d.bodyOff)
	case ExecuteTooMany:
		return faulty(reason, "the batch has more than "+strconv.Itoa(d.limits.Calls)+" calls: write fewer of them into one batch", d.bodyOff)
	case ExecuteTooLarge:
		return faulty(reason, "the batch has more than "+strconv.Itoa(d.limits.ExecuteBytes)+" bytes: write a smaller one", d.bodyOff)
	}
	return fault(reason, d.off(at))
}

// closes reports whether the bytes that json did not take are the closer or its beginning.
func (d *decoder) closes() bool {
	rest := bytes.TrimSpace(d.body)
	n := min(len(rest), len(shutExecute))
	return string(rest[:n]) == shutExecute[:n]
}
