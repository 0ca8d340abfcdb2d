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
		Use: "sessions",
		// Commands of it that are looked for one level up.
		SuggestFor: []string{"export", "show", "list", "tail", "cancel", "delete", "cost", "prompt", "diff"},
		Short:      "List, show, export and add up the sessions of a journal; describe, follow, cancel and delete those of a host",
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
	var asJSON, times bool
	cmd := &cobra.Command{
		Use:   "show SID",
		Short: "Show what happened in a session",
		Long: `Shows a session from its first record on, as stile run showed it, with tokens of each
reply and the time that each call took, and a last line of sums. SID is tenant:user:id, or
a bare id of the local user. --times puts the time (UTC) in front of each line.`,
		Example: `  stile sessions show ledger`,
		Args:    cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error {
			return a.withArchive(ctx, func(ar *stile.Archive) error { return a.sessionsShow(ctx, ar, args[0], asJSON, times) })
		}),
	}
	a.dirFlag(cmd)
	a.journalFlag(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print records as JSON lines")
	cmd.Flags().BoolVar(&times, "times", false, "begin each line with its time")
	return cmd
}

func (a *app) sessionsShow(ctx context.Context, ar *stile.Archive, name string, asJSON, times bool) error {
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
	p := a.printer("")
	p.growing, p.past = false, true
	var sums tally
	for r, err := range ar.Records(ctx, head.Inc) {
		if err != nil {
			return err
		}
		if times {
			p.indent = r.TS.UTC().Format("15:04:05.000 ")
		}
		sums.record(r)
		if err := p.update(stile.Update{Record: r}); err != nil {
			return err
		}
	}
	p.indent = ""
	p.line(dim, "sum", sums.String())
	return p.err
}

// Formats of an export.
const (
	formatJSONL    = "jsonl"
	formatMarkdown = "markdown"
)

func (a *app) sessionsExportCommand() *cobra.Command {
	var blobs bool
	var format string
	cmd := &cobra.Command{
		Use:   "export SID",
		Short: "Write a session as JSON lines, or as a transcript",
		Long: `Writes a session to standard output as JSON lines, one record each, with body,
salt, hashes and receipt: with them anyone can compute the chain again. --blobs has what
records name by digest as well, such as replies, a line each behind the records.
--format markdown is a transcript for people: inputs, answers, calls and decisions.`,
		Example: `  stile sessions export ledger > ledger.jsonl
  stile sessions export ledger --format markdown > ledger.md`,
		Args: cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error {
			return a.withArchive(ctx, func(ar *stile.Archive) error {
				switch {
				case format == formatMarkdown && blobs:
					return configError("--blobs", "a transcript has none")
				case format == formatMarkdown:
					return a.sessionsTranscript(ctx, ar, args[0])
				case format != formatJSONL:
					return configError("--format", "want "+formatJSONL+" or "+formatMarkdown)
				}
				head, err := named(ctx, ar, args[0])
				if err == nil {
					err = ar.Export(ctx, head.Inc, a.out)
				}
				if err == nil && blobs {
					err = ar.ExportBlobs(ctx, head.Inc, a.out)
				}
				return err
			})
		}),
	}
	a.dirFlag(cmd)
	a.journalFlag(cmd)
	cmd.Flags().BoolVar(&blobs, "blobs", false, "with what records name by digest")
	cmd.Flags().StringVar(&format, "format", formatJSONL, "jsonl or markdown")
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

func parseHead(s string) (at journal.Anchor, err error) {
	seq, hash, ok := strings.Cut(s, ":")
	at.Seq, err = strconv.ParseInt(seq, 10, 64)
	if !ok || err != nil || at.Seq <= 0 || at.Hash.UnmarshalText([]byte(hash)) != nil || at.Hash.IsZero() {
		return at, configError("head", "want SEQ:HASH, a position and 64 lower-case hex digits, as sessions list prints it")
	}
	return at, nil
}
