package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"iter"
	"os/user"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/visible"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

func (a *app) approvalsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "approvals",
		Short: "List the calls that wait for approval, and answer them",
		Example: `  stile approvals list
  stile approvals show kq3S0pXc1m8bYdVfWzL2aA
  stile approvals allow agent.yaml ledger kq3S0pXc1m8bYdVfWzL2aA --digest 9f86d081
  stile approvals deny agent.yaml ledger kq3S0pXc1m8bYdVfWzL2aA --reason "too much"`,
		Args: known,
		RunE: group,
	}
	cmd.AddCommand(a.approvalsListCommand(), a.approvalsShowCommand(), a.approvalsAnswerCommand(messages.GateApprove), a.approvalsAnswerCommand(messages.GateDeny))
	return cmd
}

func (a *app) approvalsListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list [SID]",
		Short: "List the calls that wait for approval",
		Long: `Lists the calls that wait for a person's answer, of one session or of all. CALL is cut
to a line, and says so; stile approvals show has all of it. DIGEST is that of what would
run: an answer names it, and does not count for anything else. Nothing is changed, and
no host needs to run.`,
		Example: `  stile approvals list
  stile approvals list ledger --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error {
			return a.withArchive(ctx, func(ar *stile.Archive) error { return a.approvalsList(ctx, ar, args, asJSON) })
		}),
	}
	a.dirFlag(cmd)
	a.journalFlag(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a call")
	return cmd
}

// approvalJSON is a call in a list.
type approvalJSON struct {
	SID     string         `json:"sid"`
	ID      string         `json:"id"`
	Tool    string         `json:"tool"`
	Args    string         `json:"args"`
	Basis   string         `json:"basis,omitzero"`
	Digest  string         `json:"digest"`
	Class   messages.Class `json:"class"`
	Run     int64          `json:"run"`
	Turn    int64          `json:"turn"`
	Action  string         `json:"action"`
	Asked   time.Time      `json:"asked"`
	Expires time.Time      `json:"expires"`
}

func (a *app) approvalsList(ctx context.Context, ar *stile.Archive, args []string, asJSON bool) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	if !asJSON {
		fmt.Fprintln(w, "SESSION\tAPPROVAL\tCALL\tDIGEST\tEXPIRES")
	}
	cut := int64(0)
	show := func(h journal.Head) error {
		list, err := ar.Approvals(ctx, h)
		if err != nil {
			return err
		}
		for _, q := range list {
			if !asJSON {
				call, digest := callLine(&q)
				if digest == "" {
					cut, digest = cut+1, "see show"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", h.SID, q.ID, call, digest, q.Expires.Format(time.RFC3339))
				continue
			}
			if err := a.writeJSON(viewOfApproval(h.SID, &q)); err != nil {
				return err
			}
		}
		return nil
	}
	end := func() error {
		if err := w.Flush(); err != nil || cut == 0 {
			return err
		}
		_, err := fmt.Fprintf(a.out, "%s cut; stile approvals show APPROVAL has all of one\n", count(cut, "call"))
		return err
	}
	if len(args) == 1 {
		h, err := ar.Head(ctx, args[0])
		if err == nil {
			err = show(h)
		}
		if err != nil {
			return err
		}
		return end()
	}
	for h, err := range waitingSessions(ctx, ar) {
		if err == nil {
			err = show(h)
		}
		if err != nil {
			return err
		}
	}
	return end()
}

// waitingSessions are the sessions in which calls wait.
func waitingSessions(ctx context.Context, ar *stile.Archive) iter.Seq2[journal.Head, error] {
	return func(yield func(journal.Head, error) bool) {
		for h, err := range ar.Sessions(ctx, "") {
			if (err != nil || h.Live && h.Suspended()) && !yield(h, err) {
				return
			}
		}
	}
}

// callLine is a call on a line. One that has no room there says how much of it is shown,
// and no digest: what was not seen cannot be answered with it.
func callLine(q *stile.Approval) (call, digest string) {
	const room = 60
	args := visible.Exact(q.Args)
	tool := oneLine(visible.Exact(q.Tool), room)
	if shown := oneLine(args, room); shown != args {
		return fmt.Sprintf("%s %s [cut: %s in all]", tool, shown, count(int64(len(q.Args)), "byte")), ""
	}
	return tool + " " + args, fmt.Sprintf("%.12s", q.Digest)
}

func (a *app) approvalsShowCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show APPROVAL",
		Short: "Show all of a call that waits for approval",
		Long: `Shows a call that waits for a person's answer with all of its arguments, and the
