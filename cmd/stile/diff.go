package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/clip"
	"github.com/seed14be6753/stile/internal/compare"
	"github.com/seed14be6753/stile/internal/textdiff"
	"github.com/seed14be6753/stile/journal"
	"github.com/seed14be6753/stile/messages"
)

type diffOptions struct {
	at          remoteFlags
	turns, json bool
	remote      bool
}

func (a *app) sessionsDiffCommand() *cobra.Command {
	var o diffOptions
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two sessions: inputs, replies, calls, decisions, tokens and cost",
		Long: `Compares two sessions, such as a session and its fork: run by run and turn by turn,
inputs, replies, calls with arguments and results, and decisions. The first difference
is shown as a difference of texts, the others in a line each, then what both took.
Thoughts, ids and times are no difference. --turns shows all turns side by side.

The sessions are those of --dir. With --host they are a running host's, whose answer to
an export is read. Exit status 0 says that the sessions are alike, 4 that they differ.`,
		Example: `  stile sessions diff ledger ledger-fork-2
  stile sessions diff ledger ledger-fork-2 --turns
  stile sessions diff ada ada-again --host http://127.0.0.1:8433 --json`,
		Args: cobra.ExactArgs(2),
	}
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		o.remote = cmd.Flags().Changed("host")
		return a.sessionsDiff(ctx, args[0], args[1], o)
	})
	a.dirFlag(cmd)
	a.journalFlag(cmd)
	o.at.add(cmd)
	cmd.Flags().BoolVar(&o.turns, "turns", false, "show all turns side by side")
	cmd.Flags().BoolVar(&o.json, "json", false, "print the comparison as JSON")
	cmd.MarkFlagsMutuallyExclusive("host", "dir")
	return cmd
}

