package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seed14be6753/stile"
	"github.com/seed14be6753/stile/internal/replay"
	"github.com/seed14be6753/stile/journal"
)

func (a *app) replayCommand() *cobra.Command {
	var manifest string
	var asJSON, every, quiet bool
	var live liveOptions
	cmd := &cobra.Command{
		Use:   "replay [SID]",
		Short: "Run a session again from its journal and compare every hash",
		Long: `Runs a session again from its journal, without model, tools or network: inputs,
replies and results are fed from the records, everything else is done again, and
every record must come out with the same hash. Exit status 4 says where it did not.

The manifest is taken from the journal. --manifest names another one, such as an edited
one, to see where it would have gone differently: what the agent is made of is passed
over, the recorded replies and results are fed to it, and the first prompt and the first
decision that differ are shown, each as a difference of texts, with a count of turns that
are the same and that are not, and where it could not go on. Exit status 0 says that
nothing differs, 4 that something does.

With --live the model is asked again from the turn of the first difference on, or from
turn --at: in a fork, whose name is printed; SID stays as it is. The inputs that follow
are submitted there in their order. A call that equals a recorded one (tool and canonical
arguments) gets the recorded result, each once; pure and read-only calls run; any other
call is refused, which the model is told, and counted. --effects run does them, and wants
a --budget. Calls that wait for a person get no approval that would have them done. At
the end the fork is compared with the session, as stile sessions diff does.

With --all every session of the directory is replayed, on all processors. One that cannot be,
because it was erased or its agent has Go tools, is left out, with the reason.`,
		Example: `  stile replay ledger
  stile replay --all --quiet
  stile replay ledger --manifest edited.yaml
  stile replay ledger --manifest edited.yaml --live
  stile replay ledger --manifest edited.yaml --live --at 2 --budget tokens=20000`,
		Args: cobra.MaximumNArgs(1),
		RunE: a.do(func(ctx context.Context, args []string) error {
			switch {
			case every && (len(args) > 0 || manifest != "" || live != liveOptions{effects: effectsRefuse}):
				return configError("all", "every session is replayed under its own manifest: name no session, manifest or option of --live beside it")
			case every:
				return a.replayAll(ctx, quiet, asJSON)
			case len(args) == 0:
				return configError("SID", "name a session, or give --all")
			}
			return a.replay(ctx, args[0], manifest, live, asJSON)
		}),
	}
	a.dirFlag(cmd)
	a.journalFlag(cmd)
	cmd.Flags().StringVar(&manifest, "manifest", "", "manifest to replay under (default the session's own)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the report as JSON")
	cmd.Flags().BoolVar(&every, "all", false, "replay every session")
	cmd.Flags().BoolVar(&quiet, "quiet", false, "with --all: tell only of sessions that differ; on a terminal with how far it is")
	a.keyFlag(cmd)
	cmd.Flags().BoolVar(&live.live, "live", false, "ask the model again from the first difference on, in a fork")
	cmd.Flags().Int64Var(&live.at, "at", 0, "with --live: the turn_index from which on the model is asked (default that of the first difference)")
	cmd.Flags().StringVar(&live.as, "as", "", "with --live: name of the fork (default SID-live-N)")
	cmd.Flags().StringVar(&live.effects, "effects", effectsRefuse, "with --live: refuse calls that have effects and are not recorded, or run them")
	cmd.Flags().StringVar(&live.budget, "budget", "", "with --live: what may be used at most: "+budgetHelp)
	return cmd
}

// replayed is what came of the replay of a session.
type replayed struct {
	sid     string
	rep     replay.Report
	differs *replay.Divergence
	leftOut error // why it cannot be replayed
}

// replayAll replays every session under its own manifest.
func (a *app) replayAll(ctx context.Context, quiet, asJSON bool) error {
	return a.withArchive(ctx, func(ar *stile.Archive) error {
		var sessions, turns, bad, leftOut int64
		err := everySession(ctx, a, ar, quiet, func(ctx context.Context, h journal.Head) (r replayed, err error) {
			r.sid = h.SID
			r.rep, err = ar.Replay(ctx, h.Inc, nil)
			switch {
			case err == nil, errors.As(err, &r.differs), ctx.Err() != nil:
			default:
				r.leftOut = err
			}
			return r, ctx.Err()
		}, func(r replayed) error {
			sessions++
			turns += r.rep.Turns
			switch {
			case r.leftOut != nil && journal.ReasonOf(r.leftOut) == journal.ReasonCorrupt:
				bad++
				return a.replayedNot(red, "FAIL", r, asJSON)
			case r.leftOut != nil:
				leftOut++
				if quiet {
					return nil
				}
				return a.replayedNot(yellow, "left out", r, asJSON)
			case r.differs != nil:
				bad++
			case quiet:
				return nil
			}
			if asJSON {
				return a.writeJSON(replayJSONOf(r.sid, r.rep, r.differs))
			}
			return a.replayText(r.sid, r.rep, r.differs)
		})
		interrupted := errors.Is(err, context.Canceled)
		if !asJSON && (err == nil || interrupted) {
			word := ""
			if interrupted {
				word = "interrupted: "
			}
			_, told := fmt.Fprintf(a.out, "%s%s replayed, %s, %d different, %d left out\n", word, count(sessions-leftOut, "session"), count(turns, "turn"), bad, leftOut)
			err = errors.Join(err, told)
		}
		if bad > 0 {
			err = errors.Join(err, exitDifference)
		}
		return err
	})
}

