package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/internal/audit"
	"github.com/seed14be6753/stile/internal/files"
	"github.com/seed14be6753/stile/messages"
)

func (a *app) auditCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "audit",
		Short:   "Check the audit log of a host",
		Example: `  stile audit verify`,
		Args:    known,
		RunE:    group,
	}
	cmd.AddCommand(a.auditVerifyCommand())
	return cmd
}

func (a *app) auditVerifyCommand() *cobra.Command {
	var known audit.Expect
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify [FILE]",
		Short: "Find what was changed, removed or put in",
		Long: `Follows the lines of the audit log, FILE or that of the settings of stile serve, and of
the files beside it that were put aside: each line carries the hash of the one before.
Exit status 4 says that lines were changed, removed, put in or moved, and names the
places.

The log is not signed: who can write it can write all of it anew, or cut its end off.
Only a head that was kept elsewhere shows that. This command prints one, and stile serve
writes one to its log when it starts and stops; give it back with --head.`,
		Example: `  stile audit verify
  stile audit verify --head 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08`,
		Args: cobra.MaximumNArgs(1),
	}
	a.ofHost(cmd, func(ctx context.Context, s *settings, args []string) error {
		path := ""
		if len(args) > 0 {
			path = args[0]
		} else if log, _ := a.auditOf(s); log != nil {
			file, ok := log.(host.AuditFile)
			if !ok {
				return configError("audit_log", "goes to standard error: name a file that it was kept in")
			}
			path = string(file)
		}
		if path == "" {
			return configError("audit_log", "is off; name a file")
		}
		rep, err := audit.Verify(ctx, path, known)
		if errors.Is(err, fs.ErrNotExist) {
			return &messages.Error{Code: messages.ErrConfig, Field: "audit_log", File: path, Detail: "there is no audit log"}
		}
		if err != nil {
			return &messages.Error{Code: messages.ErrConfig, Field: "audit_log", File: path, Detail: "cannot be read", Cause: files.Cause(err)}
		}
		return a.audited(path, rep, asJSON)
	})
	cmd.Flags().StringVar(&known.Head, "head", "", "hash of a line that must be there")
	cmd.Flags().StringVar(&known.From, "from", "", "hash that the first line carries, where older files are kept elsewhere")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	return cmd
}

// audited shows what was found in an audit log.
func (a *app) audited(path string, rep *audit.Report, asJSON bool) error {
	var bad error
	if len(rep.Problems) > 0 {
		bad = exitDifference
	}
	if asJSON {
		return errors.Join(a.writeJSON(rep), bad)
	}
	verdict := "each follows the one before"
	if bad != nil {
		verdict = count(int64(len(rep.Problems)+rep.More), "problem")
	}
	_, err := fmt.Fprintf(a.out, "%s: %s in %s; %s\n", path, count(int64(rep.Lines), "line"), count(int64(rep.Files), "file"), verdict)
	say := func(format string, args ...any) {
		_, failed := fmt.Fprintf(a.out, format, args...)
		err = errors.Join(err, failed)
	}
	for _, p := range rep.Problems {
		at := p.File
		if p.Line > 0 {
			at += fmt.Sprintf(":%d", p.Line)
		}
		say("  %s %s\n", at, p.What)
	}
	if rep.More > 0 {
		say("  and %d more\n", rep.More)
	}
	if rep.Unchained > 0 {
		say("%s of an earlier version carry no hash, and prove nothing\n", count(int64(rep.Unchained), "line"))
	}
	if rep.Torn > 0 {
		say("%s not whole: a crash or a full disk left a part\n", count(int64(rep.Torn), "line"))
	}
	if bad == nil {
		say("head %s: kept elsewhere, --head shows with it that nothing in front was changed or cut off\n", rep.Head)
	}
	return errors.Join(err, bad)
}

// auditFiles are those of an audit log that the settings name, with all that were put aside
// and will be, for what keeps the files of the host from tools.
func auditFiles(log string) []string {
	if log == "" || log == "-" || log == "off" {
		return nil
	}
	return []string{log, log + audit.HeadSuffix, log + ".*"}
}
