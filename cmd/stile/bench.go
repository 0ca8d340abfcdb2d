package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/bench/load"
	"github.com/seed14be6753/stile/bench/measure"
	"github.com/seed14be6753/stile/bench/report"
	"github.com/seed14be6753/stile/bench/scripted"
	"github.com/seed14be6753/stile/bench/target"
	"github.com/seed14be6753/stile/bench/workload"
	"github.com/seed14be6753/stile/host"
	"github.com/seed14be6753/stile/internal/lease"
)

type benchOptions struct {
	host, tokenFile string
	openai, model   string
	pid             int
	sticky          bool
	agent           string
	dir             string
	memory          bool
	rate            float64
	ramp, length    time.Duration
	sessions        int
	seed            uint64
	repeat          int
	timeout         time.Duration
	thresholds      []string
	json, html      string
	noOwn           bool
	listen, witness string // of serve
	cluster         clusterSettings
	door            host.Config // of a host of a cluster
	soak            bool
}

const (
	maxBenchRepeat = 100
	maxWorkload    = workload.MaxFileBytes + 1
)

func (a *app) benchCommand() *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use:   "bench [WORKLOAD]",
		Short: "Put a load on agents and measure what they do",
		Long: `Runs a workload and measures it: from when a submit was due to when it was accepted, to
its first text and to the end of its run, and the time between texts. Arrivals are fixed
beforehand (open loop), so a target that stalls does not hide the submits that waited.

A workload is a YAML file (docs/bench-format.md), or one of those built in:
` + builtinHelp() + `
Without --host the agents run in this process, on a journal in a folder of its own that is
removed afterwards (--memory: in memory; --dir or --journal: there, and it stays). With --host
they are those of a running stile: stile bench serve WORKLOAD serves a workload's agents, and
--agent NAME puts the load on one of the host's own. --openai is any server that speaks OpenAI's
chat completions.

An interrupt ends the load early; what was measured until then is shown. Exit status 0 says
that every threshold holds, 9 that one does not.`,
		Example: `  stile bench
  stile bench mix --rate 200 --for 1m --html mix.html
  stile bench call --threshold 'p99(end) < 50ms' --threshold 'errors <= 0'
  stile bench serve mix & stile bench mix --host http://127.0.0.1:8472
  stile bench echo --repeat 8 --json before.json`,
		Args: cobra.MaximumNArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a.ran = true
		return a.bench(cmd.Context(), cmd, args, o)
	}
	a.benchFlags(cmd, &o)
	flags := cmd.Flags()
	flags.StringVar(&o.host, "host", "", "address of a running host of stile, such as http://"+defaultListen+", or of several of a cluster, with commas between: each request goes to the next one")
	flags.BoolVar(&o.sticky, "sticky", false, "of --host with several: all requests of a session go to the same one")
	flags.StringVar(&o.tokenFile, "token-file", "", "file with the token to show (default $"+envToken+")")
	flags.StringVar(&o.openai, "openai", "", "base address of a server with chat completions, such as http://localhost:8000/v1")
	flags.StringVar(&o.model, "model", "", "of --openai: the model to ask, in place of the names of agents")
	flags.IntVar(&o.pid, "pid", 0, "of --openai: the server's process on this machine, to see what it takes (Linux); of --host: the database's, with its children, beside what each host takes")
	flags.StringVar(&o.agent, "agent", "", "of --host: put the whole load on this agent of the host")
	flags.IntVar(&o.repeat, "repeat", 1, "rounds, at most 100; bench compare needs some to tell a difference from chance")
	flags.DurationVar(&o.timeout, "timeout", load.DefaultTimeout, "time of one submit, from when it is sent to its end")
	flags.StringArrayVar(&o.thresholds, "threshold", nil, measure.ThresholdHelp)
	flags.StringVar(&o.json, "json", "", "write the result as JSON to this file, or - for standard output")
	flags.StringVar(&o.html, "html", "", "write a page with plots to this file")
	flags.BoolVar(&o.noOwn, "no-own", false, "do not measure what the bench itself takes")
	flags.BoolVar(&o.soak, "soak", false, "judge also whether memory, goroutines, descriptors, latency or disk a run grow; wants --for 30s or more")
	cmd.AddCommand(a.benchServeCommand(), a.benchCompareCommand(), a.benchRecoveryCommand(), a.benchGrowthCommand())
	return cmd
}

