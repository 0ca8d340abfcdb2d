package main

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed14be6753/stile/internal/sim"
	"github.com/seed14be6753/stile/messages"
)

// simFlags are what sim was asked for.
type simFlags struct {
	seed    uint64
	turns   int64
	workers int
	trace   bool
	json    bool
	quiet   bool
	hosts   uint64
}

func (a *app) simCommand() *cobra.Command {
	var f simFlags
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Run simulated sessions under a seed and check every step",
		Long: `Runs sessions of the real core – the turn machine, the dialects, the interpreter, the
journal's writer, chain and fence – in simulated worlds where models talk nonsense,
tools hang and panic, clocks jump, hosts crash and the disk loses what was not synced.
After every step the invariants are checked: one turn in flight, nothing shown or begun
before it is durable, one decision a turn, one end an action, no effect twice, the chain
verifies, the state is what the journal says, every accepted run ends.

Every fourth world has two to four hosts that share the journal with leases: hosts that crash,
stand still and are cut off, a database that forgets who had which session, requests that are
forwarded, late or lost. With --hosts 1 all worlds are such.

World N is made of seed N alone: the same seed gives the same journals, byte for byte.
Worlds from --seed on are run until enough turns were decided. Exit status 5 says that
an invariant did not hold, and the seed of that world is printed.`,
		Example: `  stile sim --turns 20000
  stile sim --seed 42 --turns 1 --trace`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		if !cmd.Flags().Changed("seed") {
			f.seed = freshSeed()
		}
		return a.sim(ctx, f)
	})
	cmd.Flags().Uint64Var(&f.seed, "seed", 0, "seed of the first world (default a fresh one, which is printed)")
	cmd.Flags().Int64Var(&f.turns, "turns", sim.DefaultTurns, "stop when this many turns were decided")
	cmd.Flags().Uint64Var(&f.hosts, "hosts", 4, "have several hosts with leases in every world of this number; 0 in none")
	cmd.Flags().IntVar(&f.workers, "workers", 0, "worlds at a time (default the number of processors)")
	cmd.Flags().BoolVar(&f.trace, "trace", false, "print every step of the world that fails, or of the first")
	cmd.Flags().BoolVar(&f.json, "json", false, "print the summary alone, as JSON")
	cmd.Flags().BoolVar(&f.quiet, "quiet", false, "do not show on a terminal how far it is")
	return cmd
}

// freshSeed is short enough to be typed again.
func freshSeed() uint64 {
	var b [4]byte
	_, _ = rand.Read(b[:]) // it never fails, and if it did any seed would do
	return uint64(binary.BigEndian.Uint32(b[:]))
}

type simJSON struct {
	OK          bool                        `json:"ok"`
	Seed        uint64                      `json:"seed"`
	Digest      messages.Digest             `json:"digest"`
	Millis      int64                       `json:"ms"`
	Worlds      int64                       `json:"worlds"`
	Sessions    int64                       `json:"sessions"`
	Runs        int64                       `json:"runs"`
	Turns       int64                       `json:"turns"`
	Actions     int64                       `json:"actions"`
	Unknown     int64                       `json:"unknown"`
	Skipped     int64                       `json:"skipped"`
	Retried     int64                       `json:"retried"`
	Rejoined    int64                       `json:"rejoined"`
	Detached    int64                       `json:"detached"`
	Merged      int64                       `json:"merged"`
	Gathered    int64                       `json:"gathered"`
	Replaced    int64                       `json:"replaced"`
	Repaired    int64                       `json:"repaired"`
	Talked      int64                       `json:"talked"`
	Continued   int64                       `json:"continued"`
	Diverged    int64                       `json:"diverged"`
	Fell        int64                       `json:"fell"`
	Carried     int64                       `json:"carried"`
	Answered    int64                       `json:"answered"`
	Forgiven    int64                       `json:"forgiven"`
	Stored      int64                       `json:"stored"`
	Kept        int64                       `json:"kept"`
	Undone      int64                       `json:"undone"`
	Blocks      int64                       `json:"blocks"`
	Broken      int64                       `json:"broken"`
	Instances   int64                       `json:"instances"`
	Untaken     int64                       `json:"untaken"`
	Pieces      int64                       `json:"pieces"`
	TakenBack   int64                       `json:"taken_back"`
	Delegated   int64                       `json:"delegated"`
	Orphaned    int64                       `json:"orphaned"`
	Fed         int64                       `json:"fed"`
	Unfed       int64                       `json:"unfed"`
	Ticks       int64                       `json:"ticks"`
	Resumed     int64                       `json:"resumed"`
	Restored    int64                       `json:"restored"`
	Suspended   int64                       `json:"suspended"`
	Records     int64                       `json:"records"`
	Steps       int64                       `json:"steps"`
	Crashes     int64                       `json:"crashes"`
	Power       int64                       `json:"power_failures"`
	Activations int64                       `json:"activations"`
	Commits     int64                       `json:"commits"`
	Refused     int64                       `json:"refused"`
	Effects     int64                       `json:"effects"`
	Late        int64                       `json:"late"`
	Lost        int64                       `json:"lost_leases"`
	Taken       int64                       `json:"taken_over"`
	Forwarded   int64                       `json:"forwarded"`
	Frozen      int64                       `json:"frozen"`
	Forgotten   int64                       `json:"forgotten"`
	Decisions   map[messages.Decision]int64 `json:"decisions"`
	Reasons     map[messages.Code]int64     `json:"reasons"`
	Failure     *simFailureJSON             `json:"failure,omitempty"`
}

