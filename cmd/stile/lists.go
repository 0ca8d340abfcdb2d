package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// listOptions say which sessions are listed.
type listOptions struct {
	prefix, agent, state, since, title string
	tags                               []string
	limit                              int
	json                               bool
}

func (a *app) sessionsListCommand() *cobra.Command {
	var opts listOptions
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the sessions, the one that changed last first",
		Long: `Lists the sessions, retired incarnations included. UPDATED is when an input came, a run
began, waited or ended, or the session was described, last; AGENT is what it was opened
under.
STATE is idle, running, suspended (a call waits for approval), interrupted (a run or
an input is open and no process works on it: it goes on when its session is opened, or
when a host starts that knows its agent), closed or retired.
HEAD is the position and hash that verify --head takes: keep it elsewhere, and a cut
tail will be found.`,
		Example: `  stile sessions list
  stile sessions list --agent ledger --state suspended --since 24h
  stile sessions list --tag arm=b --title refund --limit 20
  stile sessions list --prefix acme:ann: --json`,
		Args: cobra.NoArgs,
		RunE: a.do(func(ctx context.Context, _ []string) error {
			q, err := opts.query(time.Now())
			if err != nil {
				return err
			}
			return a.withArchive(ctx, func(ar *stile.Archive) error { return a.sessionsList(ctx, ar, q, opts) })
		}),
	}
	a.dirFlag(cmd)
	a.journalFlag(cmd)
	cmd.Flags().StringVar(&opts.prefix, "prefix", "", "only sessions whose tenant:user:id begins so")
	cmd.Flags().StringVar(&opts.agent, "agent", "", "only sessions that were opened under this agent")
	cmd.Flags().StringVar(&opts.state, "state", "", "only sessions in this state")
	cmd.Flags().StringArrayVar(&opts.tags, "tag", nil, "only sessions with this tag; key also finds key=value; may be repeated")
	cmd.Flags().StringVar(&opts.since, "since", "", "only sessions that changed later: a time back (90m, 24h, 7d), a date or an RFC 3339 time")
	cmd.Flags().StringVar(&opts.title, "title", "", "only sessions whose title contains this, in letters of either case")
	cmd.Flags().IntVar(&opts.limit, "limit", 0, "at most so many (default all)")
	cmd.Flags().BoolVar(&opts.json, "json", false, "print one JSON object a session")
	return cmd
}

// states are what --state takes.
var states = []string{"idle", "running", "suspended", "interrupted", "closed", "retired"}

func (o *listOptions) query(now time.Time) (q journal.Query, err error) {
	q = stile.SessionQuery(o.prefix)
	q.Retired, q.Agent, q.Title, q.Tags = true, o.agent, o.title, o.tags
	if len(o.tags) > messages.MaxTags {
		return q, flagError("--tag", "is given "+strconv.Itoa(len(o.tags))+" times; the limit is "+strconv.Itoa(messages.MaxTags))
	}
	switch stile.Status(o.state) {
	case "":
	case stile.StatusSuspended:
		q.Suspended = true
	case stile.StatusRunning, stile.StatusInterrupted:
		q.Pending = true
	case stile.StatusIdle, stile.StatusClosed, stile.StatusRetired:
	default:
		return q, flagError("--state", "is one of "+strings.Join(states, ", "))
	}
	if o.limit < 0 {
		return q, flagError("--limit", "is 1 or more")
	}
	if o.since != "" {
		q.UpdatedAfter, err = timeBack(o.since, now)
	}
	return q, err
}

// timeBack reads a time: so long before now, a date in the local zone, or RFC 3339.
func timeBack(s string, now time.Time) (time.Time, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return now.AddDate(0, 0, -int(n)), nil
		}
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	if t, err := time.ParseInLocation(time.DateOnly, s, time.Local); err == nil {
		return t, nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, flagError("--since", "is a time back, such as 90m, 24h or 7d, a date, such as 2026-11-23, or an RFC 3339 time")
	}
	return t, nil
}

type sessionJSON struct {
	SID         string       `json:"sid"`
	Incarnation string       `json:"incarnation"`
	Head        string       `json:"head"`
	Runs        int64        `json:"runs"`
	Turns       int64        `json:"turns"`
	State       stile.Status `json:"state"`
	Queued      int64        `json:"queued"`
	Agent       string       `json:"agent,omitempty"`
	Manifest    string       `json:"manifest,omitempty"`
	Created     time.Time    `json:"created"`
	Updated     time.Time    `json:"updated"`
	Title       string       `json:"title,omitempty"`
	Tags        []string     `json:"tags,omitempty"`
	Parent      string       `json:"parent,omitempty"` // of a child session
}

func (a *app) sessionsList(ctx context.Context, ar *stile.Archive, q journal.Query, opts listOptions) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	if !opts.json {
		fmt.Fprintln(w, "SESSION\tRUNS\tTURNS\tSTATE\tUPDATED\tAGENT\tTITLE\tHEAD")
	}
	left := opts.limit
	err := eachListing(ctx, ar, q, func(l journal.Listing) (more bool, err error) {
		state, err := ar.Status(ctx, l.Head)
		if err != nil || opts.state != "" && string(state) != opts.state {
			return true, err
		}
		if err := a.listSession(ctx, ar, w, &l, state, opts.json); err != nil {
			return false, err
		}
		left--
		return left != 0, nil
	})
	if err != nil {
		return err
	}
	return w.Flush()
}

