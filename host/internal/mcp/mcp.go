// Package mcp offers agents as tools over the Model Context Protocol (streamable HTTP):
// a client that knows tools can talk to agents.
//
// One idea: a tool's call is a submit, its result is how the run ended. What the tool
// needs of the host is one function, bound to the caller of the protocol's session.
//
// What holds:
//   - A session of the protocol belongs to the caller who began it; to others it does
//     not exist.
//   - Progress is told as the text grows, behind a first note with session and run; the
//     result is what the journal has.
//   - A stream that breaks is resumed without a gap or a repeat, as long as its events are
//     kept. An answer whose events are gone is asked for again, by session and run.
//   - A call that is cancelled cancels its run, and so does the end of the protocol's session.
//   - A call that waits for approval is shown to the person at the client, where the client can
//     do that and its token may approve. A tool could not do it: models call tools.
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

// Config says what is offered.
type Config struct {
	Agents  func() []Agent
	Version string
	// Caller identifies the caller of a request.
	Caller func(*http.Request) Caller
	// Home is what the ids of this host's sessions begin with, behind which hosts that share a
	// journal find the one that has a session; "" for nothing. It has letters and digits alone.
	Home string
	// Full refuses a request for a further session; what names what has none left.
	Full func(w http.ResponseWriter, r *http.Request, what string)
}

// Caller is who makes a request.
type Caller struct {
	Key     string // that no other caller has, without blanks
	Tenant  string
	May     func(agent string) bool // use it; to who may not there is none
	Approve bool                    // may answer calls that wait for approval
	Ask     Ask                     // for the caller
}

// Door is the handler. Its methods are safe for concurrent use.
type Door struct {
	cfg     Config
	handler http.Handler
	secret  []byte // of the seals in ids
	events  *events

	mu       sync.Mutex
	callers  map[string]*caller    // of those with a session
	tenants  map[string]int        // sessions, by tenant
	sessions int                   // of all
	streams  map[string]*answering // requests that streams are sent to, by session and stream
	calls    map[string]calls      // of tools, under way, by session
	closed   bool
}

// caller is one that has sessions, or begins one.
type caller struct {
	server   *sdk.Server
	sessions int // beginning ones too
}

// New makes a door.
func New(cfg Config) *Door {
	d := &Door{
		cfg: cfg, callers: map[string]*caller{}, tenants: map[string]int{}, secret: []byte(rand.Text()), events: newEvents(),
		streams: map[string]*answering{}, calls: map[string]calls{},
	}
	streams := sdk.NewStreamableHTTPHandler(d.serverOf, &sdk.StreamableHTTPOptions{
		EventStore: d.events, SessionTimeout: idle, DisableLocalhostProtection: true, PropagateRequestCancellation: true,
		MaxRequestBodyBytes: -1, // the host has read the body, within its own bound
	})
	// The SDK binds a session to the user of its token. The key stands for that user,
	// also on a host without tokens.
	d.handler = auth.RequireBearerToken(func(_ context.Context, key string, r *http.Request) (*auth.TokenInfo, error) {
		return &auth.TokenInfo{UserID: key, Extra: map[string]any{callerExtra: cfg.Caller(r)}}, nil
	}, &auth.RequireBearerTokenOptions{AllowMissingExpiration: true})(streams)
	return d
}

// The headers of the protocol. A request without a session begins one; the last event is that of
// a stream to be resumed.
const (
	SessionHeader   = "Mcp-Session-Id"
	lastEventHeader = "Last-Event-ID"
)

// ServeHTTP implements http.Handler.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	who := d.cfg.Caller(r)
	id := r.Header.Get(SessionHeader)
	mine := id != "" && d.owns(who.Key, id)
	var sent messagesOf
	if r.Method == http.MethodPost {
		var err error
		if sent, err = readMessages(r); err != nil {
			refuse(w, http.StatusRequestEntityTooLarge, nil, codeInvalid, "the body is too long, or did not arrive whole")
			return
		}
		switch {
		case id == "" && !sent.begin(r):
			refuse(w, http.StatusBadRequest, sent.call(), codeInvalid, "a session begins with initialize, and later requests have its Mcp-Session-Id")
			return
		case sent.answers() && !who.Approve:
			refuse(w, http.StatusForbidden, nil, codeInvalid, "the host asks about calls that wait for approval: the token lacks the scope approve")
			return
		}
	}
	a := d.answer(r.Context(), w)
	defer a.over()
	known := r.Clone(context.WithValue(a.ctx, tenantKey{}, who.Tenant))
	known.Header.Set("Authorization", "Bearer "+who.Key)
	switch {
	case id != "" && !mine:
		known.Header.Set(SessionHeader, "none") // the SDK answers as of one that never was
	case r.Method == http.MethodDelete && mine:
		d.hangUp(id)
	case r.Method == http.MethodGet && mine:
		// Until the host notices that a connection is gone the SDK takes its stream for one
		// that is being read.
		if stream, _, ok := strings.Cut(r.Header.Get(lastEventHeader), "_"); ok {
			a.claim(id, stream)
		}
	}
	out := &worded{ResponseWriter: w, sent: sent}
	defer out.end()
	if r.Method != http.MethodPost || id != "" {
		d.handler.ServeHTTP(out, known)
		return
	}
	server, over := d.begin(who)
	if over != "" {
		d.cfg.Full(w, r, over)
		return
	}
	defer func() {
		// The SDK says by its answer whether there is a session, and nothing when it ends.
		if id := w.Header().Get(SessionHeader); id != "" {
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
	d.handler.ServeHTTP(out, known)
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

// newID makes the id of a protocol's session: random text, and a seal over it that names
// its caller, so that whose it is needs no table.
func (d *Door) newID(key string) string {
	text := rand.Text()
	if d.cfg.Home != "" {
		text = d.cfg.Home + homeEnds + text
	}
	return text + "-" + d.seal(key, text)
}

const homeEnds = "."

// HomeOf is the Config.Home of the host whose session an id is; "" where it names none.
func HomeOf(id string) string {
	home, _, named := strings.Cut(id, homeEnds)
	if !named {
		return ""
	}
	return home
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
