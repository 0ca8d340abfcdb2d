package sim

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"iter"
	"runtime"
	"sync"

	"github.com/seed14be6753/stile/messages"
)

// DefaultTurns is how many turns Run plays by default.
const DefaultTurns = 10_000

// Options say what to run.
type Options struct {
	// Seed is the first world's; the next ones have the numbers after it.
	Seed uint64
	// Turns is the least number of decided turns; 0 is DefaultTurns. Worlds are run
	// to their end, so the report says a few more.
	Turns int64
	// Workers run worlds side by side; 0 is the number of processors. The outcome
	// does not depend on it.
	Workers int
	// Hosts has every world of that number be a cluster: hosts that share the journal with leases.
	// 1 has all, 0 none.
	Hosts uint64
	// Trace gets every step of the world that fails, or of the first one when none
	// does; nil gets nothing.
	Trace io.Writer
	// Progress is called after each world with the turns decided so far; it may be nil.
	Progress func(turns int64)
}

// clustered reports whether the world of a seed is a cluster.
func (o *Options) clustered(seed uint64) bool { return o.Hosts > 0 && seed%o.Hosts == o.Hosts-1 }

// Report is what worlds came to.
type Report struct {
	Stats
	Digest messages.Digest // of all journals, in the order of the seeds
}

// Stats count what happened. Turns and everything below it are counted in the
// journals at the end, so they leave out what a crash forgot.
type Stats struct {
	Worlds, Sessions                    int64
	Steps                               int64 // inputs of machines
	Commits, Refused                    int64 // batches the journal decided
	Crashes, PowerFailures, Activations int64
	Snapshots                           int64 // restores that began at one
	Late                                int64 // answers recognised as late
	Lost, Taken, Forwarded              int64 // leases that ended while their host lived, sessions that another host took up, requests that went to another host
	Frozen, Forgotten                   int64 // hosts that stood still, and times that the database forgot the leases
	Effects                             int64 // begun outside

	Records, Runs, Turns int64
	Actions, Unknown     int64
	Rejoined             int64 // attempts after one whose child took text back
	Skipped, Retried     int64 // actions that others kept from beginning, and attempts after one that failed
	Merged, Gathered     int64 // inputs that joined a run at a turn of it, and that began one with others
	Replaced             int64 // texts that a pass took back
	Repaired             int64 // turns that failed by a mistake of their model, and were followed by another
	Talked, Continued    int64 // requests over a conversation that the provider keeps; of these, what sent only what is new
	Diverged             int64 // of these, from an earlier point
	Fell, Carried        int64 // times that a run went on without its conversation, and turns that this cost their reply
	Answered             int64 // runs whose answer passed its schema
	Forgiven             int64 // habits that were put right
	Stored               int64 // actions on the session that ended well
	Undone               int64 // actions of groups that compensations undid
	Blocks, Broken       int64 // control blocks that ended well, and that ended otherwise
	Instances, Untaken   int64 // actions in loops that ended well, and actions in branches that were not taken
	Pieces, TakenBack    int64 // records of a part of a result, and texts that lost such a part
	Kept                 int64 // changes of key-value relics
	Fed, Unfed           int64 // what turns had of feeds; of these, an older value or none
	Ticks                int64 // fetches of periodic feeds
	Delegated            int64 // runs of child sessions that their action saw end
	Orphaned             int64 // of these sessions, those that were woken when no action waited for them
	Detached             int64 // actions that ended after their turn
	Resumed              int64 // turns that a restart ended
	Restored, Suspended  int64 // turns that went on after a restart or an answer, and that waited for one
	Decisions            map[messages.Decision]int64
	Reasons              map[messages.Code]int64
}