func (a *app) listSession(ctx context.Context, ar *stile.Archive, w *tabwriter.Writer, l *journal.Listing, state stile.Status, asJSON bool) error {
	head := headText(journal.Anchor{Seq: l.Seq, Hash: l.Hash})
	if !asJSON {
		title := oneLine(describedText(&messages.SessionDescribed{Title: l.Title, Tags: l.Tags}), 60)
		_, err := fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\n", l.SID, l.Run, l.Turn, state, l.Updated.Local().Format("2006-01-02 15:04"), orDash(harmless(l.Agent)), orDash(title), head)
		return err
	}
	line := sessionJSON{
		SID: l.SID, Incarnation: l.Inc.String(), Head: head, Runs: l.Run, Turns: l.Turn, State: state, Queued: l.Queued,
		Agent: l.Agent, Created: l.Created, Updated: l.Updated, Title: l.Title, Tags: l.Tags,
	}
	if !l.Manifest.IsZero() {
		line.Manifest = l.Manifest.String()
	}
	parent, err := ar.Parent(ctx, l.Inc)
	if err != nil {
		return err
	}
	if parent != nil {
		line.Parent = parent.SID
	}
	return a.writeJSON(line)
}

// orDash is a text for a column, - for none.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// eachListing calls each for the sessions of a query, page by page, as long as it wants more.
func eachListing(ctx context.Context, ar *stile.Archive, q journal.Query, each func(journal.Listing) (more bool, err error)) error {
	for {
		page, err := ar.Listings(ctx, q)
		if err != nil {
			return err
		}
		for _, l := range page {
			if more, err := each(l); err != nil || !more {
				return err
			}
			q.AfterUpdated, q.AfterInc = l.Updated, l.Inc
		}
		if len(page) < q.Page() {
			return nil
		}
	}
}

// Bounds of the names that an error offers in place of one that is not there.
const (
	mostNames  = 5
	mostLooked = 10_000
)

// named finds a session by name. One that is not there under a bare id, and is under other
// users, is refused with their names.
func named(ctx context.Context, ar *stile.Archive, name string) (stile.Head, error) {
	h, err := ar.Head(ctx, name)
	if !stile.IsNotFound(err) || strings.Contains(name, ":") {
		return h, err
	}
	var found []string
	looked, more := 0, false
	for other, failed := range ar.Sessions(ctx, "") {
		if looked++; failed != nil || looked > mostLooked {
			break
		}
		if !other.Live || !strings.HasSuffix(other.SID, ":"+name) {
			continue
		}
		if more = len(found) == mostNames; more {
			break
		}
		found = append(found, other.SID)
	}
	if len(found) == 0 {
		return h, err
	}
	also := strings.Join(found, ", ")
	if more {
		also += " and others"
	}
	return h, &messages.Error{
		Code: messages.ErrNotFound, Reason: journal.ReasonNotFound, Field: "session",
		Detail: "no session local:local:" + name + "; did you mean " + also + "?",
	}
}

func (a *app) sessionsSetCommand() *cobra.Command {
	var f remoteFlags
	var title string
	var add, remove []string
	cmd := &cobra.Command{
		Use:   "set SID",
		Short: "Change the title and tags of a session of a running host",
		Long: `Gives a session of a running host a title, in place of the one it has, and adds and
removes tags. A title is one line of at most 200 bytes, and a tag is key or key=value, of
at most 64 bytes; a session has at most 16. --title "" removes the title. What is set is a
record of the session, and is erased with it. stile run --title --tag sets them without a
host.`,
		Example: `  stile sessions set ada --title "Refund of order 17" --tag desk=3
  stile sessions set ada --untag desk=3`,
		Args: cobra.ExactArgs(1),
	}
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		r, id, err := a.remote(f, args[0])
		if err != nil {
			return err
		}
		change := map[string]any{}
		if cmd.Flags().Changed("title") {
			change["title"] = title
		}
		if len(add) > 0 {
			change["add"] = add
		}
		if len(remove) > 0 {
			change["remove"] = remove
		}
		if len(change) == 0 {
			return flagError("--title", "or --tag or --untag is needed: there is nothing to set")
		}
		var is messages.SessionDescribed
		if err := r.call(ctx, http.MethodPatch, sessionPath(id), change, &is); err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.out, "%s is %s\n", id, orDash(harmless(describedText(&is))))
		return err
	})
	f.add(cmd)
	cmd.Flags().StringVar(&title, "title", "", "title of the session")
	cmd.Flags().StringArrayVar(&add, "tag", nil, "tag to add; may be repeated")
	cmd.Flags().StringArrayVar(&remove, "untag", nil, "tag to remove; may be repeated")
	return cmd
}
