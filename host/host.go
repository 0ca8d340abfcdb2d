package host

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host/access"
	"github.com/seed14be6753/stile/host/internal/conns"
	"github.com/seed14be6753/stile/host/internal/page"
	"github.com/seed14be6753/stile/internal/files"
	"github.com/seed14be6753/stile/internal/webhook"
	"github.com/seed14be6753/stile/messages"
)

// Bounds of the door.
const (
	maxBody       = 1 << 20  // bytes
	maxPartsBody  = 12 << 20 // of a message: stile.MaxPartsBytes in base64, and its text
	maxHeader     = 64 << 10
	headerTimeout = 10 * time.Second
	bodyTimeout   = 30 * time.Second
	writeTimeout  = 30 * time.Second // of an answer, and of each write of a stream
	keepAlive     = 2 * time.Minute  // of an idle connection
	heartbeat     = 15 * time.Second
)

// DefaultMaxStreams bounds the streams that are open at once.
const DefaultMaxStreams = 20000

// DefaultMaxConnections bounds the connections that are served at once.
const DefaultMaxConnections = 32768

// Config says what to serve.
type Config struct {
	// Runtime runs the sessions. It stays the caller's to close, after Serve.
	Runtime *stile.Runtime
	// Agents are offered, by the name in their manifest, to new sessions. Give them to
	// the runtime as well (stile.Config.Agents), so that their sessions go on after a
	// restart.
	Agents []*stile.Agent
	// Hosts are names under which the host is reached, beside those of loopback.
	Hosts []string
	// Origins are those of pages on other hosts that may use this one, such as
	// https://app.example.com.
	Origins []string
	// Access identifies the bearer of a token. Without it every caller is the local user, and the
	// door listens on loopback alone.
	Access access.Authenticator
	// LocalUser is who every caller is without Access, as tenant:user; "" is local:local.
	LocalUser string
	// Certificate has the host speak TLS, 1.2 or later, and HTTP/2 with who can; nil is
	// plain HTTP.
	Certificate *Certificate
	// MayUse names the agents that tenants may use, by tenant; "*" among tenants stands for
	// each that is not named, and among agents for all. nil lets every tenant use all;
	// once something is said, a tenant without a word has none. To a tenant there are no
	// other agents than its own.
	MayUse map[string][]string
	// Limits bound each tenant, TenantLimits those that are named otherwise.
	Limits       Limits
	TenantLimits map[string]Limits
	// UsageFile keeps what tenants used today over a restart; "" forgets it. A host of a cluster
	// ignores it: what all hosts use is in their database.
	UsageFile string
	// Webhooks are told of ends of runs and of calls that wait for approval while Serve runs, and
	// of what happened meanwhile at the next start, if WebhookFile names the file that keeps how far
	// they were told; "" forgets it.
	Webhooks    []Webhook
	WebhookFile string
	// Audit gets a line of JSON for each request that changes something, or exports:
	// who, what, when and with what result, and the hash of the line before. While it does
	// not take one, such requests are refused. See AuditFile.
	Audit io.Writer
	// Retention deletes sessions that have said nothing for so long; 0 keeps them.
	Retention time.Duration
	// ChatRetention deletes conversations that clients of OpenAI began without a session, when
	// they have said nothing for so long; 0 is DefaultChatRetention, less keeps them.
	ChatRetention time.Duration
	// ChatSessions bounds these conversations of a tenant: when there are more, the oldest are
	// deleted. 0 is DefaultChatSessions. They do not count in Limits.Sessions.
	ChatSessions int
	// ChatUserSession has the member user of such a client's request name a session, as
	// X-Stile-Session does; otherwise it is passed over.
	ChatUserSession bool
	// MaxRuns bounds the runs of all tenants in flight; 0 is DefaultMaxRuns. Of what is
	// free no tenant gets so much that nothing is left for another.
	MaxRuns int
	// MaxStreams bounds the streams that are open at once; 0 is DefaultMaxStreams.
	MaxStreams int
	// MaxConnections bounds the connections that are served at once, 0 is
	// DefaultMaxConnections; further ones wait to be taken, or take the place of one that
	// has shown no token.
	MaxConnections int
	// WrongTokens is how many wrong tokens an address may show in ten seconds before their
	// answers wait; 0 is DefaultWrongTokens. Behind a proxy all callers have one address.
	WrongTokens int
	// Reload reads the settings of the program again and calls Server.Reload, for POST /v1/reload; it
	// returns what has changed. nil refuses such requests.
	Reload func(context.Context) (changes []string, err error)
	// ClusterSecret is what the hosts of a cluster (stile.Config.Cluster) share, at least 32 bytes,
	// and ClusterListener where this one listens for the others while Serve runs, which closes it.
	// Without a cluster both are ignored.
	ClusterSecret   []byte
	ClusterListener net.Listener
	// OldClusterSecrets are believed as well, while the hosts change the secret.
	OldClusterSecrets [][]byte
	// ClusterSpread has new sessions begin at the host of the cluster that has less to do;
	// otherwise they begin here.
	ClusterSpread bool
	// Version is what the host says of itself.
	Version string
	// Log gets what operators want to know; nil is silent.
	Log *zap.Logger
}

