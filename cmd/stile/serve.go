package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
)

// defaultListen is a port of no well-known service.
const defaultListen = "127.0.0.1:8471"

func (a *app) serveCommand() *cobra.Command {
	opts := serveOptions{listen: defaultListen, grace: 10 * time.Second}
	cmd := &cobra.Command{
		Use:   "serve MANIFEST...",
		Short: "Serve agents over HTTP",
		Long: `Serves the agents of the manifests over HTTP: sessions and runs under /v1, their
updates as server-sent events that resume at the byte, /openapi.json, /healthz,
/readyz, /metrics. Runs that were in flight when the process before it ended go on.

It listens on loopback alone: it does not authenticate, so it refuses an address that
other machines can reach. Requests that name another host, or come from pages of
another origin, are refused; --host and --origin allow more.

An interrupt or SIGTERM ends it: no new connection, streams are told, requests have
--grace to end; the journal is closed last. Runs in flight go on at the next start.`,
		Example: `  stile serve examples/plain/agent.yaml
  curl -s localhost:8471/v1/sessions -d '{"agent": "plain", "id": "ada"}' -H 'Content-Type: application/json'
  curl -N 'localhost:8471/v1/sessions/ada/runs?stream=token' -d '{"input": "I am Ada."}' -H 'Content-Type: application/json'`,
		Args: cobra.MinimumNArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error { return a.serve(ctx, args, opts) }),
	}
	a.dirFlag(cmd)
	a.journalFlag(cmd)
	a.keyFlag(cmd)
	cmd.Flags().StringVar(&opts.listen, "listen", opts.listen, "address: one of loopback")
	cmd.Flags().StringSliceVar(&opts.hosts, "host", nil, "a further name under which requests may come")
	cmd.Flags().StringSliceVar(&opts.origins, "origin", nil, "an origin whose pages may use the host, such as https://app.example.com")
	cmd.Flags().DurationVar(&opts.grace, "grace", opts.grace, "how long requests may take to end")
	cmd.Flags().BoolVar(&opts.memory, "memory", false, "keep journal and keys in memory; nothing stays")
	return cmd
}

type serveOptions struct {
	listen         string
	hosts, origins []string
	grace          time.Duration
	memory         bool
}

func (a *app) serve(ctx context.Context, args []string, opts serveOptions) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	for _, path := range args {
		agent, err := stile.LoadAgent(path)
		if err != nil {
			return err
		}
		if err := stile.Check(agent, cfg); err != nil {
			return err
		}
		cfg.Agents = append(cfg.Agents, agent)
	}
	l, err := host.Listen(ctx, opts.listen)
	if err != nil {
		return err
	}
	defer l.Close()
	cfg.Log = zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.Lock(zapcore.AddSync(a.err)), zap.InfoLevel))
	cfg.InMemory = opts.memory
	// The interrupt is for the door: the runtime is closed when that is shut.
	return a.withRuntime(context.WithoutCancel(ctx), cfg, func(rt *stile.Runtime) error {
		srv, err := host.New(host.Config{
			Runtime: rt, Agents: cfg.Agents, Hosts: opts.hosts, Origins: opts.origins,
			Version: versionOf(debug.ReadBuildInfo()).Version, Log: cfg.Log,
		})
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(a.out, "listening on http://%s\n", l.Addr()); err != nil {
			return err
		}
		return srv.Serve(ctx, l, opts.grace)
	})
}
