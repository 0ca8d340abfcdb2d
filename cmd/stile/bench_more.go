package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/bench/growth"
	"github.com/seed14be6753/stile/bench/recovery"
	"github.com/seed14be6753/stile/bench/report"
	"github.com/seed14be6753/stile/bench/workload"
)

// noWitness is a witness of what no flag asks for.
type noWitness struct{ io.Writer }

func (noWitness) Close() error { return nil }

// witnessTo opens the file that calls of tools are written to. Each line is one write at its end,
// so that a kill leaves no half of one, and lines of several calls do not mix.
func witnessTo(path string) (io.WriteCloser, error) {
	if path == "" {
		return noWitness{io.Discard}, nil
	}
	return os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
}

// Bounds of bench recovery and bench growth.
const (
	maxKills        = 10_000
	maxRecoveryRuns = 10_000
	maxGrowth       = 1_000_000
)

func (a *app) benchRecoveryCommand() *cobra.Command {
	var o benchOptions
	var r recovery.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "recovery [WORKLOAD]",
		Short: "Kill a host in the middle of its work, and look at what became of it",
		Long: `Starts a host of the workload's agents in a process of its own, submits runs, kills it
with SIGKILL after a time that is drawn, starts it again, and waits for the end of every run
that it had accepted. It reports how long that took, runs that were lost, and effects that
were done twice: each call of an effectful tool leaves a line in a file before it does anything.

Exit status 0 says that nothing was lost and nothing was done twice, 9 that something was.`,
		Example: `  stile bench recovery
  stile bench recovery my.yaml --kills 50 --runs 200`,
		Args: cobra.MaximumNArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a.ran = true
		if len(args) == 0 {
			args = []string{"recovery"}
		}
		w, err := a.workloadOf(cmd, args, &o)
		if err != nil {
			return err
		}
		bad := func(flag, format string, args ...any) error { return flagError(flag, fmt.Sprintf(format, args...)) }
		switch {
		case r.Kills < 1 || r.Kills > maxKills:
			return bad("--kills", "want 1 to %d", maxKills)
		case r.Runs < 1 || r.Runs > maxRecoveryRuns:
			return bad("--runs", "want 1 to %d", maxRecoveryRuns)
		case r.After <= 0 || r.After > time.Hour:
			return bad("--after", "want a time span of at most 1h")
		case r.Timeout <= 0 || r.Timeout > workload.MaxFor:
			return bad("--timeout", "want a time span of at most %s", workload.MaxFor)
		}
		for _, agent := range w.Agents {
			if agent.Approval {
				return bad("WORKLOAD", "has an agent that asks a person: %s", agent.Name)
			}
		}
		dir, err := os.MkdirTemp("", "stile-recovery-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }()
		srv := &ownServer{app: a, args: args, seed: fmt.Sprint(w.Seed), dir: dir}
		r.Watch = func(n int, k recovery.Kill) {
			if !asJSON {
				fmt.Fprintf(a.err, "kill %d of %d: %d in flight, all ended after %.0f ms\n", n+1, r.Kills, k.InFlight, k.All)
			}
		}
		rep, err := recovery.Run(cmd.Context(), w, srv, r)
		if err != nil {
			return errors.Join(err, srv.complaint())
		}
		if asJSON {
			err = json.NewEncoder(a.out).Encode(rep)
		} else {
			err = report.Recovery(a.out, w.Name, rep)
		}
		switch {
		case err != nil:
			return err
		case rep.Partial:
			return context.Cause(cmd.Context())
		case rep.Lost()+rep.Doubled > 0:
			return exitBelow
		}
		return nil
	}
	flags := cmd.Flags()
	flags.IntVar(&r.Kills, "kills", 5, "how often the host is killed")
	flags.IntVar(&r.Runs, "runs", 64, "runs that are submitted before each kill")
	flags.DurationVar(&r.After, "after", 500*time.Millisecond, "longest time from the first accepted run to the kill; it is drawn")
	flags.DurationVar(&r.Timeout, "timeout", time.Minute, "time in which all runs must have ended after a kill")
	flags.Uint64Var(&o.seed, "seed", 0, "seed of the draws, in place of the workload's")
	flags.BoolVar(&asJSON, "json", false, "print the report as JSON")
	return cmd
}

// ownServer is this command, run again as bench serve.
type ownServer struct {
	*app
	args   []string // the workload
	seed   string
	dir    string
	cmd    *exec.Cmd
	stderr *tail
}

// startWait is how long a host may take to listen.
const startWait = 30 * time.Second

