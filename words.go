package stile

import (
	"context"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// Types of other packages, so that most programs import this package alone. Authors of
// dialects, stores and models import the package of that port.
type (
	// Class is the effect class of a tool: whether a call may be repeated after a crash.
	Class = messages.Class
	// Tool is what an agent can call.
	Tool = tools.Tool
	// ToolCall is the context of one tool call: session, turn, key.
	ToolCall = tools.Call
	// ToolValue is a value of programs.
	ToolValue = tools.Value
	// ToolParam declares a parameter of a Tool that is written without DefineTool.
	ToolParam = tools.Param
	// GateRequest is a call as Agent.Gate sees it.
	GateRequest = tools.Request
	// GateAnswer is a gate's decision on a call: approve, deny or confirm.
	GateAnswer = messages.GateAnswer
	// Manifest describes an agent.
	Manifest = manifest.Manifest
	// Model answers prompts; ModelRequest is one prompt and ModelChunk a piece of the reply.
	Model        = llm.Model
	ModelRequest = llm.Request
	ModelChunk   = llm.Chunk
	// Message is one message of a prompt.
	Message = messages.Message
	// Kind is the kind of a record, and of a growing text.
	Kind = messages.Kind
	// UnitText is the body of a text record: a thought or a response. Emit is the body of
	// an emission of an AEIOU program, ActionEnded the body of a call's end.
	UnitText    = messages.UnitText
	Emit        = messages.Emit
	ActionEnded = messages.ActionEnded
)

// The classes of tools. The zero Class is Effectful.
const (
	Pure       = messages.Pure       // a function of its arguments
	ReadOnly   = messages.ReadOnly   // changes nothing: repeated after a crash
	Idempotent = messages.Idempotent // a second call changes nothing: repeated after a crash
	Keyed      = messages.Keyed      // honours ToolCall.Key: repeated under the same key
	Effectful  = messages.Effectful  // never repeated: after a crash its outcome is unknown
)

// The answers of gates.
const (
	GateApprove = messages.GateApprove
	GateDeny    = messages.GateDeny
	GateConfirm = messages.GateConfirm // suspends the turn until Session.Approve or Deny
)

// Roles of messages, kinds of growing text, and ends of replies.
const (
	RoleSystem    = messages.RoleSystem
	RoleUser      = messages.RoleUser
	RoleAssistant = messages.RoleAssistant

	Response = messages.ResponseUnit
	Thought  = messages.ThoughtUnit

	FinishComplete = messages.FinishComplete
	FinishStop     = messages.FinishStop
)

// DefineTool makes a tool from a function of one struct to another; see tools.Define.
func DefineTool[In, Out any](name, description string, class Class, do func(context.Context, In) (Out, error)) (Tool, error) {
	return tools.Define(name, description, class, do)
}

// DefineToolCall is DefineTool for a function that also takes its ToolCall, such as for the
// idempotency key; see tools.DefineCall.
func DefineToolCall[In, Out any](name, description string, class Class, do func(context.Context, *ToolCall, In) (Out, error)) (Tool, error) {
	return tools.DefineCall(name, description, class, do)
}

// ScriptedModel makes a model that returns these replies in order, for examples and tests.
// It needs no network.
func ScriptedModel(replies ...string) Model { return scripted.New(replies...) }

// ParseManifest parses a manifest in YAML. Errors call it name. It reads no other file and no
// environment variable.
func ParseManifest(name string, doc []byte) (*Manifest, error) { return manifest.Parse(name, doc) }