type simFailureJSON struct {
	Seed      uint64 `json:"seed"`
	Step      int64  `json:"step"`
	Invariant string `json:"invariant"`
	Detail    string `json:"detail"`
	Command   string `json:"command"`
}

func (a *app) sim(ctx context.Context, f simFlags) error {
	if f.turns <= 0 {
		return &messages.Error{Code: messages.ErrConfig, Field: "turns", Detail: "at least 1"}
	}
	if f.workers < 0 {
		return &messages.Error{Code: messages.ErrConfig, Field: "workers", Detail: "at least 1"}
	}
	opts := sim.Options{Seed: f.seed, Turns: f.turns, Workers: f.workers, Hosts: f.hosts}
	if !f.json {
		fmt.Fprintf(a.out, "seed %d\n", f.seed)
	}
	if f.trace {
		opts.Trace = a.out
		if f.json {
			opts.Trace = a.err
		}
	}
	var shown *progress
	if !f.quiet && !f.trace {
		shown = a.progressOf("turn", f.turns)
		opts.Progress = shown.reach
	}
	began := time.Now()
	rep, err := sim.Run(ctx, opts)
	shown.end()
	return a.simulated(f, rep, time.Since(began), err)
}

// simulated prints what a simulation came to.
func (a *app) simulated(f simFlags, rep sim.Report, took time.Duration, err error) error {
	var failed *sim.Failure
	interrupted := errors.Is(err, context.Canceled) // what it came to until then is told
	if err != nil && !errors.As(err, &failed) && !interrupted {
		return err
	}
	if f.json {
		out := simJSON{
			OK: err == nil, Seed: f.seed, Digest: rep.Digest, Millis: took.Milliseconds(), Worlds: rep.Worlds, Sessions: rep.Sessions,
			Runs: rep.Runs, Turns: rep.Turns, Actions: rep.Actions, Unknown: rep.Unknown, Skipped: rep.Skipped, Retried: rep.Retried, Rejoined: rep.Rejoined, Detached: rep.Detached, Merged: rep.Merged, Gathered: rep.Gathered, Replaced: rep.Replaced, Repaired: rep.Repaired, Talked: rep.Talked, Continued: rep.Continued, Diverged: rep.Diverged, Fell: rep.Fell, Carried: rep.Carried, Answered: rep.Answered, Forgiven: rep.Forgiven, Stored: rep.Stored, Kept: rep.Kept, Undone: rep.Undone, Blocks: rep.Blocks, Broken: rep.Broken, Instances: rep.Instances, Untaken: rep.Untaken, Pieces: rep.Pieces, TakenBack: rep.TakenBack, Delegated: rep.Delegated, Orphaned: rep.Orphaned, Fed: rep.Fed, Unfed: rep.Unfed, Ticks: rep.Ticks, Resumed: rep.Resumed, Restored: rep.Restored, Suspended: rep.Suspended, Records: rep.Records,
			Steps: rep.Steps, Crashes: rep.Crashes, Power: rep.PowerFailures, Activations: rep.Activations, Commits: rep.Commits,
			Refused: rep.Refused, Effects: rep.Effects, Late: rep.Late, Lost: rep.Lost, Taken: rep.Taken, Forwarded: rep.Forwarded, Frozen: rep.Frozen, Forgotten: rep.Forgotten, Decisions: rep.Decisions, Reasons: rep.Reasons,
		}
		if failed != nil {
			out.Failure = &simFailureJSON{failed.Seed, failed.Step, failed.Invariant, failed.Detail, failed.Command()}
		}
		if err := a.writeJSON(out); err != nil {
			return err
		}
	} else {
		printSim(a.out, rep, took)
		if failed != nil {
			fmt.Fprintf(a.out, "FAIL %v\nsee it again: %s\n", harmless(failed.Error()), failed.Command())
		}
	}
	if failed != nil {
		return exitConform
	}
	return err
}