// Server is the door. Its methods are safe for concurrent use.
type Server struct {
	cfg     Config
	rt      *stile.Runtime
	log     *zap.Logger
	access  *zap.Logger
	offer   atomic.Pointer[offer]
	mux     *http.ServeMux // the routes; handler stands in front of them
	handler http.Handler
	scopes  map[string]access.Scope // what routes ask for, by pattern of the mux
	api     huma.API
	now     func() time.Time // in a cluster by the clock on which its hosts agree
	meter   *meter
	shares  *shared // nil without a cluster
	hooks   *webhook.Sender
	names   map[string]string // of operations, by pattern of the mux
	maxRuns int

	rotating  sync.Mutex // held by rotateKeys
	reloading sync.Mutex // held by Reload

	auditing   sync.Mutex
	ledger     *ledger      // nil where no audit log is kept
	unrecorded []AuditEntry // what the audit log did not take, oldest first

	local     access.Identity // of callers who need not show a token
	used      func() memory
	ring      func(time.Duration, func()) alarm
	erased    erasures
	wrong     *conns.WrongTokens
	beginning sync.Map       // SIDs of sessions that a request is making
	calls     calls          // of clients that may repeat them
	trimming  sync.Map       // tenants whose ephemeral sessions are looked through
	cluster   *cluster       // nil without one
	tasks     sync.WaitGroup // what no request waits for, and the sockets, which the HTTP server does not know of
	streams   chan struct{}  // a place for each open stream
	draining  atomic.Bool    // no work is taken any more
	follow    atomic.Int64   // open streams that end with a run
	leaving   context.Context
	leave     context.CancelCauseFunc
}

// errLeaving ends streams when the host stops.
var errLeaving = errors.New("host: the host is stopping")