// builtinHelp is a line for each built-in workload.
func builtinHelp() string {
	var b strings.Builder
	for _, name := range workload.Builtin() {
		data, _ := workload.BuiltinFile(name)
		w, err := workload.Parse(name, data)
		if err != nil {
			continue // a test parses them all
		}
		fmt.Fprintf(&b, "  %-10s %s\n", name, w.About)
	}
	return b.String()
}

// benchFlags are those that change a workload, or where its agents run.
func (a *app) benchFlags(cmd *cobra.Command, o *benchOptions) {
	flags := cmd.Flags()
	flags.StringVar(&o.dir, "dir", "", "data directory that the agents' journal is kept in; without it one that is removed afterwards")
	a.journalFlag(cmd)
	flags.BoolVar(&o.memory, "memory", false, "keep the journal in memory")
	flags.Float64Var(&o.rate, "rate", 0, "submits a second, in place of the workload's")
	flags.DurationVar(&o.ramp, "ramp", 0, "time in which the rate grows from 0, in place of the workload's")
	flags.DurationVar(&o.length, "for", 0, "time of all arrivals, in place of the workload's")
	flags.IntVar(&o.sessions, "sessions", 0, "sessions that submits go to in turn, in place of the workload's; 0 is one for each submit")
	flags.Uint64Var(&o.seed, "seed", 0, "seed of arrivals and draws, in place of the workload's")
}

// workloadOf reads the workload that the arguments name, and changes it as the flags say.
func (a *app) workloadOf(cmd *cobra.Command, args []string, o *benchOptions) (*workload.Workload, error) {
	name := "echo"
	if len(args) > 0 {
		name = args[0]
	}
	data, builtin := workload.BuiltinFile(name)
	if !builtin {
		var err error
		if data, err = readFile(name, maxWorkload); err != nil {
			if errors.Is(err, os.ErrNotExist) && !strings.ContainsAny(name, "./\\") {
				return nil, flagError("WORKLOAD", fmt.Sprintf("is no file and no workload of the command: %s; these are %s", name, strings.Join(workload.Builtin(), ", ")))
			}
			return nil, err
		}
	}
	w, err := workload.Parse(name, data)
	if err != nil {
		return nil, err
	}
	set := cmd.Flags().Changed
	if set("rate") {
		w.Arrivals.Rate = o.rate
	}
	if set("for") {
		w.Arrivals.For = workload.Duration(o.length)
		w.Arrivals.Ramp = min(w.Arrivals.Ramp, w.Arrivals.For)
	}
	if set("ramp") {
		w.Arrivals.Ramp = workload.Duration(o.ramp)
	}
	if set("sessions") {
		w.Sessions = o.sessions
	}
	if set("seed") {
		w.Seed = o.seed
	}
	var wrong []error
	bad := func(flag, detail string) { wrong = append(wrong, flagError(flag, detail)) }
	switch {
	case w.Arrivals.Rate < 0.001 || w.Arrivals.Rate > workload.MaxRate:
		bad("--rate", fmt.Sprintf("want 0.001 to %d submits a second", workload.MaxRate))
	case w.Arrivals.For < workload.Duration(time.Millisecond) || time.Duration(w.Arrivals.For) > workload.MaxFor:
		bad("--for", "want 1ms to "+workload.MaxFor.String())
	case w.Arrivals.Ramp < 0 || w.Arrivals.Ramp > w.Arrivals.For:
		bad("--ramp", "want 0 to the time of all arrivals, "+time.Duration(w.Arrivals.For).String())
	case w.Arrivals.Expected() > workload.MaxSubmits:
		bad("--rate", fmt.Sprintf("would be %.0f submits; the limit is %d", w.Arrivals.Expected(), workload.MaxSubmits))
	}
	if w.Sessions < 0 || w.Sessions > workload.MaxSessions {
		bad("--sessions", fmt.Sprintf("want 0 to %d", workload.MaxSessions))
	}
	return w, errors.Join(wrong...)
}

