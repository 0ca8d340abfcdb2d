package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed14be6753/stile/internal/confine"
	"github.com/seed14be6753/stile/messages"
	"github.com/seed14be6753/stile/tools/internal/address"
)

// Config describes a server and how to reach it: by Command or URL.
type Config struct {
	Name string // for errors

	// Command is a program and its arguments; the server uses its standard streams.
	Command []string
	Dir     string            // its working directory
	Env     map[string]string // beside the minimal environment of confine.Server
	Memory  int64             // Memory, CPU and Files: 0 is the default of confine.Server
	CPU     time.Duration
	Files   int64
	Reach   *confine.Reach // what the program may reach; nil is what the host's user reaches

	// URL is a streamable HTTP server. The author of the manifest is trusted with it, as
	// with the address of a model: it may be on this machine or in a private network.
	URL    string
	Header string // has the secret as its value; "" is Authorization with a bearer token

	// Secrets names variables of the host's environment. A program gets them under their
	// names; a URL has at most one.
	Secrets []string

	Connect  time.Duration // how long making a connection may take; 0 is 30 s
	MaxBytes int64         // of one result; 0 is 1 MiB
}

// Bounds of what a server sends, and of connection attempts.
const (
	DefaultConnect  = 30 * time.Second
	DefaultMaxBytes = 1 << 20

	maxMessageBytes = 16 << 20 // one message; the connection ends with a longer one
	firstBackOff    = 200 * time.Millisecond
	longestBackOff  = 30 * time.Second
	stopGrace       = time.Second // of a program whose standard input was closed
)

// Options configure a Pool.
type Options struct {
	// Secret looks up a variable of the host's environment.
	Secret func(name string) (string, bool)
	// Notice is called when a connection was made or lost, with a text for the operator; may
	// be nil.
	Notice func(server, text string)
	// Changed is called when tools of a server have changed since the last list, of this
	// host process or of the one before; may be nil. It is called on any goroutine.
	Changed func(server string, changes []Change)
	// Known and Remember load and store the digests of a server's tools, to keep them over
	// restarts; may be nil. Known returns nil for a server that was not seen before.
	Known    func(ctx context.Context, server string) map[string]string
	Remember func(ctx context.Context, server string, digests map[string]string)
}

// Pool has the connections of a host. It is safe for concurrent use.
type Pool struct {
	opts   Options
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu      sync.Mutex
	servers map[string]*Server // by what is equal in their Configs
	closed  bool
	// Servers of one user, tenant or session, and how many each tenant has.
	apart    map[string]*apart
	ofTenant map[string]int
	over     []*apart // to be ended
}

// NewPool returns a pool without connections.
func NewPool(opts Options) *Pool {
	p := &Pool{opts: opts, servers: map[string]*Server{}, apart: map[string]*apart{}, ofTenant: map[string]int{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Server returns the server of a Config; a new one is not connected yet.
func (p *Pool) Server(cfg Config) (*Server, error) {
	made, err := p.server(cfg)
	if err != nil {
		return nil, err
	}
	key, err := json.Marshal(made.cfg)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed()
	}
	s := p.servers[string(key)]
	if s == nil {
		s = made
		p.servers[string(key)] = s
	}
	return s, nil
}

// server makes a new server of a Config.
func (p *Pool) server(cfg Config) (*Server, error) {
	if (len(cfg.Command) == 0) == (cfg.URL == "") {
		return nil, &messages.Error{Code: messages.ErrConfig, Detail: "a server is a command or a url"}
	}
	if cfg.URL != "" && len(cfg.Secrets) > 1 {
		return nil, &messages.Error{Code: messages.ErrConfig, Field: "secrets", Detail: "a url has one secret at most"}
	}
	if cfg.Connect <= 0 {
		cfg.Connect = DefaultConnect
	}
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = DefaultMaxBytes
	}
	s := &Server{cfg: cfg, pool: p}
	s.open = s.transport
	return s, nil
}

func errClosed() error {
	return messages.Errorf(messages.ErrCancelled, "the connections to MCP servers are closed")
}

// Close ends all connections and their programs, and returns when they have ended.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	for _, a := range p.apart {
		if a.idle != nil {
			a.idle.Stop()
		}
	}
	p.mu.Unlock()
	p.cancel()
	p.work.Wait()
	return nil
}