// New makes a server. Errors are ERR_CONFIG: an agent without a name, two of one name,
// a manifest that the runtime cannot run, an invalid setting.
func New(cfg Config) (_ *Server, err error) {
	s := &Server{
		cfg: cfg, rt: cfg.Runtime, log: cfg.Log, scopes: map[string]access.Scope{}, names: map[string]string{}, maxRuns: cmp.Or(cfg.MaxRuns, DefaultMaxRuns),
		streams: make(chan struct{}, cmp.Or(cfg.MaxStreams, DefaultMaxStreams)), used: readMemory, ring: ring, wrong: conns.NewWrongTokens(cmp.Or(cfg.WrongTokens, DefaultWrongTokens)),
	}
	s.now = time.Now
	if cfg.Runtime.Clustered() {
		s.now = cfg.Runtime.ClusterTime // hosts agree which day it is
		cfg.UsageFile = ""              // what is used is in the database
	}
	if s.meter, err = newMeter(s.now, cfg.UsageFile); err != nil {
		return nil, err
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if s.local, err = cfg.localUser(); err != nil {
		return nil, err
	}
	offered, err := newOffer(Offer{Agents: cfg.Agents, MayUse: cfg.MayUse, Limits: cfg.Limits, TenantLimits: cfg.TenantLimits, Hosts: cfg.Hosts, Origins: cfg.Origins, Webhooks: cfg.Webhooks})
	if err != nil {
		return nil, err
	}
	s.offer.Store(offered)
	if cfg.Access != nil && !cfg.Runtime.Shared() {
		return nil, &messages.Error{Code: messages.ErrConfig, Field: "access", Detail: "the runtime of a host that tells callers apart is made with Config.Shared, so that they share no folder by accident"}
	}
	if cfg.Audit != nil {
		if s.ledger, err = newLedger(cfg.Audit); err != nil {
			return nil, &messages.Error{Code: messages.ErrConfig, Field: "audit_log", Detail: "cannot be written", Cause: files.Cause(err)}
		}
	}
	s.leaving, s.leave = context.WithCancelCause(context.Background())
	if s.log == nil {
		s.log = zap.NewNop()
	}
	if table := s.rt.Shares(); table != nil {
		s.shares = newShared(s.meter, table, s.limitsAt, s.log)
		l := s.rt.Spending()
		s.meter.users = l.UserTokensPerDay > 0 || l.UserCostPerDay > 0
	}
	if err := s.newHooks(); err != nil {
		return nil, err
	}
	if s.cluster, err = s.newCluster(); err != nil {
		return nil, err
	}
	s.rt.Observe(s.meter.observe)
	s.access = accessLog(s.log)
	s.mux = http.NewServeMux()
	s.routes(s.mux)
	s.handler = s.guard(s.mux)
	s.rt.SayLoad(s.load)
	if s.cluster != nil {
		s.rt.CancelsChildrenAt(s.cluster.cancelChildAt)
		s.rt.SubmitsToChildrenAt(s.cluster.submitToChildAt)
	}
	return s, nil
}

// localUser is the caller of a host that does not authenticate.
func (c *Config) localUser() (access.Identity, error) {
	id := access.Local()
	if c.LocalUser == "" {
		return id, nil
	}
	tenant, user, _ := strings.Cut(c.LocalUser, ":")
	if err := (messages.SessionKey{Tenant: tenant, User: user, ID: "x"}).Validate(); err != nil || c.Access != nil {
		return id, &messages.Error{Code: messages.ErrConfig, Field: "local_user", Detail: "is tenant:user, of a host whose callers show no tokens"}
	}
	id.Tenant, id.User = tenant, user
	return id, nil
}

// check finds what could not be meant: above all names that no request can have, and
// that would be found out by users who are refused.
func (c *Config) check() error {
	if c.ChatSessions < 0 {
		return &messages.Error{Code: messages.ErrConfig, Field: "chat_sessions", Detail: "is not negative; 0 is " + strconv.Itoa(DefaultChatSessions)}
	}
	if c.WrongTokens < 0 {
		return &messages.Error{Code: messages.ErrConfig, Field: "wrong_tokens", Detail: "is not negative; 0 is " + strconv.Itoa(DefaultWrongTokens)}
	}
	if err := c.Limits.check("limits"); err != nil {
		return err
	}
	for name, l := range c.TenantLimits {
		if err := l.check("tenants." + name); err != nil {
			return err
		}
	}
	if err := webhook.Check(hooksOf(c.Webhooks)); err != nil {
		return err
	}
	for _, h := range c.Hosts {
		if _, err := netip.ParseAddr(h); err != nil && (h == "" || strings.ContainsAny(h, "/:*@[] \t")) {
			return &messages.Error{Code: messages.ErrConfig, Field: "hosts", Detail: strconv.Quote(h) + " is no name; want one such as stile.example.com, without scheme and port"}
		}
	}
	for _, o := range c.Origins {
		u, err := url.Parse(o)
		if err != nil || u.Hostname() == "" || strings.Contains(u.Host, "*") || !strings.EqualFold(strings.TrimSuffix(o, "/"), u.Scheme+"://"+u.Host) {
			return &messages.Error{Code: messages.ErrConfig, Field: "origins", Detail: strconv.Quote(o) + " is no origin; want one such as https://app.example.com"}
		}
	}
	return nil
}

// Handler is the door without its listener, for programs that have a server.
func (s *Server) Handler() http.Handler { return s.handler }

// OpenAPI is the description of the routes, as JSON.
func (s *Server) OpenAPI() ([]byte, error) { return s.api.OpenAPI().MarshalJSON() }

// Listen opens the address for a host that does not authenticate.
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	return Config{}.Listen(ctx, addr)
}

// Listen opens the address. One that other machines can reach is ERR_CONFIG unless
// callers authenticate; so is an invalid setting.
func (c Config) Listen(ctx context.Context, addr string) (net.Listener, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, &messages.Error{Code: messages.ErrConfig, Field: "listen", Detail: strconv.Quote(addr) + " is no address; want one such as 127.0.0.1:8471"}
	}
	if c.Access == nil && !Loopback(addr) {
		return nil, exposed(addr)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, &messages.Error{Code: messages.ErrConfig, Field: "listen", Detail: "cannot listen on " + addr, Cause: err}
	}
	return l, nil
}

func exposed(addr string) error {
	return &messages.Error{
		Code: messages.ErrConfig, Field: "listen",
		Detail: addr + " can be reached from other machines, and this host does not authenticate: listen on 127.0.0.1 or [::1], or have callers show tokens (stile tokens create)",
	}
}

