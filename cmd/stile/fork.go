package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

func (a *app) forkCommand() *cobra.Command {
	var as string
	var at int64
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "fork SID",
		Short: "Continue a session from one of its turns as a new session",
		Long: `Makes a new session that continues SID from the decision of turn --at on. The
records up to there are taken over under a chain of the new session's own; its
first record says where they came from. SID stays as it is.`,
		Example: `  stile fork ledger --at 2
  stile fork ledger --at 2 --as ledger-again`,
		Args: cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error { return a.fork(ctx, args[0], at, as, asJSON) }),
	}
	a.dirFlag(cmd)
	a.journalFlag(cmd)
	a.keyFlag(cmd)
	cmd.Flags().Int64Var(&at, "at", 0, "turn_index to continue from; 0 is the last decided turn")
	cmd.Flags().StringVar(&as, "as", "", "name of the new session (default SID-fork-N, without --at SID-fork)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the new session as JSON")
	return cmd
}

func (a *app) fork(ctx context.Context, name string, at int64, as string, asJSON bool) error {
	if at < 0 {
		return configError("at", "a turn_index is 1 or more; 0 is the last decided turn")
	}
	key, err := messages.ParseSID(name)
	if err != nil {
		return err
	}
	if as == "" {
		key.ID += "-fork"
		if at > 0 {
			key.ID += "-" + strconv.FormatInt(at, 10)
		}
		as = key.SID()
	}
	// Looking first keeps a mistyped directory from being made.
	if err := a.withArchive(ctx, func(ar *stile.Archive) error { _, err := ar.Head(ctx, name); return err }); err != nil {
		return err
	}
	cfg, err := a.config()
	if err != nil {
		return err
	}
	return a.withRuntime(ctx, cfg, func(rt *stile.Runtime) error {
		h, err := rt.Fork(ctx, name, at, as)
		if err != nil {
			return err
		}
		head := headText(journal.Anchor{Seq: h.Seq, Hash: h.Hash})
		if asJSON {
			state, err := rt.Archive().Status(ctx, *h)
			if err != nil {
				return err
			}
			return a.writeJSON(sessionJSON{SID: h.SID, Incarnation: h.Inc.String(), Head: head, Runs: h.Run, Turns: h.Turn, State: state, Queued: h.Queued})
		}
		_, err = fmt.Fprintf(a.out, "%s  %s, %s, head %s\n", h.SID, count(h.Run, "run"), count(h.Turn, "turn"), head)
		return err
	})
}
