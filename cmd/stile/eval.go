package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/eval"
	"github.com/seed14be6753/stile/internal/rehearse"
	"github.com/seed14be6753/stile/messages"
)

type evalOptions struct {
	agent, against   string
	repeat, parallel int
	budget, effects  string
	resume           string
	journal          bool
	of               string
	json, junit      string
	thresholds       []string
	quiet            bool
}

// Bounds of the flags of eval.
const (
	maxRepeat   = 1000
	maxParallel = 256
	maxEvalFile = 256 << 20
)

func (a *app) evalCommand() *cobra.Command {
	var o evalOptions
	cmd := &cobra.Command{
		Use:   "eval [CASES]",
		Short: "Run an agent on a set of cases, judge it, and compare it with another",
		Long: `Runs the agent on each case of a file of JSON lines and judges what came of it:
docs/eval.md has the form of cases and reports. --against runs a second agent on the same
cases and shows the differences. --from-journal takes the first inputs of the sessions in
the data directory as cases; what is expected is the decision they ended with.

Each attempt is a session of its own, eval-RUN-CASE-N, that stays: stile sessions show and
stile sessions prompt say why it failed. An evaluation that was stopped goes on with
--resume RUN, and runs nothing twice.

Calls equal to a recorded one, of the session that a case comes from or of its results,
get the recorded result; other calls run if they are pure or read_only, and are refused
and counted else. --effects run does what the model asks for, and wants a --budget: no
attempt begins when it is spent; those under way end, so --parallel of them may go over.

Exit status 0 says that every threshold holds (pass>=1 without one), 9 that one does not
or that attempts were not run.`,
		Example: `  stile eval cases.jsonl --agent agent.yaml
  stile eval cases.jsonl --agent new.yaml --against agent.yaml --repeat 5 --threshold 'pass>=0.9'
  stile eval --from-journal --agent new.yaml --junit report.xml --budget usd=2.00`,
		Args: cobra.MaximumNArgs(1),
	}
	cmd.RunE = a.do(func(ctx context.Context, args []string) error { return a.eval(ctx, args, o) })
	a.dirFlag(cmd)
	a.journalFlag(cmd)
	a.keyFlag(cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.agent, "agent", "", "manifest of the agent that is judged")
	flags.StringVar(&o.against, "against", "", "manifest of the agent that it is compared with")
	flags.IntVar(&o.repeat, "repeat", 1, "attempts at each case, at most 1000")
	flags.IntVar(&o.parallel, "parallel", 4, "attempts at once, at most 256")
	flags.StringVar(&o.budget, "budget", "", "of all attempts together: "+budgetHelp)
	flags.StringVar(&o.effects, "effects", effectsRefuse, "calls that change something: refuse, or run")
	flags.StringVar(&o.resume, "resume", "", "name of an evaluation that goes on")
	flags.BoolVar(&o.journal, "from-journal", false, "cases are the first inputs of the sessions in the data directory")
	flags.StringVar(&o.of, "of", "", "of --from-journal: only sessions of the agent of this name")
	flags.StringVar(&o.json, "json", "", "write the report as JSON to this file, or - for standard output")
	flags.StringVar(&o.junit, "junit", "", "write the report as JUnit's XML to this file, or - for standard output")
	quietly(cmd, &o.quiet)
	flags.StringArrayVar(&o.thresholds, "threshold", nil, "what must hold, such as pass>=0.95, tokens<=2000, cost_micro_usd<=500000, p50<=800ms, p90<=2s, refused<=0")
	return cmd
}

// evaluation is one under way.
type evaluation struct {
	*app
	opts   evalOptions
	run    string
	cases  []eval.Case
	stages map[string][]rehearse.Call // recorded calls, by case
	agents []contender
	bounds []eval.Threshold
	budget messages.Budget
	now    func() time.Time

	audit    sync.Mutex // of lines of the audit log
	mu       sync.Mutex
	used     messages.Budget
	attempts []eval.Attempt
	done     int
	passed   int
	began    time.Time
}

// contender is an agent with the label that reports have for it.
type contender struct {
	label, mark string // mark is in the names of its sessions
	agent       *stile.Agent
}

// evalWidth bounds the text of a failure in a table.
const evalWidth = 400