// Serve answers on l until ctx ends. Then it takes no work any more: submits are
// refused, and it is not ready. Turns in flight have grace to end, and who follows them
// sees their end; then streams are told, no connection is taken, and requests have five
// seconds to end. What comes after that is the runtime's Close, the journal last. A *LeftError
// says that turns were left in flight, for the next start to settle.
func (s *Server) Serve(ctx context.Context, l net.Listener, grace time.Duration) error {
	if addr, ok := l.Addr().(*net.TCPAddr); ok && s.cfg.Access == nil && !addr.IP.IsLoopback() {
		return exposed(addr.String())
	}
	srv := &http.Server{
		Handler: s.handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: bodyTimeout, IdleTimeout: keepAlive, MaxHeaderBytes: maxHeader,
		ErrorLog: zap.NewStdLog(s.log.Named("http")), ConnContext: conns.WithConn,
	}
	l = conns.Listen(l, conns.Bounds{Most: cmp.Or(s.cfg.MaxConnections, DefaultMaxConnections), Fair: fairness, Plain: s.cfg.Certificate == nil})
	defer s.beats()()
	s.tellHead()
	defer s.tellHead()
	defer s.retain()()
	defer s.tellHooks()()
	defer s.shares.run()()
	if s.cluster != nil {
		stop := s.cluster.listen()
		defer func() {
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastRequests)
			defer cancel()
			stop(end)
		}()
	}
	failed := make(chan error, 1)
	go func() {
		if s.cfg.Certificate != nil {
			srv.TLSConfig = s.cfg.Certificate.config(s.log)
			failed <- srv.ServeTLS(l, "", "")
			return
		}
		failed <- srv.Serve(l)
	}()
	select {
	case err := <-failed:
		s.leave(errLeaving)
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	left := s.drain(end)
	s.leave(errLeaving)
	end, cancel = context.WithTimeout(context.WithoutCancel(ctx), lastRequests)
	defer cancel()
	err := errors.Join(srv.Shutdown(end), s.settle(end))
	if err != nil {
		err = errors.Join(err, srv.Close())
	}
	if end.Err() != nil { // what the requests were about is settled, or left
		s.log.Warn("requests were cut: their clients had not read to the end", zap.Error(err))
		err = nil
	}
	if served := <-failed; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return errors.Join(left, err)
}

// routes registers all of /v1 with the framework that describes it, and beside it what
// needs no description.
func (s *Server) routes(mux *http.ServeMux) {
	cfg := huma.DefaultConfig("stile", cmp.Or(s.cfg.Version, "0"))
	cfg.OpenAPIPath, cfg.DocsPath, cfg.SchemasPath = "/openapi", "", ""
	cfg.CreateHooks = nil // no $schema members: bodies are what the records are
	cfg.RejectUnknownQueryParameters = true
	cfg.Transformers = []huma.Transformer{translate}
	cfg.Info.Description = "Sessions of language-model agents: one turn in flight each, every turn ended by one decision that is verified, journaled and replayable."
	schemes(&cfg)
	cfg.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", nameSchema)
	s.api = humago.New(mux, cfg)
	s.require(public, "GET /openapi.json", "GET /openapi.yaml", "GET /openapi-3.0.json", "GET /openapi-3.0.yaml", "GET /healthz", "GET /readyz", "/")
	s.require(access.Metrics, "GET /metrics")
	s.agentRoutes()
	s.sessionRoutes()
	s.runRoutes()
	s.promptRoutes()
	s.approvalRoutes()
	s.streamRoutes()
	s.feedRoutes()
	s.chatRoutes(mux)
	s.responseRoutes(mux)
	s.toolRoutes(mux)
	s.resourceRoutes(mux)
	s.require(public, page.Register(mux, s.noPath)...)
	s.usageRoutes()
	s.healthRoutes()
	s.reloadRoutes()
	s.tokenRoutes()
	s.auditRoutes()
	s.webhookRoutes()
	s.lifecycleRoutes()
	s.describeRest()
	mux.HandleFunc("GET /healthz", s.healthy)
	mux.HandleFunc("GET /readyz", s.ready)
	mux.Handle("GET /metrics", s.rt.Metrics().Handler())
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if methods := methodsAt(mux, r); methods != nil {
			w.Header().Set("Allow", strings.Join(methods, ", "))
			s.refuse(w, r, refusal(http.StatusMethodNotAllowed, messages.ErrInvalid, "method", "method "+r.Method+" not allowed"))
			return
		}
		s.noPath(w, r)
	})
}

func (s *Server) noPath(w http.ResponseWriter, r *http.Request) { s.refuse(w, r, noSuchPath(r)) }