func (a *app) bench(ctx context.Context, cmd *cobra.Command, args []string, o benchOptions) error {
	w, err := a.workloadOf(cmd, args, &o)
	wrong := []error{err}
	bad := func(flag, detail string) { wrong = append(wrong, flagError(flag, detail)) }
	if o.repeat < 1 || o.repeat > maxBenchRepeat {
		bad("--repeat", fmt.Sprintf("want 1 to %d", maxBenchRepeat))
	}
	if o.timeout < time.Millisecond || o.timeout > workload.MaxFor {
		bad("--timeout", "want 1ms to "+workload.MaxFor.String())
	}
	remote := o.host != "" || o.openai != ""
	switch {
	case o.host != "" && o.openai != "":
		bad("--openai", "goes not together with --host")
	case remote && (o.memory || o.dir != "" || a.journal != ""):
		bad("--host", "goes not together with --memory, --dir and --journal: the host has a journal of its own")
	case o.memory && (o.dir != "" || a.journal != ""):
		bad("--memory", "goes not together with --dir and --journal")
	case o.agent != "" && o.host == "":
		bad("--agent", "goes with --host")
	case o.model != "" && o.openai == "":
		bad("--model", "goes with --openai")
	case o.sticky && !strings.Contains(o.host, ","):
		bad("--sticky", "goes with --host and several addresses")
	case o.pid != 0 && !remote:
		bad("--pid", "goes with --host and --openai")
	}
	var bounds []measure.Threshold
	if w != nil {
		for _, text := range append(append([]string(nil), w.Thresholds...), o.thresholds...) {
			t, err := measure.ParseThreshold(text)
			wrong = append(wrong, err)
			bounds = append(bounds, t)
		}
	}
	if err := errors.Join(wrong...); err != nil {
		return err
	}
	if o.agent != "" {
		for i := range w.Jobs {
			w.Jobs[i].Agent = o.agent
		}
	}
	b := &benching{app: a, o: o, w: w, bounds: bounds}
	switch {
	case o.host != "":
		token := a.env(envToken)
		if o.tokenFile != "" {
			text, err := readFile(o.tokenFile, maxTokenBytes)
			if err != nil {
				return err
			}
			token = strings.TrimSpace(string(text))
		}
		t, err := target.NewHost(o.host, token)
		if err != nil {
			return err
		}
		t.Beside(o.pid)
		if o.sticky {
			t.Sticky()
		}
		if !t.TellsUsage() {
			b.notes = append(b.notes, "the host does not tell its metrics to this client: what it takes is not known (a token needs the scope metrics)")
		}
		return b.measure(ctx, t)
	case o.openai != "":
		t, err := target.NewOpenAI(o.openai, a.env("OPENAI_API_KEY"), o.model, o.pid)
		if err != nil {
			return err
		}
		b.notes = append(b.notes, "chat completions have no streams that resume, no approvals and no calls of the workload: each submit is one message to the model")
		return b.measure(ctx, t)
	}
	return a.withAgents(ctx, w, &o, nil, func(name string, rt *stile.Runtime, agents []*stile.Agent) error {
		return b.measure(ctx, target.NewEmbedded(name, o.soak, a.dir, rt, agents))
	})
}

// withAgents runs f with the agents of a workload in a runtime of this process.
func (a *app) withAgents(ctx context.Context, w *workload.Workload, o *benchOptions, witness io.Writer, f func(name string, rt *stile.Runtime, agents []*stile.Agent) error) error {
	agents, err := scripted.Agents(w, witness)
	if err != nil {
		return err
	}
	a.dir = o.dir // not the one of a host's settings: a load must not come into its journal by accident
	name := "stile in this process, on a journal in " + a.dir
	switch {
	case o.memory:
		name = "stile in this process, in memory"
	case a.journal != "" || a.env(envJournal) != "" && a.dir == "":
		name = "stile in this process, on a shared journal"
	case a.dir == "":
		name = "stile in this process, on SQLite"
	}
	if a.dir == "" && !o.memory {
		dir, err := os.MkdirTemp("", "stile-bench-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		a.dir = filepath.Join(dir, "data")
	}
	cfg, err := a.config()
	if err != nil {
		return err
	}
	if err := clusterOf(ctx, &settings{Cluster: o.cluster}, &o.door, &cfg); err != nil {
		return err
	}
	if o.door.ClusterListener != nil {
		defer o.door.ClusterListener.Close()
	}
	cfg.InMemory, cfg.Agents, cfg.Boot = o.memory, agents, stile.Boot{PerSecond: workload.MaxRate}
	defer host.Tune(host.TuneOptions{})()
	return a.withRuntime(context.WithoutCancel(ctx), cfg, func(rt *stile.Runtime) error { return f(name, rt, agents) })
}

// benching is a load under way.
type benching struct {
	*app
	o      benchOptions
	w      *workload.Workload
	bounds []measure.Threshold
	notes  []string
}

// ownSubmits is how many submits the bench is measured with.
const ownSubmits = 5000

// measure runs the rounds, shows what came of them, and judges it.
func (b *benching) measure(ctx context.Context, t load.Target) error {
	arrivals := b.w.Schedule()
	r := &measure.Result{
		Format: measure.Format, Tool: fmt.Sprint(versionOf(debug.ReadBuildInfo())), Target: t.Name(), Workload: *b.w, Started: time.Now(), Notes: b.notes,
		Machine: measure.Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU()},
	}
	if !b.o.noOwn {
		own := b.own(ctx)
		r.Own = &own
	}
	prefix := "bench" + r.Started.UTC().Format("150405.000") + "-"
	prefix = strings.ReplaceAll(prefix, ".", "")
	for n := range b.o.repeat {
		rec := measure.NewRecorder(len(arrivals))
		show := b.follow(rec, n)
		r.Rounds = append(r.Rounds, load.Run(ctx, b.w, arrivals, t, rec, load.Options{Timeout: b.o.timeout, Prefix: fmt.Sprintf("%s%d-", prefix, n)}))
		show()
		if ctx.Err() != nil {
			r.Partial = true
			break
		}
	}
	b.remark(r)
	if b.o.soak {
		r.Soak = r.Rounds[len(r.Rounds)-1].Slopes()
		if r.Soak == nil {
			r.Notes = append(r.Notes, "the load was too short to see what grows")
		}
	}
	r.Thresholds = r.Judge(b.bounds)
	if err := b.write(r); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, v := range r.Thresholds {
		if !v.Holds {
			return exitBelow
		}
	}
	for _, g := range r.Soak {
		if g.Grows {
			return exitBelow
		}
	}
	return nil
}

