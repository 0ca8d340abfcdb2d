package cortex

import (
	"strconv"
	"strings"

	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/messages"
)

// The texts that the model reads about a block that was not accepted, from the second rendering
// on: the place if there is one, the cause, and what to write instead.

// overLimit has the reasons for bodies that exceed a limit.
var overLimit = map[string]string{messages.LimitBody: BodyTooLarge, messages.LimitJSONDepth: BodyTooDeep}

// form shows the body of an action.
const form = `{"name": "…", "parameters": {…}}`

// explain returns what is wrong with the rejected action.
func (d *decoder) explain(reason, field string) string {
	switch reason {
	case InvalidJSON, UnclosedAction:
		text := cures[reason]
		switch {
		case d.body.cause != "":
			return text + "; " + d.body.cause
		case !d.raw && !d.json.Blank() && !d.json.End():
			return text + "; " + d.json.Unfinished()
		}
		return text
	case BodyTooLarge:
		return "the body has more than " + strconv.Itoa(d.limits.BodyBytes) + " bytes: write it in several actions"
	case BodyTooDeep:
		return "arrays and objects in the body are nested more than " + strconv.Itoa(d.limits.JSONDepth) + " deep"
	case MissingName:
		if len(d.action.called) > 0 {
			name := clip.Short(strings.ToValidUTF8(string(d.action.called), "\ufffd"), maxAttrBytes)
			return `the name stands in the body, not in the tag: {"name": "` + name + `", "parameters": {…}}`
		}
	case BadTemplate:
		return d.ext.templates.wrong
	case BadField:
		if field == "parameters" && d.body.twice {
			return "the arguments are given twice: write them once, in \"parameters\""
		}
		return "\"" + field + "\" must be " + wanted[field]
	}
	return cures[reason]
}

// cures has, for each reason, what is wrong and what to write instead.
var cures = map[string]string{
	MissingBody:      "the action has no body: it is one JSON object, " + form,
	InvalidJSON:      "the body is not valid JSON, and nothing of it ran",
	InvalidBody:      "the body must be one JSON object, " + form,
	UnclosedAction:   "the action has no closing tag </action>, and was not run",
	BadID:            "an id begins with a letter or _, holds letters, digits, _, . and -, and has at most 64 characters",
	UnknownType:      "type must be one of tool, agent, relic, workflow, llm and internal; what is called stands in the body as \"name\"",
	UnknownMode:      "mode must be one of sync, async and fire_and_forget",
	MissingName:      "the body has no \"name\" that says what to call: " + form,
	ForeignCall:      "this is no call here, and nothing ran: to call a tool, write an action block; to show text to the user, write a response block",
	FencedBlock:      "an action block in a code fence with text around it is an example and did not run: write it without the fence and without text, or write your answer as a response block",
	TagCase:          "tags are written in lower case, as in <action type=\"tool\">: nothing ran",
	BadTag:           "the tag is malformed or too long, and was read as text",
	UnclosedTag:      "the reply ends inside the tag or its element, and it was dropped",
	UnclosedThought:  "the thought was not closed, the user has seen nothing of it, and no action in it ran: close it, then act or answer in a response block",
	UnclosedResponse: "the response was not closed: it is incomplete and not final, though the user has seen it",
	DuplicateID:      "an earlier action of this reply has the id: give each its own",
}

// wanted has what each field of a body must be.
var wanted = map[string]string{
	"parameters":  "an object, such as {\"key\": \"value\"}",
	"output_key":  "a name of letters, digits and _, without $",
	"depends_on":  "an id, or an array of ids, of actions",
	"on_error":    "\"fail\", \"skip\" or \"retry\"",
	"retry":       "an integer, 0 to 5",
	"retry_delay": "a number of seconds, 0 to 60, without quotes and unit",
	"backoff":     "an integer, 1 to 10",
	"timeout":     "a number of seconds above 0, without quotes and unit",
	"stream":      "true or false",
	"group":       "the id of a group, beside \"rollback\" and on_error \"rollback\" too, and of no action that is fired and forgotten",
	"rollback":    "an object with \"name\", and \"type\", \"parameters\" and \"timeout\" where they are needed",
}