// methodsAt lists the methods that the path of a request has an operation for. The mux
// answers 405 by itself only where nothing matches all paths.
func methodsAt(mux *http.ServeMux, r *http.Request) (methods []string) {
	for _, m := range []string{http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPatch, http.MethodPost, http.MethodPut} {
		other := *r
		other.Method = m
		if _, pattern := mux.Handler(&other); pattern != "/" {
			methods = append(methods, m)
		}
	}
	return methods
}

// statusHungUp is what logs have for a request whose client is gone. It is never seen.
const statusHungUp = 499

// route registers one operation. Its errors are Problems.
func route[I, O any](s *Server, op huma.Operation, handle func(context.Context, *I) (*O, error)) {
	op.MaxBodyBytes = bodyOf(op.Method + " " + op.Path)
	s.secure(&op)
	s.nameRefusals(&op, "")
	s.names[op.Method+" "+op.Path] = op.OperationID
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := handle(ctx, in)
		if err != nil {
			err = orLost(ctx, err)
			p := problemOf(err)
			if ctx.Err() != nil && errors.Is(err, context.Canceled) { // the client hung up, and nothing failed
				p = refusal(statusHungUp, messages.ErrCancelled, "", "the client ended the request")
			}
			if p.Status >= http.StatusInternalServerError && p.Code != string(messages.ErrBusy) && p.Code != string(messages.ErrAudit) { // load that is shed is no failure, and the audit log has told its own
				s.log.Error("a request failed", zap.String("operation", op.OperationID), zap.Error(err))
			}
			s.refused(ctx, p)
			return nil, p
		}
		return out, nil
	})
}

func get(id, path, summary string, tags ...string) huma.Operation {
	return huma.Operation{OperationID: id, Method: http.MethodGet, Path: path, Summary: summary, Tags: tags}
}

func post(id, path, summary string, status int, tags ...string) huma.Operation {
	return huma.Operation{OperationID: id, Method: http.MethodPost, Path: path, Summary: summary, DefaultStatus: status, Tags: tags}
}

// healthy reports whether the process answers.
func (s *Server) healthy(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok\n"))
}

// ready reports whether work is taken: the host is not stopping, what was open at the start
// has been taken up, and the journal answers and takes what is appended.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	err := s.leaving.Err()
	if err == nil {
		err = s.taking()
	}
	if err == nil && s.rt.Draining() {
		err = errLeaving
	}
	if err == nil {
		err = s.recordable()
	}
	if err == nil {
		_, err = s.rt.Booted(ctx)
	}
	if err == nil {
		for _, err = range s.rt.Archive().Sessions(ctx, "") {
			break
		}
	}
	if err == nil && !s.rt.ReadOnly() {
		if err = s.rt.Writable(ctx); err != nil {
			write(w, unwritable(err))
			return
		}
	}
	if err != nil {
		p := refusal(http.StatusServiceUnavailable, messages.ErrBusy, "", "the host is starting, stopping, or its journal does not answer")
		write(w, p)
		return
	}
	s.healthy(w, r)
}

// unwritable says that the journal takes nothing. Anybody may ask whether the host is
// ready, so that the failure's own words, which may name a file, stay in the log.
func unwritable(err error) *problem {
	p := refusal(http.StatusServiceUnavailable, messages.ErrJournal, "", "the journal cannot be appended to")
	if e := (*messages.Error)(nil); errors.As(err, &e) {
		p.Reason = e.Reason
	}
	return p
}

// agentView is an agent that new sessions may have.
type agentView struct {
	Name    string `json:"name"`
	Dialect string `json:"dialect"`
	Summary string `json:"summary,omitempty"`
}

type agentList struct {
	Agents   []agentView `json:"agents"`
	ReadOnly bool        `json:"read_only,omitempty" doc:"the host only shows its journal: requests that would change something are refused"`
}

// answered is an operation's JSON body.
type answered[T any] struct {
	Body T
}

func (s *Server) agentRoutes() {
	route(s, get("list-agents", "/v1/agents", "The agents that new sessions may have", "agents"), func(ctx context.Context, _ *struct{}) (*answered[agentList], error) {
		var out answered[agentList]
		out.Body.Agents, out.Body.ReadOnly = []agentView{}, s.rt.ReadOnly()
		offered := s.offer.Load().agents
		for _, name := range s.offers(s.principal(ctx).tenant) {
			m := offered[name].Manifest
			out.Body.Agents = append(out.Body.Agents, agentView{Name: name, Dialect: m.Dialect, Summary: m.Summary})
		}
		return &out, nil
	})
}