// begin counts work that Close waits for; it returns false after Close.
func (p *Pool) begin() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.work.Add(1)
	}
	return !p.closed
}

// Server is one MCP server. It is safe for concurrent use.
type Server struct {
	cfg  Config
	pool *Pool
	open func(secrets []string) (sdk.Transport, func(grace time.Duration) ending, error)

	mu       sync.Mutex
	live     *connection
	dialing  *dial
	failures int                 // connections lost or not made since a call was answered
	notUntil time.Time           // when the next connection may be tried
	changes  int64               // how often the list of tools may have changed
	offered  *offer              // the last list; nil before the first
	renewing bool                // the list is being asked for again
	watched  map[string]*partial // calls whose progress is shown, by the tokens made for them
	watches  int64
	own      bool // made by Apart: of one user, tenant or session
	ended    bool // no new connections
}

// connection is a connection to a server, with the session of the SDK.
type connection struct {
	session *sdk.ClientSession
	secrets []string
	ctx     context.Context // of its calls
	cancel  context.CancelFunc
	calls   int           // under way, under the server's mu
	dropped bool          // no further calls: it ends with the last of them
	done    chan struct{} // closed when the connection has ended
	ended   string        // why it has ended
}

// ending is how a connection ended, for callers, and what its program wrote to its standard
// error, or else to its standard output beside messages, for the operator.
type ending struct{ how, output string }

// String joins them.
func (e ending) String() string {
	if e.output == "" {
		return e.how
	}
	return e.how + ": " + e.output
}

// dial is an attempt to connect, for all callers that wait for it.
type dial struct {
	done chan struct{}
	err  error
}

