package cogency

import "github.com/seed14be6753/stile/messages"

// Reasons of ERR_DIALECT: the error codes of docs/spec/cogency.md §2.2.
const (
	ExecuteJSON         = "execute_json"
	ExecuteShape        = "execute_shape"
	ExecuteTooMany      = "execute_too_many"
	ExecuteTooLarge     = "execute_too_large"
	ExecuteUnterminated = "execute_unterminated"

	TooLarge = "stream_too_large" // of ERR_QUOTA
)

// meanings say each reason in words that help a model to do better.
var meanings = map[string]string{
	ExecuteJSON:         "the batch is not valid JSON; nothing ran",
	ExecuteShape:        `the batch is not an array of {"name": non-empty string, "args": object}; nothing ran`,
	ExecuteTooMany:      "the batch has too many calls; nothing ran",
	ExecuteTooLarge:     "the batch is too large; nothing ran",
	ExecuteUnterminated: "the reply ended before </execute>; nothing ran",
	TooLarge:            "the reply is longer than it may be; the rest was not read",
}

// fault makes a parse error at a byte of the reply.
func fault(reason string, at int64) *messages.ParseError {
	return &messages.ParseError{
		Code: messages.ErrDialect, Reason: reason, Offset: at, Detail: reason + ": " + meanings[reason],
	}
}
