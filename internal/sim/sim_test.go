package sim

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seed14be6753/stile/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run runs worlds and shows the trace of the one that fails.
func run(t *testing.T, opts Options) Report {
	t.Helper()
	rep, err := Run(t.Context(), opts)
	if err != nil {
		f, ok := errors.AsType[*Failure](err)
		if !ok {
			t.Fatal(err)
		}
		t.Fatalf("%v\nsee it again: %s", f, f.Command())
	}
	return rep
}

// Worlds that nobody has seen before hold their invariants, and between them they
// get everywhere.
func TestFreshSeeds(t *testing.T) {
	turns := int64(4000)
	if testing.Short() {
		turns = 3000
	}
	seed := uint64(time.Now().UnixNano()) % 1e9
	rep := run(t, Options{Seed: seed, Turns: turns})
	for more := uint64(1); len(unseen(&rep)) > 0 && more <= 3; more++ { // what is rare is missing now and then
		other := run(t, Options{Seed: seed + more, Turns: turns})
		rep.add(&other.Stats)
	}
	t.Logf("%+v", rep.Stats)
	for _, name := range unseen(&rep) {
		t.Errorf("no %s in %d turns", name, rep.Turns)
	}
}

// unseen names what has happened in no world.
func unseen(rep *Report) (names []string) {
	for name, n := range map[string]int64{
		"crashes": rep.Crashes, "power failures": rep.PowerFailures, "snapshots": rep.Snapshots, "refused": rep.Refused,
		"late": rep.Late, "effects": rep.Effects, "actions": rep.Actions, "unknown": rep.Unknown, "resumed": rep.Resumed,
		"skipped": rep.Skipped, "retried": rep.Retried, "detached": rep.Detached, "merged": rep.Merged, "gathered": rep.Gathered, "replaced": rep.Replaced, "repaired": rep.Repaired, "talked": rep.Talked, "continued": rep.Continued, "diverged": rep.Diverged, "fell": rep.Fell, "carried": rep.Carried, "answered": rep.Answered, "forgiven": rep.Forgiven, "stored": rep.Stored, "kept": rep.Kept, "undone": rep.Undone, "blocks": rep.Blocks, "broken blocks": rep.Broken, "instances": rep.Instances, "branches that were not taken": rep.Untaken, "pieces": rep.Pieces, "delegated": rep.Delegated, "fed": rep.Fed, "unfed": rep.Unfed, "ticks": rep.Ticks, "restored": rep.Restored, "suspended": rep.Suspended,
		"CONTINUE": rep.Decisions[messages.Continue], "DONE": rep.Decisions[messages.Done], "ABORT": rep.Decisions[messages.Abort],
		"ERR_CANCELLED": rep.Reasons[messages.ErrCancelled], "ERR_TIMEOUT": rep.Reasons[messages.ErrTimeout],
		"ERR_CRASH": rep.Reasons[messages.ErrCrash], "ERR_MODEL": rep.Reasons[messages.ErrModel],
		"ERR_OUTPUT": rep.Reasons[messages.ErrOutput], "ERR_ACTIONS_PARSE": rep.Reasons[messages.ErrActionsParse],
		"ERR_TOKEN_MISSING": rep.Reasons[messages.ErrTokenMissing], "ERR_QUOTA": rep.Reasons[messages.ErrQuota],
	} {
		if n == 0 {
			names = append(names, name)
		}
	}
	return names
}

// A seed says everything: the journals are the same byte for byte, however many
// worlds run side by side on however many processors.
func TestSameSeedSameJournal(t *testing.T) {
	first := run(t, Options{Seed: 7, Turns: 300, Workers: 1})
	for _, procs := range []int{1, 2, 4} {
		before := runtime.GOMAXPROCS(procs)
		again := run(t, Options{Seed: 7, Turns: 300, Workers: 3})
		runtime.GOMAXPROCS(before)
		if again.Digest != first.Digest {
			t.Errorf("on %d processors the journals differ", procs)
		}
		if again.Steps != first.Steps || again.Turns != first.Turns {
			t.Errorf("on %d processors: %d inputs and %d turns, then %d and %d", procs, again.Steps, again.Turns, first.Steps, first.Turns)
		}
	}
	if other := run(t, Options{Seed: 8, Turns: 300}); other.Digest == first.Digest {
		t.Error("another seed gives the same journals")
	}
}

