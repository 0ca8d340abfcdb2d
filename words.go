package stile

import (
	"context"

	"github.com/seed14be6753/stile/llm"
	"github.com/seed14be6753/stile/llm/scripted"
	"github.com/seed14be6753/stile/manifest"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools"
)

// Words of other packages that most programs need, so that this one is enough for them.
// An author of a dialect, store or model imports the package of that port.
type (
	// Class says what a crash may do with a call of a tool.
	Class = messages.Class
	// Tool is what an agent can call.
	Tool = tools.Tool
	// ToolCall is what a tool knows of its call.
	ToolCall = tools.Call
	// ToolValue is a value of programs.
	ToolValue = tools.Value
	// ToolParam declares a parameter of a Tool that is written by hand.
	ToolParam = tools.Param
	// GateRequest is a call as Agent.Gate sees it.
	GateRequest = tools.Request
	// GateAnswer is what a gate says of a call.
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
	// UnitText is the body of a record of text: a thought, a response. Emit is that of
	// what an AEIOU program showed, ActionEnded that of a call's result.
	UnitText    = messages.UnitText
	Emit        = messages.Emit
	ActionEnded = messages.ActionEnded
)

// The classes of tools. The zero Class is Effectful.
const (
	Pure       = messages.Pure       // a function of its arguments
	ReadOnly   = messages.ReadOnly   // changes nothing: repeated after a crash
	Idempotent = messages.Idempotent // twice is once: repeated after a crash
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

// DefineTool makes a tool of a function from one struct to another; see tools.Define.
func DefineTool[In, Out any](name, description string, class Class, do func(context.Context, In) (Out, error)) (Tool, error) {
	return tools.Define(name, description, class, do)
}

// DefineToolCall is DefineTool for a tool that wants its call, such as the key of a keyed
// one; see tools.DefineCall.
func DefineToolCall[In, Out any](name, description string, class Class, do func(context.Context, *ToolCall, In) (Out, error)) (Tool, error) {
	return tools.DefineCall(name, description, class, do)
}

// ScriptedModel makes a model that gives these replies in their order: for examples and
// tests, without a network.
func ScriptedModel(replies ...string) Model { return scripted.New(replies...) }

// ParseManifest reads a manifest in YAML; name is what errors call it. It reads no other
// file and no environment variable.
func ParseManifest(name string, doc []byte) (*Manifest, error) { return manifest.Parse(name, doc) }