func printSim(w io.Writer, rep sim.Report, took time.Duration) {
	rate := float64(rep.Turns) / max(took.Seconds(), 1e-3)
	fmt.Fprintf(w, "%d turns of %d runs in %d sessions of %d worlds, %s (%.0f turns/s)\n",
		rep.Turns, rep.Runs, rep.Sessions, rep.Worlds, took.Round(time.Millisecond), rate)
	fmt.Fprintf(w, "  decisions: %s\n", counts(rep.Decisions))
	fmt.Fprintf(w, "  reasons of HALT: %s\n", counts(rep.Reasons))
	fmt.Fprintf(w, "  actions: %d, %d unknown, %d skipped, %d tried again, %d detached, %d begun outside; %d late answers\n",
		rep.Actions, rep.Unknown, rep.Skipped, rep.Retried, rep.Detached, rep.Effects, rep.Late)
	fmt.Fprintf(w, "  control blocks: %d ended well, %d otherwise; actions in loops: %d, in branches that were not taken: %d; pieces of results: %d, texts that lost some: %d\n", rep.Blocks, rep.Broken, rep.Instances, rep.Untaken, rep.Pieces, rep.TakenBack)
	fmt.Fprintf(w, "  inputs that joined a run: %d, that began one together: %d; texts that a pass replaced: %d; variables that actions set or deleted: %d, changes of key-value relics: %d, actions that a rollback undid: %d, runs of child sessions: %d, and %d that no action waited for\n", rep.Merged, rep.Gathered, rep.Replaced, rep.Stored, rep.Kept, rep.Undone, rep.Delegated, rep.Orphaned)
	fmt.Fprintf(w, "  failed turns that another mended: %d; answers that passed their schema: %d; habits put right: %d\n", rep.Repaired, rep.Answered, rep.Forgiven)
	fmt.Fprintf(w, "  requests over conversations: %d, %d of them sent only what is new, %d from an earlier point; falls to the whole prompt: %d, of which %d cost a turn its reply\n", rep.Talked, rep.Continued, rep.Diverged, rep.Fell, rep.Carried)
	fmt.Fprintf(w, "  feeds that turns had: %d, %d of them old or without a value; fetches of periodic ones: %d\n", rep.Fed, rep.Unfed, rep.Ticks)
	fmt.Fprintf(w, "  trouble: %d crashes, %d power failures, %d activations (%d from a snapshot), %d turns ended by a restart, %d restored, %d suspended, %d of %d batches refused\n",
		rep.Crashes, rep.PowerFailures, rep.Activations, rep.Snapshots, rep.Resumed, rep.Restored, rep.Suspended, rep.Refused, rep.Refused+rep.Commits)
	fmt.Fprintf(w, "  hosts of clusters: %d leases lost, %d sessions of dead hosts taken up, %d requests forwarded, %d hosts stood still, %d times the database forgot the leases\n", rep.Lost, rep.Taken, rep.Forwarded, rep.Frozen, rep.Forgotten)
	fmt.Fprintf(w, "  %d inputs, %d records, digest of the journals %s\n", rep.Steps, rep.Records, rep.Digest)
}

// counts lists a tally in the order of its names.
func counts[K ~string](tally map[K]int64) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(tally)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, tally[k]))
	}
	return strings.Join(parts, ", ")
}