func (a *app) eval(ctx context.Context, args []string, o evalOptions) error {
	e := &evaluation{app: a, opts: o, stages: map[string][]rehearse.Call{}, now: time.Now}
	if err := e.check(args); err != nil {
		return err
	}
	cfg, err := a.config()
	if err != nil {
		return err
	}
	for _, c := range e.agents {
		if err := stile.Check(c.agent, cfg); err != nil {
			return err
		}
	}
	cfg.Boot = stile.Boot{Off: true} // sessions of others in the directory stay as they are
	err = a.withRuntime(context.WithoutCancel(ctx), cfg, func(rt *stile.Runtime) error {
		if o.resume == "" {
			if err := e.name(context.WithoutCancel(ctx), rt.Archive()); err != nil {
				return err
			}
		}
		if o.journal {
			if err := e.recorded(ctx, rt.Archive()); err != nil {
				return err
			}
		}
		return e.all(ctx, rt)
	})
	if err != nil {
		return err
	}
	return e.report(ctx)
}

// check reads flags, agents and cases: whatever is wrong is said before anything runs.
func (e *evaluation) check(args []string) error {
	o := &e.opts
	var wrong []error
	bad := func(flag, detail string) { wrong = append(wrong, flagError(flag, detail)) }
	switch {
	case o.journal && len(args) > 0:
		bad("--from-journal", "goes not together with a file of cases")
	case !o.journal && len(args) == 0:
		bad("CASES", "is missing: a file of JSON lines, or --from-journal")
	}
	if o.agent == "" {
		bad("--agent", "is missing")
	}
	if o.of != "" && !o.journal {
		bad("--of", "goes with --from-journal")
	}
	if o.repeat < 1 || o.repeat > maxRepeat {
		bad("--repeat", fmt.Sprintf("want 1 to %d", maxRepeat))
	}
	if o.parallel < 1 || o.parallel > maxParallel {
		bad("--parallel", fmt.Sprintf("want 1 to %d", maxParallel))
	}
	if o.effects != effectsRefuse && o.effects != effectsRun {
		bad("--effects", "is "+effectsRefuse+" or "+effectsRun)
	}
	if o.effects == effectsRun && o.budget == "" {
		bad("--budget", "is missing: --effects run does what the model asks for, and wants a bound: "+budgetHelp)
	}
	if o.budget != "" {
		b, err := parseBudget("--budget", o.budget)
		e.budget, wrong = b, append(wrong, err)
	}
	for _, text := range o.thresholds {
		t, ok := eval.ParseThreshold(text)
		if !ok {
			bad("--threshold", "want a metric, <= or >=, and a number, such as pass>=0.95; metrics are "+strings.Join(eval.Metrics, ", "))
		}
		e.bounds = append(e.bounds, t)
	}
	if o.thresholds == nil {
		e.bounds = []eval.Threshold{{Metric: "pass", Op: ">=", Value: 1}}
	}
	e.run = o.resume
	if e.run == "" {
		e.run = e.now().UTC().Format("20060102-150405")
	}
	if key, err := messages.ParseSID("eval-" + e.run); err != nil || strings.Contains(e.run, ":") || len(key.ID) > 40 {
		bad("--resume", "want the name of an evaluation, such as 20261123-140305")
	}
	for i, path := range []string{o.agent, o.against} {
		if path == "" {
			continue
		}
		agent, err := stile.LoadAgent(path)
		wrong = append(wrong, err)
		e.agents = append(e.agents, contender{path, [...]string{"", "vs-"}[i], agent})
	}
	if o.agent != "" && o.agent == o.against {
		bad("--against", "is the same manifest")
	}
	if len(args) > 0 {
		b, err := readFile(args[0], maxEvalFile)
		if err == nil {
			e.cases, err = eval.Parse(args[0], b)
		}
		wrong = append(wrong, err)
	}
	for i := range e.cases {
		e.stages[e.cases[i].ID] = canned(&e.cases[i])
	}
	return errors.Join(wrong...)
}

// name finds a name that no earlier evaluation has.
func (e *evaluation) name(ctx context.Context, ar *stile.Archive) error {
	first := e.run
	for n := 2; ; n++ {
		taken := false
		for _, err := range ar.Sessions(ctx, "local:local:eval-"+e.run+"-") {
			if err != nil {
				return err
			}
			taken = true
			break
		}
		if !taken {
			return nil
		}
		e.run = fmt.Sprintf("%s.%d", first, n)
	}
}