// replayedNot tells of a session that could not be replayed.
func (a *app) replayedNot(sgr, word string, r replayed, asJSON bool) error {
	if asJSON {
		return a.writeJSON(map[string]any{"sid": r.sid, "ok": false, "left_out": r.leftOut.Error()})
	}
	p := a.printer("")
	p.line(sgr, word, r.sid+"  "+r.leftOut.Error())
	return p.err
}

type replayJSON struct {
	SID        string          `json:"sid"`
	OK         bool            `json:"ok"`
	Records    int64           `json:"records"`
	Turns      int64           `json:"turns"`
	Programs   int64           `json:"programs"`
	Taken      int64           `json:"programs_taken"`
	Reworded   int64           `json:"reworded"` // explanations that this version words otherwise
	Head       string          `json:"head"`     // hash of the last record that was made again
	Divergence *divergenceJSON `json:"divergence,omitempty"`
}

type divergenceJSON struct {
	Seq     int64  `json:"seq"`
	Type    string `json:"type"`
	Why     string `json:"why"`
	Journal string `json:"journal"`
	Replay  string `json:"replay"`
}

func (a *app) replay(ctx context.Context, name, manifest string, live liveOptions, asJSON bool) error {
	bound, err := live.check(manifest)
	if err != nil {
		return err
	}
	var agent *stile.Agent
	if manifest != "" {
		var err error
		if agent, err = stile.LoadAgent(manifest); err != nil {
			return err
		}
	}
	if live.live {
		return a.replayLive(ctx, name, agent, live, bound, asJSON)
	}
	return a.withArchive(ctx, func(ar *stile.Archive) error {
		head, err := ar.Head(ctx, name)
		if err != nil {
			return err
		}
		if agent != nil {
			t, err := a.try(ctx, ar, &head, agent, asJSON)
			if err == nil && t.Differs() {
				err = exitDifference
			}
			return err
		}
		rep, err := ar.Replay(ctx, head.Inc, nil)
		var differs *replay.Divergence
		switch {
		case errors.As(err, &differs):
		case journal.ReasonOf(err) == journal.ReasonCorrupt:
			return errors.Join(err, exitDifference)
		case err != nil:
			return err
		}
		if asJSON {
			err = a.writeJSON(replayJSONOf(head.SID, rep, differs))
		} else {
			err = a.replayText(head.SID, rep, differs)
		}
		if differs != nil {
			err = errors.Join(err, exitDifference)
		}
		return err
	})
}

func replayJSONOf(sid string, rep replay.Report, d *replay.Divergence) replayJSON {
	out := replayJSON{
		SID: sid, OK: d == nil, Records: rep.Records, Turns: rep.Turns, Programs: rep.Programs, Taken: rep.Taken, Reworded: rep.Reworded, Head: rep.Head.String(),
	}
	if d != nil {
		out.Divergence = &divergenceJSON{d.Seq, string(d.Kind), d.Why, d.Want, d.Got}
	}
	return out
}

func (a *app) replayText(sid string, rep replay.Report, d *replay.Divergence) error {
	p := a.printer("")
	what := fmt.Sprintf("%s  %s made again, %s decided again, %s run again", sid,
		count(rep.Records, "record"), count(rep.Turns, "turn"), count(rep.Programs, "program"))
	if d == nil {
		p.line(green, "ok", what+", head "+rep.Head.String())
	} else {
		p.line(red, "FAIL", what)
		p.line(red, "", d.Error())
	}
	if rep.Reworded > 0 {
		p.line(dim, "", fmt.Sprintf("%s in other words than this version's, with the same code", count(rep.Reworded, "explanation")))
	}
	if rep.Taken > 0 {
		p.line(dim, "", fmt.Sprintf("emissions of %s were taken from the journal: a clock, a cancel or a crash had stopped them", count(rep.Taken, "program")))
	}
	return p.err
}
