package cortex

import "github.com/seed14be6753/stile/messages"

// Reasons of ERR_DIALECT: the error codes of docs/spec/streaming.md §10.
const (
	BadTag             = "bad_tag"
	DuplicateAttribute = "duplicate_attribute"
	BadAttribute       = "bad_attribute"
	StrayClose         = "stray_close"
	UnclosedTag        = "unclosed_tag"
	UnclosedThought    = "unclosed_thought"
	UnclosedResponse   = "unclosed_response"
	UnclosedAction     = "unclosed_action"
	UnclosedFeed       = "unclosed_feed"
	NestedThought      = "nested_thought"
	TooDeep            = "too_deep"
	UnsupportedTag     = "unsupported_tag"
	ReservedTag        = "reserved_tag"
	MissingID          = "missing_id"
	AfterFinal         = "after_final"
	MissingBody        = "missing_body"
	InvalidJSON        = "invalid_json"
	InvalidBody        = "invalid_body"
	BadID              = "bad_id"
	UnknownType        = "unknown_type"
	UnknownMode        = "unknown_mode"
	MissingName        = "missing_name"
	BadField           = "bad_field"
	DuplicateID        = "duplicate_id"

	// Of the protocol's extensions (docs/spec/extensions.md).
	Misplaced      = "misplaced"
	BadCondition   = "bad_condition"
	BadTemplate    = "bad_template"
	TemplateExists = "template_exists"
	TemplateLimit  = "template_limit"

	// From the second rendering on.
	BodyTooLarge = "body_too_large"
	BodyTooDeep  = "body_too_deep"
	ForeignCall  = "foreign_call"
	FencedBlock  = "fenced_block"
	TagCase      = "tag_case"

	TooLarge = "stream_too_large" // of ERR_QUOTA
)

// meanings say each reason in words.
var meanings = map[string]string{
	BadTag:             "the tag is malformed or too long and was read as text",
	DuplicateAttribute: "the attribute is given twice; the first one counts",
	BadAttribute:       "the attribute's value is none of those allowed",
	StrayClose:         "there is nothing to close",
	UnclosedTag:        "the reply ended inside the tag or its element",
	UnclosedThought:    "the thought was not closed",
	UnclosedResponse:   "the response was not closed and is not final",
	UnclosedAction:     "the action was not closed and not run",
	UnclosedFeed:       "the feed was not closed",
	NestedThought:      "a thought begins inside a thought",
	TooDeep:            "thoughts are nested too deeply",
	UnsupportedTag:     "the extension is off; the element was skipped",
	ReservedTag:        "the host alone writes this; the element was skipped",
	MissingID:          "the feed has no id",
	AfterFinal:         "the final response ended the reply; what follows was ignored",
	MissingBody:        "the action has no body",
	InvalidJSON:        "the body is not valid JSON",
	InvalidBody:        "the body is not a JSON object",
	BadID:              "the id is malformed",
	UnknownType:        "no such action type",
	UnknownMode:        "no such mode",
	MissingName:        "the body has no name",
	BadField:           "the field's value is not allowed",
	DuplicateID:        "the id is taken by an earlier action",
	Misplaced:          "the element may not stand here and was skipped",
	BadCondition:       "the condition does not parse; the element was skipped",
	BadTemplate:        "the template, or its use, is not allowed",
	TemplateExists:     "the manifest has a template of this name",
	TemplateLimit:      "a reply may not define more templates",
	BodyTooLarge:       "the body is longer than it may be",
	BodyTooDeep:        "the body is nested too deeply",
	ForeignCall:        "a call in a form that is not this dialect's; nothing ran",
	FencedBlock:        "an action in a code fence with text around it was not run",
	TagCase:            "a tag in another case was read as text",
	TooLarge:           "the reply is longer than it may be; the rest was not read",
}

// fault makes a parse error at a byte of the reply.
func fault(reason string, at int64) messages.ParseError {
	return messages.ParseError{
		Code: messages.ErrDialect, Reason: reason, Offset: at, Detail: reason + ": " + meanings[reason],
	}
}
