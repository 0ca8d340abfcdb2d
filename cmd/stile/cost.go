package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

// costOptions say what is added up, and by what.
type costOptions struct {
	by, prefix, agent, since string
	tags                     []string
	json                     bool
}

func (a *app) sessionsCostCommand() *cobra.Command {
	var opts costOptions
	cmd := &cobra.Command{
		Use:   "cost [SID]",
		Short: "Add up what sessions used: tokens and money",
		Long: `Adds up the tokens and the cost of all model replies, and of models that actions asked,
in all sessions or in SID, child sessions included. What a fork took over counts in the
session it came from. A + behind a cost says that some replies had no known price. Every
record of the sessions is read: --since and --agent select sessions, not replies.`,
		Example: `  stile sessions cost --by agent
  stile sessions cost --by day --since 7d
  stile sessions cost ledger`,
		Args: cobra.MaximumNArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error {
			list := listOptions{prefix: opts.prefix, agent: opts.agent, since: opts.since, tags: opts.tags}
			q, err := list.query(time.Now())
			if err != nil {
				return err
			}
			if keyOf[opts.by] == nil {
				return flagError("--by", "is one of session, agent, user, day, model")
			}
			return a.withArchive(ctx, func(ar *stile.Archive) error { return a.sessionsCost(ctx, ar, args, q, opts) })
		}),
	}
	a.dirFlag(cmd)
	a.journalFlag(cmd)
	cmd.Flags().StringVar(&opts.by, "by", "session", "one line for each session, agent, user, day (UTC) or model")
	cmd.Flags().StringVar(&opts.prefix, "prefix", "", "only sessions whose tenant:user:id begins so")
	cmd.Flags().StringVar(&opts.agent, "agent", "", "only sessions that were opened under this agent")
	cmd.Flags().StringArrayVar(&opts.tags, "tag", nil, "only sessions with this tag; key also finds key=value; may be repeated")
	cmd.Flags().StringVar(&opts.since, "since", "", "only sessions that changed later: a time back (90m, 24h, 7d), a date or an RFC 3339 time")
	cmd.Flags().BoolVar(&opts.json, "json", false, "print one JSON object a line")
	return cmd
}

// keyOf gives the line that a record counts in.
var keyOf = map[string]func(l *journal.Listing, r *stile.Record, model string) string{
	"session": func(l *journal.Listing, _ *stile.Record, _ string) string { return l.SID },
	"agent":   func(l *journal.Listing, _ *stile.Record, _ string) string { return l.Agent },
	"user": func(l *journal.Listing, _ *stile.Record, _ string) string {
		return l.SID[:max(0, strings.LastIndexByte(l.SID, ':'))]
	},
	"day":   func(_ *journal.Listing, r *stile.Record, _ string) string { return r.TS.UTC().Format(time.DateOnly) },
	"model": func(_ *journal.Listing, _ *stile.Record, model string) string { return model },
}

// bill is what was used under a key.
type bill struct {
	Key      string `json:"key"`
	Replies  int64  `json:"replies"`
	Input    int64  `json:"input_tokens"`
	Output   int64  `json:"output_tokens"`
	Other    int64  `json:"action_tokens"` // of models that actions asked
	Cost     int64  `json:"cost_micro_usd"`
	Unpriced bool   `json:"unpriced,omitempty"`
}

func (s *bill) add(o *bill) {
	s.Replies, s.Input, s.Output, s.Other = s.Replies+o.Replies, s.Input+o.Input, s.Output+o.Output, s.Other+o.Other
	s.Cost, s.Unpriced = s.Cost+o.Cost, s.Unpriced || o.Unpriced
}

// costBy adds up by key.
type costBy struct {
	key  func(l *journal.Listing, r *stile.Record, model string) string
	sums map[string]*bill
}

// session adds up the records of one session.
func (c *costBy) session(ctx context.Context, ar *stile.Archive, l *journal.Listing) error {
	taken, model := int64(0), ""
	for r, err := range ar.Records(ctx, l.Inc) {
		if err != nil {
			return err
		}
		var used bill
		switch b := r.Body.(type) {
		case *messages.SessionOpened:
			if b.Origin != nil {
				taken = b.Origin.Seq
			}
			continue
		case *messages.ModelRequest:
			model = b.Provider + "/" + b.Model
			continue
		case *messages.ModelReply:
			used = bill{Replies: 1, Input: b.Usage.Input, Output: b.Usage.Output, Cost: b.CostUSD, Unpriced: b.Unpriced}
		case *messages.ActionEnded:
			if len(b.Children) > 0 || b.Tokens == 0 && b.CostUSD == 0 { // child sessions count themselves
				continue
			}
			used = bill{Other: b.Tokens, Cost: b.CostUSD}
		default:
			continue
		}
		if r.Seq <= taken {
			continue
		}
		key := c.key(l, r, model)
		if c.sums[key] == nil {
			c.sums[key] = &bill{Key: key}
		}
		c.sums[key].add(&used)
	}
	return nil
}

func (a *app) sessionsCost(ctx context.Context, ar *stile.Archive, args []string, q journal.Query, opts costOptions) error {
	c := costBy{key: keyOf[opts.by], sums: map[string]*bill{}}
	if len(args) == 1 {
		head, err := named(ctx, ar, args[0])
		if err != nil {
			return err
		}
		q.Inc = head.Inc
	}
	err := eachListing(ctx, ar, q, func(l journal.Listing) (bool, error) { return true, c.session(ctx, ar, &l) })
	if err != nil {
		return err
	}
	lines := slices.SortedFunc(maps.Values(c.sums), func(x, y *bill) int {
		if opts.by == "day" {
			return cmp.Compare(x.Key, y.Key)
		}
		return cmp.Or(cmp.Compare(y.Cost, x.Cost), cmp.Compare(y.Input+y.Output+y.Other, x.Input+x.Output+x.Other), cmp.Compare(x.Key, y.Key))
	})
	if opts.json {
		for _, s := range lines {
			if err := a.writeJSON(s); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s\tREPLIES\tINPUT\tOUTPUT\tACTIONS\tCOST\n", strings.ToUpper(opts.by))
	var all bill
	for _, s := range lines {
		all.add(s)
		s.line(w)
	}
	all.Key = "all"
	all.line(w)
	return w.Flush()
}

func (s *bill) line(w *tabwriter.Writer) {
	fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\n", orDash(harmless(s.Key)), s.Replies, s.Input, s.Output, s.Other, money(s.Cost, s.Unpriced))
}

// money is an amount in dollars; + says that there is more without a known price.
func money(micro int64, unpriced bool) string {
	text := "$" + strconv.FormatFloat(float64(micro)/1e6, 'f', 4, 64)
	if unpriced {
		text += "+"
	}
	return text
}