// canned are the results that a case brings, as recorded calls.
func canned(c *eval.Case) (all []rehearse.Call) {
	for _, r := range c.Results {
		all = append(all, rehearse.Call{Type: messages.TypeTool, Name: r.Tool, Args: string(r.Args), End: messages.ActionEnded{State: messages.ActionOK, Result: string(r.Result)}})
	}
	return all
}

// recorded makes cases of the sessions in the journal.
func (e *evaluation) recorded(ctx context.Context, ar *stile.Archive) error {
	for h, err := range ar.Sessions(ctx, "") {
		if err != nil {
			return err
		}
		key, err := messages.ParseSID(h.SID)
		if err != nil || strings.HasPrefix(key.ID, "eval-") || key.ID == messages.ProfileID || key.ID == messages.RelicsID {
			continue
		}
		if parent, err := ar.Parent(ctx, h.Inc); err != nil || parent != nil {
			continue
		}
		c, agent := eval.Case{}, ""
		for r, err := range ar.Records(ctx, h.Inc) {
			if err != nil {
				return err
			}
			switch b := r.Body.(type) {
			case *messages.SessionOpened:
				agent = b.Name
			case *messages.Input:
				if c.Input == "" {
					c.Input = b.Text
				}
			case *messages.RunEnd:
				if r.Run == 1 {
					d := string(b.Decision)
					if b.Reason != "" {
						d = string(b.Reason)
					}
					c.Expect.Decision = &d
				}
			}
		}
		if c.Input == "" || c.Expect.Decision == nil || e.opts.of != "" && agent != e.opts.of {
			continue
		}
		c.ID = fmt.Sprintf("%.40s-%.8s", key.ID, h.Inc.String())
		if e.stages[c.ID], err = rehearse.Recorded(ar.Records(ctx, h.Inc), 0); err != nil {
			return err
		}
		e.cases = append(e.cases, c)
	}
	if len(e.cases) == 0 {
		return flagError("--from-journal", "the data directory has no session with an ended run")
	}
	return nil
}

// all runs every attempt, some at once, until the budget or the caller ends it.
func (e *evaluation) all(ctx context.Context, rt *stile.Runtime) error {
	for n := range e.opts.repeat {
		for i := range e.cases {
			for _, c := range e.agents {
				e.attempts = append(e.attempts, eval.Attempt{
					Agent: c.label, Case: e.cases[i].ID, N: n + 1, State: eval.NotRun, Tags: e.cases[i].Tags,
					SID: "eval-" + e.run + "-" + c.mark + e.cases[i].ID + "-" + fmt.Sprint(n+1),
				})
			}
		}
	}
	e.began = e.now()
	next := make(chan int)
	var workers sync.WaitGroup
	var broken error
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for range min(e.opts.parallel, len(e.attempts)) {
		workers.Go(func() {
			for i := range next {
				if e.spent() { // since it was given away
					continue
				}
				a, err := e.attempt(ctx, rt, i)
				e.mu.Lock()
				if err != nil && broken == nil && ctx.Err() == nil {
					broken = err
					stop()
				}
				e.ended(i, a)
				e.mu.Unlock()
			}
		})
	}
	for i := range e.attempts {
		if e.spent() || ctx.Err() != nil {
			break
		}
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	workers.Wait()
	e.line("")
	return broken
}

// spent reports whether the attempts that have ended used the budget up.
func (e *evaluation) spent() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return over(e.budget, e.used)
}

// ended notes an attempt and draws the live line; e.mu is held.
func (e *evaluation) ended(i int, a eval.Attempt) {
	e.attempts[i] = a
	if a.State == eval.NotRun {
		return
	}
	e.used = e.used.Plus(messages.Budget{Tokens: a.Input + a.Output, CostUSD: a.CostUSD})
	e.done++
	if a.State == eval.Passed {
		e.passed++
	}
	took := e.now().Sub(e.began)
	left := time.Duration(float64(took) / float64(e.done) * float64(len(e.attempts)-e.done)).Round(time.Second)
	e.line(fmt.Sprintf("%d of %d done, %d passed, $%d.%06d, %.1f/s, %s left", e.done, len(e.attempts), e.passed, e.used.CostUSD/1e6, e.used.CostUSD%1e6, float64(e.done)/max(took.Seconds(), 0.001), left))
}

