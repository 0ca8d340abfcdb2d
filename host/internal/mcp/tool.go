package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed14be6753/stile/internal/visible"
	"github.com/seed14be6753/stile/messages"
)

// Agent is offered as a tool of its name.
type Agent struct {
	Name, Summary string
	Output        string // JSON schema of its answers; "" for none
}

// Call is a message to an agent, or a question for the answer of an earlier one.
type Call struct {
	Agent, Message string
	Parts          []Part
	// Session is the id of the session it is for; "" is one of its own.
	Session string
	// Run is that of an earlier answer whose end is waited for; nothing is said then.
	Run int64
	// Key is one under which the message is said once, however often the call is made; "" for none.
	Key string
	// Begun is told the session and the run, before all else.
	Begun func(session string, run int64)
	// Progress is told of text as it grows: the new piece, and the bytes so far.
	Progress func(piece string, bytes int64)
	// Log is told what happens.
	Log func(Event)
	// Question asks the person at the client about a call that waits for approval; nil where
	// the client cannot, or its caller may not answer.
	Question func(context.Context, Approval) Word
}

// Part is a picture or a file of a message.
type Part struct {
	Name string `json:"name,omitempty" jsonschema:"of the file"`
	Type string `json:"type,omitempty" jsonschema:"media type: image/png, image/jpeg, image/gif, image/webp, application/pdf or text/plain; what the bytes are when it is left out"`
	Data string `json:"data" jsonschema:"the bytes in base64"`
}

// Event is something that happens in a run, for a client that wants to be told.
type Event struct {
	Level    string `json:"-"`
	Event    string `json:"event"` // of the run, or the type of a record
	Session  string `json:"session"`
	Run      int64  `json:"run"`
	Turn     int64  `json:"turn,omitempty"`
	Decision string `json:"decision,omitempty"`
	Code     string `json:"code,omitempty"`
}

// Levels of events.
const (
	Debug   = "debug"
	Info    = "info"
	Notice  = "notice"
	Warning = "warning"
)

// Approval is a call that waits for approval.
type Approval struct {
	ID      string `json:"id" jsonschema:"of the approval"`
	Tool    string `json:"tool" jsonschema:"what would run"`
	Args    string `json:"args" jsonschema:"its arguments, canonical JSON"`
	Basis   string `json:"basis,omitempty" jsonschema:"what else the call rests on, canonical JSON"`
	Digest  string `json:"digest" jsonschema:"of what would run: an answer names the one it was given for"`
	Expires string `json:"expires,omitempty" jsonschema:"when it is too late to answer"`
}

// Word is what a person says of a call; the zero Word is nothing.
type Word struct {
	Said, Allow bool
	Reason      string
}

// Answer is what became of a call.
type Answer struct {
	Session   string     `json:"session" jsonschema:"id of the session: pass it to go on with the conversation"`
	Run       int64      `json:"run" jsonschema:"ordinal of the run in its session"`
	Decision  string     `json:"decision,omitempty" jsonschema:"DONE, ABORT or HALT; absent while the run waits for approval"`
	Code      string     `json:"code,omitempty" jsonschema:"why the run did not end well"`
	Detail    string     `json:"detail,omitempty" jsonschema:"the same in words"`
	Text      string     `json:"text" jsonschema:"what the agent said"`
	Output    any        `json:"output,omitempty" jsonschema:"the answer as a value, of an agent whose answers have a schema"`
	Approvals []Approval `json:"approvals,omitempty" jsonschema:"the calls that wait for a person's approval: the run goes on when they are answered, and is waited for by passing session and run"`
}

// Ask does a call; ctx ends when the client wants no answer any more.
type Ask func(ctx context.Context, c Call) (Answer, error)

// askInput is what a client gives a tool.
type askInput struct {
	Message string `json:"message,omitempty" jsonschema:"what to say to the agent; left out with run"`
	Parts   []Part `json:"parts,omitempty" jsonschema:"pictures and files that the agent sees with the message"`
	Session string `json:"session,omitempty" jsonschema:"id of an earlier answer's session, to go on with that conversation; a new one when it is left out"`
	Run     int64  `json:"run,omitempty" jsonschema:"run of an answer that had not ended or was lost, in session: nothing is said, and its end is waited for"`
}