// own measures what the bench takes for a submit, against a target that answers at once.
func (b *benching) own(ctx context.Context) measure.Own {
	w := *b.w
	w.Arrivals = workload.Arrivals{Rate: 20_000, For: workload.Duration(ownSubmits * time.Second / 20_000), Process: workload.Even}
	arrivals := w.Schedule()
	round := load.Run(ctx, &w, arrivals, target.Null{}, measure.NewRecorder(len(arrivals)), load.Options{})
	return measure.Own{Submits: round.Sent, CPUMicrosEach: float64(round.Usage.CPUMicros) / float64(max(round.Sent, 1))}
}

// late is how late half of the arrivals may be before the report says so.
const late = 5 * time.Millisecond

// remark says what a reader of the result must know.
func (b *benching) remark(r *measure.Result) {
	if t := r.Merged(measure.Late); t.Count > 0 && time.Duration(t.P90)*time.Microsecond > late {
		r.Notes = append(r.Notes, fmt.Sprintf("arrivals were late: a tenth of them by more than %s. The rate is more than this machine can send, or target and bench share its processors; the times above count from when submits were due", report.Micros(t.P90)))
	}
	if n := r.Fate(measure.Dropped); n > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d submits were not sent: %d were in flight", n, load.DefaultInFlight))
	}
}

// follow shows how a round stands, in place on a terminal, and every ten seconds elsewhere.
func (b *benching) follow(rec *measure.Recorder, round int) (stop func()) {
	every, in := 10*time.Second, false
	if b.outTerminal && b.env("TERM") != "dumb" {
		every, in = 200*time.Millisecond, true
	}
	done := make(chan struct{})
	var shown sync.WaitGroup
	begun := time.Now()
	line := func() string {
		g := rec.Glimpse()
		text := fmt.Sprintf("%5.1fs  %d/%d sent  %d in flight  %d ended", time.Since(begun).Seconds(), g.Sent, g.Planned, g.InFlight, g.Ended)
		if g.Refused > 0 {
			text += fmt.Sprintf("  %d refused", g.Refused)
		}
		if g.Failed > 0 {
			text += fmt.Sprintf("  %d failed", g.Failed)
		}
		if g.Ended > 0 {
			text += fmt.Sprintf("  p50 %s  p99 %s", report.Micros(g.P50.Microseconds()), report.Micros(g.P99.Microseconds()))
		}
		if b.o.repeat > 1 {
			text = fmt.Sprintf("round %d/%d  ", round+1, b.o.repeat) + text
		}
		return text
	}
	shown.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				if in {
					fmt.Fprintf(b.err, "\r\x1b[K%s", line())
				} else {
					fmt.Fprintln(b.err, line())
				}
			case <-done:
				if in {
					fmt.Fprint(b.err, "\r\x1b[K")
				}
				return
			}
		}
	})
	return func() { close(done); shown.Wait() }
}

