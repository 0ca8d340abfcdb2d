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
	var o forkOptions
	cmd := &cobra.Command{
		Use:   "fork SID",
		Short: "Continue a session from one of its turns as a new session",
		Long: `Makes a new session that continues SID from the decision of turn --at on. The
records up to there are taken over under a chain of the new session's own; its
first record says where they came from. SID stays as it is.

A run that went on behind the turn goes on in the new session as soon as it is opened,
with its old input. With --stop that run ends there, and the new session waits for an
input. With --input the new session has what was before the run of turn --at, and the
text as its next input, in place of the one that began the run: edit and try again
from here. Its run begins when the session is opened, as stile run --resume does.`,
		Example: `  stile fork ledger --at 2
  stile fork ledger --at 2 --as ledger-again
  stile fork ledger --at 2 --stop
  stile fork ledger --at 2 --input "Which entries are right?"`,
		Args: cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error { return a.fork(ctx, args[0], o) }),
	}
	a.dirFlag(cmd)
	a.journalFlag(cmd)
	a.keyFlag(cmd)
	cmd.Flags().Int64Var(&o.at, "at", 0, "turn_index to continue from; 0 is the last decided turn")
	cmd.Flags().StringVar(&o.as, "as", "", "name of the new session (default SID-fork-N, without --at SID-fork)")
	cmd.Flags().BoolVar(&o.stop, "stop", false, "end a run that would go on there")
	cmd.Flags().StringVar(&o.input, "input", "", "begin before the run of turn --at, with this as its input")
	cmd.Flags().BoolVar(&o.json, "json", false, "print the new session as JSON")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case cmd.Flags().Changed("input") && o.input == "":
			return flagError("--input", "is empty: give the text of the new input")
		case o.stop && o.input != "":
			return flagError("--stop", "wants no input, and --input gives one: give one of them")
		}
		return nil
	}
	return cmd
}

type forkOptions struct {
	as    string
	at    int64
	stop  bool
	input string
	json  bool
}

func (a *app) fork(ctx context.Context, name string, o forkOptions) error {
	if o.at < 0 {
		return configError("at", "a turn_index is 1 or more; 0 is the last decided turn")
	}
	key, err := messages.ParseSID(name)
	if err != nil {
		return err
	}
	e := about("fork-session", key)
	if o.as == "" {
		key.ID += "-fork"
		if o.at > 0 {
			key.ID += "-" + strconv.FormatInt(o.at, 10)
		}
		o.as = key.SID()
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
		var h *stile.Head
		e.Session += fmt.Sprintf(" as %.256s", o.as)
		if err := a.onRecord(&e, func() (err error) {
			switch {
			case o.stop:
				h, err = rt.ForkStopped(ctx, name, o.at, o.as)
			case o.input != "":
				h, err = rt.ForkInput(ctx, name, o.at, o.as, o.input)
			default:
				h, err = rt.Fork(ctx, name, o.at, o.as)
			}
			return err
		}); err != nil {
			return err
		}
		head := headText(journal.Anchor{Seq: h.Seq, Hash: h.Hash})
		if o.json {
			state, err := rt.Archive().Status(ctx, *h)
			if err != nil {
				return err
			}
			return a.writeJSON(sessionJSON{SID: h.SID, Incarnation: h.Inc.String(), Head: head, Runs: h.Run, Turns: h.Turn, State: state, Queued: h.Queued})
		}
		open := ""
		if h.Pending() {
			open = "; a run of it is open: stile run MANIFEST --session " + h.SID + " --resume"
		}
		_, err = fmt.Fprintf(a.out, "%s  %s, %s, head %s%s\n", h.SID, count(h.Run, "run"), count(h.Turn, "turn"), head, open)
		return err
	})
}