func (s *Stats) add(o *Stats) {
	s.Worlds += o.Worlds
	s.Sessions += o.Sessions
	s.Steps += o.Steps
	s.Commits += o.Commits
	s.Refused += o.Refused
	s.Crashes += o.Crashes
	s.PowerFailures += o.PowerFailures
	s.Activations += o.Activations
	s.Snapshots += o.Snapshots
	s.Late += o.Late
	s.Lost += o.Lost
	s.Taken += o.Taken
	s.Forwarded += o.Forwarded
	s.Frozen += o.Frozen
	s.Forgotten += o.Forgotten
	s.Effects += o.Effects
	s.Records += o.Records
	s.Runs += o.Runs
	s.Turns += o.Turns
	s.Actions += o.Actions
	s.Unknown += o.Unknown
	s.Skipped += o.Skipped
	s.Retried += o.Retried
	s.Rejoined += o.Rejoined
	s.Merged += o.Merged
	s.Gathered += o.Gathered
	s.Replaced += o.Replaced
	s.Repaired += o.Repaired
	s.Talked += o.Talked
	s.Continued += o.Continued
	s.Diverged += o.Diverged
	s.Fell += o.Fell
	s.Carried += o.Carried
	s.Answered += o.Answered
	s.Forgiven += o.Forgiven
	s.Stored += o.Stored
	s.Undone += o.Undone
	s.Blocks += o.Blocks
	s.Broken += o.Broken
	s.Instances += o.Instances
	s.Untaken += o.Untaken
	s.Pieces += o.Pieces
	s.TakenBack += o.TakenBack
	s.Kept += o.Kept
	s.Fed += o.Fed
	s.Unfed += o.Unfed
	s.Ticks += o.Ticks
	s.Delegated += o.Delegated
	s.Orphaned += o.Orphaned
	s.Detached += o.Detached
	s.Resumed += o.Resumed
	s.Restored += o.Restored
	s.Suspended += o.Suspended
	for d, n := range o.Decisions {
		s.Decisions[d] += n
	}
	for c, n := range o.Reasons {
		s.Reasons[c] += n
	}
}

// Failure is an invariant that did not hold.
type Failure struct {
	Seed      uint64
	Step      int64  // of its world
	Turns     int64  // decided before it, over all worlds of the run
	Hosts     uint64 // of Options
	Invariant string // its name in the package comment
	Detail    string
}

// Error names the seed, the step and the invariant.
func (f *Failure) Error() string {
	return fmt.Sprintf("seed %d, step %d: %s: %s", f.Seed, f.Step, f.Invariant, f.Detail)
}

// Command is the command line that shows the failure again.
func (f *Failure) Command() string {
	return fmt.Sprintf("stile sim --seed %d --hosts %d --turns 1 --trace", f.Seed, f.Hosts)
}

// outcome is one world's.
type outcome struct {
	stats  Stats
	digest [sha256.Size]byte
	err    *Failure
}

// Run runs worlds until they have decided enough turns. The report is of the
// worlds up to there or, with a *Failure, to the first one that failed; it is the
// same for the same Seed and Turns. It ends early with ctx and ctx's error.
func Run(ctx context.Context, opts Options) (Report, error) {
	if opts.Turns <= 0 {
		opts.Turns = DefaultTurns
	}
	if opts.Workers <= 0 {
		opts.Workers = runtime.GOMAXPROCS(0)
	}
	rep := Report{Stats: Stats{Decisions: map[messages.Decision]int64{}, Reasons: map[messages.Code]int64{}}}
	sum := sha256.New()
	var failed *Failure
	for out := range worlds(ctx, opts) {
		rep.add(&out.stats)
		sum.Write(out.digest[:])
		if opts.Progress != nil {
			opts.Progress(rep.Turns)
		}
		if failed = out.err; failed != nil {
			failed.Turns, failed.Hosts = rep.Turns, opts.Hosts
			break
		}
		if rep.Turns >= opts.Turns {
			break
		}
	}
	sum.Sum(rep.Digest[:0])
	if opts.Trace != nil {
		seed := opts.Seed
		if failed != nil {
			seed = failed.Seed
		}
		simulate(seed, opts.clustered(seed), opts.Trace)
	}
	if failed != nil {
		return rep, failed
	}
	return rep, ctx.Err()
}

// worlds gives outcomes in the order of their seeds. Workers run ahead, by a
// bounded number of worlds.
func worlds(ctx context.Context, opts Options) iter.Seq[*outcome] {
	return func(yield func(*outcome) bool) {
		ctx, cancel := context.WithCancel(ctx)
		type job struct {
			seed uint64
			out  chan *outcome
		}
		jobs := make(chan job)
		order := make(chan job, 4*opts.Workers)
		var work sync.WaitGroup
		work.Go(func() {
			defer close(order)
			defer close(jobs)
			for seed := opts.Seed; ctx.Err() == nil; seed++ {
				j := job{seed, make(chan *outcome, 1)}
				select {
				case order <- j:
				case <-ctx.Done():
					return
				}
				select {
				case jobs <- j:
				case <-ctx.Done():
					close(j.out)
					return
				}
			}
		})
		for range opts.Workers {
			work.Go(func() {
				for j := range jobs {
					j.out <- simulate(j.seed, opts.clustered(j.seed), nil)
				}
			})
		}
		defer work.Wait()
		defer cancel()
		for j := range order {
			out := <-j.out
			if out == nil || !yield(out) {
				return
			}
		}
	}
}