// line draws the live line in place; only a terminal has one.
func (e *evaluation) line(text string) {
	if e.opts.quiet || !e.outTerminal || e.size == nil || e.env("TERM") == "dumb" {
		return
	}
	columns, _ := e.size()
	if columns > 0 {
		text = cutWidth(text, columns-1)
	}
	fmt.Fprint(e.out, "\r\x1b[K"+text)
}

// attempt runs one, or takes up what an earlier evaluation of the name began. The error is
// one of the host, which ends the evaluation.
func (e *evaluation) attempt(ctx context.Context, rt *stile.Runtime, i int) (a eval.Attempt, err error) {
	a = e.attempts[i]
	if ctx.Err() != nil {
		return a, nil
	}
	c := &e.cases[slices.IndexFunc(e.cases, func(c eval.Case) bool { return c.ID == a.Case })]
	by := e.agents[slices.IndexFunc(e.agents, func(c contender) bool { return c.label == a.Agent })]
	stage := rehearse.New(e.stages[c.ID], rehearse.Options{Effects: e.opts.effects == effectsRun})
	own := *by.agent
	own.Around = stage.Around
	broken := func(err error) (eval.Attempt, error) {
		if ctx.Err() != nil {
			return a, nil // it goes on with --resume
		}
		a.State, a.Failures = eval.Broken, []string{"it could not be run: " + err.Error()}
		if messages.CodeOf(err) == messages.ErrJournal {
			return a, err
		}
		return a, nil
	}
	s, err := rt.Open(ctx, a.SID, &own)
	if err != nil {
		return broken(err)
	}
	run, err := s.Submit(ctx, c.Input, stile.IdempotencyKey("eval"))
	if err != nil {
		return broken(err)
	}
	if err := e.settle(ctx, s, run, stage); err != nil {
		return broken(err)
	}
	o, err := run.Decision(ctx)
	if err != nil {
		return broken(err)
	}
	seen := eval.Observed{Decision: string(o.Decision), Reason: string(o.Reason), Text: o.Text, Output: string(o.Output)}
	for r, err := range s.Query(ctx, stile.RecordQuery{Run: run.Ordinal(), Kinds: []stile.Kind{messages.KindActionDeclared, messages.KindActionStarted, messages.KindActionEnded}}) {
		if err != nil {
			return broken(err)
		}
		switch b := r.Body.(type) {
		case *messages.ActionDeclared:
			seen.Calls = append(seen.Calls, eval.Made{Name: b.Name, Args: b.Args})
		case *messages.ActionEnded:
			if b.Reason == rehearse.Reason {
				a.Refused++
			}
		}
	}
	a.Decision = strings.TrimSpace(seen.Decision + " " + seen.Reason)
	a.Input, a.Output, a.CostUSD, a.MS = o.Usage.Input, o.Usage.Output, o.CostMicroUSD, o.Duration().Milliseconds()
	if a.Failures = c.Judge(&seen); a.Failures == nil {
		a.State = eval.Passed
	} else {
		a.State = eval.Failed
	}
	return a, nil
}

// settle follows a run to its end. A call that waits for a person goes on where it has a
// recorded result, and is denied else: an evaluation asks no one. Its answers are in the audit log
// of a host of the directory, as those of a person are.
func (e *evaluation) settle(ctx context.Context, s *stile.Session, run *stile.Run, stage *rehearse.Stage) error {
	key, err := messages.ParseSID(s.SID())
	if err != nil {
		return err
	}
	for u, err := range run.Events(ctx) {
		if err != nil {
			return err
		}
		if u.Record == nil || u.Record.Body.Kind() != messages.KindTurnSuspended {
			continue
		}
		waiting, err := s.Approvals(ctx)
		if err != nil {
			return err
		}
		for _, q := range waiting {
			answer, do := messages.GateApprove, func() error { return s.Approve(ctx, q, "eval") }
			if stage.Reaches(messages.TypeTool, q.Tool, q.Args, q.Class) {
				answer, do = messages.GateDeny, func() error { return s.Deny(ctx, q, "eval", "an evaluation asks no one") }
			}
			line := about("answer-approval", key)
			line.Run, line.Approval, line.Detail = strconv.FormatInt(q.Run, 10), q.ID, string(answer)+" by eval"
			e.audit.Lock()
			err := e.onRecord(&line, do)
			e.audit.Unlock()
			if err != nil && !stile.IsConflict(err) && !stile.IsNotFound(err) {
				return err
			}
		}
	}
	return nil
}