func (in *askInput) check() error {
	field, detail := "", ""
	switch {
	case in.Message == "" && in.Run == 0:
		field, detail = "message", "is missing: what to say to the agent"
	case in.Run < 0, in.Run > 0 && (in.Message != "" || len(in.Parts) > 0 || in.Session == ""):
		field, detail = "run", "is the run of an earlier answer: pass its session, and no message"
	case len(in.Message) > maxMessage:
		field, detail = "message", "a message has at most 512 KiB"
	default:
		return nil
	}
	return &messages.Error{Code: messages.ErrInvalid, Field: field, Detail: detail}
}

// instructions are for the model of a client.
const instructions = `Each tool is an agent that answers a message. The answer has a session: pass it with the next message to go on with the conversation, leave it out to begin another one.
An answer with approvals waits for a person, who allows or denies a call of the agent. Tell the user; do not send the message again. Call the tool with session and run, and without a message, to wait for the end of that run; do so as well when an answer was lost.
An agent may do things that cannot be undone. A result with isError has the reason as code and detail.`

// callerExtra has the caller of the request that a call came with.
const callerExtra = "caller"

func (d *Door) server(who Caller) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "stile", Title: "stile", Version: d.cfg.Version}, &sdk.ServerOptions{
		GetSessionID: func() string { return d.newID(who.Key) }, Instructions: instructions,
		//lint:ignore SA1019 clients of the versions that this door speaks have it
		Capabilities: &sdk.ServerCapabilities{Logging: &sdk.LoggingCapabilities{}, Tools: &sdk.ToolCapabilities{}},
	})
	for _, a := range d.cfg.Agents() {
		if who.May(a.Name) {
			sdk.AddTool(s, toolOf(a), func(ctx context.Context, req *sdk.CallToolRequest, in askInput) (*sdk.CallToolResult, any, error) {
				if err := in.check(); err != nil {
					return nil, nil, err
				}
				ctx, over := d.during(ctx, req.Session.ID())
				defer over()
				caller := req.Extra.TokenInfo.Extra[callerExtra].(Caller)
				answer, err := caller.Ask(ctx, callOf(ctx, req, a.Name, &in, caller.Approve))
				if err != nil {
					return nil, nil, err // a result that says isError
				}
				return &sdk.CallToolResult{
					Content: []sdk.Content{&sdk.TextContent{Text: answer.words()}}, StructuredContent: answer, IsError: answer.Code != "",
				}, nil, nil
			})
		}
	}
	return s
}

func toolOf(a Agent) *sdk.Tool {
	about, yes := a.Summary, true
	if about == "" {
		about = "Talks to the agent " + a.Name + "."
	}
	return &sdk.Tool{
		Name: a.Name, Title: titleOf(a.Name), Description: about, OutputSchema: outputOf(a),
		Annotations: &sdk.ToolAnnotations{Title: titleOf(a.Name), DestructiveHint: &yes, OpenWorldHint: &yes},
	}
}

// titleOf is a name as people write one.
func titleOf(name string) string {
	title := strings.TrimSpace(strings.NewReplacer("_", " ", "-", " ").Replace(name))
	first, n := utf8.DecodeRuneInString(title)
	return string(unicode.ToUpper(first)) + title[n:]
}

// outputOf is the schema of an agent's answers. Their value has the agent's own schema, unless that
// one refers to places: in another schema they are others.
func outputOf(a Agent) *jsonschema.Schema {
	all, err := jsonschema.For[Answer](nil)
	if err != nil {
		panic(err) // of a type that is known here
	}
	all.Properties["approvals"].Type, all.Properties["approvals"].Types = "array", nil // it is never null
	own := &jsonschema.Schema{}
	if a.Output != "" && !strings.Contains(a.Output, `"$`) && json.Unmarshal([]byte(a.Output), own) == nil {
		if own.Description == "" {
			own.Description = all.Properties["output"].Description
		}
		all.Properties["output"] = own
	}
	return all
}