command that allows it. Characters that show nothing, or not what they are, are escapes
such as \u{200b}: what turns the direction of writing, moves the cursor or has no width,
spaces other than the usual one, marks that pile up. --json has the text as it is.
Nothing is changed, and no host needs to run.`,
		Example: `  stile approvals show kq3S0pXc1m8bYdVfWzL2aA
  stile approvals show kq3S0pXc1m8bYdVfWzL2aA --json | jq -r .digest`,
		Annotations: map[string]string{lastIsID: "yes"},
		Args:        cobra.ExactArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error {
			return a.withArchive(ctx, func(ar *stile.Archive) error { return a.approvalsShow(ctx, ar, args[0], asJSON) })
		}),
	}
	a.dirFlag(cmd)
	a.journalFlag(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}

func (a *app) approvalsShow(ctx context.Context, ar *stile.Archive, id string, asJSON bool) error {
	for h, err := range waitingSessions(ctx, ar) {
		if err != nil {
			return err
		}
		list, err := ar.Approvals(ctx, h)
		if err != nil {
			return err
		}
		for i := range list {
			switch q := &list[i]; {
			case q.ID != id:
			case asJSON:
				return a.writeJSON(viewOfApproval(h.SID, q))
			default:
				if err := a.showApproval(h.SID, q); err != nil {
					return err
				}
				_, err := fmt.Fprintf(a.out, "answer    %s\n", allowCommand("MANIFEST", h.SID, q)+a.where())
				return err
			}
		}
	}
	return &messages.Error{Code: messages.ErrNotFound, Reason: stile.ApprovalUnknown, Field: "approval", Detail: "no call waits under this id"}
}

func viewOfApproval(sid string, q *stile.Approval) approvalJSON {
	return approvalJSON{sid, q.ID, q.Tool, q.Args, q.Basis, q.Digest.String(), q.Class, q.Run, q.Turn, q.Action, q.Asked, q.Expires}
}

type answerOptions struct {
	by, reason, digest string
	json               bool
}

func (a *app) approvalsAnswerCommand(answer messages.GateAnswer) *cobra.Command {
	var opts answerOptions
	cmd := &cobra.Command{
		Use:   "allow MANIFEST SID APPROVAL",
		Short: "Let a call happen, and watch the run go on",
		Long: `Lets a call happen that waits for approval. The run goes on in this process and is
shown to its end, or to the next call that waits.

--digest, or its beginning of at least 8 digits, says what was seen: stile approvals
show has it. Without it the call is shown whole and asked about, at a terminal; without
a terminal the answer is refused, with exit status 2.