// report shows and writes what came of it, and judges it.
func (e *evaluation) report(ctx context.Context) error {
	labels := make([]string, len(e.agents))
	for i, c := range e.agents {
		labels[i] = c.label
	}
	r := eval.Make(e.run, labels, e.attempts)
	quiet := e.opts.json == "-" || e.opts.junit == "-"
	if !quiet {
		if err := e.table(&r); err != nil {
			return err
		}
	}
	if err := e.write(e.opts.json, func(w io.Writer) error {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(&r)
	}); err != nil {
		return err
	}
	if err := e.write(e.opts.junit, func(w io.Writer) error { return r.JUnit(w, e.where()) }); err != nil {
		return err
	}
	own := &r.Agents[0]
	holds := true
	p := e.printer("")
	for _, t := range e.bounds {
		ok, has := t.Holds(own)
		holds = holds && ok
		if !ok && !quiet {
			p.line(red, "below", fmt.Sprintf("%s: it is %.4g", t.String(), has))
		}
	}
	missing := 0
	for _, s := range r.Agents {
		missing += s.NotRun
	}
	if missing > 0 && !quiet {
		why, how := "the budget is spent", "--resume "+e.run+" with a higher --budget"
		if ctx.Err() != nil {
			why, how = "interrupted", "--resume "+e.run
		}
		p.line(yellow, "not run", fmt.Sprintf("%s: %s; %s runs them, and none of the others again", count(int64(missing), "attempt"), why, how))
	}
	switch {
	case p.err != nil:
		return p.err
	case ctx.Err() != nil:
		return exitInterrupted
	case !holds || missing > 0:
		return exitBelow
	}
	return nil
}

// write writes a part of the report to a file.
func (e *evaluation) write(path string, f func(io.Writer) error) error {
	switch path {
	case "":
		return nil
	case "-":
		return f(e.out)
	}
	w, err := os.Create(path)
	if err != nil {
		return unreadable(path, err)
	}
	return errors.Join(f(w), w.Close())
}

// table shows the sums, the differences, and what failed.
func (e *evaluation) table(r *eval.Report) error {
	w := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "evaluation %s\tpass\t95 %%\tof\ttokens\tcost\tp50\tp90\trefused\t\n", r.Run)
	row := func(name string, s *eval.Sums) {
		fmt.Fprintf(w, "%s\t%.1f %%\t%.1f to %.1f\t%d\t%.0f\t$%d.%06d\t%d ms\t%d ms\t%d\t\n", harmless(name), 100*s.Rate, 100*s.Low, 100*s.High, s.Attempts-s.NotRun,
			s.Tokens, s.CostUSD/1e6, s.CostUSD%1e6, s.P50, s.P90, s.Refused)
	}
	for i := range r.Agents {
		row(r.Agents[i].Agent, &r.Agents[i])
	}
	if len(r.Agents) == 2 {
		a, b := &r.Agents[0], &r.Agents[1]
		fmt.Fprintf(w, "difference\t%+.1f\t\t\t%+.0f\t%+.6f\t%+d ms\t%+d ms\t%+d\t\n", 100*(a.Rate-b.Rate), a.Tokens-b.Tokens, float64(a.CostUSD-b.CostUSD)/1e6, a.P50-b.P50, a.P90-b.P90, a.Refused-b.Refused)
	}
	for i := range r.Tags {
		row("["+r.Tags[i].Tag+"] "+r.Tags[i].Agent, &r.Tags[i].Sums)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	p := e.printer("")
	if v := r.Versus; v != nil {
		p.line("", "versus", fmt.Sprintf("%s better, %d worse, %d alike; such a difference comes by chance with p = %.3g", count(int64(v.Better), "case"), v.Worse, v.Same, v.P))
	}
	for _, s := range r.Agents {
		if s.Mixed > 0 {
			p.line("", "mixed", fmt.Sprintf("%s of %s pass at times", count(int64(s.Mixed), "case"), s.Agent))
		}
	}
	for i := range r.Attempts {
		a := &r.Attempts[i]
		if a.State != eval.Failed && a.State != eval.Broken {
			continue
		}
		p.line(red, string(a.State), fmt.Sprintf("%s #%d of %s: stile sessions show %s", a.Case, a.N, a.Agent, a.SID+e.where()))
		for _, f := range a.Failures {
			p.line("", "", oneLine(f, evalWidth))
		}
	}
	return p.err
}
