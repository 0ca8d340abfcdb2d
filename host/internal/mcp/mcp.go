// Package mcp offers agents as tools over the Model Context Protocol (streamable HTTP):
// a client that knows tools can talk to agents.
//
// One idea: a tool's call is a submit, its result is how the run ended. What the tool
// needs of the host is one function, bound to the caller of the protocol's session.
//
// What holds:
//   - A session of the protocol belongs to the caller who began it; to others it does
//     not exist.
//   - Progress is told as the text grows; the result is what the journal has.
//   - A call that is cancelled cancels its run.
//   - Sessions of the protocol are bounded, and go when nobody asks for half an hour.
//
// What it does not do: authenticate, check Host and Origin, bound the body. The host's
// guard stands in front.
package mcp

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed14be6753/stile/messages"
)

const (
	// maxSessions bounds the protocol's sessions of one caller.
	maxSessions = 256
	idle        = 30 * time.Minute
	maxMessage  = 512 << 10 // bytes of a message
)

// Agent is offered as a tool of its name.
type Agent struct{ Name, Summary string }

// Call is a message to an agent.
type Call struct {
	Agent, Message string
	// Session is the id of the session it is for; "" is one of its own.
	Session string
	// Progress is told of text as it grows: the new piece, and the bytes so far. It may
	// be nil.
	Progress func(piece string, bytes int64)
}

// Answer is what became of a call.
type Answer struct {
	Session  string `json:"session" jsonschema:"id of the session: pass it to go on with the conversation"`
	Run      int64  `json:"run" jsonschema:"ordinal of the run in its session"`
	Decision string `json:"decision,omitempty" jsonschema:"DONE, ABORT or HALT; absent while the run waits for approval"`
	Code     string `json:"code,omitempty" jsonschema:"why the run did not end well"`
	Text     string `json:"text" jsonschema:"what the agent said"`
}

// Ask does a call; ctx ends when the client wants no answer any more.
type Ask func(ctx context.Context, c Call) (Answer, error)

// Config says what is offered.
type Config struct {
	Agents  []Agent
	Version string
	// Caller tells who makes a request: a key that no other caller has, without blanks,
	// and what asks for them.
	Caller func(*http.Request) (key string, ask Ask)
}

// Door is the handler. Its methods are safe for concurrent use.
type Door struct {
	cfg     Config
	handler http.Handler

	mu      sync.Mutex
	callers map[string]*sdk.Server
	closed  bool
}

// New makes a door.
func New(cfg Config) *Door {
	d := &Door{cfg: cfg, callers: map[string]*sdk.Server{}}
	streams := sdk.NewStreamableHTTPHandler(d.serverOf, &sdk.StreamableHTTPOptions{
		SessionTimeout: idle, DisableLocalhostProtection: true, PropagateRequestCancellation: true,
	})
	// The SDK binds a session to the user of its token. The key stands for that user,
	// also on a host without tokens.
	bound := auth.RequireBearerToken(func(_ context.Context, key string, _ *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: key}, nil
	}, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(streams)
	d.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, _ := cfg.Caller(r)
		known := r.Clone(r.Context())
		known.Header.Set("Authorization", "Bearer "+key)
		bound.ServeHTTP(w, known)
	})
	return d
}

// ServeHTTP implements http.Handler.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.handler.ServeHTTP(w, r) }

// Close ends all sessions of the protocol, so that their streams end.
func (d *Door) Close() {
	d.mu.Lock()
	d.closed = true
	servers := d.callers
	d.callers = map[string]*sdk.Server{}
	d.mu.Unlock()
	for _, s := range servers {
		for ses := range s.Sessions() {
			_ = ses.Close() // it ends; whatever it says concerns a client that is gone
		}
	}
}

// serverOf gives a new session its server: the caller's; nil refuses.
func (d *Door) serverOf(r *http.Request) *sdk.Server {
	key, ask := d.cfg.Caller(r)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	s := d.callers[key]
	if s == nil {
		for k, old := range d.callers { // those whose last session has ended
			if open(old) == 0 {
				delete(d.callers, k)
			}
		}
		s = d.server(ask)
		d.callers[key] = s
	}
	if open(s) >= maxSessions {
		return nil
	}
	return s
}

func open(s *sdk.Server) (n int) {
	for range s.Sessions() {
		n++
	}
	return n
}

// said is what a client gives a tool.
type said struct {
	Message string `json:"message" jsonschema:"what to say to the agent"`
	Session string `json:"session,omitempty" jsonschema:"id of an earlier answer's session, to go on with that conversation; a new one when it is left out"`
}

func (d *Door) server(ask Ask) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "stile", Version: d.cfg.Version}, nil)
	for _, a := range d.cfg.Agents {
		about := a.Summary
		if about == "" {
			about = "Talks to the agent " + a.Name + "."
		}
		sdk.AddTool(s, &sdk.Tool{Name: a.Name, Description: about}, func(ctx context.Context, req *sdk.CallToolRequest, in said) (*sdk.CallToolResult, any, error) {
			if len(in.Message) > maxMessage {
				return nil, nil, &messages.Error{Code: messages.ErrInvalid, Field: "message", Detail: "a message has at most 512 KiB"}
			}
			c := Call{Agent: a.Name, Message: in.Message, Session: in.Session}
			if token := req.Params.GetProgressToken(); token != nil {
				c.Progress = func(piece string, bytes int64) {
					// A client that does not hear it loses nothing: the result is whole.
					_ = req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Message: piece, Progress: float64(bytes)})
				}
			}
			answer, err := ask(ctx, c)
			if err != nil {
				return nil, nil, err // a result that says isError
			}
			text := answer.Text
			if answer.Code != "" {
				text = answer.Code + ": " + text
			}
			return &sdk.CallToolResult{
				Content: []sdk.Content{&sdk.TextContent{Text: text}}, StructuredContent: answer, IsError: answer.Code != "",
			}, nil, nil
		})
	}
	return s
}