// write shows the result, and writes the files that the flags name.
func (b *benching) write(r *measure.Result) error {
	if b.o.json == "-" {
		return errors.Join(r.Write(b.out), writeTo(b.o.html, func(w io.Writer) error { return report.HTML(w, r) }))
	}
	return errors.Join(
		report.Text(b.out, r),
		writeTo(b.o.json, r.Write),
		writeTo(b.o.html, func(w io.Writer) error { return report.HTML(w, r) }),
	)
}

// writeTo writes a file that a flag names; "" is none.
func writeTo(path string, write func(io.Writer) error) error {
	if path == "" {
		return nil
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// benchListen is where bench serve listens: beside a host.
const benchListen = "127.0.0.1:8472"

// benchMost bounds the runs, streams and connections of bench serve: the load has bounds of its
// own.
const benchMost = 1 << 20

func (a *app) benchServeCommand() *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use:   "serve [WORKLOAD]",
		Short: "Serve the agents of a workload over HTTP",
		Long: `Serves the agents of a workload, so that stile bench --host measures a host over HTTP in a
process of its own. It asks for no token, and listens on loopback alone. Give bench and
bench serve the same workload and seed: then both draw the same times.

With --cluster it is one host of several on the journal that --journal or $` + envJournal + ` names, each
with a --dir of its own; give bench --host all of their addresses.`,
		Example: `  stile bench serve mix --dir bench-data
  stile bench mix --host http://` + benchListen,
		Args: cobra.MaximumNArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a.ran = true
		ctx := cmd.Context()
		w, err := a.workloadOf(cmd, args, &o)
		if err != nil {
			return err
		}
		if o.cluster.Address != "" && o.memory {
			return flagError("--cluster", "goes not together with --memory: hosts of a cluster share a journal in a database")
		}
		witness, err := witnessTo(o.witness)
		if err != nil {
			return err
		}
		defer func() { _ = witness.Close() }()
		return a.withAgents(ctx, w, &o, witness, func(_ string, rt *stile.Runtime, agents []*stile.Agent) error {
			door := o.door
			door.Runtime, door.Agents, door.MaxRuns, door.MaxStreams, door.MaxConnections = rt, agents, benchMost, benchMost, benchMost
			srv, err := host.New(door)
			if err != nil {
				return err
			}
			l, err := host.Listen(ctx, o.listen)
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(a.out, "serving the agents of %s on http://%s\n", w.Name, l.Addr()); err != nil {
				return err
			}
			return srv.Serve(ctx, l, closeWait)
		})
	}
	a.benchFlags(cmd, &o)
	cmd.Flags().StringVar(&o.cluster.Address, "cluster", "", "address of this host for the others of its cluster")
	cmd.Flags().StringVar(&o.cluster.SecretFile, "cluster-secret", "", "file with the secret that all hosts of the cluster have")
	cmd.Flags().DurationVar(&o.cluster.Lease, "lease", lease.Default, "how long the others of the cluster wait for a silent host")
	cmd.Flags().StringVar(&o.listen, "listen", benchListen, "address, one of loopback")
	cmd.Flags().StringVar(&o.witness, "witness", "", "append a line to this file for each call of a tool with an effect, before it does anything")
	return cmd
}

func (a *app) benchCompareCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "compare A B",
		Short: "Compare two results of stile bench --json",
		Long: `Compares two results round by round: the medians of both, the change, and the probability
that rounds of one and the same target differ that much (Mann-Whitney, two-sided, exact).
Below 0.05 the difference is called significant. Four rounds of each are the least that can
be: run the bench with --repeat 8 or more, by turns if the machine has other work.`,
		Example: `  stile bench echo --repeat 8 --json a.json
  stile bench compare a.json b.json`,
		Args: cobra.ExactArgs(2),
	}
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		a.ran = true
		var both [2]*measure.Result
		for i, path := range args {
			b, err := readFile(path, measure.MaxResultBytes)
			if err != nil {
				return err
			}
			if both[i], err = measure.Read(path, b); err != nil {
				return err
			}
		}
		name := func(i int) string {
			r := both[i]
			return fmt.Sprintf("%s: %s against %s, %d rounds", args[i], r.Workload.Name, r.Target, len(r.Rounds))
		}
		return report.Compare(a.out, name(0), name(1), measure.Compare(both[0], both[1]))
	}
	return cmd
}