// connect returns the connection, and makes one if there is none, after the back-off for the
// failures before. The caller must release it. The error is a *messages.Error, or the cause
// of ctx.
func (s *Server) connect(ctx context.Context) (*connection, error) {
	for {
		s.mu.Lock()
		if c := s.live; c != nil {
			c.calls++
			s.mu.Unlock()
			return c, nil
		}
		d := s.dialing
		if d == nil {
			if !s.pool.begin() {
				s.mu.Unlock()
				return nil, errClosed()
			}
			d = &dial{done: make(chan struct{})}
			s.dialing = d
			go s.dial(d, time.Until(s.notUntil))
		}
		s.mu.Unlock()
		select {
		case <-d.done:
			if d.err != nil {
				return nil, d.err
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// release ends a use of a connection.
func (s *Server) release(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.calls--; c.calls == 0 && c.dropped {
		c.cancel()
	}
}

// dial makes a connection and waits for its end.
func (s *Server) dial(d *dial, wait time.Duration) {
	defer s.pool.work.Done()
	ctx := s.pool.ctx
	if wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	c, stop, err := s.dialOnce(ctx)
	s.mu.Lock()
	s.dialing = nil
	d.err = err
	if err != nil {
		s.failed()
	} else {
		s.live = c
		s.changes++  // its tools may have changed
		if s.ended { // no caller is left
			s.live = nil
			c.cancel()
		}
		s.renew()
	}
	s.mu.Unlock()
	close(d.done)
	if err != nil {
		s.notice("no connection: " + err.Error())
		return
	}
	s.notice("connected")
	waited := make(chan struct{})
	go func() {
		_ = c.session.Wait()
		close(waited)
	}()
	select {
	case <-waited:
	case <-c.ctx.Done():
	}
	s.drop(c)
	c.cancel() // closing waits for calls
	closed := make(chan struct{})
	go func() {
		_ = c.session.Close()
		close(closed)
	}()
	end := stop(stopGrace)
	<-closed
	<-waited
	s.mu.Lock()
	c.ended = end.how
	wanted := !s.ended
	s.mu.Unlock()
	close(c.done)
	if ctx.Err() == nil && wanted {
		s.notice("connection lost: " + redact(end.String(), c.secrets))
	}
}

// drop takes a connection out of use. Calls under way may still be answered, because requests
// over HTTP are independent.
func (s *Server) drop(c *connection) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live == c {
		s.live = nil
		s.failed()
	}
	c.dropped = true
	if c.calls == 0 {
		c.cancel()
	}
}

// failed delays the next connection. s.mu is held.
func (s *Server) failed() {
	wait := min(firstBackOff<<min(s.failures, 16), longestBackOff)
	s.failures++
	s.notUntil = time.Now().Add(wait)
}

// answered ends the back-off.
func (s *Server) answered() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = 0
}

// unreached is the error of a connection that could not be made. Its text is for the
// operator; told, for models, leaves out what a program wrote to its standard error.
type unreached struct {
	err  *messages.Error
	told string
}

// Error implements error, and Unwrap returns the error with its code.
func (u *unreached) Error() string { return u.err.Error() }
func (u *unreached) Unwrap() error { return u.err }

func (s *Server) dialOnce(ctx context.Context) (*connection, func(time.Duration) ending, error) {
	fail := func(err error, output string, secrets []string) error {
		words := func(text string) string {
			return "the MCP server " + s.cfg.Name + " cannot be reached: " + redact(excerpt(text), secrets)
		}
		why := address.Hidden(err)
		e := &messages.Error{Code: messages.ErrConfig, Reason: reasonUnreachable, Detail: words(ending{why, output}.String())}
		var own *messages.Error
		if errors.As(err, &own) {
			e.Reason, e.Field, e.Detail = own.Reason, own.Field, own.Detail
			return e
		}
		return &unreached{e, words(why)}
	}
	if ctx.Err() != nil {
		return nil, nil, errClosed()
	}
	secrets, err := s.secrets()
	if err != nil {
		return nil, nil, err
	}
	t, stop, err := s.open(secrets)
	if err != nil {
		return nil, nil, fail(err, "", secrets)
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Connect)
	defer cancel()
	client := sdk.NewClient(&sdk.Implementation{Name: "stile", Version: "1"}, &sdk.ClientOptions{
		Capabilities:                &sdk.ClientCapabilities{},
		ProgressNotificationHandler: s.progress,
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.changes++
			s.renew()
		},
	})
	session, err := client.Connect(ctx, t, nil)
	if err != nil {
		end := stop(0)
		if ctx.Err() != nil {
			err = fmt.Errorf("it took more than %s", s.cfg.Connect)
		}
		if len(s.cfg.Command) > 0 {
			err = fmt.Errorf("%s: %s", address.Hidden(err), end.how)
		}
		return nil, nil, fail(err, end.output, secrets)
	}
	c := &connection{session: session, secrets: secrets, done: make(chan struct{})}
	c.ctx, c.cancel = context.WithCancel(s.pool.ctx)
	return c, stop, nil
}

const reasonUnreachable = "MCP_UNREACHABLE"

// Unreachable reports whether err, of this package, means that a server could not be reached
// or gave no list of tools, so that another try may work.
func Unreachable(err error) bool {
	var e *messages.Error
	return errors.As(err, &e) && e.Reason == reasonUnreachable
}

// secrets reads the secrets of the configuration.
func (s *Server) secrets() ([]string, error) {
	values := make([]string, len(s.cfg.Secrets))
	for i, name := range s.cfg.Secrets {
		v, ok := "", false
		if s.pool.opts.Secret != nil {
			v, ok = s.pool.opts.Secret(name)
		}
		if v = strings.TrimSpace(v); !ok || v == "" {
			return nil, &messages.Error{Code: messages.ErrConfig, Field: "secrets", Detail: name + " is not set"}
		}
		values[i] = v
	}
	return values, nil
}

func (s *Server) notice(text string) {
	if s.pool.opts.Notice != nil {
		s.pool.opts.Notice(s.cfg.Name, text)
	}
}

// transport starts the program, or prepares requests. The function that it returns stops
// what was started, and returns how that ended.
func (s *Server) transport(secrets []string) (sdk.Transport, func(time.Duration) ending, error) {
	if s.cfg.URL != "" {
		client := s.client(secrets)
		return &sdk.StreamableClientTransport{Endpoint: s.cfg.URL, HTTPClient: client, MaxRetries: 1, MaxEventSize: maxMessageBytes},
			func(time.Duration) ending { client.CloseIdleConnections(); return ending{how: "the connection ended"} }, nil
	}
	env := make([]string, 0, len(s.cfg.Env)+len(secrets))
	for name, v := range s.cfg.Env {
		env = append(env, name+"="+v)
	}
	slices.Sort(env)
	for i, name := range s.cfg.Secrets {
		env = append(env, name+"="+secrets[i])
	}
	p, err := confine.Server{
		Dir: s.cfg.Dir, Entrypoint: s.cfg.Command, Env: env, Memory: s.cfg.Memory, CPU: s.cfg.CPU, Files: s.cfg.Files, Reach: s.cfg.Reach,
	}.Start()
	if err != nil {
		return nil, nil, err
	}
	var stray atomic.Pointer[string] // the first
	out := newLines(p.Stdout, func(line []byte) {
		if stray.Load() != nil {
			return
		}
		text := "on its standard output, where messages belong: " + redact(excerpt(string(line[:min(len(line), 4*maxExcerptBytes)])), secrets)
		stray.Store(&text)
		s.notice(text)
	})
	stop := func(grace time.Duration) ending {
		p.Stop(grace)
		end := ending{p.Ended(), p.Output()}
		if text := stray.Load(); text != nil && end.output == "" {
			end.output = *text
		}
		return end
	}
	return &sdk.IOTransport{Reader: out, Writer: timely{p}, MaxLineLength: maxMessageBytes}, stop, nil
}

// timely writes to a program within writeTime. A program that does not read must not block
// its caller for ever.
type timely struct{ p *confine.Process }

// writeTime is how long a program may leave its standard input unread.
const writeTime = 10 * time.Second

// Write implements io.Writer.
func (w timely) Write(b []byte) (int, error) {
	_ = w.p.Stdin.SetWriteDeadline(time.Now().Add(writeTime))
	return w.p.Stdin.Write(b)
}

// Close implements io.Closer.
func (w timely) Close() error { return w.p.Stdin.Close() }

// client returns an HTTP client that sends the secret to the server alone: it follows no
// redirect and keeps no cookies.
func (s *Server) client(secrets []string) *http.Client {
	base := http.DefaultTransport.(*http.Transport).Clone()
	t := &authorized{base: base, header: s.cfg.Header}
	if len(secrets) == 1 {
		t.secret = secrets[0]
	}
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// authorized is a transport that adds the secret to requests and bounds answers.
type authorized struct {
	base   *http.Transport
	header string
	secret string
}

// RoundTrip implements http.RoundTripper.
func (t *authorized) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.secret != "" {
		req = req.Clone(req.Context())
		if t.header == "" {
			req.Header.Set("Authorization", "Bearer "+t.secret)
		} else {
			req.Header.Set(t.header, t.secret)
		}
	}
	resp, err := t.base.RoundTrip(req)
	if err == nil && resp.StatusCode == http.StatusNotFound {
		if missing, ok := req.Context().Value(missingKey{}).(*atomic.Bool); ok {
			missing.Store(true)
		}
	}
	if err == nil && !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") { // events have a bound each
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxMessageBytes)
	}
	return resp, err
}

// CloseIdleConnections closes the idle connections of the transport below.
func (t *authorized) CloseIdleConnections() { t.base.CloseIdleConnections() }