func (a *app) sessionsDiff(ctx context.Context, left, right string, o diffOptions) error {
	var both [2]*compare.Session
	read := func(i int, records iter.Seq2[*stile.Record, error]) (err error) {
		both[i], err = compare.Read(records)
		return err
	}
	if o.remote {
		for i, name := range []string{left, right} {
			if err := a.exported(ctx, o.at, name, func(records iter.Seq2[*stile.Record, error]) error { return read(i, records) }); err != nil {
				return err
			}
		}
	} else if err := a.withArchive(ctx, func(ar *stile.Archive) error {
		for i, name := range []string{left, right} {
			head, err := ar.Head(ctx, name)
			if err == nil {
				err = read(i, ar.Records(ctx, head.Inc))
			}
			if err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	differ, err := a.showDiff(both[0], both[1], o)
	if err == nil && differ {
		err = exitDifference
	}
	return err
}

// exported reads the records of a session of a running host.
func (a *app) exported(ctx context.Context, f remoteFlags, name string, read func(iter.Seq2[*stile.Record, error]) error) error {
	r, id, err := a.remote(f, name)
	if err != nil {
		return err
	}
	res, err := r.ask(ctx, http.MethodGet, sessionPath(id)+"/export")
	if err != nil {
		return err
	}
	return errors.Join(read(func(yield func(*stile.Record, error) bool) {
		for rec, err := range journal.ReadExport(res.Body) {
			if err == nil {
				rec, err = journal.Typed(rec)
			}
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}), res.Body.Close())
}

// diffJSON is a comparison.
type diffJSON struct {
	A           sideJSON             `json:"a"`
	B           sideJSON             `json:"b"`
	Same        bool                 `json:"same"`
	Differences []compare.Difference `json:"differences"`
}

type sideJSON struct {
	SID  string         `json:"sid"`
	Sums compare.Sums   `json:"sums"`
	Runs []*compare.Run `json:"runs,omitempty"` // with --turns
}

func diffJSONOf(l, r *compare.Session, turns bool) diffJSON {
	all := compare.Differences(l, r)
	if all == nil {
		all = []compare.Difference{}
	}
	out := diffJSON{A: sideJSON{SID: l.SID, Sums: l.Sums}, B: sideJSON{SID: r.SID, Sums: r.Sums}, Same: len(all) == 0, Differences: all}
	if turns {
		out.A.Runs, out.B.Runs = l.Runs, r.Runs
	}
	return out
}

// maxListed bounds the differences that are listed behind the first one.
const maxListed = 40

// showDiff shows what differs between two sessions, and reports whether something does.
func (a *app) showDiff(l, r *compare.Session, o diffOptions) (differ bool, err error) {
	if o.json {
		out := diffJSONOf(l, r, o.turns)
		return !out.Same, a.writeJSON(out)
	}
	all := compare.Differences(l, r)
	p := a.printer("")
	p.line("", "a", l.SID)
	p.line("", "b", r.SID)
	for i := range all {
		d := &all[i]
		switch {
		case i == 0:
			p.line(red, "first", string(d.Sort)+" of "+d.Where())
			p.diff(d.A, d.B)
		case i <= maxListed:
			p.line(yellow, "also", string(d.Sort)+" of "+d.Where()+": "+one(d.A)+" | "+one(d.B))
		}
	}
	if n := len(all) - 1 - maxListed; n > 0 {
		p.line(yellow, "also", fmt.Sprintf("%d more; --json has them all", n))
	}
	if p.err != nil {
		return len(all) > 0, p.err
	}
	if o.turns {
		if err := a.sideBySide(l, r); err != nil {
			return len(all) > 0, err
		}
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "\truns\tturns\tcalls\ttokens in\ttokens out\tcost\t\n")
	for _, s := range []struct {
		name string
		sums compare.Sums
	}{{"a", l.Sums}, {"b", r.Sums}} {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%s\t\n", s.name, s.sums.Runs, s.sums.Turns, s.sums.Calls, s.sums.Input, s.sums.Output, dollars(s.sums))
	}
	if err := w.Flush(); err != nil {
		return len(all) > 0, err
	}
	if len(all) == 0 {
		p.line(green, "same", "no difference")
	} else {
		p.line(red, "differs", fmt.Sprintf("in %s", count(int64(len(all)), "place")))
	}
	return len(all) > 0, p.err
}

func dollars(s compare.Sums) string {
	text := fmt.Sprintf("$%d.%06d", s.CostUSD/1e6, s.CostUSD%1e6)
	if s.Unpriced {
		text += " and what has no price"
	}
	return text
}

// diff shows how two texts differ.
func (p *printer) diff(was, now string) {
	for line := range strings.Lines(textdiff.Unified(was, now, diffAround)) {
		colour := dim
		switch line[0] {
		case '-':
			colour = red
		case '+':
			colour = green
		}
		p.print(strings.Repeat(" ", labelWidth) + p.paint(colour, harmless(strings.TrimSuffix(line, "\n"))) + "\n")
	}
}

// oneWidth is the characters of a text in a line of the list, and of a column.
const oneWidth = 48

// one is the beginning of a text on one line; - for nothing.
func one(s string) string {
	if s == "" {
		return "-"
	}
	return clip.Short(harmless(strings.Join(strings.Fields(s), " ")), oneWidth)
}

// sideBySide shows the turns of both sessions in two columns.
func (a *app) sideBySide(l, r *compare.Session) error {
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "TURN\tA\tB\n")
	row := func(label, left, right string) {
		mark := ""
		if left != right {
			mark = " *"
		}
		fmt.Fprintf(w, "%s%s\t%s\t%s\n", label, mark, one(left), one(right))
	}
	for i := range max(len(l.Runs), len(r.Runs)) {
		var x, y compare.Run
		if i < len(l.Runs) {
			x = *l.Runs[i]
		}
		if i < len(r.Runs) {
			y = *r.Runs[i]
		}
		row(fmt.Sprintf("%d input", i+1), x.Input, y.Input)
		for j := range max(len(x.Turns), len(y.Turns)) {
			var s, t compare.Turn
			if j < len(x.Turns) {
				s = *x.Turns[j]
			}
			if j < len(y.Turns) {
				t = *y.Turns[j]
			}
			at := fmt.Sprintf("%d.%d ", i+1, j+1)
			for k := range max(len(s.Calls), len(t.Calls)) {
				row(at+"call", called(s.Calls, k), called(t.Calls, k))
			}
			if s.Reply != "" || t.Reply != "" {
				row(at+"reply", s.Reply, t.Reply)
			}
			row(at+"decision", ended(s.Decision, s.Reason), ended(t.Decision, t.Reason))
			row(at+"tokens", spent(&s), spent(&t))
		}
	}
	return w.Flush()
}

func called(calls []compare.Call, i int) string {
	if i >= len(calls) {
		return ""
	}
	c := &calls[i]
	return strings.TrimSpace(c.Name + " " + c.Args + " " + string(c.State) + " " + c.Reason)
}

func ended(d messages.Decision, reason messages.Code) string {
	if reason == "" {
		return string(d)
	}
	return string(d) + "(" + string(reason) + ")"
}

func spent(t *compare.Turn) string {
	if t.Index == 0 {
		return ""
	}
	return fmt.Sprintf("%d in, %d out, %s", t.Sums.Input, t.Sums.Output, dollars(t.Sums))
}
