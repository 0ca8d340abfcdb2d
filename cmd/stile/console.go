package main

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
	"go.uber.org/zap/zapcore"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/internal/telemetry"
)

func (a *app) consoleCommand() *cobra.Command {
	var listen, user string
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Show a journal in the browser, without running anything",
		Long: `Serves the console over a journal at rest, such as one of a host that is down or that
was restored from a backup: sessions, time lines, prompts, proofs and costs. Nothing in the
journal runs, is settled or is changed, and no key file is needed; requests that would change
something are refused. A host may work on the journal meanwhile: what it writes is seen.

Every caller is one user of the journal, so it listens on this machine alone. --user names
another one; stile sessions list shows whose sessions there are.`,
		Example: `  stile console
  stile console --dir /backup/stile-data --user acme:ann`,
		Args: cobra.NoArgs,
		RunE: a.do(func(ctx context.Context, _ []string) error { return a.consoleAt(ctx, listen, user) }),
	}
	a.dirFlag(cmd)
	a.journalFlag(cmd)
	cmd.Flags().StringVar(&listen, "listen", defaultListen, "address of loopback")
	cmd.Flags().StringVar(&user, "user", "", "whose sessions, as tenant:user; local:local without it")
	return cmd
}

func (a *app) consoleAt(ctx context.Context, listen, user string) error {
	door := host.Config{LocalUser: user, Version: versionOf(debug.ReadBuildInfo()).Version}
	l, err := door.Listen(ctx, listen)
	if err != nil {
		return err
	}
	defer l.Close()
	cfg := stile.Config{Dir: a.dir, ReadOnly: true, Log: telemetry.NewLogger(zapcore.WarnLevel, true, zapcore.Lock(zapcore.AddSync(a.err)))}
	store, err := a.openShared(ctx, true)
	if err != nil {
		return err
	}
	if store != nil {
		cfg.Store = store
	}
	err = withRuntime(context.WithoutCancel(ctx), cfg, func(rt *stile.Runtime) error {
		door.Runtime, door.Log = rt, cfg.Log
		srv, err := host.New(door)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(a.out, "listening on http://%s\nopen it in a browser; nothing in the journal runs or is changed\n", l.Addr()); err != nil {
			return err
		}
		return srv.Serve(ctx, l, 0)
	})
	if store != nil {
		err = errors.Join(err, store.Close())
	}
	return err
}