An answer counts once, before the call has expired, for what was asked about, and with
a name (--by). Any other is refused, with exit status 1: ERR_APPROVAL with the reason
LATE, ANSWERED, CHANGED or PRINCIPAL, or ERR_NOT_FOUND when the session has no such call.`,
		Example: `  stile approvals allow agent.yaml ledger kq3S0pXc1m8bYdVfWzL2aA
  stile approvals allow agent.yaml ledger kq3S0pXc1m8bYdVfWzL2aA --by ann --digest 9f86d081`,
		Annotations: map[string]string{lastIsID: "yes"},
		Args:        cobra.ExactArgs(3),
		RunE:        a.do(func(ctx context.Context, args []string) error { return a.answer(ctx, args, answer, opts) }),
	}
	if answer == messages.GateDeny {
		cmd.Use, cmd.Short = "deny MANIFEST SID APPROVAL", "Let a call fail, and watch the run go on"
		cmd.Long = strings.Replace(cmd.Long, "Lets a call happen that waits for approval.", "Lets a call fail that waits for approval; the model is told why (--reason).", 1)
		before, rest, _ := strings.Cut(cmd.Long, "--digest, or")
		_, after, _ := strings.Cut(rest, "\n\n")
		cmd.Long = before + "--digest, or its beginning of at least 8 digits, says what was seen; it can be left out.\n\n" + after
		cmd.Example = strings.ReplaceAll(cmd.Example, "allow", "deny") + ` --reason "too much"`
		cmd.Flags().StringVar(&opts.reason, "reason", "", "why, for the model and the journal")
	}
	a.dirFlag(cmd)
	a.journalFlag(cmd)
	a.keyFlag(cmd)
	cmd.Flags().StringVar(&opts.by, "by", userName(), "whose answer it is")
	cmd.Flag("by").DefValue = "who runs the command"
	cmd.Flags().StringVar(&opts.digest, "digest", "", "digest of what was seen, or its beginning")
	cmd.Flags().BoolVar(&opts.json, "json", false, "print updates as JSON lines")
	return cmd
}

// userName is who runs the command, "" when the system does not say.
func userName() string {
	u, err := user.Current()
	if err != nil {
		return ""
	}
	return u.Username
}

// minDigest is how many digits of a digest say enough to a person who compares them by eye.
const minDigest = 8

func (a *app) answer(ctx context.Context, args []string, answer messages.GateAnswer, opts answerOptions) error {
	if _, err := hex.DecodeString(opts.digest[:len(opts.digest)&^1]); err != nil || opts.digest != "" && len(opts.digest) < minDigest {
		return flagError("--digest", "is no digest, or fewer than 8 digits of one")
	}
	agent, err := stile.LoadAgent(args[0])
	if err != nil {
		return err
	}
	cfg, err := a.config()
	if err != nil {
		return err
	}
	if err := stile.Check(agent, cfg); err != nil {
		return err
	}
	// Judged before anything is opened: opening takes up what was interrupted, which a
	// refused answer must not, and a new session has nothing to answer.
	var q stile.Approval
	var before journal.Head
	if err := a.withArchive(ctx, func(ar *stile.Archive) (err error) {
		if before, err = ar.Head(ctx, args[1]); err != nil {
			return err
		}
		if q, err = question(ctx, ar, before, args[2], opts.digest); err != nil {
			return err
		}
		return ar.CheckAnswer(ctx, before, q, opts.by)
	}); err != nil {
		return err
	}
	if answer == messages.GateApprove && opts.digest == "" {
		if err := a.confirmed(ctx, before.SID, &q); err != nil {
			return err
		}
	}
	return a.withRuntime(ctx, cfg, func(rt *stile.Runtime) error {
		s, err := rt.Open(ctx, args[1], agent)
		if err != nil {
			return err
		}
		if !opts.json {
			if _, err := fmt.Fprintf(a.out, "session  %s\ncall     %s %s\n", s.SID(), visible.Exact(q.Tool), visible.Exact(q.Args)); err != nil {
				return err
			}
		}
		run := s.Run(q.Run)
		key, err := messages.ParseSID(s.SID())
		if err != nil {
			return err
		}
		e := about("answer-approval", key)
		e.Run, e.Approval, e.Detail = strconv.FormatInt(q.Run, 10), q.ID, fmt.Sprintf("%s by %.256s", answer, opts.by)
		if err := a.onRecord(&e, func() error {
			if answer == messages.GateDeny {
				return s.Deny(ctx, q, opts.by, opts.reason)
			}
			return s.Approve(ctx, q, opts.by)
		}); err != nil {
			return err
		}
		return a.watch(ctx, s, run, func(ctx context.Context) iter.Seq2[stile.Update, error] {
			return run.Resume(ctx, stile.Position{Seq: before.Seq})
		}, opts.json)
	})
}

// confirmed shows a call and asks about it. Without a terminal no person has seen it, and
// the answer is refused.
func (a *app) confirmed(ctx context.Context, sid string, q *stile.Approval) error {
	if !a.asks() {
		return flagError("--digest", "is missing: it says what was seen, and there is no terminal to ask at. Look at the call: stile approvals show "+q.ID+a.where())
	}
	if err := a.showApproval(sid, q); err != nil {
		return err
	}
	answer, err := a.typed(ctx, "Allow this call? Type yes: ")
	if err == nil && !strings.EqualFold(answer, "yes") {
		err = &messages.Error{Code: messages.ErrDenied, Reason: "UNANSWERED", Detail: "nothing was answered: the call still waits"}
	}
	return err
}

// question finds what an answer is about. With another digest than the one that was seen
// it is about other arguments.
func question(ctx context.Context, ar *stile.Archive, h journal.Head, id, digest string) (stile.Approval, error) {
	list, err := ar.Approvals(ctx, h)
	if err != nil {
		return stile.Approval{}, err
	}
	for _, asked := range list {
		if asked.ID != id {
			continue
		}
		if !strings.HasPrefix(asked.Digest.String(), strings.ToLower(digest)) {
			asked.Digest = messages.Digest{}
		}
		return asked, nil
	}
	return stile.Approval{ID: id}, nil
}