// A trace changes nothing, and holds every step.
func TestTrace(t *testing.T) {
	var b strings.Builder
	quiet, loud := run(t, Options{Seed: 3, Turns: 1}), run(t, Options{Seed: 3, Turns: 1, Trace: &b})
	if quiet.Digest != loud.Digest {
		t.Error("tracing changes the journals")
	}
	for _, want := range []string{"Submit", "turn.begin", "acknowledged to", "calm"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the trace has no %q", want)
		}
	}
}

func TestCancelledRun(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, Options{Turns: 1 << 40}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// Every invariant can fail, and says which one it is.
func TestEveryCheckCanFail(t *testing.T) {
	// rare are seeds shortly before one whose world meets what others meet once in hundreds.
	rare := map[string]uint64{"a provider's lie": 200, "another branch": 20}
	for name, c := range map[string]struct {
		how  sabotage
		want string
		says string // a part of the detail; "" is any
	}{
		"durable too early":    {sabotage{early: true}, "order", ""},
		"a disk that lies":     {sabotage{lies: true}, "order", ""},
		"an attempt too many":  {sabotage{twice: true}, "effect", ""},
		"a changed byte":       {sabotage{tampers: true}, "chain", ""},
		"no answer, ever":      {sabotage{deaf: true}, "rest", ""},
		"a forged token":       {sabotage{forges: true}, "decision", ""},
		"an end too many":      {sabotage{forgets: true}, "history", ""},
		"an empty disk":        {sabotage{amnesia: true}, "forgotten", ""},
		"a fold that slips":    {sabotage{slips: true}, "projection", ""},
		"an input too many":    {sabotage{reopens: true}, "step", ""},
		"a turn nobody flies":  {sabotage{doubles: true}, "single-flight", ""},
		"a child forgotten":    {sabotage{hastens: true}, "family", ""},
		"a child adopted":      {sabotage{adopts: true}, "family", ""},
		"a feed too few":       {sabotage{skimps: true}, "feed", ""},
		"a failure untold":     {sabotage{mumbles: true}, "chance", ""},
		"any answer":           {sabotage{blurts: true}, "history", ""},
		"templates of others":  {sabotage{misleads: true}, "history", ""},
		"a rollback unheard":   {sabotage{hushes: true}, "history", "which is not rolled back"},
		"the first end first":  {sabotage{muddles: true}, "history", "which ended later"},
		"unknown is as good":   {sabotage{presumes: true}, "history", "und"},
		"an undoing too many":  {sabotage{repents: true}, "history", "was undone 1 times"},
		"an undoing too few":   {sabotage{sulks: true}, "history", "is not undone"},
		"a block undecided":    {sabotage{dithers: true}, "history", "decided"},
		"another branch":       {sabotage{blends: true}, "history", "begins in branch"},
		"one place":            {sabotage{crowds: true}, "history", "which has 1 places"},
		"a child that goes on": {sabotage{outlives: true}, "history", "ends, and action"},
		"a piece unheard":      {sabotage{drips: true}, "history", "bytes are there"},
		"a provider's lie":     {sabotage{flatters: true}, "conversation", "goes on from"},
		"any text is a reply":  {sabotage{presses: true}, "conversation", "goes on from"},
		"a group is closed":    {sabotage{slams: true}, "history", "and its group is rolled back"},
	} {
		t.Run(name, func(t *testing.T) {
			for n := range uint64(400) {
				seed := rare[name] + n
				if f := simulateBroken(seed, false, nil, c.how).err; f != nil {
					if f.Invariant != c.want || !strings.Contains(f.Detail, c.says) {
						t.Errorf("seed %d: %s fails: %s", seed, f.Invariant, f.Detail)
					}
					return
				}
			}
			t.Error("nobody noticed")
		})
	}
}