var servedAt = regexp.MustCompile(`http://[0-9.:\[\]]+`)

// Start implements recovery.Server.
func (s *ownServer) Start(ctx context.Context) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	s.cmd = exec.CommandContext(ctx, self, "bench", "serve", s.args[0], "--dir", filepath.Join(s.dir, "data"), "--witness", filepath.Join(s.dir, "witness"), "--seed", s.seed, "--listen", "127.0.0.1:0") //nolint:gosec // this command itself
	s.cmd.WaitDelay = time.Second
	s.stderr = &tail{}
	s.cmd.Stderr = s.stderr
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := s.cmd.Start(); err != nil {
		return "", err
	}
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(out).ReadString('\n') // "" is told below
		line <- text
	}()
	select {
	case text := <-line:
		if at := servedAt.FindString(text); at != "" {
			return at, nil
		}
		return "", errors.New("the host ended before it took connections")
	case <-time.After(startWait):
		return "", errors.New("the host took no connections within " + startWait.String())
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// Kill implements recovery.Server.
func (s *ownServer) Kill() error {
	if s.cmd == nil || s.cmd.Process == nil || s.cmd.ProcessState != nil {
		return nil
	}
	err := s.cmd.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	_ = s.cmd.Wait() // it was killed, and says so
	return err
}

// Witness implements recovery.Server.
func (s *ownServer) Witness() (io.ReadCloser, error) {
	f, err := os.Open(filepath.Join(s.dir, "witness"))
	if errors.Is(err, os.ErrNotExist) {
		return io.NopCloser(strings.NewReader("")), nil
	}
	return f, err
}

// complaint is what the host said last, as an error.
func (s *ownServer) complaint() error {
	if s.stderr == nil {
		return nil
	}
	text := strings.TrimSpace(s.stderr.String())
	if text == "" {
		return nil
	}
	return fmt.Errorf("the host said: %s", text)
}

// tail keeps the last bytes that were written.
type tail struct{ b []byte }

// maxTail bounds what a tail keeps.
const maxTail = 2000

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	t.b = t.b[max(len(t.b)-maxTail, 0):]
	return len(p), nil
}

func (t *tail) String() string { return string(t.b) }

func (a *app) benchGrowthCommand() *cobra.Command {
	var o benchOptions
	var runs, sessions int
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "growth [WORKLOAD]",
		Short: "Measure how costs grow with the length and the number of sessions",
		Long: `Runs the workload's first job in one session, again and again, and shows what a run costs as
the session grows: time, processor time, bytes of the journal, memory allocated. Then it runs
it once in each of many sessions, and shows what those that are awake hold.`,
		Example: `  stile bench growth
  stile bench growth call --runs 5000 --sessions 10000 --memory`,
		Args: cobra.MaximumNArgs(1),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		a.ran = true
		w, err := a.workloadOf(cmd, args, &o)
		if err != nil {
			return err
		}
		switch {
		case runs < 1 || runs > maxGrowth:
			return flagError("--runs", fmt.Sprintf("want 1 to %d", maxGrowth))
		case sessions < 0 || sessions > maxGrowth:
			return flagError("--sessions", fmt.Sprintf("want 0 to %d", maxGrowth))
		}
		return a.withAgents(cmd.Context(), w, &o, nil, func(_ string, rt *stile.Runtime, agents []*stile.Agent) error {
			of := slices.IndexFunc(w.Agents, func(g workload.Agent) bool { return g.Name == w.Jobs[0].Agent })
			rep, err := growth.Measure(cmd.Context(), w, rt, agents[of], runs, sessions)
			if err != nil {
				return err
			}
			if asJSON {
				err = json.NewEncoder(a.out).Encode(rep)
			} else {
				err = report.Growth(a.out, w.Name, rep)
			}
			err = errors.Join(err, writeTo(o.html, func(out io.Writer) error { return report.GrowthHTML(out, w.Name, rep) }))
			if err == nil && rep.Partial {
				err = context.Cause(cmd.Context())
			}
			return err
		})
	}
	flags := cmd.Flags()
	flags.StringVar(&o.dir, "dir", "", "data directory that the journal is kept in; without it one that is removed afterwards")
	a.journalFlag(cmd)
	flags.BoolVar(&o.memory, "memory", false, "keep the journal in memory")
	flags.StringVar(&o.html, "html", "", "write a page with plots to this file")
	flags.IntVar(&runs, "runs", 1000, "runs in one session")
	flags.IntVar(&sessions, "sessions", 1000, "sessions with one run each")
	flags.BoolVar(&asJSON, "json", false, "print the report as JSON")
	return cmd
}
