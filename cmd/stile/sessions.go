package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/journal"
)

func (a *app) sessionsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sessions",
		Short: "List, show, export and add up the sessions of a journal; describe, follow, cancel and delete those of a host",
		Example: `  stile sessions list
  stile sessions show ledger
  stile sessions export ledger > ledger.jsonl`,
		Args: known,
		RunE: group,
	}
	cmd.AddCommand(a.sessionsListCommand(), a.sessionsShowCommand(), a.sessionsExportCommand(), a.sessionsDiffCommand(), a.sessionsPromptCommand(),
		a.sessionsSetCommand(), a.sessionsCostCommand(), a.sessionsTailCommand(), a.sessionsCancelCommand(), a.sessionsDeleteCommand(), a.sessionsEraseCommand())
	return cmd
}

func headText(at journal.Anchor) string { return fmt.Sprintf("%d:%s", at.Seq, at.Hash) }

func (a *app) sessionsShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show SID",
		Short: "Show what happened in a session",
		Long: `Shows a session from its first record on, as stile run showed it. SID is
tenant:user:id, or a bare id of the local user.`,
		Example: `  stile sessions show ledger`,
		Args:    cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error {
			return a.withArchive(ctx, func(ar *stile.Archive) error { return a.sessionsShow(ctx, ar, args[0], asJSON) })
		}),
	}
	a.dirFlag(cmd)
	a.journalFlag(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print records as JSON lines")
	return cmd
}

func (a *app) sessionsShow(ctx context.Context, ar *stile.Archive, name string, asJSON bool) error {
	head, err := named(ctx, ar, name)
	if err != nil {
		return err
	}
	if asJSON {
		return ar.Export(ctx, head.Inc, a.out)
	}
	state, err := ar.Status(ctx, head)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(a.out, "session  %s, %s, %s, %s\n", head.SID, count(head.Run, "run"), count(head.Turn, "turn"), state); err != nil {
		return err
	}
	show := a.shower(false)
	for r, err := range ar.Records(ctx, head.Inc) {
		if err == nil {
			err = show(stile.Update{Record: r})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *app) sessionsExportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export SID",
		Short: "Write a session as JSON lines",
		Long: `Writes a session to standard output as JSON lines, one record each, with body,
salt, hashes and receipt: with them anyone can compute the chain again.`,
		Example: `  stile sessions export ledger > ledger.jsonl`,
		Args:    cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error {
			return a.withArchive(ctx, func(ar *stile.Archive) error {
				head, err := named(ctx, ar, args[0])
				if err != nil {
					return err
				}
				return ar.Export(ctx, head.Inc, a.out)
			})
		}),
	}
	a.dirFlag(cmd)
	a.journalFlag(cmd)
	return cmd
}

// pick gives the sessions that a command is about: the named one, or all.
func pick(ctx context.Context, ar *stile.Archive, names []string, each func(journal.Head) error) error {
	if len(names) > 0 {
		head, err := named(ctx, ar, names[0])
		if err != nil {
			return err
		}
		return each(head)
	}
	for h, err := range ar.Sessions(ctx, "") {
		if err == nil {
			err = each(h)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// parseHead reads SEQ:HASH.
func parseHead(s string) (at journal.Anchor, err error) {
	seq, hash, ok := strings.Cut(s, ":")
	at.Seq, err = strconv.ParseInt(seq, 10, 64)
	if !ok || err != nil || at.Seq <= 0 || at.Hash.UnmarshalText([]byte(hash)) != nil || at.Hash.IsZero() {
		return at, configError("head", "want SEQ:HASH, a position and 64 lower-case hex digits, as sessions list prints it")
	}
	return at, nil
}
