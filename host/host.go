package host

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"go.uber.org/zap"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/messages"
)

// Bounds of the door.
const (
	maxBody       = 1 << 20 // bytes
	maxHeader     = 64 << 10
	headerTimeout = 10 * time.Second
	bodyTimeout   = 30 * time.Second
	writeTimeout  = 30 * time.Second // of an answer, and of each write of a stream
	keepAlive     = 2 * time.Minute  // of an idle connection
	heartbeat     = 15 * time.Second
)

// DefaultMaxStreams bounds the streams that are open at once.
const DefaultMaxStreams = 20000

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
	// MaxStreams bounds the streams that are open at once; 0 is DefaultMaxStreams.
	MaxStreams int
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
	agents  map[string]*stile.Agent
	hosts   map[string]bool
	origins map[string]bool
	handler http.Handler
	api     huma.API

	streams chan struct{} // a place for each open stream
	leaving context.Context
	leave   context.CancelCauseFunc
}

// errLeaving ends streams when the host stops.
var errLeaving = errors.New("host: the host is stopping")

// New makes a server. Errors are ERR_CONFIG: an agent without a name, two of one name,
// a manifest that the runtime cannot run.
func New(cfg Config) (*Server, error) {
	s := &Server{
		cfg: cfg, rt: cfg.Runtime, log: cfg.Log, agents: map[string]*stile.Agent{},
		hosts: map[string]bool{}, origins: map[string]bool{},
		streams: make(chan struct{}, cmp.Or(cfg.MaxStreams, DefaultMaxStreams)),
	}
	s.leaving, s.leave = context.WithCancelCause(context.Background())
	if s.log == nil {
		s.log = zap.NewNop()
	}
	for _, a := range cfg.Agents {
		name := ""
		if a.Manifest != nil {
			name = a.Manifest.Name
		}
		switch {
		case name == "":
			return nil, &messages.Error{Code: messages.ErrConfig, Field: "agents", Detail: "an agent that is offered needs a name in its manifest"}
		case s.agents[name] != nil:
			return nil, &messages.Error{Code: messages.ErrConfig, Field: "agents", Detail: "two agents are named " + name}
		}
		s.agents[name] = a
	}
	for _, h := range cfg.Hosts {
		s.hosts[strings.ToLower(h)] = true
	}
	for _, o := range cfg.Origins {
		s.origins[strings.ToLower(strings.TrimSuffix(o, "/"))] = true
	}
	mux := http.NewServeMux()
	s.routes(mux)
	s.handler = s.guard(mux)
	return s, nil
}

// Handler is the door without its listener, for programs that have a server.
func (s *Server) Handler() http.Handler { return s.handler }

// OpenAPI is the description of the routes, as JSON.
func (s *Server) OpenAPI() ([]byte, error) { return s.api.OpenAPI().MarshalJSON() }

// Listen opens the address. One that other machines can reach is ERR_CONFIG, because
// the door does not authenticate.
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	if !loopback(addr) {
		return nil, &messages.Error{
			Code: messages.ErrConfig, Field: "listen",
			Detail: addr + " can be reached from other machines, and this host does not authenticate: listen on 127.0.0.1 or [::1], behind a proxy that does",
		}
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, &messages.Error{Code: messages.ErrConfig, Field: "listen", Detail: "cannot listen on " + addr, Cause: err}
	}
	return l, nil
}

// Serve answers on l until ctx ends; then it takes no new connection, tells the
// streams, lets requests end within grace, and returns. Runs go on in the runtime,
// whose Close settles them.
func (s *Server) Serve(ctx context.Context, l net.Listener, grace time.Duration) error {
	srv := &http.Server{
		Handler: s.handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: bodyTimeout, IdleTimeout: keepAlive, MaxHeaderBytes: maxHeader,
		ErrorLog: zap.NewStdLog(s.log.Named("http")),
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	select {
	case err := <-failed:
		s.leave(errLeaving)
		return err
	case <-ctx.Done():
	}
	s.leave(errLeaving)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err := srv.Shutdown(end)
	if err != nil {
		err = errors.Join(err, srv.Close())
	}
	<-failed
	return err
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
	s.api = humago.New(mux, cfg)
	s.agentRoutes()
	s.sessionRoutes()
	s.runRoutes()
	s.approvalRoutes()
	s.streamRoutes()
	mux.HandleFunc("GET /healthz", s.healthy)
	mux.HandleFunc("GET /readyz", s.ready)
	mux.Handle("GET /metrics", s.rt.Metrics().Handler())
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		write(w, refusal(http.StatusNotFound, messages.ErrConfig, "path", "there is nothing here"))
	})
}

// route registers one operation. Its errors are Problems.
func route[I, O any](s *Server, op huma.Operation, handle func(context.Context, *I) (*O, error)) {
	schema := s.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[Problem](), true, "Problem")
	if op.Responses == nil {
		op.Responses = map[string]*huma.Response{}
	}
	op.Responses["default"] = &huma.Response{Description: "A problem", Content: map[string]*huma.MediaType{"application/problem+json": {Schema: schema}}}
	op.MaxBodyBytes = maxBody
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := handle(ctx, in)
		if err != nil {
			p := problem(err)
			if p.Status >= http.StatusInternalServerError {
				s.log.Error("a request failed", zap.String("operation", op.OperationID), zap.Error(err))
			}
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

// healthy tells that the process answers.
func (s *Server) healthy(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok\n"))
}

// ready tells that work is taken: the host is not stopping, what was open at the start
// has been taken up, and the journal answers.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), time.Second)
	defer cancel()
	err := s.leaving.Err()
	if err == nil {
		_, err = s.rt.Booted(ctx)
	}
	if err == nil {
		for _, err = range s.rt.Archive().Sessions(ctx, "") {
			break
		}
	}
	if err != nil {
		p := refusal(http.StatusServiceUnavailable, messages.ErrBusy, "", "the host is starting, stopping, or its journal does not answer")
		write(w, p)
		return
	}
	s.healthy(w, r)
}

// agentView is an agent that new sessions may have.
type agentView struct {
	Name    string `json:"name"`
	Dialect string `json:"dialect"`
	Summary string `json:"summary,omitempty"`
}

type agentList struct {
	Agents []agentView `json:"agents"`
}

// answered is an operation's JSON body.
type answered[T any] struct {
	Body T
}

func (s *Server) agentRoutes() {
	route(s, get("list-agents", "/v1/agents", "The agents that new sessions may have", "agents"), func(context.Context, *struct{}) (*answered[agentList], error) {
		var out answered[agentList]
		out.Body.Agents = []agentView{}
		for name, a := range s.agents {
			out.Body.Agents = append(out.Body.Agents, agentView{Name: name, Dialect: a.Manifest.Dialect, Summary: a.Manifest.Summary})
		}
		slices.SortFunc(out.Body.Agents, func(a, b agentView) int { return strings.Compare(a.Name, b.Name) })
		return &out, nil
	})
}
