// Command desk is a whole service: a support desk whose agent looks orders up by itself and
// pays money back when a person allows it. It streams to a page, has metrics, and leaves
// nothing undone when it is stopped. Its model is a script, so that it runs without a key:
//
//	go run ./examples/desk
package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/llm/scripted"
)

var (
	//go:embed page.html
	page []byte
	//go:embed desk.jsonl
	script []byte
)

const definition = `
name: desk
dialect: cortex
instructions: |
  You work at the desk of a shop. Look the order up before you speak of it. Money goes back
  for orders that arrived broken, and for nothing else. One sentence is enough.
import: {tools: [desk.order, desk.refund]}
quotas: {turn_wall: 2m}
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:8080")
	if err == nil {
		slog.Info("the desk is open", "page", "http://"+l.Addr().String())
		err = serve(ctx, l, stile.Config{Dir: "desk-data", Slog: slog.Default()}, &shop{paid: map[string]string{}})
	}
	if err != nil {
		slog.Error("the desk", "error", err)
		os.Exit(1)
	}
}

// serve runs the desk until ctx is done.
func serve(ctx context.Context, l net.Listener, cfg stile.Config, shop *shop) (err error) {
	defer l.Close()
	agent, err := shop.agent()
	if err != nil {
		return err
	}
	cfg.Agents = []*stile.Agent{agent} // what was in flight when the process ended goes on
	rt, err := stile.New(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = errors.Join(err, rt.Close(end))
	}()
	door, err := host.New(host.Config{Runtime: rt, Agents: cfg.Agents, Limits: host.Limits{Runs: 100, CostPerDay: 5_000_000}})
	if err != nil {
		return err
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(rt.Metrics().Collector(), collectors.NewGoCollector(), shop.refunds())

	mux := http.NewServeMux()
	mux.Handle("/v1/", door.Handler()) // sessions, runs, streams, approvals
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(page)
	})
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	closed := make(chan error, 1)
	context.AfterFunc(ctx, func() { // streams end with ctx; what clients send is answered
		end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		closed <- srv.Shutdown(end)
	})
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-closed
}

// shop is what the desk's tools work on.
type shop struct {
	mu   sync.Mutex
	paid map[string]string // by the key of the call
}

// refunds counts them for the metrics.
func (s *shop) refunds() prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "desk_refunds_total", Help: "Orders that were paid back."}, func() float64 {
		s.mu.Lock()
		defer s.mu.Unlock()
		return float64(len(s.paid))
	})
}

type order struct {
	Order string `json:"order" jsonschema:"the number on the bill, such as A-17"`
}

type bill struct {
	Item  string `json:"item"`
	Cents int    `json:"cents"`
	State string `json:"state"`
}

func (s *shop) lookUp(_ context.Context, o order) (bill, error) {
	if o.Order != "A-17" {
		return bill{}, fmt.Errorf("there is no order %s", o.Order)
	}
	return bill{"a teapot", 1900, "arrived broken"}, nil
}

// payBack is done once for a key, however often a crash or a retry has it called: the key
// is what a payment provider takes as its idempotency key.
func (s *shop) payBack(_ context.Context, c *stile.ToolCall, o order) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was, ok := s.paid[c.Key]; ok {
		return was, nil
	}
	s.paid[c.Key] = "paid back: " + o.Order
	return s.paid[c.Key], nil
}

// agent is who sits at the desk.
func (s *shop) agent() (*stile.Agent, error) {
	lookUp, err := stile.DefineTool("desk.order", "Looks an order up.", stile.ReadOnly, s.lookUp)
	if err != nil {
		return nil, err
	}
	payBack, err := stile.DefineToolCall("desk.refund", "Pays an order back.", stile.Keyed, s.payBack)
	if err != nil {
		return nil, err
	}
	m, err := stile.ParseManifest("desk", []byte(definition))
	if err != nil {
		return nil, err
	}
	model, err := scripted.Parse("desk.jsonl", script)
	if err != nil {
		return nil, err
	}
	return &stile.Agent{
		Manifest: m, Model: model, Tools: []stile.Tool{lookUp, payBack},
		Gate: func(r stile.GateRequest) (stile.GateAnswer, string, bool) {
			if r.Tool == "desk.refund" {
				return stile.GateConfirm, "a person allows refunds", true
			}
			return "", "", false
		},
	}, nil
}
