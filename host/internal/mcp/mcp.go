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
//   - Sessions of the protocol are bounded: of a caller, of a tenant, and of all. They
//     go when their client asks nothing for half an hour.
//
// What it does not do: authenticate, check Host and Origin, bound the body. The host's
// guard stands in front.
package mcp

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed14be6753/stile/messages"
)

// Bounds of the protocol's sessions; one has some 45 KiB. A tenant has at most one for
// every four that are free: 820 when it is alone, and one more tenant always finds some.
const (
	maxOfCaller = 256
	maxSessions = 4096
	fairness    = 4
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
	Detail   string `json:"detail,omitempty" jsonschema:"the same in words"`
	Text     string `json:"text" jsonschema:"what the agent said"`
}

// Ask does a call; ctx ends when the client wants no answer any more.
type Ask func(ctx context.Context, c Call) (Answer, error)

// Config says what is offered.
type Config struct {
	Agents  func() []Agent
	Version string
	// Caller identifies the caller of a request.
	Caller func(*http.Request) Caller
	// Full refuses a request for a further session; what names what has none left.
	Full func(w http.ResponseWriter, r *http.Request, what string)
}

// Caller is who makes a request.
type Caller struct {
	Key    string // that no other caller has, without blanks
	Tenant string
	May    func(agent string) bool // use it; to who may not there is none
	Ask    Ask                     // for the caller
}

// Door is the handler. Its methods are safe for concurrent use.
type Door struct {
	cfg     Config
	handler http.Handler
	secret  []byte // of the seals in ids

	mu       sync.Mutex
	callers  map[string]*caller // of those with a session
	tenants  map[string]int     // sessions, by tenant
	sessions int                // of all
	closed   bool
}

// caller is one that has sessions, or begins one.
type caller struct {
	server   *sdk.Server
	sessions int // beginning ones too
}

// New makes a door.
func New(cfg Config) *Door {
	d := &Door{cfg: cfg, callers: map[string]*caller{}, tenants: map[string]int{}, secret: []byte(rand.Text())}
	streams := sdk.NewStreamableHTTPHandler(d.serverOf, &sdk.StreamableHTTPOptions{
		SessionTimeout: idle, DisableLocalhostProtection: true, PropagateRequestCancellation: true,
	})
	// The SDK binds a session to the user of its token. The key stands for that user,
	// also on a host without tokens.
	d.handler = auth.RequireBearerToken(func(_ context.Context, key string, r *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: key, Extra: map[string]any{askExtra: cfg.Caller(r).Ask}}, nil
	}, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(streams)
	return d
}

// sessionHeader has the id of the protocol's session; a request without one begins one.
const sessionHeader = "Mcp-Session-Id"

// ServeHTTP implements http.Handler.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	who := d.cfg.Caller(r)
	known := r.Clone(r.Context())
	known.Header.Set("Authorization", "Bearer "+who.Key)
	id := r.Header.Get(sessionHeader)
	if id != "" && !d.owns(who.Key, id) {
		known.Header.Set(sessionHeader, "none") // the SDK answers as of one that never was
	}
	if r.Method != http.MethodPost || id != "" {
		d.handler.ServeHTTP(w, known)
		return
	}
	server, over := d.begin(who)
	if over != "" {
		d.cfg.Full(w, r, over)
		return
	}
	defer func() {
		// The SDK says by its answer whether there is a session, and nothing when it ends.
		if id := w.Header().Get(sessionHeader); id != "" {
			for ses := range server.Sessions() { // of one caller
				if ses.ID() == id {
					go func() {
						_ = ses.Wait() // however it ends
						d.end(who)
					}()
					return
				}
			}
		}
		d.end(who)
	}()
	d.handler.ServeHTTP(w, known)
}

// What has no session left.
const (
	OverCaller = "caller"
	OverTenant = "tenant"
	OverHost   = "host"
)

// begin takes room for a session; over names what has none. The counts are held, so
// that a caller's sessions cost other callers nothing.
func (d *Door) begin(who Caller) (server *sdk.Server, over string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.callers[who.Key]
	of := d.tenants[who.Tenant]
	switch {
	case d.closed || d.sessions >= maxSessions:
		return nil, OverHost
	case c != nil && c.sessions >= maxOfCaller:
		return nil, OverCaller
	case fairness*of >= maxSessions-d.sessions:
		return nil, OverTenant
	}
	if c == nil {
		c = &caller{server: d.server(who)}
		d.callers[who.Key] = c
	}
	c.sessions++
	d.tenants[who.Tenant] = of + 1
	d.sessions++
	return c.server, ""
}

// end gives the room of a session back.
func (d *Door) end(who Caller) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sessions--
	if d.tenants[who.Tenant]--; d.tenants[who.Tenant] == 0 {
		delete(d.tenants, who.Tenant)
	}
	if c := d.callers[who.Key]; c != nil {
		if c.sessions--; c.sessions == 0 {
			delete(d.callers, who.Key)
		}
	}
}

// Close ends all sessions of the protocol, so that their streams end.
func (d *Door) Close() {
	d.mu.Lock()
	d.closed = true
	var servers []*sdk.Server
	for _, c := range d.callers {
		servers = append(servers, c.server)
	}
	d.mu.Unlock()
	for _, s := range servers {
		for ses := range s.Sessions() {
			_ = ses.Close() // it ends; whatever it says concerns a client that is gone
		}
	}
}

// serverOf gives a request its server: the caller's. One without a session has none.
func (d *Door) serverOf(r *http.Request) *sdk.Server {
	who := d.cfg.Caller(r)
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.callers[who.Key]; c != nil && !d.closed {
		return c.server
	}
	return nil
}

// said is what a client gives a tool.
type said struct {
	Message string `json:"message" jsonschema:"what to say to the agent"`
	Session string `json:"session,omitempty" jsonschema:"id of an earlier answer's session, to go on with that conversation; a new one when it is left out"`
}

// newID makes the id of a protocol's session: random text, and a seal over it that names
// its caller, so that whose it is needs no table.
func (d *Door) newID(key string) string {
	text := rand.Text()
	return text + "-" + d.seal(key, text)
}

func (d *Door) seal(key, text string) string {
	h := hmac.New(sha256.New, d.secret)
	h.Write([]byte(text + " " + key))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// owns reports whether an id is one of the caller's.
func (d *Door) owns(key, id string) bool {
	text, seal, ok := strings.Cut(id, "-")
	return ok && hmac.Equal([]byte(seal), []byte(d.seal(key, text)))
}

// askExtra has what asks for the caller of the request that a call came with.
const askExtra = "ask"

func (d *Door) server(who Caller) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "stile", Version: d.cfg.Version}, &sdk.ServerOptions{GetSessionID: func() string { return d.newID(who.Key) }})
	for _, a := range d.cfg.Agents() {
		if !who.May(a.Name) {
			continue
		}
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
			answer, err := req.Extra.TokenInfo.Extra[askExtra].(Ask)(ctx, c)
			if err != nil {
				return nil, nil, err // a result that says isError
			}
			text := answer.Text
			if answer.Code != "" {
				text = strings.TrimSpace(answer.Code + ": " + answer.Detail + "\n\n" + text)
			}
			return &sdk.CallToolResult{
				Content: []sdk.Content{&sdk.TextContent{Text: text}}, StructuredContent: answer, IsError: answer.Code != "",
			}, nil, nil
		})
	}
	return s
}