// words is an answer as text, for models that see nothing else of it.
func (a *Answer) words() string {
	if a.Code == "" {
		return a.Text
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", a.Code, a.Detail)
	for i := range a.Approvals {
		fmt.Fprintf(&b, "approval %s of %s %s, digest %s\n", a.Approvals[i].ID, visible.Exact(a.Approvals[i].Tool), visible.Exact(a.Approvals[i].Args), a.Approvals[i].Digest)
	}
	if len(a.Approvals) > 0 {
		fmt.Fprintf(&b, "session %s, run %d\n", a.Session, a.Run)
	}
	if a.Text != "" {
		b.WriteString("\n" + a.Text)
	}
	return strings.TrimSpace(b.String())
}

// callOf is a client's call.
func callOf(ctx context.Context, req *sdk.CallToolRequest, agent string, in *askInput, approve bool) Call {
	c := Call{
		Agent: agent, Message: in.Message, Parts: in.Parts, Session: in.Session, Run: in.Run,
		Begun: func(string, int64) {}, Progress: func(string, int64) {},
		// A client that does not hear it loses nothing, here and below: the result is whole.
		Log: func(e Event) {
			//lint:ignore SA1019 as above
			_ = req.Session.Log(ctx, &sdk.LoggingMessageParams{Logger: "stile." + agent, Level: sdk.LoggingLevel(e.Level), Data: e})
		},
	}
	if token := req.Params.GetProgressToken(); token != nil {
		c.Begun = func(session string, run int64) {
			_ = req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{
				ProgressToken: token, Message: fmt.Sprintf("session %s, run %d", session, run), Meta: sdk.Meta{"stile/session": session, "stile/run": run},
			})
		}
		c.Progress = func(piece string, bytes int64) {
			_ = req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Message: piece, Progress: float64(bytes)})
		}
	}
	if approve && canAsk(req.Session) {
		c.Question = func(ctx context.Context, a Approval) Word { return question(ctx, req.Session, agent, a) }
	}
	return c
}

// canAsk reports whether a client shows questions of a server to its user.
func canAsk(s *sdk.ServerSession) bool {
	p := s.InitializeParams()
	return p != nil && p.Capabilities != nil && p.Capabilities.Elicitation != nil && (p.Capabilities.Elicitation.Form != nil || p.Capabilities.Elicitation.URL == nil)
}

// Bounds of a question. A call that takes more to show is for the host's page.
const (
	elicitWait  = 10 * time.Minute
	maxQuestion = 64 << 10 // bytes
)

// question shows a call to the person at a client. Only allow or deny is a word: a person who
// closes the form, or refuses to answer it, leaves the call to others.
func question(ctx context.Context, s *sdk.ServerSession, agent string, a Approval) Word {
	text := fmt.Sprintf("The agent %s wants to call %s with\n%s\n", agent, visible.Exact(a.Tool), visible.Exact(a.Args))
	if a.Basis != "" {
		text += "It rests on " + visible.Exact(a.Basis) + "\n"
	}
	text += "Digest " + a.Digest
	if len(text) > maxQuestion {
		return Word{}
	}
	ctx, cancel := context.WithTimeout(ctx, elicitWait)
	defer cancel()
	res, err := s.Elicit(ctx, &sdk.ElicitParams{Mode: "form", Message: text, RequestedSchema: &jsonschema.Schema{
		Type: "object", Required: []string{"answer"},
		Properties: map[string]*jsonschema.Schema{
			"answer": {Type: "string", Title: "Answer", Description: "whether this call may run", Enum: []any{"allow", "deny"}},
			"reason": {Type: "string", Title: "Reason", Description: "of a refusal: the agent is told", MaxLength: jsonschema.Ptr(1024)},
		},
	}})
	if err != nil || res.Action != "accept" {
		return Word{}
	}
	answer, _ := res.Content["answer"].(string)
	reason, _ := res.Content["reason"].(string)
	return Word{Said: answer == "allow" || answer == "deny", Allow: answer == "allow", Reason: reason}
}
